"""|x − y| between clipped mixtures: the threshold-weighted CRPS, from distribution functions.

H = ∫ F(1−F) and D = ∫ (F−G)² over [low, high], by Gauss-Legendre rules on pieces that are short
against the scale of every component that bends in them. Both integrands are ≥ 0 and computed
without cancellation, so that close members and far tails keep their digits.
"""

from __future__ import annotations

import numpy as np

from kuq._array import Array, namespace
from kuq._special import ndtr
from kuq.distributions.clipped import ClippedMixtures
from kuq.expectations.relative_entropy import panels

#: Of the rule on a piece.
_POINTS = 16
#: Ends of pieces above a centre, in scales; the first are for a centre inside the interval,
_FROM_CENTRE = (2.5, 5.5, 9.0)
#: and these for one beyond, where a tail decays faster than its scale.
_FROM_BOUND = (0.4, 1.6, 6.0)


def entropy(p: ClippedMixtures) -> Array:
    """H of every atom, (lead…, A), for scalar outcomes."""
    nodes, weights = _rule(p)
    below, above = _masses(p, nodes)
    return namespace(nodes).sum(weights * below * above, axis=-1)[..., 0]


def divergence(p: ClippedMixtures, q: ClippedMixtures) -> Array:
    """D of atoms that broadcast against each other, for scalar outcomes."""
    xp = namespace(p.loc)
    nodes, weights = _rule(p, q)
    (below_p, above_p), (below_q, above_q) = _masses(p, nodes), _masses(q, nodes)
    gap = xp.where(below_p + below_q > 1, above_q - above_p, below_p - below_q)
    return xp.sum(weights * gap * gap, axis=-1)[..., 0]


def _rule(*laws: ClippedMixtures) -> tuple[Array, Array]:
    """Nodes and weights on the part of the line where laws differ, (…, d, nodes) each."""
    xp = namespace(laws[0].loc)
    low, high = laws[0].low, laws[0].high
    for law in laws[1:]:
        low, high = xp.maximum(low, law.low), xp.minimum(high, law.high)
    ends = []
    for law in laws:
        ends.append(law.loc)
        for inside, beyond in zip(_FROM_CENTRE, _FROM_BOUND, strict=True):
            ends.append(xp.maximum(law.loc + inside * law.scale, low + beyond * law.scale))
            ends.append(xp.minimum(law.loc - inside * law.scale, high - beyond * law.scale))
    shape = np.broadcast_shapes(*(tuple(end.shape[:-1]) for end in ends))
    knots = xp.concat([xp.broadcast_to(end, (*shape, end.shape[-1])) for end in ends], axis=-1)
    return panels(xp.minimum(xp.maximum(knots, low), high), _POINTS)


def _masses(law: ClippedMixtures, x: Array) -> tuple[Array, Array]:
    """F and 1 − F at nodes, each accurate where it is small."""
    xp = namespace(x)
    x, loc, scale = x[..., None], law.loc[..., None, :], law.scale[..., None, :]
    gap = x - loc
    smooth = scale > 0
    steep = xp.where(gap > 0, xp.full_like(gap, 40.0), xp.full_like(gap, -40.0))
    z = xp.where(smooth, gap / xp.where(smooth, scale, xp.ones_like(scale)), steep)
    weights = law.weights[..., None, :]
    return xp.sum(weights * ndtr(z), axis=-1), xp.sum(weights * ndtr(-z), axis=-1)
