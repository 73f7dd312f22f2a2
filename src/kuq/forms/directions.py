"""Random directions: what very many draws are projected on, and the projections piece by piece."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kuq._numbers import whole_number
from kuq._threads import in_threads, workers
from kuq.distributions.laws import Stack, draws_of

#: Independent units at least: of fewer, errors are more often beyond three standard errors.
_FEWEST_UNITS = 20
#: Units of which more only cost their start: a normal law is as good as that of Student.
_USUAL_UNITS = 100
#: Numbers of projections at once, and of the draws that they are made from.
_AT_ONCE, _OF_DRAWS = 2**19, 2**15
#: Directions for which draws are read once, where memory allows it.
_TOGETHER = 4
#: Numbers beside a projection that its sums need: sorted draws and weights, places, buckets.
_BESIDE = 6


class Directions(NamedTuple):
    """One unit of the random directions of a call; units are independent of each other.

    Inside of a unit directions are orthogonal as far as the dimension allows: over all d of them
    (θ·x)² sums up to ‖x‖², so that their mean varies less than that of independent ones.
    """

    seed: tuple[int, ...]
    #: how many all units have at least
    wanted: int
    unit: int = 0

    def size(self, dimension: int) -> int:
        """Directions of a unit: whole orthogonal bases, unless units would be too few."""
        most = self.wanted // _FEWEST_UNITS
        if most < dimension:
            return max(1, most)
        return dimension * max(1, self.wanted // _USUAL_UNITS // dimension)

    def units(self, dimension: int) -> list[Directions]:
        return [self._replace(unit=k) for k in range(-(-self.wanted // self.size(dimension)))]

    def generator(self) -> np.random.Generator:
        return np.random.default_rng([*self.seed, self.unit])


@functools.lru_cache(maxsize=4)
def unit_vectors(directions: Directions, dimension: int) -> np.ndarray:
    """The directions of a unit, (d, k), from the first numbers of its generator."""
    rng = directions.generator()
    left, bases = directions.size(dimension), []
    while left > 0:
        basis, _ = np.linalg.qr(rng.standard_normal((dimension, min(left, dimension))))
        bases.append(basis)
        left -= basis.shape[1]
    return np.concatenate(bases, axis=1)


class Piece(NamedTuple):
    """Some batch entries and some directions."""

    entries: slice
    directions: slice


def over_pieces(
    stack: Stack,
    vectors: np.ndarray,
    weights: np.ndarray | None,
    memory: float,
    compute: Callable[[np.ndarray, Piece], Sequence[np.ndarray]],
) -> list[np.ndarray]:
    """Sums over all directions (d, k) of arrays (…, entries) that come from projections.

    ``compute`` gets those of some directions, (k, n, T), of the draws of all members one after the
    other, and gives sums over the directions. ``weights`` are those of the coordinates.
    """
    if weights is not None:
        vectors = vectors * np.sqrt(np.asarray(weights, dtype=float).reshape(-1, 1))
    total = sum(int(law.atoms.lead[0]) * law.count for law in stack.groups)
    n, count = stack.batch_count, vectors.shape[1]
    each = 8 * total * (1 + _BESIDE)
    # Several at once even of very many draws, so that these are read less often.
    wanted = max(_AT_ONCE * 8 * (1 + _BESIDE), _TOGETHER * each)
    room = max(1, int(min(wanted, memory / workers()) // each))
    step = min(count, room)
    entries = max(1, min(n, room // step))
    threads = max(1, int(min(workers(), memory // (each * step * entries))))

    def piece(place: Piece) -> Sequence[np.ndarray]:
        return compute(_projections(stack, vectors[:, place.directions], place.entries), place)

    rows = [slice(i, min(i + entries, n)) for i in range(0, n, entries)]
    columns = [slice(k, min(k + step, count)) for k in range(0, count, step)]
    results = in_threads(piece, map(Piece._make, itertools.product(rows, columns)), threads)
    sums = []
    for i in range(0, len(results), len(columns)):
        of_rows = zip(*results[i : i + len(columns)], strict=True)
        sums.append([sum(values[1:], start=values[0]) for values in of_rows])
    return [np.concatenate(values, axis=-1) for values in zip(*sums, strict=True)]


def _projections(stack: Stack, vectors: np.ndarray, entries: slice) -> np.ndarray:
    """θ·(x − pivot) of the draws of all members, (k, n, T), in doubles; no copy of the draws."""
    laws = [draws_of(law)[:, entries] for law in stack.groups]
    n, d = laws[0].shape[1], laws[0].shape[3]
    projections = np.empty((vectors.shape[1], n, sum(x.shape[0] * x.shape[2] for x in laws)))
    pivot = np.asarray(stack.pivot()[entries], dtype=float)
    start = 0
    for x in laws:
        for m in range(x.shape[0]):
            for rows, draws in _parts(n, x.shape[2], d):
                centred = x[m, rows, draws] - pivot[rows, None, :]
                flat = vectors.T @ centred.reshape(-1, d).T
                place = slice(start + draws.start, start + draws.stop)
                projections[:, rows, place] = flat.reshape(len(flat), *centred.shape[:2])
            start += x.shape[2]
    return projections


def _parts(n: int, count: int, d: int) -> Iterator[tuple[slice, slice]]:
    """Entries and draws whose numbers stay in the cache."""
    draws = max(1, min(count, _OF_DRAWS // d))
    rows = max(1, min(n, _OF_DRAWS // (d * draws)))
    for i in range(0, n, rows):
        for j in range(0, count, draws):
            yield slice(i, min(i + rows, n)), slice(j, min(j + draws, count))


def checked_directions(directions: int | None) -> int | None:
    """How many a caller may ask for."""
    if directions is None:
        return None
    return whole_number(directions, "directions", _FEWEST_UNITS, instead=" or None")
