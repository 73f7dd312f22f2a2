"""The log score of mixtures of normals on the line, by nodes that all members share.

Panels are halved until none is wider than the components that it meets, then where the rule of 15
nodes differs from the one of 7 among them. All that is asked is made of the log densities of all
members at the nodes.
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
#: Nodes of the rule of Kronrod on [−1, 1], one more of weight zero to fill registers.
_WIDTH = 16
_HALF = np.asarray(
    [
        0.991455371120812639206854697526329,
        0.949107912342758524526189684047851,
        0.864864423359769072789712788640926,
        0.741531185599394439863864773280788,
        0.586087235467691130294144691158727,
        0.405845151377397166906606412076961,
        0.207784955007898467600689403773245,
    ]
)
_HALF_WEIGHTS = np.asarray(
    [
        0.022935322010529224963732008058970,
        0.063092092629978553290700663189204,
        0.104790010322250183839876322541518,
        0.140653259715525918745189590510238,
        0.169004726639267902826583426598550,
        0.190350578064785409913256402421014,
        0.204432940075298892414161999234649,
    ]
)
_GAUSS = np.asarray(
    [
        0.129484966168869693270611432679082,
        0.279705391489276667901467771423780,
        0.381830050505118944950369775488975,
    ]
)
_NODES = np.concatenate([-_HALF, [0.0], _HALF[::-1], [0.0]])
_WEIGHTS = np.concatenate(
    [_HALF_WEIGHTS, [0.209482141084727828012999174891714], _HALF_WEIGHTS[::-1], [0.0]]
)
_COARSE = np.zeros(_WIDTH)
_COARSE[1:7:2], _COARSE[7], _COARSE[9:15:2] = (
    _GAUSS,
    0.417959183673469387755102040816327,
    _GAUSS[::-1],
)
#: In units of a scale: how far a component reaches, and how wide a panel on it may be.
_REACH, _WIDEST = 9.0, 4.0
#: Panels of one entry, and halvings of one, before the entry is given up.
_MOST_PANELS, _MOST_PASSES = 8192, 256
#: More than any error of a panel that is not too wide.
_ANY = 1e300
#: The relative error of members' differences that the rounding of logarithms leaves, at D = 1.
_DIGITS = 1e-13
#: What a component adds to the largest one at most, to be left out.
_NEGLIGIBLE = -40.0
#: The least distance of two numbers, in units of their size.
_BETWEEN_NUMBERS = 1.1e-16
_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)


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


_RULE = np.stack([_NODES, _WEIGHTS, _COARSE])


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
def _term(x, centre, slope, top):
    z = (x - centre) * slope
    return top - 0.5 * z * z


@inlined
def _log_densities(x, begin, end, loc, inverse, height, near, total, out):
    """log Σ_k exp(height_k − z_k²/2) at the nodes; ``out`` holds the largest term in between.

    A component whose largest term on the panel is negligible beside the least of another one is
    left out before any node is looked at.
    """
    low, high = x[0], x[_WIDTH - 2]
    least, count = -math.inf, 0
    for k in range(begin, end):
        first = _term(low, loc[k], inverse[k], height[k])
        last = _term(high, loc[k], inverse[k], height[k])
        least = max(least, min(first, last))
    for k in range(begin, end):
        nearest = min(max(loc[k], low), high)
        if _term(nearest, loc[k], inverse[k], height[k]) - least > _NEGLIGIBLE:
            near[count] = k
            count += 1
    fill(out, -math.inf)
    for i in range(count):
        centre, slope, top = loc[near[i]], inverse[near[i]], height[near[i]]
        for q in range(_WIDTH):
            value = _term(x[q], centre, slope, top)
            out[q] = value if value > out[q] else out[q]
    # Terms are computed once more, which takes less than to keep them.
    fill(total, 0.0)
    for i in range(count):
        centre, slope, top = loc[near[i]], inverse[near[i]], height[near[i]]
        for q in range(_WIDTH):
            total[q] += exp(_term(x[q], centre, slope, top) - out[q])
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
    """The integral over a panel and its error, estimated as QUADPACK does."""
    fine, coarse = 0.0, 0.0
    for q in range(_WIDTH):
        fine += rule[1, q] * values[q]
        coarse += rule[2, q] * values[q]
    spread_out = 0.0
    for q in range(_WIDTH):
        spread_out += rule[1, q] * abs(values[q] - 0.5 * fine)
    error = abs(fine - coarse)
    if spread_out > 0.0 and error > 0.0:
        ratio = 200.0 * error / spread_out
        error = spread_out * min(1.0, ratio * math.sqrt(ratio))
    return half * fine, half * error


@inlined
def _is_wide(low, high, loc, inverse, count):
    """Whether a panel is wider than a component that it meets."""
    width = high - low
    for k in range(count):
        met = (low - loc[k]) * inverse[k] < _REACH and (high - loc[k]) * inverse[k] > -_REACH
        if met and width * inverse[k] > _WIDEST:
            return True
    return False


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
    ends = np.empty((most, 2))
    integrals, errors = np.empty((most, members + 1)), np.empty((most, members + 1))
    centre, inverse, height = (
        np.empty(members * components),
        np.empty(members * components),
        np.empty(members * components),
    )
    # Members have the components from one of these positions to the next.
    begin, near = np.zeros(members + 1, np.int64), np.empty(components, np.int64)
    x, sums, values = np.empty(_WIDTH), np.empty(_WIDTH), np.empty(_WIDTH)
    logs, densities, mixed = (
        np.empty((members, _WIDTH)),
        np.empty((members, _WIDTH)),
        np.empty((4, _WIDTH)),
    )
    total, error, allowed = np.zeros(members + 1), np.zeros(members + 1), np.zeros(members + 1)
    fresh = np.empty(most)
    for c in range(first, last):
        # The components with weight, from the first of them on: offsets cost no digits.
        number, lost = 0, False
        low, high, narrowest = math.inf, -math.inf, math.inf
        for m in range(members):
            for k in range(components):
                if weights[c, m, k] > 0.0:
                    if not (scale[c, m, k] > 1e-300 and weights[c, m, k] > 1e-300):
                        lost = True  # a point mass
                    else:
                        width = scale[c, m, k]
                        centre[number] = loc[c, m, k] - loc[c, 0, 0]
                        inverse[number] = 1.0 / width
                        height[number] = log(weights[c, m, k]) - log(width) - _LOG_ROOT_TWO_PI
                        low = min(low, centre[number] - _REACH * width)
                        high = max(high, centre[number] + _REACH * width)
                        narrowest = min(narrowest, width)
                        number += 1
            begin[m + 1] = number
            lost = lost or begin[m] == number
        # Where neighbouring numbers are farther apart than a component is wide, no node is in it.
        if not (high - low < 1e150 and max(-low, high) * _BETWEEN_NUMBERS < narrowest):
            lost = True
        panels, halving = 1, not lost
        ends[0, 0], ends[0, 1], fresh[0] = low, high, 1.0
        for _ in range(_MOST_PASSES):
            if not halving:
                break
            for p in range(panels):
                if fresh[p] == 0.0:
                    continue
                fresh[p] = 0.0
                if _is_wide(ends[p, 0], ends[p, 1], centre, inverse, number):
                    fill(integrals[p], 0.0)
                    fill(errors[p], math.inf)
                    continue
                half = 0.5 * (ends[p, 1] - ends[p, 0])
                middle = 0.5 * (ends[p, 1] + ends[p, 0])
                for q in range(_WIDTH):
                    x[q] = middle + half * rule[0, q]
                for m in range(members):
                    span = begin[m], begin[m + 1]
                    _log_densities(x, *span, centre, inverse, height, near, sums, logs[m])
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
            halving = False
            for f in range(members + 1):
                size = abs(total[f])
                if f < members and size < 1.0:
                    size = 1.0
                # What a panel may have: its share if all is too much, else anything. As long as
                # some are too wide, these alone are halved.
                allowed[f] = 0.5 * rtol * size / panels
                if error[f] <= 0.5 * rtol * size:
                    allowed[f] = math.inf
                elif error[f] == math.inf:
                    allowed[f] = _ANY
                halving = halving or not error[f] <= 0.5 * rtol * size
            if not halving:
                break
            halving = False
            for p in range(panels):
                bad = False
                for f in range(members + 1):
                    bad = bad or not errors[p, f] <= allowed[f]
                middle = 0.5 * (ends[p, 0] + ends[p, 1])
                if bad and ends[p, 0] < middle < ends[p, 1]:
                    if panels == most:
                        halving, lost = False, True
                        break
                    ends[panels, 0], ends[panels, 1] = middle, ends[p, 1]
                    ends[p, 1] = middle
                    fresh[p], fresh[panels] = 1.0, 1.0
                    halving = True
                    panels += 1
        for f in range(members + 1):
            out[c, f] = total[f]
            lost = lost or not error[f] <= rtol * max(abs(total[f]), 1.0 if f < members else 0.0)
        # Logarithms have absolute errors of some 1e−15, and members that agree differ by √D.
        close = _DIGITS / rtol
        out[c, members + 1] = 1.0 if lost or not total[members] > close * close else 0.0
