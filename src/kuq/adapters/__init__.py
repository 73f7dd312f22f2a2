"""Predictions of other libraries as kuq distributions: one small adapter for each library."""

from kuq.adapters.boosted_models import virtual_ensemble
from kuq.adapters.conversion import as_distribution
from kuq.adapters.quantile_forecasts import quantiles

__all__ = ["as_distribution", "quantiles", "virtual_ensemble"]


def __dir__() -> list[str]:
    return __all__
