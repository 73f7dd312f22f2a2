"""Affinities of normals with independent coordinates under the Gaussian kernel."""

from __future__ import annotations

from kuq._array import Array, namespace
from kuq.distributions.atoms import Normals
from kuq.expectations.overlap import Overlap


def log_self_affinity(t: Array, p: Normals) -> Array:
    xp = namespace(t)
    return -xp.sum(xp.log1p(4 * t[..., None] * p.scale * p.scale), axis=-1) / 2


def overlap(t: Array, p: Normals, q: Normals) -> Overlap:
    xp = namespace(t)
    t = t[..., None]
    # The difference of the scales is formed before anything scales it.
    difference = (p.scale - q.scale) * (p.scale + q.scale)
    delta = p.loc - q.loc
    c = 1 + 2 * t * (p.scale * p.scale + q.scale * q.scale)
    h = 2 * t * difference / c
    bounded = xp.clip(h, -0.99, 0.99)  # beyond, the direct form is used
    return Overlap(
        log_p=-xp.sum(xp.log1p(4 * t * p.scale * p.scale), axis=-1) / 2,
        log_q=-xp.sum(xp.log1p(4 * t * q.scale * q.scale), axis=-1) / 2,
        log_c=-xp.sum(xp.log(c), axis=-1) / 2,
        shift=xp.sum(t * delta * delta / c, axis=-1),
        gap=-xp.sum(xp.log1p(-bounded * bounded), axis=-1) / 4,
        tilt=xp.sum(xp.atanh(bounded), axis=-1) / 2,
    )
