"""The catalogue, the command ``kuq data`` and its figures."""

import struct
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import kuq
from kuq.cli import main
from kuq.datasets import Dataset, Entry, Split, catalogue, load
from kuq.datasets.cache import DataError
from kuq.datasets.figures import save_figure
from kuq.datasets.rollouts import Rollouts
from kuq.datasets.summary import summary

matplotlib = pytest.importorskip("matplotlib")
SMALL = ["--set", "trajectories=10", "--set", "frames=4", "--set", "pairs=2"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def folder(tmp_path, cache, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUQ_CACHE", str(cache))
    monkeypatch.delenv("KUQ_DATA", raising=False)
    return tmp_path


def png_size(path):
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", data[16:24])


def run(capsys, *arguments):
    code = main(["data", *map(str, arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_all_data_sets_of_the_papers_tables_and_equations_are_there():
    tables = {"concrete", "energy", "kin8nm", "naval-propulsion-plant", "power-plant", "yacht"}
    tables |= {"protein-tertiary-structure", "diabetes"}
    functions = {"kuramoto-sivashinsky", "kuramoto-sivashinsky-small", "burgers"}
    known = catalogue()
    assert tables <= {name for name, entry in known.items() if entry.task == "table"}
    assert functions <= {name for name, entry in known.items() if entry.task == "function"}
    for name, entry in known.items():
        assert entry.name == name
        assert all((entry.title, entry.size, entry.licence, entry.source))


def test_list_names_sizes_and_licences(capsys):
    code, out, _ = run(capsys, "list")
    assert code == 0
    for entry in catalogue().values():
        row = next(line for line in out.splitlines() if line.startswith(f"{entry.label} "))
        assert entry.size in row
        assert entry.licence in row
    assert max(map(len, out.splitlines())) <= 100


def test_unknown_names_and_options():
    with pytest.raises(kuq.ParameterError, match=r"no data set 'yaht'; the names are .*yacht"):
        load("yaht")
    with pytest.raises(kuq.ParameterError, match="'scale'; it has standardise"):
        load("diabetes", scale=True)


def test_diabetes_needs_no_download():
    data = load("diabetes", seed=2)
    assert [len(s) for s in (data.train, data.validation, data.test)] == [358, 40, 44]
    assert data.name == "diabetes"
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True, scaled=False)
    raw = load("diabetes", standardise=False)
    rows = np.concatenate([s.x for s in (raw.train, raw.validation, raw.test)])
    np.testing.assert_array_equal(rows[np.lexsort(rows.T)], x[np.lexsort(x.T)])
    assert np.concatenate([s.y for s in (raw.train, raw.validation, raw.test)]).sum() == y.sum()


def test_show_a_table(capsys, folder):
    code, out, _ = run(capsys, "show", "diabetes", "--seed", 3)
    assert code == 0
    for words in ("diabetes", "train", "358", "44", "seed: 3", "figure: kuq-data-diabetes.png"):
        assert words in out
    assert min(png_size(folder / "kuq-data-diabetes.png")) > 300


def test_show_functions_in_and_out_of_distribution(capsys, folder):
    code, out, _ = run(capsys, "show", "kuramoto-sivashinsky-small", *SMALL, "--out", "a.svg")
    assert code == 0
    assert "kuramoto-sivashinsky-small" in out
    assert "shifted: length 80.0" in out
    assert (folder / "a.svg").read_text().count("<image") >= 6  # three rollouts of each
    code, out, _ = run(capsys, "fetch", "burgers", *SMALL)
    assert code == 0
    assert not list(folder.glob("*.png"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fetch", "nothing"], "there is no data set 'nothing'"),
        (["fetch", "yacht", "--data-dir", "nowhere"], "'nowhere', which is not a folder"),
        (["fetch", "burgers", "--set", "points=100"], "points must divide 256"),
        (["show", "burgers", "--set", "nu=0.3"], "no option 'nu'"),
    ],
)
def test_mistakes_are_explained(capsys, arguments, words):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert err.startswith("kuq: error: ")
    assert words in err


@pytest.mark.parametrize(
    "arguments",
    [[], ["fetch"], ["show", "diabetes", "--out", "a.txt"], ["fetch", "yacht", "--set", "points"]],
)
def test_wrong_usage(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        main(["data", *arguments])
    assert stop.value.code == 2


def made_up(task, synthetic):
    """A small data set of each task."""
    rng = np.random.default_rng(0)
    x, y = {
        "table": ((30, 4), (30,)),
        "function": ((30, 2, 16), (30, 16)),
        "image": ((30, 3, 8, 12), (30, 8, 12)),
    }[task]

    def split(spread):
        return Split(rng.normal(size=x), rng.normal(0, spread, y))

    shifted = None if task == "table" else split(3)
    return Dataset(
        "made", split(1), split(1), split(1), shifted, synthetic, "m", {"source": "here"}
    )


@pytest.mark.parametrize("task", ["table", "function", "image"])
@pytest.mark.parametrize("synthetic", [False, True])
def test_figures_say_what_is_synthetic(task, synthetic, folder):
    entry = Entry("made", load, "a", task, "b", "c", "d", synthetic)
    data = made_up(task, synthetic)
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        save_figure(entry, data, folder / "a.svg")
    text = (folder / "a.svg").read_text()
    assert ("made (synthetic)" in text) == synthetic
    assert ("out of distribution" in text) == (task != "table")
    assert summary(data).startswith("made (synthetic)" if synthetic else "made\n")
    assert ("(synthetic)" in entry.label) == synthetic


def test_figures_without_a_twin_or_with_other_channels(folder):
    data = made_up("image", False)
    gray = Split(data.test.x[:, :1], data.test.y)
    entry = Entry("made", load, "a", "image", "b", "c", "d")
    save_figure(entry, replace(data, test=gray, shifted=None), folder / "a.png")
    assert min(png_size(folder / "a.png")) > 300
    entry = replace(entry, task="function")
    save_figure(entry, replace(made_up("function", False), shifted=None), folder / "b.png")
    assert min(png_size(folder / "b.png")) > 300


def test_summary_counts_and_measures():
    data = made_up("table", False)
    lines = summary(data).splitlines()
    row = next(line.split() for line in lines if line.startswith("test"))
    assert row[1] == "30"
    assert float(row[3]) == pytest.approx(data.test.y.mean(), rel=1e-3)
    assert float(row[4]) == pytest.approx(data.test.y.std(), rel=1e-3)
    assert lines[-1] == "source: here"


def test_lazy_arrays_are_read_in_part():
    dask = pytest.importorskip("dask.array")
    data = made_up("image", True)
    lazy = Split(dask.from_array(data.test.x, chunks=5), dask.from_array(data.test.y, chunks=5))
    assert "30" in summary(replace(data, test=lazy))


def test_a_missing_library_is_named(monkeypatch, folder):
    import builtins

    real = builtins.__import__

    def without(name, *rest):
        if name.split(".")[0] in ("matplotlib", "sklearn"):
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    data = made_up("table", False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DataError, match=r'pip install "kuq\[plot\]"'):
        save_figure(Entry("made", load, "a", "table", "b", "c", "d"), data, folder / "a.png")
    with pytest.raises(DataError, match=r'pip install "kuq\[datasets\]"'):
        load("diabetes")


def test_import_needs_no_extra():
    code = "import sys, kuq.datasets; print(*{m.split('.')[0] for m in sys.modules})"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    extras = {"h5py", "matplotlib", "pandas", "pooch", "requests", "sklearn", "torch", "tqdm"}
    assert not extras & set(names.stdout.split())


def test_rollouts_are_those_of_the_paper():
    rollouts = catalogue()["burgers"].rollouts()
    assert isinstance(rollouts, Rollouts)
    assert rollouts.inside.shape == rollouts.outside.shape == (3, 41, 256)
    np.testing.assert_array_equal(rollouts.inside[:, 0], rollouts.outside[:, 0])
    steep = [np.abs(np.diff(u)).max() for u in (rollouts.inside[:, 2:], rollouts.outside[:, 2:])]
    assert steep[1] > 2 * steep[0]
