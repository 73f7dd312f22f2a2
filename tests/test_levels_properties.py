"""Laws of levels over designs that nobody chose: nested and crossed, of any sizes and weights.

The brute force of ``test_levels.py`` says what the parts are; here designs are drawn, and arrays
come from every library.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from libraries import NAMES, opened, to_numpy
from test_levels import SCORES, Atoms, crossed_by_definition, nested_by_definition

import kuq

#: Parts are sums of some hundred products of numbers up to a few tens, and some cancel.
CLOSE = {"rtol": 1e-9, "atol": 1e-11}
POINTS = 3

few = settings(max_examples=settings.default.max_examples // 4)
shares = st.floats(0.1, 3.0)
seeds = st.integers(0, 10**6)
names = st.sampled_from(sorted(SCORES))


def sums_to_one(numbers):
    return np.asarray(numbers) / np.sum(numbers)


@st.composite
def trees(draw):
    """Sizes of the groups of two levels and weights at each: [(weight, [weights of members])]."""
    groups = draw(st.lists(st.lists(shares, min_size=1, max_size=4), min_size=1, max_size=4))
    outer = sums_to_one(draw(st.lists(shares, min_size=len(groups), max_size=len(groups))))
    return [(w, sums_to_one(inner)) for w, inner in zip(outer, groups, strict=True)]


def nested(tree, values, weights, array):
    """An Ensemble of Ensembles of a tree; ``values`` and ``weights`` are (members, draws)."""
    groups, start = [], 0
    for _, inner in tree:
        rows = slice(start, start + len(inner))
        start = rows.stop
        law = kuq.Samples(array(values[rows]), weights=array(weights[rows]))
        groups.append(kuq.Ensemble(law, array(inner)))
    return kuq.Ensemble(groups, array(np.array([w for w, _ in tree])))


def laws(count, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(0.0, 2.0, (count, POINTS)), rng.dirichlet(np.ones(POINTS), count)


@pytest.mark.parametrize("library", NAMES)
@few
@given(tree=trees(), name=names, seed=seeds)
def test_nested_designs_by_definition(library, tree, name, seed):
    count = sum(len(inner) for _, inner in tree)
    values, weights = laws(count, seed)
    score, kernel = SCORES[name]
    with opened(library) as arrays:
        prediction = nested(tree, values, weights, arrays.array)
        u = kuq.decompose(prediction, score, levels=("model", "run"), unbiased=False)
        found = {part: float(to_numpy(value)) for part, value in u.items()}
    paths = [(g, m) for g, (_, inner) in enumerate(tree) for m in range(len(inner))]
    joint = np.concatenate([w * inner for w, inner in tree])
    atoms = Atoms(kernel, values, weights)
    model, run = nested_by_definition(atoms, paths, joint)
    np.testing.assert_allclose([found["model"], found["run"]], [model, run], **CLOSE)
    np.testing.assert_allclose(found["noise"], joint @ atoms.noise, **CLOSE)
    assert found["total"] == found["noise"] + found["model"] + found["run"]
    assert min(found.values()) >= 0


@pytest.mark.parametrize("library", NAMES)
@few
@given(
    outer=st.lists(shares, min_size=1, max_size=3),
    inner=st.lists(shares, min_size=1, max_size=4),
    name=names,
    seed=seeds,
)
def test_crossed_designs_by_definition(library, outer, inner, name, seed):
    own = [sums_to_one(outer), sums_to_one(inner)]
    shape = (len(outer), len(inner))
    values, weights = laws(shape[0] * shape[1], seed)
    score, kernel = SCORES[name]
    with opened(library) as arrays:
        law = kuq.Samples(
            arrays.array(values.reshape(*shape, POINTS)),
            weights=arrays.array(weights.reshape(*shape, POINTS)),
        )
        prediction = kuq.Ensemble(law, arrays.array(np.outer(*own)), member_ndim=2)
        u = kuq.decompose(prediction, score, levels=("a", "b"), crossed=True, unbiased=False)
        found = {part: float(to_numpy(value)) for part, value in u.items()}
    wanted = crossed_by_definition(Atoms(kernel, values, weights), shape, own)
    for part, levels in (("a", (0,)), ("b", (1,)), ("a:b", (0, 1))):
        np.testing.assert_allclose(found[part], wanted[levels], **CLOSE)
    # What is crossed has the spread of the same members in no groups.
    flat = kuq.decompose(
        kuq.Ensemble(kuq.Samples(values, weights=weights), np.outer(*own).ravel()),
        score,
        unbiased=False,
    )
    parts = found["a"] + found["b"] + found["a:b"]
    np.testing.assert_allclose(parts, flat.epistemic, **CLOSE)


@given(
    sizes=st.tuples(st.integers(2, 3), st.integers(2, 3), st.integers(2, 3)),
    shift=st.floats(-1e3, 1e3),
    factor=st.floats(0.01, 100.0),
    seed=seeds,
)
def test_levels_that_are_joined_add_up_and_units_do_not_matter(sizes, shift, factor, seed):
    """Var(· | a) = E Var(· | a, b) + E Var E(· | a, b): b and c together are what lies inside of a,
    for samples as well as for what is there.
    """
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(*sizes, 2))
    for unbiased in (True, False):
        three = kuq.decompose(
            kuq.Ensemble(kuq.Normal(values, 0.5), member_ndim=3),
            kuq.CRPS(),
            levels=("a", "b", "c"),
            unbiased=unbiased,
        )
        moved = kuq.decompose(
            kuq.Ensemble(kuq.Normal(factor * values + shift, factor * 0.5), member_ndim=3),
            kuq.CRPS(),
            levels=("a", "b", "c"),
            unbiased=unbiased,
        )
        for part in three:
            # Differences of numbers up to 1e3 know 13 digits less those that cancel.
            np.testing.assert_allclose(moved[part], factor * three[part], atol=1e-9 * (factor + 1))
    joined = values.reshape(sizes[0], -1, 2)
    two = kuq.decompose(
        kuq.Ensemble(kuq.Normal(joined, 0.5), member_ndim=2),
        kuq.CRPS(),
        levels=("a", "rest"),
        unbiased=False,
    )
    np.testing.assert_allclose(two["a"], three["a"], **CLOSE)
    np.testing.assert_allclose(two["rest"], three["b"] + three["c"], **CLOSE)


@given(tree=trees(), seed=seeds)
def test_the_order_of_groups_does_not_matter(tree, seed):
    rng = np.random.default_rng(seed)
    groups = [(w, kuq.Ensemble(kuq.Normal(rng.normal(size=(len(i), 2)), 1.0), i)) for w, i in tree]
    order = rng.permutation(len(groups))

    def parts(which):
        weights = np.array([groups[k][0] for k in which])
        prediction = kuq.Ensemble([groups[k][1] for k in which], weights)
        return kuq.decompose(prediction, kuq.CRPS(), levels=("model", "run"), unbiased=False)

    before, after = parts(range(len(groups))), parts(order)
    for part in before:
        np.testing.assert_allclose(after[part], before[part], **CLOSE)
