"""Gradients equal finite differences, and are finite where laws touch each other or vanish."""

import functools

import numpy as np
import pytest
from libraries import CASES, OUTCOME, PAIRS, SCORES, from_arrays, opened, to_numpy

import kuq

QUANTITIES = ("aleatoric", "epistemic", "entropy", "divergence", "score")
#: Laws that are themselves quadratures: their cost grows with the square of the nodes.
HEAVY = ("StudentT", "NormalInverseGamma")
CHECKED = ("crps", "energy", "squared", "gaussian", "laplace", "matern-1.5", "log", "weights")
CHEAP = ("crps", "squared", "gaussian")
DRAWN = [("StudentT", "log"), ("NormalInverseGamma", "log")]
SMOOTH_PAIRS = [
    (case, score)
    for case, score in PAIRS
    if score in (CHEAP if case in HEAVY else CHECKED) and (case, score) != ("Point", "log")
]


@pytest.fixture
def torch():
    with opened("torch") as library:
        yield library.module


@pytest.fixture
def jax():
    with opened("jax") as library:
        yield library.module


def precise(case):
    """Quadratures so tight that differences of their values are worth something."""
    return {"rtol": 1e-10 if case in HEAVY else 1e-12}


def direction(case, name, shape):
    """A random direction; for weights of mixtures one that stays on the simplex."""
    v = np.random.default_rng(len(name)).normal(size=shape)
    if case == "NormalMixture" and name == "weights":
        v = v - v.mean(axis=-1, keepdims=True)
    return v / np.sqrt((v * v).sum())


def sums(results):
    return {name: float(to_numpy(results[name]).sum()) for name in QUANTITIES}


def finite_differences(function, inputs, name, v, step=1e-4):
    """Symmetric differences of every quantity along one input, by NumPy."""
    high, low = (
        sums(function(**{**inputs, name: inputs[name] + side * step * v})) for side in (1, -1)
    )
    return {key: (high[key] - low[key]) / (2 * step) for key in QUANTITIES}


def torch_gradients(torch, function, inputs, quantities=QUANTITIES):
    """The gradient of the sum of every quantity with respect to every input."""
    leaves = {
        name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
        for name, value in inputs.items()
    }
    results = function(**leaves)
    gradients = {}
    for key in quantities:
        found = [None] * len(leaves)
        if results[key].requires_grad:  # the entropy of a point mass is a constant
            found = torch.autograd.grad(
                results[key].sum(), list(leaves.values()), retain_graph=True, allow_unused=True
            )
        gradients[key] = {
            name: np.zeros(leaf.shape) if g is None else g.numpy()
            for (name, leaf), g in zip(leaves.items(), found, strict=True)
        }
    return gradients


def measured(case, score, **options):
    """A function of named arrays, with the outcome as one of them."""

    def function(y, **arrays):
        return from_arrays(case, score, arrays, y, **options)

    return function


def inputs_of(case):
    return {**CASES[case].parameters, "y": OUTCOME}


@pytest.mark.parametrize(("case", "score"), SMOOTH_PAIRS)
def test_torch_gradients_equal_finite_differences(torch, case, score):
    function, inputs = measured(case, score, **precise(case)), inputs_of(case)
    gradients = torch_gradients(torch, function, inputs)
    for name, value in inputs.items():
        v = direction(case, name, value.shape)
        wanted = finite_differences(function, inputs, name, v)
        for key in QUANTITIES:
            actual = float((gradients[key][name] * v).sum())
            np.testing.assert_allclose(
                actual, wanted[key], rtol=1e-5, atol=3e-7, err_msg=f"{key} by {name}"
            )


def test_gradients_reach_the_parameters(torch):
    """The comparison above would also hold for zeros: these are not."""
    gradients = torch_gradients(torch, measured("Normal", "crps"), inputs_of("Normal"))
    assert all(np.abs(gradients["epistemic"][name]).min() > 1e-6 for name in ("loc", "scale"))
    assert np.abs(gradients["score"]["y"]).min() > 1e-6


@pytest.mark.parametrize(("case", "score"), DRAWN)
def test_log_score_of_student_laws(torch, case, score):
    """Entropy and score are closed forms; what is drawn is not compared here."""
    rule, make, inputs = SCORES[score], CASES[case].make, inputs_of(case)

    def function(y, **arrays):
        p = make(**{name: value[0] for name, value in arrays.items()})
        return {"entropy": kuq.entropy(p, rule), "score": kuq.score(p, y, rule)}

    gradients = torch_gradients(torch, function, inputs, ("entropy", "score"))
    for name, value in inputs.items():
        v = direction(case, name, value.shape)
        high, low = (function(**{**inputs, name: value + side * 1e-4 * v}) for side in (1, -1))
        for key in ("entropy", "score"):
            actual, wanted = (gradients[key][name] * v).sum(), (high[key] - low[key]).sum() / 2e-4
            np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-7)


def test_evidential_log_score(torch):
    inputs = dict(CASES["NormalInverseGamma"].parameters)

    def function(**arrays):
        law = CASES["NormalInverseGamma"].make(**arrays)
        bma = kuq.decompose(law, kuq.LogScore(), estimator="bma")
        pairwise = kuq.decompose(law, kuq.LogScore())
        return {"aleatoric": bma.aleatoric, "bma": bma.epistemic, "epistemic": pairwise.epistemic}

    keys = ("aleatoric", "bma", "epistemic")
    gradients = torch_gradients(torch, function, inputs, keys)
    for name, value in inputs.items():
        v = direction("", name, value.shape)
        high, low = (function(**{**inputs, name: value + side * 1e-4 * v}) for side in (1, -1))
        for key in keys:
            actual, wanted = (gradients[key][name] * v).sum(), (high[key] - low[key]).sum() / 2e-4
            np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-7)


# Parameters of scores and ensembles.


BANDWIDTHS = [kuq.Gaussian, kuq.Laplace, kuq.InverseMultiquadric, kuq.Matern]


@pytest.mark.parametrize("kernel", BANDWIDTHS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("case", ["Normal", "Samples", "LowRankNormal"])
@pytest.mark.parametrize("marginal", [False, True], ids=["joint", "marginal"])
def test_bandwidths_have_gradients(torch, kernel, case, marginal):
    make, arrays = CASES[case].make, CASES[case].parameters
    widths = np.asarray([[0.7, 1.1], [1.9, 0.9]]) if marginal else np.asarray([0.7, 1.9])

    def function(bandwidth, xp):
        score = kernel(bandwidth)
        score = kuq.Marginal(score) if marginal else score
        p = make(**{name: xp.asarray(value) for name, value in arrays.items()})
        u = kuq.decompose(kuq.Ensemble(p), score, rtol=1e-12)
        q = make(**{name: xp.asarray(value[0]) for name, value in arrays.items()})
        loss = kuq.score(q, xp.asarray(OUTCOME), score, rtol=1e-12)
        return u.aleatoric.sum() + 2 * u.epistemic.sum() + 3 * loss.sum()

    leaf = torch.tensor(widths, requires_grad=True)
    function(leaf, torch).backward()
    v = direction("", "bandwidth", widths.shape)
    wanted = (function(widths + 1e-4 * v, np) - function(widths - 1e-4 * v, np)) / 2e-4
    np.testing.assert_allclose((leaf.grad.numpy() * v).sum(), wanted, rtol=1e-5, atol=1e-7)


WEIGHTED_SCORES = ["crps", "energy", "gaussian", "squared"]


@pytest.mark.parametrize("score", [*WEIGHTED_SCORES, "log"])
def test_member_weights_have_gradients(torch, score):
    weights = np.asarray([0.5, 1.0, 2.0])

    def function(w, xp):
        arrays = {k: xp.asarray(v) for k, v in CASES["Normal"].parameters.items()}
        p = kuq.Ensemble(CASES["Normal"].make(**arrays), weights=w)
        u = kuq.decompose(p, SCORES[score], rtol=1e-12)
        total = u.aleatoric.sum() + 2 * u.epistemic.sum()
        if score == "log":
            return total + kuq.score(p, xp.asarray(OUTCOME), SCORES[score]).sum()
        return total + 3 * kuq.entropy(p, SCORES[score], rtol=1e-12).sum()

    leaf = torch.tensor(weights, requires_grad=True)
    function(leaf, torch).backward()
    for v in np.eye(3):
        wanted = (function(weights + 1e-4 * v, np) - function(weights - 1e-4 * v, np)) / 2e-4
        np.testing.assert_allclose((leaf.grad.numpy() * v).sum(), wanted, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose((leaf.grad.numpy() * weights).sum(), 0, atol=1e-9)  # normalised


@pytest.mark.parametrize("score", WEIGHTED_SCORES)
@pytest.mark.parametrize("unbiased", [True, False])
def test_draw_weights_have_gradients(torch, score, unbiased):
    weights = np.random.default_rng(8).uniform(0.5, 1.5, size=(3, 2, 5))

    def function(w, xp):
        values = xp.asarray(CASES["Samples"].parameters["values"])
        p = kuq.Samples(values, event_ndim=1, weights=w)
        u = kuq.decompose(kuq.Ensemble(p), SCORES[score], unbiased=unbiased)
        loss = kuq.score(p, xp.asarray(OUTCOME), SCORES[score], unbiased=unbiased)
        return u.aleatoric.sum() + 2 * u.epistemic.sum() + 3 * loss.sum()

    leaf = torch.tensor(weights, requires_grad=True)
    function(leaf, torch).backward()
    v = direction("", "w", weights.shape)
    wanted = (function(weights + 1e-4 * v, np) - function(weights - 1e-4 * v, np)) / 2e-4
    np.testing.assert_allclose((leaf.grad.numpy() * v).sum(), wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("score", [s for s in CHECKED if s != "weights"])
def test_a_component_of_weight_zero_has_a_gradient(torch, score):
    """From the edge of the simplex there is one way to go: one-sided differences inwards."""
    arrays = dict(CASES["NormalMixture"].parameters)
    # The component to come is the narrow one, else the log score has infinite derivatives.
    arrays["scale"] = np.broadcast_to([1.5, 0.8], arrays["scale"].shape).copy()
    weights = np.zeros_like(arrays["weights"])
    weights[..., 0] = 1.0
    inward = np.zeros_like(weights)
    inward[1, 0, 1, :] = [-1.0, 1.0]
    function = measured("NormalMixture", score, rtol=1e-12)

    def at(step):
        return sums(function(y=OUTCOME, **{**arrays, "weights": weights + step * inward}))

    h = 1e-4
    gradients = torch_gradients(torch, function, {**arrays, "weights": weights, "y": OUTCOME})
    start, one, two = at(0.0), at(h), at(2 * h)
    for key in QUANTITIES:
        assert all(np.isfinite(g).all() for g in gradients[key].values()), key
        wanted = (-3 * start[key] + 4 * one[key] - two[key]) / (2 * h)
        actual = float((gradients[key]["weights"] * inward).sum())
        np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6, err_msg=key)


def test_event_weights_have_gradients(torch):
    weights = np.asarray([0.5, 2.0])

    def function(w, xp):
        arrays = {k: xp.asarray(v) for k, v in CASES["Normal"].parameters.items()}
        p = kuq.Ensemble(CASES["Normal"].make(**arrays))
        values = [
            kuq.decompose(p, score, rtol=1e-12).total.sum()
            for score in (kuq.Energy(weights=w), kuq.Gaussian(1.3, weights=w), kuq.CRPS(weights=w))
        ]
        return sum(values)

    leaf = torch.tensor(weights, requires_grad=True)
    function(leaf, torch).backward()
    for v in np.eye(2):
        wanted = (function(weights + 1e-4 * v, np) - function(weights - 1e-4 * v, np)) / 2e-4
        np.testing.assert_allclose((leaf.grad.numpy() * v).sum(), wanted, rtol=1e-5, atol=1e-7)


# Where laws touch each other or vanish.


def identical(case):
    return {name: np.repeat(value[:1], 3, axis=0) for name, value in CASES[case].parameters.items()}


def of_zero_scale(case):
    arrays = dict(CASES[case].parameters)
    for name in ("scale", "factor", "diag"):
        if name in arrays:
            arrays[name] = np.zeros_like(arrays[name])
    return arrays


def equal_draws():
    values = CASES["Samples"].parameters["values"]
    return {"values": np.broadcast_to(values[:, :, :1], values.shape).copy()}


FINITE_PAIRS = [
    (case, score)
    for case, score in PAIRS
    if (case, score) not in [("Point", "log"), *DRAWN]
    and score in (CHEAP if case in HEAVY else (*CHECKED, "energy-0.7"))
]


@pytest.mark.parametrize(("case", "score"), FINITE_PAIRS)
def test_identical_members(torch, case, score):
    function = measured(case, score, unbiased=False)
    inputs = {**identical(case), "y": OUTCOME}
    gradients = torch_gradients(torch, function, inputs)
    for key in QUANTITIES:
        for name, value in gradients[key].items():
            assert np.isfinite(value).all(), f"{key} by {name}"
    # Equal laws have the least divergence there is, so every derivative is zero; but for
    # sorted draws, where |x − y| has a kink, and for evidential laws, which have no members.
    if case == "NormalInverseGamma" or (score == "crps" and case in ("Point", "Samples")):
        return
    for key in ("epistemic", "divergence"):
        for name, value in gradients[key].items():
            np.testing.assert_allclose(value, 0, atol=1e-9, err_msg=f"{key} by {name}")


ZERO_PAIRS = [
    (case, score)
    for case, score in FINITE_PAIRS
    if score != "log" and case in ("Normal", "NormalMixture", "LowRankNormal", "StudentT")
]


@pytest.mark.parametrize(("case", "score"), ZERO_PAIRS)
@pytest.mark.parametrize("place", ["apart", "at the same place"])
def test_zero_scale(torch, case, score, place):
    """Point masses in the shape of another law; also where outcome and members coincide."""
    arrays, y = of_zero_scale(case), OUTCOME
    if place != "apart":
        arrays["loc"] = np.zeros_like(arrays["loc"])
        y = np.zeros_like(OUTCOME)
    gradients = torch_gradients(torch, measured(case, score), {**arrays, "y": y})
    for key in QUANTITIES:
        for name, value in gradients[key].items():
            assert np.isfinite(value).all(), f"{key} by {name}"


def test_one_law_of_zero_scale_among_others(torch):
    arrays = {name: value.copy() for name, value in CASES["Normal"].parameters.items()}
    arrays["scale"][1] = 0.0
    for score in ("crps", "energy", "gaussian", "laplace", "matern-1.5", "squared"):
        gradients = torch_gradients(torch, measured("Normal", score), {**arrays, "y": OUTCOME})
        wanted = finite_differences(
            measured("Normal", score, rtol=1e-12), {**arrays, "y": OUTCOME}, "loc",
            v := direction("Normal", "loc", arrays["loc"].shape),
        )  # fmt: skip
        for key in QUANTITIES:
            assert all(np.isfinite(value).all() for value in gradients[key].values())
            actual = float((gradients[key]["loc"] * v).sum())
            np.testing.assert_allclose(actual, wanted[key], rtol=1e-5, atol=3e-7)


@pytest.mark.parametrize("score", [s for s in CHECKED if s != "log"])
@pytest.mark.parametrize("unbiased", [True, False])
def test_equal_draws(torch, score, unbiased):
    function = measured("Samples", score, unbiased=unbiased)
    arrays = equal_draws()
    for y in (OUTCOME, arrays["values"][0, :, 0]):  # apart, and on the draws
        gradients = torch_gradients(torch, function, {**arrays, "y": y})
        for key in QUANTITIES:
            for name, value in gradients[key].items():
                assert np.isfinite(value).all(), f"{key} by {name}"


def test_ties_between_draws(torch):
    """Some draws agree, within a member and between members."""
    values = np.round(CASES["Samples"].parameters["values"])
    for score in (s for s in CHECKED if s != "log"):
        gradients = torch_gradients(
            torch, measured("Samples", score), {"values": values, "y": np.round(OUTCOME)}
        )
        for key in QUANTITIES:
            assert all(np.isfinite(value).all() for value in gradients[key].values()), (score, key)


def test_omitted_draws_have_no_gradient(torch):
    values = CASES["Samples"].parameters["values"].copy()
    values[1, 0, 2] = np.nan
    for score in (kuq.CRPS(), kuq.Gaussian(1.0), kuq.Energy(), kuq.SquaredError()):
        leaf = torch.tensor(values, requires_grad=True)
        u = kuq.decompose(kuq.Ensemble(kuq.Samples(leaf, 1, nan_policy="omit")), score)
        (u.aleatoric.sum() + 2 * u.epistemic.sum()).backward()
        gradient = leaf.grad.numpy()
        assert np.isfinite(gradient).all()
        assert (gradient[1, 0, 2] == 0).all()
        assert (np.abs(np.delete(gradient, 2, axis=2)) > 0).any()


def test_known_limits(torch):
    """At y = loc the CRPS of a point mass has a kink in scale; its gradient is taken as zero."""
    loc = torch.tensor([0.0, 1.0], dtype=torch.float64, requires_grad=True)
    scale = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    kuq.score(kuq.Normal(loc, scale), [0.0, 3.0], kuq.CRPS()).sum().backward()
    assert scale.grad[0] == 0
    np.testing.assert_allclose(loc.grad.numpy(), [0.0, -1.0])  # |y − loc| beside it
    # d/dσ of E|X−y| − σ/√π at σ = 0 and y ≠ loc
    np.testing.assert_allclose(scale.grad[1], -1 / np.sqrt(np.pi), rtol=1e-12)


def test_tensors_with_gradients_can_be_shown_and_checked(torch):
    """Reading a number for a message or a summary is no reason for a warning of torch."""
    loc = torch.tensor([[0.0], [1.0]], requires_grad=True)
    u = kuq.decompose(kuq.Ensemble(kuq.Normal(loc, loc + 1)), kuq.Gaussian("median"))
    assert "aleatoric mean" in repr(u)
    with pytest.raises(kuq.ParameterError, match="got -1"):
        kuq.Normal(loc, loc - 1)
    assert kuq.median_bandwidth(loc[:, 0]) == 1.0
    assert kuq.Gaussian(loc + 1) == kuq.Gaussian(loc + 1)
    assert kuq.Gaussian(loc + 1) != kuq.Gaussian(loc + 2)


@pytest.mark.parametrize("score", ["crps", "energy", "gaussian", "laplace", "squared", "log"])
def test_single_precision_gradients_are_finite(torch, score):
    arrays = {
        name: torch.tensor(value, dtype=torch.float32, requires_grad=True)
        for name, value in identical("Normal").items()
    }
    results = from_arrays("Normal", score, arrays, torch.tensor(OUTCOME, dtype=torch.float32))
    sum(results[key].sum() for key in QUANTITIES).backward()
    for leaf in arrays.values():
        assert leaf.grad.dtype == torch.float32
        assert torch.isfinite(leaf.grad).all()


@pytest.mark.parametrize("score", ["crps", "gaussian", "log"])
def test_a_model_can_be_trained(torch, score):
    """Steps along the gradient of the mean score find the law of the data."""
    y = torch.tensor(np.random.default_rng(9).normal(2.0, 0.5, size=400))
    loc = torch.zeros((), dtype=torch.float64, requires_grad=True)
    raw = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([loc, raw], lr=0.05)
    for _ in range(200):
        optimiser.zero_grad()
        kuq.score(kuq.Normal(loc.expand(400), raw.exp()), y, SCORES[score]).mean().backward()
        optimiser.step()
    assert abs(loc.item() - 2.0) < 0.1
    assert abs(raw.exp().item() - 0.5) < 0.1


# JAX: one compilation for each pair, then many inputs.


JAX_PAIRS = [
    ("Normal", "crps"),
    ("Normal", "energy"),
    ("Normal", "gaussian"),
    ("Normal", "log"),
    ("Samples", "crps"),
    ("Samples", "energy"),
    ("NormalMixture", "gaussian"),
    ("LowRankNormal", "gaussian"),
]


@pytest.mark.parametrize(("case", "score"), JAX_PAIRS)
def test_jax_gradients_equal_finite_differences(jax, case, score):
    coefficients = {"aleatoric": 1.0, "epistemic": 2.0, "score": 3.0}

    def value(inputs):
        rest = {name: array for name, array in inputs.items() if name != "y"}
        rule, make = SCORES[score], CASES[case].make
        u = kuq.decompose(kuq.Ensemble(make(**rest)), rule, rtol=1e-12)
        p = make(**{name: array[0] for name, array in rest.items()})
        results = {**u, "score": kuq.score(p, inputs["y"], rule, rtol=1e-12)}
        return sum(c * results[key].sum() for key, c in coefficients.items())

    both = jax.jit(jax.value_and_grad(value))
    as_jax = functools.partial(jax.tree.map, jax.numpy.asarray)
    inputs = inputs_of(case)
    gradients = both(as_jax(inputs))[1]
    for name in inputs:
        v = direction(case, name, inputs[name].shape)
        high, low = (
            float(both(as_jax({**inputs, name: inputs[name] + side * 1e-4 * v}))[0])
            for side in (1, -1)
        )
        actual = float((np.asarray(gradients[name]) * v).sum())
        np.testing.assert_allclose(actual, (high - low) / 2e-4, rtol=1e-5, atol=3e-7, err_msg=name)
    edges = [{**identical(case), "y": OUTCOME}]
    if case == "Samples":
        edges.append({**equal_draws(), "y": equal_draws()["values"][0, :, 0]})
    elif score != "log":
        zero = of_zero_scale(case)
        edges.append({**zero, "y": OUTCOME})
        edges.append({**zero, "loc": np.zeros_like(zero["loc"]), "y": np.zeros_like(OUTCOME)})
    for edge in edges:
        number, gradient = both(as_jax(edge))
        assert np.isfinite(number)
        for name, array in gradient.items():
            assert np.isfinite(np.asarray(array)).all(), name
