"""Detection of rows that come in groups, and rows of active learning that fix a scale."""

import numpy as np
import pytest
from numpy.random import default_rng

import kuq
from kuq.datasets.base import Split
from kuq_study.cell import Cell
from kuq_study.kept import to_arrays
from kuq_study.procedure import Context
from kuq_study.procedures import active_learning, ood_detection
from kuq_study.procedures.row_facts import SHARED, other_twins, reference_errors, what_rows_are

MEMBERS, GROUPS, EACH = 3, 12, 5


def area(inside, outside):
    """Pairs in the right order, ties counting half."""
    gap = outside[:, None] - inside
    return np.mean((gap > 0) + 0.5 * (gap == 0))


def predicted(rng, spread):
    """Members that differ more in some groups than in others."""
    groups = np.repeat(np.arange(GROUPS), EACH)
    scale = spread * np.repeat(rng.uniform(0.5, 1.5, GROUPS), EACH)
    loc = scale * rng.standard_normal((MEMBERS, GROUPS * EACH))
    return loc, groups, np.tile(np.arange(2, 2 + EACH), GROUPS)


def test_a_group_is_detected_as_one_and_early_frames_are_left_out():
    rng = default_rng(31)
    arrays, means, frames = {"target_distance": np.array(1.0)}, {}, {}
    for name, spread in (("test", 1.0), ("shifted", 1.4)):
        loc, groups, frame = predicted(rng, spread)
        # Under the squared error EU is twice the variance of means, whatever the scale.
        means[name], frames[name] = loc.var(0, ddof=1), frame
        arrays |= to_arrays(kuq.Ensemble(kuq.Normal(loc, 1.0)), name)
        arrays |= {f"{name}.y": loc[0], f"{name}.mean": loc.mean(0)}
        arrays |= {f"{name}.group": groups, f"{name}.frame": frame}
    evaluation = {"first_frame": 4, "other_bandwidth": 0.5, "resamples": 200}
    cell = Cell("e", "g", "d", "normal", 0, "p", ("squared", "gaussian"), evaluation=evaluation)
    context = Context(None, None, lambda *_: None)
    found = {(r.quantity, r.score): r.value for r in ood_detection.evaluate(cell, arrays, context)}
    assert found["auroc", "squared"] == pytest.approx(area(means["test"], means["shifted"]))
    grouped = [means[name].reshape(GROUPS, EACH).mean(1) for name in ("test", "shifted")]
    assert found["auroc_grouped", "squared"] == pytest.approx(area(*grouped))
    late = [means[name][frames[name] >= 4] for name in ("test", "shifted")]
    assert found["auroc_late", "squared"] == pytest.approx(area(*late))
    early = means["test"][frames["test"] < 4].sum() / means["test"].sum()
    assert found["early_share", "squared"] == pytest.approx(early)
    both = [part.reshape(GROUPS, -1).mean(1) for part in late]
    assert found["auroc_grouped_late", "squared"] == pytest.approx(area(*both))
    # Groups that are alike within make an interval wider than as many single rows would.
    plain = kuq.protocols.ood_detection(means["test"], means["shifted"], resamples=200)
    width = found["auroc_high", "squared"] - found["auroc_low", "squared"]
    assert width > plain.auroc_interval[1] - plain.auroc_interval[0]
    assert found["bandwidth", "gaussian"] == 1.0
    assert found["bandwidth_other_bandwidth", "gaussian"] == 0.5
    narrow = [
        kuq.decompose(
            kuq.Ensemble(kuq.Normal(arrays[f"{name}.loc"], 1.0)), kuq.Gaussian(0.5)
        ).epistemic
        for name in ("test", "shifted")
    ]
    assert found["auroc_other_bandwidth", "gaussian"] == pytest.approx(area(*narrow))


def test_rows_of_a_year_and_of_a_trajectory_are_groups():
    x, y = np.zeros((3, 1)), np.zeros(3)
    months = np.array(["1999-12", "2000-01", "2000-02"], "datetime64[M]")
    by_year = what_rows_are(Split(x, y, {"time": months}), "test")["test.group"]
    assert by_year.tolist() == [29, 30, 30]  # years since 1970
    rows = {"trajectory": np.array([4, 4, 7]), "frame": np.array([2, 3, 2])}
    found = what_rows_are(Split(x, y, rows), "test")
    assert {name: part.tolist() for name, part in found.items()} == {
        "test.group": [4, 4, 7],
        "test.frame": [2, 3, 2],
    }
    assert what_rows_are(Split(x, y), "test") == {}


def test_the_reanalysis_has_a_second_twin_and_forecasts_to_beat():
    cell = Cell("e", "g", "reanalysis", "normal", 0, "p")
    context = Context(None, None, lambda *_: None)
    data = kuq.datasets.load("reanalysis")
    shared = other_twins(cell, context)[SHARED]
    np.testing.assert_array_equal(shared.rows["time"], data.shifted.rows["time"])
    # Only the climate differs, which is the same in all years: differences of a year are equal.
    gap = shared.y - data.shifted.y
    np.testing.assert_allclose(gap[12:24], gap[:12], atol=1e-9)
    assert np.abs(gap).max() > 10
    errors = {name: float(value) for name, value in reference_errors(cell, data).items()}
    assert errors["reference.climatology"] == pytest.approx(np.mean(data.test.y**2))
    assert errors["reference.damped anomaly"] < errors["reference.climatology"]
    table = Cell("e", "g", "diabetes", "normal", 0, "p")
    assert other_twins(table, context) == reference_errors(table, data) == {}


@pytest.mark.parametrize("scaling", ["labelled", "initial", "pool"])
def test_learners_of_active_learning_scale_by_the_rows_that_are_named(monkeypatch, scaling):
    seen = []

    class Mean:
        def fit(self, x, y, **more):
            seen.append((y, more))
            self.value = float(np.mean(y))
            return self

        def predict(self, x):
            return np.full(len(x), self.value)

        def predict_distribution(self, x):
            loc = np.stack([self.predict(x), np.asarray(x)[:, 0]])
            return kuq.Ensemble(kuq.Normal(loc, 1.0))

    monkeypatch.setattr(active_learning, "make_model", lambda cell, seed: Mean())
    evaluation = {"initial": 0.1, "batch": 0.1, "rounds": 2, "scaling": scaling}
    cell = Cell("e", "g", "diabetes", "own", 0, "p", ("squared",), evaluation=evaluation)
    active_learning.predict(cell, Context(None, None, lambda *_: None))
    pool = np.asarray(kuq.datasets.load("diabetes", seed=0).train.y)
    for _, more in seen:
        if scaling == "labelled":
            assert more == {}
        else:
            used = pool if scaling == "pool" else seen[0][0]
            np.testing.assert_array_equal(more["scaling"][1], used)
    assert len({len(y) for y, _ in seen}) == 3
