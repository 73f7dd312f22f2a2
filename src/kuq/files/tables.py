"""Predictions in tables (``.csv``, ``.parquet``): one row per input, or one per input and member.

Wide tables have one row per input and columns ``mean_0, std_0, mean_1, std_1, …`` (any usual
names), ``sample_0_0, sample_0_1, …`` for draw 1 of member 0, or ``member_0, member_1, …`` for point
predictions. Long tables have a column ``member`` (and ``sample`` for draws), and every other column
says which input a row belongs to. Evidential predictions have one row per input and the columns
loc, nu, alpha, beta.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kuq.errors import ParameterError, ShapeError
from kuq.files.roles import ALIASES, DRAWS, MEMBERS, Names, as_parameter, find_law
from kuq.files.stored import StoredPrediction

if TYPE_CHECKING:
    import pandas as pd

_ROLES = {alias: role for role, aliases in ALIASES.items() for alias in aliases}
_NUMBERED = re.compile(
    r"^(?:(?:member|model)[_.\- ]?(?P<before>\d+)[_.\- ](?P<named>[a-z0-9_]*[a-z]\w*)"
    r"|(?P<name>[a-z]\w*?)[_.\- ]?(?P<member>\d+)(?:[_.\- ](?P<draw>\d+))?)$",
    re.IGNORECASE,
)


def read_table(
    path: Path,
    names: Names,
    *,
    member: str | None = None,
    sample: str | None = None,
    nan_policy: str = "raise",
) -> StoredPrediction:
    """The prediction in a ``.csv`` or ``.parquet`` file."""
    table = _load(path)
    if table.empty:
        raise ParameterError(f"{path} has no rows")
    if len(set(table.columns)) < len(table.columns):
        twice = next(c for c in table.columns if list(table.columns).count(c) > 1)
        raise ParameterError(f"the column {twice!r} appears twice")
    member = _column(table, member, MEMBERS, "--member")
    if member is not None:
        sample = _column(table, sample, DRAWS, "--sample")
        return _long(table, names, member, sample, nan_policy)
    wide = _wide_columns(table.columns)
    if wide and not names.given():
        return _wide(table, wide, nan_policy)
    if not {"nu", "alpha", "beta"} <= {str(name).lower() for name in table.columns}:
        raise ParameterError(
            "a table needs numbered columns such as mean_0, std_0, mean_1, std_1, or a column "
            "'member' (--member) and one row per input and member; found "
            f"{_listed(table.columns)}"
        )
    _, roles = find_law(map(str, table.columns), names)
    arrays = {role: _numbers(table, [name])[:, 0] for role, name in roles.items()}
    return _stored("evidential", arrays, table, table, nan_policy)


def _load(path: Path) -> pd.DataFrame:
    try:
        import pandas as pd
    except ImportError:
        raise ParameterError('tables need pandas: pip install "kuq[files]"') from None
    if path.stat().st_size == 0:
        raise ParameterError(f"{path} is empty")
    try:
        if path.suffix.lower() == ".csv":
            return pd.read_csv(path, float_precision="round_trip")
        return pd.read_parquet(path)
    except ImportError:
        raise ParameterError('.parquet files need pyarrow: pip install "kuq[files]"') from None
    except Exception as error:  # every reader has errors of its own for damaged files
        text = str(error) or type(error).__name__
        raise ParameterError(f"{path} cannot be read as a table: {text}") from None


def _column(
    table: pd.DataFrame, given: str | None, usual: Sequence[str], option: str
) -> str | None:
    """A column by its given or usual name."""
    if given is not None:
        if given not in table.columns:
            raise ParameterError(f"{option} {given}: there is no such column")
        return given
    lowered = {str(name).lower(): str(name) for name in table.columns}
    return next((lowered[name] for name in usual if name in lowered), None)


def _listed(columns: Any) -> str:
    shown = [repr(str(c)) for c in columns]
    return ", ".join(shown[:12]) + (", …" if len(shown) > 12 else "")


def _numbers(table: pd.DataFrame, columns: Sequence[str]) -> np.ndarray:
    for name in columns:
        if table[name].dtype.kind not in "fiub":
            raise ParameterError(
                f"the column {name!r} must hold numbers, got {table[name].dtype}; "
                f"the first entry is {table[name].iloc[0]!r}"
            )
    return np.asarray(table[list(columns)].to_numpy(dtype=float))


def _stored(
    law: str,
    arrays: dict[str, np.ndarray],
    rows: pd.DataFrame,
    keys: pd.DataFrame,
    nan_policy: str,
    weights: np.ndarray | None = None,
) -> StoredPrediction:
    name = str(keys.columns[0]) if len(keys.columns) and law != "evidential" else "row"
    if name == "row":
        labels = tuple(str(i) for i in range(len(rows)))
    else:
        labels = tuple(", ".join(map(_entry, row)) for row in keys.itertuples(index=False))
        name = ", ".join(map(str, keys.columns))
    return StoredPrediction(
        law, arrays, 0, weights, nan_policy, labels, name, {"rows": rows}
    ).checked()


def _entry(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# Wide tables: role -> {(member, draw): column}.

_Wide = dict[str, dict[tuple[int, int | None], str]]


def _wide_columns(columns: Any) -> _Wide:
    found: _Wide = {}
    for column in map(str, columns):
        match = _NUMBERED.match(column)
        if match is None:
            continue
        name = (match["named"] or match["name"]).lower()
        number = int(match["before"] or match["member"])
        draw = None if match["draw"] is None else int(match["draw"])
        role = "points" if name in MEMBERS else _ROLES.get(name)
        if name in DRAWS:
            role = "samples"
        if role is not None and role != "weights":
            found.setdefault(role, {})[number, draw] = column
    return found


def _wide(table: pd.DataFrame, wide: _Wide, nan_policy: str) -> StoredPrediction:
    law, roles = find_law(wide, Names())
    chosen = {role: wide[name] for role, name in roles.items()}
    places = [sorted(columns) for columns in chosen.values()]
    if any(place != places[0] for place in places):
        listed = ", ".join(f"{len(columns)} of {role}" for role, columns in chosen.items())
        raise ShapeError(f"every member needs all of its columns, got {listed}")
    members = sorted({member for member, _ in places[0]})
    arrays = {}
    for role, columns in chosen.items():
        values = _numbers(table, [columns[place] for place in places[0]])
        values = _with_draws(values, places[0], members) if law == "samples" else values.T
        arrays[role] = as_parameter(role, roles[role], values)
    used = {column for columns in chosen.values() for column in columns.values()}
    keys = table[[c for c in table.columns if c not in used]]
    return _stored(law, arrays, table, keys, nan_policy)


def _with_draws(
    values: np.ndarray, places: list[tuple[int, int | None]], members: list[int]
) -> np.ndarray:
    """(rows, columns) to (members, rows, draws)."""
    if any(draw is None for _, draw in places):
        raise ShapeError(
            "columns of draws need two numbers, member and draw, as in sample_0_0, sample_0_1; "
            "point predictions are called member_0, member_1, …"
        )
    counts = {member: sum(m == member for m, _ in places) for member in members}
    if len(set(counts.values())) > 1:
        raise ShapeError(f"every member needs the same number of draws, got {counts}")
    shaped = values.reshape(len(values), len(members), -1)
    return np.moveaxis(shaped, 1, 0)


# Long tables.


def _long(
    table: pd.DataFrame, names: Names, member: str, sample: str | None, nan_policy: str
) -> StoredPrediction:
    others = [str(c) for c in table.columns if c not in (member, sample)]
    law, roles = find_law(others, names)
    if law == "evidential":
        raise ParameterError(f"evidential predictions have no members; remove {member!r}")
    if sample is None and law == "samples":
        law, roles["points"] = "points", roles.pop("samples")
    if sample is not None and law != "samples":
        raise ParameterError(f"a column of draws {sample!r} needs values, found {_listed(others)}")
    used = set(roles.values())
    keys = [name for name in others if name not in used]
    order = [*keys, member] + ([sample] if sample else [])
    axes, shape, rows = _grid(table, keys, member, sample)
    if len(table) != int(np.prod(shape)):
        raise ShapeError(
            f"expected one row for each of {shape[1]} inputs × {shape[0]} members"
            + (f" × {shape[2]} draws" if sample else "")
            + f", got {len(table)} rows; inputs are told apart by {_listed(keys) or 'their order'}"
        )
    arrays: dict[str, np.ndarray] = {}
    for role, name in roles.items():
        filled = np.full(shape, np.nan)
        seen = np.zeros(shape, dtype=bool)
        filled[axes] = _numbers(table, [name])[:, 0]
        seen[axes] = True
        if not seen.all():
            raise ShapeError(f"some rows appear twice and others are missing, by {_listed(order)}")
        arrays[role] = as_parameter(role, name, filled)
    weights = arrays.pop("weights", None)
    if weights is not None:
        weights = _member_weights(weights)
    return _stored(law, arrays, rows, rows, nan_policy, weights)


def _grid(
    table: pd.DataFrame, keys: list[str], member: str, sample: str | None
) -> tuple[tuple[np.ndarray, ...], tuple[int, ...], pd.DataFrame]:
    """The place of every row in (members, inputs, [draws]), its shape, and one row per input."""
    import pandas as pd

    codes, found = pd.factorize(table[member], sort=True)
    if (codes < 0).any():
        raise ParameterError(f"the column {member!r} has missing entries")
    inner = [member] + ([sample] if sample else [])
    if keys:
        inputs = table.groupby(keys, sort=False, dropna=False).ngroup().to_numpy()
        rows = table[keys].drop_duplicates().reset_index(drop=True)
    else:
        inputs = table.groupby(inner, sort=False).cumcount().to_numpy()
        rows = pd.DataFrame({"input": np.arange(inputs.max() + 1)})
    axes: tuple[np.ndarray, ...] = (codes, inputs)
    shape: tuple[int, ...] = (len(found), len(rows))
    if sample:
        draws, kinds = pd.factorize(table[sample], sort=True)
        axes, shape = (*axes, draws), (*shape, len(kinds))
    return axes, shape, rows


def _member_weights(weights: np.ndarray) -> np.ndarray:
    """One weight per member, which must be the same in all of its rows."""
    flat = weights.reshape(len(weights), -1)
    if np.any(flat != flat[:, :1]):
        raise ParameterError("the weight of a member must be the same in all of its rows")
    return flat[:, 0]
