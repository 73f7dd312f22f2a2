"""Data sets of the paper, each with its shifted twin, through one shape (``Dataset``)."""

from kuq.datasets.base import Dataset, Split
from kuq.datasets.burgers import burgers
from kuq.datasets.cache import DataError
from kuq.datasets.catalogue import Entry, catalogue, load, register
from kuq.datasets.kuramoto_sivashinsky import kuramoto_sivashinsky

__all__ = [
    "DataError",
    "Dataset",
    "Entry",
    "Split",
    "burgers",
    "catalogue",
    "kuramoto_sivashinsky",
    "load",
    "register",
]


def __dir__() -> list[str]:
    return __all__
