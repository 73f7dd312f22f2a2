"""Affinities of normals with independent coordinates under the Gaussian kernel."""

from __future__ import annotations

from kuq._array import Array, namespace
from kuq._special import sum_log1p
from kuq.distributions.atoms import Normals
from kuq.expectations.overlap import Overlap
from kuq.expectations.product_twins import arranged


def log_self_affinity(t: Array, p: Normals) -> Array:
    return -sum_log1p(4 * t[..., None] * (p.scale * p.scale)) / 2


def overlap(t: Array, p: Normals, q: Normals) -> Overlap:
    """With a = 1 + 4tσ² and b = 1 + 4tτ² of every coordinate.

    gap = ¼ Σ log1p((a−b)²/(4ab)) and tilt = ¼ Σ log1p((a−b)/b) are relatively accurate when
    small; the logarithm of the cross affinity follows from the others.
    """
    compiled = arranged("products", t.shape[0] / 3, p, q)
    if compiled is not None:
        parts = compiled.module.overlap(compiled.scales(t), *compiled.p, *compiled.q)
        return Overlap(*map(compiled.unfold, parts))
    xp = namespace(t)
    t = t[..., None]
    a_excess, b_excess = 4 * t * (p.scale * p.scale), 4 * t * (q.scale * q.scale)
    log_p, log_q = -sum_log1p(a_excess) / 2, -sum_log1p(b_excess) / 2
    a, b = 1 + a_excess, 1 + b_excess
    # The difference of the scales is formed before anything scales it.
    difference = 4 * t * ((p.scale - q.scale) * (p.scale + q.scale))
    ratio = difference / b
    gap = sum_log1p(ratio * difference / (4 * a)) / 4
    delta = p.loc - q.loc
    return Overlap(
        log_p=log_p,
        log_q=log_q,
        log_c=(log_p + log_q) / 2 - gap,
        shift=xp.sum((2 * t) * (delta * delta) / (a + b), axis=-1),
        gap=gap,
        # Where one coordinate is cut, its share of the gap is above one and tilt is not used.
        tilt=sum_log1p(xp.clip(ratio, -0.9955, 220.0), doublings=2) / 4,
    )
