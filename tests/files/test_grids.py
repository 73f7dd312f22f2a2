"""NetCDF and Zarr: the numbers of the library, names and attributes kept, piece by piece."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import default_rng

import kuq
from kuq.cli import main
from kuq.files import Layout, Names, decompose_file, grids
from kuq.reports.decomposition import decomposition_report

xr = pytest.importorskip("xarray")
pytest.importorskip("h5netcdf")
pytest.importorskip("zarr")

M, T, S, LAT, LON = 3, 5, 4, 6, 7
VALUES = default_rng(2).normal(size=(T, S, M, LAT, LON))
DIMS = ("time", "sample", "number", "lat", "lon")
COORDS = {
    "time": np.datetime64("2024-01-01") + np.arange(T),
    "lat": np.linspace(-50.0, 50.0, LAT),
    "lon": ("lon", np.arange(LON, dtype=float), {"units": "degrees_east"}),
}
DRAWS = xr.DataArray(VALUES, COORDS, DIMS, name="t2m", attrs={"units": "K"})
BY_MEMBER = np.moveaxis(VALUES, 2, 0)  # (members, time, draws, lat, lon)
ENSEMBLE = kuq.Ensemble(kuq.Samples(BY_MEMBER, sample_axis=2))


def save(data, path):
    data = data.to_dataset() if isinstance(data, xr.DataArray) else data
    if path.suffix == ".zarr":
        data.to_zarr(path, consolidated=False)
    else:
        data.to_netcdf(path, engine="h5netcdf")
    return path


def read_back(path):
    if path.suffix == ".zarr":
        return xr.open_zarr(path, consolidated=False, chunks=None).load()
    with xr.open_dataset(path) as found:
        return found.load()


def scalar_draws():
    return np.moveaxis(VALUES, (2, 1), (0, -1))  # (members, time, lat, lon, draws)


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
@pytest.mark.parametrize("piece", [2**24, 300])
def test_draws_cell_by_cell(tmp_path, monkeypatch, suffix, piece):
    monkeypatch.setattr(grids, "_PIECE", piece)
    seen = []
    path = save(DRAWS.assign_attrs(source="a model"), tmp_path / f"f{suffix}")
    result = decompose_file(path, kuq.CRPS(), progress=lambda *a: seen.append(a))
    expected = kuq.decompose(kuq.Ensemble(kuq.Samples(scalar_draws())), kuq.CRPS())
    written = read_back(result.out)
    for part in expected:
        np.testing.assert_allclose(written[part], expected[part], rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(result.uncertainty[part], written[part])
    assert written["total"].dims == ("time", "lat", "lon")
    assert written["epistemic"].attrs["units"] == "K"
    assert written["lon"].attrs["units"] == "degrees_east"
    assert written.attrs["score"] == "CRPS()"
    assert seen[-1][0] == seen[-1][1]
    if piece == 300:
        assert len(seen) > 50  # many pieces
    assert result.labels[1].startswith("2024-01-02")


def test_fields_as_one_outcome_and_the_members_of_the_report(tmp_path):
    path = save(DRAWS, tmp_path / "f.zarr")
    result = decompose_file(path, kuq.Energy(), layout=Layout(event=("lat", "lon")))
    fields = kuq.Ensemble(kuq.Samples(BY_MEMBER, event_ndim=2))
    expected = kuq.decompose(fields, kuq.Energy())
    np.testing.assert_allclose(result.uncertainty.epistemic, expected.epistemic, rtol=1e-10)
    some = result.prediction_at(np.array([1, 3]))
    assert repr(some) == "Ensemble of 3 × Samples(batch=(2,), N=4, event=(6, 7))"
    np.testing.assert_allclose(some.members.values, BY_MEMBER[:, [1, 3]])
    text = decomposition_report(result)
    assert "Where on the grid" in text
    assert "2024-01-0" in text


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_normals_under_usual_names_with_weights(tmp_path, suffix):
    loc, scale = DRAWS.mean("sample"), DRAWS.std("sample") ** 2
    weights = xr.DataArray([1.0, 2.0, 3.0], dims="number")
    data = xr.Dataset({"mu": loc, "variance": scale, "weights": weights})
    result = decompose_file(save(data, tmp_path / f"f{suffix}"), kuq.Gaussian("median"))
    arrays = [np.moveaxis(a.values, 1, 0) for a in (loc, scale**0.5)]
    ensemble = kuq.Ensemble(kuq.Normal(*arrays), [1.0, 2.0, 3.0])
    expected = kuq.decompose(ensemble, result.uncertainty.score)
    np.testing.assert_allclose(result.uncertainty.total, expected.total, rtol=1e-10)
    some = result.prediction_at(np.array([2]))
    np.testing.assert_allclose(some.members.scale, arrays[1][:, 2:3], rtol=1e-12)
    assert result.uncertainty.score.bandwidth == pytest.approx(
        kuq.decompose(ensemble, kuq.Gaussian("median")).score.bandwidth, rel=0.05
    )


def test_other_laws_and_names(tmp_path):
    loc = DRAWS.mean("sample")
    evidential = xr.Dataset({"loc": loc[:, 0], "nu": 1 + 0 * loc[:, 0], "alpha": 3 + 0 * loc[:, 0],
                             "beta": 2 + 0 * loc[:, 0]})  # fmt: skip
    result = decompose_file(save(evidential, tmp_path / "e.nc"), kuq.CRPS())
    law = kuq.NormalInverseGamma(loc.values[:, 0], 1.0, 3.0, 2.0)
    np.testing.assert_allclose(
        result.uncertainty.total, kuq.decompose(law, kuq.CRPS()).total, rtol=1e-8
    )
    assert "Which members" not in decomposition_report(result)
    two = xr.Dataset({"t2m": loc.rename(number="run"), "other": loc[0, 0]})
    layout = Layout(Names(points="t2m"), member="run")
    result = decompose_file(save(two, tmp_path / "p.nc"), kuq.CRPS(), layout=layout)
    points = kuq.Ensemble(kuq.Point(np.moveaxis(loc.values, 1, 0)))
    np.testing.assert_allclose(
        result.uncertainty.epistemic, kuq.decompose(points, kuq.CRPS()).epistemic, rtol=1e-10
    )


@pytest.mark.parametrize("event", [(), ("lat", "lon")])
def test_north_is_up_on_maps(tmp_path, monkeypatch, event):
    from kuq.reports import figures

    drawn = {}
    monkeypatch.setattr(
        figures, "grid_map", lambda values, title, *_: str(drawn.update({title: values}))
    )
    north = DRAWS.where(DRAWS["lat"] < 40, 10 * DRAWS)
    result = decompose_file(
        save(north, tmp_path / "f.nc"), kuq.CRPS() if not event else kuq.Energy(),
        layout=Layout(event=event),
    )  # fmt: skip
    decomposition_report(result)
    aleatoric = drawn["map of aleatoric"]
    assert aleatoric.shape == (LAT, LON)
    assert aleatoric[0].mean() > 3 * aleatoric[1:].mean()


def test_stores_of_the_older_format(tmp_path):
    DRAWS.to_dataset().to_zarr(tmp_path / "f.zarr", consolidated=False, zarr_format=2)
    result = decompose_file(tmp_path / "f.zarr", kuq.CRPS())
    expected = kuq.decompose(kuq.Ensemble(kuq.Samples(scalar_draws())), kuq.CRPS())
    np.testing.assert_allclose(read_back(result.out)["total"], expected.total, rtol=1e-10)


def test_very_many_values_are_thinned_for_the_report_only(tmp_path, monkeypatch):
    from kuq.files import grid_result

    monkeypatch.setattr(grid_result, "_MOST_VALUES", 60)
    result = decompose_file(save(DRAWS, tmp_path / "f.nc"), kuq.CRPS())
    whole = read_back(result.out)["total"]
    assert whole.size == T * LAT * LON
    assert result.uncertainty.total.size <= 60
    assert "figures and tables show every" in " ".join(result.only.notes)
    steps = [-(-n // m) for n, m in zip(whole.shape, result.uncertainty.total.shape, strict=True)]
    np.testing.assert_array_equal(
        result.uncertainty.total, whole[tuple(slice(None, None, s) for s in steps)]
    )
    assert decomposition_report(result)


def text(content):
    return lambda path: path.write_text(content)


def truncated(path):
    save(DRAWS, path)
    path.write_bytes(path.read_bytes()[:2000])


def damaged_store(path):
    save(DRAWS, path)
    for chunk in [
        p for p in path.rglob("*") if p.is_file() and "t2m" in str(p) and "json" not in p.name
    ]:
        chunk.write_bytes(b"broken")


def with_nan(path):
    values = VALUES.copy()
    values[4, 1, 1, 1, 1] = np.nan
    save(DRAWS.copy(data=values), path)


CASES = {
    "empty.nc": (text(""), [], "empty"),
    "text.nc": (text("hello"), [], "cannot be read"),
    "truncated.nc": (truncated, [], "cannot be read"),
    "text.zarr": (text("hello"), [], "cannot be read"),
    "folder.zarr": (lambda path: path.mkdir(), [], "cannot be read|no prediction"),
    "damaged.zarr": (damaged_store, [], "cannot be"),
    "nan.nc": (with_nan, ["--nan", "raise"], "--nan propagate"),
    "nan.zarr": (with_nan, ["--nan", "raise"], "--nan propagate"),
    "no_member.nc": (lambda p: save(DRAWS.rename(number="who"), p), [], "member"),
    "event.nc": (lambda p: save(DRAWS, p), ["--event", "x,y"], "event dimension 'x'"),
    "names.nc": (
        lambda p: save(xr.Dataset({"a": DRAWS[:, :, 0], "b": DRAWS[:, :, 0]}), p),
        [],
        "--samples",
    ),
    "words.nc": (lambda p: save(DRAWS.astype(str), p), [], "real numbers"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_files(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make, options, words = CASES[name]
    make(tmp_path / name)
    assert main(["decompose", name, *options]) == 2
    err = capsys.readouterr().err
    assert err.startswith("kuq: error: ")
    assert err.count("\n") == 1
    assert any(word in err for word in words.split("|")), err
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_the_example_of_the_help(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(xr.Dataset({"t2m": DRAWS, "other": DRAWS}), tmp_path / "forecast.nc")
    arguments = [
        "decompose",
        "forecast.nc",
        "--samples",
        "t2m",
        "--score",
        "energy",
        "--event",
        "lat,lon",
    ]
    assert main(arguments) == 0
    assert (
        "3 members, each with 4 draws; 5 predictions by time, each of 6 lat × 7 lon"
        in capsys.readouterr().out
    )


def test_an_outcome_without_a_dimension_is_said_to_judge_all_along_it(tmp_path):
    rng = np.random.default_rng(40)
    data = xr.Dataset(
        {
            "t": (("number", "time", "lat"), rng.normal(size=(4, 3, 5))),
            "obs": (("lat",), rng.normal(size=5)),
        }
    )
    data.to_netcdf(tmp_path / "t.nc")
    result = decompose_file(tmp_path / "t.nc", kuq.CRPS(), layout=Layout(target="obs"))
    assert "'obs' has no 'time': each value judges all of them" in result.only.notes


def test_what_happened_is_asked_for_in_words_that_work(tmp_path, monkeypatch, capsys):
    """Of draws the error proposed --points; of a target alone it said "among nothing"."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    drawn = (("model", "number", "time"), rng.normal(size=(2, 3, 9)))
    seen = ("time", rng.normal(size=9))
    xr.Dataset({"t2m": drawn, "tp": drawn, "obs": seen}).to_netcdf("f.nc")
    command = ["decompose", "f.nc", "--member", "model", "--draws", "number", "--target", "obs"]
    assert main(command) == 2
    assert "as in --samples t2m, or give" in capsys.readouterr().err
    assert main([*command, "--samples", "t2m"]) == 0
    pairs = {"t_mean": drawn, "t_std": ("time", np.ones(9)), "p_mean": drawn, "p_std": drawn}
    xr.Dataset({**pairs, "obs": seen}).isel(number=0).to_netcdf("g.nc")
    assert main(["decompose", "g.nc", "--target", "obs"]) == 2
    assert "as in --loc t_mean --scale t_std, or give" in capsys.readouterr().err
    assert main(["decompose", "f.nc", "--target", "{}"]) == 2
    assert "nothing is left that could be a prediction" in capsys.readouterr().err
    data = xr.DataArray(rng.normal(size=(2, 3)), dims=("member", "latitude"), name="t")
    with pytest.raises(kuq.ShapeError, match=r"same, rename\(\{'lat': 'latitude'\}\) names"):
        kuq.report(data, y=data.isel(member=0).rename(latitude="lat"), path="r.html")


@pytest.mark.parametrize("calendar", ["noleap", "360_day"])
@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_calendars_of_climate_models(tmp_path, calendar, suffix):
    """Years without leap days, or of twelve equal months, could not be read at all."""
    days = {"units": "days since 2000-01-01", "calendar": calendar}
    time = ("time", 30.0 * np.arange(T) + 14, days)
    data = DRAWS.isel(sample=0).assign_coords(time=time)
    result = decompose_file(save(data, tmp_path / f"f{suffix}"), kuq.CRPS())
    written = read_back(result.out)
    first, last = written.time.values[[0, -1]]
    assert (first.calendar, first.day) == (calendar, 15)
    # 120 days are four months of 30 days, and of 31 + 28 + 31 + 30 in a year without a leap day.
    assert (last.month, last.day) == (5, 15)
    points = kuq.Ensemble(kuq.Point(np.moveaxis(VALUES[:, 0], 1, 0)))
    np.testing.assert_allclose(written["total"], kuq.decompose(points, kuq.CRPS()).total)
    assert "2000-" in decomposition_report(result)
