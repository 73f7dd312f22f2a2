"""Splits and scaling of tables: sizes, determinism, and nothing that leaks out of test rows."""

import numpy as np
import pytest
from numpy.random import default_rng

import kuq
from kuq.datasets.tables import Scaling, split_rows, table_dataset

X = default_rng(0).normal(size=(200, 3)) * [1.0, 20.0, 0.0] + [0.0, 5.0, 0.1]
Y = default_rng(1).normal(7.0, 3.0, 200)


def made(x=X, y=Y, seed=0, **options):
    return table_dataset("a", x, y, seed, "m", {"source": "b"}, **options)


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(308, (249, 28, 31)), (1030, (834, 93, 103)), (45730, (37041, 4116, 4573)), (10, (8, 1, 1))],
)
def test_a_tenth_for_test_and_of_the_rest_a_tenth_to_validate(count, sizes):
    parts = split_rows(count, 3)
    assert tuple(map(len, parts)) == sizes
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(count))


def test_the_seed_decides_the_split():
    again = [split_rows(100, seed) for seed in (0, 0, 1)]
    assert all(np.array_equal(a, b) for a, b in zip(again[0], again[1], strict=True))
    assert not np.array_equal(again[0][2], again[2][2])


def test_every_row_is_in_one_split_as_it_was():
    data = made(standardise=False)
    parts = (data.train, data.validation, data.test)
    rows = np.concatenate([np.column_stack([p.x, p.y]) for p in parts])
    expected = np.column_stack([X, Y])
    np.testing.assert_array_equal(rows[np.argsort(rows[:, 0])], expected[np.argsort(X[:, 0])])
    assert data.units == "m"
    assert data.shifted is None
    assert not data.synthetic


def test_training_rows_have_mean_zero_and_variance_one():
    data = made()
    np.testing.assert_allclose(data.train.x.mean(0), 0, atol=1e-13)
    np.testing.assert_allclose(data.train.x[:, :2].std(0), 1, rtol=1e-13)
    assert data.train.y.mean() == pytest.approx(0, abs=1e-13)
    assert data.train.y.std() == pytest.approx(1)
    assert abs(data.test.y.mean()) > 1e-3  # scaled by others' mean


def test_constant_columns_become_zero():
    data = made()
    for part in (data.train, data.validation, data.test):
        np.testing.assert_allclose(part.x[:, 2], 0, atol=1e-13)
    assert Scaling.of(np.full(5, 0.1)).scale == 1


def test_scaling_can_be_undone_from_the_provenance():
    data, raw, facts = made(), made(standardise=False), made().provenance
    back = data.test.x * facts["x_scale"] + facts["x_mean"]
    np.testing.assert_allclose(back, raw.test.x, atol=1e-12)
    np.testing.assert_allclose(data.test.y * facts["y_scale"] + facts["y_mean"], raw.test.y)


def test_nothing_leaks_from_test_or_validation_rows():
    train, validation, test = split_rows(200, 0)
    x, y = X.copy(), Y.copy()
    x[test] = 1e6
    y[test] = -1e6
    changed, data = made(x, y), made()
    np.testing.assert_array_equal(changed.train.x, data.train.x)
    np.testing.assert_array_equal(changed.validation.y, data.validation.y)
    x[validation] *= 3
    y[validation] -= 9
    np.testing.assert_array_equal(made(x, y).train.x, data.train.x)
    np.testing.assert_array_equal(made(x, y).train.y, data.train.y)
    x[train[0]] += 1
    assert not np.array_equal(made(x, y).train.x[1:], data.train.x[1:])


def test_bad_input_is_refused():
    with pytest.raises(kuq.InsufficientDataError, match="too few"):
        split_rows(5, 0)
    with pytest.raises(kuq.ParameterError, match="seed"):
        split_rows(100, -1)
