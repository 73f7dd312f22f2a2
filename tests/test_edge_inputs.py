"""Input at the edge of what has a meaning: a factor without columns, no inputs, rounded weights."""

import math

import numpy as np
import pytest

import kuq

KERNELS = [
    kuq.Energy(),
    kuq.Gaussian(2.0),
    kuq.Laplace(2.0),
    kuq.Matern(2.0, 1.3),
    kuq.SquaredError(),
    kuq.CRPS(),
    kuq.Gaussian("median"),
    kuq.LogScore(),
]


def of_rank_zero(loc, diag):
    return kuq.LowRankNormal(loc, np.zeros((*loc.shape, 0)), diag)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_a_factor_without_columns_is_a_normal(kernel):
    rng = np.random.default_rng(0)
    loc, diag = rng.normal(size=(3, 2, 4)), rng.uniform(0.2, 2.0, size=(3, 2, 4))
    y = rng.normal(size=(3, 2, 4))
    low, plain = of_rank_zero(loc, diag), kuq.Normal(loc, np.sqrt(diag), event_ndim=1)
    found, wanted = (kuq.decompose(kuq.Ensemble(p), kernel) for p in (low, plain))
    np.testing.assert_allclose(found.total, wanted.total, rtol=1e-12)
    np.testing.assert_allclose(found.epistemic, wanted.epistemic, rtol=1e-12)
    for call in (lambda p: kuq.entropy(p, kernel), lambda p: kuq.score(p, y, kernel)):
        np.testing.assert_allclose(call(low), call(plain), rtol=1e-12)
    # Beside a law with columns, of which the padded form with columns of zeros is the oracle.
    other = kuq.LowRankNormal(loc[::-1], rng.normal(size=(3, 2, 4, 2)), diag)
    padded = kuq.LowRankNormal(loc, np.zeros((3, 2, 4, 1)), diag)
    found, wanted = (kuq.divergence(p, other, kernel) for p in (low, padded))
    np.testing.assert_allclose(found, wanted, rtol=1e-7)
    mixed = kuq.decompose(kuq.Ensemble([low, other]), kernel).total
    np.testing.assert_allclose(
        mixed, kuq.decompose(kuq.Ensemble([padded, other]), kernel).total, rtol=1e-7
    )


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_a_factor_without_columns_in_other_libraries(library):
    xp = pytest.importorskip(library)
    law = kuq.LowRankNormal(xp.zeros((3, 4)), xp.zeros((3, 4, 0)), xp.ones(4))
    found = kuq.decompose(kuq.Ensemble(law), kuq.Gaussian(2.0)).total
    # E exp(−‖X − X'‖²/4) of two standard normals in four dimensions is 2^(−4/2).
    assert float(found) == pytest.approx((1 - 0.25) / 2, rel=1e-5)


EMPTY = {
    "normals": lambda k: kuq.decompose(kuq.Ensemble(kuq.Normal(np.zeros((3, 0)), 1.0)), k),
    "draws": lambda k: kuq.decompose(kuq.Ensemble(kuq.Samples(np.zeros((3, 0, 5)))), k),
    "evidential": lambda k: kuq.decompose(kuq.NormalInverseGamma(np.zeros(0), 1.0, 2.0, 1.0), k),
    "entropy": lambda k: kuq.entropy(kuq.Normal(np.zeros(0), 1.0), k),
    "score": lambda k: kuq.score(kuq.Normal(np.zeros(0), 1.0), np.zeros(0), k),
    "matrix": lambda k: kuq.member_divergences(
        kuq.Ensemble(kuq.Normal(np.zeros((3, 0, 2)), 1.0, event_ndim=1)), k
    ),
}


@pytest.mark.parametrize("name", EMPTY)
def test_there_is_no_median_of_nothing(name):
    with pytest.raises(kuq.InsufficientDataError, match=r"empty batch.* give the bandwidth"):
        EMPTY[name](kuq.Gaussian("median"))
    EMPTY[name](kuq.Gaussian(1.0))  # an empty result


def test_median_bandwidth_of_nothing():
    with pytest.raises(kuq.InsufficientDataError, match="at least two outcomes, got 0"):
        kuq.median_bandwidth(np.zeros(0))
    with pytest.raises(kuq.ShapeError, match=r"not be empty, got shape \(3, 0\)"):
        kuq.median_bandwidth(np.zeros((3, 0)), event_ndim=1)


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
@pytest.mark.parametrize("together", [True, False])
def test_softmax_in_half_precision(name, together):
    """Rounded probabilities sum to one up to their rounding, also beside float32."""
    torch = pytest.importorskip("torch")
    half = getattr(torch, name)
    rng = np.random.default_rng(1)
    logits = torch.asarray(3 * rng.normal(size=(200, 12)))
    weights = torch.softmax(logits.to(half), dim=-1)
    loc = torch.asarray(rng.normal(size=(200, 12))).to(half if together else torch.float32)
    found = kuq.entropy(kuq.NormalMixture(weights, loc, 1.0), kuq.CRPS())
    exact = weights.double() / weights.double().sum(dim=-1, keepdim=True)
    wanted = kuq.entropy(kuq.NormalMixture(exact, loc.double(), 1.0), kuq.CRPS())
    torch.testing.assert_close(found.double(), wanted, rtol=2 * torch.finfo(half).eps, atol=0.0)


def test_weights_that_are_no_probabilities_are_refused_in_half_precision():
    torch = pytest.importorskip("torch")
    weights = torch.full((3, 2), 0.55, dtype=torch.bfloat16)
    with pytest.raises(kuq.ParameterError, match="sum of weights"):
        kuq.NormalMixture(weights, torch.zeros(2, dtype=torch.bfloat16), 1.0)


def result(shift=0.0, score=None, **options):
    members = kuq.Normal(np.array([[0.0, 1.0], [1.0, 2.0 + shift]]), 1.0)
    return kuq.decompose(kuq.Ensemble(members), score or kuq.CRPS(), **options)


def test_results_are_compared_as_a_whole():
    assert result() == result()
    assert result() in [result(shift=1.0), result()]
    assert result() != result(shift=1.0)
    assert result() != result(score=kuq.Energy(0.5))
    assert result() != result(unbiased=False)
    assert result() != dict(result())
    assert result() != "a result"


def test_results_with_nan_are_equal_to_themselves():
    values = np.array([[[0.0, 1.0, np.nan], [np.nan, np.nan, np.nan]]] * 2)

    def undefined():
        draws = kuq.Samples(values, nan_policy="omit")
        return kuq.decompose(kuq.Ensemble(draws), kuq.CRPS())

    assert np.isnan(undefined().total).any()
    assert undefined() == undefined()


def test_results_of_other_libraries_and_dtypes():
    torch = pytest.importorskip("torch")
    members = torch.tensor([[0.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
    tensors = kuq.decompose(kuq.Ensemble(kuq.Normal(members, 1.0)), kuq.CRPS())
    again = kuq.decompose(kuq.Ensemble(kuq.Normal(members, 1.0)), kuq.CRPS())
    assert tensors == again
    assert tensors != result()
    with pytest.raises(TypeError, match="unhashable"):
        hash(tensors)


@pytest.mark.parametrize("law", [kuq.Point, lambda loc: kuq.Normal(loc, 1.0)])
def test_the_variance_of_what_is_no_number_is_none(law):
    loc = np.array([[0.0, 1.0], [2.0, math.nan]])
    with kuq.checks(False):
        u = kuq.decompose(kuq.Ensemble(law(loc)), "variance")
    for part in (u.total, u.aleatoric, u.epistemic):
        assert np.isnan(part).tolist() == [False, True]


@pytest.mark.parametrize("size", [8, 4])
def test_weights_beside_numbers_of_another_byte_order(size):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 2, 3)).astype(f"f{size}")
    other_end = values.astype(values.dtype.newbyteorder())
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    wanted, found = (
        kuq.decompose(kuq.Ensemble(kuq.Point(v, event_ndim=1), weights), kuq.Matern(1.0, 2.5))
        for v in (values, other_end)
    )
    np.testing.assert_array_equal(found.epistemic, wanted.epistemic)
    assert found.epistemic.dtype == values.dtype


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_all_weight_on_one_is_refused_in_every_precision(dtype):
    """In float32 the bound 1 − 1e-9 is one, which no share exceeds: NaN."""
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(2, 3, 4)).astype(dtype)
    alone = np.zeros(draws.shape, dtype)
    alone[..., 2] = 0.7
    with pytest.raises(kuq.InsufficientDataError, match="all weight on one draw"):
        kuq.decompose(kuq.Ensemble(kuq.Samples(draws, weights=alone)), kuq.Energy())
    members = kuq.Ensemble(kuq.Normal(draws[0], 1.0), np.asarray([1e-12, 1.0, 1e-12], dtype))
    with pytest.raises(kuq.InsufficientDataError, match="all weight on one"):
        kuq.decompose(members, kuq.Energy())


def test_a_variance_of_zero_beside_a_very_narrow_kernel():
    """The series of sums over coordinates divided by zero."""
    factor = np.random.default_rng(0).normal(size=(4, 2))
    law = kuq.LowRankNormal(np.zeros(4), factor, [0.0, 1.0, 1.0, 1.0])
    # Two outcomes are hardly ever that close to each other.
    assert float(kuq.entropy(law, kuq.Laplace(1e-20))) == pytest.approx(0.5, rel=1e-8)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_laws_of_a_single_value_are_counted_in_every_precision(dtype):
    from kuq.reports.cases import single_values

    weights = np.asarray([[[0.0, 2.0], [1.0, 1.0]]] * 2, dtype)
    leaves = kuq.Samples(np.zeros((2, 2, 2), dtype), weights=weights, whole=True)
    assert single_values(kuq.Ensemble(leaves)) == 0.5


@pytest.mark.parametrize("batch", [(2, 5), (1, 5), (1, 1, 3), (2, 1, 3)])
def test_an_outcome_may_miss_axes_of_any_length(batch):
    """Of length one as well: a batch of one model is like one of two."""
    law = kuq.Normal(np.zeros(batch), 1.0)
    full = kuq.score(law, np.ones(batch), kuq.CRPS())
    for y in (1.0, np.ones(1), np.ones(batch[-1]), np.ones((1, batch[-1]))):
        np.testing.assert_array_equal(kuq.score(law, y, kuq.CRPS()), full)
    with pytest.raises(kuq.ShapeError, match="leading axes may be missing"):
        kuq.score(law, np.ones(4), kuq.CRPS())
