"""Laws of batches, standard errors, tests, directions and choices, over inputs that are drawn."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from libraries import NAMES, opened, to_numpy

import kuq

few = settings(max_examples=settings.default.max_examples // 4)
seeds = st.integers(0, 10**6)
factors = st.floats(0.01, 100.0)
PARTS = ("total", "aleatoric", "epistemic")


def draws(seed, members=5, inputs=2, count=6):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(members, inputs, 1)) + rng.normal(size=(members, inputs, count))


@pytest.mark.parametrize("library", NAMES)
@few
@given(
    seed=seeds,
    size=st.integers(1, 8),
    method=st.sampled_from(kuq.protocols.batches.BATCH_METHODS),
)
def test_a_batch_has_different_places_and_begins_with_that_of_a_smaller_one(
    library, seed, size, method
):
    loc = np.random.default_rng(seed).normal(size=(4, 9))
    with opened(library) as arrays:
        pool = kuq.Ensemble(kuq.Normal(arrays.array(loc), arrays.array(np.ones_like(loc))))
        batch, larger = (
            kuq.protocols.select_batch(pool, n, "crps", method=method, seed=seed)
            for n in (size, size + 1)
        )
    assert len(set(batch.tolist())) == size
    assert set(batch.tolist()) <= set(range(9))
    assert larger[:-1].tolist() == batch.tolist()
    if method != "sampled":
        assert batch[0] == np.argmax(
            kuq.decompose(kuq.Ensemble(kuq.Normal(loc, 1.0)), "crps").epistemic
        )


@given(seed=seeds, factor=factors, shift=st.floats(-100.0, 100.0))
def test_a_batch_does_not_depend_on_units(seed, factor, shift):
    loc = np.random.default_rng(seed).normal(size=(4, 9))
    found = [
        kuq.protocols.select_batch(kuq.Ensemble(kuq.Normal(values, scale)), 5, "crps")
        for values, scale in ((loc, 0.3), (factor * loc + shift, factor * 0.3))
    ]
    assert found[0].tolist() == found[1].tolist()


@pytest.mark.parametrize("library", NAMES)
@few
@given(seed=seeds, factor=factors, over=st.sampled_from(["draws", "members", "both"]))
def test_standard_errors_have_the_unit_of_the_score_and_no_order(library, seed, factor, over):
    values = draws(seed)
    wanted = kuq.standard_error(kuq.Ensemble(kuq.Samples(values)), "crps", over=over)
    rng = np.random.default_rng(seed)
    mixed = rng.permuted(factor * values[rng.permutation(len(values))], axis=-1)
    with opened(library) as arrays:
        found = kuq.standard_error(
            kuq.Ensemble(kuq.Samples(arrays.array(mixed))), "crps", over=over
        )
    for part in PARTS:
        assert np.all(wanted[part] >= 0)
        # Squares of errors are differences of sums over pairs: half of the digits of their roots.
        np.testing.assert_allclose(
            to_numpy(found[part]), factor * wanted[part], rtol=1e-6, atol=1e-6 * factor
        )


@few
@given(seed=seeds, factor=factors, shift=st.floats(-100.0, 100.0))
def test_members_are_tested_by_ranks_of_what_decompose_gives(seed, factor, shift):
    values = draws(seed)
    prediction, moved = (kuq.Ensemble(kuq.Samples(x)) for x in (values, factor * values + shift))
    found, other = (
        kuq.member_test(p, "crps", permutations=39, seed=1) for p in (prediction, moved)
    )
    np.testing.assert_allclose(
        found.statistic, kuq.decompose(prediction, "crps").epistemic.mean(), rtol=1e-9, atol=1e-12
    )
    for test in (found, other):
        ranks = 40 * np.append(test.member_p_values, test.p_value)
        np.testing.assert_allclose(ranks, np.round(ranks), atol=1e-9)
        assert np.all((ranks >= 1 - 1e-9) & (ranks <= 40 + 1e-9))
    np.testing.assert_allclose(other.p_value, found.p_value)
    np.testing.assert_allclose(other.member_p_values, found.member_p_values)


@few
@given(seed=seeds, factor=factors, dimension=st.integers(2, 5), directions=st.integers(20, 60))
def test_directions_add_up_and_scale(seed, factor, dimension, directions):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(3, 1, dimension)) + rng.normal(size=(3, 60, dimension))
    found, scaled = (
        kuq.decompose(
            kuq.Ensemble(kuq.Samples(x, 1)), kuq.Energy(), directions=directions, seed=seed
        )
        for x in (values, factor * values)
    )
    assume(found.method == "sliced")
    np.testing.assert_allclose(found.total, found.aleatoric + found.epistemic, rtol=1e-12)
    for part in PARTS:
        np.testing.assert_allclose(
            scaled[part], factor * found[part], rtol=1e-9, atol=1e-10 * factor
        )
        error, other = (getattr(u.standard_error, part) for u in (found, scaled))
        assert error > 0
        np.testing.assert_allclose(other, factor * error, rtol=1e-6)


@settings(max_examples=settings.default.max_examples // 12)
@given(seed=seeds, power=st.integers(-6, 6), shift=st.integers(-8, 8))
def test_the_choice_of_a_score_does_not_depend_on_units(seed, power, shift):
    """Powers of two, which move no digit: a tie stays a tie."""
    rng = np.random.default_rng(seed)
    scale = rng.gamma(2.0, size=60)
    loc = np.round(64 * rng.normal(size=(4, 60)) * scale) / 64
    y = loc.mean(axis=0) + scale * rng.normal(size=60)
    names = ["crps", "gaussian:median*0.5"]
    plain, moved = (
        kuq.select_score(
            kuq.Ensemble(kuq.Normal(f * (loc + s), f * scale)),
            f * (y + s),
            candidates=names,
            resamples=50,
        )
        for f, s in ((1.0, 0.0), (2.0**power, float(shift)))
    )
    assert moved.name == plain.name
    for row, other in zip(plain.table, moved.table, strict=True):
        np.testing.assert_allclose(other.value, row.value, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(other.gain, row.gain, rtol=1e-6, atol=1e-9)
