"""Standard errors are the spread over repeated experiments, and tests keep their level."""

import numpy as np
import pytest

import kuq

PARTS = ("total", "aleatoric", "epistemic")


def noisy(rng, kind, shape):
    if kind == "normal":
        return rng.normal(size=shape)
    return rng.standard_exponential(shape)


def experiments(rng, of_members, kind, shape, spread):
    """Experiments along the inputs: members at random places and widths, and their draws."""
    members, inputs, _ = shape
    count = inputs if of_members is rng else 1
    place = spread * of_members.normal(size=(members, count, 1))
    width = np.exp(0.3 * spread * of_members.normal(size=(members, count, 1)))
    return kuq.Ensemble(kuq.Samples(place + width * noisy(rng, kind, shape)))


@pytest.mark.parametrize("over", ["both", "draws"])
@pytest.mark.parametrize("score", ["crps", "gaussian:1.5", "squared"])
@pytest.mark.parametrize(
    ("kind", "members", "draws", "spread"),
    [
        ("normal", 10, 20, 0.0),
        ("normal", 10, 10, 0.3),
        ("normal", 6, 30, 1.0),
        ("exponential", 10, 10, 0.5),
        ("exponential", 20, 6, 0.0),
    ],
)
def test_standard_errors_are_the_spread(trials, over, score, kind, members, draws, spread):
    """Within 10 %, and four standard deviations of a spread that is known from so many trials."""
    inputs = trials(10_000)
    u, squares = [], []
    for i in range(0, inputs, 500):
        rng = np.random.default_rng([i, 7])
        # Over draws the members are the same in all experiments.
        of_members = rng if over == "both" else np.random.default_rng(8)
        ensemble = experiments(rng, of_members, kind, (members, 500, draws), spread)
        found = kuq.standard_error(ensemble, score, over=over)
        parts = kuq.decompose(ensemble, score)
        u.append([parts[part] for part in PARTS])
        squares.append([found[part] ** 2 for part in PARTS])
    values, squared = np.concatenate(u, axis=1), np.concatenate(squares, axis=1)
    away = (values - values.mean(axis=1, keepdims=True)) ** 2
    noise = np.std(squared - away, axis=1) / np.sqrt(values.shape[1]) / away.mean(axis=1) / 2
    ratio = np.sqrt(squared.mean(axis=1) / away.mean(axis=1))
    assert np.all(np.abs(ratio - 1) < 0.1 + 4 * noise), (ratio, noise)


@pytest.mark.parametrize(
    ("kind", "members", "draws", "inputs"),
    [("normal", 5, 10, 1), ("exponential", 3, 6, 4), ("normal", 8, 4, 2)],
)
@pytest.mark.parametrize("score", ["crps", "gaussian:median"])
def test_levels(trials, kind, members, draws, inputs, score):
    """P(p ≤ 0.05) = 0.05 under the null, ± 0.01 for 10000 trials and four deviations for fewer."""
    count = trials(10_000)
    found = []
    for i in range(count):
        rng = np.random.default_rng([i, 9])
        values = noisy(rng, kind, (members, inputs, draws))
        values = values + rng.normal(size=(inputs, 1))  # inputs differ, members do not
        test = kuq.member_test(kuq.Ensemble(kuq.Samples(values)), score, permutations=99, seed=i)
        found.append((float(test.p_value), float(test.outlier_p_value)))
    below = np.mean(np.asarray(found) <= 0.05, axis=0)
    room = max(0.01, 4 * np.sqrt(0.05 * 0.95 / count))
    assert np.all(np.abs(below - 0.05) < room), below


@pytest.mark.parametrize(("kind", "members", "draws"), [("normal", 5, 10), ("exponential", 3, 6)])
def test_levels_of_single_inputs(trials, kind, members, draws):
    count = trials(10_000)
    found = []
    for i in range(0, count, 500):
        values = noisy(np.random.default_rng([i, 10]), kind, (members, 500, draws))
        ensemble = kuq.Ensemble(kuq.Samples(values))
        test = kuq.member_test(ensemble, "crps", permutations=99, seed=i, per_input=True)
        found.append([test.p_value, test.outlier_p_value])
    below = np.mean(np.concatenate(found, axis=1) <= 0.05, axis=1)
    room = max(0.01, 4 * np.sqrt(0.05 * 0.95 / count))
    assert np.all(np.abs(below - 0.05) < room), below
