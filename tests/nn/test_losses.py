"""Training losses beside torch.distributions, formulas written out, and kuq.score."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

pytest.importorskip("torch")

import torch

import kuq
from kuq.nn import losses

M, B, K, D, R, N = 3, 5, 4, 7, 2, 6


def numbers(*shape, seed=0, positive=False):
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.3, 2.0, shape) if positive else rng.normal(size=shape)
    return torch.from_numpy(values).requires_grad_()


def same_with_gradients(ours, theirs, leaves, rtol=1e-10):
    """Values and the gradients of a weighted sum agree."""
    weight = torch.from_numpy(np.random.default_rng(9).uniform(1, 2, tuple(ours.shape)))
    torch.testing.assert_close(ours, theirs, rtol=rtol, atol=1e-12)
    first = torch.autograd.grad((weight * ours).sum(), leaves, retain_graph=True)
    second = torch.autograd.grad((weight * theirs).sum(), leaves)
    for a, b in zip(first, second, strict=True):
        torch.testing.assert_close(a, b, rtol=rtol, atol=1e-10)


def test_normal_log_is_that_of_torch():
    loc, scale, y = numbers(M, B), numbers(M, B, seed=1, positive=True), numbers(M, B, seed=2)
    exact = -torch.distributions.Normal(loc, scale).log_prob(y)
    same_with_gradients(losses.normal_log(loc, scale, y), exact, [loc, scale])


def test_natural_head_has_the_likelihood_in_natural_form():
    """−(η₁ y + η₂ y²) − η₁²/(4η₂) − ½ log(−2η₂) + ½ log 2π, with respect to the raw numbers."""
    head = kuq.nn.NormalHead(1, natural=True).double()
    raw, y = numbers(M, B, 2), numbers(M, B, seed=1)
    ours = head.loss(head.activated(raw), y, kuq.LogScore())
    first = raw[..., 0]
    second = -torch.nn.functional.softplus(raw[..., 1] + math.log(math.expm1(0.5))) - 1e-6
    exact = (
        -(first * y + second * y**2)
        - first**2 / (4 * second)
        - 0.5 * torch.log(-2 * second)
        + 0.5 * math.log(2 * math.pi)
    )
    same_with_gradients(ours, exact, [raw], rtol=1e-8)


def test_evidential_is_student_t_and_regulariser():
    loc, y = numbers(M, B), numbers(M, B, seed=1)
    nu, alpha, beta = (numbers(M, B, seed=s, positive=True) for s in (2, 3, 4))
    shape = alpha + 1
    scale = torch.sqrt(beta * (1 + nu) / (nu * shape))
    predictive = torch.distributions.StudentT(2 * shape, loc, scale)
    exact = -predictive.log_prob(y) + 0.01 * (y - loc).abs() * (2 * nu + shape)
    ours = losses.evidential_loss(loc, nu, shape, beta, y, 0.01)
    same_with_gradients(ours, exact, [loc, nu, alpha, beta])


def folded(mean, deviation):
    normal = torch.distributions.Normal(torch.zeros(()).double(), 1.0)
    z = mean / deviation
    return 2 * deviation * torch.exp(normal.log_prob(z)) + mean * (2 * normal.cdf(z) - 1)


def test_clipped_squares_change_the_slope_in_the_deviation_alone():
    loc, scale, y = numbers(M, B), numbers(M, B, seed=1, positive=True), numbers(M, B, seed=2)
    exact = folded(y - loc, scale) - scale / math.sqrt(math.pi)
    ours = losses.normal_crps_clipped(loc, scale, y)
    same_with_gradients(ours, exact, [loc])
    (slope,) = torch.autograd.grad(ours.sum(), [scale])
    z = ((y - loc) / scale).detach().numpy()
    mean = quad(lambda t: min(t * t, 4) * norm.pdf(t), -12, 12, points=[-2, 2])[0]
    np.testing.assert_allclose(slope, (mean - np.minimum(z**2, 4)) / math.sqrt(math.pi), rtol=1e-9)


def test_clipped_squares_tell_more_of_normal_noise_than_the_crps():
    """The precision of a deviation that is learned by a slope, over that by the likelihood.

    (E slope')² / (2 E slope²), with the derivative in the logarithm of the true deviation.
    """

    def precision(slope):
        z = torch.from_numpy(np.linspace(-9, 9, 180_001))
        one = torch.ones_like(z).requires_grad_()
        (values,) = torch.autograd.grad(slope(torch.zeros_like(z), one, z).sum(), [one])
        assert values.abs().max() < 2  # one outcome far away pulls by so much only
        density, values = norm.pdf(z.numpy()) * 1e-4, values.numpy()
        assert abs((values * density).sum()) < 1e-7  # zero on average at the truth
        change = (values * (z.numpy() ** 2 - 1) * density).sum()
        return change**2 / (2 * (values**2 * density).sum())

    def crps(loc, scale, y):
        return folded(y - loc, scale) - scale / math.sqrt(math.pi)

    assert precision(losses.normal_crps_clipped) == pytest.approx(0.8852, abs=2e-4)
    assert precision(crps) == pytest.approx(0.8080, abs=2e-4)


def test_normals_of_tables_alone_learn_from_clipped_squares():
    """By default and where a CRPS is asked for; not on grids, and not under other scores."""
    raw, y = numbers(M, B, 3, 2), numbers(M, B, 3, seed=1)

    def slopes(score, **options):
        head = kuq.nn.NormalHead(1, (3,), **options).double()
        loss = head.loss(head.activated(raw), y, score)
        same = kuq.score(head.law(tuple(p.detach() for p in head.activated(raw))), y, score)
        torch.testing.assert_close(loss.detach(), same, rtol=1e-9, atol=0)
        return torch.autograd.grad(loss.sum(), [raw])[0]

    for reduce in ("mean", "sum"):
        score = kuq.CRPS(reduce=reduce)
        clipped, own = slopes(score), slopes(score, clipped_squares=False)
        torch.testing.assert_close(clipped[..., 0], own[..., 0], rtol=1e-7, atol=1e-12)
        assert not torch.isclose(clipped[..., 1], own[..., 1], rtol=1e-3).any()
        torch.testing.assert_close(slopes(score, on_grid=True), own, rtol=1e-12, atol=0)
    for other in (kuq.LogScore(), kuq.Gaussian(1.0), kuq.Energy()):
        same = slopes(other, clipped_squares=False)
        torch.testing.assert_close(slopes(other), same, rtol=1e-12, atol=0)


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("components", [1, 2, K])
def test_mixture_crps_over_all_pairs(components, eager):
    """As one step on the CPU, and as it stands in graphs."""
    logits, loc = numbers(M, B, components), numbers(M, B, components, seed=1)
    scale, y = numbers(M, B, components, seed=2, positive=True), numbers(M, B, seed=3)
    weights = torch.softmax(logits, -1)
    pairs = folded(
        loc[..., :, None] - loc[..., None, :],
        torch.sqrt(scale[..., :, None] ** 2 + scale[..., None, :] ** 2),
    )
    between = (weights[..., :, None] * weights[..., None, :] * pairs).sum((-1, -2))
    exact = (weights * folded(y[..., None] - loc, scale)).sum(-1) - between / 2
    head = kuq.nn.MixtureHead(1, n_components=components)
    loss = head.loss if eager else head.closed_loss
    ours = loss((weights, loc, scale), y, kuq.CRPS())
    same_with_gradients(ours, exact, [logits, loc, scale])


def test_normal_crps_is_that_of_the_formula():
    loc, scale, y = numbers(M, B), numbers(M, B, seed=1, positive=True), numbers(M, B, seed=2)
    ours = kuq.nn.NormalHead(1, clipped_squares=False).loss((loc, scale), y, kuq.CRPS())
    same_with_gradients(ours, folded(y - loc, scale) - scale / math.sqrt(math.pi), [loc, scale])


def test_fair_crps_over_all_pairs():
    values, y = numbers(M, B, N, 2), numbers(M, B, 2, seed=1)
    gaps = (values[:, :, :, None] - values[:, :, None]).abs().sum((2, 3)) / (2 * N * (N - 1))
    exact = (values - y[:, :, None]).abs().mean(2) - gaps
    each = kuq.Marginal(kuq.Energy(), reduce=None)
    same_with_gradients(kuq.score(kuq.Samples(values, 1), y, each), exact, [values])


def test_fair_energy_over_all_pairs():
    values, y = numbers(M, B, N, D), numbers(M, B, D, seed=1)
    i, j = np.triu_indices(N, 1)
    between = (values[:, :, i] - values[:, :, j]).norm(dim=-1).sum(-1) / (N * (N - 1))
    exact = (values - y[:, :, None]).norm(dim=-1).mean(-1) - between
    head = kuq.nn.SamplerHead(1, (D,))
    same_with_gradients(head.loss((values,), y, kuq.Energy()), exact, [values])


def test_energy_of_equal_draws_has_a_gradient():
    values = torch.ones(1, 1, 4, 3, requires_grad=True)
    head = kuq.nn.SamplerHead(1, (3,))
    head.loss((values,), torch.zeros(1, 1, 3), kuq.Energy()).sum().backward()
    assert torch.isfinite(values.grad).all()


@pytest.mark.parametrize("rank", [R, D, D + 2])
def test_low_rank_by_dense_matrices(rank):
    loc, factor = numbers(M, B, D), numbers(M, B, D, rank, seed=1)
    diag, y = numbers(M, B, D, seed=2, positive=True), numbers(M, B, D, seed=3)
    width = 2.5
    covariance = factor @ factor.mT + torch.diag_embed(diag)

    def overlap(gap, covariance):
        inner = torch.eye(D) + 2 / width**2 * covariance
        form = (gap * torch.linalg.solve(inner, gap)).sum(-1)
        return torch.exp(-form / width**2) / torch.sqrt(torch.linalg.det(inner))

    zero = torch.zeros_like(loc)
    exact = 0.5 + overlap(zero, 2 * covariance) / 2 - overlap(y - loc, covariance)
    ours = losses.low_rank_gaussian(loc, factor, diag, y, width)
    same_with_gradients(ours, exact, [loc, factor, diag])


HEADS = {
    "normal": (kuq.nn.NormalHead, {}),
    "natural": (kuq.nn.NormalHead, {"natural": True}),
    "evidential": (kuq.nn.EvidentialHead, {}),
    "mixture": (kuq.nn.MixtureHead, {"n_components": 3}),
    "low-rank": (kuq.nn.LowRankHead, {"rank": 2}),
    "sampler": (kuq.nn.SamplerHead, {"noise_channels": 1}),
}
SCORES = (
    kuq.CRPS(),
    kuq.CRPS(reduce="sum"),
    kuq.Energy(),
    kuq.Gaussian(1.3),
    kuq.SquaredError(),
    kuq.LogScore(),
)


@pytest.mark.parametrize("event", [(), (3,), (2, 2)])
@pytest.mark.parametrize("name", HEADS)
def test_any_score_is_a_loss_of_any_head(name, event):
    """The loss is kuq.score of the predicted law, and has a finite gradient."""
    kind, options = HEADS[name]
    torch.manual_seed(0)
    head = kind(5, event, n_members=2, **options).double()
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter)
    draws = (4,) if name == "sampler" else ()
    features = torch.randn(2, 3, *draws, 5, dtype=torch.float64)
    y = torch.randn(2, 3, *event, dtype=torch.float64)
    for score in SCORES:
        if name == "sampler" and isinstance(score, kuq.LogScore):
            continue
        if name == "evidential" and (event or isinstance(score, kuq.SquaredError)):
            continue  # quadratures over Student-t laws: scalars with finite variance are enough
        outputs = head.outputs(features)
        loss = head.loss(outputs, y, score)
        law = head.law(tuple(p.detach() for p in outputs))
        exact = kuq.score(law, head.outcome(y), score)
        torch.testing.assert_close(loss, exact, rtol=1e-7, atol=1e-9)
        gradients = torch.autograd.grad(loss.sum(), list(head.parameters()))
        assert all(torch.isfinite(g).all() for g in gradients), score


def test_default_losses_are_those_of_the_paper_but_for_normals():
    y = torch.randn(20, 3)
    assert repr(kuq.nn.NormalHead(2).default_score(y)) == repr(kuq.CRPS())
    assert kuq.nn.EvidentialHead(2).default_score(y) is None
    assert repr(kuq.nn.MixtureHead(2).default_score(y)) == repr(kuq.CRPS())
    assert repr(kuq.nn.SamplerHead(2).default_score(y)) == repr(kuq.CRPS())
    assert repr(kuq.nn.SamplerHead(2, (3,)).default_score(y)) == repr(kuq.Energy())
    gaussian = kuq.nn.LowRankHead(2, (3,)).default_score(y)
    assert gaussian.bandwidth == pytest.approx(kuq.median_bandwidth(y.double(), 1))
