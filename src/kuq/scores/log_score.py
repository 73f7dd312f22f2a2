"""The log score of predictions: entropies, Kullback-Leibler divergences, log densities.

Laws with independent coordinates are treated coordinate by coordinate and summed; low-rank
normals as a whole. The mixture of an ensemble has a closed route in one dimension only. Which
route there is follows from the canonical form of the laws, whatever their class.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kuq._array import Array, namespace
from kuq.distributions.atoms import (
    LowRanks,
    Normals,
    Points,
    Products,
    to_low_ranks,
    to_normals,
    to_products,
)
from kuq.distributions.base import Distribution, Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.laws import Law, Stack, to_scalar_atoms
from kuq.distributions.strays import prepared
from kuq.distributions.zero_variances import without_zeros
from kuq.errors import NoClosedFormError
from kuq.expectations import densities, relative_entropy
from kuq.scores.options import Options
from kuq.tiles import member_pairs, pieces

#: Breakpoints of the panel rule per component, times its points per panel.
_NODES_PER_COMPONENT = 17 * 8
#: Enough to see of what kind a law is; coarse ones are made quickly.
_COARSE = 1e-2


def members_of(prediction: Prediction) -> tuple[Distribution, ...]:
    if isinstance(prediction, Ensemble):
        members = prediction.members
        return (members,) if isinstance(members, Distribution) else members
    assert isinstance(prediction, Distribution)
    return (prediction,)


def check_density(prediction: Prediction) -> None:
    for member in members_of(prediction):
        member.require_density()


@dataclass(frozen=True)
class LogView:
    """Members in canonical form: coordinates as batch entries, or joint for low-rank normals."""

    stack: Stack
    joint: bool
    batch_shape: tuple[int, ...]
    event_shape: tuple[int, ...]

    def finish(self, values: Array) -> Array:
        """(…, n) to (…, batch…), summed over independent coordinates."""
        xp = namespace(values)
        lead = tuple(values.shape[:-1])
        if self.joint:
            return xp.reshape(values, (*lead, *self.batch_shape))
        d = math.prod(self.event_shape)
        return xp.sum(xp.reshape(values, (*lead, *self.batch_shape, d)), axis=-1)

    def over_tiles(
        self, options: Options, cost: int, compute: Callable[..., Array], *others: LogView
    ) -> Array:
        """Run ``compute`` on pieces of the batch that fit the memory budget, (…, n)."""
        stacks = [v.stack for v in (self, *others)]
        reference = self.stack.reference
        if self.stack.batch_count == 0:  # shapes come from one made-up entry
            return compute(*(stack.blank().widened() for stack in stacks))[..., :0]
        tiles = pieces(self.stack.batch_count, cost, options.budget(reference), reference)
        parts = [compute(*(prepared(stack.index(part)) for stack in stacks)) for part in tiles]
        return namespace(reference).concat(parts, axis=-1)


@dataclass(frozen=True)
class Kinds:
    """What the canonical forms of all members of some predictions allow."""

    #: entropies and divergences between these laws need no draws
    routed: bool
    #: low-rank normals of more than one dimension, which are no product of their coordinates
    joint: bool
    mixtures: bool
    points: bool

    @staticmethod
    def of(*predictions: Prediction) -> Kinds:
        laws = [m.law(False, _COARSE) for p in predictions for m in members_of(p)]
        joint = any(isinstance(law.atoms, LowRanks) and law.dimension > 1 for law in laws)
        mixtures = any(isinstance(law.atoms, Products) or law.count > 1 for law in laws)
        return Kinds(
            routed=all(map(_is_routed, laws)) and not (joint and mixtures),
            joint=joint,
            mixtures=mixtures,
            points=all(isinstance(law.atoms, Points) and law.count == 1 for law in laws),
        )

    @property
    def method(self) -> str:
        """How members with a route are treated."""
        return "quadrature" if self.mixtures else "exact"


def _is_routed(law: Law) -> bool:
    """Whether a law is a normal, or a mixture of normals in one dimension or per coordinate."""
    known = isinstance(law.atoms, (Points, Normals, LowRanks, Products))
    exact = law.method == "exact" and law.tail is None and not law.drawn
    return known and exact and (law.count == 1 or law.dimension == 1)


def diverges(p: Prediction, q: Prediction) -> Array:
    """Where KL(Q‖P) is infinite because of tails, (batch…)."""
    return _diverge(Tails.of(p), Tails.of(q), len(q.event_shape))


def infinite_pairs(prediction: Ensemble) -> Array:
    """Where KL(P_j‖P_i) of members is infinite because of tails, (M, M, batch…)."""
    xp = namespace(prediction.reference)
    tails = [Tails.of(member) for member in prediction.member_list()]
    axes = len(prediction.event_shape)
    return xp.stack([xp.stack([_diverge(p, q, axes) for q in tails]) for p in tails])


class Tails(NamedTuple):
    """What the tails of a prediction are like, (batch…, event…) each.

    ``normal``: every member has one like exp(−x²). ``no_variance``: a member has no variance.
    """

    normal: Array
    no_variance: Array

    @staticmethod
    def of(prediction: Prediction) -> Tails:
        zero = namespace(prediction.reference).zeros_like(prediction.mean())
        normal, no_variance = zero == 0, zero > 0
        for member in members_of(prediction):
            tail = member.law(True, _COARSE).tail
            if tail is None:
                continue
            tail = tail[..., 0]  # each coordinate is a law of its own
            each = [tail[m, ...] for m in range(tail.shape[0])] if tail.ndim > zero.ndim else [tail]
            for order in each:
                normal, no_variance = normal & (order == math.inf), no_variance | (order <= 2)
        return Tails(normal, no_variance)


def _diverge(p: Tails, q: Tails, event_ndim: int) -> Array:
    """Whether KL(Q‖P) is infinite because of tails.

    A normal density falls like exp(−x²), so that −E log p(X) is finite only if X has a variance.
    A heavier tail falls like a power, and E log |X| exists for every law here. One such member is
    enough for a mixture.
    """
    both = p.normal & q.no_variance
    axes = tuple(range(both.ndim - event_ndim, both.ndim))
    return namespace(both).any(both, axis=axes) if axes else both


def no_closed_form(*predictions: Prediction) -> NoClosedFormError:
    kinds = " and ".join(sorted({type(m).__name__ for p in predictions for m in members_of(p)}))
    several = any(isinstance(p, Ensemble) for p in predictions)
    what = "the mixture of an ensemble of " if several else ""
    return NoClosedFormError(
        f"the log score has no exact or quadrature route for {what}{kinds} here; "
        "pass draws=2000, seed=0 to opt in to Monte Carlo"
    )


def view(prediction: Prediction, joint: bool, rtol: float) -> LogView:
    if isinstance(prediction, Ensemble):
        stack = prediction.stack(not joint, rtol)
    else:
        assert isinstance(prediction, Distribution)
        stack = Stack((prediction.law(not joint, rtol).flatten_batch(members=False),))
    return LogView(stack.map(_as_one_atom), joint, prediction.batch_shape, prediction.event_shape)


def _as_one_atom(law: Law) -> Law:
    """Weighted atoms on the line as one mixture."""
    if law.count == 1:
        return law
    law = to_scalar_atoms(law)
    normals = to_normals(law.atoms)

    def component(array: Array) -> Array:  # (…, A) -> (…, 1, 1, A)
        return array[..., None, None, :]

    atoms = Products(
        component(normals.loc[..., 0]),
        component(normals.scale[..., 0]),
        component(law.full_weights()),
    )
    return dataclasses.replace(law, atoms=atoms, weights=None)


def law_entropy(law: Law) -> Array:
    """The differential entropy, (m, n)."""
    a = law.atoms
    if isinstance(a, LowRanks):
        a = without_zeros(a)
        return densities.low_rank_entropy(a.factor, a.diag)[..., 0]
    if isinstance(a, Products):
        return relative_entropy.mixture_entropy(*(x[..., 0, 0, :] for x in _mixture(a)))
    scale = to_normals(a).scale
    return namespace(scale).sum(densities.normal_entropy(scale), axis=-1)[..., 0]


def law_divergence(p: Law, q: Law) -> Array:
    """KL(Q‖P), (m, n)."""
    a, b = (without_zeros(x) if isinstance(x, LowRanks) else x for x in (p.atoms, q.atoms))
    if isinstance(a, LowRanks) or isinstance(b, LowRanks):
        rank = max(x.factor.shape[-1] for x in (a, b) if isinstance(x, LowRanks))
        a, b = to_low_ranks(a, rank), to_low_ranks(b, rank)
        return densities.low_rank_kl(a.loc, a.factor, a.diag, b.loc, b.factor, b.diag)[..., 0]
    if isinstance(a, Products) or isinstance(b, Products):
        count = max(x.loc.shape[-1] for x in (a, b) if isinstance(x, Products))
        parts = [x[..., 0, 0, :] for atoms in (a, b) for x in _mixture(to_products(atoms, count))]
        return relative_entropy.mixture_kl(*parts)
    a, b = to_normals(a), to_normals(b)
    values = densities.normal_kl(a.loc, a.scale, b.loc, b.scale)
    return namespace(values).sum(values, axis=-1)[..., 0]


def _mixture(a: Products) -> tuple[Array, Array, Array]:
    return a.weights, a.loc, a.scale


def pair_cost(*stacks: Stack) -> int:
    """Numbers touched by the comparison of two members at one batch entry."""
    size = 1
    for group in (g for stack in stacks for g in stack.groups):
        if isinstance(group.atoms, Products):
            k = group.atoms.loc.shape[-1]
            size = max(size, 4 * k * k * _NODES_PER_COMPONENT)
        else:
            size = max(size, group.atoms.size)
    return size


def entropies(v: LogView, options: Options) -> Array:
    """(M, n)."""

    def compute(stack: Stack) -> Array:
        return namespace(stack.reference).concat([law_entropy(g) for g in stack.groups], axis=0)

    return v.over_tiles(options, v.stack.member_count * pair_cost(v.stack), compute)


def mean_entropy(v: LogView, options: Options) -> Array:
    """Σ w_m H_m, (n,)."""

    def compute(stack: Stack) -> Array:
        xp = namespace(stack.reference)
        values = xp.concat([law_entropy(g) for g in stack.groups], axis=0)
        return xp.sum(stack.member_weights()[:, None] * values, axis=0)

    return v.over_tiles(options, v.stack.member_count * pair_cost(v.stack), compute)


def divergence_matrix(v: LogView, options: Options) -> Array:
    """KL(P_j‖P_i) at [i, j], (M, M, n)."""

    def compute(stack: Stack) -> Array:
        xp = namespace(stack.reference)
        laws = list(stack.members())
        rows = [xp.concat([law_divergence(p, q) for q in laws], axis=0) for p in laws]
        return xp.stack(rows)

    return v.over_tiles(options, pair_cost(v.stack), compute)


def dispersion(v: LogView, options: Options) -> Array:
    """Σ w_i w_j KL(P_j‖P_i), (n,)."""
    if all(isinstance(group.atoms, (Normals, Points)) for group in v.stack.groups):
        return v.over_tiles(options, v.stack.member_count, _dispersion_by_moments)
    budget = options.budget(v.stack.reference)

    def compute(stack: Stack) -> Array:
        xp = namespace(stack.reference)
        w = stack.member_weights()
        total = xp.zeros_like(stack.groups[0].atoms.mean()[0, :, 0, 0])
        for block in member_pairs(stack, lambda p, q: pair_cost(stack), budget):
            both = law_divergence(block.p, block.q) + law_divergence(block.q, block.p)
            w_i, w_j = block.pick(w)
            total = total + xp.sum((w_i * w_j)[:, None] * both, axis=0)
        return total

    return v.over_tiles(options, pair_cost(v.stack), compute)


def _dispersion_by_moments(stack: Stack) -> Array:
    xp = namespace(stack.reference)
    laws = [to_normals(group.atoms) for group in stack.groups]
    loc, scale = (
        xp.concat([getattr(law, name)[..., 0, 0] for law in laws], axis=0)
        for name in ("loc", "scale")
    )
    return densities.normal_dispersion(loc, scale, stack.member_weights())


def mutual_information(v: LogView, options: Options) -> Array:
    """Σ w_m KL(P_m‖P̄) in one dimension, (n,)."""
    count = component_count(v.stack)
    cost = 4 * (v.stack.member_count * count) ** 2 * _NODES_PER_COMPONENT

    def compute(stack: Stack) -> Array:
        w = stack.member_weights()
        return relative_entropy.mutual_information(w, *_pooled(stack, count))

    return v.over_tiles(options, cost, compute)


def point_information(prediction: Ensemble) -> Array:
    """The mutual information of point masses, −Σ w_i log Σ_j w_j [x_i = x_j], (batch…)."""
    values = prediction.member_means()
    xp = namespace(values)
    batch = values.ndim - 1 - len(prediction.event_shape)
    axes = tuple(range(2 + batch, values.ndim + 1))
    same = values[:, None, ...] == values[None, ...]
    equal = xp.astype(xp.all(same, axis=axes) if axes else same, values.dtype)
    w = xp.reshape(prediction.member_weights(), (-1, *(1,) * batch))
    return -xp.sum(w * xp.log(xp.sum(equal * w, axis=1)), axis=0)


def component_count(stack: Stack) -> int:
    return max(g.atoms.loc.shape[-1] if isinstance(g.atoms, Products) else 1 for g in stack.groups)


def _pooled(stack: Stack, count: int) -> tuple[Array, Array, Array]:
    """Weights, locs and scales of all members, (M, n, K)."""
    xp = namespace(stack.reference)
    groups = [to_products(group.atoms, count) for group in stack.groups]
    columns = zip(*(_mixture(a) for a in groups), strict=True)
    weights, loc, scale = (xp.concat(list(c), axis=0)[..., 0, 0, :] for c in columns)
    return weights, loc, scale


def as_mixture(stack: Stack) -> Law:
    """The mixture P̄ of scalar members as one law with lead axes (1, n)."""
    xp = namespace(stack.reference)
    weights, loc, scale = _pooled(stack, component_count(stack))
    weights = weights * stack.member_weights()[:, None, None]

    def pool(a: Array) -> Array:  # (M, n, K) -> (1, n, 1, 1, M·K)
        m, n, k = a.shape
        return xp.reshape(xp.permute_dims(a, (1, 0, 2)), (1, n, 1, 1, m * k))

    return Law(Products(pool(loc), pool(scale), pool(weights)))


# Log densities at outcomes: exact for every law, in any dimension.


def prediction_log_density(prediction: Prediction, x: Array) -> Array:
    """log p̄(x): of a law, or of the mixture of an ensemble."""
    return prediction.log_density(x)
