"""The training targets in the leaves of fitted trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kuq.sklearn.members import Floats

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Leaves:
    """Weighted training rows in some leaves: a sparse matrix with a row for every leaf.

    Weights say how often a training row counts, and sum to one in every leaf.
    """

    #: Where the rows of each leaf start; one more entry at the end.
    starts: Indices
    rows: Indices
    weights: Floats

    @staticmethod
    def of_tree(nodes: int, leaf_of_row: Indices, weights: Floats) -> Leaves:
        """From the leaf of every training row and the weight it had when the tree was grown.

        There is an entry for every node of the tree, empty where it is no leaf.
        """
        rows = np.flatnonzero(weights)
        rows = rows[np.argsort(leaf_of_row[rows], kind="stable")]
        leaf, weight = leaf_of_row[rows], weights[rows]
        total = np.bincount(leaf, weight, minlength=nodes)
        return Leaves(_starts(np.bincount(leaf, minlength=nodes)), rows, weight / total[leaf])

    @staticmethod
    def of_matrix(matrix: csr_array) -> Leaves:
        """From weights of the training rows, (leaves, training rows)."""
        return Leaves(matrix.indptr.astype(np.intp), matrix.indices.astype(np.intp), matrix.data)

    @staticmethod
    def joined(parts: list[Leaves]) -> Leaves:
        """The leaves of one tree after those of another."""
        return Leaves(
            _starts(np.concatenate([leaves.sizes for leaves in parts])),
            np.concatenate([leaves.rows for leaves in parts]),
            np.concatenate([leaves.weights for leaves in parts]),
        )

    @property
    def sizes(self) -> Indices:
        """How many training rows each leaf holds."""
        return np.diff(self.starts)

    def matrix(self, training_rows: int) -> csr_array:
        """Weights of the training rows, (leaves, training rows)."""
        shape = (len(self.starts) - 1, training_rows)
        return csr_array((self.weights, self.rows, self.starts), shape=shape)

    def means(self, targets: Floats) -> Floats:
        """The mean of the targets in every leaf, (leaves, outputs); zero where there are none."""
        return np.asarray(self.matrix(len(targets)) @ targets, dtype=np.float64)

    def take(self, chosen: Indices) -> Leaves:
        """Some of the leaves, in this order."""
        sizes = self.sizes[chosen]
        starts = _starts(sizes)
        place = np.arange(starts[-1]) + np.repeat(self.starts[chosen] - starts[:-1], sizes)
        return Leaves(starts, self.rows[place], self.weights[place])

    def padded(self) -> tuple[Indices, Floats]:
        """Training rows and weights, (leaves, longest), filled up with rows of weight zero."""
        sizes = self.sizes[:, None]
        place = np.arange(sizes.max(initial=1))
        inside = place < sizes
        chosen = self.starts[:-1, None] + np.where(inside, place, 0)
        return self.rows[chosen], np.where(inside, self.weights[chosen], 0.0)

    def alike(self, most: float) -> Iterator[Indices]:
        """Positions of leaves of about the same size, in parts of at most so many targets."""
        width = 1
        while width < 2 * self.sizes.max(initial=1):
            similar = np.flatnonzero((self.sizes <= width) & (self.sizes > width // 2))
            step = int(max(1, most // width))
            for start in range(0, len(similar), step):
                yield similar[start : start + step]
            width *= 2


def _starts(sizes: Indices) -> Indices:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
