"""Comma-separated text: read strictly, and written so that a spreadsheet runs none of it.

Every line has to have as many fields as the header; a cell of a number column is a number or
refused, with its line. Other columns keep their text, apart from plain numbers.
"""

from __future__ import annotations

import codecs
import csv
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kuq.errors import ParameterError
from kuq.files.claims import check_memory
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
_OTHER_MARKS = {
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
    b"PK\3\4": "a spreadsheet or archive",
    b"PAR1": "Parquet",
    b"\x1f\x8b": "compressed",
}
#: What a spreadsheet takes for the start of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_CELLS = 2**18


def read_header(path: Path) -> list[str]:
    """The names of the columns, each of which appears once."""
    with _rows(path) as (reader, _):
        return _header(path, reader)


def read_csv(path: Path, numbers: Collection[str]) -> pd.DataFrame:
    """The table, with doubles in the columns ``numbers``, text or plain numbers in the others."""
    import pandas as pd

    check_memory(path, 4 * path.stat().st_size)  # text, lists, columns and arrays of it
    with _rows(path) as (reader, line):
        names = _header(path, reader)
        values: dict[str, list[Any]] = {name: [] for name in names}
        rows = _checked(path, names, reader, line)
        size = max(1, _CELLS // len(names))
        while batch := list(itertools.islice(rows, size)):
            lines = [row.line for row in batch]
            columns = zip(*(row.cells for row in batch), strict=True)
            for name, cells in zip(names, columns, strict=True):
                if name in numbers:
                    values[name].append(_numbers(path, name, cells, lines))
                else:
                    values[name].extend(cells)
    table = {
        name: _joined(parts) if name in numbers else _typed(parts) for name, parts in values.items()
    }
    return pd.DataFrame(table, columns=names)


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


@contextmanager
def _rows(path: Path) -> Iterator[tuple[Iterator[list[str]], Callable[[], int]]]:
    """The rows of a file, and at which line of it the reader is."""
    if path.stat().st_size == 0:
        raise ParameterError(f"{path} is empty")
    with path.open("rb") as file:
        start = file.read(4)
    for mark, kind in _OTHER_MARKS.items():
        if start.startswith(mark):
            raise ParameterError(f"{path} is {kind}, not CSV; save it as CSV in UTF-8")
    with path.open(encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(_without_nul(text), strict=True, skipinitialspace=True)
        try:
            yield reader, lambda: reader.line_num
        except csv.Error as error:
            raise ParameterError(
                f"{path} cannot be read as a table: {error} at line {reader.line_num}"
            ) from None
        except UnicodeDecodeError as error:
            raise ParameterError(
                f"{path} is not text in UTF-8 (a byte {error.object[error.start]:#04x} after line "
                f"{reader.line_num}); save it as CSV in UTF-8"
            ) from None


def _without_nul(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if "\0" in line:
            raise csv.Error("there is a zero byte")
        yield line


def _header(path: Path, reader: Iterator[list[str]]) -> list[str]:
    names = [name.strip() for name in next((row for row in reader if row), [])]
    if not names:
        raise ParameterError(f"{path} is empty")
    if len(names) > MOST_COLUMNS:
        raise ParameterError(
            f"{path} has {len(names)} columns, more than the {MOST_COLUMNS} that are read; use "
            "rows for inputs and members, or .npz"
        )
    other = next((mark for mark in ";\t|" if mark in names[0]), None)
    if len(names) == 1 and other is not None:
        raise ParameterError(
            f"{path} is separated by {other!r}; fields are separated by commas, and numbers have "
            "decimal points"
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


def _numbers(path: Path, name: str, cells: Sequence[str], lines: list[int]) -> np.ndarray:
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
        else:
            raise ParameterError(
                f"{path}: the column {name!r} must hold numbers, got {cell[:80]!r} in line "
                f"{lines[place]}; numbers have a decimal point and no separators"
            )
    return numbers


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.empty(0)


def _typed(cells: list[str]) -> Any:
    """Cells that are all plain numbers as such; others, such as 007, stay as they are written."""
    if all(map(_WHOLE.fullmatch, cells)):
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    if all(map(_DECIMAL.fullmatch, cells)):
        return np.array([float(cell) for cell in cells])
    return np.array(cells, dtype=object)
