"""The log score of laws that are asked for their densities: what tails tell, and draws.

A normal density falls like exp(−x²), so that −E log p(X) is finite only if X has a variance. A
heavier tail falls like a power, and E log |X| exists for every law here. One heavy member is enough
for a mixture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import ClassVar, final

from kuq._array import Array, any_true, moved_axis, namespace
from kuq.distributions.laws import Law, Source, Stack
from kuq.distributions.log_densities import mixed_log_density
from kuq.errors import NoClosedFormError, ParameterError
from kuq.expectations.law_entropies import law_entropy, tells_entropy
from kuq.forms.form import Measure, Problem, Statistics
from kuq.forms.log_normals import LogForm
from kuq.tiles import pieces


class LogSources(LogForm):
    """Entropies in closed form where there is one; divergences that are infinite are known."""

    drawn: ClassVar[bool]

    def applies(self, problem: Problem) -> bool:
        asked = all(group.draws is not None for group in problem.groups)
        return problem.local and asked and bool(problem.groups[0].draws) == self.drawn

    def scratch(self, problem: Problem) -> int:
        return 8 * problem.members * max(1, problem.groups[0].draws or 0) * problem.dimension

    def statistics(self, measure: Measure, stack: Stack) -> Statistics:
        xp = namespace(stack.reference)
        laws = list(stack.members())
        entropies = xp.stack([_entropy(law, measure) for law in laws])
        zero = xp.zeros_like(entropies[0, :])
        if len(laws) == 1:
            return Statistics(entropies, zero)
        infinite = _infinite(stack, laws, measure)
        if any_true(~infinite) is False:
            return Statistics(entropies, zero + math.inf)
        if not self.drawn:
            raise _needs_draws(laws)
        w = stack.member_weights()
        total = zero
        for j in range(measure.question.left, len(laws)):
            total = total + w[j] * _mean(laws, j, measure, _gain(j, w, measure))
        return Statistics(entropies, xp.where(infinite, xp.full_like(total, math.inf), total))


@final
class LogTails(LogSources):
    """Without draws."""

    drawn = False


@final
class LogDraws(LogSources):
    """Means of log densities at draws."""

    drawn = True
    method = "monte-carlo"


def _needs_draws(laws: Iterable[Law]) -> NoClosedFormError:
    kinds = " and ".join(sorted({type(_source(law).distribution).__name__ for law in laws}))
    return NoClosedFormError(
        f"the log score has no exact or quadrature route for {kinds} here; "
        "pass draws=2000, seed=0 to opt in to Monte Carlo"
    )


def _source(law: Law) -> Source:
    assert law.source is not None
    return law.source


def _entropy(law: Law, measure: Measure) -> Array:
    """(n,)."""
    source = _source(law)
    closed_form = source.distribution.differential_entropy()
    if closed_form is not None:
        return closed_form[0, ...]
    if tells_entropy(law):
        return law_entropy(law)[0, ...]
    if source.count == 0:
        raise _needs_draws([law])
    return -_mean([law], 0, measure, lambda logs: logs[0, ...])


def _gain(j: int, w: Array, measure: Measure) -> Callable[[Array], Array]:
    """What log densities (M, N, n) at draws of a member add to what is asked, (N, n).

    Pairs: log p_j − Σ_i w_i log p_i. Mixture: 2 log p_j/p̄. Sides: log q̄/p̄, where a side has half
    of the weights.
    """
    xp = namespace(w)
    left = measure.question.left

    def gain(logs: Array) -> Array:
        if left:
            p, q = (
                mixed_log_density(2 * w[side], logs[side, ...])
                for side in (slice(0, left), slice(left, None))
            )
            return 2 * (q - p)
        if measure.question.kind == "mixture":
            return 2 * (logs[j, ...] - mixed_log_density(w, logs))
        return logs[j, ...] - xp.sum(w[:, None, None] * logs, axis=0)

    return gain


def _mean(laws: list[Law], j: int, measure: Measure, value: Callable[[Array], Array]) -> Array:
    """The mean over draws of one law of what is made of log densities of all at them, (n,)."""
    source = _source(laws[j])
    draws = moved_axis(source.draws, 2, 0)  # (N, 1, n, event…)
    xp = namespace(draws)
    total: Array | float = 0.0
    each = 8 * len(laws) * math.prod(draws.shape[1:])
    for chunk in pieces(source.count, each, measure.budget, draws):
        outcomes = draws[chunk, ...]
        logs = xp.stack([_source(q).distribution.log_density(outcomes)[:, 0, :] for q in laws])
        if any_true(xp.isinf(logs[j, ...])):
            raise ParameterError(
                "Monte Carlo of the log score needs laws with a density, got one with a scale of "
                "zero; use a kernel score, or give every member a positive scale"
            )
        total = total + xp.sum(value(logs), axis=0)
    return total / source.count


def _infinite(stack: Stack, laws: list[Law], measure: Measure) -> Array:
    """Where what is asked is infinite because of tails, (n,)."""
    xp = namespace(stack.reference)
    mean = laws[0].atoms.mean()[0, :, 0, :]
    normal, without_variance = [], []
    for law in laws:
        tail = xp.full_like(mean, math.inf) if law.tail is None else law.tail[0, ...]
        normal.append(tail == math.inf)
        without_variance.append(tail <= 2)
    light, heavy = xp.stack(normal), xp.stack(without_variance)
    left = measure.question.left
    if left:
        both = xp.all(light[:left, ...], axis=0) & xp.any(heavy[left:, ...], axis=0)
    elif measure.question.kind == "mixture":
        both = mean != mean
    else:
        both = xp.any(light, axis=0) & xp.any(heavy, axis=0)
    return xp.any(both, axis=-1)
