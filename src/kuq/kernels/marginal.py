"""Scores that treat every coordinate of an outcome by itself."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from kuq._array import Array, adopted, namespace, summable
from kuq.errors import ParameterError
from kuq.kernels.base import Change, Kernel, MarginalStage, Stage, Term, require_outcomes, show
from kuq.kernels.card import KernelCard
from kuq.kernels.energy import Energy
from kuq.kernels.parameters import check_weights


@final
@dataclass(frozen=True, eq=False, repr=False)
class Marginal(Kernel):
    """A scalar kernel applied to every coordinate of the event.

    ``reduce="mean"`` or ``"sum"`` over the event, with weights Σ w s / Σ w or Σ w s; ``None``
    keeps the map. Proper, but not strictly in more than one dimension: it does not see how
    coordinates depend on each other.

    >>> import kuq, numpy as np
    >>> p = kuq.Normal(np.zeros((4, 3)), 1.0, event_ndim=1)
    >>> kuq.entropy(p, kuq.Marginal(kuq.Gaussian(1.0), reduce=None)).shape
    (4, 3)
    """

    kernel: Kernel
    reduce: str | None = "mean"
    weights: Array | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise ParameterError(f"Marginal needs a kernel, got {self.kernel!r}")
        if self.reduce not in ("mean", "sum", None):
            raise ParameterError(f'reduce must be "mean", "sum" or None, got {self.reduce!r}')
        if any(isinstance(stage, MarginalStage) for t in self.kernel.terms() for stage in t.stages):
            raise ParameterError("Marginal of a Marginal kernel: one is enough")
        self._lift_inner_weights()
        check_weights(self)
        if self.weights is not None and self.reduce is None:
            raise ParameterError('weights need reduce="mean" or "sum"; reduce=None keeps the map')

    def __repr__(self) -> str:
        if self.kernel != Energy():
            return super().__repr__()
        shown = [] if self.reduce == "mean" else [f"reduce={self.reduce!r}"]
        shown += [] if self.weights is None else [f"weights={show(self.weights)}"]
        return f"CRPS({', '.join(shown)})"

    def _lift_inner_weights(self) -> None:
        """Weights of an inner kernel are weights over the event, and so belong here."""
        inner = [t.kernel.weights for t in self.kernel.terms() if t.kernel.weights is not None]
        if not inner:
            return
        if self.weights is not None or len(inner) > 1:
            raise ParameterError("give event weights once, as Marginal(..., weights=...)")
        object.__setattr__(self, "weights", inner[0])
        bare = self.kernel.replace_bases(
            lambda k, _: dataclasses.replace(k, weights=None) if k.weights is not None else k  # type: ignore[type-var]
        )
        object.__setattr__(self, "kernel", bare)

    def __call__(self, x: Array, y: Array) -> Array:
        require_outcomes(x, y)
        values = self.kernel(x[..., None], y[..., None])
        return reduce_event(values, self.reduce, self.weights, 1)

    @property
    def card(self) -> KernelCard:
        inner = self.kernel.card
        return dataclasses.replace(
            inner,
            name=self._name(inner),
            formula=f"{self.reduce or 'each'}_j {inner.formula}",
            strictly_proper=False,
        )

    def _name(self, inner: KernelCard) -> str:
        if self.kernel != Energy():
            return f"Marginal({inner.name}, {self.reduce})"
        return "CRPS" if self.reduce == "mean" else f"CRPS(reduce={self.reduce!r})"

    @functools.cached_property
    def units(self) -> str:
        return self.kernel.units

    def replace_bases(self, change: Change, stages: tuple[Stage, ...] = ()) -> Kernel:
        stage = MarginalStage(self.reduce, self.weights)
        inner = self.kernel.replace_bases(change, (*stages, stage))
        return Marginal(inner, self.reduce, self.weights)

    def terms(self) -> Iterator[Term]:
        stage = MarginalStage(self.reduce, self.weights)
        for term in self.kernel.terms():
            yield dataclasses.replace(term, stages=(stage, *term.stages))


def CRPS(reduce: str | None = "mean", weights: Array | None = None) -> Marginal:  # noqa: N802
    """The continuous ranked probability score: ``Marginal(Energy(), reduce)``.

    >>> import kuq
    >>> float(kuq.entropy(kuq.Normal(0.0, 1.0), kuq.CRPS()))  # 1/√π
    0.5641895835477563
    """
    if weights is None and (reduce is None or isinstance(reduce, str)) and reduce in _USUAL:
        return _USUAL[reduce]
    return Marginal(Energy(), reduce=reduce, weights=weights)


_USUAL = {reduce: Marginal(Energy(), reduce=reduce) for reduce in ("mean", "sum", None)}


def reduce_event(values: Array, reduce: str | None, weights: Array | None, ndim: int) -> Array:
    """Reduce a map over its last ``ndim`` axes."""
    if reduce is None or ndim == 0:
        return values
    xp = namespace(values)
    axes = tuple(range(values.ndim - ndim, values.ndim))
    if weights is not None:
        weights = adopted(weights, values)
        weights = summable(weights) if reduce == "mean" else weights
        weighted = xp.sum(values * weights, axis=axes)
        return weighted / xp.sum(weights) if reduce == "mean" else weighted
    return xp.mean(values, axis=axes) if reduce == "mean" else xp.sum(values, axis=axes)
