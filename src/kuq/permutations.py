"""Whether the draws of members can be told apart: permutations of draws between members.

If all members are the same law, who drew which value is chance, and so every statistic is one of
those that permuted draws have, each as likely as the other: ranks among them are exact levels. All
of them follow from sums of one table of kernel values over pairs of groups. Every permutation is
the same at all inputs, so that draws may depend on each other from input to input.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kuq._array import namespace
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.samples import Samples
from kuq.errors import InsufficientDataError, ParameterError
from kuq.kernels.base import Kernel
from kuq.pooled import Pool, pool_of
from kuq.scores.options import Options
from kuq.tiles import pieces
from kuq.views import in_parts, resolve_bandwidths, rows_at_once

#: Differences below this share of the kernel's values are rounding: such statistics are equal.
_ROUNDING = 1e-11
#: The share of the memory that one array of a step may take.
_SHARE = 1 / 16


class Ranks(NamedTuple):
    """Statistics and their p-values; of all members (…), and of each of them (M, …)."""

    statistic: np.ndarray
    p_value: np.ndarray
    excess: np.ndarray
    member_p_values: np.ndarray


def ranks(
    prediction: Ensemble, score: Kernel, options: Options, permutations: int, per_input: bool
) -> tuple[Kernel, Ranks]:
    """The score with numbers as bandwidths, and the ranks of one sum over inputs or of each."""
    check_draws(prediction)
    if score.is_open:
        # One that knew of the members would not be the same for permuted draws.
        score = resolve_bandwidths(score, [_pooled(prediction)], options)
    if per_input:
        return score, Ranks(*_of_each(prediction, score, options, permutations=permutations))
    if 0 in prediction.batch_shape:
        raise InsufficientDataError(
            "member_test of no inputs: there is nothing to sum over; per_input=True gives an empty "
            "result"
        )
    step = rows_at_once([prediction], score, options)
    chunks = [prediction]
    if step is not None:
        starts = range(0, prediction.batch_shape[0], step)
        chunks = [prediction.rows(slice(start, start + step)) for start in starts]
    pool = pool_of(chunks[0], score, options)
    _check_weights(pool)
    labels = _labels(pool, options, permutations)
    total: np.ndarray | float = 0.0
    draws = len(pool.owners)
    for rows in pieces(draws, draws, _numbers(options), pool.weights):
        table = np.zeros((1, rows.stop - rows.start, draws))
        for position, chunk in enumerate(chunks):
            chunk_pool = pool if position == 0 else pool_of(chunk, score, options)
            _check_weights(chunk_pool)
            table[0] += _summed(chunk_pool, rows)
        total = total + _block_sums(table, rows, labels, options)
    # The pool has the shape of results at some inputs.
    count = math.prod((*prediction.batch_shape, *pool.shape[len(prediction.batch_shape) :]))
    assert isinstance(total, np.ndarray)
    ranked = _ranked(total / count, pool.owners)
    return score, Ranks(*(values[..., 0] for values in ranked))


@in_parts(0, 0, 1, 1)
def _of_each(
    prediction: Ensemble, score: Kernel, options: Options, permutations: int = 0
) -> tuple[np.ndarray, ...]:
    pool = pool_of(prediction, score, options)
    _check_weights(pool)
    labels = _labels(pool, options, permutations)
    draws, members = len(pool.owners), int(pool.owners.max()) + 1
    # Sums over pairs of groups of all permutations stay for all entries of a tile.
    most = max(1, _numbers(options) // (len(labels) * members * members))
    ranked = []
    for tile in pool.tiles():
        for start in range(tile.start, tile.stop, most):
            entries = slice(start, min(start + most, tile.stop))
            read = pool.rows_of(entries)
            total: np.ndarray | float = 0.0
            for rows in _reading(pool, slice(0, draws), entries.stop - entries.start):
                total = total + _block_sums(read(rows), rows, labels, options)
            assert isinstance(total, np.ndarray)
            ranked.append(_ranked(total, pool.owners))
    if not ranked:
        empty = np.zeros(0), np.zeros(0), np.zeros((members, 0)), np.zeros((members, 0))
        ranked = [Ranks(*empty)]
    joined = [np.concatenate(column, axis=-1) for column in zip(*ranked, strict=True)]
    return tuple(values.reshape(*values.shape[:-1], *pool.shape) for values in joined)


def check_draws(prediction: Ensemble) -> None:
    """Refuse what is not made of equally weighted draws of at least two members."""
    laws = prediction.groups
    if not all(isinstance(law, Samples) and not law.whole for law in laws):
        raise ParameterError(
            f"member_test needs members that are draws (Samples), got {prediction!r}; of laws that "
            "are known nothing is left to chance: they differ if their divergence is not zero, see "
            "kuq.member_divergences"
        )
    weighted = [law for law in laws if isinstance(law, Samples) and law.weights is not None]
    if prediction.weights is not None or weighted:
        what = "members" if prediction.weights is not None else "draws"
        raise ParameterError(
            f"member_test needs equal weights, got weights of {what}: draws that count differently "
            "cannot change places. Leave the weights out, or draw from the weighted laws "
            "(law.sample) first"
        )
    if prediction.member_count < 2:
        raise InsufficientDataError("member_test needs at least two members, got M = 1")
    fewest = min(law.draw_count for law in laws if isinstance(law, Samples))
    if fewest < 2:
        raise InsufficientDataError(
            "member_test needs at least two draws of every member, got N = 1"
        )


def _check_weights(pool: Pool) -> None:
    counts = np.bincount(pool.owners)[pool.owners]
    if np.any(np.abs(pool.weights * counts - 1) > 1e-9):  # NaN where all are missing
        raise ParameterError(
            "member_test needs all draws, and nan_policy='omit' has left some out; drop the inputs "
            "at which draws are missing"
        )


def _pooled(prediction: Ensemble) -> Samples:
    """The draws of all members as those of one law."""
    laws = [law for law in prediction.member_list() if isinstance(law, Samples)]
    values = [law.values for law in laws]
    axis = values[0].ndim - laws[0].event_ndim - 1
    joined = namespace(*values).concat(values, axis=axis)
    return Samples(joined, laws[0].event_ndim, nan_policy=laws[0].nan_policy)


def _labels(pool: Pool, options: Options, permutations: int) -> np.ndarray:
    """Members of every draw: as they are first, then permuted, (1 + permutations, A)."""
    rng = np.random.default_rng(options.seed)
    owners = pool.owners.astype(np.int32)
    permuted = rng.permuted(np.tile(owners, (permutations, 1)), axis=1)
    return np.concatenate([owners[None], permuted])


def _numbers(options: Options) -> int:
    return max(1, int(min(_SHARE * options.max_memory / 8, 2**40)))


def _reading(pool: Pool, rows: slice, entries: int) -> Iterator[slice]:
    """Rows of a table of some entries that are made at once."""
    each = entries * pool.row
    for block in pieces(rows.stop - rows.start, each, max(pool.budget, each), pool.weights):
        yield slice(rows.start + block.start, rows.start + block.stop)


def _summed(pool: Pool, rows: slice) -> np.ndarray:
    """Some rows of the table, summed over all entries, (rows, A)."""
    total = np.zeros((rows.stop - rows.start, len(pool.owners)))
    for entries in pool.tiles():
        read = pool.rows_of(entries)
        for block in _reading(pool, rows, entries.stop - entries.start):
            total[block.start - rows.start : block.stop - rows.start] += read(block).sum(axis=0)
    return total


def _block_sums(table: np.ndarray, rows: slice, labels: np.ndarray, options: Options) -> np.ndarray:
    """Sums over pairs of groups of some rows (n, rows, A), for every labelling, (n, B, M, M)."""
    n, height, draws = table.shape
    members = int(labels[0].max()) + 1
    flat = np.ascontiguousarray(table).reshape(n * height, draws)
    pair_sums = np.empty((n, len(labels), members, members))
    each = members * max(draws, n * height)
    for chunk in pieces(len(labels), each, _numbers(options), table):
        chunk_labels = labels[chunk]
        groups = (chunk_labels.T[:, :, None] == np.arange(members)).astype(float)  # (A, B, M)
        count = len(chunk_labels)
        sums = (flat @ groups.reshape(draws, -1)).reshape(n, height, count, members)
        left = groups[rows].transpose(1, 2, 0)  # (B, M, rows)
        pair_sums[:, chunk] = left @ sums.transpose(0, 2, 1, 3)
    return pair_sums


def _ranked(sums: np.ndarray, owners: np.ndarray) -> Ranks:
    """From sums over pairs of groups, (n, 1 + B, M, M): statistics (n) and (M, n)."""
    counts = np.bincount(owners).astype(float)
    members = len(counts)
    inside = np.diagonal(sums, axis1=-2, axis2=-1) / (2 * counts * (counts - 1))
    between = sums / (counts[:, None] * counts)
    d = between - inside[..., :, None] - inside[..., None, :]
    d = np.where(np.eye(members, dtype=bool), 0.0, d)
    to_others = d.sum(axis=-1) / (members - 1)
    every = to_others.mean(axis=-1)
    excess = to_others - every[..., None]
    rounding = _ROUNDING * np.abs(between).mean(axis=(-2, -1))  # (n, 1 + B)
    p = _share(every, every[:, :1], rounding)
    largest = excess.max(axis=-1)
    of_members = [_share(largest, excess[:, :1, m], rounding) for m in range(members)]
    return Ranks(every[:, 0], p, excess[:, 0].T, np.stack(of_members))


def _share(values: np.ndarray, observed: np.ndarray, rounding: np.ndarray) -> np.ndarray:
    """The share of values (n, 1 + B) that reach the ``observed`` (n, 1), which is one of them."""
    reached = np.mean(values >= observed - rounding, axis=1)
    return np.where(np.isnan(observed[:, 0]), np.nan, reached)
