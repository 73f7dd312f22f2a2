"""A short table of the components of uncertainty."""

from __future__ import annotations

import numpy as np

from kuq.result import Uncertainty

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
    lines = [" " * 9 + "".join(f"{column:>12}" for column in _COLUMNS)]
    for part in u if u.is_split else ("total",):
        values = np.asarray(u[part], dtype=float).ravel()
        there = ~np.isnan(values)
        known = values[there]
        if known.size == 0:
            lines.append(f"{part:<9}" + f"{'none':>12}" * len(_COLUMNS))
            continue
        if weights is None:
            mean = known.mean()
            quantiles = np.quantile(known, [0.5, 0.9, 0.99], method="higher")
        else:
            w = np.ravel(weights)[there]
            mean = np.average(known, weights=w)
            quantiles = np.quantile(known, [0.5, 0.9, 0.99], weights=w, method="inverted_cdf")
        numbers = (mean, *quantiles, known.max())
        lines.append(f"{part:<9}" + "".join(f"{number:>12.5g}" for number in numbers))
        if known.size < values.size:
            lines[-1] += f"  ({values.size - known.size} missing)"
    return "\n".join(lines)
