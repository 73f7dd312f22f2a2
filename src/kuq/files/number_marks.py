"""The decimal mark of the numbers in a text file, and what separates their thousands.

Numbers tell by themselves where they have both marks, ``1.234,5``, several groups, ``1,234,567``,
or no group of three digits, ``0,25``. What ``1,234`` is has to follow from others, or is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kuq.errors import ParameterError

#: What separates thousands, each with the ways in which it is written.
_THOUSANDS = {".": ".", ",": ",", " ": " \u00a0\u2009\u202f", "'": "'\u2019"}
_KINDS = {written: mark for mark, ways in _THOUSANDS.items() for written in ways}
THOUSANDS_IN_WORDS = {".": "points", ",": "commas", " ": "spaces", "'": "apostrophes"}
_DECIMAL_IN_WORDS = {".": "a decimal point", ",": "a decimal comma"}
_GROUPED = re.compile(
    rf"[+-]?[1-9][0-9]{{0,2}}([{''.join(_KINDS)}])[0-9]{{3}}((?:\1[0-9]{{3}})*)(?:([.,])[0-9]+)?"
)
_PLAIN = re.compile(r"[+-]?[0-9]*([.,])[0-9]*(?:[eE][+-]?[0-9]{1,3})?")


class Cell(NamedTuple):
    """A number as it is written, and where."""

    text: str
    column: str
    line: int

    def __str__(self) -> str:
        return f"{self.text!r} in line {self.line} (column {self.column!r})"


@dataclass(frozen=True)
class NumberMarks:
    """How numbers are written; ``thousands`` is empty where nothing separates them."""

    decimal: str = "."
    thousands: str = ""

    def plain(self, text: str) -> str:
        """A number as Python writes it; other text as it is."""
        text = text.strip()
        grouped = _GROUPED.fullmatch(text) if self.thousands else None
        if grouped and _KINDS[grouped[1]] == self.thousands and grouped[3] in (None, self.decimal):
            text = text.replace(grouped[1], "")
        if self.decimal == "," and text.count(",") == 1 and "." not in text:
            text = text.replace(",", ".")
        return text


#: The marks that Python writes.
PYTHONS = NumberMarks()


def is_marked(text: str) -> bool:
    """Whether a text may be a number with other marks than Python's."""
    text = text.strip()
    return bool(_GROUPED.fullmatch(text) or _PLAIN.fullmatch(text))


@dataclass
class _Evidence:
    """The first number that tells each mark for certain, and the first that may be either."""

    decimal: dict[str, Cell | None] = field(default_factory=dict)
    thousands: dict[str, Cell | None] = field(default_factory=dict)
    either: dict[str, Cell] = field(default_factory=dict)

    def add(self, cell: Cell) -> None:
        grouped = _GROUPED.fullmatch(cell.text)
        if grouped is None:
            if plain := _PLAIN.fullmatch(cell.text):
                self.decimal.setdefault(plain[1], cell)
            return
        between, more, decimal = _KINDS[grouped[1]], grouped[2], grouped[3]
        if decimal is not None and decimal != between:
            self.decimal.setdefault(decimal, cell)
        if decimal is not None or more or between not in ".,":
            self.thousands.setdefault(between, cell)
        else:
            self.either.setdefault(between, cell)


def found_marks(path: object, cells: Iterable[Cell], decimal: str, thousands: str) -> NumberMarks:
    """The marks of all numbers of a file; those that its caller tells are not empty."""
    seen = _Evidence()
    if decimal:
        seen.decimal[decimal] = None
    if thousands:
        seen.thousands[thousands] = None
    for cell in cells:
        seen.add(cell)
    _check(path, seen)
    mark = next(iter(seen.decimal), "")
    between = next(iter(seen.thousands), "")
    for ambiguous, cell in seen.either.items():
        if ambiguous in (mark, between):
            continue
        if mark:
            raise ParameterError(
                f"{path}: {cell} has {_DECIMAL_IN_WORDS[ambiguous]}, and other numbers have "
                f"{_DECIMAL_IN_WORDS[mark]}, or its thousands are separated; if they are, say so "
                f"(--thousands {ambiguous}), else use one decimal mark"
            )
        if ambiguous == "," and between != ".":
            raise ParameterError(
                f"{path}: {cell} may be a number with a decimal comma or with separated thousands, "
                "and no other number tells which; say so: --decimal , or --thousands ,"
            )
        mark = ambiguous
    return NumberMarks(mark or ".", between)


def _check(path: object, seen: _Evidence) -> None:
    """Refuse marks that cannot stand beside each other."""
    if len(seen.decimal) > 1:
        point, told = seen.decimal["."], None in seen.decimal.values()
        other = point or seen.decimal[","]
        raise ParameterError(
            f"{path}: {other} has {_DECIMAL_IN_WORDS['.' if point else ',']}, and other numbers "
            f"have {_DECIMAL_IN_WORDS[',' if point else '.']}"
            f"{' (--decimal)' if told else ''}; use one of them"
        )
    if len(seen.thousands) > 1:
        *_, (mark, cell) = seen.thousands.items()
        first = next(iter(seen.thousands))
        raise ParameterError(
            f"{path}: {cell} has {THOUSANDS_IN_WORDS[mark]} between its thousands, and other "
            f"numbers have {THOUSANDS_IN_WORDS[first]}; use one of them"
        )
    for mark in seen.decimal.keys() & seen.thousands.keys():
        one, other = seen.decimal[mark], seen.thousands[mark]
        raise ParameterError(
            f"{path}: {one or other} says that {mark!r} is "
            f"{'the decimal mark' if one else 'between thousands'}, and "
            f"{(other if one else None) or 'an option'} says that it is not; use it for one of both"
        )
