"""Levels of members in NetCDF files and Zarr stores, from Python and from the command line."""

from __future__ import annotations

import numpy as np
import pytest

import kuq
from kuq.cli import main
from kuq.files import Layout, Levels, decompose_file, grids, partition_file

xr = pytest.importorskip("xarray")
pytest.importorskip("h5netcdf")
pytest.importorskip("zarr")

LEVELS = ("scenario", "model", "run")


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
        np.testing.assert_allclose(written[name], wanted[name], rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(found.parts[name], written[name])
        assert written[name].attrs["units"] == "K"
    assert found.about["design"] == "scenario × model / run"
    assert found.about["units"] == "K"
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
    np.testing.assert_allclose(found.parts["run"], wanted.run, rtol=1e-12, atol=1e-12)
    assert np.isnan(found.parts["total"]).sum() == 1
    np.testing.assert_allclose(
        found.input_weights[:, 0], kuq.xarray.area_weights(data).values, rtol=1e-12
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
    np.testing.assert_allclose(drawn.parts["noise"], wanted.noise, rtol=1e-12, atol=1e-12)
    assert drawn.input_weights is None


def test_the_command_prints_every_part(tmp_path, capsys):
    path = save(runs(), tmp_path / "runs.nc")
    words = ["decompose", str(path), "--levels", ",".join(LEVELS), "--score", "variance"]
    assert main([*words, "--crossed", "scenario, model", "--fixed", "scenario"]) == 0
    text = capsys.readouterr().out
    assert (
        "runs.nc: members along scenario × model × run; 30 predictions by lat (5) × lon (6)" in text
    )
    assert "levels: scenario × model / run, fixed: scenario" in text
    assert "score: SquaredError() (K^2; exact; estimator bma)" in text
    table = [line.split() for line in text.splitlines() if line[:1].islower()]
    named = {line[0]: line[1:] for line in table}
    wanted = kuq.xarray.decompose(
        runs(), "variance", level_dims=LEVELS, crossed=LEVELS[:2], fixed="scenario"
    )
    for name in wanted.data_vars:
        np.testing.assert_allclose(float(named[name][0]), float(wanted[name].mean()), rtol=1e-3)
    assert f"written: {tmp_path / 'runs-uncertainty.nc'}" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--levels", "scenario,nope,run"], "nope"),
        (["--levels", "scenario,model"], "'number' looks like a dimension of members"),
        (["--levels", "scenario,model,run", "--member", "run"], "--member"),
        (["--levels", "scenario,model,run", "--report", "x.html"], "--report"),
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
