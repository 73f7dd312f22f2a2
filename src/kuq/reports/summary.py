"""A short table of the components of uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kuq.reports.quantiles import quantiles
from kuq.result import Uncertainty

_LEVELS = (0.5, 0.9, 0.99)
_COLUMNS = ("mean", "median", "90 %", "99 %", "largest")


def summary_table(u: Uncertainty, weights: np.ndarray | None = None) -> str:
    """Mean, quantiles and largest value of each component, in plain characters.

    Where there is one level of uncertainty and not two, only that of the total.
    ``weights`` of the inputs, such as areas, have the shape of the components.

    >>> import kuq, numpy as np
    >>> u = kuq.decompose(kuq.Ensemble(kuq.Normal(np.zeros((2, 3)), 1.0)), kuq.SquaredError())
    >>> print(summary_table(u))
                     mean      median        90 %        99 %     largest
    total               1           1           1           1           1
    aleatoric           1           1           1           1           1
    epistemic           0           0           0           0           0
    """
    shown = u if u.is_split else ("total",)
    return table_of_parts({component: u[component] for component in shown}, weights)


def table_of_parts(parts: Mapping[str, Any], weights: np.ndarray | None = None) -> str:
    """The same of any parts by their names."""
    width = max(9, *map(len, parts))
    lines = [" " * width + "".join(f"{column:>12}" for column in _COLUMNS)]
    for name, component in parts.items():
        values = np.asarray(component, dtype=float).ravel()
        there = ~np.isnan(values)
        present = values[there]
        if present.size == 0:
            lines.append(f"{name:<{width}}" + f"{'none':>12}" * len(_COLUMNS))
            continue
        shares = None if weights is None else np.ravel(weights)[there]
        mean = np.average(present, weights=shares)
        numbers = (mean, *quantiles(present, _LEVELS, shares), present.max())
        lines.append(f"{name:<{width}}" + "".join(f"{number:>12.5g}" for number in numbers))
        if present.size < values.size:
            lines[-1] += f"  ({values.size - present.size} missing)"
    return "\n".join(lines)
