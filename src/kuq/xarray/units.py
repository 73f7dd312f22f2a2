"""Whether two quantities stand in one unit, by their attributes ``units``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import xarray as xr

import kuq

#: Other spellings of some units, without underscores, in small letters where case says nothing.
_SPELLINGS = {
    "K": ("kelvin", "kelvins", "degk", "degkelvin", "degreekelvin", "degreeskelvin"),
    "°C": (
        *("c", "degc", "°c", "celsius", "degcelsius", "degreec", "degreesc", "degreecelsius"),
        *("degreescelsius", "centigrade"),
    ),
    "°F": ("degf", "°f", "fahrenheit", "degreef", "degreesf", "degreefahrenheit"),
    "m": ("meter", "meters", "metre", "metres"),
    "s": ("sec", "second", "seconds"),
    "h": ("hr", "hour", "hours"),
    "d": ("day", "days"),
    "g": ("gram", "grams", "gramme"),
    "kg": ("kilogram", "kilograms"),
    "Pa": ("pascal", "pascals"),
    "J": ("joule", "joules"),
    "W": ("watt", "watts"),
    "%": ("percent",),
    "°": ("degree", "degrees", "deg"),
}
_KNOWN = {other: unit for unit, others in _SPELLINGS.items() for other in others}
#: What units without a dimension are called.
_NONE = {"", "1", "-", "none", "dimensionless", "unitless", "fraction"}
#: A factor of a product, which may have a power: m, s-1, s**-1, m^2, s⁻¹.
_FACTOR = re.compile(r"([^\W\d]+|[%°][^\W\d]*)(?:\*\*|\^)?([+-]?\d+)?")
_RAISED = str.maketrans("⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹", "-+0123456789")


def check_units(one: str, first: Mapping[str, xr.DataArray], other: str, second: Any) -> None:
    """Refuse numbers in different units, which would be compared as if they were in one.

    ``first`` are the variables of a prediction, and ``second`` a variable or those of another.
    """
    units = [_units(given) for given in (first, second)]
    if None in units or _factors(str(units[0])) == _factors(str(units[1])):
        return
    raise kuq.ParameterError(
        f"{one} in {units[0]!r} and {other} in {units[1]!r} are not in one unit; convert one of "
        "them, or correct an attribute 'units' that is wrong"
    )


#: Parameters that stand in the unit of outcomes, or in its square.
_SPREADS = ("scale", "factor", "diag", "beta")


def check_spreads(variables: Mapping[str, xr.DataArray]) -> None:
    """Refuse parameters of a law that are not in the unit of its location, nor in its square."""
    loc = variables.get("loc")
    for name in _SPREADS:
        if loc is not None and name in variables:
            check_spread(loc, variables[name])


def check_spread(loc: xr.DataArray, spread: xr.DataArray) -> None:
    """Refuse a spread that is neither in the unit of the location nor in its square.

    Which of both is not asked, as xarray keeps attributes when numbers are squared. A difference
    of two temperatures in °C is one in K.
    """
    units = [_units(given) for given in (loc, spread)]
    if None in units:
        return
    of_loc, of_spread = (_as_difference(_factors(str(unit))) for unit in units)
    square = {u: 2 * power for u, power in of_loc.items()} if isinstance(of_loc, dict) else of_loc
    if of_spread not in (of_loc, square):
        raise kuq.ParameterError(
            f"{str(loc.name)!r} in {units[0]!r} and {str(spread.name)!r} in {units[1]!r} do not "
            "fit: a spread is in the unit of its location, or of its square; convert it, or "
            "correct an attribute 'units' that is wrong"
        )


def _as_difference(factors: Any) -> Any:
    if not isinstance(factors, dict):
        return factors
    return {"K" if unit == "°C" else unit: power for unit, power in factors.items()}


def located(variables: Mapping[str, xr.DataArray]) -> xr.DataArray | None:
    """The variable that stands in the unit of outcomes."""
    return next((v for name, v in variables.items() if name in ("loc", "value", "values")), None)


def _units(given: Mapping[str, xr.DataArray] | xr.DataArray) -> str | None:
    variable = given if isinstance(given, xr.DataArray) else located(given)
    unit = None if variable is None else variable.attrs.get("units")
    return unit if isinstance(unit, str) else None


def _factors(text: str) -> Any:
    """A product of units and their powers, however it is written; else the text as it is."""
    text = " ".join(text.split())
    if text.lower() in _NONE:
        return {}
    whole = _KNOWN.get(re.sub("[_ .]", "", text).lower())
    if whole is not None:
        return {whole: 1}
    powers: Counter[str] = Counter()
    flat = re.sub(r"(?<=[^\W\d])[.·*](?=[^\W\d])|(?<=\d)[.·](?=[^\W\d])", " ", text)
    above, *below = flat.translate(_RAISED).split("/")
    for sign, product in [(1, above), *((-1, product) for product in below)]:
        for factor in re.sub(r"\s*(\*\*|\^)\s*", r"\1", product).split():
            match = _FACTOR.fullmatch(factor.strip("()"))
            if match is not None:
                unit = _KNOWN.get(match[1].lower(), match[1])
                powers[unit] += sign * int(match[2] or 1)
            elif factor != "1":
                return text
    return {unit: power for unit, power in powers.items() if power}
