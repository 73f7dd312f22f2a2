"""The tables that drive the generic tests: one row per kernel and per law, with its facts.

A row of KERNELS gives a builder, the facts claimed of the kernel, and k(x, y) written down a
second time, from SciPy alone. A row of DISTRIBUTIONS gives a builder of random laws. A new
class needs one row here, and is tested by everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

import kuq
from kuq.kernels.base import Scaled, Sum

Formula = Callable[[np.ndarray, float], np.ndarray]


@dataclass(frozen=True)
class KernelCase:
    """A kernel at a bandwidth, its claimed facts, and k as a function of distance and bandwidth."""

    name: str
    maker: object
    build: Callable[[float], kuq.Kernel]
    formula: Formula
    strictly_proper: bool = True
    bounded: bool = False
    translation_invariant: bool = True
    degree: float | None = None
    convex: bool = False
    marginal: bool = False

    def k(self, x: np.ndarray, y: np.ndarray, bandwidth: float = 1.0) -> np.ndarray:
        """k(x, y) with outcomes along the last axis."""
        gap = np.asarray(x) - np.asarray(y)
        if self.marginal:
            return self.formula(np.abs(gap), bandwidth).mean(axis=-1)
        return self.formula(np.sqrt((gap * gap).sum(axis=-1)), bandwidth)

    def __str__(self) -> str:
        return self.name


def _matern(nu: float) -> Formula:
    def formula(r: np.ndarray, g: float) -> np.ndarray:
        z = math.sqrt(2 * nu) * np.asarray(r) / g
        safe = np.where(z > 0, z, 1.0)
        value = 2 ** (1 - nu) / special.gamma(nu) * safe**nu * special.kv(nu, safe)
        return -np.where(z > 0, value, 1.0)

    return formula


def _power(beta: float) -> Formula:
    return lambda r, g: np.abs(r) ** beta


def _gaussian(r: np.ndarray, g: float) -> np.ndarray:
    return -np.exp(-((r / g) ** 2))


def _laplace(r: np.ndarray, g: float) -> np.ndarray:
    return -np.exp(-r / g)


def _rational(alpha: float) -> Formula:
    return lambda r, g: -((1 + (r / g) ** 2) ** -alpha)


BOUNDED = {"bounded": True}
KERNELS = [
    KernelCase("squared", kuq.SquaredError, lambda g: kuq.SquaredError(), _power(2),
               strictly_proper=False, degree=2.0, convex=True),
    KernelCase("energy", kuq.Energy, lambda g: kuq.Energy(), _power(1), degree=1.0, convex=True),
    KernelCase("energy-0.5", kuq.Energy, lambda g: kuq.Energy(0.5), _power(0.5), degree=0.5),
    KernelCase("energy-1.6", kuq.Energy, lambda g: kuq.Energy(1.6), _power(1.6), degree=1.6,
               convex=True),
    KernelCase("crps", kuq.CRPS, lambda g: kuq.CRPS(), _power(1), strictly_proper=False,
               degree=1.0, convex=True, marginal=True),
    KernelCase("gaussian", kuq.Gaussian, kuq.Gaussian, _gaussian, **BOUNDED),
    KernelCase("laplace", kuq.Laplace, kuq.Laplace, _laplace, **BOUNDED),
    KernelCase("imq", kuq.InverseMultiquadric, kuq.InverseMultiquadric, _rational(0.5), **BOUNDED),
    KernelCase("rational", kuq.RationalQuadratic, lambda g: kuq.RationalQuadratic(g, 1.3),
               _rational(1.3), **BOUNDED),
    KernelCase("matern-1.5", kuq.Matern, lambda g: kuq.Matern(g, 1.5), _matern(1.5), **BOUNDED),
    KernelCase("matern-0.8", kuq.Matern, lambda g: kuq.Matern(g, 0.8), _matern(0.8), **BOUNDED),
    KernelCase("marginal-gaussian", kuq.Marginal, lambda g: kuq.Marginal(kuq.Gaussian(g)),
               _gaussian, strictly_proper=False, marginal=True, **BOUNDED),
    KernelCase("sum", Sum, lambda g: kuq.Gaussian(g) + kuq.Gaussian(2 * g),
               lambda r, g: _gaussian(r, g) + _gaussian(r, 2 * g), **BOUNDED),
    KernelCase("scaled", Scaled, lambda g: 2.5 * kuq.Gaussian(g),
               lambda r, g: 2.5 * _gaussian(r, g), **BOUNDED),
]  # fmt: skip


@dataclass(frozen=True)
class StructuredCase:
    """A kernel on features of an outcome, its event shape, and k(x, y) of two single outcomes."""

    name: str
    build: Callable[[], kuq.Kernel]
    event: tuple[int, ...]
    k: Callable[[np.ndarray, np.ndarray], float]

    def __str__(self) -> str:
        return self.name


def _tailed(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0.3, x, 0.3)


def _all_pairs(x: np.ndarray, y: np.ndarray) -> float:
    total = 0.0
    for i in range(x.size):
        for j in range(x.size):
            total += (abs(x[i] - x[j]) ** 0.5 - abs(y[i] - y[j]) ** 0.5) ** 2
    return total


def _neighbour_pairs(x: np.ndarray, y: np.ndarray) -> float:
    cells = [(i, j) for i in range(x.shape[0]) for j in range(x.shape[1])]
    near = [(a, b) for a in cells for b in cells
            if a != b and max(abs(a[0] - b[0]), abs(a[1] - b[1])) <= 1]  # fmt: skip
    return sum((abs(x[a] - x[b]) - abs(y[a] - y[b])) ** 2 for a, b in near)


def _halves(x: np.ndarray, y: np.ndarray) -> float:
    boxes = [np.s_[:2, :3], np.s_[:2, 3:], np.s_[2:, :3], np.s_[2:, 3:]]
    return float(np.mean([np.linalg.norm(x[b] - y[b]) for b in boxes]))


def _amplitudes(x: np.ndarray) -> np.ndarray:
    """By sums over cells, one frequency after the other."""
    rows, columns = x.shape
    rings: dict[int, float] = {}
    for a in range(rows):
        for b in range(columns):
            wave = sum(
                x[i, j] * np.exp(-2j * np.pi * (a * i / rows + b * j / columns))
                for i in range(rows) for j in range(columns)
            )  # fmt: skip
            number = round(math.hypot(min(a, rows - a), min(b, columns - b)))
            rings[number] = rings.get(number, 0.0) + abs(wave) ** 2
    return np.sqrt([rings[n] for n in sorted(rings)]) / x.size


def _walk_counts(x: np.ndarray) -> np.ndarray:
    """By walking: every sequence of nodes, with the product of the weights of its edges."""
    n, out = len(x), []
    for steps in (1, 2, 3):
        walks = {(i,): 1.0 for i in range(n)}
        for _ in range(steps):
            walks = {(*w, j): v * x[w[-1], j] for w, v in walks.items() for j in range(n)}
        closed = sum(v for w, v in walks.items() if w[0] == w[-1])
        out += [sum(walks.values()) / n / math.factorial(steps), closed / n / math.factorial(steps)]
    return np.array(out)


STRUCTURED = [
    StructuredCase("tail-energy", lambda: kuq.tail(kuq.Energy(), 0.3), (3,),
                   lambda x, y: np.linalg.norm(_tailed(x) - _tailed(y))),
    StructuredCase("tail-crps", lambda: kuq.tail(kuq.CRPS(), 0.3), (3,),
                   lambda x, y: np.mean(np.abs(_tailed(x) - _tailed(y)))),
    StructuredCase("tail-gaussian", lambda: kuq.tail(kuq.Gaussian(0.8), below=0.2), (2,),
                   lambda x, y: -np.exp(-(((np.where(x < 0.2, x, 0.2)
                                            - np.where(y < 0.2, y, 0.2)) ** 2).sum()) / 0.64)),
    StructuredCase("variogram", kuq.variogram, (4,), _all_pairs),
    StructuredCase("variogram-neighbours",
                   lambda: kuq.variogram(1.0, max_lag=1, event_ndim=2), (3, 4), _neighbour_pairs),
    StructuredCase("patches", lambda: kuq.patches(kuq.Energy(), (4, 5), (2, 3)), (4, 5), _halves),
    StructuredCase("spectral", kuq.spectral, (4, 5),
                   lambda x, y: np.linalg.norm(_amplitudes(x) - _amplitudes(y))),
    StructuredCase("graph-walks", lambda: kuq.graph_walks(length=3), (3, 3),
                   lambda x, y: np.linalg.norm(_walk_counts(x) - _walk_counts(y))),
]  # fmt: skip

Builder = Callable[[np.random.Generator, tuple[int, ...], tuple[int, ...]], kuq.Prediction]


@dataclass(frozen=True)
class LawCase:
    """Random laws of one class, and whether they take d > 1, have atoms, take a bare scalar."""

    name: str
    maker: object
    build: Builder
    multivariate: bool = True
    atomic: bool = False
    scalar_event: bool = True

    def __str__(self) -> str:
        return self.name


def _loc(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape)


def _scale(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.uniform(0.4, 1.5, size=shape)


def _simplex(rng: np.random.Generator, *shape: int) -> np.ndarray:
    weights = rng.uniform(0.3, 1.0, size=shape)
    return weights / weights.sum(axis=-1, keepdims=True)


def _normal(rng, batch, event):
    return kuq.Normal(_loc(rng, *batch, *event), _scale(rng, *batch, *event), len(event))


def _point(rng, batch, event):
    return kuq.Point(_loc(rng, *batch, *event), len(event))


def _mixture(rng, batch, event):
    shape = (*batch, *event, 3)
    return kuq.NormalMixture(
        _simplex(rng, *shape), 1.5 * _loc(rng, *shape), _scale(rng, *shape), len(event)
    )


def _low_rank(rng, batch, event):
    return kuq.LowRankNormal(
        _loc(rng, *batch, *event), 0.7 * _loc(rng, *batch, *event, 2), _scale(rng, *batch, *event)
    )


def _student(rng, batch, event):
    shape = (*batch, *event)
    df = rng.uniform(6.0, 9.0, size=shape)
    return kuq.StudentT(df, _loc(rng, *shape), _scale(rng, *shape), len(event))


def _samples(rng, batch, event):
    return kuq.Samples(_loc(rng, *batch, 5, *event), len(event))


def _weighted_samples(rng, batch, event):
    values = _loc(rng, *batch, 4, *event) + 0.3
    return kuq.Samples(values, len(event), weights=_simplex(rng, *batch, 4))


DISTRIBUTIONS = [
    LawCase("normal", kuq.Normal, _normal),
    LawCase("point", kuq.Point, _point, atomic=True),
    LawCase("mixture", kuq.NormalMixture, _mixture),
    LawCase("low-rank", kuq.LowRankNormal, _low_rank, scalar_event=False),
    LawCase("student", kuq.StudentT, _student),
    LawCase("samples", kuq.Samples, _samples, atomic=True),
    LawCase("weighted-samples", kuq.Samples, _weighted_samples, atomic=True),
]


def _ensemble(rng, batch, event):
    return kuq.Ensemble(_normal(rng, (3, *batch), event), weights=[1.0, 2.0, 3.0])


def _mixed_ensemble(rng, batch, event):
    members = [_normal(rng, batch, event), _samples(rng, batch, event), _point(rng, batch, event)]
    return kuq.Ensemble(members, weights=[3.0, 2.0, 1.0])


def _evidential(rng, batch, event):
    shape = (*batch, *event)
    return kuq.NormalInverseGamma(
        _loc(rng, *shape), _scale(rng, *shape), rng.uniform(3, 4, size=shape),
        _scale(rng, *shape), len(event)
    )  # fmt: skip


#: Second-order laws that mean their mixture where a first-order law is expected.
SECOND_ORDER = [
    LawCase("ensemble", kuq.Ensemble, _ensemble),
    LawCase("mixed-ensemble", kuq.Ensemble, _mixed_ensemble, atomic=True),
    LawCase("evidential", kuq.NormalInverseGamma, _evidential),
]


def sample(law: kuq.Prediction, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draws (batch…, draws, event…) of a law, or of the mixture that a second-order law means."""
    if isinstance(law, kuq.NormalInverseGamma):
        variance = law.beta[..., None, :] / rng.standard_gamma(
            np.moveaxis(np.broadcast_to(law.alpha, (draws, *law.alpha.shape)), 0, -2)
        )
        noise = rng.standard_normal((2, *variance.shape))
        spread = noise[0] / np.sqrt(law.nu[..., None, :]) + noise[1]
        return law.loc[..., None, :] + np.sqrt(variance) * spread
    if isinstance(law, kuq.Distribution):
        return np.asarray(law.sample(draws, rng))
    assert isinstance(law, kuq.Ensemble)
    weights = np.asarray(law.member_weights())
    every = np.stack([sample(member, draws, rng) for member in law.member_list()])
    lead = (*law.batch_shape, draws)
    chosen = rng.choice(weights.size, p=weights, size=lead)
    index = chosen.reshape((1, *lead) + (1,) * len(law.event_shape))
    return np.take_along_axis(every, index, axis=0)[0]


def moved(law: kuq.Distribution, shift: float = 0.0, factor: float = 1.0) -> kuq.Distribution:
    """The law of shift + factor·X."""
    if isinstance(law, kuq.Point):
        return kuq.Point(shift + factor * law.value, law.event_ndim)
    if isinstance(law, kuq.Samples):
        return kuq.Samples(shift + factor * law.values, law.event_ndim, weights=law.weights)
    loc = shift + factor * law.loc
    if isinstance(law, kuq.LowRankNormal):
        return kuq.LowRankNormal(loc, factor * law.factor, factor * factor * law.diag)
    if isinstance(law, kuq.NormalMixture):
        return kuq.NormalMixture(law.weights, loc, factor * law.scale, law.event_ndim)
    if isinstance(law, kuq.StudentT):
        return kuq.StudentT(law.df, loc, factor * law.scale, law.event_ndim)
    assert isinstance(law, kuq.Normal)
    return kuq.Normal(loc, factor * law.scale, law.event_ndim)
