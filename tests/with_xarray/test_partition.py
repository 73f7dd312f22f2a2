"""Levels of members with named dimensions, nested or crossed, in memory or on Dask."""

import numpy as np
import pytest

import kuq

xr = pytest.importorskip("xarray")

LEVELS = ("scenario", "model", "member")
#: Parts are differences of sums of distances between values of about 280.
ROUNDING = 1e-12
SIZES = {"scenario": 2, "model": 3, "member": 4, "time": 5, "lat": 3, "lon": 2, "draw": 6}


def runs(*dims, seed=0):
    values = np.random.default_rng(seed).normal(280.0, 2.0, size=[SIZES[dim] for dim in dims])
    coords = {dim: np.arange(SIZES[dim]) for dim in ("time", "lat", "lon") if dim in dims}
    return xr.DataArray(values, dims=dims, coords=coords, attrs={"units": "K"}, name="tas")


def plain(data, dims, **options):
    """The same by kuq.decompose of arrays whose first axes are the levels."""
    values = data.transpose(*dims, ...).values
    ensemble = kuq.Ensemble(kuq.Point(values), member_ndim=len(dims))
    return kuq.decompose(ensemble, kuq.CRPS(), levels=dims, **options)


@pytest.mark.parametrize(
    "order", [("time", *LEVELS, "lat"), ("member", "lat", *LEVELS[:2], "time")]
)
@pytest.mark.parametrize(
    "options",
    [{}, {"crossed": ("scenario", "model")}, {"crossed": True, "fixed": "scenario"},
     {"unbiased": False}, {"estimator": "bma"}],
    ids=str,
)  # fmt: skip
def test_dimensions_in_any_order_give_what_arrays_give(order, options):
    data = runs(*order)
    found = kuq.xarray.decompose(data, "crps", level_dims=LEVELS, **options)
    wanted = plain(data, LEVELS, **options)
    batch = [dim for dim in order if dim not in LEVELS]
    assert list(found.data_vars) == list(wanted)
    assert found.total.dims == tuple(batch)
    table = wanted.to_frame()  # the noise of single values is missing in it, too
    for name, part in wanted.items():
        known = table[name].to_numpy().reshape(part.shape)
        np.testing.assert_allclose(found[name].values, known, rtol=1e-12, atol=ROUNDING)
        assert found[name].attrs["units"] == "K"
    assert found.attrs["design"] == wanted.design
    assert found.attrs["method"] == wanted.method
    assert found.attrs["note"] == wanted.note
    assert found.attrs["estimator"] == wanted.estimator


def test_dask_arrays_stay_lazy_and_give_the_same():
    pytest.importorskip("dask")
    data = runs("scenario", "time", "model", "member", "lat")
    lazy = data.chunk({"scenario": 1, "time": 2, "member": 3})
    found = kuq.xarray.decompose(lazy, "crps", level_dims=LEVELS, crossed=LEVELS[:2])
    assert all(part.chunks is not None for part in found.data_vars.values())
    wanted = kuq.xarray.decompose(data, "crps", level_dims=LEVELS, crossed=LEVELS[:2])
    xr.testing.assert_allclose(found.compute(), wanted, rtol=1e-12, atol=ROUNDING)


def test_draws_are_noise_and_maps_are_kept():
    data = runs("model", "scenario", "draw", "lat", "lon", "time")
    found = kuq.xarray.decompose(
        data,
        kuq.CRPS(reduce=None),
        level_dims=("scenario", "model"),
        draws_dim="draw",
        event_dims=("lat", "lon"),
    )
    assert found.noise.dims == ("time", "lat", "lon")
    values = data.transpose("scenario", "model", "time", "draw", "lat", "lon").values
    ensemble = kuq.Ensemble(kuq.Samples(values, event_ndim=2), member_ndim=2)
    wanted = kuq.decompose(ensemble, kuq.CRPS(reduce=None), levels=("scenario", "model"))
    for name, part in wanted.items():
        np.testing.assert_allclose(found[name].values, part, rtol=1e-11, atol=ROUNDING)
    assert found.attrs["method"] == "samples"
    assert "note" not in found.attrs


def test_parameters_that_lack_a_level_hold_for_all_of_it():
    loc, scale = runs("scenario", "model", "time"), np.exp(runs("model", seed=1) / 300)
    data = xr.Dataset({"loc": loc, "scale": scale})
    found = kuq.xarray.decompose(data, "crps", level_dims=("scenario", "model"), crossed=True)
    ensemble = kuq.Ensemble(kuq.Normal(loc.values, scale.values[None, :, None]), member_ndim=2)
    wanted = kuq.decompose(ensemble, "crps", levels=("scenario", "model"), crossed=True)
    for name, part in wanted.items():
        np.testing.assert_allclose(found[name].values, part, rtol=1e-11, atol=ROUNDING)


def test_weights_lie_along_some_of_the_levels():
    data = runs("scenario", "model", "time").assign_coords(scenario=["low", "high"])
    scenario = xr.DataArray([3.0, 1.0], coords={"scenario": ["high", "low"]}, dims="scenario")
    found = kuq.xarray.decompose(
        data, "crps", level_dims=("scenario", "model"), member_weights=scenario
    )
    joint = np.outer([1.0, 3.0], np.ones(3))
    again = kuq.xarray.decompose(
        data, "crps", level_dims=("scenario", "model"), member_weights=joint
    )
    ensemble = kuq.Ensemble(kuq.Point(data.values), joint, member_ndim=2)
    wanted = kuq.decompose(ensemble, "crps", levels=("scenario", "model"))
    for name, part in wanted.known.items():
        np.testing.assert_allclose(found[name].values, part, rtol=1e-12, atol=ROUNDING)
        np.testing.assert_allclose(again[name].values, part, rtol=1e-12, atol=ROUNDING)
    weights = runs("time")
    with pytest.raises(kuq.ShapeError, match="time"):
        kuq.xarray.decompose(data, "crps", level_dims=("scenario", "model"), member_weights=weights)
    with pytest.raises(kuq.ShapeError, match=r"\(2, 3\)"):
        kuq.xarray.decompose(data, "crps", level_dims=("scenario", "model"), member_weights=[1, 2])


@pytest.mark.parametrize("weighted", [False, True])
def test_groups_of_unequal_size_are_arrays_with_missing_members(weighted):
    data = runs("model", "member", "time")
    data[0, 2:] = np.nan
    data[2, 3:] = np.nan
    data[:, :, 4] = np.nan  # a place where nobody has a number
    share = np.array([0.5, 0.2, 0.3]) if weighted else np.full(3, 1 / 3)
    options = {"member_weights": xr.DataArray(share, dims="model")} if weighted else {}
    found = kuq.xarray.decompose(
        data, "energy", level_dims=("model", "member"), nan_policy="omit", **options
    )
    groups = [kuq.Ensemble(kuq.Point(data.values[m, :n, :4])) for m, n in enumerate((2, 4, 3))]
    wanted = kuq.decompose(kuq.Ensemble(groups, share), "energy", levels=("model", "member"))
    for name, part in wanted.known.items():
        np.testing.assert_allclose(found[name].values[:4], part, rtol=1e-12, atol=ROUNDING)
        assert np.isnan(found[name].values[4])
    with pytest.raises(kuq.ParameterError, match=r"no numbers.*omit"):
        kuq.xarray.decompose(data, "energy", level_dims=("model", "member"))


def test_a_median_bandwidth_is_one_number_for_all_members():
    data = runs("scenario", "model", "time")
    score = kuq.Gaussian("median")
    found = kuq.xarray.decompose(data, score, level_dims=("scenario", "model"))
    ensemble = kuq.Ensemble(kuq.Point(data.values), member_ndim=2)
    wanted = kuq.decompose(ensemble, score, levels=("scenario", "model"))
    np.testing.assert_allclose(found.scenario.values, wanted["scenario"], rtol=1e-12, atol=ROUNDING)
    assert found.attrs["score"] == repr(wanted.score)


def test_the_result_goes_through_a_file(tmp_path):
    pytest.importorskip("h5netcdf")
    data = runs("scenario", "model", "time")
    found = data.kuq.decompose("crps", level_dims=("scenario", "model"), crossed=True)
    found.to_netcdf(tmp_path / "u.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "u.nc", engine="h5netcdf") as again:
        xr.testing.assert_identical(again.load(), found)


def test_what_is_not_told_is_refused_at_once():
    data = runs("scenario", "model", "member", "time")
    with pytest.raises(kuq.ShapeError, match=r"'member' looks like.*draws_dim='member'"):
        kuq.xarray.decompose(data, "crps", level_dims=("scenario", "model"))
    with pytest.raises(kuq.ShapeError, match="run"):
        kuq.xarray.decompose(data, "crps", level_dims=("scenario", "run"))
    with pytest.raises(kuq.ParameterError, match="member_dim"):
        kuq.xarray.decompose(data, "crps", member_dim="model", level_dims=LEVELS)
    with pytest.raises(kuq.ParameterError, match="level_dims"):
        kuq.xarray.decompose(data.isel(model=0, scenario=0), "crps", crossed=True)
    with pytest.raises(kuq.ShapeError, match="one role"):
        kuq.xarray.decompose(data, "crps", level_dims=LEVELS, event_dims=("model",))
    lazy = data.isel(model=[0]).chunk({"time": 1})
    with pytest.raises(kuq.InsufficientDataError, match="'model'"):
        kuq.xarray.decompose(lazy, "crps", level_dims=LEVELS)
    found = kuq.xarray.decompose(lazy, "crps", level_dims=LEVELS, fixed="model")
    assert (found.model == 0).all()
    evidential = xr.Dataset(dict.fromkeys(("loc", "nu", "alpha", "beta"), 0 * data + 2.0))
    with pytest.raises(kuq.ParameterError, match="second-order"):
        kuq.xarray.decompose(evidential, "crps", level_dims=LEVELS)


@pytest.mark.parametrize("levels", [{}, {"level_dims": ("model", "run")}], ids=["one", "levels"])
def test_weights_of_members_by_name(levels):
    values = np.random.default_rng(0).normal(size=(2, 3, 4))
    data = xr.DataArray(values, dims=("model", "run", "x"), coords={"model": ["a", "b"]})
    data = data if levels else data.isel(run=0)

    def found(data, weights, names):
        given = xr.DataArray(weights, dims="model", coords={"model": names})
        return kuq.xarray.decompose(data, kuq.Energy(), member_weights=given, **levels).total

    wanted = found(data, [1.0, 3.0], ["a", "b"])
    np.testing.assert_array_equal(found(data, [3.0, 1.0], ["b", "a"]), wanted)
    np.testing.assert_allclose(found(data, [2e307, 6e307], ["a", "b"]), wanted, rtol=1e-13)
    alike = data.assign_coords(model=["a", "a"])
    np.testing.assert_array_equal(found(alike, [1.0, 3.0], ["a", "a"]), wanted)
    with pytest.raises(kuq.ShapeError, match="none for 'b'"):
        found(data, [1.0, 3.0], ["a", "c"])
    with pytest.raises(kuq.ShapeError, match="name 'a' twice"):
        found(data, [1.0, 3.0], ["a", "a"])
    with pytest.raises(kuq.ParameterError, match="finite"):
        found(data, [np.inf, 1.0], ["a", "b"])
