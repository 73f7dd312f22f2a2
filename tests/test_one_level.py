"""Members without noise of their own: the result says that it is not split, everywhere."""

import numpy as np
import pytest

import kuq

SENTENCE = "spread of the members; their own noise is unknown"
SCORES = [
    *(kuq.CRPS(), kuq.Energy(), kuq.Energy(0.5), kuq.SquaredError(), kuq.LogScore()),
    *(kuq.Gaussian(1.0), kuq.Laplace(1.0), kuq.Matern(1.0, 1.5), kuq.RationalQuadratic(1.0, 2.0)),
    *(kuq.Gaussian(0.5) + kuq.Gaussian(2.0), kuq.tail(kuq.CRPS(), 0.0)),
]


@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_points_are_a_spread_and_not_epistemic(score):
    values = np.random.default_rng(1).normal(size=(5, 20))
    u = kuq.decompose(kuq.Ensemble(kuq.Point(values)), score)
    assert not u.is_split
    assert u.note == SENTENCE
    assert SENTENCE in repr(u)
    assert "aleatoric" not in repr(u)
    assert "epistemic" not in repr(u)


@pytest.mark.parametrize(
    "members",
    [
        lambda x: kuq.Normal(x, 0.0),
        lambda x: kuq.Samples(x[..., None]),
        lambda x: kuq.Samples(np.stack([x, x + 9.0], axis=-1), weights=[1.0, 0.0]),
        lambda x: kuq.Point(np.stack([x, -x], axis=-1), event_ndim=1),
    ],
    ids=["scale zero", "one draw", "weight on one draw", "vectors"],
)
def test_so_are_other_members_without_noise(members):
    values = np.random.default_rng(2).normal(size=(4, 7))
    u = kuq.decompose(kuq.Ensemble(members(values)), kuq.Energy(), unbiased="members")
    assert not u.is_split
    assert u.note == SENTENCE


def test_noise_at_some_inputs_only_is_counted():
    rng = np.random.default_rng(3)
    scale = np.where(np.arange(10) < 3, 0.0, 1.0)
    u = kuq.decompose(kuq.Ensemble(kuq.Normal(rng.normal(size=(4, 10)), scale)), kuq.CRPS())
    assert u.is_split
    assert u.note == f"3 of 10 inputs: {SENTENCE}"
    assert u.note in repr(u)
    assert "aleatoric mean" in repr(u)


@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_members_with_noise_are_split(score):
    rng = np.random.default_rng(4)
    u = kuq.decompose(kuq.Ensemble(kuq.Normal(rng.normal(size=(4, 6)), 0.3)), score)
    assert u.is_split
    assert u.note == ""
    assert "epistemic" in repr(u)


def test_an_evidential_law_and_agreeing_members_are_split():
    u = kuq.decompose(kuq.NormalInverseGamma([0.0, 1.0], 1.0, 3.0, 1.0), kuq.CRPS())
    assert u.note == ""
    u = kuq.decompose(kuq.Ensemble(kuq.Normal(np.zeros((3, 2)), 1.0)), kuq.CRPS())
    assert (u.is_split, u.note) == (True, "")


def test_influence_of_members_is_no_spread():
    """Members of one scale: without any of them the aleatoric part does not change."""
    loc = np.random.default_rng(5).normal(size=(4, 6))
    changes = kuq.member_influence(kuq.Ensemble(kuq.Normal(loc, 1.0)), kuq.CRPS())
    assert np.all(changes.aleatoric == 0)
    assert changes.is_split
    assert changes.note == ""


def test_missing_inputs_are_left_out():
    values = np.random.default_rng(6).normal(size=(3, 4, 1))
    values[:, 1] = np.nan
    members = kuq.Samples(values, nan_policy="propagate")
    u = kuq.decompose(kuq.Ensemble(members), kuq.CRPS(), unbiased="members")
    assert np.isnan(u.total).tolist() == [False, True, False, False]
    assert u.note == SENTENCE


def test_scalars_and_torch_say_it_too():
    assert kuq.decompose(kuq.Ensemble(kuq.Point([0.0, 1.0])), kuq.CRPS()).note == SENTENCE
    torch = pytest.importorskip("torch")
    values = torch.tensor([[0.0, 1.0], [2.0, 4.0]], requires_grad=True)
    u = kuq.decompose(kuq.Ensemble(kuq.Point(values)), kuq.CRPS())
    assert u.note == SENTENCE
    assert SENTENCE in repr(u)


def test_jax_says_it_too_and_nothing_under_jit():
    jax = pytest.importorskip("jax")
    values = jax.numpy.asarray([[0.0, 1.0], [2.0, 4.0]])
    u = kuq.decompose(kuq.Ensemble(kuq.Point(values)), kuq.CRPS())
    assert u.note == SENTENCE
    assert SENTENCE in repr(u)
    seen = []

    @jax.jit
    def total(x):
        found = kuq.decompose(kuq.Ensemble(kuq.Point(x)), kuq.CRPS())
        seen.append((repr(found), found.is_split, found.note))
        return found.total

    total(values)
    assert seen[0][1:] == (True, "")
    assert u.to_frame().shape == (2, 3)


def test_weight_on_one_draw_is_refused_and_not_nan():
    """A forest with one row in most leaves fills them up with draws of weight zero."""
    law = kuq.Samples([[0.0, 1.0], [0.0, 1.0]], weights=[[1.0, 0.0], [0.5, 0.5]])
    for call in (
        lambda: kuq.decompose(kuq.Ensemble(law), kuq.CRPS()),
        lambda: kuq.member_divergences(kuq.Ensemble(law), kuq.CRPS()),
        lambda: kuq.member_influence(kuq.Ensemble([law] * 3), kuq.CRPS()),
    ):
        with pytest.raises(kuq.InsufficientDataError, match=r"1 of 2 laws .* weight on one draw"):
            call()
    found = kuq.decompose(kuq.Ensemble(law), kuq.CRPS(), unbiased="members")
    assert np.isfinite(found.total)
