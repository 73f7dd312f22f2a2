"""One flipped bit in what a run or a model keeps: refused or made again, never taken for true."""

import json
import shutil

import numpy as np
import pytest
from bench.tiny_procedure import write_experiment

import kuq
from kuq.bench import Store, StoreError, read_experiment, run
from kuq.bench.arrays import load_arrays, save_arrays
from kuq.bench.run_folder import read_fields
from kuq.bench.store import DATABASE


def flipped(content, trial):
    """The bytes with one bit changed; the trial says which."""
    rng = np.random.default_rng(trial)
    changed = bytearray(content)
    changed[rng.integers(len(changed))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


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
                    kuq.bench.store._seal_cell(store._connection, cell.key)
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


def fitted(representation, **settings):
    x = np.linspace(-1.0, 1.0, 24)[:, None] * [1.0, 0.5]
    settings = {"n_members": 2, "max_epochs": 2, "hidden_sizes": (4,), "n_samples": 2, **settings}
    return kuq.nn.Regressor(representation, **settings).fit(x, x[:, 0] ** 2)


def said(model):
    x = np.linspace(-2.0, 2.0, 5)[:, None] * [1.0, 0.5]
    return repr(model.get_params()), model.predict(x).tolist()


@pytest.mark.parametrize("representation", ["normal", "evidential", "mixture", "sampler"])
def test_model_files(tmp_path, trials, representation):
    pytest.importorskip("torch")
    path = tmp_path / "model.kuq"
    model = fitted(representation, loss=None if representation == "evidential" else kuq.CRPS())
    model.save(path)
    assert said(kuq.nn.Regressor.load(path)) == said(model)
    content = path.read_bytes()
    for trial in range(trials(100)):
        path.write_bytes(flipped(content, trial))
        with pytest.raises(kuq.KuqError) as caught:
            kuq.nn.Regressor.load(path)
        assert repr(str(path)) in str(caught.value), trial


def test_checkpoints(tmp_path, trials):
    pytest.importorskip("torch")
    path = tmp_path / "state"
    whole = fitted("normal", max_epochs=3)
    fitted("normal", checkpoint=path)
    content = path.read_bytes()
    assert fitted("normal", checkpoint=path, max_epochs=3).predict([[1.0, 2.0]]) == whole.predict(
        [[1.0, 2.0]]
    )
    for trial in range(trials(200)):
        path.write_bytes(flipped(content, trial))
        with pytest.raises(kuq.KuqError) as caught:
            fitted("normal", checkpoint=path, max_epochs=3)
        assert repr(str(path)) in str(caught.value), trial


def test_states_of_active_learning(tmp_path, trials):
    state = kuq.protocols.ActiveLearningState(
        {"pool": 90, "score": "CRPS()"}, (3, 14, 15, 9), (2, 3), (0.25, 1e-3)
    )
    path = tmp_path / "state.json"
    state.save(path)
    assert kuq.protocols.ActiveLearningState.load(path) == state
    content = path.read_bytes()
    for trial in range(trials(400)):
        path.write_bytes(flipped(content, trial))
        try:
            found = kuq.protocols.ActiveLearningState.load(path)
        except kuq.KuqError:
            continue
        assert found == state, trial  # a blank became another one


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


def test_the_digest_of_a_model_file_is_that_of_its_bytes(tmp_path):
    """By hand: the file is plain safetensors, and its digest that of the file without it."""
    import hashlib

    pytest.importorskip("torch")
    from safetensors import safe_open

    path = tmp_path / "model.kuq"
    fitted("normal").save(path)
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
        assert "x.shift" in file.keys()  # noqa: SIM118
    assert json.loads(metadata["kuq"])["format"] == 2
    digest = metadata["sha256"].encode()
    content = path.read_bytes()
    assert content.count(digest) == 1
    assert hashlib.sha256(content.replace(digest, b"0" * 64)).hexdigest() == digest.decode()
