"""Ensembles: second-order laws given by members."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, final

import numpy as np

from kuq._array import (
    Array,
    adopt,
    any_true,
    as_numpy,
    constants,
    follows,
    index_array,
    is_traced,
    moved_axis,
    namespace,
    require,
    require_finite,
    require_not_negative,
    safe_sqrt,
    summable,
)
from kuq._numbers import whole_number
from kuq.distributions import nesting
from kuq.distributions.base import Distribution, Prediction, check_factors
from kuq.distributions.laws import Law, Stack
from kuq.distributions.log_densities import mixed_log_density
from kuq.distributions.marginals import Components
from kuq.distributions.plain_numbers import are_numbers, what_they_may_mean
from kuq.distributions.strays import heaviest, strays
from kuq.errors import ParameterError, ShapeError


@final
class Ensemble(Prediction):
    """Members of an ensemble: axis 0 of a distribution's batch, or a list of distributions.

    ``members``: a distribution whose first axis they are, or a list. Listed members may be of
    different kinds and sample counts; they share batch and event shapes. Those of other libraries
    are converted by ``kuq.as_distribution``. ``weights`` (M,) are normalised. Where a first-order
    law is expected, an Ensemble means its mixture.

    Groups of members, such as runs of models, are a list of Ensembles of any sizes, or the first
    ``member_ndim`` axes of arrays, with weights of their shape: ``decompose(…, levels=…)`` tells
    what each level adds. Groups without weights count the same, and so do members of a group.

    >>> import kuq, numpy as np
    >>> kuq.Ensemble(kuq.Samples(np.zeros((4, 5, 8))))
    Ensemble of 4 × Samples(batch=(5,), N=8, event=())
    >>> kuq.Ensemble(kuq.Samples(np.zeros((3, 4, 5, 8))), member_ndim=2)
    Ensemble of 3 groups with 12 × Samples(batch=(5,), N=8, event=())
    """

    batch_shape: tuple[int, ...] = ()
    event_shape: tuple[int, ...] = ()
    reference: Array = None

    def __init__(
        self,
        members: Distribution | Sequence[Any],
        weights: Any = None,
        member_ndim: int = 1,
    ) -> None:
        members = _converted(members)
        axes = whole_number(member_ndim, "member_ndim", 1)
        paths = None
        if isinstance(members, (list, tuple)) and any(isinstance(m, Ensemble) for m in members):
            members, weights, paths = _of_groups(members, weights)
        elif axes > 1 and isinstance(members, Distribution):
            shape = members.batch_shape[:axes]
            members, paths = nesting.axes_joined(members, axes), nesting.paths_of_axes(shape)
            weights = None if weights is None else nesting.weights_joined(weights, shape)
        elif axes > 1:
            raise ParameterError("member_ndim is for arrays; list groups of members as Ensembles")
        if weights is not None:
            members = _beside(members, weights)
        if isinstance(members, Distribution):
            if not members.batch_shape:
                raise ShapeError(
                    f"the members need a member axis as the first batch axis, got {members!r}; "
                    "pass arrays of shape (members, batch…, event…) or a list of distributions"
                )
            self.members: Distribution | tuple[Distribution, ...] = members
            first, count = members, members.batch_shape[0]
            self.batch_shape = members.batch_shape[1:]
            self.dtype = first.dtype
        elif isinstance(members, (list, tuple)):
            self.members = tuple(members)
            count = len(members)
            first = self._check_list()
            self.batch_shape = first.batch_shape
        else:
            raise ParameterError(
                "members must be a distribution or a list of distributions, got "
                f"{type(members).__name__}"
            )
        if count == 0:
            raise ShapeError("an Ensemble needs at least one member, got none")
        self.member_count = count
        laws = self.members if isinstance(self.members, tuple) else (self.members,)
        self.expansion = max([law.expansion for law in laws])
        self.event_shape = first.event_shape
        self.reference = first.reference
        self._first = first
        self.weights = None if weights is None else self._normalised(weights)
        #: In which group of every level a member is, (M, levels).
        self.paths = np.arange(count)[:, None] if paths is None else paths

    @property
    def depth(self) -> int:
        """How many levels there are: one, or more where members are in groups."""
        return int(self.paths.shape[1])

    def flattened(self) -> Ensemble:
        """The same members, with the same weights, in no groups.

        >>> import kuq
        >>> kuq.Ensemble([kuq.Ensemble(kuq.Point([0.0, 1.0]))] * 2).flattened()
        Ensemble of 4 × Point(batch=(), event=())
        """
        return Ensemble(self.members, self.weights)

    def in_groups(self, paths: np.ndarray) -> Ensemble:
        """The same members, with the same weights, in groups of every level, (M, levels)."""
        grouped = copy.copy(self)
        grouped.paths = paths
        return grouped

    def with_members(self, members: Any) -> Ensemble:
        """Other laws in the same places, with the same weights."""
        return Ensemble(members, self.weights).in_groups(self.paths)

    def mapped(self, change: Callable[[Array], Array]) -> Ensemble:
        changed = self._with(lambda law: law.mapped(change))
        changed.weights = None if self.weights is None else change(self.weights)
        return changed

    def rows(self, part: slice) -> Ensemble:
        if isinstance(self.members, Distribution):
            some = self._with(lambda law: law.mapped(lambda array: array[:, part, ...]))
            some.batch_shape = some._first.batch_shape[1:]
        else:
            some = self._with(lambda law: law.rows(part))
            some.batch_shape = some._first.batch_shape
        return some

    def _with(self, change: Callable[[Distribution], Distribution]) -> Ensemble:
        """The same ensemble of changed laws."""
        changed = object.__new__(Ensemble)
        vars(changed).update(vars(self))
        if isinstance(self.members, Distribution):
            changed.members = changed._first = change(self.members)
        else:
            changed.members = tuple(change(member) for member in self.members)
            changed._first = changed.members[0]
        changed.reference = changed._first.reference
        return changed

    def in_jax(self) -> Ensemble:
        return self.with_members(_in_jax(self.members))

    def _check_list(self) -> Distribution:
        assert isinstance(self.members, tuple)
        if not self.members:
            raise ShapeError("an Ensemble needs at least one member, got none")
        for member in self.members:
            if not isinstance(member, Distribution):
                raise ParameterError(
                    f"every member must be a distribution, got {type(member).__name__}"
                )
        references = [member.reference for member in self.members]
        self.members = tuple(member.beside(references) for member in self.members)
        first = self.members[0]
        for position, member in enumerate(self.members):
            if (member.batch_shape, member.event_shape) != (first.batch_shape, first.event_shape):
                raise ShapeError(
                    "all members need equal batch and event shapes; "
                    f"member 0 is {first!r}, member {position} is {member!r}"
                )
        try:
            xp = namespace(*(member.reference for member in self.members))
        except TypeError:
            raise ParameterError("all members must come from one array library") from None
        self.dtype = xp.result_type(*(member.dtype for member in self.members))
        return first

    def _normalised(self, weights: Any) -> Array:
        return _normalised(weights, self.member_count, self.reference)

    def counting(self) -> Ensemble:
        """The members that count: those of weight zero change nothing.

        They are left out where nobody can ask for a derivative by their weight. Elsewhere only
        strays among them are: left out, or where weights cannot be read replaced by another.
        """
        if self.weights is None or any_true(self.weights == 0) is False:
            return self
        if is_traced(self.weights):
            return self._with_stand_ins()
        out = self.weights == 0
        if getattr(self.weights, "requires_grad", False):
            out = self._strays()
        kept = [m for m in range(self.member_count) if not bool(out[m])]
        return self if len(kept) == self.member_count else self._only(kept)

    def positions_that_count(self) -> list[int]:
        """The positions of members with weight."""
        if self.weights is None or any_true(self.weights == 0) is not True:
            return list(range(self.member_count))
        return [m for m in range(self.member_count) if not bool(self.weights[m] == 0)]

    def _only(self, kept: list[int]) -> Ensemble:
        xp = namespace(self.reference)
        index = index_array(np.asarray(kept), self.reference)
        if isinstance(self.members, Distribution):
            members: Any = self.members.taken(index)
            first = members
        else:
            members = tuple(self.members[m] for m in kept)
            first = members[0]
        part = copy.copy(self)
        part.members, part._first, part.member_count = members, first, len(kept)
        part.reference = first.reference
        part.weights = xp.take(self.weights, index, axis=0)
        part.paths = self.paths[kept]
        return part

    def _strays(self) -> Array:
        """Members of weight zero that are out of proportion to the others anywhere, (M,)."""
        xp = namespace(self.reference)
        mean = moved_axis(self.member_means(), 0, -1)
        deviation = safe_sqrt(moved_axis(self._stack_members("variance"), 0, -1))
        away = strays(xp.broadcast_to(self.weights, mean.shape), mean, deviation)
        return xp.any(xp.reshape(away, (-1, self.member_count)), axis=0)

    def _with_stand_ins(self) -> Ensemble:
        """Strays replaced by the member with the largest weight, if they are of its kind."""
        members = self.members
        if not isinstance(members, Distribution):
            if len({m.kind for m in members}) > 1:
                return self
            members = Distribution.stacked(members)
        away, best = self._strays(), heaviest(self.weights, self.weights)
        xp = namespace(self.reference)

        def replaced(array: Array) -> Array:
            chosen = xp.take(array, best, axis=0)
            return xp.where(away[(..., *(None,) * (array.ndim - 1))], chosen, array)

        return self.with_members(members.mapped(replaced))

    def mean(self) -> Array:
        members = self.counting()
        return members._average(members.member_means())

    def variance(self) -> Array:
        members = self.counting()
        means = members.member_means()
        gap = means - members._average(means)
        gap = gap - members._average(gap)  # what the first pass rounded off
        return members._average(members._stack_members("variance") + gap * gap)

    def rescaled(self, aleatoric: float, epistemic: float = 1.0) -> Ensemble:
        check_factors(aleatoric, epistemic)
        before, centre = self.member_means(), self.mean()
        after = centre + epistemic * (before - centre)
        if isinstance(self.members, Distribution):
            members: Any = self.members.stretched(before, after, aleatoric)
        else:
            members = [
                member.stretched(before[m, ...], after[m, ...], aleatoric)
                for m, member in enumerate(self.members)
            ]
        return self.with_members(members)

    def sample(self, draws: int, seed: Any = None) -> Array:
        rng = np.random.default_rng(seed)
        that_count = self.counting()
        xp = namespace(self.reference)
        weights = as_numpy(that_count.member_weights(), "sampling from an Ensemble")
        lead = (*self.batch_shape, draws)
        chosen = rng.choice(weights.size, p=weights / weights.sum(), size=lead)
        chosen = np.reshape(chosen, lead + (1,) * len(self.event_shape))
        members = enumerate(that_count.member_list())
        values = next(members)[1].sample(draws, rng)
        for position, member in members:
            mine = index_array(chosen, values) == position
            values = xp.where(mine, member.sample(draws, rng), values)
        return values

    def log_density(self, x: Array) -> Array:
        """log p̄(x) of the mixture, (…, batch…), of whole outcomes x (…, batch…, event…)."""
        x = self._outcomes(x)
        members = self.counting()
        values = namespace(x).stack([law.log_density(x) for law in members.member_list()])
        return mixed_log_density(members.member_weights(), values)

    def components(self) -> tuple[Components, ...]:
        that_count = self.counting()
        weights = as_numpy(that_count.member_weights(), "a distribution function or quantile")
        members = that_count.members
        if isinstance(members, Distribution):
            return tuple(part.of_members(weights) for part in members.components())
        return tuple(
            part.weighted(weight)
            for member, weight in zip(members, weights, strict=True)
            for part in member.components()
        )

    def _stack_members(self, moment: str) -> Array:
        if isinstance(self.members, Distribution):
            return getattr(self.members, moment)()
        xp = namespace(self.reference)
        return xp.stack([getattr(member, moment)() for member in self.members])

    def _average(self, values: Array) -> Array:
        xp = namespace(values)
        if self.weights is None:
            return xp.mean(values, axis=0)
        return xp.sum(values * xp.reshape(self.weights, (-1,) + (1,) * (values.ndim - 1)), axis=0)

    def member_means(self) -> Array:
        """The mean of every member, (M, batch…, event…)."""
        return self._stack_members("mean")

    def member_list(self) -> list[Distribution]:
        """Every member as a distribution of its own."""
        if isinstance(self.members, Distribution):
            return [self.members.member(m) for m in range(self.member_count)]
        return list(self.members)

    def member_weights(self) -> Array:
        """Normalised weights, (M,)."""
        if self.weights is not None:
            return self.weights
        return constants([1.0 / self.member_count] * self.member_count, self.reference)

    def stack(self, marginal: bool, rtol: float) -> Stack:
        """The members in canonical form, in groups of one kind, with lead axes (m, n)."""
        if isinstance(self.members, Distribution):
            law = self.members.law(marginal, rtol)
            return Stack((law.flatten_batch(members=True),), self.weights)
        groups: list[Law] = []
        for _, run in groupby(self.members, key=lambda m: m.kind):
            laws = [member.law(marginal, rtol).flatten_batch(members=False) for member in run]
            groups += [Law.joined(list(alike)) for _, alike in groupby(laws, key=Law.kind)]
        return Stack(tuple(groups), self.weights)

    def _describe(self) -> str:
        inner = self._first
        groups = ""
        for level in range(1, self.depth):
            count = len(np.unique(self.paths[:, :level], axis=0))
            groups += f"{count} {'group' if count == 1 else 'groups'} with "
        if isinstance(self.members, Distribution):
            sizes = f"batch={self.batch_shape}{inner._sizes()}, event={self.event_shape}"
            return f"Ensemble of {groups}{self.member_count} × {type(inner).__name__}({sizes})"
        shown = [repr(m) for m in self.members]
        kinds = [f"{count} × {text}" for text, count in Counter(shown).items()]
        return f"Ensemble of {groups}{' + '.join(kinds)}"


def _normalised(weights: Any, count: int, like: Array) -> Array:
    taken, _ = adopt(weights=weights, like=like)
    weights = taken["weights"]
    xp = namespace(weights)
    if tuple(weights.shape) != (count,):
        raise ShapeError(
            f"weights of Ensemble must have shape ({count},), got {tuple(weights.shape)}"
        )
    require_finite(**{"weights of Ensemble": weights})
    require_not_negative(weights, "weights of Ensemble")
    weights = summable(weights)
    total = xp.sum(weights)
    require(total > 0, "the sum of the weights of Ensemble", "positive", total)
    return xp.astype(weights / total, like.dtype)


def _of_groups(groups: Sequence[Any], weights: Any) -> tuple[Any, Any, np.ndarray]:
    """The leaves of ensembles, what each of them counts, and where it stands."""
    for member in groups:
        if not isinstance(member, Ensemble):
            raise ShapeError(
                "groups of an Ensemble need as many levels each: all members are Ensembles, or "
                f"none is, got {member!r}; wrap a group of one as Ensemble([member])"
            )
    references = [group.reference for group in groups]
    beside = [*references, *([] if weights is None else [weights])]
    groups = [group.beside(beside) for group in groups]
    leaves, paths = nesting.leaves_of(groups)
    even = len({group.member_count for group in groups}) == 1
    if weights is None and even and all(group.weights is None for group in groups):
        return leaves, None, paths
    count = len(groups)
    like = groups[0].reference
    outer = _normalised([1 / count] * count if weights is None else weights, count, like)
    inner = [group.member_weights() for group in groups]
    xp = namespace(*inner)
    return leaves, xp.concat([outer[k] * own for k, own in enumerate(inner)]), paths


def _converted(members: Any) -> Any:
    """Members of other libraries as distributions; what no library knows is left as it is."""
    if isinstance(members, Prediction):
        return members
    if are_numbers(members):
        raise ParameterError(what_they_may_mean(members))
    from kuq.adapters.conversion import as_distribution  # it needs the laws of this package

    if isinstance(members, (list, tuple)):
        return [m if isinstance(m, Prediction) else as_distribution(m) for m in members]
    return as_distribution(members)


def _in_jax(members: Distribution | Sequence[Distribution]) -> Distribution | list[Distribution]:
    if isinstance(members, Distribution):
        return members.in_jax()
    return [member.in_jax() for member in members]


def _beside(members: Any, weights: Any) -> Any:
    """Members in the library that they take beside weights."""
    listed = members if isinstance(members, (list, tuple)) else [members]
    known = listed and all(isinstance(member, Distribution) for member in listed)
    return _in_jax(members) if known and follows(listed[0].reference, [weights]) else members
