"""Virtual ensembles of CatBoost models."""

from __future__ import annotations

from typing import Any

import numpy as np

from kuq._numbers import whole_number
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.normal import Normal, Point
from kuq.errors import ParameterError


def virtual_ensemble(model: Any, data: Any, n_members: int = 10) -> Ensemble:
    """Truncated versions of one CatBoost model as members, by ``virtual_ensembles_predict``.

    With ``loss_function="RMSEWithUncertainty"`` members are normals, with the variance that the
    model predicts; with ``"RMSE"`` they are points without noise. Fit the model with
    ``posterior_sampling=True``, for which virtual ensembles are meant. Members share most of their
    trees, so epistemic uncertainty is lower than that of models trained apart.
    """
    predict = getattr(model, "virtual_ensembles_predict", None)
    if predict is None:
        raise ParameterError(
            f"virtual_ensemble needs a fitted CatBoost model, got {type(model).__name__}"
        )
    n_members = whole_number(n_members, "n_members", 1)
    found = np.asarray(
        predict(data, prediction_type="VirtEnsembles", virtual_ensembles_count=n_members)
    )
    members = np.moveaxis(found, 1, 0)
    if members.shape[-1] == 1:
        return Ensemble(Point(members[..., 0]))
    loss = str(model.get_all_params().get("loss_function", "")).partition(":")[0]
    if members.shape[-1] != 2 or loss != "RMSEWithUncertainty":
        raise ParameterError(
            'virtual_ensemble needs loss_function="RMSEWithUncertainty" or "RMSE", got '
            f"{loss!r} with {members.shape[-1]} outputs"
        )
    return Ensemble(Normal(members[..., 0], np.sqrt(members[..., 1])))
