"""The report: whole by itself, harmless, and right in a browser on a phone and on a desktop."""

import base64
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from study_records import fields, study

import kuq
import kuq_study
from kuq_study import run_folder
from kuq_study.arrays import save_arrays
from kuq_study.claims import LEDGER
from kuq_study.cli import main
from kuq_study.estimates import Evidence
from kuq_study.figures import curves
from kuq_study.records import Record
from kuq_study.report import make_report, report
from kuq_study.run_folder import Run, read_fields

pytest.importorskip("matplotlib")

EVIL = '<img src=x onerror="alert(1)"><script>alert(1)</script>&"\'\\$x_1$\x07|日本'


def hostile_records():
    """A run in which every name that a user can choose is an attack."""
    return [
        Record(
            "selective_prediction", EVIL, EVIL, seed, quantity, 0.1 + seed, EVIL + tail, "total", x
        )
        for seed in range(2)
        for tail in ("a", "b")
        for quantity, x in (("prr", None), ("risk", 0.5), ("risk", 1.0))
    ]


@pytest.fixture(scope="module")
def made():
    run = Run(
        name="quick & small",
        records=tuple(study(datasets={"yacht", "burgers"})),
        fields=fields(),
        about={"preset": "quick", "kuq": "0.1.0"},
        deviations={"active_learning": (("epochs", "50", "20", "time"),)},
        problems=("active_learning/yacht/normal/2: failed (ValueError: no)",),
    )
    return make_report(run)


@pytest.fixture(scope="module")
def written(made, tmp_path_factory):
    return made.write(tmp_path_factory.mktemp("report"))


class Page(HTMLParser):
    """Ids, links and tags of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.tags, self.handlers = [], [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            elif name in ("href", "src", "xlink:href"):
                self.links.append(value)
            elif name.startswith("on"):
                self.handlers.append(name)


def test_the_page_is_whole_by_itself(made):
    page = Page(made.html())
    assert len(page.ids) == len(set(page.ids))
    assert not page.tags & {"script", "iframe", "object", "embed", "base"}
    for link in page.links:
        assert link.startswith(("data:", "#"))
        assert not link.startswith("#") or link[1:] in page.ids
    assert not re.findall(r"url\((?!#)", made.html())
    assert not re.findall(r"@import", made.html())


def test_the_page_shows_everything(made):
    html = made.html()
    for claim in LEDGER:
        assert f'id="claim-{claim.key}"' in html
    for table in made.tables:
        assert f'id="table-{table.name}"' in html
    names = {figure.name for figure in made.figures}
    assert names >= {
        "epistemic-limits",
        "influence",
        "retention",
        "robustness-M25-overfitted",
        "active-learning",
        "runtime",
        "approximation",
        "field-kuramoto-sivashinsky-sampler",
        "field-depth-synthetic-sampler-shifted",
        "field-burgers-sampler",
    }
    for figure in made.figures:
        assert f'id="figure-{figure.name}"' in html
    assert "quick &amp; small" in html
    assert "failed (ValueError: no)" in html
    assert "<td>epochs</td>" in html


def test_synthetic_is_said_where_data_are_synthetic(made):
    for figure in made.figures:
        for panel in figure.panels:
            if "synthetic" in panel.name:
                text = " ".join(ElementTree.fromstring(panel.svg).itertext())
                assert "synthetic" in (text + figure.title + figure.caption).lower()


def test_files_beside_the_page_hold_the_same(made, written):
    folder = written.parent
    for table in made.tables:
        for ending in ("html", "md", "csv", "tex"):
            assert (folder / "tables" / f"{table.name}.{ending}").stat().st_size > 100
    drawings = list((folder / "figures").glob("*.svg"))
    assert len(drawings) == sum(len(figure.panels) for figure in made.figures)
    for drawing in drawings:
        assert ElementTree.parse(drawing).getroot().tag.endswith("svg")
    lines = (folder / "claims.csv").read_text().splitlines()
    assert len(lines) == len(LEDGER) + 1
    assert not list(folder.rglob(".*"))
    link = re.search(r'download="selective-prediction.csv" href="[^"]*base64,([^"]*)"', made.html())
    text = base64.b64decode(link[1]).decode()
    assert text == (folder / "tables" / "selective-prediction.csv").read_text()


def test_drawings_are_the_same_every_time(made):
    again = curves.runtime(Evidence(made.run.records))
    [before] = [f for f in made.figures if f.name == "runtime"]
    assert again == before


@pytest.fixture(scope="module")
def hostile():
    return make_report(
        Run(
            EVIL,
            tuple(hostile_records()),
            {EVIL: {"truth": np.eye(4)}},
            {"preset": EVIL},
            {EVIL: ((EVIL,) * 4,)},
            (EVIL,),
        )
    )


def test_hostile_names_are_harmless(hostile):
    page = Page(hostile.html())
    assert not page.tags & {"script", "img"}
    assert not page.handlers
    assert len(page.ids) == len(set(page.ids))


def test_hostile_names_become_plain_files(hostile, tmp_path):
    hostile.write(tmp_path / "out")
    assert {p.parent.name for p in tmp_path.rglob("*.svg")} == {"figures"}


def test_an_empty_run_has_a_report():
    made = make_report(Run("empty", ()))
    assert made.tables == ()
    assert [figure.name for figure in made.figures] == ["epistemic-limits", "influence"]
    assert "<h2>Tables" not in made.html()


def test_values_that_cannot_be_drawn_do_not_stop_a_report():
    values = (math.nan, math.inf, 0.0, -1.0)
    records = [
        Record("runtime", "yacht", "sampler", 0, "seconds_samples", v, "crps", x=float(i))
        for i, v in enumerate(values)
    ]
    records += [
        Record("robustness", "yacht", "normal", 0, "mape_M25_overfitted", v, "crps", part, float(i))
        for i, v in enumerate(values)
        for part in ("aleatoric", "epistemic")
    ]
    assert "inf" in make_report(Run("odd", tuple(records))).html()


def test_fields_that_cannot_be_read_are_told(tmp_path):
    save_arrays(tmp_path / "good.npz", {"truth": np.eye(3), "about": np.asarray("made by hand")})
    np.savez(tmp_path / "evil.npz", truth=np.asarray([{"a": 1}], dtype=object))
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 no archive")
    found, problems = read_fields(tmp_path)
    assert {name: set(arrays) for name, arrays in found.items()} == {"good": {"truth"}}
    assert [p.split()[0] for p in problems] == ["broken.npz", "evil.npz"]


# --- the command ------------------------------------------------------------------------------


class FakeStore:
    """What a report needs of a store."""

    def __init__(self, folder):
        if not (folder / "results.sqlite").exists():
            raise kuq.ParameterError(f"there are no results in {folder}")
        self.about = {"preset": "smoke"}

    def __enter__(self):
        return self

    def __exit__(self, *reasons):
        return None

    def records(self):
        return study(datasets={"power-plant"})[:60]

    def deviations(self):
        return {"runtime": [SimpleNamespace(setting="N", paper="50", here="5", reason="time")]}

    def cells(self):
        failed = {"status": "failed", "message": "Traceback\nValueError: no\n"}
        return [
            SimpleNamespace(key="a", status="done", message=""),
            SimpleNamespace(key="b", **failed),
            SimpleNamespace(key="c", status="pending", message=""),
        ]


@pytest.fixture
def store(monkeypatch):
    monkeypatch.setattr(run_folder, "Store", FakeStore)


def test_the_command_writes_and_names_the_report(store, tmp_path, capsys):
    (tmp_path / "results.sqlite").touch()
    assert main(["report", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert f"report: {tmp_path / 'report' / 'report.html'}" in text
    assert re.search(r"claims: \d+ holds, \d+ does not hold, \d+ cannot be decided here", text)
    html = (tmp_path / "report" / "report.html").read_text()
    assert "b: failed (ValueError: no)" in html
    assert "c: pending" in html
    assert "a: done" not in html


def test_the_command_takes_another_folder(store, tmp_path):
    (tmp_path / "results.sqlite").touch()
    made, path = report(tmp_path, tmp_path / "here")
    assert path == tmp_path / "here" / "report.html"
    assert made.run.deviations == {"runtime": (("N", "50", "5", "time"),)}


def test_a_folder_without_results_is_told(store, tmp_path, capsys):
    assert main(["report", str(tmp_path / "none")]) == 2
    assert "there are no results in" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_told(store, tmp_path, capsys):
    (tmp_path / "results.sqlite").touch()
    (tmp_path / "file").touch()
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "file" / "x")]) == 2
    assert "Not a directory" in capsys.readouterr().err


def test_a_run_of_the_runner_has_a_report(tmp_path):
    """The real store in place of the fake one: errors of known ensembles, at the smallest size."""
    file = Path(__file__).parents[1] / "experiments" / "approximation.toml"
    kuq_study.run([kuq_study.read_experiment(file, "smoke")], tmp_path, jobs=0)
    made, path = report(tmp_path)
    assert path.is_file()
    assert made.run.about["preset"] == "smoke"
    assert made.run.problems == ()
    assert "approximation" in made.run.deviations
    assert [f.name for f in made.figures] == ["epistemic-limits", "influence", "approximation"]


# --- in a browser -----------------------------------------------------------------------------


CONTRAST = """() => {
  const level = c => { const v = c / 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const light = rgb => { const [r, g, b] = rgb.match(/[\\d.]+/g).map(Number);
    return 0.2126 * level(r) + 0.7152 * level(g) + 0.0722 * level(b); };
  const behind = e => { while (e) { const c = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)|transparent/.test(c)) return c; e = e.parentElement; }
    return 'rgb(255,255,255)'; };
  const pick = 'p, h1, h2, h3, dd, dt, .badge, td span, td b, td small, .legend li, nav a, a';
  return [...document.querySelectorAll(pick)].map(e => {
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), e.className + ' ' + e.tagName,
            parseFloat(getComputedStyle(e).fontSize)]; }); }"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1600])
def test_the_page_is_readable_in_a_browser(browser, written, width, scheme):
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    page = context.new_page()
    heard, asked = [], []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(written.as_uri())
    assert heard == []
    assert [url for url in asked if not url.startswith("data:")] == [written.as_uri()]
    across, visible = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert across <= visible == width
    for ratio, what, size in page.evaluate(CONTRAST):
        assert ratio >= 4.5, what
        assert size >= 11, what
    sizes = page.evaluate(
        "[...document.querySelectorAll('.panels svg')].map(e => e.getBoundingClientRect().width)"
    )
    assert len(sizes) > 20
    assert min(sizes) > 250
    assert max(sizes) <= width
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark")
    page.click("nav a[href='#figures']")
    assert page.evaluate("document.querySelector('#figures').getBoundingClientRect().top") < 200
    context.close()


def test_hostile_names_run_nothing_in_a_browser(browser, hostile, tmp_path):
    path = hostile.write(tmp_path)
    page = browser.new_page()
    opened, heard = [], []
    page.on("dialog", lambda dialog: (opened.append(dialog.message), dialog.dismiss()))
    page.on("console", lambda message: heard.append(message.text))
    page.goto(path.as_uri())
    assert opened == heard == []
    assert "onerror=" in page.inner_text("h1")
    page.close()
