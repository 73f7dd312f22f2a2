"""Random directions for draws in files: the numbers of the library, and their standard errors."""

from __future__ import annotations

import numpy as np
import pytest

import kuq
from kuq.cli import main
from kuq.files import Layout, decompose_file, stored

PARTS = ("total", "aleatoric", "epistemic")
DIRECTIONS = 40


def draws(members=3, inputs=2, seed=0):
    loc = np.random.default_rng(seed).normal(size=(members, inputs, 1, 3))
    return loc + np.random.default_rng(seed + 1).normal(size=(members, inputs, 60, 3))


def ensemble(values):
    return kuq.Ensemble(kuq.Samples(values, event_ndim=1))


@pytest.mark.parametrize("piece", [2**24, 200])
def test_arrays_have_the_numbers_of_the_library(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(stored, "_PIECE", piece)
    path = tmp_path / "p.npz"
    np.savez(path, samples=draws())
    layout = Layout(event=("1",))
    wanted = kuq.decompose(ensemble(draws()), kuq.Energy(), directions=DIRECTIONS)
    assert wanted.method == "sliced"
    for _ in range(2):  # an output with standard errors is kuq's own, and replaced
        found = decompose_file(path, kuq.Energy(), layout=layout, directions=DIRECTIONS)
    with np.load(found.out) as file:
        for part, error in wanted.standard_error._asdict().items():
            np.testing.assert_allclose(file[part], wanted[part], rtol=1e-12)
            np.testing.assert_allclose(file[f"{part}_standard_error"], error, rtol=1e-9)
            assert np.all(error > 0)
    np.testing.assert_array_equal(found.uncertainty.standard_error.total.shape, (2,))


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_grids_have_the_numbers_of_the_library(tmp_path, suffix):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("dask")
    pytest.importorskip("h5netcdf")
    pytest.importorskip("zarr")
    data = xr.DataArray(draws(), dims=("member", "time", "sample", "x"), name="t")
    path = tmp_path / f"p{suffix}"
    if suffix == ".zarr":
        data.to_dataset().to_zarr(path, consolidated=False)
    else:
        data.to_netcdf(path, engine="h5netcdf")
    for _ in range(2):
        found = decompose_file(
            path, kuq.Energy(), layout=Layout(event=("x",)), directions=DIRECTIONS, seed=3
        )
    wanted = kuq.decompose(ensemble(draws()), kuq.Energy(), directions=DIRECTIONS, seed=3)
    lazy = kuq.xarray.decompose(
        data.chunk(time=1), "energy", event_dims=["x"], directions=DIRECTIONS, seed=3
    )
    assert found.uncertainty.method == wanted.method == lazy.attrs["method"] == "sliced"
    for part, error in wanted.standard_error._asdict().items():
        np.testing.assert_allclose(found.uncertainty[part], wanted[part], rtol=1e-12)
        np.testing.assert_allclose(
            getattr(found.uncertainty.standard_error, part), error, rtol=1e-9
        )
        np.testing.assert_allclose(lazy[f"{part}_standard_error"], error, rtol=1e-9)
    # So few draws are compared pair by pair, and the method says so.
    exact = kuq.xarray.decompose(data, "energy", event_dims=["x"], directions=90)
    assert exact.attrs["method"] == "samples"
    assert not exact.total_standard_error.any()


def test_what_is_not_there_has_no_error(tmp_path):
    values = draws()
    values[0, 1, 0, 0] = np.nan
    np.savez(tmp_path / "p.npz", samples=values)
    found = decompose_file(
        tmp_path / "p.npz",
        kuq.Energy(),
        layout=Layout(event=("1",), nan_policy="propagate"),
        directions=DIRECTIONS,
    )
    assert np.isnan(found.uncertainty.standard_error.total).tolist() == [False, True]


def test_the_command_prints_standard_errors(tmp_path, capsys):
    np.savez(tmp_path / "p.npz", samples=draws())
    words = ["decompose", str(tmp_path / "p.npz"), "--event", "1", "--score", "energy"]
    report = tmp_path / "page.html"
    assert main([*words, "--directions", str(DIRECTIONS), "--report", str(report)]) == 0
    text = capsys.readouterr().out
    u = kuq.decompose(ensemble(draws()), kuq.Energy(), directions=DIRECTIONS)
    errors = [f"{part} up to {u.standard_error._asdict()[part].max():.2g}" for part in PARTS]
    said = f"standard errors over {DIRECTIONS} directions, given the draws: {', '.join(errors)}"
    assert said in text
    assert ", ".join(errors) in report.read_text(encoding="utf-8")
    assert main([*words, "--directions", "500"]) == 0
    assert "all pairs of draws cost less than 500 directions" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("p.csv", [], "scalar outcomes"),
        ("p.npz", ["--event", "1", "--score", "energy:0.5"], "no way by random directions"),
        ("p.npz", ["--levels", "a,b"], "--levels and --directions"),
    ],
)
def test_refused(tmp_path, capsys, name, words, said):
    (tmp_path / "p.csv").write_text("member_0,member_1\n1,2\n", encoding="utf-8")
    np.savez(tmp_path / "p.npz", samples=draws())
    assert main(["decompose", str(tmp_path / name), "--directions", "40", *words]) == 2
    assert said in capsys.readouterr().err


def test_refused_with_names():
    xr = pytest.importorskip("xarray")
    data = xr.DataArray(draws(), dims=("a", "b", "sample", "x"))
    with pytest.raises(kuq.ParameterError, match="do not go together"):
        kuq.xarray.decompose(data, "energy", event_dims=["x"], level_dims=("a", "b"), directions=40)
    with pytest.raises(kuq.ParameterError, match="one model"):
        kuq.xarray.decompose(data[0], "energy", event_dims=["x"], draws_dim="sample", directions=40)
