"""as_distribution: the right law, with the very numbers of the other library's object."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.stats
from numpy.random import default_rng

import kuq

torch = pytest.importorskip("torch")
td = torch.distributions

LOC = torch.tensor(default_rng(5).normal(size=(4, 3)))
SCALE = torch.tensor(default_rng(6).uniform(0.5, 2.0, size=(4, 3)))
DF = torch.tensor(default_rng(7).uniform(3.0, 9.0, size=(4, 3)))
LOGITS = torch.tensor(default_rng(8).normal(size=(4, 3)))
FACTOR = torch.tensor(default_rng(9).normal(size=(4, 3, 2)))
ROOT = torch.linalg.cholesky(FACTOR @ FACTOR.mT + torch.eye(3))

#: Object of another library, and the same law by hand.
PAIRS = {
    "torch normal": (td.Normal(LOC, SCALE), kuq.Normal(LOC, SCALE)),
    "torch independent": (
        td.Independent(td.Normal(LOC, SCALE), 1),
        kuq.Normal(LOC, SCALE, event_ndim=1),
    ),
    "torch independent of independent": (
        td.Independent(td.Independent(td.Normal(LOC, SCALE), 1), 1),
        kuq.Normal(LOC, SCALE, event_ndim=2),
    ),
    "torch student": (td.StudentT(DF, LOC, SCALE), kuq.StudentT(DF, LOC, SCALE)),
    "torch independent student": (
        td.Independent(td.StudentT(DF, LOC, SCALE), 1),
        kuq.StudentT(DF, LOC, SCALE, event_ndim=1),
    ),
    "torch mixture": (
        td.MixtureSameFamily(td.Categorical(logits=LOGITS), td.Normal(LOC, SCALE)),
        kuq.NormalMixture(torch.softmax(LOGITS, -1), LOC, SCALE),
    ),
    "torch mixture in every coordinate": (
        td.Independent(
            td.MixtureSameFamily(td.Categorical(logits=LOGITS), td.Normal(LOC, SCALE)), 1
        ),
        kuq.NormalMixture(torch.softmax(LOGITS, -1), LOC, SCALE, event_ndim=1),
    ),
    "torch mixture of vectors of length one": (
        td.MixtureSameFamily(
            td.Categorical(logits=LOGITS),
            td.Independent(td.Normal(LOC[..., None], SCALE[..., None]), 1),
        ),
        kuq.NormalMixture(
            torch.softmax(LOGITS, -1)[:, None], LOC[:, None], SCALE[:, None], event_ndim=1
        ),
    ),
    "torch low rank": (
        td.LowRankMultivariateNormal(LOC, FACTOR, SCALE),
        kuq.LowRankNormal(LOC, FACTOR, SCALE),
    ),
    "torch multivariate normal": (
        td.MultivariateNormal(LOC, scale_tril=ROOT),
        kuq.LowRankNormal(LOC, FACTOR, torch.ones(4, 3, dtype=torch.float64)),
    ),
    "scipy norm": (
        scipy.stats.norm(LOC.numpy(), scale=SCALE.numpy()),
        kuq.Normal(LOC.numpy(), SCALE.numpy()),
    ),
    "scipy standard norm": (scipy.stats.norm(), kuq.Normal(0.0, 1.0)),
    "scipy t": (
        scipy.stats.t(DF.numpy(), LOC.numpy(), SCALE.numpy()),
        kuq.StudentT(DF.numpy(), LOC.numpy(), SCALE.numpy()),
    ),
    "scipy t by name": (
        scipy.stats.t(scale=2.0, df=DF.numpy()),
        kuq.StudentT(DF.numpy(), 0.0, 2.0),
    ),
    "scipy Normal": (
        scipy.stats.Normal(mu=LOC.numpy(), sigma=2.0),
        kuq.Normal(LOC.numpy(), np.full((4, 3), 2.0)),
    ),
    "scipy multivariate normal": (
        scipy.stats.multivariate_normal(LOC[0].numpy(), (ROOT @ ROOT.mT)[0].numpy()),
        kuq.LowRankNormal(LOC[0].numpy(), FACTOR[0].numpy(), np.ones(3)),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("score", [kuq.CRPS(reduce="sum"), kuq.Energy(), kuq.Gaussian(1.5)])
def test_equals_the_law_built_by_hand(name, score):
    theirs, by_hand = PAIRS[name]
    ours = kuq.as_distribution(theirs)
    assert type(ours) is type(by_hand)
    assert (ours.batch_shape, ours.event_shape) == (by_hand.batch_shape, by_hand.event_shape)
    found, expected = kuq.entropy(ours, score), kuq.entropy(by_hand, score)
    assert type(found) is type(expected)
    # A covariance in another factorisation takes other nodes of the quadrature.
    np.testing.assert_allclose(found, expected, rtol=1e-9 if "multivariate" in name else 1e-12)


@pytest.mark.parametrize("name", PAIRS)
def test_moments_are_those_of_the_other_library(name):
    theirs, _ = PAIRS[name]
    ours = kuq.as_distribution(theirs)
    if isinstance(theirs, td.Distribution):
        mean, variance = theirs.mean, theirs.variance
    elif hasattr(theirs, "cov"):
        mean, variance = theirs.mean, np.diag(theirs.cov)
    else:
        mean, variance = theirs.mean(), theirs.var() if hasattr(theirs, "var") else None
        variance = theirs.variance() if variance is None else variance
    np.testing.assert_allclose(ours.mean(), mean, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(ours.variance(), variance, rtol=1e-12)


def test_gradients_flow_to_the_parameters_of_torch():
    loc = LOC.clone().requires_grad_()
    p = kuq.as_distribution(td.Independent(td.Normal(loc, SCALE), 1))
    kuq.score(p, torch.zeros(4, 3, dtype=torch.float64), kuq.Energy()).sum().backward()
    by_hand = LOC.clone().requires_grad_()
    q = kuq.Normal(by_hand, SCALE, event_ndim=1)
    kuq.score(q, torch.zeros(4, 3, dtype=torch.float64), kuq.Energy()).sum().backward()
    np.testing.assert_allclose(loc.grad, by_hand.grad, rtol=1e-13)
    assert loc.grad.abs().max() > 0.1


def test_log_score_is_the_log_density_of_torch():
    rng = np.random.default_rng(5)
    y = torch.tensor(rng.normal(size=4))
    mixture = PAIRS["torch mixture"][0]
    full = PAIRS["torch multivariate normal"][0]
    np.testing.assert_allclose(
        kuq.score(kuq.as_distribution(full), LOC + 1.0, kuq.LogScore()),
        -full.log_prob(LOC + 1.0),
        rtol=1e-10,
    )
    np.testing.assert_allclose(
        kuq.score(kuq.as_distribution(mixture), y, kuq.LogScore()), -mixture.log_prob(y), rtol=1e-12
    )


def test_members_make_an_ensemble():
    members = [td.Normal(LOC + k, SCALE) for k in range(3)]
    ensemble = kuq.Ensemble([kuq.as_distribution(p) for p in members])
    by_hand = kuq.Ensemble(kuq.Normal(torch.stack([LOC + k for k in range(3)]), SCALE[None]))
    found, expected = (kuq.decompose(e, kuq.CRPS()) for e in (ensemble, by_hand))
    np.testing.assert_allclose(found.epistemic, expected.epistemic, rtol=1e-12)


def test_event_axes_can_be_named_where_the_object_leaves_them_open():
    p = kuq.as_distribution(scipy.stats.norm(LOC.numpy(), 1.0), event_ndim=1)
    assert (p.batch_shape, p.event_shape) == ((4,), (3,))
    assert kuq.as_distribution(td.Normal(LOC, SCALE), event_ndim=2).event_shape == (4, 3)


def test_a_class_derived_from_one_of_torch_is_one_of_torch():
    class Mine(td.Normal):
        pass

    assert isinstance(kuq.as_distribution(Mine(LOC, SCALE)), kuq.Normal)


def test_kuq_distributions_pass_through():
    p = kuq.Normal(0.0, 1.0)
    assert kuq.as_distribution(p) is p
    with pytest.raises(kuq.ParameterError, match="leave event_ndim out"):
        kuq.as_distribution(p, event_ndim=1)


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (np.zeros(3), "kuq.Samples"),
        (LOC, "kuq.Samples"),
        ([td.Normal(0.0, 1.0)], "kuq.Ensemble"),
        (object(), "no adapter for builtins.object"),
        (td.Gamma(1.0, 1.0), "no adapter for torch"),
        (
            td.MixtureSameFamily(td.Categorical(torch.ones(2)), td.Gamma(torch.ones(2), 1.0)),
            "no ad",
        ),
        (scipy.stats.gamma(2.0), "no adapter for scipy"),
        (td.Independent(td.MultivariateNormal(LOC, scale_tril=ROOT), 1), "event_ndim = 2"),
        (
            td.MixtureSameFamily(
                td.Categorical(logits=LOGITS[0]),
                td.Independent(td.Normal(LOC[:3], SCALE[:3]), 1),
            ),
            "mixed together",
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_has_no_adapter_is_refused_with_a_remedy(obj, message):
    with pytest.raises(kuq.ParameterError, match=message):
        kuq.as_distribution(obj)


def test_finding_an_adapter_imports_no_other_library():
    code = (
        "import sys, scipy.stats, kuq; kuq.as_distribution(scipy.stats.norm());"
        "kuq.adapters.quantiles([0.1, 0.9], [0.0, 1.0]);"
        "heavy = {'torch', 'jax', 'ngboost', 'catboost', 'sklearn', 'xarray', 'pandas'};"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
