"""Columns and variables by patterns of their names: ``Model {} mean``, ``RF*``, ``a,b,c``."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from kuq.adapters.parameter_names import is_spread, role_of
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
    parts = [term.strip() for term in text.split(",")] if text not in names else [text]
    matched: list[Match] = []
    for place, term in enumerate(parts):
        if term in names:
            fits = [Match(term, (str(place),))]
        else:
            form = re.compile("".join(_piece(p) for p in re.split(r"(\{\}|\*)", term)), re.DOTALL)
            fitting = [(name, form.fullmatch(name)) for name in names]
            fits = [Match(name, match.groups()) for name, match in fitting if match is not None]
        if not fits:
            raise ParameterError(
                f"{option} {text!r}: nothing is called {term!r}; the file has {listed(names)}"
            )
        matched += fits
    twice = [one.name for one in matched if sum(o.name == one.name for o in matched) > 1]
    if twice:
        raise ParameterError(f"{option} {text!r} names {twice[0]!r} twice")
    return matched


#: Columns of one distribution, and not of several members.
_QUANTILES = re.compile(r"(?i)(q|p|quantile|percentile|perc|pct)[^a-z]*\{\}")


def like_quantiles(names: Sequence[str]) -> list[str]:
    """The names that look like those of quantiles."""
    return [name for name in names if _QUANTILES.match(re.sub("[0-9.]+", "{}", name))]


def likely_patterns(names: Sequence[str]) -> str:
    """Options that name columns of members, where these are alike; else nothing.

    They differ by a number only, or by what stands beside a usual name, such as mean and std.

    >>> likely_patterns(["day", "T (K) run 1", "T (K) run 2", "T sd run 1", "T sd run 2"])
    "--mean 'T (K) run {}' --std 'T sd run {}'"
    """
    columns: dict[str, list[str]] = {}
    for name in names:
        for number in re.finditer("[0-9]+", name):
            pattern = f"{name[: number.start()]}{{}}{name[number.end() :]}"
            columns.setdefault(pattern, []).append(name)
        if re.search("[0-9]", name):
            continue
        first, last = re.match(r"([A-Za-z]+)[_ .-]", name), re.search(r"[_ .-]([A-Za-z]+)$", name)
        if first and role_of(first[1]):
            columns.setdefault(f"{first[0]}{{}}", []).append(name)
        elif last and role_of(last[1]):
            columns.setdefault(f"{_common_start(names, last[0])}{{}}{last[0]}", []).append(name)
    columns = {
        pattern: alike
        for pattern, alike in columns.items()
        if len(alike) > 1 and "," not in pattern and not _QUANTILES.match(pattern)
    }
    most = max(map(len, columns.values()), default=0)
    columns = {pattern: alike for pattern, alike in columns.items() if len(alike) == most}
    spreads = [pattern for pattern in columns if is_spread(pattern)]
    others = [pattern for pattern in columns if pattern not in spreads]
    if len(others) == len(spreads) == 1:
        return f"--mean {shlex.quote(others[0])} --std {shlex.quote(spreads[0])}"
    return " or ".join(f"--points {shlex.quote(pattern)}" for pattern in others)


def _common_start(names: Sequence[str], end: str) -> str:
    """Whole words with which all names of an end begin."""
    ending = [name for name in names if name.endswith(end)]
    low, high = min(ending), max(ending)  # what these share, all in between share
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(low, high, strict=False))
    start = "".join(one for one, _ in same)
    return start[: max(map(start.rfind, " _.-")) + 1].removesuffix(end)


def _piece(text: str) -> str:
    return {"{}": "(.+?)", "*": "(.*)"}.get(text) or re.escape(text)
