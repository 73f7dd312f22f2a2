"""Protocols along named dimensions give the numbers of the plain ones."""

import numpy as np
import pytest
import xarray as xr
from numpy.random import default_rng

import kuq

DIMS = ("lead", "time", "lat")
LEADS = {"lead": [6, 12]}
UNCERTAINTY = xr.DataArray(default_rng(9).exponential(size=(2, 5, 4)), dims=DIMS, coords=LEADS)
ERROR = xr.DataArray(
    default_rng(10).exponential(size=(2, 5, 4)) * UNCERTAINTY, dims=DIMS, attrs={"units": "K^2"}
)


@pytest.mark.parametrize("lazy", [False, True])
def test_retention_for_each_lead(lazy):
    error = ERROR.transpose("lat", "lead", "time")
    uncertainty = UNCERTAINTY.chunk({"lead": 1}) if lazy else UNCERTAINTY
    found = kuq.xarray.selective_prediction(uncertainty, error, ("time", "lat"), (0.2, 1.0))
    for k in range(2):
        flat = UNCERTAINTY.values[k].reshape(-1), ERROR.values[k].reshape(-1)
        expected = kuq.protocols.selective_prediction(*flat, (0.2, 1.0))
        one = found.isel(lead=k)
        np.testing.assert_allclose(one.risk.transpose("retention"), expected.risk, rtol=1e-12)
        np.testing.assert_allclose(one.oracle.transpose("retention"), expected.oracle, rtol=1e-12)
        np.testing.assert_allclose(one.retention, expected.retention)
        assert float(one.prr) == pytest.approx(expected.prr, rel=1e-12)
        assert float(one.prr_full) == pytest.approx(expected.prr_full, rel=1e-12)
        assert float(one.random) == pytest.approx(flat[1].mean(), rel=1e-12)
    assert found.risk.attrs["units"] == "K^2"
    np.testing.assert_array_equal(found.lead, [6, 12])


def test_retention_of_all_cases():
    found = kuq.xarray.selective_prediction(UNCERTAINTY, ERROR)
    flat = UNCERTAINTY.values.reshape(-1), ERROR.values.reshape(-1)
    assert float(found.prr) == pytest.approx(kuq.protocols.selective_prediction(*flat).prr)


def test_detection_for_each_lead():
    outside = UNCERTAINTY.isel(time=slice(3)) + 0.5
    found = kuq.xarray.ood_detection(UNCERTAINTY, outside, ("time", "lat"), resamples=20)
    for k in range(2):
        expected = kuq.protocols.ood_detection(
            UNCERTAINTY.values[k].reshape(-1), outside.values[k].reshape(-1), resamples=20
        )
        one = found.isel(lead=k)
        for name in ("auroc", "aupr", "fpr95"):
            assert float(one[name]) == getattr(expected, name)
            interval = getattr(expected, f"{name}_interval")
            np.testing.assert_array_equal(one[f"{name}_interval"], interval)
    assert found.auroc_interval.sel(bound="low").dims == ("lead",)


def test_wrong_use_is_refused():
    with pytest.raises(kuq.ParameterError, match=r"kuq\.protocols"):
        kuq.xarray.selective_prediction(np.zeros(3), ERROR)
    with pytest.raises(kuq.ShapeError, match="no dimensions"):
        kuq.xarray.selective_prediction(UNCERTAINTY, ERROR, "lon")
    with pytest.raises(kuq.ShapeError, match="different coordinates"):
        kuq.xarray.selective_prediction(UNCERTAINTY, ERROR.assign_coords(lead=[1, 2]))


def test_longitudes_that_count_from_another_place_are_pointed_out():
    """The remedy in the error, reindex_like, made half of the globe missing."""
    rng = np.random.default_rng(0)
    east = xr.DataArray(
        rng.normal(size=(3, 8)), dims=("member", "lon"), coords={"lon": np.arange(8) * 45.0}
    )
    seen = east.isel(member=0, drop=True)
    west = seen.assign_coords(lon=(seen.lon + 180) % 360 - 180).sortby("lon")
    for one, other, said in (
        (east, west, "other.assign_coords(lon=other.lon % 360) first"),
        (
            east.assign_coords(lon=west.lon.values),
            seen,
            "other.assign_coords(lon=(other.lon + 180) % 360 - 180) first",
        ),
    ):
        with pytest.raises(kuq.ShapeError) as error:
            kuq.xarray.score(one, other, "crps")
        assert said in str(error.value)
    same = west.assign_coords(lon=west.lon % 360).reindex_like(seen)
    xr.testing.assert_identical(
        kuq.xarray.score(east, same, "crps"), kuq.xarray.score(east, seen, "crps")
    )
    with pytest.raises(kuq.ShapeError) as error:
        kuq.xarray.score(east, seen.assign_coords(lon=seen.lon + 1), "crps")
    assert "turns of 360" not in str(error.value)
