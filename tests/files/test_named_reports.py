"""Pages of DataArrays and Datasets: those of their files."""

import re

import numpy as np
import pytest

import kuq
from kuq.cli import main

xr = pytest.importorskip("xarray")
pytest.importorskip("dask")
pytest.importorskip("h5netcdf")

DIMS = ("number", "time", "lat", "lon")
LAT, LON = np.linspace(-60.0, 60.0, 5), np.arange(0.0, 360.0, 60.0)
SEA = np.add.outer(np.arange(5), np.arange(6)) % 3 == 0


def forecast(seed=0):
    values = np.random.default_rng(seed).normal(280.0, 2.0, size=(3, 12, 5, 6))
    coords = {"number": list("abc"), "lat": LAT, "lon": LON}
    attrs = {"units": "K", "made": object()}
    data = xr.DataArray(np.where(SEA, np.nan, values), coords, DIMS, name="t2m", attrs=attrs)
    return data, (data.mean("number") + data.isel(number=0, drop=True)) / 2


def text_of(path):
    page = re.sub(r"<title>.*?</h1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"<dt>Written to</dt><dd>.*?</dd>", "", page)


def page_of_command(folder, dataset, *options):
    for variable in dataset.variables.values():
        variable.attrs.pop("made", None)
    dataset.to_netcdf(folder / "file.nc")
    words = ["decompose", str(folder / "file.nc"), "--report", str(folder / "file.html")]
    assert main([*words, *options]) == 0
    return text_of(folder / "file.html")


@pytest.mark.parametrize("field", [False, True])
def test_the_page_of_a_data_array_is_that_of_its_file(tmp_path, capsys, field):
    """kuq.report refused it without a hint."""
    data, y = forecast()
    event = {"event_dims": ("lat", "lon"), "score": "energy"} if field else {}
    page = kuq.report(data, y=y.rename("obs"), weights="area", path=tmp_path / "own.html", **event)
    words = ["--target", "obs", "--area-weights"]
    words += ["--event", "lat,lon", "--score", "energy"] if field else []
    wanted = page_of_command(tmp_path, xr.Dataset({"t2m": data, "obs": y}), *words)
    assert text_of(page) == wanted
    assert "Judged by &#x27;obs&#x27;" in wanted
    assert "cells are missing" in wanted or "inputs have missing values" in wanted


def test_the_accessor_writes_pages_of_levels(tmp_path, capsys):
    data, _ = forecast(1)
    data = xr.concat([data, data + 1], dim="scenario").assign_coords(scenario=["x", "y"])
    path = data.kuq.report(tmp_path / "own.html", "variance", level_dims=("scenario", "number"))
    options = ("--levels", "scenario,number", "--score", "variance")
    assert text_of(path) == page_of_command(tmp_path, data.to_dataset(), *options)
    path = data.kuq.report(tmp_path / "own.html", title="<mine>")
    text = path.read_text(encoding="utf-8")
    assert "&lt;mine&gt;" in text
    assert "level_dims=(&#x27;scenario&#x27;, &#x27;number&#x27;)" in text
    assert "--levels" not in text


def test_datasets_have_a_section_for_each_variable(tmp_path):
    data, y = forecast(2)
    both = xr.Dataset({"t2m": data, "tp": data + 5.0})
    outcomes = xr.Dataset({"t2m": y, "tp": y + 5.0})
    text = kuq.report(both, y=outcomes, path=tmp_path / "p.html").read_text(encoding="utf-8")
    assert text.count("How good it is") == 2
    pair = {"t2m": data, "tp": data + 5.0}
    again = kuq.report(pair, y=outcomes, path=tmp_path / "q.html").read_text(encoding="utf-8")
    assert again == text
    normals = xr.Dataset({"t2m_mean": data, "t2m_std": 0 * data + 1.0, "obs": y})
    text = kuq.report(normals, y="obs", path=tmp_path / "p.html").read_text(encoding="utf-8")
    assert "3 members, each a normal distribution" in text
    assert "Judged by &#x27;obs&#x27;" in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d, y: {"y": y.isel(time=slice(5)).assign_coords(time=range(5))}, "reindex_like"),
        (lambda d, y: {"y": y.values}, "must be a DataArray"),
        (lambda d, y: {"names": ["a", "b", "c"]}, "assign_coords"),
        (lambda d, y: {"nan_policy": "raise"}, "number a, time 0, lat -60, lon 0.*nan_policy="),
        (lambda d, y: {"weights": y}, '"area"'),
        (lambda d, y: {"levels": ("a",)}, "levels"),
        (lambda d, y: {"draws_dim": "number", "sample_dim": "number"}, "give one"),
    ],
)
def test_what_does_not_fit_is_said_in_words_of_python(tmp_path, change, said):
    data, y = forecast(3)
    data = data.assign_coords(time=range(12))
    with pytest.raises(kuq.KuqError, match=said) as error:
        kuq.report(data, path=tmp_path / "p.html", **change(data, y))
    assert "--" not in str(error.value)
    assert not (tmp_path / "p.html").exists()


def test_draws_alone_are_those_of_one_model(tmp_path):
    data, y = forecast(4)
    data = data.drop_attrs().rename(number="draw")
    text = kuq.report(data, y=y, path=tmp_path / "p.html").read_text(encoding="utf-8")
    assert "3 draws of one model" in text
    values = np.random.default_rng(0).normal(size=(2, 5, 4))  # as ArviZ has them
    chains = xr.DataArray(values, dims=("chain", "draw", "x"), coords={"draw": range(5)})
    text = kuq.report(chains, path=tmp_path / "p.html").read_text(encoding="utf-8")
    assert "10 draws of one model; 4 predictions by x" in text


def test_options_are_written_as_for_kuq_xarray(tmp_path, monkeypatch):
    """One dimension may stand alone, and ``crossed=True`` means all levels."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(20)
    field = xr.DataArray(rng.normal(size=(3, 4, 2)), dims=("number", "time", "lat"), name="t")
    runs = xr.DataArray(
        rng.normal(size=(2, 3, 4, 2)), dims=("scenario", "model", "run", "lat"), name="t"
    )
    levels = {"level_dims": ("scenario", "model"), "draws_dim": "run"}
    for data, score, one, other in (
        (field, "energy", {"event_dims": "lat"}, {"event_dims": ("lat",)}),
        (runs, "crps", {**levels, "crossed": True}, {**levels, "crossed": levels["level_dims"]}),
    ):
        pages = [kuq.report(data, score, path=f"{k}.html", **w) for k, w in enumerate((one, other))]
        first, second = (page.read_text(encoding="utf-8") for page in pages)
        assert first == second
