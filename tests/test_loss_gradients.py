"""Losses in torch on the CPU: values and gradients of compiled code as one recorded step."""

import dataclasses
import weakref

import numpy as np
import pytest
from high_precision import absolute_power, exact, gaussian, mp, mpf

pytest.importorskip("torch")
pytest.importorskip("numba")

import torch
import torch.utils.checkpoint
from torch.autograd import forward_ad

import kuq
from kuq import _compiled, walks
from kuq._array import _lie_between, addresses_of

N, M, K, D = 6, 3, 4, 5


def leaf(*shape, seed=0, dtype=torch.float64, positive=False):
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.3, 2.0, shape) if positive else rng.normal(size=shape)
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def outcome(*shape, dtype=torch.float64):
    return torch.tensor(np.random.default_rng(99).normal(size=shape), dtype=dtype)


def normals(*shape, dtype=torch.float64, event=0):
    return [
        leaf(*shape, dtype=dtype),
        leaf(*shape, seed=1, dtype=dtype, positive=True),
    ], lambda loc, scale: kuq.Normal(loc, scale, event)


def mixtures(*shape, dtype=torch.float64, event=0):
    leaves = [
        leaf(*shape, K, dtype=dtype),
        leaf(*shape, K, seed=1, dtype=dtype),
        leaf(*shape, K, seed=2, dtype=dtype, positive=True),
    ]
    return leaves, lambda logits, loc, scale: kuq.NormalMixture(
        torch.softmax(logits, -1), loc, scale, event
    )


def draws(*shape, dtype=torch.float64, event=0, weighted=False):
    values = leaf(*shape, seed=3, dtype=dtype)
    axes = values.shape[: values.ndim - event]
    weights = np.random.default_rng(4).uniform(0.5, 1.5, axes)
    weights = torch.tensor(weights / weights.sum(-1, keepdims=True), dtype=dtype)
    return [values], lambda x: kuq.Samples(x, event, weights=weights if weighted else None)


def few(*shape, **options):
    return draws(*shape, 8, **options)


def many(*shape, **options):
    return draws(*shape, 20, **options)


def weighted_draws(*shape, **options):
    return draws(*shape, 8, weighted=True, **options)


def fields(*shape, **options):
    return draws(*shape, 8, D, event=1, **options)


def weighted_fields(*shape, **options):
    return draws(*shape, 8, D, event=1, weighted=True, **options)


SCALAR = [normals, mixtures, few, many, weighted_draws]
VECTOR = [fields, weighted_fields]
LINE = [kuq.CRPS(), kuq.Gaussian(1.3)]
SPACE = [kuq.Energy(), kuq.Gaussian(2.5), kuq.CRPS(), kuq.Energy(weights=[0.5, 1.0, 1.0, 1.5, 2.0])]
CELLS = [(law, score) for law in SCALAR for score in LINE]
CELLS += [(law, score) for law in VECTOR for score in SPACE]


def named(value):
    return getattr(value, "__name__", None) or repr(value).replace("\n", " ")


def scored(law, score, unbiased, dtype=torch.float64):
    """Leaves, and the loss of them as a function."""
    leaves, make = law(N, dtype=dtype)

    def loss(*arrays):
        prediction = make(*arrays)
        y = outcome(N, *prediction.event_shape, dtype=dtype)
        return kuq.score(prediction, y, score, unbiased=unbiased)

    return leaves, loss


def decomposed(law, score, unbiased, dtype=torch.float64):
    leaves, make = law(M, N, dtype=dtype)

    def loss(*arrays):
        ensemble = kuq.Ensemble(make(*arrays), weights=[0.2, 0.3, 0.5])
        u = kuq.decompose(ensemble, score, unbiased=unbiased)
        return torch.stack([u.aleatoric, u.epistemic])

    return leaves, loss


def gradients(loss, leaves):
    """The value and the gradient of a random combination of it."""
    value = loss(*leaves)
    upstream = torch.tensor(np.random.default_rng(7).normal(size=value.shape), dtype=value.dtype)
    return [value.detach(), *torch.autograd.grad((upstream * value).sum(), leaves)]


def step_by_step(loss, leaves):
    with kuq.compiled(False):
        return gradients(loss, leaves)


def close(ours, theirs, rtol=1e-12, atol=1e-14):
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol)


def steps(value):
    """The names of all operations that torch has recorded."""
    todo, seen, names = [value.grad_fn], set(), []
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        names.append(type(node).__name__)
        todo += [before for before, _ in node.next_functions]
    return names


@pytest.mark.parametrize("kind", [scored, decomposed])
@pytest.mark.parametrize(("law", "score"), CELLS, ids=named)
def test_one_step_is_recorded(kind, law, score):
    leaves, loss = kind(law, score, unbiased=True)
    assert steps(loss(*leaves)).count("StepBackward") == 1
    with kuq.compiled(False):
        assert "StepBackward" not in steps(loss(*leaves))


@pytest.mark.parametrize("unbiased", [True, False, "samples", "members"])
@pytest.mark.parametrize("kind", [scored, decomposed])
@pytest.mark.parametrize(("law", "score"), CELLS, ids=named)
def test_same_as_step_by_step(kind, law, score, unbiased):
    leaves, loss = kind(law, score, unbiased)
    close(gradients(loss, leaves), step_by_step(loss, leaves))


@pytest.mark.parametrize("kind", [scored, decomposed])
@pytest.mark.parametrize(("law", "score"), CELLS, ids=named)
def test_float32_is_that_of_float64(kind, law, score):
    """Input of 32 bits is computed in 64: what is left is its rounding, of order one here."""
    leaves, loss = kind(law, score, True, torch.float32)
    double, exactly = kind(law, score, True)
    for wide, narrow in zip(double, leaves, strict=True):
        wide.data.copy_(narrow.data)
    ours, theirs = gradients(loss, leaves), gradients(exactly, double)
    assert all(array.dtype == torch.float32 for array in ours)
    close([array.double() for array in ours], theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [scored, decomposed])
@pytest.mark.parametrize("score", [kuq.CRPS(), kuq.Gaussian(1.3)], ids=named)
@pytest.mark.parametrize("law", [normals, mixtures, few], ids=named)
def test_finite_differences_of_first_and_second_derivatives(law, score, kind):
    leaves, loss = kind(law, score, unbiased=True)
    assert torch.autograd.gradcheck(loss, leaves)
    assert torch.autograd.gradgradcheck(loss, leaves)


def test_second_derivatives_of_fields():
    leaves, loss = scored(fields, kuq.Energy(), True)
    value = loss(*leaves).sum()
    assert "StepBackward" in steps(value)
    (first,) = torch.autograd.grad(value, leaves, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), leaves)
    with kuq.compiled(False):
        (plain,) = torch.autograd.grad(loss(*leaves).sum(), leaves, create_graph=True)
        (known,) = torch.autograd.grad(plain.square().sum(), leaves)
    close([second], [known])


# Against mpmath: D of normals at 80 digits, differentiated there.


@dataclasses.dataclass
class Exact:
    """Expectations of a kernel between normals, of mpf numbers."""

    expected: object

    def divergence(self, x, s, y, t):
        between = self.expected(x - y, s * s + t * t)
        return between - (self.expected(0, 2 * s * s) + self.expected(0, 2 * t * t)) / 2


EXACT = {
    "crps": (kuq.CRPS(), Exact(lambda gap, v: absolute_power(1, abs(gap), v))),
    "gaussian": (kuq.Gaussian(1.5), Exact(lambda gap, v: gaussian(gap, v, mpf("1.5")))),
}
PAIRS = {
    "usual": (0.3, 1.2, -0.4, 0.7),
    "close": (0.3, 1.2, 0.3 + 1e-7, 1.2 * (1 + 3e-8)),
    "far": (300.0, 1e-3, -500.0, 2e-3),
    "narrow": (1e-3, 1e-6, 0.0, 1.0),
    "tiny": (3e-120, 1e-120, 1e-120, 2e-120),
    "huge": (3e120, 1e120, 1e120, 2e120),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("name", EXACT)
def test_pairs_of_normals_to_high_precision(name, pair):
    """Every slope has its own digits, also where members nearly agree."""
    if name == "gaussian" and max(pair) > 1e100:
        pytest.skip("flat to more than a hundred digits")
    score, known = EXACT[name]
    numbers = [torch.tensor([x], dtype=torch.float64, requires_grad=True) for x in pair]
    x, s, y, t = numbers
    ensemble = kuq.Ensemble([kuq.Normal(x, s), kuq.Normal(y, t)])
    value = kuq.decompose(ensemble, score, unbiased=False).epistemic
    assert "StepBackward" in steps(value)
    found = torch.autograd.grad(value.sum(), numbers)
    for position, slope in enumerate(found):
        h = mpf(10) ** -25 * exact(pair[1])  # of the size of the scale

        def moved(side, position=position, h=h):
            at = [exact(number) for number in pair]
            at[position] += side * h
            return known.divergence(*at) / 2

        wanted = (moved(1) - moved(-1)) / (2 * h)
        # What a slope is a sum of: rounding of the input alone moves it by that much.
        error = abs(exact(slope.item()) - wanted)
        assert error <= 1e-13 * abs(wanted) + 2e-16 * mpf(10) ** -4


def test_score_of_a_mixture_to_high_precision():
    weights, loc, scale = [0.2, 0.5, 0.3], [-1.0, 0.4, 2.5], [0.5, 1.3, 0.01]
    leaves = [torch.tensor([x], dtype=torch.float64, requires_grad=True) for x in (loc, scale)]
    logits = torch.log(torch.tensor([weights], dtype=torch.float64)).requires_grad_()
    mixture = kuq.NormalMixture(torch.softmax(logits, -1), *leaves)
    value = kuq.score(mixture, torch.tensor([0.7], dtype=torch.float64), kuq.CRPS())
    found = torch.autograd.grad(value.sum(), [logits, *leaves])

    def score(*numbers):
        raw, x, s = numbers[:3], numbers[3:6], numbers[6:]
        w = [mp.exp(r) for r in raw]
        w = [each / sum(w) for each in w]
        y = exact(0.7)
        own = sum(
            w[i] * w[j] * absolute_power(1, abs(x[i] - x[j]), s[i] ** 2 + s[j] ** 2)
            for i in range(3)
            for j in range(3)
        )
        return sum(w[i] * absolute_power(1, abs(x[i] - y), s[i] ** 2) for i in range(3)) - own / 2

    numbers = [exact(x) for array in (logits, *leaves) for x in array[0].tolist()]
    h = mpf(10) ** -25
    for position, slope in enumerate(torch.cat(found, -1)[0].tolist()):
        high, low = list(numbers), list(numbers)
        high[position] += h
        low[position] -= h
        wanted = (score(*high) - score(*low)) / (2 * h)
        assert abs(exact(slope) - wanted) <= 1e-13


# What is not known in compiled code is recorded step by step.


def same_by_steps(loss, leaves):
    close(gradients(loss, leaves), step_by_step(loss, leaves), rtol=1e-11, atol=1e-12)
    assert "StepBackward" not in steps(loss(*leaves))


def test_weights_of_members():
    leaves, make = mixtures(M, N)
    raw = leaf(M, seed=5)
    same_by_steps(
        lambda raw, *arrays: (
            kuq.decompose(
                kuq.Ensemble(make(*arrays), weights=torch.softmax(raw, 0)), kuq.CRPS()
            ).total
        ),
        [raw, *leaves],
    )


def test_weights_of_draws():
    values, raw, y = leaf(N, 7), leaf(N, 7, seed=1), outcome(N)
    same_by_steps(
        lambda x, w: kuq.score(kuq.Samples(x, weights=torch.softmax(w, -1)), y, kuq.CRPS()),
        [values, raw],
    )


def test_bandwidth():
    leaves, make = normals(N)
    width = leaf(N, seed=5, positive=True)
    same_by_steps(
        lambda width, *arrays: kuq.score(make(*arrays), outcome(N), kuq.Gaussian(width)),
        [width, *leaves],
    )


def test_members_that_agree():
    """Weighted atoms of equal members: the dispersion is what is left of a difference."""
    (logits, loc, scale), make = mixtures(1, N)
    same = torch.zeros(2, 1, 1, dtype=torch.float64)
    same_by_steps(
        lambda *arrays: (
            kuq.decompose(kuq.Ensemble(make(*(array + same for array in arrays))), kuq.CRPS()).total
        ),
        [logits, loc, scale],
    )


def test_draws_of_unusual_size():
    """Their squares leave the range of floats."""
    leaves = [(leaf(N, 8, D) * 1e200).detach().requires_grad_()]
    y = outcome(N, D) * 1e200
    same_by_steps(lambda x: kuq.score(kuq.Samples(x, 1), y, kuq.Energy()), leaves)


def test_components_without_weight_that_stray():
    weights = torch.tensor([[0.4, 0.6, 0.0]], dtype=torch.float64)
    loc = torch.tensor([[0.0, 1.0, 1e200]], dtype=torch.float64, requires_grad=True)
    scale = torch.tensor([[1.0, 0.5, 1e-200]], dtype=torch.float64, requires_grad=True)
    y = outcome(1)
    same_by_steps(
        lambda loc, scale: kuq.score(kuq.NormalMixture(weights, loc, scale), y, kuq.CRPS()),
        [loc, scale],
    )


@pytest.mark.parametrize("score", [kuq.Laplace(1.0), kuq.Energy(0.7)], ids=named)
def test_other_kernels(score):
    leaves, make = few(N)
    same_by_steps(lambda x: kuq.score(make(x), outcome(N), score), leaves)


def test_very_many_draws():
    leaves, make = draws(N, 300)
    same_by_steps(lambda x: kuq.score(make(x), outcome(N), kuq.CRPS()), leaves)


def test_without_numba(monkeypatch):
    leaves, loss = scored(normals, kuq.CRPS(), True)
    compiled = gradients(loss, leaves)
    monkeypatch.setattr(_compiled, "_installed", lambda: False)
    assert "StepBackward" not in steps(loss(*leaves))
    close(gradients(loss, leaves), compiled)


# Edges.


def test_outcomes_have_gradients():
    leaves, make = normals(N)
    y = leaf(N, seed=9)

    def loss(y, *arrays):
        return kuq.score(make(*arrays), y, kuq.CRPS())

    assert "StepBackward" in steps(loss(y, *leaves))
    close(gradients(loss, [y, *leaves]), step_by_step(loss, [y, *leaves]))


def test_weights_of_the_event_have_gradients():
    leaves, make = fields(N)
    weights = leaf(D, seed=9, positive=True)
    y = outcome(N, D)

    def loss(w, x):
        return kuq.score(make(x), y, kuq.Energy(weights=w))

    assert "StepBackward" in steps(loss(weights, *leaves))
    close(gradients(loss, [weights, *leaves]), step_by_step(loss, [weights, *leaves]))


def test_members_of_several_kinds():
    (loc, scale), _ = normals(N)
    (logits, centre, width), mixture = mixtures(N)
    value = leaf(N, seed=8)

    def loss(loc, scale, logits, centre, width, value):
        members = [kuq.Normal(loc, scale), mixture(logits, centre, width), kuq.Point(value)]
        return kuq.decompose(kuq.Ensemble(members), kuq.CRPS()).total

    leaves = [loc, scale, logits, centre, width, value]
    assert "StepBackward" in steps(loss(*leaves))
    close(gradients(loss, leaves), step_by_step(loss, leaves))


def test_points_and_outcomes_that_agree():
    """|x − y| has no slope at zero, and neither side of it is preferred."""
    value = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([1.0, 5.0], dtype=torch.float64)
    kuq.score(kuq.Point(value), y, kuq.CRPS()).sum().backward()
    assert value.grad.tolist() == [0.0, -1.0]


@pytest.mark.parametrize("weighted", [False, True])
def test_scalar_draws_that_agree(weighted):
    """Slopes over all pairs, with sign(0) = 0."""
    rng = np.random.default_rng(5)
    raw = rng.integers(0, 4, (N, 9)).astype(float)
    w = rng.uniform(0.5, 1.5, (N, 9)) if weighted else np.ones((N, 9))
    w /= w.sum(-1, keepdims=True)
    y = rng.integers(0, 4, N).astype(float)
    x = torch.tensor(raw, requires_grad=True)
    law = kuq.Samples(x, weights=torch.tensor(w) if weighted else None)
    kuq.score(law, torch.tensor(y), kuq.CRPS(), unbiased=False).sum().backward()
    between = (w[:, :, None] * w[:, None, :] * np.sign(raw[:, :, None] - raw[:, None, :])).sum(-1)
    np.testing.assert_allclose(x.grad, w * np.sign(raw - y[:, None]) - between, atol=1e-14)


def test_draws_that_agree_have_finite_slopes():
    values = torch.ones(2, 8, D, dtype=torch.float64, requires_grad=True)
    y = torch.ones(2, D, dtype=torch.float64)
    y[1] = 3.0
    kuq.score(kuq.Samples(values, 1), y, kuq.Energy(), unbiased=False).sum().backward()
    torch.testing.assert_close(values.grad[0], torch.zeros(8, D, dtype=torch.float64))
    torch.testing.assert_close(
        values.grad[1], torch.full((8, D), -1 / 8 / D**0.5, dtype=torch.float64)
    )


def test_mixtures_of_one_component():
    """A single weight has no direction to go."""
    loc, scale, raw = leaf(N, 1), leaf(N, 1, seed=1, positive=True), leaf(N, 1, seed=2)
    law = kuq.NormalMixture(torch.softmax(raw, -1), loc, scale)
    value = kuq.score(law, outcome(N), kuq.CRPS()).sum()
    found = torch.autograd.grad(value, [loc, scale, raw], materialize_grads=True)
    plain = kuq.score(kuq.Normal(loc[:, 0], scale[:, 0]), outcome(N), kuq.CRPS()).sum()
    close(found[:2], torch.autograd.grad(plain, [loc, scale]))
    assert not found[2].any()


def test_broadcast_parameters():
    loc = leaf(N)
    scale = leaf(positive=True)

    def loss(loc, scale):
        return kuq.score(kuq.Normal(loc, scale), outcome(N), kuq.CRPS())

    close(gradients(loss, [loc, scale]), step_by_step(loss, [loc, scale]))


def test_a_single_prediction():
    scale = leaf(positive=True)

    def loss(scale):
        return kuq.score(kuq.Normal(0.5, scale), 0.2, kuq.CRPS())

    assert loss(scale).shape == ()
    close(gradients(loss, [scale]), step_by_step(loss, [scale]))


def test_twice_backward_and_changed_input():
    leaves, loss = scored(normals, kuq.CRPS(), True)
    value = loss(*leaves).sum()
    first = torch.autograd.grad(value, leaves, retain_graph=True)
    close(torch.autograd.grad(value, leaves), first, rtol=0, atol=0)
    scale = leaves[1] * 1.0
    value = loss(leaves[0], scale).sum()
    with torch.no_grad():
        scale.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


def test_only_one_part_of_a_decomposition():
    leaves, make = normals(M, N)
    u = kuq.decompose(kuq.Ensemble(make(*leaves)), kuq.CRPS())
    _, scale = torch.autograd.grad(u.aleatoric.sum(), leaves, allow_unused=True)
    torch.testing.assert_close(scale, torch.full((M, N), 1 / M / np.sqrt(np.pi)).double())


# Other ways to differentiate are recorded by torch itself.


def shifted(x):
    return kuq.score(kuq.Normal(x, 1.0), torch.zeros_like(x), kuq.CRPS()).sum()


def erf(x):
    """∂/∂μ of the CRPS of N(μ, 1) at zero."""
    return torch.erf(x / 2**0.5)


OF_TORCH = "ignore:`torch.jit.script:DeprecationWarning"


@pytest.mark.filterwarnings(OF_TORCH)
def test_functional_transforms():
    x = leaf(N).detach()
    close([torch.func.grad(shifted)(x)], [erf(x)])
    rows = torch.func.vmap(torch.func.grad(shifted))(x[:, None])
    close([rows[:, 0]], [erf(x)])
    close([torch.func.jvp(shifted, (x,), (torch.ones_like(x),))[1]], [erf(x).sum()])
    bell = torch.exp(-(x**2) / 2) * (2 / np.pi) ** 0.5
    close([torch.func.hessian(shifted)(x).diagonal()], [bell])


@pytest.mark.filterwarnings(OF_TORCH)
def test_forward_mode():
    x = leaf(N).detach()
    with forward_ad.dual_level():
        moving = forward_ad.make_dual(x, torch.ones_like(x))
        tangent = forward_ad.unpack_dual(shifted(moving)).tangent
    close([tangent], [erf(x).sum()])


def test_traced_graphs_keep_their_inputs():
    x, other = leaf(N).detach(), leaf(N, seed=1).detach()
    graph = torch.fx.experimental.proxy_tensor.make_fx(torch.func.grad(shifted))(x)
    close([graph(other)], [erf(other)])


def test_without_gradients_nothing_is_recorded():
    leaves, loss = scored(normals, kuq.CRPS(), True)
    with torch.no_grad():
        assert not loss(*leaves).requires_grad


# Walks are remembered by shapes: other numbers, and other meanings of the same shapes.


def both_ways(loss, *leaves):
    close(gradients(loss, leaves), step_by_step(loss, leaves))


@pytest.mark.parametrize("law", [normals, mixtures, few, fields], ids=named)
def test_other_numbers_of_the_same_shapes(law):
    leaves, make = law(N)
    score = kuq.Energy() if law is fields else kuq.CRPS()
    for seed in range(3):
        rng = np.random.default_rng(seed)
        moved = [(x.detach() * float(rng.uniform(0.5, 3.0))).requires_grad_() for x in leaves]
        y = torch.tensor(rng.normal(size=(N, *make(*moved).event_shape)))
        both_ways(lambda *x, y=y: kuq.score(make(*x), y, score), *moved)


def test_the_same_shapes_mean_different_things():
    """Arrays (6, 3): scalars of 3 draws, vectors of 3 coordinates, 6 members of 3 inputs."""
    x, s = leaf(6, 3), leaf(6, 3, seed=1, positive=True)
    y = outcome(6)
    both_ways(lambda x: kuq.score(kuq.Samples(x), y, kuq.CRPS(), unbiased=False), x)
    both_ways(lambda x: kuq.score(kuq.Samples(x), y, kuq.CRPS()), x)
    both_ways(lambda x, s: kuq.score(kuq.Normal(x, s, 1), outcome(6, 3), kuq.CRPS()), x, s)
    both_ways(lambda x, s: kuq.score(kuq.Normal(x, s), outcome(6, 3), kuq.CRPS()), x, s)
    both_ways(lambda x, s: kuq.score(kuq.Normal(x, s), outcome(6, 3), kuq.Gaussian(2.0)), x, s)

    def parts(x, s, **options):
        u = kuq.decompose(kuq.Ensemble(kuq.Normal(x, s)), "crps", **options)
        return torch.stack([u.aleatoric, u.epistemic])

    for estimator in ("pairwise", "bma"):
        for unbiased in (True, False):
            both_ways(
                lambda x, s, e=estimator, u=unbiased: parts(x, s, estimator=e, unbiased=u), x, s
            )


def test_arrays_that_are_no_blocks_of_memory():
    wide, high = leaf(N, 2), leaf(3, N)
    scale = leaf(positive=True)
    y = outcome(N)
    both_ways(lambda x, s: kuq.score(kuq.Normal(x[:, 1], s), y, kuq.CRPS()), wide, scale)
    both_ways(lambda x: kuq.score(kuq.Samples(x.T), y, kuq.CRPS()), high)
    both_ways(lambda x: kuq.score(kuq.Samples(x, sample_axis=0), y, kuq.CRPS()), high)


def test_one_tensor_in_two_places():
    x, s = leaf(N, positive=True), leaf(N, seed=1, positive=True)
    both_ways(lambda x: kuq.score(kuq.Normal(x, x), outcome(N), kuq.CRPS()), x)
    both_ways(lambda x, s: kuq.score(kuq.Normal(x, s), outcome(N), kuq.CRPS()), x, s)


def test_members_in_a_list_one_after_the_other():
    parts = [leaf(N, seed=k, positive=k % 2 == 1) for k in range(6)]

    def loss(*arrays):
        members = [kuq.Normal(arrays[k], arrays[k + 1]) for k in (0, 2, 4)]
        return kuq.decompose(kuq.Ensemble(members), kuq.CRPS()).total

    both_ways(loss, *parts)


def test_events_are_reduced():
    x, s = leaf(N, D), leaf(N, D, seed=1, positive=True)
    y = outcome(N, D)
    for reduce in ("mean", "sum", None):
        score = kuq.CRPS(reduce=reduce)
        both_ways(lambda x, s, k=score: kuq.score(kuq.Normal(x, s, 1), y, k), x, s)


def test_walks_are_found_once():
    leaves, loss = scored(normals, kuq.Gaussian(0.987), True)
    loss(*leaves)
    known = dict(walks._WALKS)
    loss(*leaves)
    assert known == walks._WALKS


# A call like one before it goes from the entrance straight to the step.


def crps(x, s, y, **settings):
    return kuq.score(kuq.Normal(x, s), y, kuq.CRPS(), **settings)


def test_calls_that_come_again_take_the_step_at_once(monkeypatch):
    x, s, y = leaf(N), leaf(N, seed=1, positive=True), outcome(N)
    crps(x, s, y)

    def planned(*args):
        raise AssertionError("nothing has to be asked again")

    monkeypatch.setattr(walks, "answered", planned)
    assert steps(crps(x, s, y)).count("StepBackward") == 1
    with pytest.raises(AssertionError, match="asked again"):
        crps(x, s, y, rtol=1.7e-9)


def test_saved_tensors_are_asked_for_in_the_backward_pass_alone():
    """Under torch's checkpoints to ask for them means to compute all before them once more."""
    calls = []

    def loss(x):
        calls.append(x)
        return kuq.score(kuq.Normal(2 * x, 1.0), torch.zeros(7), kuq.CRPS())

    for _ in range(3):
        x = torch.ones(7, requires_grad=True)
        value = torch.utils.checkpoint.checkpoint(loss, x, use_reentrant=False).sum()
        assert len(calls) == 1
        value.backward()
        assert len(calls) == 2
        calls.clear()


def test_outcomes_are_looked_at_again():
    x, s, y = leaf(N), leaf(N, seed=1, positive=True), outcome(N)
    crps(x, s, y)
    y[1] = np.nan
    with pytest.raises(kuq.ParameterError, match=r"^y must be finite, got nan at index \(1,\)"):
        crps(x, s, y)
    with kuq.checks(False):
        assert torch.isnan(crps(x, s, y)).nonzero().tolist() == [[1]]


def test_settings_are_looked_at_again():
    x, s, y = leaf(N), leaf(N, seed=1, positive=True), outcome(N)
    crps(x, s, y, unbiased=True)
    with pytest.raises(kuq.ParameterError, match=r"^unbiased must be True, False"):
        crps(x, s, y, unbiased=1)
    with pytest.raises(kuq.ShapeError, match=r"^y must have the shape"):
        crps(x, s, y[:2])
    close([crps(x, s, y.tolist()), crps(x, s, y=y)], [crps(x, s, y)] * 2)


def test_the_same_call_with_one_tensor_in_two_places():
    x, s, y = leaf(N), leaf(N, seed=1, positive=True), leaf(N, seed=2)
    both_ways(crps, x, s, y)
    both_ways(lambda x, s: crps(x, s, x), x, s)


def test_second_derivatives_are_those_of_the_own_numbers():
    """The walk is that of the first call, the numbers are not."""
    y = outcome(N)
    for seed in range(3):
        leaves = leaf(N, seed=seed), leaf(N, seed=seed + 9, positive=True)
        torch.autograd.gradgradcheck(lambda x, s: crps(x, s, y), leaves)


def test_walks_hold_no_tensors():
    x, s, y = leaf(7, 11), leaf(7, 11, seed=1, positive=True), outcome(7, 11)
    for _ in range(2):
        crps(x, s, y).sum().backward()
    held = [weakref.ref(tensor) for tensor in (x, s, y)]
    del x, s, y
    assert [ref() for ref in held] == [None] * 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_coordinates_of_draws_are_read_where_they_stand(dtype):
    """Of vectors under the CRPS of each coordinate, whose draws do not stand side by side."""
    rng = np.random.default_rng(12)
    values, y = rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 2))
    found = []
    for compiled in (None, False):
        with kuq.compiled(compiled):
            draws = torch.tensor(values, dtype=getattr(torch, dtype), requires_grad=True)
            p = kuq.Samples(draws, event_ndim=1)
            loss = kuq.score(p, torch.tensor(y, dtype=draws.dtype), kuq.CRPS()).sum()
            loss = loss + kuq.decompose(kuq.Ensemble(p), kuq.CRPS()).epistemic
            loss.backward()
            found.append((loss.detach().numpy(), draws.grad.numpy()))
    rtol = 1e-5 if dtype == "float32" else 1e-12  # sums of some twenty terms
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("batch", [(), (1,), (4,)], ids=str)
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("law", ["Samples", "Normal", "Point"])
def test_values_do_not_depend_on_who_asks_for_a_gradient(law, d, batch):
    """Without a batch, sums over the event are single numbers, which were taken for constants."""
    rng = np.random.default_rng(13)
    middle = rng.normal(size=(3, *batch, d))
    arrays = {
        "Samples": [rng.normal(size=(3, *batch, 4, d))],
        "Normal": [middle, rng.uniform(0.5, 1.5, size=middle.shape)],
        "Point": [middle],
    }[law]
    y = torch.tensor(rng.normal(size=(*batch, d)))
    for score in (*(kuq.CRPS(reduce=r) for r in ("mean", "sum", None)), kuq.Gaussian(1.0)):
        found = []
        for asks in (True, False):
            members = getattr(kuq, law)(
                *(torch.tensor(array).requires_grad_(asks) for array in arrays), event_ndim=1
            )
            p = kuq.Ensemble(members)
            u = kuq.decompose(p, score)
            first, second = p.member_list()[:2]
            others = kuq.entropy(p, score), kuq.score(p, y, score)
            values = *u.values(), *others, kuq.divergence(first, second, score)
            found.append([value.detach().numpy() for value in values])
        for one, other in zip(*found, strict=True):
            # Sums of at most 24² terms of order one.
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13, err_msg=str(score))


# Tensors are read where they stand, and slopes are written in their precision.


@pytest.mark.parametrize("score", LINE, ids=named)
@pytest.mark.parametrize("law", [normals, few], ids=named)
def test_float32_is_rounded_once(law, score):
    """Sums are made in 64 bits: a slope has its own rounding, that of upstream, and of both."""
    leaves, loss = scored(law, score, True, torch.float32)
    double = [x.detach().double().requires_grad_() for x in leaves]
    y = outcome(N, dtype=torch.float32).double()

    def exactly(*x):
        return kuq.score(law(N)[1](*x), y, score)

    ours, theirs = gradients(loss, leaves), gradients(exactly, double)
    rtol = 4 * torch.finfo(torch.float32).eps
    close([array.double() for array in ours], theirs, rtol=rtol, atol=0.0)


@pytest.mark.parametrize("size", [1e-30, 1e-10, 1e10, 1e30])
def test_float32_of_unusual_size(size):
    """The CRPS is in units of the outcome; squares of these leave the range of float32."""
    loc, scale = leaf(N), leaf(N, seed=1, positive=True)
    y = outcome(N)
    usual = gradients(lambda x, s: kuq.score(kuq.Normal(x, s), y, kuq.CRPS()), [loc, scale])
    far = [(x.detach() * size).float().requires_grad_() for x in (loc, scale)]
    there = (y * size).float()
    found = gradients(lambda x, s: kuq.score(kuq.Normal(x, s), there, kuq.CRPS()), far)
    # Inputs are rounded to 24 bits, and the difference from the outcome magnifies that.
    close([found[0].double() / size, *(x.double() for x in found[1:])], usual, 1e-4, 1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_only_some_tensors_ask_for_a_gradient(dtype):
    loc, scale, y = (leaf(N, seed=k, dtype=dtype, positive=True) for k in range(3))
    every = gradients(lambda *x: kuq.score(kuq.Normal(*x[:2]), x[2], "crps"), [loc, scale, y])
    for asking in range(3):
        some = [x.detach() for x in (loc, scale, y)]
        some[asking].requires_grad_()
        value = kuq.score(kuq.Normal(*some[:2]), some[2], "crps")
        assert "StepBackward" in steps(value)
        upstream = torch.tensor(np.random.default_rng(7).normal(size=N), dtype=dtype)
        (found,) = torch.autograd.grad((upstream * value).sum(), [some[asking]])
        close([value.detach(), found], [every[0], every[1 + asking]], rtol=0, atol=0)


def test_blocks_of_memory_and_views_of_the_same_shape():
    """A walk that reads contiguous tensors where they stand is not that of a view."""
    whole, wide = leaf(N), leaf(N, 2)
    scale, y = leaf(N, seed=1, positive=True), outcome(N)

    def loss(x, s):
        return kuq.score(kuq.Normal(x, s), y, kuq.CRPS())

    both_ways(loss, whole, scale)
    both_ways(lambda x, s: loss(x[:, 1], s), wide, scale)
    both_ways(lambda x, s: loss(x.flip(0), s.expand(N)), whole, leaf(1, positive=True))
    both_ways(loss, whole, scale)


def test_views_that_change_the_sign():
    """The imaginary part of a conjugate: the memory of the number, and a mark to turn its sign."""
    number = torch.tensor([[0.3 + 0.7j]], dtype=torch.complex128)
    loc = number.conj().imag[0]
    assert loc.is_neg()
    assert loc.is_contiguous()
    scale = leaf(1, positive=True)
    y = torch.tensor([0.2], dtype=torch.float64)

    def loss(x, s):
        return kuq.score(kuq.Normal(x, s), y, kuq.CRPS())

    close([loss(loc, scale).detach()], [loss(loc.resolve_neg(), scale).detach()])


def test_members_of_two_precisions():
    loc, scale = leaf(N, dtype=torch.float32), leaf(N, dtype=torch.float32, positive=True)
    wide, width = leaf(N, seed=2), leaf(N, seed=3, positive=True)

    def loss(loc, scale, wide, width):
        members = [kuq.Normal(loc, scale), kuq.Normal(wide, width)]
        return kuq.decompose(kuq.Ensemble(members), kuq.CRPS()).total

    found, known = (way(loss, [loc, scale, wide, width]) for way in (gradients, step_by_step))
    assert [x.dtype for x in found] == [x.dtype for x in known]
    close(found, known, rtol=1e-6, atol=1e-6)  # those by float32 are rounded to it


def test_addresses_are_those_of_whole_arrays():
    for make in (np.zeros, torch.zeros):
        whole, itemsize = make((2, 3)), make(1).dtype.itemsize
        first, second = addresses_of([whole, whole[1]], itemsize)
        assert second - first == 3 * itemsize
        with pytest.raises(ValueError, match="contiguous"):
            addresses_of([whole, whole.T], itemsize)
        with pytest.raises(ValueError, match="2 bytes a number"):
            addresses_of([whole], 2)


# Numbers are looked at by compiled code where that is there, and by the checks where it says no.

LARGEST = np.finfo(np.float64).max


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_look_sees_every_number(dtype, size):
    x = torch.full((size,), torch.finfo(dtype).max, dtype=dtype)
    x[::2] *= -1
    assert _lie_between(x, -LARGEST, LARGEST)
    assert _lie_between(x.abs(), 0.0, LARGEST)
    for place in {0, size // 2, size - 1}:
        for bad in (np.nan, np.inf, -np.inf):
            wrong = x.clone()
            wrong[place] = bad
            assert not _lie_between(wrong, -LARGEST, LARGEST)
        wrong = x.abs()
        wrong[place] = -torch.finfo(dtype).tiny
        assert not _lie_between(wrong, 0.0, LARGEST)


def tensors_without_a_block_of_numbers():
    ones = torch.ones(4)
    left = []  # when its transform has ended, a tensor has no numbers any more
    torch.func.grad(lambda x: left.append(2 * x) or x.sum())(ones)
    torch.func.vmap(lambda x: left.append(2 * x) or x)(torch.ones(3, 4))
    freed = torch.ones(4)
    freed.untyped_storage().resize_(0)
    return {
        "integers": torch.ones(4, dtype=torch.int64),
        "half precision": ones.half(),
        "every second number": torch.ones(8)[::2],
        "one number four times": torch.ones(1).expand(4),
        "another sign": torch.complex(ones, ones).conj().imag,
        "without memory": torch.ones(4, device="meta"),
        "memory that was given back": freed,
        "zeros that are nowhere": torch._efficientzerotensor((4,)),
        "sparse": ones.to_sparse(),
        "gradient transform": left[0],
        "vmap": left[1],
    }


@pytest.mark.parametrize("kind", tensors_without_a_block_of_numbers())
def test_what_is_no_block_of_numbers_is_left_to_the_checks(kind):
    assert not _lie_between(tensors_without_a_block_of_numbers()[kind], -LARGEST, LARGEST)


def test_looks_inside_of_transforms():
    x = leaf(N).detach()

    def loss(s):
        return kuq.score(kuq.Normal(x, s), torch.zeros(N, dtype=x.dtype), kuq.CRPS()).sum()

    s = torch.full((N,), 1.5, dtype=x.dtype)
    plain = torch.autograd.grad(loss(t := s.clone().requires_grad_()), t)[0]
    torch.testing.assert_close(torch.func.grad(loss)(s), plain)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(loss))(s.expand(2, N))[1], plain)
    with pytest.raises(kuq.ParameterError, match=r"^scale of Normal must be ≥ 0, got -1\.5"):
        torch.func.grad(loss)(-s)


def test_no_look_without_compiled_code(monkeypatch):
    _compiled.twin("_numba.bounds")  # once it is there, it would look

    def twin(name):
        raise AssertionError("compiled code is switched off")

    monkeypatch.setattr(_compiled, "twin", twin)
    x = torch.ones(4)
    with kuq.compiled(False):
        kuq.Normal(x, x)
    with kuq.checks(False):
        kuq.Normal(x, -x)
    with pytest.raises(AssertionError, match="switched off"):
        kuq.Normal(x, x)


@pytest.mark.parametrize("of", ["Normal", "NormalMixture"])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.nan, r"^scale must be finite, got nan at index \(1, 0\); remove or impute"),
        (np.inf, r"^scale must be finite, got inf at index \(1, 0\); remove or impute"),
        (-2.0, r"^scale of {of} must be ≥ 0, got -2 at index \(1, 0\); it is a standard deviation"),
    ],
)
@pytest.mark.parametrize("kind", ["numpy", "torch", "gradient"])
def test_scales_are_refused_in_the_same_words(kind, bad, message, of):
    scale = np.array([[1.0, 1.0], [bad, 1.0]])
    if kind != "numpy":
        scale = torch.tensor(scale, requires_grad=kind == "gradient")
    arrays = (0.0, scale) if of == "Normal" else (0.5, 0.0, scale)
    with pytest.raises(kuq.ParameterError, match=message.format(of=of)):
        getattr(kuq, of)(*arrays)
    with kuq.checks(False):
        getattr(kuq, of)(*arrays)


def test_a_single_low_rank_law_is_not_copied():
    """Its gradient would be scattered into zeros, which took a fifth of the time."""
    loc, factor = leaf(N, D), leaf(N, D, 2, seed=1)
    diag = leaf(N, D, seed=2, positive=True)
    value = kuq.score(kuq.LowRankNormal(loc, factor, diag), outcome(N, D), kuq.Gaussian(2.0))
    assert not [name for name in steps(value) if "Index" in name or "Gather" in name]
