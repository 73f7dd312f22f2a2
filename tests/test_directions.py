"""Very many draws by random directions: against sums over all pairs, and where they are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from libraries import opened, to_numpy

import kuq
from kuq.forms.directions import Directions, unit_vectors
from kuq.forms.form import Problem
from kuq.forms.sorted_draws import entropies_by_sorting
from kuq.forms.table import plan
from kuq.scores.options import Options
from kuq.views import views

KERNELS = {
    "energy": kuq.Energy(),
    "gaussian": kuq.Gaussian(4.0),
    "laplace": kuq.Laplace(4.0),
    "matern": kuq.Matern(4.0, 1.5),
    "rational": kuq.RationalQuadratic(4.0, 1.5),
    "imq": kuq.InverseMultiquadric(4.0),
}
kernels = pytest.mark.parametrize("score", KERNELS.values(), ids=KERNELS)
#: Seeds are fixed: six standard errors are no limit that a right answer meets by chance.
FAR = 6.0
#: Enough for errors of some hundredths, and few enough for small numbers of draws.
SOME = 140


@pytest.fixture(autouse=True, params=[False, True], ids=["generic", "compiled"])
def _compiled(request):
    if request.param:
        pytest.importorskip("numba")
    with kuq.compiled(request.param):
        yield


def members(counts=(300, 300, 300), d=4, batch=(), seed=0):
    rng = np.random.default_rng(seed)
    stretch = np.linspace(1.0, 2.0, d)
    return [rng.normal(rng.normal(size=d), stretch, size=(*batch, n, d)) for n in counts]


def close(found, wanted):
    """Whether estimates are within some standard errors, and these small against the value."""
    value, error = to_numpy(found.value), to_numpy(found.standard_error)
    assert np.all(np.abs(value - wanted) <= FAR * error)
    assert np.all(error <= 0.15 * np.abs(wanted).max())


def both(call, *args, **options):
    return call(*args, directions=SOME, **options), call(*args, **options)


def check(u, exact):
    assert u.method == "sliced"
    for part in u:
        close(kuq.Estimate(u[part], getattr(u.standard_error, part), u.method), exact[part])


# Against all pairs.


@kernels
def test_decomposition(score):
    prediction = kuq.Ensemble(kuq.Samples(np.stack(members()), 1))
    check(*both(kuq.decompose, prediction, score))


@pytest.mark.parametrize("unbiased", [False, "members", "samples"])
def test_what_is_corrected_for(unbiased):
    prediction = kuq.Ensemble(kuq.Samples(np.stack(members()), 1))
    for score in (kuq.Energy(), kuq.Gaussian(4.0)):
        check(*both(kuq.decompose, prediction, score, unbiased=unbiased))


@kernels
def test_all_that_can_be_asked(score):
    x, y, z = members()
    p, q = kuq.Samples(x, 1), kuq.Samples(y, 1)
    close(*both(kuq.entropy, p, score))
    close(*both(kuq.divergence, p, q, score))
    close(*both(kuq.score, p, z[0], score))
    close(*both(kuq.member_divergences, kuq.Ensemble([p, q, kuq.Samples(z, 1)]), score))


@kernels
def test_weights_of_draws_and_members_and_coordinates_and_unequal_counts(score):
    rng = np.random.default_rng(1)
    draws = members((300, 90, 200), batch=(2,))
    v = [rng.dirichlet(np.ones(x.shape[1]), size=2) for x in draws]
    v[0] = None
    laws = [kuq.Samples(x, 1, weights=w) for x, w in zip(draws, v, strict=True)]
    prediction = kuq.Ensemble(laws, weights=[0.5, 0.2, 0.3])
    own = score.changed(weights=np.asarray([1.0, 0.5, 2.0, 0.1]))
    check(*both(kuq.decompose, prediction, own))
    check(*both(kuq.decompose, kuq.Ensemble(laws), own))


def test_influence_of_members():
    prediction = kuq.Ensemble(kuq.Samples(np.stack(members()), 1), weights=[0.5, 0.3, 0.2])
    u, exact = both(kuq.member_influence, prediction, kuq.Energy())
    assert u.method == "sliced"
    for part in u:
        assert np.all(abs(u[part] - exact[part]) <= FAR * getattr(u.standard_error, part))
        assert np.all(getattr(u.standard_error, part) < 0.1)


def test_a_report_by_directions(tmp_path):
    pytest.importorskip("matplotlib")
    x = np.stack(members(batch=(3,)))
    prediction = kuq.Ensemble(kuq.Samples(x, 1))
    path = kuq.report(
        prediction, kuq.Energy(), y=x[0, :, 0], path=tmp_path / "page.html", directions=SOME
    )
    assert "by random directions" in path.read_text(encoding="utf-8")


def test_mixtures_against_each_other():
    draws = members((200, 200, 200, 200))
    left, right = (kuq.Ensemble(kuq.Samples(np.stack(some), 1)) for some in (draws[:2], draws[2:]))
    close(*both(kuq.divergence, left, right, kuq.Energy()))
    close(*both(kuq.entropy, left, kuq.Gaussian(3.0)))


def test_estimator_bma():
    prediction = kuq.Ensemble(kuq.Samples(np.stack(members()), 1))
    check(*both(kuq.decompose, prediction, kuq.Energy(), estimator="bma"))


def test_a_bandwidth_for_every_input():
    prediction = kuq.Ensemble(kuq.Samples(np.stack(members(batch=(3,))), 1))
    check(*both(kuq.decompose, prediction, kuq.Gaussian(np.asarray([2.0, 4.0, 8.0]))))
    check(*both(kuq.decompose, prediction, kuq.Gaussian("median")))


def test_sums_of_kernels_and_maps_of_the_outcome():
    calls = []

    def features(x):
        calls.append(x.shape)
        return np.concatenate([x, x[..., :1] ** 2], axis=-1)

    prediction = kuq.Ensemble(kuq.Samples(np.stack(members()), 1))
    score = 2 * kuq.Energy() + kuq.Gaussian(3.0) + kuq.SquaredError() + kuq.Energy().on(features)
    u = kuq.decompose(prediction, score, directions=SOME)
    assert len(calls) == 1  # and not once for every unit of directions
    check(u, kuq.decompose(prediction, score))


def test_draws_beside_normals():
    draws = members((300, 300))
    law = kuq.Normal(np.zeros(4), np.ones(4), 1)
    prediction = kuq.Ensemble([*(kuq.Samples(x, 1) for x in draws), law])
    check(*both(kuq.decompose, prediction, kuq.Energy()))


def test_draws_that_kuq_makes():
    law = kuq.Normal([[0.0, 0.0], [1.0, 0.5]], [[1.0, 1.0], [2.0, 1.0]], 1)
    score = kuq.Energy().on(np.tanh)
    options = {"draws": 300, "seed": 3}
    u = kuq.decompose(kuq.Ensemble(law), score, directions=SOME, **options)
    assert u.method == "monte-carlo"
    exact = kuq.decompose(kuq.Ensemble(law), score, **options)
    assert abs(u.total - exact.total) < FAR * u.standard_error.total


def test_one_draw_of_many_in_dimension_one_has_exact_ways():
    rng = np.random.default_rng(0)
    law = kuq.Samples(rng.normal(size=500))
    for score in (kuq.Energy(), kuq.CRPS(), kuq.SquaredError(), kuq.Gaussian(1.0)):
        found, exact = both(kuq.entropy, law, score)
        assert found.method == "samples"
        assert found.standard_error == 0
        np.testing.assert_allclose(found.value, exact, rtol=1e-12)
    close(*both(kuq.entropy, law, kuq.InverseMultiquadric(1.0)))  # and this one has none


def test_few_draws_are_compared_pair_by_pair():
    prediction = kuq.Ensemble(kuq.Samples(np.stack(members((40, 40, 40))), 1))
    found, exact = both(kuq.decompose, prediction, kuq.Energy(0.7))
    assert found.method == "samples"
    assert found.standard_error.total == 0
    np.testing.assert_allclose(found.total, exact.total, rtol=1e-12)


# The sums on a line, against all pairs.


def entropies_by_pairs(x, counts, weights, shares):
    """½ Σ v_i v_j |x_i − x_j| of every member of a row and of their mixture."""
    gaps = np.abs(x[:, None] - x[None, :])
    ends = np.cumsum(counts)
    own = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    alone = [weights[s] @ gaps[s, s] @ weights[s] / 2 for s in own]
    whole = np.repeat(shares, counts) * weights
    return np.asarray(alone), whole @ gaps @ whole / 2


LINES = {
    "normal": lambda rng, size: rng.normal(size=size),
    "cauchy": lambda rng, size: rng.standard_cauchy(size=size),
    "scales": lambda rng, size: np.exp(40 * rng.normal(size=size)),
    "ties": lambda rng, size: rng.integers(0, 4, size=size) * 1.0,
    "one value": lambda rng, size: np.full(size, 2.0),
    "one away": lambda rng, size: np.where(np.arange(size) == 3, 1e300, rng.normal(size=size)),
    "tiny": lambda rng, size: 5e-324 * rng.integers(0, 9, size=size),
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_sums_on_a_line(line, weighted):
    rng = np.random.default_rng(7)
    for counts in ([700], [300, 300, 300], [500, 1, 60]):
        shares = rng.dirichlet(np.ones(len(counts)))
        x = LINES[line](rng, 2 * sum(counts)).reshape(2, -1)
        v = np.concatenate([rng.dirichlet(np.ones(c), size=2) for c in counts], axis=1)
        if not weighted:
            v, shares = (
                np.repeat(1 / np.asarray(counts), counts) + 0 * v,
                shares * 0 + 1 / len(counts),
            )
        # Two directions, one the mirror of the other, and two entries of the batch.
        ends = np.cumsum(counts)[:-1]
        laws = [
            kuq.Samples(np.concatenate([part, -part]), weights=np.concatenate([own, own]))
            if weighted
            else kuq.Samples(np.concatenate([part, -part]))
            for part, own in zip(np.split(x, ends, axis=1), np.split(v, ends, axis=1), strict=True)
        ]
        stack = kuq.Ensemble(laws, weights=shares).stack(marginal=False, rtol=1e-8)
        alone, together = (
            np.reshape(found, (*found.shape[:-1], 2, 2)) for found in entropies_by_sorting(stack)
        )
        for n in range(2):
            wanted, whole = entropies_by_pairs(x[n], counts, v[n], shares)
            scale = max(whole, 1e-300)
            for k in range(2):
                np.testing.assert_allclose(alone[:, k, n], wanted, atol=1e-13 * scale, rtol=1e-12)
                np.testing.assert_allclose(together[k, n], whole, rtol=1e-12, atol=1e-320)


# Directions.


@pytest.mark.parametrize(("d", "wanted"), [(2, 1000), (3, 20), (10, 1000), (10, 199), (300, 1000)])
def test_units(d, wanted):
    units = Directions((0,), wanted).units(d)
    vectors = [unit_vectors(unit, d) for unit in units]
    assert len(units) >= 20
    assert wanted <= sum(v.shape[1] for v in vectors) < wanted + vectors[0].shape[1]
    for v in vectors[:2]:
        first = v[:, :d]
        np.testing.assert_allclose(first.T @ first, np.eye(first.shape[1]), atol=1e-12)
    assert not np.array_equal(*vectors[:2])


def test_whole_bases_where_there_are_enough_of_them():
    assert Directions((0,), 1000).size(10) == 10
    assert Directions((0,), 200).size(10) == 10
    assert Directions((0,), 1000).size(2) == 10
    assert Directions((0,), 1000).size(60) == 50


def test_length_of_a_projection():
    """c_d E|θ·x| = ‖x‖, of all directions in the plane and of very many in three dimensions."""
    from kuq.forms.slices import _length

    angle = (np.arange(10_000) + 0.5) * 2 * math.pi / 10_000
    assert _length(2) * np.abs(np.cos(angle)).mean() == pytest.approx(1, abs=1e-6)
    height = (np.arange(10_000) + 0.5) / 10_000  # uniform on the sphere
    assert _length(3) * height.mean() == pytest.approx(1, abs=1e-12)
    assert _length(1) == pytest.approx(1, abs=1e-14)


def test_same_seed_same_numbers_other_seed_other_numbers():
    law = kuq.Samples(members()[0], 1)
    found = [kuq.entropy(law, kuq.Energy(), directions=SOME, seed=s) for s in (3, 3, 4)]
    assert found[0] == found[1]
    assert found[0].value != found[2].value


def test_memory_and_threads_do_not_change_numbers(monkeypatch):
    prediction = kuq.Ensemble(kuq.Samples(np.stack(members(batch=(5,))), 1))
    for score in (kuq.Energy(), kuq.Laplace(2.0)):
        wanted = kuq.decompose(prediction, score, directions=SOME)
        small = kuq.decompose(prediction, score, directions=SOME, max_memory=2**14)
        np.testing.assert_allclose(small.epistemic, wanted.epistemic, rtol=1e-11)
        monkeypatch.setattr("kuq.forms.directions.workers", lambda: 3)
        monkeypatch.setattr("kuq.forms.directions._AT_ONCE", 2**11)
        threads = kuq.decompose(prediction, score, directions=SOME)
        np.testing.assert_allclose(threads.epistemic, wanted.epistemic, rtol=1e-11)
        monkeypatch.undo()


# Numbers of any size.


def test_far_from_zero_and_in_any_unit():
    x, y = members((200, 200))[:2]
    wanted = kuq.divergence(kuq.Samples(x, 1), kuq.Samples(y, 1), kuq.Energy(), directions=SOME)
    for scale, shift in ((1.0, 1e9), (1e150, 0.0), (1e-150, 0.0)):
        laws = [kuq.Samples(scale * a + shift, 1) for a in (x, y)]
        found = kuq.divergence(*laws, kuq.Energy(), directions=SOME)
        np.testing.assert_allclose(found.value / scale, wanted.value, rtol=1e-6)


def test_members_that_agree():
    x = members()[0]
    prediction = kuq.Ensemble(kuq.Samples(np.stack([x, x, x]), 1))
    for score in (kuq.Energy(), kuq.Gaussian(3.0)):
        u = kuq.decompose(prediction, score, directions=SOME, unbiased=False)
        assert abs(u.epistemic) < 1e-13 * u.aleatoric


def test_heavy_tails_and_ties():
    rng = np.random.default_rng(5)
    for x in (np.exp(6 * rng.normal(size=(2, 400, 3))), rng.integers(0, 3, (2, 400, 3)) * 1.0):
        prediction = kuq.Ensemble(kuq.Samples(x, 1))
        found, exact = both(kuq.decompose, prediction, kuq.Energy())
        for part in found:
            gap = abs(found[part] - exact[part])
            assert gap <= FAR * getattr(found.standard_error, part) + 1e-12 * exact.total


def test_missing_draws():
    draws = members(batch=(2,))[0]
    holes = draws.copy()
    holes[1, :50, 2] = np.nan
    for score in (kuq.Energy(), kuq.Gaussian(3.0)):
        spread = kuq.entropy(kuq.Samples(holes, 1, nan_policy="propagate"), score, directions=SOME)
        assert np.isfinite(spread.value[0])
        assert np.isnan([spread.value[1], spread.standard_error[1]]).all()
        law = kuq.Samples(holes, 1, nan_policy="omit")
        close(*both(kuq.entropy, law, score))


def test_single_precision_gives_single_precision():
    x = np.stack(members()).astype(np.float32)
    u = kuq.decompose(kuq.Ensemble(kuq.Samples(x, 1)), kuq.Energy(), directions=SOME)
    wide = kuq.decompose(
        kuq.Ensemble(kuq.Samples(x.astype(float), 1)), kuq.Energy(), directions=SOME
    )
    assert u.epistemic.dtype == u.standard_error.epistemic.dtype == np.float32
    np.testing.assert_allclose(u.epistemic, wide.epistemic, rtol=1e-6)


# Other libraries.


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_readable_arrays_of_other_libraries(name):
    x = np.stack(members())
    wanted = kuq.decompose(kuq.Ensemble(kuq.Samples(x, 1)), kuq.Energy(), directions=SOME)
    alone = kuq.entropy(kuq.Samples(x[0], 1), kuq.Gaussian(2.0), directions=SOME)
    with opened(name) as library:
        u = kuq.decompose(
            kuq.Ensemble(kuq.Samples(library.array(x), 1)), kuq.Energy(), directions=SOME
        )
        h = kuq.entropy(kuq.Samples(library.array(x[0]), 1), kuq.Gaussian(2.0), directions=SOME)
        assert type(u.total) is type(library.array(x))
        assert type(h.standard_error) is type(library.array(x))
        for found, expected in (
            (u.epistemic, wanted.epistemic),
            (u.standard_error.total, wanted.standard_error.total),
            (h.value, alone.value),
        ):
            np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-11)


def test_gradients_are_refused():
    torch = pytest.importorskip("torch")
    x = torch.tensor(np.stack(members()), requires_grad=True)
    with pytest.raises(kuq.ParameterError, match="no gradient"):
        kuq.decompose(kuq.Ensemble(kuq.Samples(x, 1)), kuq.Energy(), directions=SOME)
    with opened("jax") as library:
        jax = library.module

        def loss(x):
            return kuq.entropy(kuq.Samples(x, 1), kuq.Energy(), directions=SOME).value

        with pytest.raises(kuq.ParameterError, match="outside of jit"):
            jax.grad(loss)(library.array(members()[0]))


# What is refused.


def test_kernels_without_a_way_are_refused():
    law = kuq.Samples(members()[0], 1)

    class Own(kuq.Kernel):
        def __call__(self, x, y):
            return np.abs(x - y).sum(-1)

    for score in (kuq.Energy(0.7), Own()):
        with pytest.raises(kuq.ParameterError, match="leave directions out"):
            kuq.entropy(law, score, directions=SOME)
    with pytest.raises(kuq.ParameterError, match="densities"):
        kuq.entropy(kuq.Normal(np.zeros(3), 1.0, 1), kuq.LogScore(), directions=SOME)


def test_levels_are_refused():
    prediction = kuq.Ensemble(kuq.Samples(np.stack([members(), members(seed=1)]), 1), member_ndim=2)
    with pytest.raises(kuq.ParameterError, match="levels and directions do not go together"):
        kuq.decompose(prediction, kuq.Energy(), levels=("a", "b"), directions=SOME)
    close(*both(kuq.entropy, prediction, kuq.Energy()))  # of the mixture of all


@pytest.mark.parametrize("directions", [0, 19, -5, 2.5, True, "many"])
def test_numbers_of_directions(directions):
    with pytest.raises(kuq.ParameterError, match="directions must be an integer ≥ 20 or None"):
        kuq.entropy(kuq.Samples(members()[0], 1), kuq.Energy(), directions=directions)


def test_a_density_of_ones_own_is_checked():
    from kuq.kernels.base import Bounded

    class Cauchy(Bounded, kuq.ScaleMixture):
        formula = "-1/(1+|x-y|^2/g^2)"

        def __init__(self, factor):
            vars(self).update(bandwidth=2.0, factor=factor)

        def profile(self, s, xp):
            return s / (1 + s)

        def log_density(self, v):
            return v - self.factor * np.exp(v)

    law = kuq.Samples(members()[0], 1)
    wanted = kuq.entropy(law, kuq.RationalQuadratic(2.0, 1.0), directions=SOME)
    assert kuq.entropy(law, Cauchy(1.0), directions=SOME).value == pytest.approx(wanted.value)
    with pytest.raises(kuq.ParameterError, match="does not belong to its profile"):
        kuq.entropy(law, Cauchy(1.5), directions=SOME)


# Plans and results.


def planned(values, score, wanted=SOME):
    options = Options.checked(True, 1e-8, None, None, 2**28, wanted)
    term = next(score.terms())
    (view,) = views(term, options, kuq.Ensemble(kuq.Samples(values, 1)))
    problem = Problem.of(term.kernel, view.stack, False, directions=options.directions)
    return plan(problem)


def test_plans():
    x = np.stack(members())
    for score in KERNELS.values():
        found = planned(x, score)
        name = "Slices" if isinstance(score, kuq.Energy) else "Frequencies"
        assert type(found.forms[0]).__name__ == name
        assert found.method == "sliced"
        assert "sliced" not in planned(x, score, None).method
        assert not any(form.sampled for form in planned(x, score, None).forms)
        assert not any(form.sampled for form in planned(x, score, 1000).forms)


def test_results_say_how_sure_they_are():
    prediction = kuq.Ensemble(kuq.Samples(np.stack(members()), 1))
    u = kuq.decompose(prediction, kuq.Energy(), directions=SOME)
    assert " ± " in repr(u)
    assert "sliced" in repr(u)
    many = kuq.decompose(
        kuq.Ensemble(kuq.Samples(np.stack(members(batch=(2,))), 1)),
        kuq.Energy(),
        directions=SOME,
    )
    assert "standard error up to" in repr(many)
    assert u == kuq.decompose(prediction, kuq.Energy(), directions=SOME)
    assert u != kuq.decompose(prediction, kuq.Energy(), directions=SOME, seed=1)
    assert kuq.decompose(prediction, kuq.Energy()).standard_error is None
    h = kuq.entropy(kuq.Samples(members()[0], 1), kuq.Energy(), directions=SOME)
    assert " ± " in repr(h)
    assert "shape=(3, 3)" in repr(kuq.member_divergences(prediction, kuq.Energy(), directions=SOME))
