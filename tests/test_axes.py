"""Axes: every size is a different prime, and every result is compared with sums over atoms.

The brute force knows a law at one batch entry as a list of weighted normal atoms (weight, mean,
covariance), zero covariance for a draw, and the kernel's expectation between two of them.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from numpy.random import default_rng
from scipy.special import erf

import kuq

EVENT, COMPONENTS, MEMBERS, BATCH, DRAWS = (2,), 3, 5, (7, 11), 13
OTHER_DRAWS = (17, 19)
UNBIASED = (True, False, "members", "samples")
INDEX = list(np.ndindex(*BATCH))[::9]
SHAPE = (MEMBERS, *BATCH, *EVENT)
MEMBER_WEIGHTS = default_rng(21).uniform(0.5, 2.0, MEMBERS)
EVENT_WEIGHTS = np.array([0.7, 1.9])


def simplex(seed, *shape):
    weights = default_rng(seed).uniform(0.2, 1.0, size=shape)
    return weights / weights.sum(axis=-1, keepdims=True)


LOC, SCALE = default_rng(22).normal(size=SHAPE), default_rng(23).uniform(0.3, 1.2, size=SHAPE)
FACTOR, DIAG = (
    default_rng(24).normal(size=(*SHAPE, COMPONENTS)),
    default_rng(25).uniform(0.2, 1.0, size=SHAPE),
)
MIX, MIX_LOC, MIX_SCALE = (
    simplex(1, *SHAPE, COMPONENTS),
    default_rng(26).normal(size=(*SHAPE, COMPONENTS)),
    default_rng(27).uniform(0.1, 1.0, size=(*SHAPE, COMPONENTS)),
)
VALUES = default_rng(28).normal(size=(MEMBERS, *BATCH, DRAWS, *EVENT))
DRAW_WEIGHTS = simplex(2, MEMBERS, *BATCH, DRAWS)
UNEVEN = [default_rng(n).normal(size=(*BATCH, n, *EVENT)) for n in OTHER_DRAWS]
UNEVEN_WEIGHTS = simplex(3, OTHER_DRAWS[1])


# What each family looks like at member m and batch entry i: (weights, means, covariances, drawn).


def normal_atoms(m, i):
    return np.ones(1), LOC[m][i][None], np.diag(SCALE[m][i] ** 2)[None], False


def low_rank_atoms(m, i):
    covariance = FACTOR[m][i] @ FACTOR[m][i].T + np.diag(DIAG[m][i])
    return np.ones(1), LOC[m][i][None], covariance[None], False


def mixture_atoms(m, i):
    w, loc, scale = MIX[m][i], MIX_LOC[m][i], MIX_SCALE[m][i]
    combinations = list(itertools.product(range(COMPONENTS), repeat=EVENT[0]))
    rows = range(EVENT[0])
    weights = [np.prod(w[rows, c]) for c in combinations]
    means = [loc[rows, c] for c in combinations]
    covariances = [np.diag(scale[rows, c] ** 2) for c in combinations]
    return np.array(weights), np.array(means), np.array(covariances), False


def sample_atoms(m, i):
    return DRAW_WEIGHTS[m][i], VALUES[m][i], np.zeros((DRAWS, 2, 2)), True


def uneven_atoms(k, i):
    n = OTHER_DRAWS[k]
    weights = np.full(n, 1 / n) if k == 0 else UNEVEN_WEIGHTS
    return weights, UNEVEN[k][i], np.zeros((n, 2, 2)), True


def samples(**options):
    return kuq.Samples(VALUES, event_ndim=1, weights=DRAW_WEIGHTS, **options)


MIXED = [
    kuq.Normal(LOC[0], SCALE[0], event_ndim=1),
    kuq.Samples(UNEVEN[0], event_ndim=1),
    kuq.Samples(UNEVEN[1], event_ndim=1, weights=UNEVEN_WEIGHTS),
    kuq.NormalMixture(MIX[1], MIX_LOC[1], MIX_SCALE[1], event_ndim=1),
    kuq.Samples(VALUES[2], event_ndim=1, weights=DRAW_WEIGHTS[2]),
]
MIXED_ATOMS = [
    lambda i: normal_atoms(0, i),
    lambda i: uneven_atoms(0, i),
    lambda i: uneven_atoms(1, i),
    lambda i: mixture_atoms(1, i),
    lambda i: sample_atoms(2, i),
]
FAMILIES = {
    "normal": (kuq.Normal(LOC, SCALE, event_ndim=1), normal_atoms),
    "mixture": (kuq.NormalMixture(MIX, MIX_LOC, MIX_SCALE, event_ndim=1), mixture_atoms),
    "low-rank": (kuq.LowRankNormal(LOC, FACTOR, DIAG), low_rank_atoms),
    "samples": (samples(), sample_atoms),
    "mixed": (MIXED, lambda m, i: MIXED_ATOMS[m](i)),
}


# Expectations of kernels between two normal atoms, from the gap (…, d) of their means and the
# sum (…, d, d) of their covariances.


def squared(gap, covariance, bandwidth):
    return (gap**2).sum(axis=-1) + np.trace(covariance, axis1=-2, axis2=-1)


def gaussian(gap, covariance, bandwidth):
    inner = np.eye(gap.shape[-1]) + 2 * covariance / bandwidth**2
    exponent = (gap * np.linalg.solve(inner, gap[..., None])[..., 0]).sum(axis=-1) / bandwidth**2
    return -(np.linalg.det(inner) ** -0.5) * np.exp(-exponent)


def energy(gap, covariance, bandwidth):
    """‖δ‖ for draws; E|N(δ, v)| for scalar normals."""
    delta = np.sqrt((gap**2).sum(axis=-1))
    v = covariance[..., 0, 0]
    assert gap.shape[-1] == 1 or not v.any()
    safe = np.where(v > 0, v, 1.0)
    spread = np.sqrt(2 * safe / np.pi) * np.exp(-(delta**2) / (2 * safe))
    return np.where(v > 0, spread + delta * erf(delta / np.sqrt(2 * safe)), delta)


def double_sum(k, p, q, bandwidth):
    """Σ w_i v_j E k(X_i, Y_j) over all pairs of atoms."""
    (w, x, s, _), (v, y, t, _) = p, q
    values = k(x[:, None] - y[None, :], s[:, None] + t[None, :], bandwidth)
    return w @ values @ v


def decomposed(k, laws, member_weights, bandwidth):
    """AU and EU for every setting of unbiased, from the matrix of all expectations."""
    size = len(laws)
    a = np.array([[double_sum(k, p, q, bandwidth) for q in laws] for p in laws])
    diagonal = k(np.zeros_like(laws[0][1][0]), np.zeros_like(laws[0][2][0]), bandwidth)
    m = member_weights / member_weights.sum()
    out = {}
    for unbiased in UNBIASED:
        self_a = np.diag(a).copy()
        if unbiased in (True, "samples"):
            for i, (w, _, _, drawn) in enumerate(laws):
                if drawn:  # leave out the pairs of a draw with itself
                    self_a[i] = (a[i, i] - (w**2).sum() * diagonal) / (1 - (w**2).sum())
        eu = sum(
            m[i] * m[j] * (a[i, j] - self_a[i] / 2 - self_a[j] / 2)
            for i in range(size)
            for j in range(size)
            if i != j
        )
        if unbiased in (True, "members"):
            eu /= sum(m[i] * m[j] for i in range(size) for j in range(size) if i != j)
        out[unbiased] = (m @ (self_a - diagonal) / 2, eu)
    return out


def coordinate(law, j):
    w, means, covariances, drawn = law
    return w, means[:, j : j + 1], covariances[:, j : j + 1, j : j + 1], drawn


def stretched(law, weights):
    """Σ w_j (x_j − y_j)² is a distance of stretched coordinates."""
    root = np.sqrt(weights)
    w, means, covariances, drawn = law
    return w, means * root, covariances * np.outer(root, root), drawn


def check(name, score, expected, settings=UNBIASED):
    """decompose under every setting against expected(laws) at chosen batch entries."""
    members, atoms = FAMILIES[name]
    prediction = kuq.Ensemble(members, weights=MEMBER_WEIGHTS)
    assert prediction.batch_shape == BATCH
    results = {u: kuq.decompose(prediction, score, unbiased=u) for u in settings}
    for i in INDEX:
        wanted = expected([atoms(m, i) for m in range(MEMBERS)], i)
        for unbiased, u in results.items():
            au, eu = wanted[unbiased]
            np.testing.assert_allclose(u.aleatoric[i], au, rtol=1e-9)
            np.testing.assert_allclose(u.epistemic[i], eu, rtol=1e-7, atol=1e-12)
    return results


families = pytest.mark.parametrize("name", FAMILIES)
BANDWIDTHS = {
    "number": np.float64(1.3),
    "last axis": default_rng(29).uniform(0.5, 2.0, size=BATCH[1:]),
    "first axis": default_rng(30).uniform(0.5, 2.0, size=(BATCH[0], 1)),
    "batch": default_rng(31).uniform(0.5, 2.0, size=BATCH),
}


@families
@pytest.mark.parametrize("width", BANDWIDTHS)
def test_joint_gaussian_with_bandwidths_over_the_batch(name, width):
    bandwidth = BANDWIDTHS[width]
    full = np.broadcast_to(bandwidth, BATCH)
    score = kuq.Gaussian(float(bandwidth) if bandwidth.ndim == 0 else bandwidth)
    check(name, score, lambda laws, i: decomposed(gaussian, laws, MEMBER_WEIGHTS, full[i]))


@families
def test_joint_kernels_with_event_weights(name):
    for score, k in (
        (kuq.Gaussian(1.1, weights=EVENT_WEIGHTS), gaussian),
        (kuq.SquaredError(weights=EVENT_WEIGHTS), squared),
    ):
        check(
            name,
            score,
            lambda laws, i, k=k: decomposed(
                k, [stretched(p, EVENT_WEIGHTS) for p in laws], MEMBER_WEIGHTS, 1.1
            ),
        )


MARGINAL = {
    "batch and event": (
        kuq.Gaussian,
        gaussian,
        default_rng(32).uniform(0.5, 2.0, size=(*BATCH, *EVENT)),
    ),
    "event": (kuq.Gaussian, gaussian, default_rng(33).uniform(0.5, 2.0, size=EVENT)),
    "none": (lambda bandwidth: kuq.Energy(), energy, np.ones(EVENT)),
}


@functools.cache
def per_coordinate(name, width, i):
    """The decomposition of every coordinate by itself."""
    _, k, bandwidth = MARGINAL[width]
    full = np.broadcast_to(bandwidth, (*BATCH, *EVENT))[i]
    laws = [FAMILIES[name][1](m, i) for m in range(MEMBERS)]
    return [
        decomposed(k, [coordinate(p, j) for p in laws], MEMBER_WEIGHTS, full[j])
        for j in range(EVENT[0])
    ]


def reduced(parts, reduce, weights):
    w = np.ones(EVENT) if weights is None else weights
    scale = 1.0 if reduce == "sum" else 1 / w.sum()
    return {
        u: tuple(scale * sum(w[j] * parts[j][u][n] for j in range(EVENT[0])) for n in range(2))
        for u in UNBIASED
    }


@families
@pytest.mark.parametrize("width", MARGINAL)
def test_marginal_kernels_reduce_the_event(name, width):
    maker, _, bandwidth = MARGINAL[width]
    for reduce, weights in itertools.product(("mean", "sum"), (None, EVENT_WEIGHTS)):
        score = kuq.Marginal(maker(bandwidth), reduce=reduce, weights=weights)
        check(
            name,
            score,
            lambda _, i, r=reduce, w=weights: reduced(per_coordinate(name, width, i), r, w),
            settings=UNBIASED if reduce == "mean" and weights is not None else (True,),
        )


@families
@pytest.mark.parametrize("width", MARGINAL)
def test_marginal_map_over_the_event(name, width):
    maker, _, bandwidth = MARGINAL[width]
    prediction = kuq.Ensemble(FAMILIES[name][0], weights=MEMBER_WEIGHTS)
    score = kuq.Marginal(maker(bandwidth), reduce=None)
    for unbiased in UNBIASED:
        u = kuq.decompose(prediction, score, unbiased=unbiased)
        assert u.total.shape == (*BATCH, *EVENT)
        for i, j in itertools.product(INDEX, range(EVENT[0])):
            au, eu = per_coordinate(name, width, i)[j][unbiased]
            np.testing.assert_allclose(u.aleatoric[(*i, j)], au, rtol=1e-9)
            np.testing.assert_allclose(u.epistemic[(*i, j)], eu, rtol=1e-7, atol=1e-12)


def test_energy_of_draws():
    for weights in (None, EVENT_WEIGHTS):
        w = np.ones(2) if weights is None else weights
        check(
            "samples",
            kuq.Energy(weights=weights),
            lambda laws, i, w=w: decomposed(
                energy, [stretched(p, w) for p in laws], MEMBER_WEIGHTS, 1.0
            ),
        )


@pytest.mark.parametrize("axis", range(4))
def test_sample_axis(axis):
    moved = np.moveaxis(VALUES, 3, axis)
    for named in (axis, axis - VALUES.ndim):
        law = kuq.Samples(moved, event_ndim=1, sample_axis=named, weights=DRAW_WEIGHTS)
        assert (law.batch_shape, law.draw_count) == ((MEMBERS, *BATCH), DRAWS)
        u = kuq.decompose(kuq.Ensemble(law), kuq.Energy())
        np.testing.assert_array_equal(
            u.epistemic, kuq.decompose(kuq.Ensemble(samples()), kuq.Energy()).epistemic
        )


@families
def test_entropies_divergences_scores_and_matrix(name):
    members, atoms = FAMILIES[name]
    prediction = kuq.Ensemble(members, weights=MEMBER_WEIGHTS)
    width = BANDWIDTHS["batch"]
    score, y = kuq.Gaussian(width), default_rng(4).normal(size=(*BATCH, *EVENT))
    matrix = kuq.member_divergences(prediction, score, unbiased=False)
    assert matrix.shape == (MEMBERS, MEMBERS, *BATCH)
    p, q = prediction.member_list()[:2]
    results = {
        "h": kuq.entropy(p, score, unbiased=False),
        "d": kuq.divergence(p, q, score, unbiased=False),
        "a": kuq.expected_kernel(p, q, score),
        "s": kuq.score(p, y, score, unbiased=False),
        "s̄": kuq.score(prediction, y, score, unbiased=False),
    }
    m = MEMBER_WEIGHTS / MEMBER_WEIGHTS.sum()
    for i in INDEX:
        laws = [atoms(j, i) for j in range(MEMBERS)]
        point = (np.ones(1), y[i][None], np.zeros((1, 2, 2)), False)
        a = np.array([[double_sum(gaussian, s, t, width[i]) for t in laws] for s in laws])
        b = np.array([double_sum(gaussian, s, point, width[i]) for s in laws])
        d = a - np.diag(a)[:, None] / 2 - np.diag(a)[None, :] / 2
        np.testing.assert_allclose(matrix[(..., *i)], d, rtol=1e-8, atol=1e-13)
        wanted = {
            "h": (1 + a[0, 0]) / 2,
            "d": d[0, 1],
            "a": a[0, 1],
            "s": b[0] - a[0, 0] / 2 + 0.5,
            "s̄": m @ b - m @ a @ m / 2 + 0.5,
        }
        for key, value in wanted.items():
            np.testing.assert_allclose(results[key][i], value, rtol=1e-8, err_msg=key)


def test_listed_members_are_groups_of_one_and_no_copies():
    laws = [kuq.Samples(values, event_ndim=1) for values in VALUES[:2]]
    laws.append(kuq.Normal(LOC[2], SCALE[2], event_ndim=1))
    listed = kuq.Ensemble(laws)
    assert [group.batch_shape for group in listed.groups] == [(1, *BATCH)] * 3
    assert [type(law) for law in listed.members] == [type(law) for law in laws]
    pairs = zip(listed.groups, laws, strict=True)
    assert all(np.shares_memory(group.reference, law.reference) for group, law in pairs)
    assert kuq.Ensemble(kuq.Normal(LOC, SCALE, event_ndim=1)).members.loc is LOC
