"""Data sets of the paper, each with its shifted twin, through one shape (``Dataset``)."""

from kuq.datasets.base import Dataset, Split
from kuq.datasets.burgers import burgers
from kuq.datasets.cache import DataError
from kuq.datasets.catalogue import Entry, catalogue, load, register
from kuq.datasets.kuramoto_sivashinsky import kuramoto_sivashinsky
from kuq.datasets.monthly_temperature import MonthlyTemperature, monthly_temperature
from kuq.datasets.reference_forecasts import reference_forecasts

__all__ = [
    "DataError",
    "Dataset",
    "Entry",
    "MonthlyTemperature",
    "Split",
    "burgers",
    "catalogue",
    "kuramoto_sivashinsky",
    "load",
    "monthly_temperature",
    "reference_forecasts",
    "register",
]


def __dir__() -> list[str]:
    return __all__
