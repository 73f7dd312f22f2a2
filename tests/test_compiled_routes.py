"""Compiled code where the public functions use it: the same numbers as the generic form."""

import subprocess
import sys
import threading

import numpy as np
import pytest
from cases import KERNELS, moved
from test_reference import RECORDS, value_of

import kuq
from kuq import _threads, driver, tiles

pytest.importorskip("numba")

RTOL = 1e-12  # rounding of sums in another order


def both(function):
    with kuq.compiled(False):
        generic = function()
    with kuq.compiled(True):
        return generic, function()


def assert_same(prediction, score, rtol=RTOL, **options):
    generic, compiled = both(lambda: kuq.decompose(prediction, score, **options))
    for part in ("total", "aleatoric", "epistemic"):
        np.testing.assert_allclose(compiled[part], generic[part], rtol=rtol, atol=0, err_msg=part)


# Results that rounding alone decides keep the generic form's own accuracy; see test_reference.
@pytest.mark.parametrize("record", RECORDS, ids=[r["id"] for r in RECORDS])
def test_reference_set(record):
    generic, compiled = both(lambda: float(value_of(record)))
    # Two quadratures of an evidential law, each to rtol = 1e-8.
    rtol = 1e-8 if record["kind"] == "nig" and "gaussian" in record["score"] else RTOL
    assert compiled == pytest.approx(generic, rel=rtol, abs=0)


@pytest.mark.parametrize("event_ndim", [0, 1])
def test_evidential_laws(event_ndim, rng):
    """Also those of which some coordinate is beyond what pairs of nodes are worth."""
    nu, alpha, beta = np.exp(rng.uniform(-3, 5, size=(3, 40, 3)))
    beta[::5, 0] *= 1e-120
    beta[1::5, 1] *= 1e120
    law = kuq.NormalInverseGamma(np.zeros_like(nu), nu, alpha, beta, event_ndim)
    width = rng.uniform(0.3, 3, size=nu.shape[: 2 - event_ndim])
    assert_same(law, kuq.Gaussian(width), rtol=2e-8)


def normals(rng, shape, event_ndim, spread=1.0):
    loc = 0.3 + spread * rng.normal(size=shape)
    scale = 0.7 * np.exp(0.5 * spread * rng.normal(size=shape))
    return kuq.Normal(loc, scale, event_ndim=event_ndim)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


SCORES = [kuq.CRPS(), kuq.Marginal(kuq.Gaussian(0.8)), kuq.Gaussian(1.7), kuq.Energy()]


@pytest.mark.parametrize("score", SCORES, ids=repr)
@pytest.mark.parametrize("factor", [1e-150, 1e-120, 1.0, 1e120, 1e150])
def test_magnitudes(score, factor, rng):
    members = moved(normals(rng, (4, 6, 3), 1), factor=factor)
    if score.card.homogeneous_degree is None:
        score = kuq.Gaussian(1.7 * factor)
    assert_same(kuq.Ensemble(members), score)


@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_point_masses_among_the_members(score, rng):
    loc = rng.normal(size=(5, 6, 3))
    scale = rng.uniform(0.5, 2, size=loc.shape)
    scale[:2] = 0  # two points, and one coordinate of another member
    scale[3, :, 1] = 0
    loc[1, :3] = loc[0, :3]
    assert_same(kuq.Ensemble(kuq.Normal(loc, scale, event_ndim=1)), score)


@pytest.mark.parametrize("score", SCORES, ids=repr)
@pytest.mark.parametrize("spread", [1e-9, 1e-5, 30.0])
def test_close_and_distant_members(score, spread, rng):
    assert_same(kuq.Ensemble(normals(rng, (5, 7, 3), 1, spread)), score, rtol=1e-12)


@pytest.mark.parametrize("score", [kuq.Energy(), kuq.Laplace(20.0), kuq.Gaussian(20.0)], ids=repr)
def test_high_dimension(score, rng):
    assert_same(kuq.Ensemble(normals(rng, (4, 3, 400), 1)), score, rtol=1e-12)


def test_bandwidths_over_the_batch_and_weights(rng):
    bandwidth = rng.uniform(0.3, 3, size=6)
    weights = rng.dirichlet(np.ones(4))
    members = normals(rng, (4, 6, 3), 1)
    assert_same(kuq.Ensemble(members, weights), kuq.Gaussian(bandwidth))
    assert_same(kuq.Ensemble(members, weights), kuq.Marginal(kuq.Gaussian(bandwidth[:, None])))
    assert_same(kuq.Ensemble(members, weights), kuq.CRPS(None))
    generic, compiled = both(lambda: kuq.entropy(kuq.Ensemble(members, weights), kuq.CRPS()))
    np.testing.assert_allclose(compiled, generic, rtol=RTOL)


def test_single_precision_comes_back_as_it_came(rng):
    members = normals(rng, (4, 6, 3), 1)
    single = kuq.Normal(members.loc.astype("f4"), members.scale.astype("f4"), event_ndim=1)
    with kuq.compiled(True):
        u = kuq.decompose(kuq.Ensemble(single), kuq.CRPS())
    assert u.total.dtype == np.float32
    double = kuq.Normal(single.loc.astype("f8"), single.scale.astype("f8"), event_ndim=1)
    wanted = kuq.decompose(kuq.Ensemble(double), kuq.CRPS())
    np.testing.assert_allclose(u.epistemic, wanted.epistemic, rtol=1e-6)


@pytest.mark.parametrize("count", [2, 5, 12, 30])
def test_draws(count, rng):
    values = rng.normal(size=(5, 7, count))
    for score in (kuq.CRPS(), kuq.Gaussian(1.3)):
        assert_same(kuq.Ensemble(kuq.Samples(values)), score, rtol=1e-12)
    weights = rng.dirichlet(np.ones(count), size=(5, 7))
    assert_same(kuq.Ensemble(kuq.Samples(values, weights=weights)), kuq.Gaussian(1.3), rtol=1e-12)


@pytest.mark.parametrize("spread", [1.0, 1e-4, 1e-9])
def test_very_many_members(spread, rng):
    """Distribution functions, and pairs where these would lose digits."""
    members = normals(rng, (300, 5), 0, spread)
    assert_same(kuq.Ensemble(members), kuq.CRPS(), rtol=1e-11)


def test_distribution_functions_give_the_sum_over_pairs(rng, monkeypatch):
    from kuq.forms import distribution_functions

    loc, scale = 1e6 + 3 * rng.normal(size=(400, 6)), rng.uniform(0.4, 2, size=(400, 6))
    scale[7, 2] = 0  # no quadrature here
    scale[:, 3] *= np.where(np.arange(400) == 5, 1e-4, 1.0)  # and too long a grid here
    prediction = kuq.Ensemble(kuq.Normal(loc, scale), rng.dirichlet(np.ones(400)))
    with kuq.compiled(False):
        quick = kuq.decompose(prediction, kuq.CRPS())
        monkeypatch.setattr(distribution_functions, "_FEWEST_MEMBERS", 10**9)
        pairs = kuq.decompose(prediction, kuq.CRPS())
    np.testing.assert_allclose(quick.epistemic, pairs.epistemic, rtol=1e-12)
    np.testing.assert_allclose(quick.aleatoric, pairs.aleatoric, rtol=RTOL)


def test_kernels_without_a_twin_do_not_notice(rng):
    members = kuq.Ensemble(normals(rng, (3, 4), 0))
    for kernel in KERNELS:
        assert_same(members, kernel.build(1.0), rtol=1e-11)


# The switch.


def test_switch_says_what_it_takes():
    with pytest.raises(kuq.ParameterError, match="True, False or None, got 'yes'"):
        kuq.compiled("yes")


def test_switch_says_what_is_missing(monkeypatch):
    from kuq import _compiled

    monkeypatch.setattr(_compiled, "_installed", lambda: False)
    with pytest.raises(kuq.ParameterError, match=r"kuq\[fast\]"):
        kuq.compiled(True)
    kuq.compiled(None)


def test_numba_is_not_imported_for_small_work():
    code = (
        "import sys, kuq, numpy as np;"
        "p = kuq.Ensemble(kuq.Normal(np.zeros((3, 100)), np.ones((3, 100))));"
        "kuq.decompose(p, kuq.CRPS()); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# Threads.


def test_tiles_in_threads_give_the_same_numbers(rng, monkeypatch):
    prediction = kuq.Ensemble(normals(rng, (5, 400, 50), 1))
    monkeypatch.setattr(tiles, "NUMPY_CACHE_ELEMENTS", 2000)
    with kuq.compiled(False):
        alone = kuq.decompose(prediction, kuq.CRPS(None))
        met = threading.Barrier(2)  # of two threads that have a tile each
        seen = set()
        inner = driver._in_own_units

        def noted(*arguments):
            if threading.get_ident() not in seen and len(seen) < 2:
                seen.add(threading.get_ident())
                met.wait(timeout=60)
            return inner(*arguments)

        monkeypatch.setattr(driver, "_in_own_units", noted)
        monkeypatch.setattr(driver, "workers", lambda: 2)
        monkeypatch.setattr(driver, "SMALLEST_FOR_THREADS", 1)
        spread = kuq.decompose(prediction, kuq.CRPS(None))
    assert len(seen) == 2
    np.testing.assert_array_equal(spread.total, alone.total)


def test_threads_keep_order_settings_and_errors():
    with np.errstate(divide="raise"):
        states = _threads.in_threads(lambda _: np.geterr()["divide"], range(4), 2)
    assert states == ["raise"] * 4
    assert _threads.in_threads(lambda x: x * x, range(20), 2) == [x * x for x in range(20)]
    with pytest.raises(ZeroDivisionError):
        _threads.in_threads(lambda x: 1 // x, [1, 0, 2], 2)


def test_an_error_in_another_thread_is_raised_here_and_ends_the_work():
    here, met, done = threading.get_ident(), threading.Barrier(2), []

    def task(item):
        if item < 2:
            met.wait(timeout=60)
        if threading.get_ident() != here:
            raise ValueError(f"item {item}")
        if item >= 2:  # begun before the other thread's error, or never
            done.append(item)

    with pytest.raises(ValueError, match=r"item [01]"):
        _threads.in_threads(task, range(10**6), 2)
    assert len(done) < 10**6 - 2


@pytest.mark.parametrize("late", [None, RuntimeError("can't start new thread")])
def test_work_does_not_wait_for_threads_that_do_not_come(monkeypatch, late):
    def start(*_):
        if late is not None:
            raise late

    monkeypatch.setattr(_threads._thread, "start_new_thread", start)
    assert _threads.in_threads(lambda x: x * x, range(20), 4) == [x * x for x in range(20)]


def test_the_environment_limits_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert _threads.workers() == 1
