"""Normal-inverse-gamma laws under a Gaussian kernel: sums over pairs of nodes for the precision.

With G ~ Gamma(α), u = log(G/α), r = x e^(−u) and x = 4βt/α, the kernel exp(−t(x−y)²) is on average
(1 + r)^(−½) within a member, and (1 + (1 + 1/ν)(r + r')/2)^(−½) between two. Both are analytic in
|Im u| < π, the density exp(−α(e^u − 1 − u)) falls doubly exponentially on the right, and on the
left the averages no longer depend on u: few nodes of a trapezoid rule are enough. With A² = 1 + r,
B² = 1 + r', S² = A² + B², ρ = (r + r')/ν and T² = S² + ρ, what two members have between them is

    ½/A + ½/B − √2/S = (A − B)² ((A + B)² + 2AB) / (2AB·S·((A + B)·S + √8·AB))   and
    √2/S − √2/T = √2 ρ / (S·T·(S + T)),

all terms of which are ≥ 0; A − B is a difference of (A² − 1 − x)/(A + √(1 + x)).
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math

import numpy as np

from kuq._numba.compiling import Int, Real, inlined, inputs, kernel, outputs, reduction, spread
from kuq._numba.mathematics import exp

#: Laws whose window needs more nodes are left to another form.
_MOST = 192
#: Between these x no product of the sums leaves the range of floats.
_SMALLEST, _LARGEST = 1e-60, 1e30
_ROOT_2 = math.sqrt(2.0)


def coordinates(
    x: np.ndarray, nu: np.ndarray, alpha: np.ndarray, rtol: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """1 − F₁, F₁ and F₁ − F₂ (n,), x = 4βt/α; NaN for laws that need too many nodes."""
    n = x.size
    lack, within, gap = np.empty(n), np.empty(n), np.empty(n)

    def task(first: int, last: int) -> None:
        _coordinates(x, nu, alpha, math.log(1 / rtol) + 6, lack, within, gap, first, last)

    spread(task, n, 1000.0 * n)
    return lack, within, gap


@inlined
def _reach(q):
    """A solution w of e^(−w) − 1 + w ≥ q."""
    return q + min(1.0, math.sqrt(2.0 * q))


@inlined
def _window(x, alpha, digits):
    """The step of u and both ends."""
    q = digits / alpha
    # |Γ(α + iτ)| is less than Γ(α) exp(−digits) at the frequency τ = yα of the trapezoid rule.
    y = math.sqrt(2.0 * q) + q * (2.0 / math.pi)
    for _ in range(5):
        angle = math.atan(y)
        y -= (y * angle - 0.5 * math.log1p(y * y) - q) / angle
    right = math.log1p(math.sqrt(2.0 * q) + q)
    # From log x on leftwards nothing depends on u but by e^(u/2); or r² is the steepest of all.
    left = min(math.log(x), 0.0) - _reach(digits / (alpha + 0.5))
    if alpha > 2.0:
        left = max(left, -_reach((digits + 2.0) / (alpha - 2.0)))
    return 2.0 * math.pi / (y * alpha), left, right


@inlined
def _remainder(u):
    """e^u − 1 − u, relatively accurate."""
    if abs(u) > 0.1:
        return math.expm1(u) - u
    s = 1.0 / 479001600.0
    for n in (39916800.0, 3628800.0, 362880.0, 40320.0, 5040.0, 720.0, 120.0, 24.0, 6.0, 2.0):
        s = s * u + 1.0 / n
    return s * u * u


@reduction
def _pairs(i, w, r, root, offset, inverse_nu):
    """Σ_{j<i} of what i has with j."""
    root_i, offset_i, r_i = root[i], offset[i], r[i]
    total = 0.0
    for j in range(i):
        product, both = root_i * root[j], root_i + root[j]
        size = r_i + r[j]
        s = math.sqrt(size + 2.0)
        rho = size * inverse_nu
        t = math.sqrt(size + 2.0 + rho)
        apart = offset_i - offset[j]
        first = 2.0 * product * (both * s + (2.0 * _ROOT_2) * product)
        second = t * (s + t)
        spread_of_scale = apart * apart * (both * both + 2.0 * product)
        total += w[j] * ((spread_of_scale * second + _ROOT_2 * rho * first) / (s * first * second))
    return total


@kernel(*(inputs(1),) * 3, Real, *(outputs(1),) * 3, Int, Int)
def _coordinates(x, nu, alpha, digits, lack, within, gap, first, last):
    w, r, root, offset = np.empty(_MOST), np.empty(_MOST), np.empty(_MOST), np.empty(_MOST)
    for c in range(first, last):
        lack[c] = within[c] = gap[c] = math.nan
        if not (_SMALLEST < x[c] < _LARGEST and nu[c] > _SMALLEST):
            continue
        step, left, right = _window(x[c], alpha[c], digits)
        if not right - left < step * (_MOST - 2):
            continue
        count = math.ceil((right - left) / step) + 1
        centre = math.sqrt(1.0 + x[c])
        mass = 0.0
        for k in range(count):
            u = right - step * (count - 1 - k)
            w[k] = exp(-alpha[c] * _remainder(u))
            if k == 0:  # and all nodes left of it
                w[k] /= -math.expm1(-alpha[c] * step)
            mass += w[k]
            change = math.expm1(-u)
            r[k] = x[c] * (1.0 + change)
            root[k] = math.sqrt(1.0 + r[k])
            offset[k] = x[c] * change / (root[k] + centre)
        inverse_nu = 1.0 / nu[c]
        total = missing = rest = 0.0
        for i in range(count):
            w[i] /= mass
        for i in range(count):
            missing += w[i] * (r[i] / (root[i] * (1.0 + root[i])))
            rest += w[i] / root[i]
            rho = 2.0 * r[i] * inverse_nu
            s = _ROOT_2 * root[i]
            t = math.sqrt(s * s + rho)
            alone = _ROOT_2 * rho / (s * t * (s + t))
            total += w[i] * (w[i] * alone + 2.0 * _pairs(i, w, r, root, offset, inverse_nu))
        lack[c], within[c], gap[c] = missing, rest, total
