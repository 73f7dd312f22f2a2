"""A spread in another unit than its location was taken for one in the same unit."""

from __future__ import annotations

import numpy as np
import pytest

import kuq
from kuq.cli import main

xr = pytest.importorskip("xarray")
pytest.importorskip("dask")
DIMS = ("member", "x")


def prediction(loc, units, name="scale", other="loc"):
    values = np.random.default_rng(0).uniform(1.0, 2.0, size=(3, 4))
    variables = {other: (DIMS, values, {"units": loc})}
    return xr.Dataset(variables | {name: (DIMS, values, {} if units is None else {"units": units})})


FITTING = [("m", "meters"), ("K", "degC"), ("degC", "K"), ("m s-1", "m/s"), ("m", None)]
FITTING += [("1", ""), ("degrees_north 7", "degrees_north 7")]
OTHERS = [("m", "cm"), ("K", "degF"), ("m s-1", "km/h"), ("K", "1"), ("m", "cm2"), ("a 7", "b 7")]


@pytest.mark.parametrize(("loc", "scale"), FITTING)
def test_units_that_fit(loc, scale):
    assert kuq.xarray.decompose(prediction(loc, scale), kuq.CRPS()).total.shape == (4,)


@pytest.mark.parametrize(("loc", "scale"), OTHERS)
def test_units_that_do_not_fit_are_refused(loc, scale):
    with pytest.raises(kuq.ParameterError, match="do not fit"):
        kuq.xarray.decompose(prediction(loc, scale), kuq.CRPS())


@pytest.mark.parametrize("call", ["entropy", "score"])
def test_in_every_measure(call):
    data = prediction("m", "cm").isel(member=0)
    outcome = (data["loc"],) if call == "score" else ()
    with pytest.raises(kuq.ParameterError, match="'scale' in 'cm'"):
        getattr(kuq.xarray, call)(data, *outcome, kuq.CRPS())


@pytest.mark.parametrize(("units", "fits"), [("K2", True), ("K", True), ("degF^2", False)])
def test_variances(tmp_path, capsys, units, fits):
    data = prediction("degC", units, "t_variance", "t_mean")
    if fits:
        found, again = (kuq.xarray.decompose(d, kuq.CRPS()) for d in (data, data.drop_attrs()))
        np.testing.assert_array_equal(found.total, again.total)
    else:
        with pytest.raises(kuq.ParameterError, match="do not fit"):
            kuq.xarray.decompose(data, kuq.CRPS())
    for names in ({}, {"t_mean": "mean", "t_variance": "variance"}):
        data.rename(names).to_netcdf(tmp_path / "in.nc")
        assert main(["decompose", str(tmp_path / "in.nc")]) == (0 if fits else 2)
        error = capsys.readouterr().err
        assert fits or "variance' in 'degF^2'" in error


def test_files_name_their_own_variables(tmp_path, capsys):
    prediction("m", "cm", "std", "mean").to_netcdf(tmp_path / "in.nc")
    assert main(["decompose", str(tmp_path / "in.nc")]) == 2
    assert "'mean' in 'm' and 'std' in 'cm' do not fit" in capsys.readouterr().err
