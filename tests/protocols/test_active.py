"""Active learning: what is chosen, what is kept, and that a broken run can go on."""

import json
from itertools import islice

import numpy as np
import pytest
from numpy.random import default_rng

import kuq
from kuq.protocols import ActiveLearningState, PowerSampling, active_learning, largest


class Line:
    """Bootstrap ensemble of cubic polynomials, deterministic in its data."""

    def __init__(self, x, y):
        rng = np.random.default_rng(len(x))
        rows = rng.integers(0, len(x), size=(8, len(x)))
        self.coefficients = [np.linalg.lstsq(_features(x[r]), y[r], rcond=None)[0] for r in rows]
        self.std = max(1e-3, float(np.std(y)))

    def member_means(self, x):
        return np.stack([_features(x) @ c for c in self.coefficients])

    def predict(self, x):
        return self.member_means(x).mean(0)

    def predict_distribution(self, x):
        return kuq.Ensemble(kuq.Normal(self.member_means(x), self.std))


def _features(x):
    return np.stack([x[:, 0] ** k for k in range(4)], axis=-1)


POOL_X = default_rng(0).uniform(-2, 2, size=(200, 1))
POOL_Y = np.sin(2 * POOL_X[:, 0]) + 0.1 * default_rng(1).normal(size=200)
TEST_X = np.linspace(-2, 2, 50)[:, None]
TEST_Y = np.sin(2 * TEST_X[:, 0])
DATA = (POOL_X, POOL_Y, TEST_X, TEST_Y)


def run(**options):
    settings = {"score": kuq.CRPS(), "initial": 0.05, "batch": 0.02, "rounds": 6, **options}
    return active_learning(Line, *DATA, **settings)


def numbers(steps):
    return [(s.round, s.labelled, s.error, s.indices.tolist(), s.acquired.tolist()) for s in steps]


def test_rounds_sizes_and_error():
    steps = list(run())
    assert [s.labelled for s in steps] == [10, 14, 18, 22, 26, 30, 34]
    for step in steps:
        learner = Line(POOL_X[step.indices], POOL_Y[step.indices])
        assert step.error == pytest.approx(np.mean((learner.predict(TEST_X) - TEST_Y) ** 2))
        assert len(set(step.indices.tolist())) == step.labelled


@pytest.mark.parametrize("component", ["epistemic", "aleatoric", "total"])
@pytest.mark.parametrize("score", [kuq.CRPS(), kuq.Gaussian(0.3), kuq.LogScore()])
def test_the_most_uncertain_are_chosen(score, component):
    previous = None
    for step in run(score=score, component=component, rounds=3):
        if previous is not None:
            assert step.indices.tolist() == [*previous.indices, *previous.acquired]
        rest = np.setdiff1d(np.arange(200), step.indices)
        u = kuq.decompose(step.learner.predict_distribution(POOL_X[rest]), score)[component]
        kept = u[~np.isin(rest, step.acquired)]
        assert step.uncertainty.min() >= kept.max()
        assert np.sort(step.uncertainty) == pytest.approx(np.sort(u[np.isin(rest, step.acquired)]))
        previous = step


def test_random_choice_is_uniform_and_starts_like_the_others():
    first = next(run(score=None))
    assert first.indices.tolist() == next(run()).indices.tolist()
    assert np.isnan(first.uncertainty).all()
    counts = np.zeros(200)
    for seed in range(400):
        counts[next(run(score=None, seed=seed, batch=20)).acquired] += 1
    # 400 draws of 20 out of the 190 others: each place about 40 times
    assert counts.mean() == 40
    assert counts.std() == pytest.approx(np.sqrt(40 * 0.9), rel=0.2)


@pytest.mark.parametrize("options", [{}, {"score": None}, {"select": PowerSampling(2.0)}])
@pytest.mark.parametrize("broken_after", [1, 3, 6])
def test_a_saved_run_goes_on_with_the_same_numbers(tmp_path, options, broken_after):
    whole = list(run(candidates=60, **options))
    part = list(islice(run(candidates=60, **options), broken_after))
    part[-1].state.save(tmp_path / "state.json")
    state = ActiveLearningState.load(tmp_path / "state.json")
    rest = list(run(candidates=60, state=state, **options))
    assert numbers([*part, *rest]) == numbers(whole)
    assert state.errors == tuple(s.error for s in part)
    assert [p.name for p in tmp_path.iterdir()] == ["state.json"]


def test_a_finished_run_can_be_prolonged():
    short = list(run(rounds=2))
    more = list(run(rounds=6, state=short[-1].state))
    assert numbers([*short, *more]) == numbers(run())
    assert list(run(rounds=2, state=short[-1].state)) == []


def test_an_empty_pool_ends_the_run():
    steps = list(run(initial=0.8, batch=15, rounds=50))
    assert [s.labelled for s in steps] == [160, 175, 190, 200]
    assert steps[-1].acquired.size == 0


def test_any_acquisition_function_and_error():
    steps = list(
        run(
            score=lambda learner, x: x[:, 0],
            error=lambda p, y: float(np.max(np.abs(p - y))),
            rounds=1,
        )
    )
    rest = np.setdiff1d(np.arange(200), steps[0].indices)
    assert POOL_X[steps[0].acquired, 0] == pytest.approx(np.sort(POOL_X[rest, 0])[::-1][:4])
    assert steps[0].error == np.max(np.abs(steps[0].learner.predict(TEST_X) - TEST_Y))


def test_ties_are_broken_at_random():
    chosen = [largest(np.ones(50), 1, np.random.default_rng(s))[0] for s in range(200)]
    assert len(set(chosen)) > 40


def test_power_sampling_draws_in_proportion():
    u = np.asarray([1.0, 2.0, 5.0, 0.0, -1.0])
    rng = np.random.default_rng(0)
    first = np.bincount([PowerSampling(1.0)(u, 1, rng)[0] for _ in range(4000)], minlength=5)
    assert first / 4000 == pytest.approx([1 / 8, 2 / 8, 5 / 8, 0, 0], abs=0.03)
    assert set(PowerSampling(1.0)(u, 3, rng)) == {0, 1, 2}
    assert PowerSampling(1e6)(u, 3, rng).tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"initial": 0.0}, "initial must be a share"),
        ({"initial": 201}, "1 to 200"),
        ({"batch": 1.5}, "batch must be a share"),
        ({"rounds": -1}, "rounds"),
        ({"component": "epistemik"}, "component"),
        ({"candidates": 1}, "candidates must be an integer ≥ 4"),
        ({"score": lambda learner, x: x[:3, 0]}, "cases of the pool got 3"),
        ({"score": lambda learner, x: np.full(len(x), np.nan)}, "has NaN"),
        ({"select": lambda u, count, rng: np.zeros(count, int)}, "different places"),
    ],
)
def test_bad_options_are_named(options, text):
    with pytest.raises(kuq.KuqError, match=text):
        list(run(**options))


def test_wrong_shapes_are_named():
    with pytest.raises(kuq.ShapeError, match="pool 200 and 3"):
        active_learning(Line, POOL_X, POOL_Y[:3], TEST_X, TEST_Y, score=None)
    with pytest.raises(kuq.ShapeError, match="shape of test_y"):
        list(active_learning(Line, POOL_X, POOL_Y, TEST_X, TEST_Y[:, None], score=None))


def test_a_state_of_other_settings_or_another_file_is_refused(tmp_path):
    state = next(run()).state
    with pytest.raises(kuq.ParameterError, match="seed was 0, is 1"):
        run(seed=1, state=state)
    with pytest.raises(kuq.ParameterError, match="score was"):
        run(score=kuq.Energy(), state=state)
    for text in ("", "[]", "{}", json.dumps({"format": "other"}), "\x80"):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(kuq.ParameterError, match="no saved state"):
            ActiveLearningState.load(tmp_path / "bad.json")
