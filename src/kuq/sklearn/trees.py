"""Trees as members: a leaf holds training targets, hence an empirical distribution."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final
from weakref import WeakSet

import numpy as np
from scipy.sparse import csr_array

import kuq
from kuq.sklearn.leaves import Indices, Leaves
from kuq.sklearn.members import Floats, Members, has_plain_bandwidths

#: Predictions of so many bytes are refused: they are meant for fewer rows.
_TOO_LARGE = 2**33
#: The share of leaves with one training row above which the split says little about noise.
_TOO_MANY_SINGLE = 0.5
#: Fitted models whose leaves of one row were spoken of.
_WARNED_OF: WeakSet[Any] = WeakSet()


@final
@dataclass(frozen=True)
class TreeMembers(Members):
    """One member per tree: the weighted targets of the leaf that a row falls into."""

    #: The node of every tree that the rows of an input fall into, (rows, trees).
    apply: Callable[[Any], Indices]
    #: Entries for the nodes of all trees.
    leaves: Leaves
    #: Where the nodes of each tree start.
    offsets: Indices
    #: (training rows, outputs), or (training rows,) for scalar targets.
    targets: Floats
    #: Whether to warn of leaves that know no noise.
    cautious: bool
    #: What is fitted, and is warned of once.
    model: Any

    @property
    def numbers_per_row(self) -> int:
        outputs = int(self.targets[0].size)
        return len(self.offsets) * int(self.leaves.sizes.max()) * (outputs + 1)

    def ensemble(self, X: Any) -> kuq.Ensemble:
        """Leaves of different sizes are filled up with targets of weight zero."""
        met = self.apply(X) + self.offsets
        shape = (len(self.offsets), len(met))
        size = self.leaves.sizes[met].max(initial=1) * met.size
        if 8 * size * (self.targets[0].size + 1) > _TOO_LARGE:
            raise kuq.ParameterError(
                f"the leaves for {len(met)} rows hold too many targets for memory; pass fewer "
                "rows at a time, or use UncertaintyRegressor.from_fitted(...).predict_uncertainty"
            )
        rows, weights = self.leaves.take(met.T.reshape(-1)).padded()
        values = self.targets[rows].reshape(*shape, -1, *self.targets.shape[1:])
        event_ndim = self.targets.ndim - 1
        weights = weights.reshape(*shape, -1)
        return kuq.Ensemble(kuq.Samples(values, event_ndim, weights=weights, whole=True))

    def warn_of_single_rows(self, stacklevel: int) -> None:
        """Say what leaves of one row mean for the split, and what to do: once of a fitted model."""
        if not self.cautious or self.model in _WARNED_OF:
            return
        filled = self.leaves.sizes[self.leaves.sizes > 0]
        share = np.count_nonzero(filled == 1) / len(filled)
        if share > _TOO_MANY_SINGLE:
            warnings.warn(
                f"{100 * share:.0f} % of the leaves hold one training row and know no noise, so "
                "the spread of the trees cannot be split into aleatoric and epistemic; grow trees "
                "with min_samples_leaf=10 or more, or take the noise from out-of-bag residuals: "
                'UncertaintyRegressor.from_fitted(…, noise="normal"). With noise="leaves" leaves '
                "are taken as they are, without this warning.",
                stacklevel=stacklevel + 1,
            )
            _WARNED_OF.add(self.model)  # not where the warning is an error

    def decompose(
        self, X: Any, score: kuq.Score, estimator: str, unbiased: bool | str, max_memory: float
    ) -> kuq.Uncertainty:
        """Every leaf is measured once, however many rows fall into it.

        With H of leaves and of the mixture P̄ of all trees, Σ w w' D = 2 (H(P̄) − Σ w H). The
        difference costs digits only where trees agree far better than forests do.
        """
        self.warn_of_single_rows(stacklevel=3)
        met = self.apply(X) + self.offsets
        typical = float(np.median(self.leaves.sizes[met]))
        if not isinstance(score, kuq.Kernel) or not has_plain_bandwidths(score):
            u = super().decompose(X, score, estimator, unbiased, max_memory)
            return dataclasses.replace(u, values_per_law=typical)
        first = X.iloc[:1] if hasattr(X, "iloc") else X[:1]
        form = kuq.decompose(  # it checks the options, too
            self.ensemble(first),
            score,
            estimator=estimator,
            unbiased=unbiased,
            max_memory=max_memory,
        )
        met, inverse = np.unique(met, return_inverse=True)
        leaves, inverse = self.leaves.take(met), inverse.reshape(-1, len(self.offsets))
        within = self._entropies(leaves, score, max_memory)
        aleatoric = _mean_over(within, inverse)
        mixed = self._mixture_entropies(leaves, inverse, score, max_memory)
        epistemic = 2 * (mixed - aleatoric)
        trees = len(self.offsets)
        if unbiased in (True, "members"):
            epistemic = epistemic / (1 - 1 / trees)
        if estimator == "bma":
            epistemic = epistemic / 2
        return dataclasses.replace(
            form,
            total=aleatoric + epistemic,
            aleatoric=aleatoric,
            epistemic=epistemic,
            values_per_law=typical,
        )

    def _mixture_entropies(
        self, leaves: Leaves, inverse: Indices, score: kuq.Kernel, max_memory: float
    ) -> Floats:
        """H of the mixture of all trees for every row: training rows weighted by the forest."""
        rows, trees = inverse.shape
        matrix = leaves.matrix(len(self.targets))
        widest = min(len(self.targets), int(leaves.sizes[inverse].sum(axis=1).max()))
        step = int(max(1, max_memory / 64 / widest))
        parts = []
        for start in range(0, rows, step):
            met = inverse[start : start + step]
            shares = np.full(met.size, 1 / trees)
            ends = np.arange(0, met.size + 1, trees)
            mixing = csr_array((shares, met.reshape(-1), ends), shape=(len(met), matrix.shape[0]))
            parts.append(self._entropies(Leaves.of_matrix(mixing @ matrix), score, max_memory))
        return np.concatenate(parts)

    def _entropies(self, leaves: Leaves, score: kuq.Kernel, max_memory: float) -> Floats:
        """H of the law in every leaf, targets as they are."""
        entropies: Floats | None = None
        for chosen in leaves.alike(max_memory / 64 / self.targets[0].size):
            rows, weights = leaves.take(chosen).padded()
            law = kuq.Samples(
                self.targets[rows], self.targets.ndim - 1, weights=weights, whole=True
            )
            values = kuq.entropy(law, score, max_memory=max_memory)
            if entropies is None:
                entropies = np.empty((len(leaves.sizes), *values.shape[1:]))
            entropies[chosen] = values
        assert entropies is not None
        return entropies


def _mean_over(values: Floats, inverse: Indices) -> Floats:
    """The mean over trees of values of leaves, (rows, …)."""
    mean = np.zeros((len(inverse), *values.shape[1:]))
    for column in inverse.T:
        mean += values[column] / inverse.shape[1]
    return mean
