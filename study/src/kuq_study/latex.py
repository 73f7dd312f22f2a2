"""Plain text in LaTeX."""

from __future__ import annotations

_SIGNS = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "σ": r"$\sigma$",
    "δ": r"$\delta$",
    "γ": r"$\gamma$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "×": r"$\times$",
    "−": "--",
}


def latex_text(text: str) -> str:
    """Text with the signs that LaTeX would take for commands written out.

    >>> print(latex_text("50 % of x_1 & more"))
    50 \\% of x\\_1 \\& more
    """
    return "".join(_SIGNS.get(sign, sign) for sign in text)
