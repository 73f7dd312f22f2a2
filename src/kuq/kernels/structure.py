"""Kernels for outcomes with structure: dependence in space, patches and spectra of fields, graphs.

Each is an elementary kernel on features of the outcome. Features take draws and points, or
``draws=`` for other laws; patches are coordinates and so work for every law.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from kuq._array import Array, flatten_event, from_numpy, namespace, power_of_two, safe_sqrt
from kuq._numbers import as_real_number, shown, whole_number
from kuq.errors import ParameterError, ShapeError
from kuq.kernels.base import Kernel, Transformed
from kuq.kernels.energy import Energy
from kuq.kernels.squared_error import SquaredError

#: Pairs of coordinates up to which a variogram takes all of them.
_MOST_PAIRS = 2**22


def variogram(
    power: float = 0.5,
    *,
    kernel: Kernel | None = None,
    weights: Any = None,
    max_lag: int | None = None,
    event_ndim: int = 1,
) -> Transformed:
    """The variogram kernel Σ_ij w_ij (|x_i−x_j|^p − |y_i−y_j|^p)²: dependence in space.

    Blind to a shift of the whole field, sensitive to how coordinates vary together. ``weights``
    (d, d) over pairs; ``max_lag`` keeps neighbours of a grid, at most so many steps apart along
    each of the ``event_ndim`` axes, as large fields need. Another ``kernel`` on the differences
    replaces the squared error. Needs samples, or ``draws=``.

    >>> import kuq
    >>> flat, shifted = kuq.Point([0.0, 0.0], 1), kuq.Point([5.0, 5.0], 1)
    >>> float(kuq.divergence(flat, shifted, kuq.variogram()))
    0.0
    """
    exponent = as_real_number(power)
    if exponent is None or not 0 < exponent <= 2:
        raise ParameterError(f"power must be a number in (0, 2], got {shown(power)}")
    if max_lag is not None:
        max_lag = whole_number(max_lag, "max_lag", 1)
        if weights is not None:
            raise ParameterError("give weights over all pairs, or max_lag, not both")
    table = None if weights is None else _pair_weights(weights)
    features = Differences(exponent, table, max_lag, whole_number(event_ndim, "event_ndim", 1))
    return _kernel(SquaredError() if kernel is None else kernel).on(features)


def spectral(kernel: Kernel | None = None, *, event_ndim: int = 2) -> Transformed:
    """A kernel on the spectrum of a field: how much structure at each scale, wherever it stands.

    The features are root mean square amplitudes per whole wavenumber over the last ``event_ndim``
    axes, taken as periodic; their norm is the root mean square of the field, in its own unit.
    Blind to cyclic shifts. Needs samples, or ``draws=``; the default kernel is ``Energy()``.

    >>> import kuq, numpy as np
    >>> wave = np.cos(2 * np.pi * np.arange(8) / 8)
    >>> p, q = kuq.Point(wave, 1), kuq.Point(np.roll(wave, 3), 1)
    >>> round(float(kuq.divergence(p, q, kuq.spectral(event_ndim=1))), 12)
    0.0
    """
    features = Spectrum(whole_number(event_ndim, "event_ndim", 1))
    return _kernel(Energy() if kernel is None else kernel).on(features)


def graph_walks(kernel: Kernel | None = None, *, length: int = 4) -> Transformed:
    """A kernel on graphs, outcomes that are adjacency matrices (n, n), through their walks.

    The features are mean numbers per node of walks and of closed walks of 1, 2, … ``length``
    steps, divided by the factorial of the steps; the order of the nodes does not matter. Edges may
    have weights. Needs samples, or ``draws=``; the default kernel is ``Energy()``.

    >>> import kuq, numpy as np
    >>> path = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    >>> renamed = path[[1, 0, 2]][:, [1, 0, 2]]
    >>> float(kuq.divergence(kuq.Point(path, 2), kuq.Point(renamed, 2), kuq.graph_walks()))
    0.0
    """
    features = Walks(whole_number(length, "length", 1))
    return _kernel(Energy() if kernel is None else kernel).on(features)


@final
@dataclass(frozen=True, eq=False)
class Differences:
    """√(2 w_ij) |x_i − x_j|^power over pairs i < j, so that squares sum over ordered pairs."""

    power: float
    weights: np.ndarray | None
    max_lag: int | None
    event_ndim: int

    def __call__(self, x: Array) -> Array:
        if self.max_lag is not None:
            return self._powers(self._neighbours(x))
        flat = flatten_event(x, self.event_ndim)
        first, second = self._pairs(flat.shape[-1])
        powers = self._powers(flat[..., first] - flat[..., second])
        if self.weights is None:
            return powers
        return powers * from_numpy(np.sqrt(self.weights[first, second]), powers)

    def _powers(self, gap: Array) -> Array:
        xp = namespace(gap)
        size = xp.abs(gap)
        zero = size <= 0
        powers = xp.where(zero, xp.ones_like(size), size) ** self.power
        return math.sqrt(2) * xp.where(zero, xp.zeros_like(size), powers)

    def _pairs(self, d: int) -> tuple[np.ndarray, np.ndarray]:
        if d < 2:
            raise ShapeError(f"a variogram needs outcomes of at least two coordinates, got {d}")
        if self.weights is not None and self.weights.shape != (d, d):
            raise ShapeError(f"weights must have shape ({d}, {d}), got {self.weights.shape}")
        if d * (d - 1) // 2 > _MOST_PAIRS:
            raise ParameterError(
                f"a variogram of {d} coordinates has {d * (d - 1) // 2} pairs; "
                "pass max_lag= to compare neighbours only"
            )
        first, second = np.triu_indices(d, 1)
        return first, second

    def _neighbours(self, x: Array) -> Array:
        """Differences along all offsets up to ``max_lag`` steps, each direction once."""
        assert self.max_lag is not None
        xp = namespace(x)
        shape = tuple(x.shape[x.ndim - self.event_ndim :])
        reach = [range(-min(self.max_lag, n - 1), min(self.max_lag, n - 1) + 1) for n in shape]
        parts = []
        for offset in itertools.product(*reach):
            if offset <= (0,) * len(shape):
                continue
            here = tuple(
                slice(max(0, -o), n - max(0, o)) for o, n in zip(offset, shape, strict=True)
            )
            there = tuple(
                slice(max(0, o), n - max(0, -o)) for o, n in zip(offset, shape, strict=True)
            )
            gap = x[(..., *here)] - x[(..., *there)]
            parts.append(flatten_event(gap, self.event_ndim))
        if not parts:
            raise ShapeError(f"a variogram needs at least two coordinates, got event shape {shape}")
        return xp.concat(parts, axis=-1)

    def __repr__(self) -> str:
        return f"differences to the power {self.power:g}"


@final
@dataclass(frozen=True)
class Spectrum:
    """Root mean square amplitude at each whole wavenumber."""

    event_ndim: int

    def __call__(self, x: Array) -> Array:
        xp = namespace(x)
        axes = tuple(range(x.ndim - self.event_ndim, x.ndim))
        shape = tuple(x.shape[axis] for axis in axes)
        # Squares of amplitudes leave the range of floats long before the amplitudes do.
        unit = power_of_two(xp.max(xp.abs(x), axis=axes, keepdims=True))
        x = x / unit
        waves = xp.fft.fftn(xp.astype(x, xp.complex128 if _double(x) else xp.complex64), axes=axes)
        real, imaginary = xp.real(waves), xp.imag(waves)
        square = flatten_event(real * real + imaginary * imaginary, self.event_ndim)
        energy = xp.matmul(square[..., None, :], from_numpy(_rings(shape), square))[..., 0, :]
        unit = xp.reshape(unit, (*unit.shape[: axes[0]], 1))
        return safe_sqrt(energy) / math.prod(shape) * unit

    def __repr__(self) -> str:
        return "spectrum"


def _double(x: Array) -> bool:
    return "float64" in str(x.dtype)


def _rings(shape: tuple[int, ...]) -> np.ndarray:
    """Which frequency belongs to which whole wavenumber, as a matrix of zeros and ones."""
    grids = np.meshgrid(*(np.fft.fftfreq(n, 1 / n) for n in shape), indexing="ij")
    ring = np.rint(np.sqrt(sum(g * g for g in grids))).astype(int).ravel()
    return np.asarray(np.eye(ring.max() + 1)[ring])


@final
@dataclass(frozen=True)
class Walks:
    """Mean numbers of walks and of closed walks per node, by length over factorial."""

    length: int
    event_ndim: ClassVar[int] = 2

    def __call__(self, x: Array) -> Array:
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise ShapeError(
                f"graphs are square adjacency matrices (n, n) with event_ndim=2, got {x.shape}"
            )
        xp = namespace(x)
        n = x.shape[-1]
        eye = from_numpy(np.eye(n), x)
        power, features = x, []
        for steps in range(1, self.length + 1):
            factor = 1 / (n * math.factorial(steps))
            features.append(factor * xp.sum(power, axis=(-2, -1)))
            features.append(factor * xp.sum(power * eye, axis=(-2, -1)))
            power = xp.matmul(power, x)
        return xp.stack(features, axis=-1)

    def __repr__(self) -> str:
        return f"walks of up to {self.length} steps"


def _kernel(value: Any) -> Kernel:
    if not isinstance(value, Kernel):
        raise ParameterError(f"a kernel is needed, such as Energy(), got {value!r}")
    return value


def _pair_weights(weights: Any) -> np.ndarray:
    table = np.asarray(weights, dtype=float)
    if table.ndim != 2 or table.shape[0] != table.shape[1]:
        raise ShapeError(f"weights over pairs must have shape (d, d), got {table.shape}")
    if not (np.all(np.isfinite(table)) and np.all(table >= 0)):
        raise ParameterError("weights over pairs must be finite and not negative")
    return np.asarray((table + table.T) / 2)
