"""The Matérn kernel."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from kuq._array import Array, Namespace, from_numpy, safe_sqrt
from kuq._special import gammainc
from kuq.kernels import log_gamma_law
from kuq.kernels.base import Bounded, ScaleMixture
from kuq.kernels.parameters import check_number


@final
@dataclass(frozen=True, eq=False, repr=False)
class Matern(Bounded, ScaleMixture):
    """The kernel −2^(1−ν)/Γ(ν)·z^ν K_ν(z) with z = √(2ν)‖x − y‖/bandwidth.

    Strictly proper and bounded; ν = ½ is the Laplace kernel, and larger ν is smoother. Closed
    form in the distance for half-integer ν, quadrature for other ν and for normals.
    ``bandwidth`` is a number, an array over the batch, or "median".
    ``nu`` is the smoothness.
    ``weights`` over the event make its norm a weighted one, such as by area.

    >>> import kuq
    >>> float(kuq.divergence(kuq.Point(0.0), kuq.Point(1.0), kuq.Matern(1.0, 0.5)))  # 1 − 1/e
    0.6321205588285577
    """

    bandwidth: Any
    nu: float = 1.5
    weights: Array | None = None

    def __post_init__(self) -> None:
        check_number(self, "nu", 0.0, math.inf)
        super().__post_init__()

    @property
    def formula(self) -> str:
        return f"-Matern_{self.nu:g}(|x-y|/g)"

    def profile(self, s: Array, xp: Namespace) -> Array:
        order = self.nu - 0.5
        if order == int(order) and order <= 10:
            return _half_integer_profile(safe_sqrt(2 * self.nu * s), int(order), xp)
        rates, weights = _profile_rule(self.nu)
        s = xp.clip(s, max=float(xp.finfo(s.dtype).max) ** 0.45)  # there the kernel is zero
        decay = -xp.expm1(-s[..., None] * from_numpy(rates, s))
        return xp.sum(decay * from_numpy(weights, s), axis=-1)

    def log_density(self, v: np.ndarray) -> np.ndarray:
        # ν / (2 t·bandwidth²) follows the gamma law of shape ν.
        return log_gamma_law.log_density(self.nu, math.log(self.nu / 2) - v)


def _half_integer_profile(z: Array, order: int, xp: Namespace) -> Array:
    """1 − e^{−z} Σ c_k z^k with c_k ≤ 1/k!, split so that every term is positive."""
    value = gammainc(float(order + 1), z)
    for k in range(2, order + 1):
        ratio = math.prod(2.0 * (order - i) / (2 * order - i) for i in range(k))
        value = value + (1 - ratio) / math.factorial(k) * z**k * xp.exp(-z)
    return value


@functools.cache
def _profile_rule(nu: float) -> tuple[np.ndarray, np.ndarray]:
    """Rates and weights of 1 − e^{−rate·s}: the kernel's own scale mixture, to rounding."""
    step = 0.3 / max(1.0, math.sqrt(nu))
    middle = math.log(nu)
    # A wide law reaches far to the left; a narrow one ends after so many of its widths.
    low = max(min(-40.0 / nu - 5.0, middle), middle - 20 / math.sqrt(nu) - 60 / nu)
    log_g = np.arange(low, math.log(nu + 40 + 10 * math.sqrt(nu)), step)
    weights = step * np.exp(log_gamma_law.log_density(nu, log_g))
    keep = weights > 1e-17
    return np.exp(math.log(nu / 2) - log_g)[keep], weights[keep]
