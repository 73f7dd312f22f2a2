"""What the paper derives about limits: influence, growth, vanishing spread, units, sampling."""

from __future__ import annotations

import math

import numpy as np

import kuq
from kuq.kernels.base import Score
from kuq_study.claims.claim import Case, Verdict, decided, proposition

_SCORES: dict[str, Score] = {
    "log": kuq.LogScore(),
    "SE": kuq.SquaredError(),
    "ES": kuq.Energy(),
    "Gaussian": kuq.Gaussian(1.0),
}
_BASE_MEAN = np.linspace(-0.5, 0.5, 5)[:, None]


def _contaminations() -> kuq.Normal:
    far = np.asarray([0.0, 10.0, 1e3, 1e6, 0.0, 0.0, 1e3])
    wide = np.asarray([0.5, 0.5, 0.5, 0.5, 1e3, 1e6, 1e3])
    return kuq.Normal(far[:, None], wide[:, None])


def _largest_influence(case: Case, score: Score) -> tuple[float, float]:
    base = kuq.Ensemble(kuq.Normal(_BASE_MEAN, 0.5))
    influence = case.calculus.influence_curves(base, _contaminations(), score)
    return float(np.abs(influence.aleatoric).max()), float(np.abs(influence.epistemic).max())


def _bounded_influence(case: Case) -> Verdict:
    aleatoric, epistemic = _largest_influence(case, kuq.Gaussian(1.0))
    return decided(
        aleatoric <= 2 and epistemic <= 4,
        f"largest influence of members up to 10⁶ away or wide: AU {aleatoric:.3g} (bound 2), "
        f"EU {epistemic:.3g} (bound 4)",
    )


def _unbounded_influence(case: Case) -> Verdict:
    influences = {
        name: _largest_influence(case, s) for name, s in _SCORES.items() if name != "Gaussian"
    }
    text = ", ".join(f"{name} AU {a:.3g}, EU {e:.3g}" for name, (a, e) in influences.items())
    # The entropy of the log score grows with log σ: 10⁶ gives no more than log(2·10⁶) ≈ 14.5.
    holds = all(e > 1e3 and a > 10 for a, e in influences.values())
    return decided(holds, f"largest influence of members up to 10⁶ away or wide: {text}")


def _growth_of_entropy(case: Case) -> Verdict:
    sigma = np.asarray([1e3, 1e4])
    h = {
        name: np.asarray(case.calculus.entropy(kuq.Normal(np.zeros(2), sigma), s))
        for name, s in _SCORES.items()
    }
    log_step = float(h["log"][1] - h["log"][0])
    se, es = (math.log10(float(h[name][1] / h[name][0])) for name in ("SE", "ES"))
    gap = math.log10(float((0.5 - h["Gaussian"][0]) / (0.5 - h["Gaussian"][1])))
    holds = (
        math.isclose(log_step, math.log(10), rel_tol=1e-6)
        and math.isclose(se, 2, rel_tol=1e-6)
        and math.isclose(es, 1, rel_tol=1e-6)
        and math.isclose(gap, 1, rel_tol=1e-3)
    )
    return decided(
        holds,
        f"from σ = 10³ to 10⁴: log adds {log_step:.3f} (ln 10 = 2.303), SE grows as σ^{se:.2f}, "
        f"ES as σ^{es:.2f}, Gaussian nears ½ as σ^−{gap:.2f}",
    )


def _vanishing_spread(case: Case) -> Verdict:
    """Two normal members at distance 2 with a common σ that goes to zero (the first figure)."""
    sigma = np.asarray([1.0, 1e-2, 1e-4])
    ensemble = kuq.Ensemble(kuq.Normal(np.asarray([[0.0], [2.0]]), np.stack([sigma, sigma])))
    eu = {
        name: np.asarray(case.calculus.decompose(ensemble, score, unbiased=False).epistemic)
        for name, score in _SCORES.items()
    }
    steady = float(np.ptp(eu["SE"]) / eu["SE"][0]) < 1e-9
    diverges = float(eu["log"][2] / eu["log"][1]) > 100
    half = math.isclose(float(eu["ES"][2]), 1.0, rel_tol=1e-3)
    text = ", ".join(f"{name} {v[0]:.3g} → {v[1]:.3g} → {v[2]:.3g}" for name, v in eu.items())
    return decided(steady and diverges and half, f"EU at σ = 1, 10⁻², 10⁻⁴: {text}")


def _units(case: Case) -> Verdict:
    rng = np.random.default_rng(3)
    mean, std = rng.normal(size=(4, 20)), rng.uniform(0.2, 1.0, size=(4, 20))
    plain = case.calculus.decompose(kuq.Ensemble(kuq.Normal(mean, std)), kuq.Energy()).total
    moved = case.calculus.decompose(kuq.Ensemble(kuq.Normal(mean + 7, std)), kuq.Energy()).total
    scaled = case.calculus.decompose(
        kuq.Ensemble(kuq.Normal(1000 * mean, 1000 * std)), kuq.Energy()
    ).total
    shift = float(np.abs(moved / plain - 1).max())
    scale = float(np.abs(scaled / plain / 1000 - 1).max())
    return decided(
        shift < 1e-6 and scale < 1e-9,
        f"largest relative change: {shift:.1g} by a shift of 7, {scale:.1g} from factor 1000",
    )


def _draws_are_unbiased(case: Case) -> Verdict:
    """Mean over 4000 small samples against the closed form, in standard errors."""
    rng = np.random.default_rng(5)
    p, q = rng.normal(0.0, 1.0, size=(4000, 6)), rng.normal(0.7, 1.5, size=(4000, 6))
    worst_corrected, least_plain, text = 0.0, math.inf, []
    for name in ("SE", "ES", "Gaussian"):
        score = _SCORES[name]
        exact = float(kuq.divergence(kuq.Normal(0.0, 1.0), kuq.Normal(0.7, 1.5), score))
        off = []
        for unbiased in (True, False):
            values = np.asarray(
                case.calculus.divergence(kuq.Samples(p), kuq.Samples(q), score, unbiased=unbiased)
            )
            off.append((values.mean() - exact) / (values.std() / math.sqrt(len(values))))
        worst_corrected = max(worst_corrected, abs(off[0]))
        least_plain = min(least_plain, abs(off[1]))
        text.append(f"{name} {off[0]:+.1f} (uncorrected {off[1]:+.0f})")
    return decided(
        worst_corrected < 4 and least_plain > 10,
        f"bias in standard errors over 4000 samples of 6 draws: {', '.join(text)}",
    )


def _closed_forms(case: Case) -> Verdict:
    loc = np.asarray([[[-1.0, 1.0]], [[0.0, 2.0]]])
    mixture = kuq.Ensemble(kuq.NormalMixture([0.3, 0.7], loc, 0.5))
    methods = {
        name: case.calculus.decompose(mixture, score).method for name, score in _SCORES.items()
    }
    exact = all(methods[name] == "exact" for name in ("SE", "ES", "Gaussian"))
    text = ", ".join(f"{name} {method}" for name, method in methods.items())
    return decided(exact and methods["log"] != "exact", f"mixtures of normals: {text}")


def _dependence(case: Case) -> Verdict:
    """Members that differ in correlation alone, against the marginal CRPS."""
    factor = np.asarray([[[0.9], [0.9]], [[0.9], [-0.9]]])
    members = kuq.Ensemble(kuq.LowRankNormal(np.zeros((2, 2)), factor, np.full((2, 2), 1 - 0.81)))
    values = {
        name: float(case.calculus.decompose(members, score).epistemic)
        for name, score in {
            "CRPS": kuq.CRPS(),
            "ES": kuq.Energy(),
            "Gaussian": kuq.Gaussian(1.0),
        }.items()
    }
    text = ", ".join(f"{name} {value:.3g}" for name, value in values.items())
    return decided(
        abs(values["CRPS"]) < 1e-9 and min(values["ES"], values["Gaussian"]) > 1e-3,
        f"EU of members with correlations 0.81 and −0.81: {text}",
    )


CLAIMS = (
    proposition(
        "bounded-influence",
        "With a bounded kernel the influence of one member on AU and EU is bounded, by 2‖k‖ and "
        "4‖k‖.",
        "Proposition on robustness and its proof",
        _bounded_influence,
    ),
    proposition(
        "unbounded-influence",
        "Log score, squared error and energy score have unbounded influence functions.",
        "Section 6, robustness analysis",
        _unbounded_influence,
    ),
    proposition(
        "growth",
        "The entropy of a normal member grows like log σ² (log), σ² (SE) and σ (ES), and tends "
        "to ½ (Gaussian).",
        "Appendix D, table of growth rates",
        _growth_of_entropy,
    ),
    proposition(
        "vanishing-spread",
        "For two normal members whose σ shrinks, EU stays constant (SE), diverges (log), and "
        "tends to half the distance of the means (ES).",
        "First figure",
        _vanishing_spread,
    ),
    proposition(
        "units",
        "Measures of the energy score are translation invariant and homogeneous of degree one.",
        "Section 4 and 5, energy score",
        _units,
    ),
    proposition(
        "unbiased-draws",
        "Kernel divergences have an unbiased estimator from samples.",
        "Section 4, sample-based estimation",
        _draws_are_unbiased,
    ),
    proposition(
        "closed-forms",
        "For mixtures of normals kernel scores have closed forms, the log score has none.",
        "Appendix B and C",
        _closed_forms,
    ),
    proposition(
        "marginal-blind",
        "The CRPS averaged over coordinates does not see dependence between them; the energy and "
        "the Gaussian kernel do.",
        "Section 5, energy score",
        _dependence,
    ),
)
