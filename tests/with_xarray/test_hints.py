"""Dimensions that are called like levels are pointed out, with the option that would use them."""

import numpy as np
import pytest

import kuq
from kuq.cli import main

xr = pytest.importorskip("xarray")
pytest.importorskip("dask")


def data(*dims, seed=0, **coords):
    values = np.random.default_rng(seed).normal(size=[2 + place for place in range(len(dims))])
    return xr.DataArray(values, dims=dims, coords=coords, name="tas")


def said(capsys, tmp_path, array, *options):
    array.to_netcdf(tmp_path / "f.nc")
    assert main(["decompose", str(tmp_path / "f.nc"), *options]) == 0
    return capsys.readouterr().out


def test_a_scenario_that_is_an_input_is_pointed_out(tmp_path, capsys):
    """It was an input without a word."""
    array = data("scenario", "number", "time")
    text = said(capsys, tmp_path, array)
    hint = "'scenario' counts as inputs, with a result for each; "
    assert f"note: {hint}--levels scenario,number tells what each level adds" in text
    found = kuq.xarray.decompose(array, "crps")
    wanted = f"{hint}level_dims=('scenario', 'number') tells what each level adds"
    assert found.attrs["hint"] == wanted
    named = kuq.xarray.decompose(array, "crps", level_dims=("scenario", "number"))
    assert "hint" not in named.attrs


def test_several_levels_stand_outermost_first(tmp_path, capsys):
    text = said(capsys, tmp_path, data("run", "model", "experiment", "time"), "--member", "model")
    assert "'run' and 'experiment' count as inputs" in text
    assert "--levels experiment,model,run tells" in text


def test_models_beside_draws_are_members(tmp_path, capsys):
    array = data("source_id", "time", "sample")
    text = said(capsys, tmp_path, array, "--draws", "sample")
    assert "'source_id' counts as inputs, with a result for each; --member source_id" in text
    found = kuq.xarray.decompose(array, "crps", draws_dim="sample")
    assert found.attrs["hint"].endswith("member_dim='source_id' compares them")


def test_models_and_runs_are_asked_for_in_words_of_the_command(tmp_path, capsys):
    """They were those of Python: member_dim=... and so on."""
    data("model", "number", "time").to_netcdf(tmp_path / "f.nc")
    assert main(["decompose", str(tmp_path / "f.nc")]) == 2
    error = capsys.readouterr().err
    assert "name it: --member DIM" in error
    assert "--member model --draws number" in error
    assert "_dim" not in error


def test_other_dimensions_are_not(tmp_path, capsys):
    assert "counts as" not in said(capsys, tmp_path, data("number", "time", "station"))
    assert "hint" not in kuq.xarray.decompose(data("model", "lead", "lat"), "crps").attrs


def test_the_same_models_in_every_scenario_are_probably_crossed(tmp_path, capsys):
    array = data("scenario", "model", "time", model=list("ABC"))
    levels = ("--levels", "scenario,model")
    text = said(capsys, tmp_path, array, *levels)
    assert "'model' has the same labels in every 'scenario'" in text
    assert "--crossed scenario,model" in text
    assert "same labels" not in said(
        capsys, tmp_path, array, *levels, "--crossed", "scenario,model"
    )
    found = kuq.xarray.decompose(array, "crps", level_dims=("scenario", "model"))
    assert "crossed=('scenario', 'model')" in found.attrs["hint"]
    # Runs are numbered in every model, and the first of one is not the first of another.
    runs = data("model", "number", "time", number=["r1", "r2", "r3"])
    assert "same labels" not in said(capsys, tmp_path, runs, "--levels", "model,number")
