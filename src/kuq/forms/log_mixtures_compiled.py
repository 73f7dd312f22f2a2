"""The log score of mixtures of normals on the line, by nodes that all members share.

Panels are halved until none is wider than the components that it meets, then where polynomials of
the highest degrees that the nodes tell apart have a share in the integrand. All that is asked is
made of the log densities of all members at the nodes.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math

import numpy as np

from kuq._numba.compiling import Int, Real, fill, inlined, kernel, outputs, rows, spread
from kuq._numba.mathematics import exp, log

#: What is asked: Σ w_i w_j KL(P_j‖P_i), 2 Σ w_i KL(P_i‖P̄), or KL(Q̄‖P̄).
_PAIRS, _MIXTURE, _SIDES = 0, 1, 2
_QUESTIONS = {"pairs": _PAIRS, "mixture": _MIXTURE, "sides": _SIDES}
#: Nodes of the rule of Lobatto on [−1, 1]. A bend is between two of them wherever it is in a panel.
_WIDTH = 16
#: In units of a width, √2 scales: how far a component reaches, how wide half a panel on it may be.
_REACH, _WIDEST = 6.4, 1.4
#: Panels of one entry, and halvings of one, before the entry is given up.
_MOST_PANELS, _MOST_PASSES = 8192, 256
#: The part of the error asked for that estimates may reach: bends are seldom thrice what they see.
_CAUTION = 0.2
#: More than any error of a panel that is not too wide.
_ANY = 1e300
#: The relative error of members' differences that the rounding of logarithms leaves, at D = 1.
_DIGITS = 1e-13
#: What a component adds to the largest one at most, to be left out.
_NEGLIGIBLE = -40.0
#: In units of the narrowest scale: the distance at which sums of two numbers, which tell where
#: panels are, keep twelve digits of it.
_FARTHEST = 1e20
#: More than what the distance of the farthest two loses by rounding, in units of it.
_MARGIN = 1e-15
_ROOT_TWO, _LOG_ROOT_PI = math.sqrt(2.0), 0.5 * math.log(math.pi)


def statistics(
    weights: np.ndarray,
    loc: np.ndarray,
    scale: np.ndarray,
    member_weights: np.ndarray,
    question: str,
    left: int,
    rtol: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Entropies (M, n), what is asked (n,), and where it is not accurate, of members (M, n, K).

    The first ``left`` members are those of P̄ for sides; each side has half of the weights.
    """
    members, n, _ = loc.shape
    laws = [np.ascontiguousarray(np.swapaxes(a, 0, 1)) for a in (weights, loc, scale)]
    out = np.empty((n, members + 2))
    shares = np.ascontiguousarray(member_weights)

    def task(first: int, last: int) -> None:
        _statistics(*laws, shares, _QUESTIONS[question], left, rtol, _RULE, out, first, last)

    spread(task, n, 1000.0 * n * loc.shape[2] * members)
    return np.ascontiguousarray(out[:, :members].T), out[:, members].copy(), out[:, -1] != 0.0


def _rule() -> np.ndarray:
    """Nodes, weights, and weights of the shares of the polynomials of the two highest degrees."""
    highest = np.polynomial.legendre.Legendre.basis(_WIDTH - 1)
    inner = np.real(highest.deriv().roots())
    nodes = np.concatenate([[-1.0], (inner - inner[::-1]) / 2, [1.0]])
    weights = 2 / (_WIDTH * (_WIDTH - 1) * highest(nodes) ** 2)
    roots = np.sqrt(weights)[:, None]
    shares = roots * np.linalg.qr(roots * np.polynomial.legendre.legvander(nodes, _WIDTH - 1))[0]
    return np.stack([nodes, weights, shares[:, -1], shares[:, -2]])


_RULE = _rule()


@inlined
def _excess(log_q, log_p, q, p):
    """q log(q/p) − q + p."""
    r = log_q - log_p
    s = 1.0 / 479001600.0
    s = 1.0 / 39916800.0 - r * s
    s = 1.0 / 3628800.0 - r * s
    s = 1.0 / 362880.0 - r * s
    s = 1.0 / 40320.0 - r * s
    s = 1.0 / 5040.0 - r * s
    s = 1.0 / 720.0 - r * s
    s = 1.0 / 120.0 - r * s
    s = 1.0 / 24.0 - r * s
    s = 1.0 / 6.0 - r * s
    s = 0.5 - r * s
    return q * r * r * s if abs(r) < 0.3 else q * (r - 1.0) + p


@inlined
def _sum(high, low, added):
    """Two numbers whose sum tells a position to twice their digits, and one more."""
    total = high + added
    rest = total - high
    return total, low + ((high - (total - rest)) + (added - rest))


@inlined
def _is_wide(place, half, centre, inverse, count, offset, step):
    """Whether a panel is too wide for a component that it meets, and where all are from it.

    The middle of the panel is ``offset`` and its end one ``step`` more, in widths of a component.
    """
    wide = False
    for k in range(count):
        step[k] = half * inverse[k]
        offset[k] = ((place[0] - centre[k, 0]) + (place[1] - centre[k, 1])) * inverse[k]
        wide = wide or (step[k] > _WIDEST and abs(offset[k]) - step[k] < _REACH)
    return wide


@inlined
def _term(x, offset, step, top):
    z = x * step + offset
    return top - z * z


@inlined
def _log_densities(x, begin, end, offset, step, height, near, total, out):
    """log Σ_k exp(height_k − z_k²) at the nodes; ``out`` holds the largest term in between.

    A component whose largest term on the panel is negligible beside the least of another one is
    left out before any node is looked at.
    """
    least, count = -math.inf, 0
    for k in range(begin, end):
        far = abs(offset[k]) + step[k]
        least = max(least, height[k] - far * far)
    for k in range(begin, end):
        nearest = max(abs(offset[k]) - step[k], 0.0)
        if height[k] - nearest * nearest - least > _NEGLIGIBLE:
            near[count] = k
            count += 1
    fill(out, -math.inf)
    for i in range(count):
        first, wide, top = offset[near[i]], step[near[i]], height[near[i]]
        for q in range(_WIDTH):
            value = _term(x[q], first, wide, top)
            out[q] = value if value > out[q] else out[q]
    # Terms are computed once more, which takes less than to keep them.
    fill(total, 0.0)
    for i in range(count):
        first, wide, top = offset[near[i]], step[near[i]], height[near[i]]
        for q in range(_WIDTH):
            total[q] += exp(_term(x[q], first, wide, top) - out[q])
    for q in range(_WIDTH):
        out[q] += log(total[q])


@inlined
def _mixed(logs, shares, start, stop, factor, total, out):
    """log Σ_m factor·w_m p_m at the nodes, and in ``total`` the sum itself."""
    fill(out, -math.inf)
    for m in range(start, stop):
        for q in range(_WIDTH):
            out[q] = logs[m, q] if logs[m, q] > out[q] else out[q]
    fill(total, 0.0)
    for m in range(start, stop):
        for q in range(_WIDTH):
            total[q] += factor * shares[m] * exp(logs[m, q] - out[q])
    for q in range(_WIDTH):
        out[q] += log(total[q])
        total[q] = exp(out[q])


@inlined
def _asked(logs, densities, shares, question, left, mixed, out):
    """The integrand of what is asked, at the nodes."""
    members = logs.shape[0]
    fill(out, 0.0)
    if question == _PAIRS:
        mean_log, mean_density = mixed[0], mixed[1]
        fill(mean_log, 0.0)
        fill(mean_density, 0.0)
        for m in range(members):
            for q in range(_WIDTH):
                mean_log[q] += shares[m] * logs[m, q]
                mean_density[q] += shares[m] * densities[m, q]
        for m in range(members):
            for q in range(_WIDTH):
                density = densities[m, q] - mean_density[q]
                out[q] += shares[m] * density * (logs[m, q] - mean_log[q])
    elif question == _MIXTURE:
        log_p, p = mixed[0], mixed[1]
        _mixed(logs, shares, 0, members, 1.0, p, log_p)
        for m in range(members):
            for q in range(_WIDTH):
                excess = _excess(logs[m, q], log_p[q], densities[m, q], p[q])
                out[q] += 2.0 * shares[m] * excess
    else:
        log_p, p, log_q, density = mixed[0], mixed[1], mixed[2], mixed[3]
        _mixed(logs, shares, 0, left, 2.0, p, log_p)
        _mixed(logs, shares, left, members, 2.0, density, log_q)
        for q in range(_WIDTH):
            out[q] = _excess(log_q[q], log_p[q], density[q], p[q])


@inlined
def _integrate(values, half, rule):
    """The integral over a panel, and its error: the size of the highest degrees, even and odd.

    Where one of them vanishes because of where a bend is, the other one does not.
    """
    integral, even, odd = 0.0, 0.0, 0.0
    for q in range(_WIDTH):
        integral += rule[1, q] * values[q]
        odd += rule[2, q] * values[q]
        even += rule[3, q] * values[q]
    return half * integral, half * math.sqrt(even * even + odd * odd)


@kernel(
    rows(3),
    rows(3),
    rows(3),
    rows(1),
    Int,
    Int,
    Real,
    rows(2),
    outputs(2),
    Int,
    Int,
)
def _statistics(weights, loc, scale, shares, question, left, rtol, rule, out, first, last):
    members, components = loc.shape[1], loc.shape[2]
    most = min(_MOST_PANELS, max(64, 1048576 // (members + 1)))
    places, halves = np.empty((most, 2)), np.empty(most)
    integrals, errors = np.empty((most, members + 1)), np.empty((most, members + 1))
    every = members * components
    centre, inverse, height = np.empty((every, 2)), np.empty(every), np.empty(every)
    offset, step = np.empty(every), np.empty(every)
    # Members have the components from one of these positions to the next.
    begin, near = np.zeros(members + 1, np.int64), np.empty(components, np.int64)
    sums, values = np.empty(_WIDTH), np.empty(_WIDTH)
    logs, densities, mixed = (
        np.empty((members, _WIDTH)),
        np.empty((members, _WIDTH)),
        np.empty((4, _WIDTH)),
    )
    total, error, allowed = np.zeros(members + 1), np.zeros(members + 1), np.zeros(members + 1)
    fresh = np.empty(most)
    # Logarithms have absolute errors of some 1e−15, and members that agree differ by √D.
    least = (_DIGITS / rtol) ** 2
    for c in range(first, last):
        # The components with weight, from the first of them on: offsets cost no digits.
        number, lost, origin = 0, False, 0.0
        low, high, narrowest = math.inf, -math.inf, math.inf
        for m in range(members):
            for k in range(components):
                if weights[c, m, k] > 0.0:
                    if not (scale[c, m, k] > 1e-300 and weights[c, m, k] > 1e-300):
                        lost = True  # a point mass
                    else:
                        width = scale[c, m, k]
                        if number == 0:
                            origin = loc[c, m, k]
                        centre[number, 0], centre[number, 1] = _sum(loc[c, m, k], 0.0, -origin)
                        inverse[number] = 1.0 / (_ROOT_TWO * width)
                        height[number] = log(weights[c, m, k]) + log(inverse[number]) - _LOG_ROOT_PI
                        low = min(low, centre[number, 0] - _REACH * _ROOT_TWO * width)
                        high = max(high, centre[number, 0] + _REACH * _ROOT_TWO * width)
                        narrowest = min(narrowest, width)
                        number += 1
            begin[m + 1] = number
            lost = lost or begin[m] == number
        if not high - low < min(1e150, _FARTHEST * narrowest):
            lost = True
        panels, halving = 1, not lost
        places[0, 0], places[0, 1] = 0.5 * (low + high), 0.0
        halves[0], fresh[0] = 0.5 * (1.0 + _MARGIN) * (high - low), 1.0
        for _ in range(_MOST_PASSES):
            if not halving:
                break
            for p in range(panels):
                if fresh[p] == 0.0:
                    continue
                fresh[p] = 0.0
                half = halves[p]
                if _is_wide(places[p], half, centre, inverse, number, offset, step):
                    fill(integrals[p], 0.0)
                    fill(errors[p], math.inf)
                    continue
                for m in range(members):
                    span = begin[m], begin[m + 1]
                    _log_densities(rule[0], *span, offset, step, height, near, sums, logs[m])
                    for q in range(_WIDTH):
                        densities[m, q] = exp(logs[m, q])
                        values[q] = -logs[m, q] * densities[m, q]
                    integrals[p, m], errors[p, m] = _integrate(values, half, rule)
                _asked(logs, densities, shares, question, left, mixed, values)
                integrals[p, members], errors[p, members] = _integrate(values, half, rule)
            fill(total, 0.0)
            fill(error, 0.0)
            for p in range(panels):
                for f in range(members + 1):
                    total[f] += integrals[p, f]
                    error[f] += errors[p, f]
            if error[members] < math.inf and not total[members] > least:
                break
            halving = False
            for f in range(members + 1):
                size = abs(total[f])
                if f < members and size < 1.0:
                    size = 1.0
                # What a panel may have: its share if all is too much, else anything. As long as
                # some are too wide, these alone are halved.
                goal = _CAUTION * rtol * size
                allowed[f] = goal / panels
                if error[f] <= goal:
                    allowed[f] = math.inf
                elif error[f] == math.inf:
                    allowed[f] = _ANY
                halving = halving or not error[f] <= goal
            if not halving:
                break
            halving = False
            for p in range(panels):
                bad = False
                for f in range(members + 1):
                    bad = bad or not errors[p, f] <= allowed[f]
                if bad:
                    if panels == most:
                        halving, lost = False, True
                        break
                    half, place, rest = 0.5 * halves[p], places[p, 0], places[p, 1]
                    places[panels, 0], places[panels, 1] = _sum(place, rest, half)
                    places[p, 0], places[p, 1] = _sum(place, rest, -half)
                    halves[p], halves[panels] = half, half
                    fresh[p], fresh[panels] = 1.0, 1.0
                    halving = True
                    panels += 1
        for f in range(members + 1):
            out[c, f] = total[f]
            lost = lost or not error[f] <= rtol * max(abs(total[f]), 1.0 if f < members else 0.0)
        out[c, members + 1] = 1.0 if lost or not total[members] > least else 0.0
