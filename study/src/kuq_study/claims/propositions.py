"""The paper's propositions, tried on laws that would break them if anything could."""

from __future__ import annotations

import numpy as np

import kuq
from kuq.kernels.base import Score
from kuq_study.claims.claim import Case, Verdict, decided, proposition

_KERNELS: dict[str, Score] = {
    "SE": kuq.SquaredError(),
    "CRPS": kuq.CRPS(),
    "ES": kuq.Energy(),
    "Gaussian": kuq.Gaussian(1.0),
}
_STRICT: dict[str, Score] = {
    "ES": kuq.Energy(),
    "Gaussian": kuq.Gaussian(1.0),
    "log": kuq.LogScore(),
}
_ALL: dict[str, Score] = {**_KERNELS, "log": kuq.LogScore()}
_RNG_SEED = 20260


def _random_ensemble() -> kuq.Ensemble:
    rng = np.random.default_rng(_RNG_SEED)
    mean = rng.normal(size=(6, 40))
    return kuq.Ensemble(kuq.Normal(mean, rng.uniform(0.1, 2.0, size=mean.shape)))


def _listing(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in values.items())


def _zero_if_all_agree(case: Case) -> Verdict:
    members = kuq.Ensemble(kuq.Normal(np.full((5, 3), 0.7), np.full((5, 3), [0.1, 1.0, 9.0])))
    largest = {
        name: float(np.abs(case.calculus.decompose(members, score).epistemic).max())
        for name, score in _ALL.items()
    }
    return decided(
        max(largest.values()) < 1e-12, f"largest EU of equal members: {_listing(largest)}"
    )


def _positive_if_any_differ(case: Case) -> Verdict:
    """Pairs that are hard to tell apart: equal means, equal means and variances, and so on."""
    smallest = {}
    for name, score in _STRICT.items():
        laws: list[list[kuq.Distribution]] = [
            [kuq.Normal(np.zeros(1), 1.0), kuq.Normal(np.zeros(1), 1.1)],
            [kuq.Normal(np.zeros(1), 1.0), kuq.Normal(np.full(1, 0.05), 1.0)],
        ]
        if name != "log":
            two = kuq.NormalMixture([0.5, 0.5], np.asarray([[-0.8, 0.8]]), 0.6)
            laws.append([kuq.Normal(np.zeros(1), 1.0), two])
        values = [
            float(case.calculus.decompose(kuq.Ensemble(pair), score).epistemic[0]) for pair in laws
        ]
        smallest[name] = min(values)
    return decided(
        min(smallest.values()) > 1e-6, f"smallest EU of members that differ: {_listing(smallest)}"
    )


def _grows_with_disagreement(case: Case) -> Verdict:
    """Q₁ has the midpoints of pairs of Q₂'s members: less spread in the convex order."""
    rng = np.random.default_rng(_RNG_SEED)
    loc, scale = rng.normal(size=(2, 4, 30)), rng.uniform(0.2, 2.0, size=(2, 4, 30))
    wide = kuq.Ensemble(kuq.Normal(loc.reshape(8, 30), scale.reshape(8, 30)))
    narrow = kuq.Ensemble(
        kuq.NormalMixture([0.5, 0.5], np.moveaxis(loc, 0, -1), np.moveaxis(scale, 0, -1))
    )
    smallest = {}
    for name, score in _KERNELS.items():
        less = case.calculus.decompose(narrow, score, unbiased=False).epistemic
        more = case.calculus.decompose(wide, score, unbiased=False).epistemic
        smallest[name] = float((more - less).min())
    return decided(
        min(smallest.values()) >= -1e-12,
        f"smallest EU(Q₂) − EU(Q₁) over 30 pairs: {_listing(smallest)}",
    )


def _squared_error_misses_shape(case: Case) -> Verdict:
    members = kuq.Ensemble(kuq.Normal([[0.0], [0.0]], [[0.5], [2.0]]))
    values = {
        name: float(case.calculus.decompose(members, score).epistemic[0])
        for name, score in _ALL.items()
    }
    others = min(value for name, value in values.items() if name != "SE")
    return decided(
        abs(values["SE"]) < 1e-12 and others > 0,
        f"EU of N(0, 0.5²) and N(0, 2²): {_listing(values)}",
    )


def _noise_raises_convex(case: Case) -> Verdict:
    """A law and its convolution with noise of mean zero, which lies above it in convex order."""
    rng = np.random.default_rng(_RNG_SEED)
    weights = rng.dirichlet(np.ones(3), size=50)
    loc, scale = rng.normal(size=(50, 3)), rng.uniform(0.05, 1.0, size=(50, 3))
    sharp = kuq.NormalMixture(weights, loc, scale)
    blurred = kuq.NormalMixture(weights, loc, np.sqrt(scale**2 + 0.5))
    smallest = {}
    for name in ("SE", "CRPS", "ES"):
        gap = case.calculus.entropy(blurred, _KERNELS[name]) - case.calculus.entropy(
            sharp, _KERNELS[name]
        )
        smallest[name] = float(gap.min())
    return decided(
        min(smallest.values()) >= 0,
        f"smallest rise of AU by added noise over 50 laws: {_listing(smallest)}",
    )


def _gaussian_can_fall(case: Case) -> Verdict:
    """Mass at 0 moved to ±1 lies above in convex order, yet has fewer different outcomes."""
    before = kuq.Samples(np.asarray([-1.0, 0.0, 1.0]))
    after = kuq.Samples(np.asarray([-1.0, 1.0]))
    kernel = kuq.Gaussian(0.3)
    low = float(case.calculus.entropy(before, kernel, unbiased=False))
    high = float(case.calculus.entropy(after, kernel, unbiased=False))
    return decided(
        high < low, f"AU falls from {low:.3f} to {high:.3f} when the middle third moves to the ends"
    )


def _noise_raises_log(case: Case) -> Verdict:
    sigma = np.linspace(0.1, 3.0, 20)
    normal = case.calculus.entropy(kuq.Normal(np.zeros(20), sigma), kuq.LogScore())
    half = kuq.NormalMixture([0.5, 0.5], np.stack([-0.9 * sigma, 0.9 * sigma], -1), sigma[:, None])
    spread = case.calculus.entropy(half, kuq.LogScore()) - normal
    rise = float(min(np.diff(normal).min(), spread.min()))
    return decided(rise >= 0, f"smallest rise over log-concave pairs: {rise:.3g}")


def _decomposition_adds_up(case: Case) -> Verdict:
    largest = {}
    for name, score in _ALL.items():
        gaps = []
        for estimator in ("pairwise", "bma"):
            u = case.calculus.decompose(_random_ensemble(), score, estimator=estimator)
            gaps.append(float(np.abs(u.total - u.aleatoric - u.epistemic).max()))
        largest[name] = max(gaps)
    return decided(max(largest.values()) < 1e-9, f"largest |TU − AU − EU|: {_listing(largest)}")


def _never_negative(case: Case) -> Verdict:
    smallest = {}
    for name, score in _KERNELS.items():
        u = case.calculus.decompose(_random_ensemble(), score)
        smallest[name] = float(min(u.aleatoric.min(), u.epistemic.min()))
    narrow = kuq.Ensemble(kuq.Normal(np.zeros((2, 1)), 0.01))
    log = case.calculus.decompose(narrow, kuq.LogScore()).aleatoric
    return decided(
        min(smallest.values()) >= 0 and float(log.min()) < 0,
        f"smallest AU or EU: {_listing(smallest)}; AU of N(0, 0.01²) under the log score "
        f"{float(log.min()):.3g}",
    )


def _mixture_has_half(case: Case) -> Verdict:
    largest = {}
    for name, score in _KERNELS.items():
        pairs = case.calculus.decompose(_random_ensemble(), score).epistemic
        mixture = case.calculus.decompose(_random_ensemble(), score, estimator="bma").epistemic
        largest[name] = float(np.abs(mixture / pairs - 0.5).max())
    return decided(
        max(largest.values()) < 1e-9, f"largest |EU_bma / EU_pairwise − ½|: {_listing(largest)}"
    )


def _pairs_are_an_upper_bound(case: Case) -> Verdict:
    smallest = {}
    for name, score in _ALL.items():
        pairs = case.calculus.decompose(_random_ensemble(), score, unbiased=False).total
        mixture = case.calculus.decompose(
            _random_ensemble(), score, estimator="bma", unbiased=False
        ).total
        smallest[name] = float((pairs - mixture).min())
    return decided(
        min(smallest.values()) >= -1e-9, f"smallest TU_pairwise − TU_bma: {_listing(smallest)}"
    )


CLAIMS = (
    proposition(
        "eu-zero",
        "If all members agree, epistemic uncertainty is zero under every proper score.",
        "Proposition on epistemic uncertainty, part 1",
        _zero_if_all_agree,
    ),
    proposition(
        "eu-converse",
        "Under a strictly proper score epistemic uncertainty is zero only if all members agree.",
        "Proposition on epistemic uncertainty, part 1, converse",
        _positive_if_any_differ,
    ),
    proposition(
        "eu-monotone",
        "Epistemic uncertainty grows with the spread of members in the convex order.",
        "Proposition on epistemic uncertainty, part 2",
        _grows_with_disagreement,
    ),
    proposition(
        "se-blind",
        "The squared error fails the converse: members that differ in variance alone have "
        "epistemic uncertainty zero.",
        "Appendix A, proposition on the variance-based measure",
        _squared_error_misses_shape,
    ),
    proposition(
        "au-monotone",
        "For a convex translation-invariant kernel, aleatoric uncertainty grows with the spread "
        "of a prediction in the convex order.",
        "Proposition on aleatoric uncertainty",
        _noise_raises_convex,
    ),
    proposition(
        "au-gaussian",
        "The Gaussian kernel fails this: its aleatoric uncertainty can fall when a prediction "
        "spreads out.",
        "Section 5, Gaussian kernel score",
        _gaussian_can_fall,
    ),
    proposition(
        "au-log",
        "For log-concave densities the log score's aleatoric uncertainty grows with spread.",
        "Appendix A, proposition on the entropy-based measure",
        _noise_raises_log,
    ),
    proposition(
        "additive",
        "Total uncertainty is the sum of aleatoric and epistemic uncertainty, for the pairwise "
        "and the mixture estimator.",
        "Section 3",
        _decomposition_adds_up,
    ),
    proposition(
        "nonnegative",
        "Measures of kernel scores are never negative; the log score's can be.",
        "Section 5",
        _never_negative,
    ),
    proposition(
        "bma-half",
        "For kernel scores the mixture estimator of EU is half the pairwise one.",
        "Appendix A, proof of robustness",
        _mixture_has_half,
    ),
    proposition(
        "pairwise-bound",
        "The pairwise estimator is an upper bound of the mixture estimator.",
        "Section 3",
        _pairs_are_an_upper_bound,
    ),
)
