"""xarray: measures of predictions with named dimensions, in memory or chunk by chunk on Dask.

Importing it adds ``data.kuq``, the same functions as methods of DataArrays and Datasets.
"""

try:
    import xarray  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(
        'kuq.xarray needs xarray; install it with pip install "kuq[xarray]"'
    ) from error

from kuq.xarray import accessor as _accessor  # noqa: F401, it adds data.kuq
from kuq.xarray.area import area_weights
from kuq.xarray.judgements import ood_detection, selective_prediction
from kuq.xarray.measures import decompose, divergence, entropy, member_divergences, score

__all__ = [
    "area_weights",
    "decompose",
    "divergence",
    "entropy",
    "member_divergences",
    "ood_detection",
    "score",
    "selective_prediction",
]


def __dir__() -> list[str]:
    return __all__
