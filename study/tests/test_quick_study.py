"""The run of the quick study that docs/results keeps: that it is whole, and what it shows."""

import csv
import dataclasses
import io
import math
import shutil
import statistics
from pathlib import Path

import pytest

from docs import keep_run
from kuq.datasets.uci import TABLES
from kuq.errors import KuqError
from kuq_study import Store, read_experiment, run
from kuq_study.claims import Status, judge
from kuq_study.estimates import Evidence, by_cell, estimates
from kuq_study.paper import paper_records
from kuq_study.procedure import procedure_of
from kuq_study.rank_tables import rank_tables
from kuq_study.report import claims_csv
from kuq_study.result_tables import result_tables
from kuq_study.run_folder import read_run
from kuq_study.store import DATABASE
from kuq_study.table_formats import FORMATS

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs" / "results" / "quick"
UCI = {
    "concrete",
    "energy",
    "kin8nm",
    "naval-propulsion-plant",
    "power-plant",
    "protein-tertiary-structure",
    "yacht",
}
REPRESENTATIONS = {"normal", "evidential", "mixture", "sampler"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy: opening a database may touch its file."""
    return shutil.copytree(KEPT, tmp_path_factory.mktemp("kept") / "quick")


@pytest.fixture(scope="module")
def evidence(folder):
    found = read_run(folder)
    assert found.problems == ()
    return Evidence(found.records, found.fields)


@pytest.fixture(scope="module")
def judgements(evidence):
    return tuple(judge(evidence))


def test_the_run_is_whole_and_of_the_settings_in_the_files(folder):
    """Change a setting of the preset, and the study has to be run again."""
    with Store(folder) as store:
        cells = {cell.key: cell for cell in store.cells()}
        assert store.preset == "quick"
    wanted = {}
    for path in sorted((ROOT / "study" / "experiments").glob("*.toml")):
        wanted |= {cell.key: cell for cell in read_experiment(path, "quick").cells()}
    assert cells.keys() == wanted.keys()
    tables = {table.name: table.sha256 for table in TABLES}
    for key, cell in cells.items():
        assert cell.status == "done"
        learns = procedure_of(wanted[key]).learns
        data = tables.get(cell.dataset, "") if learns else ""
        now = dataclasses.replace(wanted[key], data_digest=data).settings()
        now["kuq"] = cell.settings["kuq"]  # the study may be older than this version
        assert cell.settings == now, key


def test_kept_tables_and_claims_are_those_of_the_records(evidence, judgements):
    tables = [*rank_tables(evidence), *result_tables(evidence)]
    for table in tables:
        for ending in ("csv", "md", "tex"):
            kept = (KEPT / "tables" / f"{table.name}.{ending}").read_text(encoding="utf-8")
            assert kept == FORMATS[ending](table), table.name
    assert {p.stem for p in (KEPT / "tables").iterdir()} == {table.name for table in tables}
    ours, kept = (
        list(csv.DictReader(io.StringIO(text)))
        for text in (claims_csv(judgements), (KEPT / "claims.csv").read_text(encoding="utf-8"))
    )
    # Propositions are computed anew, and print rounding errors that differ between machines.
    for now, before in zip(ours, kept, strict=True):
        assert now["ours"] == before["ours"], now["claim"]
        assert now == before or now["kind"] == "proposition"


def test_a_run_is_kept_whole_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(keep_run, "ROOT", tmp_path / "results")
    keep_run.ROOT.mkdir()
    experiment = read_experiment(ROOT / "study" / "experiments" / "approximation.toml", "smoke")
    run([experiment], tmp_path / "own", jobs=0)
    kept = keep_run.keep(tmp_path / "own")
    assert kept == keep_run.ROOT / "own"
    assert read_run(kept).records == read_run(tmp_path / "own").records
    there = {path.name for path in kept.iterdir()}
    assert there == {"claims.csv", "fields", "report.html", DATABASE}
    before = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match="is what is kept already"):
        keep_run.keep(kept)
    (tmp_path / "own" / DATABASE).write_bytes(b"damaged")
    with pytest.raises(KuqError):
        keep_run.keep(tmp_path / "own")
    assert {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()} == before
    assert list(keep_run.ROOT.iterdir()) == [kept]


def test_propositions_hold(judgements):
    for judgement in judgements:
        if judgement.claim.kind == "proposition":
            assert judgement.ours.status is Status.HOLDS, judgement.claim.key


@pytest.mark.parametrize(
    "key",
    [
        "robust-au",
        "robust-eu",
        "order-au",
        "order-eu",
        "order-au-few",
        "order-eu-few",
        "order-au-appendix",
        "order-au-few-appendix",
        "degrade-au",
        "degrade-eu",
    ],
)
def test_robustness(judgements, key):
    [found] = [j for j in judgements if j.claim.key == key]
    assert found.ours.status is Status.HOLDS, found.ours.numbers


def test_robustness_is_there_for_all_data_sets_sizes_and_settings(evidence):
    for setting in ("appendix", "overfitted"):
        for members in (25, 5):
            records = evidence.of("robustness", f"mape_M{members}_{setting}")
            assert {r.dataset for r in records} == {"concrete", "energy", "yacht"}
            assert {r.x for r in records} == {0.0, 0.2, 0.5, 1.0, 1.5, 2.5, 5.0}
            assert {r.seed for r in records} == {0, 1, 2}


def mean(evidence, experiment, quantity):
    return estimates(by_cell(evidence.single(experiment, quantity)))


def test_selective_prediction_has_every_cell(evidence):
    found = mean(evidence, "selective_prediction", "prr")
    cells = {(c.dataset, c.representation) for c in found if c.dataset in UCI}
    assert cells == {(d, r) for d in UCI for r in REPRESENTATIONS}
    for cell, value in found.items():
        assert value.seeds >= (3 if cell.dataset in UCI else 1)


@pytest.mark.parametrize(("dataset", "least"), [("burgers", 0.85), ("kuramoto-sivashinsky", 0.95)])
def test_shifted_equations_are_detected_and_more_training_helps(evidence, dataset, least):
    found = {
        c.score: e
        for c, e in mean(evidence, "ood_detection", "auroc").items()
        if c.dataset == dataset
    }
    assert set(found) == {"squared", "crps", "energy", "gaussian"}
    for score, value in found.items():
        assert value.seeds == 3
        assert value.mean >= least, score
    curves = by_cell(evidence.of("ood_detection", "auroc_training"), along_x=True)
    for score in found:
        curve = sorted(
            (c.x, v[0]) for c, v in curves.items() if (c.dataset, c.score) == (dataset, score)
        )
        assert [x for x, _ in curve] == [1, 3, 6, 14, 28]
        assert [y for _, y in curve] == sorted(y for _, y in curve)


def test_stand_ins_have_every_representation(evidence):
    found = mean(evidence, "ood_detection", "auroc")
    for dataset in ("depth-synthetic", "temperature-synthetic"):
        methods = {c.representation for c in found if c.dataset == dataset}
        assert methods == REPRESENTATIONS | {"low-rank"}


def test_ratios_are_near_the_papers(evidence):
    """The sentence about it on the page."""
    found = estimates(
        by_cell(evidence.single("selective_prediction", "prr", "total")), limits=(0.0, math.inf)
    )
    theirs = by_cell(Evidence(paper_records()).of("selective_prediction", "prr", "total"))
    pairs = [
        (found[cell], next(iter(value.values())))
        for cell, value in theirs.items()
        if cell.dataset in UCI and cell in found
    ]
    inside = sum(ours.low <= paper <= ours.high for ours, paper in pairs)
    gap = statistics.median(abs(ours.mean - paper) for ours, paper in pairs)
    page = " ".join((KEPT.parent / "quick.md").read_text(encoding="utf-8").split())
    assert f"in {inside} of {len(pairs)} results; the median difference is {gap:.2f}" in page


def test_active_learning_has_every_cell(evidence):
    records = evidence.of("active_learning", "mse")
    cells = {(r.dataset, r.representation) for r in records}
    assert cells == {
        *((d, r) for d in UCI for r in REPRESENTATIONS),
        ("burgers", "sampler"),
        ("kuramoto-sivashinsky", "sampler"),
    }
    for cell in cells:
        own = [r for r in records if (r.dataset, r.representation) == cell]
        assert {r.seed for r in own} == {0, 1, 2}
        assert {"random", "squared", "crps", "gaussian"} <= {r.score for r in own}
        assert all(math.isfinite(r.value) for r in own)
