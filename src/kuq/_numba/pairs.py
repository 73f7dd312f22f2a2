"""Ensembles of scalar normals: Σ w H and Σ w_i w_j D_ij over all pairs, without temporaries.

Members come first and columns last. Columns are worked in blocks, so that the rows of a block stay
in the cache while all pairs of members pass over them; the innermost loops run along columns.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kuq._numba.compiling import fill, inlined, inputs, kernel, outputs, spread
from kuq._numba.mathematics import bits, erf_and_fall, expm1_negative, from_bits

#: Columns of a block: few if there are many members, whose rows are to stay in the cache.
_LONGEST_BLOCK, _SHORTEST_BLOCK, _BLOCK_NUMBERS = 512, 64, 65_536
_ROOT_PI = math.sqrt(math.pi)
#: A column is measured in a power of two between these; squares of what remains are finite.
_SMALLEST_UNIT, _LARGEST_UNIT = 2.0**-1000, 2.0**1000
#: Stands for zero where a number divides.
_TINY = 1e-200
#: Numbers in bandwidths are cut here: squares stay finite and kernels there are zero anyway.
_FAR = 1e150


def absolute(
    loc: np.ndarray, scale: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Aleatoric part and dispersion, each (n,), of normals (M, n) under |x − y|.

    The same numbers as ``expectations.scalar`` gives, however close the members are, point masses
    among them or not, and for scales of any magnitude.
    """
    members, n = loc.shape
    aleatoric, dispersion = np.empty(n), np.empty(n)

    def task(start: int, stop: int) -> None:
        part = slice(start, stop)
        _absolute(loc[:, part], scale[:, part], weights, aleatoric[part], dispersion[part])

    spread(task, n, n * members * (members + 1) / 2, _SHORTEST_BLOCK)
    return aleatoric, dispersion


def gaussian(
    loc: np.ndarray, scale: np.ndarray, weights: np.ndarray, bandwidth: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """Aleatoric part and dispersion, each (n,), of normals (M, n) under the Gaussian kernel."""
    members, n = loc.shape
    aleatoric, dispersion = np.empty(n), np.empty(n)
    bandwidths = np.broadcast_to(np.asarray(bandwidth, dtype=np.float64), (n,))

    def task(start: int, stop: int) -> None:
        part = slice(start, stop)
        _gaussian(
            loc[:, part],
            scale[:, part],
            weights,
            bandwidths[part],
            aleatoric[part],
            dispersion[part],
        )

    spread(task, n, n * members * (members + 1) / 2, _SHORTEST_BLOCK)
    return aleatoric, dispersion


@inlined
def _largest(loc: Any, first: Any, scale: Any, unit: Any) -> None:
    for k in range(unit.size):
        gap = abs(loc[k] - first[k])
        size = scale[k] if scale[k] > gap else gap
        unit[k] = size if size > unit[k] else unit[k]


@inlined
def _powers_of_two(unit: Any, inverse: Any) -> None:
    """Round down to powers of two, by which multiplication is exact."""
    for k in range(unit.size):
        power = from_bits(bits(unit[k]) & 0x7FF0000000000000)
        power = power if power > _SMALLEST_UNIT else _SMALLEST_UNIT
        power = power if power < _LARGEST_UNIT else _LARGEST_UNIT
        unit[k] = power
        inverse[k] = 1.0 / power


@inlined
def _scaled(scale: Any, inverse: Any, weight: Any, aleatoric: Any) -> None:
    for k in range(inverse.size):
        scale[k] *= inverse[k]
        aleatoric[k] += weight / _ROOT_PI * scale[k]


@inlined
def _absolute_pair(
    loc: Any, scale: Any, loc2: Any, scale2: Any, inverse: Any, weight: Any, total: Any
) -> None:
    """Add weight·D in units of the column; ``expectations.scalar`` derives the form."""
    for k in range(total.size):
        s, t = scale[k], scale2[k]
        # Means are subtracted in full and then scaled: in units they might be too large.
        gap = abs(loc[k] - loc2[k]) * inverse[k]
        r = math.sqrt(2.0 * (s * s + t * t))
        divisor = r if r > _TINY else _TINY
        error, fall = erf_and_fall(gap / divisor)
        width = _ROOT_PI * (r + s + t)
        width = width if width > _TINY else _TINY
        distance = (s - t) * (s - t) / width
        total[k] += weight * (distance + (gap * error - r * fall * (1.0 / _ROOT_PI)))


@kernel(inputs(2), inputs(2), inputs(1), outputs(1), outputs(1))
def _absolute(loc: Any, scale: Any, weights: Any, aleatoric: Any, dispersion: Any) -> None:
    members, n = loc.shape
    block = min(max(_BLOCK_NUMBERS // members, _SHORTEST_BLOCK), _LONGEST_BLOCK)
    x, s = np.empty((members, block)), np.empty((members, block))
    unit, inverse = np.empty(block), np.empty(block)
    for start in range(0, n, block):
        size = min(block, n - start)
        first, second = aleatoric[start : start + size], dispersion[start : start + size]
        u, v = unit[:size], inverse[:size]
        fill(u, 0.0)
        fill(first, 0.0)
        fill(second, 0.0)
        for i in range(members):
            for k in range(size):
                x[i, k] = loc[i, start + k]
                s[i, k] = scale[i, start + k]
            _largest(x[i, :size], x[0, :size], s[i, :size], u)
        _powers_of_two(u, v)
        for i in range(members):
            _scaled(s[i, :size], v, weights[i], first)
        for i in range(members):
            for j in range(i + 1, members):
                weight = 2.0 * weights[i] * weights[j]
                _absolute_pair(
                    x[i, :size], s[i, :size], x[j, :size], s[j, :size], v, weight, second
                )
        for k in range(size):
            first[k] *= u[k]
            second[k] *= u[k]


@inlined
def _gaussian_member(
    scale: Any, inverse: Any, weight: Any, width: Any, root: Any, total: Any
) -> None:
    """u = σ/γ and √(1 + 4u²); adds weight·H, H = ½ − ½(1 + 4u²)^(−½)."""
    for k in range(total.size):
        u = scale[k] * inverse[k]
        u = _FAR if u > _FAR else u
        a = math.sqrt(1.0 + 4.0 * u * u)
        width[k] = u
        root[k] = a
        total[k] += weight * (2.0 * u / (a + 1.0) * (u / a))


@inlined
def _gaussian_pair(
    loc: Any,
    loc2: Any,
    scale: Any,
    scale2: Any,
    width: Any,
    width2: Any,
    root: Any,
    root2: Any,
    inverse: Any,
    weight: Any,
    total: Any,
) -> None:
    """Add weight·D.

    With A = 1 + 4u², B = 1 + 4v², C = (A + B)/2, h = (A − B)/2C and p = √(AB)/C = √(1 − h²):
    ½A^(−½) + ½B^(−½) − C^(−½) = C^(−½) h² (1 + 2p)/((1 + p) p (√(2 + 2p) + 2p)), whose terms are
    ≥ 0. So no other form is needed for laws that are far apart.
    """
    for k in range(total.size):
        u, v = width[k], width2[k]
        gap = abs(loc[k] - loc2[k]) * inverse[k]
        gap = _FAR if gap > _FAR else gap
        # The difference is formed before it is divided by the bandwidth.
        change = abs(scale[k] - scale2[k]) * inverse[k]
        change = _FAR if change > _FAR else change
        c = 1.0 / (1.0 + 2.0 * (u * u + v * v))
        h = 2.0 * change * (u + v) * c
        p = root[k] * c * root2[k]
        # Scales 1e150 apart would make p zero; the factor c^½ then makes the rest vanish.
        p = p if p > _TINY else _TINY
        distance = h * h * (1.0 + 2.0 * p) / ((1.0 + p) * p * (math.sqrt(2.0 + 2.0 * p) + 2.0 * p))
        total[k] += weight * math.sqrt(c) * (distance - expm1_negative(-(gap * gap * c)))


@kernel(inputs(2), inputs(2), inputs(1), inputs(1), outputs(1), outputs(1))
def _gaussian(
    loc: Any, scale: Any, weights: Any, bandwidth: Any, aleatoric: Any, dispersion: Any
) -> None:
    members, n = loc.shape
    block = min(max(_BLOCK_NUMBERS // members, _SHORTEST_BLOCK), _LONGEST_BLOCK)
    x, s = np.empty((members, block)), np.empty((members, block))
    width, root = np.empty((members, block)), np.empty((members, block))
    inverse = np.empty(block)
    for start in range(0, n, block):
        size = min(block, n - start)
        first, second = aleatoric[start : start + size], dispersion[start : start + size]
        v = inverse[:size]
        fill(first, 0.0)
        fill(second, 0.0)
        for k in range(size):
            v[k] = 1.0 / bandwidth[start + k]
        for i in range(members):
            for k in range(size):
                x[i, k] = loc[i, start + k]
                s[i, k] = scale[i, start + k]
            _gaussian_member(s[i, :size], v, weights[i], width[i, :size], root[i, :size], first)
        for i in range(members):
            for j in range(i + 1, members):
                _gaussian_pair(
                    x[i, :size],
                    x[j, :size],
                    s[i, :size],
                    s[j, :size],
                    width[i, :size],
                    width[j, :size],
                    root[i, :size],
                    root[j, :size],
                    v,
                    2.0 * weights[i] * weights[j],
                    second,
                )
