"""scikit-learn: fitted forests and bagged regressors as ensembles of distributions."""

try:
    import sklearn  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(
        'kuq.sklearn needs scikit-learn; install it with pip install "kuq[sklearn]"'
    ) from error

from kuq.sklearn.ensembles import (
    bagging_ensemble,
    forest_ensemble,
    normal_ensemble,
    posterior_ensemble,
)
from kuq.sklearn.regressor import UncertaintyRegressor
from kuq.sklearn.scoring import scorer

__all__ = [
    "UncertaintyRegressor",
    "bagging_ensemble",
    "forest_ensemble",
    "normal_ensemble",
    "posterior_ensemble",
    "scorer",
]


def __dir__() -> list[str]:
    return __all__
