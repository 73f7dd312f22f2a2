"""What code prints keeps its columns on narrow screens: the letters get smaller, down to a limit.

A block of several lines is told how many characters wide it is; _static/kuq.css does the rest.
Single lines, and blocks that are too wide to be read that way, mostly sentences, are wrapped.
"""

from __future__ import annotations

import html
import re
from typing import Any

PRINTED = re.compile(
    r'(<div class="highlight-text notranslate")(>.*?<pre>)(.*?)(?=</pre>)', re.DOTALL
)
#: The widest that is still read on a telephone.
WIDEST = 76


def tell_columns(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    if "body" in context:
        context["body"] = PRINTED.sub(_told, context["body"])


def _told(block: re.Match[str]) -> str:
    text = html.unescape(re.sub(r"<[^>]+>", "", block[3]))
    lines = text.splitlines()
    columns = max(map(len, lines), default=0)
    style = f' style="--columns: {columns}"' if len(lines) > 1 and columns <= WIDEST else ""
    return f"{block[1]}{style}{block[2]}{block[3]}"


def setup(app: Any) -> dict[str, bool]:
    app.connect("html-page-context", tell_columns)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
