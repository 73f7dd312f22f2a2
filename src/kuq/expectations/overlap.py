"""The Gaussian kernel at scale t: entropy and divergence from logarithms of affinities.

φ(P, Q) = E exp(−t‖X−Y‖²). In high dimension φ underflows, and for close members the divergence
½φ(P,P) + ½φ(Q,Q) − φ(P,Q) cancels; hence logarithms, and their differences computed apart.
"""

from __future__ import annotations

from typing import NamedTuple

from kuq._array import Array, namespace


class Overlap(NamedTuple):
    """Affinities of two laws at scale t.

    With A, B the self affinities and C the cross affinity of the centred laws: ``log_p``,
    ``log_q``, ``log_c`` are their logarithms, ``shift`` ≥ 0 lowers the cross affinity by the
    distance of the means, ``gap`` = log √(AB)/C ≥ 0 and ``tilt`` = ½ log A/B up to sign.
    ``gap`` and ``tilt`` are relatively accurate when small.
    """

    log_p: Array
    log_q: Array
    log_c: Array
    shift: Array
    gap: Array
    tilt: Array


def entropy(log_self: Array) -> Array:
    """½(1 − φ(P, P))."""
    return -namespace(log_self).expm1(log_self) / 2


def divergence(o: Overlap) -> Array:
    """½φ(P,P) + ½φ(Q,Q) − φ(P,Q), all terms ≥ 0 where the laws are close."""
    xp = namespace(o.log_p)
    close = o.gap + xp.abs(o.tilt) < 1
    zero = xp.zeros_like(o.gap)
    gap, tilt = xp.where(close, o.gap, zero), xp.where(close, o.tilt, zero)
    half = xp.sinh(tilt / 2)
    near = xp.exp(o.log_c) * (xp.expm1(gap) * xp.cosh(tilt) + 2 * half * half - xp.expm1(-o.shift))
    far = (xp.exp(o.log_p) + xp.exp(o.log_q)) / 2 - xp.exp(o.log_c - o.shift)
    return xp.where(close, near, far)
