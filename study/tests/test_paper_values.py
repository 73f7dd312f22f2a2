"""The paper's numbers as records, and the paper's rank tables from them."""

import csv
from importlib.resources import files

import pytest

from kuq_study.estimates import Evidence
from kuq_study.paper import paper_ranks, paper_records
from kuq_study.rank_tables import PROTOCOL, protocol_ranking
from kuq_study.vocabulary import COMPONENTS, DATASETS, RANDOM, REPRESENTATIONS, SCORES

PAPER = Evidence(paper_records())


def test_every_printed_number_is_a_record():
    printed = 0
    for name in ("robustness", "selective_prediction", "ood_detection", "active_learning"):
        text = (files("kuq_study") / "paper" / f"{name}.csv").read_text()
        rows = list(csv.DictReader(text.splitlines()))
        printed += len(rows) * (2 if name == "active_learning" else 1)
    assert len(paper_records()) == printed == 144 + 152 + 54 + 2 * 136
    for r in paper_records():
        assert r.dataset in DATASETS
        assert r.representation in REPRESENTATIONS
        assert r.score in {**SCORES, **RANDOM}
        assert r.component in {*COMPONENTS, "total"}


def test_the_printing_error_is_corrected():
    [value] = [
        r.value
        for r in paper_records()
        if (r.dataset, r.component, r.score, r.x) == ("yacht", "aleatoric", "squared", 0.2)
    ]
    assert value == 225.0


#: Where the printed values have no ties the ranks must be those of the paper; elsewhere the
#: authors ranked digits that they do not print.
EXACT = {
    ("selective_prediction", "evidential"),
    ("selective_prediction", "low-rank"),
    ("ood_detection", "evidential"),
    ("ood_detection", "low-rank"),
}
NEAR = {
    ("selective_prediction", "mixture"): 0.06,
    ("selective_prediction", "sampler"): 0.14,
    ("selective_prediction", "normal"): 0.23,
    ("ood_detection", "sampler"): 0.13,
    ("ood_detection", "normal"): 0.25,
    ("ood_detection", "mixture"): 0.75,
    ("active_learning", "normal"): 0.29,
    ("active_learning", "evidential"): 0.15,
    ("active_learning", "mixture"): 0.22,
    ("active_learning", "sampler"): 0.17,
}


@pytest.mark.parametrize(("experiment", "method"), sorted(EXACT | set(NEAR)))
def test_ranks_of_the_paper_follow_from_its_values(experiment, method):
    found = protocol_ranking(PAPER, PROTOCOL[experiment], method, ties=False)
    printed = paper_ranks()[experiment][method]
    assert set(printed) == {s for s in found.scores if found.average(s) > 0}
    tolerance = 0.005 if (experiment, method) in EXACT else NEAR[experiment, method]
    for score, rank in printed.items():
        assert found.average(score) == pytest.approx(rank, abs=tolerance + 1e-9)


@pytest.mark.parametrize(
    ("experiment", "tolerance"),
    [("selective_prediction", 0.19), ("ood_detection", 0.14), ("active_learning", 0.08)],
)
def test_total_averages_of_the_paper_follow_from_its_values(experiment, tolerance):
    """Weighted by task for selective prediction, over all cases for the others."""
    found = protocol_ranking(PAPER, PROTOCOL[experiment], ties=False)
    for score, rank in paper_ranks()[experiment]["all"].items():
        assert found.average(score) == pytest.approx(rank, abs=tolerance)


def test_averages_of_the_paper_are_those_of_its_own_rows():
    """How the paper averages, from its printed ranks alone: by the number of cases."""
    counts = {
        "ood_detection": {"normal": 2, "evidential": 2, "mixture": 2, "low-rank": 2, "sampler": 4},
        "active_learning": {"normal": 7, "evidential": 7, "mixture": 7, "sampler": 9},
    }
    for experiment, cases in counts.items():
        table = paper_ranks()[experiment]
        for score, printed in table["all"].items():
            rows = [(table[m][score], n) for m, n in cases.items() if score in table[m]]
            mean = sum(rank * n for rank, n in rows) / sum(n for _, n in rows)
            assert mean == pytest.approx(printed, abs=0.011)
