"""Data sets of the paper, each with its shifted twin, through one shape (``Dataset``)."""

from kuq.datasets.base import Dataset, Split

__all__ = ["Dataset", "Split"]
