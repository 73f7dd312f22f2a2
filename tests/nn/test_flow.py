"""Flows: their paths and steps against formulas, what they are trained by, and what they find.

What training ends with depends on the processor as on the seed. Bounds are several standard
deviations, over seeds, away from the mean, and still far from what a normal law would give.
"""

import math

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("torch")

import torch

import kuq
from kuq.nn import flows
from kuq.nn.heads.flow import STEPS

FAST = {"learning_rate": 5e-3, "batch_size": 128, "seed": 0, "patience": 40}


def energy_distance(x, y):
    """2 E‖X−Y‖ − E‖X−X'‖ − E‖Y−Y'‖ of draws (n, d), without bias."""

    def mean(a, b):
        return np.linalg.norm(a[:, None] - b, axis=-1).sum()

    within = [mean(a, a) / (len(a) * (len(a) - 1)) for a in (x, y)]
    return 2 * mean(x, y) / (len(x) * len(y)) - sum(within)


def test_angles_are_times_of_straight_paths():
    rng = np.random.default_rng(0)
    start, end = (torch.from_numpy(rng.normal(size=50)) for _ in range(2))
    angle = torch.from_numpy(rng.uniform(0, math.pi / 2, 50))
    place, velocity = flows.on_path(start, end, angle)
    t = torch.sin(angle) / (torch.sin(angle) + torch.cos(angle))
    c = (1 - t) ** 2 + t**2
    straight = (1 - t) * start + t * end
    torch.testing.assert_close(place * c.sqrt(), straight, rtol=1e-12, atol=1e-12)
    rest = (end - start) - (2 * t - 1) / c * straight
    torch.testing.assert_close(velocity, c.sqrt() * rest, rtol=1e-12, atol=1e-12)


def test_one_angle_lies_in_each_part():
    generator = torch.Generator().manual_seed(0)
    angles = flows.stratified_angles(generator, 6, 5, torch.device("cpu"))
    assert angles.shape == (6, 5)
    parts = torch.floor(angles.flatten() / flows.END * 30).long()
    assert sorted(parts.tolist()) == list(range(30))
    assert parts.tolist() != sorted(parts.tolist())


def normal_velocity(mean, deviation):
    """E[dw/dθ | w] for an outcome that is N(mean, deviation²), by the rule of joint normals."""

    def velocity(place, angle):
        cosine, sine = math.cos(angle), math.sin(angle)
        variance = cosine**2 + deviation**2 * sine**2
        slope = cosine * sine * (deviation**2 - 1) / variance
        return mean * cosine + slope * (place - mean * sine)

    return velocity


def test_steps_lead_to_the_outcome_with_second_order():
    start = torch.linspace(-3, 3, 25, dtype=torch.float64)
    goal = 0.7 + 0.4 * start
    errors = [
        float((flows.follow(normal_velocity(0.7, 0.4), start, steps) - goal).abs().max())
        for steps in (8, 16, 32, 64)
    ]
    ratios = np.array(errors[:-1]) / errors[1:]
    assert np.all(ratios > 3.2), errors  # four in the limit of many steps
    unchanged = flows.follow(normal_velocity(0.0, 1.0), start, 1)
    torch.testing.assert_close(unchanged, start, rtol=0, atol=0)


def peaks_velocity(places, deviation):
    """E[dw/dθ | w] for equal shares of N(place, deviation²): each peak's by its probability."""

    def velocity(w, angle):
        cosine, sine = math.cos(angle), math.sin(angle)
        spread = math.sqrt(cosine**2 + deviation**2 * sine**2)
        log_shares = torch.stack([-0.5 * ((w - p * sine) / spread) ** 2 for p in places])
        own = torch.stack([normal_velocity(p, deviation)(w, angle) for p in places])
        return (torch.softmax(log_shares, 0) * own).sum(0)

    return velocity


@pytest.mark.parametrize("deviation", [0.3, 0.1])
def test_few_steps_are_nearer_than_draws_to_the_law(deviation):
    """Residuals with two sharp peaks, by the exact velocity: the step count is enough for these."""
    level = (torch.arange(400, dtype=torch.float64) + 0.5) / 400
    start = torch.special.ndtri(level)
    velocity = peaks_velocity([-1.0, 1.0], deviation)
    few, many = (flows.follow(velocity, start, steps) for steps in (STEPS, 2000))
    # The truth has these quantiles: the distance from it is the mean gap of sorted draws.
    off = float((few.sort().values - many.sort().values).abs().mean())
    rng = np.random.default_rng(0)
    pairs = rng.choice([-1.0, 1.0], (20, 2, 200)) + deviation * rng.normal(size=(20, 2, 200))
    chance = np.abs(np.diff(np.sort(pairs, axis=-1), axis=1)).mean()
    assert off < 0.5 * chance, (off, chance)


def crps_of_normal(loc, scale, y):
    z = (y - loc) / scale
    bell, below = stats.norm.pdf(z), stats.norm.cdf(z)
    return scale * (z * (2 * below - 1) + 2 * bell - 1 / math.sqrt(math.pi))


def network(event_shape=(), n_members=2, **options):
    return kuq.nn.Network(
        kuq.nn.MLP((6, 5)), kuq.nn.FlowHead, (3,), event_shape, n_members=n_members, **options
    )


@pytest.mark.parametrize("event_shape", [(), (2,)])
def test_the_loss_is_that_of_the_normal_law_and_of_straight_paths(event_shape):
    own = network(event_shape)
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(2, 4, 3))).float()
    y = torch.from_numpy(rng.normal(size=(2, 4, *event_shape))).float()
    generators = [torch.Generator().manual_seed(k) for k in range(2)]
    noise = own.noise(generators, 4, 7)
    with torch.no_grad():
        found = own.losses(x, y, noise, kuq.CRPS()).numpy()
        loc, scale = (p.double().numpy() for p in own.start.outputs(x))
    z = (y.numpy() - loc) / scale
    crps = crps_of_normal(loc, scale, y.numpy())
    starts, angles = own.head.starts_and_angles(noise)
    t = np.tan(angles.double().numpy())
    t = (t / (1 + t)).reshape(2, 4, 7, *(1 for _ in event_shape))
    c = (1 - t) ** 2 + t**2
    straight = (1 - t) * starts.numpy() + t * z[:, :, None]
    with torch.no_grad():
        place = torch.from_numpy(straight / np.sqrt(c)).float()
        output = own._velocity(own.body.before_noise(x), place, angles, None)
    velocity = (2 * t - 1) / c * straight + output.numpy() / np.sqrt(c)
    squared = scale[:, :, None] * c * (velocity - (z[:, :, None] - starts.numpy())) ** 2
    crps = crps.reshape(2, 4, -1).mean(-1)
    np.testing.assert_allclose(found, crps + squared.reshape(2, 4, -1).mean(-1), rtol=1e-4)


def test_residuals_are_data_to_the_flow():
    """The normal law learns by its own score alone."""
    own = network()
    x, y = torch.ones(2, 4, 3), torch.ones(2, 4)
    noise = own.noise([torch.Generator().manual_seed(k) for k in range(2)], 4, 7)
    weights = list(own.start.parameters())
    both = torch.autograd.grad(own.losses(x, y, noise, kuq.CRPS()).sum(), weights)
    alone = torch.autograd.grad(own.start.losses(x, y, None, kuq.CRPS()).sum(), weights)
    for a, b in zip(both, alone, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


def test_as_many_draws_as_asked():
    own = network((2,))
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 3))).float()
    with torch.no_grad():
        few, again, many = (own(x, n_samples=n).values for n in (10, 10, 40))
    assert (few.shape, many.shape) == ((2, 4, 10, 2), (2, 4, 40, 2))
    torch.testing.assert_close(few, again, rtol=0, atol=0)


@pytest.mark.parametrize("event_shape", [(), (2,)])
def test_held_out_rows_are_judged_by_the_score_of_draws(event_shape):
    own = network(event_shape, n_steps=4)
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(4, 3))).float()
    y = torch.from_numpy(rng.normal(size=(4, *event_shape))).float()
    noise = own.prediction_noise(16)
    score = own.head.default_score(y)
    with torch.no_grad():
        rows = (x.expand(2, 4, 3), y.expand(2, *y.shape), noise, score)
        found = own.held_out_losses(*rows).numpy()
        draws = own(x, n_samples=16).values.reshape(2, 4, 16, -1).numpy()
    to_outcome = np.linalg.norm(draws - y.reshape(4, 1, -1).numpy(), axis=-1).mean(-1)
    pairs = np.linalg.norm(draws[:, :, :, None] - draws[:, :, None], axis=-1).sum((-1, -2))
    expected = to_outcome - pairs / (2 * 16 * 15)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


class Trunk(torch.nn.Module):
    """A module of a user; three inputs, one coordinate, and the angle in six numbers."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3 + 1 + 6, 8), torch.nn.BatchNorm1d(8)

    def forward(self, x):
        return self.second(self.first(x)).tanh()


def image_problem():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 2, 6, 5))
    return x, x[:, 0] + 0.1 * rng.normal(size=(12, 6, 5))


def function_problem():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, 2, 16))
    return x, x[:, 0] + np.roll(x[:, 1], 2, -1)


def table_problem():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    return x, np.sin(x[:, 0]) + 0.1 * rng.normal(size=40)


def convolution():
    """Seven more channels: the outcome on the grid of the inputs, and the angle."""
    return torch.nn.Sequential(torch.nn.Conv2d(2 + 1 + 6, 4, 3, padding=1), torch.nn.ReLU())


CASES = {
    "table": ("mlp", table_problem),
    "functions": (kuq.nn.FNO(6, 4, 8, 8, 2), function_problem),
    "functions as vectors": ("mlp", function_problem),
    "images": (convolution, image_problem),
    "own module": (Trunk, table_problem),
}
SHORT = {"n_members": 2, "n_train_samples": 4, "n_samples": 6, "batch_size": 18}
SHORT |= {"annealing": False}  # so that the number of epochs changes no step


def fitted(name, max_epochs=3, **settings):
    backbone, problem = CASES[name]
    x, y = problem()
    model = kuq.nn.Regressor("flow", backbone=backbone, max_epochs=max_epochs, **SHORT, **settings)
    return model.fit(x, y), x


@pytest.mark.parametrize("name", CASES)
def test_any_backbone_and_back_from_a_file(name, tmp_path):
    model, x = fitted(name)
    law = model.predict_distribution(x)
    event = model.network_.event_shape
    assert law.members.values.shape == (2, len(x), 6, *event)
    model.save(tmp_path / "model")
    own = {"backbone": CASES[name][0]} if callable(CASES[name][0]) else {}
    loaded = kuq.nn.Regressor.load(tmp_path / "model", **own)
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))


@pytest.mark.parametrize("name", CASES)
def test_training_goes_on_where_it_was_interrupted(name, tmp_path):
    whole, x = fitted(name, 4)
    path = tmp_path / "checkpoint"
    fitted(name, 2, checkpoint=path)
    again, _ = fitted(name, 4, checkpoint=path)
    np.testing.assert_array_equal(again.predict(x), whole.predict(x))


def test_compiled_steps_are_the_same_steps():
    (eager, x), (compiled, _) = fitted("table"), fitted("table", compile="aot_eager")
    np.testing.assert_allclose(compiled.predict(x), eager.predict(x), rtol=1e-3, atol=1e-4)


def test_burn_in_trains_the_mean_alone():
    model, _ = fitted("table", 3, burn_in=3)
    fresh = kuq.nn.Regressor("flow", **SHORT)._network((3,), ())
    for a, b in zip(model.network_.body.parameters(), fresh.body.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_steps_can_be_changed_when_a_model_is_loaded(tmp_path):
    model, x = fitted("table")
    model.save(tmp_path / "model")
    finer = kuq.nn.Regressor.load(tmp_path / "model", n_steps=64)
    assert finer.network_.head.n_steps == 64
    few, many = (m.predict_distribution(x).members.values for m in (model, finer))
    np.testing.assert_allclose(few, many, atol=0.02 * model.y_scaling_.scale)
    with pytest.raises(kuq.ParameterError, match="n_steps"):
        kuq.nn.Regressor("flow", n_steps=0)._network((3,), ())


def test_two_modes_are_found():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (3000, 1))
    side = rng.choice([-1.0, 1.0], len(x), p=[0.3, 0.7])
    y = side * (1 + x[:, 0] / 2) + 0.1 * rng.normal(size=len(x))
    model = kuq.nn.Regressor("flow", n_members=2, n_samples=200, max_epochs=30, **FAST).fit(x, y)
    draws = model.predict_distribution(np.array([[0.0], [0.6]])).members.values
    for row, size in enumerate((1.0, 1.3)):
        near = [np.mean(np.abs(draws[:, row] - s * size) < 0.35) for s in (-1, 1)]
        assert sum(near) > 0.75, near
        assert abs(near[0] - 0.3) < 0.15, near


def test_the_noise_is_found():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (3000, 1))

    def deviation(x):
        return 0.1 + 0.4 * np.abs(x[:, 0])

    y = np.sin(3 * x[:, 0]) + deviation(x) * rng.normal(size=len(x))
    model = kuq.nn.Regressor("flow", n_members=2, n_samples=200, max_epochs=25, **FAST).fit(x, y)
    grid = np.linspace(-0.95, 0.95, 39)[:, None]
    found = np.sqrt(model.predict_distribution(grid).members.variance().mean(0))
    assert np.mean(np.abs(found / deviation(grid) - 1)) < 0.2
    assert np.max(np.abs(model.predict(grid) - np.sin(3 * grid[:, 0]))) < 0.25


def test_a_planted_covariance_is_found():
    rng = np.random.default_rng(0)
    d = 4
    factor = np.array([[1.0, 0.0], [0.8, 0.6], [-1.0, 0.3], [0.2, 1.0]])
    covariance = factor @ factor.T + np.diag([0.3, 0.4, 0.5, 0.6])
    x = rng.uniform(-1, 1, (3000, 2))
    mean = x @ rng.normal(size=(2, d))
    y = mean + rng.multivariate_normal(np.zeros(d), covariance, len(x))
    model = kuq.nn.Regressor("flow", n_members=2, n_samples=500, max_epochs=25, **FAST).fit(x, y)
    draws = model.predict_distribution(np.zeros((1, 2))).members.values[:, 0]
    found = np.corrcoef(np.concatenate(draws).T)
    root = np.sqrt(np.diag(covariance))
    truth = covariance / np.outer(root, root)
    assert np.max(np.abs(truth - np.eye(d))) > 0.6
    assert np.max(np.abs(found - truth)) < 0.25


def test_draws_are_near_the_truth():
    """Skewed outcomes: nearer to true draws than the best normal law is."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (3000, 1))

    def outcomes(x, rng):
        return np.sin(2 * x[:, 0]) + 0.3 * (rng.exponential(size=len(x)) - 1)

    model = kuq.nn.Regressor("flow", n_members=2, n_samples=300, max_epochs=30, **FAST)
    model.fit(x, outcomes(x, rng))
    places = np.linspace(-0.8, 0.8, 5)
    law = model.predict_distribution(places[:, None]).members.values
    own, normal = [], []
    for row, place in enumerate(places):
        truth = outcomes(np.full((1000, 1), place), rng)
        draws = law[:, row].ravel()
        best = truth.mean() + truth.std() * rng.normal(size=len(draws))
        own.append(energy_distance(draws[:, None], truth[:, None]))
        normal.append(energy_distance(best[:, None], truth[:, None]))
    assert np.mean(own) < 0.6 * np.mean(normal), (np.mean(own), np.mean(normal))
