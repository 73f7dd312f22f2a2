"""Pages as people see them: on any screen, light and dark, with all that may be on them."""

from __future__ import annotations

import numpy as np
import pytest

import kuq
from kuq.files import Layout, Names, decompose_file
from kuq.reports.decomposition import decomposition_report

SCREENS = [(width, scheme) for width in (400, 800, 1600) for scheme in ("light", "dark")]


def names_and_outcomes(folder):
    rng = np.random.default_rng(0)
    noise = rng.uniform(0.1, 2.0, size=150)
    loc = rng.normal(size=150) + 0.3 * rng.normal(size=(5, 150))
    loc[3] += 3
    names = ["a", "gradient boosting 1", "RF", "a linear model", "<b>net</b>"]
    y = loc[0] + noise * rng.normal(size=150)
    path = folder / "names.html"
    return kuq.report(kuq.Ensemble(kuq.Normal(loc, noise)), names=names, y=y, path=path)


def plain(folder):
    rng = np.random.default_rng(1)
    loc = 1e-7 * rng.normal(size=(3, 40))
    return kuq.report(kuq.Ensemble(kuq.Normal(loc, 1e-8)), path=folder / "plain.html")


def _grid():
    xr = pytest.importorskip("xarray")
    pytest.importorskip("dask")
    rng = np.random.default_rng(2)
    lat, lon = np.linspace(-60, 60, 13), np.arange(0, 360, 15.0)
    sea = np.cos(np.radians(lon)) + np.sin(np.radians(2 * lat))[:, None] > 0.8
    coords = {"lat": lat, "lon": lon, "model": ["ECMWF", "UKMO", "NCEP", "Météo-France"]}
    coords["time"] = np.array(["2024-01-01", "2024-02-01", "2024-03-01"], dtype="datetime64[ns]")
    dims = ("model", "time", "lat", "lon")
    values = np.where(sea, np.nan, 270 + 9 * rng.normal(size=(4, 3, 13, 24)))
    loc = xr.DataArray(values, dims=dims, coords=coords, attrs={"units": "K"})
    return xr, loc


def masks_and_several_variables(folder):
    xr, loc = _grid()
    data = xr.Dataset()
    for name in ("t2m", "tp"):
        data[f"{name}_mean"] = loc / (1 + 29 * (name == "tp"))
        data[f"{name}_sd"] = 0 * data[f"{name}_mean"] + 2 + np.abs(loc.lat) / 40
        data[f"{name}_obs"] = data[f"{name}_mean"].mean("model") + 1.0
    data.to_netcdf(folder / "grid.nc")
    layout = Layout(Names("{}_mean", "{}_sd"), target="{}_obs", area_weights=True, member="model")
    return _written(folder, decompose_file(folder / "grid.nc", kuq.CRPS(), layout=layout))


def a_masked_event(folder):
    _, loc = _grid()
    loc.to_dataset(name="t2m").to_netcdf(folder / "event.nc")
    layout = Layout(event=("lat", "lon"), area_weights=True, member="model")
    return _written(folder, decompose_file(folder / "event.nc", kuq.Energy(), layout=layout))


def draws_of_one_model(folder):
    _, loc = _grid()
    data = loc.rename(model="number").drop_vars("number").to_dataset(name="t2m")
    data["seen"] = data["t2m"].mean("number")
    data.to_netcdf(folder / "one.nc")
    layout = Layout(sample="number", target="seen")
    return _written(folder, decompose_file(folder / "one.nc", kuq.CRPS(), layout=layout))


def levels(folder):
    rng = np.random.default_rng(3)
    loc = 270 + rng.normal(size=(3, 1, 1, 1, 1)) + rng.normal(size=(3, 4, 2, 8, 9))
    runs = kuq.Ensemble(kuq.Normal(loc, 0.5), member_ndim=3)
    names = ("emission scenario", "<b>model</b>", "run")
    path = folder / "levels.html"
    return kuq.report(runs, path=path, levels=names, crossed=names[:2], fixed=names[0])


def levels_of_two(folder):
    law = kuq.Normal(np.random.default_rng(4).normal(size=(3, 4, 30)), 1.0)
    both = {"one": kuq.Ensemble(law, member_ndim=2), "two": kuq.Ensemble(law, member_ndim=2)}
    return kuq.report(both, kuq.SquaredError(), path=folder / "p.html", levels=("model", "run"))


def _written(folder, result):
    path = folder / "page.html"
    path.write_text(decomposition_report(result), encoding="utf-8")
    return path


PAGES = {
    "names and outcomes": names_and_outcomes,
    "plain": plain,
    "masks and several variables": masks_and_several_variables,
    "a masked event": a_masked_event,
    "draws of one model": draws_of_one_model,
    "levels": levels,
    "levels of several": levels_of_two,
}

#: Labels that leave their figure, or that lie on each other; texts that no reader understands.
CHECK = """() => {
  const wrong = [];
  for (const svg of document.querySelectorAll('svg')) {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')].filter(t => t.textContent);
    const boxes = texts.map(t => t.getBoundingClientRect());
    boxes.forEach((b, i) => {
      if (b.left < frame.left - 1 || b.right > frame.right + 1 || b.bottom > frame.bottom + 1
          || b.top < frame.top - 1) wrong.push('outside: ' + texts[i].textContent);
      if (texts[i].hasAttribute('transform')) return;
      boxes.forEach((c, j) => {
        if (j <= i || texts[j].hasAttribute('transform')) return;
        const across = Math.min(b.right, c.right) - Math.max(b.left, c.left);
        const down = Math.min(b.bottom, c.bottom) - Math.max(b.top, c.top);
        if (across > 1 && down > 3)
          wrong.push('overlap: ' + texts[i].textContent + ' and ' + texts[j].textContent);
      });
    });
  }
  for (const card of document.querySelectorAll('.card'))
    if (card.scrollWidth > card.clientWidth + 1) wrong.push('card: ' + card.textContent);
  return wrong;
}"""


@pytest.mark.parametrize("name", PAGES)
def test_pages_on_every_screen(browser, tmp_path, name):
    path = PAGES[name](tmp_path)
    for width, scheme in SCREENS:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = context.new_page()
        said = []
        page.on("console", lambda message, said=said: said.append(message.text))
        page.on("pageerror", lambda error, said=said: said.append(str(error)))
        page.goto(path.resolve().as_uri())
        assert said == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(CHECK) == [], (width, scheme)
        words = page.locator("main").inner_text().replace("(NaN)", "").split()
        assert not {"nan", "NaN", "None", "none", "Ensemble", "Normal("} & set(words)
        assert page.locator("nav a").count() == (2 if "several" in name else 0)
        context.close()
