"""Levels of members in NetCDF files and Zarr stores, from Python and from the command line."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kuq
from kuq.cli import main
from kuq.files import Layout, Levels, decompose_file, grids, partition_file
from kuq.reports import figures
from kuq.reports.figures import plain

xr = pytest.importorskip("xarray")
pytest.importorskip("h5netcdf")
pytest.importorskip("zarr")

LEVELS = ("scenario", "model", "run")


@pytest.fixture(params=["torch", "jax"])
def library(request):
    """Arrays of another library."""
    module = pytest.importorskip(request.param)
    return module.asarray if request.param == "torch" else module.numpy.asarray


def runs(seed=0, missing=False):
    values = np.random.default_rng(seed).normal(280.0, 3.0, size=(2, 3, 4, 5, 6))
    if missing:
        values[0, 1, 2:] = np.nan
        values[..., 0, 0] = np.nan
    lat = ("lat", np.linspace(-60.0, 60.0, 5), {"units": "degrees_north"})
    return xr.DataArray(
        values,
        dims=(*LEVELS, "lat", "lon"),
        coords={"lat": lat, "scenario": [1, 2]},
        name="tas",
        attrs={"units": "K"},
    )


def save(data, path):
    data = data.to_dataset() if isinstance(data, xr.DataArray) else data
    if path.suffix == ".zarr":
        data.to_zarr(path, consolidated=False)
    else:
        data.to_netcdf(path, engine="h5netcdf")
    return path


def read_back(path):
    if path.suffix == ".zarr":
        return xr.open_zarr(path, consolidated=False, chunks=None).load()
    with xr.open_dataset(path) as found:
        return found.load()


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
@pytest.mark.parametrize("piece", [2**24, 500])
def test_files_have_the_numbers_of_the_library(tmp_path, monkeypatch, suffix, piece):
    monkeypatch.setattr(grids, "_PIECE", piece)
    data = runs()
    path = save(data, tmp_path / f"runs{suffix}")
    found = partition_file(
        path, kuq.CRPS(), Levels(LEVELS, crossed=LEVELS[:2], fixed=LEVELS[:1]), estimator="bma"
    )
    wanted = kuq.xarray.decompose(
        data, "crps", level_dims=LEVELS, crossed=LEVELS[:2], fixed=LEVELS[0], estimator="bma"
    )
    assert found.out == tmp_path / f"runs-uncertainty{suffix}"
    written = read_back(found.out)
    assert set(written.data_vars) == set(wanted.data_vars)
    for name in wanted.data_vars:
        assert written[name].attrs["units"] == "K"
        if name == "noise":  # it was zero, as if single values knew that they have none
            assert written[name].isnull().all()
            assert "unknown" in written[name].attrs["long_name"]
            continue
        np.testing.assert_allclose(written[name], wanted[name], rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(found.result.partition[name], written[name])
    assert "unknown" in wanted["noise"].attrs["long_name"]
    assert "unknown" in found.result.partition.note
    assert found.result.partition.design == "scenario × model / run"
    assert found.result.partition.units == "K"
    partition_file(path, kuq.CRPS(), Levels(LEVELS))  # its own output is replaced
    with pytest.raises(kuq.KuqError):
        partition_file(path, kuq.CRPS(), Levels(LEVELS), out=path)


def test_an_output_of_levels_with_something_added_is_left_alone(tmp_path):
    import h5py

    path = save(runs(), tmp_path / "runs.nc")
    found = partition_file(path, kuq.CRPS(), Levels(LEVELS))
    with h5py.File(found.out, "a") as file:
        file["mine"] = [1.0]
    with pytest.raises(kuq.KuqError):
        partition_file(path, kuq.CRPS(), Levels(LEVELS))


def test_draws_missing_runs_and_areas(tmp_path):
    data = runs(missing=True)
    path = save(data, tmp_path / "runs.nc")
    found = partition_file(
        path, kuq.CRPS(), Levels(LEVELS), layout=Layout(nan_policy="omit", area_weights=True)
    )
    wanted = kuq.xarray.decompose(data, "crps", level_dims=LEVELS, nan_policy="omit")
    np.testing.assert_allclose(found.result.partition["run"], wanted.run, rtol=1e-12, atol=1e-12)
    assert np.isnan(found.result.partition["total"]).sum() == 1
    np.testing.assert_allclose(
        found.result.input_weights[:, 0], kuq.xarray.area_weights(data).values, rtol=1e-12
    )
    drawn = partition_file(
        save(runs(), tmp_path / "more.nc"),
        kuq.CRPS(),
        Levels(LEVELS[:2]),
        layout=Layout(sample="run", event=("lat", "lon"), area_weights=True),
    )
    wanted = kuq.xarray.decompose(
        runs(), "crps", level_dims=LEVELS[:2], draws_dim="run", event_dims=("lat", "lon"),
        weights="area",
    )  # fmt: skip
    np.testing.assert_allclose(
        drawn.result.partition["noise"], wanted.noise, rtol=1e-12, atol=1e-12
    )
    assert drawn.result.input_weights is None


def test_the_command_prints_every_part(tmp_path, capsys):
    path = save(runs(), tmp_path / "runs.nc")
    words = ["decompose", str(path), "--levels", ",".join(LEVELS), "--score", "variance"]
    assert main([*words, "--crossed", "scenario, model", "--fixed", "scenario"]) == 0
    text = capsys.readouterr().out
    assert (
        "runs.nc: members along scenario × model × run; 30 predictions by lat (5) × lon (6)" in text
    )
    assert "levels: scenario × model / run, fixed: scenario" in text
    assert "score: variance (squared error with estimator bma) (K^2; exact)" in text
    table = [line.split() for line in text.splitlines() if line[:1].islower()]
    named = {line[0]: line[1:] for line in table}
    wanted = kuq.xarray.decompose(
        runs(), "variance", level_dims=LEVELS, crossed=LEVELS[:2], fixed="scenario"
    )
    assert "noise" not in named
    for name in wanted.drop_vars("noise").data_vars:
        np.testing.assert_allclose(float(named[name][0]), float(wanted[name].mean()), rtol=1e-3)
    assert f"written: {tmp_path / 'runs-uncertainty.nc'}" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--levels", "scenario,nope,run"], "nope"),
        (["--levels", "scenario,model"], "'number' looks like a dimension of members"),
        (["--levels", "scenario,model,run", "--member", "run"], "--member"),
        (["--levels", "scenario,model,run", "--target", "y"], "--target"),
        (["--crossed", "scenario,model"], "--levels"),
        (["--levels", "scenario,model,run", "--crossed", "scenario,run"], "one after the other"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    data = runs().rename(run="number") if words[1] == "scenario,model" else runs()
    path = save(data, tmp_path / "runs.nc")
    assert main(["decompose", path.name, *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1


def test_levels_are_for_grids(tmp_path):
    np.savez(tmp_path / "p.npz", mean=np.zeros((2, 3)), std=np.ones((2, 3)))
    with pytest.raises(kuq.ParameterError, match=r"\.nc or \.zarr"):
        partition_file(tmp_path / "p.npz", kuq.CRPS(), Levels(("a", "b")))
    two = xr.Dataset({"a": runs(), "b": runs(1)}).rename(run="member")
    path = save(two, tmp_path / "two.nc")
    levels = Levels(("scenario", "model", "member"))
    with pytest.raises(kuq.ParameterError, match="--points a"):
        partition_file(path, kuq.CRPS(), levels)
    with pytest.raises(kuq.KuqError):
        decompose_file(path, kuq.CRPS())


def cells_of(page, first):
    """The cells of the row of a table that begins with a text."""
    row = page.split(f">{first}</td>")[1].split("</tr>")[0]
    return [cell.split("</td>")[0] for cell in row.split("<td>")[1:]]


def ends_of_scales(text, wanted):
    """The total, a sum, has a scale of its own: on one scale hardly any colours were left."""
    top = {name: float(part.max()) for name, part in wanted.data_vars.items()}
    total, parts = top.pop("total"), max(top.values())
    ends = [figures.shown(total), *[figures.shown(parts)] * len(top)]
    assert re.findall(r">([^<>]*)</text></svg>", text)[-len(ends) :] == ends


def test_the_command_writes_a_page_with_one_scale_for_all_parts(tmp_path, capsys):
    path = save(runs(), tmp_path / "runs.nc")
    page = tmp_path / "page.html"
    words = ["decompose", str(path), "--levels", ",".join(LEVELS), "--score", "gaussian:median"]
    words += ["--crossed", "scenario,model", "--fixed", "scenario", "--report", str(page)]
    assert main(words) == 0
    assert f"report: {page}" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert "<td>noise</td>" not in text  # that of single values is unknown
    assert "mean noise" not in text
    wanted = read_back(tmp_path / "runs-uncertainty.nc").drop_vars("noise")
    for name in wanted.data_vars:
        values = wanted[name].values
        shown = cells_of(text, name)
        assert shown[0] == plain(values.mean()), name
        if name != "total":
            assert shown[1] == f"{100 * values.mean() / wanted.total.values.mean():.1f} %"
    assert text.count("aria-label='map of") == len(wanted.data_vars)
    # The numbers at the ends of a scale, which are the same in the maps of all parts.
    ends_of_scales(text, wanted)
    assert "Levels: scenario × model / run, fixed: scenario." in text
    assert "How far members differ by run inside of scenario and model" in text
    assert "runs-uncertainty.nc" in text
    top = int(np.argmax(wanted.total.values))
    lat, lon = wanted.lat.values[top // 6], top % 6
    assert cells_of(text, f"lat {lat:g}, lon {lon}")[0] == plain(float(wanted.total.max()))


def test_a_page_of_levels_is_the_same_from_every_library(tmp_path, library):
    loc = np.random.default_rng(0).normal(size=(3, 4, 20))

    def page(array, name):
        runs = kuq.Ensemble(kuq.Normal(array(loc), array(np.ones_like(loc))), member_ndim=2)
        path = kuq.report(runs, path=tmp_path / f"{name}.html", levels=("model", "run"))
        return path.read_text(encoding="utf-8")

    assert page(library, "own") == page(np.asarray, "numpy")


def test_a_page_of_levels_has_labels_and_refuses_what_it_cannot_show(tmp_path):
    loc = np.zeros((2, 3, 4))
    loc[0, :, 2] = 5.0
    runs = kuq.Ensemble(kuq.Normal(loc, 1.0), member_ndim=2)
    options = {"levels": ("model", "run"), "path": tmp_path / "page.html"}
    path = kuq.report(runs, kuq.SquaredError(), labels=["a", "b", "<c>", "d"], **options)
    text = path.read_text(encoding="utf-8")
    first = text.index("<td class=short>&lt;c&gt;</td>")
    assert all(first < text.index(f"<td class=short>{name}</td>") for name in "abd")
    assert cells_of(text, "&lt;c&gt;")[:4] == ["26", "1", "25", "0"]
    for given in ({"y": np.zeros(4)}, {"names": ["a"] * 6}):
        with pytest.raises(kuq.ParameterError, match=next(iter(given))):
            kuq.report(runs, **given, **options)
    with pytest.raises(kuq.ShapeError, match="labels"):
        kuq.report(runs, labels=["a"], **options)
    single = kuq.Ensemble(kuq.Normal(np.array([[0.0, 1.0], [2.0, 3.0]]), 1.0), member_ndim=2)
    kuq.report(single, **options)


def test_outcomes_that_are_grids_have_maps_of_their_cells(tmp_path):
    """From a file and from memory: the means over inputs of every cell, on the same scale."""
    values = np.random.default_rng(5).normal(280.0, 3.0, size=(2, 3, 7, 5, 6))
    lat = np.linspace(-60.0, 60.0, 5)
    dims = (*LEVELS[:2], "time", "lat", "lon")
    data = xr.DataArray(values, dims=dims, coords={"lat": lat}, name="tas", attrs={"units": "K"})
    path = save(data, tmp_path / "runs.nc")
    page = tmp_path / "page.html"
    words = ["decompose", str(path), "--levels", "scenario,model", "--score", "energy"]
    assert main([*words, "--event", "lat,lon", "--report", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "Cell by cell under the CRPS, mean over inputs." in text
    wanted = kuq.xarray.decompose(data, "crps", level_dims=LEVELS[:2]).mean("time")
    wanted = wanted.drop_vars("noise")  # of which nothing is known
    assert text.count("aria-label='map of") == len(wanted.data_vars) == 3
    ends_of_scales(text, wanted)
    runs = kuq.Ensemble(kuq.Point(values, event_ndim=2), member_ndim=2)
    own = kuq.report(runs, kuq.Energy(), levels=LEVELS[:2], path=tmp_path / "own.html")
    own = own.read_text(encoding="utf-8")
    assert own.count("aria-label='map of") == 3
    ends_of_scales(own, wanted)


def test_runs_that_are_missing_are_named(tmp_path, monkeypatch, capsys):
    """A table of "none" was written, without a word about the runs or about --nan omit."""
    rng = np.random.default_rng(8)
    values = rng.normal(size=(2, 3, 4, 5))
    values[:, 1, 2:] = np.nan
    data = xr.DataArray(values, dims=("scenario", "model", "run", "lat"), name="t")
    data.to_netcdf(tmp_path / "t.nc")
    monkeypatch.chdir(tmp_path)
    words = ["decompose", "t.nc", "--levels", "scenario,model,run", "--score", "variance"]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "scenario 0, model 1, run 2 has no numbers (NaN throughout), nor have 3 more" in said
    assert "--nan omit leaves such members out" in said
    assert main([*words, "--nan", "omit"]) == 0


def test_errors_about_levels_are_in_words_of_the_command(tmp_path, monkeypatch, capsys):
    """They named options of Python, and groups by their positions."""
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(0).normal(size=(2, 3, 2, 4))
    values[0, 2, 1:] = np.nan  # one run is left
    values[..., 3] = np.nan  # a place of the sea
    coords = {"scenario": ["ssp126", "ssp585"], "model": list("ABC")}
    dims = ("scenario", "model", "run", "place")
    xr.Dataset({"tas": (dims, values)}, coords=coords).to_netcdf("runs.nc")
    command = ["decompose", "runs.nc", "--levels", "scenario,model,run", "--nan", "omit"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "got one in the group scenario ssp126, model C; pass --fixed run to take" in said
    assert "unbiased=" not in said
    assert main([*command, "--fixed", "run"]) == 0
    assert "1 of 4 inputs have missing values (NaN) and no result" in capsys.readouterr().out
