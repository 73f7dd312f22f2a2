"""The inputs of the workloads: NumPy arrays of float64, members first, then rows.

A problem is a dictionary of arrays whose first two axes are members and rows, so that a slower
contestant can be given fewer rows of the very same problem.
"""

from __future__ import annotations

import numpy as np

Problem = dict[str, np.ndarray]

#: Spread of the members' means. Scales lie between 0.5 and 1.5, so that |Δμ|/√(σ²+τ²) is about 1,
#: where a typical argument of the special functions lies; their cost depends on it.
SPREAD = 1.3


def normals(members: int, rows: int, size: int | None = None, seed: int = 0) -> Problem:
    """Means and standard deviations of (members, rows) scalars or (members, rows, size) fields."""
    rng = np.random.default_rng(seed)
    shape = (members, rows) if size is None else (members, rows, size)
    return {"loc": rng.normal(0.0, SPREAD, shape), "scale": rng.uniform(0.5, 1.5, shape)}


def low_rank_normals(members: int, rows: int, size: int, rank: int, seed: int = 0) -> Problem:
    """Means, factors of the covariance, and variances of the independent noise."""
    rng = np.random.default_rng(seed)
    shape = (members, rows, size)
    return {
        "loc": rng.normal(0.0, SPREAD, shape),
        "factor": rng.normal(0.0, 0.3, (*shape, rank)),
        "diag": rng.uniform(0.5, 1.5, shape) ** 2,
    }


def draws(members: int, rows: int, count: int, size: int | None = None, seed: int = 0) -> Problem:
    """Draws of members whose means differ by half a standard deviation of a draw."""
    rng = np.random.default_rng(seed)
    event = () if size is None else (size,)
    centre = rng.normal(0.0, 0.5, (members, rows, 1, *event))
    return {"values": centre + rng.normal(size=(members, rows, count, *event))}


def first_rows(problem: Problem, rows: int) -> Problem:
    return sliced(problem, (slice(rows),))


def sliced(problem: Problem, where: tuple[slice, ...]) -> Problem:
    """A piece of a problem: slices of the axes after the members, as contiguous arrays."""
    return {k: np.ascontiguousarray(a[(slice(None), *where)]) for k, a in problem.items()}
