"""The way from a call to its number is short: Python calls inside kuq, and the files they are in.

The counts do not depend on the machine, so they guard what a clock cannot.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

import kuq
from kuq._compiled import by_work_alone
from kuq.forms.table import plan

PACKAGE = str(Path(kuq.__file__).parent)


def walk(call):
    """The files of kuq, in the order in which a call that was made before enters its functions."""
    plan.cache_clear()  # those of equal scores, of other tests, would be compared with this one
    for _ in range(3):
        call()
    visited = []

    def note(frame, event, argument):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(PACKAGE):
            visited.append(name[len(PACKAGE) + 1 :])

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return visited


def normals():
    rng = np.random.default_rng(0)
    return kuq.Ensemble(kuq.Normal(rng.normal(size=(5, 100)), rng.gamma(2, size=(5, 100))))


def fields():
    values = np.random.default_rng(1).normal(size=(5, 10, 20, 64))
    return kuq.Ensemble(kuq.Samples(values, event_ndim=1))


def mixtures():
    rng = np.random.default_rng(2)
    weights = rng.dirichlet(np.ones(4), size=(5, 100))
    return kuq.Ensemble(
        kuq.NormalMixture(weights, rng.normal(size=(5, 100, 4)), rng.gamma(2, size=(5, 100, 4)))
    )


@pytest.mark.parametrize(
    ("prediction", "score", "calls", "files"),
    [
        (normals, kuq.CRPS(), 200, 16),
        (fields, kuq.Energy(), 250, 16),
        (mixtures, kuq.Gaussian(1.0), 250, 18),
        (normals, kuq.LogScore(), 150, 14),
    ],
    ids=["normals-crps", "fields-energy", "mixtures-gaussian", "normals-log"],
)
def test_few_calls_in_few_files(prediction, score, calls, files):
    pytest.importorskip("numba")
    ensemble = prediction()
    with by_work_alone():  # fields are enough work for compiled code, the others are not
        visited = walk(lambda: kuq.decompose(ensemble, score))
    assert len(visited) <= calls
    assert len(set(visited)) <= files


def test_a_reader_meets_the_files_in_the_order_of_the_plan():
    ensemble = normals()
    with kuq.compiled(False):
        visited = walk(lambda: kuq.decompose(ensemble, kuq.CRPS()))
    steps = [
        "uncertainty.py",  # the entrance
        "views.py",  # how much of the batch is seen at once
        "answers.py",
        "driver.py",
        "forms/form.py",  # the problem, whose plan is remembered
        "forms/scalar_pairs.py",
        "expectations/scalar.py",
    ]
    first = [visited.index(step) for step in steps]
    assert first == sorted(first)
    assert visited[-1] in ("uncertainty.py", "_array.py")


def test_few_calls_in_a_step_of_training():
    """The score and its gradient, of tensors of a shape that was seen before."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("numba")
    rng = np.random.default_rng(3)
    loc, scale, y = (torch.tensor(rng.uniform(0.5, 2.0, 32)) for _ in range(3))
    loc.requires_grad_()
    scale.requires_grad_()

    def step():
        kuq.score(kuq.Normal(loc, scale), y, kuq.CRPS()).mean().backward()

    visited = walk(step)
    assert len(visited) <= 60
    assert "walks.py" in visited
    assert "views.py" not in visited  # from the entrance to the step
