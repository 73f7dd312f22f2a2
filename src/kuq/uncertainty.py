"""The public functions: decompose, entropy, divergence, score, and what is built from them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np

from kuq import answers, door, estimates, scores, standard_errors, walks
from kuq._array import (
    Array,
    adopted,
    any_true,
    as_numpy,
    axis_of_one,
    between_graphs,
    detach,
    from_numpy,
    is_array,
    is_traced,
    namespace,
    readable,
    require_finite,
    torch_of,
)
from kuq._numbers import whole_number
from kuq._threads import one_thread_each, one_torch_thread
from kuq.adapters.conversion import as_distribution
from kuq.distributions.base import Distribution, Prediction, is_prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.evidential import NormalInverseGamma
from kuq.distributions.normal import Point
from kuq.distributions.samples import Samples
from kuq.errors import InsufficientDataError, ParameterError, ShapeError
from kuq.kernels.base import Kernel, Score
from kuq.kernels.names import as_score, usual_estimator
from kuq.partition import Partition, summed
from kuq.permutations import ranks
from kuq.result import Estimate, MemberTest, PartErrors, StandardError, Uncertainty
from kuq.scores.levels import Design
from kuq.scores.options import DEFAULT_MEMORY, Options
from kuq.views import arrays_of, first_order

_ESTIMATORS = ("pairwise", "bma")
_SOURCES = ("members", "draws", "both")
#: Numbers of a prediction from which on products of its matrices could have threads.
_SMALLEST_FOR_THREADS = 2048

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _alone(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The same through the door, with one thread in linear algebra: threads are ours."""

    @between_graphs
    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        large, like = False, None
        given: Any
        for given in (*args, *kwargs.values()):
            kind: Any = type(given)
            if is_prediction(kind):
                like = given.reference
                large = large or math.prod(like.shape) >= _SMALLEST_FOR_THREADS
        if isinstance(like, np.ndarray):
            if not large:
                return function(*args, **kwargs)
            with one_thread_each():
                return function(*args, **kwargs)
        if like is None:
            return function(*args, **kwargs)
        recorded = door.is_recorded(like)
        if recorded and not large:
            return walks.repeated(function, args, kwargs)
        if is_traced(like):
            return function(*args, **kwargs)
        seen = None if recorded else door.seen(args, kwargs)
        if seen is not None:
            return door.left_result(call(*seen[0], **seen[1]), like)
        torch = torch_of(like) if large else None
        if torch is None:
            return function(*args, **kwargs)
        with one_torch_thread(torch):
            return walks.repeated(function, args, kwargs)

    return call


def _without_gradient(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The same for numbers only: arrays are read and no step is recorded."""
    alone: Callable[..., Result] = _alone(function)

    def read(given: Any) -> Any:
        if not isinstance(given, Prediction):
            return given
        for array in arrays_of(given):
            readable(array, function.__name__)
        return given.mapped(detach)

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return alone(*map(read, args), **{name: read(one) for name, one in kwargs.items()})

    return call


@overload
def decompose(
    prediction: Prediction,
    score: Score | str,
    *,
    estimator: str | None = None,
    unbiased: bool | str = True,
    rtol: float = 1e-8,
    draws: int | None = None,
    seed: int | None = None,
    directions: int | None = None,
    max_memory: float = 268435456,  # DEFAULT_MEMORY; the reference shows what stands here
) -> Uncertainty: ...


@overload
def decompose(
    prediction: Prediction,
    score: Score | str,
    *,
    levels: str | Sequence[str],
    crossed: bool | Sequence[str] | None = None,
    fixed: str | Sequence[str] = (),
    estimator: str | None = None,
    unbiased: bool | str = True,
    rtol: float = 1e-8,
    draws: int | None = None,
    seed: int | None = None,
    max_memory: float = 268435456,  # DEFAULT_MEMORY; the reference shows what stands here
) -> Partition: ...


@_alone
def decompose(
    prediction: Prediction,
    score: Score | str,
    *,
    levels: str | Sequence[str] | None = None,
    crossed: bool | Sequence[str] | None = None,
    fixed: str | Sequence[str] = (),
    estimator: str | None = None,
    unbiased: bool | str = True,
    rtol: float = 1e-8,
    draws: int | None = None,
    seed: int | None = None,
    directions: int | None = None,
    max_memory: float = DEFAULT_MEMORY,
) -> Uncertainty | Partition:
    """Split the uncertainty of a second-order prediction into aleatoric and epistemic.

    ``prediction`` is an Ensemble or a NormalInverseGamma. ``score`` is an object such as
    ``CRPS()`` or its name such as ``"crps"``. ``estimator``: "pairwise" (mean divergence between
    members; the default) or "bma" (from the mixture; with SquaredError the variance of the
    members' means, half of the pairwise value, and the default of the name ``"variance"``).
    ``unbiased``: True treats members and draws as samples of what they stand for, False takes
    them as they are, "members" or "samples" chooses one level. From few draws an unbiased epistemic
    uncertainty is noisy and may fall below zero; :func:`standard_error` says how noisy. ``rtol`` is
    the accuracy of quadratures. ``draws`` and ``seed`` opt in to Monte Carlo where nothing better
    exists. ``directions`` opts in to so many random directions for very many draws of vectors, in
    N log N in place of all pairs and with a ``standard_error`` in the result.
    ``max_memory`` bounds in bytes, from 8 MiB on, what is held beside your arrays and the results.
    It never cuts one input: its copy under a ``Marginal`` kernel, its map over the event before
    that is reduced and the canonical form of its laws have to fit; so has what a transform of
    yours returns.

    ``levels`` names the levels of an Ensemble of Ensembles, outermost first, and gives a
    ``Partition``: noise, what each level adds, and the total. Levels lie inside of those before
    them; ``crossed`` names those that do not (True: all), whose interactions become parts as well.
    ``fixed`` names levels that are there as a whole and no sample of more.

    >>> import kuq, numpy as np
    >>> u = kuq.decompose(kuq.Ensemble(kuq.Normal([[0.0], [2.0]], 1.0)), kuq.SquaredError())
    >>> float(u.aleatoric[0]), float(u.epistemic[0])
    (1.0, 4.0)
    >>> runs = kuq.Ensemble(kuq.Normal([[0.0, 2.0], [6.0, 8.0]], 1.0), member_ndim=2)
    >>> u = kuq.decompose(runs, "variance", levels=("model", "run"), unbiased=False)
    >>> {name: float(part) for name, part in u.items()}
    {'total': 11.0, 'noise': 1.0, 'model': 9.0, 'run': 1.0}
    """
    options = Options.checked(unbiased, rtol, draws, seed, max_memory, directions)
    estimator = _estimator(estimator, score)
    score = _score_of(score)
    if not isinstance(prediction, Prediction):
        prediction = as_distribution(prediction)
    if isinstance(prediction, Distribution):
        raise ParameterError(
            f"decompose needs a second-order prediction, got {prediction!r}; wrap the members "
            "in kuq.Ensemble(...), or use kuq.entropy for the uncertainty of a single law"
        )
    if levels is not None:
        if directions is not None:
            raise ParameterError("levels and directions do not go together; leave one out")
        design = _design(prediction, score, levels, crossed, fixed)
        return _partition(prediction, score, options, design, estimator, unbiased)
    if crossed is not None or fixed != ():
        raise ParameterError("crossed and fixed are names of levels; name them all: levels=(...)")
    if isinstance(prediction, Ensemble):
        _check_depth(prediction)
        _check_member_count(prediction, options, estimator, score)
        _check_draws(prediction, options)
    elif not isinstance(prediction, NormalInverseGamma):
        raise ParameterError(
            f"decompose needs an Ensemble or a NormalInverseGamma, got {type(prediction).__name__}"
        )
    if score.arrays:
        prediction = prediction.beside(score.arrays)
    if isinstance(prediction, Ensemble):
        prediction = prediction.counting()
    ask = functools.partial(answers.decompose, estimator=estimator)
    result = _uncertainty(ask, prediction, score, options, estimator, unbiased)
    few = _typical_values(prediction)
    return result if few is None else dataclasses.replace(result, values_per_law=few)


def _typical_values(prediction: Prediction) -> float | None:
    """The median number of values with weight in the laws of members, each at one input.

    Of members that are whole laws of values, such as the rows in leaves of trees; else None, also
    where they cannot be read.
    """
    if not isinstance(prediction, Ensemble):
        return None
    counts = []
    for law in prediction.groups:
        if not isinstance(law, Samples) or not law.whole or is_traced(law.values):
            return None
        if law.weights is None:
            counts.append(np.full(law.batch_shape, law.draw_count).ravel())
        else:
            weights = as_numpy(law.weights, "the number of values in a law")
            counts.append(np.count_nonzero(weights, axis=-1).ravel())
    every = np.concatenate(counts)
    return float(np.median(every)) if every.size else None


def _uncertainty(
    ask: Callable[..., tuple[Score, Array, Array, str]],
    prediction: Prediction,
    score: Score,
    options: Options,
    estimator: str,
    unbiased: bool | str,
) -> Uncertainty:
    """What ``ask`` says of AU and EU, as a mean over random directions if these are asked for."""
    errors: PartErrors | None = None
    if options.directions is None:
        resolved, aleatoric, epistemic, method = ask(prediction, score, options)
    else:

        def parts(*args: Any) -> list[Array]:
            _, aleatoric, epistemic, _ = ask(*args)
            return [aleatoric + epistemic, aleatoric, epistemic]

        averages = estimates.over_directions(parts, [prediction], score, options)
        resolved, (_, aleatoric, epistemic), _, method = averages
        errors = PartErrors(*(_as_array(error, prediction) for error in averages.errors))
    aleatoric = _known_with(aleatoric, epistemic)
    return Uncertainty(
        total=_as_array(_sum(aleatoric, epistemic), prediction),
        aleatoric=_as_array(aleatoric, prediction),
        epistemic=_as_array(epistemic, prediction),
        score=resolved,
        estimator=estimator,
        unbiased=unbiased,
        method=method,
        units=resolved.units,
        standard_error=errors,
    )


def _estimate(
    ask: Callable[..., Array], predictions: list[Prediction], score: Score, options: Options
) -> Estimate:
    """An answer by random directions with its standard error."""

    def answer(*args: Any) -> list[Array]:
        return [ask(*args)]

    averages = estimates.over_directions(answer, predictions, score, options)
    first, last = predictions[0], predictions[-1]
    value, error = (_cast(arrays[0], first, last) for arrays in (averages.values, averages.errors))
    return Estimate(value, error, averages.method)


def _design(
    prediction: Prediction,
    score: Score,
    levels: str | Sequence[str],
    crossed: bool | Sequence[str] | None,
    fixed: str | Sequence[str],
) -> Design:
    if not isinstance(prediction, Ensemble):
        raise ParameterError(f"levels need an Ensemble, got {type(prediction).__name__}")
    if score.local:
        raise ParameterError(
            f"levels need a kernel score such as CRPS(), got {score!r}: its divergences are no "
            "squared distances, and have no analysis of variance"
        )
    return Design.checked(levels, crossed, fixed, prediction.depth)


def _partition(
    prediction: Prediction,
    score: Score,
    options: Options,
    design: Design,
    estimator: str,
    unbiased: bool | str,
) -> Partition:
    assert isinstance(prediction, Ensemble)
    _check_draws(prediction, options)
    prediction = prediction.beside(score.arrays).counting()
    used = design if options.unbiased_members else design.taken_as_it_is()
    resolved, noise, parts, method = answers.level_parts(prediction, score, options, design=used)
    if estimator == "bma":
        parts = parts / 2
    if not options.unbiased_members and not options.unbiased_samples:
        xp = namespace(parts)  # none is negative; what rounding left of equal ones is zero
        parts = xp.where(parts < 0, xp.zeros_like(parts), parts)
    arrays = {"noise": _known_with(noise, parts[0, ...])}
    arrays |= {name: parts[k, ...] for k, name in enumerate(design.parts)}
    components = {name: _as_array(array, prediction) for name, array in arrays.items()}
    return Partition(
        total=_as_array(summed(components), prediction),
        components=components,
        levels=design.levels,
        design=design.text,
        fixed=tuple(design.levels[k] for k in sorted(design.fixed)),
        score=resolved,
        estimator=estimator,
        unbiased=unbiased,
        method=method,
        units=resolved.units,
    )


def _check_depth(prediction: Ensemble) -> None:
    if prediction.depth > 1:
        raise ParameterError(
            f"{prediction!r} has {prediction.depth} levels; name them, outermost first: "
            'levels=("model", "run"), or pass ensemble.flattened() for the members in no groups'
        )


@_alone
def entropy(
    p: Prediction,
    score: Score | str,
    *,
    unbiased: bool | str = True,
    rtol: float = 1e-8,
    draws: int | None = None,
    seed: int | None = None,
    directions: int | None = None,
    max_memory: float = DEFAULT_MEMORY,
) -> Array:
    """H(P): the expected score of a law under itself, the aleatoric uncertainty of one law.

    With ``directions`` (see :func:`decompose`) an :class:`Estimate` with its standard error.

    >>> import kuq
    >>> float(kuq.entropy(kuq.Samples([0.0, 1.0]), kuq.CRPS(), unbiased=False))
    0.25
    """
    options = Options.checked(unbiased, rtol, draws, seed, max_memory, directions)
    score = _score_of(score)
    p = first_order(p).beside(score.arrays)
    if options.directions is not None:
        return _estimate(answers.entropy, [p], score, options)
    return _as_array(answers.entropy(p, score, options), p)


@_alone
def divergence(
    p: Prediction,
    q: Prediction,
    score: Score | str,
    *,
    unbiased: bool | str = True,
    rtol: float = 1e-8,
    draws: int | None = None,
    seed: int | None = None,
    directions: int | None = None,
    max_memory: float = DEFAULT_MEMORY,
) -> Array:
    """D(P, Q) = S(P, Q) − H(Q): how far two predictions disagree; for the log score KL(Q‖P).

    With ``directions`` (see :func:`decompose`) an :class:`Estimate` with its standard error.

    >>> import kuq
    >>> float(kuq.divergence(kuq.Point(0.0), kuq.Point(3.0), kuq.Energy()))
    3.0
    """
    options = Options.checked(unbiased, rtol, draws, seed, max_memory, directions)
    score = _score_of(score)
    p, q = _aligned(p, q, score)
    if options.directions is not None:
        return _estimate(answers.divergence, [p, q], score, options)
    return _cast(answers.divergence(p, q, score, options), p, q)


@_alone
def score(
    p: Prediction,
    y: Any,
    score: Score | str,
    *,
    unbiased: bool | str = True,
    rtol: float = 1e-8,
    draws: int | None = None,
    seed: int | None = None,
    directions: int | None = None,
    max_memory: float = DEFAULT_MEMORY,
) -> Array:
    """S(P, y): how well a prediction fits an outcome, a loss; −log p(y) for the log score.

    With ``directions`` (see :func:`decompose`) an :class:`Estimate` with its standard error.

    ``y`` has the shape of p's batch + event; leading axes of p, such as members, may be missing.

    >>> import kuq
    >>> float(kuq.score(kuq.Normal(0.0, 1.0), 0.0, kuq.CRPS()))  # (√2 − 1)/√π
    0.2336949772551
    """
    options = Options.checked(unbiased, rtol, draws, seed, max_memory, directions)
    score = _score_of(score)
    p = first_order(p).beside([y, *score.arrays])
    outcome = _fit_outcome(adopted(y, p.reference, "y"), p)
    require_finite(y=outcome)
    if options.directions is not None:
        point = Point.at(outcome, len(p.event_shape))
        return _estimate(answers.divergence, [p, point], score, options)
    return _as_array(answers.score(p, outcome, score, options), p)


@_alone
def expected_kernel(
    p: Prediction,
    q: Prediction,
    kernel: Kernel | str,
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
    score = as_score(kernel)
    if not isinstance(score, Kernel):
        raise ParameterError(f"expected_kernel needs a kernel, got {kernel!r}")
    p, q = _aligned(p, q, score)
    return _cast(answers.expected_kernel(p, q, score, options), p, q)


@_alone
def member_divergences(
    prediction: Ensemble,
    score: Score | str,
    *,
    unbiased: bool | str = True,
    rtol: float = 1e-8,
    draws: int | None = None,
    seed: int | None = None,
    directions: int | None = None,
    max_memory: float = DEFAULT_MEMORY,
) -> Array:
    """The matrix D(P_i, P_j) behind the epistemic uncertainty, of shape (M, M, batch…).

    With ``directions`` (see :func:`decompose`) an :class:`Estimate` with its standard error.

    >>> import kuq
    >>> kuq.member_divergences(kuq.Ensemble(kuq.Point([0.0, 1.0, 3.0])), kuq.Energy()).tolist()
    [[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]]
    """
    options = Options.checked(unbiased, rtol, draws, seed, max_memory, directions)
    score = _score_of(score)
    _check_ensemble(prediction, "member_divergences")
    _check_draws(prediction, options)
    prediction = prediction.beside(score.arrays)
    if options.directions is not None:
        return _estimate(_matrix, [prediction], score, options)
    return _as_array(_matrix(prediction, score, options), prediction)


def _matrix(prediction: Ensemble, score: Score, options: Options) -> Array:
    return answers.member_parts(prediction, score, options)[2]


@_alone
def member_influence(
    prediction: Ensemble,
    score: Score | str,
    *,
    unbiased: bool | str = True,
    rtol: float = 1e-8,
    draws: int | None = None,
    seed: int | None = None,
    directions: int | None = None,
    max_memory: float = DEFAULT_MEMORY,
) -> Uncertainty:
    """How AU, EU and their sum change when a member is left out, (M, batch…) each.

    Negative values: the member raises the uncertainty. A bounded kernel bounds the changes.

    >>> import kuq
    >>> influence = kuq.member_influence(kuq.Ensemble(kuq.Point([0.0, 0.0, 9.0])), kuq.Energy())
    >>> influence.epistemic.tolist()
    [3.0, 3.0, -6.0]
    """
    options = Options.checked(unbiased, rtol, draws, seed, max_memory, directions)
    score = _score_of(score)
    _check_ensemble(prediction, "member_influence")
    _check_draws(prediction, options)
    prediction = prediction.beside(score.arrays)
    needed = 3 if options.unbiased_members else 2
    counting = prediction.positions_that_count()
    if len(counting) < needed:
        raise InsufficientDataError(
            f"member_influence needs at least {needed} members with weight, so that enough are "
            f"left, got {len(counting)}; with unbiased=False two are enough"
        )
    whole, prediction = prediction, prediction.counting()

    def changes(
        prediction: Ensemble, score: Score, options: Options
    ) -> tuple[Score, Array, Array, str]:
        resolved, *arrays, method = answers.member_parts(prediction, score, options)
        entropies, matrix = (door.left(array, prediction.reference) for array in arrays)
        parts = scores.leave_one_out(
            entropies, matrix, prediction.member_weights(), options.unbiased_members
        )
        if prediction.member_count < whole.member_count:
            parts = tuple(_spread_out(values, counting, whole.member_count) for values in parts)
        aleatoric, epistemic = parts
        return resolved, aleatoric, epistemic, method

    return _uncertainty(changes, prediction, score, options, "pairwise", unbiased)


@_without_gradient
def standard_error(
    prediction: Ensemble,
    score: Score | str,
    *,
    over: str = "both",
    estimator: str | None = None,
    unbiased: bool | str = True,
    rtol: float = 1e-8,
    draws: int | None = None,
    seed: int | None = None,
    max_memory: float = DEFAULT_MEMORY,
) -> StandardError:
    """Standard errors of TU, AU and EU of every input, of what :func:`decompose` gives.

    ``over`` says what could have been otherwise: "members", the models are a sample of those that
    could have been trained; "draws", each law is known by N draws only (``Samples``); "both", the
    default, which are the members where laws are closed. Squares add up: both² = members² + draws².
    Members and draws are taken as independent, weights as fixed. At least four members are needed,
    or four draws of each law for "draws". An epistemic uncertainty below twice its standard error
    over draws cannot be told from none. Numbers only: no gradients.

    >>> import kuq, numpy as np
    >>> draws = np.random.default_rng(0).normal(size=(5, 20))  # five times the same law
    >>> noise = kuq.standard_error(kuq.Ensemble(kuq.Samples(draws)), "crps", over="draws")
    >>> u = kuq.decompose(kuq.Ensemble(kuq.Samples(draws)), "crps")
    >>> bool(u.epistemic < 2 * noise.epistemic)
    True
    """
    if over not in _SOURCES:
        raise ParameterError(f"over must be one of {_SOURCES}, got {over!r}")
    options = Options.checked(unbiased, rtol, draws, seed, max_memory)
    estimator = _estimator(estimator, score)
    score = _score_of(score)
    _check_sampled(prediction, "standard_error")
    if prediction.depth > 1:
        raise ParameterError(
            f"{prediction!r} has {prediction.depth} levels, and members of one group are not "
            "independent of each other; pass ensemble.flattened() if yours are"
        )
    _check_draws(prediction, options)
    prediction = prediction.beside(score.arrays).counting()
    errors = standard_errors.standard_errors(prediction, score, options, estimator, over)
    aleatoric, epistemic, total = (
        _as_array(from_numpy(values, prediction.reference), prediction) for values in errors.values
    )
    return StandardError(
        total=total,
        aleatoric=aleatoric,
        epistemic=epistemic,
        over=errors.over,
        members=prediction.member_count,
        draws=errors.draws,
        score=errors.score,
        estimator=estimator,
        unbiased=unbiased,
        method=errors.method,
        units=errors.score.units,
    )


@_without_gradient
def member_test(
    prediction: Ensemble,
    score: Score | str,
    *,
    per_input: bool = False,
    permutations: int = 999,
    seed: int | None = None,
    max_memory: float = DEFAULT_MEMORY,
) -> MemberTest:
    """Test whether members are the same law, and whether one of them does not belong, by draws.

    Members are ``Samples`` with equal weights whose draws are independent of each other (so none
    with ``whole=True``, which are laws that are known). The
    statistic is the epistemic uncertainty, the mean over inputs unless ``per_input``; draws
    change members in random ``permutations``, the same at all inputs. P-values are exact: under
    the hypothesis that all members are the same law one below 0.05 has a probability of at most
    0.05, also that of the member that stands farthest apart. More permutations give finer p-values.

    >>> import kuq, numpy as np
    >>> draws = np.random.default_rng(0).normal(size=(4, 10, 30))
    >>> draws[2] += 1.0
    >>> test = kuq.member_test(kuq.Ensemble(kuq.Samples(draws)), "crps", permutations=99)
    >>> float(test.p_value), int(test.outlier), float(test.outlier_p_value)
    (0.01, 2, 0.01)
    """
    count = whole_number(permutations, "permutations", 1)
    options = Options.checked(True, 1e-8, None, seed, max_memory)
    kernel = _score_of(score)
    _check_sampled(prediction, "member_test")
    if not isinstance(kernel, Kernel):
        raise ParameterError(
            f"member_test needs a kernel score such as CRPS(), got {kernel!r}: draws have no "
            "density"
        )
    prediction = prediction.beside(kernel.arrays)
    kernel, ranked = ranks(prediction, kernel, options, count, per_input)
    statistic, p_value, excess, of_members = (
        _as_array(from_numpy(values, prediction.reference), prediction) for values in ranked
    )
    return MemberTest(statistic, p_value, excess, of_members, count, per_input, kernel)


def _spread_out(values: Array, positions: list[int], count: int) -> Array:
    """Rows of an array at some positions among rows of zeros: who has no weight changes nothing."""
    xp = namespace(values)
    zero = xp.zeros_like(values[0, ...])
    rows = {position: values[k, ...] for k, position in enumerate(positions)}
    return xp.stack([rows.get(position, zero) for position in range(count)])


def _known_with(noise: Array, spread: Array) -> Array:
    """The noise of members where their spread is known: it does not see where a law lies.

    Locations that are NaN pass the entrance where values are not checked.
    """
    xp = namespace(noise)
    return xp.where(xp.isnan(spread), spread, noise)


def _sum(aleatoric: Array, epistemic: Array) -> Array:
    """AU + EU; point masses that differ have AU = −inf and EU = inf under the log score."""
    xp = namespace(aleatoric)
    infinite = epistemic == math.inf
    finite = xp.where(infinite, xp.zeros_like(epistemic), epistemic)
    return xp.where(infinite, epistemic, aleatoric + finite)


def _score_of(score: Score | str) -> Score:
    """A score as it is, without a look at the table of names, or that of a name."""
    return score if isinstance(score, Score) else as_score(score)


def _estimator(estimator: str | None, score: Score | str) -> str:
    if estimator is None:
        return usual_estimator(score) if isinstance(score, str) else "pairwise"
    if estimator not in _ESTIMATORS:
        raise ParameterError(f"estimator must be one of {_ESTIMATORS}, got {estimator!r}")
    return estimator


def _check_ensemble(prediction: object, name: str) -> None:
    if not isinstance(prediction, Ensemble):
        raise ParameterError(f"{name} needs an Ensemble, got {type(prediction).__name__}")


def _check_sampled(prediction: object, name: str) -> None:
    if isinstance(prediction, NormalInverseGamma):
        raise ParameterError(
            f"{name} needs an Ensemble, whose members are a sample of what they stand for; a "
            "NormalInverseGamma is the whole population, of which nothing is left to chance"
        )
    _check_ensemble(prediction, name)


def _check_member_count(
    prediction: Ensemble, options: Options, estimator: str, score: Score
) -> None:
    plug_in = estimator == "bma" and score.local
    if options.unbiased_members and prediction.member_count < 2 and not plug_in:
        raise InsufficientDataError(
            "an unbiased epistemic uncertainty needs at least two members, got M = 1; "
            'pass unbiased=False, or unbiased="samples" to correct for draws only'
        )
    weights = prediction.weights
    if options.unbiased_members and weights is not None and not plug_in:
        xp = namespace(weights)
        if any_true(xp.max(weights) >= 1 - 1e-9):
            raise InsufficientDataError(
                "an unbiased epistemic uncertainty needs at least two members with weight, got "
                "all weight on one; pass unbiased=False or other weights"
            )


def _check_draws(prediction: Ensemble, options: Options) -> None:
    """Refuse members with all weight on one draw: unbiased statistics of them would be NaN.

    Where draws were left out since they are NaN, NaN is the answer.
    """
    for law in prediction.groups:
        if not isinstance(law, Samples) or law.whole or law.weights is None:
            continue
        if law.nan_policy == "omit":
            continue
        xp = namespace(law.weights)
        alone = xp.max(law.weights, axis=-1) >= 1 - 1e-9
        if options.unbiased_samples and any_true(alone):
            count = int(xp.sum(xp.astype(alone, law.weights.dtype)))
            raise InsufficientDataError(
                f"{count} of {math.prod(alone.shape)} laws have all weight on one draw, and "
                'unbiased statistics need two; pass unbiased="members", which takes draws as they '
                "are, or Samples(..., whole=True) where they are the law itself"
            )


def _aligned(p: Prediction, q: Prediction, score: Score) -> tuple[Prediction, Prediction]:
    """Two first-order predictions in one library, checked to speak of the same outcomes."""
    p, q = first_order(p), first_order(q)
    arrays = [p.reference, q.reference, *score.arrays]
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
    if shape == full:
        return y
    missing = len(full) - len(shape)
    leads = range(missing, len(p.batch_shape) + 1)
    if not any((1,) * missing + shape == (1,) * lead + full[lead:] for lead in leads):
        raise ShapeError(
            f"y must have the shape batch + event = {full} of the prediction, of which leading "
            f"axes may be missing, got {shape}{axis_of_one(shape, full)}"
        )
    return namespace(y).broadcast_to(y, full)


def _cast(value: Array, p: Prediction, q: Prediction) -> Array:
    dtype = namespace(p.reference).result_type(p.dtype, q.dtype)
    return _as_array(value, p, dtype)


def _as_array(value: Array, like: Prediction, dtype: Any = None) -> Array:
    """A result in the library and dtype of the input; NumPy makes scalars of small arrays."""
    dtype = like.dtype if dtype is None else dtype
    reference = like.reference
    if type(value) is type(reference) and value.dtype == dtype:
        return value
    if not isinstance(reference, np.ndarray):
        value = door.left(value, reference)
        if value.dtype == dtype and is_array(value):
            return value
    xp = namespace(value)
    result = xp.astype(value, dtype)
    return result if is_array(result) else xp.asarray(result)
