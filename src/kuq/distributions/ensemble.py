"""Ensembles: second-order laws given by members."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, final

import numpy as np

from kuq._array import (
    Array,
    adopt,
    any_true,
    as_numpy,
    constants,
    index_array,
    is_traced,
    moved_axis,
    namespace,
    safe_sqrt,
    to_jax,
)
from kuq._numbers import whole_number
from kuq.distributions import nesting
from kuq.distributions.base import Distribution, Prediction, check_factors, normalised
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
        if isinstance(members, Distribution):
            if not members.batch_shape:
                raise ShapeError(
                    f"the members need a member axis as the first batch axis, got {members!r}; "
                    "pass arrays of shape (members, batch…, event…) or a list of distributions"
                )
            groups = [members]
        elif isinstance(members, (list, tuple)):
            groups = [member.mapped(lambda array: array[None, ...]) for member in _listed(members)]
        else:
            raise ParameterError(
                "members must be a distribution or a list of distributions, got "
                f"{type(members).__name__}"
            )
        self._hold(groups if weights is None else [group.beside([weights]) for group in groups])
        self.dtype = self._common_dtype()
        if self.member_count == 0:
            raise ShapeError("an Ensemble needs at least one member, got none")
        if weights is not None:
            weights = _normalised(weights, self.member_count, self.reference)
        self.weights: Array | None = weights
        #: In which group of every level a member is, (M, levels).
        self.paths = np.arange(self.member_count)[:, None] if paths is None else paths

    def _hold(self, groups: Sequence[Distribution]) -> None:
        first = groups[0]
        #: The members, one law or several behind each other; the first axis is that of members.
        self.groups = tuple(groups)
        self.reference = first.reference
        self.batch_shape, self.event_shape = first.batch_shape[1:], first.event_shape
        self.expansion = max([group.expansion for group in groups])
        self.member_count = sum([group.batch_shape[0] for group in groups])

    def _common_dtype(self) -> Any:
        first, *others = (group.dtype for group in self.groups)
        return namespace(self.reference).result_type(first, *others) if others else first

    @property
    def members(self) -> Distribution | tuple[Distribution, ...]:
        """The law whose first axis the members are, or each of them if they are listed."""
        return self.groups[0] if len(self.groups) == 1 else tuple(self.member_list())

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
        return self.in_groups(np.arange(self.member_count)[:, None])

    def in_groups(self, paths: np.ndarray) -> Ensemble:
        """The same members, with the same weights, in groups of every level, (M, levels)."""
        grouped = copy.copy(self)
        grouped.paths = paths
        return grouped

    def with_groups(self, groups: Sequence[Distribution]) -> Ensemble:
        """Other laws in the same places, with the same weights."""
        changed = self._with(groups)
        changed.dtype, changed.factors = changed._common_dtype(), None
        return changed

    def _with(self, groups: Sequence[Distribution]) -> Ensemble:
        changed = object.__new__(Ensemble)
        vars(changed).update(vars(self))
        changed._hold(groups)
        return changed

    def mapped(self, change: Callable[[Array], Array]) -> Ensemble:
        changed = self._with([group.mapped(change) for group in self.groups])
        changed.weights = None if self.weights is None else change(self.weights)
        return changed

    def rows(self, index: slice) -> Ensemble:
        return self._with([g.mapped(lambda array: array[:, index, ...]) for g in self.groups])

    def in_jax(self) -> Ensemble:
        changed = self.with_groups([group.in_jax() for group in self.groups])
        changed.weights = None if self.weights is None else to_jax(self.weights)
        return changed

    def _placed(self) -> Iterator[tuple[slice, Distribution]]:
        """Every group with the positions of its members."""
        start = 0
        for group in self.groups:
            stop = start + group.batch_shape[0]
            yield slice(start, stop), group
            start = stop

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
        groups = []
        for place, group in self._placed():
            inside = [m - place.start for m in kept if place.start <= m < place.stop]
            whole = len(inside) == group.batch_shape[0]
            if inside:
                index = index_array(np.asarray(inside), self.reference)
                groups.append(group if whole else group.taken(index))
        remaining = self._with(groups)
        index = index_array(np.asarray(kept), self.reference)
        remaining.weights = xp.take(self.weights, index, axis=0)
        remaining.paths = self.paths[kept]
        return remaining

    def _strays(self) -> Array:
        """Members of weight zero that are out of proportion to the others anywhere, (M,)."""
        xp = namespace(self.reference)
        mean = moved_axis(self.member_means(), 0, -1)
        deviation = safe_sqrt(moved_axis(self._stack_members("variance"), 0, -1))
        away = strays(xp.broadcast_to(self.weights, mean.shape), mean, deviation)
        return xp.any(xp.reshape(away, (-1, self.member_count)), axis=0)

    def _with_stand_ins(self) -> Ensemble:
        """Strays replaced by the member with the largest weight, if they are of its kind."""
        whole = nesting.as_one(self.groups)
        if whole is None:
            return self
        away, best = self._strays(), heaviest(self.weights, self.weights)
        xp = namespace(self.reference)

        def replaced(array: Array) -> Array:
            chosen = xp.take(array, best, axis=0)
            return xp.where(away[(..., *(None,) * (array.ndim - 1))], chosen, array)

        return self.with_groups([whole.mapped(replaced)])

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
        return self.with_groups(
            [
                group.stretched(before[place, ...], after[place, ...], aleatoric)
                for place, group in self._placed()
            ]
        )

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
        return tuple(
            components.of_members(weights[place])
            for place, group in that_count._placed()
            for components in group.components()
        )

    def _stack_members(self, moment: str) -> Array:
        values = [getattr(group, moment)() for group in self.groups]
        return values[0] if len(values) == 1 else namespace(self.reference).concat(values, axis=0)

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
        return [group.member(m) for group in self.groups for m in range(group.batch_shape[0])]

    def member_weights(self) -> Array:
        """Normalised weights, (M,)."""
        if self.weights is not None:
            return self.weights
        return constants([1.0 / self.member_count] * self.member_count, self.reference)

    def stack(self, marginal: bool, rtol: float) -> Stack:
        """The members in canonical form, in groups of one kind, with lead axes (m, n)."""
        laws = [group.law(marginal, rtol).flatten_batch(members=True) for group in self.groups]
        groups = [Law.joined(list(alike)) for _, alike in groupby(laws, key=Law.kind)]
        return Stack(tuple(groups), self.weights)

    def __repr__(self) -> str:
        groups = ""
        for level in range(1, self.depth):
            count = len(np.unique(self.paths[:, :level], axis=0))
            groups += f"{count} {'group' if count == 1 else 'groups'} with "
        kinds: Counter[str] = Counter()
        for group in self.groups:
            sizes = f"batch={self.batch_shape}{group._sizes()}, event={self.event_shape}"
            kinds[f"{type(group).__name__}({sizes})"] += group.batch_shape[0]
        shown = " + ".join(f"{count} × {text}" for text, count in kinds.items())
        return f"Ensemble of {groups}{shown}"


def _listed(members: Sequence[Any]) -> list[Distribution]:
    """Members of one library and shape."""
    if not members:
        raise ShapeError("an Ensemble needs at least one member, got none")
    for member in members:
        if not isinstance(member, Distribution):
            raise ParameterError(
                f"every member must be a distribution, got {type(member).__name__}"
            )
    references = [member.reference for member in members]
    members = [member.beside(references) for member in members]
    first = members[0]
    for position, member in enumerate(members):
        if (member.batch_shape, member.event_shape) != (first.batch_shape, first.event_shape):
            raise ShapeError(
                "all members need equal batch and event shapes; "
                f"member 0 is {first!r}, member {position} is {member!r}"
            )
    try:
        namespace(*(member.reference for member in members))
    except TypeError:
        raise ParameterError("all members must come from one array library") from None
    return members


def _normalised(weights: Any, count: int, like: Array) -> Array:
    taken, _ = adopt(weights=weights, like=like)
    weights = taken["weights"]
    if tuple(weights.shape) != (count,):
        raise ShapeError(
            f"weights of Ensemble must have shape ({count},), got {tuple(weights.shape)}"
        )
    weights = normalised(weights, "weights of Ensemble")
    return namespace(weights).astype(weights, like.dtype)


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
    return leaves, xp.concat([outer[k] * shares for k, shares in enumerate(inner)]), paths


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
