"""Normal-inverse-gamma laws: population values, with no members to sample."""

from __future__ import annotations

import math

from kuq._array import Array, constants, detach, is_traced, namespace, power_of_two, widen
from kuq._threads import in_threads
from kuq.distributions.evidential import NormalInverseGamma
from kuq.distributions.gamma_grid import TRACED_DF
from kuq.driver import in_units, threads_for
from kuq.expectations import evidential
from kuq.expectations.scales import integrate
from kuq.kernels.base import Kernel, MarginalStage, ScaleMixture, Term
from kuq.kernels.energy import Energy
from kuq.kernels.gaussian import Gaussian
from kuq.kernels.squared_error import SquaredError
from kuq.kernels.transforms import Select
from kuq.scores.options import Options
from kuq.tiles import pieces
from kuq.views import evidential_view, finished, flat_bandwidth, no_route


def has_route(term: Term) -> bool:
    plain = all(isinstance(stage, (MarginalStage, Select)) for stage in term.stages)
    return plain and isinstance(term.kernel, (Gaussian, ScaleMixture, SquaredError))


def method(term: Term, prediction: NormalInverseGamma) -> str:
    scalar = evidential_view(prediction, term)[1][0].shape[-1] == 1
    closed = isinstance(term.kernel, SquaredError) or (isinstance(term.kernel, Energy) and scalar)
    return "exact" if closed else "quadrature"


def decompose(prediction: NormalInverseGamma, term: Term, options: Options) -> tuple[Array, Array]:
    """Aleatoric and pairwise epistemic uncertainty of one term, reduced over the event."""
    if not has_route(term):
        raise no_route(prediction, term)
    v, (nu, alpha, beta) = evidential_view(prediction, term)
    xp = namespace(nu)
    flat = [xp.reshape(x, (math.prod(v.shape), x.shape[-1])) for x in (nu, alpha, beta)]
    bandwidth = flat_bandwidth(term.kernel, v.shape, v.marginal is not None, nu)
    budget = options.budget(nu)
    if math.prod(v.shape) == 0:
        empty = finished(xp.reshape(nu, (-1,))[:0], v)
        return empty, empty
    cost = evidential.core_size(options.rtol) * 14 * nu.shape[-1]

    def tile(part: slice) -> tuple[Array, Array]:
        width = bandwidth
        if bandwidth is not None and not isinstance(bandwidth, float):
            width = widen(bandwidth[part])
        nu, alpha, beta = (widen(x[part]) for x in flat)
        return _term(term, nu, alpha, beta, width, options.rtol)

    count = flat[0].shape[0]
    parts = in_threads(tile, pieces(count, cost, budget, nu), threads_for(count * cost, nu))
    both = [xp.concat(list(column)) * term.factor for column in zip(*parts, strict=True)]
    return finished(both[0], v), finished(both[1], v)


def _term(
    term: Term, nu: Array, alpha: Array, beta: Array, bandwidth: Array | float | None, rtol: float
) -> tuple[Array, Array]:
    kernel = term.kernel
    xp = namespace(nu)
    if isinstance(kernel, SquaredError):
        au, eu = evidential.squared(nu, alpha, beta)
        return xp.sum(au, axis=-1), xp.sum(eu, axis=-1)
    if isinstance(kernel, Energy) and nu.shape[-1] == 1:
        au, eu = evidential.energy(nu, alpha, beta, kernel.beta)
        return au[..., 0], eu[..., 0]
    return _radial(kernel, nu, alpha, beta, bandwidth, rtol)


def _radial(
    kernel: Kernel,
    nu: Array,
    alpha: Array,
    beta: Array,
    bandwidth: Array | float | None,
    rtol: float,
) -> tuple[Array, Array]:
    """Both parts at the scale of the Gaussian kernel, or integrated over scales."""
    xp = namespace(nu)
    if isinstance(bandwidth, float):
        bandwidth = constants([bandwidth], nu)
    degree = kernel.card.homogeneous_degree or 0.0
    # In units of the data, or squares would leave the range of floats.
    unit = power_of_two(xp.sqrt(detach(xp.max(beta / alpha, axis=-1))))
    beta = beta / unit[..., None] / unit[..., None]
    if bandwidth is not None:
        bandwidth = in_units(bandwidth, unit)
    both = _in_units_of_beta(kernel, nu, alpha, beta, bandwidth, rtol, degree)
    if degree:
        scale = xp.pow(unit, xp.full_like(unit, degree))
        both = (both[0] * scale, both[1] * scale)
    return both


def _in_units_of_beta(
    kernel: Kernel,
    nu: Array,
    alpha: Array,
    beta: Array,
    bandwidth: Array | None,
    rtol: float,
    degree: float,
) -> tuple[Array, Array]:
    xp = namespace(nu)
    if isinstance(kernel, Gaussian):
        assert bandwidth is not None
        t = xp.broadcast_to(1 / bandwidth / bandwidth, nu.shape[:-1])
        parts = evidential.at_scale(t[None, ...], nu, alpha, beta, rtol)
        return parts.aleatoric[0], parts.epistemic[0]
    assert isinstance(kernel, ScaleMixture)

    heavy, known = _heavy_coordinates(nu, alpha, beta, degree)
    measure = evidential.at_scales(nu, alpha, beta, rtol / 10, heavy)

    def at_scale(t: Array) -> tuple[Array, Array]:
        parts = measure(t[:, 0, ...])
        both = xp.stack([parts.aleatoric, parts.epistemic], axis=1)
        return both, xp.stack([parts.rest, parts.rest], axis=1)

    unit = xp.sum(beta * (1 + 1 / nu) / alpha, axis=-1)
    unit = xp.stack([unit, unit])
    smallest = xp.min(beta / (alpha + 1), axis=-1) / 40
    heaviest = xp.min(alpha, axis=-1)
    both = known + integrate(
        kernel,
        at_scale,
        unit,
        xp.broadcast_to(smallest, unit.shape),
        bandwidth,
        rtol,
        order=_order(heaviest, degree),
    )
    if degree:
        exists = heaviest > degree / 2
        both = xp.where(exists, both, xp.full_like(both, math.inf))
    return both[0], both[1]


def _heavy_coordinates(
    nu: Array, alpha: Array, beta: Array, degree: float
) -> tuple[Array | None, Array | float]:
    """Coordinates close to the pole of the energy kernel, and what they have by themselves.

    Both parts are t^alpha for small t, which the kernel's t^(−degree/2) hardly lets converge.
    Sums over coordinates are known in closed form, and what is left of them is t^(2·alpha).
    """
    if not degree:
        return None, 0.0
    xp = namespace(nu)
    heavy = xp.astype((alpha < 1 + degree / 2) & (alpha > degree / 2), alpha.dtype)
    safe = xp.where(heavy > 0, alpha, xp.full_like(alpha, 2.0))
    parts = evidential.energy(nu, safe, beta, degree)
    return heavy, xp.stack([xp.sum(heavy * part, axis=-1) for part in parts])


def _order(heaviest: Array, degree: float) -> float:
    """The power with which the integrand starts, next to t and t²."""
    if degree:
        lowest = (
            degree / 2 if is_traced(heaviest) else float(namespace(heaviest).min(detach(heaviest)))
        )
        return min(2 * max(lowest, degree / 2), 1 + degree / 2)
    return (
        TRACED_DF / 2 if is_traced(heaviest) else float(namespace(heaviest).min(detach(heaviest)))
    )
