"""All forms, best first: the first one that applies to a problem is its plan.

Those after it are for entries in which it loses digits.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from kuq.distributions.atoms import LowRanks, NormalInverseGammas, Normals, Points, Products
from kuq.distributions.laws import worst_method
from kuq.errors import NoClosedFormError, ParameterError
from kuq.forms.clipped import Clipped
from kuq.forms.distances import Distances
from kuq.forms.distribution_functions import DistributionFunctions
from kuq.forms.evidential import (
    EvidentialEnergy,
    EvidentialLog,
    EvidentialMoments,
    EvidentialPairs,
    EvidentialScales,
)
from kuq.forms.exponential_draws import ExponentialDraws
from kuq.forms.form import Crossing, Form, Problem
from kuq.forms.fourier import Fourier
from kuq.forms.frequencies import Frequencies
from kuq.forms.gram import Gram
from kuq.forms.log_draws import LogDraws, LogTails
from kuq.forms.log_mixtures import LogMixtures, LogPanels
from kuq.forms.log_normals import LogLowRanks, LogNormals
from kuq.forms.matched_draws import MatchedDraws
from kuq.forms.mixture_functions import MixtureFunctions
from kuq.forms.moments import Moments
from kuq.forms.normal_fields import NormalFields
from kuq.forms.point_pairs import PointPairs
from kuq.forms.scalar_pairs import DrawPairs, ScalarPairs
from kuq.forms.scale_quadrature import OneScale, ScaleQuadrature
from kuq.forms.slices import Slices
from kuq.forms.sorted_draws import SortedDraws, Steps
from kuq.forms.spectral import Spectral

FORMS: tuple[Form, ...] = (
    EvidentialMoments(),
    EvidentialEnergy(),
    EvidentialPairs(),
    EvidentialScales(),
    EvidentialLog(),
    Moments(),
    Clipped(),
    SortedDraws(),
    Steps(),
    ExponentialDraws(),
    Fourier(),
    Slices(),
    Frequencies(),
    DrawPairs(),
    Distances(),
    Gram(),
    MatchedDraws(),
    PointPairs(),
    DistributionFunctions(),
    ScalarPairs(),
    MixtureFunctions(),
    NormalFields(),
    Spectral(),
    OneScale(),
    ScaleQuadrature(),
    LogNormals(),
    LogLowRanks(),
    LogPanels(),
    LogMixtures(),
    LogTails(),
    LogDraws(),
)

#: Forms that compare all pairs of draws.
_BY_PAIRS = (DrawPairs, Distances, Gram, MatchedDraws, PointPairs)

_NAMES: dict[type, str] = {
    Points: "point masses",
    Normals: "normals",
    LowRanks: "low-rank normals",
    Products: "products of mixtures",
    NormalInverseGammas: "evidential laws (NormalInverseGamma)",
}


class Plan(NamedTuple):
    """How a problem is solved."""

    #: the form, and those for entries in which it loses digits, best first
    forms: tuple[Form, ...]
    #: numbers that one batch entry touches at once
    scratch: int
    method: str
    #: draws and other members apart, if draws would be compared pair by pair because of the others
    apart: tuple[Problem, Problem] | None = None


@functools.lru_cache(maxsize=4096)
def plan(problem: Problem) -> Plan:
    """The first form that applies. Plans are remembered, so that a loop plans once."""
    forms = _applicable(problem)
    if problem.outnumbers_directions and isinstance(forms[0], _BY_PAIRS):
        raise _no_directions(problem)
    if not (problem.draws_beside_others and isinstance(forms[0], Crossing)):
        exact = problem.only(Points) and not forms[0].sampled
        method = "exact" if exact else forms[0].method
        return Plan(forms, forms[0].scratch(problem), method)
    apart = problem.of_groups(draws=True), problem.of_groups(draws=False)
    plans = [plan(subproblem) for subproblem in apart]
    method = worst_method(*(each.method for each in plans))
    return Plan(forms, max(each.scratch for each in plans), method, apart)


def _applicable(problem: Problem) -> tuple[Form, ...]:
    """A difference is not mended by another difference, and nothing by a sample."""
    forms: list[Form] = []
    for form in FORMS:
        mends = not forms or not (forms[-1].cancels(problem) and form.cancels(problem))
        mends = mends and not (forms and form.sampled)
        if mends and form.applies(problem):
            forms.append(form)
    if not forms:
        raise no_form(problem)
    return tuple(forms)


@functools.lru_cache(maxsize=4096)
def has_form(problem: Problem) -> bool:
    return any(form.applies(problem) for form in FORMS)


def no_form(problem: Problem) -> NoClosedFormError:
    kinds = sorted({_NAMES.get(group.kind, group.kind.__name__) for group in problem.groups})
    return NoClosedFormError(
        f"no exact or quadrature route for {problem.score!r} between {' and '.join(kinds)}; "
        "pass draws=2000, seed=0 to opt in to Monte Carlo"
    )


def _no_directions(problem: Problem) -> ParameterError:
    if not problem.numpy:
        return ParameterError(
            "directions need arrays on the CPU whose values can be read, and have no gradient; "
            "pass tensor.detach(), call outside of jit and grad, or leave directions out"
        )
    return ParameterError(
        f"no way by random directions for {problem.score!r}: there is one for Energy with beta=1 "
        "and for bounded kernels that are mixtures of Gaussian ones; leave directions out to "
        "compare all pairs of draws"
    )
