"""Levels of random designs: by definition, and unbiased over repeated experiments."""

import itertools
import math

import numpy as np
import pytest

import kuq

#: E k(Z) of a scalar normal Z of mean zero and a variance, for kernels of x − y.
EXPECTED = {
    "energy": (kuq.Energy(), lambda v: math.sqrt(2 * v / math.pi)),
    "squared": (kuq.SquaredError(), lambda v: v),
    "gaussian": (kuq.Gaussian(1.5), lambda v: -1 / math.sqrt(1 + 2 * v / 1.5**2)),
}
REPEATED = 3000


def random_paths(rng, blocks):
    """Leaves of a tree in which levels of a block are crossed; groups have two to four members."""
    paths = [()]
    for block in blocks:
        longer = []
        for path in paths:
            sizes = [int(rng.integers(2, 5 if len(block) == 1 else 4)) for _ in block]
            longer += [(*path, *cell) for cell in itertools.product(*map(range, sizes))]
        paths = longer
    return np.array(paths)


def random_weights(rng, paths, blocks, even):
    """Leaf weights: products inside of a crossed block, any inside of a nested level."""
    weights = np.ones(len(paths))
    start = 0
    for block in blocks:
        for node in {tuple(p) for p in paths[:, :start].tolist()}:
            own = np.all(paths[:, :start] == node, axis=1)
            for k in block:
                count = paths[own, k].max() + 1
                share = np.full(count, 1 / count) if even else rng.dirichlet(np.full(count, 4.0))
                weights[own] *= share[paths[own, k]]
        start += len(block)
    return weights


def random_design(rng):
    """Blocks of levels, of two or three levels in all."""
    options = [[(0,), (1,)], [(0, 1)], [(0,), (1,), (2,)], [(0, 1), (2,)], [(0,), (1, 2)]]
    return options[rng.integers(len(options))]


def crossed_names(blocks, names):
    return next((tuple(names[k] for k in b) for b in blocks if len(b) > 1), None)


def effects(blocks):
    return [
        chosen
        for block in blocks
        for size in range(1, len(block) + 1)
        for chosen in itertools.combinations(block, size)
    ]


def draw_effects(rng, paths, blocks, deviations, count):
    """Means of leaves (leaves, count): independent normal effects of every level and interaction.

    An effect of levels of a block is one for each combination, inside of each node above.
    """
    means = np.zeros((len(paths), count))
    for block in blocks:
        for effect in effects([block]):
            own = paths[:, [*range(block[0]), *effect]]
            _, group = np.unique(own, axis=0, return_inverse=True)
            group = group.reshape(-1)
            means += deviations[effect] * rng.normal(size=(group.max() + 1, count))[group]
    return means


def true_parts(blocks, deviations, noise, expected):
    """What each effect adds: E k of pairs that share some levels, by inclusion and exclusion."""
    every = effects(blocks)

    def apart(independent):
        """E D of two leaves that are independent in the effects of some levels."""
        inside = 2 * noise**2
        return expected(inside + 2 * sum(deviations[e] ** 2 for e in independent)) - expected(
            inside
        )

    found = {}
    for position, block in enumerate(blocks):
        below = [e for later in blocks[position + 1 :] for e in effects([later])]
        for effect in effects([block]):
            total = 0.0
            for size in range(len(effect) + 1):
                for left in itertools.combinations(effect, size):
                    others = set(block) - set(left)
                    touched = [e for e in effects([block]) if others & set(e)]
                    total -= (-1) ** (len(effect) - size) * apart([*touched, *below])
            found[effect] = total
    assert set(found) == set(every)
    return found


@pytest.mark.parametrize("name", EXPECTED)
def test_repeated_experiments_have_the_right_mean(name, trials):
    """Unequal groups and weights, draws of every law: the mean over experiments is the truth."""
    score, expected = EXPECTED[name]
    for trial in range(trials(120)):
        rng = np.random.default_rng([trial, 1])
        blocks = random_design(rng)
        paths = random_paths(rng, blocks)
        if len(paths) > 24:
            continue
        weights = random_weights(rng, paths, blocks, even=trial % 3 == 0)
        deviations = {e: float(rng.uniform(0.3, 1.5)) for e in effects(blocks)}
        noise = float(rng.uniform(0.3, 1.0))
        means = draw_effects(rng, paths, blocks, deviations, REPEATED)
        values = means[..., None] + noise * rng.normal(size=(*means.shape, 3))
        law = kuq.Samples(values) if trial % 2 else kuq.Normal(means, noise)
        ensemble = kuq.Ensemble(law, weights).in_groups(paths)
        names = ("a", "b", "c")[: paths.shape[1]]
        found = kuq.decompose(ensemble, score, levels=names, crossed=crossed_names(blocks, names))
        wanted = true_parts(blocks, deviations, noise, expected)
        for effect, value in wanted.items():
            own = found[":".join(names[k] for k in effect)]
            error = own.std() / math.sqrt(REPEATED)
            # A right estimate is off by more than five and a half in one of 10⁷ cases.
            assert abs(own.mean() - value) < 5.5 * error, (trial, found.design, effect)


def test_the_plain_value_of_few_groups_is_not_the_truth():
    """Three models of three runs: what is corrected is far more than the noise of the trials."""
    rng = np.random.default_rng(0)
    blocks, paths = [(0,), (1,)], np.array(list(itertools.product(range(3), repeat=2)))
    deviations = {(0,): 1.0, (1,): 1.0}
    means = draw_effects(rng, paths, blocks, deviations, REPEATED)
    ensemble = kuq.Ensemble(kuq.Normal(means, 0.5)).in_groups(paths)
    for unbiased, right in ((True, True), (False, False)):
        found = kuq.decompose(ensemble, "squared", levels=("a", "b"), unbiased=unbiased)["b"]
        error = found.std() / math.sqrt(REPEATED)
        assert (abs(found.mean() - 2.0) < 5 * error) == right


def test_random_designs_by_definition(trials):
    """Var of conditional means of points under squared error, with all weights."""
    for trial in range(trials(1000)):
        rng = np.random.default_rng([trial, 2])
        blocks = random_design(rng)
        paths = random_paths(rng, blocks)
        weights = random_weights(rng, paths, blocks, even=False)
        values = rng.normal(size=len(paths)) + 10.0 ** rng.integers(-2, 3)
        names = ("a", "b", "c")[: paths.shape[1]]
        ensemble = kuq.Ensemble(kuq.Point(values), weights).in_groups(paths)
        found = kuq.decompose(
            ensemble,
            "variance",
            levels=names,
            crossed=crossed_names(blocks, names),
            unbiased=False,
        )

        def mean_given(levels, values=values, weights=weights, paths=paths):
            """The mean over all leaves with the same groups at some levels, for every leaf."""
            _, group = np.unique(paths[:, levels], axis=0, return_inverse=True)
            group = group.reshape(-1)
            sums = np.bincount(group, weights * values) / np.bincount(group, weights)
            return sums[group]

        for block in blocks:
            above = list(range(block[0]))
            for effect in effects([block]):
                parts = [
                    (-1) ** (len(effect) - size) * mean_given([*above, *left])
                    for size in range(len(effect) + 1)
                    for left in itertools.combinations(effect, size)
                ]
                wanted = weights @ np.sum(parts, axis=0) ** 2
                own = found[":".join(names[k] for k in effect)]
                # Squares of values of about one, whatever their offset, in at most 64 leaves.
                np.testing.assert_allclose(own, wanted, rtol=1e-9, atol=1e-10)
