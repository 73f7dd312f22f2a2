"""Standard errors over random directions, over many seeds: as often wrong as they say."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import kuq

SCORES = {
    "energy": kuq.Energy(),
    "gaussian": kuq.Gaussian(4.0),
    "laplace": kuq.Laplace(4.0),
    "matern": kuq.Matern(4.0, 2.5),
    "rational": kuq.RationalQuadratic(4.0, 1.5),
    "imq": kuq.InverseMultiquadric(4.0),
    "sum": kuq.Energy() + 5 * kuq.Gaussian(2.0),
}
REPETITIONS = 100


def prediction(case):
    """Members of one shape (0), of other spreads (1), with heavy tails (2), in a plane (3)."""
    rng = np.random.default_rng(case)
    d = 2 if case == 3 else 5
    shift, spread = rng.normal(size=(3, 1, d)), 1.0 + np.arange(3)[:, None, None] * (case == 1)
    noise = rng.standard_t(2.5, (3, 400, d)) if case == 2 else rng.normal(size=(3, 400, d))
    return kuq.Ensemble(kuq.Samples(shift + spread * noise * np.linspace(0.5, 1.5, d), 1))


@functools.cache
def exact(name, case):
    return kuq.decompose(prediction(case), SCORES[name])


@pytest.mark.parametrize("name", SCORES)
def test_errors_are_within_three_standard_errors(trials, name):
    count = trials(REPETITIONS)
    ratios = {part: [] for part in ("total", "aleatoric", "epistemic")}
    for seed in range(count):
        case = seed % 4
        u = kuq.decompose(prediction(case), SCORES[name], directions=400, seed=seed)
        assert u.method == "sliced"
        for part, found in ratios.items():
            gap = u[part] - exact(name, case)[part]
            found.append(float(gap / getattr(u.standard_error, part)))
    for part, found in ratios.items():
        size = np.abs(found)
        # Of 100 at most one; among ten, one has a chance of some hundredths.
        assert np.sum(size > 3) <= max(1, count // 100), part
        # Errors as large as they say: the mean of count squares has the deviation √(2/count).
        assert abs(np.mean(size**2) - 1) < 5 * np.sqrt(2 / count), part
