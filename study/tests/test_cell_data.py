"""What a cell's numbers depend on: its data too; and names that no two cells share."""

import numpy as np
import pytest
from tiny_procedure import write_experiment

from kuq.datasets import DataError, uci
from kuq.datasets.catalogue import source_digest
from kuq_study import Cell, Context, Store, read_experiment, run
from kuq_study.cli import main
from kuq_study.procedures import example_maps
from kuq_study.run_folder import read_fields

OWN = """
import numpy as np
import kuq
from kuq.datasets import Dataset, Split


def measured(data_dir, seed):
    rows = np.loadtxt(data_dir / "measured.csv", delimiter=",")
    order = np.random.default_rng(seed).permutation(len(rows))
    parts = [Split(rows[i, :-1], rows[i, -1]) for i in np.array_split(order, 3)]
    return Dataset("measured", *parts, None, False, "m", {})


class Line:
    def __init__(self, seed):
        pass

    def fit(self, x, y, validation=None):
        with open("TRAINED", "a") as file:
            file.write("once\\n")
        self.weights = np.linalg.lstsq(x, y, rcond=None)[0]
        return self

    def predict(self, x):
        return x @ self.weights

    def predict_distribution(self, x):
        return kuq.Ensemble(kuq.Normal(self.predict(x) + [[-0.1], [0.1]], 1.0))
"""

LEARNING = """
experiment = "own"
procedure = "selective_prediction"
datasets = {measured = "own.py:measured"}
models = {line = "own.py:Line"}

[grid.a]
datasets = ["measured"]
representations = ["line"]
seeds = [0, 1]
scores = ["crps"]
"""


def folder_of(path, slope):
    rng = np.random.default_rng(8)
    path.mkdir()
    x = rng.normal(size=(30, 2))
    y = x @ [1.0, slope] + 0.1 * rng.normal(size=30)
    np.savetxt(path / "measured.csv", np.column_stack([x, y]), delimiter=",")
    return path


def values(out):
    with Store(out) as store:
        return [r.value for r in store.records()]


def test_other_data_are_other_cells(tmp_path, capsys):
    code = OWN.replace('"TRAINED"', repr(str(tmp_path / "trained")))
    (tmp_path / "own.py").write_text(code)
    (tmp_path / "own.toml").write_text(LEARNING)
    a, b = folder_of(tmp_path / "A", 1.0), folder_of(tmp_path / "B", -3.0)

    def command(data, out):
        arguments = ["run", str(tmp_path / "own.toml"), "--jobs", "0", "--out", str(tmp_path / out)]
        assert main([*arguments, "--data-dir", str(data)]) == 0
        capsys.readouterr()
        return values(tmp_path / out)

    def trained():
        return len((tmp_path / "trained").read_text().splitlines())

    of_a, of_b = command(a, "only-a"), command(b, "only-b")
    assert of_a != of_b
    assert command(a, "run") == of_a
    assert trained() == 6
    assert command(a, "run") == of_a
    assert trained() == 6  # nothing has changed
    assert command(b, "run") == of_b
    assert trained() == 8
    assert command(a, "run") == of_a
    assert trained() == 8  # its predictions were kept
    (a / "measured.csv").write_text((b / "measured.csv").read_text())
    assert command(a, "run") == of_b


def test_data_that_are_gone_change_nothing_that_is_done(tmp_path, capsys):
    (tmp_path / "own.py").write_text(OWN.replace('"TRAINED"', repr(str(tmp_path / "trained"))))
    (tmp_path / "own.toml").write_text(LEARNING)
    a = folder_of(tmp_path / "A", 1.0)
    experiment = read_experiment(tmp_path / "own.toml")
    run([experiment], tmp_path / "run", jobs=0, data_dir=a)
    before = values(tmp_path / "run")
    (a / "measured.csv").unlink()
    summary = run([experiment], tmp_path / "run", jobs=0, data_dir=a)
    assert (summary.before, summary.done, len(summary.failed)) == (0, 0, 2)
    for message in summary.failed.values():
        assert "the data cannot be read, so that its results, which are kept" in message
        assert "measured.csv not found" in message
    assert values(tmp_path / "run") == before
    more = tmp_path / "own.toml"
    more.write_text(LEARNING.replace("[0, 1]", "[0, 1, 2]"))
    summary = run([read_experiment(more)], tmp_path / "run", jobs=0, data_dir=a)
    assert [key[-1] for key in summary.failed] == ["0", "1", "2"]
    assert values(tmp_path / "run") == before


def test_tables_of_another_folder(tmp_path, monkeypatch, capsys):
    """Numbers that differ are trained on; those that are not the table's are refused aloud."""
    pytest.importorskip("torch")
    monkeypatch.setenv("KUQ_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(7)
    numbers = rng.normal(size=(40, 7))
    for name, rows in (("a", numbers), ("b", numbers[:, ::-1])):
        (tmp_path / name).mkdir()
        uci.table_files.write(tmp_path / name / "yacht.csv.gz", rows)
    text = """
        experiment = "tables"
        procedure = "selective_prediction"
        [grid.a]
        datasets = ["yacht"]
        representations = ["normal"]
        seeds = [0]
        scores = ["crps"]
        model = {max_epochs = 1, n_members = 2}
        data.verify = false
    """
    path = tmp_path / "tables.toml"
    path.write_text(text)

    def command(folder, out="run"):
        arguments = ["run", str(path), "--jobs", "0", "--out", str(tmp_path / out)]
        code = main([*arguments, "--data-dir", str(tmp_path / folder)])
        return code, values(tmp_path / out), capsys.readouterr().err

    _, of_b, _ = command("b", "only-b")
    _, of_a, _ = command("a")
    assert of_a != of_b
    assert command("b")[:2] == (0, of_b)
    cut = (tmp_path / "a" / "yacht.csv.gz").read_bytes()[:-20]
    (tmp_path / "a" / "yacht.csv.gz").write_bytes(cut)
    code, kept, said = command("a")
    assert (code, kept) == (1, of_b)
    assert "may be those of other data (DataError" in said


def test_a_procedure_of_ones_own_may_read_anything_in_the_folder(tmp_path):
    log = tmp_path / "log"
    experiment = read_experiment(write_experiment(tmp_path, log=log))
    a, b = folder_of(tmp_path / "A", 1.0), folder_of(tmp_path / "B", 2.0)
    same = tmp_path / "same"
    same.mkdir()
    (same / "measured.csv").write_bytes((a / "measured.csv").read_bytes())
    for data, done in ((a, 4), (a, 0), (same, 0), (b, 4), (a, 4)):
        summary = run([experiment], tmp_path / "run", jobs=0, data_dir=data)
        assert summary.done == done
    assert len(log.read_text().splitlines()) == 8  # predictions of both folders were kept


def test_the_digest_of_a_table_is_that_of_its_numbers(tmp_path, monkeypatch):
    """Not that of the file: another order of rows and other gzip bytes are the same table."""
    monkeypatch.setenv("KUQ_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUQ_DATA", raising=False)
    rng = np.random.default_rng(5)
    numbers = rng.normal(size=(20, 7)).round(3)
    for name, rows in (("a", numbers), ("b", numbers[::-1]), ("c", numbers * 2)):
        (tmp_path / name).mkdir()
        uci.table_files.write(tmp_path / name / "yacht.csv.gz", rows)
    found = {
        name: source_digest("yacht", tmp_path / name, {"verify": False}) for name in ("a", "b", "c")
    }
    assert found["a"] == found["b"] != found["c"]
    known = next(table.sha256 for table in uci.TABLES if table.name == "yacht")
    assert source_digest("yacht", None, {}) == known  # what a download has to match
    assert source_digest("diabetes", tmp_path / "a", {}) == ""
    assert source_digest("burgers", tmp_path / "a", {}) == ""


def test_keys_of_different_cells_differ(tmp_path):
    """Slashes in names: e / g/h and e/g / h are two cells."""
    for folder, experiment, grid in (("1", "e", "g/h"), ("2", "e/g", "h")):
        (tmp_path / folder).mkdir()
        path = write_experiment(tmp_path / folder, datasets=("a",), seeds=(0,))
        text = path.read_text().replace('"tiny"', f'"{experiment}"')
        path.write_text(text.replace("[grid.lines]", f'[grid."{grid}"]'))
        run([read_experiment(path)], tmp_path / "run", jobs=0)
    with Store(tmp_path / "run") as store:
        assert [(c.experiment, c.grid, c.status) for c in store.cells()] == [
            ("e", "g/h", "done"),
            ("e/g", "h", "done"),
        ]
        assert len({c.key for c in store.cells()}) == 2
        assert len(store.records()) == 40


@pytest.mark.parametrize("name", ["a/b", "../../x", "a%2Fb"])
def test_fields_of_any_name_stay_in_the_folder(tmp_path, name):
    run_folder = tmp_path / "deep" / "run"
    maps = {f"example.test.{what}": np.eye(2) for what in example_maps._MAPS}
    cell = Cell("e", "g", name, "normal", 0, "selective_prediction")
    example_maps.save_examples(cell, maps, Context(run_folder, None, lambda *_: None))
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert file.parent == run_folder / "fields"
    found, problems = read_fields(run_folder / "fields")
    assert (set(found), problems) == ({file.stem}, ())


@pytest.mark.parametrize(
    ("dataset", "files"),
    [
        ("burgers", ["1D_Burgers_Sols_Nu0.1.hdf5", "1D_Burgers_Sols_Nu0.01.hdf5"]),
        ("depth", ["depth_train.h5", "depth_test.h5", "apolloscape_test.h5"]),
        ("temperature", [".zgroup", "2m_temperature/0.0"]),
    ],
)
def test_the_digest_of_files_is_that_of_their_bytes(tmp_path, dataset, files):
    found = set()
    for change in (None, *files):
        folder = tmp_path / str(change).replace("/", "-")
        for name in files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(b"other" if name == change else b"bytes")
        (folder / "beside.txt").write_text(str(change) if dataset != "temperature" else "")
        found.add(source_digest(dataset, folder, {}))
    assert len(found) == 1 + len(files)
    assert all(len(digest) == 64 for digest in found)


def test_data_that_are_nowhere_have_no_digest(tmp_path, monkeypatch):
    monkeypatch.delenv("KUQ_DATA", raising=False)
    for dataset in ("depth", "temperature"):
        for folder in (None, tmp_path, tmp_path / "missing"):
            with pytest.raises(DataError):
                source_digest(dataset, folder, {})
    address = {"store": "gs://weatherbench2/datasets/era5.zarr"}
    assert source_digest("temperature", None, address) == ""
