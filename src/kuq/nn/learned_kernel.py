"""A kernel that sees a given difference: its bandwidths, weights and features are learned.

The power of a two-sample test grows with the divergence over its standard deviation under the
alternative, which a U-statistic estimates without bias from the kernel's values alone (Sutherland
et al. 2017; Liu et al. 2020). Half of the draws are for learning, and the other half for the test.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import nn

from kuq._array import Array, is_torch
from kuq._numbers import whole_number
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.samples import Samples
from kuq.errors import InsufficientDataError, ParameterError, ShapeError
from kuq.kernels.bandwidth import median_bandwidth
from kuq.kernels.base import Kernel, Term
from kuq.kernels.gaussian import Gaussian
from kuq.uncertainty import member_test

#: Fewer draws on a side than this give no variance to speak of.
_FEWEST = 10
_LEARNING_RATE = 0.05
#: Multiples of the median distance to begin with; the best one is taken.
_STARTS = tuple(2.0**k for k in range(-5, 3))


@final
class FeatureMap:
    """A torch module as the transform of a kernel: arrays of any library go in and come out.

    ``kuq.Gaussian(1.0).on(FeatureMap(module))``. Tensors keep their gradients.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __call__(self, x: Array) -> Array:
        parameter = next(self.module.parameters(), None)
        dtype = torch.get_default_dtype() if parameter is None else parameter.dtype
        if is_torch(x):
            return self.module(x.to(dtype)).to(x.dtype)
        with torch.no_grad():
            features = self.module(torch.as_tensor(np.array(x), dtype=dtype))
        return features.numpy().astype(np.asarray(x).dtype)

    def __repr__(self) -> str:
        return f"FeatureMap({type(self.module).__name__})"


@final
@dataclass(frozen=True, eq=False)
class LearnedKernel:
    """A kernel, and how well it tells the draws apart that it was not learned on.

    ``p_value`` is that of a permutation test on held-out draws, exact whatever was learned.
    ``ratio`` is the divergence over its standard deviation there, ``history`` that of the draws
    for learning after each step.
    """

    kernel: Kernel
    p_value: float
    ratio: float
    history: tuple[float, ...]

    def __repr__(self) -> str:
        return f"LearnedKernel({self.kernel!r}, p_value={self.p_value:.3g}, ratio={self.ratio:.3g})"


def learn_kernel(
    inside: Any,
    outside: Any,
    *,
    features: nn.Module | None = None,
    weights: bool = False,
    steps: int = 200,
    test_share: float = 0.5,
    permutations: int = 499,
    seed: int = 0,
) -> LearnedKernel:
    """Learn a Gaussian kernel under which two sets of draws differ as clearly as possible.

    ``inside`` and ``outside`` have one outcome per row: numbers, vectors or fields. The bandwidth
    is learned; with ``weights`` those of the coordinates too; with ``features`` a torch module, of
    which a copy is trained, and the kernel is that of its outputs plus a tenth of one on the
    outcomes themselves, so that it stays strictly proper. The share ``test_share`` of each set is
    kept for the test. ``kernel`` of the result works wherever a score does.

    >>> import kuq, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> centres = 10.0 * rng.integers(0, 3, size=(2, 200, 2))
    >>> inside, outside = centres + rng.normal(size=(2, 200, 2)) * [[[1.0, 1.0]], [[1.0, 0.3]]]
    >>> kuq.nn.learn_kernel(inside, outside, steps=50).p_value < 0.05
    True
    """
    whole_number(steps, "steps", 1)
    if not 0 < test_share < 1:
        raise ParameterError(f"test_share must lie strictly between 0 and 1, got {test_share!r}")
    rng = np.random.default_rng(whole_number(seed, "seed", 0))
    sides = [_rows(values, name) for values, name in ((inside, "inside"), (outside, "outside"))]
    if sides[0].shape[1:] != sides[1].shape[1:]:
        raise ShapeError(
            f"inside and outside need outcomes of one shape, got {tuple(sides[0].shape[1:])} and "
            f"{tuple(sides[1].shape[1:])}"
        )
    size = min(len(side) for side in sides)
    kept = round(test_share * size)
    if min(kept, size - kept) < _FEWEST:
        raise InsufficientDataError(
            f"learning and testing need {_FEWEST} draws of each side, got {size - kept} and {kept}"
        )
    # The statistic is for equal numbers; of the larger side a random part is left out.
    chosen = [side[torch.as_tensor(rng.permutation(len(side))[:size])] for side in sides]
    for_learning, for_test = (
        [side[rows] for side in chosen] for rows in (slice(kept, None), slice(kept))
    )
    model = _Model(for_learning, features, weights)
    history = _fitted(model, for_learning, steps)
    kernel = model.kernel(learned=True)
    axes = chosen[0].ndim - 1
    with torch.no_grad():
        ratio = float(_signal_over_noise(model.kernel(), *for_test))
    pair = Ensemble([Samples(side.numpy(), event_ndim=axes) for side in for_test])
    test = member_test(pair, kernel, permutations=permutations, seed=seed)
    return LearnedKernel(kernel, float(test.p_value), ratio, tuple(history))


def _rows(values: Any, name: str) -> torch.Tensor:
    array = values.detach().cpu() if is_torch(values) else torch.as_tensor(np.array(values))
    if array.ndim == 0 or array.dtype.is_complex:
        raise ShapeError(f"{name} needs one outcome per row, got shape {tuple(array.shape)}")
    array = array.to(torch.float64)
    if not bool(torch.isfinite(array).all()):
        raise ParameterError(f"{name} must be finite; drop rows with NaN or infinite entries")
    return array


class _Model(nn.Module):
    """What is learned: logarithms of bandwidths and weights, and a copy of the features."""

    def __init__(
        self, sides: list[torch.Tensor], features: nn.Module | None, weights: bool
    ) -> None:
        super().__init__()
        pooled = torch.cat(sides)
        axes = pooled.ndim - 1
        median = median_bandwidth(pooled, axes)
        event = tuple(pooled.shape[1:])
        if weights and not event:
            raise ParameterError("weights are those of the coordinates of vectors or fields")
        self.log_weights = (
            nn.Parameter(torch.zeros(event, dtype=torch.float64)) if weights else None
        )
        self.features = None if features is None else copy.deepcopy(features).double()
        self.log_width = nn.Parameter(torch.tensor(math.log(median), dtype=torch.float64))
        self.log_inner: nn.Parameter | None = None
        if self.features is not None:
            with torch.no_grad():
                mapped = self.features(pooled)
            if not is_torch(mapped) or mapped.shape[:1] != pooled.shape[:1]:
                raise ShapeError(
                    "features must map outcomes (n, …) to a tensor (n, …), got "
                    f"{getattr(mapped, 'shape', type(mapped).__name__)}"
                )
            inner = median_bandwidth(mapped, mapped.ndim - 1)
            self.log_inner = nn.Parameter(torch.tensor(math.log(inner), dtype=torch.float64))
        self._start(sides)

    @torch.no_grad()
    def _start(self, sides: list[torch.Tensor]) -> None:
        """The best of a few multiples of the medians: gradients find only the nearest hill."""
        for parameter in (self.log_width, self.log_inner):
            if parameter is None:
                continue
            first = float(parameter)
            ratios = []
            for factor in _STARTS:
                parameter.fill_(first + math.log(factor))
                ratios.append(float(_signal_over_noise(self.kernel(), *sides)))
            parameter.fill_(first + math.log(_STARTS[int(np.nanargmax(ratios))]))

    def kernel(self, learned: bool = False) -> Kernel:
        """The kernel with its parameters, or with their values once they are learned."""
        width: Any = torch.exp(self.log_width)
        weights: Any = None
        if self.log_weights is not None:
            weights = torch.softmax(self.log_weights.reshape(-1), 0).reshape(self.log_weights.shape)
            weights = weights * weights.numel()
        if learned:
            width = float(width.detach())
            weights = None if weights is None else weights.detach().numpy()
        plain = Gaussian(width, weights)
        if self.features is None:
            return plain
        assert self.log_inner is not None
        inner: Any = torch.exp(self.log_inner)
        if learned:
            self.features.eval().requires_grad_(False)
            inner = float(inner.detach())
        return 0.9 * Gaussian(inner).on(FeatureMap(self.features)) + 0.1 * plain


def _fitted(model: _Model, sides: list[torch.Tensor], steps: int) -> list[float]:
    """Adam on the ratio; the best state that was seen is kept."""
    optimiser = torch.optim.Adam(model.parameters(), lr=_LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    best, state, history = -math.inf, copy.deepcopy(model.state_dict()), []
    for _ in range(steps):
        ratio = _signal_over_noise(model.kernel(), *sides)
        history.append(float(ratio.detach()))
        if history[-1] > best:
            best, state = history[-1], copy.deepcopy(model.state_dict())
        optimiser.zero_grad()
        torch.autograd.backward(-ratio)
        optimiser.step()
        schedule.step()
    model.load_state_dict(state)
    return history


def _signal_over_noise(kernel: Kernel, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """D of two sets of n draws over its standard deviation, both from one n × n matrix."""
    n = len(x)
    within = sum(_matrix(kernel, a, a) for a in (x, y))
    cross = _matrix(kernel, x, y)
    h = (cross + cross.T - within) / 2
    h = h - torch.diag(torch.diag(h))
    signal = h.sum() / (n * (n - 1))
    rows = h.sum(dim=1) / n
    variance = 4 * (rows.square().mean() - rows.mean().square())
    # Without a floor a kernel that sees nothing would have the ratio 0/0.
    return signal / torch.sqrt(variance / n + 1e-8)


def _matrix(kernel: Kernel, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """k of all pairs, term by term: features are made once for each draw, not for each pair."""
    total = x.new_zeros(len(x), len(y))
    for term in kernel.terms():
        base = term.kernel
        assert isinstance(base, Gaussian)
        flat = [_seen(term, values).reshape(len(values), -1) for values in (x, y)]
        squares = [a.square().sum(-1) for a in flat]
        gap = squares[0][:, None] + squares[1] - 2 * flat[0] @ flat[1].T
        width = torch.as_tensor(base.bandwidth, dtype=gap.dtype)
        total = total - term.factor * torch.exp(-gap.clamp_min(0) / width.square())
    return total


def _seen(term: Term, values: torch.Tensor) -> torch.Tensor:
    """Draws as a term sees them."""
    for stage in term.stages:
        assert isinstance(stage, FeatureMap)
        values = stage(values)
    weights = term.kernel.weights
    return values if weights is None else values * torch.sqrt(torch.as_tensor(weights))
