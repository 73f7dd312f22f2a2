"""Kernel expectations between scalar normals by mpmath at 80 digits.

Closed forms where there is one (erf, erfc, 1F1); for every kernel a trapezoid rule in log r on
the density of |X − Y|, for laws of about unit scale.
"""

from __future__ import annotations

import functools

from mpmath import MPContext

mp = MPContext()  # of its own: the precision of other tests stays what it is
mp.dps = 80
mpf = mp.mpf


def exact(x):
    """A float as the number that it is."""
    return mpf(float(x))


def absolute_power(beta, delta, variance, dimension=1):
    """E‖Z‖^β for Z ~ N(δ, variance·I); δ is a length."""
    delta, variance, b = mpf(delta), mpf(variance), mpf(beta) / 2
    if variance == 0:
        return abs(delta) ** mpf(beta)
    half = mpf(dimension) / 2
    z = -(delta**2) / (2 * variance)
    ratio = mp.gamma(b + half) / mp.gamma(half)
    return (2 * variance) ** b * ratio * mp.hyp1f1(-b, half, z)


def gaussian(delta, variance, bandwidth=1, dimension=1):
    c = 1 + 2 * mpf(variance) / mpf(bandwidth) ** 2
    return -(c ** (-mpf(dimension) / 2)) * mp.exp(-(mpf(delta) ** 2) / (mpf(bandwidth) ** 2 * c))


def _decays(rate, delta, variance):
    """E e^{−rate|Z|} and E |Z| e^{−rate|Z|}."""
    rate, delta, v = mpf(rate), abs(mpf(delta)), mpf(variance)
    if v == 0:
        value = mp.exp(-rate * delta)
        return value, delta * value
    s = mp.sqrt(v)
    total, slope = mpf(0), mpf(0)
    for sign in (1, -1):
        u = (rate * s - sign * delta / s) / mp.sqrt(2)
        front = mp.exp(rate * rate * v / 2 - sign * rate * delta)
        tail = front * mp.erfc(u)
        total += tail / 2
        peak = front * mp.exp(-u * u) * s * mp.sqrt(2 / mp.pi)
        slope += ((rate * v - sign * delta) * tail - peak) / 2
    return total, -slope


def laplace(delta, variance, bandwidth=1):
    return -_decays(1 / mpf(bandwidth), delta, variance)[0]


def matern_three_halves(delta, variance, bandwidth=1):
    rate = mp.sqrt(3) / mpf(bandwidth)
    value, moment = _decays(rate, delta, variance)
    return -(value + rate * moment)


def rational(delta, variance, bandwidth=1):
    """−E 1/(1 + Z²/g²), by the Faddeeva function."""
    g, delta, v = mpf(bandwidth), mpf(delta), mpf(variance)
    if v == 0:
        return -1 / (1 + (delta / g) ** 2)
    z = mp.mpc(delta, g) / mp.sqrt(2 * v)
    value = mp.exp(-z * z) * mp.erfc(-1j * z)
    return -g * mp.sqrt(mp.pi / (2 * v)) * mp.re(value)


def inverse_multiquadric_of_centred(variance, bandwidth=1):
    """−E (1 + Z²/g²)^{−½} for Z ~ N(0, variance)."""
    z = mpf(bandwidth) ** 2 / (4 * mpf(variance))
    return -mp.sqrt(2 * z / mp.pi) * mp.exp(z) * mp.besselk(0, z)


CLOSED = {
    "squared": lambda d, v, g: mpf(d) ** 2 + v,
    "energy": lambda d, v, g: absolute_power(1, d, v),
    "energy-0.5": lambda d, v, g: absolute_power("0.5", d, v),
    "energy-1.6": lambda d, v, g: absolute_power(1.6, d, v),
    "crps": lambda d, v, g: absolute_power(1, d, v),
    "gaussian": gaussian,
    "marginal-gaussian": gaussian,
    "sum": lambda d, v, g: gaussian(d, v, g) + gaussian(d, v, 2 * mpf(g)),
    "scaled": lambda d, v, g: mpf("2.5") * gaussian(d, v, g),
    "laplace": laplace,
    "matern-1.5": matern_three_halves,
}


def divergence(expectation, p, q):
    """D(P, Q) of two normals (loc, scale) given E k(δ, variance)."""
    (m, s), (n, t) = ([exact(x) for x in law] for law in (p, q))
    cross = expectation(m - n, s * s + t * t)
    return cross - expectation(0, 2 * s * s) / 2 - expectation(0, 2 * t * t) / 2


def closed(name, bandwidth=1.0):
    return lambda d, v: CLOSED[name](d, v, exact(bandwidth))


# All kernels at unit scale.

_STEP = mpf("0.0625")


@functools.cache
def _radii():
    return tuple(mp.exp(n * _STEP) for n in range(int(-80 / _STEP), int(mpf("3.2") / _STEP)))


def _matern(nu, r):
    z = mp.sqrt(2 * mpf(nu)) * r
    return -(2 ** (1 - mpf(nu))) / mp.gamma(nu) * z ** mpf(nu) * mp.besselk(nu, z)


PROFILES = {
    "imq": lambda r: -1 / mp.sqrt(1 + r * r),
    "rational": lambda r: -((1 + r * r) ** mpf(-1.3)),
    "matern-0.8": lambda r: _matern(0.8, r),
    "energy": lambda r: r,
}


@functools.cache
def _profile_on_grid(name):
    return tuple(_STEP * r * PROFILES[name](r) for r in _radii())


@functools.cache
def _density_on_grid(delta, variance):
    front = 1 / mp.sqrt(2 * mp.pi * variance)
    two_sided = (
        mp.exp(-((r - delta) ** 2) / (2 * variance)) + mp.exp(-((r + delta) ** 2) / (2 * variance))
        for r in _radii()
    )
    return tuple(front * value for value in two_sided)


def on_grid(name):
    """E k for any kernel of PROFILES at bandwidth one; variance of about one."""

    def expectation(delta, variance):
        density = _density_on_grid(mpf(delta), mpf(variance))
        return mp.fdot(zip(density, _profile_on_grid(name), strict=True))

    return expectation
