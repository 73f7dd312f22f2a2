"""Short cuts of low-rank normals: the series in the scale, pieces, and when care is taken."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import default_rng

from kuq.expectations import low_rank, low_rank_close, low_rank_sums
from kuq.expectations.overlap import Overlap, divergence

pytestmark = pytest.mark.filterwarnings("error")

D = 300
VARIANCES = {
    "equal": np.full(D, 0.7),
    "within a factor of three": default_rng(5).uniform(0.5, 1.5, size=D),
    "with zeros": default_rng(6).uniform(0.0, 2.0, size=D) * (np.arange(D) > 20),
    "log-uniform": np.exp(default_rng(7).uniform(-3.0, 0.0, size=D)),
}
#: Rounding errors of a sum of D terms grow like √D, whatever its order; ten times that.
ROUNDING = 10 * np.sqrt(D) * np.finfo(float).eps
FEW = np.where(np.arange(D) < 3, 1.0, 1e-8)  # three coordinates have all the variance


def close_to(actual: np.ndarray, wanted: np.ndarray, rtol: float) -> None:
    np.testing.assert_allclose(actual, wanted, rtol=rtol)


# The series.


@pytest.mark.parametrize("name", VARIANCES)
@pytest.mark.parametrize("largest", [1e-9, 1e-4, 1e-2, 3e-2])
def test_series_against_sums_at_every_node(name: str, largest: float) -> None:
    rng = np.random.default_rng(5)
    variance, rows = VARIANCES[name], rng.normal(size=(5, D))
    scale = largest * np.exp(-np.arange(14.0))
    series = low_rank_sums._plan(scale, variance)
    assert series is not None
    assert 2 <= series.terms < 14
    gram, logs = low_rank_sums._by_series(scale, rows, variance, series)
    wanted_gram, wanted_logs = low_rank_sums._node_by_node(scale, rows, variance)
    close_to(logs, wanted_logs, ROUNDING)
    # Every Gram matrix in units of its own diagonal: the weights are relatively accurate.
    size = np.sqrt(np.diagonal(wanted_gram, axis1=-2, axis2=-1))
    error = (gram - wanted_gram) / size[:, :, None] / size[:, None, :]
    assert np.max(np.abs(error)) < ROUNDING
    if largest == 1e-4:  # there the bound is seen to notice a series that is two terms too short
        fewer = series._replace(terms=series.terms - 2)
        gram, _ = low_rank_sums._by_series(scale, rows, variance, fewer)
        error = (gram - wanted_gram) / size[:, :, None] / size[:, None, :]
        assert np.max(np.abs(error)) > 100 * ROUNDING


def test_number_of_terms_follows_the_scale() -> None:
    variance = VARIANCES["within a factor of three"]
    nodes = np.exp(-np.arange(30.0))
    terms = [low_rank_sums._plan(x * nodes, variance).terms for x in (1e-9, 1e-5, 1e-2, 0.1)]
    assert terms == sorted(terms)
    assert terms[0] <= 3
    assert terms[-1] >= 10


def test_where_the_series_is_not_used() -> None:
    nodes, variance = np.exp(-np.arange(12.0)), VARIANCES["with zeros"]
    assert low_rank_sums._plan(1e-3 * nodes[:1], variance) is None  # one node
    assert low_rank_sums._plan(1e6 * nodes, variance) is None  # would be long
    assert low_rank_sums._plan(1e-3 * nodes, FEW) is None  # would cancel in the logarithms
    assert low_rank_sums._plan(1e-3 * nodes, 0 * variance) is None
    # Equal variances have few terms at every scale.
    assert low_rank_sums._plan(1e6 * nodes, VARIANCES["equal"][None]) is None
    assert low_rank_sums._plan(0.1 * nodes, VARIANCES["equal"][None]) is not None


@pytest.mark.parametrize("name", VARIANCES)
@pytest.mark.parametrize("largest", [1e-6, 1e-2])
def test_gradient_of_the_series(name: str, largest: float) -> None:
    rng = np.random.default_rng(5)
    torch = pytest.importorskip("torch")
    scale = torch.tensor(largest * np.exp(-np.arange(14.0)))
    weights = torch.tensor(rng.normal(size=(14, 3, 3)))
    start = torch.tensor(rng.normal(size=(3, D)))

    def gradients(use_series: bool) -> list[np.ndarray]:
        variance = torch.tensor(VARIANCES[name], requires_grad=True)
        rows = start.clone().requires_grad_()
        plan = low_rank_sums._plan(scale, variance)
        function = low_rank_sums._by_series if use_series else low_rank_sums._node_by_node
        gram, logs = function(scale, rows, variance, *([plan] if use_series else []))
        gram_only = torch.autograd.grad((gram * weights).sum(), (variance, rows), retain_graph=True)
        logs_only = torch.autograd.grad(logs.sum(), variance)
        return [x.numpy() for x in (*gram_only, *logs_only)]

    for actual, wanted in zip(gradients(True), gradients(False), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-9, atol=1e-10 * np.abs(wanted).max())


# Laws.


def stack(count: int, d: int, r: int, spread: float = 1.0, seed: int = 1) -> tuple[np.ndarray, ...]:
    """Laws around a common one, which differ by a relative ``spread``."""
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=d), rng.normal(size=(d, r)) / 3, rng.uniform(0.5, 1.5, size=d)
    loc, factor, diag = (x + 0.3 * spread * rng.normal(size=(count, *x.shape)) for x in centre)
    return loc, factor, np.maximum(diag, 0.1)


@pytest.mark.parametrize("nodes", [1, 9])
@pytest.mark.parametrize("spread", [1.0, 1e-6])
def test_pieces_do_not_matter(monkeypatch: pytest.MonkeyPatch, nodes: int, spread: float) -> None:
    p = [x[:, None, None] for x in stack(4, 60, 3, spread)]
    q = [x[None, :, None] for x in stack(3, 60, 3, spread, seed=2)]
    t = np.geomspace(1e-4, 1e-2, nodes)[:, None, None, None] * np.ones((4, 3, 2))
    whole = low_rank.overlap(t, *p, *q)
    monkeypatch.setattr(low_rank_sums, "CACHE", 900)
    for part, wanted in zip(low_rank.overlap(t, *p, *q), whole, strict=True):
        assert part.shape == (nodes, 4, 3, 2)
        np.testing.assert_allclose(part, wanted, rtol=1e-12, atol=1e-15)


def test_laws_that_differ_are_compared_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(low_rank_close, "compare", fail)
    p, q = ([x[k] for x in stack(2, 400, 4)] for k in range(2))
    t = np.geomspace(1e-8, 0.1, 10)
    assert np.isfinite(low_rank.overlap(t, *p, *q)).all()


def test_only_the_nodes_that_need_care_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal means: the divergence is of second order at small t, and lost in the logarithms."""
    seen, compare = [], low_rank_close.compare

    def watched(t: np.ndarray, *laws: np.ndarray) -> low_rank_close.Comparison:
        seen.append(t)
        return compare(t, *laws)

    monkeypatch.setattr(low_rank_close, "compare", watched)
    loc, factor, diag = stack(2, 400, 4)
    t = np.geomspace(1e-12, 1e-2, 11)
    low_rank.overlap(t, loc[0], factor[0], diag[0], loc[0], factor[1], diag[1])
    (careful,) = seen
    assert 0 < careful.size < t.size
    np.testing.assert_array_equal(careful, t[: careful.size])


@pytest.mark.parametrize("same_mean", [False, True])
@pytest.mark.parametrize("exponent", np.arange(-7.0, 0.5, 0.5))
def test_plain_and_careful_comparison_agree(
    monkeypatch: pytest.MonkeyPatch, exponent: float, same_mean: bool
) -> None:
    loc, factor, diag = stack(2, 400, 4, 10.0**exponent)
    second = loc[0 if same_mean else 1], factor[1], diag[1]
    t = np.geomspace(1e-9, 0.1, 12)
    mixed = divergence(Overlap(*low_rank.overlap(t, loc[0], factor[0], diag[0], *second)))
    monkeypatch.setattr(low_rank, "_lost", lambda parts, _: parts.gap > -1.0)  # everywhere
    careful = divergence(Overlap(*low_rank.overlap(t, loc[0], factor[0], diag[0], *second)))
    alive = careful > 1e-250
    np.testing.assert_allclose(mixed[alive], careful[alive], rtol=1e-10)
