"""A run of the smallest size says so, and is compared with nothing."""

import re

import pytest
from study_records import study

from kuq_study.claims import Status
from kuq_study.report import make_report
from kuq_study.run_folder import Run

pytest.importorskip("matplotlib")


#: One that the paper has a table of robustness for, one synthetic, one of functions.
DATA = {"yacht", "depth-synthetic", "burgers"}


def made(preset):
    """The same numbers, which are enough for verdicts, from a run of this preset."""
    return make_report(Run(preset, tuple(study(datasets=DATA)), about={"preset": preset}))


@pytest.fixture(scope="module")
def smoke():
    return made("smoke")


@pytest.fixture(scope="module")
def quick():
    return made("quick")


def by_kind(report, kind):
    return [j for j in report.judgements if j.claim.kind == kind]


def test_no_claim_about_experiments_is_judged(smoke, quick):
    assert {j.ours.status for j in by_kind(smoke, "experiment")} == {Status.UNDECIDED}
    assert all("not judged" in j.ours.numbers for j in by_kind(smoke, "experiment"))
    assert {j.ours.status for j in by_kind(quick, "experiment")} > {Status.UNDECIDED}


def test_propositions_are_computed_as_ever(smoke, quick):
    assert [j.ours.status for j in by_kind(smoke, "proposition")] == [
        j.ours.status for j in by_kind(quick, "proposition")
    ]


def test_no_value_of_the_paper_stands_beside_ours(smoke, quick):
    assert [table.name for table in smoke.tables] == [table.name for table in quick.tables]
    assert not any(table.has_paper or table.paper_table for table in smoke.tables)
    assert any(table.has_paper for table in quick.tables)
    notes = " ".join(note for table in smoke.tables for note in table.notes)
    assert "paper" not in notes.lower()
    captions = " ".join(figure.caption for figure in smoke.figures)
    assert "paper's values" not in captions
    assert any("paper's values" in figure.caption for figure in quick.figures)
    assert '<small class="paper">' not in smoke.html()


def test_drawings_show_ours_alone(smoke, quick):
    """The paper's values are dotted lines with open marks: other drawings where there are such."""
    ours, both = (
        {p.name: p.svg for f in report.figures if f.name.startswith("robustness") for p in f.panels}
        for report in (smoke, quick)
    )
    beside = [name for name in both if "M25" in name]
    assert beside
    assert all(len(ours[name]) < len(both[name]) for name in beside)


def test_the_page_says_so_first_and_names_its_size(smoke, quick):
    html = smoke.html()
    banner = re.search(r'<aside class="banner">(.*?)</aside>', html)[1]
    assert html.index('banner">') < html.index('class="tiles"')
    assert "measures nothing" in banner
    records = smoke.run.records
    for number, what in (
        (len({r.experiment for r in records}), "experiments"),
        (len({r.dataset for r in records}), "data sets"),
        (len({r.seed for r in records}), "seeds"),
        (len(records), "numbers"),
    ):
        assert f"{number} {what}" in banner
    assert "<span>propositions hold</span>" in html
    assert "<span>claims hold</span>" not in html
    assert '<aside class="banner">' not in quick.html()
