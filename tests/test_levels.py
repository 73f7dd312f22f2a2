"""More than two levels of uncertainty: ensembles of ensembles, nested or crossed."""

import itertools
import math

import numpy as np
import pytest

import kuq
from kuq import answers

SCORES = {
    "squared": (kuq.SquaredError(), lambda x, y: (x - y) ** 2),
    "energy": (kuq.Energy(), lambda x, y: np.abs(x - y)),
    "gaussian": (kuq.Gaussian(1.3), lambda x, y: -np.exp(-(((x - y) / 1.3) ** 2))),
    "laplace": (kuq.Laplace(0.8), lambda x, y: -np.exp(-np.abs(x - y) / 0.8)),
}


class Atoms:
    """Laws with weighted atoms, as vectors of a Hilbert space by a kernel written down here."""

    def __init__(self, kernel, values, weights):
        """``values`` and ``weights`` are (laws, atoms)."""
        pairs = kernel(values[:, :, None, None], values[None, None, :, :])
        self.expected = np.einsum("ia,iajb,jb->ij", weights, pairs, weights)
        self.noise = np.diag(self.expected) / 2 - kernel(np.zeros(1), np.zeros(1))[0] / 2

    def square(self, coefficients):
        """‖Σ c μ‖² of a signed combination whose coefficients sum to zero."""
        assert abs(coefficients.sum()) < 1e-12
        return -coefficients @ self.expected @ coefficients


def nested_by_definition(atoms, paths, weights):
    """E Var(E[μ | next level] | level), by the means of all nodes of the tree."""
    depth = len(paths[0])
    found = []
    for level in range(depth):
        total = 0.0
        for node in {path[: level + 1] for path in paths}:
            child = np.array([path[: level + 1] == node for path in paths]) * weights
            parent = np.array([path[:level] == node[:level] for path in paths]) * weights
            gap = child / child.sum() - parent / parent.sum()
            total += child.sum() * atoms.square(gap)
        found.append(total)
    return found


def crossed_by_definition(atoms, shape, shares):
    """The mean square of every effect of the functional analysis of variance, by subsets."""
    cells = list(itertools.product(*map(range, shape)))
    found = {}
    for size in range(1, len(shape) + 1):
        for subset in itertools.combinations(range(len(shape)), size):
            total = 0.0
            for at in itertools.product(*(range(shape[k]) for k in subset)):
                effect = np.zeros(len(cells))
                for given in itertools.chain.from_iterable(
                    itertools.combinations(range(size), r) for r in range(size + 1)
                ):
                    known = {subset[g]: at[g] for g in given}
                    mean = np.array(
                        [
                            math.prod(
                                float(cell[k] == known[k]) if k in known else shares[k][cell[k]]
                                for k in range(len(shape))
                            )
                            for cell in cells
                        ]
                    )
                    effect += (-1) ** (size - len(given)) * mean
                share = math.prod(shares[k][i] for k, i in zip(subset, at, strict=True))
                total += share * atoms.square(effect)
            found[subset] = total
    return found


def leaf(values, weights):
    return kuq.Samples(values, weights=weights)


def unequal_tree(rng):
    """Three levels, groups of different sizes and weights: the ensemble, paths, weights, atoms."""
    sizes = [[2, 3], [1, 2, 2]]
    outer = np.array([0.3, 0.7])
    middle = [np.array([0.4, 0.6]), np.array([0.5, 0.2, 0.3])]
    paths, weights, values, shares, groups = [], [], [], [], []
    for s, models in enumerate(sizes):
        inner_groups = []
        for m, count in enumerate(models):
            inner = rng.dirichlet(np.ones(count))
            own = [(rng.normal(size=4) * 2, rng.dirichlet(np.ones(4))) for _ in range(count)]
            for r, (value, share) in enumerate(own):
                paths.append((s, m, r))
                weights.append(outer[s] * middle[s][m] * inner[r])
                values.append(value)
                shares.append(share)
            inner_groups.append(kuq.Ensemble([leaf(*law) for law in own], inner))
        groups.append(kuq.Ensemble(inner_groups, middle[s]))
    ensemble = kuq.Ensemble(groups, outer)
    return ensemble, paths, np.array(weights), np.array(values), np.array(shares)


@pytest.mark.parametrize("name", SCORES)
def test_nested_groups_of_unequal_size_and_weight_by_definition(name):
    score, kernel = SCORES[name]
    rng = np.random.default_rng(1)
    ensemble, paths, weights, values, shares = unequal_tree(rng)
    atoms = Atoms(kernel, values, shares)
    levels = ("scenario", "model", "run")
    found = kuq.decompose(ensemble, score, levels=levels, unbiased=False)
    expected = nested_by_definition(atoms, paths, weights)
    assert list(found) == ["total", "noise", *levels]
    for level, value in zip(levels, expected, strict=True):
        np.testing.assert_allclose(found[level], value, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found["noise"], weights @ atoms.noise, rtol=1e-12)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("shape", [(2, 3), (3, 2, 2)])
def test_crossed_factors_with_weights_by_definition(name, shape):
    score, kernel = SCORES[name]
    rng = np.random.default_rng(2)
    shares = [rng.dirichlet(np.ones(n)) for n in shape]
    joint = math.prod(np.meshgrid(*shares, indexing="ij"))
    values = 2 * rng.normal(size=(*shape, 5))
    inside = rng.dirichlet(np.ones(5), size=shape)
    law = kuq.Samples(values, weights=inside)
    ensemble = kuq.Ensemble(law, joint, member_ndim=len(shape))
    names = ("scenario", "model", "grid")[: len(shape)]
    found = kuq.decompose(ensemble, score, levels=names, crossed=True, unbiased=False)
    atoms = Atoms(kernel, values.reshape(-1, 5), inside.reshape(-1, 5))
    expected = crossed_by_definition(atoms, shape, shares)
    assert set(found) == {"total", "noise", *(":".join(names[k] for k in s) for s in expected)}
    for subset, value in expected.items():
        own = found[":".join(names[k] for k in subset)]
        np.testing.assert_allclose(own, value, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["noise"], joint.ravel() @ atoms.noise, rtol=1e-12)


def test_runs_nested_in_crossed_cells_by_definition():
    """scenario × model, with runs inside of each cell, in unequal numbers."""
    rng = np.random.default_rng(3)
    u, v = np.array([0.4, 0.6]), np.array([0.5, 0.3, 0.2])
    counts = np.array([[2, 3, 1], [1, 2, 4]])
    values, paths, weights, groups = [], [], [], []
    for a in range(2):
        row = []
        for b in range(3):
            own = rng.normal(size=counts[a, b]) + a - b
            values += list(own)
            paths += [(a, b, r) for r in range(len(own))]
            weights += [u[a] * v[b] / len(own)] * len(own)
            row.append(kuq.Ensemble(kuq.Point(own)))
        groups.append(kuq.Ensemble(row, v))
    levels = ("scenario", "model", "run")
    found = kuq.decompose(
        kuq.Ensemble(groups, u), "squared", levels=levels, crossed=levels[:2], unbiased=False
    )
    values, weights = np.array(values), np.array(weights)
    # squared error, pairwise: twice the variances, here of the means of cells and inside of them
    mean = np.array([[values[[p[:2] == (a, b) for p in paths]].mean() for b in range(3)]
                     for a in range(2)])  # fmt: skip
    grand, rows, columns = u @ mean @ v, mean @ v, u @ mean
    inside = sum(w * (x - mean[p[:2]]) ** 2 for w, x, p in zip(weights, values, paths, strict=True))
    both = u @ (mean - rows[:, None] - columns[None, :] + grand) ** 2 @ v
    np.testing.assert_allclose(found["scenario"], 2 * (u @ (rows - grand) ** 2), rtol=1e-12)
    np.testing.assert_allclose(found["model"], 2 * (v @ (columns - grand) ** 2), rtol=1e-12)
    np.testing.assert_allclose(found["scenario:model"], 2 * both, rtol=1e-12)
    np.testing.assert_allclose(found["run"], 2 * inside, rtol=1e-12)
    assert list(found) == ["total", "noise", "scenario", "model", "scenario:model", "run"]


# Unbiased: the mean over all samples from a finite population is the population's own value.


def every_choice(*sizes):
    return list(itertools.product(*map(range, sizes)))


def drawn_trees(within, population, chance, counts):
    """All samples of groups, and of members in each, as a batch: values (batch, leaves), chances.

    ``population`` (groups, members) has the chances ``chance`` of groups and ``within`` of members.
    """
    groups, members = population.shape
    rows, chances = [], []
    for chosen in itertools.product(range(groups), repeat=len(counts)):
        options = [itertools.product(range(members), repeat=n) for n in counts]
        for picks in itertools.product(*options):
            leaves = [(s, i) for s, own in zip(chosen, picks, strict=True) for i in own]
            rows.append([population[leaf] for leaf in leaves])
            likely = math.prod(chance[s] for s in chosen)
            chances.append(likely * math.prod(within[leaf] for leaf in leaves))
    return np.array(rows), np.array(chances)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("weighted", [False, True])
def test_nested_estimates_are_unbiased_over_all_samples(name, weighted):
    score, kernel = SCORES[name]
    rng = np.random.default_rng(4)
    population = rng.normal(size=(3, 2)) + 2 * rng.normal(size=(3, 1))
    chance, within = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(2), size=3)
    counts = (2, 3)
    rows, chances = drawn_trees(within, population, chance, counts)
    assert abs(chances.sum() - 1) < 1e-12
    outer = np.array([0.3, 0.7]) if weighted else None
    inner = (np.array([0.2, 0.8]), np.array([0.5, 0.3, 0.2])) if weighted else (None, None)
    groups = [
        kuq.Ensemble(kuq.Point(part.T), own)
        for part, own in zip(np.split(rows, [counts[0]], axis=1), inner, strict=True)
    ]
    found = kuq.decompose(kuq.Ensemble(groups, outer), score, levels=("group", "member"))
    points = population.reshape(-1, 1)
    atoms = Atoms(kernel, points, np.ones_like(points))
    paths = [(s, i) for s in range(3) for i in range(2)]
    expected = nested_by_definition(atoms, paths, (chance[:, None] * within).ravel())
    for level, value in zip(("group", "member"), expected, strict=True):
        np.testing.assert_allclose(chances @ found[level], value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fixed", [(), ("scenario",), ("model",), ("scenario", "model")])
def test_crossed_estimates_are_unbiased_over_all_samples(name, weighted, fixed):
    score, kernel = SCORES[name]
    rng = np.random.default_rng(5)
    table = rng.normal(size=(2, 3)) + 2 * rng.normal(size=(2, 1)) + rng.normal(size=3)
    chance = [rng.dirichlet(np.ones(n)) for n in table.shape]
    used = [rng.dirichlet(np.ones(n)) if weighted else np.full(n, 1 / n) for n in (2, 3)]
    choices, likely = [], []
    for k, size in enumerate(table.shape):
        if ("scenario", "model")[k] in fixed:  # all that there are, with their weights
            chance[k] = used[k]
            choices.append([tuple(range(size))])
            likely.append([1.0])
        else:
            choices.append(every_choice(*(size,) * len(used[k])))
            likely.append([math.prod(chance[k][i] for i in c) for c in choices[-1]])
    rows = np.array([table[np.ix_(a, b)] for a in choices[0] for b in choices[1]])
    chances = np.outer(*likely).ravel()
    ensemble = kuq.Ensemble(kuq.Point(np.moveaxis(rows, 0, -1)), np.outer(*used), member_ndim=2)
    levels = ("scenario", "model")
    found = kuq.decompose(ensemble, score, levels=levels, crossed=levels, fixed=fixed)
    points = table.reshape(-1, 1)
    atoms = Atoms(kernel, points, np.ones_like(points))
    expected = crossed_by_definition(atoms, table.shape, chance)
    for subset, value in expected.items():
        own = found[":".join(levels[k] for k in subset)]
        np.testing.assert_allclose(chances @ own, value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["squared", "energy"])
@pytest.mark.parametrize("fixed", [(), ("top",), ("group",), ("member",), ("top", "member")])
def test_three_levels_with_some_fixed_are_unbiased_over_all_samples(name, fixed):
    """Two tops of two groups of two members each; what is fixed is there as a whole."""
    score, kernel = SCORES[name]
    rng = np.random.default_rng(6)
    population = rng.normal(size=(2, 2, 2)) + 2 * rng.normal(size=(2, 2, 1))
    even = np.full(2, 0.5)

    def all_of(level):
        return [(0, 1)] if level in fixed else every_choice(2, 2)

    rows = []
    for tops in all_of("top"):
        for groups in itertools.product(all_of("group"), repeat=2):
            for members in itertools.product(all_of("member"), repeat=4):
                rows.append(
                    [
                        [[population[tops[t], groups[t][g], i] for i in members[2 * t + g]]
                         for g in range(2)]
                        for t in range(2)
                    ]
                )  # fmt: skip
    law = kuq.Point(np.moveaxis(np.array(rows), 0, -1))
    ensemble = kuq.Ensemble(law, member_ndim=3)
    levels = ("top", "group", "member")
    found = kuq.decompose(ensemble, score, levels=levels, fixed=fixed)
    points = population.reshape(-1, 1)
    atoms = Atoms(kernel, points, np.ones_like(points))
    weights = np.multiply.outer(np.outer(even, even), even).ravel()
    expected = nested_by_definition(atoms, every_choice(2, 2, 2), weights)
    for level, value in zip(levels, expected, strict=True):
        np.testing.assert_allclose(found[level].mean(), value, rtol=1e-10)


# The classical analysis of variance.


def test_squared_error_is_the_random_effects_analysis_of_variance():
    """Balanced, nested in two levels: mean squares as in any textbook."""
    rng = np.random.default_rng(7)
    a, n = 4, 5
    x = rng.normal(size=(a, n)) + rng.normal(size=(a, 1))
    groups = x.mean(axis=1)
    between = n * ((groups - x.mean()) ** 2).sum() / (a - 1)
    within = ((x - groups[:, None]) ** 2).sum() / (a * (n - 1))
    ensemble = kuq.Ensemble(kuq.Point(x), member_ndim=2)
    found = kuq.decompose(ensemble, "variance", levels=("group", "member"))
    np.testing.assert_allclose(found["member"], within, rtol=1e-12)
    np.testing.assert_allclose(found["group"], (between - within) / n, rtol=1e-12)
    assert found.estimator == "bma"


def test_squared_error_is_the_two_way_analysis_of_variance():
    rng = np.random.default_rng(8)
    a, b, n = 3, 4, 2
    x = rng.normal(size=(a, b, n)) + rng.normal(size=(a, 1, 1)) + rng.normal(size=(1, b, 1))
    cell, grand = x.mean(axis=2), x.mean()
    rows, columns = cell.mean(axis=1), cell.mean(axis=0)
    ms_a = b * n * ((rows - grand) ** 2).sum() / (a - 1)
    ms_b = a * n * ((columns - grand) ** 2).sum() / (b - 1)
    rest = cell - rows[:, None] - columns + grand
    ms_ab = n * (rest**2).sum() / ((a - 1) * (b - 1))
    ms_e = ((x - cell[:, :, None]) ** 2).sum() / (a * b * (n - 1))
    ensemble = kuq.Ensemble(kuq.Point(x), member_ndim=3)
    levels = ("scenario", "model", "run")
    found = kuq.decompose(ensemble, "variance", levels=levels, crossed=levels[:2])
    np.testing.assert_allclose(found["run"], ms_e, rtol=1e-12)
    np.testing.assert_allclose(found["scenario:model"], (ms_ab - ms_e) / n, rtol=1e-11)
    np.testing.assert_allclose(found["scenario"], (ms_a - ms_ab) / (b * n), rtol=1e-11)
    np.testing.assert_allclose(found["model"], (ms_b - ms_ab) / (a * n), rtol=1e-11)


# Laws of the mathematics.


def test_one_level_is_the_plain_decomposition():
    rng = np.random.default_rng(9)
    ensemble = kuq.Ensemble(
        kuq.Normal(rng.normal(size=(4, 6)), rng.uniform(0.5, 1.0, size=(4, 6))),
        weights=[0.1, 0.2, 0.3, 0.4],
    )
    for estimator, unbiased in itertools.product(("pairwise", "bma"), (True, False)):
        options = {"estimator": estimator, "unbiased": unbiased}
        plain = kuq.decompose(ensemble, kuq.CRPS(), **options)
        found = kuq.decompose(ensemble, kuq.CRPS(), levels=("member",), **options)
        np.testing.assert_allclose(found["member"], plain.epistemic, rtol=1e-12)
        np.testing.assert_array_equal(found["noise"], plain.aleatoric)
        np.testing.assert_allclose(found.total, plain.total, rtol=1e-12)


def test_the_mixture_has_the_entropy_of_all_levels_together():
    """The law of total variance: with "bma", and all as it is, the sum is H of the mixture."""
    rng = np.random.default_rng(10)
    ensemble, *_ = unequal_tree(rng)
    for score in (kuq.CRPS(), kuq.Gaussian(0.7), kuq.SquaredError()):
        found = kuq.decompose(
            ensemble, score, levels=("a", "b", "c"), unbiased=False, estimator="bma"
        )
        whole = kuq.entropy(ensemble, score, unbiased=False)
        np.testing.assert_allclose(found.total, whole, rtol=1e-12)


def test_bma_halves_every_level_and_leaves_the_noise():
    ensemble, *_ = unequal_tree(np.random.default_rng(11))
    options = {"levels": ("a", "b", "c"), "unbiased": False}
    pairs = kuq.decompose(ensemble, kuq.Energy(), **options)
    mixed = kuq.decompose(ensemble, kuq.Energy(), estimator="bma", **options)
    np.testing.assert_array_equal(mixed["noise"], pairs["noise"])
    for level in "abc":
        np.testing.assert_array_equal(2 * mixed[level], pairs[level])


def test_the_levels_sum_to_the_total_exactly_and_keep_the_epistemic_one():
    rng = np.random.default_rng(12)
    x = rng.normal(size=(3, 4, 2, 50))
    ensemble = kuq.Ensemble(kuq.Normal(x, 0.3), member_ndim=3)
    flat = kuq.Ensemble(kuq.Normal(x.reshape(24, 50), 0.3))
    plain = kuq.decompose(flat, kuq.CRPS(), unbiased=False)
    for crossed in (None, True, ("a", "b"), ("b", "c")):
        found = kuq.decompose(
            ensemble, kuq.CRPS(), levels=("a", "b", "c"), crossed=crossed, unbiased=False
        )
        parts = [found[name] for name in found if name != "total"]
        np.testing.assert_array_equal(sum(parts[1:], parts[0]), found.total)
        np.testing.assert_allclose(found.epistemic, plain.epistemic, rtol=1e-12)
        np.testing.assert_array_equal(found.aleatoric, found["noise"])
        assert all((part >= 0).all() for part in parts)


def test_order_of_members_and_of_groups_does_not_matter():
    rng = np.random.default_rng(13)
    x = rng.normal(size=(3, 4, 7))
    levels = ("a", "b")
    for options in ({}, {"crossed": levels}, {"fixed": "a"}):
        one = kuq.decompose(
            kuq.Ensemble(kuq.Point(x), member_ndim=2), "energy", levels=levels, **options
        )
        turned = x[[2, 0, 1]][:, [3, 1, 0, 2]]
        two = kuq.decompose(
            kuq.Ensemble(kuq.Point(turned), member_ndim=2), "energy", levels=levels, **options
        )
        for name in one:
            np.testing.assert_allclose(two[name], one[name], rtol=1e-11, atol=1e-12)
    crossed = {"crossed": levels}
    one = kuq.decompose(
        kuq.Ensemble(kuq.Point(x), member_ndim=2), "energy", levels=levels, **crossed
    )
    two = kuq.decompose(
        kuq.Ensemble(kuq.Point(x.swapaxes(0, 1)), member_ndim=2),
        "energy",
        levels=levels[::-1],
        crossed=True,
    )
    np.testing.assert_allclose(two["b:a"], one["a:b"], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(two["a"], one["a"], rtol=1e-11, atol=1e-12)


def test_groups_that_do_not_differ_have_no_level_of_their_own():
    x = np.broadcast_to(np.array([[0.0, 1.0, 5.0]]), (2, 3))
    found = kuq.decompose(
        kuq.Ensemble(kuq.Point(x), member_ndim=2), "squared", levels=("a", "b"), unbiased=False
    )
    np.testing.assert_allclose(found["a"], 0.0, atol=1e-13)  # rounding of squares up to 25
    assert found["b"] > 0
    crossed = kuq.decompose(
        kuq.Ensemble(kuq.Point(x), member_ndim=2), "squared", levels=("a", "b"), crossed=True
    )
    np.testing.assert_allclose(crossed["a"], 0.0, atol=1e-13)
    np.testing.assert_allclose(crossed["a:b"], 0.0, atol=1e-13)


def test_draws_of_the_laws_are_corrected_at_every_level():
    """Two tops of two points each, seen by two draws: all samples of a population of draws."""
    rng = np.random.default_rng(14)
    population = rng.normal(size=(2, 2, 2)) + 2 * rng.normal(size=(2, 2, 1))
    values = []
    for picks in itertools.product(every_choice(2, 2), repeat=4):
        values.append([[population[t, g, list(picks[2 * t + g])] for g in (0, 1)] for t in (0, 1)])
    values = np.moveaxis(np.array(values), 0, 2)  # (top, group, batch, draws)
    ensemble = kuq.Ensemble(kuq.Samples(values), member_ndim=2)
    found = kuq.decompose(ensemble, "energy", levels=("a", "b"), unbiased="samples")
    true = kuq.decompose(
        kuq.Ensemble(kuq.Samples(population), member_ndim=2),
        "energy",
        levels=("a", "b"),
        unbiased=False,
    )
    for name in true:
        np.testing.assert_allclose(found[name].mean(), true[name], rtol=1e-10)


def test_a_weight_of_zero_leaves_a_member_out():
    rng = np.random.default_rng(15)
    x = rng.normal(size=(2, 3, 5))
    weights = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    some = kuq.Ensemble(
        [kuq.Ensemble(kuq.Point(x[0, :2])), kuq.Ensemble(kuq.Point(x[1]))], weights=[2.0, 3.0]
    )
    every = kuq.Ensemble(kuq.Point(x), weights, member_ndim=2)
    one, two = (kuq.decompose(e, "energy", levels=("a", "b")) for e in (some, every))
    for name in one:
        np.testing.assert_allclose(two[name], one[name], rtol=1e-12)


def test_moments_that_do_not_exist_make_every_level_infinite():
    df = np.array([[5.0, 0.5], [5.0, 5.0]])
    ensemble = kuq.Ensemble(kuq.StudentT(df, np.arange(4.0).reshape(2, 2), 1.0), member_ndim=2)
    found = kuq.decompose(ensemble, "crps", levels=("a", "b"))
    assert all(found[name] == math.inf for name in found)


# What is refused.


def test_what_cannot_be_told_is_refused(tmp_path):
    rng = np.random.default_rng(16)
    two = kuq.Ensemble(kuq.Point(rng.normal(size=(2, 3, 4))), member_ndim=2)
    one = kuq.Ensemble(kuq.Point(rng.normal(size=(3, 4))))
    with pytest.raises(kuq.ParameterError, match=r"levels=.*flattened"):
        kuq.decompose(two, "crps")
    kuq.decompose(two.flattened(), "crps")
    with pytest.raises(kuq.ParameterError, match=r"levels=.*flattened"):
        kuq.report(two, path=tmp_path / "report.html")
    with pytest.raises(kuq.ParameterError, match=r"names 1 level.*has 2"):
        kuq.decompose(two, "crps", levels="a")
    with pytest.raises(kuq.ParameterError, match=r"names 2 levels.*has 1"):
        kuq.decompose(one, "crps", levels=("a", "b"))
    with pytest.raises(kuq.ParameterError, match="different"):
        kuq.decompose(two, "crps", levels=("a", "a"))
    for bad in ("total", "noise", "a:b", ""):
        with pytest.raises(kuq.ParameterError, match="name of a level"):
            kuq.decompose(two, "crps", levels=("b", bad))
    with pytest.raises(kuq.ParameterError, match=r"crossed.*'x'"):
        kuq.decompose(two, "crps", levels=("a", "b"), crossed=("a", "x"))
    with pytest.raises(kuq.ParameterError, match="at least two"):
        kuq.decompose(two, "crps", levels=("a", "b"), crossed=("a",))
    with pytest.raises(kuq.ParameterError, match=r"fixed.*'x'"):
        kuq.decompose(two, "crps", levels=("a", "b"), fixed=("x",))
    with pytest.raises(kuq.ParameterError, match="levels"):
        kuq.decompose(one, "crps", crossed=True)
    with pytest.raises(kuq.ParameterError, match="kernel"):
        kuq.decompose(two, "log", levels=("a", "b"))
    with pytest.raises(kuq.ParameterError, match="Ensemble"):
        kuq.decompose(kuq.NormalInverseGamma(0.0, 1.0, 3.0, 1.0), "crps", levels="a")


def test_levels_that_are_crossed_stand_side_by_side():
    x = np.random.default_rng(17).normal(size=(2, 3, 2))
    ensemble = kuq.Ensemble(kuq.Point(x), member_ndim=3)
    with pytest.raises(kuq.ParameterError, match="one after the other"):
        kuq.decompose(ensemble, "crps", levels=("a", "b", "c"), crossed=("a", "c"))


def test_groups_of_one_are_refused_unless_taken_as_they_are():
    groups = [kuq.Ensemble(kuq.Point([0.0, 1.0])), kuq.Ensemble(kuq.Point([4.0]))]
    ensemble = kuq.Ensemble(groups)
    with pytest.raises(kuq.InsufficientDataError, match=r"'b'.*one.*a 1"):
        kuq.decompose(ensemble, "crps", levels=("a", "b"))
    kuq.decompose(ensemble, "crps", levels=("a", "b"), unbiased=False)
    kuq.decompose(ensemble, "crps", levels=("a", "b"), unbiased="samples")
    kuq.decompose(ensemble, "crps", levels=("a", "b"), fixed="b")
    alone = kuq.Ensemble([groups[0]])
    with pytest.raises(kuq.InsufficientDataError, match="'a'"):
        kuq.decompose(alone, "crps", levels=("a", "b"))
    assert kuq.decompose(alone, "crps", levels=("a", "b"), fixed="a")["a"] == 0.0
    heavy = kuq.Ensemble(kuq.Point([[0.0, 1.0], [1.0, 2.0]]), [[1.0, 1.0], [1.0, 1e-12]], 2)
    with pytest.raises(kuq.InsufficientDataError, match="weight"):
        kuq.decompose(heavy, "crps", levels=("a", "b"))


def test_crossed_levels_need_every_cell_and_weights_that_are_products():
    uneven = kuq.Ensemble([kuq.Ensemble(kuq.Point([0.0, 1.0])), kuq.Ensemble(kuq.Point([4.0]))])
    with pytest.raises(kuq.ShapeError, match=r"every combination.*a 1, b 1"):
        kuq.decompose(uneven, "crps", levels=("a", "b"), crossed=True, unbiased=False)
    x = np.random.default_rng(18).normal(size=(2, 2))
    skewed = kuq.Ensemble(kuq.Point(x), [[1.0, 2.0], [2.0, 1.0]], member_ndim=2)
    with pytest.raises(kuq.ParameterError, match="product"):
        kuq.decompose(skewed, "crps", levels=("a", "b"), crossed=True)
    kuq.decompose(skewed, "crps", levels=("a", "b"))


def test_ensembles_of_uneven_depth_are_refused():
    with pytest.raises(kuq.ShapeError, match="as many levels"):
        kuq.Ensemble([kuq.Ensemble(kuq.Point([0.0, 1.0])), kuq.Point(3.0)])
    with pytest.raises(kuq.ShapeError, match="member_ndim"):
        kuq.Ensemble(kuq.Point([0.0, 1.0]), member_ndim=2)
    with pytest.raises(kuq.ShapeError, match=r"\(2, 3\)"):
        kuq.Ensemble(kuq.Point(np.zeros((2, 3))), np.ones(6), member_ndim=2)


# The ensemble itself.


def test_a_nested_ensemble_is_the_mixture_of_its_leaves():
    rng = np.random.default_rng(19)
    x, y = rng.normal(size=(2, 5)), rng.normal(size=(3, 5))
    nested = kuq.Ensemble(
        [kuq.Ensemble(kuq.Normal(x, 1.0)), kuq.Ensemble(kuq.Normal(y, 2.0), [0.5, 0.25, 0.25])],
        weights=[0.3, 0.7],
    )
    weights = [0.15, 0.15, 0.35, 0.175, 0.175]
    scale = np.repeat([1.0, 2.0], [2, 3])[:, None]
    flat = kuq.Ensemble(kuq.Normal(np.concatenate([x, y]), scale * np.ones((5, 5))), weights)
    np.testing.assert_allclose(nested.mean(), flat.mean())
    np.testing.assert_allclose(nested.variance(), flat.variance())
    np.testing.assert_allclose(nested.quantile(0.3), flat.quantile(0.3))
    outcome = rng.normal(size=5)
    for score in ("crps", "log"):
        np.testing.assert_allclose(
            kuq.score(nested, outcome, score), kuq.score(flat, outcome, score), rtol=1e-12
        )
    assert kuq.member_divergences(nested, "crps").shape == (5, 5, 5)
    assert repr(nested) == "Ensemble of 2 groups with 5 × Normal(batch=(5,), event=())"
    assert repr(nested.flattened()) == "Ensemble of 5 × Normal(batch=(5,), event=())"
    half = nested.rescaled(0.5, 2.0)
    found = kuq.decompose(half, "squared", levels=("a", "b"))
    before = kuq.decompose(nested, "squared", levels=("a", "b"))
    np.testing.assert_allclose(found["a"], 4 * before["a"], rtol=1e-11)
    np.testing.assert_allclose(found["noise"], before["noise"] / 4, rtol=1e-12)


def test_groups_may_be_of_different_kinds():
    rng = np.random.default_rng(20)
    nested = kuq.Ensemble(
        [
            kuq.Ensemble(kuq.Normal(rng.normal(size=(2, 4)), 1.0)),
            kuq.Ensemble([kuq.Point(np.zeros(4)), kuq.Samples(rng.normal(size=(4, 9)))]),
        ]
    )
    found = kuq.decompose(nested, kuq.CRPS(), levels=("kind", "member"))
    flat = kuq.decompose(nested.flattened(), kuq.CRPS(), unbiased="samples")
    whole = kuq.decompose(nested, kuq.CRPS(), levels=("kind", "member"), unbiased="samples")
    np.testing.assert_allclose(whole.epistemic, flat.epistemic, rtol=1e-11)
    assert found.method == "samples"


def test_vectors_maps_and_several_terms():
    rng = np.random.default_rng(21)
    x = rng.normal(size=(2, 3, 6, 4))
    ensemble = kuq.Ensemble(kuq.Normal(x, 0.5, event_ndim=1), member_ndim=2)
    flat = ensemble.flattened()
    scores = (
        kuq.Energy(),
        kuq.CRPS(reduce=None),
        kuq.CRPS() + 2.0 * kuq.Marginal(kuq.Gaussian("median")),
        kuq.Energy(weights=[1.0, 2.0, 0.5, 1.0]),
        kuq.Gaussian(1.0).on(lambda v: v[..., :2]),
    )
    for score in scores[:4]:
        found = kuq.decompose(ensemble, score, levels=("a", "b"), unbiased=False)
        plain = kuq.decompose(flat, score, unbiased=False)
        assert found.total.shape == plain.total.shape
        np.testing.assert_allclose(found.total, plain.total, rtol=1e-11)
        assert found.score == plain.score
    drawn = kuq.decompose(
        ensemble, scores[4], levels=("a", "b"), unbiased="samples", draws=50, seed=1
    )
    plain = kuq.decompose(flat, scores[4], unbiased="samples", draws=50, seed=1)
    np.testing.assert_allclose(drawn.total, plain.total, rtol=1e-10)
    assert drawn.method == "monte-carlo"


def test_an_empty_batch_and_a_single_input():
    empty = kuq.Ensemble(kuq.Point(np.zeros((2, 2, 0))), member_ndim=2)
    assert kuq.decompose(empty, "crps", levels=("a", "b"))["a"].shape == (0,)
    single = kuq.Ensemble(kuq.Point(np.zeros((2, 2))), member_ndim=2)
    assert kuq.decompose(single, "crps", levels=("a", "b"))["a"].shape == ()


# The result.


def test_the_result_tells_what_it_is():
    x = np.array([[[0.0, 1.0], [1.0, 1.0]], [[4.0, 1.0], [5.0, 1.0]]])
    ensemble = kuq.Ensemble(kuq.Normal(x, 0.5), member_ndim=2)
    found = kuq.decompose(ensemble, kuq.CRPS(), levels=("scenario", "model"))
    assert isinstance(found, kuq.Partition)
    assert found.levels == ("scenario", "model")
    assert found.design == "scenario / model"
    text = repr(found).splitlines()
    assert text[0].startswith("Partition(shape=(2,), design='scenario / model', score=CRPS()")
    assert [line.split()[0] for line in text[1:]] == ["total", "noise", "scenario", "model"]
    crossed = kuq.decompose(ensemble, kuq.CRPS(), levels=("scenario", "model"), crossed=True)
    assert crossed.design == "scenario × model"
    assert len(crossed) == 5
    assert crossed == crossed
    assert crossed != found
    with pytest.raises(KeyError):
        found["epistemic"]
    with pytest.raises(TypeError, match="to_frame"):
        np.asarray(found)
    shares = found.shares()
    np.testing.assert_allclose(sum(shares.values()), 1.0)
    assert list(shares) == ["noise", "scenario", "model"]


def test_points_have_a_note_that_their_noise_is_unknown():
    x = np.random.default_rng(25).normal(size=(2, 3, 4))
    points = kuq.decompose(kuq.Ensemble(kuq.Point(x), member_ndim=2), "crps", levels=("a", "b"))
    assert points.note == "the noise of single values is unknown; their spread is in the levels"
    assert list(points.known) == [name for name in points if name != "noise"]
    assert "noise mean" not in repr(points)
    assert points.note in repr(points)
    normals = kuq.decompose(
        kuq.Ensemble(kuq.Normal(x, 1.0), member_ndim=2), "crps", levels=("a", "b")
    )
    assert normals.note == ""
    x[:, :, 0] = 1.0  # all agree, there nothing is known either
    mixed = kuq.decompose(kuq.Ensemble(kuq.Point(x), member_ndim=2), "crps", levels=("a", "b"))
    assert mixed.note == points.note


def test_the_result_as_a_table():
    pytest.importorskip("pandas")
    x = np.random.default_rng(22).normal(size=(2, 2, 3))
    found = kuq.decompose(
        kuq.Ensemble(kuq.Normal(x, 1.0), member_ndim=2), "crps", levels=("a", "b"), crossed=True
    )
    frame = found.to_frame(index=list("xyz"))
    assert list(frame.columns) == ["total", "noise", "a", "b", "a:b"]
    np.testing.assert_array_equal(frame["a:b"], found["a:b"])
    assert frame.attrs["design"] == "a × b"


def test_scattered_groups_are_copied_in_parts_of_the_batch():
    """Runs in unequal numbers inside of crossed cells: a model is no regular part of the array."""
    rng = np.random.default_rng(24)
    groups = [
        kuq.Ensemble([kuq.Ensemble(kuq.Normal(rng.normal(size=(n, 300)), 0.5)) for n in counts])
        for counts in ((2, 3, 2), (4, 2, 3))
    ]
    score = kuq.Gaussian(rng.uniform(0.5, 2.0, size=300))
    options = {"levels": ("a", "b", "c"), "crossed": ("a", "b")}
    whole = kuq.decompose(kuq.Ensemble(groups), score, **options)
    parts = kuq.decompose(kuq.Ensemble(groups), score, max_memory=2**15, **options)
    for name in whole:
        np.testing.assert_allclose(parts[name], whole[name], rtol=1e-12, atol=1e-14)


def _runs_of_models(kind, sizes, rng):
    """A model for each size: normals, heavy tails, draws, or models of two kinds."""
    batch = 7

    def model(position, size):
        loc = rng.normal(0, 2, (1, batch)) + rng.normal(size=(size, batch))
        if kind == "draws":
            return kuq.Samples(loc[..., None] + rng.normal(size=(size, batch, 6)))
        if kind == "tails":
            return kuq.StudentT(rng.uniform(3, 9, (size, batch)), loc, 0.7)
        if kind == "points":
            return kuq.Point(loc)
        if kind == "mixed" and position % 2:
            return kuq.Samples(loc[..., None] + rng.normal(size=(size, batch, 4)))
        scale = rng.uniform(0.5, 1.5, loc.shape).astype(np.float32)
        dtype = np.float32 if kind == "float32" else np.float64
        return kuq.Normal(loc.astype(dtype), scale.astype(dtype))

    return [model(position, size) for position, size in enumerate(sizes)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["normals", "float32", "points", "draws", "tails", "mixed"])
@pytest.mark.parametrize("score", ["variance", "crps", "gaussian"])
def test_groups_side_by_side_are_what_each_is_by_itself(score, kind, weighted):
    """The level of runs is the mean over models of what a flat call says of each of them.

    Models of three runs are alike, but for one with other weights; that of two is not.
    """
    rng = np.random.default_rng(26)
    sizes = (3, 3, 2, 3, 3)
    shares = [[1.0, 2.0, 1.0], [3.0, 6.0, 3.0], [1.0, 1.0], [1.0, 1.0, 4.0], [0.1, 0.2, 0.1]]
    runs = [
        kuq.Ensemble(law, weights=share if weighted else None)
        for law, share in zip(_runs_of_models(kind, sizes, rng), shares, strict=True)
    ]
    used = kuq.Gaussian(rng.uniform(0.5, 2.0, 7)) if score == "gaussian" else score
    u = kuq.decompose(kuq.Ensemble(runs), used, levels=("model", "run"))
    alone = [kuq.decompose(model, used) for model in runs]
    rtol = 1e-6 if kind == "float32" else 1e-12
    for name, part in (("run", "epistemic"), ("noise", "aleatoric")):
        expected = np.mean([getattr(one, part) for one in alone], axis=0)
        np.testing.assert_allclose(u[name], expected, rtol=rtol, atol=rtol * 0.1)


def test_groups_that_are_alike_are_one_question(monkeypatch):
    """However many groups there are: the whole, all scenarios, all models."""
    asked = []
    ask = answers.over_tiles

    def counted(score, width, stack, *others):
        asked.append((stack.member_count, stack.batch_count))
        return ask(score, width, stack, *others)

    monkeypatch.setattr(answers, "over_tiles", counted)
    values = np.random.default_rng(27).normal(size=(3, 4, 5, 10))
    ensemble = kuq.Ensemble(kuq.Point(values), member_ndim=3)
    kuq.decompose(ensemble, "crps", levels=("scenario", "model", "run"))
    assert sorted(asked) == [(5, 120), (20, 30), (60, 10)]


def test_memory_is_bounded_over_the_batch():
    """Of 40 leaves there are 1600 divergences at every input: never all of them are there."""
    import tracemalloc

    rng = np.random.default_rng(23)
    x = rng.normal(size=(4, 10, 5000))
    ensemble = kuq.Ensemble(kuq.Normal(x, 1.0), member_ndim=2)
    whole = 1600 * 5000 * 8
    kuq.decompose(ensemble, "crps", levels=("a", "b"), max_memory=2**22)  # what is kept for good
    tracemalloc.start()
    kuq.decompose(ensemble, "crps", levels=("a", "b"), max_memory=2**22)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * 2**22 < whole / 7
