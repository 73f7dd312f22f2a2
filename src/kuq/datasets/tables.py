"""Tables of numbers: random splits by seed, and scaling by what the training rows show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from kuq._numbers import whole_number
from kuq.datasets.base import Dataset, Split
from kuq.errors import InsufficientDataError

Real: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]

_SHARE = 0.1


def split_rows(count: int, seed: int) -> tuple[Rows, Rows, Rows]:
    """Rows for training, validation and test: a tenth for test, of the rest a tenth to validate.

    >>> [len(rows) for rows in split_rows(308, seed=0)]
    [249, 28, 31]
    """
    order = np.random.default_rng(whole_number(seed, "seed", 0)).permutation(count)
    test = round(_SHARE * count)
    validation = round(_SHARE * (count - test))
    if min(test, validation) < 1:
        raise InsufficientDataError(
            f"{count} rows are too few for training, validation and test; 10 are needed at least"
        )
    return order[test + validation :], order[test : test + validation], order[:test]


@final
@dataclass(frozen=True)
class Scaling:
    """Means and standard deviations along axis 0; one where a column is constant."""

    mean: Real
    scale: Real

    @classmethod
    def of(cls, values: Real) -> Scaling:
        """The scaling after which these rows have mean zero and variance one."""
        mean = values.mean(axis=0)
        scale = values.std(axis=0)
        # A constant column has a deviation of rounding size, which must not be divided by.
        varies = scale > 1e-12 * np.abs(mean)
        return cls(mean, np.where(varies, scale, 1.0))

    def __call__(self, values: Real) -> Real:
        return (values - self.mean) / self.scale


def standardised_units(units: str, scaling: Scaling) -> str:
    """What one stands for after scaling."""
    size = f"{float(scaling.scale):.6g}"
    return f"standard deviations ({size if units == 'dimensionless' else f'{size} {units}'})"


def table_dataset(
    name: str,
    x: Real,
    y: Real,
    seed: int,
    units: str,
    provenance: Mapping[str, Any],
    standardise: bool = True,
) -> Dataset:
    """Split a table by seed; with ``standardise``, scale it by its training rows alone.

    The scaling stands in the provenance (``x_mean``, ``x_scale``, ``y_mean``, ``y_scale``), and
    ``units`` then counts standard deviations of the target in training.
    """
    train, validation, test = split_rows(len(x), seed)
    facts = {**provenance, "seed": seed, "standardised": standardise}
    if standardise:
        of_x, of_y = Scaling.of(x[train]), Scaling.of(y[train])
        x, y = of_x(x), of_y(y)
        facts |= {"x_mean": of_x.mean.tolist(), "x_scale": of_x.scale.tolist()}
        facts |= {"y_mean": float(of_y.mean), "y_scale": float(of_y.scale)}
        units = standardised_units(units, of_y)
    return Dataset(
        name,
        Split(x[train], y[train]),
        Split(x[validation], y[validation]),
        Split(x[test], y[test]),
        shifted=None,
        synthetic=False,
        units=units,
        provenance=facts,
    )
