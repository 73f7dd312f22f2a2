"""Detection measures against scikit-learn, and the bootstrap against known spread."""

import numpy as np
import pytest

import kuq
from kuq.protocols import ood_detection

metrics = pytest.importorskip("sklearn.metrics")


def by_sklearn(inside, outside):
    truth = np.repeat([0, 1], [len(inside), len(outside)])
    values = np.concatenate([inside, outside])
    fpr, tpr, _ = metrics.roc_curve(truth, values, drop_intermediate=False)
    return (
        metrics.roc_auc_score(truth, values),
        metrics.average_precision_score(truth, values),
        fpr[tpr >= 0.95].min(),
    )


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (20, 20), (7, 50), (400, 100)])
def test_measures_are_those_of_sklearn(n, m, ties):
    rng = np.random.default_rng([n, m])
    inside, outside = rng.normal(size=n), rng.normal(0.8, 1.5, size=m)
    if ties:
        inside, outside = inside.round(), outside.round()
    o = ood_detection(inside, outside, equal_sizes=False, resamples=0)
    assert (o.auroc, o.aupr, o.fpr95) == pytest.approx(by_sklearn(inside, outside), abs=1e-14)
    assert o.cases == (n, m)
    assert np.isnan(o.auroc_interval).all()


def test_larger_side_is_subsampled():
    rng = np.random.default_rng(0)
    inside, outside = rng.normal(size=500), rng.normal(1.0, size=60)
    o = ood_detection(inside, outside, seed=3, resamples=0)
    assert o.cases == (60, 60)
    assert o == ood_detection(inside, outside, seed=3, resamples=0)
    assert o.auroc != ood_detection(inside, outside, seed=4, resamples=0).auroc
    assert abs(o.auroc - by_sklearn(inside, outside)[0]) < 0.1
    assert o.aupr > 0.35  # a subsample of 60 : 60, not 500 : 60


def test_interval_covers_the_truth_as_often_as_it_says():
    """AUROC of N(1, 1) against N(0, 1) is Φ(1/√2); 95 % intervals, 100 data sets."""
    truth = 0.7602499389065233
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(100):
        o = ood_detection(rng.normal(size=60), rng.normal(1.0, size=60), resamples=200)
        low, high = o.auroc_interval
        assert low < o.auroc < high
        hits += low <= truth <= high
    assert 88 <= hits <= 99


def test_perfect_and_inverted_separation():
    o = ood_detection([0.0, 0.1], [1.0, np.inf], resamples=50)
    assert (o.auroc, o.aupr, o.fpr95, o.auroc_interval) == (1.0, 1.0, 0.0, (1.0, 1.0))
    assert ood_detection([1.0, 2.0], [0.0, 0.1], resamples=0).auroc == 0.0
    assert ood_detection([1.0, 1.0], [1.0, 1.0], resamples=0).auroc == 0.5


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        (([], [1.0]), {}, "inside is empty"),
        (([1.0], [np.nan]), {}, "outside has NaN"),
        (([1.0], [[1.0]]), {}, "one number per case"),
        (([1.0], [1.0]), {"confidence": 1.0}, "confidence"),
        (([1.0], [1.0]), {"resamples": -1}, "resamples"),
        (([1.0], [1.0]), {"seed": 0.5}, "seed"),
    ],
)
def test_bad_input_is_named(arguments, options, text):
    with pytest.raises(kuq.KuqError, match=text):
        ood_detection(*arguments, **options)
