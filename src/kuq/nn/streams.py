"""Batches that are read anew in every epoch, so that data need not fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    Dataset,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from kuq.errors import InsufficientDataError, ParameterError, ShapeError
from kuq.nn.network import Network
from kuq.nn.row_weights import checked_weights
from kuq.nn.rows import SharedRows, finite_tensor
from kuq.nn.scaling import Moments, Scaling

#: Outcomes that are kept to find a bandwidth from, spread over all of them.
_KEPT = 500
_Arrays = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def are_batches(data: Any) -> bool:
    """Whether data are batches of inputs and targets, and not inputs alone."""
    if isinstance(data, (tuple, list)):
        return len(data) > 0 and _is_batch(data[0])
    if isinstance(data, Dataset):
        return True
    is_array = hasattr(data, "__array__") or hasattr(data, "dtype")
    return hasattr(data, "__iter__") and not (is_array or isinstance(data, (str, bytes, dict)))


_SHUFFLING = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


def inputs_in_batches(X: Any) -> Iterator[Any] | None:
    """The inputs of batches to predict, in their order; None where X is an array."""
    if isinstance(X, (tuple, list)) or not are_batches(X):
        return None
    if isinstance(X, Dataset):
        raise ParameterError(
            f"a {type(X).__name__} gives single rows; pass DataLoader(dataset, batch_size=…)"
        )
    if isinstance(getattr(X, "sampler", None), _SHUFFLING):
        raise ParameterError(
            "the loader shuffles, so that nobody knows which row a prediction belongs to; pass "
            "DataLoader(…, shuffle=False)"
        )
    return (item[0] if isinstance(item, (tuple, list)) else item for item in X)


def _is_batch(item: Any) -> bool:
    if isinstance(item, list):  # as DataLoader makes them; nested lists of numbers are rows
        return len(item) > 0 and hasattr(item[0], "shape")
    return isinstance(item, tuple)


def as_triple(arrays: Any) -> tuple[Any, Any, Any]:
    """Inputs, targets and weights of rows to validate on; None without weights."""
    if not isinstance(arrays, (tuple, list)) or len(arrays) not in (2, 3):
        raise ParameterError(
            "validation must be (X, y), (X, y, weight) or an iterable of such batches, got "
            f"{type(arrays).__name__}"
        )
    x, y, *weight = arrays
    return x, y, weight[0] if weight else None


def require_nothing_beside_batches(member_targets: Any, sample_weight: Any) -> None:
    for name, given in (("member_targets", member_targets), ("sample_weight", sample_weight)):
        if given is not None:
            raise ParameterError(
                f"{name} belongs to arrays; batches bring their own targets and weights: "
                "(x, y, weight)"
            )


@final
@dataclass(frozen=True)
class Summary:
    """What one pass over batches tells about all of them."""

    rows: int
    #: The mean weight of a row that counts; None where rows have no weights.
    mean_weight: float | None
    x_shape: tuple[int, ...]
    event_shape: tuple[int, ...]
    largest_batch: int
    x: Moments
    y: Moments
    #: The lowest and the highest outcome in every coordinate.
    low: np.ndarray
    high: np.ndarray
    #: Some outcomes from everywhere.
    outcomes: np.ndarray


@final
@dataclass(frozen=True)
class Stream:
    """Batches (x, y) or (x, y, weight) of a source that can be read again and again."""

    source: Any
    #: Inputs of a batch as an array.
    read: Callable[[Any], np.ndarray]
    summary: Summary
    scaling: tuple[Scaling, Scaling] | None = None
    device: torch.device | None = None

    @classmethod
    def of(cls, source: Any, read: Callable[[Any], np.ndarray] | None = None) -> Stream:
        """Look at all batches once."""
        _check_readable_again(source)
        read = read or _plain
        return cls(source, read, _summary(_batches(source, read, None)))

    def scaled(self, x: Scaling, y: Scaling) -> Stream:
        return replace(self, scaling=(x, y))

    def fitting(self, network: Network) -> Stream:
        """On the device of a network, whose shapes it has to have."""
        shapes, summary = (network.x_shape, network.event_shape), self.summary
        if (summary.x_shape, summary.event_shape) != shapes:
            raise ShapeError(
                f"batches need rows of shapes {shapes[0]} and {shapes[1]} for this network, got "
                f"{summary.x_shape} and {summary.event_shape}"
            )
        return replace(self, device=next(network.parameters()).device)

    @property
    def shared_y(self) -> Tensor:
        """Some outcomes from everywhere."""
        return self._tensors(None, self.summary.outcomes)[1]

    def batches(self) -> Iterator[SharedRows]:
        """One pass over the rows that count."""
        shapes = self.summary.x_shape, self.summary.event_shape
        has_rows = False
        for x, y, weight in _batches(self.source, self.read, shapes):
            has_rows = True
            share = None
            if weight is not None:
                assert self.summary.mean_weight is not None
                share = torch.from_numpy(weight / self.summary.mean_weight).to(
                    device=self.device, dtype=torch.float32
                )
            inputs, outcomes = self._tensors(x, y)
            assert inputs is not None
            yield SharedRows(inputs, outcomes, share)
        if not has_rows:
            raise _exhausted(self.source)

    def pieces(self, count: int) -> Iterator[SharedRows]:
        """One pass, at most so many rows at a time."""
        for batch in self.batches():
            yield from batch.pieces(count)

    def _tensors(self, x: np.ndarray | None, y: np.ndarray) -> tuple[Tensor | None, Tensor]:
        if self.scaling is not None:
            x = None if x is None else self.scaling[0].apply(x)
            y = self.scaling[1].apply(y)
        inputs = None if x is None else finite_tensor(torch.from_numpy(x), "x", self.device)
        return inputs, finite_tensor(torch.from_numpy(y), "y", self.device)


def _check_readable_again(source: Any) -> None:
    if isinstance(source, Dataset):
        raise ParameterError(
            f"{type(source).__name__} is a data set of single rows; pass "
            "torch.utils.data.DataLoader(dataset, batch_size=32), or with batch_size=None if its "
            "items are batches"
        )
    if not hasattr(source, "__iter__"):
        raise ParameterError(
            "batches must be a DataLoader or another iterable of (x, y) or (x, y, weight), got "
            f"{type(source).__name__}"
        )
    if iter(source) is source:
        raise _exhausted(source)


def _exhausted(source: Any) -> ParameterError:
    return ParameterError(
        f"training reads the batches once in every epoch, and {type(source).__name__} gives them "
        "only once; pass a DataLoader, a list, or an object whose __iter__ starts anew"
    )


def _plain(x: Any) -> np.ndarray:
    return np.asarray(x, np.float64)


def _batches(
    source: Any, read: Callable[[Any], np.ndarray], shapes: tuple[Any, Any] | None
) -> Iterator[_Arrays]:
    """Every batch in float64, without rows of weight zero; all rows have the same shapes."""
    weighted: bool | None = None
    for position, batch in enumerate(source):
        try:
            x, y, weight = _parts(batch, read)
            if weighted is not None and weighted != (weight is not None):
                raise ParameterError("either all batches have weights or none")
            weighted = weight is not None
            given = x.shape[1:], y.shape[1:]
            shapes = shapes or given
            if given != shapes:
                raise ShapeError(
                    f"rows have the shapes {given[0]} and {given[1]}, and those of the first batch "
                    f"{shapes[0]} and {shapes[1]}"
                )
        except (ParameterError, ShapeError) as error:
            raise type(error)(f"batch {position}: {error}") from error
        if weight is not None:
            counting = weight > 0
            x, y, weight = x[counting], y[counting], weight[counting]
        if len(x):
            yield x, y, weight


def _parts(batch: Any, read: Callable[[Any], np.ndarray]) -> _Arrays:
    if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
        size = f" of {len(batch)}" if isinstance(batch, (tuple, list)) else ""
        raise ParameterError(
            "a batch must be a tuple (x, y) or (x, y, weight), got a "
            f"{type(batch).__name__}{size}; if these are rows of X, pass y as well"
        )
    x, y = read(_on_cpu(batch[0])), _numbers(_on_cpu(batch[1]))
    if x.ndim < 2 or y.ndim < 1 or len(x) != len(y):
        raise ShapeError(
            "x and y need rows along their first axis, as many as each other, x (rows, features) "
            f"or (rows, channels, grid…), got {x.shape} and {y.shape}"
        )
    weight = None if len(batch) == 2 else checked_weights(batch[2], len(x), "weight")
    return x, y, weight


def _on_cpu(values: Any) -> Any:
    return values.detach().cpu().double().numpy() if isinstance(values, Tensor) else values


def _numbers(values: Any) -> np.ndarray:
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"y must hold real numbers: {error}") from error
    if not np.isfinite(array).all():
        raise ParameterError("y contains NaN or infinity; remove or impute such rows")
    return array


def _summary(batches: Iterator[_Arrays]) -> Summary:
    rows, largest, weighted = 0, 0, False
    total: tuple[Moments, Moments] | None = None
    low: Any = np.inf
    high: Any = -np.inf
    kept: list[np.ndarray] = []
    step = 1
    x_shape: tuple[int, ...] = ()
    event_shape: tuple[int, ...] = ()
    for x, y, weight in batches:
        new = Moments.of_inputs(x, weight), Moments.of_targets(y, x.ndim > 2, weight)
        total = new if total is None else (total[0].joined(new[0]), total[1].joined(new[1]))
        low, high = np.minimum(low, y.min(0)), np.maximum(high, y.max(0))
        kept.extend(y[-rows % step :: step].copy())
        while len(kept) > _KEPT:
            kept, step = kept[::2], 2 * step
        rows, largest, weighted = rows + len(x), max(largest, len(x)), weight is not None
        x_shape, event_shape = x.shape[1:], y.shape[1:]
    if total is None:
        raise InsufficientDataError("there are no rows to train on: no batch has a row that counts")
    mean_weight = total[0].weight / rows if weighted else None
    outcomes = np.stack(kept)
    return Summary(rows, mean_weight, x_shape, event_shape, largest, *total, low, high, outcomes)
