"""What synthetic stand-ins share: they are made once, some rows at a time, and cached."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kuq._numbers import as_whole_number
from kuq._ranges import Within
from kuq.datasets.base import Split
from kuq.datasets.cache import cached_array
from kuq.datasets.progress import progress
from kuq.errors import ParameterError

Rows: TypeAlias = range
#: From numbers of rows to their inputs with the target as one more channel.
Make: TypeAlias = Callable[[Rows], NDArray[np.float32]]
#: Height and width that are large enough to show something.
Side: TypeAlias = Annotated[int, Within(least=8)]

#: To be raised when the numbers of a stand-in change, so that no old ones are read.
_VERSION = 1
#: Rows that are made in one call.
_AT_ONCE = 64


def made_once(
    name: str,
    settings: Mapping[str, Any],
    shape: tuple[int, int, int, int],
    make: Make,
) -> Split:
    """The rows that ``make`` makes, from the cache if they are there.

    ``shape`` is (rows, channels + 1, height, width); the last channel becomes the target.
    """

    def fill(result: NDArray[Any]) -> None:
        count = math.ceil(shape[0] / _AT_ONCE)
        for begin in progress(range(0, shape[0], _AT_ONCE), count, f"making {name}"):
            rows = range(begin, min(begin + _AT_ONCE, shape[0]))
            result[rows.start : rows.stop] = make(rows)

    stored = cached_array(name, {"version": _VERSION, **settings}, shape, fill, np.float32)
    # In memory, since models want arrays that they own.
    return Split(x=np.array(stored[:, :-1]), y=np.array(stored[:, -1]))


def check_sizes(sizes: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """Four numbers of rows, and pictures that are large enough to show something."""
    whole = all(as_whole_number(number) is not None for number in (*sizes, *shape))
    if not whole or len(sizes) != 4 or min(sizes) < 1 or len(shape) != 2 or min(shape) < 8:
        raise ParameterError(
            "sizes must be the rows of training, validation, test and shifted data, each at least "
            f"1, and shape (height, width), each at least 8; got {sizes} and {shape}"
        )
