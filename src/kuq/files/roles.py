"""What names in a file mean: parameters of laws, members, draws, weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kuq.errors import ParameterError

#: The usual names of parameters, first the one that kuq uses.
ALIASES: dict[str, tuple[str, ...]] = {
    "loc": ("loc", "mean", "mu", "location", "gamma"),
    "scale": ("scale", "std", "sigma", "sd", "stddev", "stdev", "std_dev"),
    "variance": ("variance", "var", "sigma2"),
    "samples": ("samples", "sample", "draws", "values", "value"),
    "points": ("points", "point", "predictions", "prediction", "forecast", "y_pred"),
    "df": ("df", "dof", "degrees_of_freedom"),
    "nu": ("nu", "kappa"),
    "alpha": ("alpha",),
    "beta": ("beta",),
    "mixture": ("mixture_weights", "component_weights", "pi"),
    "weights": ("weights", "weight", "member_weights"),
}
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
    """Names that a caller gives where those in the file are not the usual ones."""

    loc: str | None = None
    scale: str | None = None
    samples: str | None = None
    points: str | None = None
    weights: str | None = None

    def given(self) -> dict[str, str]:
        """Role to name, of those that were given."""
        return {role: name for role, name in vars(self).items() if name is not None}


def find_law(available: Iterable[str], names: Names) -> tuple[str, dict[str, str]]:
    """The law that a file holds, and its parameters: role to name."""
    available = list(available)
    roles = _given(available, names)
    explicit = {role for role in roles if role != "weights"}
    for role, aliases in ALIASES.items():
        if role in roles:
            continue
        lowered = {name.lower(): name for name in available if name not in roles.values()}
        found = next((lowered[alias] for alias in aliases if alias in lowered), None)
        if found is not None:
            roles[role] = found
    if "variance" in roles and "scale" not in roles:
        roles["scale"] = roles["variance"]
    for law, needed in LAWS.items():
        if explicit and not explicit <= set(needed):
            continue
        if set(needed) <= set(roles):
            kept = {role: roles[role] for role in needed}
            if "weights" in roles:
                kept["weights"] = roles["weights"]
            return law, kept
    shown = ", ".join(map(repr, available[:12])) + (", …" if len(available) > 12 else "")
    raise ParameterError(
        f"no prediction was found among {shown or 'nothing'}; expected {LAYOUT}; other names can "
        "be given with --loc and --scale, --samples or --points"
    )


def is_variance(role: str, name: str) -> bool:
    """Whether what serves as a scale is a variance."""
    return role == "scale" and name.lower() in ALIASES["variance"]


def as_parameter(role: str, name: str, values: np.ndarray) -> np.ndarray:
    """The values of a parameter; a variance that serves as a scale becomes one."""
    if not is_variance(role, name):
        return values
    if np.any(values < 0):
        raise ParameterError(f"{name!r} is a variance and must not be negative")
    return np.asarray(np.sqrt(values))


def _given(available: list[str], names: Names) -> dict[str, str]:
    roles = names.given()
    for role, name in roles.items():
        if name not in available:
            raise ParameterError(
                f"--{role} {name}: there is no such name; the file holds "
                f"{', '.join(map(repr, available[:12]))}"
            )
    return roles
