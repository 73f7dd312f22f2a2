"""Plots of uncertainties: each function takes and returns a matplotlib ``Axes``."""

from kuq.plot.comparison import kernel_comparison
from kuq.plot.decomposition import decomposition
from kuq.plot.levels import partition
from kuq.plot.maps import uncertainty_map
from kuq.plot.members import divergence_matrix
from kuq.plot.protocols import ood_histograms, retention_curve

__all__ = [
    "decomposition",
    "divergence_matrix",
    "kernel_comparison",
    "ood_histograms",
    "partition",
    "retention_curve",
    "uncertainty_map",
]


def __dir__() -> list[str]:
    return __all__
