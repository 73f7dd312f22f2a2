"""Values that no setting can have: one line with the file, the setting and what is allowed."""

import dataclasses
import inspect
from pathlib import Path

import pytest

from kuq.errors import ParameterError
from kuq.kernels.names import as_score
from kuq_study import known_names, model_settings, read_experiment
from kuq_study.cli import main
from kuq_study.learners import make_model

LEARNING = """
experiment = "small"
procedure = "{procedure}"

[grid.a]
datasets = ["{dataset}"]
representations = ["normal"]
seeds = [0]
scores = ["crps"]
"""
#: A grid with what each procedure needs.
NEEDED = {
    "robustness": 'evaluation.setting = "x"\n',
    "approximation": "evaluation = {points = 1, members = [2], draws = [2], cases = 2,"
    " bandwidth = 1.0}\n",
    "runtime": "evaluation = {shape = [2], cases = 2, members = [2], draws = [2]}\n",
}


def file_with(folder, line, procedure="selective_prediction", dataset="diabetes"):
    text = LEARNING.format(procedure=procedure, dataset=dataset)
    name = line.split("=")[0].strip()
    if name in ("seeds", "scores", "datasets", "representations"):
        text = "\n".join(t for t in text.splitlines() if not t.startswith(name))
    path = folder / "small.toml"
    path.write_text(f"{text}\n{line}\n")
    return path


ONE_LINE = [
    ("train_rows = -300", "'train_rows' of [grid.a] must be an integer ≥ 1, got -300"),
    ("train_rows = 0", "'train_rows' of [grid.a] must be an integer ≥ 1, got 0"),
    ("train_rows = 2.5", "'train_rows' of [grid.a] must be an integer ≥ 1, got 2.5"),
    ("seeds = [-1]", "each item of 'seeds' of [grid.a] must be an integer ≥ 0"),
    ("seeds = [12345678901234567890]", "'grid.a.seeds' must be"),
    ("seeds = [[0]]", "'seeds' of [grid.a] must be a list"),
    ("seeds = 2026-11-16", "'grid.a.seeds' must be"),
    ("data.standardise = 2026-11-16T10:00:00", "'grid.a.data.standardise' must be"),
    ("model.learning_rate = nan", "'grid.a.model.learning_rate' must be"),
    ("model.learning_rate = inf", "'grid.a.model.learning_rate' must be"),
    ("model.learning_rate = 1e999", "'grid.a.model.learning_rate' must be"),
    ("model.learning_rate = 0.0", "'learning_rate' of 'model' of [grid.a] must be a number > 0"),
    ("model.learning_rate = [0.1]", "must be a number > 0, got [0.1]"),
    ("model.max_epochs = -1", "'max_epochs' of 'model' of [grid.a] must be an integer ≥ 1"),
    ("model.max_epochs = 10:00:00", "'grid.a.model.max_epochs' must be"),
    ("model.batch_size = 0", "'batch_size' of 'model'"),
    ("model.n_members = 0", "must be an integer ≥ 1 or 'never', got 0"),
    ("model.n_samples = 1", "must be an integer ≥ 2, got 1"),
    ("model.patience = 'no'", "must be an integer ≥ 1 or 'never', got 'no'"),
    ("model.burn_in = -1", "must be an integer ≥ 0"),
    ("model.validation_fraction = 1.0", "must be a number ≥ 0 and < 1, got 1.0"),
    ("model.hidden_sizes = []", "of length ≥ 1, got []"),
    ("model.hidden_sizes = [5, -1]", "each item of 'hidden_sizes'"),
    ("model.activation = 'sin'", "must be 'gelu' or 'relu'"),
    ("model.backbone = {kind = ['fno']}", "'backbone.kind' of 'model' of [grid.a] must be one of"),
    ("model.backbone = {kind = 'fno', modes = -3}", "'modes' of 'backbone' of 'model'"),
    ("model.backbone = {kind = 'convnext', depths = [1, 2]}", "must be a list of 4"),
    ("model_for.normal.rank = 0", "'rank' of 'model_for.normal' of [grid.a]"),
    ("evaluation.retention = [0.5]", "'retention' of [grid.a.evaluation] must be a list of 2"),
    ("evaluation.retention = [0.5, 1.5]", "must be a number ≥ 0 and ≤ 1, got 1.5"),
    ("evaluation.retention = [0.9, 0.5]", "the smaller first, got (0.9, 0.5)"),
    ("evaluation.component = 'both'", "must be 'aleatoric' or 'epistemic' or 'total'"),
    ("evaluation.bandwidth = -1.0", "or a number > 0 or a table, got -1.0"),
    ("evaluation.bandwidth = 'mean'", "must be 'training-targets' or"),
    ("evaluation.bandwidth = {diabetes = 0}", "'bandwidth' of [grid.a.evaluation].diabetes must"),
    ("evaluation.draws = -5", "must be an integer ≥ 0, got -5"),
    ("evaluation.rtol = 0.0", "must be a number > 0 and < 1"),
    ("evaluation.curve_points = 1", "must be an integer ≥ 2"),
    ("data.standardise = 'yes'", "'standardise' of 'data' of [grid.a] for 'diabetes' must be true"),
    ("data.colour = 1", "has no key 'colour'"),
    ("like = ['a']", "is like ['a'], which must be a grid"),
    ("epochs = [0]", "must be a list of whole numbers ≥ 1"),
    ("epochs = [2, 2]", "all different"),
    ("scores = ['a\\nb']", "each name in [grid.a] must be a name"),
    ("scores = ['']", "each name in [grid.a] must be a name"),
    (f"scores = ['{'x' * 60}']", "must be a name of 1 to 48 bytes"),
    ('representations = ["a\\u0000b"]', "must be a text without NUL"),
    ("seeds = [" + "1" * 5000 + "]", "is not valid TOML"),
    ("x = " + "[" * 20000, "is not valid TOML"),
]


@pytest.mark.parametrize(("line", "message"), ONE_LINE, ids=lambda text: text[:40])
def test_one_line_and_code_2(tmp_path, capsys, line, message):
    path = file_with(tmp_path, line.replace("'", '"') if "'" in line else line)
    out = tmp_path / "run"
    assert main(["run", str(path), "--out", str(out), "--jobs", "0"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("kuq-study: error: ")
    assert said.count("\n") == 1
    assert str(path) in said
    assert message in said
    assert not out.exists()


OF_PROCEDURES = [
    ("ood_detection", "evaluation.resamples = -1"),
    ("ood_detection", "evaluation.training = -1.0"),
    ("active_learning", "evaluation.initial = 1.5"),
    ("active_learning", "evaluation.batch = 0.0"),
    ("active_learning", "evaluation.rounds = -1"),
    ("active_learning", "evaluation.candidates = -3"),
    ("active_learning", "evaluation.test_rows = -300"),
    ("robustness", "evaluation.members = [1]"),
    ("robustness", "evaluation.members = []"),
    ("robustness", "evaluation.deltas = [-0.5]"),
    ("approximation", "evaluation.points = 0"),
    ("approximation", "evaluation.members = []"),
    ("approximation", "evaluation.draws = [1]"),
    ("approximation", "evaluation.cases = 0"),
    ("runtime", "evaluation.shape = [0]"),
    ("runtime", "evaluation.repeats = 0"),
]


@pytest.mark.parametrize(("procedure", "line"), OF_PROCEDURES)
def test_numbers_of_every_procedure(tmp_path, procedure, line):
    read_experiment(file_with(tmp_path, NEEDED.get(procedure, ""), procedure))
    needed = NEEDED.get(procedure, "")
    name, value = (part.strip() for part in line.removeprefix("evaluation.").split("="))
    if needed.startswith("evaluation = "):
        kept = [
            part
            for part in needed[needed.index("{") + 1 : needed.index("}")].split(", ")
            if not part.strip().startswith(name)
        ]
        kept = ", ".join([*kept, f"{name} = {value}"])
        text = f"evaluation = {{{kept}}}"
    else:
        text = f"{needed}{line}"
    with pytest.raises(ParameterError, match=f"{name!r} of .* must be") as caught:
        read_experiment(file_with(tmp_path, text, procedure))
    assert value.strip("[]") in str(caught.value)


OF_DATA = [
    ("burgers", "trajectories = -5"),
    ("burgers", "viscosity = 0.0"),
    ("burgers", "frames = 2"),
    ("kuramoto-sivashinsky", "simulation_seed = -1"),
    ("kuramoto-sivashinsky-small", "pairs = 0"),
    ("depth", "shape = [0, 10]"),
    ("depth-synthetic", "shape = [4, 4]"),
    ("depth-synthetic", "sizes = [1, 2, 3]"),
    ("reanalysis", "test_years = [2008]"),
    ("temperature", "stride = 0"),
    ("temperature", "train_years = 2011"),
    ("yacht", "verify = 0"),
]


@pytest.mark.parametrize(("dataset", "line"), OF_DATA)
def test_numbers_of_every_data_set(tmp_path, dataset, line):
    name = line.split(" ")[0]
    with pytest.raises(ParameterError, match=f"{name!r} of 'data' of .* for {dataset!r} must be"):
        read_experiment(file_with(tmp_path, f"data.{line}", dataset=dataset))


def test_a_grid_of_a_curve_cannot_hide_another(tmp_path):
    path = file_with(tmp_path, "epochs = [1, 2]", "ood_detection")
    path.write_text(path.read_text() + '[grid."a-1"]\nlike = "a"\n')
    with pytest.raises(ParameterError, match="makes a grid a-1, and there is one of that name"):
        read_experiment(path)


def test_code_that_cannot_be_imported_is_told(tmp_path, capsys):
    (tmp_path / "own.py").write_text("this is no Python\n")
    path = tmp_path / "own.toml"
    path.write_text(LEARNING.format(procedure="own.py:mine", dataset="x"))
    assert main(["run", str(path), "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "cannot be imported: SyntaxError" in said
    assert said.count("\n") == 1


def test_the_keys_of_backbones_are_theirs():
    nn = pytest.importorskip("kuq.nn")
    for kind, name in (("mlp", "MLP"), ("fno", "FNO"), ("convnext", "ConvNeXt")):
        known = {field.name for field in dataclasses.fields(model_settings.BACKBONES[kind])}
        assert known - {"kind"} == {field.name for field in dataclasses.fields(getattr(nn, name))}


#: What says nothing about what a model learns.
OF_ONE_RUN = {"checkpoint", "checkpoint_every", "progress", "representation", "seed"}


@pytest.mark.parametrize("backbone", ["mlp", "fno", "efficientnet-lite0"])
@pytest.mark.parametrize("representation", known_names.REPRESENTATIONS)
def test_no_setting_of_a_model_is_left_to_the_defaults_of_kuq(representation, backbone):
    """They may get better, and the paper stays what it is; a new setting needs a value here."""
    nn = pytest.importorskip("kuq.nn")
    said = model_settings.recipe(representation, {"backbone": backbone})
    asked = set(inspect.signature(nn.Regressor).parameters)
    of_tables = {field.name for field in dataclasses.fields(nn.MLP)}
    elsewhere = set() if backbone == "mlp" else of_tables
    assert asked - said.keys() == OF_ONE_RUN | set(model_settings.OF_THE_MACHINE) | elsewhere
    assert said.keys() <= asked
    chosen_by_kuq = {name for name, value in said.items() if value is None}
    # These are off; the losses that are None have no name, and a test of kuq's networks knows them.
    nameless = {"evidential", "low-rank", "flow"}
    off = {"averaging", "loss"} if representation in nameless else {"averaging"}
    assert chosen_by_kuq == off
    if backbone == "mlp":
        assert said["norm"] == (
            "none" if representation in ("normal", "evidential", "low-rank") else "layer"
        )
    else:
        kind, settings = model_settings.backbone_settings(said["backbone"], "'model'")
        assert kind == backbone
        body = nn.FNO if kind == "fno" else nn.EfficientNetLite0
        assert settings.keys() == {field.name for field in dataclasses.fields(body)}
        if kind != "fno":
            assert settings["noise_at"] == ("decoder" if representation == "flow" else "inputs")


@pytest.mark.parametrize("place", ["decoder", "inputs"])
def test_a_file_may_say_where_noise_is_joined(place):
    backbone = {"kind": "convnext", "noise_at": place}
    for representation in ("sampler", "flow"):
        said = model_settings.recipe(representation, {"backbone": backbone})
        assert model_settings.backbone_settings(said["backbone"], "'model'")[1]["noise_at"] == place
    backbone["noise_at"] = "middle"
    with pytest.raises(ParameterError, match=r"'noise_at' of 'backbone' .* 'decoder' or 'inputs'"):
        model_settings.check_model({"backbone": backbone}, "'model'")


def test_what_a_file_says_is_said_to_the_model():
    table = {"n_members": 3, "patience": "never", "device": "cpu", "noise_channels": 2}
    said = model_settings.recipe("sampler", table)
    assert {name: said[name] for name in table} == {**table, "patience": None}


@pytest.mark.parametrize(
    ("representation", "score"),
    [("normal", "LogScore()"), ("mixture", "CRPS()"), ("sampler", "Energy(beta=1.0)")],
)
def test_losses_are_those_the_paper_names(representation, score):
    """Those with a name; the energy score of a number is its CRPS."""
    loss = model_settings.recipe(representation, {})["loss"]
    assert repr(as_score(loss)) == score


def test_models_are_trained_as_in_the_paper_on_the_networks_of_the_paper():
    """Samplers and mixtures with layer norms and noise after the first layer, the others plain."""
    pytest.importorskip("kuq.nn")
    path = Path(__file__).parents[1] / "experiments" / "active_learning.toml"
    cells = [cell for cell in read_experiment(path).cells() if cell.dataset == "yacht"]
    for name in ("normal", "evidential", "mixture", "sampler"):
        cell = next(cell for cell in cells if cell.representation == name)
        model = make_model(cell, 0)
        assert not model.annealing
        assert model.averaging is None
        assert model.natural
        body = model._network((6,), ()).body
        assert len(body.norms) == 2 * (name in ("mixture", "sampler"))
        assert [layer.inputs for layer in body.layers] == [6, 50 + 16 * (name == "sampler")]


def test_the_files_of_the_project_are_within_the_ranges():
    for path in sorted((Path(__file__).parents[1] / "experiments").rglob("*.toml")):
        read_experiment(path)
