"""Draws of fields within ``max_memory``: blocks of pairs of draws, pieces of coordinates."""

import functools
import tracemalloc

import numpy as np
import pytest

import kuq

MIB = 2**20
BUDGET = 8 * MIB  # the least that is promised
MEMBERS, DRAWS, D = 27, 40, 1000  # 8.2 MiB; a table of all pairs of draws would take 8.9 MiB
SCORES = {
    "energy": kuq.Energy(),
    "gaussian": kuq.Gaussian(40.0),
    "laplace": kuq.Laplace(40.0),
    "squared": kuq.SquaredError(),
    "median": kuq.Gaussian("median"),
}


def members(kind, count=MEMBERS):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(count, 1, DRAWS, D))
    if kind == "weighted":
        weights = rng.dirichlet(np.ones(DRAWS), size=(count, 1))
        return kuq.Ensemble(kuq.Samples(values, event_ndim=1, weights=weights))
    if kind == "uneven":  # members of different numbers of draws
        return kuq.Ensemble(
            [kuq.Samples(x[:, m % 7 :], event_ndim=1) for m, x in enumerate(values)]
        )
    return kuq.Ensemble(kuq.Samples(values, event_ndim=1))


def one_law(shift):
    values = np.random.default_rng(1).normal(size=(1, MEMBERS * DRAWS, D)) + shift
    return kuq.Samples(values, event_ndim=1)


def extra(call):
    """The result, and the peak of what was allocated beside it, in bytes."""
    tracemalloc.start()
    try:
        found = call()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    arrays = found.values() if isinstance(found, kuq.Uncertainty) else [found]
    return found, peak - sum(array.nbytes for array in arrays)


FUNCTIONS = {
    "decompose": kuq.decompose,
    "entropy": kuq.entropy,
    "matrix": kuq.member_divergences,
    "score": lambda p, score, **options: kuq.score(p, np.zeros((1, D)), score, **options),
}


@functools.cache
def load_what_stays(function):
    """Code and tables that are kept after a first call are not of the call that is measured."""
    for kind in ("draws", "weighted", "uneven"):
        for score in SCORES.values():
            FUNCTIONS[function](members(kind, 3), score, max_memory=BUDGET)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("kind", ["draws", "weighted", "uneven"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_ensembles(name, kind, function):
    ensemble = members(kind)
    call = FUNCTIONS[function]
    load_what_stays(function)
    _, most = extra(lambda: call(ensemble, SCORES[name], max_memory=BUDGET))
    assert most < BUDGET


@pytest.mark.parametrize("name", SCORES)
def test_single_laws(name):
    p, q = one_law(0.0), one_law(0.1)
    for call in (
        lambda: kuq.entropy(p, SCORES[name], max_memory=BUDGET),
        lambda: kuq.divergence(p, q, SCORES[name], max_memory=BUDGET),
    ):
        call()
        assert extra(call)[1] < BUDGET


@pytest.mark.parametrize("kind", ["draws", "weighted", "uneven"])
def test_blocks_add_up(kind):
    """However the table is cut, and whichever parts of members a block holds."""
    ensemble = members(kind)
    whole = kuq.decompose(ensemble, kuq.Energy())
    for budget in (MIB // 4, 2 * MIB):
        cut = kuq.decompose(ensemble, kuq.Energy(), max_memory=budget)
        # Sums of 1080² terms in another order.
        np.testing.assert_allclose(cut.total, whole.total, rtol=1e-11)
        np.testing.assert_allclose(cut.epistemic, whole.epistemic, rtol=1e-8)


def test_blocks_against_all_pairs():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(5, 2, 7, 6)) + rng.normal(size=(5, 1, 1, 6))
    found = kuq.decompose(
        kuq.Ensemble(kuq.Samples(values, event_ndim=1)),
        kuq.Energy(),
        unbiased=False,
        max_memory=1000,
    )
    for n in range(2):
        x = values[:, n]
        table = np.linalg.norm(x[:, None, :, None] - x[None, :, None], axis=-1).mean(axis=(-2, -1))
        within = np.diag(table) / 2
        np.testing.assert_allclose(found.aleatoric[n], within.mean(), rtol=1e-12)
        apart = table - within[:, None] - within
        np.testing.assert_allclose(found.epistemic[n], apart.mean(), rtol=1e-11)
