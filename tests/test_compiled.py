"""The compiled twins give what the plain routes give, at every magnitude and distance."""

import os
import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest
from scipy.special import ndtr

from kuq.distributions.atoms import Normals
from kuq.expectations import normal, scalar
from kuq.expectations import overlap as formulas

numba = pytest.importorskip("numba", reason="the compiled twins need numba")

from kuq._compiled import twin  # noqa: E402
from kuq._numba import compiling, mathematics  # noqa: E402

cdf, distances = twin("forms.distribution_functions"), twin("forms.distances")
exponential_draws, fourier = twin("forms.exponential_draws"), twin("forms.fourier")
fields, scalar_pairs = twin("forms.normal_fields"), twin("forms.scalar_pairs")

#: Sums of some hundred terms in another order, with fused multiplication or without: 6e-14 is seen.
RTOL = 1e-12


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | environment,
    ).stdout


def test_importing_kuq_does_not_import_numba():
    run("import kuq, sys; assert 'numba' not in sys.modules")


# Elementary functions -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evaluate():
    """All functions of one argument, compiled together to save time."""
    exp, expm1, erf_and_fall = (
        mathematics.exp,
        mathematics.expm1_negative,
        mathematics.erf_and_fall,
    )
    log, log1p = mathematics.log, mathematics.log1p
    cos_sin, phi = mathematics.cos_sin, mathematics.normal_cdf

    @numba.njit(error_model="numpy", fastmath={"contract"})
    def loop(name, x, out):
        for k in range(x.size):
            if name == 0:
                out[k] = exp(x[k])
            elif name == 1:
                out[k] = expm1(x[k])
            elif name == 2:
                out[k] = erf_and_fall(x[k])[0]
            elif name == 3:
                out[k] = log(x[k])
            elif name == 4:
                out[k] = log1p(x[k])
            elif name == 5:
                out[k] = phi(x[k])
            elif name == 6:
                out[k] = cos_sin(x[k])[0]
            elif name == 7:
                out[k] = cos_sin(x[k])[1]
            else:
                out[k] = erf_and_fall(x[k])[1]

    names = ("exp", "expm1", "erf", "log", "log1p", "cdf", "cos", "sin", "fall")

    def call(name, x):
        x = np.asarray(x, dtype=np.float64)
        out = np.empty_like(x)
        loop(names.index(name), x, out)
        return out

    return call


def magnitudes(rng, low, high, count=150):
    return 10.0 ** rng.uniform(low, high, count)


ARGUMENTS = {
    "exp": lambda r: np.concatenate([r.uniform(-708, 709.7, 150), r.normal(size=150)]),
    "expm1": lambda r: -np.concatenate([magnitudes(r, -300, 2.5), r.uniform(0, 3, 150)]),
    "erf": lambda r: np.concatenate([magnitudes(r, -300, 300), r.uniform(0, 8, 300)]),
    "fall": lambda r: np.concatenate([magnitudes(r, -150, 150), r.uniform(0, 8, 300)]),
    "log": lambda r: np.concatenate([magnitudes(r, -300, 300), 1 + 0.3 * r.normal(size=150) ** 2]),
    "log1p": lambda r: np.concatenate([magnitudes(r, -300, 300), r.uniform(-0.999, 2, 150)]),
}
PRECISE = {
    "exp": mp.exp,
    "expm1": mp.expm1,
    "erf": mp.erf,
    "fall": lambda x: -mp.expm1(-x * x),
    "log": mp.log,
    "log1p": mp.log1p,
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_functions_are_relatively_accurate(name, rng, evaluate):
    x = ARGUMENTS[name](rng)
    with mp.workdps(40):
        true = [PRECISE[name](mp.mpf(float(v))) for v in x]
        errors = [
            abs((mp.mpf(float(a)) - b) / b) for a, b in zip(evaluate(name, x), true, strict=True)
        ]
    # One or two units in the last place with fused multiplication, ten times that for processors
    # without it; a digit that is wrong in a coefficient gives far more.
    assert max(errors) < 4e-15


@pytest.mark.parametrize(
    ("name", "precise", "widest"),
    [("cdf", mp.ncdf, 9.0), ("cos", mp.cos, 1e6), ("sin", mp.sin, 10)],
)
def test_functions_are_absolutely_accurate(name, precise, widest, rng, evaluate):
    x = rng.uniform(-widest, widest, 300)
    values = evaluate(name, x)
    with mp.workdps(30):
        errors = [
            abs(mp.mpf(float(a)) - precise(mp.mpf(float(v))))
            for a, v in zip(values, x, strict=True)
        ]
    assert max(errors) < 3e-15  # as above


def test_functions_at_the_ends(evaluate):
    inf, nan = np.inf, np.nan
    ends = [-inf, -1e300, -745.0, 0.0, 710.0, inf, nan]
    np.testing.assert_array_equal(evaluate("exp", ends), [0, 0, 0, 1, inf, inf, nan])
    np.testing.assert_array_equal(evaluate("expm1", [-inf, -1e300, 0.0, nan]), [-1, -1, 0, nan])
    for name in ("erf", "fall"):
        np.testing.assert_array_equal(evaluate(name, [0.0, 1e300, inf, nan]), [0, 1, 1, nan])
    np.testing.assert_array_equal(
        evaluate("cdf", [-inf, -1e300, 0.0, 1e300, inf, nan]), [0, 0, 0.5, 1, 1, nan]
    )


# Pairs of scalar normals ------------------------------------------------------------------------


def generic_absolute(loc, scale, w):
    total = np.zeros(loc.shape[1])
    for i in range(len(w)):
        for j in range(i):
            d = scalar.absolute_divergence(loc[i], scale[i], loc[j], scale[j])
            total += 2 * w[i] * w[j] * d
    return w @ scalar.absolute_entropy(scale), total


def generic_gaussian(loc, scale, w, bandwidth):
    t = np.broadcast_to(1 / np.asarray(bandwidth) ** 2, loc.shape[1:])
    laws = [Normals(x[:, None], s[:, None]) for x, s in zip(loc, scale, strict=True)]
    total = np.zeros(loc.shape[1])
    for i in range(len(w)):
        for j in range(i):
            total += 2 * w[i] * w[j] * formulas.divergence(normal.overlap(t, laws[i], laws[j]))
    entropies = [formulas.entropy(normal.log_self_affinity(t, law)) for law in laws]
    return w @ np.stack(entropies), total


class pairs:  # noqa: N801  (stands for the compiled functions of members of one atom)
    """Σ w H and Σ w_i w_j D_ij, (n,) each, of normals (M, n)."""

    @staticmethod
    def _sums(name, loc, scale, w, bandwidth):
        owners = np.arange(len(w))
        found = scalar_pairs.statistics(name, 0.0, bandwidth, loc, scale, None, owners, w)
        return w @ found[0], found[1]

    @staticmethod
    def absolute(loc, scale, w):
        return pairs._sums("absolute", loc, scale, w, None)

    @staticmethod
    def gaussian(loc, scale, w, bandwidth):
        return pairs._sums("gaussian", loc, scale, w, bandwidth)


def ensemble(rng, members, n, distance=1.0):
    """Members at a distance from a common law, weights that differ."""
    loc = rng.normal(size=n) + distance * rng.normal(size=(members, n))
    scale = rng.uniform(0.5, 2, n) * (1 + distance * rng.uniform(0, 1, (members, n)))
    return loc, scale, rng.dirichlet(np.ones(members))


def both_kernels(loc, scale, w, bandwidth=1.5, rtol=RTOL):
    for got, want in (
        (pairs.absolute(loc, scale, w), generic_absolute(loc, scale, w)),
        (pairs.gaussian(loc, scale, w, bandwidth), generic_gaussian(loc, scale, w, bandwidth)),
    ):
        np.testing.assert_allclose(got, want, rtol=rtol)


@pytest.mark.parametrize(("members", "n"), [(1, 5), (2, 1), (2, 513), (7, 1300), (40, 3)])
@pytest.mark.parametrize("distance", [1e-9, 1.0, 1e6])
def test_pairs_of_normals(members, n, distance, rng):
    both_kernels(*ensemble(rng, members, n, distance))


def test_pairs_with_point_masses(rng):
    loc, scale, w = ensemble(rng, 5, 700)
    scale[rng.random(scale.shape) < 0.5] = 0
    loc[3] = loc[4]
    scale[:, :100] = 0
    loc[:, :10] = 3
    both_kernels(loc, scale, w)


def test_pairs_take_any_strides_and_a_bandwidth_per_column(rng):
    loc, scale, w = ensemble(rng, 6, 900)
    bandwidth = rng.uniform(0.5, 2, 900)
    both_kernels(np.asfortranarray(loc)[::2, ::-3], scale[::2, ::3], w[::2], bandwidth[::3])
    loc.flags.writeable = False
    both_kernels(loc, np.broadcast_to(scale[0], loc.shape), w, bandwidth)


@pytest.mark.parametrize("exponent", [-1000, -900, -500, -400, 400, 500, 900, 1000])
def test_pairs_at_any_magnitude(exponent, rng):
    """Powers of two change nothing but the unit; 2^±500 is 1e±150."""
    loc, scale, w = ensemble(rng, 4, 600)
    scale[:, ::3] = 0
    unit = 2.0**exponent
    for got, want in zip(
        pairs.absolute(loc * unit, scale * unit, w), generic_absolute(loc, scale, w), strict=True
    ):
        np.testing.assert_allclose(got / unit, want, rtol=RTOL)
    got = pairs.gaussian(loc * unit, scale * unit, w, 1.5 * unit)
    np.testing.assert_allclose(got, generic_gaussian(loc, scale, w, 1.5), rtol=RTOL)


@pytest.mark.parametrize("tiny", [1e-120, 1e-150, 1e-300, 5e-324])
def test_pairs_of_very_different_magnitude(tiny):
    loc = np.asarray([[0.0, 0.0, 1.0, 0.0], [tiny, 1.0, 1.0, 1e150], [0.0, tiny, 1e100, 1.0]])
    scale = np.asarray([[0.0, tiny, tiny, tiny], [0.0, 1.0, 1.0, 1e150], [0.0, 0.0, tiny, 0.0]])
    w = np.asarray([0.25, 0.5, 0.25])
    root_pi = np.sqrt(np.pi)
    aleatoric, dispersion = pairs.absolute(loc, scale, w)
    np.testing.assert_allclose(aleatoric[1:], [0.5 / root_pi] * 2 + [5e149 / root_pi], rtol=1e-12)
    # Two members at zero and one at tiny: 2·½·½ of the distance.
    np.testing.assert_allclose(dispersion[0], tiny / 2, rtol=RTOL, atol=5e-324)
    with mp.workdps(40):
        one = mp.sqrt(2 / mp.pi) * mp.exp(-mp.mpf(1) / 2) + mp.erf(1 / mp.sqrt(2))
        expected = float((one - 1 / mp.sqrt(mp.pi)) / 2)
    np.testing.assert_allclose(dispersion[1], expected, rtol=RTOL)
    np.testing.assert_allclose(dispersion[3], expected * 1e150, rtol=RTOL)
    for values in pairs.gaussian(loc, scale, w, 1.0):
        assert np.all(np.isfinite(values) & (values >= 0))


@pytest.mark.parametrize("distance", [1e-9, 1e-5, 3.0])
def test_pairs_of_normals_in_forty_digits(distance, rng):
    loc, scale, w = ensemble(rng, 3, 4, distance)
    absolute, gaussian = pairs.absolute(loc, scale, w)[1], pairs.gaussian(loc, scale, w, 0.7)[1]
    with mp.workdps(40):

        def mean_distance(x, s, y, r):
            v = mp.sqrt(2 * (s * s + r * r))
            z = abs(x - y) / v
            return v / mp.sqrt(mp.pi) * mp.exp(-z * z) + abs(x - y) * mp.erf(z)

        def affinity(x, s, y, r):
            c = mp.mpf(0.7) ** 2 + 2 * (s * s + r * r)
            return -mp.mpf(0.7) / mp.sqrt(c) * mp.exp(-((x - y) ** 2) / c)

        def dispersion(cross, k):
            laws = [
                (mp.mpf(float(a)), mp.mpf(float(b)))
                for a, b in zip(loc[:, k], scale[:, k], strict=True)
            ]
            return sum(
                w[i] * w[j] * (cross(*p, *q) - cross(*p, *p) / 2 - cross(*q, *q) / 2)
                for i, p in enumerate(laws)
                for j, q in enumerate(laws)
            )

        for k in range(4):
            assert absolute[k] == pytest.approx(float(dispersion(mean_distance, k)), rel=RTOL)
            assert gaussian[k] == pytest.approx(float(dispersion(affinity, k)), rel=RTOL)


def test_pairs_at_the_ends():
    """Means so far apart that their difference overflows; no columns at all."""
    loc, scale, w = np.asarray([[1.7e308], [-1.7e308]]), np.ones((2, 1)), np.asarray([0.5, 0.5])
    assert pairs.absolute(loc, scale, w)[1] == np.inf
    np.testing.assert_allclose(pairs.gaussian(loc, scale, w, 1.0)[1], 0.5 / np.sqrt(5), rtol=RTOL)
    assert all(part.shape[-1] == 0 for part in pairs.absolute(loc[:, :0], scale[:, :0], w))


def test_pairs_hand_on_nan():
    loc, scale, w = np.zeros((2, 3)), np.ones((2, 3)), np.asarray([0.5, 0.5])
    loc[1, 0] = scale[1, 1] = np.nan
    for dispersion in (pairs.absolute(loc, scale, w)[1], pairs.gaussian(loc, scale, w, 1.0)[1]):
        np.testing.assert_array_equal(np.isnan(dispersion), [True, True, False])


# Normals with independent coordinates -------------------------------------------------------------


def generic_fields(loc, scale, w, bandwidth):
    """H (M, n) and dispersion (n,) with all digits, also where the shift is larger."""
    t = np.broadcast_to(1 / np.asarray(bandwidth) ** 2, loc.shape[1:2])[None]
    laws = [Normals(x, s) for x, s in zip(loc, scale, strict=True)]
    total = np.zeros(loc.shape[1])
    for i, p in enumerate(laws):
        for j, q in enumerate(laws[:i]):
            plain = normal.overlap(t, p, q)
            gap, tilt = normal._carefully(t[..., None], p.scale, q.scale)
            close = gap + np.abs(tilt) < 1
            careful = plain._replace(
                gap=np.where(close, gap, plain.gap), tilt=np.where(close, tilt, plain.tilt)
            )
            total += 2 * w[i] * w[j] * formulas.divergence(careful)[0]
    return np.stack([formulas.entropy(normal.log_self_affinity(t, p))[0] for p in laws]), total


def check_fields(loc, scale, w, bandwidth):
    got, want = fields.gaussian(loc, scale, w, bandwidth), generic_fields(loc, scale, w, bandwidth)
    np.testing.assert_allclose(got[0], want[0], rtol=RTOL)
    np.testing.assert_allclose(got[1], want[1], rtol=RTOL, atol=1e-300)


def members_of_fields(rng, members, n, d, distance=1.0):
    center, width = rng.normal(size=d), rng.uniform(0.5, 1, d)
    loc = center + distance * rng.normal(size=(members, n, d))
    scale = width * (1 + distance * rng.uniform(0, 1, (members, n, d)))
    bandwidth = np.sqrt(d) * 10 ** rng.uniform(-0.25, 2, n)
    return loc, scale, rng.dirichlet(np.ones(members)), bandwidth


@pytest.mark.parametrize(
    ("members", "n", "d"), [(1, 4, 3), (3, 4, 1), (2, 3, 500), (4, 2, 130), (2, 3, 67), (5, 1, 40)]
)
@pytest.mark.parametrize("distance", [1e-9, 0.01, 1.0])
def test_fields(members, n, d, distance, rng):
    loc, scale, w, bandwidth = members_of_fields(rng, members, n, d, distance)
    check_fields(loc, scale, w, bandwidth)
    # Scales that differ in one direction: the tilt has nothing to cancel.
    wider = scale + 3 * distance * np.arange(members)[:, None, None]
    check_fields(loc, wider, w, bandwidth)
    check_fields(np.asfortranarray(loc), wider, w, bandwidth)


def test_fields_far_apart(rng):
    """Tilts that large make products lose their digits; logarithms must not."""
    loc, scale, w, bandwidth = members_of_fields(rng, 2, 2, 300)
    for factor in (1e1, 1e3, 1e8, 1e20):
        apart = np.asarray([1.0, factor])[:, None, None]
        check_fields(loc * apart, scale * apart, w, bandwidth)
    scale[0, :, ::2] = 0
    scale[1, :, ::3] = 0
    check_fields(loc, scale, w, bandwidth)
    check_fields(loc, 0 * scale, w, bandwidth)


def test_fields_with_tilts_that_cancel(rng):
    """Half of the coordinates are wider in one law, half in the other."""
    loc, scale, w, bandwidth = members_of_fields(rng, 2, 2, 512, 0.1)
    sign = np.where(np.arange(512) < 256, 1, -1)
    for distance in (1e-6, 0.05, 0.13):
        made = np.stack([scale[0], scale[0] * (1 + distance * sign)])
        check_fields(loc, made, w, bandwidth / 6)


@pytest.mark.parametrize("exponent", [-1000, -500, -420, 420, 500, 1000])
def test_fields_at_any_magnitude(exponent, rng):
    loc, scale, w, bandwidth = members_of_fields(rng, 3, 2, 50, 0.1)
    unit = 2.0**exponent
    got = fields.gaussian(loc * unit, scale * unit, w, bandwidth * unit)
    for a, b in zip(got, generic_fields(loc, scale, w, bandwidth), strict=True):
        np.testing.assert_allclose(a, b, rtol=RTOL)


@pytest.mark.parametrize("size", [1e-12, 1e10, 1e30, 1e160])
def test_fields_that_are_narrow_or_wide_against_the_kernel(size, rng):
    """Factors of which 16 would overflow go another way."""
    loc, scale, w, _ = members_of_fields(rng, 3, 2, 20, 0.1)
    with mp.workdps(60):
        want = [
            [mp.fprod(1 / mp.sqrt(1 + 4 * (mp.mpf(size) * float(v)) ** 2) for v in scale[m, c])]
            for m in range(3)
            for c in range(2)
        ]
        entropies = np.asarray([float((1 - value[0]) / 2) for value in want]).reshape(3, 2)
    got = fields.gaussian(size * loc, size * scale, w, 1.0)
    np.testing.assert_allclose(got[0], entropies, rtol=RTOL)
    if size < 1e100:  # squares beyond are out of reach for the plain sums
        check_fields(size * loc, size * scale, w, 1.0)
    assert np.all((got[1] >= 0) & (got[1] <= 0.5))


@pytest.mark.parametrize("place", [0, 1])
def test_fields_hand_on_nan(place, rng):
    made = members_of_fields(rng, 2, 2, 20)
    made[place].reshape(-1)[0] = np.nan
    entropies, dispersion = fields.gaussian(*made)
    assert np.isnan(dispersion[0])
    assert np.isfinite(dispersion[1])
    assert np.isnan(entropies[0, 0]) == (place == 1)


# Samples ------------------------------------------------------------------------------------------


def generic_series(values, centre, omega, coefficients, v, w):
    values = values - centre[:, None]
    if v is None:
        v = np.full(values.shape, 1 / values.shape[-1])
    k = np.arange(len(coefficients))[:, None, None, None]
    phi = np.sum(v * np.exp(1j * k * (omega[:, None] * values)), axis=-1)
    mean = np.sum(w[:, None] * phi, axis=1, keepdims=True)
    within = np.sum(coefficients[:, None] * np.abs(phi) ** 2, axis=0)
    spread = np.sum(w[:, None] * np.abs(phi - mean) ** 2, axis=1)
    return within, np.sum(coefficients * spread, axis=0)


@pytest.mark.parametrize(
    ("members", "n", "count", "length"),
    [
        *[
            (1, 2, 3, 1),
            (3, 5, 300, 12),
            (10, 7, 33, 60),
            (2, 3, 1, 4),
            (4, 70, 9, 12),
            (2, 65, 19, 1),
        ],
        *[(2, 3, 30, length) for length in range(2, 23)],
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_fourier(members, n, count, length, weighted, rng):
    values = rng.normal(size=(n, members, count)).swapaxes(0, 1)
    omega, w = rng.uniform(0.1, 1.5, n), rng.dirichlet(np.ones(members))
    centre, coefficients = rng.normal(size=n), rng.uniform(0, 1, (length, n))
    coefficients[-1, 0] = 0.0  # a shorter series
    v = rng.dirichlet(np.ones(count), (members, n)) if weighted else None
    got = fourier.sums(values, centre, omega, coefficients, v, w)
    for a, b in zip(got, generic_series(values, centre, omega, coefficients, v, w), strict=True):
        np.testing.assert_allclose(a, b, rtol=RTOL, atol=1e-28)


@pytest.mark.parametrize("n", [4, 12])
def test_fourier_far_out_and_close(n, rng):
    values = rng.normal(size=(3, n, 15))
    omega, w = np.asarray([1e7, 1.0, 1e-150, 0.0] * (n // 4)), np.asarray([0.2, 0.3, 0.5])
    centre = np.zeros(n)
    coefficients = rng.uniform(0, 1, (9, n))
    got = fourier.sums(values, centre, omega, coefficients, None, w)
    for a, b in zip(got, generic_series(values, centre, omega, coefficients, None, w), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-28)  # e^(ikωx) is that ill-conditioned
    # Members 1e−9 apart: errors of 1e−15 in φ are 1e−6 of its differences.
    near = values[:1] + 1e-9 * rng.normal(size=(3, n, 1))
    got = fourier.sums(near, centre, np.ones(n), coefficients, None, w)
    want = generic_series(near, centre, np.ones(n), coefficients, None, w)
    np.testing.assert_allclose(got[0], want[0], rtol=RTOL)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-5)


def grid_over(loc, scale):
    step = 0.5 * np.min(np.where(scale > 0, scale, 1), axis=0)
    start = np.min(loc - 8.5 * scale, axis=0) - step
    count = np.ceil((np.max(loc + 8.5 * scale, axis=0) - start) / step).astype(int) + 1
    return start, step, count


def generic_dispersion(loc, scale, w, start, step, count):
    out = np.zeros(loc.shape[1])
    for c in range(loc.shape[1]):
        x = start[c] + np.arange(count[c]) * step[c]
        f = ndtr((x - loc[:, c, None]) / np.maximum(scale[:, c, None], 1e-300))
        out[c] = 2 * step[c] * np.sum(w @ (f - w @ f) ** 2)
    return out


@pytest.mark.parametrize(("members", "n"), [(1, 2), (2, 3), (50, 4), (401, 2)])
@pytest.mark.parametrize("distance", [1.0, 30.0])
def test_cdf(members, n, distance, rng):
    loc, scale, w = ensemble(rng, members, n, distance)
    scale = rng.uniform(0.5, 2, scale.shape)
    got = cdf.dispersion(loc, scale, w, *grid_over(loc, scale))
    want = generic_dispersion(loc, scale, w, *grid_over(loc, scale))
    np.testing.assert_allclose(got, want, rtol=RTOL, atol=1e-30)
    np.testing.assert_allclose(got, pairs.absolute(loc, scale, w)[1], rtol=RTOL, atol=1e-30)


def test_cdf_of_close_members_and_points(rng):
    loc, scale, w = ensemble(rng, 20, 5, 1e-6)
    got = cdf.dispersion(loc, scale, w, *grid_over(loc, scale))
    np.testing.assert_allclose(got, pairs.absolute(loc, scale, w)[1], rtol=1e-8)
    scale[::2] = 0
    start, step, count = grid_over(loc, scale)
    count[0] = 0
    got = cdf.dispersion(loc, scale, w, start, step, count)
    assert got[0] == 0
    np.testing.assert_allclose(
        got, generic_dispersion(loc, scale, w, start, step, count), rtol=RTOL
    )
    unit = 2.0**500
    got = cdf.dispersion(loc / unit, scale / unit, w, start / unit, step / unit, count)
    np.testing.assert_allclose(
        got * unit, generic_dispersion(loc, scale, w, start, step, count), rtol=RTOL
    )


# Threads ------------------------------------------------------------------------------------------


def test_threads_change_nothing(rng, monkeypatch):
    loc, scale, w = ensemble(rng, 4, 5000)
    field_members = members_of_fields(rng, 3, 40, 20)
    draws, many_draws = rng.normal(size=(4, 200, 10)), rng.normal(size=(4, 30, 90))
    grid = grid_over(loc[:, :40], scale[:, :40])

    def everything():
        return [
            *pairs.absolute(loc, scale, w),
            *pairs.gaussian(loc, scale, w, 1.0),
            *fields.gaussian(*field_members),
            *fourier.sums(draws, np.zeros(200), np.ones(200), np.ones((5, 200)), None, w),
            *fourier.sums(many_draws, np.zeros(30), np.ones(30), np.ones((5, 30)), None, w),
            cdf.dispersion(loc[:, :40], scale[:, :40], w, *grid),
        ]

    monkeypatch.setattr(compiling, "_SMALLEST_FOR_THREADS", 0)
    monkeypatch.setattr(compiling, "workers", lambda: 1)
    alone = everything()
    monkeypatch.setattr(compiling, "workers", lambda: 3)
    for a, b in zip(everything(), alone, strict=True):
        np.testing.assert_allclose(a, b, rtol=RTOL)


def test_the_environment_limits_threads(monkeypatch):
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert compiling.workers() == 1
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    assert compiling.workers() == 1
    monkeypatch.delenv("NUMBA_NUM_THREADS")
    assert compiling.workers() >= 1


# Pairs of weighted atoms, and draws -------------------------------------------------------------


def brute_force(values, weights, owners, members, profile):
    """H (M, n) and dispersion (n,) by sums over all pairs of draws (T, n, d), in long double."""
    x = np.asarray(values, dtype=np.longdouble)
    r = np.sqrt(((x[:, None] - x[None, :]) ** 2).sum(-1))  # (T, T, n)
    k = profile(r)
    chosen = np.eye(len(members))[:, owners]  # (M, T)
    within = np.einsum("ma,an,abn,bn,mb->mn", chosen, weights, k, weights, chosen) / 2
    u = weights * members[owners][:, None]
    total = np.einsum("an,abn,bn->n", u, k, u) - 2 * np.einsum("m,mn->n", members, within)
    return within.astype(float), total.astype(float)


def draws(rng, counts, n, d):
    """Draws (T, n, d) of several members with their weights inside a member (T, n), and owners."""
    owners = np.repeat(np.arange(len(counts)), counts)
    weights = np.concatenate([rng.dirichlet(np.ones(c), size=n).T for c in counts])
    return (
        rng.normal(size=(len(owners), n, d)),
        weights,
        owners,
        rng.dirichlet(np.ones(len(counts))),
    )


PROFILES = {
    "root": (0.0, lambda r: r),
    "power": (0.7, lambda r: r**0.7),
    "bump": (0.0, lambda r: -np.expm1(-(r**2))),
    "rational": (1.3, lambda r: -np.expm1(-1.3 * np.log1p(r**2))),
    "exponential": (0.0, lambda r: -np.expm1(-r)),
    "matern_3_2": (0.0, lambda r: 1 - (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r)),
    "matern_5_2": (
        0.0,
        lambda r: 1 - (1 + 5**0.5 * r + 5 / 3 * r**2) * np.exp(-(5**0.5) * r),
    ),
}


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize(("counts", "d"), [((4, 4), 2), ((3, 1, 9), 7), ((40,), 3), ((2, 5), 70)])
def test_distances_between_draws(name, counts, d, rng):
    values, weights, owners, members = draws(rng, counts, 5, d)
    parameter, profile = PROFILES[name]
    bandwidth = 2.0
    want = brute_force(values / bandwidth, weights, owners, members, profile)
    arguments = (np.ascontiguousarray(values.transpose(1, 0, 2)), np.ascontiguousarray(weights.T))
    got = distances.statistics(name, parameter, bandwidth, *arguments, owners, members)
    np.testing.assert_allclose(got[0], want[0], rtol=RTOL)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("name", ["power", "rational", "bump"])
@pytest.mark.parametrize("counts", [(4, 4), (3, 1, 9), (30, 30)])
def test_pairs_of_scalar_draws(name, counts, rng):
    values, weights, owners, members = draws(rng, counts, 130, 1)
    parameter, profile = PROFILES[name]
    want = brute_force(values / 1.7, weights, owners, members, profile)
    atoms = (values[..., 0], np.zeros_like(values[..., 0]), weights)
    got = scalar_pairs.statistics(name, parameter, 1.7, *atoms, owners, members)
    np.testing.assert_allclose(got[0], want[0], rtol=RTOL)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize(
    ("shares", "profile"),
    [
        ((1.0, 0.0, 0.0), lambda z: -np.expm1(-z)),
        ((0.0, 1.0, 0.0), lambda z: 1 - (1 + z) * np.exp(-z)),
        ((0.0, 1 / 3, 2 / 3), lambda z: 1 - (1 + z + z**2 / 3) * np.exp(-z)),
    ],
    ids=["laplace", "matern_3_2", "matern_5_2"],
)
@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_sums_over_sorted_draws(shares, profile, spread, rng):
    values = np.sort(spread * rng.normal(size=(70, 41)), axis=-1)
    values[:, 7] = values[:, 8]
    weights = rng.dirichlet(np.ones(41), size=70)
    rates = rng.uniform(0.5, 2.0, size=70)
    found = exponential_draws.sums(values, weights, rates, shares)
    x = np.asarray(values, dtype=np.longdouble) * rates[:, None]
    k = profile(np.abs(x[:, :, None] - x[:, None, :]))
    want = np.einsum("na,nab,nb->n", weights, k, weights) / 2
    np.testing.assert_allclose(found, want.astype(float), rtol=RTOL)


def test_sums_over_sorted_draws_that_are_close(rng):
    """P_2 of small numbers is half their square: nothing cancels."""
    values = np.sort(1e-9 * rng.normal(size=(3, 20)), axis=-1)
    weights = np.full((3, 20), 0.05)
    found = exponential_draws.sums(values, weights, np.ones(3), (0.0, 1.0, 0.0))
    gap = values[:, :, None] - values[:, None, :]
    np.testing.assert_allclose(found, (gap**2).sum((1, 2)) * 0.05**2 / 4, rtol=1e-8)
