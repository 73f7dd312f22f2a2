"""All forms, best first: the first one that applies to a problem is its plan.

Those after it are for entries in which it loses digits.
"""

from __future__ import annotations

import functools

from kuq.distributions.atoms import LowRanks, Normals, Points, Products
from kuq.errors import NoClosedFormError
from kuq.forms.clipped import Clipped
from kuq.forms.distances import Distances
from kuq.forms.distribution_functions import DistributionFunctions
from kuq.forms.exponential_draws import ExponentialDraws
from kuq.forms.form import Form, Problem
from kuq.forms.fourier import Fourier
from kuq.forms.gram import Gram
from kuq.forms.matched_draws import MatchedDraws
from kuq.forms.mixture_functions import MixtureFunctions
from kuq.forms.moments import Moments
from kuq.forms.normal_fields import NormalFields
from kuq.forms.point_pairs import PointPairs
from kuq.forms.scalar_pairs import DrawPairs, ScalarPairs
from kuq.forms.scale_quadrature import OneScale, ScaleQuadrature
from kuq.forms.sorted_draws import FewDraws, SortedDraws, Steps

FORMS: tuple[Form, ...] = (
    Moments(),
    Clipped(),
    FewDraws(),
    SortedDraws(),
    Steps(),
    ExponentialDraws(),
    Fourier(),
    DrawPairs(),
    Distances(),
    Gram(),
    MatchedDraws(),
    PointPairs(),
    DistributionFunctions(),
    ScalarPairs(),
    MixtureFunctions(),
    NormalFields(),
    OneScale(),
    ScaleQuadrature(),
)

_NAMES: dict[type, str] = {
    Points: "point masses",
    Normals: "normals",
    LowRanks: "low-rank normals",
    Products: "products of mixtures",
}


@functools.lru_cache(maxsize=4096)
def plan(problem: Problem) -> tuple[Form, ...]:
    """The form for a problem, and those for entries in which it loses digits, best first.

    A difference is not mended by another difference. Plans are remembered, so that a loop plans
    once.
    """
    found: list[Form] = []
    for form in FORMS:
        mends = not found or not (found[-1].cancels(problem) and form.cancels(problem))
        if mends and form.applies(problem):
            found.append(form)
    if not found:
        raise no_form(problem)
    return tuple(found)


def no_form(problem: Problem) -> NoClosedFormError:
    kinds = sorted({_NAMES.get(group.kind, group.kind.__name__) for group in problem.groups})
    return NoClosedFormError(
        f"no exact or quadrature route for {problem.score!r} between {' and '.join(kinds)}; "
        "pass draws=2000, seed=0 to opt in to Monte Carlo"
    )
