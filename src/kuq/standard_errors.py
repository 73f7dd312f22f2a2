"""How far AU, EU and TU would move with other members, and with other draws of the same members.

With D_ij = θ + g_i + g_j + e_ij, the projections of a symmetric statistic (Hoeffding), AU and EU
are sums over members of independent parts, and a rest of pairs:

    AU − E AU = Σ w_i h_i,    EU − E EU = Σ c_i g_i + Σ b_ij e_ij,

b_ij = w_i w_j / (1 − Σw²) and c_i = 2 Σ_j b_ij. Members that are draws differ from their laws, and
independently of each other, so that this is the spread over members and draws together. Given the
members the same is done once more, with the kernel of two draws in place of D: what moves is

    Σ b_ij a_ij + Σ e_i h_i,    a_ij = Σ v_a v_b k(x_ia, x_jb),    h_i = ½ Σ v_a v_b k(x_ia, x_ib),

e_i = w_i for AU and −c_i for EU. Variances of the projections contain those of the rests, which are
known by themselves and taken away: for equal weights the squares of all standard errors have no
bias (Efron & Stein 1981). Weights are fixed numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kuq import answers
from kuq._array import as_numpy
from kuq._threads import in_threads
from kuq.distributions.base import Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.samples import Samples
from kuq.driver import threads_for
from kuq.errors import InsufficientDataError, ParameterError
from kuq.kernels.base import Kernel, MarginalStage, Score
from kuq.pooled import Pool, Sums, pool_of
from kuq.scores.options import Options
from kuq.views import AnyScore, in_parts, resolve_bandwidths, views

#: A variance of pairs can be told apart from that of single ones from so many on.
FEWEST = 4
#: The least share of the variance of pairs that a sum may have: differences fall below zero.
_LEAST = 0.25


class Variances(NamedTuple):
    """Squares of standard errors, over the entries of a result each."""

    aleatoric: np.ndarray
    epistemic: np.ndarray
    total: np.ndarray


class StandardErrors(NamedTuple):
    #: standard errors of AU, EU and TU
    values: tuple[np.ndarray, ...]
    #: what they cover
    over: str
    #: the fewest draws of a member, None if laws are closed
    draws: int | None
    score: Score
    method: str


def standard_errors(
    prediction: Ensemble, score: Score, options: Options, estimator: str, over: str
) -> StandardErrors:
    """Standard errors of AU, EU and TU over members, draws or both."""
    if over != "draws" and prediction.member_count < FEWEST:
        raise InsufficientDataError(
            f"a standard error over members needs at least {FEWEST} of them with weight, got "
            f'M = {prediction.member_count}; over="draws" is what draws of each law leave open'
        )
    score = resolve_bandwidths(score, [prediction], options)
    draws = _fewest_draws(prediction, score, options)
    if over == "draws" and draws is None:
        raise ParameterError(
            f'over="draws" needs members that are draws, got {prediction!r}; their laws are known '
            'and leave nothing to chance, over="members" is the spread over models'
        )
    noise: tuple[np.ndarray, ...] = ()
    if over == "draws" or (over == "members" and draws is not None):
        if not isinstance(score, Kernel):
            raise ParameterError(
                "under the log score draws stand for densities, and the spread over draws alone is "
                'not known; ask for over="both"'
            )
        noise = over_draws(prediction, score, options, estimator=estimator)
    if over == "draws":
        return StandardErrors(_roots(noise), over, draws, score, "samples")
    score, *variances, method = over_members(prediction, score, options, estimator=estimator)
    if noise:
        variances = [both - of_draws for both, of_draws in zip(variances, noise, strict=True)]
    return StandardErrors(
        _roots(variances), "members" if draws is None else over, draws, score, method
    )


def _roots(variances: Iterable[np.ndarray]) -> tuple[np.ndarray, ...]:
    return tuple(np.sqrt(np.maximum(variance, 0)) for variance in variances)


def _fewest_draws(prediction: Ensemble, score: Score, options: Options) -> int | None:
    """Draws of the member that has the fewest, in the sight of any term."""
    laws = prediction.groups
    counts = [law.draw_count for law in laws if isinstance(law, Samples) and not law.whole]
    if not counts and options.draws is not None:  # which may not be needed
        seen = [views(term, options, prediction)[0].stack for term in score.parts]
        counts = [law.count for stack in seen for law in stack.groups if law.drawn]
        local = [g.source.count for stack in seen for g in stack.groups if g.source is not None]
        counts += [count for count in local if count > 0]
    return min(counts, default=None)


def _matrix_bytes(prediction: Prediction, score: Score) -> int:
    """What the matrix of divergences takes, with the copies made on the way."""
    stages = (stage for term in score.parts for stage in term.stages)
    marginal = any(isinstance(stage, MarginalStage) for stage in stages)
    members = prediction.member_count if isinstance(prediction, Ensemble) else 1
    each = math.prod(prediction.event_shape) if marginal else 1
    return 8 * 4 * members**2 * each * math.prod(prediction.batch_shape)


@in_parts(0, 0, 0, beside=_matrix_bytes)
def over_members(
    prediction: Ensemble, score: AnyScore, options: Options, estimator: str = "pairwise"
) -> tuple[AnyScore, np.ndarray, np.ndarray, np.ndarray, str]:
    """The score, the variances of AU, EU and TU over members and their draws, and the method."""
    resolved, entropies, matrix, method = answers.member_parts(prediction, score, options)
    h, d = (as_numpy(values, "a standard error") for values in (entropies, matrix))
    w = as_numpy(prediction.member_weights(), "weights of members")
    if estimator == "bma" and score.local:
        laws = prediction.member_list()
        divergences = [answers.divergence(prediction, law, resolved, options) for law in laws]
        informed = np.stack([as_numpy(values, "a standard error") for values in divergences])
        return resolved, *_of_means(h, informed, w), method
    return resolved, *_of_pairs(h, d, w, _factor(w, options, estimator)), method


@in_parts(0, 0, 0)
def over_draws(
    prediction: Ensemble, score: Kernel, options: Options, estimator: str = "pairwise"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The variances of AU, EU and TU over draws of the members that are there."""
    pool = pool_of(prediction, resolve_bandwidths(score, [prediction], options), options)
    _check_draws(pool)
    w = as_numpy(prediction.member_weights(), "weights of members")
    factor = _factor(w, options, estimator)
    tiles = list(pool.tiles())
    threads = threads_for(pool.count * pool.size, pool.weights)
    variances = in_threads(lambda entries: _of_draws(pool, entries, w, factor), tiles, threads)
    columns = zip(*variances or [Variances(*[np.zeros(0)] * 3)], strict=True)
    aleatoric, epistemic, total = (np.concatenate(x).reshape(pool.shape) for x in columns)
    return aleatoric, epistemic, total


def _factor(w: np.ndarray, options: Options, estimator: str) -> float:
    """What EU is of the unbiased pairwise value."""
    factor = 1.0 if options.unbiased_members else float(1 - np.sum(w * w))
    return factor / 2 if estimator == "bma" else factor


def _check_draws(pool: Pool) -> None:
    counts = np.bincount(pool.owners, minlength=len(pool.drawn))[pool.drawn]
    if counts.min() < FEWEST:
        raise InsufficientDataError(
            f"a standard error over draws needs at least {FEWEST} draws of each law, got "
            f'N = {counts.min()}; over="both" takes the spread from the members'
        )


# Symmetric tables.


class _Projected(NamedTuple):
    """A symmetric table k_ab as mean + f_a + f_b + e_ab, over entries (n)."""

    mean: np.ndarray
    #: f, (n, A)
    parts: np.ndarray
    #: the variance of e, (n,)
    rest: np.ndarray


def _projected(rows: np.ndarray, squares: np.ndarray, v: np.ndarray) -> _Projected:
    """From Σ_b v_b k_ab without the diagonal, (n, A), and Σ v_a v_b k²_ab, (n,)."""
    q = np.sum(v * v, axis=-1)
    total = np.sum(v * rows, axis=-1)
    mean = total / (1 - q)
    around = rows - mean[..., None] * (1 - v)
    parts = around / (1 - v)
    parts = parts - np.sum(v * parts, axis=-1, keepdims=True)
    parts = parts * ((1 - q) / _positive(1 - 2 * q))[..., None]
    square = v * parts * parts
    left = squares - mean * total  # Σ v_a v_b (k − mean)²
    left = left - 4 * np.sum(v * parts * around, axis=-1)
    left = left + 2 * np.sum((1 - 2 * v) * square, axis=-1)
    return _Projected(mean, parts, np.maximum(left, 0) / _positive(1 - 3 * q))


def _positive(values: np.ndarray) -> np.ndarray:
    """NaN where weights are too uneven for a variance."""
    return np.where(values > 1e-9, values, np.nan)


def _sum(first: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """The variance of single parts, an estimate that may be negative, and that of the rest."""
    return np.asarray(np.maximum(first + rest, _LEAST * rest))


# Members.


@np.errstate(invalid="ignore")
def _of_pairs(h: np.ndarray, d: np.ndarray, w: np.ndarray, factor: float) -> Variances:
    """From entropies (M, n…) and divergences (M, M, n…)."""
    h, d = np.moveaxis(h, 0, -1), np.moveaxis(d, (0, 1), (-2, -1))
    d = (d + np.matrix_transpose(d)) / 2  # those of the log score have a direction
    q = float(np.sum(w * w))
    unbiased = w * (1 / (1 - q))
    # Shifted by their mean first: sums of squares of large numbers lose the digits of small ones.
    size = np.sum(d * (w[:, None] * w), axis=(-2, -1), keepdims=True) / (1 - q)
    d = np.where(np.eye(len(w)) > 0, 0.0, d - size)
    table = _projected(d @ w, np.sum(d * d * (w[:, None] * w), axis=(-2, -1)), w)
    noise = h - np.sum(w * h, axis=-1, keepdims=True)
    of_noise = np.sum(unbiased * noise * noise, axis=-1)
    of_pairs = np.sum(unbiased * table.parts**2, axis=-1) - table.rest * (q / (1 - 2 * q))
    together = np.sum(unbiased * noise * table.parts, axis=-1)
    c = 2 * factor * unbiased * (1 - w)
    rest = 2 * table.rest * (q * q - np.sum(w**4)) * (factor / (1 - q)) ** 2
    first = of_pairs * np.sum(c * c)
    both = first + 2 * together * np.sum(c * w) + of_noise * q
    return Variances(of_noise * q, _sum(first, rest), _sum(both, rest))


@np.errstate(invalid="ignore")
def _of_means(h: np.ndarray, informed: np.ndarray, w: np.ndarray) -> Variances:
    """From entropies and KL(P_i‖P̄), (M, n…) each.

    The mutual information Σ w_i KL(P_i‖P̄) moves with a weight as with a term of its sum: what the
    mixture changes has no first order.
    """
    w = w.reshape(-1, *(1,) * (h.ndim - 1))
    q = np.sum(w * w)

    def spread(values: np.ndarray) -> np.ndarray:
        away = values - np.sum(w * values, axis=0)
        return np.asarray(np.sum(w * away * away, axis=0) * q / (1 - q))

    return Variances(spread(h), spread(informed), spread(h + informed))


# Draws.


@np.errstate(invalid="ignore", divide="ignore")
def _of_draws(pool: Pool, entries: slice, w: np.ndarray, factor: float) -> Variances:
    sums = pool.sums(entries)
    members = len(w)
    pairs = factor * (w[:, None] * w) / (1 - np.sum(w * w))
    np.fill_diagonal(pairs, 0)
    counts = pairs.sum(axis=1) * 2
    shape = (entries.stop - entries.start, members)
    first = np.zeros((3, *shape))
    rest = np.zeros((3, *shape))
    crossed = np.zeros((*shape, members))
    q = np.zeros(shape)
    means = np.zeros((*shape, members))
    for i in np.flatnonzero(pool.drawn):
        mine = pool.owners == i
        v = pool.weights if len(pool.weights) == 1 else pool.weights[entries]
        v = v[:, mine]
        rows = sums.rows[:, mine, :]
        q[:, i] = np.sum(v * v, axis=-1)
        projected = _projected(rows[..., i], sums.squares[:, i, i], v)
        means[:, i] = np.sum(v[..., None] * rows, axis=1)
        parts = rows - means[:, i, None]
        crossed[:, i] = np.sum(v[..., None] * parts * parts, axis=1)
        scale = np.ones(1) if pool.corrected[i] else 1 - q[:, i]
        between = 2 * (parts @ pairs[i])
        for k, (b, e) in enumerate(((0, w[i]), (1, -counts[i]), (1, w[i] - counts[i]))):
            alone = e * scale
            moved = b * between + alone[:, None] * projected.parts
            spread = np.sum(v * moved * moved, axis=-1) / (1 - q[:, i])
            of_rest = alone * alone * projected.rest
            first[k, :, i] = q[:, i] * (spread - of_rest * (q[:, i] / (1 - 2 * q[:, i])))
            rest[k, :, i] = of_rest * (q[:, i] * q[:, i] / (2 * (1 - q[:, i])))
    return _with_pairs(sums, pool.drawn, pairs, q, means, crossed, first, rest)


def _with_pairs(
    sums: Sums,
    drawn: np.ndarray,
    pairs: np.ndarray,
    q: np.ndarray,
    means: np.ndarray,
    crossed: np.ndarray,
    first: np.ndarray,
    rest: np.ndarray,
) -> Variances:
    """Add what pairs of draws of different members do by themselves."""
    left = sums.squares - means * means - crossed - np.matrix_transpose(crossed)
    left = np.maximum(left, 0) / ((1 - q[:, :, None]) * (1 - q[:, None, :]))
    both = drawn[:, None] & drawn & ~np.eye(len(drawn), dtype=bool)
    left = np.where(both, 4 * pairs * pairs * left, 0.0)
    ratio = q[:, :, None] * q[:, None, :]
    within = np.sum(left * ratio, axis=(1, 2))
    variances = []
    for k in range(3):
        alone, of_pairs = first[k].sum(axis=1), rest[k].sum(axis=1)
        if k > 0:  # EU and TU
            alone, of_pairs = alone - within, of_pairs + within / 2
        variances.append(_sum(alone, of_pairs))
    return Variances(*variances)
