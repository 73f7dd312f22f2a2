"""Low-rank normals with zeros in their diagonal under the log score: singular or not."""

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import kuq

torch = pytest.importorskip("torch")

LOG = kuq.LogScore()
DIAGONALS = {
    "none": [0.5, 1.0, 2.0, 1.0],
    "one": [0.0, 1.0, 2.0, 1.0],
    "two": [0.0, 0.3, 0.0, 1.0],
}


def law(rank, names=tuple(DIAGONALS), seed=0):
    rng = np.random.default_rng(seed)
    diag = np.asarray([DIAGONALS[name] for name in names])
    shape = diag.shape
    return rng.normal(size=shape), rng.normal(size=(*shape, rank)), diag


def dense(factor, diag):
    return factor @ factor.swapaxes(-1, -2) + diag[..., None] * np.eye(diag.shape[-1])


@pytest.mark.parametrize("rank", [2, 3, 7])
def test_entropy_and_density_of_mixed_batches(rank):
    loc, factor, diag = law(rank)
    y = np.random.default_rng(1).normal(size=loc.shape)
    p = kuq.LowRankNormal(loc, factor, diag)
    full = [multivariate_normal(m, s) for m, s in zip(loc, dense(factor, diag), strict=True)]
    np.testing.assert_allclose(kuq.entropy(p, LOG), [q.entropy() for q in full], rtol=1e-10)
    want = [-q.logpdf(x) for q, x in zip(full, y, strict=True)]
    np.testing.assert_allclose(kuq.score(p, y, LOG), want, rtol=1e-9)


@pytest.mark.parametrize("rank", [2, 6])
def test_divergence(rank):
    (a, u, s), (b, v, t) = law(rank), law(rank, seed=2)
    p, q = kuq.LowRankNormal(a, u, s), kuq.LowRankNormal(b, v, t)
    want = []
    for m, left, k, right in zip(a, dense(u, s), b, dense(v, t), strict=True):
        ratio = np.linalg.solve(left, right)
        gap = (m - k) @ np.linalg.solve(left, m - k)
        want.append((np.trace(ratio) - 4 - np.linalg.slogdet(ratio)[1] + gap) / 2)
    np.testing.assert_allclose(kuq.divergence(p, q, LOG), want, rtol=1e-9)
    np.testing.assert_allclose(kuq.divergence(p, p, LOG), 0.0, atol=1e-12)


def test_too_many_zeros_are_singular():
    loc, factor, _ = law(2)
    p = kuq.LowRankNormal(loc, factor, np.asarray([0.0, 0.0, 0.0, 1.0]))
    np.testing.assert_array_equal(kuq.entropy(p, LOG), -math.inf)
    np.testing.assert_array_equal(kuq.score(p, loc + 1.0, LOG), math.inf)


def test_dependent_rows_are_singular():
    factor = np.asarray([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    p = kuq.LowRankNormal(np.zeros(3), factor, np.asarray([0.0, 0.0, 1.0]))
    assert kuq.entropy(p, LOG) == -math.inf


def test_gradients_with_equal_eigenvalues():
    factor = torch.eye(3, dtype=torch.float64).requires_grad_()
    p = kuq.LowRankNormal(torch.zeros(3, dtype=torch.float64), factor, torch.zeros(3))
    kuq.entropy(p, LOG).backward()
    np.testing.assert_allclose(factor.grad.numpy(), np.eye(3), atol=1e-12)


def test_very_many_dimensions_are_refused():
    factor, diag = np.ones((600, 2)), np.ones(600)
    diag[0] = 0.0
    with pytest.raises(kuq.NoClosedFormError, match="at most 512 dimensions"):
        kuq.entropy(kuq.LowRankNormal(np.zeros(600), factor, diag), LOG)
