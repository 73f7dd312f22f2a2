"""The derivative of the sums of ``scalar_pairs`` by locations, scales and weights, in one pass.

What comes in are the derivatives of a result by H of every member and by the dispersion; what goes
out are those by the parameters of every atom.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from kuq._numba.compiling import inlined, inputs, kernel, outputs, spread
from kuq._numba.mathematics import erf_and_fall, exp, expm1_negative

_BLOCK = 64
_ROOT_PI = math.sqrt(math.pi)
_TINY, _FAR = 1e-150, 1e100
_OWNERS = types.Array(types.int64, 1, "C", readonly=True)


@inlined
def _absolute_atom(s: Any) -> Any:
    """H and its slope."""
    return s * (1.0 / _ROOT_PI), 1.0 / _ROOT_PI


@inlined
def _absolute_pair(gap: Any, s: Any, t: Any) -> Any:
    """D and its slopes in gap ≥ 0, s and t."""
    r = math.sqrt(2.0 * (s * s + t * t))
    spread = r > _TINY
    divisor = r if spread else _TINY
    error, fall = erf_and_fall(gap / divisor)
    value = (s - t) * (s - t) / (_ROOT_PI * (divisor + s + t)) + (
        gap * error - r * fall * (1.0 / _ROOT_PI)
    )
    # 2s/r − 1 and 2t/r − 1 without a difference of close numbers
    excess = 2.0 * (s - t) * (s + t) / divisor
    a = excess / (2.0 * s + divisor)
    b = -excess / (2.0 * t + divisor)
    ds = (a - (2.0 * s / divisor) * fall) * (1.0 / _ROOT_PI)
    dt = (b - (2.0 * t / divisor) * fall) * (1.0 / _ROOT_PI)
    # Two point masses: the slope of the limit, where it exists.
    limit = -1.0 / _ROOT_PI if gap > 0.0 else 0.0
    ds = ds if spread else limit
    dt = dt if spread else limit
    return value, error, ds, dt


@inlined
def _gaussian_atom(u: Any) -> Any:
    a = 1.0 / math.sqrt(1.0 + 4.0 * u * u)
    return 2.0 * u * u * a * a / (1.0 + a), 2.0 * u * a * a * a


@inlined
def _gaussian_pair(gap: Any, u: Any, v: Any) -> Any:
    a = 1.0 / math.sqrt(1.0 + 4.0 * u * u)
    b = 1.0 / math.sqrt(1.0 + 4.0 * v * v)
    c = 1.0 / (1.0 + 2.0 * (u * u + v * v))
    root = math.sqrt(c)
    z = gap * gap * c
    affinity = root * exp(-z)
    # ½a + ½b − root: see scalar_pairs
    h = 2.0 * (u - v) * (u + v) * c
    p = c / (a * b) if a * b > _TINY else 0.0
    p = p if p > _TINY else _TINY
    centre = root * h * h * (1.0 + 2.0 * p) / ((1.0 + p) * p * (math.sqrt(2.0 + 2.0 * p) + 2.0 * p))
    value = centre - root * expm1_negative(-z)
    cross = affinity * c * (1.0 - 2.0 * z)
    du = 2.0 * u * (cross - a * a * a)
    dv = 2.0 * v * (cross - b * b * b)
    return value, 2.0 * gap * c * affinity, du, dv


@inlined
def _row(
    pair: Any,
    x: Any,
    s: Any,
    w: Any,
    y: Any,
    t: Any,
    v: Any,
    rate: Any,
    upstream: Any,
    dx: Any,
    ds: Any,
    dw: Any,
    dy: Any,
    dt: Any,
    dv: Any,
) -> None:
    for k in range(x.size):
        difference = (x[k] - y[k]) * rate[k]
        gap = abs(difference)
        gap = gap if gap < _FAR else _FAR
        value, slope, slope_s, slope_t = pair(gap, s[k] * rate[k], t[k] * rate[k])
        slope = slope if difference >= 0.0 else -slope
        slope = slope if difference != 0.0 else 0.0
        factor = upstream[k] * w[k] * v[k]
        dx[k] += factor * slope
        dy[k] -= factor * slope
        ds[k] += factor * slope_s
        dt[k] += factor * slope_t
        dw[k] += upstream[k] * v[k] * value
        dv[k] += upstream[k] * w[k] * value


@inlined
def _alone(atom: Any, s: Any, w: Any, rate: Any, upstream: Any, ds: Any, dw: Any) -> None:
    for k in range(s.size):
        value, slope = atom(s[k] * rate[k])
        ds[k] += upstream[k] * w[k] * slope
        dw[k] += upstream[k] * value


@inlined
def _loop(
    atom: Any,
    pair: Any,
    atoms: Any,
    owners: Any,
    members: Any,
    rates: Any,
    by_entropy: Any,
    by_dispersion: Any,
    out: Any,
) -> None:
    _, count, n = atoms.shape
    x = np.empty((3, count, _BLOCK))
    d = np.empty((3, count, _BLOCK))
    rate, upstream = np.empty(_BLOCK), np.empty(_BLOCK)
    for start in range(0, n, _BLOCK):
        size = min(_BLOCK, n - start)
        for q in range(3):
            for i in range(count):
                for k in range(size):
                    x[q, i, k] = atoms[q, i, start + k]
                    d[q, i, k] = 0.0
        for k in range(size):
            rate[k] = rates[start + k]
        for i in range(count):
            for k in range(size):
                upstream[k] = by_entropy[owners[i], start + k]
            _alone(
                atom,
                x[1, i, :size],
                x[2, i, :size],
                rate[:size],
                upstream[:size],
                d[1, i, :size],
                d[2, i, :size],
            )
            for j in range(i + 1, count):
                a, b = owners[i], owners[j]
                if a == b:
                    share = 2.0 * members[a] * (members[a] - 1.0)
                    for k in range(size):
                        upstream[k] = by_entropy[a, start + k] + share * by_dispersion[start + k]
                else:
                    share = 2.0 * members[a] * members[b]
                    for k in range(size):
                        upstream[k] = share * by_dispersion[start + k]
                _row(
                    pair,
                    x[0, i, :size],
                    x[1, i, :size],
                    x[2, i, :size],
                    x[0, j, :size],
                    x[1, j, :size],
                    x[2, j, :size],
                    rate[:size],
                    upstream[:size],
                    d[0, i, :size],
                    d[1, i, :size],
                    d[2, i, :size],
                    d[0, j, :size],
                    d[1, j, :size],
                    d[2, j, :size],
                )
        for q in range(3):
            for i in range(count):
                for k in range(size):
                    out[q, i, start + k] = d[q, i, k]


_SIGNATURE = (
    inputs(3),
    _OWNERS,
    inputs(1),
    inputs(1),
    inputs(2),
    inputs(1),
    outputs(3),
)


@kernel(*_SIGNATURE)
def _absolute(atoms, owners, members, rates, by_entropy, by_dispersion, out):  # type: ignore[no-untyped-def]
    _loop(
        _absolute_atom,
        _absolute_pair,
        atoms,
        owners,
        members,
        rates,
        by_entropy,
        by_dispersion,
        out,
    )


@kernel(*_SIGNATURE)
def _gaussian(atoms, owners, members, rates, by_entropy, by_dispersion, out):  # type: ignore[no-untyped-def]
    _loop(
        _gaussian_atom,
        _gaussian_pair,
        atoms,
        owners,
        members,
        rates,
        by_entropy,
        by_dispersion,
        out,
    )


_LOOPS: dict[str, Callable[..., None]] = {"absolute": _absolute, "gaussian": _gaussian}


def gradients(
    name: str,
    bandwidth: np.ndarray | float | None,
    atoms: np.ndarray,
    owners: np.ndarray,
    members: np.ndarray,
    by_entropy: np.ndarray,
    by_dispersion: np.ndarray,
) -> np.ndarray:
    """Derivatives by location, scale and weight, (3, T, n) like ``atoms``.

    ``by_entropy`` (M, n) and ``by_dispersion`` (n,) are the derivatives of what is differentiated
    by the results of ``scalar_pairs.statistics``.
    """
    _, count, n = atoms.shape
    rates = np.broadcast_to(1.0 if bandwidth is None else 1.0 / np.asarray(bandwidth), (n,))
    out = np.empty((3, count, n))

    def task(start: int, stop: int) -> None:
        part = slice(start, stop)
        found = np.empty((3, count, stop - start))
        _LOOPS[name](
            atoms[..., part],
            owners,
            members,
            rates[part],
            by_entropy[:, part],
            by_dispersion[part],
            found,
        )
        out[..., part] = found

    spread(task, n, n * count * (count + 1), _BLOCK)
    if name == "gaussian":  # slopes are by numbers in bandwidths
        out[:2] *= rates
    return out
