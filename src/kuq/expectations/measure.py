"""An elementary kernel as the rules need it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from kuq._array import Array, widen
from kuq.kernels.base import Kernel, ScaleMixture
from kuq.kernels.energy import Energy
from kuq.kernels.laplace import Laplace
from kuq.kernels.squared_error import SquaredError


@dataclass(frozen=True)
class Measure:
    """An elementary kernel with its bandwidth over the batch (n,), and the accuracy asked for."""

    kernel: Kernel
    bandwidth: Array | float | None
    rtol: float
    #: numbers that a temporary may have
    budget: int
    #: numbers of one parameter that a tile may have; the budget if that is larger
    room: int = 0
    #: numbers that any temporary may have, if memory alone sets a limit
    most: int = 2**62

    def at(self, part: slice | Array) -> Measure:
        """The same for a part of the batch."""
        if self.bandwidth is None or isinstance(self.bandwidth, float):
            return self
        # A made-up entry of an empty batch has no bandwidth either.
        width = widen(self.bandwidth[part]) if self.bandwidth.shape[0] else 1.0
        return dataclasses.replace(self, bandwidth=width)

    def width(self, atom_axes: int) -> Any:
        """The bandwidth, aligned with lead axes (…, n) plus ``atom_axes`` more."""
        if self.bandwidth is None or isinstance(self.bandwidth, float):
            return self.bandwidth
        return self.bandwidth[(..., *(None,) * atom_axes)]

    @property
    def is_quadratic(self) -> bool:
        """Whether the kernel sees no more than means and variances."""
        return isinstance(self.kernel, SquaredError)

    @property
    def is_absolute(self) -> bool:
        """Whether the kernel is |x − y| in one dimension."""
        return isinstance(self.kernel, Energy) and self.kernel.beta == 1

    @property
    def closed_in_one_dimension(self) -> bool:
        return isinstance(self.kernel, Laplace) or self.is_absolute

    @property
    def many_scales(self) -> bool:
        """Whether atoms that are not points are integrated over scales."""
        return isinstance(self.kernel, ScaleMixture)

    @property
    def method(self) -> str:
        """How atoms that are not points are integrated, in more than one dimension."""
        return "quadrature" if self.many_scales else "exact"
