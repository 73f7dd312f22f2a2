"""The runner: failures, deaths and full disks end one cell, not the run; jobs change no number."""

import errno
import io
import re

import numpy as np
import pytest
from tiny_procedure import write_experiment

import kuq
from kuq.errors import ParameterError
from kuq_study import Procedure, Store, StoreError, arrays, read_experiment, run, worker
from kuq_study.cli import main
from kuq_study.lock import locked
from kuq_study.progress import Progress
from kuq_study.records import Record


def results(folder):
    with Store(folder) as store:
        return store.records(), {c.key.split("/")[2]: c.status for c in store.cells()}


def test_records_are_those_of_the_library(tmp_path):
    run([read_experiment(write_experiment(tmp_path))], tmp_path / "run", jobs=0)
    records, _ = results(tmp_path / "run")
    assert len(records) == 2 * 2 * 2 * 2 * 5
    with Store(tmp_path / "run") as store:
        (state, *_) = store.cells()
    file = tmp_path / "run" / "predictions" / f"{state.predictions}.npz"
    kept = arrays.load_arrays(file, state.predictions)
    u = kuq.decompose(kuq.Ensemble(kuq.Normal(kept["mean"], kept["scale"])), kuq.CRPS())
    first = [r for r in records if (r.dataset, r.seed, r.score) == ("a", 0, "crps")]
    # Compiled code may have served one of them: the last digits may differ.
    np.testing.assert_allclose([r.value for r in first], [*u.aleatoric, *u.epistemic], rtol=1e-12)


def test_the_number_of_jobs_changes_no_number(tmp_path):
    experiment = read_experiment(write_experiment(tmp_path))
    for jobs in (0, 2):
        summary = run([experiment], tmp_path / f"run{jobs}", jobs=jobs)
        assert (summary.before, summary.done, summary.failed) == (0, 4, {})
    assert results(tmp_path / "run0") == results(tmp_path / "run2")


def test_what_is_done_is_not_done_again(tmp_path):
    log = tmp_path / "log"
    for seeds, before, done in (((0,), 0, 2), ((0, 1), 2, 2), ((0, 1), 4, 0)):
        experiment = read_experiment(write_experiment(tmp_path, seeds=seeds, log=log))
        summary = run([experiment], tmp_path / "run", jobs=0)
        assert (summary.before, summary.done) == (before, done)
    assert len(log.read_text().splitlines()) == 4


def test_one_data_set_now_and_the_rest_later(tmp_path, capsys):
    path, out = str(write_experiment(tmp_path, log=tmp_path / "log")), str(tmp_path / "run")
    assert main(["run", path, "--jobs", "0", "--out", out, "--only", "bb"]) == 0
    assert "2 cells done (0 before)" in capsys.readouterr().out
    some, status = results(out)
    assert status == {"a": "pending", "bb": "done"}
    assert {record.dataset for record in some} == {"bb"}
    assert main(["run", path, "--jobs", "0", "--out", out, "--only", "bb", "--only", "a"]) == 0
    assert "4 cells done (2 before)" in capsys.readouterr().out
    run([read_experiment(path)], tmp_path / "whole", jobs=0)
    assert results(out) == results(tmp_path / "whole")
    assert main(["run", path, "--out", out, "--only", "c"]) == 2
    said = (
        "only: ['c'] are no data sets of these experiments at the preset 'paper'; there are: a, bb"
    )
    assert said in capsys.readouterr().err


def test_damaged_predictions_are_made_again(tmp_path):
    log = tmp_path / "log"
    path = write_experiment(tmp_path, seeds=(0,), log=log)
    run([read_experiment(path)], tmp_path / "run", jobs=0)
    before, _ = results(tmp_path / "run")
    kept = sorted((tmp_path / "run" / "predictions").iterdir())[0]
    kept.write_bytes(kept.read_bytes()[:-100])
    (tmp_path / "run" / "results.sqlite").unlink()
    run([read_experiment(path)], tmp_path / "run", jobs=0)
    assert results(tmp_path / "run")[0] == before
    assert len(log.read_text().splitlines()) == 3


@pytest.mark.parametrize("jobs", [0, 2])
def test_a_cell_that_raises_is_reported_and_the_rest_goes_on(tmp_path, jobs, capsys):
    path = write_experiment(tmp_path, datasets=("a", "bb", "ccc"), seeds=(0,), raises="bb")
    out = tmp_path / "run"
    assert main(["run", str(path), "--out", str(out), "--jobs", str(jobs)]) == 1
    said = capsys.readouterr()
    assert "tiny/lines/bb/normal/0 failed:" in said.err
    assert "the moon is not where it should be" in said.err
    assert "2 cells done (0 before), 1 failed" in said.out
    records, status = results(out)
    assert status == {"a": "done", "bb": "failed", "ccc": "done"}
    assert {record.dataset for record in records} == {"a", "ccc"}
    with Store(out) as store:
        message = store.cells()[1].message
    assert message.startswith("Traceback")
    assert "in predict" in message


def test_a_failed_cell_is_tried_again(tmp_path):
    path = write_experiment(tmp_path, seeds=(0,), full="bb")
    summary = run([read_experiment(path)], tmp_path / "run", jobs=0)
    assert list(summary.failed) == ["tiny/lines/bb/normal/0"]
    assert "No space left on device" in summary.failed["tiny/lines/bb/normal/0"]
    again = run([read_experiment(path)], tmp_path / "run", jobs=0)
    assert (again.before, again.done, len(again.failed)) == (1, 0, 1)
    fixed = run([read_experiment(write_experiment(tmp_path, seeds=(0,)))], tmp_path / "run", jobs=0)
    assert fixed.failed == {}
    assert results(tmp_path / "run")[1] == {"a": "done", "bb": "done"}


def test_a_disk_that_is_full_for_predictions_fails_cells_one_by_one(tmp_path, monkeypatch):
    write = arrays._write_npz

    def until_full(file, parts):
        if len(list((tmp_path / "run" / "predictions").glob("*.npz"))) >= 2:
            file.write(b"half of")
            raise OSError(errno.ENOSPC, "No space left on device")
        write(file, parts)

    monkeypatch.setattr(arrays, "_write_npz", until_full)
    experiment = read_experiment(write_experiment(tmp_path))
    summary = run([experiment], tmp_path / "run", jobs=0)
    assert (summary.done, len(summary.failed)) == (2, 2)
    left = sorted(path.suffix for path in (tmp_path / "run" / "predictions").iterdir())
    assert left == [".npz", ".npz"]
    assert len(results(tmp_path / "run")[0]) == 2 * 20
    monkeypatch.undo()
    summary = run([experiment], tmp_path / "run", jobs=0)
    assert (summary.before, summary.done, summary.failed) == (2, 2, {})


def test_a_disk_that_is_full_for_the_store_stops_the_run_and_keeps_the_rest(
    tmp_path, monkeypatch, capsys
):
    path = write_experiment(tmp_path)
    save, calls = Store.save, []

    def until_full(self, result):
        calls.append(result)
        if len(calls) == 3:
            pages = self._connection.execute("PRAGMA page_count").fetchone()[0]
            self._connection.execute(f"PRAGMA max_page_count = {pages}")
            many = result.records * 500
            result = worker.CellResult(result.cell, many)
        save(self, result)

    monkeypatch.setattr(Store, "save", until_full)
    arguments = ["run", str(path), "--out", str(tmp_path / "run"), "--jobs", "0"]
    assert main(arguments) == 2
    assert "Free space on the disk and start the same command again" in capsys.readouterr().err
    assert len(results(tmp_path / "run")[0]) == 2 * 20
    monkeypatch.undo()
    assert main(arguments) == 0
    assert "4 cells done (2 before), 0 failed" in capsys.readouterr().out


def test_a_process_that_dies_fails_its_cell_alone(tmp_path):
    path = write_experiment(tmp_path, datasets=("a", "bb", "ccc", "dddd"), seeds=(0,), dies="bb")
    summary = run([read_experiment(path)], tmp_path / "run", jobs=2)
    assert list(summary.failed) == ["tiny/lines/bb/normal/0"]
    assert "died without a word" in summary.failed["tiny/lines/bb/normal/0"]
    assert summary.done == 3


def test_one_run_at_a_time(tmp_path):
    experiment = read_experiment(write_experiment(tmp_path))
    run([experiment], tmp_path / "run", jobs=0)
    with (
        locked(tmp_path / "run"),
        pytest.raises(StoreError, match="another kuq-study run works in"),
    ):
        run([experiment], tmp_path / "run", jobs=0)
    run([experiment], tmp_path / "run", jobs=0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_of_the_whole_and_of_cells(tmp_path, monkeypatch):
    experiment = read_experiment(write_experiment(tmp_path))
    cells = list(experiment.cells())
    stream, seen = Terminal(), []
    progress = Progress(stream)
    (tmp_path / "progress").mkdir()

    def predict(cell, context):
        context.report("fits", 2 / 3)
        context.report("fits", 0.9)  # too soon to be worth a note
        progress.running([cell], tmp_path)
        seen.append(stream.getvalue().split("\r")[-1])
        return {}

    monkeypatch.setattr(worker, "procedure_of", lambda cell: Procedure(predict, lambda *_: []))
    progress.begin(4, 1)
    for cell in cells[1:3]:
        progress.cell(worker.run_cell(worker.Task(cell, tmp_path, None, {})))
    assert stream.getvalue().startswith("4 cells, 1 of them done before\n")
    assert seen[0].endswith("1/4 done | lines/bb/normal/0 fits 67% (0.0 s)")
    assert re.search(r"\n2/4 done, about .* left \| lines/a/normal/1 fits 67% \(0.0 s\)$", seen[1])
    assert "[2/4] tiny/lines/bb/normal/0: done in " in stream.getvalue()
    assert list((tmp_path / "progress").iterdir()) == []


def test_without_a_terminal_progress_is_a_line_per_cell(tmp_path):
    stream = io.StringIO()
    experiment = read_experiment(write_experiment(tmp_path, raises="bb", seeds=(0,)))
    run([experiment], tmp_path / "run", jobs=0, progress=Progress(stream))
    first, second, third = stream.getvalue().splitlines()
    assert first == "2 cells"
    assert re.fullmatch(r"\[1/2\] tiny/lines/a/normal/0: done in .* s", second)
    assert third.startswith("[2/2] tiny/lines/bb/normal/0: FAILED: RuntimeError: the moon")


def test_two_experiments_of_one_name_are_refused(tmp_path):
    experiment = read_experiment(write_experiment(tmp_path))
    with pytest.raises(ParameterError, match="need different names"):
        run([experiment, experiment], tmp_path / "run", jobs=0)


def test_wrong_usage_has_its_own_exit_code(tmp_path, capsys):
    assert main(["run", str(tmp_path / "missing.toml")]) == 2
    assert "the experiment file cannot be read" in capsys.readouterr().err
    path = write_experiment(tmp_path)
    out = ["--out", str(tmp_path / "run")]
    assert main(["run", str(path), *out, "--preset", "huge"]) == 2
    assert "there is no preset 'huge'; there are: paper" in capsys.readouterr().err
    assert main(["run", str(path), *out, "--scheduler", "nowhere"]) == 2
    assert "no Dask scheduler answers at 'nowhere'" in capsys.readouterr().err


def test_a_dask_cluster_gives_the_same_numbers(tmp_path):
    distributed = pytest.importorskip("distributed")
    experiment = read_experiment(write_experiment(tmp_path, raises="bb"))
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
    ) as cluster:
        summary = run([experiment], tmp_path / "dask", scheduler=cluster.scheduler_address)
    assert len(summary.failed) == 2
    run([experiment], tmp_path / "here", jobs=0)
    assert results(tmp_path / "dask") == results(tmp_path / "here")


ODD_RECORDS = {
    "a huge integer": (lambda cell: Record(*own_names(cell), "q", 10**30), 1e30),
    "a NumPy number": (
        lambda cell: Record(*own_names(cell), "q", np.float32(0.5), x=np.int64(3)),
        0.5,
    ),
    "text": (lambda cell: Record(*own_names(cell), "q", "much"), None),
    "a name of bytes": (lambda cell: Record(*own_names(cell), b"q", 1.0), None),
    "a name that is no text": (lambda cell: Record(*own_names(cell), "\ud800", 1.0), None),
    "a file of an odd name": (lambda cell: open("/nowhere/\udcff"), None),  # noqa: SIM115
}


def own_names(cell):
    return cell.experiment, cell.dataset, cell.representation, cell.seed


@pytest.mark.parametrize("case", ODD_RECORDS)
def test_what_a_procedure_of_ones_own_gives_cannot_end_the_run(tmp_path, monkeypatch, case):
    make, value = ODD_RECORDS[case]
    procedure = Procedure(lambda *_: {}, lambda cell, *_: [make(cell)])
    monkeypatch.setattr(worker, "procedure_of", lambda cell: procedure)
    summary = run([read_experiment(write_experiment(tmp_path))], tmp_path / "run", jobs=0)
    assert len(summary.failed) == (4 if value is None else 0)
    records, _ = results(tmp_path / "run")
    assert [record.value for record in records] == ([] if value is None else [value] * 4)
