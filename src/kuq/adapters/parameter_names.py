"""What parameters of laws are usually called, in arrays, columns and variables."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
_ROLES = {alias: role for role, aliases in ALIASES.items() for alias in aliases}
#: Words of names that say how far something spreads; which measure of it, they leave open.
_SPREADS = {
    *("uncertainty", "uncertainties", "unc", "std", "stds", "sd", "stddev", "stdev", "sigma"),
    *("variance", "var", "scale", "spread", "error", "errors", "err", "stderr", "se", "sem"),
    *("ci", "lower", "upper", "noise", "precision", "logvar"),
}


def role_of(name: str) -> str | None:
    """The role of a usual name, whatever its case."""
    return _ROLES.get(name.lower())


def is_spread(name: str) -> bool:
    """Whether a name says how far something spreads, so that it cannot be a prediction itself."""
    return role_of(name) in ("scale", "variance") or not _SPREADS.isdisjoint(
        re.split(r"[^a-z]+", name.lower())
    )


def pairs(names: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Means and spreads of things by the ends of their names: t2m_mean and t2m_std of t2m.

    Thing -> role -> names; none where a name is that of a parameter by itself.

    >>> pairs(["t2m_mean", "t2m_std", "height"])
    {'t2m': {'loc': ['t2m_mean'], 'scale': ['t2m_std']}}
    """
    every = list(names)
    if any(role_of(name) not in (None, "weights") for name in every):
        return {}
    things: dict[str, dict[str, list[str]]] = {}
    for name in every:
        thing, _, last = name.rpartition("_")
        role = {"loc": "loc", "scale": "scale", "variance": "scale"}.get(role_of(last) or "")
        if thing and role is not None:
            things.setdefault(thing, {}).setdefault(role, []).append(name)
    return {thing: roles for thing, roles in things.items() if len(roles) == 2}
