"""Active learning scales once: what a learner starts from does not depend on what was chosen."""

import numpy as np
import pytest

import kuq
from kuq.protocols import ActiveLearningState, active_learning

torch = pytest.importorskip("torch")


def pool(rows=120):
    """Most targets lie near zero; some inputs are far away, with large targets."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 0.2, (rows - 20, 1)), rng.uniform(2, 3, (20, 1))])
    return x, x[:, 0] ** 2 + 0.05 * rng.normal(size=rows)


def untrained(**options):
    """A network that hardly moves: what is left of it is its first weights and the scaling."""
    settings = {"n_members": 2, "hidden_sizes": (8,), "max_epochs": 1, "learning_rate": 1e-12}
    return kuq.nn.Regressor("normal", **settings, **options)


def test_the_scale_is_that_of_the_rows_given():
    x, y = pool()
    whole = untrained().fit(x, y, scaling=(x, y))
    part = untrained().fit(x[-25:], y[-25:], scaling=(x, y))
    np.testing.assert_allclose(part.y_scaling_.shift, y.mean())
    np.testing.assert_allclose(part.y_scaling_.scale, y.std())
    np.testing.assert_allclose(part.x_scaling_.shift[0], x.mean())
    # Untrained, both are the same function, whatever rows they were shown.
    np.testing.assert_allclose(part.predict(x), whole.predict(x), rtol=0, atol=1e-9)
    own = untrained().fit(x[-25:], y[-25:])
    assert np.abs(own.predict(x).mean() - whole.predict(x).mean()) > 1.0


def test_scaled_units_change_nothing_else():
    """Another unit of inputs and targets, in which the rows that scale stand as well."""
    x, y = pool()
    one = kuq.nn.Regressor(n_members=2, max_epochs=3).fit(x[:60], y[:60], scaling=(x, y))
    other = kuq.nn.Regressor(n_members=2, max_epochs=3)
    other.fit(4 * x[:60] + 8, 2 * y[:60] - 1, scaling=(4 * x + 8, 2 * y - 1))
    np.testing.assert_allclose(other.predict(4 * x + 8), 2 * one.predict(x) - 1, atol=1e-4)


def test_no_scaling_is_that_of_the_rows_to_train_on():
    x, y = pool()
    alone = untrained(validation_fraction=0.0).fit(x, y)
    given = untrained(validation_fraction=0.0).fit(x, y, scaling=(x, y))
    np.testing.assert_array_equal(alone.predict(x), given.predict(x))


def test_a_saved_model_keeps_its_scale(tmp_path):
    x, y = pool()
    model = untrained().fit(x[:30], y[:30], scaling=(x, y))
    model.save(tmp_path / "model.safetensors")
    again = kuq.nn.Regressor.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict(x), model.predict(x))


@pytest.mark.parametrize(
    ("scaling", "words"),
    [
        (3.0, r"a pair \(inputs, targets\)"),
        ((np.zeros((5, 2)), np.zeros(5)), "features"),
        ((np.zeros((5, 1)), np.zeros((5, 2))), r"targets of shape \(\), got"),
        ((np.zeros((5, 1)), np.full(5, np.nan)), "NaN or infinity"),
    ],
)
def test_bad_scaling_is_named(scaling, words):
    x, y = pool()
    with pytest.raises(kuq.KuqError, match=words):
        untrained().fit(x, y, scaling=scaling)


# --- the loop ------------------------------------------------------------------------------------


class Mean:
    """A learner that has learned nothing: it says what it was scaled by."""

    def __init__(self, y):
        self.level = float(np.mean(y))

    def predict(self, x):
        return np.full(len(x), self.level)

    def predict_distribution(self, x):
        members = self.level + np.stack([x[:, 0], -x[:, 0]])
        return kuq.Ensemble(kuq.Normal(members, 1.0))


def loop(fit, **options):
    x, y = pool()
    settings = {"score": kuq.CRPS(), "initial": 10, "batch": 10, "rounds": 2, **options}
    return active_learning(fit, x, y, x, y, **settings)


@pytest.mark.parametrize("scaling", ["initial", "pool"])
def test_all_rounds_get_the_same_rows(scaling):
    x, y = pool()
    seen = []

    def fit(chosen_x, chosen_y, scaling):
        seen.append(scaling)
        return Mean(scaling[1])

    steps = list(loop(fit, scaling=scaling))
    first = steps[0].indices
    for inputs, targets in seen:
        np.testing.assert_array_equal(inputs, x)
        np.testing.assert_array_equal(targets, y if scaling == "pool" else y[first])
    assert len({step.error for step in steps}) == 1
    assert len(seen) == 3


def test_the_default_looks_at_no_target_that_is_unknown():
    y = pool()[1]

    def fit(chosen_x, chosen_y, scaling=None):
        return Mean(scaling[1])

    first = next(iter(loop(fit)))
    assert first.learner.level == y[first.indices].mean()
    assert next(iter(loop(fit, scaling="pool"))).learner.level == y.mean()


def test_what_scales_by_chosen_rows_starts_from_their_mean():
    """The cause: rows far away are chosen first, and their targets are large."""

    def fit(chosen_x, chosen_y):
        return Mean(chosen_y)

    def fixed(chosen_x, chosen_y, scaling):
        return Mean(scaling[1])

    by_rows, once = ([step.error for step in loop(f)] for f in (fit, fixed))
    assert by_rows[2] > 1.5 * by_rows[0]
    assert once[2] == once[0]
    assert [step.error for step in loop(lambda x, y: Mean(y), scaling=None)] == by_rows


def test_a_regressor_is_scaled_once():
    y = pool()[1]

    def fit(chosen_x, chosen_y, scaling):
        return untrained().fit(chosen_x, chosen_y, scaling=scaling)

    steps = list(loop(fit))
    first = y[steps[0].indices]
    for step in steps:
        np.testing.assert_allclose(step.learner.y_scaling_.shift, first.mean())
    errors = [step.error for step in steps]
    np.testing.assert_allclose(errors, errors[0], rtol=1e-6)
    # The method itself has the parameter, too.
    steps = list(loop(untrained().fit, rounds=0, scaling="pool"))
    np.testing.assert_allclose(steps[0].learner.y_scaling_.shift, y.mean())


def test_a_broken_run_goes_on_with_the_same_scale(tmp_path):
    def fit(chosen_x, chosen_y, scaling):
        return Mean(scaling[1])

    steps = list(loop(fit))
    steps[0].state.save(tmp_path / "state.json")
    state = ActiveLearningState.load(tmp_path / "state.json")
    assert [s.error for s in loop(fit, state=state)] == [s.error for s in steps[1:]]
    with pytest.raises(kuq.ParameterError, match="scaling was 'initial', is 'pool'"):
        loop(fit, state=state, scaling="pool")


def test_unknown_scalings():
    with pytest.raises(kuq.ParameterError, match='scaling must be "initial", "pool" or None'):
        loop(lambda x, y: Mean(y), scaling="rows")
