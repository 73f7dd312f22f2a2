"""What need not be said, and what is refused before any training."""

import numpy as np
import pytest
from nn.problems import functions, images, sine

pytest.importorskip("torch")
pytest.importorskip("sklearn")

import torch

import kuq

TINY = {"max_epochs": 1, "n_members": 2, "n_samples": 4, "n_train_samples": 2, "rank": 2}
SMALL_FNO = kuq.nn.FNO(modes=6, channels=4, lifting_channels=8, projection_channels=8, layers=2)


def vectors():
    x, y = sine(40)
    return x, np.stack([y, y**2], axis=1)


def as_image_features():
    return torch.nn.Conv2d(2, 4, 3, padding=1)


@pytest.mark.parametrize(
    ("backbone", "problem", "usual"),
    [
        ("mlp", sine, kuq.CRPS()),
        ("mlp", vectors, kuq.CRPS()),
        (SMALL_FNO, functions, kuq.Energy()),
        (as_image_features, images, kuq.Energy()),
    ],
)
@pytest.mark.parametrize("representation", ["normal", "low-rank"])
def test_uncertainty_has_a_usual_score(representation, backbone, problem, usual):
    x, y = problem()
    model = kuq.nn.Regressor(representation, backbone=backbone, **TINY).fit(x, y)
    u = model.predict_uncertainty(x)
    assert u.score == usual
    np.testing.assert_array_equal(u.epistemic, model.predict_uncertainty(x, usual).epistemic)


def test_the_usual_score_of_vectors_is_that_of_scikit_learns_class():
    x, y = vectors()
    forest = kuq.sklearn.UncertaintyRegressor(n_members=5, random_state=0).fit(x, y)
    network = kuq.nn.Regressor(**TINY).fit(x, y)
    assert forest.predict_uncertainty(x).score == network.predict_uncertainty(x).score


def test_options_go_with_the_usual_score():
    x, y = sine(40)
    model = kuq.nn.Regressor(**TINY).fit(x, y)
    u = model.predict_uncertainty(x, estimator="bma", unbiased=False)
    assert (u.estimator, u.unbiased) == ("bma", False)
    assert model.predict_uncertainty(x, "variance").estimator == "bma"


@pytest.mark.parametrize("name", ["gaussian", "", None, 3, ["normal"]])
def test_an_unknown_representation_is_refused_where_it_is_named(name):
    with pytest.raises(kuq.ParameterError, match=r"representation must be one of \['normal', "):
        kuq.nn.Regressor(name)


def test_a_representation_that_is_set_later_is_looked_at_later():
    model = kuq.nn.Regressor().set_params(representation="gaussian")
    with pytest.raises(kuq.ParameterError, match="representation must be one of"):
        model.fit(*sine(20))


class Returning(torch.nn.Module):
    """A backbone that returns what a function makes of proper features."""

    def __init__(self, change):
        super().__init__()
        self.linear, self.change = torch.nn.Linear(3, 8), change

    def forward(self, x):
        return self.change(self.linear(x))


WRONG = {
    "a tuple": (lambda f: (f, f), r"returned a tuple of 2"),
    "a list": (lambda f: [f], r"returned a list of 1"),
    "a dict": (lambda f: {"features": f}, r"returned a dict"),
    "None": (lambda f: None, r"returned a NoneType"),
    "NumPy": (lambda f: f.detach().numpy(), r"returned a ndarray"),
    "integers": (lambda f: f.long(), r"floating point"),
    "one axis": (lambda f: f[:, 0], r"must map \(2, 3\) to \(2, features\)"),
    "other rows": (lambda f: f[:1], r"must map \(2, 3\) to \(2, features\)"),
    "another grid": (lambda f: f[:, :, None], r"must map \(2, 3\) to \(2, features\)"),
    "no features": (lambda f: f[:, :0], r"must map \(2, 3\) to \(2, features\)"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_a_backbone_returns_is_looked_at_before_training(case, monkeypatch):
    change, message = WRONG[case]
    monkeypatch.setattr(kuq.nn.trainer.Trainer, "run", lambda self: pytest.fail("it was trained"))
    model = kuq.nn.Regressor(backbone=lambda: Returning(change), n_members=2)
    with pytest.raises(kuq.KuqError, match=message):
        model.fit(*sine(20))


def test_a_backbone_for_other_inputs_is_told_what_it_got():
    model = kuq.nn.Regressor(backbone=lambda: torch.nn.Linear(4, 8), n_members=2)
    with pytest.raises(kuq.ShapeError, match=r"inputs of shape \(2, 3\).*mat1 and mat2") as caught:
        model.fit(*sine(20))
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_numbers_told_of_images_have_the_score_of_numbers():
    """A scalar of every image was judged by the energy score, which is for fields."""
    rng = np.random.default_rng(3)
    images = rng.normal(size=(8, 1, 8, 8))
    settings = {"n_members": 2, "max_epochs": 1}
    scalar = kuq.nn.Regressor(**settings).fit(images, images.mean(axis=(1, 2, 3)))
    assert scalar.predict_uncertainty(images).score == kuq.CRPS()
    field = kuq.nn.Regressor(**settings).fit(images, images[:, 0])
    assert field.predict_uncertainty(images).score == kuq.Energy()


def misused(**settings):
    return kuq.nn.Regressor(n_members=2, max_epochs=1, **settings)


FRAMES = {
    "words": ("kind", ["u", "v", "w", "x"], r"kind \(object\)|kind \(str\)"),
    "dates": ("day", ["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04"], r"day \(datetime64"),
}


@pytest.mark.parametrize("case", FRAMES)
def test_columns_without_numbers_are_named(case):
    pandas = pytest.importorskip("pandas")
    name, values, message = FRAMES[case]
    column = pandas.to_datetime(values) if case == "dates" else values
    table = pandas.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], name: column})
    with pytest.raises(kuq.ParameterError, match=message):
        misused().fit(table, [1.0, 2.0, 3.0, 5.0])


def test_numbers_in_columns_of_objects_and_categories_are_taken():
    pandas = pytest.importorskip("pandas")
    numbers = [1.0, 2.0, 3.0, 4.0]
    table = pandas.DataFrame({"a": pandas.Series(numbers, dtype=object), "b": numbers})
    table["b"] = table["b"].astype("category")
    assert misused().fit(table, [1.0, 2.0, 3.0, 5.0]).predict(table).shape == (4,)


def test_masks_are_not_ignored():
    """A −9999 under a mask was learned."""
    x, y = sine(30)
    hidden = np.ma.masked_array(y, mask=np.arange(30) < 2)
    for model in (misused(), kuq.sklearn.UncertaintyRegressor(n_members=2)):
        with pytest.raises(kuq.ParameterError, match="y is a masked array"):
            model.fit(x, hidden)
        with pytest.raises(kuq.ParameterError, match="X is a masked array"):
            model.fit(np.ma.masked_array(x, mask=x > 0), y)
    with pytest.raises(kuq.ParameterError, match="X is a masked array"):
        misused().fit(x, y).predict(np.ma.masked_array(x, mask=x > 0))
    with pytest.raises(kuq.ParameterError, match="X is a masked array"):
        kuq.nn.members([torch.nn.Linear(3, 1)], np.ma.masked_array(x, mask=x > 0))


def test_tensors_are_read_whatever_torch_records_of_them():
    x, y = sine(30)
    recorded = torch.tensor(x, requires_grad=True)
    plain = misused().fit(x, y).predict(x)
    np.testing.assert_allclose(misused().fit(recorded, y).predict(recorded), plain, rtol=1e-6)
    low = torch.tensor(x, dtype=torch.bfloat16), torch.tensor(y, dtype=torch.bfloat16)
    rounded = misused().fit(*(part.double().numpy() for part in low)).predict(x)
    np.testing.assert_allclose(misused().fit(*low).predict(x), rounded, rtol=1e-6)


def test_targets_that_are_missing_or_come_twice_are_told():
    x, y = sine(30)
    for nothing in (x, [], lambda: iter([(x, y)])):
        with pytest.raises(kuq.ParameterError, match=r"Regressor requires y.*pairs \(x, y\)"):
            misused().fit(nothing)
    rows = torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y))
    loader = torch.utils.data.DataLoader(rows, batch_size=10)
    with pytest.raises(kuq.ParameterError, match=r"a DataLoader gives batches.*fit\(batches\)"):
        misused().fit(loader, y)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("learning_rate", "fast"), ("margin", "wide"), ("validation_fraction", "a tenth")],
)
def test_settings_of_another_type_are_named(setting, value):
    with pytest.raises(kuq.ParameterError, match=rf"{setting} must .*'{value}'"):
        misused(**{setting: value}).fit(*sine(20))


def test_a_loaded_model_takes_settings_that_fit_it(tmp_path):
    x, y = sine(20)
    misused().fit(x, y).save(tmp_path / "model.kuq")
    with pytest.raises(kuq.ParameterError, match=r"no setting 'n_step'; is it n_steps\?"):
        kuq.nn.Regressor.load(tmp_path / "model.kuq", n_step=3)
    with pytest.raises(kuq.ParameterError, match="holds 2 members, got n_members=7"):
        kuq.nn.Regressor.load(tmp_path / "model.kuq", n_members=7)
    loaded = kuq.nn.Regressor.load(tmp_path / "model.kuq", n_members=2, n_samples=7)
    assert loaded.predict(x).shape == y.shape
