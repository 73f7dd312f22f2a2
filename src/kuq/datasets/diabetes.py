"""The diabetes data that come with scikit-learn: the default that needs no download."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kuq.datasets.base import Dataset
from kuq.datasets.cache import DataError
from kuq.datasets.tables import table_dataset

SOURCE = "scikit-learn's bundled copy of Efron, Hastie, Johnstone and Tibshirani (2004)"


def load_diabetes(data_dir: Path | None, seed: int, *, standardise: bool = True) -> Dataset:
    """442 patients, ten measurements each, and the progression of the disease after a year."""
    x, y = load_table()
    facts = {"source": SOURCE, "licence": "BSD 3-Clause (scikit-learn)"}
    facts["target"] = "progression of the disease after a year"
    return table_dataset("diabetes", x, y, seed, "points", facts, standardise)


def load_table() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The whole table: measurements (442, 10) and progression (442,)."""
    try:
        from sklearn import datasets
    except ModuleNotFoundError as error:
        raise DataError(
            'the diabetes data need scikit-learn: pip install "kuq[datasets]"'
        ) from error
    x, y = datasets.load_diabetes(return_X_y=True, scaled=False)
    return np.asarray(x, np.float64), np.asarray(y, np.float64)
