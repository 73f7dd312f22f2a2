"""The median of the command line is that of the page: one definition, in one place."""

import re

import numpy as np
import pytest

from kuq.cli import main
from kuq.reports.quantiles import quantiles


@pytest.mark.parametrize("count", [1, 2, 3, 10, 57])
def test_equal_weights_are_those_of_numpy(count):
    values = np.random.default_rng(count).normal(size=count)
    levels = [0.0, 0.1, 0.5, 0.9, 0.99, 1.0]
    expected = np.quantile(values, levels, method="hazen")
    for weights in (None, np.full(count, 3.0)):
        np.testing.assert_allclose(quantiles(values, levels, weights), expected, rtol=1e-12)
    np.testing.assert_allclose(quantiles(values, [0.5]), np.median(values), rtol=1e-12)


def test_weights_are_shares():
    """Below the median lies half of the weight: of the areas between the middles of shares."""
    values, weights = np.array([5.0, 1.0, 2.0]), np.array([1.0, 6.0, 3.0])
    # Middles at 0.3 (of 1), 0.75 (of 2) and 0.95 (of 5).
    expected = [1.0, 1.0 + 0.2 / 0.45, 2.0 + 3 * 0.15 / 0.2, 5.0]
    np.testing.assert_allclose(quantiles(values, [0.1, 0.5, 0.9, 0.99], weights), expected)
    without = quantiles(values[1:], [0.5], weights[1:])
    np.testing.assert_allclose(quantiles(values, [0.5], weights * [0, 1, 1]), without)


def test_infinite_values_stay_infinite_and_make_no_nan():
    inf = np.inf
    np.testing.assert_array_equal(
        quantiles(np.array([1.0, inf, inf]), [0.1, 0.5, 0.9]), [1, inf, inf]
    )
    np.testing.assert_array_equal(quantiles(np.array([-inf, -inf, 1.0]), [0.1, 0.5]), [-inf, -inf])
    np.testing.assert_array_equal(quantiles(np.array([-inf, inf]), [0.1, 0.9]), [-inf, inf])


def test_table_and_page_have_the_same_median(tmp_path, monkeypatch, capsys):
    """Of two rows, 4.75 and 3, the table printed 4.75 as the median, and the page drew 3.875."""
    monkeypatch.chdir(tmp_path)
    text = "Model A mean;Model A sd;Model B mean;Model B sd\n0,5;1;1,5;2\n0;1;2,5;1,5\n"
    (tmp_path / "models.csv").write_text(text)
    options = ["--mean", "Model {} mean", "--std", "Model {} sd", "--score", "variance"]
    assert main(["decompose", "models.csv", *options, "--report", "page.html"]) == 0
    table = capsys.readouterr().out
    drawn = re.findall("<title>median (.*?)</title>", (tmp_path / "page.html").read_text())
    printed = [
        line.split()[2] for line in table.splitlines() if line.startswith(("tot", "al", "ep"))
    ]
    # A page shows three digits.
    assert [float(t) for t in drawn] == pytest.approx([float(t) for t in printed], rel=5e-3)
    assert float(printed[0]) == np.median([3.0, 4.75])


def test_areas_count_in_both(tmp_path, monkeypatch, capsys):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("dask")
    monkeypatch.chdir(tmp_path)
    lat = np.array([-80.0, -40.0, 0.0, 40.0, 80.0])
    runs = np.random.default_rng(0).normal(size=(4, 5, 6)) * (1 + np.abs(lat)[:, None])
    data = xr.DataArray(runs, dims=("number", "lat", "lon"), coords={"lat": lat}, name="t2m")
    data.to_dataset().to_netcdf("f.nc", engine="h5netcdf")
    assert main(["decompose", "f.nc", "--area-weights", "--report", "page.html"]) == 0
    line = next(t for t in capsys.readouterr().out.splitlines() if t.startswith("total"))
    (drawn,) = re.findall("<title>median (.*?)</title>", (tmp_path / "page.html").read_text())
    assert float(drawn) == pytest.approx(float(line.split()[2]), rel=5e-3)
