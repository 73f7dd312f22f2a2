"""Tables: what stands in them, and every format from one object."""

import csv
import dataclasses
import io
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy import stats
from study_records import study

from kuq.protocols import average_ranks
from kuq_study.claims import judge
from kuq_study.estimates import Estimate, Evidence, estimate, final_values
from kuq_study.figures import curves
from kuq_study.paper import paper_records
from kuq_study.rank_tables import rank_tables
from kuq_study.records import Record
from kuq_study.result_tables import result_tables
from kuq_study.table import Entry, Table, decimals, mark_best, significant
from kuq_study.table_formats import FORMATS, to_csv, to_html, to_latex, to_markdown
from kuq_study.vocabulary import Name

RECORDS = study()
TABLES = {t.name: t for t in [*result_tables(Evidence(RECORDS)), *rank_tables(Evidence(RECORDS))]}


def entry(name, *labels, column):
    table = TABLES[name]
    place = [c.text for c in table.columns].index(column)
    [row] = [entries for found, entries in table.rows if found == labels]
    return row[place]


def test_all_tables_of_the_paper_are_there():
    assert set(TABLES) >= {
        "robustness-M25-overfitted",
        "robustness-M25-appendix",
        "robustness-M5-overfitted",
        "robustness-M5-appendix",
        "selective-prediction",
        "ood-detection",
        "active-learning",
        "ranks-selective-prediction",
        "ranks-ood-detection",
        "ranks-active-learning",
    }


def test_estimates_are_means_with_t_intervals():
    e = estimate([1.0, 2.0, 4.0])
    low, high = stats.t.interval(0.95, 2, loc=7 / 3, scale=stats.sem([1.0, 2.0, 4.0]))
    assert (e.mean, e.low, e.high, e.seeds) == pytest.approx((7 / 3, low, high, 3))
    alone = estimate([5.0])
    assert alone.mean == 5.0
    assert math.isnan(alone.low)


def test_entries_are_ours_beside_the_papers():
    found = entry("selective-prediction", "Yacht", "DER", column="CRPS")
    values = [
        r.value
        for r in RECORDS
        if (r.dataset, r.representation, r.score, r.quantity)
        == ("yacht", "evidential", "crps", "prr")
    ]
    assert found.ours.mean == pytest.approx(np.mean(values))
    assert found.paper == 0.198
    auroc = entry("ood-detection", "Depth (synthetic stand-in)", "LoRa", column="log")
    assert auroc.paper == 0.2951
    mape = entry("robustness-M25-overfitted", "Energy", "Epistemic", "Gaussian", column="δ = 5")
    assert mape.paper == 2.24
    small = entry("robustness-M5-overfitted", "Energy", "Epistemic", "Gaussian", column="δ = 5")
    assert small.paper is None


def test_active_learning_shows_the_last_round():
    values = [
        r.value
        for r in RECORDS
        if (r.experiment, r.dataset, r.representation, r.score, r.x)
        == ("active_learning", "yacht", "normal", "random", 52.0)
    ]
    assert len(values) == 3
    found = entry("active-learning", "Yacht", "NG", column="random")
    assert found.ours.mean == pytest.approx(np.mean(values))


def test_acquisitions_are_compared_with_random_seed_by_seed():
    """By hand: ratios 1/2 and 2 have the geometric mean 1, whatever the levels of the seeds."""
    records = [
        Record("active_learning", "yacht", "normal", seed, "mse", value, score, x=float(x))
        for seed, score, value in (
            (0, "crps", 1.0),
            (0, "random", 2.0),
            (1, "crps", 200.0),
            (1, "random", 100.0),
            (2, "crps", 7.0),  # no random acquisition with this seed: no comparison
        )
        for x in (10, 20)
    ]
    tables = {t.name: t for t in result_tables(Evidence(records))}
    table = tables["active-learning-against-random"]
    assert [c.text for c in table.columns] == ["CRPS"]
    [(labels, [found])] = table.rows
    assert labels == ("Yacht", "NG")
    assert (found.ours.mean, found.ours.seeds) == (pytest.approx(1), 2)
    alone = [r for r in records if r.score != "random"]
    assert "active-learning-against-random" not in {t.name for t in result_tables(Evidence(alone))}


def test_intervals_end_where_values_must():
    assert estimate([0.1, 0.9], limits=(0.0, 1.0)) == Estimate(0.5, 0.0, 1.0, 2)
    inner, free = estimate([0.4, 0.41, 0.39], limits=(0.0, 1.0)), estimate([0.4, 0.41, 0.39])
    assert inner == free
    auroc = [e for _, row in TABLES["ood-detection"].rows for e in row if e.ours is not None]
    assert all(0 <= e.ours.low <= e.ours.high <= 1 for e in auroc)
    two = [
        Record("ood_detection", "burgers", "sampler", seed, quantity, value, "gaussian")
        for quantity in ("auroc", "auroc_other_bandwidth")
        for seed, value in enumerate((0.9, 1.0, 1.0))
    ]
    [table] = [t for t in result_tables(Evidence(two)) if t.name == "ood-two-bandwidths"]
    [(_, row)] = table.rows
    assert [e.ours.high for e in row] == [1.0, 1.0]


def test_final_values_are_by_curve():
    curve = [Record("e", "d", "r", 0, "q", v, "s", x=float(x)) for x, v in ((1, 9), (3, 7), (2, 8))]
    other = [Record("e", "d", "r", 1, "q", 5.0, "s", x=1.0), Record("e", "d", "r", 2, "q", 4.0)]
    assert {r.value for r in final_values([*curve, *other])} == {7, 5.0, 4.0}


def test_the_best_of_a_row_is_marked():
    row = [(estimate([v]), None) for v in (0.3, 0.1, 0.2)]
    assert [e.best for e in mark_best(row, False)] == [False, True, False]
    assert [e.best for e in mark_best(row, True)] == [True, False, False]
    assert not any(e.best for e in mark_best(row, None))
    assert not mark_best([(estimate([1.0]), None), (None, 2.0)], True)[0].best


def test_synthetic_data_are_named_and_missing_rows_told():
    records = [r for r in RECORDS if r.dataset in ("depth-synthetic", "yacht")]
    [table] = [t for t in result_tables(Evidence(records)) if t.name == "selective-prediction"]
    assert any("synthetic" in labels[0] for labels, _ in table.rows)
    notes = " ".join(table.notes)
    assert "the paper's value beside it is of the real data" in notes
    assert "not in this run: Burgers', Kuramoto-Sivashinsky, Temperature, Concrete" in notes


class Cells(HTMLParser):
    """Rows of texts, and whether every tag is closed."""

    def __init__(self):
        super().__init__()
        self.rows, self.open = [], []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and {"td", "th"} & set(self.open):
            self.rows[-1][-1] += f"{data} "


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_format_has_every_number(name):
    table = TABLES[name]
    size = (len(table.rows), len(table.row_heads) + len(table.columns))
    html = Cells()
    html.feed(to_html(table))
    assert not html.open
    assert (len(html.rows) - 1, len(html.rows[0])) == size
    markdown = [line for line in to_markdown(table).splitlines() if line.startswith("|")]
    assert len(markdown) == size[0] + 2
    latex = [line for line in to_latex(table).splitlines() if line.rstrip().endswith(r"\\")]
    assert len(latex) == size[0] + 1
    assert all(len(re.findall(r"(?<!\\)&", line)) == size[1] - 1 for line in latex)
    rows = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert len(rows) == sum(not e.empty for _, entries in table.rows for e in entries)
    lines = iter(rows)
    for place, (_, entries) in enumerate(table.rows):
        for column, e in enumerate(entries):
            if e.empty:
                continue
            line = next(lines)
            if e.ours is not None:
                assert float(line["value"]) == e.ours.mean
                text = table.number(e.ours.mean)
                assert text in html.rows[place + 1][len(table.row_heads) + column]
                assert text in markdown[place + 2]
                if table.interval(e.ours):
                    [low, high] = table.interval(e.ours).split(" to ")
                    assert f"[{low}\u00a0to\u00a0{high}]" in markdown[place + 2]
                assert text in latex[place + 1]
            if e.paper is not None:
                assert float(line["paper"]) == e.paper
                assert table.number(e.paper) in markdown[place + 2]
                assert table.number(e.paper) in latex[place + 1]


def test_hostile_names_are_harmless_in_every_format():
    evil = '<script>alert(1)</script>|`"&\\_$%{}#~^\n=1+1'
    table = Table(
        "own",
        evil,
        evil,
        ("Data",),
        (Name(evil, "x"), Name("b", "b")),
        (
            ((evil,), (Entry(estimate([1.0])), Entry(estimate([2.0])))),
            (("=cmd",), (Entry(), Entry())),
        ),
        decimals(2),
        notes=(evil,),
    )
    assert "<script" not in to_html(table)
    assert "&lt;script&gt;" in to_html(table)
    rows = [line for line in to_markdown(table).splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)
    assert "<script" not in re.sub(r"\\<", "", to_markdown(table))
    body = to_latex(table)
    assert r"\textbackslash{}\_\$\%\{\}\#\textasciitilde{}\textasciicircum{}" in body
    assert next(csv.reader(io.StringIO(to_csv(table)))) == [
        "data",
        "column",
        "value",
        "low",
        "high",
        "seeds",
        "paper",
    ]


def test_numbers_are_short():
    assert [significant(v) for v in (1234.5, 0.00012, 12.345, -3e5, math.inf)] == [
        "1.23e3",
        "1.20e-4",
        "12.3",
        "-3.00e5",
        "inf",
    ]


def test_own_data_sets_and_scores_have_their_place():
    own = [
        Record(
            "selective_prediction",
            "mine",
            "my-model",
            seed,
            "prr",
            0.1 * seed + offset,
            score,
            "total",
        )
        for seed in range(3)
        for score, offset in (("laplace", 0.1), ("crps", 0.2))
    ]
    [table] = [t for t in result_tables(Evidence(own)) if t.name == "selective-prediction"]
    assert [c.text for c in table.columns] == ["CRPS", "laplace"]
    assert table.rows[0][0] == ("mine", "my-model")
    assert rank_tables(Evidence(own))[0].rows[0][0] == ("my-model",)


def test_ranks_of_one_data_set_have_no_interval():
    records = [r for r in RECORDS if r.dataset == "yacht"]
    table = next(t for t in rank_tables(Evidence(records)) if t.name == "ranks-active-learning")
    known = [e.ours for _, entries in table.rows for e in entries if e.ours is not None]
    assert known
    assert all(math.isnan(ours.low) and ours.seeds == 1 for ours in known)


def test_nothing_gives_no_table():
    assert result_tables(Evidence([])) == []
    assert rank_tables(Evidence([])) == []
    nan = [Record("ood_detection", "burgers", "sampler", 0, "auroc", math.nan, "crps")]
    assert result_tables(Evidence(nan)) == []


def test_the_papers_own_values_give_its_own_table():
    paper = Evidence(r for r in paper_records() if r.quantity != "mse_std")
    tables = [table for table in result_tables(paper) if table.paper_table]
    assert len(tables) == 4
    for table in tables:
        for _, entries in table.rows:
            for e in entries:
                assert (e.ours is None) == (e.paper is None)
                assert e.ours is None or e.ours.mean == e.paper


def test_formats_are_all_tested():
    assert set(FORMATS) == {"html", "md", "csv", "tex"}


def test_differences_of_ranks_are_tested_among_scores_that_every_case_has():
    [table] = [t for t in TABLES.values() if t.name == "ranks-active-learning"]
    values = {}
    for r in final_values(r for r in RECORDS if r.experiment == "active_learning"):
        values.setdefault((r.dataset, r.representation), {}).setdefault(r.score, []).append(r.value)
    scores = ("squared", "crps", "gaussian", "random")
    matrix = [[np.mean(np.log(case[s])) for s in scores] for case in values.values()]
    p = average_ranks(matrix, tie=0.01).friedman_p
    assert f"(SE, CRPS, Gaussian, random): Friedman's test p = {p:.2g}" in table.notes[0]


def test_detection_has_the_interval_of_its_own():
    """That of the bootstrap over trajectories, averaged over seeds."""

    def values(seeds):
        return [
            Record("ood_detection", "burgers", "sampler", seed, quantity, value, score, "epistemic")
            for seed in range(seeds)
            for score in ("crps", "squared")
            for quantity, value in (("auroc", 0.9), ("auroc_low", 0.85), ("auroc_high", 0.94))
        ]

    for seeds, interval in ((1, (0.85, 0.94)), (2, (0.85, 0.94))):
        [table] = [t for t in result_tables(Evidence(values(seeds))) if t.name == "ood-detection"]
        ours = table.rows[0][1][0].ours
        assert (ours.low, ours.high) == pytest.approx(interval)


def test_bandwidths_are_shown_by_experiment():
    records = [
        Record(experiment, "yacht", "normal", seed, "bandwidth", value + seed, "gaussian")
        for experiment, value in (("selective_prediction", 1.0), ("active_learning", 3.0))
        for seed in range(2)
    ]
    [table] = [t for t in result_tables(Evidence(records)) if t.name == "bandwidths"]
    assert [c.text for c in table.columns] == ["selective prediction", "active learning"]
    assert [e.ours.mean for e in table.rows[0][1]] == [1.5, 3.5]


def test_settings_of_robustness_are_told_in_words():
    records = [
        Record(
            "robustness",
            "yacht",
            "normal",
            0,
            f"mape_M{m}_{training}",
            1.0,
            "crps",
            "aleatoric",
            0.0,
        )
        for m in (3, 25)
        for training in ("overfitted", "appendix", "own")
    ]
    titles = [t.title for t in result_tables(Evidence(records))]
    assert titles == [
        "Robustness, 25 members, trained as the appendix says (early stopping)",
        "Robustness, 3 members, trained as the appendix says (early stopping)",
        "Robustness, 25 members, trained without early stopping (over-confident)",
        "Robustness, 3 members, trained without early stopping (over-confident)",
        "Robustness, 25 members, own",
        "Robustness, 3 members, own",
    ]


def test_a_setting_beside_the_papers_has_a_table_of_its_own():
    plain = [r for r in RECORDS if r.experiment == "active_learning"]
    beside = [dataclasses.replace(r, quantity="mse_trained", value=r.value / 2) for r in plain]
    tables = {t.name: t for t in result_tables(Evidence([*plain, *beside]))}
    assert {"active-learning", "active-learning-trained"} <= set(tables)
    assert tables["active-learning-trained"].title == 'Active learning, setting "trained"'
    assert to_csv(tables["active-learning"]) == to_csv(TABLES["active-learning"])
    for row, half in zip(
        tables["active-learning"].rows, tables["active-learning-trained"].rows, strict=True
    ):
        assert row[0] == half[0]
        for entry, other in zip(row[1], half[1], strict=True):
            assert other.paper is None
            if entry.ours is not None:
                assert other.ours.mean == pytest.approx(entry.ours.mean / 2)
    both, alone = (rank_tables(Evidence(part)) for part in ([*plain, *beside], plain))
    assert [to_csv(t) for t in both] == [to_csv(t) for t in alone]
    names = [f.name for f in curves.active_learning(Evidence([*plain, *beside]))]
    assert names == ["active-learning", "active-learning-trained"]


def test_a_representation_of_our_own_is_shown_but_not_ranked():
    """Beside the paper's, with worse values, so that it would change ranks if it counted."""
    names = ("prr", "auroc", "mse")
    flows = [
        dataclasses.replace(r, representation="flow", value=r.value / 2)
        for r in RECORDS
        if r.representation == "sampler" and r.quantity in names and r.score != "crps"
    ]
    field = {"truth": np.eye(2)}
    both = Evidence([*RECORDS, *flows], {"burgers-flow-shifted": field, "burgers-normal": field})
    shown = {t.name: t for t in result_tables(both)}
    assert ("Energy", "FM (ours)") in [labels for labels, _ in shown["active-learning"].rows]
    assert [to_csv(t) for t in rank_tables(both)] == [
        to_csv(t) for t in rank_tables(Evidence(RECORDS))
    ]
    paper = both.of_the_paper()
    assert paper.records == tuple(RECORDS)
    assert set(paper.fields) == {"burgers-normal"}
    ours, alone = (
        [(j.claim.key, j.ours) for j in judge(e) if j.claim.kind == "experiment"]
        for e in (Evidence([*RECORDS, *flows]), Evidence(RECORDS))
    )
    assert ours == alone


def test_intervals_in_factors_follow_positive_values():
    """By hand: the mean of logarithms 0, 1, 2 (base ten), and 4.303 of its standard errors."""
    found = estimate([1.0, 10.0, 100.0], factors=True)
    half = 10 ** (4.302653 / np.sqrt(3))
    assert (found.mean, found.low, found.high) == pytest.approx((10, 10 / half, 10 * half))
    assert estimate([0.0, 1.0], factors=True) == estimate([0.0, 1.0])
    assert estimate([3.7], factors=True).mean == 3.7


def test_curves_do_not_spoil_single_numbers():
    """An AUROC along a curve (less training) is drawn, and stays out of tables and ranks."""
    plain = [r for r in RECORDS if r.experiment == "ood_detection"]
    curve = [
        Record("ood_detection", "burgers", "sampler", 0, quantity, 0.1 * x, score, "epistemic", x)
        for quantity in ("auroc", "auroc_training")
        for score in ("crps", "squared")
        for x in (1.0, 2.0, 3.0)
    ]
    for make in (result_tables, rank_tables):
        both = [to_csv(table) for table in make(Evidence([*plain, *curve]))]
        assert both == [to_csv(table) for table in make(Evidence(plain))]
    assert curves.training(Evidence(plain)) is None
    [panel] = curves.training(Evidence(curve)).panels
    assert panel.name == "training-burgers-sampler"


def test_errors_stand_beside_ratios_and_differences_are_paired():
    table = TABLES["selective-prediction"]
    assert table.columns[0].text == "MSE"
    own = [
        Record("selective_prediction", "yacht", "normal", seed, "prr", value, score, "total")
        for seed, base in enumerate((0.1, 0.5, 0.9))
        for score, value in (("crps", base), ("squared", base + 0.02 + 0.001 * seed))
    ]
    tables = {t.name: t for t in result_tables(Evidence(own))}
    [(labels, [entry])] = tables["selective-prediction-differences"].rows
    assert labels == ("Yacht", "NG")
    # The splits differ by 0.4, the differences between scores hardly at all.
    assert entry.ours.mean == pytest.approx(0.021)
    half = 4.302652729911275 * 0.001 / np.sqrt(3)  # Student's t with two degrees of freedom
    assert entry.ours.high - entry.ours.mean == pytest.approx(half)


def test_networks_stand_beside_what_they_have_to_beat():
    values = {"mse": 3.2, "mse_climatology": 4.6, "mse_damped_anomaly": 3.4}
    own = [
        Record("ood_detection", "reanalysis", "normal", 0, quantity, value)
        for quantity, value in values.items()
    ] + [Record("ood_detection", "burgers", "sampler", 0, "mse", 1e-6)]
    [table] = [t for t in result_tables(Evidence(own)) if t.name == "reanalysis-skill"]
    assert [c.text for c in table.columns] == ["networks", "climatology", "damped anomaly"]
    [(labels, entries)] = table.rows
    assert labels == ("Temperature (NCEP-NCAR)", "NG")
    assert [e.ours.mean for e in entries] == [3.2, 4.6, 3.4]
