"""Values that a grid says are none, beside its fill value; xarray leaves them as they are."""

from __future__ import annotations

import numpy as np
import pytest

from kuq.cli import main

xr = pytest.importorskip("xarray")
pytest.importorskip("dask")

MEAN = np.array([[0.0, 1.0, 2.0], [1.0, 3.0, 5.0]])


def grid(value, **attributes):
    """Two members of three inputs, with a value in place of the first one."""
    mean = MEAN.copy()
    mean[0, 0] = value
    dims = ("member", "x")
    return xr.Dataset({"mean": (dims, mean, attributes), "std": (dims, np.ones((2, 3)))})


def decomposed(tmp_path, data, suffix=".nc", encoding=None, options=()):
    source, out = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    if suffix == ".nc":
        data.to_netcdf(source, encoding=encoding or {})
    else:
        data.to_zarr(source, consolidated=False)
    assert main(["decompose", str(source), "--out", str(out), *options]) == 0
    with (
        xr.open_dataset(out) if suffix == ".nc" else xr.open_zarr(out, consolidated=False) as found
    ):
        return found.load()


PACKED = {"dtype": "i2", "scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -999}
CASES = {
    "range": (-9999.0, {"valid_range": np.array([-100.0, 100.0])}, None),
    "least": (-9999.0, {"valid_min": -100.0}, None),
    "most": (9999.0, {"valid_max": np.float32(5.0)}, None),
    "packed ends": (30.0, {"valid_range": np.array([-40, 20], "i2")}, PACKED),
    "packed, ends not": (30.0, {"valid_range": np.array([-10.0, 20.0])}, PACKED),
    "turned": (30.0, {"valid_min": np.int16(-20)}, {**PACKED, "scale_factor": -0.5}),
    "packed by a factor alone": (30.0, {"valid_max": np.int16(10)}, PACKED | {"add_offset": 0.0}),
    "never written": (9.969209968386869e36, {}, {"_FillValue": None}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_no_value_is_missing(tmp_path, capsys, case):
    value, attributes, encoding = CASES[case]
    encoding = None if encoding is None else {"mean": encoding}
    found = decomposed(tmp_path, grid(value, **attributes), encoding=encoding)
    wanted = decomposed(tmp_path, grid(np.nan))
    np.testing.assert_array_equal(np.isnan(found.total), [True, False, False])
    np.testing.assert_allclose(found.total, wanted.total, rtol=1e-12)
    said = capsys.readouterr().out
    assert "1 of 3 inputs have missing values" in said
    assert ("values of 'mean' are valid" in said) == bool(attributes)


def test_values_at_the_ends_are_valid(tmp_path):
    attributes = {"valid_range": np.array([0.1, 5.0])}
    encoding = {"mean": {"dtype": "f4", "_FillValue": None}}
    found = decomposed(tmp_path, grid(0.1, **attributes), encoding=encoding)
    assert np.isfinite(found.total).all()
    packed = {"mean": PACKED | {"scale_factor": 0.1}}
    ends = {"valid_range": np.array([-100, -50], "i2")}  # 0 and 5
    found = decomposed(tmp_path, grid(0.0, **ends), encoding=packed)
    assert np.isfinite(found.total).all()


def test_words_are_no_ends(tmp_path):
    found = decomposed(tmp_path, grid(50.0, valid_range="0 to 10"))
    assert np.isfinite(found.total).all()


def test_ends_in_a_zarr_store_and_of_an_outcome(tmp_path, capsys):
    pytest.importorskip("zarr")
    data = grid(-9999.0, valid_min=-100.0)
    data["seen"] = ("x", [1.0, 1e6, 2.0], {"valid_max": 1e3})
    found = decomposed(tmp_path, data, ".zarr", options=["--target", "seen"])
    np.testing.assert_array_equal(np.isnan(found.total), [True, False, False])
    said = capsys.readouterr().out
    assert "values of 'seen' are valid to 1000" in said
    assert "fewer than two predictions have an outcome without gaps" in said


def test_weights_twice_beside_pairs_are_refused(tmp_path, capsys):
    data = grid(0.0).rename(mean="t_mean", std="t_std")
    data["weight"] = data["weights"] = ("member", [1.0, 3.0])
    data.to_netcdf(tmp_path / "in.nc")
    assert main(["decompose", str(tmp_path / "in.nc")]) == 2
    assert "'weight', 'weights' may each be the weights" in capsys.readouterr().err
