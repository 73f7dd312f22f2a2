"""``max_memory`` holds on every route: laws, kernels and functions, whatever the input's size."""

import tracemalloc

import numpy as np
import pytest

import kuq

MIB = 2**20
BUDGET = 4 * MIB
#: Objects, tables of nodes and plans, which do not grow with the input.
FIXED = MIB


def scalar_draws():
    return kuq.Ensemble(kuq.Samples(np.random.default_rng(0).normal(size=(5, 1000, 100))))


def fields():
    values = np.random.default_rng(1).normal(size=(5, 24, 20, 400))
    return kuq.Ensemble(kuq.Samples(values, event_ndim=1))


def normals():
    rng = np.random.default_rng(2)
    shape = (10, 60, 400)
    return kuq.Ensemble(kuq.Normal(rng.normal(size=shape), rng.uniform(1, 2, shape), event_ndim=1))


def low_rank():
    rng = np.random.default_rng(3)
    shape = (5, 10, 400)
    factor = rng.normal(size=(*shape, 5))
    return kuq.Ensemble(kuq.LowRankNormal(rng.normal(size=shape), factor, rng.uniform(1, 2, shape)))


def mixtures():
    rng = np.random.default_rng(4)
    shape = (5, 300, 5)
    weights = rng.dirichlet(np.ones(5), size=shape[:2])
    return kuq.Ensemble(
        kuq.NormalMixture(weights, rng.normal(size=shape), rng.uniform(1, 2, shape))
    )


def student():
    loc = np.random.default_rng(5).normal(size=(4, 1500))
    return kuq.Ensemble(kuq.StudentT(5.0, loc, 1.0))


def points():
    return kuq.Ensemble(kuq.Point(np.random.default_rng(6).normal(size=(20, 4000))))


def evidential():
    loc = np.random.default_rng(7).normal(size=(60, 50))
    return kuq.NormalInverseGamma(loc, 1.0, 3.0, 1.0, event_ndim=1)


def first_two(ensemble):
    return ensemble.members.member(0), ensemble.members.member(1)


def decomposed(prediction, score):
    return list(kuq.decompose(prediction, score, max_memory=BUDGET).values())


def diverged(prediction, score):
    return [kuq.divergence(*first_two(prediction), score, max_memory=BUDGET)]


def scored(prediction, score):
    law, _ = first_two(prediction)
    y = np.zeros((*law.batch_shape, *law.event_shape))
    return [kuq.score(law, y, score, max_memory=BUDGET)]


def compared(prediction, score):
    return [kuq.member_divergences(prediction, score, max_memory=BUDGET)]


CRPS, ENERGY, GAUSSIAN = kuq.CRPS(), kuq.Energy(), kuq.Gaussian(1.0)
ROUTES = {
    "draws-crps": (decomposed, scalar_draws, CRPS),
    "draws-gaussian": (decomposed, scalar_draws, GAUSSIAN),
    "draws-laplace": (decomposed, scalar_draws, kuq.Laplace(1.0)),
    "draws-crps-divergence": (diverged, scalar_draws, CRPS),
    "draws-crps-score": (scored, scalar_draws, CRPS),
    "fields-crps": (decomposed, fields, CRPS),
    "fields-crps-divergence": (diverged, fields, CRPS),
    "fields-crps-score": (scored, fields, CRPS),
    "fields-energy": (decomposed, fields, ENERGY),
    "fields-energy-score": (scored, fields, ENERGY),
    "fields-gaussian": (decomposed, fields, kuq.Gaussian(20.0)),
    "normals-energy": (decomposed, normals, ENERGY),
    "normals-gaussian": (decomposed, normals, kuq.Gaussian(20.0)),
    "normals-squared": (decomposed, normals, kuq.SquaredError()),
    "low-rank-energy": (decomposed, low_rank, ENERGY),
    "low-rank-gaussian": (decomposed, low_rank, kuq.Gaussian(20.0)),
    "mixtures-crps": (decomposed, mixtures, CRPS),
    "mixtures-matern": (decomposed, mixtures, kuq.Matern(1.0, 1.5)),
    "student-crps": (decomposed, student, CRPS),
    "points-crps-matrix": (compared, points, CRPS),
    "evidential-energy": (decomposed, evidential, ENERGY),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["arrays", "compiled"])
@pytest.mark.parametrize("name", ROUTES)
def test_memory_is_kept(name, compiled):
    if compiled:
        pytest.importorskip("numba")
    call, build, score = ROUTES[name]
    prediction = build()
    with kuq.compiled(compiled):
        call(prediction, score)  # what is loaded and remembered stays
        tracemalloc.start()
        try:
            results = call(prediction, score)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    # A result is held twice while its parts are put together.
    assert peak <= BUDGET + FIXED + 2 * sum(value.nbytes for value in results)
