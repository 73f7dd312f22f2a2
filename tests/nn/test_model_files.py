"""Model files: names of features, paths that are not followed, headers that nobody wrote."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pandas = pytest.importorskip("pandas")
from safetensors.numpy import load, save  # noqa: E402

import kuq  # noqa: E402
from kuq.nn import store  # noqa: E402

TINY = {"n_members": 2, "max_epochs": 2, "hidden_sizes": (4,)}


def rows():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 40))
    return pandas.DataFrame({"a": a, "b": b}), a - 2 * b


def saved(path, **settings):
    x, y = rows()
    model = kuq.nn.Regressor(**{**TINY, **settings}).fit(x, y)
    model.save(path)
    return model


def rewritten(path, change):
    """The file with another header, as someone else could write it, digest and all."""
    arrays, header = store.read(path, "model")
    change(header)
    store.write(path, "model", arrays, {k: v for k, v in header.items() if k != "format"})


def test_names_of_features_are_kept_and_their_order_counts(tmp_path):
    x, _ = rows()
    model = saved(tmp_path / "model")
    again = kuq.nn.Regressor.load(tmp_path / "model")
    assert list(again.feature_names_in_) == ["a", "b"]
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    for other, message in (
        (x[["b", "a"]], "must be in the same order"),
        (x.rename(columns={"b": "c"}), "feature names should match"),
    ):
        with pytest.raises(kuq.ParameterError, match=message):
            again.predict(other)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        again.predict(x.to_numpy())
    again.save(tmp_path / "again")
    assert list(kuq.nn.Regressor.load(tmp_path / "again").feature_names_in_) == ["a", "b"]


def test_a_model_without_names_stays_without(tmp_path):
    x, y = rows()
    kuq.nn.Regressor(**TINY).fit(x.to_numpy(), y).save(tmp_path / "model")
    assert not hasattr(kuq.nn.Regressor.load(tmp_path / "model"), "feature_names_in_")


def test_a_path_in_a_file_is_not_followed(tmp_path):
    saved(tmp_path / "model", checkpoint=tmp_path / "own")
    trap = tmp_path / "trap"

    def set_trap(header):
        assert header["settings"]["checkpoint"] is None
        header["settings"] |= {"checkpoint": str(trap), "device": "meta"}

    rewritten(tmp_path / "model", set_trap)
    model = kuq.nn.Regressor.load(tmp_path / "model")
    assert (model.checkpoint, model.device) == (None, None)
    model.fit(*rows())
    assert not trap.exists()
    own = kuq.nn.Regressor.load(tmp_path / "model", checkpoint=tmp_path / "given")
    assert own.checkpoint == tmp_path / "given"


HEADERS = {
    "no settings": lambda h: h.pop("settings"),
    "settings are a list": lambda h: h.update(settings=[1]),
    "an unknown setting": lambda h: h["settings"].update(colour="red"),
    "an unknown class": lambda h: h["settings"].update(loss={"class": "os.system"}),
    "a class with other fields": lambda h: h["settings"].update(loss={"class": "Energy", "x": 1}),
    "a table that is no class": lambda h: h["settings"].update(loss={"x": 1}),
    "no shape": lambda h: h.pop("x_shape"),
    "an empty shape": lambda h: h.update(x_shape=[]),
    "a negative shape": lambda h: h.update(x_shape=[-2]),
    "a shape of text": lambda h: h.update(x_shape="ab"),
    "another shape": lambda h: h.update(x_shape=[3]),
    "an endless shape": lambda h: h.update(x_shape=[10**30]),
    "too many members": lambda h: h.update(n_members=10**12),
    "members of text": lambda h: h.update(n_members="two"),
    "names that are no list": lambda h: h.update(feature_names=3),
    "names of numbers": lambda h: h.update(feature_names=[1, 2]),
    "too few names": lambda h: h.update(feature_names=["a"]),
    "an odd backbone": lambda h: h["settings"].update(backbone={"class": "FNO", "modes": "x"}),
    "a seed of text": lambda h: h["settings"].update(seed="x"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers_that_nobody_wrote_are_an_error_of_kuq(tmp_path, case):
    saved(tmp_path / "model")
    rewritten(tmp_path / "model", HEADERS[case])
    with pytest.raises(kuq.KuqError) as caught:
        kuq.nn.Regressor.load(tmp_path / "model")
    assert str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 7,
        b"\xff" * 64,
        (2**62).to_bytes(8, "little") + b"{}",
        (10**5).to_bytes(8, "little") + b"[" * 10**5,
        (2).to_bytes(8, "little") + b"[]",
        (2).to_bytes(8, "little") + b"{}",
        (20).to_bytes(8, "little") + b'{"__metadata__": 17}',
        (30).to_bytes(8, "little") + b'{"__metadata__": {"kuq": "[" }}',
        save({"a": np.zeros(2)}, metadata={"kuq": '{"kind": "model"}'}),
        save({"a": np.zeros(2)}, metadata={"kuq": '{"kind": "model", "format": 2}'}),
        save({"a": np.zeros(2)}, metadata={"kuq": '{"kind": "model", "format": 9}'}),
    ],
)
def test_files_that_are_no_models(tmp_path, content):
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(kuq.ParameterError):
        kuq.nn.Regressor.load(tmp_path / "model")


def test_a_file_of_the_first_format_is_read_with_a_warning(tmp_path):
    """It has no digest: what was trained is not lost, and that nobody checked it is said."""
    model = saved(tmp_path / "model")
    _, header = store.read(tmp_path / "model", "model")
    del header["feature_names"]
    arrays = load((tmp_path / "model").read_bytes())
    text = json.dumps({**header, "format": 1})
    (tmp_path / "old").write_bytes(save(arrays, metadata={"kuq": text}))
    with pytest.warns(UserWarning, match="written without a digest.*save it again"):
        old = kuq.nn.Regressor.load(tmp_path / "old")
    x, _ = rows()
    np.testing.assert_array_equal(old.predict(x.to_numpy()), model.predict(x))
