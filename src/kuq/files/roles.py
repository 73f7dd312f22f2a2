"""What names in a file mean: parameters of laws, members, draws, weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kuq.adapters.parameter_names import ALIASES, is_spread, role_of
from kuq.errors import ParameterError

MEMBERS = ("member", "realization", "number", "ensemble", "model", "tree")
DRAWS = ("sample", "draw")

#: Which parameters make which law, most particular first.
LAWS: dict[str, tuple[str, ...]] = {
    "evidential": ("loc", "nu", "alpha", "beta"),
    "mixture": ("mixture", "loc", "scale"),
    "student": ("df", "loc", "scale"),
    "normal": ("loc", "scale"),
    "samples": ("samples",),
    "points": ("points",),
}
LAYOUT = (
    "loc and scale (or mean and std, mu and sigma) for normals; samples or draws for draws; "
    "predictions for point predictions; df, loc and scale for Student's t; mixture_weights, loc "
    "and scale for mixtures; loc, nu, alpha and beta for evidential predictions"
)


@dataclass(frozen=True)
class Names:
    """Names that a caller gives where those in the file are not the usual ones.

    In a table with a row per input, and for several variables of a grid, they are patterns such
    as ``Model {} mean`` or ``RF*``, or lists: ``a,b,c``.
    """

    loc: str | None = None
    scale: str | None = None
    samples: str | None = None
    points: str | None = None
    weights: str | None = None

    def given(self) -> dict[str, str]:
        """Role to name, of those that were given."""
        return {role: name for role, name in vars(self).items() if name is not None}


def find_law(
    available: Iterable[str], names: Names, shown: Iterable[str] | None = None
) -> tuple[str, dict[str, str]]:
    """The law that a file holds, and its parameters: role to name.

    An error shows ``shown``, by default what is available.
    Where names leave a choice (``mean`` and ``mu``, ``std`` and ``variance``, draws beside means
    and standard deviations), it is refused: what is not used would be dropped without a word.
    """
    available = list(available)
    given = _given(available, names)
    by_role = _by_role(available, given)
    present = set(by_role)
    if "variance" in present:
        present.add("scale")
    explicit = set(given) - {"weights"}
    complete = [
        law for law, needed in LAWS.items() if set(needed) <= present and not explicit - set(needed)
    ]
    if not complete:
        raise ParameterError(
            f"no prediction was found among {listed(shown or available) or 'nothing'}; expected "
            f"{LAYOUT}; other names can be given with --loc and --scale, --samples or --points"
        )
    law = complete[0]
    if not explicit:
        _check_other_laws(complete, by_role)
    roles = {}
    for role in (*LAWS[law], *(["weights"] if "weights" in by_role else [])):
        candidates = by_role.get(role, [])
        if role == "scale" and role not in given:
            candidates = [*candidates, *by_role.get("variance", [])]
        if len(candidates) > 1:
            raise ParameterError(
                f"{listed(candidates)} may each be the {role} of the predictions; remove all but "
                f"one{f', or say which: --{role} {candidates[0]}' if hasattr(names, role) else ''}"
            )
        roles[role] = candidates[0]
    if law == "evidential" and "weights" in roles:
        raise ParameterError(
            f"{roles['weights']!r}: evidential predictions have no members to weigh; remove it"
        )
    _check_spread(law, roles, available, explicit)
    return law, roles


def listed(names: Iterable[Any]) -> str:
    """Names for an error, the first of very many."""
    shown = [repr(str(name)) for name in names]
    return ", ".join(shown[:12]) + (", …" if len(shown) > 12 else "")


def _by_role(available: list[str], given: dict[str, str]) -> dict[str, list[str]]:
    by_role: dict[str, list[str]] = {}
    for name in available:
        role = role_of(name)
        if role is not None and role not in given and name not in given.values():
            by_role.setdefault(role, []).append(name)
    return by_role | {role: [name] for role, name in given.items()}


def _check_other_laws(complete: list[str], by_role: dict[str, list[str]]) -> None:
    """Parameters, draws and points beside each other: which are meant has to be said."""
    kinds = {law if law in ("samples", "points") else "loc": law for law in reversed(complete)}
    if len(kinds) > 1:
        options = {option: by_role[option][0] for option in kinds}
        raise ParameterError(
            f"{listed(options.values())} may each be the prediction ({', '.join(kinds.values())}); "
            "say which is meant: "
            + " or ".join(f"--{option} {name}" for option, name in options.items())
        )


def _check_spread(
    law: str, roles: dict[str, str], available: list[str], explicit: set[str]
) -> None:
    """A spread beside points or draws, or one that is not the scale of its law."""
    if law in ("points", "samples") and not explicit:
        for name in available:
            if name not in roles.values() and is_spread(name):
                used = roles[law]
                raise ParameterError(
                    f"{name!r} beside {used!r} says how far predictions spread and would be left "
                    f"out; if it is a standard deviation, say --loc {used} --scale {name}; if "
                    f"{used!r} holds {'draws' if law == 'samples' else 'point predictions'}, say "
                    f"--{law} {used}"
                )
    if law == "student" and "scale" not in explicit:
        check_student_scale(roles["scale"], roles["scale"])


def check_student_scale(name: str, column: str) -> None:
    """Refuse a spread that may be the standard deviation of Student's t instead of its scale."""
    if name.lower() not in ("scale", "sigma"):
        raise ParameterError(
            f"{column!r} may be the scale of Student's t or its standard deviation, which is "
            "larger; it has to be the scale: call it so, or name it with --scale"
        )


def is_variance(role: str, name: str) -> bool:
    """Whether what serves as a scale is a variance."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    return role == "scale" and not set(ALIASES["variance"]).isdisjoint(words)


def as_parameter(role: str, name: str, values: np.ndarray) -> np.ndarray:
    """The values of a parameter; a variance that serves as a scale becomes one."""
    return as_scale(name, values) if is_variance(role, name) else values


#: What the values of a parameter have to be beyond finite: a bound, and whether it is allowed.
_BOUNDS = {
    "scale": (0.0, True),
    "weights": (0.0, True),
    "df": (0.0, False),
    "nu": (0.0, False),
    "alpha": (0.0, False),
    "beta": (0.0, False),
}


#: What leaving out means where members are missing.
BY_OTHER_MEMBERS = "decomposes them by the members that are there"


def check_values(
    role: str,
    name: str,
    values: np.ndarray,
    nan_policy: str,
    place: Callable[[int], str],
    of_fields: bool = False,
    some_members: bool = False,
) -> None:
    """Refuse numbers that no parameter can have, and say where they stand.

    ``place`` says for a position in the flat values where that is in the file; ``of_fields``
    whether outcomes have cells, of which some may be masked; ``some_members`` whether members may
    lack at some inputs.
    """
    missing = np.isnan(values).ravel()
    if missing.any() and (nan_policy == "raise" or role == "weights"):
        count = int(missing.sum())
        more = f" and {count - 1} more" if count > 1 else ""
        cells = "leaves out cells that are missing in every prediction, and " if of_fields else ""
        advice = (
            "" if role == "weights" else f"; --nan propagate {cells}gives such inputs no result"
        )
        if role == "samples":
            advice += ", --nan omit leaves missing draws out"
        elif advice and some_members:
            advice += f", --nan omit {BY_OTHER_MEMBERS}"
        raise ParameterError(
            f"{name!r} must be finite, and is missing (NaN) in {place(int(missing.argmax()))}{more}"
            + advice
        )
    infinite = np.isinf(values).ravel()
    if infinite.any():
        raise ParameterError(
            f"{name!r} must be finite, and is infinite in {place(int(infinite.argmax()))}"
        )
    if role in _BOUNDS:
        bound, allowed = _BOUNDS[role]
        wrong = ((values < bound) if allowed else (values <= bound)).ravel()
        if wrong.any():
            at = int(wrong.argmax())
            limit = "≥ 0" if allowed else "positive"
            what = "variance" if is_variance(role, name) else role
            raise ParameterError(
                f"{name!r} is the {what} of predictions and must be {limit}, got "
                f"{values.ravel()[at]:g} in {place(at)}"
            )


def as_scale(name: str, values: np.ndarray) -> np.ndarray:
    """Standard deviations of variances."""
    if np.any(values < 0):
        raise ParameterError(f"{name!r} is a variance and must not be negative")
    return np.asarray(np.sqrt(values))


def as_doubles(name: str, values: np.ndarray) -> np.ndarray:
    """Real numbers of any type in double precision, in which everything is computed."""
    if values.dtype.kind not in "fiub":
        raise ParameterError(f"{name!r} must hold real numbers, got dtype {values.dtype}")
    if values.dtype.kind == "f" and values.dtype.itemsize > 8:
        raise ParameterError(
            f"{name!r} has {values.dtype}, of more than double precision, which means something "
            "else on every machine; save it as float64"
        )
    return np.asarray(values, dtype=np.float64)


def _given(available: list[str], names: Names) -> dict[str, str]:
    roles = names.given()
    for role, name in roles.items():
        if name not in available:
            raise ParameterError(
                f"--{role} {name}: there is no such name; the file holds {listed(available)}"
            )
    return roles
