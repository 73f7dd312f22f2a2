"""Mathematics as MathML, written when the site is built: nothing has to load in a browser."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert


def inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(f'<span class="math">{convert(node.astext())}</span>')
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    mathematics = convert(node.astext(), display="block")
    writer.body.append(f'<div class="math" tabindex="0">{mathematics}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
