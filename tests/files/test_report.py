"""The HTML report in a real browser: quiet, self-contained, readable on any screen."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import stats

import kuq
from kuq.files import Layout, decompose_file
from kuq.reports.decomposition import decomposition_report
from kuq.reports.figures import plain, round_limits
from kuq.reports.outlier import outlying_member

FILE = "<img src=x onerror=alert(1)>&'\"<script>alert(3)"  # a name of a file has no slash
COLUMN = "</title></th><script>fetch('x')</script><svg onload=alert(4)>"


def wide_table(folder):
    pd = pytest.importorskip("pandas")
    loc = default_rng(21).normal(0.0, [[0.1]] * 5 + [[0.1]], size=(6, 80)) + np.sin(
        np.arange(80) / 9
    )
    loc[3] += 2.0
    columns = {COLUMN: [f"<b>{i}</b><script>alert(2)</script>" for i in range(80)]}
    for m in range(6):
        columns |= {f"mean_{m}": loc[m], f"std_{m}": np.full(80, 0.2)}
    path = folder / f"{FILE}.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def report(folder, kind):
    if kind == "table":
        return decompose_file(wide_table(folder), kuq.CRPS())
    if kind == "field":
        values = default_rng(22).normal(size=(3, 5, 4, 12, 20)) + default_rng(23).normal(
            size=(3, 1, 1, 12, 20)
        )
        np.savez(folder / "field.npz", samples=values)
        return decompose_file(folder / "field.npz", kuq.Energy(), layout=Layout(event=("2",)))
    if kind == "grid":
        np.savez(
            folder / "grid.npz",
            mean=default_rng(24).normal(size=(4, 3, 10, 16)),
            std=np.ones((4, 3, 10, 16)),
        )
        return decompose_file(folder / "grid.npz", kuq.Gaussian("median"))
    law = {"nu": np.ones(9), "alpha": np.full(9, 3.0), "beta": np.ones(9)}
    np.savez(folder / "evidential.npz", loc=default_rng(25).normal(size=9), **law)
    return decompose_file(folder / "evidential.npz", kuq.LogScore())


FIGURES = {"table": 4, "field": 8, "grid": 7, "evidential": 3}


@contextlib.contextmanager
def opened(browser, path: Path, width: int, scheme: str):
    """A page, with all that it said and asked for."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append("dialog"), dialog.dismiss()))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.resolve().as_uri())
    yield page, said, asked
    context.close()


@pytest.mark.parametrize("kind", FIGURES)
def test_in_a_browser(browser, tmp_path, kind):
    result = report(tmp_path, kind)
    path = tmp_path / "page.html"
    path.write_text(decomposition_report(result), encoding="utf-8")
    backgrounds = set()
    for width, scheme in ((400, "light"), (1600, "dark")):
        with opened(browser, path, width, scheme) as (page, said, asked):
            assert said == []
            assert asked[0].startswith("file:")
            assert all(url.startswith("data:image/png") for url in asked[1:])
            assert page.title() == f"Uncertainty of {result.source.name}"
            assert result.source.name in page.locator("h1").inner_text()
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.locator("script, iframe, link, b script").count() == 0
            boxes = [svg.bounding_box() for svg in page.locator("figure svg").all()]
            assert len(boxes) == FIGURES[kind]
            for box in boxes:
                assert box["width"] >= 250
                assert box["height"] >= 100
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= width
            sizes = page.evaluate(
                "[...document.querySelectorAll('svg text')]"
                ".map(text => text.getBoundingClientRect().height)"
            )
            assert min(sizes) > 7.5
            backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            pictures = page.evaluate(
                "Promise.all([...document.querySelectorAll('svg image')].map(i => new Promise("
                "done => { const p = new Image(); p.onload = () => done(p.naturalWidth);"
                " p.onerror = () => done(0); p.src = i.href.baseVal; })))"
            )
            assert all(pictures)
    assert len(backgrounds) == 2  # light and dark


def test_hostile_names_are_shown_as_text(browser, tmp_path):
    result = report(tmp_path, "table")
    path = tmp_path / "page.html"
    path.write_text(decomposition_report(result), encoding="utf-8")
    with opened(browser, path, 1600, "light") as (page, said, _):
        assert said == []
        text = page.locator("body").inner_text()
        assert "<script>alert(2)</script>" in text
        assert COLUMN in text
        assert page.locator("img").count() == 0
        assert FILE in page.locator("h1").inner_text()
        assert page.locator("td b").count() == 0


def test_the_outlying_member_and_the_least_known_inputs_are_named(tmp_path):
    result = report(tmp_path, "table")
    text = decomposition_report(result)
    assert "Member 3 stands apart" in text
    u = result.uncertainty
    first = text.index(f"&gt;{int(np.argmax(u.epistemic))}&lt;")
    assert first < text.index("Which members disagree")
    influence = (
        kuq.member_influence(result.prediction_at(np.arange(80)), kuq.CRPS()).epistemic[3].mean()
    )
    assert f"{u.epistemic.mean() + influence:.3g} instead of {u.epistemic.mean():.3g}" in text


def test_no_member_stands_apart_in_a_healthy_ensemble(tmp_path):
    np.savez(tmp_path / "p.npz", mean=default_rng(26).normal(size=(6, 50)), std=np.ones((6, 50)))
    text = decomposition_report(decompose_file(tmp_path / "p.npz", kuq.CRPS()))
    assert "No member stands apart" in text


@pytest.mark.parametrize("seed", range(5))
def test_outliers_are_found_and_not_invented(seed):
    rng = np.random.default_rng(seed)
    loc = rng.normal(size=(8, 40))
    healthy = kuq.member_divergences(kuq.Ensemble(kuq.Normal(loc, 1.0)), kuq.CRPS()).mean(axis=-1)
    assert outlying_member(healthy) is None
    loc[seed] += 5
    sick = kuq.member_divergences(kuq.Ensemble(kuq.Normal(loc, 1.0)), kuq.CRPS()).mean(axis=-1)
    assert outlying_member(sick).member == seed
    assert outlying_member(sick[:2, :2]) is None


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros((3, 5)), "Almost all"),
        (np.arange(3.0)[:, None] * np.ones(5) * 0.7, "Most of the"),
        (np.arange(3.0)[:, None] * np.ones(5) * 9, "A large part"),
    ],
)
def test_plain_language(tmp_path, values, words):
    np.savez(tmp_path / "p.npz", mean=values, std=np.ones((3, 5)))
    assert words in decomposition_report(decompose_file(tmp_path / "p.npz", kuq.CRPS()))


def test_negative_estimates_are_explained(tmp_path):
    values = np.random.default_rng(4).normal(size=(3, 20, 5))
    np.savez(tmp_path / "p.npz", samples=values)
    result = decompose_file(tmp_path / "p.npz", kuq.CRPS())
    assert result.uncertainty.epistemic.min() < 0
    assert "may fall slightly below zero" in decomposition_report(result)


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.16), (-0.3, 7.2), (0.0, 3e-9), (0, 60), (0, 1e6)]
)
def test_ticks_are_round_and_cover_the_data(low, high):
    ticks = round_limits(low, high)
    assert ticks[0] <= low
    assert ticks[-1] >= high * (1 - 1e-9)
    assert 4 <= len(ticks) <= 7
    assert all(len(f"{abs(t):.4g}".replace(".", "").strip("0").split("e")[0]) <= 3 for t in ticks)


def test_largest_errors_and_dates_fit_a_window(browser, tmp_path):
    """At 800 pixels the last column lay outside, and dates were broken into two lines."""
    rng = np.random.default_rng(0)
    ensemble = kuq.Ensemble(kuq.Normal(rng.normal(size=(6, 300)), 1.0))
    pd = pytest.importorskip("pandas")
    days = pd.Series(rng.normal(size=300), index=pd.date_range("2024-01-01", periods=300).date)
    long = days.set_axis([f"flat number {i} in the street" for i in range(300)])
    page = browser.new_page(viewport={"width": 800, "height": 900})
    for y in (days, long):
        path = kuq.report(ensemble, y=y, path=tmp_path / "p.html")
        for width in (400, 800):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(path.as_uri())
            for table in page.query_selector_all(".table"):
                assert table.evaluate("e => e.scrollWidth <= e.clientWidth")
    path = kuq.report(ensemble, y=days, path=tmp_path / "p.html")
    page.goto(path.as_uri())
    one_line = 1.5 * page.evaluate("parseFloat(getComputedStyle(document.body).lineHeight)")
    inside = "e => e.clientHeight - 2 * parseFloat(getComputedStyle(e).paddingTop)"
    heights = [cell.evaluate(inside) for cell in page.query_selector_all("td.short")]
    assert len(heights) >= 10
    assert max(heights) < one_line
    page.close()


def test_thousands_are_written_out(tmp_path):
    """Years along an axis were 2.05·10³ and 2.06·10³, and so were rents."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 8, 11))
    xr = pytest.importorskip("xarray")
    coords = {"year": np.arange(2050, 2061)}
    data = xr.DataArray(values, dims=("member", "lat", "year"), coords=coords)
    page = kuq.report(data, path=tmp_path / "p.html").read_text("utf-8")
    assert all(f">{year}<" in page for year in (2050, 2060))
    assert "2.05·10" not in page
    assert [plain(v) for v in (999.4, 1364.2, -52_300.0, 2e6)] == ["999", "1364", "−52300", "2·10⁶"]


def test_coverage_that_is_nearly_right_does_not_contradict_itself(tmp_path):
    """384 of 442 were "84 to 90 %", too narrow for 90 %."""
    y = np.where(np.arange(442) < 384, 0.0, 9.0)
    page = kuq.report(
        kuq.Ensemble(kuq.Normal(np.zeros((2, 442)), 1.0)), y=y, path=tmp_path / "p.html"
    )
    said = re.search(r"interval ([0-9.]+) to ([0-9.]+) %\)([^.]*)", page.read_text("utf-8"))
    high = stats.binomtest(384, 442).proportion_ci(method="wilson").high
    assert abs(float(said[2]) - 100 * high) < 0.5
    assert float(said[2]) < 90
    assert "too narrow" in said[3]
