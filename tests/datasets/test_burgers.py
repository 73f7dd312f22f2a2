"""The solver of Burgers' equation against the Cole-Hopf solution, a closed form, and laws."""

import numpy as np
import pytest
from cole_hopf import cole_hopf

import kuq
from kuq.datasets import burgers
from kuq.datasets.superposed_waves import superposed_waves

X = np.arange(256) / 256
STATES = superposed_waves(128, 256, 1)
#: The largest jumps, the roughest state (folded), a windowed one, and a common one.
HARD = np.unique(
    [
        *np.argsort(np.ptp(STATES, axis=1))[-2:],
        *np.argsort(np.abs(np.fft.rfft(STATES))[:, -1])[[-1, -12]],
        0,
    ]
)


def closed_form(x, time, diffusion, size=0.95):
    """u = −2D ∂ₓφ/φ for φ = 1 + size·exp(−Dq²t)·cos qx, which solves the heat equation."""
    q = 2 * np.pi
    wave = size * np.exp(-diffusion * q**2 * time)
    return 2 * diffusion * q * wave * np.sin(q * x) / (1 + wave * np.cos(q * x))


@pytest.mark.parametrize("viscosity", [0.1, 0.01])
def test_closed_form(viscosity):
    diffusion = viscosity / np.pi
    start = closed_form(X, 0.0, diffusion)
    u = burgers(initial=start[None], viscosity=viscosity)
    for frame in (1, 10, 40):
        exact = closed_form(X, 0.05 * frame, diffusion)
        np.testing.assert_allclose(u[0, frame], exact, rtol=0, atol=2e-7)
        by_quadrature = cole_hopf(start, X, 0.05 * frame, diffusion)
        np.testing.assert_allclose(by_quadrature, exact, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("viscosity", "tolerance"), [(0.1, 3e-7), (0.01, 3e-7)])
def test_agrees_with_cole_hopf(viscosity, tolerance):
    """On all 256 points, from states of the data set; for the smaller one far better than asked."""
    u = burgers(initial=STATES[HARD], viscosity=viscosity)
    for state, row in zip(STATES[HARD], u, strict=True):
        for frame in (1, 2, 12, 40):
            exact = cole_hopf(state, X, 0.05 * frame, viscosity / np.pi, nodes=2048)
            np.testing.assert_allclose(row[frame], exact, rtol=0, atol=tolerance)


def test_order_in_the_step():
    start = np.sin(2 * np.pi * X) + 0.3
    exact = cole_hopf(start, X, 0.5, 0.1 / np.pi)

    def error(courant):
        u = burgers(initial=start[None], frames=2, final_time=0.5, courant=courant)
        return np.abs(u[0, 1] - exact).max()

    errors = [error(courant) for courant in (8.0, 4.0, 2.0)]
    assert np.all(np.array(errors[:-1]) / errors[1:] > 12)


@pytest.mark.parametrize(("viscosity", "points"), [(0.1, 256), (0.01, 1024)])
def test_mean_is_conserved(viscosity, points):
    """To rounding, on as many points as shocks need; 256 points see it to 1e-8."""
    states = superposed_waves(4, points, 2)
    u = burgers(initial=states, viscosity=viscosity, points=points, frames=11)
    assert np.abs(u.mean(-1) - u[:, :1].mean(-1)).max() < 1e-13
    seen = u[..., :: points // 256]
    assert np.abs(seen.mean(-1) - seen[:, :1].mean(-1)).max() < 1e-8


def test_moving_frame():
    """A constant that is added to the state only moves it."""
    run = {"viscosity": 0.01, "frames": 5, "final_time": 1.0}
    start = STATES[HARD[-1:]]
    u, moved = burgers(initial=start, **run), burgers(initial=start + 0.5, **run)
    for frame in range(5):
        back = np.roll(moved[0, frame], -32 * frame) - 0.5  # 0.5 · 0.25 · 256 points per frame
        np.testing.assert_allclose(back, u[0, frame], atol=1e-6)


def extrema(values):
    """How often a periodic function turns; differences of rounding size do not count."""
    step = np.diff(values, append=values[:1])
    sign = np.sign(step[np.abs(step) > 1e-7])
    return int((sign != np.roll(sign, 1)).sum())


def test_no_oscillation_at_shocks():
    """Maxima fall, minima rise, and there are never more of them: laws of the equation."""
    smooth = np.flatnonzero(np.abs(np.fft.rfft(STATES))[:, 9:].max(axis=1) < 1e-9)
    steep = smooth[np.argsort(np.ptp(STATES[smooth], axis=1))[-8:]]
    u = burgers(initial=STATES[steep], viscosity=0.01)
    steepness = np.abs(np.diff(u, axis=-1)).max((1, 2))
    assert np.all(steepness > 3 * np.abs(np.diff(u[:, 0], axis=-1)).max(-1))  # there are shocks
    # Frame 0 shows the state on 256 points only; between them it may reach a little further.
    assert np.all(u[:, 1:].max(-1) <= u[:, :1].max(-1) + 1e-3)
    assert np.all(u[:, 1:].min(-1) >= u[:, :1].min(-1) - 1e-3)
    for row in u:
        turns = [extrema(frame) for frame in row]
        assert max(turns) <= turns[0]


# --- initial states ------------------------------------------------------------------------------


def test_states_are_those_of_pdebench():
    """Two of four wave numbers with replacement: up to 8 = 2·4; a fifth is folded or windowed."""
    states = superposed_waves(2000, 128, 0)
    power = np.abs(np.fft.rfft(states)) / 128
    pure = power[:, 9:].max(axis=1) < 1e-12
    assert 0.78 < pure.mean() < 0.86
    top = np.array([np.flatnonzero(p > 1e-9).max() for p in power[pure, :9]])
    counts = np.bincount(top, minlength=9) / pure.sum()
    # The highest: 4 and 4 give 8, 3 and 3 give 6; 4 beside a lower one, or 2 and 2, give 4; ….
    chances = np.array([0, 0, 2 + 1, 4, 6 + 1, 0, 1, 0, 1]) / 16
    np.testing.assert_allclose(counts[1:], chances[1:], atol=5 * 0.5 / np.sqrt(pure.sum()))
    assert np.abs(states).max() < 4
    assert (states.mean(1) > 0).mean() == pytest.approx(0.5, abs=0.06)
    one_sign = (states[~pure].min(1) > -1e-12) | (states[~pure].max(1) < 1e-12)
    assert 0.3 < one_sign.mean() < 0.7  # folded ones and some of the windowed


def test_states_do_not_depend_on_their_number():
    np.testing.assert_array_equal(superposed_waves(3, 64, 9), superposed_waves(40, 64, 9)[:3])


def test_points_sample_one_function():
    np.testing.assert_allclose(
        superposed_waves(5, 64, 2), superposed_waves(5, 256, 2)[:, ::4], atol=1e-12
    )


# --- the call ------------------------------------------------------------------------------------


def test_the_seed_decides():
    run = {"n": 3, "points": 64, "frames": 3}
    u = burgers(seed=5, **run)
    assert u.shape == (3, 3, 64)
    np.testing.assert_array_equal(u, burgers(seed=5, **run))
    np.testing.assert_array_equal(u[:, 0], superposed_waves(3, 64, 5))
    assert np.abs(u - burgers(seed=6, **run)).max() > 0.1


def test_threads_do_not_change_the_numbers(monkeypatch):
    one = burgers(n=40, points=32, frames=3)
    monkeypatch.setattr("kuq.datasets.trajectories.workers", lambda: 3)
    np.testing.assert_array_equal(one, burgers(n=40, points=32, frames=3))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n": 0}, "n must be an integer ≥ 1"),
        ({"frames": 1}, "frames must be an integer ≥ 2"),
        ({"viscosity": 0.0}, "viscosity must be finite and positive"),
        ({"final_time": float("inf")}, "final_time"),
        ({"courant": -1.0}, "courant"),
        ({"initial": np.zeros((2, 64))}, "points=256"),
        ({"initial": np.full((1, 256), np.inf)}, "not finite"),
    ],
)
def test_bad_input_is_refused(options, words):
    with pytest.raises(kuq.KuqError, match=words):
        burgers(**options)
