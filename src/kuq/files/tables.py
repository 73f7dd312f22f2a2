"""Predictions in tables (``.csv``, ``.parquet``): one row per input, or one per input and member.

Wide tables have one row per input and columns ``mean_0, std_0, mean_1, std_1, …`` (any usual
names), ``sample_0_0, sample_0_1, …`` for draw 1 of member 0, or ``member_0, member_1, …`` for point
predictions, and ``weight_0, weight_1, …`` for weights of members. Long tables have a column
``member`` (and ``sample`` for draws), and every other column says which input a row belongs to.
Evidential predictions have one row per input and the columns loc, nu, alpha, beta.

The names of the columns decide how a table is read, before any row of it is.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np

from kuq.adapters.parameter_names import is_spread, role_of
from kuq.errors import ParameterError, ShapeError
from kuq.files.csv_text import read_csv, read_header
from kuq.files.dialect import TextForm, find_dialect
from kuq.files.patterns import is_pattern, like_quantiles, likely_patterns, matches
from kuq.files.roles import (
    BY_OTHER_MEMBERS,
    DRAWS,
    MEMBERS,
    Names,
    as_parameter,
    check_student_scale,
    check_values,
    find_law,
    listed,
)
from kuq.files.row_keys import (
    MOST_SHOWN,
    and_more,
    codes_of,
    combined,
    entry,
    kinds_of,
    line_of,
    named_columns,
    place_of,
    repeated,
    telling,
    twice,
    unused,
    what_happened,
)
from kuq.files.stored import StoredPrediction

if TYPE_CHECKING:
    import pandas as pd

#: The tables that are text.
TEXT = (".csv", ".tsv")
#: Tables with more places than so many for a row name their inputs by other columns.
_SPARSEST = 10
#: Longer names are no numbered ones; matching takes the square of their length.
_LONGEST_NAME = 200
_AS_IN = "as in --mean 'Model {} mean' --std 'Model {} sd', --points 'RF*' or --points a,b,c"
_NUMBERED = re.compile(
    r"^(?:(?:member|model)[_.\- ]?(?P<before>[0-9]{1,9})[_.\- ](?P<named>[a-z0-9_]*[a-z]\w*)"
    r"|(?P<name>[a-z]\w*?)[_.\- ]?(?P<member>[0-9]{1,9})(?:[_.\- ](?P<draw>[0-9]{1,9}))?)$",
    re.IGNORECASE,
)


def read_table(
    path: Path,
    names: Names,
    *,
    member: str | None = None,
    sample: str | None = None,
    nan_policy: str = "raise",
    target: str | None = None,
    by: str | None = None,
    form: TextForm | None = None,
) -> StoredPrediction:
    """The prediction in a ``.csv``, ``.tsv`` or ``.parquet`` file."""
    try:
        import pandas  # noqa: F401
    except ImportError:
        raise ParameterError('tables need pandas: pip install "kuq[files]"') from None
    if path.suffix.lower() in TEXT:
        dialect = find_dialect(path, form)
        layout = _layout(read_header(path, dialect), names, member, sample, target, by)
        table = read_csv(path, dialect, layout.number_columns | ({target} if target else set()))
    else:
        from kuq.files.parquet import read_parquet

        table = read_parquet(path)
        layout = _layout(list(table.columns), names, member, sample, target, by)
    if len(table) == 0:
        raise ParameterError(f"{path} has no rows")
    _check_cells(table, layout, nan_policy)
    stored = layout.read(table, nan_policy, target)
    about = {"index": table.attrs.get("index", []), "dialect": table.attrs.get("dialect")}
    notes = (*(about["dialect"].notes if about["dialect"] else ()), *stored.notes)
    return replace(stored, extra={**stored.extra, **about}, notes=notes)


def _check_cells(table: pd.DataFrame, layout: _TableLayout, nan_policy: str) -> None:
    """Numbers that no parameter can have are refused by their column and line."""
    place, members = partial(line_of, table), layout.has_members
    for role, column in layout.roles_of_columns:
        values = _numbers(table, [column])[:, 0]
        check_values(role, column, values, nan_policy, place, some_members=members)


class _TableLayout(ABC):
    """How a table is read."""

    @property
    @abstractmethod
    def number_columns(self) -> set[str]:
        """The columns that have to hold numbers."""

    @property
    @abstractmethod
    def roles_of_columns(self) -> list[tuple[str, str]]:
        """Each of these columns with its role."""

    @property
    def has_members(self) -> bool:
        """Whether predictions are those of members, which may lack in some rows."""
        return True

    @abstractmethod
    def read(self, table: pd.DataFrame, nan_policy: str, target: str | None) -> StoredPrediction:
        """The prediction in a table."""


def _layout(
    columns: list[str],
    names: Names,
    member: str | None,
    sample: str | None,
    target: str | None,
    by: str | None,
) -> _TableLayout:
    if target is not None and target not in columns:
        raise ParameterError(f"--target {target}: the columns are {listed(columns)}")
    columns = [name for name in columns if name != target]
    mapped = [option for option, name in names.given().items() if is_pattern(name, columns)]
    if mapped:
        if member is not None or sample is not None:
            raise ParameterError(
                f"--{mapped[0]} names columns of a table with a row per input, and --member or "
                "--draws are for one with a row per input and member"
            )
        return _mapped_layout(columns, names, by)
    member = _column([c for c in columns if c != sample], member, MEMBERS, "--member")
    if member is not None:
        sample = _column(columns, sample, DRAWS, "--draws")
        return _long_layout(columns, names, member, sample, by)
    if sample is not None:
        raise ParameterError("--draws is for tables with a row per draw, which need --member")
    wide = _wide_columns(columns)
    if wide:
        if names.given():
            option, name = next(iter(names.given().items()))
            raise ParameterError(
                f"--{option} {name} names one column, as a table with a row per input and member "
                "has it, which needs --member; columns of members have patterns of names, such as "
                f"--{option} 'Model {{}} {option}' or --{option} 'a,b,c'"
            )
        _check_other_columns(columns, wide)
        return _wide_layout(columns, wide, by)
    if not {"nu", "alpha", "beta"} <= {name.lower() for name in columns}:
        likely = likely_patterns(columns)
        usual = {role_of(name): name for name in columns}
        if not likely and len(quantiles := like_quantiles(columns)) > 1:
            raise ParameterError(
                f"{listed(quantiles)} look like quantiles of one distribution, which no member "
                "is; kuq.adapters.quantiles takes them in Python"
            )
        if not likely and {"loc", "scale"} <= usual.keys():
            raise ParameterError(
                f"{usual['loc']!r} and {usual['scale']!r} are those of one model; several are "
                "needed to tell what is not known: mean_0, std_0, mean_1, std_1, or a column "
                "'member' and one row per input and member"
            )
        raise ParameterError(
            "a table needs numbered columns such as mean_0, std_0, mean_1, std_1, or a column "
            "'member' (--member) and one row per input and member, or names of the columns of "
            f"members, {f'here perhaps {likely}' if likely else _AS_IN}; found {listed(columns)}"
        )
    law, roles = find_law(columns, names)
    if law != "evidential":
        raise ParameterError(f"a table without members holds loc, nu, alpha, beta; found {law}")
    return _Evidential(roles, _by(columns, set(roles.values()), by))


def _by(columns: list[str], used: set[str], by: str | None) -> tuple[str, ...] | None:
    """The columns that tell inputs apart, where somebody named them among those not used."""
    return None if by is None else named_columns(by, [c for c in columns if c not in used])


def _column(columns: list[str], given: str | None, usual: Sequence[str], option: str) -> str | None:
    """A column by its given name, or the only one with a usual name."""
    if given is not None:
        if given not in columns:
            raise ParameterError(f"{option} {given}: there is no such column")
        return given
    fits = [name for name in columns if name.lower() in usual]
    if len(fits) > 1:
        raise ParameterError(
            f"the columns {listed(fits)} may each be {option[2:]}; say which: {option} {fits[0]}"
            + (f"; if the other holds draws of each: --draws {fits[1]}" * (option == "--member"))
        )
    return fits[0] if fits else None


def _numbers(table: pd.DataFrame, columns: Sequence[str]) -> np.ndarray:
    """The columns as doubles, (rows, columns)."""
    values = np.empty((len(table), len(columns)))
    for place, name in enumerate(columns):
        column = table[name]
        if column.dtype.kind not in "fiub":
            raise ParameterError(
                f"the column {name!r} must hold numbers, got {column.dtype}; "
                f"the first entry is {column.iloc[0]!r}"
            )
        values[:, place] = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def _stored(
    law: str,
    arrays: dict[str, np.ndarray],
    rows: pd.DataFrame,
    keys: pd.DataFrame,
    nan_policy: str,
    weights: np.ndarray | None = None,
    members: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    outcome: np.ndarray | None = None,
) -> StoredPrediction:
    keys = telling(keys)
    if len(keys.columns) == 0:
        name, labels = "row", tuple(str(i) for i in range(len(rows)))
    else:
        labels = tuple(", ".join(map(entry, row)) for row in keys.itertuples(index=False))
        name = ", ".join(str(key) or "row" for key in keys.columns)  # an index has no name in CSV
    return StoredPrediction(
        law,
        arrays,
        0,
        weights,
        nan_policy,
        labels,
        name,
        {"rows": rows},
        members,
        notes,
        outcome,
    ).checked()


def _keys_of_rows(
    table: pd.DataFrame, used: set[str], target: str | None, by: tuple[str, ...] | None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """What names the inputs of a table with a row for each, and what its reader may not expect."""
    others = table[[name for name in table.columns if name not in used and name != target]]
    keys = others if by is None else others[list(by)]
    rest = others[[name for name in others.columns if name not in (by or ())]]
    naming = telling(keys).columns.tolist() if by is None else ()
    return keys, (*twice(table, keys, by is not None), *unused(rest, naming, target))


def _outcome(table: pd.DataFrame, target: str | None) -> np.ndarray | None:
    if target is None:
        return None
    values = _numbers(table, [target])[:, 0]
    if np.isinf(values).any():
        where = line_of(table, int(np.isinf(values).argmax()))
        raise ParameterError(f"the target {target!r} must be finite, and is infinite in {where}")
    return values


def _member_weights(weights: np.ndarray) -> np.ndarray:
    """One weight per member, (members, …), which must be the same in all of its rows."""
    flat = weights.reshape(len(weights), -1)
    largest: np.ndarray = np.nanmax(flat, axis=1)  # NaN has no row
    if np.any((flat != largest[:, None]) & ~np.isnan(flat)):
        raise ParameterError("the weight of a member must be the same in all of its rows")
    return largest


@final
@dataclass(frozen=True)
class _Evidential(_TableLayout):
    """One row per input with the parameters of an evidential prediction."""

    roles: dict[str, str]
    by: tuple[str, ...] | None

    @property
    def has_members(self) -> bool:
        return False

    @property
    def number_columns(self) -> set[str]:
        return set(self.roles.values())

    @property
    def roles_of_columns(self) -> list[tuple[str, str]]:
        return list(self.roles.items())

    def read(self, table: pd.DataFrame, nan_policy: str, target: str | None) -> StoredPrediction:
        arrays = {role: _numbers(table, [name])[:, 0] for role, name in self.roles.items()}
        keys, notes = _keys_of_rows(table, self.number_columns, target, self.by)
        return _stored(
            "evidential",
            arrays,
            table,
            keys,
            nan_policy,
            notes=notes,
            outcome=_outcome(table, target),
        )


#: Roles that no law uses beside each other in numbered columns.
_EITHER = (
    *(("scale", "variance"), ("samples", "points"), ("mixture", "loc"), ("mixture", "scale")),
    *((one, other) for one in ("samples", "points") for other in ("loc", "scale", "variance")),
)
#: Role -> {(member, draw): column}.
_Wide = dict[str, dict[tuple[int, int | None], str]]


def _numbered(column: str) -> tuple[str, int, int | None] | None:
    """The name in a numbered column, the member, and the draw if it has one."""
    match = _NUMBERED.match(column) if len(column) < _LONGEST_NAME else None
    if match is None:
        return None
    draw = None if match["draw"] is None else int(match["draw"])
    name = (match["named"] or match["name"]).lower()
    return name, int(match["before"] or match["member"]), draw


def _wide_columns(columns: list[str]) -> _Wide:
    wide: _Wide = {}
    for column in columns:
        parts = _numbered(column)
        if parts is None:
            continue
        name, member, draw = parts
        role = "points" if name in MEMBERS else "samples" if name in DRAWS else role_of(name)
        if role is None:
            continue
        places = wide.setdefault(role, {})
        if (member, draw) in places:
            raise ParameterError(
                f"the columns {places[member, draw]!r} and {column!r} are both the {role} of "
                f"member {member}; remove or rename one"
            )
        places[member, draw] = column
    return wide if set(wide) - {"weights"} else {}


def _check_other_columns(columns: list[str], wide: _Wide) -> None:
    """A column named like a spread beside predictions without one is not left out."""
    if not {"scale", "variance"}.isdisjoint(wide):
        return
    used = _columns_in(wide)
    first = next(column for places in wide.values() for column in places.values())
    for name in columns:
        if name not in used and is_spread(name):
            raise ParameterError(
                f"the column {name!r} is named like the spread of a prediction and would be left "
                f"out beside {first!r}; say which are meant, as in --mean 'Model {{}} mean' "
                "--std 'Model {} sd', or --points 'member_{}' where there is no spread"
            )


def _mapped_layout(columns: list[str], names: Names, by: str | None) -> _WideTable:
    """Members by patterns of names that the caller gives; what fills the gaps is a member."""
    by_role: dict[str, dict[tuple[str, ...], str]] = {}
    members: dict[tuple[str, ...], None] = {}
    draws: dict[str, None] = {}
    shown: dict[str, str] = {}
    for role, text in names.given().items():
        option = f"--{role}"
        fitting = matches(option, text, columns)
        wanted = 2 if role == "samples" else 1
        if any(len(match.gaps) != wanted for match in fitting):
            raise ParameterError(
                f"{option} {text!r}: "
                + (
                    "draws need two gaps, for the member and the draw, as in 'model {} draw {}'"
                    if wanted == 2
                    else "one gap tells members apart, as in 'Model {} mean'"
                )
            )
        for match in fitting:
            members.setdefault(match.gaps[:1])
            draws.setdefault(match.gaps[-1])
            whole = "{}" not in text and role == "points"
            shown.setdefault(match.gaps[0], match.name if whole else match.gaps[0])
            by_role.setdefault(role, {})[match.gaps] = match.name
    order = _ordered([gaps[0] for gaps in members])
    places = {gap: place for place, gap in enumerate(order)}
    inner = {gap: place for place, gap in enumerate(_ordered(list(draws)))}
    columns_of: _Wide = {
        role: {
            (places[gaps[0]], inner[gaps[1]] if role == "samples" else None): name
            for gaps, name in by_gaps.items()
        }
        for role, by_gaps in by_role.items()
    }
    law, _ = find_law(columns_of, Names())
    _check_places(law, columns_of)
    patterns = names.given()
    return _WideTable(
        law,
        {role: patterns[role] for role in columns_of},
        columns_of,
        tuple(shown[g] for g in order),
        _by(columns, _columns_in(columns_of), by),
    )


def _ordered(gaps: list[str]) -> list[str]:
    """By number if all are numbers, else as they appear."""
    numbers = all(gap.isascii() and gap.isdecimal() for gap in gaps)
    return sorted(gaps, key=int) if numbers else gaps


def _columns_in(wide: _Wide) -> set[str]:
    return {column for places in wide.values() for column in places.values()}


def _wide_layout(every: list[str], wide: _Wide, by: str | None) -> _WideTable:
    first = {role: next(iter(places.values())) for role, places in wide.items()}
    for one, other in _EITHER:
        if one in wide and other in wide:
            raise ParameterError(
                f"the columns {first[one]!r} ({one}) and {first[other]!r} ({other}) may each be "
                "meant; remove or rename one and those like it"
            )
    law, roles = find_law(wide, Names(), first.values())
    if law == "evidential":
        raise ParameterError(
            "evidential predictions have no members: they stand in the columns loc, nu, alpha and "
            f"beta, not in {first['nu']!r}"
        )
    columns = {role: wide[name] for role, name in roles.items()}
    for column in columns["scale"].values() if law == "student" else ():
        name, _, _ = _numbered(column) or (column, 0, None)
        check_student_scale(name, column)
    _check_places(law, columns)
    members = sorted({member for member, _ in next(iter(columns.values()))})
    return _WideTable(
        law, roles, columns, tuple(map(str, members)), _by(every, _columns_in(columns), by)
    )


def _check_places(law: str, columns: _Wide) -> None:
    """Every member has all of its columns, and draws have two numbers, others one."""
    numbered_twice = [c for r in columns.values() for (_, d), c in r.items() if d is not None]
    drawn = columns.get("samples", {})
    if law == "samples" and len(numbered_twice) < len(drawn):
        raise ShapeError(
            "columns of draws need two numbers, member and draw, as in sample_0_0, sample_0_1; "
            "point predictions are called member_0, member_1, …"
        )
    if law != "samples" and numbered_twice:
        raise ShapeError(
            f"the column {numbered_twice[0]!r} has two numbers, which only draws have (member and "
            "draw, as in sample_0_1); tables hold scalar outcomes, .npz files all"
        )
    members = {role: {member for member, _ in places} for role, places in columns.items()}
    if len(set(map(frozenset, members.values()))) > 1:
        every = sorted(set().union(*members.values()), key=str)
        role, gone = next((r, m) for m in every for r in members if m not in members[r])
        lone = next(c for r in columns.values() for (m, _), c in r.items() if m == gone)
        like = next(iter(columns[role].values()))
        raise ShapeError(
            f"every member needs all of its columns: there is {lone!r}, and none like {like!r} for "
            "the same member"
        )
    counted = Counter(member for member, _ in drawn)
    if len(set(counted.values())) > 1:
        raise ShapeError(f"every member needs the same number of draws, got {dict(counted)}")


@final
@dataclass(frozen=True)
class _WideTable(_TableLayout):
    """One row per input, and columns for every member."""

    law: str
    roles: dict[str, str]
    columns: _Wide
    members: tuple[str, ...]
    by: tuple[str, ...] | None

    @property
    def number_columns(self) -> set[str]:
        return _columns_in(self.columns)

    @property
    def roles_of_columns(self) -> list[tuple[str, str]]:
        return [
            (role, column) for role, places in self.columns.items() for column in places.values()
        ]

    def read(self, table: pd.DataFrame, nan_policy: str, target: str | None) -> StoredPrediction:
        arrays = {}
        for role, places in self.columns.items():
            values = _numbers(table, [places[place] for place in sorted(places)]).T
            if role == "samples":  # (members × draws, rows) to (members, rows, draws)
                members = len({member for member, _ in places})
                values = np.swapaxes(values.reshape(members, -1, len(table)), 1, 2)
            arrays[role] = as_parameter(role, self.roles[role], values)
        weights = arrays.pop("weights", None)
        if weights is not None:
            weights = _member_weights(weights)
        keys, notes = _keys_of_rows(table, self.number_columns, target, self.by)
        return _stored(
            self.law,
            arrays,
            table,
            keys,
            nan_policy,
            weights,
            self.members,
            notes,
            _outcome(table, target),
        )


def _long_layout(
    columns: list[str], names: Names, member: str, sample: str | None, by: str | None
) -> _LongTable:
    others = [name for name in columns if name not in (member, sample)]
    law, roles = find_law(others, names)
    if law == "evidential":
        raise ParameterError(f"evidential predictions have no members; remove {member!r}")
    if law == "mixture":
        raise ParameterError("tables hold no mixtures; they are read from .npz, .nc and .zarr")
    if sample is None and law == "samples":
        law, roles["points"] = "points", roles.pop("samples")
    if sample is not None and law != "samples":
        raise ParameterError(f"a column of draws {sample!r} needs values, found {listed(others)}")
    keys = [name for name in others if name not in roles.values()]
    named = _by(others, set(roles.values()), by)
    if named is None:
        return _LongTable(law, roles, keys, [], member, sample)
    return _LongTable(law, roles, list(named), [k for k in keys if k not in named], member, sample)


@final
@dataclass(frozen=True)
class _LongTable(_TableLayout):
    """One row per input and member, and per draw if there are draws."""

    law: str
    roles: dict[str, str]
    keys: list[str]
    #: Columns that say more about an input, and do not tell it from others.
    labels: list[str]
    member: str
    sample: str | None

    @property
    def number_columns(self) -> set[str]:
        return set(self.roles.values())

    @property
    def roles_of_columns(self) -> list[tuple[str, str]]:
        return list(self.roles.items())

    def read(self, table: pd.DataFrame, nan_policy: str, target: str | None) -> StoredPrediction:
        return self._without_row_numbers(table)._read(table, nan_policy, target)

    def _without_row_numbers(self, table: pd.DataFrame) -> _LongTable:
        """A column without a name that differs in all rows is an index, and names no input."""
        if "" not in self.keys or not table[""].is_unique or table[self.member].nunique() < 2:
            return self
        keys = [name for name in self.keys if name]
        return replace(self, keys=keys, labels=[*self.labels, ""])

    def _read(self, table: pd.DataFrame, nan_policy: str, target: str | None) -> StoredPrediction:
        axes, shape, rows = self._places(table)
        gaps: list[str] = []
        if len(table) != math.prod(shape):
            gaps = self._gaps(table, axes, shape, rows, nan_policy)
        place = np.ravel_multi_index(axes, shape)
        if len(table) != len(np.unique(place)):
            gaps = self._gaps(table, axes, shape, rows, nan_policy)
        arrays: dict[str, np.ndarray] = {}
        for role, name in self.roles.items():
            filled = np.full(shape, np.nan)
            filled.flat[place] = _numbers(table, [name])[:, 0]
            arrays[role] = as_parameter(role, name, filled)
        weights = arrays.pop("weights", None)
        if weights is not None:
            weights = _member_weights(weights)
        outcome = _outcome(table, target)
        if outcome is not None:
            outcome = self._one_per_input(str(target), outcome, axes[1], len(rows), table)
            rows = rows.assign(**{str(target): outcome})
        notes = [f"{text}, which counts as missing values" for text in gaps]
        if self.keys:
            hint = what_happened(self.keys, target)
            notes.append(f"inputs are told apart by {listed(self.keys)}{hint}")
        keys = rows[[name for name in rows.columns if name != target]]
        rows, dropped = self._with_labels(table, rows, axes[1])
        if dropped := [name for name in dropped if name]:
            notes.append(f"left out, as they differ between members of an input: {listed(dropped)}")
        members = kinds_of(table, self.member)
        return _stored(
            self.law, arrays, rows, keys, nan_policy, weights, members, tuple(notes), outcome
        )

    def _gaps(
        self,
        table: pd.DataFrame,
        axes: tuple[np.ndarray, ...],
        shape: tuple[int, ...],
        rows: pd.DataFrame,
        nan_policy: str,
    ) -> list[str]:
        """Rows that are not there, in words, where these may be missing values; else an error."""
        again = self._twice(table, axes, rows)
        gaps, whole = self._missing(table, axes, shape, rows)
        # Without names of inputs nobody knows which row is not there; where hardly any input is
        # whole, other columns name them.
        named = bool(self.keys) and whole > 0 and math.prod(shape) <= _SPARSEST * len(table)
        if gaps and named and not again and nan_policy != "raise":
            return gaps
        raise ShapeError(
            f"expected one row for each of {shape[1]} inputs × {shape[0]} members"
            + (f" × {shape[2]} draws" if self.sample else "")
            + f", got {len(table)} rows: {'; '.join([*again, *gaps])}; "
            + self._remedy(table, named and not again)
        )

    def _twice(
        self, table: pd.DataFrame, axes: tuple[np.ndarray, ...], rows: pd.DataFrame
    ) -> list[str]:
        """Rows that are there more than once, the first of them by their places and names."""
        every = combined([(codes, int(codes.max()) + 1) for codes in axes])
        again = np.flatnonzero(repeated(every))
        if again.size == 0:
            return []
        shown = []
        for row in again[:MOST_SHOWN]:
            first = int((every == every[row]).argmax())
            name = self._name(table, rows, [int(codes[row]) for codes in axes])
            shown.append(f"{place_of(table, int(row))} repeats {place_of(table, first)} ({name})")
        return [f"{', '.join(shown)}{and_more(again.size)}"]

    def _missing(
        self,
        table: pd.DataFrame,
        axes: tuple[np.ndarray, ...],
        shape: tuple[int, ...],
        rows: pd.DataFrame,
    ) -> tuple[list[str], int]:
        """Rows that are not there, the first by their names; and how many inputs have all."""
        members, inputs, *draws = axes
        width = shape[2] if draws else 1
        inner = members * width + (draws[0] if draws else 0)
        each = shape[0] * width
        there = np.bincount(np.unique(inputs * each + inner) // each, minlength=shape[1])
        count = int(np.sum(each - there))
        shown: list[str] = []
        for place in np.flatnonzero(there < each):
            for code in np.setdiff1d(np.arange(each), inner[inputs == place]):
                if len(shown) < MOST_SHOWN:
                    codes = [int(code) // width, int(place)] + [int(code) % width] * len(draws)
                    shown.append(self._name(table, rows, codes))
            if len(shown) == MOST_SHOWN:
                break
        text = f"no row for {', '.join(shown)}{and_more(count)}"
        return [text] if count else [], int(np.sum(there == each))

    def _remedy(self, table: pd.DataFrame, named: bool) -> str:
        """What helps: where inputs are ``named``, rows that lack are missing."""
        if not self.keys:
            return "inputs are told apart by their order; add a column that names them"
        apart = f"inputs are told apart by {listed(self.keys)}"
        if named:
            omit = "leaves missing draws out" if self.sample else BY_OTHER_MEMBERS
            return f"{apart}; --nan propagate gives such inputs no result, --nan omit {omit}"
        naming = [name for name in self.keys if not table[name].is_unique]
        others = ",".join(naming) if 0 < len(naming) < len(self.keys) else "COLUMN,..."
        return f"{apart}; if other columns do, name them: --by {others}"

    def _name(self, table: pd.DataFrame, rows: pd.DataFrame, codes: list[int]) -> str:
        """An input, a member and a draw in words."""
        member, place, *draw = codes
        keys = self.keys or ["input"]
        texts = [f"{key} {entry(rows[key].iloc[place])}" for key in keys]
        texts.append(f"{self.member} {kinds_of(table, self.member)[member]}")
        if self.sample is not None:
            texts.append(f"{self.sample} {kinds_of(table, self.sample)[draw[0]]}")
        return " ".join(texts)

    def _with_labels(
        self, table: pd.DataFrame, rows: pd.DataFrame, inputs: np.ndarray
    ) -> tuple[pd.DataFrame, list[str]]:
        """The inputs with what else is said of them, and columns that say it of members."""
        _, first = np.unique(inputs, return_index=True)
        differing = []
        for name in self.labels:
            codes, _ = codes_of(table, name, missing=True)
            if np.any(codes != codes[first][inputs]):
                differing.append(name)
            else:
                rows = rows.assign(**{name: table[name].iloc[first].to_numpy()})
        return rows, differing

    @staticmethod
    def _one_per_input(
        target: str, values: np.ndarray, inputs: np.ndarray, count: int, table: pd.DataFrame
    ) -> np.ndarray:
        """The outcome of every input, which is the same in all of its rows."""
        outcome = np.full(count, np.nan)
        outcome[inputs] = values
        same = (outcome[inputs] == values) | (np.isnan(outcome[inputs]) & np.isnan(values))
        if not same.all():
            raise ParameterError(
                f"the target {target!r} must be the same for all members of an input, and is not "
                f"in {line_of(table, int((~same).argmax()))}; inputs are told apart by their other "
                "columns"
            )
        return outcome

    def _places(
        self, table: pd.DataFrame
    ) -> tuple[tuple[np.ndarray, ...], tuple[int, ...], pd.DataFrame]:
        """The place of every row in (members, inputs, [draws]), its shape, one row per input."""
        import pandas as pd

        inner = [codes_of(table, name) for name in (self.member, self.sample) if name is not None]
        if self.keys:
            inputs = combined([codes_of(table, name, missing=True) for name in self.keys])
            _, first = np.unique(inputs, return_index=True)
            rows = table[self.keys].iloc[first].reset_index(drop=True)
        else:
            alike = pd.Series(combined(inner))
            inputs = alike.groupby(alike).cumcount().to_numpy()
            rows = pd.DataFrame({"input": np.arange(inputs.max() + 1)})
        (members, count), *draws = inner
        axes = (members, inputs, *(codes for codes, _ in draws))
        shape = (count, len(rows), *(kinds for _, kinds in draws))
        return axes, shape, rows
