"""Evidential laws: population values of a normal-inverse-gamma law, with no members to sample."""

from __future__ import annotations

import math
from typing import final

import numpy as np

from kuq._array import Array, detach, epsilon, is_traced, namespace
from kuq._compiled import twin
from kuq.distributions.atoms import NormalInverseGammas
from kuq.distributions.gamma_grid import TRACED_DF
from kuq.distributions.laws import Stack
from kuq.expectations import evidential
from kuq.expectations.scales import integrate
from kuq.forms.form import Form, Measure, Problem, Statistics
from kuq.kernels.base import ScaleMixture
from kuq.kernels.energy import Energy
from kuq.kernels.gaussian import Gaussian
from kuq.kernels.squared_error import SquaredError


class Evidential(Form):
    """Forms for laws over members: AU in place of entropies, pairwise EU as the dispersion."""

    def scratch(self, problem: Problem) -> int:
        return 8 * problem.dimension


def _parameters(stack: Stack) -> tuple[Array, Array, Array]:
    """nu, alpha, beta, (n, d)."""
    (law,) = stack.groups
    assert isinstance(law.atoms, NormalInverseGammas)
    nu, alpha, beta = (a[0, :, 0, :] for a in (law.atoms.nu, law.atoms.alpha, law.atoms.beta))
    return nu, alpha, beta


def _summed(aleatoric: Array, epistemic: Array) -> Statistics:
    """Over independent coordinates."""
    xp = namespace(aleatoric)
    return Statistics(xp.sum(aleatoric, axis=-1)[None, :], xp.sum(epistemic, axis=-1))


@final
class EvidentialMoments(Evidential):
    """The squared error."""

    def applies(self, problem: Problem) -> bool:
        return problem.only(NormalInverseGammas) and isinstance(problem.score, SquaredError)

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        return _summed(*evidential.squared(*_parameters(stack)))


@final
class EvidentialEnergy(Evidential):
    """|x − y|^β on the line."""

    def applies(self, problem: Problem) -> bool:
        line = problem.only(NormalInverseGammas) and problem.dimension == 1
        return line and isinstance(problem.score, Energy)

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        kernel = measure.kernel
        assert isinstance(kernel, Energy)
        return _summed(*evidential.energy(*_parameters(stack), kernel.beta))


@final
class EvidentialLog(Evidential):
    """The log score."""

    def applies(self, problem: Problem) -> bool:
        return problem.only(NormalInverseGammas) and problem.local

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        aleatoric, pairwise, information = evidential.log(*_parameters(stack))
        mixed = measure.question.kind == "mixture"
        return _summed(aleatoric, 2 * information if mixed else pairwise)


@final
class EvidentialPairs(Evidential):
    """The Gaussian kernel in compiled code, by pairs of nodes for the precision."""

    method = "quadrature"

    def applies(self, problem: Problem) -> bool:
        gaussian = isinstance(problem.score, Gaussian)
        return problem.compiled and gaussian and problem.only(NormalInverseGammas)

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        nu, alpha, beta = _parameters(stack)
        width = np.broadcast_to(np.asarray(measure.bandwidth), nu.shape[:1])[:, None]
        deviation = 2 * np.sqrt(beta / alpha)  # squares of widths may leave the range of floats
        with np.errstate(over="ignore", under="ignore"):
            x = (deviation / width) ** 2
        flat = (np.ascontiguousarray(a).ravel() for a in (x, nu, alpha))
        coordinates = twin("forms.evidential").coordinates(*flat, measure.rtol)
        lack, f1, gap = (a.reshape(nu.shape) for a in coordinates)
        lost = np.isnan(gap)
        lack, f1, gap = (np.where(lost, 0.5, a) for a in (lack, f1, gap))
        log_f1 = np.where(lack < 0.5, np.log1p(-np.minimum(lack, 0.5)), np.log(f1))
        parts = evidential.of_coordinates(log_f1, np.minimum(gap / f1, 1 - epsilon(f1)))
        return Statistics(parts.aleatoric[None, :], parts.epistemic, lost.any(axis=-1))


@final
class EvidentialScales(Evidential):
    """Radial kernels: at the scale of the Gaussian kernel, or integrated over scales."""

    method = "quadrature"

    def applies(self, problem: Problem) -> bool:
        radial = isinstance(problem.score, (Gaussian, ScaleMixture))
        return problem.only(NormalInverseGammas) and radial

    def scratch(self, problem: Problem) -> int:
        # One scale is computed with two at the end of the table, for the powers beyond it.
        nodes = 3 if isinstance(problem.score, Gaussian) else _NODES
        return evidential.core_size(_RTOL) * nodes * problem.dimension

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        nu, alpha, beta = _parameters(stack)
        kernel, bandwidth, rtol = measure.kernel, measure.bandwidth, measure.rtol
        if isinstance(kernel, Gaussian):
            assert bandwidth is not None
            t = namespace(nu).broadcast_to(1 / bandwidth / bandwidth, nu.shape[:-1])
            parts = evidential.at_scale(t[None, ...], nu, alpha, beta, rtol)
            return Statistics(parts.aleatoric, parts.epistemic[0])
        assert isinstance(kernel, ScaleMixture)
        both = _over_scales(kernel, nu, alpha, beta, bandwidth, rtol)
        return Statistics(both[:1], both[1])


#: What sizes of temporaries are reckoned by: the accuracy, and scales at once.
_RTOL, _NODES = 1e-8, 14


def _over_scales(
    kernel: ScaleMixture, nu: Array, alpha: Array, beta: Array, bandwidth: Array | None, rtol: float
) -> Array:
    """AU and EU, (2, n)."""
    xp = namespace(nu)
    degree = kernel.degree or 0.0
    heavy, alone = _heavy_coordinates(nu, alpha, beta, degree)
    measure = evidential.at_scales(nu, alpha, beta, rtol / 10, heavy)

    def at_scale(t: Array) -> tuple[Array, Array]:
        parts = measure(t[:, 0, ...])
        both = xp.stack([parts.aleatoric, parts.epistemic], axis=1)
        return both, xp.stack([parts.rest, parts.rest], axis=1)

    unit = xp.sum(beta * (1 + 1 / nu) / alpha, axis=-1)
    unit = xp.stack([unit, unit])
    smallest = xp.min(beta / (alpha + 1), axis=-1) / 40
    heaviest = xp.min(alpha, axis=-1)
    both = alone + integrate(
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
    return both


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
    uncertainties = evidential.energy(nu, safe, beta, degree)
    return heavy, xp.stack([xp.sum(heavy * uncertainty, axis=-1) for uncertainty in uncertainties])


def _order(heaviest: Array, degree: float) -> float:
    """The power with which the integrand starts, next to t and t²."""
    if is_traced(heaviest):
        lowest = (degree or TRACED_DF) / 2
    else:
        lowest = float(namespace(heaviest).min(detach(heaviest)))
    return min(2 * max(lowest, degree / 2), 1 + degree / 2) if degree else lowest
