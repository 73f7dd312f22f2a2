"""Experiment files: what they may hold, what they say when wrong, and a user's own."""

import dataclasses
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest

import kuq
from kuq.errors import ParameterError
from kuq_study import Store, known_names, model_settings, read_experiment, run
from kuq_study.cli import main
from kuq_study.procedure import procedure_of

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "study" / "experiments").glob("*.toml"))
PRESETS = ("smoke", "quick", "paper")

SMALL = """
experiment = "small"
procedure = "approximation"

[grid.a]
datasets = ["known"]
representations = ["normal"]
seeds = [0, 1]
scores = ["crps"]

[grid.a.evaluation]
points = 1
members = [2]
draws = [2]
cases = 5
bandwidth = 1.0

[preset.quick.grid.a]
seeds = [0]

[preset.quick.grid.a.evaluation]
cases = 3

[preset.quick.reasons]
"a.seeds" = "time"
"""


def written(folder, text, name="small.toml"):
    path = folder / name
    path.write_text(text)
    return path


def test_a_preset_changes_what_it_names_and_nothing_else(tmp_path):
    path = written(tmp_path, SMALL)
    paper, quick = read_experiment(path, "paper"), read_experiment(path, "quick")
    assert paper.deviations == ()
    assert paper.grids["a"].seeds == (0, 1)
    assert quick.grids["a"].seeds == (0,)
    assert dict(quick.grids["a"].evaluation) == {**paper.grids["a"].evaluation, "cases": 3}
    found = [(d.setting, d.paper, d.here, d.reason) for d in quick.deviations]
    assert found == [("a.seeds", "[0, 1]", "[0]", "time"), ("a.evaluation.cases", "5", "3", "")]
    assert read_experiment(path) == quick
    without = SMALL[: SMALL.index("[preset.")]
    assert read_experiment(written(tmp_path, without)).preset == "paper"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("seeds = [0, 1]", "seed = [0]", r"\[grid.a\] has no key 'seed'; it may have: data, "),
        ("cases = 5", "case = 5", r"\[grid.a.evaluation\] has no key 'case'; it may have: band"),
        ("seeds = [0, 1]", "seeds = ['a']", r"'seeds' of .* must be a list \(an integer ≥ 0"),
        ("seeds = [0, 1]", "seeds = [0, 0]", r"names something twice: \[0, 0\]"),
        ("seeds = [0, 1]", "", r"needs the key 'seeds'"),
        ("cases = 5", "cases = true", r"'cases' of .* must be an integer ≥ 1, got True"),
        ("bandwidth = 1.0", "", r"\[grid.a.evaluation\] needs the key 'bandwidth'"),
        ('"approximation"', '"approximatoin"', r"there is no procedure 'approximatoin'; there are"),
        ("[preset.quick.grid.a]", "[preset.quick.grid.b]", r"\[preset.quick.grid\] has no key 'b'"),
        ('"a.seeds" = "time"', '"a.sedes" = "x"', r"has no key 'a.sedes'"),
        ("[grid.a]", "[grid.a", "is not valid TOML"),
        ('experiment = "small"', "", "the file needs the key 'experiment'"),
        ('experiment = "small"', 'title = 3\nexperiment = "s"', "'title' of .* must be a string"),
    ],
)
def test_mistakes_are_named_with_their_place(tmp_path, before, after, message):
    assert before in SMALL
    path = written(tmp_path, SMALL.replace(before, after))
    with pytest.raises(ParameterError, match=message) as caught:
        read_experiment(path, "quick")
    assert str(path) in str(caught.value)


LEARNING = """
experiment = "learning"
procedure = "selective_prediction"

[grid.a]
datasets = ["yacht"]
representations = ["normal"]
seeds = [0]
scores = ["crps"]

[grid.a.model]
max_epochs = 5
"""


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"yacht"', '"yaht"', r"\[grid.a\] names the data set 'yaht', which is not known"),
        ('"normal"', '"gauss"', "names the representation 'gauss', .* normal, evidential"),
        ('"crps"', '"crsp"', "names the score 'crsp', .* log, squared, crps, energy, gaussian"),
        ("max_epochs", "epochs", r"'model' of \[grid.a\] has no key 'epochs'; it may have: activ"),
    ],
)
def test_names_are_checked_before_anything_runs(tmp_path, before, after, message):
    read_experiment(written(tmp_path, LEARNING))
    with pytest.raises(ParameterError, match=message):
        read_experiment(written(tmp_path, LEARNING.replace(before, after)))


def test_the_known_names_are_those_of_the_models():
    nn = pytest.importorskip("kuq.nn")
    keys = set(inspect.signature(nn.Regressor).parameters)
    # What a cell sets itself, and what belongs to one machine or needs an object.
    own = {"representation", "seed", "loss", "progress", "checkpoint", "checkpoint_every"}
    assert set(model_settings.MODEL_KEYS) == keys - own
    for name in known_names.REPRESENTATIONS:
        x = np.linspace(-1.0, 1.0, 20)[:, None]
        nn.Regressor(name, n_members=1, n_samples=2, max_epochs=1).fit(x, np.hstack([x, x]))


def test_code_that_is_not_there_is_named(tmp_path):
    start = SMALL.replace("[grid.a]", '[scores]\nmine = "ENTRY"\n\n[grid.a]', 1)
    for entry, message in (
        ("absent.py:f", "names the file 'absent.py', which is not in"),
        ("no colon", "must be 'file.py:name' or 'package.module:name'"),
    ):
        with pytest.raises(ParameterError, match=message):
            read_experiment(written(tmp_path, start.replace("ENTRY", entry)))
    path = written(tmp_path, start.replace("ENTRY", "kuq:Nothing").replace('"crps"', '"mine"'))
    summary = run([read_experiment(path)], tmp_path / "run", jobs=0)
    assert "kuq has no 'Nothing'" in summary.failed["small/a/known/normal/0"]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_experiments_of_the_paper_can_be_read(path, preset):
    experiment = read_experiment(path, preset)
    assert experiment.name == path.stem
    assert experiment.title
    cells = list(experiment.cells())
    assert cells
    assert len({cell.key for cell in cells}) == len(cells)
    json.dumps([cell.settings() for cell in cells])
    named = [d for d in experiment.deviations if d.setting]
    assert bool(named) == (preset != "paper")


def test_there_is_one_file_for_each_table_of_the_paper():
    assert {path.stem for path in FILES} == {
        "active_learning",
        "approximation",
        "ood_detection",
        "robustness",
        "runtime",
        "selective_prediction",
    }


@pytest.mark.parametrize("preset", PRESETS)
def test_what_two_experiments_ask_for_is_trained_once(preset):
    digests = {}
    for name in ("selective_prediction", "ood_detection"):
        cells = read_experiment(ROOT / "study" / "experiments" / f"{name}.toml", preset).cells()
        digests[name] = {
            (cell.dataset, procedure_of(cell).training_digest(cell))
            for cell in cells
            if "training" not in cell.grid  # the curve over training has models of its own
        }
    assert digests["ood_detection"]
    assert digests["ood_detection"] <= digests["selective_prediction"]


def test_a_curve_over_training_is_a_grid_for_each_length(tmp_path):
    text = """
        experiment = "small"
        procedure = "ood_detection"
        [grid.a]
        datasets = ["burgers"]
        representations = ["sampler"]
        seeds = [0]
        model.batch_size = 8
        evaluation.rtol = 1e-3
        [grid.b]
        like = "a"
        epochs = [1, 30]
    """
    path = written(tmp_path, text)
    grids = read_experiment(path, "paper").grids
    assert list(grids) == ["a", "b-1", "b-30"]
    for length in (1, 30):
        assert grids[f"b-{length}"] == dataclasses.replace(
            grids["a"],
            model={**grids["a"].model, "max_epochs": length},
            evaluation={**grids["a"].evaluation, "training": length},
        )
    for wrong in ("3", "[]", "[1.5]", '["many"]'):
        with pytest.raises(ParameterError, match=r"'epochs' of \[grid.b\] must be a list of whole"):
            read_experiment(written(tmp_path, text.replace("[1, 30]", wrong)))


def test_a_grid_can_be_like_another(tmp_path):
    text = SMALL.replace(
        "[preset.quick.grid.a]", '[grid.b]\nlike = "a"\nseeds = [7]\n\n[preset.quick.grid.a]'
    )
    path = written(tmp_path, text)
    paper, quick = read_experiment(path, "paper"), read_experiment(path, "quick")
    assert paper.grids["b"] == dataclasses.replace(paper.grids["a"], seeds=(7,))
    assert quick.grids["b"] == dataclasses.replace(quick.grids["a"], seeds=(7,))
    with pytest.raises(ParameterError, match="is like 'c', which must be a grid"):
        read_experiment(written(tmp_path, text.replace('like = "a"', 'like = "c"')))


def test_the_paper_has_its_sizes():
    """Members, components, rank, draws and shares as the paper states them."""
    grids = {path.stem: read_experiment(path, "paper").grids for path in FILES}
    for name in ("selective_prediction", "ood_detection"):
        for grid in grids[name].values():
            assert grid.model["n_members"] == 10
            if "evidential" in grid.representations:
                assert grid.model_for["evidential"]["n_members"] == 1
            if "mixture" in grid.representations:
                assert grid.model["n_components"] == 10
            if "low-rank" in grid.representations:
                assert grid.model["rank"] == 10
    draws = {name: grid.model["n_samples"] for name, grid in grids["selective_prediction"].items()}
    assert {size for name, size in draws.items() if name.startswith("tables")} == {50}
    assert (draws["burgers"], draws["kuramoto-sivashinsky"]) == (10, 10)
    assert (draws["depth"], draws["temperature"]) == (5, 5)
    tables = [g for name, g in grids["selective_prediction"].items() if name.startswith("tables")]
    assert sorted(grid.model["batch_size"] for grid in tables) == [32, 64, 128]
    assert len({dataset for grid in tables for dataset in grid.datasets}) == 7
    assert all(g.evaluation["members"] == [25, 5] for g in grids["robustness"].values())
    for grid in grids["active_learning"].values():
        assert grid.model["n_members"] == 5
        assert (grid.model["max_epochs"], len(grid.seeds)) == (50, 3)
        shares = (grid.evaluation[key] for key in ("initial", "batch", "rounds"))
        assert tuple(shares) == (0.05, 0.01, 20)


def test_an_experiment_of_ones_own(tmp_path, capsys):
    path = ROOT / "study" / "experiments" / "own" / "tides.toml"
    assert main(["run", str(path), "--out", str(tmp_path), "--jobs", "0"]) == 0
    assert "3 cells done (0 before), 0 failed" in capsys.readouterr().out
    with Store(tmp_path) as store:
        records = store.records()
    prr = {(r.score, r.seed): r.value for r in records if r.quantity == "prr"}
    assert {score for score, _ in prr} == {"crps", "gaussian", "two-scales"}
    # The same by hand: the user's data, model and score with kuq's protocol.
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("own_tides", path.with_name("tides.py"))
    own = module_from_spec(spec)
    spec.loader.exec_module(own)
    data = own.tides(None, 1, noise=0.2)
    model = own.BootstrappedLines(1, n_members=20).fit(data.train.x, data.train.y)
    gamma = kuq.median_bandwidth(data.train.y)
    u = kuq.decompose(model.predict_distribution(data.test.x), own.two_scales(gamma)).total
    error = (model.predict(data.test.x) - data.test.y) ** 2
    by_hand = kuq.protocols.selective_prediction(u, error).prr
    np.testing.assert_allclose(prr["two-scales", 1], by_hand, rtol=1e-12)
    stored = next(r.value for r in records if (r.quantity, r.seed) == ("bandwidth", 1))
    np.testing.assert_allclose(stored, gamma, rtol=1e-12)


def test_changed_code_of_ones_own_is_run_again(tmp_path):
    source = ROOT / "study" / "experiments" / "own"
    for name in ("tides.toml", "tides.py"):
        (tmp_path / name).write_text((source / name).read_text())
    run([read_experiment(tmp_path / "tides.toml")], tmp_path / "run", jobs=0)
    same = run([read_experiment(tmp_path / "tides.toml")], tmp_path / "run", jobs=0)
    assert (same.before, same.done) == (3, 0)
    code = tmp_path / "tides.py"
    code.write_text(code.read_text().replace("0.3 * np.sin", "0.6 * np.sin"))
    changed = run([read_experiment(tmp_path / "tides.toml")], tmp_path / "run", jobs=1)
    assert (changed.before, changed.done, changed.failed) == (0, 3, {})


def test_the_documentation_shows_the_experiment_that_is_tested():
    page = (ROOT / "docs" / "experiments.md").read_text()
    blocks = re.findall(r"```(?:python|toml)\n(.*?)```", page, flags=re.DOTALL)
    for name in ("tides.py", "tides.toml"):
        assert (ROOT / "study" / "experiments" / "own" / name).read_text() in blocks
