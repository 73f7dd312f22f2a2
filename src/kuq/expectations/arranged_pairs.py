"""Compiled sums over the coordinates of normals, in the shapes that the generic code has.

Compiled code knows laws as (I, n, d) and (J, n, d) and compares all I·J of them. Pairs of atoms
come as a row, one law against several, or side by side, each with its own partner.
"""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import numpy as np

from kuq._array import Array
from kuq._compiled import twin, wanted
from kuq.distributions.atoms import Normals


class Arranged(NamedTuple):
    """Two sets of laws as compiled code takes them, and the shape of the results (lead…, A, B)."""

    module: ModuleType
    p: tuple[np.ndarray, np.ndarray]
    q: tuple[np.ndarray, np.ndarray]
    pairs: tuple[int, int, int]
    lead: tuple[int, ...]

    def scales(self, t: np.ndarray) -> np.ndarray:
        """t (T, lead…) as (T, I, J, n)."""
        return np.broadcast_to(t, (t.shape[0], *self.lead)).reshape(t.shape[0], *self.pairs)

    def unfold(self, values: np.ndarray) -> np.ndarray:
        """(…, I, J, n) as (…, lead…)."""
        return values.reshape(*values.shape[:-3], *self.lead)


def arranged(name: str, work_each: float, p: Normals, q: Normals) -> Arranged | None:
    """Laws for the compiled module of that name, None if generic code is to be used.

    ``work_each`` is what a coordinate of a pair costs in units of a pair of scalar normals.
    """
    left, right = p.loc.shape[:-1], q.loc.shape[:-1]
    if len(left) != 4 or left[2:] != (1, 1) or right[2:] != (1, 1):
        return None
    lead = tuple(np.broadcast_shapes(left, right))
    work = work_each * float(np.prod(lead)) * p.loc.shape[-1]
    if not wanted(work, p.loc) or left[1] != right[1]:
        return None
    row = left[0] == 1
    if not row and left[0] != right[0]:
        return None
    n, d = (left[1], p.loc.shape[-1]) if row else (left[0] * left[1], p.loc.shape[-1])
    pairs = (1, right[0], n) if row else (1, 1, n)

    def fit(a: Array, count: int) -> np.ndarray:
        return np.asarray(a).reshape(count, n, d)

    return Arranged(
        twin(name),
        (fit(p.loc, 1), fit(p.scale, 1)),
        (fit(q.loc, pairs[1]), fit(q.scale, pairs[1])),
        pairs,
        lead,
    )
