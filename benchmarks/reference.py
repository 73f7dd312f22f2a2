"""Exact values, independent of kuq: plain sums in extended or in many-digit precision.

They are slow and are computed for a few outcomes only. ``np.longdouble`` has 64 bits of mantissa
on x86 and is an ordinary double on some other machines.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
from scipy import special
from scipy.spatial.distance import cdist

from benchmarks.peers import Pair, from_matrix
from benchmarks.problems import Problem

LONG = np.longdouble


def pairs(members: int, value: Callable[[int, int], np.ndarray]) -> np.ndarray:
    """A symmetric matrix from its upper triangle, (M, M, …)."""
    matrix = [[np.zeros(0)] * members for _ in range(members)]
    for i in range(members):
        for j in range(i, members):
            matrix[i][j] = matrix[j][i] = value(i, j)
    return np.array(matrix)


def crps_normals(problem: Problem) -> Pair:
    """E|Z| = r √(2/π) exp(−x²/2) + μ erf(x/√2), x = μ/r, with 30 digits."""
    loc, scale = problem["loc"], problem["scale"]

    def moment(mu: float, s: float, t: float) -> mpmath.mpf:
        mu, r = abs(mpmath.mpf(mu)), mpmath.sqrt(mpmath.mpf(s) ** 2 + mpmath.mpf(t) ** 2)
        bell = mpmath.sqrt(2 / mpmath.pi) * mpmath.exp(-((mu / r) ** 2) / 2)
        return r * bell + mu * mpmath.erf(mu / (r * mpmath.sqrt(2)))

    with mpmath.workdps(30):
        values = np.vectorize(moment, otypes=[object])
        gap = np.vectorize(lambda a, b: mpmath.mpf(a) - mpmath.mpf(b), otypes=[object])

        def value(i: int, j: int) -> np.ndarray:
            return values(gap(loc[i], loc[j]), scale[i], scale[j])

        return as_floats(from_matrix(pairs(len(loc), value)))


def crps_many_normals(problem: Problem) -> Pair:
    """Sums of positive terms in double precision, for so many members that digits take too long.

    D = (s−t)²/(√π(√2 r + s + t)) + r(√(2/π) expm1(−x²/2) + x erf(x/√2)); no term cancels.
    """
    loc, scale = problem["loc"], problem["scale"]
    members = len(loc)
    total = np.zeros(loc.shape[1:])
    for i in range(members):
        s, t = scale[i], scale
        r = np.hypot(s, t)
        x = np.abs(loc[i] - loc) / r
        widths = (s - t) ** 2 / (math.sqrt(math.pi) * (math.sqrt(2) * r + s + t))
        bell = math.sqrt(2 / math.pi) * np.expm1(-(x**2) / 2)
        total += (widths + r * (bell + x * special.erf(x / math.sqrt(2)))).sum(0)
    return scale.mean(0) / math.sqrt(math.pi), total / (members * (members - 1))


def squared_error(problem: Problem) -> Pair:
    loc, scale = (a.astype(LONG) for a in problem.values())
    return as_floats(((scale**2).mean(0), 2 * loc.var(0, ddof=1)))


def log_score(problem: Problem) -> Pair:
    loc, scale = (a.astype(LONG) for a in problem.values())
    members = len(loc)
    ratio = (scale[:, None] ** 2 + (loc[:, None] - loc[None]) ** 2) / (2 * scale[None] ** 2)
    divergence = np.log(scale[None] / scale[:, None]) + ratio - LONG(0.5)
    entropy = np.log(2 * LONG(np.pi) * scale**2) / 2 + LONG(0.5)
    return as_floats((entropy.mean(0), divergence.sum((0, 1)) / (members * (members - 1))))


def gaussian_normals(problem: Problem, bandwidth: float, joint: bool) -> Pair:
    """The product over coordinates (``joint``), or a value for each coordinate."""
    loc, scale = (a.astype(LONG) for a in problem.values())

    def value(i: int, j: int) -> np.ndarray:
        extra = 2 * (scale[i] ** 2 + scale[j] ** 2) / LONG(bandwidth) ** 2
        square = (loc[i] - loc[j]) ** 2 / (LONG(bandwidth) ** 2 * (1 + extra))
        exponent = -np.log1p(extra) / 2 - square
        return -np.exp(exponent.sum(-1) if joint else exponent)

    return as_floats(from_matrix(pairs(len(loc), value), -1.0))


def gaussian_low_rank(problem: Problem, bandwidth: float) -> Pair:
    loc, factor, diag = (a.astype(LONG) for a in problem.values())

    def one(i: int, j: int, row: int) -> LONG:
        gap = loc[i, row] - loc[j, row]
        both = np.concatenate([factor[i, row], factor[j, row]], axis=-1)
        base = LONG(bandwidth) ** 2 + 2 * (diag[i, row] + diag[j, row])
        columns = np.sqrt(LONG(2)) * both / np.sqrt(base)[:, None]
        root = cholesky(columns.T @ columns + np.eye(columns.shape[1], dtype=LONG))
        moved = forward(root, columns.T @ (gap / np.sqrt(base)))
        log_det = np.log(base / LONG(bandwidth) ** 2).sum() + 2 * np.log(np.diagonal(root)).sum()
        return -np.exp(-log_det / 2 - (gap**2 / base).sum() + (moved**2).sum())

    def value(i: int, j: int) -> np.ndarray:
        return np.array([one(i, j, row) for row in range(loc.shape[1])], dtype=LONG)

    return as_floats(from_matrix(pairs(len(loc), value), -1.0))


def cholesky(matrix: np.ndarray) -> np.ndarray:
    """The lower root; LAPACK has none for extended precision."""
    root = np.zeros_like(matrix)
    for k in range(len(matrix)):
        root[k, k] = np.sqrt(matrix[k, k] - (root[k, :k] ** 2).sum())
        root[k + 1 :, k] = (matrix[k + 1 :, k] - root[k + 1 :, :k] @ root[k, :k]) / root[k, k]
    return root


def forward(root: np.ndarray, right: np.ndarray) -> np.ndarray:
    solved = np.zeros_like(right)
    for k in range(len(root)):
        solved[k] = (right[k] - root[k, :k] @ solved[:k]) / root[k, k]
    return solved


def energy_draws(problem: Problem) -> Pair:
    """Direct differences in double precision, by SciPy."""
    values = problem["values"]
    members, rows, count = values.shape[:3]

    def value(i: int, j: int) -> np.ndarray:
        sums = [math.fsum(cdist(values[i, r], values[j, r]).ravel()) for r in range(rows)]
        return np.array(sums) / (count * (count - 1) if i == j else count**2)

    return from_matrix(pairs(members, value))


def scalar_draws(problem: Problem, kernel: Callable, origin: float = 0.0) -> Pair:
    values = problem["values"].astype(LONG)
    members, _, count = values.shape

    def value(i: int, j: int) -> np.ndarray:
        total = kernel(values[i, :, :, None] - values[j, :, None, :]).sum((-1, -2))
        if i == j:
            return (total - count * LONG(origin)) / (count * (count - 1))
        return total / count**2

    return as_floats(from_matrix(pairs(members, value), origin))


def crps_draws(problem: Problem) -> Pair:
    return scalar_draws(problem, np.abs)


def gaussian_draws(problem: Problem, bandwidth: float) -> Pair:
    return scalar_draws(problem, lambda gap: -np.exp(-((gap / LONG(bandwidth)) ** 2)), -1.0)


def energy_normals(problem: Problem) -> Pair:
    """E‖Z‖ = ∫ (1 − φ(t)) t^(−3/2) dt / (2√π), φ(t) = E exp(−t‖Z‖²), over v = log t.

    The trapezoid rule on the whole line converges exponentially; steps of 0.2 are fine enough, and
    the tails fall like exp(−|v|/2).
    """
    loc, scale = (a.astype(LONG) for a in problem.values())
    step = LONG(0.2)
    nodes = np.exp(np.arange(-450, 425) * step)

    def one(gap: np.ndarray, variance: np.ndarray) -> LONG:
        total = LONG(0)
        for t in nodes / variance.sum():
            shrink = 2 * t * variance
            exponent = -(np.log1p(shrink) / 2 + t * gap**2 / (1 + shrink)).sum()
            total += -np.expm1(exponent) / np.sqrt(t)
        return total * step / (2 * np.sqrt(LONG(np.pi)))

    def value(i: int, j: int) -> np.ndarray:
        rows = range(loc.shape[1])
        gap, variance = loc[i] - loc[j], scale[i] ** 2 + scale[j] ** 2
        return np.array([one(gap[r], variance[r]) for r in rows], dtype=LONG)

    return as_floats(from_matrix(pairs(len(loc), value)))


def as_floats(pair: Pair) -> Pair:
    return np.asarray(pair[0], dtype=float), np.asarray(pair[1], dtype=float)
