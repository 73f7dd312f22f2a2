"""The public functions: decompose, entropy, divergence, score, and what is built from them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, ParamSpec, TypeVar

import numpy as np

from kuq import scores
from kuq._array import (
    Array,
    adopted,
    any_true,
    is_array,
    is_traced,
    namespace,
    require_finite,
    torch_of,
)
from kuq._threads import one_thread_each, one_torch_thread
from kuq.adapters.conversion import as_distribution
from kuq.distributions.base import Distribution, Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.evidential import NormalInverseGamma
from kuq.distributions.normal import Point
from kuq.distributions.samples import Samples
from kuq.errors import InsufficientDataError, ParameterError, ShapeError
from kuq.kernels.base import Kernel, Score
from kuq.kernels.log_score import LogScore
from kuq.result import Uncertainty
from kuq.scores import kernel_decompose, log_decompose
from kuq.scores.options import DEFAULT_MEMORY, Options
from kuq.scores.views import first_order

_ESTIMATORS = ("pairwise", "bma")
#: Numbers of a prediction from which on a matrix product could have threads.
_SMALLEST_FOR_THREADS = 64

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _alone(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The same, with one thread in linear algebra: threads are ours, over pieces of the work."""

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        given = [x.reference for x in (*args, *kwargs.values()) if isinstance(x, Prediction)]
        large = any(math.prod(x.shape) >= _SMALLEST_FOR_THREADS for x in given)
        if not large or is_traced(given[0]):
            return function(*args, **kwargs)
        if isinstance(given[0], np.ndarray):
            with one_thread_each():
                return function(*args, **kwargs)
        torch = torch_of(given[0])
        with nullcontext() if torch is None else one_torch_thread(torch):
            return function(*args, **kwargs)

    return call


@_alone
def decompose(
    prediction: Prediction,
    score: Score,
    *,
    estimator: str = "pairwise",
    unbiased: bool | str = True,
    rtol: float = 1e-8,
    draws: int | None = None,
    seed: int | None = None,
    max_memory: float = DEFAULT_MEMORY,
) -> Uncertainty:
    """Split the uncertainty of a second-order prediction into aleatoric and epistemic.

    ``estimator``: "pairwise" (mean divergence between members) or "bma" (from the mixture; with
    SquaredError the variance of the members' means, half of the pairwise value).
    ``unbiased``: True treats members and draws as samples of what they stand for, False takes
    them as they are, "members" or "samples" chooses one level. ``rtol`` is the accuracy of
    quadratures. ``draws`` and ``seed`` opt in to Monte Carlo where nothing better exists.
    ``max_memory`` bounds in bytes the tables, tiles and blocks that are held beside your arrays
    and the results. It does not bound copies of the draws under ``Marginal`` kernels, of float32
    input and of weighted events, maps over the event before they are reduced, and one input of an
    evidential law of many coordinates.

    >>> import kuq, numpy as np
    >>> u = kuq.decompose(kuq.Ensemble(kuq.Normal([[0.0], [2.0]], 1.0)), kuq.SquaredError())
    >>> float(u.aleatoric[0]), float(u.epistemic[0])
    (1.0, 4.0)
    """
    options = Options.checked(unbiased, rtol, draws, seed, max_memory)
    if estimator not in _ESTIMATORS:
        raise ParameterError(f"estimator must be one of {_ESTIMATORS}, got {estimator!r}")
    _check_score(score)
    if not isinstance(prediction, Prediction):
        prediction = as_distribution(prediction)
    if isinstance(prediction, Distribution):
        raise ParameterError(
            f"decompose needs a second-order prediction, got {prediction!r}; wrap the members "
            "in kuq.Ensemble(...), or use kuq.entropy for the uncertainty of a single law"
        )
    if isinstance(prediction, Ensemble):
        _check_member_count(prediction, options, estimator, score)
        _check_draws(prediction, options)
    elif not isinstance(prediction, NormalInverseGamma):
        raise ParameterError(
            f"decompose needs an Ensemble or a NormalInverseGamma, got {type(prediction).__name__}"
        )
    prediction = prediction.beside(_arrays_of(score))
    if isinstance(prediction, Ensemble):
        prediction = prediction.counting()
    if isinstance(score, LogScore):
        aleatoric, epistemic, method = log_decompose.decompose(prediction, estimator, options)
    else:
        assert isinstance(score, Kernel)
        score, aleatoric, epistemic, method = kernel_decompose.decompose(prediction, score, options)
        epistemic = epistemic / 2 if estimator == "bma" else epistemic
    return _result(prediction, score, aleatoric, epistemic, estimator, unbiased, method)


def _result(
    prediction: Prediction,
    score: Score,
    aleatoric: Array,
    epistemic: Array,
    estimator: str,
    unbiased: bool | str,
    method: str,
) -> Uncertainty:
    return Uncertainty(
        total=_as_array(_sum(aleatoric, epistemic), prediction.dtype),
        aleatoric=_as_array(aleatoric, prediction.dtype),
        epistemic=_as_array(epistemic, prediction.dtype),
        score=score,
        estimator=estimator,
        unbiased=unbiased,
        method=method,
        units=score.units,
    )


@_alone
def entropy(
    p: Prediction,
    score: Score,
    *,
    unbiased: bool | str = True,
    rtol: float = 1e-8,
    draws: int | None = None,
    seed: int | None = None,
    max_memory: float = DEFAULT_MEMORY,
) -> Array:
    """H(P): the expected score of a law under itself, the aleatoric uncertainty of one law.

    >>> import kuq
    >>> float(kuq.entropy(kuq.Samples([0.0, 1.0]), kuq.CRPS(), unbiased=False))
    0.25
    """
    options = Options.checked(unbiased, rtol, draws, seed, max_memory)
    _check_score(score)
    p = first_order(p).beside(_arrays_of(score))
    if isinstance(score, LogScore):
        value = log_decompose.entropy(p, options)
    else:
        assert isinstance(score, Kernel)
        value = kernel_decompose.entropy(p, score, options)
    return _as_array(value, p.dtype)


@_alone
def divergence(
    p: Prediction,
    q: Prediction,
    score: Score,
    *,
    unbiased: bool | str = True,
    rtol: float = 1e-8,
    draws: int | None = None,
    seed: int | None = None,
    max_memory: float = DEFAULT_MEMORY,
) -> Array:
    """D(P, Q) = S(P, Q) − H(Q): how far two predictions disagree; for the log score KL(Q‖P).

    >>> import kuq
    >>> float(kuq.divergence(kuq.Point(0.0), kuq.Point(3.0), kuq.Energy()))
    3.0
    """
    options = Options.checked(unbiased, rtol, draws, seed, max_memory)
    _check_score(score)
    p, q = _aligned(p, q, score)
    if isinstance(score, LogScore):
        value = log_decompose.divergence(p, q, options)
    else:
        assert isinstance(score, Kernel)
        value = kernel_decompose.divergence(p, q, score, options)
    return _cast(value, p, q)


@_alone
def score(
    p: Prediction,
    y: Any,
    score: Score,
    *,
    unbiased: bool | str = True,
    rtol: float = 1e-8,
    draws: int | None = None,
    seed: int | None = None,
    max_memory: float = DEFAULT_MEMORY,
) -> Array:
    """S(P, y): how well a prediction fits an outcome, a loss; −log p(y) for the log score.

    ``y`` has the shape of p's batch + event; leading axes of p, such as members, may be missing.

    >>> import kuq
    >>> float(kuq.score(kuq.Normal(0.0, 1.0), 0.0, kuq.CRPS()))  # (√2 − 1)/√π
    0.2336949772551
    """
    options = Options.checked(unbiased, rtol, draws, seed, max_memory)
    _check_score(score)
    p = first_order(p).beside([y, *_arrays_of(score)])
    outcome = _fit_outcome(adopted(y, p.reference, "y"), p)
    require_finite(y=outcome)
    if isinstance(score, LogScore):
        value = log_decompose.score(p, outcome)
    else:
        assert isinstance(score, Kernel)
        target = Point(outcome, len(p.event_shape))
        value = kernel_decompose.divergence(p, target, score, options)
    return _as_array(value, p.dtype)


@_alone
def expected_kernel(
    p: Prediction,
    q: Prediction,
    kernel: Kernel,
    *,
    rtol: float = 1e-8,
    draws: int | None = None,
    seed: int | None = None,
    max_memory: float = DEFAULT_MEMORY,
) -> Array:
    """a(P, Q) = E k(X, Y) for independent X ~ P, Y ~ Q; for Samples the mean over all pairs.

    >>> import kuq
    >>> float(kuq.expected_kernel(kuq.Samples([0.0, 2.0]), kuq.Point(0.0), kuq.Energy()))
    1.0
    """
    options = Options.checked(False, rtol, draws, seed, max_memory)
    if not isinstance(kernel, Kernel):
        raise ParameterError(f"expected_kernel needs a kernel, got {kernel!r}")
    p, q = _aligned(p, q, kernel)
    return _cast(kernel_decompose.expected_kernel(p, q, kernel, options), p, q)


@_alone
def member_divergences(
    prediction: Ensemble,
    score: Score,
    *,
    unbiased: bool | str = True,
    rtol: float = 1e-8,
    draws: int | None = None,
    seed: int | None = None,
    max_memory: float = DEFAULT_MEMORY,
) -> Array:
    """The matrix D(P_i, P_j) behind the epistemic uncertainty, of shape (M, M, batch…).

    >>> import kuq
    >>> kuq.member_divergences(kuq.Ensemble(kuq.Point([0.0, 1.0, 3.0])), kuq.Energy()).tolist()
    [[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]]
    """
    options = Options.checked(unbiased, rtol, draws, seed, max_memory)
    _check_score(score)
    _check_ensemble(prediction, "member_divergences")
    _check_draws(prediction, options)
    prediction = prediction.beside(_arrays_of(score))
    if isinstance(score, LogScore):
        value = log_decompose.divergence_matrix(prediction, options)
    else:
        assert isinstance(score, Kernel)
        value = kernel_decompose.divergence_matrix(prediction, score, options)
    return _as_array(value, prediction.dtype)


@_alone
def member_influence(
    prediction: Ensemble,
    score: Score,
    *,
    unbiased: bool | str = True,
    rtol: float = 1e-8,
    draws: int | None = None,
    seed: int | None = None,
    max_memory: float = DEFAULT_MEMORY,
) -> Uncertainty:
    """How AU, EU and their sum change when a member is left out, (M, batch…) each.

    Negative values: the member raises the uncertainty. A bounded kernel bounds the changes.

    >>> import kuq
    >>> influence = kuq.member_influence(kuq.Ensemble(kuq.Point([0.0, 0.0, 9.0])), kuq.Energy())
    >>> influence.epistemic.tolist()
    [3.0, 3.0, -6.0]
    """
    options = Options.checked(unbiased, rtol, draws, seed, max_memory)
    _check_score(score)
    _check_ensemble(prediction, "member_influence")
    _check_draws(prediction, options)
    prediction = prediction.beside(_arrays_of(score))
    needed = 3 if options.unbiased_members else 2
    counting = prediction.positions_that_count()
    if len(counting) < needed:
        raise InsufficientDataError(
            f"member_influence needs at least {needed} members with weight, so that enough are "
            f"left, got {len(counting)}; with unbiased=False two are enough"
        )
    whole, prediction = prediction, prediction.counting()
    if isinstance(score, LogScore):
        entropies, matrix, method = log_decompose.member_parts(prediction, options)
    else:
        assert isinstance(score, Kernel)
        score, entropies, matrix, method = kernel_decompose.member_parts(prediction, score, options)
    parts = scores.leave_one_out(
        entropies, matrix, prediction.member_weights(), options.unbiased_members
    )
    if prediction.member_count < whole.member_count:
        parts = tuple(_spread_out(part, counting, whole.member_count) for part in parts)
    aleatoric, epistemic = parts
    return _result(prediction, score, aleatoric, epistemic, "pairwise", unbiased, method)


def _spread_out(values: Array, positions: list[int], count: int) -> Array:
    """Rows of an array at some positions among rows of zeros: who has no weight changes nothing."""
    xp = namespace(values)
    zero = xp.zeros_like(values[0, ...])
    rows = {position: values[k, ...] for k, position in enumerate(positions)}
    return xp.stack([rows.get(position, zero) for position in range(count)])


def _sum(aleatoric: Array, epistemic: Array) -> Array:
    """AU + EU; point masses that differ have AU = −inf and EU = inf under the log score."""
    xp = namespace(aleatoric)
    infinite = epistemic == math.inf
    finite = xp.where(infinite, xp.zeros_like(epistemic), epistemic)
    return xp.where(infinite, epistemic, aleatoric + finite)


def _check_score(value: object) -> None:
    if not isinstance(value, Score):
        hint = " (an instance is needed: CRPS(), not CRPS)" if callable(value) else ""
        raise ParameterError(f"score must be a kuq score such as CRPS(), got {value!r}{hint}")


def _check_ensemble(prediction: object, name: str) -> None:
    if not isinstance(prediction, Ensemble):
        raise ParameterError(f"{name} needs an Ensemble, got {type(prediction).__name__}")


def _check_member_count(
    prediction: Ensemble, options: Options, estimator: str, score: Score
) -> None:
    plug_in = estimator == "bma" and isinstance(score, LogScore)
    if options.unbiased_members and prediction.member_count < 2 and not plug_in:
        raise InsufficientDataError(
            "an unbiased epistemic uncertainty needs at least two members, got M = 1; "
            'pass unbiased=False, or unbiased="samples" to correct for draws only'
        )
    weights = prediction.weights
    if options.unbiased_members and weights is not None and not plug_in:
        xp = namespace(weights)
        if any_true(xp.max(weights) > 1 - 1e-9):
            raise InsufficientDataError(
                "an unbiased epistemic uncertainty needs at least two members with weight, got "
                "all weight on one; pass unbiased=False or other weights"
            )


def _check_draws(prediction: Ensemble, options: Options) -> None:
    """Refuse members with all weight on one draw: unbiased statistics of them would be NaN.

    Where draws were left out since they are NaN, NaN is the answer.
    """
    members = prediction.members
    for law in members if isinstance(members, tuple) else (members,):
        if not isinstance(law, Samples) or law.weights is None or law.nan_policy == "omit":
            continue
        xp = namespace(law.weights)
        alone = xp.max(law.weights, axis=-1) > 1 - 1e-9
        if options.unbiased_samples and any_true(alone):
            count = int(xp.sum(xp.astype(alone, law.weights.dtype)))
            raise InsufficientDataError(
                f"{count} of {math.prod(alone.shape)} laws have all weight on one draw, and "
                'unbiased statistics need two; pass unbiased="members", which takes draws as they '
                "are. If these are leaves of a forest with one training row, they know no noise: "
                "grow trees with min_samples_leaf=5, or take the noise from out-of-bag residuals: "
                'forest_ensemble(..., noise="normal")'
            )


def _arrays_of(score: Score) -> list[Array]:
    """The arrays that a score brings along."""
    if not isinstance(score, Kernel):
        return []
    owners = [owner for term in score.terms() for owner in (term.kernel, *term.stages)]
    names = ("bandwidth", "weights", "low", "high")
    values = [getattr(owner, name, None) for owner in owners for name in names]
    return [value for value in values if is_array(value)]


def _aligned(p: Prediction, q: Prediction, score: Score) -> tuple[Prediction, Prediction]:
    """Two first-order predictions in one library, checked to speak of the same outcomes."""
    p, q = first_order(p), first_order(q)
    arrays = [p.reference, q.reference, *_arrays_of(score)]
    p, q = p.beside(arrays), q.beside(arrays)
    try:
        namespace(p.reference, q.reference)
    except TypeError:
        raise ParameterError("p and q must come from one array library") from None
    if p.event_shape != q.event_shape:
        raise ShapeError(
            f"p and q need the same event shape, got {p.event_shape} and {q.event_shape}; "
            "reshape one, or set event_ndim"
        )
    if p.batch_shape != q.batch_shape:
        raise ShapeError(
            f"p and q need the same batch shape, got {p.batch_shape} and {q.batch_shape}; "
            "broadcast the parameters first"
        )
    return p, q


def _fit_outcome(y: Array, p: Prediction) -> Array:
    """Let y miss leading axes that p has, and nothing else."""
    full = (*p.batch_shape, *p.event_shape)
    shape = tuple(y.shape)
    missing = len(full) - len(shape)
    fits = missing >= 0 and missing <= len(p.batch_shape)
    if fits:
        padded = (1,) * missing + shape
        lead = next(
            (i for i, (a, b) in enumerate(zip(padded, full, strict=True)) if a == b), len(full)
        )
        same = all(a == b for a, b in zip(padded[lead:], full[lead:], strict=True))
        ones = all(a == 1 for a in padded[:lead])
        fits = same and ones and lead <= len(p.batch_shape)
    if not fits:
        raise ShapeError(
            f"y must have the shape batch + event = {full} of the prediction, without leading "
            f"axes at most; got {shape}"
        )
    return namespace(y).broadcast_to(y, full)


def _cast(value: Array, p: Prediction, q: Prediction) -> Array:
    return _as_array(value, namespace(value).result_type(p.dtype, q.dtype))


def _as_array(value: Array, dtype: Any) -> Array:
    """A result in the dtype of the input; NumPy makes scalars of arrays without axes."""
    xp = namespace(value)
    result = xp.astype(value, dtype)
    return result if is_array(result) else xp.asarray(result)
