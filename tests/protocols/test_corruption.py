"""Robustness: percentage errors by hand, and influence as the limit that defines it."""

import numpy as np
import pytest
from numpy.random import default_rng

import kuq
from kuq.protocols import influence_curves, robustness

MEAN, STD = default_rng(0).normal(size=(6, 9)), default_rng(1).uniform(0.5, 1.5, size=(6, 9))
BASE = kuq.Ensemble(kuq.Normal(MEAN[:5], STD[:5]))
WORSE = kuq.Ensemble(kuq.Normal(np.r_[MEAN[:5], MEAN[5:] + 4], np.r_[STD[:5], 5 * STD[5:]]))
SCORES = [kuq.LogScore(), kuq.SquaredError(), kuq.CRPS(), kuq.Energy(), kuq.Gaussian(0.5)]


def test_errors_of_squared_error_by_hand():
    [r] = robustness(BASE, WORSE, [kuq.SquaredError()])
    var = np.r_[STD[:5], 5 * STD[5:]] ** 2
    aleatoric = 100 * np.abs(var.mean(0) / var[:5].mean(0) - 1)
    mean = np.r_[MEAN[:5], MEAN[5:] + 4]
    epistemic = 100 * np.abs(mean.var(0, ddof=1) / mean[:5].var(0, ddof=1) - 1)
    assert r.aleatoric_mape == pytest.approx(aleatoric.mean())
    assert r.aleatoric_median == pytest.approx(np.median(aleatoric))
    assert r.epistemic_mape == pytest.approx(epistemic.mean())
    assert r.epistemic_median == pytest.approx(np.median(epistemic))


@pytest.mark.parametrize("score", SCORES, ids=lambda s: type(s).__name__)
def test_errors_are_those_of_two_decompositions(score):
    [r] = robustness(BASE, WORSE, [score])
    a, b = kuq.decompose(BASE, score), kuq.decompose(WORSE, score)
    for part in ("aleatoric", "epistemic"):
        error = 100 * np.mean(np.abs((b[part] - a[part]) / a[part]))
        assert getattr(r, f"{part}_mape") == pytest.approx(error)


def test_median_bandwidth_stays_that_of_the_base():
    [r] = robustness(BASE, WORSE, [kuq.Gaussian("median")])
    bandwidth = kuq.decompose(BASE, kuq.Gaussian("median")).score.bandwidth
    [fixed] = robustness(BASE, WORSE, [kuq.Gaussian(bandwidth)])
    assert r.score.bandwidth == bandwidth
    assert r.epistemic_mape == pytest.approx(fixed.epistemic_mape)
    assert kuq.decompose(WORSE, kuq.Gaussian("median")).score.bandwidth != bandwidth


def test_same_ensemble_has_no_error_and_zero_base_has_infinite_error():
    assert robustness(BASE, BASE, [kuq.CRPS()])[0].epistemic_mape == 0.0
    agree = kuq.Ensemble(kuq.Normal(np.zeros((2, 1)), 1.0))
    differ = kuq.Ensemble(kuq.Normal([[0.0], [1.0]], 1.0))
    [r] = robustness(agree, differ, [kuq.CRPS()])
    assert (r.aleatoric_mape, r.epistemic_mape) == (0.0, np.inf)
    assert robustness(agree, agree, [kuq.CRPS()])[0].epistemic_mape == 0.0


def test_bad_input_is_named():
    with pytest.raises(kuq.ParameterError, match="list of scores"):
        robustness(BASE, WORSE, kuq.CRPS())
    with pytest.raises(kuq.ShapeError, match="same cases"):
        robustness(BASE, kuq.Ensemble(kuq.Normal(np.zeros((2, 3)), 1.0)), [kuq.CRPS()])


@pytest.mark.parametrize("weights", [None, [0.4, 0.2, 0.2, 0.1, 0.1]])
@pytest.mark.parametrize("score", SCORES, ids=lambda s: type(s).__name__)
def test_influence_is_the_limit_that_defines_it(score, weights):
    """Against (M(Q_ε) − M(Q)) / ε at two ε, extrapolated to zero: M is a quadratic in ε."""
    base = kuq.Ensemble(kuq.Normal(MEAN[:5], STD[:5]), weights)
    mean, std = np.asarray([0.0, 3.0, -20.0]), np.asarray([1.0, 4.0, 0.2])
    contamination = kuq.Normal(np.tile(mean[:, None], 9), np.tile(std[:, None], 9))
    influence = influence_curves(base, contamination, score)
    assert influence.aleatoric.shape == influence.epistemic.shape == (3, 9)
    before = kuq.decompose(base, score, unbiased=False)
    old = np.full(5, 0.2) if weights is None else np.asarray(weights)
    for place in range(3):
        both = kuq.Normal(
            np.r_[MEAN[:5], np.full((1, 9), mean[place])],
            np.r_[STD[:5], np.full((1, 9), std[place])],
        )
        slopes = {}
        for epsilon in (0.1, 0.2):
            mixed = kuq.Ensemble(both, [*((1 - epsilon) * old), epsilon])
            after = kuq.decompose(mixed, score, unbiased=False)
            slopes[epsilon] = [
                (after[part] - before[part]) / epsilon for part in ("aleatoric", "epistemic")
            ]
        limit = [2 * a - b for a, b in zip(slopes[0.1], slopes[0.2], strict=True)]
        assert influence.aleatoric[place] == pytest.approx(limit[0], rel=1e-9, abs=1e-9)
        assert influence.epistemic[place] == pytest.approx(limit[1], rel=1e-9, abs=1e-9)


def test_influence_takes_lists_of_different_members():
    members = [kuq.Normal(np.zeros(2), 1.0), kuq.Samples(np.tile(np.arange(4.0), (2, 1)))]
    far = kuq.Point(np.asarray([[0.0, 0.0], [50.0, 50.0]]))
    influence = influence_curves(kuq.Ensemble(members), far, kuq.Energy())
    apart = sum(
        2 * kuq.divergence(m, kuq.Point(np.zeros(2)), kuq.Energy(), unbiased=False) / 2
        for m in members
    )
    spread = kuq.decompose(kuq.Ensemble(members), kuq.Energy(), unbiased=False).epistemic
    assert influence.epistemic[0] == pytest.approx(apart - 2 * spread)


def test_influence_names_bad_input():
    with pytest.raises(kuq.ShapeError, match="axis of members"):
        influence_curves(BASE, kuq.Normal(np.zeros(4), 1.0), kuq.CRPS())
    with pytest.raises(kuq.ParameterError, match="needs an Ensemble"):
        influence_curves(kuq.Normal(0.0, 1.0), kuq.Normal(np.zeros(4), 1.0), kuq.CRPS())
