"""``data.kuq``: the functions of kuq.xarray as methods of DataArrays and Datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Any, final

import xarray as xr

import kuq
from kuq.xarray import measures
from kuq.xarray.layout import Data

_of_arrays: Any = xr.register_dataarray_accessor  # they have no types
_of_datasets: Any = xr.register_dataset_accessor


@_of_datasets("kuq")
@_of_arrays("kuq")
@final
class Accessor:
    """Measures of a prediction with named dimensions, once kuq.xarray has been imported.

    Scores may be named as on the command line: "crps", "energy", "gaussian:0.5".

    >>> import kuq.xarray, xarray
    >>> points = xarray.DataArray([[0.0, 1.0], [2.0, 5.0]], dims=("member", "time"))
    >>> points.kuq.decompose("crps").total.values.tolist()
    [2.0, 4.0]
    """

    def __init__(self, data: Data) -> None:
        self._data = data

    def decompose(self, score: kuq.Score | str, **options: Any) -> xr.Dataset:
        """The same as ``kuq.xarray.decompose`` of the data."""
        return measures.decompose(self._data, score, **options)

    def entropy(self, score: kuq.Score | str, **options: Any) -> Data:
        """The same as ``kuq.xarray.entropy`` of the data."""
        return measures.entropy(self._data, score, **options)

    def divergence(self, other: Data, score: kuq.Score | str, **options: Any) -> xr.DataArray:
        """The same as ``kuq.xarray.divergence`` of the data and another prediction."""
        return measures.divergence(self._data, other, score, **options)

    def score(self, outcome: xr.DataArray, score: kuq.Score | str, **options: Any) -> xr.DataArray:
        """The same as ``kuq.xarray.score`` of the data at outcomes."""
        return measures.score(self._data, outcome, score, **options)

    def report(
        self, path: str | Path, score: kuq.Score | str | None = None, **options: Any
    ) -> Path:
        """Write a page about the data, by default under the CRPS; see ``kuq.report``."""
        return kuq.report(self._data, score, path=path, **options)

    def member_divergences(self, score: kuq.Score | str, **options: Any) -> xr.DataArray:
        """The same as ``kuq.xarray.member_divergences`` of the data."""
        return measures.member_divergences(self._data, score, **options)
