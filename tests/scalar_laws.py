"""The law of one coordinate to many digits, for every distribution: an oracle for quantiles."""

import math

import mpmath as mp
import numpy as np

import kuq


def scalar_laws(law, index):
    """[(weight, df, loc, scale)] of one coordinate; df inf is a normal, scale 0 a point."""
    if isinstance(law, kuq.Ensemble):
        members = zip(law.member_weights(), law.member_list(), strict=True)
        return [(w * v, *rest) for w, m in members for v, *rest in scalar_laws(m, index)]
    if isinstance(law, kuq.NormalInverseGamma):
        nu, alpha, beta = (a[index] for a in (law.nu, law.alpha, law.beta))
        return [(1.0, 2 * alpha, law.loc[index], math.sqrt(beta * (1 + nu) / (alpha * nu)))]
    if isinstance(law, kuq.Samples):
        batch = len(law.batch_shape)
        values = law.values[(*index[:batch], slice(None), *index[batch:])]
        even = np.full(len(values), 1 / len(values))
        weights = even if law.weights is None else law.weights[index[:batch]]
        return [(w, math.inf, v, 0.0) for w, v in zip(weights, values, strict=True)]
    if isinstance(law, kuq.Point):
        return [(1.0, math.inf, law.value[index], 0.0)]
    if isinstance(law, kuq.NormalMixture):
        parts = zip(law.weights[index], law.loc[index], law.scale[index], strict=True)
        return [(w, math.inf, loc, scale) for w, loc, scale in parts]
    if isinstance(law, kuq.LowRankNormal):
        variance = law.diag[index] + np.sum(law.factor[index] ** 2)
        return [(1.0, math.inf, law.loc[index], math.sqrt(variance))]
    df = law.df[index] if isinstance(law, kuq.StudentT) else math.inf
    return [(1.0, df, law.loc[index], law.scale[index])]


def student_chance(z, df):
    """By 2F1(1, b; c; u) = Σ (b)ₖ/(c)ₖ uᵏ with u ≤ ½, of the middle or of a tail."""

    def series(b, c, u):
        total = term = mp.mpf(1)
        k = 0
        while term > mp.eps * total:
            term *= (b + k) / (c + k) * u
            total, k = total + term, k + 1
        return total

    half, x = mp.mpf(1) / 2, df / (df + z * z)
    if x > half:
        peak = mp.gamma((df + 1) / 2) / (mp.gamma(df / 2) * mp.sqrt(df * mp.pi))
        return half + peak * z * x ** ((df + 1) / 2) * series((df + 1) / 2, 3 * half, 1 - x)
    tail = x ** (df / 2) * mp.sqrt(1 - x) / (df * mp.beta(df / 2, half))
    tail *= series((df + 1) / 2, df / 2 + 1, x)
    return tail if z < 0 else 1 - tail


def chance(parts, x):
    """P(X ≤ x) to thirty digits."""
    total = mp.mpf(0)
    for weight, df, loc, scale in parts:
        if scale == 0:
            value = mp.mpf(1) if x >= loc else mp.mpf(0)
        elif math.isinf(df):
            value = mp.ncdf((x - mp.mpf(loc)) / mp.mpf(scale))
        else:
            value = student_chance((x - mp.mpf(loc)) / mp.mpf(scale), mp.mpf(df))
        total += mp.mpf(weight) * value
    return total / sum(mp.mpf(part[0]) for part in parts)


def assert_quantile(parts, q, x, room):
    """x is the smallest with P(X ≤ x) ≥ q, up to ``room`` and the rounding of weights."""
    q = mp.mpf(q)
    rounding = mp.mpf(1e-15) * min(q, 1 - q)
    assert chance(parts, mp.mpf(float(x)) - room) < q + rounding
    assert chance(parts, mp.mpf(float(x)) + room) >= q - rounding
