"""Fitted ensembles of scikit-learn as kuq ensembles, without retraining."""

from __future__ import annotations

from typing import Any

import kuq
from kuq.sklearn.fitted import normal_members, residual_members, tree_members


def forest_ensemble(
    forest: Any, X_train: Any, y_train: Any, X_new: Any, *, sample_weight: Any = None
) -> kuq.Ensemble:
    """The trees of a fitted forest as members, each with the training targets in its leaves.

    Takes RandomForestRegressor, ExtraTreesRegressor and BaggingRegressor of decision trees, for
    scalar and for vector targets, with the data that they were fitted on (which is checked). A
    leaf holds the targets of the rows in the tree's bootstrap sample, as often as they were drawn,
    so that its mean is the tree's prediction. Leaves of one target know no noise: grow trees with
    ``min_samples_leaf`` of 5 or more. Pass ``unbiased="members"`` to measures, which takes leaves
    as they are: trees share training rows, so their targets are no independent draws. For many
    rows ``UncertaintyRegressor.from_fitted(...).predict_uncertainty`` is faster.

    >>> import kuq, numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X = np.linspace(0.0, 1.0, 40)[:, None]
    >>> y = np.where(np.arange(40) % 2 == 0, X[:, 0], -X[:, 0])  # noise grows with X
    >>> forest = RandomForestRegressor(20, min_samples_leaf=5, random_state=0).fit(X, y)
    >>> ensemble = kuq.sklearn.forest_ensemble(forest, X, y, [[0.1], [0.9]])
    >>> u = kuq.decompose(ensemble, kuq.CRPS(), unbiased="members")
    >>> bool(u.aleatoric[1] > 3 * u.aleatoric[0])
    True
    """
    return tree_members(forest, X_train, y_train, sample_weight).ensemble(X_new)


def bagging_ensemble(
    bagging: Any, X_train: Any, y_train: Any, X_new: Any, *, noise: str = "normal"
) -> kuq.Ensemble:
    """The regressors of a fitted BaggingRegressor as members, with noise from out-of-bag residuals.

    A residual is y − ŷ of a training row, where ŷ averages the members that have not seen it; it
    holds noise and what the average gets wrong. Every member gets the same noise at every input:
    with ``noise="normal"`` a normal of the residuals' mean square, with ``"residuals"`` the
    residuals themselves as draws.

    >>> import kuq, numpy as np
    >>> from sklearn.ensemble import BaggingRegressor
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.arange(30.0)[:, None]
    >>> bagging = BaggingRegressor(LinearRegression(), random_state=0).fit(X, X[:, 0] % 3)
    >>> kuq.sklearn.bagging_ensemble(bagging, X, X[:, 0] % 3, X[:4])
    Ensemble of 10 × Normal(batch=(4,), event=())
    """
    return residual_members(bagging, X_train, y_train, noise).ensemble(X_new)


def normal_ensemble(ensemble: Any, X_new: Any) -> kuq.Ensemble:
    """Regressors with ``return_std`` in a BaggingRegressor or VotingRegressor as normal members.

    GaussianProcessRegressor and BayesianRidge predict a mean and a standard deviation. All of a
    member's deviation counts as aleatoric, what it does not know about the function included.
    Weights of a VotingRegressor are weights of the members.

    >>> import kuq, numpy as np
    >>> from sklearn.ensemble import BaggingRegressor
    >>> from sklearn.linear_model import BayesianRidge
    >>> X = np.arange(30.0)[:, None]
    >>> bagging = BaggingRegressor(BayesianRidge(), random_state=0).fit(X, X[:, 0] % 3)
    >>> kuq.sklearn.normal_ensemble(bagging, X[:4])
    Ensemble of 10 × Normal(batch=(4,), event=())
    """
    return normal_members(ensemble).ensemble(X_new)
