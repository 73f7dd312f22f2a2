"""The studies whose tables stand in the documentation: scores, batches, surety, networks."""

from types import SimpleNamespace

import numpy as np
import pytest

import kuq

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from benchmarks import batches, cells, hole, operators, plain_rejection, selection, surety

MODULES = (batches, hole, operators, plain_rejection, selection, surety)
STUDIES = {module.STUDY.name: module.STUDY for module in MODULES}


@pytest.mark.parametrize("name", STUDIES)
def test_pages_are_made_from_the_stored_cells(name):
    study = STUDIES[name]
    assert study.shown() == study.rendered(study.stored())


def test_a_choice_is_never_worse_than_the_usual_score_beyond_its_interval():
    rows = [cell[task] for cell in selection.STUDY.stored().values() for task in selection.TASKS]
    assert len(rows) >= 150
    assert not any(row["high"] < 0 for row in rows)
    other = [row for row in rows if row["chosen"] != selection.USUAL]
    assert sum(row["low"] > 0 for row in other) > len(other) / 2


def test_controls_give_the_usual_score():
    """At a level of 5 %, twice as many others at most; contrary ones are never taken."""
    every = selection.STUDY.stored().values()
    unrelated = [cell["unrelated"]["chosen"] != selection.USUAL for cell in every]
    assert np.mean(unrelated) <= 0.1
    assert all(cell["contrary"]["chosen"] == selection.USUAL for cell in every)


def test_batches_have_ten_seeds_and_rules_that_start_alike():
    found = batches.STUDY.stored()
    assert len(found) == 10 * len(batches.TABLES) * len(batches.LEARNERS)
    for cell in found.values():
        assert {len(errors) for errors in cell.values()} == {1 + batches.LABELS["rounds"]}
        assert len({errors[0] for errors in cell.values()}) == 1


def test_standard_errors_are_within_a_tenth_and_levels_within_a_hundredth():
    found = surety.STUDY.stored()
    assert set(found) == set(surety.asked())
    ratios = [
        ratio
        for key, parts in found.items()
        if key.startswith("error|")
        for ratio in parts.values()
        if ratio is not None
    ]
    assert len(ratios) >= 80
    assert max(abs(ratio - 1) for ratio in ratios) <= 0.1
    for key, shares in found.items():
        if key.startswith("level|"):
            # Ties of whole numbers make the test more careful, never less.
            lowest = 0.0 if "whole" in key else surety.LEVEL - 0.01
            assert all(lowest <= share <= surety.LEVEL + 0.01 for share in shares.values()), key
        if key.startswith("power|"):
            assert all(np.all(np.diff(curve) > -0.02) for curve in shares.values())
        if key.startswith("within|"):
            assert min(shares.values()) >= 0.99


def test_flows_are_near_samplers_in_the_same_time():
    found = operators.STUDY.stored()
    for equation in operators.EQUATIONS:
        for seed in operators.SEEDS:
            sampler, flow = (found[f"{equation} {seed} {which}"] for which in ("sampler", "flow"))
            assert flow["error"] <= 1.2 * sampler["error"]
            assert flow["cpu_s"] <= 1.1 * sampler["cpu_s"]


def test_the_ratio_of_rejection_follows_the_training():
    """Better trained networks have the larger ratio, by far more than splits differ."""
    found = plain_rejection.STUDY.stored()
    best, worst = (found[key] for key in list(plain_rejection.VARIANTS)[2:])
    assert np.mean(best["mse"]) < np.mean(worst["mse"]) / 10
    gaps = np.subtract(best["prr"], worst["prr"])
    assert np.mean(gaps) > 5 * np.std(gaps, ddof=1) / np.sqrt(len(gaps))


def test_a_page_may_have_several_tables(tmp_path):
    page = tmp_path / "page.md"
    first, second = (
        cells.Study(name, "", tmp_path / f"{name}.json", page, lambda found, name=name: name)
        for name in ("x", "y")
    )
    page.write_text("\n".join([*first.marks, "between", *second.marks, "below"]))
    for study in (first, second, first):
        assert study.command(lambda options: {}, ["--render"]) == 0
    assert (first.shown(), second.shown()) == ("x", "y")
    assert page.read_text().endswith("below")
    assert "between" in page.read_text()


def test_cells_are_kept_and_not_run_again(tmp_path):
    page = tmp_path / "page.md"
    study = cells.Study("x", "", tmp_path / "x.json", page, lambda found: str(sorted(found)))
    page.write_text("above\n{}\n{}\nbelow\n".format(*study.marks), encoding="utf-8")
    ran = []

    def asked(options):
        return {f"cell {k}": lambda k=k: ran.append(k) or {"k": k} for k in range(options.runs)}

    assert study.command(asked, [], runs=2) == 0
    assert study.command(asked, ["--runs", "3"], runs=2) == 0
    assert ran == [0, 1, 2]
    assert study.stored()["cell 2"] == {"k": 2}
    assert study.command(asked, ["--render", "--runs", "9"], runs=2) == 0
    assert study.shown() == "['cell 0', 'cell 1', 'cell 2']"
    assert page.read_text(encoding="utf-8").startswith("above\n")
    assert page.read_text(encoding="utf-8").endswith("below\n")


def test_outcomes_of_the_controls():
    rng = np.random.default_rng(0)
    law = kuq.Ensemble(kuq.Normal(rng.normal(size=(3, 50)), rng.gamma(2.0, size=50)))
    y = law.mean() + rng.normal(size=50)
    for task in selection.CONTROLS:
        made = selection.control(task, law, y, rng)
        np.testing.assert_allclose(
            np.sort(np.abs(made - law.mean())), np.sort(np.abs(y - law.mean())), rtol=1e-9
        )
    order = np.argsort(kuq.decompose(law, "crps").total)
    errors = np.abs(made - law.mean())[order]
    assert np.all(np.diff(errors) <= 1e-12)


@pytest.fixture
def small_table(monkeypatch):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(90, 3))
    y = x[:, 0] + 0.1 * rng.normal(size=90)
    parts = [SimpleNamespace(x=x[rows], y=y[rows]) for rows in np.split(np.arange(90), (60, 75))]
    data = SimpleNamespace(train=parts[0], validation=parts[1], test=parts[2])
    monkeypatch.setattr(kuq.datasets, "load", lambda name, data_dir=None: data)
    return x, y


def test_rows_are_split_into_parts_that_do_not_meet(small_table):
    x, _ = small_table
    rows = selection.rows_of("any", None, 0)
    assert {part: len(own[1]) for part, own in rows.items()} == {
        "train": 36,
        "choose": 18,
        "judge": 18,
        "outside": 18,
    }
    every = np.concatenate([own[0] for own in rows.values()])
    assert np.array_equal(np.sort(every, axis=0), np.sort(x, axis=0))


def test_curves_of_batches(small_table, monkeypatch):
    monkeypatch.setattr(batches, "LABELS", {"initial": 10, "batch": 5, "rounds": 1})
    found = batches.curves("any", "forest", 0, None)
    assert set(found) == set(batches.RULES)
    assert len({errors[0] for errors in found.values()}) == 1
    assert all(len(errors) == 2 for errors in found.values())


def test_an_experiment_that_is_repeated_a_few_times():
    found = surety.ratios("points", "squared", trials=400)
    assert found["aleatoric"] is None
    assert 0.7 < found["epistemic"] < 1.4
    assert set(surety.level("normal", "crps", tests=20)) == {"all", "farthest"}
    assert len(surety.power(5, tests=4)["all"]) == len(surety.SHIFTS)
    assert set(surety.within("energy", repeats=2).values()) <= {0.0, 0.5, 1.0}
