"""Point predictions in files: the command line and the page speak of a spread, not of two parts."""

import numpy as np
import pytest

from kuq.cli import main

SENTENCE = "spread of the members; their own noise is unknown"


def decomposed(folder, monkeypatch, capsys, **arrays):
    monkeypatch.chdir(folder)
    np.savez("p.npz", **arrays)
    assert main(["decompose", "p.npz", "--report", "p.html"]) == 0
    return capsys.readouterr().out, (folder / "p.html").read_text(encoding="utf-8")


def test_points_are_not_called_epistemic(tmp_path, monkeypatch, capsys):
    """Thirteen forecasts of one model were "100 % epistemic: more training data can reduce it"."""
    forecasts = np.random.default_rng(0).normal(280.0, 2.0, size=(13, 6, 8, 9))
    said, page = decomposed(tmp_path, monkeypatch, capsys, predictions=forecasts)
    assert f"note: {SENTENCE}" in said
    assert "epistemic" not in said
    assert SENTENCE in page
    assert "100 %" not in page
    assert "can reduce it" not in page
    assert "More training data" not in page
    assert "to label" not in page
    for part in ("Aleatoric", "Epistemic"):
        assert part not in page


@pytest.mark.parametrize("silent", [0, 3])
def test_normals_are_split_and_inputs_without_noise_counted(tmp_path, monkeypatch, capsys, silent):
    loc = np.random.default_rng(1).normal(size=(4, 20))
    std = np.where(np.arange(20) < silent, 0.0, 1.0) * np.ones((4, 1))
    said, page = decomposed(tmp_path, monkeypatch, capsys, mean=loc, std=std)
    assert "epistemic" in said
    assert "Epistemic" in page
    assert (f"{silent} of 20 inputs: {SENTENCE}" in said) == (silent > 0)
    assert (f"{silent} of 20 inputs: {SENTENCE}" in page) == (silent > 0)


def forecast(folder, *dims):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("dask")
    sizes = {"model": 3, "number": 13, "time": 4, "lat": 5, "lon": 6}
    values = np.random.default_rng(2).normal(280.0, 2.0, size=[sizes[dim] for dim in dims])
    data = xr.Dataset({"t2m": (dims, values)})
    data.to_netcdf(folder / "forecast.nc", engine="h5netcdf")
    return values


def test_draws_of_one_model_in_a_grid(tmp_path, monkeypatch, capsys):
    """With --draws the runs are draws of one law; a total is all that can be known."""
    values = forecast(tmp_path, "number", "time", "lat", "lon")
    monkeypatch.chdir(tmp_path)
    command = ["decompose", "forecast.nc", "--report", "p.html"]
    assert main(command) == 0
    assert f"note: {SENTENCE}" in capsys.readouterr().out
    assert main([*command, "--draws", "number"]) == 0
    said = capsys.readouterr().out
    assert "draws of one model" in said
    assert "epistemic" not in said
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "what the model does not know is unknown" in page
    assert "can reduce it" not in page
    import xarray as xr

    with xr.open_dataset("forecast-uncertainty.nc", engine="h5netcdf") as written:
        pairs = np.abs(values[:, None] - values[None]).sum(axis=(0, 1)) / (13 * 12)
        np.testing.assert_allclose(written["total"].values, pairs / 2, rtol=1e-9)
        assert np.isnan(written["epistemic"].values).all()
        assert "one model" in written.attrs["note"]


def test_models_and_runs_in_a_grid_are_asked_for(tmp_path, monkeypatch, capsys):
    forecast(tmp_path, "model", "number", "time", "lat", "lon")
    monkeypatch.chdir(tmp_path)
    assert main(["decompose", "forecast.nc"]) == 2
    assert "--member model --draws number" in capsys.readouterr().err
    assert main(["decompose", "forecast.nc", "--member", "model", "--draws", "number"]) == 0
    assert "epistemic" in capsys.readouterr().out
    assert main(["decompose", "forecast.nc", "--draws", "number"]) == 0
    assert "epistemic" in capsys.readouterr().out


def test_models_and_runs_in_a_table_are_asked_for(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    rows = [f"{m},{n},{t},{rng.normal()}" for m in "ab" for n in range(4) for t in range(3)]
    (tmp_path / "p.csv").write_text("\n".join(["model,number,time,value", *rows]))
    assert main(["decompose", "p.csv"]) == 2
    assert "--draws number" in capsys.readouterr().err
    assert main(["decompose", "p.csv", "--member", "model", "--draws", "number"]) == 0
    assert "epistemic" in capsys.readouterr().out


def test_the_way_to_monte_carlo_is_an_option_of_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    loc = np.random.default_rng(4).normal(size=(3, 5, 2))
    np.savez("p.npz", df=np.full((3, 5, 2), 5.0), loc=loc, scale=np.ones((3, 5, 2)))
    assert main(["decompose", "p.npz", "--score", "log", "--event", "1"]) == 2
    assert "--monte-carlo 2000 --seed 0" in capsys.readouterr().err
    command = ["decompose", "p.npz", "--score", "log", "--event", "1"]
    assert main([*command, "--monte-carlo", "200", "--seed", "0"]) == 0


def written_parts(path):
    """The components in a file, and what its attributes say, where it has a place for them."""
    if path.suffix == ".npz":
        with np.load(path) as file:
            return dict(file), {name: str(file[name]) for name in ("note",) if name in file}
    if path.suffix in (".nc", ".zarr"):
        import xarray as xr

        form = {"engine": "h5netcdf"}
        if path.suffix == ".zarr":
            form = {"engine": "zarr", "consolidated": False}
        with xr.open_dataset(path, **form) as file:
            return {name: file[name].values for name in file}, {
                **file.attrs,
                **file["total"].attrs,
            }
    import pandas as pd

    table = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    return {name: table[name].to_numpy() for name in table}, table.attrs


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet", ".nc", ".zarr"])
def test_files_of_points_have_a_total_and_no_parts(tmp_path, monkeypatch, capsys, suffix):
    """``epistemic`` was the total in the file, beside a note that nothing can be split."""
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(5).normal(size=(4, 7))
    path = tmp_path / f"p{suffix}"
    if suffix == ".npz":
        np.savez(path, predictions=values)
    elif suffix in (".nc", ".zarr"):
        xr = pytest.importorskip("xarray")
        pytest.importorskip("dask")
        data = xr.DataArray(values, dims=("number", "time"), attrs={"units": "K"}).to_dataset(
            name="t"
        )
        data.to_netcdf(path, engine="h5netcdf") if suffix == ".nc" else data.to_zarr(
            path, consolidated=False
        )
    else:
        pd = pytest.importorskip("pandas")
        table = pd.DataFrame(values.T, columns=[f"member_{k}" for k in range(4)])
        table.to_csv(path, index=False) if suffix == ".csv" else table.to_parquet(path)
    for _ in range(2):  # its own output is known again
        assert main(["decompose", path.name, "--report", "p.html"]) == 0
        said = capsys.readouterr().out
    assert f"p-uncertainty{suffix} (total only)" in said
    found, about = written_parts(tmp_path / f"p-uncertainty{suffix}")
    pairs = np.abs(values[:, None] - values[None]).sum(axis=(0, 1)) / (4 * 3)
    np.testing.assert_allclose(found["total"], pairs, rtol=1e-12)
    assert np.isnan(found["aleatoric"]).all()
    assert np.isnan(found["epistemic"]).all()
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert SENTENCE in said
    assert SENTENCE in page
    if suffix != ".csv":  # which has no place for it
        assert about["note"] == SENTENCE
    if suffix in (".nc", ".zarr"):
        assert about["long_name"] == "spread of the members"


def test_members_and_draws_say_why_their_totals_differ(tmp_path, monkeypatch, capsys):
    """The same runs: 2.2 as members and 1.1 as draws, and nothing said why."""
    forecast(tmp_path, "number", "time", "lat", "lon")
    monkeypatch.chdir(tmp_path)
    totals = []
    for options, word in (([], "twice the entropy"), (["--draws", "number"], "half of the mean")):
        assert main(["decompose", "forecast.nc", "--report", "p.html", *options]) == 0
        said = capsys.readouterr().out
        totals.append(float(next(t for t in said.splitlines() if t[:5] == "total").split()[1]))
        page = (tmp_path / "p.html").read_text(encoding="utf-8")
        assert word in said
        assert page.count(word) == 2  # above, and in what the numbers mean
        assert word in written_parts(tmp_path / "forecast-uncertainty.nc")[1]["comment"]
    assert totals[0] == pytest.approx(2 * totals[1], rel=1e-4)
    assert main(["decompose", "forecast.nc", "--estimator", "bma"]) == 0
    said = capsys.readouterr().out
    assert "from the mixture of all" in said
    assert float(next(t for t in said.splitlines() if t[:5] == "total").split()[1]) == totals[1]


def test_pages_of_forecasts_do_not_speak_of_training(tmp_path, monkeypatch, capsys):
    """A forecast ensemble of models with draws is split, and nobody trains anything."""
    xr = pytest.importorskip("xarray")
    pytest.importorskip("dask")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(6)
    for name, apart in (("apart", 9.0), ("close", 0.2), ("between", 1.0)):
        values = rng.normal(size=(3, 8, 5, 6)) + apart * rng.normal(size=(3, 1, 5, 1))
        data = xr.Dataset({"t2m": (("model", "number", "time", "cell"), values)})
        data.to_netcdf(f"{name}.nc", engine="h5netcdf")
        command = ["decompose", f"{name}.nc", "--draws", "number", "--report", f"{name}.html"]
        assert main(command) == 0
        page = (tmp_path / f"{name}.html").read_text(encoding="utf-8").lower()
        assert "epistemic" in page
        for word in ("train", "to label", "labelled"):
            assert word not in page
    capsys.readouterr()
