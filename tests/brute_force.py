"""Kernel expectations by plain numerics: densities of X − Y in one dimension, draws in others.

Nothing here knows how kuq computes: laws are read as SciPy densities and atoms, kernels come as
formulas of the distance, and integrals are trapezoid sums in log r on a fine grid.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import stats

import kuq

#: r = |x − y| on a logarithmic grid with the weights of ∫ dr
_U = np.arange(-40.0, 9.0, 0.04)
R = np.exp(_U)
R_WEIGHTS = 0.04 * R
_SINH = np.sinh(np.arange(-9.0, 9.0, 0.02))
_COSH = 0.02 * np.cosh(np.arange(-9.0, 9.0, 0.02))


@dataclass
class Law1D:
    """A scalar law: atoms and densities, with weights that sum to one together."""

    atoms: list[tuple[float, float]] = field(default_factory=list)  # (weight, place)
    densities: list[tuple[float, object]] = field(default_factory=list)  # (weight, scipy law)

    def cdf(self, x: np.ndarray) -> np.ndarray:
        steps = sum((w * (x >= place) for w, place in self.atoms), np.zeros_like(x))
        return sum((w * d.cdf(x) for w, d in self.densities), steps)

    def pdf(self, x: np.ndarray) -> np.ndarray:
        return sum((w * d.pdf(x) for w, d in self.densities), np.zeros_like(x))


def scalar_law(law: kuq.Prediction, weight: float = 1.0) -> Law1D:
    """A law with event shape (1,) and no batch, from its parameters."""
    if isinstance(law, kuq.Ensemble):
        out = Law1D()
        for w, member in zip(np.asarray(law.member_weights()), law.member_list(), strict=True):
            part = scalar_law(member, weight * float(w))
            out.atoms += part.atoms
            out.densities += part.densities
        return out
    if isinstance(law, kuq.Point):
        return Law1D(atoms=[(weight, float(law.value[0]))])
    if isinstance(law, kuq.Samples):
        n = law.values.shape[0]
        w = np.full(n, 1 / n) if law.weights is None else law.weights
        return Law1D(atoms=[(weight * float(w[i]), float(law.values[i, 0])) for i in range(n)])
    if isinstance(law, kuq.NormalInverseGamma):
        scale = np.sqrt(law.beta * (law.nu + 1) / law.nu / law.alpha)
        return Law1D(densities=[(weight, stats.t(2 * law.alpha[0], law.loc[0], scale[0]))])
    if isinstance(law, kuq.StudentT):
        return Law1D(densities=[(weight, stats.t(law.df[0], law.loc[0], law.scale[0]))])
    if isinstance(law, kuq.NormalMixture):
        rows = zip(law.weights[0], law.loc[0], law.scale[0], strict=True)
        return Law1D(densities=[(weight * w, stats.norm(m, s)) for w, m, s in rows])
    if isinstance(law, kuq.LowRankNormal):
        scale = np.sqrt(law.diag[0] + (law.factor[0] ** 2).sum())
        return Law1D(densities=[(weight, stats.norm(law.loc[0], scale))])
    assert isinstance(law, kuq.Normal)
    return Law1D(densities=[(weight, stats.norm(law.loc[0], law.scale[0]))])


@dataclass
class Distance:
    """The law of r = |X − Y|: weights at given distances, and a density on the grid R."""

    places: np.ndarray
    weights: np.ndarray
    density: np.ndarray

    def mean(self, formula, bandwidth: float = 1.0) -> float:
        """E k(X, Y) for k given as a function of r."""
        smooth = (R_WEIGHTS * self.density * formula(R, bandwidth)).sum()
        return float(smooth + (self.weights * formula(self.places, bandwidth)).sum())


def distance(p: Law1D, q: Law1D) -> Distance:
    density = np.zeros_like(R)
    for w, x in p.atoms:
        density += w * (q.pdf(x - R) + q.pdf(x + R))
    for v, y in q.atoms:
        density += v * (p.pdf(y - R) + p.pdf(y + R))
    for w, f in p.densities:
        for v, g in q.densities:
            density += w * v * _convolved(f, g)
    places = np.array([abs(x - y) for _, x in p.atoms for _, y in q.atoms])
    weights = np.array([w * v for w, _ in p.atoms for v, _ in q.atoms])
    return Distance(places, weights, density)


def _convolved(f, g) -> np.ndarray:
    """The density of |X − Y| at R for two continuous laws."""
    if f.dist.name == g.dist.name == "norm":
        gap = stats.norm(f.mean() - g.mean(), np.hypot(f.std(), g.std()))
        return gap.pdf(R) + gap.pdf(-R)
    centre, scale = f.mean(), f.std()
    x = centre + scale * _SINH
    weights = scale * _COSH * f.pdf(x)
    return g.pdf(x[None, :] - R[:, None]) @ weights + g.pdf(x[None, :] + R[:, None]) @ weights


def squared_cdf_distance(p: Law1D, q: Law1D) -> float:
    """∫(F − G)² by Gauss-Legendre panels that break at every atom."""
    breaks = [place for law in (p, q) for _, place in law.atoms]
    for _, d in p.densities + q.densities:
        breaks += list(d.mean() + d.std() * np.sinh(np.linspace(-9.0, 9.0, 121)))
    breaks = np.unique(breaks)
    nodes, weights = np.polynomial.legendre.leggauss(10)
    half = np.diff(breaks)[:, None] / 2
    x = breaks[:-1, None] + half * (1 + nodes)
    return float((half * weights * (p.cdf(x) - q.cdf(x)) ** 2).sum())


def z_value(exact: float, values: np.ndarray) -> float:
    """How many standard errors a value lies from the mean of independent draws."""
    error = values.std(ddof=1) / np.sqrt(values.size)
    difference = abs(exact - values.mean())
    tiny = 1e-7 * (abs(exact) + np.abs(values).max())
    return 0.0 if difference <= tiny else float(difference / max(error, 1e-300))
