"""Scratch memory is a tile, not a table of all pairs: fields of 4070 cells fit."""

import tracemalloc

import numpy as np
import pytest

import kuq

MIB = 2**20
M, D = 10, 4070


def fields(n):
    rng = np.random.default_rng(0)
    return rng.normal(size=(M, n, D)), rng.uniform(0.5, 1.5, size=(M, n, D))


def measured(build, score, **options):
    """The result, and the peak of what was allocated on top of it, in bytes."""
    kuq.decompose(build(), score, **options)  # loads compiled code, which stays
    tracemalloc.start()
    try:
        u = kuq.decompose(build(), score, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return u, peak - sum(value.nbytes for value in u.values())


def of_normals(n):
    loc, scale = fields(n)
    return lambda: kuq.Ensemble(kuq.Normal(loc, scale, event_ndim=1))


SCORES = {
    "crps-map": kuq.CRPS(None),
    "crps": kuq.CRPS(),
    "gaussian": kuq.Gaussian(60.0),
    "squared": kuq.SquaredError(),
    "log": kuq.LogScore(),
    "energy": kuq.Energy(),
}


# The energy score is slow: at n = 2 a table of its nodes and pairs would take 0.3 GiB.
@pytest.mark.parametrize(
    ("name", "n"), [("crps-map", 100), ("gaussian", 100), ("squared", 100), ("energy", 2)]
)
def test_extra_memory_is_bounded(name, n):
    score = SCORES[name]
    u, extra = measured(of_normals(n), score)
    assert u.total.shape == ((n, D) if name == "crps-map" else (n,))
    # One number for each pair of members and each cell would take 140 MiB at n = 100.
    assert extra < 64 * MIB


@pytest.mark.parametrize("name", ["crps", "gaussian", "squared", "log"])
def test_no_temporary_is_as_large_as_the_input(name):
    n = 20
    _, extra = measured(of_normals(n), SCORES[name], max_memory=4 * MIB)
    assert extra < M * n * D * 8  # 6.2 MiB


def test_budget_is_kept():
    build = of_normals(20)
    extra, totals = {}, []
    for budget in (2, 8, 64):
        with kuq.compiled(False):  # compiled code needs less, whatever the budget
            u, extra[budget] = measured(build, kuq.Gaussian(60.0), max_memory=budget * MIB)
        totals.append(u.total)
        assert extra[budget] < budget * MIB
    assert extra[2] < extra[8]  # beyond that the cache sets the size
    for total in totals[1:]:  # the same numbers, however the work is cut
        np.testing.assert_allclose(total, totals[0], rtol=1e-12)


def test_draws_are_compared_in_tiles():
    values = np.random.default_rng(1).normal(size=(M, 2, 60, 8))
    pairs = (M * 60) ** 2 * 8 * 8  # bytes of all differences at one input: 22 MiB

    def build():
        return kuq.Ensemble(kuq.Samples(values, event_ndim=1))

    for score in (kuq.Gaussian(3.0), kuq.Laplace(3.0)):
        wide, most = measured(build, score)
        tight, least = measured(build, score, max_memory=MIB)
        assert most < 64 * MIB
        assert least < pairs / 4
        np.testing.assert_allclose(tight.total, wide.total, rtol=1e-12)


def test_scalar_draws_are_sorted_not_paired():
    values = np.random.default_rng(2).normal(size=(M, 3, 5000))
    u, extra = measured(lambda: kuq.Ensemble(kuq.Samples(values)), kuq.CRPS())
    assert u.total.shape == (3,)
    assert extra < 64 * MIB  # all pairs of draws at one input alone would take 19 GiB


def test_long_scalar_batch_is_cut():
    """What is held beside the results does not grow with the square of the members."""
    loc = np.random.default_rng(3).normal(size=(M, 60_000))
    u, extra = measured(lambda: kuq.Ensemble(kuq.Normal(loc, 1.0)), kuq.CRPS(), max_memory=8 * MIB)
    assert u.total.shape == (60_000,)
    assert extra < 2 * loc.nbytes  # all pairs would take nine times as much in one temporary


def test_median_bandwidth_of_very_many_outcomes():
    loc = np.random.default_rng(2).normal(size=(M, 300_000))
    members = kuq.Normal(loc, np.ones_like(loc))
    u, extra = measured(lambda: kuq.Ensemble(members), kuq.Gaussian("median"))
    assert extra < 64 * MIB  # distances of all pairs of members would take 103 MiB
    some = kuq.Ensemble(kuq.Normal(loc[:, :5000], 1.0))
    wanted = kuq.decompose(some, kuq.Gaussian("median")).score.bandwidth
    assert u.score.bandwidth == pytest.approx(wanted, rel=0.01)
