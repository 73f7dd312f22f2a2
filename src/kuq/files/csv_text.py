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
from kuq.files.roles import listed

if TYPE_CHECKING:
    import pandas as pd

#: A table of draws has a column per member and draw; more are no table that anyone made.
MOST_COLUMNS = 100_000
_MISSING = frozenset(
    ("", "NA", "N/A", "#N/A", "n/a", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "None", "<NA>")
)
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(
    r"-?(?:(?:0|[1-9][0-9]{0,16})(?:\.[0-9]{0,17})?|\.[0-9]{1,17})(?:[eE][+-]?[0-9]{1,2})?"
)
#: Numbers with a decimal comma, and those whose commas may as well separate thousands.
_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]{1,3})?")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+")
#: What a spreadsheet takes for the start of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_CELLS = 2**18


def read_header(path: Path, dialect: Dialect) -> list[str]:
    """The names of the columns, each of which appears once."""
    with rows_of(path, dialect) as (rows, _):
        return _header(path, rows)


def read_csv(path: Path, dialect: Dialect, numbers: Collection[str]) -> pd.DataFrame:
    """The table, with doubles in the columns ``numbers``, text or plain numbers in the others.

    ``attrs["dialect"]`` has the decimal mark too, and ``attrs["lines"]`` the line of every row.
    """
    check_memory(path, 4 * path.stat().st_size)  # text, lists, columns and arrays of it
    if dialect.decimal == ",":
        _check_decimal_commas(path, dialect, numbers)
    try:
        return _read(path, dialect, numbers)
    except _DecimalCommaError:
        _check_decimal_commas(path, dialect, numbers)
        return _read(path, replace(dialect, decimal=","), numbers)


class _DecimalCommaError(Exception):
    """A number that has a comma where others have a point."""


def _read(path: Path, dialect: Dialect, numbers: Collection[str]) -> pd.DataFrame:
    import pandas as pd

    places: list[int] = []
    with rows_of(path, dialect) as (reader, line):
        names = _header(path, reader)
        values: dict[str, list[Any]] = {name: [] for name in names}
        rows = _checked(path, names, reader, line)
        size = max(1, _CELLS // len(names))
        while batch := list(itertools.islice(rows, size)):
            lines = [row.line for row in batch]
            places += lines
            columns = zip(*(row.cells for row in batch), strict=True)
            for name, cells in zip(names, columns, strict=True):
                if name in numbers:
                    values[name].append(_numbers(path, name, cells, lines, dialect))
                else:
                    values[name].extend(cells)
    table = {
        name: _joined(parts) if name in numbers else _typed(parts) for name, parts in values.items()
    }
    frame = pd.DataFrame(table, columns=names)
    frame.attrs = {"dialect": dialect, "lines": places}
    return frame


def _check_decimal_commas(path: Path, dialect: Dialect, numbers: Collection[str]) -> None:
    """Commas in numbers are decimal marks only if at least one of them can be nothing else."""
    certain, first = dialect.decimal_told, ""
    with rows_of(path, dialect) as (reader, line):
        names = _header(path, reader)
        for row in _checked(path, names, reader, line):
            for name, cell in zip(names, row.cells, strict=True):
                if name not in numbers:
                    continue
                text = cell.strip()
                if "." in text and _is_number(text):
                    raise ParameterError(
                        f"{path}: the column {name!r} has the number {text!r} with a decimal point "
                        f"in line {row.line}, and other numbers have commas"
                        f"{' (--decimal ,)' if dialect.decimal_told else ''}; use one of them"
                    )
                if _COMMA.fullmatch(text):
                    certain = certain or not _THOUSANDS.fullmatch(text)
                    first = first or f"{text!r} in the column {name!r}, line {row.line}"
    if first and not certain:
        raise ParameterError(
            f"{path}: {first} may be a number with a decimal comma or with separated thousands, "
            "and no other number tells which; if it is a decimal comma, say so (--decimal ,), else "
            "write numbers without separators"
        )


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


def _header(path: Path, reader: Iterator[list[str]]) -> list[str]:
    names = [name.strip() for name in next((row for row in reader if row), [])]
    if not names:
        raise ParameterError(f"{path} is empty")
    if len(names) > MOST_COLUMNS:
        raise ParameterError(
            f"{path} has {len(names)} columns, more than the {MOST_COLUMNS} that are read; use "
            "rows for inputs and members, or .npz"
        )
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ParameterError(f"the column {name!r} appears twice")
        seen.add(name)
    return names


def _checked(
    path: Path, names: list[str], reader: Iterator[list[str]], line: Callable[[], int]
) -> Iterator[_Row]:
    """Rows with as many fields as there are names; blank lines do not count."""
    for cells in reader:
        if len(cells) == len(names):
            yield _Row(line(), cells)
        elif cells:
            raise ParameterError(
                f"{path} has {len(names)} columns ({listed(names)}) and line {line()} has "
                f"{len(cells)} fields; every line needs one field for each column"
            )


def _numbers(
    path: Path, name: str, cells: Sequence[str], lines: list[int], dialect: Dialect
) -> np.ndarray:
    if dialect.decimal == ",":
        cells = [c.replace(",", ".") if _COMMA.fullmatch(c.strip()) else c for c in cells]
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
        elif _COMMA.fullmatch(cell.strip()) and not dialect.decimal_told:
            raise _DecimalCommaError
        else:
            raise ParameterError(
                f"{path}: the column {name!r} must hold numbers, got {cell[:80]!r} in line "
                f"{lines[place]}; numbers have one decimal mark and no separators"
            )
    return numbers


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.empty(0)


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
