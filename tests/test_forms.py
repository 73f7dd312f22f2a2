"""The fast forms for samples against plain sums over all pairs of draws, in long arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from libraries import opened, to_numpy

import kuq
from kuq.forms import fourier, gram, scale_quadrature, sorted_draws
from kuq.forms.form import Problem
from kuq.forms.table import plan
from kuq.scores.options import Options
from kuq.views import views

#: Kernels, and k − k(x, x) at the distance r; a name stands for the dimensions it is used in.
KERNELS = {
    "energy": (kuq.Energy(), lambda r: r),
    "energy-0.7": (kuq.Energy(0.7), lambda r: r**0.7),
    "gaussian": (kuq.Gaussian(1.5), lambda r: -np.expm1(-((r / 1.5) ** 2))),
    "laplace": (kuq.Laplace(1.5), lambda r: -np.expm1(-r / 1.5)),
}
kernels = pytest.mark.parametrize("name", KERNELS)
dimensions = pytest.mark.parametrize("d", [1, 2, 7])


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture(autouse=True, params=[False, True], ids=["generic", "compiled"])
def _compiled(request):
    """Every form in array code, and compiled ones where there are any."""
    if request.param:
        pytest.importorskip("numba")
    with kuq.compiled(request.param):
        yield


def table(x: np.ndarray, y: np.ndarray, k) -> np.ndarray:
    """k between draws (n, N, d) in long double, (n, N, N')."""
    x, y = (np.asarray(a, dtype=np.longdouble) for a in (x, y))
    return k(np.sqrt(((x[:, :, None] - y[:, None]) ** 2).sum(-1)))


def brute_force(members, k, weights=None, draw_weights=None):
    """AU and EU (plug-in) of members (n, N, d) by sums over all pairs of all members."""
    count = len(members)
    w = np.full(count, 1 / count) if weights is None else weights / np.sum(weights)
    v = draw_weights or [np.full(x.shape[:2], 1 / x.shape[1]) for x in members]
    a = [
        [
            np.einsum("ni,nj,nij->n", v[i].astype(np.longdouble), v[j], table(x, y, k))
            for j, y in enumerate(members)
        ]
        for i, x in enumerate(members)
    ]
    pairs = [(i, j) for i in range(count) for j in range(count)]
    au = sum(w[i] * a[i][i] / 2 for i in range(count))
    eu = sum(w[i] * w[j] * (a[i][j] - a[i][i] / 2 - a[j][j] / 2) for i, j in pairs)
    return au.astype(float), eu.astype(float)


def decomposed(members, score, weights=None, draw_weights=None, **options):
    v = draw_weights or [None] * len(members)
    laws = [kuq.Samples(x, 1, weights=w) for x, w in zip(members, v, strict=True)]
    prediction = kuq.Ensemble(laws, weights=weights)
    u = kuq.decompose(prediction, score, unbiased=False, **options)
    return u.aleatoric, u.epistemic


def check(members, name, rtol=1e-12, **options):
    score, k = KERNELS[name]
    keys = ("weights", "draw_weights")
    wanted = brute_force(members, k, **{key: options[key] for key in keys if key in options})
    found = decomposed(members, score, **options)
    for actual, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=rtol)


def members_of(rng, counts, d, n=3, shift=0.4):
    return [rng.normal(size=(n, count, d)) + shift * m for m, count in enumerate(counts)]


@kernels
@dimensions
@pytest.mark.parametrize("counts", [(40, 40, 40), (40, 9, 1, 30)], ids=["equal", "ragged"])
def test_members_and_weights(rng, name, d, counts):
    members = members_of(rng, counts, d)
    check(members, name)
    check(members, name, weights=np.arange(1.0, len(counts) + 1))
    draw_weights = [rng.dirichlet(np.ones(x.shape[1]), size=3) for x in members]
    draw_weights[0][:, :5] = 0.0
    draw_weights[0] /= draw_weights[0].sum(-1, keepdims=True)
    check(members, name, weights=np.arange(1.0, len(counts) + 1), draw_weights=draw_weights)


@kernels
@dimensions
def test_ties(rng, name, d):
    """Draws that coincide, within members and between them."""
    members = [np.round(x) for x in members_of(rng, (30, 30, 30), d)]
    check(members, name)


@kernels
@dimensions
@pytest.mark.parametrize("offset", [1e4, 1e8])
def test_offset(rng, name, d, offset):
    check([offset + x for x in members_of(rng, (25, 25, 25), d)], name)


@kernels
@dimensions
@pytest.mark.parametrize("size", [1e-2, 1e-6])
def test_tight_members_far_apart(rng, name, d, size):
    """Members much tighter than the spread between them keep their own entropy."""
    places = rng.normal(size=(4, 3, 1, d))
    check([place + size * rng.normal(size=(3, 20, d)) for place in places], name)


@kernels
@dimensions
def test_two_close_clusters(rng, name, d):
    """Pairs of members that are close to each other and far from the rest."""
    places = np.repeat(rng.normal(size=(2, 3, 1, d)), 2, axis=0)
    check([place + 1e-3 * rng.normal(size=(3, 20, d)) for place in places], name)


@kernels
@dimensions
@pytest.mark.parametrize("gap", [1e-4, 1e-9])
def test_members_that_nearly_agree(rng, name, d, gap):
    first = rng.normal(size=(2, 25, d))
    moves = rng.normal(size=(3, *first.shape))
    if name == "gaussian" and gap < 1e-6:  # long doubles have too few digits, but D is quadratic
        score, _ = KERNELS[name]
        near, wide = (decomposed(list(first + g * moves), score)[1] for g in (gap, 1e-5))
        np.testing.assert_allclose(near / gap**2, wide / 1e-10, rtol=1e-4)
        return
    check(list(first + gap * moves), name, rtol=1e-6 if gap > 1e-6 else 0.1)


def test_only_close_entries_are_computed_again(rng, monkeypatch):
    """One batch entry of many whose members nearly agree."""
    members = members_of(rng, (30, 30), 1, n=5)
    members[1][3] = members[0][3] + 1e-9
    seen = []

    def watched(form, measure, stack):
        seen.append(stack.batch_count)
        return original(form, measure, stack)

    original = sorted_draws.Steps.statistics
    monkeypatch.setattr(sorted_draws.Steps, "statistics", watched)
    check(members, "energy", rtol=1e-6)
    assert seen == [1]


@kernels
@pytest.mark.parametrize("d", [1, 2, 9])
@pytest.mark.parametrize("memory", [2e3, 2e4, 2e5])
def test_little_memory(rng, name, d, memory):
    """Rows of the table of pairs, and batch entries, in pieces."""
    check(members_of(rng, (21, 21, 21), d), name, max_memory=memory)
    check(members_of(rng, (21, 8, 13), d), name, max_memory=memory)


def test_many_coordinates_in_pieces(rng, monkeypatch):
    monkeypatch.setattr(gram, "COORDINATES", 3)
    check(members_of(rng, (11, 11, 11), 50), "energy", max_memory=2e3)


@pytest.mark.parametrize("ratio", [0.01, 0.05, 0.3, 1.0, 5.0, 40.0, 1e4])
def test_any_bandwidth(rng, ratio):
    """From kernels much narrower than the draws to much wider ones."""
    members = members_of(rng, (60, 60, 60), 1)
    wanted = brute_force(members, lambda r: -np.expm1(-((r / ratio) ** 2)))
    found = decomposed(members, kuq.Gaussian(ratio))
    for actual, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-11)
    widths = np.asarray([ratio, 1.0, 3.0])
    found = decomposed(members, kuq.Gaussian(widths))
    np.testing.assert_allclose(found[1][0], wanted[1][0], rtol=1e-11)


@pytest.mark.parametrize("reach", [0.0, 0.5, 3.0, 30.0])
def test_the_series_is_the_kernel(reach):
    """Its error is below the bound of the docstring, up to rounding, at every distance ≤ R."""
    period = reach + fourier._REACH
    count = int(fourier._REACH / np.pi * period + 2)
    omega = np.asarray([2 * np.pi / period])
    c = fourier._coefficients(omega, np.ones(1), np.full(1, count), count)[:, 0]
    r = np.linspace(0, reach, 301)
    series = (c * np.cos(np.arange(count) * omega * r[:, None])).sum(-1)
    np.testing.assert_allclose(series, np.exp(-r * r), atol=5e-15 * (1 + reach))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 9, 14, 15, 31, 32, 33, 60])
def test_inner_sums_of_the_series(rng, count):
    values, omega = rng.normal(size=(3, 2, 17)), np.asarray([0.3, 0.8])
    centre = np.asarray([0.4, -0.7])
    c, w = rng.uniform(size=(count, 2)), np.asarray([0.2, 0.3, 0.5])
    v = rng.dirichlet(np.ones(17), size=(3, 2))
    for weights, own in ((None, np.full(v.shape, 1 / 17)), (v, v)):
        k = np.arange(count)[:, None, None, None]
        phi = (own * np.exp(1j * k * omega[:, None] * (values - centre[:, None]))).sum(
            -1
        )  # (K, M, n)
        mean = (w[:, None] * phi).sum(1, keepdims=True)
        within = (c[:, None] * np.abs(phi) ** 2).sum(0)
        spread = (c[:, None] * w[:, None] * np.abs(phi - mean) ** 2).sum((0, 1))
        for budget in (2**17, 50):
            found = fourier.sums(values, centre, omega, c, weights, w, budget)
            np.testing.assert_allclose(found[0], within, rtol=1e-13)
            np.testing.assert_allclose(found[1], spread, rtol=1e-13, atol=1e-28)


# Few draws on the line.


def exact_draws(values, w):
    """H and dispersion of draws (M, N, n) under |x − y| in fractions: no rounding at all."""
    members, count, n = values.shape
    entropies, dispersion = np.empty(n), np.empty(n)
    share = [Fraction(float(x)) for x in w]
    for c in range(n):
        draws = [[Fraction(float(x)) for x in values[m, :, c]] for m in range(members)]
        cross = [
            [sum(abs(a - b) for a in p for b in q) / Fraction(count) ** 2 for q in draws]
            for p in draws
        ]
        own = [cross[m][m] / 2 for m in range(members)]
        entropies[c] = float(sum(v * h for v, h in zip(share, own, strict=True)))
        dispersion[c] = float(
            sum(
                share[i] * share[j] * (cross[i][j] - own[i] - own[j])
                for i in range(members)
                for j in range(members)
            )
        )
    return entropies, dispersion


@pytest.mark.parametrize(
    ("members", "count", "n"), [(1, 4, 2), (2, 1, 3), (2, 2, 33), (4, 5, 3), (3, 7, 2), (2, 16, 2)]
)
@pytest.mark.parametrize("distance", [0.0, 1e-9, 1.0, 1e5])
def test_few_draws(members, count, n, distance, rng):
    values = rng.normal(size=(count, n)) + distance * rng.normal(size=(members, count, n))
    w = rng.dirichlet(np.ones(members))
    want = exact_draws(values, w)
    for unit in (2.0**-900, 1.0, 2.0**1000):
        draws = kuq.Samples(np.swapaxes(values * unit, 1, 2))
        u = kuq.decompose(kuq.Ensemble(draws, weights=w), kuq.CRPS(), unbiased=False)
        # Sums of some ten terms; of equal members the squares of rounded steps are left.
        np.testing.assert_allclose(u.aleatoric / unit, want[0], rtol=1e-12)
        np.testing.assert_allclose(u.epistemic / unit, want[1], rtol=1e-12, atol=1e-30)


def test_few_draws_with_ties(rng):
    values = np.round(rng.normal(size=(3, 1500, 6)), 1)
    w = np.asarray([0.5, 0.25, 0.25])
    cross = np.mean(np.abs(values[:, None, :, :, None] - values[None, :, :, None]), axis=(3, 4))
    own = np.stack([cross[m, m] / 2 for m in range(3)])
    u = kuq.decompose(kuq.Ensemble(kuq.Samples(values), weights=w), kuq.CRPS(), unbiased=False)
    np.testing.assert_allclose(u.aleatoric, w @ own, rtol=1e-12)
    want = np.einsum("i,j,ijn->n", w, w, cross - own[:, None] - own[None])
    np.testing.assert_allclose(u.epistemic, want, rtol=1e-12, atol=1e-15)


# Which form is taken.


def planned(law, score, compiled=False):
    """The names of the forms for an ensemble, the first one and those for lost digits."""
    options = Options.checked(True, 1e-8, None, None, 2**28)
    term = next(score.terms())
    (view,) = views(term, options, kuq.Ensemble(law))
    forms = plan(Problem.of(term.kernel, view.stack, compiled)).forms
    return [type(form).__name__ for form in forms]


def test_form_by_kernel_dimension_and_size(rng):
    scalar, plane = rng.normal(size=(3, 2, 40)), rng.normal(size=(3, 2, 40, 5))
    assert planned(kuq.Samples(scalar), kuq.CRPS())[:2] == ["SortedDraws", "Steps"]
    assert planned(kuq.Samples(scalar), kuq.Energy())[0] == "SortedDraws"
    assert planned(kuq.Samples(scalar), kuq.Gaussian(1.0))[0] == "Fourier"
    assert planned(kuq.Samples(scalar[..., :5]), kuq.Gaussian(1.0))[0] == "Gram"
    assert planned(kuq.Samples(scalar), kuq.Laplace(1.0))[0] == "Gram"
    assert planned(kuq.Samples(plane, 1), kuq.Energy())[:2] == ["Gram", "MatchedDraws"]
    assert planned(kuq.Samples(plane, 1), kuq.Gaussian(1.0))[0] == "Gram"
    # float32 is widened before it is used.
    assert planned(kuq.Samples(plane.astype("f4"), 1), kuq.Energy())[0] == "Gram"
    assert planned(kuq.Samples(plane, 1), kuq.SquaredError())[0] == "Moments"
    assert planned(kuq.Normal(scalar, 1.0), kuq.Gaussian(1.0))[0] == "ScalarPairs"
    assert planned(kuq.Normal(plane, 1.0, 1), kuq.Gaussian(1.0))[0] == "OneScale"
    assert planned(kuq.Normal(plane, 1.0, 1), kuq.Energy())[0] == "ScaleQuadrature"
    three = kuq.Samples(plane[..., :1, :], 1)
    assert planned(three, kuq.Energy())[0] == "PointPairs"


def test_compiled_forms(rng):
    scalar, plane = rng.normal(size=(3, 2, 40)), rng.normal(size=(3, 2, 40, 5))
    for kernel in (kuq.Laplace(1.0), kuq.Matern(1.0, 1.5), kuq.Matern(1.0, 2.5)):
        assert planned(kuq.Samples(scalar), kernel, compiled=True)[0] == "ExponentialDraws"
    for kernel in (kuq.InverseMultiquadric(1.0), kuq.Energy(0.5)):
        assert planned(kuq.Samples(scalar), kernel, compiled=True)[0] == "DrawPairs"
    assert planned(kuq.Samples(scalar[..., :9]), kuq.CRPS(), compiled=True)[0] == "SortedDraws"
    assert planned(kuq.Samples(plane, 1), kuq.Energy(), compiled=True)[0] == "Distances"
    assert planned(kuq.Samples(plane, 1), kuq.Matern(1.0, 0.7), compiled=True)[0] == "Gram"
    fields = kuq.Normal(plane, 1.0, 1)
    assert planned(fields, kuq.Gaussian(1.0), compiled=True)[0] == "NormalFields"


def test_compiled_form_of_evidential_laws():
    law = kuq.NormalInverseGamma(np.zeros(3), 1.0, 2.0, 1.0)
    options = Options.checked(True, 1e-8, None, None, 2**28)
    kernel = kuq.Gaussian(1.0)
    (view,) = views(next(kernel.terms()), options, law)
    for compiled, names in (
        (True, ["EvidentialPairs", "EvidentialScales"]),
        (False, ["EvidentialScales"]),
    ):
        forms = plan(Problem.of(kernel, view.stack, compiled)).forms
        assert [type(form).__name__ for form in forms] == names


def test_a_kernel_of_ones_own_takes_plain_sums(rng):
    class Own(kuq.Kernel):
        def __call__(self, x, y):
            return np.abs(x - y).sum(-1) ** 0.5

    draws = kuq.Samples(rng.normal(size=(3, 2, 40, 5)), 1)
    assert planned(draws, Own()) == ["PointPairs"]


def test_traced_draws_take_what_needs_no_values(rng):
    with opened("jax") as library:
        jax, seen = library.module, []

        def function(values):
            for score in (kuq.Energy(), kuq.Gaussian(1.0), kuq.CRPS()):
                seen.append(planned(kuq.Samples(values, 1), score)[0])
            return values.sum()

        jax.eval_shape(function, jax.numpy.asarray(rng.normal(size=(3, 2, 40, 5))))
        assert seen == ["PointPairs", "PointPairs", "Steps"]


# JAX compiles every line for every shape, so that one dimension above the first has to do.
@kernels
@pytest.mark.parametrize(
    ("d", "library"), [*((d, "torch") for d in (1, 2, 7)), *((d, "jax") for d in (1, 2))]
)
def test_other_libraries(rng, name, d, library):
    members = members_of(rng, (30, 30, 12), d)
    members[1][1] = members[0][1] + 1e-9  # one entry with close members
    score, _ = KERNELS[name]
    wanted = decomposed(members, score)
    with opened(library) as other:
        found = decomposed([other.array(x) for x in members], score)
        for actual, expected in zip(found, wanted, strict=True):
            np.testing.assert_allclose(to_numpy(actual), expected, rtol=1e-11)


@kernels
@dimensions
def test_gradients(rng, name, d):
    """By finite differences; ties and close members give numbers, too."""
    values = rng.normal(size=(3, 2, 25, d))
    score, _ = KERNELS[name]
    direction = rng.normal(size=values.shape)

    def total(x):
        u = kuq.decompose(kuq.Ensemble(kuq.Samples(x, 1)), score)
        return u.aleatoric.sum() + 2 * u.epistemic.sum()

    with opened("torch") as library:
        leaf = library.array(values).requires_grad_()
        total(leaf).backward()
        step = 1e-6 * direction
        wanted = (total(values + step) - total(values - step)) / 2e-6
        np.testing.assert_allclose((leaf.grad.numpy() * direction).sum(), wanted, rtol=1e-6)
        values[2, :] = values[0]
        values[:, 1] = values[:1, 1] + 1e-9 * rng.normal(size=(3, 25, d))
        values[:, :, 7] = values[:, :, 3]
        leaf = library.array(values).requires_grad_()
        total(leaf).backward()
        assert np.isfinite(leaf.grad.numpy()).all()


@kernels
@dimensions
def test_missing_draws(rng, name, d):
    values = rng.normal(size=(3, 2, 30, d))
    values[1, 0, 4:9] = np.nan
    score, _ = KERNELS[name]
    u = kuq.decompose(kuq.Ensemble(kuq.Samples(values, 1, nan_policy="omit")), score)
    members = [values[0, 0], np.delete(values[1, 0], range(4, 9), axis=0), values[2, 0]]
    v = kuq.decompose(kuq.Ensemble([kuq.Samples(x, 1) for x in members]), score)
    np.testing.assert_allclose(u.aleatoric[0], v.aleatoric, rtol=1e-12)
    np.testing.assert_allclose(u.epistemic[0], v.epistemic, rtol=1e-11)
    u = kuq.decompose(kuq.Ensemble(kuq.Samples(values, 1, nan_policy="propagate")), score)
    for part in (u.aleatoric, u.epistemic):
        assert np.isnan(part[0])
        assert np.isfinite(part[1])


@kernels
@dimensions
def test_entropy_divergence_and_score(rng, name, d):
    """What a single law needs goes the same ways."""
    x, y = members_of(rng, (80, 70), d, n=2)
    score, k = KERNELS[name]
    a, b, c = (table(*pair, k).mean((-2, -1)) for pair in ((x, x), (y, y), (x, y)))
    p, q = kuq.Samples(x, 1), kuq.Samples(y, 1)
    np.testing.assert_allclose(kuq.entropy(p, score, unbiased=False), (a / 2).astype(float))
    found = kuq.divergence(p, q, score, unbiased=False)
    np.testing.assert_allclose(found, (c - a / 2 - b / 2).astype(float), rtol=1e-11)
    outcome = y[:, 0]
    wanted = table(x, outcome[:, None], k).mean((-2, -1)) - a / 2
    found = kuq.score(p, outcome, score, unbiased=False)
    np.testing.assert_allclose(found, wanted.astype(float), rtol=1e-12)


@pytest.mark.parametrize("score", [kuq.Gaussian(1.0), kuq.Energy()], ids=["gaussian", "energy"])
def test_a_divergence_computes_no_entropy(rng, monkeypatch, score):
    y, draws = rng.normal(size=(3, 5)), kuq.Samples(rng.normal(size=(3, 4, 5)), 1)
    p = kuq.LowRankNormal(rng.normal(size=(3, 5)), rng.normal(size=(3, 5, 2)), np.ones((3, 5)))
    laws = (p, kuq.Point(y, 1))
    cross, *inside = (
        kuq.expected_kernel(*pair, score) for pair in (laws, laws[:1] * 2, laws[1:] * 2)
    )
    wanted = cross - inside[0] / 2 - inside[1] / 2
    np.testing.assert_allclose(kuq.score(p, y, score), wanted, rtol=1e-7)
    # That of draws is what their number takes from a divergence.
    bias = kuq.entropy(draws, score) - kuq.entropy(draws, score, unbiased=False)
    less = kuq.divergence(p, draws, score, unbiased=False) - kuq.divergence(p, draws, score)
    np.testing.assert_allclose(less, bias, rtol=1e-10)

    def entropy(*args):
        raise AssertionError("nobody asks for it")

    monkeypatch.setattr(scale_quadrature.OverScales, "entropy", entropy)
    np.testing.assert_allclose(kuq.score(p, y, score), wanted, rtol=1e-7)
    with pytest.raises(AssertionError, match="nobody asks"):
        kuq.divergence(p, draws, score)


@kernels
@pytest.mark.parametrize("scale", [1e-140, 1e-9, 1e9, 1e140])
def test_scales(rng, name, scale):
    """Draws of unusual size are brought to their own unit."""
    values = rng.normal(size=(3, 2, 30, 2))
    base = {"energy": kuq.Energy, "energy-0.7": lambda: kuq.Energy(0.7)}
    if name in base:
        here = there = base[name]()
    else:
        kind = {"gaussian": kuq.Gaussian, "laplace": kuq.Laplace}[name]
        here, there = kind(1.0), kind(scale)
    u = kuq.decompose(kuq.Ensemble(kuq.Samples(values, 1)), here)
    v = kuq.decompose(kuq.Ensemble(kuq.Samples(scale * values, 1)), there)
    degree = here.card.homogeneous_degree or 0.0
    for part in ("aleatoric", "epistemic"):
        np.testing.assert_allclose(v[part], scale**degree * u[part], rtol=1e-11)
