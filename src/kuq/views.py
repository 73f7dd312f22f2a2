"""A prediction as one term of a kernel sees it: stages, event weights, bandwidths."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np

from kuq import door, walks
from kuq._array import (
    Array,
    adopted,
    any_true,
    detach,
    epsilon,
    from_numpy,
    index_array,
    is_array,
    is_traced,
    library_of,
    may_hold,
    median,
    namespace,
    power_of_two,
    safe_sqrt,
    shape_of,
)
from kuq.distributions.base import Distribution, Parametric, Prediction
from kuq.distributions.clipped import clipped
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.evidential import NormalInverseGamma
from kuq.distributions.laws import Source, Stack, worst_method
from kuq.distributions.low_rank import LowRankNormal
from kuq.distributions.mixture import NormalMixture
from kuq.distributions.normal import Normal, Point
from kuq.distributions.samples import Samples
from kuq.distributions.strays import prepared
from kuq.driver import divided, size_of, stretched
from kuq.errors import InsufficientDataError, NoClosedFormError, ParameterError, ShapeError
from kuq.expectations import moments
from kuq.forms.form import PAIRS, Problem, Question
from kuq.forms.table import has_form
from kuq.kernels.bandwidth import MOST_PAIRS
from kuq.kernels.base import Kernel, MarginalStage, Radial, Score, Term
from kuq.kernels.energy import Energy
from kuq.kernels.marginal import reduce_event
from kuq.kernels.parameters import median_factor
from kuq.kernels.transforms import Clip, Select
from kuq.scores.monte_carlo import drawn
from kuq.scores.options import Options
from kuq.tiles import pieces

#: Enough to see of what kind a law is; coarse ones are made quickly.
_COARSE = 1e-3
#: Laws whose coordinates have distribution functions that are sums over normals.
_CLIPPED_EXACTLY = (LowRankNormal, Normal, NormalMixture, Point, Samples)

#: The share of the memory that canonical forms may take; tiles have the rest.
_SHARE = 0.25

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class View:
    """A prediction as one term of a kernel sees it: canonical members over a flat batch."""

    stack: Stack
    batch_shape: tuple[int, ...]
    event_shape: tuple[int, ...]
    marginal: MarginalStage | None
    score: Score
    #: The shape of results before the reduction over the event.
    shape: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        event = self.event_shape if self.marginal else ()
        object.__setattr__(self, "shape", (*self.batch_shape, *event))

    def through_the_door(self) -> View:
        marginal = self.marginal
        if marginal is not None and is_array(marginal.weights):
            marginal = dataclasses.replace(marginal, weights=door.entered(marginal.weights))
        parameters = {n: getattr(self.score, n, None) for n in ("bandwidth", "weights")}
        arrays = {n: door.entered(array) for n, array in parameters.items() if is_array(array)}
        score = self.score.changed(**arrays) if arrays else self.score
        return View(
            self.stack.mapped(door.entered), self.batch_shape, self.event_shape, marginal, score
        )


def views(
    term: Term, options: Options, *predictions: Prediction, question: Question = PAIRS
) -> list[View]:
    """Predictions as a term sees them together, drawn from where that is needed and asked for."""
    if term.score.local:
        return _local_views(term, options, predictions, question)
    drawn_from = _drawn_where_needed(term, options, predictions)
    seen = [_view(prediction, term, options) for prediction in drawn_from]
    if isinstance(seen[0].stack.reference, np.ndarray) or not isinstance(term.score, Radial):
        return seen  # a kernel that is nothing but a function needs arrays of its own library
    return _through_the_door(term, seen)


def _drawn_where_needed(
    term: Term, options: Options, predictions: Sequence[Prediction]
) -> Sequence[Prediction]:
    if options.draws is None or _has_route(term, *predictions):
        return predictions
    return [
        drawn(prediction, options.draws, np.random.default_rng([options.seed, position]))
        for position, prediction in enumerate(predictions)
    ]


def staged(
    term: Term, options: Options, predictions: Sequence[Prediction]
) -> tuple[Term, Sequence[Prediction]]:
    """The same where all is drawn and transformed, which many answers need once."""
    if term.score.local:
        return term, predictions
    predictions, stages = _drawn_where_needed(term, options, predictions), list(term.stages)
    members = [member for prediction in predictions for member in _members(prediction)]
    if not all(isinstance(member, (Samples, Point)) for member in members):
        return term, predictions
    while stages and not isinstance(transform := stages[0], MarginalStage):
        stages.pop(0)
        predictions = [_transformed(one, transform, False, term.score) for one in predictions]
    return dataclasses.replace(term, stages=tuple(stages)), predictions


def _local_views(
    term: Term, options: Options, predictions: Sequence[Prediction], question: Question
) -> list[View]:
    """Laws by their atoms if these tell their densities, else laws that are asked for them."""
    for prediction in predictions:
        for law in _members(prediction):
            if isinstance(law, Distribution) and not law.has_density:
                law.require_density()
    seen = [_view(prediction, term, options) for prediction in predictions]
    groups = tuple(group for view in seen for group in view.stack.groups)
    if has_form(Problem.of(term.score, Stack(groups), compiled=False, question=question)):
        if isinstance(seen[0].stack.reference, np.ndarray):
            return seen
        return _through_the_door(term, seen)
    return [
        dataclasses.replace(view, stack=_sources(prediction, options))
        for view, prediction in zip(seen, predictions, strict=True)
    ]


def _sources(prediction: Prediction, options: Options) -> Stack:
    """Every member with its distribution and, where asked for, draws of it."""
    members = prediction.member_list() if isinstance(prediction, Ensemble) else [prediction]
    weights = prediction.weights if isinstance(prediction, Ensemble) else None
    groups = []
    for position, member in enumerate(members):
        assert isinstance(member, Distribution)
        lead = (1, math.prod(member.batch_shape))
        axes = len(member.batch_shape)

        def flat(array: Array, lead: tuple[int, int] = lead, axes: int = axes) -> Array:
            return namespace(array).reshape(array, (*lead, *array.shape[axes:]))

        if options.draws is None:
            draws = from_numpy(np.zeros((*lead, 0, *member.event_shape)), member.reference)
        else:
            rng = np.random.default_rng([options.seed, position])
            draws = flat(member.sample(options.draws, rng))
        law = member.law(False, _COARSE).flatten_batch(members=False)
        groups.append(dataclasses.replace(law, source=Source(member.mapped(flat), draws)))
    return Stack(tuple(groups), weights)


def _through_the_door(term: Term, seen: list[View]) -> list[View]:
    """Members as NumPy sees them, where that is possible."""
    parameters = [getattr(term.score, "bandwidth", None), term.score.weights]
    stages = [seen[0].marginal.weights] if seen[0].marginal else []
    arrays = [array for view in seen for array in view.stack.arrays()]
    arrays += [array for array in (*parameters, *stages) if is_array(array)]
    if not door.opens_for(arrays) or len({library_of(array) for array in arrays}) > 1:
        return seen
    return [view.through_the_door() for view in seen]


def _view(prediction: Prediction, term: Term, options: Options) -> View:
    """Apply the stages of a term to a prediction."""
    marginal: MarginalStage | None = None
    event_shape = prediction.event_shape
    clips = _exact_clips(prediction, term) if term.stages else ()
    for stage in term.stages:
        if isinstance(stage, MarginalStage):
            marginal, event_shape = stage, prediction.event_shape
            if stage.weights is not None:
                check_event_weights(stage.weights, event_shape, "Marginal")
        elif stage not in clips:
            prediction = _transformed(prediction, stage, marginal is not None, term.score)
            event_shape = prediction.event_shape
    stack = stack_of(prediction, marginal is not None, options.rtol)
    for clip in clips:
        low, high = (_flat_bound(bound, stack) for bound in _bounds(clip, prediction))
        stack = stack.map(lambda law, a=low, b=high: clipped(law, a, b))  # type: ignore[misc]
    if term.score.weights is not None:
        check_event_weights(term.score.weights, event_shape, type(term.score).__name__)
    return View(stack, prediction.batch_shape, event_shape, marginal, term.score)


def first_order(prediction: Prediction) -> Prediction:
    """What a prediction means where a first-order law is expected, of members with weight."""
    prediction = first_or_second_order(prediction)
    return prediction.counting() if isinstance(prediction, Ensemble) else prediction


def first_or_second_order(prediction: Prediction) -> Prediction:
    if isinstance(prediction, NormalInverseGamma):
        return prediction.predictive()
    if not isinstance(prediction, Prediction):
        raise ParameterError(
            "a prediction must be a kuq distribution such as Normal, Samples or Ensemble, "
            f"got {type(prediction).__name__}"
        )
    return prediction


def stack_of(prediction: Prediction, marginal: bool, rtol: float) -> Stack:
    """The members in canonical form over a flat batch."""
    if isinstance(prediction, Ensemble):
        return prediction.stack(marginal, rtol)
    assert isinstance(prediction, (Distribution, NormalInverseGamma))
    return Stack((prediction.law(marginal, rtol).flatten_batch(members=False),))


def arrays_of(prediction: Prediction) -> list[Array]:
    """The arrays of which a prediction consists."""
    return [array for law in _members(prediction) for array in law.arrays()]


def _members(prediction: Prediction) -> tuple[Parametric, ...]:
    if isinstance(prediction, Ensemble):
        return prediction.groups
    assert isinstance(prediction, Parametric)
    return (prediction,)


def _has_route(term: Term, *predictions: Prediction) -> bool:
    """Whether all members work with the term without drawing from them."""
    members = [member for prediction in predictions for member in _members(prediction)]
    if all(isinstance(member, (Samples, Point)) for member in members):
        return True
    if all(_exact_clips(prediction, term) for prediction in predictions):
        return True
    if any(not isinstance(stage, (MarginalStage, Select)) for stage in term.stages):
        return False
    marginal = any(isinstance(stage, MarginalStage) for stage in term.stages)
    groups = [g for p in predictions for g in stack_of(p, marginal, _COARSE).groups]
    return has_form(Problem.of(term.kernel, Stack(tuple(groups)), compiled=False))


def _exact_clips(prediction: Prediction, term: Term) -> tuple[Clip, ...]:
    """The clips of a term if it is |x − y| of clipped normals, which has a form of its own."""
    clips = tuple([stage for stage in term.stages if isinstance(stage, Clip)])
    if not clips:
        return ()
    marginals = [stage for stage in term.stages if isinstance(stage, MarginalStage)]
    absolute = isinstance(term.score, Energy) and term.score.beta == 1
    scalar = bool(marginals) or math.prod(prediction.event_shape) == 1
    only = len(clips) + len(marginals) == len(term.stages)
    if not (absolute and scalar and only):
        return ()
    members = _members(prediction)
    if all(isinstance(member, (Samples, Point)) for member in members):
        return ()  # the plain transform does
    return clips if all(isinstance(member, _CLIPPED_EXACTLY) for member in members) else ()


def _bounds(clip: Clip, prediction: Prediction) -> list[Array]:
    """Both thresholds of a clip: numbers, or arrays of the full shape batch + event."""
    shape = (*prediction.batch_shape, *prediction.event_shape)
    bounds = []
    for bound in (clip.low, clip.high):
        array = adopted(bound, prediction.reference, "threshold")
        try:
            full = array if array.ndim == 0 else namespace(array).broadcast_to(array, shape)
        except (ValueError, RuntimeError):
            raise ShapeError(
                f"a threshold must broadcast against batch + event {shape}, without member and "
                f"sample axes, got {tuple(array.shape)}"
            ) from None
        bounds.append(full)
    return bounds


def _flat_bound(bound: Array, stack: Stack) -> Array:
    """A threshold over the flat batch of a stack, (n, 1, 1), or (1, 1, 1)."""
    return adopted(namespace(bound).reshape(bound, (-1, 1, 1)), stack.reference)


def _for_arrays(clip: Clip, prediction: Prediction, law: Parametric) -> Clip:
    """A clip whose thresholds have the axes of a law's arrays: none along its draws."""

    def fitted(bound: Array) -> Array:
        if bound.ndim == 0 or not isinstance(law, Samples):
            return bound
        return namespace(bound).expand_dims(bound, axis=bound.ndim - law.event_ndim)

    return Clip(*(fitted(bound) for bound in _bounds(clip, prediction)))


def _transformed(
    prediction: Prediction, transform: Callable[[Array], Array], scalar: bool, kernel: Score
) -> Prediction:
    members = []
    for law in _members(prediction):
        fitted = transform
        if isinstance(transform, Clip):
            fitted = _for_arrays(transform, prediction, law)
        members.append(_transform_law(law, fitted, scalar, kernel))
    if not isinstance(prediction, Ensemble):
        return members[0]
    laws = [member for member in members if isinstance(member, Distribution)]
    return prediction.with_groups(laws)


def _transform_law(
    law: Parametric, transform: Callable[[Array], Array], scalar: bool, kernel: Score
) -> Parametric:
    _check_event(law, transform, scalar)
    if isinstance(transform, Select) and not isinstance(law, (Samples, Point)):
        transform.check(law.event_shape)
        return law.coordinates(transform.index)
    if not isinstance(law, (Samples, Point)):
        raise NoClosedFormError(
            f"no exact route for {kernel!r} on a transform of {law!r}; "
            "pass draws=2000, seed=0 to opt in to Monte Carlo"
        )
    before = law.values if isinstance(law, Samples) else law.value
    after = transform(before)
    lead = before.ndim - law.event_ndim
    if scalar and tuple(after.shape) != tuple(before.shape):
        raise ShapeError(
            "inside Marginal a transform acts on numbers and must keep the shape; "
            f"{tuple(before.shape)} became {tuple(after.shape)}"
        )
    if tuple(after.shape[:lead]) != tuple(before.shape[:lead]):
        raise ShapeError(
            f"a transform must keep the axes before the event, {tuple(before.shape[:lead])}; "
            f"got an array of shape {tuple(after.shape)}"
        )
    if isinstance(law, Samples):
        return law.with_values(after, after.ndim - lead)
    return Point(after, after.ndim - lead)


def _check_event(law: Parametric, transform: Callable[[Array], Array], scalar: bool) -> None:
    """Features of whole outcomes say how many axes those have."""
    wanted = getattr(transform, "event_ndim", None)
    if wanted is None:
        return
    if scalar:
        raise ShapeError(f"{transform!r} needs whole outcomes; it cannot stand inside Marginal")
    if wanted != law.event_ndim:
        raise ShapeError(
            f"{transform!r} is of outcomes of {wanted} axes, but {law!r} has "
            f"event_ndim={law.event_ndim}; pass the same event_ndim to both"
        )


def check_event_weights(weights: Array | None, event: tuple[int, ...], name: str) -> None:
    if weights is not None and shape_of(weights) != event:
        raise ShapeError(
            f"weights of {name} must have the event's shape {event}, got {shape_of(weights)}"
        )


AnyScore = TypeVar("AnyScore", bound=Score)


def resolve_bandwidths(
    score: AnyScore, predictions: list[Prediction], options: Options
) -> AnyScore:
    """Replace "median" in bandwidths by the median distance between members' outcomes."""
    if not score.is_open:
        return score
    distances: list[tuple[tuple[Any, ...], Array | None, Any]] = []

    def distance(base: Radial, stages: tuple[Any, ...]) -> Any:
        """The same for all terms that see the same outcomes, such as the scales of one kernel."""
        for others, weights, value in distances:
            if others == stages and weights is base.weights:
                return value
        value = _median_distance(predictions, Term(1.0, stages, base), options)
        distances.append((stages, base.weights, value))
        return value

    def change(base: Kernel, stages: tuple[Any, ...]) -> Kernel:
        if not isinstance(base, Radial) or not isinstance(base.bandwidth, str):
            return base
        factor = median_factor(base.bandwidth)
        value = distance(base, stages)
        if factor != 1:
            value = factor * value
        return dataclasses.replace(base, bandwidth=value)  # type: ignore[type-var]

    assert isinstance(score, Kernel)
    return score.replace_bases(change)  # type: ignore[return-value]


def _median_distance(predictions: list[Prediction], term: Term, options: Options) -> Any:
    counting = [p.counting() if isinstance(p, Ensemble) else p for p in predictions]
    seen = views(term, options, *counting)
    stacks = [view.stack for view in seen]
    distances = _over_entries(stacks, seen[0].score.weights, options)
    if not all(_moments_exist(stack) for stack in stacks):
        distances = distances + math.inf
    if math.prod(distances.shape) == 0:
        raise InsufficientDataError(
            'bandwidth="median" of an empty batch: there are no outcomes whose distances could be '
            "taken; give the bandwidth as a number"
        )
    middle = median(detach(distances))
    if is_traced(middle):
        return middle
    value = float(middle)
    if not 0 < value < math.inf:
        raise ParameterError(
            f'bandwidth="median" gave {value}; give a positive number, for example '
            "kuq.median_bandwidth of the training targets"
        )
    return value


def _moments_exist(stack: Stack) -> bool:
    """Whether every member has a variance."""
    tails = [group.tail for group in stack.groups if group.tail is not None]
    return not any(any_true(tail <= 2) for tail in tails)


def _over_entries(stacks: list[Stack], weights: Array | None, options: Options) -> Array:
    """Root mean square distances of all pairs of members; of very many a fixed random choice."""
    reference = stacks[0].reference
    count = stacks[0].batch_count
    pairs = math.prod(stack.member_count for stack in (stacks[0], stacks[-1]))
    if count * pairs > 2 * MOST_PAIRS and not is_traced(reference):
        chosen = np.random.default_rng(0).choice(count, 2 * MOST_PAIRS // pairs + 1, replace=False)
        index = index_array(np.sort(chosen), reference)
        stacks = [stack.take(index) for stack in stacks]
        count = len(chosen)
    cost = sum(
        stack.member_count * g.count * g.atoms.size for stack in stacks for g in stack.groups
    )
    distances = []
    if count == 0:
        return namespace(reference).reshape(reference, (-1,))[:0]
    for entries in pieces(count, cost, options.budget(reference), reference):
        tile_stacks = [prepared(stack.index(entries)) for stack in stacks]
        distances.append(detach(_pair_distances([stretched(x, weights) for x in tile_stacks])))
    return namespace(*distances).concat(distances)


def _pair_distances(stacks: list[Stack]) -> Array:
    """√E‖X−Y‖² for all pairs of members (of two laws: one of each), (pairs·n,)."""
    xp = namespace(stacks[0].reference)
    unit = power_of_two(size_of(stacks))  # no square leaves the range of floats
    usual = (unit > 1e-100) & (unit < 1e100) if epsilon(unit) < 1e-10 else unit == 1
    if may_hold(~usual):  # else nothing has to be copied
        unit = xp.where(usual, xp.ones_like(unit), unit)
        stacks = [divided(stack, unit) for stack in stacks]
    else:
        unit = xp.ones_like(unit)
    pivot = stacks[0].pivot()
    means = [xp.concat([moments.centred_mean(g, pivot) for g in s.groups]) for s in stacks]
    spread = [xp.concat([moments.total_variance(g) for g in s.groups]) for s in stacks]
    first, last = means[0], means[-1]
    if len(stacks) == 2:
        pairs = [(i, j) for i in range(first.shape[0]) for j in range(last.shape[0])]
    else:
        pairs = [(i, j) for i in range(first.shape[0]) for j in range(i)] or [(0, 0)]
    rows = [
        xp.sum((first[i] - last[j]) ** 2, axis=-1) + spread[0][i] + spread[-1][j] for i, j in pairs
    ]
    return xp.concat([unit * safe_sqrt(row) for row in rows])


def flat_bandwidth(
    score: Score, shape: tuple[int, ...], marginal: bool, like: Array
) -> Array | float | None:
    """The bandwidth as a float, or as an array over the flat batch."""
    bandwidth = getattr(score, "bandwidth", None)
    if bandwidth is None or isinstance(bandwidth, float):
        return bandwidth
    array = adopted(bandwidth, like)
    try:
        fits = np.broadcast_shapes(tuple(array.shape), shape) == shape
    except ValueError:
        fits = False
    if not fits:
        what = "batch + event" if marginal else "batch"
        raise ShapeError(
            f"an array bandwidth must broadcast against the {what} shape {shape}, without "
            f"member and sample axes, got {tuple(array.shape)}"
        )
    xp = namespace(array)
    return xp.reshape(xp.broadcast_to(array, shape), (-1,))


def finished(values: Array, view: View) -> Array:
    """Flat results to batch shape, reduced over the event of a marginal kernel."""
    shaped = values.reshape((*values.shape[:-1], *view.shape))
    if view.marginal is None or not view.event_shape:
        return shaped
    return reduce_event(shaped, view.marginal.reduce, view.marginal.weights, len(view.event_shape))


# Some rows of the batch at a time, where the canonical form of all of them would not fit: a
# Student-t law becomes a mixture of hundreds of normals, and under a marginal kernel draws have to
# lie side by side.


def in_parts(
    *axes: int, beside: Callable[[Prediction, Score], int] = lambda prediction, score: 0
) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Let a function of predictions, a score and options see some rows of the batch at a time.

    ``axes``: where the first batch axis stands in each of the arrays that it returns. ``beside``:
    bytes that the function needs for all rows beside the canonical form.
    """

    def wrap(function: Callable[..., Answer]) -> Callable[..., Answer]:
        @functools.wraps(function)
        def call(*args: Any, **settings: Any) -> Answer:
            *predictions, score, options = args
            if type(predictions[0].reference) is not np.ndarray:
                answer = walks.answered(function, predictions, score, options, settings)
                if answer is not None:
                    return answer
            step = rows_at_once(predictions, score, options, beside(predictions[0], score))
            if step is None:
                return function(*args, **settings)
            score = resolve_bandwidths(score, predictions, options)
            parts = []
            for start in range(0, predictions[0].batch_shape[0], step):
                rows = [p.rows(slice(start, start + step)) for p in predictions]
                parts.append(function(*rows, score, options, **settings))
            return cast(Answer, _joined(parts, axes))

        return call

    return wrap


def rows_at_once(
    predictions: list[Any], score: Score, options: Options, beside: int = 0
) -> int | None:
    """How many rows of the batch are seen at a time; None for all of them.

    ``beside``: bytes that are needed for all rows beside the canonical form.
    """
    reference = predictions[0].reference
    if not isinstance(reference, np.ndarray):
        return None
    largest = reference.nbytes * max([p.expansion for p in predictions]) + beside
    if largest <= _SHARE * options.max_memory:
        return None
    if not predictions[0].batch_shape or options.draws is not None:
        return None
    # A function, or an array over the batch, cannot be cut.
    stages = [stage for term in score.parts for stage in term.stages]
    if not all(isinstance(stage, (MarginalStage, Select)) for stage in stages):
        return None
    if any(is_array(getattr(term.score, "bandwidth", None)) for term in score.parts):
        return None
    marginal = any(isinstance(stage, MarginalStage) for stage in stages)
    rows = predictions[0].batch_shape[0]
    held = beside // max(1, rows)
    for prediction in predictions:
        two_rows = prediction.rows(slice(0, 2))  # of one row alone nothing has to be moved
        given = arrays_of(two_rows)
        for array in stack_of(two_rows, marginal, options.rtol).arrays():
            if not any(np.may_share_memory(array, source) for source in given):
                held += array.nbytes // 2
    step = max(1, int(_SHARE * options.max_memory / max(1, held)))
    return None if step >= rows else step


def _joined(parts: list[Any], axes: tuple[int, ...]) -> Any:
    """Arrays one after the other, the worst of methods, and the first of anything else."""
    if not isinstance(parts[0], tuple):
        return np.concatenate(parts, axis=axes[0])
    remaining = iter(axes)
    columns: list[Any] = []
    for column in zip(*parts, strict=True):
        if isinstance(column[0], np.ndarray):
            columns.append(np.concatenate(column, axis=next(remaining)))
        else:
            columns.append(worst_method(*column) if isinstance(column[0], str) else column[0])
    return tuple(columns)
