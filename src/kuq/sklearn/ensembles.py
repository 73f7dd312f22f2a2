"""Fitted ensembles of scikit-learn as kuq ensembles, without retraining."""

from __future__ import annotations

from typing import Any

import kuq
from kuq._numbers import whole_number
from kuq.sklearn.fitted import (
    check_noise,
    normal_members,
    posterior_members,
    residual_members,
    tree_members,
)
from kuq.sklearn.posterior import FEWEST, MEMBERS


def forest_ensemble(
    forest: Any,
    X_train: Any,
    y_train: Any,
    X_new: Any,
    *,
    noise: str = "auto",
    sample_weight: Any = None,
) -> kuq.Ensemble:
    """The trees of a fitted forest as members, each with the training targets in its leaves.

    Takes RandomForestRegressor, ExtraTreesRegressor and BaggingRegressor of decision trees, also
    inside of a Pipeline or a search, with the data that they were fitted on (which is checked). A
    leaf holds the targets of the rows in the tree's bootstrap sample, as often as they were drawn,
    so that its mean is the tree's prediction. These are the law of the tree itself
    (``Samples(..., whole=True)``): trees share training rows, so that targets are no independent
    draws, and nothing is corrected for their number.

    Small leaves know little noise, so that too much counts as epistemic, which the result says, and
    those of one row none, of which ``noise="auto"`` warns: then nothing can be split. Grow trees
    with ``min_samples_leaf`` of 10 or more, or take the same noise for every tree from residuals of
    rows outside its bag, as ``noise="normal"`` or as draws, ``"residuals"``; ``"leaves"`` takes
    leaves without a warning. For many rows
    ``UncertaintyRegressor.from_fitted(...).predict_uncertainty`` is faster.

    >>> import kuq, numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X = np.linspace(0.0, 1.0, 40)[:, None]
    >>> y = np.where(np.arange(40) % 2 == 0, X[:, 0], -X[:, 0])  # noise grows with X
    >>> forest = RandomForestRegressor(20, min_samples_leaf=5, random_state=0).fit(X, y)
    >>> ensemble = kuq.sklearn.forest_ensemble(forest, X, y, [[0.1], [0.9]])
    >>> u = kuq.decompose(ensemble, kuq.CRPS())
    >>> bool(u.aleatoric[1] > 3 * u.aleatoric[0])
    True
    """
    check_noise(noise)
    if noise in ("normal", "residuals"):
        return residual_members(forest, X_train, y_train, noise).ensemble(X_new)
    members = tree_members(forest, X_train, y_train, sample_weight, cautious=noise == "auto")
    members.warn_of_single_rows(stacklevel=2)
    return members.ensemble(X_new)


def bagging_ensemble(
    bagging: Any, X_train: Any, y_train: Any, X_new: Any, *, noise: str = "normal"
) -> kuq.Ensemble:
    """The regressors of a fitted BaggingRegressor as members, with noise from out-of-bag residuals.

    A forest, a Pipeline or a search with one inside will do, too.

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


def posterior_ensemble(model: Any, X_new: Any, n_members: int = MEMBERS) -> kuq.Ensemble:
    """A fitted Gaussian process as members: functions that the data allow, and its noise.

    Takes GaussianProcessRegressor, BayesianRidge and ARDRegression, also inside of a Pipeline or a
    search. Noise is that of a WhiteKernel and ``alpha`` (of linear models 1/``alpha_``); the rest
    of ``return_std`` says how far the function may be off. Members are spread like the function at
    every row: nothing is drawn. With unbiased statistics, the default, the epistemic variance is
    exact (under SquaredError twice that of the posterior: pairwise); with 20 members that of the
    CRPS is off by up to 0.5 %, and others by 1 %.

    >>> import kuq, numpy as np
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> X = np.linspace(0.0, 1.0, 30)[:, None]
    >>> kernel = RBF(0.2, "fixed") + WhiteKernel(0.01, "fixed")
    >>> process = GaussianProcessRegressor(kernel).fit(X, np.sin(6 * X[:, 0]))
    >>> u = kuq.decompose(kuq.sklearn.posterior_ensemble(process, [[0.5], [3.0]]), kuq.CRPS())
    >>> bool(u.epistemic[1] > 10 * u.epistemic[0]), bool(np.ptp(u.aleatoric) < 1e-12)
    (True, True)
    """
    n_members = whole_number(n_members, "n_members", FEWEST)
    return posterior_members(model, n_members).ensemble(X_new)
