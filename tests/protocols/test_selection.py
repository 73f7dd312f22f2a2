"""Choosing a score: measures against other code, the default under noise, a better one found."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import kuq
from kuq.protocols import selective_prediction

FEW = ["crps", "squared", "gaussian:median*0.25", "gaussian:multi"]


def strays(rng, n=500):
    """One member in six is far off now and then, which says nothing about the error."""
    scale = rng.gamma(3.0, size=n)
    means = 0.4 * scale * rng.normal(size=(6, n))
    wrong = rng.random(n) < 0.3
    means[0, wrong] += rng.choice([-60, 60], wrong.sum())
    y = scale * rng.normal(size=n) + means.mean(axis=0)
    return kuq.Ensemble(kuq.Normal(means, np.broadcast_to(scale, (6, n)))), y


def noise(rng, n=150):
    """Nothing that is predicted has to do with the outcomes."""
    prediction = kuq.Normal(rng.normal(size=(5, n)), rng.gamma(2.0, size=(5, n)))
    return kuq.Ensemble(prediction), rng.normal(size=n)


def test_a_better_score_is_found_and_its_gain_holds_on_new_data():
    found = kuq.select_score(*strays(np.random.default_rng(0)), candidates=FEW, resamples=100)
    assert found.name == "gaussian:median*0.25"
    assert found.score == kuq.Gaussian("median*0.25")
    row = {row.name: row for row in found.table}[found.name]
    assert row.gain_interval[0] > 0
    prediction, y = strays(np.random.default_rng(1), 4000)
    errors = (prediction.mean() - y) ** 2
    new = {
        name: selective_prediction(kuq.decompose(prediction, name).total, errors).prr
        for name in ("crps", found.name)
    }
    # The gain is about 0.2, and a fifth of 500 cases knows it to about 0.1.
    assert new["crps"] - new[found.name] > 0.1
    assert abs(found.expected - new[found.name]) < 0.15


def test_pure_noise_gives_the_default():
    """At a level of 5 %: of 20 choices 5 others come with a chance of 3e-4."""
    others = 0
    for i in range(20):
        found = kuq.select_score(
            *noise(np.random.default_rng(i)), candidates=FEW, resamples=60, seed=i
        )
        others += found.name != "crps"
    assert others <= 4


def test_contrary_errors_give_the_default():
    """The other score is less wrong than the usual one beyond noise, and still worse than chance:
    strays mix an order that is the wrong way round.
    """
    rng = np.random.default_rng(3)
    prediction, _ = strays(rng)
    scale = prediction.members.scale[0]
    y = prediction.mean() + rng.normal(size=scale.size) / scale
    names = ["gaussian:median*0.25", "crps"]
    found = kuq.select_score(prediction, y, candidates=names, resamples=100)
    assert found.table[1].gain_interval[0] > 0.01
    assert found.table[1].value > 1
    assert found.name == names[0]


def test_a_contrary_shift_gives_the_default():
    rng = np.random.default_rng(4)
    inside, outside = (rng.normal(scale=size, size=(5, 300)) for size in (1.0, 0.5))
    inside[:2] += 1.5  # as large under the squared error, and farther apart for a narrow kernel
    sides = [kuq.Ensemble(kuq.Normal(side, 0.1)) for side in (inside, outside)]
    for first, second in (("gaussian:0.3", "squared"), ("squared", "gaussian:0.3")):
        found = kuq.select_score(
            sides[0], task="detection", outside=sides[1], candidates=[first, second], resamples=60
        )
        assert all(row.value < 0.5 for row in found.table)
        assert found.name == first


def test_ranking_is_the_prediction_rejection_ratio():
    prediction, y = strays(np.random.default_rng(2), 2000)
    found = kuq.select_score(prediction, y, candidates=FEW, resamples=50)
    for row in found.table:
        u = kuq.decompose(prediction, row.name).total
        expected = selective_prediction(u, (prediction.mean() - y) ** 2).prr
        assert row.value == pytest.approx(expected, abs=2e-3)  # one step of 2000, and 100 shares
        assert row.interval[0] < row.value < row.interval[1]


@pytest.mark.parametrize("ties", [False, True])
def test_detection_is_the_auroc(ties):
    rng = np.random.default_rng(3)
    means = [size * rng.normal(size=(5, 80 + 40 * k)) for k, size in enumerate((0.2, 0.4))]
    if ties:
        means = [np.round(m) for m in means]
    inside, outside = (kuq.Ensemble(kuq.Normal(m, 1.0)) for m in means)
    found = kuq.select_score(inside, task="detection", outside=outside, candidates=FEW)
    for row in found.table:
        here = kuq.decompose(inside, row.name)
        there = kuq.decompose(outside, here.score)
        labels = np.repeat([0, 1], [80, 120])
        expected = roc_auc_score(labels, np.concatenate([here.epistemic, there.epistemic]))
        assert row.value == pytest.approx(expected, abs=1e-12)


def test_a_score_that_never_fails_is_found_beside_a_blind_one():
    """Every resample has the same gain; what did not vary was not taken for better than noise."""
    means, wide = np.array([[0.0], [1.0]]), np.array([[1.0], [3.0]])
    inside = kuq.Ensemble(kuq.Normal(np.tile(means, (1, 40)), 1.0))
    outside = kuq.Ensemble(kuq.Normal(np.tile(means, (1, 30)), np.tile(wide, (1, 30))))
    found = kuq.select_score(
        inside, task="detection", outside=outside, candidates=["squared", "crps"], resamples=50
    )
    assert found.name == "crps"
    assert [row.value for row in found.table] == [0.5, 1.0]


def test_acquisition_conditions_on_labels():
    """Against a normal vector over all cases, conditioned on the labelled ones."""
    from kuq.protocols.selection import _Acquisition

    rng = np.random.default_rng(4)
    means, scale = rng.normal(size=(4, 60)), rng.gamma(2.0, size=(4, 60))
    y = rng.normal(size=60)
    task = _Acquisition(kuq.Ensemble(kuq.Normal(means, scale)), y, None, None, 0)
    task.look("crps", kuq.CRPS(), "pairwise")
    mixed = np.random.default_rng([0, 5, 2]).permutation(60)
    pool, test = mixed[:30], mixed[30:]
    epistemic = kuq.decompose(kuq.Ensemble(kuq.Normal(means, scale)), "crps").epistemic
    chosen = pool[np.argsort(-epistemic[pool])[:3]]
    covariance = np.cov(means.T, bias=True)
    within = covariance[np.ix_(chosen, chosen)] + np.diag((scale**2).mean(axis=0)[chosen])
    rest = (y - means.mean(axis=0))[chosen]
    moved = means.mean(axis=0) + covariance[:, chosen] @ np.linalg.solve(within, rest)
    expected = np.mean((y - moved)[test] ** 2)
    assert task._after("crps", np.ones(60), [0, 5, 2]) == pytest.approx(expected, rel=1e-9)


def test_acquisition_finds_what_helps():
    """A member that is right tells itself by labels where it stands alone, not where all differ."""
    rng = np.random.default_rng(5)
    n = 400
    truth = rng.normal(size=n)
    means = np.stack([truth + 0.5 * sign * np.ones(n) for sign in (0, 1, 1, -1)])
    found = kuq.select_score(
        kuq.Ensemble(kuq.Normal(means, 0.1)), truth, "acquisition", candidates=FEW, resamples=50
    )
    assert found.table[0].value < 0.5 * np.mean((means.mean(axis=0) - truth) ** 2)
    assert found.name == "crps"  # all differ alike everywhere


def test_groups_are_drawn_as_a_whole():
    """Cases that come ten times over know no more than one of each."""
    prediction, y = strays(np.random.default_rng(6), 60)
    law = prediction.members
    ten = kuq.Ensemble(kuq.Normal(*(np.repeat(a, 10, axis=1) for a in (law.loc, law.scale))))
    labels = np.repeat(np.arange(60), 10)
    alone, grouped, naive = (
        kuq.select_score(p, target, candidates=FEW[:3], groups=groups, resamples=100)
        for p, target, groups in (
            (prediction, y, None),
            (ten, np.repeat(y, 10), labels),
            (ten, np.repeat(y, 10), None),
        )
    )
    widths = [np.ptp(found.table[2].gain_interval) for found in (alone, grouped, naive)]
    assert widths[1] == pytest.approx(widths[0], rel=0.35)
    assert widths[2] < 0.6 * widths[0]


def test_vectors_begin_with_the_energy_score_and_all_libraries_agree():
    rng = np.random.default_rng(7)
    draws = rng.normal(size=(3, 40, 12, 2)) + rng.normal(size=(3, 40, 1, 2))
    y = rng.normal(size=(40, 2))
    found = kuq.select_score(kuq.Ensemble(kuq.Samples(draws, event_ndim=1)), y, resamples=50)
    assert found.usual == "energy"
    assert "gaussian:multi" in [row.name for row in found.table]
    torch = pytest.importorskip("torch")
    other = kuq.select_score(
        kuq.Ensemble(kuq.Samples(torch.as_tensor(draws), event_ndim=1)),
        torch.as_tensor(y),
        resamples=50,
    )
    assert other.name == found.name
    np.testing.assert_allclose(
        [row.value for row in other.table], [row.value for row in found.table], rtol=1e-9
    )


def test_the_table_is_shown():
    found = kuq.select_score(*noise(np.random.default_rng(8)), candidates=FEW, resamples=50)
    text = repr(found)
    assert "gain over crps" in text
    assert all(name in text for name in FEW)
    frame = found.to_frame()
    assert frame.index.tolist() == FEW
    assert frame["chosen"].sum() == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"task": "best"}, "task must be one of"),
        ({"y": None}, "needs the outcomes"),
        ({"task": "detection"}, "needs outside"),
        ({"candidates": []}, "at least one candidate"),
        ({"candidates": ["crps", "crps"]}, "twice"),
        ({"resamples": 10}, "at least 50"),
        ({"tie": -0.1}, "tie must be"),
        ({"outside": 1.0}, "outside is for"),
    ],
)
def test_refused(options, words):
    prediction, y = noise(np.random.default_rng(9), 30)
    settings = {"y": y, "candidates": FEW, **options}
    with pytest.raises(kuq.ParameterError, match=words):
        kuq.select_score(prediction, **settings)


def test_too_few_cases_and_wrong_shapes():
    prediction, y = noise(np.random.default_rng(9), 15)
    with pytest.raises(kuq.InsufficientDataError, match="20 independent cases"):
        kuq.select_score(prediction, y)
    with pytest.raises(kuq.ShapeError, match="one axis of cases"):
        kuq.select_score(kuq.Ensemble(kuq.Normal(np.zeros((3, 4, 5)), 1.0)), np.zeros((4, 5)))
    prediction, y = noise(np.random.default_rng(9), 30)
    with pytest.raises(kuq.ShapeError, match="shape"):
        kuq.select_score(prediction, y[:, None])


def test_scores_without_a_way_are_named():
    """The user's own list is refused as a whole, the usual one goes on without them."""
    prediction = kuq.NormalInverseGamma(np.zeros(30), 1.0, 1.4, np.linspace(1, 2, 30))
    y = np.linspace(-1, 1, 30)
    found = kuq.select_score(prediction, y, resamples=50)
    assert all(reason for reason in found.skipped.values())
    with pytest.raises(kuq.KuqError):
        kuq.select_score(prediction, y, candidates=["crps", *found.skipped, "patience"])
