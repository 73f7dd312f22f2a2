"""Batches: which cases are taken together, and that those alike are not taken together."""

import numpy as np
import pytest

import kuq
from kuq.protocols import PowerSampling, active_learning, largest, select_batch


def two_questions(rng, cases=60):
    """Half of the cases asks about member 0, the other half, less uncertain, about member 1."""
    means = 0.01 * rng.normal(size=(5, cases))
    means[0, : cases // 2] += 2.0
    means[1, cases // 2 :] += 1.7
    return kuq.Ensemble(kuq.Normal(means + 100 * rng.normal(size=cases), 1.0))


def test_top_and_sampled_are_the_rules_of_active_learning():
    pool = two_questions(np.random.default_rng(0))
    epistemic = kuq.decompose(pool, "crps").epistemic
    for method, rule in {"top": largest, "sampled": PowerSampling()}.items():
        expected = rule(epistemic, 7, np.random.default_rng(3))
        found = select_batch(pool, 7, "crps", method=method, seed=3)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("score", ["crps", "variance", "gaussian:1", "laplace:2"])
def test_alike_cases_are_not_taken_together(score):
    pool = two_questions(np.random.default_rng(1))
    top = select_batch(pool, 8, score, method="top")
    assert (top < 30).all()
    batch = select_batch(pool, 8, score, method="diverse")
    assert batch[0] == top[0]
    assert abs(np.sum(batch < 30) - 4) <= 1
    assert len(set(batch.tolist())) == 8


def conditioned(means, weights, size):
    """The same by conditioning a normal vector on what is chosen, case by case.

    Deviations of the members' means are the covariance of the cases; a label at a case has noise
    as large as its variance.
    """
    deviations = (means - weights @ means) * np.sqrt(weights)[:, None]
    covariance = deviations.T @ deviations
    noise = np.diag(covariance).copy()
    chosen = []
    for _ in range(size):
        variance = np.diag(covariance).copy()
        variance[chosen] = -1
        place = int(np.argmax(variance))
        chosen.append(place)
        row = covariance[place]
        covariance = covariance - np.outer(row, row) / (row[place] + noise[place])
    return chosen


def test_squared_error_is_conditioning_of_a_normal_vector():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        means, weights = rng.normal(size=(6, 25)), rng.dirichlet(np.ones(6))
        pool = kuq.Ensemble(kuq.Normal(means, rng.gamma(2.0, size=(6, 25))), weights)
        found = select_batch(pool, 12, kuq.SquaredError(), method="diverse")
        assert found.tolist() == conditioned(means, weights, 12)


def test_laws_libraries_and_draws():
    rng = np.random.default_rng(5)
    draws = rng.normal(size=(4, 12, 30, 2)) + rng.normal(size=(4, 12, 1, 2))
    pool = kuq.Ensemble(kuq.Samples(draws, event_ndim=1))
    expected = select_batch(pool, 5, "energy")
    assert len(set(expected.tolist())) == 5
    torch = pytest.importorskip("torch")
    pool = kuq.Ensemble(kuq.Samples(torch.as_tensor(draws), event_ndim=1))
    np.testing.assert_array_equal(select_batch(pool, 5, "energy"), expected)


def test_members_that_agree_everywhere():
    pool = kuq.Ensemble(kuq.Normal(np.zeros((3, 6)), 1.0))
    assert sorted(select_batch(pool, 6).tolist()) == list(range(6))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "best"}, "method must be one of"),
        ({"size": 61}, "at most the 60 cases"),
        ({"size": 0}, "size"),
        ({"score": "log"}, "needs an Ensemble and a kernel score"),
        ({"component": "total"}, "goes by the epistemic uncertainty"),
    ],
)
def test_refused(options, words):
    pool = two_questions(np.random.default_rng(2))
    settings = {"size": 3, "score": "crps", **options}
    with pytest.raises(kuq.ParameterError, match=words):
        select_batch(pool, **settings)


def test_refused_predictions():
    with pytest.raises(kuq.ParameterError, match="needs an Ensemble"):
        select_batch(kuq.NormalInverseGamma(np.zeros(4), 1.0, 2.0, 1.0), 2)
    with pytest.raises(kuq.ShapeError, match="one batch axis"):
        select_batch(kuq.Ensemble(kuq.Normal(np.zeros((3, 2, 4)), 1.0)), 2)


class Lines:
    """Members that are lines through parts of the data."""

    def __init__(self, x, y):
        rng = np.random.default_rng(len(x))
        parts = rng.integers(0, len(x), size=(6, len(x)))
        self.lines = [np.polyfit(x[part, 0], y[part], 1) for part in parts]

    def predict(self, x):
        return np.mean([np.polyval(line, x[:, 0]) for line in self.lines], axis=0)

    def predict_distribution(self, x):
        return kuq.Ensemble(kuq.Normal([np.polyval(line, x[:, 0]) for line in self.lines], 0.1))


def data():
    rng = np.random.default_rng(8)
    x = rng.uniform(-1, 1, size=(80, 1))
    return x, x[:, 0] + 0.1 * rng.normal(size=80), x[:20], x[:20, 0]


def test_active_learning_by_name():
    options = {"score": "crps", "initial": 10, "batch": 6, "rounds": 2}
    first = {
        method: next(active_learning(Lines, *data(), **options, batch_method=method))
        for method in ("top", "sampled", "diverse")
    }
    plain = next(active_learning(Lines, *data(), **options))
    np.testing.assert_array_equal(first["top"].acquired, plain.acquired)
    learner = first["diverse"].learner
    rest = np.setdiff1d(np.arange(80), first["diverse"].indices)
    pool = learner.predict_distribution(data()[0][rest])
    expected = rest[select_batch(pool, 6, "crps")]
    np.testing.assert_array_equal(first["diverse"].acquired, expected)
    epistemic = kuq.decompose(learner.predict_distribution(data()[0][expected]), "crps").epistemic
    np.testing.assert_allclose(first["diverse"].uncertainty, epistemic, rtol=1e-12)


def test_active_learning_refuses_two_rules_and_foreign_scores():
    options = {"initial": 10, "batch": 6}
    with pytest.raises(kuq.ParameterError, match="give one"):
        active_learning(Lines, *data(), score="crps", select=largest, batch_method="top", **options)
    for score in (None, lambda learner, x: x[:, 0]):
        with pytest.raises(kuq.ParameterError, match="needs a score of kuq"):
            active_learning(Lines, *data(), score=score, batch_method="diverse", **options)


def test_uncertainties_are_enough_where_members_are_not_asked():
    """Numbers were sent from "diverse" to "sampled", and from there to Ensemble."""
    numbers = np.array([0.1, 3.0, 0.2, 2.0, 0.3])
    assert select_batch(numbers, 2, method="top").tolist() == [1, 3]
    assert select_batch(numbers.tolist(), 5, method="sampled").size == 5
    pool = kuq.Ensemble(kuq.Normal([[0.0, 0.0], [1.0, 3.0]], [[1.0, 0.1], [1.0, 0.1]]))
    u = kuq.decompose(pool, "crps")
    assert select_batch(u, 1, method="top").tolist() == [1]
    assert select_batch(u, 1, method="top", component="aleatoric").tolist() == [0]
    for given in (numbers, u):
        with pytest.raises(kuq.ParameterError, match=r"model\.predict_distribution\(X\)"):
            select_batch(given, 2)


def test_a_model_is_no_pool():
    class Model:
        def predict_distribution(self, X):
            return X

    for call in (kuq.as_distribution, kuq.report, lambda m: select_batch(m, 2, method="top")):
        with pytest.raises(kuq.ParameterError, match=r"pass model\.predict_distribution\(X\)"):
            call(Model())
    u = kuq.decompose(kuq.Ensemble(kuq.Normal([[0.0], [1.0]], 1.0)), "crps")
    for call in (kuq.as_distribution, kuq.report, lambda one: kuq.decompose(one, "crps")):
        with pytest.raises(kuq.ParameterError, match=r"result \(Uncertainty\).* pass the predict"):
            call(u)
