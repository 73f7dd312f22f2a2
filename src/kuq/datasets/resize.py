"""Pictures and fields at another size, by the mean over the area of each new pixel."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray


def resized(images: NDArray[Any], shape: tuple[int, int]) -> NDArray[np.float32]:
    """``images`` (..., height, width) averaged to ``shape``; constant pictures stay constant.

    >>> import numpy as np
    >>> resized(np.arange(8, dtype=np.float32).reshape(1, 2, 4), (1, 2))
    array([[[2.5, 4.5]]], dtype=float32)
    """
    if images.shape[-2:] == tuple(shape):
        return images
    down = _means(images.shape[-2], shape[0])
    across = _means(images.shape[-1], shape[1])
    averaged: NDArray[np.float32] = (down @ images @ across.T).astype(np.float32, copy=False)
    return averaged


@lru_cache(maxsize=64)
def _means(old: int, new: int) -> NDArray[np.float32]:
    """The matrix (new, old) of the shares that old pixels have in new ones along one axis."""
    edges = np.arange(new + 1) * (old / new)
    low = np.maximum(edges[:-1, None], np.arange(old))
    high = np.minimum(edges[1:, None], np.arange(1, old + 1))
    overlap = np.clip(high - low, 0, None)
    shares: NDArray[np.float32] = (overlap / overlap.sum(axis=1, keepdims=True)).astype(np.float32)
    return shares
