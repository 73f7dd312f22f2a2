"""The store: what goes in comes out, in one order, and damage is told."""

import itertools
import math
import sqlite3
import threading

import numpy as np
import pytest
from tiny_procedure import write_experiment

from kuq._digest import file_digest
from kuq.errors import ParameterError
from kuq_study import Store, StoreError, read_experiment, run
from kuq_study.arrays import load_arrays, save_arrays
from kuq_study.store import DATABASE, PACKED, WriteError, pack
from kuq_study.worker import CellResult


@pytest.fixture
def experiment(tmp_path):
    return read_experiment(write_experiment(tmp_path))


@pytest.fixture
def store(tmp_path, experiment):
    with Store.create(tmp_path / "run", "paper") as store:
        store.plan(experiment)
        yield store


def test_records_come_back_in_the_order_of_cells(store, experiment):
    cells = list(experiment.cells())
    values = {cell.key: [0.1 * i, math.inf, math.nan] for i, cell in enumerate(cells)}
    for cell in reversed(cells):  # cells end in any order
        records = [cell.record("q", v, score="crps", x=i) for i, v in enumerate(values[cell.key])]
        store.save(CellResult(cell, tuple(records)))
    found = store.records()
    assert [(r.dataset, r.seed, r.x) for r in found] == [
        (cell.dataset, cell.seed, float(i)) for cell in cells for i in range(3)
    ]
    np.testing.assert_array_equal(
        [r.value for r in found], np.concatenate([values[cell.key] for cell in cells])
    )
    assert {(r.experiment, r.quantity, r.score, r.component) for r in found} == {
        ("tiny", "q", "crps", "")
    }


def test_a_single_number_has_no_x(store, experiment):
    cell = next(experiment.cells())
    store.save(CellResult(cell, (cell.record("prr", 0.25),)))
    assert store.records()[0].x is None


def test_a_failed_cell_keeps_its_message_and_no_records(store, experiment):
    cell = next(experiment.cells())
    store.save(CellResult(cell, (cell.record("q", 1.0),)))
    store.save(CellResult(cell, message="Traceback: no luck", seconds=2.0))
    state = store.cells()[0]
    assert (state.status, state.message, state.seconds) == ("failed", "Traceback: no luck", 2.0)
    assert store.records() == []


def test_changed_settings_make_a_cell_pending_and_dropped_cells_disappear(tmp_path, store):
    path = write_experiment(tmp_path)
    for cell in read_experiment(path).cells():
        store.save(CellResult(cell, (cell.record("q", 1.0),)))
    store.plan(read_experiment(path))
    assert [cell.status for cell in store.cells()] == ["done"] * 4
    store.plan(read_experiment(write_experiment(tmp_path, seeds=(1, 2))))
    assert [(c.seed, c.status) for c in store.cells()] == [
        (1, "done"),
        (1, "done"),
        (2, "pending"),
        (2, "pending"),
    ]
    assert {record.seed for record in store.records()} == {1}
    store.plan(read_experiment(write_experiment(tmp_path, seeds=(1, 2), sleep=0.5)))
    assert {cell.status for cell in store.cells()} == {"pending"}
    assert store.records() == []


def test_settings_are_stored_with_the_cell(store):
    settings = store.cells()[0].settings
    assert settings["dataset"] == "a"
    assert settings["procedure"].endswith("tiny_procedure.py:tiny")


def test_a_run_holds_to_one_preset(store):
    with pytest.raises(ParameterError, match="has the preset 'paper', this one 'quick'"):
        Store.create(store.folder, "quick")


def test_a_missing_store_is_told(tmp_path):
    with pytest.raises(StoreError, match="no results in"):
        Store(tmp_path)


@pytest.mark.parametrize("kind", ["text", "cut", "overwritten"])
def test_a_damaged_store_is_told_and_not_touched(tmp_path, kind):
    experiment = read_experiment(write_experiment(tmp_path, seeds=range(40)))
    run([experiment], tmp_path / "run", jobs=0)
    path = tmp_path / "run" / DATABASE
    content = path.read_bytes()
    if kind == "text":
        damaged = b"not a database at all" * 400
    elif kind == "cut":
        damaged = content[: len(content) // 2]
    else:
        damaged = content[:8192] + b"\xff" * (len(content) - 8192)
    path.write_bytes(damaged)
    for attempt in (lambda: run([experiment], tmp_path / "run", jobs=0), lambda: Store(path)):
        with pytest.raises(StoreError, match=r"is damaged .* was not changed; move it away"):
            attempt()
    assert path.read_bytes() == damaged


def test_after_a_damaged_store_nothing_is_trained_again(tmp_path):
    log = tmp_path / "log"
    experiment = read_experiment(write_experiment(tmp_path, log=log))
    run([experiment], tmp_path / "run", jobs=0)
    with Store(tmp_path / "run") as store:
        before = store.records()
    (tmp_path / "run" / DATABASE).rename(tmp_path / "away")
    run([experiment], tmp_path / "run", jobs=0)
    with Store(tmp_path / "run") as store:
        assert store.records() == before
    assert len(log.read_text().splitlines()) == 4


def test_a_full_disk_is_told_and_what_was_stored_is_kept(store, experiment):
    first, second, *_ = experiment.cells()
    store.save(CellResult(first, (first.record("q", 1.0),)))
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")  # SQLite's own "disk is full"
    many = tuple(second.record("q", float(i), x=i) for i in range(5000))
    with pytest.raises(WriteError, match=r"full.* what was stored before is kept"):
        store.save(CellResult(second, many))
    assert [record.value for record in store.records()] == [1.0]
    store._connection.execute("PRAGMA max_page_count = 1000000")
    store.save(CellResult(second, many))  # space again: the same store goes on
    assert len(store.records()) == 5001


def test_a_store_of_another_layout_is_told(store):
    connection = sqlite3.connect(store.path)
    connection.execute("UPDATE about SET value = '99' WHERE name = 'schema'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="has the layout 99"):
        Store(store.path)


def test_arrays_come_back_and_damage_is_seen(tmp_path):
    path = tmp_path / "kept.npz"
    arrays = {"file": np.arange(5000.0), "names": np.array(["a", "bc"])}
    checksum = save_arrays(path, arrays, "digest")
    assert checksum == file_digest(path)
    found = load_arrays(path, "digest")
    assert found is not None
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    assert load_arrays(path, "another digest") is None
    content = bytearray(path.read_bytes())
    content[20000] ^= 1
    path.write_bytes(content)
    assert load_arrays(path, "digest") is None
    path.write_bytes(content[:1000])
    assert load_arrays(path, "digest") is None
    assert load_arrays(tmp_path / "missing.npz", "digest") is None


def test_arrays_of_objects_are_refused(tmp_path):
    with pytest.raises(ParameterError, match="'bad' cannot be kept"):
        save_arrays(tmp_path / "x.npz", {"bad": np.array([object()])})
    assert list(tmp_path.iterdir()) == []


def test_a_store_can_be_opened_while_a_run_writes(store, experiment):
    """Its digests are checked on one view of all rows: a change in between is no damage."""
    stop = threading.Event()
    cells = list(experiment.cells())

    def write():
        with Store(store.path) as own:
            for number in itertools.count():
                cell = cells[number % len(cells)]
                own.save(CellResult(cell, (cell.record("q", float(number)),)))
                if stop.wait(0.002):
                    return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(10):
            Store(store.path).close()
    finally:
        stop.set()
        writer.join()


def test_a_packed_store_is_read_and_unpacked_by_a_run_that_goes_on(tmp_path):
    path = write_experiment(tmp_path)
    run([read_experiment(path)], tmp_path / "run", jobs=0)
    with Store(tmp_path / "run") as store:
        records = store.records()
    (tmp_path / "kept").mkdir()
    pack(tmp_path / "run" / DATABASE, tmp_path / "kept" / PACKED)
    with Store(tmp_path / "kept") as store:
        assert store.records() == records
        copy = store.path
    assert not copy.exists()
    assert [entry.name for entry in (tmp_path / "kept").iterdir()] == [PACKED]
    summary = run([read_experiment(path)], tmp_path / "kept", jobs=0)
    assert (summary.before, summary.done) == (4, 0)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / PACKED).write_bytes(b"no such thing")
    with pytest.raises(StoreError, match=r"is damaged .*; take it from its source again"):
        Store(tmp_path / "damaged")
