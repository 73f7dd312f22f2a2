"""Area weights, weights by name, and missing values on grids."""

import numpy as np
import pytest
import xarray as xr

import kuq


def grid(latitudes, **more):
    sizes = {"member": 3, "time": 2, "sample": 4, "lat": len(latitudes), "lon": 5, **more}
    values = np.random.default_rng(4).normal(size=list(sizes.values()))
    coords = {"lat": latitudes, "lon": np.arange(5) * 72.0}
    return xr.DataArray(values, dims=list(sizes), coords=coords)


REGULAR = np.linspace(-87.5, 87.5, 36)
POLES = np.linspace(90.0, -90.0, 19)
UNEVEN = np.asarray([-80.0, -20.0, 0.0, 10.0, 60.0])


@pytest.mark.parametrize("latitudes", [REGULAR, POLES])
def test_area_weights_integrate_over_the_sphere(latitudes):
    """The mean of sin² over the sphere is 1/3, that of cos² is 2/3."""
    weights = kuq.xarray.area_weights(grid(latitudes))
    assert float(weights.mean()) == pytest.approx(1.0, rel=1e-12)
    mean = float((weights * np.sin(np.radians(weights.lat)) ** 2).mean())
    assert mean == pytest.approx(1 / 3, rel=2e-2 if len(latitudes) < 20 else 2e-3)
    assert np.all(weights > 0)


def test_area_weights_are_those_of_the_cells():
    weights = kuq.xarray.area_weights(grid(UNEVEN))
    edges = np.radians([-90.0, -50.0, -10.0, 5.0, 35.0, 85.0])
    area = np.diff(np.sin(edges))
    np.testing.assert_allclose(weights, area / area.mean(), rtol=1e-12)


def test_latitude_is_found_by_its_attributes():
    data = grid(REGULAR).rename(lat="y")
    with pytest.raises(kuq.ShapeError, match="latitude"):
        kuq.xarray.area_weights(data)
    data["y"].attrs["standard_name"] = "latitude"
    np.testing.assert_array_equal(
        kuq.xarray.area_weights(data), kuq.xarray.area_weights(grid(REGULAR))
    )


def test_area_weighted_crps_is_the_weighted_mean_of_the_map():
    data = grid(UNEVEN)
    whole = kuq.xarray.decompose(data, kuq.CRPS(), event_dims=("lat", "lon"), weights="area")
    each = kuq.xarray.decompose(data, kuq.CRPS())
    mean = each.weighted(kuq.xarray.area_weights(each)).mean(("lat", "lon"))
    for key in whole:
        np.testing.assert_allclose(whole[key], mean[key], rtol=1e-12)


@pytest.mark.parametrize("score", [kuq.Energy(), 2.0 * kuq.Gaussian(9.0) + kuq.Laplace(3.0)])
def test_weights_by_name_are_those_of_the_norm(score):
    data = grid(UNEVEN)
    weights = xr.DataArray(np.random.default_rng(5).uniform(size=(5, 5)), dims=("lon", "lat"))
    found = kuq.xarray.decompose(data, score, event_dims=("lat", "lon"), weights=weights)
    root = np.sqrt(weights.transpose("lat", "lon").values)
    scaled = kuq.Ensemble(kuq.Samples(data.values * root, 2))
    np.testing.assert_allclose(found.total, kuq.decompose(scaled, score).total, rtol=1e-10)


def test_weights_that_do_not_fit_are_refused():
    data = grid(UNEVEN)
    ones = xr.DataArray(np.ones(5), coords={"lat": UNEVEN}, dims="lat")
    cases = [
        ({"weights": "area"}, kuq.ShapeError, "latitude among event_dims"),
        ({"weights": ones}, kuq.ShapeError, "event dimensions"),
        ({"weights": "cosine", "event_dims": ["lat"]}, kuq.ParameterError, "area"),
        ({"weights": [1.0], "event_dims": ["lat"]}, kuq.ParameterError, "DataArray"),
        (
            {"weights": ones.assign_coords(lat=UNEVEN + 1), "event_dims": ["lat"]},
            kuq.ShapeError,
            "do not fit",
        ),
        (
            {"weights": ones, "event_dims": ["lat"], "score": kuq.Energy(weights=np.ones(5))},
            kuq.ParameterError,
            "of its own",
        ),
        (
            {"weights": ones, "event_dims": ["lat"], "score": kuq.LogScore()},
            kuq.ParameterError,
            "no weights",
        ),
    ]
    for options, kind, message in cases:
        with pytest.raises(kind, match=message):
            kuq.xarray.decompose(data, **{"score": kuq.CRPS(), **options})


@pytest.mark.parametrize("bad", [[-91.0, 0.0], [0.0], [0.0, 10.0, 5.0]])
def test_bad_latitudes_are_refused(bad):
    with pytest.raises(kuq.ParameterError, match="latitudes"):
        kuq.xarray.area_weights(grid(np.asarray(bad)))


def masked(name):
    """A grid with two cells that have no data, as land in an ocean model."""
    data = grid(UNEVEN)
    sea = xr.DataArray(np.ones((5, 5), dtype=bool), dims=("lat", "lon"))
    sea[1, 2] = sea[4, 0] = False
    if name == "draws":
        return data, data.where(sea), sea
    if name == "points":
        data = data.isel(sample=0)
        return data, data.where(sea), sea
    full = xr.Dataset({"loc": data.isel(sample=0), "scale": np.exp(data.isel(sample=1))})
    return full, full.where(sea), sea


@pytest.mark.parametrize("name", ["draws", "points", "normals"])
def test_cells_without_data(name):
    full, holes, sea = masked(name)
    with pytest.raises(kuq.ParameterError, match=r"NaN"):
        kuq.xarray.decompose(holes, kuq.CRPS(), nan_policy="raise")
    found = kuq.xarray.decompose(holes, kuq.CRPS(), nan_policy="propagate")
    xr.testing.assert_identical(kuq.xarray.decompose(holes, kuq.CRPS()), found)
    expected = kuq.xarray.decompose(full, kuq.CRPS()).where(sea)
    xr.testing.assert_allclose(found, expected, rtol=1e-12)
    assert int(found.total.isnull().sum()) == 4
    if name != "draws":
        with pytest.raises(kuq.ParameterError, match="omit"):
            kuq.xarray.decompose(holes, kuq.CRPS(), nan_policy="omit")


def test_missing_draws_are_omitted():
    data = grid(UNEVEN)
    fewer = data.where(data.sample != 3)
    found = kuq.xarray.decompose(fewer, kuq.CRPS(), nan_policy="omit")
    expected = kuq.xarray.decompose(data.isel(sample=slice(3)), kuq.CRPS())
    np.testing.assert_allclose(found.total, expected.total, rtol=1e-12)


def test_missing_outcomes_give_missing_scores():
    full, _, sea = masked("normals")
    y = full["loc"].isel(member=0)
    found = kuq.xarray.score(full, y.where(sea), kuq.CRPS(), nan_policy="propagate")
    expected = kuq.xarray.score(full, y, kuq.CRPS()).where(sea)
    xr.testing.assert_allclose(found, expected)
    xr.testing.assert_identical(kuq.xarray.score(full, y.where(sea), kuq.CRPS()), found)
    with pytest.raises(kuq.ParameterError, match="finite"):
        kuq.xarray.score(full, y.where(sea), kuq.CRPS(), nan_policy="raise")
