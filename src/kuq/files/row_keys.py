"""Which columns of a table tell its inputs apart, and rows that do so twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kuq.errors import ParameterError, ShapeError
from kuq.files.roles import listed

if TYPE_CHECKING:
    import pandas as pd

#: So many of the rows that are wrong are named.
MOST_SHOWN = 3
#: Up to so many columns name an input together.
_MOST_KEYS = 3
#: Columns of which a larger share of rows repeats are not names, but groups.
_MOST_TWICE = 0.25
#: Entries of Parquet files that name nothing.
_SEVERAL = (list, dict, np.ndarray)
#: Usual names of what happened.
_TARGETS = ("y", "y_true", "target", "truth", "obs", "observed", "observation", "outcome", "actual")


def named_columns(text: str, columns: list[str]) -> tuple[str, ...]:
    """The columns that ``--by`` names, separated by commas; none where every row is an input."""
    names = [text] if text in columns else [name.strip() for name in text.split(",")]
    names = [name for name in names if name]
    for name in names:
        if name not in columns:
            raise ParameterError(
                f"--by {text}: there is no column {name!r} beside those of the prediction; found "
                f"{listed(columns) or 'no other'}"
            )
    return tuple(dict.fromkeys(names))


def twice(table: pd.DataFrame, keys: pd.DataFrame, given: bool) -> tuple[str, ...]:
    """What is said of rows about an input that another row was about.

    Where somebody named the keys (``given``) it is refused. Else few columns may be names that are
    not all fractions, and are some if hardly any repeats: that is told, and each row is an input.
    A row with a missing entry has no name.
    """
    if not given:
        keys = keys[_naming(keys)]
    if len(keys.columns) == 0:
        return ()
    there = np.flatnonzero(~(keys.isna() | (keys == "")).any(axis=1).to_numpy())
    every = combined([codes_of(keys, name, missing=True) for name in keys.columns])[there]
    again = np.flatnonzero(repeated(every))
    if again.size == 0 or not (given or again.size <= _MOST_TWICE * len(every)):
        return ()
    shown = []
    for row in again[:MOST_SHOWN]:
        first, later = int(there[(every == every[row]).argmax()]), int(there[row])
        name = " ".join(f"{key} {entry(keys[key].iloc[later])}" for key in keys.columns)
        shown.append(f"{place_of(table, later)} repeats {place_of(table, first)} ({name})")
    rows = f"{', '.join(shown)}{and_more(again.size)}"
    if given:
        raise ShapeError(
            f"expected one row for each input: {rows}; inputs are told apart by "
            f"{listed(keys.columns)}; if other columns do, name them: --by COLUMN,..., or --by '' "
            "if every row is an input of its own"
        )
    return (f"the same input twice? {rows}; every row is taken for an input of its own",)


def _naming(keys: pd.DataFrame) -> list[str]:
    """The columns that may name an input, without those that are the same everywhere."""
    if len(keys.columns) > _MOST_KEYS or all(keys[name].dtype.kind == "f" for name in keys.columns):
        return []
    single = [name for name in keys.columns if not isinstance(keys[name].iloc[0], _SEVERAL)]
    return [name for name in single if (codes_of(keys, name, missing=True)[0] > 0).any()]


def telling(keys: pd.DataFrame) -> pd.DataFrame:
    """The columns that name an input: all of few; of many the first that tells all apart."""
    if len(keys.columns) <= _MOST_KEYS:
        return keys
    for name in keys.columns:
        if keys[name].dtype.kind != "f" and keys[name].is_unique:
            return keys[[name]]
    return keys[[]]


def entry(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def unused(others: pd.DataFrame, naming: Sequence[Any], target: str | None) -> tuple[str, ...]:
    """Columns that are no part of the prediction, said so that none is missed by mistake.

    ``naming`` are those among them by which inputs are called.
    """
    names = [str(name) for name in others.columns if name != ""]
    if not names:
        return ()
    named = [name for name in names if name in naming]
    rest = [name for name in names if name not in naming]
    text = f"inputs are named by {listed(named)}" if named else ""
    if rest:
        text += f"{'; ' if named else ''}no part of the predictions, but kept in the output: "
        text += listed(rest)
    text += what_happened(names, target)
    return (text,)


def what_happened(names: Sequence[str], target: str | None) -> str:
    """A hint at a column that is called as outcomes are, where none was named."""
    outcomes = [name for name in names if name.lower() in _TARGETS]
    if target is not None or not outcomes:
        return ""
    return f"; if {outcomes[0]!r} is what happened, --target {outcomes[0]} judges by it"


def line_of(table: pd.DataFrame, row: int) -> str:
    """Where a row stands in its file."""
    lines = table.attrs.get("lines")
    return f"row {row}, counted from 0" if lines is None else f"line {lines[row]}"


def place_of(table: pd.DataFrame, row: int) -> str:
    """The same inside of a sentence."""
    return line_of(table, row) + ("" if "lines" in table.attrs else ",")


def repeated(codes: np.ndarray) -> np.ndarray:
    """Where an entry was there before."""
    _, first = np.unique(codes, return_index=True)
    again = np.ones(len(codes), dtype=bool)
    again[first] = False
    return again


def and_more(count: int) -> str:
    return f" and {count - MOST_SHOWN} more" if count > MOST_SHOWN else ""


def codes_of(table: pd.DataFrame, name: str, *, missing: bool = False) -> tuple[np.ndarray, int]:
    """Equal entries of a column get equal numbers, in the order of the entries if they have one."""
    import pandas as pd

    column = table[name]
    try:
        codes, kinds = pd.factorize(column, use_na_sentinel=not missing)
    except TypeError:  # lists and the like
        raise ParameterError(
            f"the column {name!r} must hold text or numbers, got {type(column.iloc[0]).__name__}"
        ) from None
    if not missing and ((codes < 0).any() or "" in set(kinds)):
        raise ParameterError(f"the column {name!r} has missing entries")
    if not missing:
        ranks = _ranks(list(kinds))
        codes = ranks[codes]
    return codes, len(kinds)


def kinds_of(table: pd.DataFrame, name: str) -> tuple[str, ...]:
    """The different entries of a column, in the order of the numbers of :func:`codes_of`."""
    import pandas as pd

    kinds = list(pd.unique(table[name]))
    ranks = _ranks(kinds)
    return tuple(str(kinds[place]) for place in np.argsort(ranks))


def combined(columns: list[tuple[np.ndarray, int]]) -> np.ndarray:
    """One number for every combination of entries, in the order in which they appear."""
    import pandas as pd

    (numbers, _), *others = columns
    for codes, count in others:
        numbers = pd.factorize(numbers)[0] * count + codes
    return np.asarray(pd.factorize(numbers)[0])


def _ranks(kinds: list[Any]) -> np.ndarray:
    """The place of every entry in their order; of different types, as they appear."""
    one_type = len({type(kind) for kind in kinds}) == 1
    order = sorted(range(len(kinds)), key=kinds.__getitem__) if one_type else range(len(kinds))
    ranks = np.empty(len(kinds), dtype=np.intp)
    ranks[list(order)] = np.arange(len(kinds))
    return ranks
