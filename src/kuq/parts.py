"""Parts of the batch, where the canonical form of all of it would not fit the memory allowed.

Laws are seen as weighted atoms, mostly without a copy. A Student-t law becomes a mixture of
hundreds of normals, and under a marginal kernel draws have to lie side by side: such copies are made
for some rows at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from kuq._array import is_array
from kuq.distributions.base import Prediction
from kuq.distributions.laws import worst_method
from kuq.kernels.base import Kernel, MarginalStage
from kuq.kernels.transforms import Select
from kuq.scores.options import Options
from kuq.views import arrays_of, first_or_second_order, resolve_bandwidths, stack_of

#: Inputs of less than this share of the memory are not looked at.
_SMALL = 2.0**-10
#: The share of the memory that copies may take; tiles have the rest.
_SHARE = 0.25

Answer = TypeVar("Answer")


def in_parts(*axes: int) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Let a function of predictions, a kernel and options see some rows of the batch at a time.

    ``axes``: where the first batch axis stands in each of the arrays that it returns.
    """

    def wrap(function: Callable[..., Answer]) -> Callable[..., Answer]:
        @functools.wraps(function)
        def call(*args: Any) -> Answer:
            *predictions, kernel, options = args
            reference = predictions[0].reference
            if not isinstance(reference, np.ndarray):
                return function(*args)
            if reference.nbytes <= _SMALL * options.max_memory:
                return function(*args)
            step = _rows_at_once(predictions, kernel, options)
            rows = predictions[0].batch_shape[0] if predictions[0].batch_shape else 1
            if step >= rows:
                return function(*args)
            kernel = resolve_bandwidths(kernel, predictions, options)
            found = []
            for start in range(0, rows, step):
                some = [p.rows(slice(start, start + step)) for p in predictions]
                found.append(function(*some, kernel, options))
            return cast(Answer, _joined(found, axes))

        return call

    return wrap


def _rows_at_once(predictions: list[Prediction], kernel: Kernel, options: Options) -> int:
    """Rows whose copies fit; a function, or an array over the batch, cannot be cut."""
    stages = [stage for term in kernel.parts for stage in term.stages]
    neutral = all(isinstance(stage, (MarginalStage, Select)) for stage in stages)
    if not neutral or options.draws is not None or not predictions[0].batch_shape:
        return predictions[0].batch_shape[0] if predictions[0].batch_shape else 1
    if any(is_array(getattr(term.kernel, "bandwidth", None)) for term in kernel.parts):
        return predictions[0].batch_shape[0]
    marginal = any(isinstance(stage, MarginalStage) for stage in stages)
    held = 0
    for prediction in predictions:
        some = prediction.rows(slice(0, 2))  # of one row alone nothing has to be moved
        given = arrays_of(some)
        for array in stack_of(first_or_second_order(some), marginal, options.rtol).arrays():
            if not any(np.may_share_memory(array, own) for own in given):
                held += array.nbytes // 2
    return max(1, int(_SHARE * options.max_memory / max(1, held)))


def _joined(found: list[Any], axes: tuple[int, ...]) -> Any:
    """Arrays one after the other, the worst of methods, and the first of anything else."""
    if not isinstance(found[0], tuple):
        return np.concatenate(found, axis=axes[0])
    remaining = iter(axes)
    columns: list[Any] = []
    for column in zip(*found, strict=True):
        if isinstance(column[0], np.ndarray):
            columns.append(np.concatenate(column, axis=next(remaining)))
        else:
            columns.append(worst_method(*column) if isinstance(column[0], str) else column[0])
    return tuple(columns)
