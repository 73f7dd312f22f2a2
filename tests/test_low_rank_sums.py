"""Short cuts of low-rank normals: pieces, and when care is taken."""

from __future__ import annotations

import numpy as np
import pytest

from kuq.expectations import low_rank, low_rank_close, low_rank_sums
from kuq.expectations.overlap import Overlap, divergence

pytestmark = pytest.mark.filterwarnings("error")


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
