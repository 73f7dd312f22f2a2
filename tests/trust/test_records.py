"""One flipped bit in what a model keeps: refused, never taken for true."""

import json

import numpy as np
import pytest
from flipped_bits import flipped

import kuq


def fitted(representation, **settings):
    x = np.linspace(-1.0, 1.0, 24)[:, None] * [1.0, 0.5]
    small = {"n_members": 2, "max_epochs": 2, "hidden_sizes": (4,), "n_samples": 2}
    settings = {**small, "annealing": False, **settings}
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
