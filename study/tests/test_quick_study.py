"""The run of the quick study that docs/results keeps: that it is whole, and what it shows."""

import csv
import dataclasses
import io
import math
import re
import shutil
import statistics
from collections import Counter, defaultdict
from itertools import product
from pathlib import Path

import pytest

from benchmarks import plain_rejection
from docs import keep_run
from kuq.datasets.uci import TABLES
from kuq.errors import KuqError
from kuq_study import Store, read_experiment, run
from kuq_study.claims import Status, judge
from kuq_study.estimates import CellKey, Evidence, by_cell, estimate, estimates, final_values
from kuq_study.paper import paper_records
from kuq_study.procedure import procedure_of
from kuq_study.rank_tables import PROTOCOL, protocol_ranking, rank_tables
from kuq_study.report import claims_csv
from kuq_study.result_tables import result_tables
from kuq_study.run_folder import read_run
from kuq_study.store import DATABASE, PACKED
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
SMALL = {"concrete", "energy", "yacht"}
LARGE = UCI - SMALL
SMALL_NAMES = {"concrete": "Concrete", "energy": "Energy", "yacht": "Yacht"}
LARGE_NAMES = {
    "kin8nm": "Kin8nm",
    "power-plant": "Power",
    "naval-propulsion-plant": "Naval",
    "protein-tertiary-structure": "Protein",
}
EQUATIONS = ("burgers", "kuramoto-sivashinsky")
REPRESENTATIONS = {"normal", "evidential", "mixture", "sampler"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return shutil.copytree(KEPT, tmp_path_factory.mktemp("kept") / "quick")


@pytest.fixture(scope="module")
def evidence(folder):
    found = read_run(folder)
    assert found.problems == ()
    return Evidence(found.records, found.fields)


@pytest.fixture(scope="module")
def judgements(evidence):
    return tuple(judge(evidence))


@pytest.fixture(scope="module")
def page():
    """The text about the run, in one line."""
    return " ".join((KEPT.parent / "quick.md").read_text(encoding="utf-8").split())


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


def test_what_has_the_settings_of_the_paper(page):
    """Which cells of the run are those of the preset "paper" as well."""
    alike, asked = Counter(), Counter()
    for path in sorted((ROOT / "study" / "experiments").glob("*.toml")):
        quick, paper = (
            {cell.key: cell.settings() for cell in read_experiment(path, preset).cells()}
            for preset in ("quick", "paper")
        )
        for key, settings in paper.items():
            place = tuple(key.split("/")[:2])
            asked[place] += 1
            alike[place] += quick.get(key) == settings
    whole = {place: count for place, count in alike.items() if count}
    assert whole == {("robustness", "appendix"): asked["robustness", "appendix"]}
    assert f"its {asked['robustness', 'appendix']} cells have the paper's settings" in page


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


def test_no_interval_of_an_error_or_a_ratio_is_below_zero():
    text = (KEPT / "tables" / "selective-prediction.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) > 150
    assert min(float(row["low"]) for row in rows if row["low"]) >= 0


def test_a_run_is_kept_whole_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(keep_run, "ROOT", tmp_path / "results")
    keep_run.ROOT.mkdir()
    experiment = read_experiment(ROOT / "study" / "experiments" / "approximation.toml", "smoke")
    run([experiment], tmp_path / "own", jobs=0)
    kept = keep_run.keep(tmp_path / "own")
    assert kept == keep_run.ROOT / "own"
    assert read_run(kept).records == read_run(tmp_path / "own").records
    there = {path.name for path in kept.iterdir()}
    assert there == {"claims.csv", "fields", PACKED}
    before = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match="is what is kept already"):
        keep_run.keep(kept)
    (tmp_path / "own" / DATABASE).write_bytes(b"damaged")
    with pytest.raises(KuqError):
        keep_run.keep(tmp_path / "own")
    assert {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()} == before
    assert list(keep_run.ROOT.iterdir()) == [kept]


def test_no_kept_file_is_large():
    for path in KEPT.parent.rglob("*"):
        assert path.stat().st_size < 10**6, path


def test_a_kept_run_is_where_another_one_goes_on(folder):
    """Only cells with other settings are computed."""
    experiment = read_experiment(ROOT / "study" / "experiments" / "approximation.toml", "quick")
    copy = shutil.copytree(folder, folder.parent / "again")
    summary = run([experiment], copy, jobs=0)
    assert (summary.before, summary.done) == (12, 0)
    fewer = dataclasses.replace(
        experiment,
        grids={"scalars": dataclasses.replace(experiment.grids["scalars"], seeds=(0, 7))},
    )
    summary = run([fewer], copy, jobs=0)
    assert (summary.before, summary.done) == (2, 2)


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
    assert cells == {(d, r) for d in UCI for r in REPRESENTATIONS | {"flow"}}
    for cell, value in found.items():
        splits = 20 if cell.dataset in SMALL else 1 if cell.dataset == "depth-synthetic" else 3
        assert value.seeds >= splits, cell


def test_the_worst_rank_of_the_log_score_is_not_beyond_doubt(evidence, judgements, page):
    [numbers] = [j.ours.numbers for j in judgements if j.claim.key == "prr-log"]
    assert re.findall(r"(\w+) − log [^,]+, [^,]+, better", numbers) == []
    low, high = re.search(r"SE − log \S+ \[-(\S+), -(\S+)\]", numbers).groups()
    assert f"the squared error differs from it by {high} to {low}, and below 0.01 is a tie" in page
    assert f"ends at -{high}, a tie" in page
    real = Evidence([r for r in evidence.records if r.dataset != "depth-synthetic"])
    [without] = [j.ours.status for j in judge(real) if j.claim.key == "prr-log"]
    assert without == Status.UNDECIDED
    assert "Without the stand-in for depth images it cannot be decided either" in page


def test_where_rejection_does_not_beat_chance(evidence, page):
    found = mean(evidence, "selective_prediction", "prr")
    worse = {c: e.mean for c, e in found.items() if e.mean > 1}
    by_place = {(c.dataset, c.representation, c.score): v for c, v in worse.items()}
    protein = by_place.pop(("protein-tertiary-structure", "evidential", "log"))
    depth = by_place.pop(("depth-synthetic", "low-rank", "log"))
    assert not by_place
    said = f"Protein, {protein:.2f}, and of low-rank normals on depth images, {depth:.2f}."
    assert said in page


def test_the_ratio_follows_the_training(evidence, page):
    """What layer norms have done to samplers on Energy, whose errors were ten times as large."""
    [error] = [
        e.mean
        for c, e in mean(evidence, "selective_prediction", "mse").items()
        if (c.dataset, c.representation) == ("energy", "sampler")
    ]
    ratio = [
        e.mean
        for c, e in mean(evidence, "selective_prediction", "prr").items()
        if (c.dataset, c.representation) == ("energy", "sampler")
    ]
    assert f"an error of {error:.4f} and ratios of {span(ratio, 2)}" in page


def test_how_large_differences_between_scores_are(evidence, page):
    """Paired by split, against the CRPS, beside what splits do."""
    records = by_cell(evidence.of_the_paper().single("selective_prediction", "prr"))
    tables = {c: v for c, v in records.items() if c.dataset in UCI and c.score != "log"}
    gaps, spreads = [], []
    for cell, values in tables.items():
        if cell.score == "crps":
            spreads.append(statistics.stdev(values.values()))
            continue
        base = tables[dataclasses.replace(cell, score="crps")]
        gaps.append(abs(statistics.mean(values[s] - base[s] for s in values)))
    small = sum(gap < 0.01 for gap in gaps)
    said = (
        f"{small} of {len(gaps)} differences are ties; the median one is "
        f"{statistics.median(gaps):.3f}, where splits differ by {statistics.median(spreads):.3f}"
    )
    assert said in page


def test_rejection_on_the_reanalysis(evidence, page):
    found = mean(evidence, "selective_prediction", "prr")
    own = {}
    for cell, value in found.items():
        if cell.dataset == "reanalysis":
            own.setdefault(cell.representation, []).append(value.mean)
    samplers, flows = own.pop("sampler"), own.pop("flow")
    assert f"their ratio there is {span(samplers, 2)}, while" in page
    others = span([value for values in own.values() for value in values], 2)
    assert f"flows, which are ours, have {span(flows, 2)} and the others {others}" in page


def beside_samplers(found, names, seeds, score="", factors=True, digits=2):
    """What flows have beside samplers on the same splits, with its interval, in words."""
    said = []
    for dataset, name in names.items():
        ours, theirs = (found[CellKey(dataset, r, score)] for r in ("flow", "sampler"))
        assert ours.keys() == set(range(seeds)) <= theirs.keys()
        gaps = [ours[s] / theirs[s] if factors else ours[s] - theirs[s] for s in ours]
        e = estimate(gaps, factors=factors)
        ends = f"{e.low:.{digits}f} to {e.high:.{digits}f}"
        said.append(f"{e.mean:.{digits}f} [{ends}] on {name}")
    return ", ".join(said)


@pytest.mark.parametrize(("names", "splits"), [(SMALL_NAMES, 20), (LARGE_NAMES, 3)])
def test_flows_beside_samplers(evidence, page, names, splits):
    """On tables, paired by split: their errors in factors, their ratios by the CRPS."""
    errors, ratios = (
        by_cell(evidence.single("selective_prediction", quantity)) for quantity in ("mse", "prr")
    )
    said = beside_samplers(errors, names, splits)
    assert said in page, said
    said = beside_samplers(ratios, names, splits, "crps", factors=False, digits=3)
    assert said in page, said


def test_flows_beside_samplers_on_fields(evidence, page):
    names = {
        "burgers": "Burgers'",
        "kuramoto-sivashinsky": "Kuramoto-Sivashinsky",
        "reanalysis": "the reanalysis",
    }
    found = by_cell(evidence.single("selective_prediction", "mse"))
    said = beside_samplers(found, names, 3)
    assert said in page, said


def test_flows_beside_samplers_on_depth_images(evidence, page):
    """One seed: what came out, without an interval."""
    errors, ratios = (
        {
            name: [
                value.mean
                for cell, value in mean(evidence, "selective_prediction", quantity).items()
                if (cell.dataset, cell.representation) == ("depth-synthetic", name)
            ]
            for name in ("flow", "sampler")
        }
        for quantity in ("mse", "prr")
    )
    [ours], [theirs] = errors["flow"], errors["sampler"]
    assert f"On depth images, with one seed, it is {ours / theirs:.2f} times" in page
    flows, samplers = (span(ratios[name], 2) for name in ("flow", "sampler"))
    assert f"ratios are {flows} where those of samplers are {samplers}" in page


def test_rejection_in_plain_torch_has_the_same_ratio(evidence, page):
    """An implementation with nothing of kuq, by the same splits, whose ratios follow ours."""
    plain = plain_rejection.STUDY.stored()["300 epochs, as in the study"]["prr"]
    key = CellKey("energy", "normal", "squared")
    ours = by_cell(evidence.single("selective_prediction", "prr"))[key]
    assert len(plain) == len(ours) == 20
    here, there = estimate(list(ours.values())), estimate(plain)
    said = (
        f"its ratio is {there.mean:.2f} [{there.low:.2f} to {there.high:.2f}], "
        f"ours {here.mean:.2f} [{here.low:.2f} to {here.high:.2f}]"
    )
    assert said in page, said
    gap = estimate([there - ours[s] for s, there in enumerate(plain)])
    assert f"differ by {gap.mean:.3f} [{gap.low:.3f} to {gap.high:.3f}]" in page, gap
    assert gap.low < 0 < gap.high
    assert statistics.correlation(plain, [ours[s] for s in range(20)]) > 0.7


def scores_of(evidence, dataset, quantity, representation="sampler"):
    found = mean(evidence, "ood_detection", quantity)
    own = (dataset, representation)
    return {c.score: e.mean for c, e in found.items() if (c.dataset, c.representation) == own}


def span(values, digits):
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return low if low == high else f"{low} to {high}"


@pytest.mark.parametrize(
    ("dataset", "name", "least"),
    [("burgers", "Burgers'", 0.93), ("kuramoto-sivashinsky", "Kuramoto-Sivashinsky", 0.995)],
)
def test_shifted_equations_are_detected_by_trajectory(evidence, page, dataset, name, least):
    grouped = scores_of(evidence, dataset, "auroc_grouped")
    assert set(grouped) == {"squared", "crps", "energy", "gaussian"}
    # The mean over a trajectory of squared disagreement is that of its first, steepest steps.
    assert min(value for score, value in grouped.items() if score != "squared") >= least
    assert grouped["squared"] >= min(least, 0.9)
    by_step = scores_of(evidence, dataset, "auroc").values()
    said = f"{name} {span(grouped.values(), 3)} by trajectory and {span(by_step, 3)} by step"
    assert said in page


def test_what_is_said_of_burgers_equation(evidence, page):
    grouped = scores_of(evidence, "burgers", "auroc_grouped")
    assert min(grouped, key=grouped.get) == "squared"
    others = [value for score, value in grouped.items() if score != "squared"]
    assert f"under the others it is {span(others, 3)}" in page
    low, high = (scores_of(evidence, "burgers", f"auroc_grouped_{e}") for e in ("low", "high"))
    assert f"from {min(low.values()):.2f} to {max(high.values()):.2f} on Burgers'" in page


def test_why_the_squared_error_stays_below_on_burgers_equation(evidence, page):
    """The first four steps decide there, of samplers and of flows; without them nothing is open."""
    flows = scores_of(evidence, "burgers", "auroc_grouped", "flow")
    others = span([value for score, value in flows.items() if score != "squared"], 3)
    said = f"have {flows['squared']:.3f} under it and {others} under the others"
    assert said in page
    shares = by_cell(evidence.single("ood_detection", "early_share", "epistemic"))
    for representation, words in (("flow", "flows"), ("sampler", "samplers")):
        for score, name in (("squared", "squared disagreement"), ("crps", "the CRPS")):
            own = shares[CellKey("burgers", representation, score)].values()
            found = span([100 * share for share in own], 0)
            assert f"{found} % for {words} under {name}" in page, found
    late, low = (scores_of(evidence, "burgers", f"auroc_grouped_late{end}") for end in ("", "_low"))
    assert f"under every score: {span(late.values(), 3)}" in page
    assert min(low.values()) > 0.93


def test_more_training_detects_better(evidence):
    curves = by_cell(evidence.of("ood_detection", "auroc_training"), along_x=True)
    of_each = defaultdict(list)
    for cell, values in curves.items():
        of_each[cell.dataset, cell.representation, cell.score].append((cell.x, values[0]))
    scores = ("squared", "crps", "energy", "gaussian")
    assert of_each.keys() == set(product(EQUATIONS, ("sampler", "flow"), scores))
    for points in of_each.values():
        epochs, found = zip(*sorted(points), strict=True)
        assert epochs == (1, 3, 6, 14, 28)
        assert list(found) == sorted(found)


def test_images_have_every_representation(evidence):
    for experiment, quantity in (("ood_detection", "auroc"), ("selective_prediction", "prr")):
        found = mean(evidence, experiment, quantity)
        for dataset in ("depth-synthetic", "reanalysis"):
            methods = {c.representation for c in found if c.dataset == dataset}
            assert methods == REPRESENTATIONS | {"low-rank", "flow"}


def test_what_is_said_of_depth_images(evidence, page):
    auroc, other = (
        {
            (c.representation, c.score): e.mean
            for c, e in mean(evidence, "ood_detection", quantity).items()
            if c.dataset == "depth-synthetic"
        }
        for quantity in ("auroc", "auroc_other_bandwidth")
    )
    theirs = by_cell(Evidence(paper_records()).of("ood_detection", "auroc", "epistemic"))
    [paper] = theirs[CellKey("depth", "low-rank", "log")].values()
    log = auroc.pop(("low-rank", "log"))
    assert f"its log score: {log:.2f}, where the paper has {paper:.2f}" in page
    names = {"sampler": "SB", "normal": "NG", "evidential": "DER", "mixture": "MDN"}
    for method, name in (names | {"low-rank": "LoRa", "flow": "FM (ours)"}).items():
        found = [value for (own, _), value in auroc.items() if own == method]
        assert f"{span(found, 2)} for {name}" in page
    changes = [value - auroc[key] for key, value in other.items()]
    assert len(changes) == 6
    assert f"the AUROCs of the Gaussian kernel change by {span(changes, 2)}." in page


def test_every_network_beats_climatology(evidence, page):
    errors, climatology = (
        {
            c.representation: e.mean
            for c, e in mean(evidence, "ood_detection", quantity).items()
            if c.dataset == "reanalysis"
        }
        for quantity in ("mse", "mse_climatology")
    )
    for representation, error in errors.items():
        assert error < climatology[representation]
    said = f"{span(errors.values(), 2)} K², climatology {span(climatology.values(), 2)} K²"
    assert said in page


def test_what_the_twin_of_the_reanalysis_is_found_by(evidence, page):
    for quantity, words in (("auroc", "its own climate"), ("auroc_shared_climatology", "Europe's")):
        values = [
            e.mean
            for c, e in mean(evidence, "ood_detection", quantity).items()
            if c.dataset == "reanalysis" and c.score == "energy"
        ]
        assert f"{span(values, 2)} with {words}" in page


def test_what_is_left_of_the_twin_with_its_own_climate(evidence, page):
    low, high, years = (
        {
            c.representation: e.mean
            for c, e in mean(evidence, "ood_detection", quantity).items()
            if (c.dataset, c.score) == ("reanalysis", "energy")
        }
        for quantity in ("auroc_low", "auroc_high", "auroc_grouped")
    )
    above = sum(end > 0.5 for end in low.values())
    assert f"of {above} of {len(low)} representations lie above one half" in page
    assert f"none reaches {math.ceil(100 * max(high.values())) / 100:.2f}" in page
    assert f"is found at {span(years.values(), 2)}" in page


def test_what_the_gaussian_kernel_misses_of_the_twin(evidence, page):
    found = {
        (c.representation, c.score): e.mean
        for c, e in mean(evidence, "ood_detection", "auroc_shared_climatology").items()
        if c.dataset == "reanalysis"
    }
    narrow = {"mixture", "sampler"}
    seen = [v for (r, s), v in found.items() if s == "gaussian" and r in narrow]
    missed = [v for (r, s), v in found.items() if s == "gaussian" and r not in narrow]
    others = [v for (_, s), v in found.items() if s != "gaussian"]
    assert f"misses what all others see ({span(missed, 2)}" in page
    assert f"draws of samplers ({span(seen, 2)})" in page
    assert max(missed) < min(seen)
    assert f"where others have {span(others, 2)}" in page


def test_ratios_are_near_the_papers(evidence, page):
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
    assert f"in {inside} of {len(pairs)} results; the median difference is {gap:.2f}" in page


#: Seeds of active learning, by the size of a table; flows, which are ours, have fewer.
SEEDS_SMALL, SEEDS_LARGE = 10, 5
SEEDS_OF_FLOWS_SMALL, SEEDS_OF_FLOWS_LARGE = 5, 3


def test_active_learning_has_every_cell(evidence):
    records = evidence.of("active_learning", "mse")
    cells = {(r.dataset, r.representation) for r in records}
    assert cells == {
        *((d, r) for d in UCI for r in REPRESENTATIONS | {"flow"}),
        *((d, r) for d in EQUATIONS for r in ("sampler", "flow")),
    }
    for cell in cells:
        own = [r for r in records if (r.dataset, r.representation) == cell]
        seeds = SEEDS_SMALL if cell[0] in SMALL else SEEDS_LARGE if cell[0] in LARGE else 3
        if cell[0] in UCI and cell[1] == "flow":
            seeds = SEEDS_OF_FLOWS_SMALL if cell[0] in SMALL else SEEDS_OF_FLOWS_LARGE
        assert {r.seed for r in own} == set(range(seeds))
        assert {"random", "squared", "crps", "gaussian"} <= {r.score for r in own}
        assert all(math.isfinite(r.value) for r in own)


def final_errors(evidence, score="random"):
    records = final_values(evidence.of("active_learning", "mse"))
    found = estimates(by_cell(records))
    return {(c.dataset, c.representation): e.mean for c, e in found.items() if c.score == score}


def test_random_acquisition_has_the_errors_of_the_paper(evidence, page):
    ours, theirs = final_errors(evidence), final_errors(Evidence(paper_records()))
    near = {
        r: sum(abs(ours[d, r] / theirs[d, r] - 1) <= 0.25 for d in UCI)
        for r in ("normal", "mixture", "sampler")
    }
    assert min(near.values()) >= 5
    said = "for NG on {normal}, MDN on {mixture} and SB on {sampler} of the seven tables"
    assert said.format(**near) in page
    lower = [100 * (1 - ours["energy", r] / theirs["energy", r]) for r in REPRESENTATIONS]
    assert f"Energy, where all our errors are lower by {span(lower, 0)} %" in page


def test_what_is_decided(judgements, page):
    """The numbers at the head of the page, and the table of what has changed."""
    found = Counter(j.ours.status for j in judgements if j.claim.kind == "experiment")
    said = (
        f"{found[Status.HOLDS]} hold, {found[Status.FAILS]} do not, and "
        f"{found[Status.UNDECIDED]} cannot be decided"
    )
    assert said in page
    by_key = {j.claim.key: j.ours for j in judgements}
    rows = [
        [part.strip() for part in line.strip(" |").split("|")]
        for line in (KEPT.parent / "quick.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    assert rows
    for key, *_, now, _ in rows:
        ours = by_key[key.strip("`")]
        assert now.split(":")[0] == ours.status.value.removesuffix(" here"), key


def test_random_acquisition_is_not_beyond_doubt(evidence, judgements, page):
    ranks = protocol_ranking(evidence.of_the_paper(), PROTOCOL["active_learning"], ties=True)
    assert min(ranks.scores, key=ranks.average) == "random"
    [numbers] = [j.ours.numbers for j in judgements if j.claim.key == "al-gaussian"]
    seen = re.search(r"a difference of (\S+) could have been seen", numbers)[1]
    said = f"the best average rank, {ranks.average('random'):.2f}, but"
    assert said in page
    assert f"differences in the logarithm of the error of up to {seen}" in page


def against_random(evidence, dataset, representation):
    """Errors of all scores over those of random acquisition on the same split, with intervals."""
    records = by_cell(final_values(evidence.of("active_learning", "mse")))
    own = {
        c.score: v
        for c, v in records.items()
        if (c.dataset, c.representation) == (dataset, representation)
    }
    return {
        score: estimate([v[s] / own["random"][s] for s in v], factors=True)
        for score, v in own.items()
        if score != "random"
    }


def ratios(found):
    return [e.mean for e in found.values()]


def test_samplers_ask_where_it_pays(evidence, page):
    names = {"energy": "Energy", "yacht": "Yacht", "concrete": "Concrete"}
    found = {dataset: against_random(evidence, dataset, "sampler") for dataset in names}
    said = [f"{span(ratios(found[dataset]), 2)} on {name}" for dataset, name in names.items()]
    assert ", ".join(said) in page
    for dataset in ("energy", "yacht"):
        assert [score for score, e in found[dataset].items() if e.high < 1] == ["gaussian"]
    ends = [e.high for d in ("energy", "yacht") for s, e in found[d].items() if s != "gaussian"]
    assert f"and ends at {span(ends, 2)} for the others" in page
    assert not [e for e in found["concrete"].values() if e.high < 1 or e.low > 1]


def beyond(found):
    """How many intervals lie above 1, how many below, and how many there are."""
    return sum(e.low > 1 for e in found), sum(e.high < 1 for e in found), len(found)


def test_on_larger_tables_asking_costs(evidence, page):
    found = [
        e
        for dataset in LARGE - {"naval-propulsion-plant"}
        for representation in REPRESENTATIONS
        for e in against_random(evidence, dataset, representation).values()
    ]
    said = f"the error is {span([e.mean for e in found], 2)} times that of random acquisition"
    assert said in page
    above, below, all_of_them = beyond(found)
    assert below == 0
    assert f"{above} of {all_of_them} intervals lie above 1, and none below" in page
    for representation, words in (("mixture", "mixtures end with"), ("sampler", "samplers with")):
        naval = ratios(against_random(evidence, "naval-propulsion-plant", representation))
        assert f"{words} {span(naval, 1)} times" in page


def test_what_is_said_of_single_networks_and_equations(evidence, page):
    counts = {
        representation: beyond(
            [e for d in UCI for e in against_random(evidence, d, representation).values()]
        )
        for representation in ("normal", "evidential")
    }
    assert counts["normal"][1] == counts["evidential"][1] == 0
    above, _, number = counts["normal"]
    assert f"of {number} intervals {above} lie above 1, and none below" in page
    above, _, number = counts["evidential"]
    assert f"{above} of {number} intervals lies above 1, and none below" in page
    for dataset in EQUATIONS:
        found = against_random(evidence, dataset, "sampler")
        assert beyond(found.values())[:2] == (0, 0)
        if dataset == "burgers":
            said = f"the error is {span(ratios(found), 2)} times that of random acquisition"
            assert said in page


def test_what_is_said_of_flows_in_active_learning(evidence, page):
    records = by_cell(final_values(evidence.of("active_learning", "mse")))
    for names, seeds in (
        (SMALL_NAMES, SEEDS_OF_FLOWS_SMALL),
        (LARGE_NAMES, SEEDS_OF_FLOWS_LARGE),
    ):
        said = beside_samplers(records, names, seeds, "random")
        assert said in page, said
    for datasets, words in (
        (SMALL_NAMES, "none of {} intervals"),
        (EQUATIONS, "nor does one of {}"),
    ):
        found = [e for d in datasets for e in against_random(evidence, d, "flow").values()]
        assert beyond(found)[:2] == (0, 0)
        assert words.format(len(found)) in page
    naval = "naval-propulsion-plant"
    found = [e for d in LARGE - {naval} for e in against_random(evidence, d, "flow").values()]
    above, below, number = beyond(found)
    said = (
        f"it is {span([e.mean for e in found], 2)} times that of random acquisition, where "
        f"{above} of {number} intervals lie above 1, and {below} below"
    )
    assert said in page, said
    on_naval = ratios(against_random(evidence, naval, "flow"))
    assert f"on Naval {span(on_naval, 1)} times" in page, span(on_naval, 1)


#: What active learning was run of at the paper's settings: representations, by table.
AT_PAPERS = dict.fromkeys(
    ("concrete", "energy", "yacht"), ("normal", "evidential", "mixture", "sampler", "flow")
)


@pytest.fixture(scope="module")
def at_papers(tmp_path_factory):
    return shutil.copytree(KEPT.parent / "paper", tmp_path_factory.mktemp("kept") / "paper")


@pytest.fixture(scope="module")
def evidence_at_papers(at_papers):
    return Evidence(read_run(at_papers).records)


def test_the_run_at_the_settings_of_the_paper(at_papers, evidence_at_papers):
    """All seeds of these cells are there, and the kept tables are those of the records."""
    with Store(at_papers) as store:
        cells = {cell.key: cell for cell in store.cells() if cell.status == "done"}
        assert store.preset == "paper"
    experiment = read_experiment(ROOT / "study" / "experiments" / "active_learning.toml", "paper")
    wanted = {
        cell.key: cell
        for cell in experiment.cells()
        if cell.representation in AT_PAPERS.get(cell.dataset, ())
    }
    assert cells.keys() == wanted.keys()
    digests = {table.name: table.sha256 for table in TABLES}
    for key, cell in cells.items():
        now = dataclasses.replace(wanted[key], data_digest=digests[cell.dataset]).settings()
        assert cell.settings == now | {"kuq": cell.settings["kuq"]}
    for what in read_run(at_papers).problems:
        assert ": pending" in what
    for table in (*rank_tables(evidence_at_papers), *result_tables(evidence_at_papers)):
        text = (KEPT.parent / "paper" / "tables" / f"{table.name}.md").read_text(encoding="utf-8")
        assert text == FORMATS["md"](table)


def test_levels_at_the_settings_of_the_paper(evidence_at_papers, page):
    ours, theirs = final_errors(evidence_at_papers), final_errors(Evidence(paper_records()))
    said = ["| table | NG | DER | MDN | SB |", "|---|---:|---:|---:|---:|"]
    for dataset, done in AT_PAPERS.items():
        over = [
            f"{ours[dataset, r] / theirs[dataset, r]:.2f}" if r in done else "–"
            for r in ("normal", "evidential", "mixture", "sampler")
        ]
        said.append(f"| {SMALL_NAMES[dataset]} | {' | '.join(over)} |")
    assert " ".join(said) in page, said


def test_asking_at_the_settings_of_the_paper(evidence, evidence_at_papers, page):
    said, found = [], []
    for dataset, done in AT_PAPERS.items():
        own = [
            e
            for representation in REPRESENTATIONS.intersection(done)
            for e in against_random(evidence_at_papers, dataset, representation).values()
        ]
        said.append(f"{span([e.mean for e in own], 2)} times as large on {SMALL_NAMES[dataset]}")
        found += own
    assert ", ".join(said) in page, said
    above, below, number = beyond(found)
    assert f"of {number} intervals {above} lie above 1, and {below} below" in page, (above, below)
    # The same with ten seeds and fewer rounds.
    few, many = (
        against_random(source, "energy", "mixture") for source in (evidence_at_papers, evidence)
    )
    below = [score for score, e in few.items() if e.high < 1]
    said = [f"{many[s].mean:.2f} [{many[s].low:.2f} to {many[s].high:.2f}]" for s in below]
    assert below == ["crps", "gaussian"]
    assert f"has {' and '.join(said)} there" in page, said


def test_errors_of_equations_against_the_papers(evidence, page):
    ours, theirs = (
        {
            (c.dataset, c.score): e.mean
            for c, e in estimates(
                by_cell(final_values(source.of("active_learning", "mse")))
            ).items()
            if c.dataset in EQUATIONS and c.representation == "sampler"
        }
        for source in (evidence, Evidence(paper_records()))
    )
    over = {key: value / theirs[key] for key, value in ours.items()}
    near = [value for (dataset, _), value in over.items() if dataset == "burgers"]
    assert f"it is {span(near, 1)} times the paper's" in page
    far = [value for (dataset, _), value in over.items() if dataset != "burgers"]
    assert 10**4 < min(far) < max(far) < 2 * 10**4
