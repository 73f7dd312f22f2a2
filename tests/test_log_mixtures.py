"""The log score of mixtures against adaptive quadrature between many break points."""

from __future__ import annotations

import itertools
import math
import sys

import mpmath as mp
import numpy as np
import pytest
from scipy import special

import kuq
from kuq.forms.form import MIXTURE, PAIRS, Problem, sides
from kuq.forms.table import plan
from kuq.scores.options import Options
from kuq.views import views

LOG = kuq.LogScore()
#: How far apart logarithms of scales and locations are.
SPREADS = {
    "alike": (0.3, 1.0),
    "apart": (0.3, 30.0),
    "scales to a thousand": (2.3, 1.0),
    "scales to a million": (4.6, 1.0),
    "all": (3.0, 300.0),
}


@pytest.fixture(params=[False, True], ids=["generic", "compiled"])
def compiled(request):
    if request.param:
        pytest.importorskip("numba")
    with kuq.compiled(request.param):
        yield request.param


def mixtures(seed, spread, members=3, components=4):
    rng = np.random.default_rng(seed)
    width, distance = SPREADS[spread]
    weights = rng.dirichlet(np.ones(components), size=members)
    loc = distance * rng.normal(size=(members, components))
    return weights, loc, np.exp(rng.uniform(-1.5, 1.5, size=loc.shape) * width)


def log_density(x, weights, loc, scale):
    z = (x[:, None] - loc) / scale
    heights = np.log(weights) - np.log(scale) - 0.5 * math.log(2 * math.pi)
    return special.logsumexp(heights - z * z / 2, axis=-1)


def integral(function, loc, scale, *laws):
    """Over the line, between multiples of all scales and where components of a law change."""
    multiples = np.asarray([0, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 7.5, 9, 11])
    ends = (loc.ravel()[:, None] + scale.ravel()[:, None] * [*-multiples, *multiples]).ravel()
    ends = np.unique(ends)
    found = [ends]
    for w, m, s in laws:  # bisection for the points where another component is the largest

        def largest(x, w=w, m=m, s=s):
            return np.argmax(np.log(w / s) - ((x[:, None] - m) / s) ** 2 / 2, axis=1)

        low, high = ends[:-1].copy(), ends[1:].copy()
        first, last = largest(low), largest(high)
        low, high, first = low[first != last], high[first != last], first[first != last]
        for _ in range(60):
            middle = (low + high) / 2
            left = largest(middle) == first
            low, high = np.where(left, middle, low), np.where(left, high, middle)
        width = (ends[-1] - ends[0]) * np.geomspace(1e-9, 1e-1, 40)
        found.append((low[:, None] + [*-width, 0.0, *width]).ravel())
    ends = np.unique(np.clip(np.concatenate(found), ends[0], ends[-1]))
    nodes, weights = np.polynomial.legendre.leggauss(24)
    half, middle = (ends[1:] - ends[:-1])[:, None] / 2, (ends[1:] + ends[:-1])[:, None] / 2
    return math.fsum(function((middle + half * nodes).ravel()) * (half * weights).ravel())


def excess(log_q, log_p):
    r = log_q - log_p
    near = np.abs(r) < 1e-3
    small = np.where(near, r, 0.0)
    series = small**2 * (0.5 - small / 6 + small**2 / 24 - small**3 / 120)
    q, p = np.exp(log_q), np.exp(log_p)
    return np.where(near, q * series, q * (r - 1) + p)


@pytest.mark.parametrize("spread", SPREADS)
def test_all_questions(compiled, spread):
    w, loc, scale = mixtures(1, spread)
    law = kuq.NormalMixture(w, loc, scale)
    laws = list(zip(w, loc, scale, strict=True))

    def kl(q, p):
        return integral(lambda x: excess(log_density(x, *q), log_density(x, *p)), loc, scale, q, p)

    matrix = np.asarray([[kl(q, p) if q is not p else 0.0 for q in laws] for p in laws])
    np.testing.assert_allclose(kuq.member_divergences(kuq.Ensemble(law), LOG), matrix, rtol=1e-8)
    entropies = [
        integral(lambda x, p=p: -np.exp(log_density(x, *p)) * log_density(x, *p), loc, scale, p)
        for p in laws
    ]
    u = kuq.decompose(kuq.Ensemble(law), LOG, unbiased=False)
    assert float(u.epistemic) == pytest.approx(matrix.mean(), rel=1e-8)
    assert float(u.aleatoric) == pytest.approx(np.mean(entropies), rel=1e-8, abs=1e-8)
    pool = (w.ravel() / len(w), loc.ravel(), scale.ravel())
    information = np.mean([kl(p, pool) for p in laws])
    bma = kuq.decompose(kuq.Ensemble(law), LOG, estimator="bma")
    assert float(bma.epistemic) == pytest.approx(information, rel=1e-8)
    total = kuq.entropy(kuq.Ensemble(law), LOG)
    assert float(total) == pytest.approx(np.mean(entropies) + information, rel=1e-8, abs=1e-8)
    other = kuq.NormalMixture(w[0], loc[0], scale[0])
    found = kuq.divergence(other, kuq.Ensemble(law), LOG)
    assert float(found) == pytest.approx(kl(pool, laws[0]), rel=1e-8)


@pytest.mark.parametrize("distance", [1e-3, 1e-5, 1e-7, 1e-9, 0.0])
def test_members_that_nearly_agree(compiled, distance):
    """A small shift of all components: both ways of counting agree to rounding of the shift."""
    w, loc, scale = mixtures(2, "alike", members=1)
    both = kuq.Ensemble(
        kuq.NormalMixture(
            np.concatenate([w, w]),
            np.concatenate([loc, loc + distance]),
            np.concatenate([scale] * 2),
        )
    )

    def information(x):  # of Fisher: (p')² / p
        z = (x[:, None] - loc[0]) / scale[0]
        p = w[0] * np.exp(-z * z / 2) / scale[0] / math.sqrt(2 * math.pi)
        return np.sum(-p * z / scale[0], axis=-1) ** 2 / np.sum(p, axis=-1)

    fisher = integral(information, loc, scale)
    u = kuq.decompose(both, LOG)
    # KL = ½ d² I (1 + O(d)); both directions together have no term of the first order.
    assert float(u.epistemic) == pytest.approx(
        fisher * distance**2 / 2, rel=3e-6 + distance, abs=1e-30
    )


def test_point_masses_and_far_laws(compiled):
    point = kuq.NormalMixture([0.5, 0.5], [0.0, 1.0], [0.0, 1.0])
    law = kuq.NormalMixture([0.5, 0.5], [0.0, 1.0], [2.0, 1.0])
    u = kuq.decompose(kuq.Ensemble([point, law]), LOG)
    assert float(u.aleatoric) == -math.inf
    assert float(u.epistemic) == math.inf
    assert float(kuq.divergence(law, law, LOG)) == pytest.approx(0.0, abs=1e-14)
    offset = 1e9  # all is counted from a location, so that an offset costs nothing but its digits
    there = kuq.Ensemble(
        kuq.NormalMixture([0.5, 0.5], np.asarray([[0.0, 4], [1, 2]]) + offset, 1.0)
    )
    here = kuq.Ensemble(kuq.NormalMixture([0.5, 0.5], [[0.0, 4], [1, 2]], 1.0))
    np.testing.assert_allclose(
        kuq.decompose(there, LOG).epistemic, kuq.decompose(here, LOG).epistemic, rtol=1e-12
    )


def test_coordinates_are_summed(compiled):
    rng = np.random.default_rng(4)
    w = rng.dirichlet(np.ones(3), size=(4, 2, 5))
    loc, scale = rng.normal(size=w.shape), rng.uniform(0.5, 2, size=w.shape)
    vectors = kuq.decompose(kuq.Ensemble(kuq.NormalMixture(w, loc, scale, 1)), LOG)
    scalars = kuq.decompose(kuq.Ensemble(kuq.NormalMixture(w, loc, scale)), LOG)
    for part in ("aleatoric", "epistemic"):
        np.testing.assert_allclose(vectors[part], scalars[part].sum(axis=-1), rtol=1e-12)


def test_rtol_is_heeded():
    """A coarse answer costs less and is as good as was asked for."""
    w, loc, scale = mixtures(5, "alike", members=5, components=6)
    both = kuq.Ensemble(kuq.NormalMixture(w, loc, scale))
    exact = kuq.decompose(both, LOG, rtol=1e-13).epistemic
    for compiled in (False, True) if "numba" in sys.modules else (False,):
        with kuq.compiled(compiled):
            for rtol in (1e-2, 1e-4, 1e-6, 1e-10):
                found = kuq.decompose(both, LOG, rtol=rtol).epistemic
                assert float(found) == pytest.approx(float(exact), rel=rtol)


def planned(prediction, question=PAIRS, compiled=False):
    options = Options.checked(True, 1e-8, None, None, 2**28)
    (view,) = views(LOG.parts[0], options, prediction, question=question)
    return type(plan(Problem.of(LOG, view.stack, compiled, question)).forms[0]).__name__


def test_which_form():
    normals = kuq.Normal(np.zeros((3, 2, 4)), 1.0, 1)
    scalars = kuq.Normal(np.zeros((3, 2)), 1.0)
    mixed = kuq.NormalMixture([0.5, 0.5], np.zeros((3, 2, 2)), 1.0)
    heavy = kuq.StudentT(np.full((3, 2), 4.0), 0.0, 1.0)
    low_rank = kuq.LowRankNormal(np.zeros((3, 2, 4)), np.ones((4, 1)), np.ones(4))
    assert planned(kuq.Ensemble(normals)) == "LogNormals"
    assert planned(kuq.Ensemble(scalars), MIXTURE) == "LogMixtures"
    assert planned(kuq.Ensemble(normals), MIXTURE) == "LogTails"
    assert planned(kuq.Ensemble(low_rank)) == "LogLowRanks"
    assert planned(kuq.Ensemble(mixed)) == "LogMixtures"
    assert planned(kuq.Ensemble(mixed), compiled=True) == "LogPanels"
    assert planned(kuq.Ensemble(mixed), sides(1)) == "LogMixtures"
    assert planned(kuq.Ensemble(heavy)) == "LogTails"


@pytest.mark.parametrize(
    ("distance", "scale"), [(1e8, 1e-6), (1e10, 1e-6), (1e16, 1.0), (1e18, 1.0), (1e18, 1e-9)]
)
def test_components_that_are_very_far_apart(distance, scale, compiled):
    """Half of the mass of two members is alike, the other half are normals of scales s and 2s."""
    laws = [
        kuq.NormalMixture([0.5, 0.5], [0.0, distance + 0.3], [1.0, s]) for s in (scale, 2 * scale)
    ]
    u = kuq.decompose(kuq.Ensemble(laws), "log", unbiased=False)
    np.testing.assert_allclose(u.epistemic, (1 / 4 + 4 - 2) / 16, rtol=1e-8)
    entropy = 0.5 * math.log(2 * math.pi * math.e) + math.log(2) + math.log(2 * scale**2) / 4
    np.testing.assert_allclose(u.aleatoric, entropy, rtol=1e-8)


def crossings(law):
    """Where two components of a law are equally dense, and how wide the change is."""
    for (w, m, s), (w_2, m_2, s_2) in itertools.combinations(law, 2):
        a, b = (1 / s_2**2 - 1 / s**2) / 2, -(m_2 - m) / s_2**2
        c = (m_2 - m) ** 2 / s_2**2 / 2 + mp.log(w * s_2 / w_2 / s)
        if b * b >= 4 * a * c and (a, b) != (0, 0):
            root = -(b + (1 if b > 0 else -1) * mp.sqrt(b * b - 4 * a * c)) / 2
            for y in [c / root] if a == 0 else [root / a, c / root]:
                slope = abs(2 * a * y + b)
                yield m + y, 1 / slope if slope > 0 else s


def exact_kl(q, p):
    """KL(q‖p), with all places in 60 digits."""
    with mp.workdps(60):
        laws = [[tuple(map(mp.mpf, c)) for c in zip(*law, strict=True) if c[0]] for law in (q, p)]
        around = [0, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 7.5, 9, 11]
        ends = [m + t * k * s for _, m, s in laws[0] + laws[1] for k in around for t in (-1, 1)]
        low, high = min(ends), max(ends)
        for law in laws:
            for x, width in crossings(law):
                ends += [x + t * k * width for k in (0, 1, 3, 6, 12, 25, 50) for t in (-1, 1)]
        ends = sorted({x for x in ends if low <= x <= high})
        nodes, weights = np.polynomial.legendre.leggauss(24)
        total = []
        for left, right in itertools.pairwise(ends):
            half = (right - left) / 2
            logs = []
            for law in laws:
                z = [float((left + half - m) / s) + float(half / s) * nodes for _, m, s in law]
                heights = [float(mp.log(w / s) - mp.log(2 * mp.pi) / 2) for w, _, s in law]
                logs.append(special.logsumexp(np.asarray(heights)[:, None] - np.square(z) / 2, 0))
            total.append(float(half) * float(excess(*logs) @ weights))
    return math.fsum(total)


def kl(q, p):
    return float(kuq.divergence(kuq.NormalMixture(*p), kuq.NormalMixture(*q), LOG))


@pytest.mark.parametrize("digits", [3, 6, 12, 18])
def test_components_at_many_distances(compiled, digits):
    """Locations of all sizes up to 10 to the number of digits, in units of the scales."""
    rng = np.random.default_rng(digits)
    for components in (2, 3, 5):
        loc = rng.choice([-1, 1], (2, components)) * 10 ** rng.uniform(0, digits, (2, components))
        loc[1, 0], loc[1, 1] = loc[0, 0], loc[0, 1] * (1 + 1e-15)
        laws = [
            (rng.dirichlet(np.ones(components)), m, rng.uniform(0.3, 3, components)) for m in loc
        ]
        for q, p in (laws, laws[::-1]):
            assert kl(q, p) == pytest.approx(exact_kl(q, p), rel=1e-8)


#: P and Q by weights up to a factor, locations and scales: where components of P are equally dense,
#: far from all of them, log p bends under the mass of Q.
BENDS = {
    "beside the last node": (
        ([1848, 8152], [61.2158, -10.2245], [2.7534, 0.0287]),
        ([8811, 1189], [-8.3196, -10.8323], [0.0907, 38.7492]),
    ),
    "beside another last node": (
        ([9951, 49], [-49.0784, 36.2738], [0.33, 0.0584]),
        ([7594, 2406], [47.4203, 30.6691], [10.0289, 0.286]),
    ),
    "equal components": (
        (np.ones(6), np.repeat([0.0, 100.3], 3), np.repeat([1.0, 0.7], 3)),
        ([1], [40.0], [30.0]),
    ),
    "components without weight": (
        ([0.55, 0, 0, 0, 0.25, 0.2], [-26, 23, -102, 18, 47, -16], [0.7, 0.9, 1.7, 0.9, 0.7, 0.3]),
        ([1, 1], [5.4, -26.0], [0.3, 12.0]),
    ),
    "components of tiny scales": (
        ([2, 5, 4, 5, 8], [0.0, -4600, 2600, -740, -190], [6.8e-5, 0.052, 2.6e-6, 1e-6, 5.4]),
        ([1], [1000.0], [5000.0]),
    ),
    "an even number of components": (
        (
            [6541, 26370, 21170, 4592, 4319, 37010],
            [-1.323, 25.13, -16.85, 4.264, 28.15, -37.78],
            [0.5405, 0.5817, 0.6401, 0.2806, 0.4748, 2.336],
        ),
        ([1], [43.35], [1.482]),
    ),
}


@pytest.mark.parametrize("case", BENDS)
def test_bends(compiled, case):
    p, q = ((np.asarray(w) / np.sum(w), loc, scale) for w, loc, scale in BENDS[case])
    assert kl(q, p) == pytest.approx(exact_kl(q, p), rel=1e-8)
