"""Predictions as plain arrays that a file can keep, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kuq.distributions.base import Distribution, Parametric, Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.evidential import NormalInverseGamma
from kuq.distributions.low_rank import LowRankNormal
from kuq.distributions.mixture import NormalMixture
from kuq.distributions.normal import Normal, Point
from kuq.distributions.samples import Samples
from kuq.distributions.student_t import StudentT
from kuq.errors import ParameterError

#: The laws by name: a file names one of these, and can make nothing else.
_LAWS: dict[str, type[Any]] = {
    law.__name__: law
    for law in (
        LowRankNormal,
        Normal,
        NormalInverseGamma,
        NormalMixture,
        Point,
        Samples,
        StudentT,
    )
}


def to_arrays(prediction: Prediction, prefix: str) -> dict[str, np.ndarray]:
    """All arrays of a second-order prediction, with names that begin with ``prefix``.

    >>> import kuq
    >>> arrays = to_arrays(kuq.Ensemble(kuq.Normal([[0.0], [1.0]], 1.0)), "test")
    >>> sorted(arrays)
    ['test.event_ndim', 'test.law', 'test.loc', 'test.scale']
    >>> from_arrays(arrays, "test")
    Ensemble of 2 × Normal(batch=(1,), event=())
    """
    if isinstance(prediction, NormalInverseGamma):
        return _law_arrays(prediction, prefix)
    if not isinstance(prediction, Ensemble):
        raise ParameterError(
            "predict_distribution must give an Ensemble or a NormalInverseGamma, got "
            f"{prediction!r}"
        )
    arrays = {}
    if prediction.weights is not None:
        arrays[f"{prefix}.member_weights"] = np.asarray(prediction.weights)
    if isinstance(prediction.members, Distribution):
        return arrays | _law_arrays(prediction.members, prefix)
    arrays[f"{prefix}.count"] = np.array(len(prediction.members))
    for position, member in enumerate(prediction.members):
        arrays |= _law_arrays(member, f"{prefix}.{position}")
    return arrays


def from_arrays(arrays: Mapping[str, Any], prefix: str) -> Prediction:
    """The prediction that ``to_arrays`` took apart."""
    if f"{prefix}.count" in arrays:
        members = [_law(arrays, f"{prefix}.{i}") for i in range(int(arrays[f"{prefix}.count"]))]
        return Ensemble(members, arrays.get(f"{prefix}.member_weights"))
    law = _law(arrays, prefix)
    if isinstance(law, NormalInverseGamma):
        return law
    return Ensemble(law, arrays.get(f"{prefix}.member_weights"))


def _law_arrays(law: Parametric, prefix: str) -> dict[str, np.ndarray]:
    name = type(law).__name__
    if _LAWS.get(name) is not type(law):
        raise ParameterError(f"predictions of the kind {name} cannot be kept; use kuq's own laws")
    if isinstance(law, Samples) and law.nan_policy != "raise":
        raise ParameterError("Samples with missing draws cannot be kept; remove them first")
    arrays = {f"{prefix}.law": np.array(name), f"{prefix}.event_ndim": np.array(law.event_ndim)}
    for parameter in law.parameters:
        value = getattr(law, parameter)
        if value is not None:
            arrays[f"{prefix}.{parameter}"] = np.asarray(value)
    arrays |= {f"{prefix}.{name}": np.array(True) for name in law.settings if getattr(law, name)}
    return arrays


def _law(arrays: Mapping[str, Any], prefix: str) -> Any:
    kind = _LAWS[str(arrays[f"{prefix}.law"])]
    values = {
        parameter: arrays[f"{prefix}.{parameter}"]
        for parameter in (*kind.parameters, *kind.settings)
        if f"{prefix}.{parameter}" in arrays
    }
    if kind is not LowRankNormal:  # whose outcomes are vectors
        values["event_ndim"] = int(arrays[f"{prefix}.event_ndim"])
    return kind(**values)
