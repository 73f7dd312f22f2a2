"""The Student-t as a finite scale mixture of normals: quadrature over its Gamma mixing law.

X = loc + scale·v^{1/2}·Z with v = a/G, G ~ Gamma(a, 1), a = df/2. In u = log(G/a) = -log v the
mixing density is proportional to exp(-a·(e^u - 1 - u)), and every f(v) that is asked for (powers,
Gaussian kernels) is analytic in the strip |Im u| < π/2, so a trapezoid rule in u converges
exponentially. What u lacks is an economic left tail, so the rule is a trapezoid rule in x,
u = s(df)·φ(x), with a shape φ that depends on the number of nodes only:

- right: e^u ends the density by itself; φ is linear there and s puts its first node at the cut.
- middle: φ(x) = (1 - e^{-ηx})/η widens the steps slowly, because the Gamma edge at u ≈ -log a
  needs half the step that the kernels' transitions on its left need (t ≥ 1e-8: u ≥ -18).
- left: the density times v^b decays as e^{(a-b)u} only, with a - b arbitrarily small. The term
  -e^{-γ(x+x₁)} turns this into double exponential decay and reaches u ≈ -2500 in a few nodes.
- large df: s ~ a^{-1/2}, the width of the law; the nodes of two laws are matched, node k varying
  smoothly with df.

The constants below minimise the largest error over df in [0.3, 1e8], moments with
df ≥ beta + 0.02, and Gaussian kernels with t in [1e-8, 1e8] up to 1000 scales from loc.

Between two laws of df < 2 the energy kernel sees more of the tail: scales of v count as v^(-df/2),
and all of them down to the tolerance have to be resolved. For these laws the middle is longer, by
as many nodes as the heaviest tail needs; the number of nodes says which.
"""

from __future__ import annotations

import math

import numpy as np

from kuq._array import Array, from_numpy, namespace
from kuq._special import exp_remainder

_RIGHT = 0.176  # share of the nodes right of the mode, u > 0
_CUT = 0.28  # right cut: density exp(-_CUT·K) or less
_LINEAR = 0.482  # share of the nodes left of the mode before the tail opens
_WIDEN = 0.8  # η·K
_REACH = 1.27  # the last node: φ ≈ -_REACH·K²
_RANGE = 0.85  # share of the exponent range that the squares of the factors may use
_NORMAL_DF = 1e20  # from here on the law is a normal in every digit; also takes df = inf

#: The heaviest tail that is accounted for where df cannot be read.
TRACED_DF = 0.3


#: The heaviest tails whose middle is resolved, and how many nodes more that takes, as a share of
#: the others. The remainder of the number of nodes tells which of them it is.
_TAILS = ((2.0, 0.0), (1.0, 0.8), (0.7, 1.3), (0.5, 2.0), (0.0, 3.5))


def node_count(rtol: float, lowest_df: float = math.inf) -> int:
    """The number of nodes for a relative error of about ``rtol``, whatever df ≥ 0.3.

    With ``lowest_df`` that holds for divergences under every energy kernel, too.
    """
    digits = -math.log10(min(max(rtol, 1e-15), 0.1))
    level = next(i for i, (df, _) in enumerate(_TAILS) if lowest_df >= df)
    nodes = math.ceil(max(7.7 * digits - 7.0, 8) * (1 + _TAILS[level][1]))
    return nodes + (level - nodes) % len(_TAILS)


def _usual(nodes: int) -> float:
    """How many of the nodes there would be without a longer middle."""
    return nodes / (1 + _TAILS[nodes % len(_TAILS)][1])


def _shape(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """φ at the nodes, in units of its first value, and log φ' (both depend on K only)."""
    usual = _usual(nodes)
    longer = nodes - usual
    right, linear, eta = _RIGHT * usual, _LINEAR * usual + longer, _WIDEN / (usual + longer / 2)
    gamma = math.log(_REACH * usual**2) / (nodes - 1 - right - linear)
    x = right - np.arange(nodes)
    widening, tail = np.exp(-eta * x), np.exp(-gamma * (x + linear))
    phi = (1.0 - widening) / eta - tail
    return phi / phi[0], np.log(widening + gamma * tail)


def _grid(df: Array, nodes: int) -> tuple[Array, Array]:
    """Log weights up to a constant, and log v, each of shape df.shape + (nodes,)."""
    xp = namespace(df)
    a = 0.5 * xp.where(df < _NORMAL_DF, df, xp.full_like(df, _NORMAL_DF))[..., None]
    phi, log_slope = _shape(nodes)
    q = _CUT * _usual(nodes) / a
    # Solves e^R - 1 - R ≥ q closely for small and for large q: the first node, at the right cut.
    cut = xp.log1p(xp.sqrt(2.0 * q) + q)
    u = cut * from_numpy(phi, df)
    return from_numpy(log_slope, df) - a * exp_remainder(u), -u


def scale_mixture(df: Array, nodes: int) -> tuple[Array, Array]:
    """Weights and factors with X ~ Σ_k weights_k N(loc, (scale·factors_k)²), X Student-t.

    Both have shape df.shape + (nodes,); the weights are at least zero and sum to one. The rule is
    exact to the tolerance of ``node_count`` for bounded analytic functions of the variance.

    The squares of the factors are finite in the dtype of df, at most e^L with L = 603 (float32:
    75), so a moment E|X|^beta loses its share exp(-(df - beta)/2·L) beyond; closer to the pole
    df = beta ``expectations.heavy_tails`` has closed forms.
    """
    xp = namespace(df)
    log_weights, log_v = _grid(df, nodes)
    weights = xp.exp(log_weights)
    # Clipped nodes keep their mass; the rest of the range is left to scales and sums of squares.
    largest = _RANGE * math.log(float(xp.finfo(df.dtype).max))
    factors = xp.exp(0.5 * xp.clip(log_v, max=largest))
    return weights / xp.sum(weights, axis=-1, keepdims=True), factors


def base_scale(df: Array, scale: Array) -> Array:
    """The scale of a Student-t law from those of the components that it was given here."""
    log_v = _grid(df, scale.shape[-1])[1]
    return scale[..., 0] * namespace(df).exp(-0.5 * log_v[..., 0])
