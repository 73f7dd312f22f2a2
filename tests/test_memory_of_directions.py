"""Very many draws by random directions within ``max_memory``, without a copy of the draws."""

import os
import tracemalloc

import numpy as np
import pytest

import kuq
from benchmarks.measure import peak_memory

MIB = 2**20
#: One projection of all draws with what its sums need; the draws themselves are larger.
BUDGET = 4 * MIB
FIXED = MIB
MEMBERS, DRAWS, D = 3, 20_000, 10
DIRECTIONS = 20


def equal():
    return kuq.Samples(np.random.default_rng(0).normal(size=(MEMBERS, DRAWS, D)), 1)


def single():
    return kuq.Samples(equal().values.astype(np.float32), 1)


def weighted():
    law = equal()
    weights = np.random.default_rng(1).dirichlet(np.ones(DRAWS), size=MEMBERS)
    return kuq.Samples(law.values, 1, weights=weights)


def batch():
    return kuq.Samples(np.random.default_rng(2).normal(size=(MEMBERS, 200, 100, D)), 1)


@pytest.mark.parametrize("compiled", [False, True], ids=["arrays", "compiled"])
@pytest.mark.parametrize("score", [kuq.Energy(), kuq.Laplace(4.0)], ids=["energy", "laplace"])
@pytest.mark.parametrize("build", [equal, single, weighted, batch], ids=lambda f: f.__name__)
def test_memory_is_kept(build, score, compiled, monkeypatch):
    if compiled:
        pytest.importorskip("numba")
    # Threads share the budget; one projection for each of two would not fit.
    monkeypatch.setattr("kuq.forms.directions.workers", lambda: 2)
    prediction = kuq.Ensemble(build())

    def call():
        return kuq.decompose(prediction, score, directions=DIRECTIONS, max_memory=BUDGET)

    with kuq.compiled(compiled):
        call()  # what is loaded and remembered stays
        tracemalloc.start()
        try:
            u = call()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert u.method == "sliced"
    weights = prediction.members.weights
    own = 0 if weights is None else 2 * weights.nbytes
    assert peak <= BUDGET + FIXED + own


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="needs Linux")
def test_memory_of_the_process(monkeypatch):
    """What compiled code takes as well: far less than a copy of the draws."""
    monkeypatch.setattr("kuq.forms.directions.workers", lambda: 1)
    draws = np.random.default_rng(0).normal(size=(2, 200_000, D))
    prediction = kuq.Ensemble(kuq.Samples(draws, 1))
    small = kuq.Ensemble(kuq.Samples(draws[:, :5000], 1))
    for score in (kuq.Energy(), kuq.Gaussian(4.0)):
        kuq.decompose(small, score, directions=20)  # compiled code is there

        def call(score=score):
            return kuq.decompose(prediction, score, directions=20, max_memory=24 * MIB)

        peak, _ = peak_memory(call)
        assert peak < 24 + 4 < draws.nbytes / MIB
