"""Fields with masks: cells that are missing in every prediction are no part of the outcome."""

from __future__ import annotations

import numpy as np
import pytest

import kuq
from kuq.files import Layout, decompose_file

xr = pytest.importorskip("xarray")
pytest.importorskip("dask")

LAT, LON = np.linspace(-60.0, 60.0, 5), np.arange(0.0, 360.0, 60.0)
SEA = np.add.outer(np.arange(5), np.arange(6)) % 3 == 0
FIELD = ("lat", "lon")
SCORES = (kuq.CRPS(), kuq.Energy(), kuq.Gaussian(3.0), kuq.Gaussian("median"))


def field(seed, *, members=3, draws=None):
    """Forecasts over land, of three days."""
    lead = (members, 3) if draws is None else (members, 3, draws)
    values = np.random.default_rng(seed).normal(280.0, 2.0, size=(*lead, *SEA.shape))
    dims = ("number", "time", *(() if draws is None else ("draw",)), *FIELD)
    days = np.arange("2026-01-01", "2026-01-04", dtype="datetime64[D]").astype("datetime64[ns]")
    coords = {"number": list("abc")[:members], "time": days, "lat": LAT, "lon": LON}
    return xr.DataArray(np.where(SEA, np.nan, values), dims=dims, coords=coords, name="t2m")


def data_of(law, seed=0):
    if law == "draws":
        return field(seed, draws=4)
    points = field(seed)
    return points if law == "points" else xr.Dataset({"loc": points, "scale": 0 * points + 1.5})


def on_land(law, data):
    """The same prediction of the cells of the land only, without names."""
    if law == "draws":
        return kuq.Ensemble(kuq.Samples(data.values[..., ~SEA], event_ndim=1))
    if law == "points":
        return kuq.Ensemble(kuq.Point(data.values[..., ~SEA], event_ndim=1))
    return kuq.Ensemble(kuq.Normal(data["loc"].values[..., ~SEA], 1.5, event_ndim=1))


@pytest.mark.parametrize("score", SCORES, ids=repr)
@pytest.mark.parametrize("law", ["normals", "points", "draws"])
def test_masked_cells_are_no_part_of_the_field(law, score):
    """Every number was NaN, and the errors led from "omit" to "propagate" and back."""
    data = data_of(law)
    expected = kuq.decompose(on_land(law, data), score)
    for policy in (None, "propagate"):
        found = kuq.xarray.decompose(data, score, event_dims=FIELD, nan_policy=policy)
        np.testing.assert_allclose(found.total, expected.total, rtol=1e-7)
        np.testing.assert_allclose(found.epistemic, expected.to_frame().epistemic, rtol=1e-7)
        assert f"{SEA.sum()} of 30 cells are missing" in found.attrs["left_out"]
    lazy = data.chunk(time=1)
    options = {"event_dims": FIELD, "nan_policy": "propagate"}
    found = kuq.xarray.decompose(lazy, score, **options).compute()
    np.testing.assert_allclose(found.total, expected.total, rtol=1e-7)
    if isinstance(score, kuq.Energy):  # nothing is read unless it is asked for
        with pytest.raises(kuq.ParameterError, match="leaves cells out that are missing in every"):
            kuq.xarray.decompose(lazy, score, event_dims=FIELD).compute()
    xr.testing.assert_identical(
        data.kuq.decompose(score, event_dims=FIELD),
        kuq.xarray.decompose(data, score, event_dims=FIELD),
    )


@pytest.mark.parametrize("weights", [None, "area"])
@pytest.mark.parametrize("law", ["normals", "points", "draws"])
def test_the_field_is_that_of_the_command_line(tmp_path, law, weights):
    data = data_of(law, 1)
    if law != "normals":
        data = data.to_dataset(name="samples" if law == "draws" else "points")
    data.to_netcdf(tmp_path / "f.nc")
    layout = Layout(event=FIELD, area_weights=weights is not None)
    result = decompose_file(tmp_path / "f.nc", kuq.Energy(), layout=layout)
    named = data_of(law, 1)
    found = kuq.xarray.decompose(named, kuq.Energy(), event_dims=FIELD, weights=weights)
    np.testing.assert_allclose(found.total, result.uncertainty.total, rtol=1e-13)
    assert found.attrs["left_out"] in result.only.notes
    with xr.open_dataset(result.out) as written:
        assert written.attrs["left_out"] == found.attrs["left_out"]


def test_every_measure_leaves_them_out():
    data = data_of("normals", 2)
    other = data_of("normals", 3)
    p, q = on_land("normals", data), on_land("normals", other)
    y = data["loc"].isel(number=0, drop=True) + 1.0
    score, named = kuq.Energy(), {"event_dims": FIELD}
    cases = [
        (kuq.xarray.entropy(data, score, **named), kuq.entropy(p, score)),
        (kuq.xarray.divergence(data, other, score, **named), kuq.divergence(p, q, score)),
        (kuq.xarray.score(data, y, score, **named), kuq.score(p, y.values[..., ~SEA], score)),
        (kuq.xarray.member_divergences(data, score, **named), kuq.member_divergences(p, score)),
    ]
    for found, expected in cases:
        np.testing.assert_allclose(found.values, expected, rtol=1e-7, atol=1e-9)
        assert "left out" in found.attrs["left_out"]
    levels = kuq.xarray.decompose(data, score, level_dims=("number",), **named)
    np.testing.assert_allclose(levels.total, kuq.decompose(p, score).total, rtol=1e-7)
    assert "left out" in levels.attrs["left_out"]


def test_cells_that_were_never_observed_are_not_judged():
    data = data_of("normals", 4).fillna({"loc": 280.0, "scale": 1.5})
    y = data["loc"].isel(number=0, drop=True) + 1.0
    found = kuq.xarray.score(data, y.where(~SEA), kuq.Energy(), event_dims=FIELD)
    expected = kuq.score(on_land("normals", data), y.values[..., ~SEA], kuq.Energy())
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    assert "in all that happened" in found.attrs["left_out"]
    gone = y.where(~SEA).copy()
    gone[1] = np.nan  # a day without any observation has no score
    found = kuq.xarray.score(data, gone, kuq.Energy(), event_dims=FIELD)
    assert np.isnan(found.values).tolist() == [False, True, False]


def test_a_map_of_the_field_has_no_number_at_sea():
    data = data_of("draws", 5)
    kernel = kuq.Marginal(kuq.Energy(), reduce=None)
    found = kuq.xarray.decompose(data, kernel, event_dims=FIELD)
    assert np.array_equal(np.isnan(found.total.values), np.broadcast_to(SEA, (3, 5, 6)))
    each = kuq.xarray.decompose(data, kuq.CRPS())
    np.testing.assert_allclose(found.total, each.total, rtol=1e-12)


def test_a_day_that_is_missing_as_a_whole_has_no_result():
    data = data_of("normals", 6)
    full = kuq.xarray.decompose(data, kuq.Gaussian(3.0), event_dims=FIELD)
    data["loc"][:, 1] = np.nan
    found = kuq.xarray.decompose(data, kuq.Gaussian(3.0), event_dims=FIELD)
    assert np.isnan(found.total.values).tolist() == [False, True, False]
    np.testing.assert_allclose(found.total[::2], full.total[::2], rtol=1e-12)


@pytest.mark.parametrize("law", ["normals", "points", "draws"])
def test_a_gap_is_named_by_its_coordinates(law):
    """It was an index such as (1, 2, 0, 1)."""
    data = data_of(law, 7)
    where = {"number": "b", "time": "2026-01-03", "lat": -30.0, "lon": 60.0}
    values = data["loc"] if law == "normals" else data
    values.loc[where] = np.nan
    for options in ({"event_dims": FIELD}, {}):
        with pytest.raises(kuq.ParameterError, match="propagate") as error:
            kuq.xarray.decompose(data, kuq.CRPS(), **options)
        for text in ("number b", "2026-01-03", "lat -30", "lon 60"):
            assert text in str(error.value)
        assert ("omit" in str(error.value)) == (law == "draws")
    found = kuq.xarray.decompose(data, kuq.CRPS(), event_dims=FIELD, nan_policy="propagate")
    assert np.isnan(found.total.values).tolist() == [False, False, True]
    lazy = kuq.xarray.decompose(data.chunk(time=1), kuq.CRPS(), event_dims=FIELD)
    with pytest.raises(kuq.ParameterError, match=r"chunk of the Dask array.*propagate"):
        lazy.compute()


def test_masks_can_be_refused_and_the_words_help():
    data = data_of("normals", 8)
    with pytest.raises(kuq.ParameterError, match="time 2026-01-01, number a, lat -60, lon 0"):
        kuq.xarray.decompose(data, kuq.CRPS(), event_dims=FIELD, nan_policy="raise")
    with pytest.raises(kuq.ParameterError, match="left out of event_dims anyway"):
        kuq.xarray.decompose(data, kuq.CRPS(), event_dims=FIELD, nan_policy="omit")
    with pytest.raises(kuq.ParameterError, match=r"stack\(cell=\('lat', 'lon'\)\)"):
        kuq.xarray.decompose(data, kuq.LogScore(), event_dims=FIELD)
    stacked = data.stack(cell=FIELD).dropna("cell", how="all")
    found = kuq.xarray.decompose(stacked, kuq.LogScore(), event_dims=["cell"])
    expected = kuq.decompose(on_land("normals", data), kuq.LogScore())
    np.testing.assert_allclose(found.total, expected.total, rtol=1e-9)
    with pytest.raises(kuq.ParameterError, match="every cell is missing"):
        kuq.xarray.decompose(data * np.nan, kuq.CRPS(), event_dims=FIELD)


def test_a_missing_run_of_levels_is_named():
    runs = data_of("points", 9).expand_dims(model=["x", "y"]).copy()
    runs.loc[{"model": "y", "number": "c"}] = np.nan
    levels = {"level_dims": ("model", "number")}
    with pytest.raises(kuq.ParameterError, match=r"model y, number c has no numbers.*omit"):
        kuq.xarray.decompose(runs, "crps", **levels)
    assert np.isfinite(
        kuq.xarray.decompose(runs, "crps", nan_policy="omit", **levels).total[0, 0, 1]
    )
    runs.loc[{"model": "x", "number": "a", "lat": -60.0, "lon": 60.0}] = np.nan
    with pytest.raises(kuq.ParameterError, match="lat -60, lon 60, model x, number a"):
        kuq.xarray.decompose(runs.drop_sel(number="c"), "crps", **levels)


def test_outcomes_on_another_grid_are_refused_with_a_remedy():
    """The error was one of xarray, without a word on what to do."""
    data = data_of("normals", 10)
    y = data["loc"].isel(number=0, drop=True)
    with pytest.raises(kuq.ShapeError, match=r"different coordinates.*reindex_like"):
        kuq.xarray.score(data, y[:, ::-1], "crps")
    with pytest.raises(kuq.ShapeError, match=r"different coordinates.*reindex_like"):
        kuq.xarray.divergence(data, data.isel(lat=slice(None, None, -1)), "crps")
    found = kuq.xarray.score(data, y[:, ::-1].reindex_like(data), "crps")
    xr.testing.assert_identical(found, kuq.xarray.score(data, y, "crps"))


def test_no_days_and_no_numbers():
    data = data_of("normals", 11)
    empty = kuq.xarray.decompose(data.isel(time=slice(0)), "energy", event_dims=FIELD)
    assert empty.total.shape == (0,)
    words = data["loc"].astype(str)
    for score in ("crps", "gaussian:median"):
        with pytest.raises(kuq.ParameterError, match="real numbers"):
            kuq.xarray.decompose(words, score, event_dims=FIELD)
    with pytest.raises(kuq.ParameterError, match="real numbers"):
        kuq.xarray.score(data, words.isel(number=0, drop=True), "crps", event_dims=FIELD)
