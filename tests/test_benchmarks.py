"""The benchmark suite itself: its peers agree with kuq, and its tables come out. No timing here."""

import itertools
import json
import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("mpmath")

import kuq
from benchmarks import (
    findings,
    fresh,
    goals,
    gradients,
    growth,
    matrix,
    measure,
    page,
    peers,
    problems,
    reference,
    suite,
    table,
    training,
)
from benchmarks.workloads import (
    WORKLOADS,
    Peer,
    Workload,
    of_draws,
    of_low_rank,
    of_normals,
    with_bandwidth,
)

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "benchmarks").glob("*.py"))
SCALARS, FIELDS = problems.normals(4, 3), problems.normals(3, 2, 5)
LOW_RANK = problems.low_rank_normals(3, 2, 6, 2)
DRAWS, DRAWN_FIELDS = problems.draws(3, 4, 7), problems.draws(3, 2, 6, 5)
GAMMA = 1.7


def agree(actual, expected, rtol):
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=rtol)


# --- plain torch computes the same ----------------------------------------------------------------


@pytest.mark.parametrize("cell", matrix.CELLS, ids=lambda cell: cell.key)
def test_plain_torch_agrees(cell):
    call, plain = cell.build(3)
    for a, b in zip(call(), plain(), strict=True):
        error = measure.relative_error(np.asarray(b), np.asarray(a))
        assert error <= cell.agreement


# --- peers and references are independent checks of kuq ------------------------------------------

SAME = {
    "crps": (of_normals(kuq.CRPS()), SCALARS, peers.crps_hyp1f1, reference.crps_normals),
    "crps-many": (of_normals(kuq.CRPS()), SCALARS, peers.crps_hyp1f1, reference.crps_many_normals),
    "squared": (
        of_normals(kuq.SquaredError()),
        SCALARS,
        peers.squared_error,
        reference.squared_error,
    ),
    "log": (of_normals(kuq.LogScore()), SCALARS, peers.log_score, reference.log_score),
    "gaussian-marginal": (
        of_normals(kuq.Gaussian(GAMMA)),
        FIELDS,
        with_bandwidth(peers.gaussian_marginal, GAMMA),
        with_bandwidth(reference.gaussian_normals, GAMMA, joint=False),
    ),
    "gaussian-diagonal": (
        of_normals(kuq.Gaussian(GAMMA), 1),
        FIELDS,
        with_bandwidth(peers.gaussian_diagonal, GAMMA),
        with_bandwidth(reference.gaussian_normals, GAMMA, joint=True),
    ),
    "gaussian-low-rank": (
        of_low_rank(kuq.Gaussian(GAMMA)),
        LOW_RANK,
        with_bandwidth(peers.gaussian_low_rank, GAMMA),
        with_bandwidth(reference.gaussian_low_rank, GAMMA),
    ),
    "energy-draws": (
        of_draws(kuq.Energy(), 1),
        DRAWN_FIELDS,
        peers.energy_cdist,
        reference.energy_draws,
    ),
    "crps-draws": (of_draws(kuq.CRPS()), DRAWS, peers.crps_broadcast, reference.crps_draws),
    "gaussian-draws": (
        of_draws(kuq.Gaussian(GAMMA)),
        DRAWS,
        with_bandwidth(peers.gaussian_broadcast, GAMMA),
        with_bandwidth(reference.gaussian_draws, GAMMA),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_peers_and_references_agree_with_kuq(name):
    ours, problem, peer, exact = SAME[name]
    agree(ours(problem), exact(problem), 1e-13)
    agree(peer(problem), exact(problem), 1e-12)


@pytest.mark.parametrize(
    ("peer", "problem", "ours"),
    [
        (peers.scoringrules_crps, DRAWS, of_draws(kuq.CRPS())),
        (peers.scoringrules_energy, DRAWN_FIELDS, of_draws(kuq.Energy(), 1)),
        (
            with_bandwidth(peers.scoringrules_gaussian, GAMMA),
            DRAWS,
            of_draws(kuq.Gaussian(GAMMA)),
        ),
    ],
    ids=["crps", "energy", "gaussian"],
)
def test_scoringrules_agrees_with_kuq(peer, problem, ours):
    pytest.importorskip("scoringrules")
    pytest.importorskip("numba")
    agree(peer(problem), ours(problem), 1e-12)


def test_monte_carlo_agrees_within_its_error():
    for problem, ours in (
        (FIELDS, of_normals(kuq.Energy(), 1)),
        (LOW_RANK, of_low_rank(kuq.Energy())),
    ):
        count = 20_000
        spread = np.max(problem["loc"].std(0)) + 3
        agree(peers.energy_monte_carlo(problem, count), ours(problem), 6 * spread / count**0.5)


def test_reference_of_the_energy_score_of_normals():
    agree(of_normals(kuq.Energy(), 1, rtol=1e-12)(FIELDS), reference.energy_normals(FIELDS), 1e-11)


@pytest.mark.parametrize("case", gradients.CASES + gradients.LOSSES, ids=lambda case: case.key)
def test_gradients_agree(case):
    leaves = case.build(3)
    ours = gradients.value_and_gradient(case.ours, leaves)
    for loss in case.peers.values():
        agree(ours, gradients.value_and_gradient(loss, leaves), case.agreement)


@pytest.mark.parametrize(
    "case", [case for case in training.CASES if case.compares], ids=lambda case: case.key
)
def test_losses_of_heads_agree(case):
    results = {name: call() for name, call in case.build(True).items()}
    ours = results.pop("eager")
    for theirs in results.values():
        agree(ours, theirs, 1e-4)


@pytest.mark.parametrize("case", training.CASES[:2], ids=lambda case: case.key)
def test_both_sides_train_the_same_problem(case):
    """After some epochs the losses of kuq and of plain torch have come down alike."""
    calls = case.build(True)
    batches = {"train-mlp": 10, "train-fno": 2}[case.key]
    points = {"train-mlp": 1, "train-fno": 64}[case.key]
    history = []
    for _ in range(15):
        ours = np.mean(calls["eager"]()) / points - math.log(2 * math.pi) / 2
        history.append((ours, np.mean(calls["one by one"]()) / batches))
    assert ours == pytest.approx(history[-1][1], abs=0.25)
    assert all(last < first - 0.05 for first, last in zip(history[0], history[-1], strict=True))


# --- measuring -----------------------------------------------------------------------------------


def test_exponent_is_recovered():
    sizes = [10, 20, 40, 80]
    assert growth.exponent(sizes, [3e-5 * s**1.7 for s in sizes]) == pytest.approx(1.7)


def test_peak_memory_sees_what_is_allocated():
    def call():
        return np.ones(64 * measure.MIB // 8)

    pytest.importorskip("psutil")
    for meter in (measure.peak_memory, measure.sampled):
        peak, seconds = meter(call)
        assert 60 < peak < 80
        assert seconds > 0


def test_a_repetition_lasts_as_long_as_it_should():
    """Also if the first call took much longer than those after it."""
    made = []

    def call():
        made.append(time.process_time())
        return sum(range(1000))

    count = measure.enough(call, 0.9 * measure.SHORTEST)
    assert made[-1] - made[-count] > measure.SHORTEST / 3
    assert measure.enough(call, 2 * measure.SHORTEST) == 1


def test_contestants_alternate():
    order = []
    calls = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    timings = measure.alternate(calls, 3)
    assert set(timings) == {"a", "b"}
    turns = "".join(name for name, _ in itertools.groupby(order))
    assert turns == "ab" * 4  # warm-up, memory and the length of a repetition come first
    assert all(t.cpu >= 0 and t.wall > 0 for t in timings.values())


def test_relative_error():
    assert measure.relative_error([1.0, 3.0], [1.0, 2.0]) == pytest.approx(1 / 1.5)


def test_fresh_processes_print_numbers():
    environment = "import os; print(*(os.environ[n] for n in {names}))"
    assert fresh.run(environment.format(names=fresh.THREAD_VARIABLES), 2) == [2.0] * 4


def test_series_is_fitted():
    pytest.importorskip("numba")
    row = growth.fitted(
        replace(growth.SERIES[0], sizes=(1, 2, 4), build=lambda n: problems.normals(2, n)), True, 1
    )
    assert row["sizes"] == [1, 4]
    assert math.isfinite(row["exponent"])


# --- from a run to tables ------------------------------------------------------------------------


def renamed(row, case):
    """The measured row under the names of another workload and its peers."""
    ours = {k: v for k, v in row["contestants"].items() if k in ("generic", "default")}
    peer = next(v for k, v in row["contestants"].items() if k not in ours)
    contestants = ours | dict.fromkeys(case.peers, peer)
    return {**row, "key": case.key, "title": case.title, "contestants": contestants}


@pytest.fixture(scope="module")
def results():
    """As suite.run makes them, from two tiny runs and numbers made up for fresh processes."""
    solver = of_normals(kuq.CRPS())
    fake = {"authors": Peer(peers.crps_hyp1f1, 2, 1)}
    small = Workload(
        "a",
        "b",
        lambda n: problems.normals(2, n),
        3,
        1,
        solver,
        reference.crps_normals,
        (slice(2),),
        fake,
    )
    row = suite.run_workload(small, False, 1)
    gradient = suite.run_gradient(replace(gradients.CASES[0], rows=2), False, 1)
    thread = {"key": "W1", "title": "a", "rows": 1, "one_ms": 2.0, "two_ms": 1.0, "ratio": 2.0}
    line = {"route": "a", "variable": "n", "sizes": [1, 2], "cpu_ms": [1.0, 2.0]}
    return {
        "kuq": kuq.__version__,
        "date": "2000-01-01",
        "quick": False,
        "repeats": 1,
        "machine": suite.machine(),
        "versions": {"python": "3"},
        "workloads": [renamed(row, workload) for workload in WORKLOADS],
        "gradients": [renamed(gradient, case) for case in gradients.CASES],
        "training": [training.run_training(training.CASES[2], True, 1)],
        "matrix": [matrix.run_cell(cell, True, 1) for cell in matrix.CELLS if "n=" in cell.key],
        "limits": dict.fromkeys(goals.LIMITS, 0.0),
        "threads": [thread],
        "growth": [{**line, "exponent": 1.0, "expected": 1}],
        "seconds": 1,
    }


def test_results_are_plain_and_complete(results, tmp_path):
    path = tmp_path / "results.json"
    page.store(results, path)
    assert json.loads(path.read_text(encoding="utf-8")) == page.rounded(results)
    first = results["workloads"][0]["contestants"]
    assert set(first) == {"generic", "default", "authors"}
    assert first["authors"]["rows"] == 2
    assert first["generic"]["error_eu"] < 1e-13


def test_terminal_table(results):
    text = table.text(results)
    assert all(workload.key in text for workload in WORKLOADS)
    assert all(name in text for name in goals.LIMITS)
    assert "* run on fewer rows and scaled" in text


def test_page(results):
    text = page.rendered(results)
    for heading in ("Goals that are missed", "Against peers", "Two threads", "Growth"):
        assert f"## {heading}\n" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in rows)
    assert rows[0].count("|") == rows[1].count("|") == rows[2].count("|")
    assert max(map(len, text.split("\n\n")[0].splitlines())) <= 100


def test_write_changes_only_the_marked_part(results, tmp_path):
    before = f"# a\n\n{page.BEGIN}\nold\n{page.END}\n\nb\n"
    (tmp_path / "README.md").write_text(before, encoding="utf-8")
    page.write(results, tmp_path)
    page.write(results, tmp_path)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert text.startswith(f"# a\n\n{page.BEGIN}\n")
    assert text.endswith(f"{page.END}\n\nb\n")
    assert "old" not in text
    assert (tmp_path / "docs" / "benchmarks.md").exists()


def test_rows_of_a_later_run_have_their_date(results):
    first = results["gradients"][0]
    later = {"date": "2999-01-01", "gradients": [first | {"title": "new"}], "seconds": 1}
    found = page.renewed(results, later)
    assert found["gradients"][0] == first | {"title": "new", "date": "2999-01-01"}
    assert found["gradients"][1:] == results["gradients"][1:]
    assert found["seconds"] == results["seconds"]
    assert f"Measured again on 2999-01-01: {first['key']}." in page.rendered(found)


def test_missed_goal_is_named(results):
    slow = json.loads(json.dumps(results))
    contestants = slow["workloads"][0]["contestants"]
    contestants["generic"]["cpu_ms"] = contestants["authors"]["cpu_ms"]
    contestants["generic"]["error_eu"] = 1e-3
    slow["limits"]["million outcomes, memory"] = 1e4
    slow["growth"][0]["exponent"] = 1.5
    missed = "\n".join(findings.missed(slow))
    for words in (
        "W1, generic against authors: 1× of 8×",
        "W1: relative error of kuq: 0.001, goal 1e-13 at most",
        "million outcomes, memory: 10000, goal 300 MiB at most",
        "growth of a in n: exponent 1.50, expected 1",
    ):
        assert words in missed
        assert words in page.rendered(slow)
    assert "**MISSED**" in page.rendered(slow)
    assert "MISSED" in table.text(slow)


def test_exponents_have_three_verdicts():
    found = [findings.growth_verdict({"exponent": e, "expected": 1}) for e in (0.5, 0.9, 1.2, 1.3)]
    assert found == ["below", "ok", "ok", "MISSED"]


def test_goals_belong_to_workloads():
    known = {(w.key, peer) for w in WORKLOADS for peer in w.peers}
    cases = gradients.CASES + gradients.LOSSES
    known |= {(case.key, peer) for case in cases for peer in case.peers}
    trained = {
        (case.key, peer)
        for case in training.CASES
        for peer in set(case.build(True)) - set(findings.FORMS)
    }
    assert set(goals.TRAINING) <= trained
    assert {peer for _, peer in trained} == set(page.TRAINING_PEERS)
    assert set(goals.RATIOS) | set(goals.MEMORY_RATIOS) | set(page.README_ROWS) <= known
    assert set(goals.ERRORS) == {w.key for w in WORKLOADS}
    assert {peer for _, peer in known} == set(page.PEERS)
    assert len({w.key for w in WORKLOADS}) == len(WORKLOADS)


def test_numbers_in_tables():
    values = [None, 0, 1e-16, 0.123456, 8, 12.34, 35.0, 99.97, 1234.5, 2e6]
    words = "– 0 1e-16 0.123 8 12.3 35 100 1234 2e+06"
    assert " ".join(map(findings.number, values)) == words


# --- what is stored in the repository ------------------------------------------------------------


def test_stored_results_are_those_of_a_full_run():
    stored = page.stored()
    assert not stored["quick"]
    assert stored["repeats"] >= 5
    assert [w["key"] for w in stored["workloads"]] == [w.key for w in WORKLOADS]
    assert [c["key"] for c in stored["gradients"]] == [c.key for c in gradients.CASES]
    keys = [case.key for case in training.CASES]
    assert [c["key"] for c in stored.get("training", [])] in ([], keys)
    assert len(stored["growth"]) == len(growth.SERIES)
    assert set(goals.LIMITS) <= set(stored["limits"])


def test_pages_are_those_of_the_stored_results():
    stored = page.stored()
    docs = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert docs == page.rendered(stored)
    assert page.speed_table(stored) in readme
    assert readme == page.with_speed_table(readme, stored)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_stay_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 400
