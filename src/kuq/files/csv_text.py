"""Separated text: read strictly, and written so that a spreadsheet runs none of it.

Every line has to have as many fields as the header; a cell of a number column is a number or
refused, with its line. Other columns keep their text, apart from plain numbers.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kuq.errors import ParameterError
from kuq.files.claims import check_memory
from kuq.files.dialect import Dialect, rows_of
from kuq.files.number_marks import PYTHONS, Cell, found_marks, is_marked
from kuq.files.roles import listed

if TYPE_CHECKING:
    import pandas as pd

#: A table of draws has a column per member and draw; more are no table that anyone made.
MOST_COLUMNS = 100_000
_MISSING = frozenset(
    (
        *("", "NA", "N/A", "#N/A", "n/a", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "None"),
        *("<NA>", "-", "–", "—", "n.a.", "N.A.", "k.A.", "#NV"),
    )
)
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(
    r"-?(?:(?:0|[1-9][0-9]{0,16})(?:\.[0-9]{0,17})?|\.[0-9]{1,17})(?:[eE][+-]?[0-9]{1,2})?"
)
#: What a spreadsheet takes for the start of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_CELLS = 2**18
#: A number with something after it, or a currency before it.
_WITH_UNIT = re.compile(r"[+-]?[0-9][0-9.,' ]*[^0-9.,'+\-eE\s:/_]|[$€£¥]\s*[0-9]")
_UNITS = "; units and signs belong into the name of the column, and numbers alone into its cells"


def read_header(path: Path, dialect: Dialect) -> list[str]:
    """The names of the columns, each of which appears once."""
    with rows_of(path, dialect) as (rows, _):
        return _header(path, rows).names


def read_csv(path: Path, dialect: Dialect, numbers: Collection[str]) -> pd.DataFrame:
    """The table, with doubles in the columns ``numbers``, text or plain numbers in the others.

    ``attrs["dialect"]`` has the marks of numbers too, and ``attrs["lines"]`` the line of every row.
    """
    check_memory(path, 4 * path.stat().st_size)  # text, lists, columns and arrays of it
    if dialect.form.decimal is None and dialect.form.thousands is None:
        try:
            return _read(path, dialect, numbers, sure=False)
        except _OtherMarksError:
            pass
    cells = _number_cells(path, dialect, numbers)
    told = dialect.form.decimal or "", dialect.form.thousands or ""
    return _read(path, replace(dialect, marks=found_marks(path, cells, *told)), numbers, sure=True)


class _OtherMarksError(Exception):
    """A number that has other marks than those of Python."""


def _read(path: Path, dialect: Dialect, numbers: Collection[str], sure: bool) -> pd.DataFrame:
    """The table, by the marks of the dialect; are these not ``sure``, others are an error."""
    import pandas as pd

    places: list[int] = []
    with rows_of(path, dialect) as (reader, line):
        header = _header(path, reader)
        names = header.names
        values: dict[str, list[Any]] = {name: [] for name in names}
        rows = _checked(path, header, reader, line)
        size = max(1, _CELLS // len(names))
        while batch := list(itertools.islice(rows, size)):
            lines = [row.line for row in batch]
            places += lines
            columns = zip(*(row.cells for row in batch), strict=True)
            for name, cells in zip(names, columns, strict=True):
                if name in numbers:
                    values[name].append(_numbers(path, name, cells, lines, dialect, sure))
                else:
                    values[name].extend(cells)
    table = {
        name: np.concatenate([np.empty(0), *parts]) if name in numbers else _typed(parts)
        for name, parts in values.items()
    }
    frame = pd.DataFrame(table, columns=names)
    frame.attrs = {"dialect": dialect, "lines": places}
    return frame


def _number_cells(path: Path, dialect: Dialect, numbers: Collection[str]) -> Iterator[Cell]:
    """What stands in the columns of numbers."""
    with rows_of(path, dialect) as (reader, line):
        header = _header(path, reader)
        for row in _checked(path, header, reader, line):
            for name, cell in zip(header.names, row.cells, strict=True):
                if name in numbers:
                    yield Cell(cell.strip(), name, row.line)


def without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """The table with an apostrophe before text that a spreadsheet would take for a formula."""
    table = table.copy(deep=False)
    for name in table.columns:
        if table[name].dtype.kind not in "fiubmM":
            table[name] = table[name].map(_harmless)
    table.columns = [_harmless(name) for name in table.columns]
    return table


def _harmless(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.lstrip(" ").startswith(_FORMULA):
        return cell
    return cell if _is_number(cell) else f"'{cell}"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


@dataclass(frozen=True)
class _Row:
    line: int
    cells: list[str]


@dataclass(frozen=True)
class _Header:
    """The names of the columns; last ones without a name, as of spreadsheets, hold nothing."""

    names: list[str]
    width: int


def _header(path: Path, reader: Iterator[list[str]]) -> _Header:
    names = [name.strip() for name in next((row for row in reader if row), [])]
    width = len(names)
    if not any(names):
        raise ParameterError(f"{path} is empty")
    if width > MOST_COLUMNS:
        raise ParameterError(
            f"{path} has {width} columns, more than the {MOST_COLUMNS} that are read; use "
            "rows for inputs and members, or .npz"
        )
    while not names[-1]:
        names.pop()
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ParameterError(f"the column {name!r} appears twice")
        seen.add(name)
    return _Header(names, width)


def _checked(
    path: Path, header: _Header, reader: Iterator[list[str]], line: Callable[[], int]
) -> Iterator[_Row]:
    """Rows with as many fields as there are columns; blank lines do not count."""
    count = len(header.names)
    for cells in reader:
        if not any(cells):
            continue
        if len(cells) != header.width:
            raise ParameterError(
                f"{path} has {header.width} columns ({listed(header.names)}) and line {line()} has "
                f"{len(cells)} fields; every line needs one field for each column"
            )
        if any(cells[count:]):
            extra = next(cell for cell in cells[count:] if cell)
            raise ParameterError(
                f"{path}: line {line()} has {extra[:80]!r} in a column without a name; name it"
            )
        yield _Row(line(), cells[:count])


def _numbers(
    path: Path, name: str, cells: Sequence[str], lines: list[int], dialect: Dialect, sure: bool
) -> np.ndarray:
    if dialect.marks != PYTHONS:
        cells = [dialect.marks.plain(cell) for cell in cells]
    try:
        if not any("_" in cell for cell in cells):  # Python, not a table, reads 1_000
            return np.array([float(cell) for cell in cells])
    except ValueError:
        pass
    numbers = np.empty(len(cells))
    for place, cell in enumerate(cells):
        if cell.strip() in _MISSING:
            numbers[place] = np.nan
        elif _is_number(cell):
            numbers[place] = float(cell)
        elif is_marked(cell) and not sure:
            raise _OtherMarksError
        else:
            raise ParameterError(
                f"{path}: the column {name!r} must hold numbers, got {cell[:80]!r} in line "
                f"{lines[place]}{_UNITS if _WITH_UNIT.match(cell.strip()) else ''}"
            )
    return numbers


def _typed(cells: list[str]) -> Any:
    """Cells that are all plain numbers as such; others, such as 007, stay as they are written."""
    if all(map(_WHOLE.fullmatch, cells)):
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    if all(map(_DECIMAL.fullmatch, cells)):
        numbers = np.array([float(cell) for cell in cells])
        written = set(cells)
        kinds = len(np.unique(numbers))
        # Names of many digits must not become one by rounding; 0.5 and 0.50 are the same number.
        if len(written) == kinds or len(set(map(Decimal, written))) == kinds:
            return numbers
    return np.array(cells, dtype=object)
