"""Figures that follow the reader's theme: SVG files of Matplotlib, put into the page itself.

``{drawing} NAME`` shows docs/figures/NAME.svg, which the code of a page has drawn
(``python -m docs.pages --update``); the text of the directive is its description.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive


class Drawing(Directive):
    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        env = self.state.document.settings.env
        path = Path(env.srcdir) / "figures" / f"{self.arguments[0]}.svg"
        if not path.is_file():
            raise self.error(f"there is no drawing {path.name}; run python -m docs.pages --update")
        env.note_dependency(str(path))
        description = html.escape(" ".join(self.content))
        body = themed(path.read_text(encoding="utf-8"))
        text = (
            f'<figure class="drawing" role="img" aria-label="{description}">{body}'
            f"<figcaption>{description}</figcaption></figure>"
        )
        return [nodes.raw("", text, format="html")]


def themed(svg: str) -> str:
    """The drawing without paper; its dark ink takes the colour of the text around it."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r'(<g id="(?:patch_1|figure_1)">\s*)<path[^>]*fill: #ffffff[^>]*/>', r"\1", body)
    body = re.sub(r"fill: #ffffff", "fill: none", body)
    body = re.sub(r"#(?:000000|333333|262626)", "currentColor", body)
    return re.sub(r'<svg ([^>]*?)width="[^"]*"', r"<svg \1", body, count=1).replace(
        "<svg ", '<svg fill="currentColor" aria-hidden="true" ', 1
    )


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("drawing", Drawing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
