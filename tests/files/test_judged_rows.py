"""What a table says of each of its outcomes, and what the words beside a mean score are."""

import numpy as np
import pytest

import kuq
from kuq.cli import main
from kuq.files import Layout, decompose_file
from kuq.reports.judgement import judge

pd = pytest.importorskip("pandas")
xr = pytest.importorskip("xarray")


def run(capsys, *arguments):
    assert main([str(x) for x in arguments]) == 0
    return capsys.readouterr().out


def test_rows_of_a_table_have_scores(tmp_path, capsys):
    rng = np.random.default_rng(0)
    mean, std, y = rng.normal(size=(3, 8)), rng.uniform(0.5, 2.0, (3, 8)), rng.normal(size=8)
    columns = {"day": [f"d{i}" for i in range(8)], "obs": y.copy()}
    for m in range(3):
        columns |= {f"mean_{m}": mean[m], f"std_{m}": std[m]}
    columns["obs"][2] = np.nan
    path = tmp_path / "days.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    said = run(capsys, "decompose", path, "--target", "obs")
    found = pd.read_csv(tmp_path / "days-uncertainty.csv").score
    members = kuq.Ensemble(kuq.Normal(mean, std))
    wanted = kuq.score(members, y, kuq.CRPS())
    wanted[2] = np.nan
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert f"mean score {np.nanmean(wanted):.4g}" in said


def test_without_outcomes_there_are_none(tmp_path, capsys):
    path = tmp_path / "days.csv"
    pd.DataFrame({"mean_0": [0.0, 1.0], "mean_1": [1.0, 1.0], "std_0": 1.0, "std_1": 2.0}).to_csv(
        path, index=False
    )
    run(capsys, "decompose", path)
    assert "score" not in pd.read_csv(tmp_path / "days-uncertainty.csv")


def test_members_or_draws_stand_beside_the_mean_score(tmp_path, capsys):
    """The same runs have another mean score as draws, so that it is said which one it is."""
    rng = np.random.default_rng(1)
    values = xr.DataArray(rng.normal(size=(9, 4, 5)), dims=("number", "lat", "lon"), name="t")
    observed = xr.DataArray(rng.normal(size=(4, 5)), dims=("lat", "lon"))
    values = values.assign_coords(lat=[0.0, 20.0, 40.0, 60.0], lon=np.arange(5.0))
    path = tmp_path / "runs.nc"
    xr.Dataset({"t": values, "obs": observed}).to_netcdf(path)
    as_members = run(capsys, "decompose", path, "--target", "obs")
    as_draws = run(capsys, "decompose", path, "--target", "obs", "--draws", "number")
    weighted = run(capsys, "decompose", path, "--target", "obs", "--area-weights")
    assert "the mean score takes the members as they are" in as_members
    assert "the mean score is fair: corrected for the number of draws" in as_draws
    assert "outcomes count by their area in the score, the error, coverage and PIT" in weighted
    assert "all alike in the ranking of errors" in weighted
    gaps = np.abs(values - observed).mean("number")
    pairs = np.abs(values - values.rename(number="other")).sum(("number", "other"))
    for said, count in ((as_members, 9 * 9), (as_draws, 9 * 8)):
        assert f"mean score {float((gaps - pairs / 2 / count).mean()):.4g}" in said


def test_what_is_not_split_is_missing_in_a_frame():
    u = kuq.decompose(kuq.Ensemble(kuq.Point([[0.0, 1.0], [2.0, 5.0]])), "crps")
    frame = u.to_frame(index=["a", "b"])
    assert frame[["aleatoric", "epistemic"]].isna().all(axis=None)
    assert frame.total.tolist() == [2.0, 4.0]


def test_a_report_calls_inputs_by_the_index_of_their_outcomes(tmp_path):
    rng = np.random.default_rng(2)
    members = kuq.Ensemble(kuq.Normal(rng.normal(size=(3, 30)), 1.0))
    y = pd.Series(rng.normal(size=30), index=[f"house-{i}" for i in range(30)], name="price")
    page = kuq.report(members, y=y, path=tmp_path / "page.html").read_text(encoding="utf-8")
    assert "house-" in page
    plain = kuq.report(members, y=y.to_numpy(), path=tmp_path / "plain.html")
    assert "house-" not in plain.read_text(encoding="utf-8")


LAT = np.array([-80.0, -40.0, 0.0, 40.0, 80.0])


def field_with_outcomes(path, seed=3):
    """Normals on a grid, worse towards the poles, and what happened."""
    rng = np.random.default_rng(seed)
    dims = ("member", "time", "lat", "lon")
    loc = xr.DataArray(rng.normal(size=(3, 4, 5, 6)), dims=dims)
    loc = loc.assign_coords(lat=LAT, lon=np.arange(6) * 60.0)
    worse = 1 + np.abs(xr.DataArray(LAT, dims="lat")) / 20
    observed = xr.DataArray(rng.normal(size=(4, 5, 6)), dims=dims[1:]) * worse
    data = xr.Dataset({"mean": loc, "std": 0 * loc + 1.0, "obs": observed})
    data.to_netcdf(path)
    law = kuq.Ensemble(kuq.Normal(loc.values, 1.0))
    area = np.broadcast_to(kuq.xarray.area_weights(loc).values[:, None], (4, 5, 6))
    return law, data, area


def test_areas_weigh_the_judgement_of_a_map(tmp_path):
    """The components were weighted, and what outcomes say of them was not."""
    law, data, area = field_with_outcomes(tmp_path / "f.nc")
    layout = Layout(target="obs", area_weights=True)
    found = judge(decompose_file(tmp_path / "f.nc", kuq.CRPS(), layout=layout).only)
    y = data["obs"].values
    losses = kuq.score(law, y, kuq.CRPS())
    mean, half = found.score
    assert mean == pytest.approx(np.average(losses, weights=area), rel=1e-12)
    plain = judge(decompose_file(tmp_path / "f.nc", kuq.CRPS(), layout=Layout(target="obs")).only)
    assert plain.score[0] == pytest.approx(losses.mean(), rel=1e-12)
    assert plain.score[0] > 1.2 * mean  # the poles are small
    squares = (law.mean() - y) ** 2
    assert found.rmse == pytest.approx(np.sqrt(np.average(squares, weights=area)), rel=1e-12)
    low, high = law.interval(0.9)
    inside = (low <= y) & (y <= high)
    assert found.coverage(0.9) == pytest.approx(np.average(inside, weights=area), rel=1e-12)
    assert plain.coverage(0.9) == pytest.approx(inside.mean(), rel=1e-12)
    assert 0 < half < 3 * plain.score[1]
    assert found.size < plain.size == losses.size


def test_areas_weigh_the_judgement_of_a_field(tmp_path):
    law, data, area = field_with_outcomes(tmp_path / "f.nc")
    layout = Layout(target="obs", area_weights=True, event=("lat", "lon"))
    found = judge(decompose_file(tmp_path / "f.nc", kuq.Energy(), layout=layout).only)
    y = data["obs"].values
    squares = (law.mean() - y) ** 2
    each = [np.average(s, weights=a) for s, a in zip(squares, area, strict=True)]
    np.testing.assert_allclose(found.errors, each, rtol=1e-12)
    low, high = law.interval(0.5)
    inside = (low <= y) & (y <= high)
    assert found.coverage(0.5) == pytest.approx(np.average(inside, weights=area), rel=1e-12)
    fields = kuq.Ensemble(kuq.Normal(data["mean"].values, 1.0, event_ndim=2))
    losses = kuq.score(fields, y, kuq.Energy(weights=area[0]))
    assert found.score[0] == pytest.approx(losses.mean(), rel=1e-9)


def test_cells_that_were_never_observed_are_left_out_of_the_judgement(tmp_path, capsys):
    """Forecasts everywhere, observations over land: nothing was judged."""
    _, data, area = field_with_outcomes(tmp_path / "f.nc")
    land = np.add.outer(np.arange(5), np.arange(6)) % 3 > 0
    data["obs"] = data["obs"].where(xr.DataArray(land, dims=("lat", "lon")))
    data.to_netcdf(tmp_path / "g.nc")
    layout = Layout(target="obs", event=("lat", "lon"), area_weights=True)
    found = judge(decompose_file(tmp_path / "g.nc", kuq.Energy(), layout=layout).only)
    assert (found.count, found.unobserved) == (4, int((~land).sum()))
    shares = area[0][land] / area[0][land].mean()
    fields = kuq.Ensemble(kuq.Normal(data["mean"].values[..., land], 1.0, event_ndim=1))
    y = data["obs"].values[:, land]
    losses = kuq.score(fields, y, kuq.Energy(weights=shares))
    assert found.score[0] == pytest.approx(losses.mean(), rel=1e-9)
    named = kuq.xarray.score(
        data[["mean", "std"]], data["obs"], "energy", event_dims=("lat", "lon"), weights="area"
    )
    assert found.score[0] == pytest.approx(float(named.mean()), rel=1e-9)
    words = ("--target", "obs", "--event", "lat,lon", "--score")
    said = run(capsys, "decompose", tmp_path / "g.nc", *words, "energy")
    assert f"{(~land).sum()} cells were never observed and do not count here" in said
    said = run(capsys, "decompose", tmp_path / "g.nc", *words, "log")
    assert "fewer than two predictions have an outcome" in said


def test_neighbours_on_a_grid_are_not_independent(tmp_path, capsys):
    field_with_outcomes(tmp_path / "f.nc")
    said = run(capsys, "decompose", tmp_path / "f.nc", "--target", "obs")
    assert "the ± of the mean score takes outcomes as independent" in said
