"""Missing values, masks of the sea, areas of cells, and several variables of one file."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kuq
from kuq.cli import main
from kuq.files import Layout, Names, decompose_file
from kuq.reports.decomposition import decomposition_report

xr = pytest.importorskip("xarray")
pytest.importorskip("dask")

LAT = np.linspace(-60.0, 60.0, 7)
LON = np.arange(0.0, 360.0, 45.0)
SEA = np.add.outer(np.arange(7), np.arange(8)) % 3 == 0
DIMS = ("number", "time", "lat", "lon")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def masked(seed, units="K", members=4):
    """Forecasts over land."""
    values = np.random.default_rng(seed).normal(280, 2, size=(members, 3, 7, 8))
    coords = {"number": [f"run {m}" for m in range(members)], "lat": LAT, "lon": LON}
    values = np.where(SEA, np.nan, values)
    return xr.DataArray(values, dims=DIMS, coords=coords, attrs={"units": units})


def normals(seed):
    loc = masked(seed)
    return xr.Dataset({"mean": loc, "std": 0 * loc + 1.5})


def read(path):
    with xr.open_dataset(path) as found:
        return found.load()


def text_of(page):
    """What a reader sees: no tags, no style."""
    page = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return re.sub(r"<[^>]*>", " ", page)


@pytest.mark.parametrize("law", ["normals", "points", "draws"])
def test_a_sea_mask_propagates_and_is_said(folder, capsys, law):
    """It was an error; and with --nan propagate the page was full of nan."""
    data = normals(0)
    if law == "points":
        data = data["mean"].to_dataset(name="t2m")
    if law == "draws":
        noise = xr.DataArray(np.random.default_rng(1).normal(size=5), dims="draw")
        data = (data["mean"] + noise).to_dataset(name="t2m")
    data.to_netcdf("f.nc")
    assert main(["decompose", "f.nc", "--report", "f.html"]) == 0
    said = capsys.readouterr().out
    missing = 3 * int(SEA.sum())
    assert f"{missing} of 168 inputs have missing values (NaN) and no result" in said
    written = read("f-uncertainty.nc")
    assert np.array_equal(np.isnan(written["total"].values), np.broadcast_to(SEA, (3, 7, 8)))
    loc = data["mean"].values if law == "normals" else data["t2m"].values
    land = loc.reshape(4, 3, 7, 8, -1)[:, :, ~SEA]
    laws = {
        "normals": lambda: kuq.Normal(land[..., 0], 1.5),
        "points": lambda: kuq.Point(land[..., 0]),
        "draws": lambda: kuq.Samples(land),
    }
    expected = kuq.decompose(kuq.Ensemble(laws[law]()), kuq.CRPS())
    np.testing.assert_allclose(
        written["total"].values[:, ~SEA], expected.total, rtol=1e-10, atol=1e-12
    )
    page = (folder / "f.html").read_text(encoding="utf-8")
    assert re.search(r"\b(nan|NaN|none|inf)\b", text_of(page).replace("(NaN)", "")) is None
    matrix = kuq.member_divergences(kuq.Ensemble(laws[law]()), kuq.CRPS()).mean(axis=(-1, -2))
    assert f"run 0 and run 1: {matrix[0, 1]:.3g}" in page
    assert "run 3" in page


def test_no_sentence_is_made_of_nothing(folder, capsys):
    """ "No member stands apart" was said of a matrix of nan."""
    data = masked(2)
    data[...] = np.nan
    data.to_dataset(name="t2m").to_netcdf("f.nc")
    assert main(["decompose", "f.nc", "--report", "f.html"]) == 0
    page = text_of((folder / "f.html").read_text(encoding="utf-8"))
    assert "No input has a result" in page
    assert "stands apart" not in page
    assert "Which members" not in page
    assert "Almost all" not in page


@pytest.mark.parametrize("score", [kuq.CRPS(), kuq.Energy(), kuq.Gaussian(9.0), kuq.SquaredError()])
def test_masked_cells_are_no_part_of_an_outcome(folder, score):
    """With --event lat,lon everything became NaN."""
    data = normals(3)
    data.to_netcdf("f.nc")
    result = decompose_file(folder / "f.nc", score, layout=Layout(event=("lat", "lon")))
    land = data["mean"].values[..., ~SEA]
    expected = kuq.decompose(kuq.Ensemble(kuq.Normal(land, 1.5, event_ndim=1)), score)
    np.testing.assert_allclose(result.uncertainty.epistemic, expected.epistemic, rtol=1e-7)
    np.testing.assert_allclose(result.uncertainty.total, expected.total, rtol=1e-7)
    assert f"{int(SEA.sum())} of 56 cells are missing" in " ".join(result.only.notes)
    part = result.only.inputs_at(np.array([0, 2]))
    assert np.array_equal(part.cells, ~SEA)
    assert not part.masked.any()
    assert "Where on the grid" in decomposition_report(result)


def test_a_field_with_another_gap_has_no_result_and_the_others_do(folder):
    data = normals(4)
    data["mean"][1, 2, 0, 1] = np.nan  # a cell of the land, at one time, of one member
    data.to_netcdf("f.nc")
    result = decompose_file(
        folder / "f.nc", kuq.Gaussian("median"), layout=Layout(event=("lat", "lon"))
    )
    assert np.isnan(result.uncertainty.total).tolist() == [False, False, True]
    land = data["mean"].values[:, :2][..., ~SEA]
    ensemble = kuq.Ensemble(kuq.Normal(land, 1.5, event_ndim=1))
    expected = kuq.decompose(ensemble, kuq.Gaussian("median"))
    assert result.uncertainty.score.bandwidth == pytest.approx(expected.score.bandwidth, rel=1e-10)
    np.testing.assert_allclose(result.uncertainty.total[:2], expected.total, rtol=1e-9)
    assert "1 of 3 inputs have missing values" in " ".join(result.only.notes)
    assert decomposition_report(result)


def test_masks_of_arrays_and_tables(folder, capsys):
    loc = masked(5).values
    np.savez("f.npz", mean=loc, std=np.ones(loc.shape))
    assert main(["decompose", "f.npz"]) == 2
    assert "--nan propagate" in capsys.readouterr().err
    layout = Layout(event=("2",), nan_policy="propagate")
    result = decompose_file(folder / "f.npz", kuq.Energy(), layout=layout)
    law = kuq.Normal(loc[..., ~SEA], 1.0, event_ndim=1)
    expected = kuq.decompose(kuq.Ensemble(law), kuq.Energy())
    np.testing.assert_allclose(result.uncertainty.total, expected.total, rtol=1e-7)
    cells = decompose_file(folder / "f.npz", kuq.CRPS(), layout=Layout(nan_policy="propagate"))
    assert np.array_equal(np.isnan(cells.uncertainty.total), np.broadcast_to(SEA, (3, 7, 8)))
    assert decomposition_report(cells)
    (folder / "p.csv").write_text("mean_0,std_0,mean_1,std_1\n0,1,,1\n0,1,2,1\n3,1,5,1\n")
    assert main(["decompose", "p.csv", "--nan", "propagate", "--score", "variance"]) == 0
    assert "1 of 3 inputs have missing values" in capsys.readouterr().out
    pd = pytest.importorskip("pandas")
    written = pd.read_csv("p-uncertainty.csv")
    np.testing.assert_allclose(written["epistemic"], [np.nan, 2.0, 2.0])
    assert main(["decompose", "p.csv", "--nan", "omit"]) == 0
    assert "1 of 3 inputs have fewer than two members and no result" in capsys.readouterr().out


def test_a_median_bandwidth_is_that_of_what_is_known(folder):
    data = normals(6)
    data.to_netcdf("f.nc")
    result = decompose_file(folder / "f.nc", kuq.Gaussian("median"))
    land = data["mean"].values[..., ~SEA]
    expected = kuq.decompose(kuq.Ensemble(kuq.Normal(land, 1.5)), kuq.Gaussian("median"))
    assert result.uncertainty.score.bandwidth == pytest.approx(expected.score.bandwidth, rel=1e-10)


def test_areas_of_cells_count_in_the_score(folder, capsys):
    data = normals(7)
    data.to_netcdf("f.nc")
    options = ["--event", "lat,lon", "--area-weights", "--score", "energy"]
    assert main(["decompose", "f.nc", *options]) == 0
    assert "cells of an outcome count by their area" in capsys.readouterr().out
    areas = kuq.xarray.area_weights(data).values  # sin(north) − sin(south)
    weights = np.broadcast_to(areas[:, None], (7, 8))[~SEA]
    weights = weights / weights.mean()  # as in a file that holds the land alone
    law = kuq.Normal(data["mean"].values[..., ~SEA], 1.5, event_ndim=1)
    expected = kuq.decompose(kuq.Ensemble(law), kuq.Energy(weights=weights))
    np.testing.assert_allclose(read("f-uncertainty.nc")["total"], expected.total, rtol=1e-7)


def test_areas_of_cells_count_in_means(folder, capsys):
    data = normals(8)
    data.to_netcdf("f.nc")
    assert main(["decompose", "f.nc", "--area-weights", "--report", "f.html"]) == 0
    said = capsys.readouterr().out
    assert "means are weighted by the areas" in said
    total = read("f-uncertainty.nc")["total"]
    mean = float(total.weighted(kuq.xarray.area_weights(total)).mean())
    assert mean != pytest.approx(float(total.mean()), rel=1e-4)
    row = next(line for line in said.splitlines() if line.startswith("total"))
    assert float(row.split()[1]) == pytest.approx(mean, rel=1e-4)
    assert f"<b>{mean:.3g}</b>" in (folder / "f.html").read_text(encoding="utf-8")
    np.savez("p.npz", mean=np.zeros((2, 3)), std=np.ones((2, 3)))
    assert main(["decompose", "p.npz", "--area-weights"]) == 2
    assert "--area-weights" in capsys.readouterr().err


def test_variance_is_the_one_that_everybody_knows(folder, capsys):
    rng = np.random.default_rng(9)
    loc, std = rng.normal(size=(5, 30)), rng.uniform(0.5, 1, size=(5, 30))
    np.savez("p.npz", mean=loc, std=std)
    assert main(["decompose", "p.npz", "--score", "variance"]) == 0
    said = capsys.readouterr().out
    assert "variance" in said
    with np.load("p-uncertainty.npz") as written:
        np.testing.assert_allclose(written["aleatoric"], (std**2).mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(written["epistemic"], loc.var(axis=0, ddof=1), rtol=1e-12)
    assert main(["decompose", "p.npz", "--score", "squared"]) == 0
    with np.load("p-uncertainty.npz") as written:
        np.testing.assert_allclose(written["epistemic"], 2 * loc.var(axis=0, ddof=1), rtol=1e-12)


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_several_variables_are_several_sections(folder, capsys, suffix):
    """It was an error that named neither of them."""
    data = xr.Dataset({"t2m": masked(10), "tp": masked(11, "mm") / 40})
    data["tp"].attrs["units"] = "mm"
    data = data.drop_vars("number")  # texts have no lasting form in Zarr
    data["land"] = (("lat", "lon"), (~SEA).astype(float))
    save = {".nc": data.to_netcdf, ".zarr": lambda p: data.to_zarr(p, consolidated=False)}
    save[suffix](f"f{suffix}")
    for _ in range(2):  # the second time replaces its own output
        assert main(["decompose", f"f{suffix}", "--report", "f.html"]) == 0
    said = capsys.readouterr().out
    assert "not used: 'land'" in said
    out = f"f-uncertainty{suffix}"
    written = xr.open_zarr(out, consolidated=False) if suffix == ".zarr" else xr.open_dataset(out)
    for name, unit in (("t2m", "K"), ("tp", "mm")):
        points = kuq.Ensemble(kuq.Point(data[name].values[..., ~SEA]))
        expected = kuq.decompose(points, kuq.CRPS())
        found = written[f"{name}_total"]
        np.testing.assert_allclose(found.values[:, ~SEA], expected.total, rtol=1e-10)
        assert found.attrs["units"] == unit
        assert found.attrs["score"] == "CRPS()"
    written.close()
    page = (folder / "f.html").read_text(encoding="utf-8")
    assert page.index("<h2>t2m</h2>") < page.index("(K)") < page.index("<h2>tp</h2>")
    assert page.index("<h2>tp</h2>") < page.index("(mm)")
    result = decompose_file(folder / f"f{suffix}", kuq.CRPS())
    with pytest.raises(kuq.ParameterError, match="t2m, tp"):
        _ = result.uncertainty


def test_variables_by_patterns(folder):
    data = xr.Dataset()
    for name, seed in (("t2m", 12), ("wind", 13)):
        data[f"{name}_mean"] = masked(seed)
        data[f"{name}_spread"] = 0 * masked(seed) + 2.0
        data[f"{name}_obs"] = masked(seed).mean("number")
    data.to_netcdf("f.nc")
    layout = Layout(Names(loc="{}_mean", scale="{}_spread"), target="{}_obs")
    result = decompose_file(folder / "f.nc", kuq.CRPS(), layout=layout)
    assert [one.name for one in result.variables] == ["t2m", "wind"]
    for one in result.variables:
        law = kuq.Normal(data[f"{one.name}_mean"].values[..., ~SEA], 2.0)
        expected = kuq.decompose(kuq.Ensemble(law), kuq.CRPS())
        np.testing.assert_allclose(one.uncertainty.total[:, ~SEA], expected.total, rtol=1e-10)
        assert one.target == f"{one.name}_obs"
    layout = Layout(Names(loc="{}_mean", scale="{}_spread"), target="t2m_obs")
    result = decompose_file(folder / "f.nc", kuq.CRPS(), layout=layout)
    assert [one.target for one in result.variables] == ["t2m_obs", None]


def test_a_single_time_beside_the_grid_is_kept(folder):
    """A coordinate without dimension that is a time was left out, with a note that was false."""
    data = masked(14).isel(time=0).to_dataset(name="t2m")
    data = data.assign_coords(reference=np.datetime64("2011-07-18", "ns"), lead=24)
    data.to_netcdf("f.nc")
    result = decompose_file(folder / "f.nc", kuq.CRPS())
    assert "reference" not in " ".join(result.only.notes)
    assert read(result.out)["reference"].values == np.datetime64("2011-07-18", "ns")
    assert result.description.endswith("56 predictions by lat (7) × lon (8)")
    event = Layout(event=("lat", "lon"))
    result = decompose_file(folder / "f.nc", kuq.Energy(), layout=event)
    assert result.description.endswith("; one prediction of 7 lat × 8 lon values")


@pytest.mark.parametrize("spread", ["std", "sd", "variance"])
def test_pairs_of_means_and_spreads_are_normals(folder, capsys, spread):
    """No prediction was found among 't2m_mean', 't2m_std'."""
    rng = np.random.default_rng(6)
    dims = ("member", "time")
    loc, scale = rng.normal(size=(3, 4)), rng.uniform(1, 2, size=(3, 4))
    stored = scale**2 if spread == "variance" else scale
    data = xr.Dataset({"t2m_mean": (dims, loc), f"t2m_{spread}": (dims, stored)})
    data["land"] = ("time", np.zeros(4))
    data.to_netcdf("one.nc")
    assert main(["decompose", "one.nc"]) == 0
    said = capsys.readouterr().out
    assert "3 members, each a normal distribution; 4 predictions by time" in said
    assert "not used: 'land'" in said
    expected = kuq.decompose(kuq.Ensemble(kuq.Normal(loc, scale)), kuq.CRPS())
    np.testing.assert_allclose(read("one-uncertainty.nc")["total"], expected.total, rtol=1e-12)
    data["tp_mean"], data["tp_std"] = data["t2m_mean"] + 1, 0 * data["t2m_mean"] + 3.0
    data["weights"] = ("member", [0.5, 0.25, 0.25])
    data["t2m_obs"], data["tp_obs"] = data["land"] + 0.1, data["land"] + 0.2
    data.to_netcdf("two.nc")
    options = ["--target", "{}_obs", "--report", "two.html"]
    assert main(["decompose", "two.nc", *options]) == 0
    weights = [0.5, 0.25, 0.25]
    wanted = {
        "t2m": kuq.decompose(kuq.Ensemble(kuq.Normal(loc, scale), weights), kuq.CRPS()),
        "tp": kuq.decompose(kuq.Ensemble(kuq.Normal(loc + 1, 3.0), weights), kuq.CRPS()),
    }
    written = read("two-uncertainty.nc")
    for name, u in wanted.items():
        np.testing.assert_allclose(written[f"{name}_epistemic"], u.epistemic, rtol=1e-9)
    page = text_of((folder / "two.html").read_text(encoding="utf-8"))
    assert "Judged by &#x27;tp_obs&#x27;" in page
    if spread != "std":
        data["t2m_std"] = data["t2m_mean"] * 0 + 1
        data.to_netcdf("three.nc")
        assert main(["decompose", "three.nc"]) == 2
        assert "may each be the scale of 't2m'" in capsys.readouterr().err
        with pytest.raises(kuq.ParameterError, match="may each be the scale of 't2m'"):
            kuq.xarray.decompose(data.drop_vars("weights"), "crps")
