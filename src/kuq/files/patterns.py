"""Columns and variables by patterns of their names: ``Model {} mean``, ``RF*``, ``a,b,c``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kuq.errors import ParameterError
from kuq.files.roles import listed


@dataclass(frozen=True)
class Match:
    """A name that fits, and what stands in its gaps: whose it is."""

    name: str
    gaps: tuple[str, ...]


def is_pattern(text: str, names: Sequence[str]) -> bool:
    """Whether a text stands for several names, and is not simply one of them."""
    return text not in names and any(mark in text for mark in ("{}", "*", ","))


def matches(option: str, text: str, names: Sequence[str]) -> list[Match]:
    """The names that fit a pattern, in the order of the list or of the file.

    In a pattern ``{}`` and ``*`` stand for any text, which tells members apart; a list of names,
    separated by commas, numbers them.
    """
    parts = [part.strip() for part in text.split(",")] if text not in names else [text]
    found: list[Match] = []
    for place, part in enumerate(parts):
        if part in names:
            own = [Match(part, (str(place),))]
        else:
            form = re.compile("".join(_piece(p) for p in re.split(r"(\{\}|\*)", part)), re.DOTALL)
            fitting = [(name, form.fullmatch(name)) for name in names]
            own = [Match(name, match.groups()) for name, match in fitting if match is not None]
        if not own:
            raise ParameterError(
                f"{option} {text!r}: nothing is called {part!r}; the file has {listed(names)}"
            )
        found += own
    twice = [one.name for one in found if sum(o.name == one.name for o in found) > 1]
    if twice:
        raise ParameterError(f"{option} {text!r} names {twice[0]!r} twice")
    return found


def _piece(text: str) -> str:
    return {"{}": "(.+?)", "*": "(.*)"}.get(text) or re.escape(text)
