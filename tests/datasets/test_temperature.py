"""ERA5, read from small Zarr stores with the names, levels and grids of WeatherBench2."""

import importlib.util
import pickle
import shutil

import dask.array
import numpy as np
import pytest
import xarray

import kuq
from kuq.datasets import DataError
from kuq.datasets.temperature import load_temperature
from kuq.datasets.weather import CHANNELS

STEP = 2.5
LEVELS = [500, 850, 1000]
SPANS = (("2018-12-29", "2019-01-02"), ("2022-05-01", "2022-05-03"))
LEAD = np.timedelta64(6, "h").astype("timedelta64[ns]")
YEARS = {"train_years": (2018, 2018), "validation_years": (2019, 2019), "test_years": (2022, 2022)}


def times(*spans):
    return np.concatenate([
        np.arange(np.datetime64(a), np.datetime64(b), np.timedelta64(6, "h")) for a, b in spans
    ]).astype("datetime64[ns]")  # fmt: skip


def truth(name, hours, latitude, longitude, level=0):
    """A formula for every variable, so that any value can be told from its place and time."""
    angle = np.radians(longitude)
    wave = np.sin(angle) + 0.3 * np.cos(2 * angle) + 0.01 * latitude + 0.2 * np.sin(hours / 5)
    return {
        "10m_u_component_of_wind": 5 * wave,
        "10m_v_component_of_wind": -3 * wave,
        "2m_temperature": 280 + 5 * wave - 0.3 * latitude,
        "temperature": 270 + 4 * wave - level / 100,
        "geopotential": 60_000 + 500 * wave - 10 * level,
        "land_sea_mask": 0.5 + 0.5 * np.sin(angle),
        "geopotential_at_surface": 9.80665 * (1000 + 900 * np.sin(3 * angle)),
    }[name]


def hours_of(when):
    return (when - np.datetime64("2018-12-29")) / np.timedelta64(1, "h")


def era5(when=None, north_first=True, west=0.0, order=("time", "level", "latitude", "longitude")):
    """The seven variables on a global band of 2.5°."""
    when = times(*SPANS) if when is None else when
    latitude = np.arange(20.0, 85.1, STEP)
    latitude = latitude[::-1] if north_first else latitude
    longitude = np.arange(west, west + 360, STEP)
    hours = hours_of(when)
    variables = {}
    for name in ("10m_u_component_of_wind", "10m_v_component_of_wind", "2m_temperature"):
        values = truth(name, hours[:, None, None], latitude[:, None], longitude)
        variables[name] = (("time", "latitude", "longitude"), values.astype(np.float32))
    for name in ("temperature", "geopotential"):
        levels = np.array(LEVELS)[:, None, None]
        values = truth(name, hours[:, None, None, None], latitude[:, None], longitude, levels)
        dims = ("time", "level", "latitude", "longitude")
        variables[name] = (dims, values.astype(np.float32))
    for name in ("land_sea_mask", "geopotential_at_surface"):
        values = truth(name, 0, latitude[:, None], longitude) + np.zeros((len(latitude), 1))
        variables[name] = (("latitude", "longitude"), values.astype(np.float32))
    coordinates = {"time": when, "level": LEVELS, "latitude": latitude, "longitude": longitude}
    return xarray.Dataset(variables, coordinates).transpose(*order)


def write(dataset, folder, name="era5.zarr"):
    """As WeatherBench2 does: version 2 of the format, metadata gathered, one time per chunk."""
    # Times are chunked by twos instead, to save the tests many files.
    timed = [name for name, variable in dataset.data_vars.items() if "time" in variable.dims]
    encoding = {name: {"chunks": (2, *dataset[name].shape[1:])} for name in timed}
    dataset.to_zarr(folder / name, zarr_format=2, consolidated=True, encoding=encoding)
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write(era5(), tmp_path_factory.mktemp("era5"))


@pytest.fixture
def copied(store, tmp_path):
    shutil.copytree(store / "era5.zarr", tmp_path / "era5.zarr")
    return tmp_path


def test_channels_are_where_and_when_they_should_be(store):
    data = load_temperature(store, **YEARS)
    assert data.test.x.shape == (6, 12, 16, 22)
    assert data.test.y.shape == (6, 16, 22)
    when = times(SPANS[1])[1:-1]
    for split, north, west in ((data.test, 72.5, -12.5), (data.shifted, 67.5, -125.0)):
        x, y = np.asarray(split.x), np.asarray(split.y)
        assert x.dtype == y.dtype == np.float32
        latitude = north - STEP * np.arange(16)[:, None]
        longitude = (west + STEP * np.arange(22)) % 360
        facts = data.provenance["channels"]
        units = [x[:, k] * facts[name][1] + facts[name][0] for k, name in enumerate(CHANNELS)]
        for row, moment in enumerate(when):
            now, past, later = (hours_of(moment) + lag for lag in (0, -6, 6))
            for k, (name, level) in enumerate([
                ("10m_u_component_of_wind", 0),
                ("10m_v_component_of_wind", 0),
                ("2m_temperature", 0),
                ("temperature", 850),
                ("geopotential", 500),
            ]):  # fmt: skip
                for channel, time in ((k, past), (5 + k, now)):
                    expected = truth(name, time, latitude, longitude, level)
                    assert np.allclose(units[channel][row], expected, rtol=1e-5, atol=1e-3)
            change = truth("2m_temperature", later, latitude, longitude)
            change = change - truth("2m_temperature", now, latitude, longitude)
            assert np.allclose(y[row], change, atol=1e-4)
        assert np.allclose(units[10], truth("land_sea_mask", 0, latitude, longitude), atol=1e-5)
        height = truth("geopotential_at_surface", 0, latitude, longitude) / 9.80665
        assert np.allclose(units[11], height, rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize(
    "other",
    [
        {"north_first": False},
        {"west": -180.0},
        {"order": ("time", "longitude", "level", "latitude"), "north_first": False},
    ],
)
def test_every_order_of_a_store_gives_the_same_data(store, tmp_path, other):
    one, two = (
        load_temperature(folder, **YEARS) for folder in (store, write(era5(**other), tmp_path))
    )
    for name in ("test", "shifted"):
        for part in ("x", "y"):
            a, b = (np.asarray(getattr(getattr(data, name), part)) for data in (one, two))
            assert np.allclose(a, b, atol=1e-5)


def test_no_row_reaches_into_other_years(store):
    data = load_temperature(store, **YEARS)
    # 2018: 12 times, 2019: 4 times; the first has no past and the last no future.
    assert [len(split) for split in (data.train, data.validation)] == [10, 2]


def test_the_temperature_itself_can_be_the_target(store):
    change, itself = (
        load_temperature(store, target=target, **YEARS).test for target in ("change", "temperature")
    )
    now = np.asarray(itself.x[:, CHANNELS.index("T2M(t)")]) * 10 + 280
    assert np.allclose(np.asarray(itself.y) - now, np.asarray(change.y), atol=1e-4)


def test_a_stride_keeps_every_second_point(store):
    whole, half = load_temperature(store, **YEARS), load_temperature(store, stride=2, **YEARS)
    assert half.test.x.shape[2:] == (8, 11)
    assert np.array_equal(np.asarray(half.test.y), np.asarray(whole.test.y[:, 1::2, ::2]))


def test_gaps_in_time_cost_the_rows_that_need_them(tmp_path):
    when = times(*SPANS)
    data = load_temperature(write(era5(np.delete(when, 6)), tmp_path), **YEARS)
    assert len(data.train) == 7
    hourly = np.sort(np.concatenate([when, when + np.timedelta64(1, "h")]))
    data = load_temperature(write(era5(hourly), tmp_path, "h.zarr"), store="h.zarr", **YEARS)
    assert len(data.train) == 10


@pytest.mark.filterwarnings("ignore:The specified chunks separate:UserWarning")
def test_opening_the_whole_of_era5_reads_nothing(tmp_path):
    """The size of the real store, of which only the metadata exist."""
    when = np.arange(np.datetime64("1959-01-01"), np.datetime64("2023-01-11"), LEAD)
    latitude, longitude = np.linspace(90, -90, 721), np.arange(0, 360, 0.25)
    full = dask.array.zeros((len(when), 721, 1440), np.float32, chunks=(len(when), 721, 1440))
    layers = dask.array.zeros((len(when), 13, 721, 1440), np.float32, chunks=-1)
    flat = dask.array.zeros((721, 1440), np.float32, chunks=-1)
    place = ("time", "latitude", "longitude")
    levels = [50, 100, 150, 200, 250, 300, 400, 500, 600, 700, 850, 925, 1000]
    names = ("10m_u_component_of_wind", "10m_v_component_of_wind", "2m_temperature")
    dataset = xarray.Dataset(
        dict.fromkeys(names, (place, full))
        | dict.fromkeys(("temperature", "geopotential"), (("time", "level", *place[1:]), layers))
        | dict.fromkeys(("land_sea_mask", "geopotential_at_surface"), (place[1:], flat)),
        {"time": when, "level": levels, "latitude": latitude, "longitude": longitude},
    )
    encoding = {
        name: {"chunks": tuple(1 if dim == "time" else n for dim, n in variable.sizes.items())}
        for name, variable in dataset.data_vars.items()
    }
    dataset.to_zarr(tmp_path / "e.zarr", zarr_format=2, compute=False, encoding=encoding)
    data = load_temperature(tmp_path)
    assert data.train.x.shape == (8 * 1460 + 8 - 2, 12, 160, 220)
    assert data.validation.y.shape == (2 * 1460 + 4 - 2, 160, 220)
    assert data.shifted.x.shape == data.test.x.shape == (1458, 12, 160, 220)
    assert data.train.x.nbytes > 1e10
    with pytest.raises(DataError, match="missing"):
        np.asarray(data.test.y[0])


def test_lazy_arrays_go_to_other_processes(store):
    x = load_temperature(store, **YEARS).test.x
    assert np.array_equal(np.asarray(pickle.loads(pickle.dumps(x))), np.asarray(x))


def test_blocks_of_rows_are_the_rows(store):
    x = load_temperature(store, **YEARS).train.x
    assert len(x.chunks[0]) == 2
    assert np.array_equal(np.asarray(x[7:9, 3, 2:4]), np.asarray(x)[7:9, 3, 2:4])
    assert np.array_equal(np.asarray(x[-1]), np.asarray(x)[-1])
    assert np.array_equal(np.asarray(x[[5, 2, 2]]), np.asarray(x)[[5, 2, 2]])
    assert np.array_equal(np.asarray(x[::-3]), np.asarray(x)[::-3])


def test_a_store_without_gathered_metadata_is_read(store, copied):
    (copied / "era5.zarr" / ".zmetadata").unlink()
    one, two = load_temperature(store, **YEARS), load_temperature(copied / "era5.zarr", **YEARS)
    assert np.array_equal(np.asarray(one.test.y), np.asarray(two.test.y))


def test_missing_parts_are_named(tmp_path):
    dataset = era5()
    for lost, message in (
        (["2m_temperature", "land_sea_mask"], "has no 2m_temperature, land_sea_mask; it has"),
        (["level"], "has no .*level"),
    ):
        folder = write(dataset.drop_vars(lost), tmp_path, f"{lost[0]}.zarr")
        with pytest.raises(DataError, match=message):
            load_temperature(folder, store=f"{lost[0]}.zarr", **YEARS)
    write(dataset.sel(level=[500, 1000]), tmp_path, "levels.zarr")
    with pytest.raises(DataError, match=r"needed at 850 hPa, the store has \[500, 1000\]"):
        load_temperature(tmp_path, store="levels.zarr", **YEARS)
    write(dataset.assign(geopotential=dataset["geopotential"][:, 0]), tmp_path, "flat.zarr")
    with pytest.raises(kuq.ShapeError, match=r"'geopotential' .* needs the dimensions"):
        load_temperature(tmp_path, store="flat.zarr", **YEARS)
    write(dataset.sel(longitude=slice(0, 200)), tmp_path, "part.zarr")
    with pytest.raises(kuq.ShapeError, match="does not cover Europe"):
        load_temperature(tmp_path, store="part.zarr", **YEARS)


def test_missing_years_are_named(store):
    with pytest.raises(kuq.InsufficientDataError, match=r"years 2011\.\.2017 for train .* 2018-12"):
        load_temperature(store, **{**YEARS, "train_years": (2011, 2017)})


def test_chunks_that_were_not_copied_are_noticed(copied):
    for path in (copied / "era5.zarr" / "2m_temperature").iterdir():
        if not path.name.startswith("."):
            path.unlink()
    data = load_temperature(copied, **YEARS)
    with pytest.raises(DataError, match="missing"):
        np.asarray(data.test.y)


def test_other_units_are_noticed(tmp_path):
    dataset = era5()
    celsius = dataset.assign({"2m_temperature": dataset["2m_temperature"] - 273.15})
    data = load_temperature(write(celsius, tmp_path), **YEARS)
    with pytest.raises(DataError, match="another unit"):
        np.asarray(data.test.y)


def test_where_the_store_is(store, tmp_path, monkeypatch):
    monkeypatch.delenv("KUQ_DATA", raising=False)
    with pytest.raises(DataError, match="a WeatherBench2 store is needed"):
        load_temperature()
    with pytest.raises(DataError, match="must be a Zarr store or hold one"):
        load_temperature(tmp_path)
    with pytest.raises(DataError, match=r"no store 'x\.zarr'"):
        load_temperature(tmp_path, store="x.zarr")
    (tmp_path / "empty.zarr").mkdir()
    with pytest.raises(DataError, match="cannot be opened as a Zarr store"):
        load_temperature(tmp_path)
    monkeypatch.setenv("KUQ_DATA", str(store))
    data = kuq.datasets.load("temperature", **YEARS)
    assert (data.units, data.synthetic) == ("K", False)


@pytest.mark.parametrize(("option", "value"), [("target", "T850"), ("stride", 0)])
def test_bad_options_are_refused(store, option, value):
    with pytest.raises(kuq.ParameterError, match=option):
        load_temperature(store, **{option: value})


def test_a_missing_library_is_named(store, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "xarray" else found(name)
    )
    with pytest.raises(DataError, match=r'needs xarray: pip install "kuq\[datasets\]"'):
        load_temperature(store, **YEARS)
