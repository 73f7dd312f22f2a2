"""Dask: nothing is computed early, chunks change nothing, and stores go through in parts."""

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from numpy.random import default_rng

import kuq
from kuq.xarray.chunks import LARGEST_CHUNK, whole_predictions

DRAWS = xr.DataArray(
    default_rng(6).normal(size=(3, 8, 4, 6, 5)),
    dims=("number", "time", "sample", "lat", "lon"),
    coords={"lat": np.linspace(-50.0, 50.0, 6)},
    attrs={"units": "K"},
)
NORMALS = xr.Dataset({"loc": DRAWS.isel(sample=0), "scale": np.exp(DRAWS.isel(sample=1))})
CHUNKS = [
    {"time": 3},
    {"number": 1, "time": 2},
    {"sample": 1, "lat": 2, "lon": 2},
    {"number": 2, "time": 1, "sample": 3, "lat": 4, "lon": 5},
]


def no_computing(*args, **kwargs):
    raise AssertionError("something was computed")


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize(
    ("score", "event"),
    [
        (kuq.Energy(), ()),
        (kuq.Energy(), ("lat", "lon")),
        (kuq.CRPS(reduce=None), ("lat", "lon")),
        (kuq.Gaussian(3.0), ("time",)),
    ],
    ids=repr,
)
def test_chunks_change_nothing(chunks, score, event):
    expected = kuq.xarray.decompose(DRAWS, score, event_dims=event)
    with dask.config.set(scheduler=no_computing):
        lazy = kuq.xarray.decompose(DRAWS.chunk(chunks), score, event_dims=event)
    assert all(isinstance(lazy[key].data, da.Array) for key in lazy)
    found = lazy.compute(scheduler="threads", num_workers=2)
    xr.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found.attrs == expected.attrs
    assert found.total.attrs == expected.total.attrs
    assert found.total.dtype == lazy.total.dtype


def test_other_measures_are_lazy_too():
    y = DRAWS.isel(sample=2, number=0)
    calls = [
        lambda f: kuq.xarray.entropy(f(NORMALS), kuq.CRPS(), event_dims=["lon"]),
        lambda f: kuq.xarray.divergence(f(NORMALS), f(DRAWS), kuq.CRPS(), event_dims=["lon"]),
        lambda f: kuq.xarray.score(f(DRAWS), f(y), kuq.CRPS(), event_dims=["lat"]),
        lambda f: kuq.xarray.member_divergences(f(DRAWS), kuq.CRPS(), event_dims=["lat"]),
        lambda f: kuq.xarray.decompose(
            f(NORMALS), kuq.Energy(), event_dims=["lat", "lon"], weights="area"
        ),
    ]
    for call in calls:
        with dask.config.set(scheduler=no_computing):
            lazy = call(lambda data: data.chunk({"time": 3, "lon": 2}))
        expected = call(lambda data: data)
        xr.testing.assert_allclose(lazy.compute(scheduler="sync"), expected, rtol=1e-12)


def test_parameters_in_memory_beside_lazy_ones():
    mixed = NORMALS.assign(loc=NORMALS["loc"].chunk({"time": 3}), scale=NORMALS["scale"].mean())
    expected = kuq.xarray.decompose(mixed.compute(), kuq.CRPS())
    found = kuq.xarray.decompose(mixed, kuq.CRPS()).compute(scheduler="sync")
    xr.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_median_bandwidth_is_the_same_in_every_chunk():
    score = kuq.Gaussian("median")
    expected = kuq.xarray.decompose(DRAWS, score)
    plain = np.moveaxis(DRAWS.values, 2, -1)
    direct = kuq.decompose(kuq.Ensemble(kuq.Samples(plain)), score)
    assert expected.attrs["score"] == repr(direct.score)
    np.testing.assert_allclose(expected.total, direct.total, rtol=1e-12)
    found = kuq.xarray.decompose(DRAWS.chunk({"time": 1}), score)
    assert found.attrs["score"] == expected.attrs["score"]
    xr.testing.assert_allclose(found.compute(scheduler="sync"), expected, rtol=1e-12)


def test_a_median_bandwidth_of_much_data_reads_some_of_it(monkeypatch):
    monkeypatch.setattr("kuq.xarray.bandwidths.MOST_ENTRIES", 10)
    found = kuq.xarray.decompose(DRAWS.chunk({"time": 1}), kuq.Gaussian("median"))
    some = DRAWS.isel(time=slice(None, None, 4), lat=slice(None, None, 3), lon=slice(None, None, 3))
    exact = kuq.xarray.decompose(some, kuq.Gaussian("median"))
    assert found.attrs["score"] == exact.attrs["score"]


def test_a_store_goes_through_a_store(tmp_path):
    store, result = tmp_path / "in.zarr", tmp_path / "out.zarr"
    DRAWS.chunk({"time": 2}).to_dataset(name="t2m").to_zarr(store, consolidated=False)
    data = xr.open_zarr(store, consolidated=False)["t2m"]
    kuq.xarray.decompose(data, kuq.CRPS()).to_zarr(result, consolidated=False)
    found = xr.open_zarr(result, consolidated=False)
    expected = kuq.xarray.decompose(DRAWS, kuq.CRPS())
    xr.testing.assert_allclose(found.compute(), expected, rtol=1e-12)
    assert found.attrs == expected.attrs
    assert found.total.attrs["units"] == "K"
    expected.to_netcdf(tmp_path / "out.nc")
    with xr.open_dataset(tmp_path / "out.nc") as again:
        assert again.attrs == expected.attrs


def test_chunks_hold_whole_predictions_and_stay_small():
    data = xr.DataArray(
        da.zeros((20, 4, 50, 180, 360), chunks=(1, 4, 50, 180, 360)),
        dims=("number", "time", "sample", "lat", "lon"),
    )
    chunked = whole_predictions(data, ["number", "sample"])
    sizes = dict(zip(chunked.dims, (max(c) for c in chunked.chunks), strict=True))
    assert (sizes["number"], sizes["sample"]) == (20, 50)
    assert LARGEST_CHUNK / 2 < np.prod(list(sizes.values())) * 8 <= LARGEST_CHUNK
    fine = data.chunk({"number": 20, "time": 1, "lat": 10, "lon": 200})
    assert whole_predictions(fine, ["number", "sample"]).chunks == fine.chunks
    field = whole_predictions(data, ["number", "lat", "lon"])
    assert (max(field.chunks[1]), field.chunks[0], field.chunks[3]) == (1, (20,), (180,))
