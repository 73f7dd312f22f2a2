"""Weighted normals and points on the line: H and Σ w_i w_j D_ij over all pairs of atoms.

One engine for all kernels. A kernel is two functions of one column: what an atom is worth by
itself, and D of two atoms with the size of what was subtracted in it. Atoms come first and columns
last. Columns are worked in blocks, so that the rows of a block stay in the cache while all pairs of
atoms pass over them; the innermost loops run along columns and vectorise.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kuq._numba.compiling import (
    Int,
    Real,
    fill,
    inlined,
    inputs,
    kernel,
    outputs,
    positions,
    spread,
)
from kuq._numba.mathematics import (
    bits,
    erf_and_fall,
    erfcx,
    exp,
    expm1_negative,
    from_bits,
    log,
    log1p,
)

#: Columns of a block: few if there are many atoms, whose rows are to stay in the cache.
_LONGEST_BLOCK, _SHORTEST_BLOCK, _BLOCK_NUMBERS = 512, 64, 65_536
_ROOT_PI = math.sqrt(math.pi)
_ROOT_HALF = math.sqrt(0.5)
#: A column is measured in a power of two between these; squares of what remains are finite.
_SMALLEST_UNIT, _LARGEST_UNIT = 2.0**-1000, 2.0**1000
#: Stands for zero where a number divides.
_TINY = 1e-200
#: Numbers in bandwidths are cut here: squares stay finite and kernels there are zero anyway.
_FAR = 1e150

#: Location, scale and weight of atoms; their owners, and the weights of these; bandwidths, and a
#: parameter of the kernel; entropies and sums; the first column and the one after the last.
_SIGNATURE = (
    *(inputs(2), inputs(2), inputs(2), positions(1), inputs(1)),
    *(inputs(1), Real, outputs(2), outputs(2), Int, Int),
)


# Kernels: an atom (its width and something of it, and H), and a pair (D and its size).


@inlined
def _absolute_atom(scale, inverse, parameter):
    s = scale * inverse
    return s, 0.0, s * (1.0 / _ROOT_PI)


@inlined
def _absolute_pair(gap, change, s, _s, t, _t, parameter):
    """``expectations.scalar`` derives the form."""
    r = math.sqrt(2.0 * (s * s + t * t))
    divisor = r if r > _TINY else _TINY
    error, fall = erf_and_fall(gap / divisor)
    width = _ROOT_PI * (r + s + t)
    width = width if width > _TINY else _TINY
    distance = (s - t) * (s - t) / width
    value = distance + (gap * error - r * fall * (1.0 / _ROOT_PI))
    return value, value


@inlined
def _gaussian_atom(scale, inverse, parameter):
    """u = σ/γ and √(1 + 4u²); H = ½ − ½(1 + 4u²)^(−½)."""
    u = scale * inverse
    u = _FAR if u > _FAR else u
    a = math.sqrt(1.0 + 4.0 * u * u)
    return u, a, 2.0 * u / (a + 1.0) * (u / a)


@inlined
def _gaussian_pair(gap, change, u, root, v, root2, parameter):
    """With A = 1 + 4u², B = 1 + 4v², C = (A + B)/2, h = (A − B)/2C and p = √(AB)/C = √(1 − h²):
    ½A^(−½) + ½B^(−½) − C^(−½) = C^(−½) h² (1 + 2p)/((1 + p) p (√(2 + 2p) + 2p)), whose terms are
    ≥ 0. So no other form is needed for laws that are far apart.
    """
    c = 1.0 / (1.0 + 2.0 * (u * u + v * v))
    h = 2.0 * change * (u + v) * c
    p = root * c * root2
    # Scales 1e150 apart would make p zero; the factor c^½ then makes the rest vanish.
    p = p if p > _TINY else _TINY
    distance = h * h * (1.0 + 2.0 * p) / ((1.0 + p) * p * (math.sqrt(2.0 + 2.0 * p) + 2.0 * p))
    value = math.sqrt(c) * (distance - expm1_negative(-(gap * gap * c)))
    return value, value


@inlined
def _laplace_atom(scale, inverse, parameter):
    """σ/γ and its self affinity erfcx(σ/γ); H = (1 − erfcx)/2, by its terms where σ is small."""
    x = scale * inverse
    x = _FAR if x > _FAR else x
    affinity = erfcx(x)
    low = x if x < 1.0 else 1.0
    error, fall = erf_and_fall(low)
    # (exp(x²) erf(x) − expm1(x²))/2 with exp(x²) = 1/(1 − fall)
    near = (error - fall) / (1.0 - fall)
    return x, affinity, 0.5 * (near if x < 1.0 else 1.0 - affinity)


@inlined
def _laplace_pair(gap, change, s, affinity, t, affinity2, parameter):
    """½ erfcx + ½ erfcx less the affinity of X − Y ~ N(gap, σ²), all in bandwidths."""
    sigma = math.sqrt(s * s + t * t)
    sigma = sigma if sigma > 1e-100 else 1e-100
    z = gap / sigma
    z = 1e3 if z > 1e3 else z
    decay = exp(-0.5 * z * z)
    first, second = (sigma - z) * _ROOT_HALF, (sigma + z) * _ROOT_HALF
    inside = first >= 0.0
    tail = decay * erfcx(abs(first))
    # Beyond the kink erfc(first) is 2 − erfc(|first|).
    exponent = 0.5 * sigma * sigma - gap
    whole = 2.0 * exp(exponent if exponent < 0.0 else 0.0)
    left = tail if inside else whole - tail
    selves = 0.5 * (affinity + affinity2)
    return selves - 0.5 * (left + decay * erfcx(second)), selves


@inlined
def _point_atom(scale, inverse, parameter):
    return 0.0, 0.0, 0.0


@inlined
def _power_pair(gap, change, s, _s, t, _t, parameter):
    """gap^parameter."""
    safe = gap if gap > 1e-300 else 1e-300
    value = exp(parameter * log(safe))
    value = value if gap > 1e-300 else gap  # zero, or NaN
    return value, value


@inlined
def _rational_pair(gap, change, s, _s, t, _t, parameter):
    """1 − (1 + gap²)^(−parameter)."""
    value = -expm1_negative(-parameter * log1p(gap * gap))
    value = value if gap >= 0.0 else gap  # NaN
    return value, value


@inlined
def _bump_pair(gap, change, s, _s, t, _t, parameter):
    """1 − exp(−gap²)."""
    value = -expm1_negative(-gap * gap)
    return value, value


# The engine.


@inlined
def _largest(loc, first, scale, unit):
    for k in range(unit.size):
        gap = abs(loc[k] - first[k])
        size = scale[k] if scale[k] > gap else gap
        unit[k] = size if size > unit[k] else unit[k]


@inlined
def _powers_of_two(unit, inverse):
    """Round down to powers of two, by which multiplication is exact."""
    for k in range(unit.size):
        power = from_bits(bits(unit[k]) & 0x7FF0000000000000)
        power = power if power > _SMALLEST_UNIT else _SMALLEST_UNIT
        power = power if power < _LARGEST_UNIT else _LARGEST_UNIT
        unit[k] = power
        inverse[k] = 1.0 / power


@inlined
def _units(loc, scale, width, unit, inverse):
    """One over the bandwidth, or without one a power of two of the size of the column."""
    if width.size:
        for k in range(unit.size):
            unit[k] = 1.0
            inverse[k] = 1.0 / width[k]
        return
    fill(unit, 0.0)
    for i in range(loc.shape[0]):
        _largest(loc[i], loc[0], scale[i], unit)
    _powers_of_two(unit, inverse)


@inlined
def _load(source, start, target):
    for i in range(target.shape[0]):
        for k in range(target.shape[1]):
            target[i, k] = source[i, start + k]


@inlined
def _cut(x):
    """NaN stays."""
    return _FAR if x > _FAR else x


def _loop(name: str, atom: Any, pair: Any, several: bool) -> Callable[..., None]:
    """All pairs of atoms under one kernel; without ``several`` every member is one atom."""

    @kernel(*_SIGNATURE, name=f"{name}_{several}")
    def loop(loc, scale, weights, owners, members, width, parameter, entropies, sums, begin, end):
        count = loc.shape[0]
        block = min(max(_BLOCK_NUMBERS // count, _SHORTEST_BLOCK), _LONGEST_BLOCK)
        x, s, w = np.empty((count, block)), np.empty((count, block)), np.empty((count, block))
        a, b = np.empty((count, block)), np.empty((count, block))
        unit, inverse = np.empty(block), np.empty(block)
        inner = np.empty((members.size, block))
        for start in range(begin, end, block):
            size = min(block, end - start)
            stop = start + size
            u, v = unit[:size], inverse[:size]
            _load(loc, start, x[:, :size])
            _load(scale, start, s[:, :size])
            if several:
                _load(weights, start, w[:, :size])
            _units(x[:, :size], s[:, :size], width[start:stop], u, v)
            total, subtracted = sums[0, start:stop], sums[1, start:stop]
            fill(total, 0.0)
            fill(subtracted, 0.0)
            for m in range(members.size):
                fill(inner[m, :size], 0.0)
                fill(entropies[m, start:stop], 0.0)
            for i in range(count):
                entropy = entropies[owners[i], start:stop]
                for k in range(size):
                    a[i, k], b[i, k], alone = atom(s[i, k], v[k], parameter)
                    entropy[k] += w[i, k] * alone if several else alone
            for i in range(count):
                for j in range(i + 1, count):
                    between = 2.0 * members[owners[i]] * members[owners[j]]
                    share, target = between, total
                    if owners[i] == owners[j]:
                        between, share, target = 0.0, 1.0, inner[owners[i], :size]
                    x1, s1, w1, a1, b1 = x[i], s[i], w[i], a[i], b[i]
                    x2, s2, w2, a2, b2 = x[j], s[j], w[j], a[j], b[j]
                    for k in range(size):
                        # Differences are formed in full and then scaled: in units they might be
                        # too large.
                        gap = _cut(abs(x1[k] - x2[k]) * v[k])
                        change = _cut(abs(s1[k] - s2[k]) * v[k])
                        value, amount = pair(gap, change, a1[k], b1[k], a2[k], b2[k], parameter)
                        weight = w1[k] * w2[k] if several else 1.0
                        target[k] += share * (weight * value)
                        subtracted[k] += between * (weight * amount)
            for m in range(members.size):
                entropy = entropies[m, start:stop]
                share = 2.0 * members[m] * (1.0 - members[m])
                for k in range(size):
                    entropy[k] = (entropy[k] + inner[m, k]) * u[k]
                    total[k] -= share * inner[m, k]
            for k in range(size):
                total[k] *= u[k]
                subtracted[k] *= u[k]

    return loop


_KERNELS = {
    "absolute": (_absolute_atom, _absolute_pair),
    "gaussian": (_gaussian_atom, _gaussian_pair),
    "laplace": (_laplace_atom, _laplace_pair),
    "power": (_point_atom, _power_pair),
    "rational": (_point_atom, _rational_pair),
    "bump": (_point_atom, _bump_pair),
}
#: Compiled when they are first used.
_LOOPS = {
    (name, several): _loop(name, *functions, several)
    for name, functions in _KERNELS.items()
    for several in (False, True)
}


def statistics(
    name: str,
    parameter: float,
    bandwidth: np.ndarray | float | None,
    loc: np.ndarray,
    scale: np.ndarray,
    weights: np.ndarray | None,
    owners: np.ndarray,
    members: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """H (M, n), Σ w_i w_j D_ij (n,), and the sum over pairs of members that it is left from (n,).

    Atoms (T, n), their weights inside a member (T, n) or None for members of one atom, their
    owners (T,) in ascending order, and the weights of the members (M,).
    """
    count, n = loc.shape
    entropies, sums = np.empty((len(members), n)), np.empty((2, n))
    several = weights is not None
    shares = weights if several else np.empty((0, 0))
    width = np.empty(0)
    if bandwidth is not None:
        width = np.broadcast_to(np.asarray(bandwidth, dtype=np.float64), (n,))

    def task(start: int, stop: int) -> None:
        atoms = (loc, scale, shares, owners, members)
        _LOOPS[name, several](*atoms, width, parameter, entropies, sums, start, stop)

    spread(task, n, n * count * (count + 1) / 2, _SHORTEST_BLOCK)
    return entropies, sums[0], sums[1]
