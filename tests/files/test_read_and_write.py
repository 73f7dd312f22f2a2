"""Predictions in files: every format and layout gives what the arrays give in Python."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import default_rng

import kuq
from kuq.files import Layout, decompose_file
from kuq.files.roles import Names

pd = pytest.importorskip("pandas")

M, N, DRAWS = 3, 5, 4
LOC, SCALE = default_rng(1).normal(size=(M, N)), default_rng(2).uniform(0.5, 2, size=(M, N))
DRAWN = default_rng(3).normal(size=(M, N, DRAWS))
PARTS = ("total", "aleatoric", "epistemic")
NORMAL = kuq.Ensemble(kuq.Normal(LOC, SCALE))


def check(result, prediction, score):
    """The file's numbers are those of the library; parts that cannot be split are missing."""
    expected = kuq.decompose(prediction, score)
    written = read_back(result.out)
    for part in PARTS:
        np.testing.assert_allclose(result.uncertainty[part], expected[part], rtol=1e-12)
        known = expected.is_split or part == "total"
        there = expected[part] if known else np.full(expected.total.shape, np.nan)
        np.testing.assert_allclose(written[part], there, rtol=1e-12)
    assert result.uncertainty.method == expected.method
    return written


def read_back(path):
    if path.suffix == ".npz":
        return np.load(path, allow_pickle=False)
    return pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)


def save(table, path):
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path, index=False)


@pytest.mark.parametrize(
    "names", [("loc", "scale"), ("mean", "std"), ("mu", "sigma"), ("Mean", "StdDev")]
)
def test_npz_of_normals_under_usual_names(tmp_path, names):
    path = tmp_path / "p.npz"
    np.savez(path, **{names[0]: LOC, names[1]: SCALE, "something_else": np.arange(3)})
    written = check(decompose_file(path, kuq.CRPS()), NORMAL, kuq.CRPS())
    assert str(written["units"]) == "target units"
    assert str(written["method"]) == "exact"
    assert str(written["score"]) == "CRPS()"


def test_npz_of_variances(tmp_path):
    np.savez(tmp_path / "p.npz", mean=LOC, var=SCALE**2)
    check(decompose_file(tmp_path / "p.npz", kuq.CRPS()), NORMAL, kuq.CRPS())


def test_npz_scale_may_be_smaller_where_it_is_shared(tmp_path):
    np.savez(tmp_path / "p.npz", mean=LOC, std=np.full(N, 0.3))
    expected = kuq.Ensemble(kuq.Normal(LOC, 0.3))
    check(decompose_file(tmp_path / "p.npz", kuq.CRPS()), expected, kuq.CRPS())


def test_npz_of_draws_with_axes_elsewhere_and_weights(tmp_path):
    path = tmp_path / "p.npz"
    weights = np.array([1.0, 2.0, 3.0])
    stored = np.transpose(DRAWN, (2, 0, 1))  # (draws, members, inputs)
    np.savez(path, t2m=stored, member_weights=weights)
    layout = Layout(Names(samples="t2m"), member="1", sample="0")
    result = decompose_file(path, kuq.Gaussian(1.0), layout=layout)
    check(result, kuq.Ensemble(kuq.Samples(DRAWN), weights), kuq.Gaussian(1.0))


def test_npz_of_fields(tmp_path):
    rng = np.random.default_rng(1)
    fields = rng.normal(size=(3, 2, 4, 5, 6))
    np.savez(tmp_path / "p.npz", samples=fields)
    result = decompose_file(tmp_path / "p.npz", kuq.Energy(), layout=Layout(event=("2",)))
    check(result, kuq.Ensemble(kuq.Samples(fields, event_ndim=2)), kuq.Energy())


def test_npz_of_other_laws(tmp_path):
    rng = np.random.default_rng(1)
    path = tmp_path / "p.npz"
    np.savez(path, df=np.full((M, N), 6.0), loc=LOC, scale=SCALE)
    check(decompose_file(path, kuq.CRPS()), kuq.Ensemble(kuq.StudentT(6.0, LOC, SCALE)), kuq.CRPS())
    shape = (M, N, 2)
    weights, loc, scale = np.full(shape, 0.5), rng.normal(size=shape), np.ones(shape)
    np.savez(path, pi=weights, mu=loc, sigma=scale)
    mixture = kuq.Ensemble(kuq.NormalMixture(weights, loc, scale))
    check(decompose_file(path, kuq.CRPS()), mixture, kuq.CRPS())
    np.savez(path, predictions=LOC)
    check(decompose_file(path, kuq.CRPS()), kuq.Ensemble(kuq.Point(LOC)), kuq.CRPS())
    evidential = {"gamma": LOC[0], "nu": SCALE[0], "alpha": SCALE[1] + 2, "beta": SCALE[2]}
    np.savez(path, **evidential)
    law = kuq.NormalInverseGamma(*evidential.values())
    check(decompose_file(path, kuq.CRPS()), law, kuq.CRPS())


def test_the_median_bandwidth_is_one_for_all_pieces(tmp_path, monkeypatch):
    from kuq.files import stored as files_stored

    np.savez(tmp_path / "p.npz", mean=LOC * np.array([1, 1, 1, 50, 50]), std=SCALE)
    whole = decompose_file(tmp_path / "p.npz", kuq.Gaussian("median"))
    monkeypatch.setattr(files_stored, "_PIECE", 4)
    seen = []
    result = decompose_file(
        tmp_path / "p.npz", kuq.Gaussian("median"), progress=lambda *a: seen.append(a)
    )
    assert seen == [(k, N) for k in range(1, N + 1)]
    assert result.uncertainty.score == whole.uncertainty.score
    np.testing.assert_allclose(result.uncertainty.total, whole.uncertainty.total, rtol=1e-12)


def wide(columns):
    return pd.DataFrame({"city": [f"town {i}" for i in range(N)], **columns})


WIDE = {
    "mean_0": lambda m: {f"mean_{m}": LOC[m], f"std_{m}": SCALE[m]},
    "mu0": lambda m: {f"mu{m}": LOC[m], f"sigma{m}": SCALE[m]},
    "member_0_loc": lambda m: {f"member_{m}_loc": LOC[m], f"member_{m}_scale": SCALE[m]},
    "variance": lambda m: {f"mean.{m + 1}": LOC[m], f"var.{m + 1}": SCALE[m] ** 2},
}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("style", WIDE)
def test_wide_tables_of_normals(tmp_path, suffix, style):
    table = wide({k: v for m in range(M) for k, v in WIDE[style](m).items()})
    save(table, tmp_path / f"p{suffix}")
    result = decompose_file(tmp_path / f"p{suffix}", kuq.CRPS())
    written = check(result, NORMAL, kuq.CRPS())
    assert list(written.columns) == [*table.columns, *PARTS]
    assert result.labels[1] == "town 1"


def test_wide_tables_of_draws_and_of_points(tmp_path):
    columns = {f"sample_{m}_{k}": DRAWN[m, :, k] for m in range(M) for k in reversed(range(DRAWS))}
    save(wide(columns), tmp_path / "p.csv")
    expected = kuq.Ensemble(kuq.Samples(DRAWN))
    check(decompose_file(tmp_path / "p.csv", kuq.CRPS()), expected, kuq.CRPS())
    save(wide({f"tree_{m}": LOC[m] for m in range(M)}), tmp_path / "q.csv")
    expected = kuq.Ensemble(kuq.Point(LOC))
    check(decompose_file(tmp_path / "q.csv", kuq.CRPS()), expected, kuq.CRPS())


def test_more_than_ten_members_are_sorted_by_number(tmp_path):
    rng = np.random.default_rng(1)
    loc = rng.normal(size=(12, N)) * np.arange(1, 13)[:, None]
    means = {f"mean_{m}": loc[m] for m in range(12)}
    spreads = {f"std_{m}": SCALE[0] * (m + 1) for m in range(12)}
    save(wide(means | spreads), tmp_path / "p.csv")
    result = decompose_file(tmp_path / "p.csv", kuq.CRPS())
    expected = kuq.Ensemble(kuq.Normal(loc, SCALE[0] * np.arange(1, 13)[:, None]))
    check(result, expected, kuq.CRPS())
    np.testing.assert_allclose(result.prediction_at(np.array([0])).members.loc[:, 0], loc[:, 0])


def long_table():
    rows = [
        {"x": float(i), "model": f"m{m}", "mean": LOC[m, i], "std": SCALE[m, i]}
        for m in range(M)
        for i in range(N)
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=0).reset_index(drop=True)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_long_tables_in_any_order(tmp_path, suffix):
    save(long_table(), tmp_path / f"p{suffix}")
    result = decompose_file(tmp_path / f"p{suffix}", kuq.CRPS())
    written = read_back(result.out).sort_values("x")
    expected = kuq.decompose(NORMAL, kuq.CRPS())
    np.testing.assert_allclose(written["epistemic"], expected.epistemic, rtol=1e-12)
    assert list(written.columns) == ["x", *PARTS]
    assert len(written) == N


def test_long_tables_of_draws_and_weights(tmp_path):
    rows = [
        {"x": i, "member": m, "draw": k, "value": DRAWN[m, i, k], "weight": m + 1.0}
        for m in range(M)
        for i in range(N)
        for k in range(DRAWS)
    ]
    save(pd.DataFrame(rows), tmp_path / "p.csv")
    expected = kuq.Ensemble(kuq.Samples(DRAWN), [1.0, 2.0, 3.0])
    check(decompose_file(tmp_path / "p.csv", kuq.CRPS()), expected, kuq.CRPS())


def test_long_tables_without_keys_go_by_order(tmp_path):
    rows = [{"member": m, "prediction": LOC[m, i]} for i in range(N) for m in range(M)]
    save(pd.DataFrame(rows), tmp_path / "p.csv")
    check(decompose_file(tmp_path / "p.csv", kuq.CRPS()), kuq.Ensemble(kuq.Point(LOC)), kuq.CRPS())


def test_tables_of_evidential_predictions(tmp_path):
    table = wide({"loc": LOC[0], "nu": SCALE[0], "alpha": SCALE[1] + 2, "beta": SCALE[2]})
    save(table, tmp_path / "p.csv")
    law = kuq.NormalInverseGamma(LOC[0], SCALE[0], SCALE[1] + 2, SCALE[2])
    check(decompose_file(tmp_path / "p.csv", kuq.CRPS()), law, kuq.CRPS())


def test_missing_draws_by_request(tmp_path):
    values = DRAWN.copy()
    values[0, 0, 0] = np.nan
    np.savez(tmp_path / "p.npz", samples=values)
    result = decompose_file(tmp_path / "p.npz", kuq.CRPS(), layout=Layout(nan_policy="omit"))
    check(result, kuq.Ensemble(kuq.Samples(values, nan_policy="omit")), kuq.CRPS())


def test_monte_carlo_by_request(tmp_path):
    np.savez(tmp_path / "p.npz", mean=LOC, std=SCALE)
    score = kuq.Energy(1.5).on(np.abs)
    result = decompose_file(tmp_path / "p.npz", score, draws=50, seed=3)
    expected = kuq.decompose(NORMAL, score, draws=50, seed=3)
    np.testing.assert_allclose(result.uncertainty.total, expected.total)
    assert result.uncertainty.method == "monte-carlo"
