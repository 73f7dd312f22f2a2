"""Docstrings as they stand in the code: |x| is no markup, foreign methods are left out."""

from __future__ import annotations

import re
from typing import Any

LITERAL = re.compile(r"(``.*?``)")


def keep_bars(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape |x|, outside of code, which reStructuredText takes for a substitution."""
    for position, line in enumerate(lines):
        if ">>>" not in line and "|" in line:
            parts = LITERAL.split(line)
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[position] = "".join(parts)


def skip_requests(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> Any:
    """``set_fit_request`` and its like are scikit-learn's own."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", keep_bars)
    app.connect("autodoc-skip-member", skip_requests)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
