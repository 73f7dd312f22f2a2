"""Gaussian-kernel expectations between normal laws whose covariance is diag + factor factor'.

Notation: S = D + U U', A = I + 4t S1, B = I + 4t S2, C = (A + B)/2. The nodes t have shape
(T, ...), one axis before the lead shape of the laws; diag is (..., d), factor (..., d, r) with
r >= 1. Lead axes broadcast, and what belongs to one law is computed on its own lead shape.
Cost O(T d r^2) for each pair. No d x d matrix is formed unless d <= r.
"""

from __future__ import annotations

import numpy as np

from kuq._array import Array, any_true, detach, epsilon, is_traced, may_hold, namespace
from kuq.expectations import low_rank_close
from kuq.expectations.low_rank_sums import as_rows, pair_sums, self_sums, weighted_gram
from kuq.expectations.overlap import Overlap
from kuq.expectations.small_matrices import apply, factorise, outer, pivots, solve, unit_diagonal

#: A divergence that may be less accurate than this is computed again, carefully.
_ACCURACY = 1e-11
#: exp(-x) is zero.
_VANISHING = 750.0


def log_self_affinity(t: Array, factor: Array, diag: Array) -> Array:
    """log E exp(-t|X-X'|^2) = -1/2 logdet(I + 4t S), relatively accurate for small t."""
    return _log_self_affinity(t, as_rows(factor), diag)[0]


def overlap(
    t: Array, loc1: Array, factor1: Array, diag1: Array, loc2: Array, factor2: Array, diag2: Array
) -> Overlap:
    """The overlap of two normal laws, (T, ...).

    -1/2 logdet of A, B and C; shift = t delta' C^-1 delta; gap = log_p/2 + log_q/2 - log_c;
    tilt = (log_q - log_p)/2. However close the laws, the errors of gap, tilt^2 and shift are
    small against the sum of the three. The shift saturates at 1e4, where exp(-shift) is zero.
    """
    xp = namespace(t, loc1)
    rows1, rows2 = as_rows(factor1), as_rows(factor2)
    r, d = rows1.shape[-2:]
    delta = loc1 - loc2
    log_p, noise_p = _log_self_affinity(t, rows1, diag1)
    log_q, noise_q = _log_self_affinity(t, rows2, diag2)
    shape = np.broadcast_shapes(log_p.shape, log_q.shape, (1, *delta.shape[:-1]))
    log_p, log_q = xp.broadcast_to(log_p, shape), xp.broadcast_to(log_q, shape)
    laws = (rows1, diag1, rows2, diag2, delta)
    if d <= r or any(is_traced(x) for x in (t, *laws)):
        return _carefully(t, log_p, log_q, *laws)
    log_c, shift, noise = _plainly(t, *laws)
    parts = _complete(log_p, log_q, log_c, shift)
    lost = _lost(parts, noise + noise_p + noise_q)
    if not may_hold(lost):
        return parts
    again = [k for k in range(shape[0]) if any_true(lost[k, ...])]
    nodes = slice(again[0], again[-1] + 1)
    careful = _carefully(t[nodes, ...], log_p[nodes, ...], log_q[nodes, ...], *laws)
    return Overlap(
        *(
            xp.concat(
                [
                    plain[: nodes.start, ...],
                    xp.where(lost[nodes, ...], better, plain[nodes, ...]),
                    plain[nodes.stop :, ...],
                ],
                axis=0,
            )
            for plain, better in zip(parts, careful, strict=True)
        )
    )


def _complete(log_p: Array, log_q: Array, log_c: Array, shift: Array) -> Overlap:
    """Gap and tilt as differences: for laws that differ visibly."""
    xp = namespace(log_c)
    gap = (log_p + log_q) / 2 - log_c
    gap = xp.where(gap > 0, gap, xp.zeros_like(gap))
    return Overlap(log_p, log_q, log_c, _saturate(shift), gap, (log_q - log_p) / 2)


def _plainly(
    t: Array, rows1: Array, diag1: Array, rows2: Array, diag2: Array, delta: Array
) -> tuple[Array, Array, Array]:
    """log_c and shift by eliminating U1, U2 and delta from one Gram matrix, and their noise."""
    xp = namespace(t, delta)
    gram, logs = pair_sums(2 * t, rows1, rows2, delta, diag1, diag2)
    elimination = pivots(gram)
    log_c = -(logs + xp.sum(elimination.logs[..., :-1], axis=-1)) / 2
    length, explained = gram[..., -1, -1], elimination.explained[..., -1]
    shift = (length - (1 + length) * explained) / 2
    shift = xp.where(elimination.regular & (shift > 0), shift, xp.zeros_like(shift))
    noise = _noise(elimination.explained[..., :-1])
    noise = noise + (1 + length) * explained * (1 + noise)
    return log_c, shift, xp.where(elimination.regular, noise, xp.full_like(noise, np.inf))


def _noise(explained: Array) -> Array:
    """The error of a sum of logarithms of pivots, in units of the rounding error."""
    return namespace(explained).sum(explained / (1 - explained), axis=-1)


def _lost(parts: Overlap, noise: Array) -> Array:
    """Where the differences of ``_complete`` have too few digits left for the divergence."""
    xp = namespace(parts.gap)
    visible = parts.gap + parts.tilt**2 / 2 + parts.shift
    visible = xp.where(visible < 1, visible, xp.ones_like(visible))
    noise = noise - parts.log_p - parts.log_q - parts.log_c
    accuracy = max(_ACCURACY, 32 * epsilon(noise))
    lost = noise * epsilon(noise) > accuracy * visible
    # Nothing is lost where the affinities themselves vanish.
    alive = (parts.log_p > -_VANISHING) | (parts.log_q > -_VANISHING)
    return lost & alive & (parts.shift < _VANISHING)


def _carefully(
    t: Array,
    log_p: Array,
    log_q: Array,
    rows1: Array,
    diag1: Array,
    rows2: Array,
    diag2: Array,
    delta: Array,
) -> Overlap:
    """Gap and tilt with all their digits, where the laws are near enough for it to matter."""
    xp = namespace(t, delta)
    close = low_rank_close.compare(t, rows1, diag1, rows2, diag2, delta)
    logs = xp.sum(xp.log1p(2 * t[..., None] * (diag1 + diag2)), axis=-1)
    plain = _complete(log_p, log_q, -(logs + close.log_det) / 2, close.shift)
    gap = xp.where(close.near, close.gap, plain.gap)
    return plain._replace(gap=gap, tilt=xp.where(close.near, close.tilt, plain.tilt))


def _log_self_affinity(t: Array, rows: Array, diag: Array) -> tuple[Array, Array]:
    """-1/2 logdet(I + 4t S), and its error in units of the rounding error."""
    xp = namespace(t, rows)
    if rows.shape[-1] < rows.shape[-2]:
        spread = 4 * t[..., None] * diag
        logs = xp.sum(xp.log1p(spread), axis=-1)
        gram = outer(xp.sqrt(4 * t[..., None] / (1 + spread)), rows, rows)
        return -(logs + unit_diagonal(gram)[0]) / 2, xp.zeros_like(logs)
    gram, logs = self_sums(4 * t, rows, diag)
    if is_traced(gram):
        return -(logs + unit_diagonal(gram)[0]) / 2, xp.zeros_like(logs)
    elimination = pivots(gram)
    noise = _noise(elimination.explained)
    if any_true(~elimination.regular):
        return -(logs + unit_diagonal(gram)[0]) / 2, noise
    return -(logs + xp.sum(elimination.logs, axis=-1)) / 2, noise


def point_overlap(t: Array, loc: Array, factor: Array, diag: Array, value: Array) -> Overlap:
    """The same where the second law is a point mass, with lead axes that broadcast.

    The r x r work has the lead shape of the law: give loc (..., 1, d), factor (..., 1, d, r),
    t (T, ..., 1) for values (..., N, d).
    """
    xp = namespace(t, loc)
    spread = 2 * t[..., None] * diag
    weight = 2 * t[..., None] / (1 + spread)
    offset = (value - loc)[None, ...]
    rows = as_rows(factor)
    if factor.shape[-2] < factor.shape[-1]:
        root = xp.sqrt(weight)
        gram = outer(root, rows, rows)
        log_det, _, inverse = factorise(gram)
        distance = xp.sum(apply(inverse, root * offset) ** 2, axis=-1)
    else:
        gram = weighted_gram(weight, rows, rows)
        log_det, along = _eliminated(gram, apply(rows[None, ...], weight * offset))
        rest = offset - apply(xp.matrix_transpose(rows)[None, ...], along)
        distance = xp.sum(weight * rest * rest, axis=-1) + xp.sum(along * along, axis=-1)
    log_p = _log_self_affinity(t, rows, diag)[0]
    log_c = -(log_det + xp.sum(xp.log1p(spread), axis=-1)) / 2
    width = xp.sum(detach(spread), axis=-1) + xp.sum(xp.linalg.diagonal(detach(gram)), axis=-1)
    gap = _gap_to_point(t, factor, diag, log_p / 2 - log_c, width)
    shift = _saturate(distance / 2)
    return Overlap(log_p, xp.zeros_like(log_p), log_c, shift, gap, -log_p / 2)


def _eliminated(gram: Array, image: Array) -> tuple[Array, Array]:
    """logdet(I + gram) and (I + gram)^-1 image."""
    xp = namespace(gram)
    if not is_traced(gram):
        elimination = pivots(gram)
        if not may_hold(~elimination.regular):
            return xp.sum(elimination.logs, axis=-1), solve(gram, image)
    log_det, _, inverse = factorise(gram)
    return log_det, apply(xp.matrix_transpose(inverse), apply(inverse, image))


def _gap_to_point(t: Array, factor: Array, diag: Array, plain: Array, width: Array) -> Array:
    """log_p/2 - log_c for a point mass: the sum of log1p(4t^2 l^2/(1 + 4tl))/4 over eigenvalues l.

    The plain difference keeps eps/(tl) of its digits and the first two terms of the series in
    tl are wrong by 14(tl)^2; the two meet where both are below 2e-10. ``width`` is twice the sum
    of tl, if that is small.
    """
    xp = namespace(t, factor)
    plain = xp.where(plain > 0, plain, xp.zeros_like(plain))
    tiny = width < 6e-6
    if not may_hold(tiny):
        return plain
    lengths = xp.sum(factor * factor, axis=-1)
    gram = xp.matrix_transpose(factor) @ factor
    squared = xp.sum(diag * (diag + 2 * lengths), axis=-1) + xp.sum(gram * gram, axis=(-2, -1))
    cubed = xp.sum(diag * diag * (diag + 3 * lengths), axis=-1)
    mixed = xp.matrix_transpose(factor) @ (diag[..., None] * factor)
    cubed = cubed + xp.sum((3 * mixed + gram @ gram) * gram, axis=(-2, -1))
    small = xp.where(tiny, t, xp.zeros_like(t))
    series = small * small * (squared - 4 * small * cubed)
    return xp.where(tiny, series, plain)


def _saturate(exponent: Array) -> Array:
    """Cut an exponent whose exp(-x) is zero: its gradient, of order t^2, overflows in float32."""
    xp = namespace(exponent)
    return xp.where(exponent < 1e4, exponent, xp.full_like(exponent, 1e4))
