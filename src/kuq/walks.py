"""Walks that are remembered: the way from the arrays of a prediction to an answer, found once.

What stands in a stack of laws are the numbers of a prediction in another order, and every answer is
linear in the statistics of stacks. So one walk with positions in place of numbers tells where each
number goes, and walks with made-up statistics tell what each of them counts. A training step asks
for the same answer about arrays of the same shapes again and again: then only the form is left to
do, and torch records one step for all of it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from kuq import _compiled, door
from kuq._array import Array, all_finite, is_array, validating
from kuq.distributions.atoms import Atoms, Products
from kuq.distributions.base import Prediction, is_prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.laws import Law, Stack
from kuq.distributions.mixture import NormalMixture
from kuq.distributions.normal import Normal, Point
from kuq.distributions.samples import Samples
from kuq.distributions.strays import without_strays
from kuq.driver import to_units
from kuq.forms.form import (
    Differential,
    Differentiated,
    Measure,
    Problem,
    Question,
    Slopes,
    Statistics,
)
from kuq.forms.table import plan
from kuq.kernels.base import Kernel, Score
from kuq.scores.options import Options

#: Laws whose canonical form has their numbers as they are, whatever these are.
_ARRANGED = (Normal, NormalMixture, Point, Samples)
#: Members that are tried one by one when a walk is found.
_MOST_MEMBERS = 64
#: Numbers of a prediction above which finding the way is nothing beside going it.
_MOST_NUMBERS = 2**22
_MOST_WALKS = 512

Answer = TypeVar("Answer")


def repeated(
    function: Callable[..., Answer], args: tuple[Any, ...], settings: dict[str, Any]
) -> Answer:
    """What a public function says of tensors that ask for a gradient.

    If a call like this one was answered by one step, this one takes it at once.
    """
    tensors: list[Array] = []
    given = (*args, *settings.values())
    key = _signature(given, tensors)
    walk = None
    if key is not None:
        key += (function, *settings)
        try:
            walk = _WALKS.get(key)
        except TypeError:  # a list, which is no key
            key = None
    if walk is not None and door.records() and _is_served(tensors) and _are_finite(given):
        answer: Answer | None = walk.step(tensors)
        if answer is not None:
            return answer
    result = function(*args, **settings)
    if key is not None and walk is None:
        step: Any = getattr(result, "grad_fn", None)
        taken = getattr(step, "again", None)
        if isinstance(taken, Walk) and step.places == [id(tensor) for tensor in tensors]:
            _remember(key, taken)
    return result


def answered(
    function: Callable[..., Answer],
    predictions: Sequence[Prediction],
    score: Score,
    options: Options,
    settings: dict[str, Any],
) -> Answer | None:
    """An answer about tensors that ask for a gradient, as one step; None if no walk leads there."""
    if score.is_open or score.arrays or "torch" not in sys.modules:
        return None
    tensors: list[Array] = []
    key = _signature(predictions, tensors)
    if key is None or not _is_served(tensors) or not door.opens_for_losses(tensors):
        return None
    key += (function, score, options, *settings.items())
    walk = _WALKS.get(key, _UNKNOWN)
    if walk is _UNKNOWN:
        if not isinstance(score, Kernel) or not door.is_neutral(score):
            return None
        walk = _walk_for(function, predictions, tensors, score, options, settings)
        _remember(key, walk)
        all_finite(tensors[0])  # so that the next call finds loaded what looks at its numbers
    answer: Answer | None = walk.step(tensors) if isinstance(walk, Walk) else None
    return answer


def _is_served(tensors: list[Array]) -> bool:
    """Whether one step may take all tensors: none of them has two places."""
    return _compiled.serves_losses() and len(set(map(id, tensors))) == len(tensors)


def _are_finite(given: Iterable[Any]) -> bool:
    """Whether outcomes are as they have to be; laws have been looked at."""
    if validating():
        tensor = sys.modules["torch"].Tensor
        for one in given:
            if isinstance(one, tensor) and not all_finite(one):
                return False
    return True


# What is remembered.

_WALKS: dict[Any, Walk | None] = {}
_UNKNOWN = object()
_FINDING = threading.Lock()


def _remember(key: Any, walk: Walk | None) -> None:
    with _FINDING:
        if len(_WALKS) >= _MOST_WALKS:
            _WALKS.clear()
        _WALKS[key] = walk


def _signature(given: Iterable[Any], tensors: list[Array]) -> tuple[Any, ...] | None:
    """What an answer depends on beside the numbers in tensors, which are put into the list.

    With it goes what tells whether these can be read: if those of a walk could, all like them can.
    None for laws of which no walk is remembered.
    """
    entries: list[Any] = []
    tensor = sys.modules["torch"].Tensor
    for law in given:
        kind: Any = type(law)
        entries.append(kind)
        values: Iterable[Any] = (law,)
        if kind in _ARRANGED:
            values = vars(law).values()
        elif kind is Ensemble:
            values = (_signature(law.groups, tensors),)
            if values == (None,) or law.weights is not None:
                return None
        elif is_prediction(kind):
            return None
        for value in values:
            if isinstance(value, tensor):
                tensors.append(value)
                entries += (type(value), value.shape, value.dtype, value.requires_grad)
                entries += (value.is_contiguous(), value.is_cpu, value.is_neg())
            else:
                entries.append(value)
    return tuple(entries) if tensors else None


class _Place(NamedTuple):
    """Where the numbers of an array of atoms come from: one tensor, or all of them in a row."""

    source: int | None
    positions: np.ndarray | None
    shape: tuple[int, ...]

    def taken(self, sources: list[np.ndarray]) -> np.ndarray:
        if self.source is not None:
            return sources[self.source].reshape(self.shape)
        assert self.positions is not None
        # ``take`` gives a contiguous array, an index one of the layout of the positions.
        return np.concatenate([source.ravel() for source in sources]).take(self.positions)

    def given_back(self, slope: np.ndarray, slopes: list[np.ndarray | None], starts: Any) -> None:
        """Add the derivative by the array to those by the tensors."""
        if self.source is not None:
            before = slopes[self.source]
            slopes[self.source] = slope if before is None else before.ravel() + slope.ravel()
            return
        assert self.positions is not None
        total = np.bincount(self.positions.ravel(), slope.ravel(), starts[-1])
        for k, (start, stop) in enumerate(itertools.pairwise(starts)):
            before, added = slopes[k], total[start:stop]
            slopes[k] = added if before is None else before.ravel() + added


class _Group(NamedTuple):
    """A group of laws of a stack without its numbers."""

    kind: type[Atoms]
    places: tuple[_Place, ...]
    drawn: bool
    method: str


@dataclass(frozen=True)
class Walk:
    """An answer about predictions of certain shapes."""

    #: asks the same of tensors, step by step
    ask: Callable[[Sequence[Array]], Any]
    differential: Differential
    #: whether the form takes laws in any units
    any_units: bool
    measure: Measure
    groups: tuple[_Group, ...]
    members: np.ndarray
    #: the answer with made-up arrays, and the shapes of these
    answer: Any
    shapes: tuple[tuple[int, ...], ...]
    #: positions at which the numbers of the tensors begin, and where they end
    starts: tuple[int, ...]
    #: of the tensors, and of what the form takes
    dtype: np.dtype[Any]
    computing: np.dtype[Any]
    #: where the form finds all arrays of atoms
    places: tuple[_Place, ...]
    #: the same if those are tensors as they are, which need no look
    direct: tuple[int, ...] | None

    def __call__(self, tensors: Sequence[Array]) -> list[Array]:
        """The arrays of the answer, recorded step by step."""
        return _arrays_among(self.ask(tensors))

    def step(self, tensors: Sequence[Array]) -> Any:
        """The answer as one step that torch records; None where digits would be lost."""
        measure: Measure | None = self.measure
        if self.direct is not None:
            arrays = list(map(tensors.__getitem__, self.direct))
        else:
            sources = [np.ascontiguousarray(door.entered(t), self.computing) for t in tensors]
            arrays = [place.taken(sources) for place in self.places]
            measure = self._usual(arrays)
        rows_and_slopes = None if measure is None else self.differential(measure, arrays)
        if rows_and_slopes is None:
            return None
        rows, by_arrays = rows_and_slopes
        values = [
            row.reshape(shape).astype(self.dtype, copy=False)
            for row, shape in zip(rows, self.shapes, strict=True)
        ]
        slopes = functools.partial(self._given_back, by_arrays)
        return _with_arrays(self.answer, door.recorded(values, tensors, slopes, self))

    def _usual(self, arrays: Sequence[np.ndarray]) -> Measure | None:
        """The measure, if laws can be taken as they are."""
        rest = iter(arrays)
        laws = []
        for kind, places, drawn, method in self.groups:
            fields = [next(rest) for _ in places]
            if not self.any_units or kind is Products:
                laws.append(Law(kind(*fields), None, drawn, method))
        if any(without_strays(law) is not law for law in laws):
            return None
        if self.any_units:
            return self.measure
        stack = Stack(tuple(laws), self.members)
        measure, (same,), _ = to_units(self.measure, [stack])
        return measure if same is stack else None

    def _given_back(
        self, by_arrays: Slopes, by_values: Sequence[np.ndarray | None]
    ) -> list[np.ndarray | None]:
        """Derivatives by the tensors."""
        slopes: list[np.ndarray | None] = [None] * (len(self.starts) - 1)
        if self.direct is not None:
            for k, slope in zip(self.direct, by_arrays(by_values), strict=True):
                slopes[k] = slope
            return slopes
        for place, slope in zip(self.places, by_arrays(by_values), strict=True):
            if slope is not None:
                place.given_back(slope, slopes, self.starts)
        return slopes


def _arrays_among(answer: Any) -> list[Array]:
    return [value for value in answer if is_array(value)] if isinstance(answer, tuple) else [answer]


def _with_arrays(answer: Any, arrays: Sequence[Array]) -> Any:
    """An answer with other arrays."""
    if not isinstance(answer, tuple):
        return arrays[0]
    rest = iter(arrays)
    return tuple([next(rest) if is_array(value) else value for value in answer])


# How a walk is found.


class _Question(NamedTuple):
    """What an answer asks of the driver."""

    score: Score
    bandwidth: Array | float | None
    stack: Stack
    question: Question


def _walk_for(
    function: Callable[..., Any],
    predictions: Sequence[Prediction],
    tensors: Sequence[Array],
    score: Score,
    options: Options,
    settings: dict[str, Any],
) -> Walk | None:
    """The walk of an answer, None if it asks more than once, or not by an arrangement."""
    starts = np.cumsum([0, *(tensor.numel() for tensor in tensors)])
    if not 0 < starts[-1] <= _MOST_NUMBERS or options.directions or options.draws:
        return None
    positions = {
        id(tensor): np.arange(start, start + tensor.numel(), dtype=np.float64).reshape(tensor.shape)
        for tensor, start in zip(tensors, starts, strict=False)
    }
    coded = [p.mapped(lambda array: positions[id(array)]) for p in predictions]

    def asked(made_up: Callable[[Stack], Statistics]) -> tuple[list[_Question], Any]:
        heard: list[_Question] = []

        def listener(*question: Any) -> Statistics:
            heard.append(_Question(*question))
            return made_up(heard[-1].stack)

        listening = dataclasses.replace(options, listener=listener)
        return heard, _without_scalars(function(*coded, score, listening, **settings))

    def nothing(stack: Stack) -> Statistics:
        n = stack.batch_count
        return Statistics(np.zeros((stack.member_count, n)), np.zeros(n))

    heard, answer = asked(nothing)
    if len(heard) != 1 or heard[0].stack.member_count > _MOST_MEMBERS:
        return None
    if any(array.any() for array in _arrays_among(answer)):
        return None
    (kernel, bandwidth, stack, _) = heard[0]
    if kernel.weights is not None or not (bandwidth is None or isinstance(bandwidth, float)):
        return None
    if any(law.weights is not None or law.tail is not None for law in stack.groups):
        return None
    groups = _groups(stack, starts)
    problem = Problem.of(kernel, stack, compiled=True)
    chosen = plan(problem)
    form = chosen.forms[0]
    if groups is None or chosen.apart is not None or chosen.method != "exact":
        return None
    if not isinstance(form, Differentiated) or not form.differentiates(problem):
        return None

    def counted(made_up: Callable[[Stack], Statistics]) -> list[float] | None:
        """What a statistic that is one everywhere counts in every array of the answer."""
        values = [np.asarray(array) for array in _arrays_among(asked(made_up)[1])]
        if any(value.size != stack.batch_count or np.ptp(value) for value in values):
            return None  # reduced over the event, or not the same everywhere
        return [float(value.flat[0]) for value in values]

    def one_of_dispersions(stack: Stack) -> Statistics:
        return nothing(stack)._replace(dispersion=np.ones(stack.batch_count))

    def one_of_entropies(stack: Stack, member: int) -> Statistics:
        statistics = nothing(stack)
        statistics.entropies[member] = 1.0
        return statistics

    columns = [counted(one_of_dispersions)]
    columns += [
        counted(functools.partial(one_of_entropies, member=m)) for m in range(stack.member_count)
    ]
    if any(column is None for column in columns):
        return None
    dispersions, *entropies = columns
    shares = np.array([*entropies, dispersions]).T
    budget = options.budget(stack.reference)
    measure = Measure(kernel, bandwidth, options.rtol, budget, compiled=True)
    any_units = form.any_units(problem)
    # What comes from all tensors may be wanted because of any.
    wanted = [
        place.source is None or tensors[place.source].requires_grad
        for group in groups
        for place in group.places
    ]
    dtype = np.result_type(*[door.entered(tensor).dtype for tensor in tensors])
    computing = dtype if any_units else np.dtype(np.float64)
    # Shapes without numbers stand for the tensors, which a walk must not keep.
    empty = {id(tensor): np.broadcast_to(0.0, tensor.shape) for tensor in tensors}
    number = {id(empty[id(tensor)]): k for k, tensor in enumerate(tensors)}
    shapes = [p.mapped(lambda array: empty[id(array)]) for p in predictions]

    def ask(others: Sequence[Array]) -> Any:
        same = [p.mapped(lambda shape: others[number[id(shape)]]) for p in shapes]
        return function(*same, score, options, **settings)

    return Walk(
        ask,
        form.differential(stack, wanted, shares),
        any_units,
        measure,
        groups,
        np.asarray(stack.member_weights(), dtype=np.float64),
        answer,
        tuple(array.shape for array in _arrays_among(answer)),
        tuple(starts.tolist()),
        dtype,
        computing,
        tuple(place for group in groups for place in group.places),
        _direct(groups, tensors, any_units),
    )


def _direct(
    groups: tuple[_Group, ...], tensors: Sequence[Array], any_units: bool
) -> tuple[int, ...] | None:
    """The tensors that are the arrays of atoms, if the form can take them without a look."""
    sources = [place.source for group in groups for place in group.places]
    usual = any_units and all(group.kind is not Products for group in groups)
    alike = {(tensor.dtype, tensor.is_contiguous()) for tensor in tensors}
    if not usual or None in sources or alike != {(tensors[0].dtype, True)}:
        return None
    if len(set(sources)) < len(sources):  # derivatives by two places are added
        return None
    return tuple(source for source in sources if source is not None)


def _without_scalars(answer: Any) -> Any:
    """Sums over all axes, which NumPy gives as scalars, are arrays like the others."""
    if isinstance(answer, tuple):
        return tuple(_without_scalars(value) for value in answer)
    return np.asarray(answer) if isinstance(answer, np.generic) else answer


def _groups(stack: Stack, starts: np.ndarray) -> tuple[_Group, ...] | None:
    """Where the numbers of a stack of positions come from."""
    groups = []
    for law in stack.groups:
        places = []
        for name in law.atoms.extra:
            coded = getattr(law.atoms, name)
            index = coded.astype(np.int64)
            if not np.array_equal(index, coded) or index.min() < 0 or index.max() >= starts[-1]:
                return None
            first = int(index.flat[0])
            source = int(np.searchsorted(starts, first, side="right")) - 1
            whole = first == starts[source] and index.size == starts[source + 1] - first
            if whole and np.array_equal(index.ravel(), np.arange(first, first + index.size)):
                places.append(_Place(source, None, coded.shape))
            else:
                places.append(_Place(None, index, coded.shape))
        groups.append(_Group(type(law.atoms), tuple(places), law.drawn, law.method))
    return tuple(groups)
