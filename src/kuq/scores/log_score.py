"""The log score of predictions: entropies, Kullback-Leibler divergences, log densities.

Laws with independent coordinates are treated coordinate by coordinate and summed; low-rank
normals as a whole. The mixture of an ensemble has a closed route in one dimension only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from kuq._array import Array, identity, moved_axis, namespace, safe_sqrt
from kuq._special import digamma, gammaln
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
from kuq.distributions.laws import Law, Stack
from kuq.distributions.low_rank import LowRankNormal
from kuq.distributions.mixture import NormalMixture
from kuq.distributions.normal import Point
from kuq.distributions.samples import Samples
from kuq.distributions.student_t import StudentT
from kuq.errors import NoClosedFormError, ParameterError
from kuq.expectations import densities, relative_entropy
from kuq.expectations.tiles import member_pairs, pieces
from kuq.expectations.zero_variances import without_zeros
from kuq.scores.options import Options, budget_of

#: Breakpoints of the panel rule per component, times its points per panel.
_NODES_PER_COMPONENT = 17 * 8


def members_of(prediction: Prediction) -> tuple[Distribution, ...]:
    if isinstance(prediction, Ensemble):
        members = prediction.members
        return (members,) if isinstance(members, Distribution) else members
    assert isinstance(prediction, Distribution)
    return (prediction,)


def check_density(prediction: Prediction) -> None:
    if any(isinstance(member, Samples) for member in members_of(prediction)):
        raise ParameterError(
            "LogScore needs a density and Samples have none; use a kernel score such as CRPS(), "
            "or fit a Normal or NormalMixture to the draws"
        )


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
        tiles = pieces(self.stack.batch_count, cost, budget_of(options, reference), reference)
        parts = [compute(*(stack.index(part).widened() for stack in stacks)) for part in tiles]
        return namespace(reference).concat(parts, axis=-1)


def has_route(*predictions: Prediction) -> bool:
    """Whether entropies and divergences between these laws need no draws."""
    kinds = {type(member) for p in predictions for member in members_of(p)}
    if StudentT in kinds:
        return False
    return not (is_joint(*predictions) and NormalMixture in kinds)


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
    return LogView(stack, joint, prediction.batch_shape, prediction.event_shape)


def is_joint(*predictions: Prediction) -> bool:
    """Low-rank normals are not a product of their coordinates."""
    members = [member for p in predictions for member in members_of(p)]
    return any(isinstance(m, LowRankNormal) and not m.is_product for m in members)


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
    budget = budget_of(options, v.stack.reference)

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


def log_density(law: Distribution, x: Array) -> Array:
    """log p(x) for x of shape (batch…, event…), with any axes before."""
    xp = namespace(x)
    if isinstance(law, LowRankNormal):
        return _low_rank_log_density(law, x)
    if isinstance(law, StudentT):
        values = _student_log_density(x, law.df, law.loc, law.scale)
    elif isinstance(law, NormalMixture):
        values = densities.mixture_log_density(x, law.weights, law.loc, law.scale)
    else:
        loc = law.value if isinstance(law, Point) else law.loc  # type: ignore[attr-defined]
        scale = xp.zeros_like(loc) if isinstance(law, Point) else law.scale  # type: ignore[attr-defined]
        one = xp.ones_like(loc)[..., None]
        values = densities.mixture_log_density(x, one, loc[..., None], scale[..., None])
    axes = tuple(range(values.ndim - law.event_ndim, values.ndim))
    if not axes:
        return values
    # +inf (a point mass hit) and −inf (another one missed) make a miss.
    missed = xp.any(values == -math.inf, axis=axes)
    total = xp.sum(xp.where(values == -math.inf, xp.zeros_like(values), values), axis=axes)
    return xp.where(missed, xp.full_like(total, -math.inf), total)


def _student_log_density(x: Array, df: Array, loc: Array, scale: Array) -> Array:
    xp = namespace(x)
    point = scale == 0
    z = (x - loc) / xp.where(point, xp.ones_like(scale), scale)
    constant = gammaln((df + 1) / 2) - gammaln(df / 2) - xp.log(df * math.pi) / 2
    smooth = constant - xp.log(xp.where(point, xp.ones_like(scale), scale))
    smooth = smooth - (df + 1) / 2 * xp.log1p(z * z / df)
    at_point = xp.where(x == loc, xp.full_like(smooth, math.inf), xp.full_like(smooth, -math.inf))
    return xp.where(point, at_point, smooth)


def student_entropy(law: StudentT) -> Array:
    """The differential entropy of every coordinate."""
    half = law.df / 2
    xp = namespace(half)
    beta = gammaln(half) + math.log(math.pi) / 2 - gammaln(half + 0.5)
    shape = (half + 0.5) * (digamma(half + 0.5) - digamma(half)) + xp.log(law.df) / 2 + beta
    point = law.scale == 0
    log_scale = xp.log(xp.where(point, xp.ones_like(half), law.scale))
    return xp.where(point, xp.full_like(half, -math.inf), shape + log_scale)


def _low_rank_log_density(law: LowRankNormal, x: Array) -> Array:
    """−½(log det 2πS + δᵀS⁻¹δ) by the determinant lemma on the r × r matrix."""
    xp = namespace(x)
    delta = x - law.loc
    regular = without_zeros(LowRanks(law.loc, law.factor, law.diag))
    point = regular.diag == 0
    root = safe_sqrt(xp.where(point, xp.ones_like(regular.diag), regular.diag))[..., None]
    scaled = regular.factor / root
    z = delta / root[..., 0]
    inner = xp.matmul(xp.matrix_transpose(scaled), scaled)
    inner = inner + identity(inner.shape[-1], inner)
    projected = xp.sum(scaled * z[..., None], axis=-2)
    solved = xp.linalg.solve(inner, projected[..., None])[..., 0]
    quadratic = xp.sum(z * z, axis=-1) - xp.sum(projected * solved, axis=-1)
    entropy = densities.low_rank_entropy(regular.factor, regular.diag)
    value = law.loc.shape[-1] / 2 - entropy - quadratic / 2
    hit = xp.all(x == law.loc, axis=-1)
    nowhere = xp.where(hit, xp.full_like(value, math.inf), xp.full_like(value, -math.inf))
    return xp.where(xp.any(point, axis=-1), nowhere, value)


def prediction_log_density(prediction: Prediction, x: Array) -> Array:
    """log p̄(x): of a law, or of the mixture of an ensemble."""
    if not isinstance(prediction, Ensemble):
        assert isinstance(prediction, Distribution)
        return log_density(prediction, x)
    xp = namespace(x)
    values = xp.stack([log_density(member, x) for member in prediction.member_list()])
    weights = prediction.member_weights()
    hit = xp.any(values == math.inf, axis=0)
    none = xp.all(values == -math.inf, axis=0)
    safe = xp.where(xp.isinf(values), xp.full_like(values, densities.lowest(values)), values)
    mixed = densities.log_sum(weights, moved_axis(safe, 0, -1))
    mixed = xp.where(none, xp.full_like(mixed, -math.inf), mixed)
    return xp.where(hit, xp.full_like(mixed, math.inf), mixed)
