"""Data sets of the paper, each with its shifted twin, through one shape (``Dataset``)."""

from kuq.datasets.base import Dataset, Split
from kuq.datasets.catalogue import Entry, catalogue, load

__all__ = ["Dataset", "Entry", "Split", "catalogue", "load"]
