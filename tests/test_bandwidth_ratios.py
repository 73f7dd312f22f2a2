"""Laws in several dimensions from a millionth to a million bandwidths wide, against mpmath.

The Gaussian kernel at scale t has closed affinities φ(t) = E exp(−t‖X−Y‖²); the other kernels
are integrals of it over log t with a known density. Equal means are the hard case: the term of
order t cancels, and what is left is smaller by the square of the ratio.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
from cases import DISTRIBUTIONS, KERNELS, moved
from high_precision import exact, mp, mpf

import kuq

RATIOS = (1e-6, 1e-3, 1e6)
PLACE = np.array([0.3, -0.2, 0.5])
FACTORS = [np.array([[0.5], [0.8], [-0.3]]), np.array([[0.4], [0.7], [0.2]])]
DIAGS = [np.array([0.5, 0.3, 0.8]), np.array([0.6, 0.9, 0.4])]
MIX = [
    (np.array([0.4, 0.6]), np.array([0.6, -0.4]), np.array([0.5, 0.9])),
    (np.array([0.5, 0.5]), np.array([-0.8, 0.8]), np.array([0.7, 0.4])),
]  # both with mean zero


def normal_law(side, shift, c):
    scale = np.sqrt(DIAGS[side]) * c
    loc = (PLACE + shift) * c
    return kuq.Normal(loc, scale, event_ndim=1), ("normal", loc, scale**2, np.zeros((3, 0)))


def low_rank_law(side, shift, c):
    loc, factor, diag = (PLACE + shift) * c, FACTORS[side] * c, DIAGS[side] * c * c
    return kuq.LowRankNormal(loc, factor, diag), ("normal", loc, diag, factor)


def point_law(side, shift, c):
    loc = (PLACE + shift) * c
    return kuq.Point(loc, event_ndim=1), ("normal", loc, np.zeros(3), np.zeros((3, 0)))


def mixture_law(side, shift, c):
    weights, loc, scale = MIX[side]
    loc = np.stack([(x + shift + loc) * c for x in PLACE])
    weights, scale = np.broadcast_to(weights, loc.shape), np.broadcast_to(scale * c, loc.shape)
    return kuq.NormalMixture(weights, loc, scale, event_ndim=1), ("mixture", weights, loc, scale)


def components(law):
    """A law with independent coordinates as (weight, mean, variance) per coordinate."""
    if law[0] == "mixture":
        _, weights, loc, scale = law
        return [
            [(exact(w), exact(m), exact(s) ** 2) for w, m, s in zip(*rows, strict=True)]
            for rows in zip(weights, loc, scale, strict=True)
        ]
    return [[(mpf(1), exact(m), exact(v))] for m, v in zip(law[1], law[2], strict=True)]


def covariance(law):
    _, _, diag, factor = law
    u = mp.matrix([[exact(x) for x in row] or [0] for row in factor])
    return u * u.T + mp.diag([exact(v) for v in diag])


def affinity_of(p, q):
    """φ(t) for a pair of laws."""
    if "mixture" in (p[0], q[0]):
        pairs = [
            [(w * v, (m - n) ** 2, s + t) for w, m, s in a for v, n, t in b]
            for a, b in zip(components(p), components(q), strict=True)
        ]
    else:
        values, vectors = mp.eigsy(covariance(p) + covariance(q))
        gap = [exact(a) - exact(b) for a, b in zip(p[1], q[1], strict=True)]
        pairs = [
            [(mpf(1), sum(vectors[i, k] * gap[i] for i in range(3)) ** 2, values[k])]
            for k in range(3)
        ]

    def affinity(t):
        return mp.fprod(
            sum(w * mp.exp(-t * g / (1 + 2 * t * v)) / mp.sqrt(1 + 2 * t * v) for w, g, v in rows)
            for rows in pairs
        )

    return affinity


def divergence_at(p, q):
    cross, self_p, self_q = affinity_of(p, q), affinity_of(p, p), affinity_of(q, q)
    return lambda t: self_p(t) / 2 + self_q(t) / 2 - cross(t)


def over_scales(density, low, high):
    """∫ density(v) g(e^v) dv by the trapezoid rule."""
    nodes = [mpf(n) * 2 / 5 for n in range(int(low * 2.5), int(high * 2.5))]
    weights = [density(v) * 2 / 5 for v in nodes]
    return lambda g: sum(w * g(mp.exp(v)) for w, v in zip(weights, nodes, strict=True))


def _gamma_density(u):
    """The density of log G for G of shape 3/2."""
    return mp.exp(mpf(3) / 2 * u - mp.exp(u)) / mp.gamma(mpf(3) / 2)


MEASURES = {
    "gaussian": (kuq.Gaussian(1.0), lambda g: g(mpf(1))),
    "rational": (
        kuq.RationalQuadratic(1.0, 1.3),  # t follows the gamma law of shape 1.3
        over_scales(lambda v: mp.exp(mpf(1.3) * v - mp.exp(v)) / mp.gamma(1.3), -50, 5),
    ),
    "matern": (
        kuq.Matern(1.0, 1.5),  # 3/(4t) follows the gamma law of shape 3/2
        over_scales(lambda v: _gamma_density(mp.log(mpf(3) / 4) - v), -6, 50),
    ),
}
LAWS = {"normal": normal_law, "low-rank": low_rank_law, "mixture": mixture_law, "point": point_law}
PAIRS = [
    ("normal", "normal"), ("low-rank", "low-rank"), ("mixture", "mixture"), ("low-rank", "normal"),
    ("mixture", "normal"), ("point", "normal"), ("point", "low-rank"), ("point", "mixture"),
]  # fmt: skip


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("shift", [0.0, 0.4], ids=["equal means", "two means"])
@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_divergences_at_extreme_ratios(left, right, shift, measure):
    score, integrate = MEASURES[measure]
    for c in RATIOS:
        if "mixture" in (left, right) and shift == 0 and c == 1e-6:
            continue  # sums over components cancel: some 1e-4 is what is left of it
        (p, p_parts), (q, q_parts) = LAWS[left](0, 0.0, c), LAWS[right](1, shift, c)
        expected = float(integrate(divergence_at(p_parts, q_parts)))
        d = float(kuq.divergence(p, q, score))
        np.testing.assert_allclose(d, expected, rtol=1e-6, err_msg=f"ratio {c}")


def side_by_side(laws):
    """Laws with a member axis as one law, along a new batch axis."""
    out = copy.copy(laws[0])
    for name in out.parameters:
        arrays = [getattr(law, name) for law in laws]
        setattr(out, name, None if arrays[0] is None else np.stack(arrays, axis=1))
    return out


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("law", [c for c in DISTRIBUTIONS if c.name != "student"], ids=str)
def test_results_do_not_depend_on_the_batch(kernel, law):
    """Entries of a batch are measured as if they were alone, whatever stands beside them."""
    members = law.build(np.random.default_rng(9), (2,), (2,))
    alone = [moved(members, factor=2.0**k) for k in (-30, -20, -10, 0, 10, 20, 30)]
    score = kernel.build(1.0)
    together = kuq.decompose(kuq.Ensemble(side_by_side(alone)), score, unbiased=False)
    one_by_one = [kuq.decompose(kuq.Ensemble(x), score, unbiased=False) for x in alone]
    for part in ("aleatoric", "epistemic"):
        np.testing.assert_allclose(together[part], [u[part] for u in one_by_one], rtol=1e-8)
