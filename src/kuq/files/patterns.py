"""Columns and variables by patterns of their names: ``Model {} mean``, ``RF*``, ``a,b,c``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from kuq.adapters.parameter_names import is_spread
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


def likely_patterns(names: Sequence[str]) -> str:
    """Options that name columns of members, where some differ by a number only; else nothing.

    >>> likely_patterns(["day", "T (K) run 1", "T (K) run 2", "T sd run 1", "T sd run 2"])
    "--mean 'T (K) run {}' --std 'T sd run {}'"
    """
    found: dict[str, list[str]] = {}
    for name in names:
        for number in re.finditer("[0-9]+", name):
            pattern = f"{name[: number.start()]}{{}}{name[number.end() :]}"
            found.setdefault(pattern, []).append(name)
    found = {pattern: own for pattern, own in found.items() if len(own) > 1 and "," not in pattern}
    most = max(map(len, found.values()), default=0)
    found = {pattern: own for pattern, own in found.items() if len(own) == most}
    spreads = [pattern for pattern in found if is_spread(pattern)]
    others = [pattern for pattern in found if pattern not in spreads]
    if len(others) == len(spreads) == 1:
        return f"--mean {shlex.quote(others[0])} --std {shlex.quote(spreads[0])}"
    return " or ".join(f"--points {shlex.quote(pattern)}" for pattern in others)


def _piece(text: str) -> str:
    return {"{}": "(.+?)", "*": "(.*)"}.get(text) or re.escape(text)
