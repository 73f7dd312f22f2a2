"""Affinities of normals with independent coordinates under the Gaussian kernel."""

from __future__ import annotations

from kuq._array import Array, epsilon, may_hold, namespace
from kuq._special import sum_log1p
from kuq.distributions.atoms import Normals
from kuq.expectations.overlap import Overlap


def log_self_affinity(t: Array, p: Normals) -> Array:
    return -sum_log1p(4 * t[..., None] * (p.scale * p.scale)) / 2


def overlap(t: Array, p: Normals, q: Normals) -> Overlap:
    """With a = 1 + 4tσ² and b = 1 + 4tτ² of every coordinate.

    For laws that differ visibly, gap and tilt are differences of logarithms; where those would
    lose digits they are sums of their own, at several times the cost.
    """
    log_p, log_q = log_self_affinity(t, p), log_self_affinity(t, q)
    xp = namespace(t)
    node = t[..., None]
    mean = 2 * node * (p.scale * p.scale + q.scale * q.scale)
    log_c = -sum_log1p(mean) / 2
    delta = p.loc - q.loc
    shift = t * xp.sum(delta * delta / (1 + mean), axis=-1)
    gap, tilt = (log_p + log_q) / 2 - log_c, (log_q - log_p) / 2
    lost = _lost(log_p + log_q + log_c, gap, tilt, shift)
    if may_hold(lost):
        careful = _carefully(node, p.scale, q.scale)
        gap, tilt = (
            xp.where(lost, better, plain)
            for better, plain in zip(careful, (gap, tilt), strict=True)
        )
    return Overlap(log_p, log_q, log_c, shift, gap, tilt)


def _lost(logarithms: Array, gap: Array, tilt: Array, shift: Array) -> Array:
    """Where the errors of the logarithms are visible in the divergence."""
    xp = namespace(gap)
    visible = gap + tilt * tilt / 2 + shift
    visible = xp.where(visible < 1, visible, xp.ones_like(visible))
    return -4 * epsilon(gap) * logarithms > max(1e-12, 16 * epsilon(gap)) * visible


def _carefully(node: Array, scale: Array, other: Array) -> tuple[Array, Array]:
    """gap = ¼ Σ log1p((a−b)²/(4ab)) and tilt = ¼ Σ log1p((a−b)/b), relatively accurate."""
    a, b = 1 + 4 * node * (scale * scale), 1 + 4 * node * (other * other)
    # The difference of the scales is formed before anything scales it.
    difference = 4 * node * ((scale - other) * (scale + other))
    ratio = difference / b
    gap = sum_log1p(ratio * difference / (4 * a)) / 4
    # Where one coordinate is cut, its share of the gap is above one and tilt is not used.
    xp = namespace(node)
    return gap, sum_log1p(xp.clip(ratio, -0.9955, 220.0), doublings=2) / 4
