"""The Kuramoto-Sivashinsky solver against another solver, closed forms and laws."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kuq
from kuq.datasets import kuramoto_sivashinsky

solver = importlib.import_module("kuq.datasets.kuramoto_sivashinsky")
LENGTH = 22.0


def smooth(x):
    q = 2 * np.pi / LENGTH
    waves = np.cos(q * x) + 0.5 * np.sin(2 * q * x + 1)
    return waves + 0.3 * np.cos(3 * q * x) - 0.2 * np.sin(5 * q * x)


def finer(values, points):
    """Trigonometric interpolation from cell centres to the cell centres of a finer grid."""
    n = len(values)
    c = np.fft.rfft(values)[:-1] / n
    shift = 0.5 / points - 0.5 / n
    k = np.arange(len(c))
    return np.fft.irfft(c * np.exp(2j * np.pi * k * shift), points) * points


def test_agrees_with_py_pde_within_its_discretisation_error():
    pytest.importorskip("pde")
    states = [smooth((np.arange(n) + 0.5) * LENGTH / n) for n in (64, 128)]
    problems = [{"length": LENGTH, "initial": s.tolist(), "time": 2.0} for s in states]
    script = Path(__file__).with_name("by_py_pde.py")
    run = subprocess.run(
        [sys.executable, script],
        input=json.dumps(problems),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = [np.array(values) for values in json.loads(run.stdout)]
    ours = [
        kuramoto_sivashinsky(initial=s[None], length=LENGTH, points=len(s), frames=2)[0, 1]
        for s in states
    ]
    gaps = [np.abs(a - b).max() for a, b in zip(ours, theirs, strict=True)]
    # Their differences in space are of second order: the gap is theirs, and falls as theirs does.
    assert gaps[1] < 0.01
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.1)
    extrapolated = (4 * theirs[1] - finer(theirs[0], 128)) / 3
    assert np.abs(ours[1] - extrapolated).max() < gaps[1] / 20


def test_fourth_order_in_the_step():
    x = np.arange(64) * LENGTH / 64

    def at(step):
        return kuramoto_sivashinsky(
            initial=smooth(x)[None], length=LENGTH, points=64, frames=2, interval=2.0, step=step
        )[0, 1]

    exact = at(0.0005)
    errors = np.array([np.abs(at(step) - exact).max() for step in (0.01, 0.005, 0.0025)])
    orders = np.log2(errors[:-1] / errors[1:])
    assert orders.min() > 3.7
    assert orders[1] > 3.85  # towards four


@pytest.mark.parametrize("length", [64.0, 80.0])
def test_the_chosen_step_is_accurate_from_noise_on(length):
    """Over the horizon in which chaos has not yet raised any error to the size of u."""
    noise = np.random.default_rng(1).uniform(-1, 1, (4, 256))
    run = {"initial": noise, "length": length, "frames": 5}
    gaps = np.abs(kuramoto_sivashinsky(**run) - kuramoto_sivashinsky(**run, step=0.00625))
    assert gaps[:, 1].max() < 2e-6
    assert gaps.max() < 2e-5


def test_the_chosen_step_is_accurate_on_the_attractor():
    late = kuramoto_sivashinsky(n=16, frames=2, interval=70.0, step=0.125)[:, 1]
    run = {"initial": late, "frames": 2}
    gap = (kuramoto_sivashinsky(**run) - kuramoto_sivashinsky(**run, step=0.01))[:, 1]
    assert np.abs(gap).max() < 4e-5
    assert np.sqrt((gap**2).mean()) < 4e-6
    assert late.std() == pytest.approx(1.3, rel=0.1)


def test_modes_that_are_left_out_do_not_matter(monkeypatch):
    noise = np.random.default_rng(2).uniform(-1, 1, (4, 256))
    few = kuramoto_sivashinsky(initial=noise, frames=6)
    monkeypatch.setattr(solver, "_HIGHEST_WAVE_NUMBER", 12.0)
    many = kuramoto_sivashinsky(initial=noise, frames=6)
    np.testing.assert_allclose(few, many, rtol=0, atol=1e-6)


@pytest.mark.parametrize("mode", [1, 5, 7, 10, 12])
def test_small_waves_grow_at_the_known_rate(mode):
    x = np.arange(256) / 4
    q = 2 * np.pi * mode / 64
    u = kuramoto_sivashinsky(initial=1e-9 * np.cos(q * x)[None], frames=3, interval=3.0)
    amplitude = 2 * np.abs(np.fft.rfft(u[0]))[:, mode] / 256
    expected = 1e-9 * np.exp((q**2 - q**4) * np.array([0.0, 3.0, 6.0]))
    np.testing.assert_allclose(amplitude, expected, rtol=1e-9)


def test_mean_is_conserved():
    u = kuramoto_sivashinsky(n=4, frames=20)
    drift = np.abs(u.mean(-1) - u[:, :1].mean(-1))
    assert drift.max() < 1e-13


def test_symmetries():
    """Shifts, reflections and a moving frame turn solutions into solutions."""
    noise = np.random.default_rng(3).uniform(-1, 1, (1, 128))
    run = {"length": 32.0, "points": 128, "frames": 3}
    u = kuramoto_sivashinsky(initial=noise, **run)
    shifted = kuramoto_sivashinsky(initial=np.roll(noise, 17, axis=1), **run)
    np.testing.assert_allclose(shifted, np.roll(u, 17, axis=2), atol=1e-11)
    mirrored = kuramoto_sivashinsky(initial=-np.roll(noise[:, ::-1], 1, axis=1), **run)
    np.testing.assert_allclose(mirrored, -np.roll(u[:, :, ::-1], 1, axis=2), atol=1e-11)
    moving = kuramoto_sivashinsky(initial=noise + 0.125, **run)  # moves by one point per frame
    for frame in range(3):
        back = np.roll(moving[:, frame], -frame, axis=1) - 0.125
        np.testing.assert_allclose(back, u[:, frame], atol=1e-5)


def statistics(u, length):
    """Spectrum, and the two sides of the balance of energy, ⟨(∂ₓu)²⟩ = ⟨(∂ₓₓu)²⟩."""
    late = u[:, 25:]
    power = (np.abs(np.fft.rfft(late) / late.shape[-1]) ** 2).mean((0, 1))
    q = 2 * np.pi * np.arange(len(power)) / length
    return power, 2 * (q**2 * power).sum(), 2 * (q**4 * power).sum()


def test_statistics_of_the_attractor_do_not_depend_on_the_step():
    u, halved = (kuramoto_sivashinsky(n=24, step=step) for step in (0.125, 0.0625))
    assert np.abs(u[:, 40:] - halved[:, 40:]).max() > 0.1  # chaos: only statistics are left
    coarse, fine = statistics(u, 64.0), statistics(halved, 64.0)
    for gained, lost in (coarse[1:], fine[1:]):
        assert gained == pytest.approx(lost, rel=0.02)
    energetic = slice(2, 24)  # down to 1e-6 of the peak
    ratio = coarse[0][energetic] / fine[0][energetic]
    assert np.all(np.abs(np.log(ratio)) < 0.35)
    assert u[:, 25:].std() == pytest.approx(halved[:, 25:].std(), rel=0.02)
    assert u[:, 25:].std() == pytest.approx(1.3, rel=0.05)


def test_starts_from_uniform_noise():
    u = kuramoto_sivashinsky(n=50, frames=1, seed=4)
    assert u.shape == (50, 1, 256)
    assert np.abs(u).max() < 1
    # Mean 0, variance 1/3 and kurtosis 9/5 of a uniform distribution, within five deviations.
    assert abs(u.mean()) < 5 / np.sqrt(3 * u.size)
    assert u.var() == pytest.approx(1 / 3, abs=5 * np.sqrt(4 / 45 / u.size))


def test_the_seed_decides_and_more_rows_change_none():
    run = {"points": 64, "frames": 3}
    u = kuramoto_sivashinsky(n=3, seed=5, **run)
    np.testing.assert_array_equal(u, kuramoto_sivashinsky(n=3, seed=5, **run))
    np.testing.assert_array_equal(u[:, 0], kuramoto_sivashinsky(n=70, seed=5, **run)[:3, 0])
    assert np.abs(u - kuramoto_sivashinsky(n=3, seed=6, **run)).max() > 0.1


def test_threads_do_not_change_the_numbers(monkeypatch):
    one = kuramoto_sivashinsky(n=130, points=32, length=16.0, frames=3)
    monkeypatch.setattr("kuq.datasets.trajectories.workers", lambda: 3)
    np.testing.assert_array_equal(
        one, kuramoto_sivashinsky(n=130, points=32, length=16.0, frames=3)
    )


def test_result_goes_into_a_given_array(tmp_path):
    shape = (2, 3, 32)
    file = np.lib.format.open_memmap(tmp_path / "u.npy", "w+", np.float64, shape)
    u = kuramoto_sivashinsky(n=2, points=32, frames=3, out=file)
    assert u is file
    np.testing.assert_array_equal(file, kuramoto_sivashinsky(n=2, points=32, frames=3))
    with pytest.raises(kuq.ShapeError, match=r"\(2, 3, 32\), got \(1, 3, 32\)"):
        kuramoto_sivashinsky(n=2, points=32, frames=3, out=np.empty((1, 3, 32)))


def test_output_points_do_not_change_the_solution():
    """Sixteen points cannot show the function, but they are computed with all its modes."""
    x = np.arange(16) * LENGTH / 16
    run = {"length": LENGTH, "frames": 3}
    coarse = kuramoto_sivashinsky(initial=smooth(x)[None], points=16, **run)
    fine = kuramoto_sivashinsky(initial=smooth(np.arange(64) * LENGTH / 64)[None], points=64, **run)
    np.testing.assert_allclose(coarse, fine[..., ::4], atol=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n": 0}, "n must be an integer ≥ 1"),
        ({"points": 2.5}, "points must be an integer"),
        ({"frames": 0}, "frames"),
        ({"interval": -1.0}, "interval must be finite and positive"),
        ({"length": float("nan")}, "length"),
        ({"step": 0.0}, "step"),
        ({"seed": -1}, "seed"),
        ({"initial": np.zeros(256)}, r"shape \(n, points\)"),
        ({"initial": np.zeros((2, 64))}, "points=256"),
        ({"initial": np.full((1, 256), np.nan)}, "not finite"),
        ({"initial": 1e6 * np.cos(np.arange(256.0))[None], "frames": 2}, "scale them down"),
    ],
)
def test_bad_input_is_refused(options, words):
    with pytest.raises(kuq.KuqError, match=words):
        kuramoto_sivashinsky(**options)
