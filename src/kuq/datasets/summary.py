"""A data set in words and numbers, for the terminal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kuq.datasets.base import Dataset, Split

#: Rows from which the numbers are computed; lazy arrays are read no further.
_ROWS = 2000
#: The same in single numbers, since a row can be a large image.
_NUMBERS = 4_000_000


def parts(data: Dataset) -> dict[str, Split]:
    """The splits by name, with the shifted one if there is one."""
    named = {"train": data.train, "validation": data.validation, "test": data.test}
    return named if data.shifted is None else {**named, "shifted": data.shifted}


def evenly_spread(values: Any, most: int) -> Any:
    """At most so many rows, from the first on in equal steps."""
    return values[:: max(1, -(-len(values) // most))]


def some_rows(values: Any, most: int) -> NDArray[np.float64]:
    """At most so many rows, evenly spread, in memory."""
    return np.asarray(evenly_spread(values, most), np.float64)


def title(data: Dataset) -> str:
    """The name, and that it is synthetic if it is."""
    return f"{data.name} (synthetic)" if data.synthetic else data.name


def summary(data: Dataset) -> str:
    """Shapes and the target's mean, deviation and range for each split, and the provenance."""
    lines = [title(data), f"unit of the target: {data.units}", ""]
    head = f"{'split':<11}{'rows':>8}  {'x of a row':<16}{'mean y':>11}{'std y':>11}"
    lines.append(head + f"{'min y':>11}{'max y':>11}")
    most = max(1, min(_ROWS, _NUMBERS // max(1, math.prod(data.test.y.shape[1:]))))
    for name, split in parts(data).items():
        y = some_rows(split.y, most)
        shape = " × ".join(map(str, split.x.shape[1:]))
        y = y[np.isfinite(y)]
        numbers = (y.mean(), y.std(), y.min(), y.max()) if len(y) else (np.nan,) * 4
        cells = "".join(f"{number:>11.4g}" for number in numbers)
        lines.append(f"{name:<11}{len(split):>8}  {shape:<16}{cells}")
    if max(map(len, parts(data).values())) > most:
        lines.append(f"(numbers from at most {most} rows of each split)")
    lines.append("")
    lines += [f"{key}: {_short(value)}" for key, value in data.provenance.items() if value != ""]
    return "\n".join(lines)


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(f"{item:.4g}" if isinstance(item, float) else str(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)
