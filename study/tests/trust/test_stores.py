"""One flipped bit in what a run keeps: refused or made again, never taken for true."""

import shutil

import numpy as np
import pytest
from flipped_bits import flipped
from tiny_procedure import write_experiment

from kuq_study import Store, StoreError, read_experiment, run
from kuq_study.arrays import load_arrays, save_arrays
from kuq_study.run_folder import read_fields
from kuq_study.store import DATABASE, _seal_cell


def everything(folder):
    """All that a store gives out."""
    with Store(folder) as store:
        return (
            store.about,
            store.records(),
            store.cells(),
            store.deviations(),
            store.titles(),
            store.checksums(),
        )


def test_a_store(tmp_path, trials):
    path = write_experiment(tmp_path, raises="bb")
    path.write_text('remarks = ["A sentence on the run."]\n' + path.read_text())
    run([read_experiment(path)], tmp_path / "run", jobs=0)
    before = everything(tmp_path / "run")
    assert len(before[1]) == 40
    assert [cell.status for cell in before[2]] == ["done", "failed"] * 2
    content, messages = (tmp_path / "run" / DATABASE).read_bytes(), []
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for trial in range(trials(2100)):
        (damaged / DATABASE).write_bytes(flipped(content, trial))
        try:
            found = everything(damaged)
        except StoreError as error:
            messages.append(str(error))
        else:
            assert found == before, trial
    assert messages  # the rest of the bits lies in pages that hold nothing
    assert not any("\n" in message for message in messages)


def test_kept_predictions_are_made_again(tmp_path, trials):
    experiment = read_experiment(write_experiment(tmp_path, seeds=(0,)))
    out = tmp_path / "run"
    run([experiment], out, jobs=0)
    before = everything(out)[1]
    files = sorted((out / "predictions").iterdir())
    contents = [path.read_bytes() for path in files]
    stored = (out / DATABASE).read_bytes()
    for trial in range(trials(100)):
        files[trial % 2].write_bytes(flipped(contents[trial % 2], trial))
        # As after a kill between the file and its entry in the store, and with that entry.
        (out / DATABASE).unlink()
        if trial % 4 < 2:
            (out / DATABASE).write_bytes(stored)
            with Store(out) as store:
                for cell in experiment.cells():
                    store._connection.execute(
                        "UPDATE cells SET status = 'pending' WHERE key = ?", (cell.key,)
                    )
                    _seal_cell(store._connection, cell.key)
        summary = run([experiment], out, jobs=0)
        assert summary.failed == {}, trial
        assert everything(out)[1] == before, trial


def test_kept_arrays(tmp_path, trials):
    path, field = tmp_path / "kept.npz", tmp_path / "fields" / "example.npz"
    rng = np.random.default_rng(0)
    arrays = {"truth": rng.normal(size=(6, 4)), "labels": np.arange(5), "law": np.array("Normal")}
    save_arrays(path, arrays, "digest of settings")
    save_arrays(field, arrays)
    content, drawn = path.read_bytes(), field.read_bytes()
    for trial in range(trials(1000)):
        path.write_bytes(flipped(content, trial))
        assert load_arrays(path, "digest of settings") is None, trial
        field.write_bytes(flipped(drawn, trial))
        found, (problem,) = read_fields(field.parent)
        assert found == {}, trial
        assert problem.startswith("example.npz could not be read"), trial


def test_the_seals_of_a_store_see_rows_that_are_missing_or_exchanged(tmp_path):
    """What no digest of single rows would see."""
    run([read_experiment(write_experiment(tmp_path))], tmp_path / "run", jobs=0)
    with Store(tmp_path / "run") as store:
        first, second, *_ = (cell.key for cell in store.cells())
    for number, change in enumerate(
        (
            f"DELETE FROM records WHERE cell = '{first}' AND position = 3",
            f"DELETE FROM records WHERE cell = '{first}'",
            f"DELETE FROM records WHERE cell = '{first}'; DELETE FROM cells WHERE key = '{first}'",
            f"UPDATE records SET position = 99 - position WHERE cell = '{first}'",
            f"UPDATE records SET cell = 'x' WHERE cell = '{first}';"
            f"UPDATE records SET cell = '{first}' WHERE cell = '{second}';"
            f"UPDATE records SET cell = '{second}' WHERE cell = 'x'",
            f"UPDATE cells SET status = 'done', seconds = 1.0 WHERE key = '{first}'",
            "DELETE FROM experiments",
            "UPDATE about SET value = 'quick' WHERE name = 'preset'",
            "DELETE FROM about WHERE name = 'seal'",
            "UPDATE predictions SET checksum = 'abc'",
        )
    ):
        folder = shutil.copytree(tmp_path / "run", tmp_path / f"copy{number}")
        with Store(folder) as store:
            store._connection.execute("PRAGMA foreign_keys = OFF")
            store._connection.executescript(change)
        with pytest.raises(StoreError, match="does not match its digest"):
            Store(folder)
