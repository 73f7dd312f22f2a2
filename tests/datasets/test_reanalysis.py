"""The reanalysis that comes with kuq: its fields, its splits by years, and forecasts to beat."""

import datetime
import os
import struct
import subprocess
import sys
from importlib import resources

import numpy as np
import pytest

import kuq
from kuq.cli import main
from kuq.datasets import Split, load, monthly_temperature, reference_forecasts


def splits(data):
    return {"train": data.train, "validation": data.validation, "test": data.test}


def error(forecast, split):
    return float(((forecast - split.y) ** 2).mean())


# --- the fields ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("region", "north", "west"), [("europe", 75.0, -12.5), ("north_america", 70.0, -125.0)]
)
def test_fields_have_months_and_places(region, north, west):
    months = monthly_temperature(region)
    assert months.temperature.shape == (938, 17, 23)
    np.testing.assert_array_equal(months.latitude, north - 2.5 * np.arange(17))
    np.testing.assert_array_equal(months.longitude, west + 2.5 * np.arange(23))
    for place in (0, 1, 500, 937):
        year, month = months.year[place], months.calendar_month[place] + 1
        assert str(months.time[place]) == f"{datetime.date(year, month, 1):%Y-%m}"
    assert str(months.time[0]) == "1948-01"
    np.testing.assert_array_equal(np.diff(months.time).astype(int), 1)


def test_temperatures_are_those_of_earth():
    """Degrees Celsius, warm summers, a warm south, and warming."""
    for region in ("europe", "north_america"):
        months = monthly_temperature(region)
        assert -50 < months.temperature.min() < -25
        assert 30 < months.temperature.max() < 45
        normal = months.climatology((1961, 1990))
        assert (normal[6] > normal[0] + 1).mean() > 0.98  # not off California
        assert normal[:, -1].mean() > normal[:, 0].mean() + 15
        late = months.temperature[months.months((2008, 2025))].mean()
        early = months.temperature[months.months((1961, 1990))].mean()
        assert 0.5 < late - early < 2.5


def test_the_heat_wave_of_2003_is_there():
    months = monthly_temperature()
    anomaly = months.anomalies(months.climatology((1961, 1990)))
    france = (np.abs(months.latitude - 47.5) < 1, np.abs(months.longitude - 2.5) < 1)
    series = anomaly[:, france[0]][:, :, france[1]].ravel()
    augusts = months.calendar_month == 7
    assert str(months.time[augusts][np.argmax(series[augusts])]) == "2003-08"


def test_climatology_by_hand():
    months = monthly_temperature()
    normal = months.climatology((1950, 1952))
    for number in range(12):
        mine = [
            field
            for field, moment in zip(months.temperature, months.time, strict=True)
            if str(moment)[:4] in ("1950", "1951", "1952") and int(str(moment)[5:]) == number + 1
        ]
        assert len(mine) == 3
        np.testing.assert_allclose(normal[number], sum(mine) / 3, rtol=0, atol=1e-12)


# --- the data set --------------------------------------------------------------------------------


@pytest.mark.parametrize("climatology", ["own", "shared"])
def test_rows_are_the_next_month_and_the_last_two(climatology):
    data = load("reanalysis", climatology=climatology)
    here, there = monthly_temperature("europe"), monthly_temperature("north_america")
    normal = here.climatology((1948, 2002))
    other = normal if climatology == "shared" else there.climatology((1948, 2002))
    for split, months, removed in [
        *((split, here, normal) for split in splits(data).values()),
        (data.shifted, there, other),
    ]:
        assert split.x.shape == (len(split), 2, 17, 23)
        assert split.y.shape == (len(split), 17, 23)
        for row in (0, len(split) // 2, len(split) - 1):
            place = int((split.rows["time"][row] - np.datetime64("1948-01", "M")).astype(int))
            for field, k in ((split.x[row, 0], 2), (split.x[row, 1], 1), (split.y[row], 0)):
                expected = months.temperature[place - k] - removed[(place - k) % 12]
                np.testing.assert_allclose(field, expected, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(split.grid["latitude"], months.latitude)
        np.testing.assert_array_equal(split.grid["longitude"], months.longitude)
    assert (data.units, data.synthetic, data.name) == ("K", False, "reanalysis")


def test_no_month_is_in_two_splits():
    data = load("reanalysis")
    months = [
        {str(time - k) for time in split.rows["time"] for k in range(3)}
        for split in splits(data).values()
    ]
    assert [len(names) for names in months] == [660, 60, 218]
    assert len(set.union(*months)) == 938
    np.testing.assert_array_equal(data.shifted.rows["time"], data.test.rows["time"])


def test_training_rows_alone_make_the_climatology():
    """Their anomalies have mean zero in each calendar month, those of later years do not."""
    data = load("reanalysis", train_years=(1949, 2002))
    for split in (data.train, data.test):
        month = split.rows["time"].astype(int) % 12
        means = [split.y[month == number].mean() for number in range(2, 12)]
        assert (np.abs(means).max() < 1e-12) == (split is data.train)


def test_training_is_the_same_under_both_climatologies():
    own, shared = (load("reanalysis", climatology=name) for name in ("own", "shared"))
    for name, split in splits(own).items():
        np.testing.assert_array_equal(split.x, splits(shared)[name].x)
        np.testing.assert_array_equal(split.y, splits(shared)[name].y)
    # Elsewhere the climate is other: removing the wrong one leaves far more than weather.
    assert shared.shifted.y.std() > 3 * own.shifted.y.std()


def test_seed_and_folder_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("KUQ_CACHE", str(tmp_path / "none"))
    first, second = load("reanalysis"), load("reanalysis", tmp_path, seed=5)
    assert first.digest() == second.digest()
    assert not (tmp_path / "none").exists()


def test_terms_are_told():
    facts = load("reanalysis").provenance
    words = "NCEP-NCAR Reanalysis 1 data provided by the NOAA PSL"
    assert words in facts["acknowledgement"]
    text = (resources.files("kuq.datasets") / "ncep" / "README.md").read_text(encoding="utf-8")
    assert words in text
    assert (resources.files("kuq.datasets") / "ncep" / "monthly-air.npz").stat().st_size < 1.3e6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"climatology": "none"}, 'climatology must be "own" or "shared"'),
        ({"train_years": (1940, 1990)}, r"years are the first and the last of 1948 to 2026"),
        ({"test_years": (2020, 2010)}, "years are the first and the last"),
        ({"validation_years": (2002, 2007)}, r"train_years \(1948, 2002\) and validation_years"),
        ({"train_years": (2026, 2026), "test_years": (2008, 2025)}, "every month of the year"),
        ({"test_years": (2026, 2026)}, "fewer than three months"),
        ({"region": "asia"}, "no option 'region'"),
    ],
)
def test_mistakes_are_explained(options, words):
    with pytest.raises(kuq.KuqError, match=words):
        load("reanalysis", **options)


def test_unknown_regions():
    with pytest.raises(kuq.ParameterError, match="'europe', 'north_america'"):
        monthly_temperature("asia")


# --- forecasts to beat ---------------------------------------------------------------------------


def test_forecasts_by_hand():
    """Each rule against least squares that are written out, cell by cell."""
    rng = np.random.default_rng(0)
    train = Split(rng.normal(size=(40, 2, 2, 3)), rng.normal(size=(40, 2, 3)))
    x = rng.normal(size=(5, 2, 2, 3))
    found = reference_forecasts(train, x, components=2)
    np.testing.assert_array_equal(found["persistence"], x[:, 1])
    assert not found["climatology"].any()
    for cell in np.ndindex(2, 3):
        last, y = train.x[(slice(None), 1, *cell)], train.y[(slice(None), *cell)]
        factor = np.linalg.lstsq(last[:, None], y, rcond=None)[0][0]
        np.testing.assert_allclose(
            found["damped anomaly"][(slice(None), *cell)], factor * x[(slice(None), 1, *cell)]
        )
    flat = train.y.reshape(40, 6)
    vectors = np.linalg.eigh(np.cov(flat.T))[1][:, ::-1][:, :2]
    centre = flat.mean(axis=0)

    def design(inputs):
        parts = [(inputs[:, k].reshape(-1, 6) - centre) @ vectors for k in (0, 1)]
        return np.concatenate([np.ones((len(inputs), 1)), *parts], axis=1)

    weights = np.linalg.pinv(design(train.x)) @ flat
    np.testing.assert_allclose(
        found["principal components"].reshape(5, 6), design(x) @ weights, rtol=0, atol=1e-10
    )


def test_all_components_are_a_regression_on_every_cell():
    rng = np.random.default_rng(1)
    train = Split(rng.normal(size=(60, 2, 3)), rng.normal(size=(60, 3)))
    x = rng.normal(size=(7, 2, 3))
    whole = np.column_stack([np.ones(60), train.x.reshape(60, 6)])
    weights = np.linalg.lstsq(whole, train.y, rcond=None)[0]
    expected = np.column_stack([np.ones(7), x.reshape(7, 6)]) @ weights
    found = reference_forecasts(train, x, components=3)["principal components"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_skill_is_that_of_the_documentation():
    """A forecast can beat climatology, but not by much: there is something to learn, and noise."""
    data = load("reanalysis")
    found = reference_forecasts(data.train, data.test.x)
    errors = {name: error(forecast, data.test) for name, forecast in found.items()}
    expected = {
        "persistence": 4.203,
        "climatology": 4.590,
        "damped anomaly": 3.407,
        "principal components": 3.121,
    }
    assert errors == pytest.approx(expected, abs=5e-4)
    # With all years before 2008 to learn from: what was measured elsewhere, 4.4, 3.3 and 3.0.
    more = load("reanalysis", train_years=(1948, 2006), validation_years=(2007, 2007))
    found = reference_forecasts(more.train, more.test.x, components=20)
    errors = [error(found[name], more.test) for name in list(expected)[1:]]
    assert errors == pytest.approx([4.4, 3.3, 3.0], abs=0.06)
    # The number of components is the one that is best on the years of validation.
    by_components = {
        number: error(
            reference_forecasts(data.train, data.validation.x, components=number)[
                "principal components"
            ],
            data.validation,
        )
        for number in (5, 10, 15, 20, 30)
    }
    assert min(by_components, key=by_components.get) == 15


@pytest.mark.parametrize(
    ("x", "options", "words"),
    [
        (np.zeros((2, 2, 4)), {}, r"shape of targets \(3,\), got"),
        (np.zeros((2, 2, 3)), {"components": 0}, "components must be an integer ≥ 1"),
    ],
)
def test_inputs_of_forecasts_must_fit(x, options, words):
    train = Split(np.zeros((5, 2, 3)), np.zeros((5, 3)))
    with pytest.raises(kuq.KuqError, match=words):
        reference_forecasts(train, x, **options)


# --- the command ---------------------------------------------------------------------------------


def test_show_draws_maps(tmp_path, monkeypatch, capsys):
    matplotlib = pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        assert main(["data", "show", "reanalysis", "--out", "a.svg"]) == 0
    printed = capsys.readouterr().out
    assert "climatology: own" in printed
    assert "provided by the NOAA PSL" in printed
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for words in ("2008-03", "60°N", "20°E", "100°W", "out of distribution", "anomaly(t-1)"):
        assert words in text
    assert main(["data", "show", "reanalysis", "--set", "climatology=shared"]) == 0
    size = struct.unpack(">II", (tmp_path / "kuq-data-reanalysis.png").read_bytes()[16:24])
    assert min(size) > 300


def test_an_installed_package_has_the_data(tmp_path):
    """From the installed files alone: another folder, and no variable that names data."""
    code = (
        "import kuq; d = kuq.datasets.load('reanalysis'); "
        "print(len(d.train), len(d.validation), len(d.test), len(d.shifted))"
    )
    hidden = ("KUQ_DATA", "KUQ_CACHE")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=environment,
    )
    assert done.stdout.split() == ["658", "58", "216", "216"]


# --- the tables of the page ----------------------------------------------------------------------


def test_networks_are_measured_as_the_page_says():
    """The program behind the tables, at the smallest size; numbers are those of a long run."""
    pytest.importorskip("torch")
    from docs import reanalysis

    squared, found = reanalysis.measured("sampler", 0, members=2, width=4, epochs=1)
    assert 2.5 < squared < 10
    assert list(found) == ["squared error", "CRPS", "energy score", "Gaussian kernel"]
    assert all(0 <= value <= 1 for both in found.values() for value in both)


def test_the_page_has_the_tables():
    """Networks beat climatology and damped anomalies, and geography is seen better than weather."""
    from docs import reanalysis

    text = reanalysis.PAGE.read_text(encoding="utf-8")
    shown = text.split(reanalysis.BEGIN)[1].split(reanalysis.END)[0]
    rows = dict(
        [cell.strip() for cell in line.strip("| ").split("|", 1)]
        for line in shown.splitlines()
        if line.startswith("| ")
    )
    data = load("reanalysis")
    for name, forecast in reference_forecasts(data.train, data.test.x).items():
        assert float(rows[name].strip("| ")) == pytest.approx(error(forecast, data.test), abs=0.006)
    for name in reanalysis.REPRESENTATIONS:
        assert float(rows[f"{name} networks"].split()[0]) < float(
            rows["damped anomaly"].strip("| ")
        )
        own, shared = (
            float(cell.split()[0]) for cell in rows[f"{name} networks, energy score"].split("|")
        )
        assert own < 0.75
        assert shared > 0.95
