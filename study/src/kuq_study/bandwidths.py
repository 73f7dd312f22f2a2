"""The bandwidth of bounded kernels in an experiment: where it comes from decides some outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import numpy as np

from kuq._ranges import Positive
from kuq.distributions.base import Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.errors import ParameterError
from kuq.kernels.gaussian import Gaussian
from kuq.uncertainty import decompose

#: The median distance between training targets; that between outcomes of two members; the median
#: standard deviation that members predict.
Source: TypeAlias = Literal["training-targets", "members", "predicted-scale"]
TARGETS: Final = "training-targets"
MEMBERS: Final = "members"
SCALE: Final = "predicted-scale"

#: A source, a number, or one of both for each data set.
Bandwidth: TypeAlias = Source | Positive | Mapping[str, Source | Positive]


def bandwidth_of(
    option: Bandwidth, dataset: str, target_distance: float, prediction: Prediction
) -> float:
    """The bandwidth as a number, from the training targets or from one prediction."""
    if isinstance(option, Mapping):
        if dataset not in option:
            raise ParameterError(f"bandwidth has no entry for {dataset!r}; it has {sorted(option)}")
        option = option[dataset]
    if not isinstance(option, str):
        return float(option)
    if option == TARGETS:
        return target_distance
    if option == MEMBERS:
        score = decompose(prediction, Gaussian("median")).score
        assert isinstance(score, Gaussian)
        return float(score.bandwidth)
    if option == SCALE:
        return _predicted_scale(prediction)
    raise ParameterError(
        f"bandwidth must be a number or one of {(TARGETS, MEMBERS, SCALE)}, got {option!r}"
    )


def _predicted_scale(prediction: Prediction) -> float:
    """The median over inputs and members of the root of the summed variance of an outcome."""
    if not isinstance(prediction, Ensemble):
        raise ParameterError(f"bandwidth = {SCALE!r} needs an ensemble, got {prediction!r}")
    variances = np.stack([np.asarray(m.variance()) for m in prediction.member_list()])
    lead = 1 + len(prediction.batch_shape)
    return float(np.median(np.sqrt(variances.reshape(*variances.shape[:lead], -1).sum(-1))))
