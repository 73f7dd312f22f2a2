"""Docstrings as they stand in the code, with what they say of each parameter as a list.

A sentence that begins with the name of a parameter, "``scale`` is a standard deviation.", goes
into the list. |x| is no markup, and foreign methods are left out.
"""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

LITERAL = re.compile(r"(``.*?``)")
#: Ends of sentences; not those of abbreviations, after which a small letter follows.
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`(|])")
SUBJECT = re.compile(r"``\*{0,2}(\w+)``(?=[\s,:;])")
FURTHER = re.compile(r"(?:,| and|, and| or) ``\*{0,2}(\w+)``(?=[\s,:;])")
#: Such a sentence goes on about what the sentence before it was about.
ANAPHORA = re.compile(r"(?:It|Its|So|They|Their|This|These|Then|Both|Otherwise)\b")
CONSTANT = re.compile(r"(?<== )[A-Z][A-Z_]+\b")
#: Defaults that are no code, at which Sphinx gives up a whole signature.
MADE = re.compile(r"<(?:factory|function [\w.]+)>")
#: How Sphinx writes what autodoc_type_aliases names.
ALIAS = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")


def list_parameters(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Gather the sentences about parameters, before the first example."""
    if not callable(obj):
        return
    start = next((i for i, line in enumerate(lines) if line.startswith(">>>")), len(lines))
    prose, items = parted("\n".join(lines[:start]), parameters_of(obj))
    if items:
        entries = [f"   - {item}" for item in items]
        lines[:start] = [*prose.splitlines(), "", ":Parameters:", *entries, ""]


def parameters_of(obj: Any) -> set[str]:
    try:
        return set(inspect.signature(obj).parameters)
    except (TypeError, ValueError):
        return set()


def parted(text: str, parameters: set[str]) -> tuple[str, list[str]]:
    """The text without its sentences about parameters, and these."""
    paragraphs, items = [], []
    for paragraph in text.strip().split("\n\n"):
        if re.search(r"::\s*$|^\s+\S|^\s*(?:[-*]|\d+\.) ", paragraph, flags=re.MULTILINE):
            paragraphs.append(paragraph)  # markup of its own
            continue
        kept, about = [], False
        for sentence in SENTENCE.split(" ".join(paragraph.split())):
            subject = SUBJECT.match(sentence)
            if subject and subject[1] in parameters:
                items.append(emphasised(sentence, parameters))
                about = True
            elif about and ANAPHORA.match(sentence):
                items[-1] += " " + sentence
            else:
                kept.append(sentence)
                about = False
        if kept:
            paragraphs.append(" ".join(kept))
    return "\n\n".join(paragraphs), items


def emphasised(sentence: str, parameters: set[str]) -> str:
    """The names of the parameters that begin the sentence, in bold."""
    subject = SUBJECT.match(sentence)
    assert subject
    names, end = [subject[0]], subject.end()
    while (further := FURTHER.match(sentence, end)) and further[1] in parameters:
        names.append(further[0])
        end = further.end()
    return "".join(name.replace("``", "**") for name in names) + sentence[end:]


def keep_bars(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape |x|, outside of code, which reStructuredText takes for a substitution."""
    for position, line in enumerate(lines):
        if ">>>" not in line and "|" in line:
            parts = LITERAL.split(line)
            parts[::2] = [prose.replace("|", r"\|") for prose in parts[::2]]
            lines[position] = "".join(parts)


def readable(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: Any
) -> tuple[str, Any] | None:
    """Constants by their values, defaults that are made as dots, aliases of types by name."""
    module = sys.modules.get(getattr(obj, "__module__", ""))
    if signature is None or module is None:
        return None
    signature = CONSTANT.sub(lambda match: repr(getattr(module, match[0])), signature)
    signature = MADE.sub("...", signature)
    return ALIAS.sub(r"\1", signature), ALIAS.sub(r"\1", returned) if returned else returned


def skip_requests(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> Any:
    """``set_fit_request`` and its like are scikit-learn's own."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", list_parameters)
    app.connect("autodoc-process-docstring", keep_bars)
    app.connect("autodoc-process-signature", readable)
    app.connect("autodoc-skip-member", skip_requests)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
