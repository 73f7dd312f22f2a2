"""Records of a study that looks like a real one: the paper's values with noise, and curves."""

import numpy as np

from kuq_study.paper import paper_records
from kuq_study.records import Record

TWINS = {"depth": "depth-synthetic", "temperature": "reanalysis"}
SEEDS = 3


def study(seed=0, datasets=None):
    """All experiments with three seeds each; ``datasets`` limits them."""
    rng = np.random.default_rng(seed)
    records = []
    for r in paper_records():
        name = TWINS.get(r.dataset, r.dataset)
        if (datasets is not None and name not in datasets) or r.quantity == "mse_std":
            continue
        for repeat in range(SEEDS):
            if r.experiment == "robustness":
                records += robustness(r, name, repeat, rng)
            elif r.experiment == "selective_prediction":
                records += selective(r, name, repeat, rng)
            elif r.experiment == "ood_detection":
                value = min(1.0, r.value * rng.uniform(0.94, 1.0))
                for quantity, v in (("auroc", value), ("aupr", value), ("fpr95", 1 - value)):
                    records.append(
                        Record(
                            r.experiment,
                            name,
                            r.representation,
                            repeat,
                            quantity,
                            v,
                            r.score,
                            "epistemic",
                        )
                    )
            else:
                records += active(r, name, repeat, rng)
    return records + scaling(rng)


def robustness(r, name, seed, rng):
    for quantity, factor in (
        ("mape_M25_overfitted", 1.0),
        ("mape_M25_appendix", 0.5),
        ("mape_M5_overfitted", 4.3),
        ("mape_M5_appendix", 2.0),
    ):
        value = r.value * factor * rng.lognormal(0, 0.1)
        yield Record(r.experiment, name, "normal", seed, quantity, value, r.score, r.component, r.x)


def selective(r, name, seed, rng):
    prr = r.value * rng.lognormal(0, 0.1)
    yield Record(r.experiment, name, r.representation, seed, "prr", prr, r.score, "total")
    shares = np.linspace(0.5, 1.0, 26)
    best, level = shares**3, 1.0
    for x, risk in zip(shares, best + prr * (level - best), strict=True):
        yield Record(
            r.experiment, name, r.representation, seed, "risk", risk, r.score, "total", float(x)
        )
    if r.score == "squared":
        yield Record(r.experiment, name, r.representation, seed, "mse", level)
        for x, risk in zip(shares, best, strict=True):
            yield Record(
                r.experiment, name, r.representation, seed, "risk_oracle", risk, x=float(x)
            )


def active(r, name, seed, rng):
    final = r.value * rng.lognormal(0, 0.03)
    for labels in range(12, 53, 4):
        value = final * (1 + 2 * (52 - labels) / 40)
        yield Record(
            r.experiment, name, r.representation, seed, "mse", value, r.score, "", float(labels)
        )


def scaling(rng):
    records = []
    for score, power in (("squared", 0.1), ("crps", 2.0), ("energy", 2.0), ("gaussian", 2.0)):
        for seed in range(SEEDS):
            for m in (2, 4, 6, 8, 10):
                value = 1e-3 * m ** (power / 2) * rng.lognormal(0, 0.05)
                for kind in ("normal", "sampler"):
                    records.append(
                        Record(
                            "runtime",
                            "depth-synthetic",
                            kind,
                            seed,
                            "seconds_members",
                            value,
                            score,
                            x=float(m),
                        )
                    )
            for n in (5, 10, 20, 50):
                value = 1e-3 * n**power * rng.lognormal(0, 0.05)
                records.append(
                    Record(
                        "runtime",
                        "depth-synthetic",
                        "sampler",
                        seed,
                        "seconds_samples",
                        value,
                        score,
                        x=float(n),
                    )
                )
            for component in ("aleatoric", "epistemic"):
                for n in (4, 16, 64, 256):
                    error = n**-0.5 * rng.lognormal(0, 0.05)
                    for quantity, value in (
                        ("error_members", error),
                        ("error_samples", error),
                        ("bias_members", -1 / n),
                    ):
                        records.append(
                            Record(
                                "approximation",
                                "known",
                                "normal",
                                seed,
                                quantity,
                                value,
                                score,
                                component,
                                float(n),
                            )
                        )
    return records


def fields():
    """A predicted field of Kuramoto-Sivashinsky, an image out of distribution, and a profile."""
    t, x = np.meshgrid(np.linspace(0, 1, 48), np.linspace(0, 2 * np.pi, 128), indexing="ij")
    wave = np.sin(3 * x + 4 * t) * np.cos(x)
    ks = {
        "truth": wave,
        "prediction": wave * (1 - 0.3 * t),
        "aleatoric": 0.05 + 0.2 * t + 0.02 * np.abs(wave),
        "epistemic": 0.05 + 0.2 * np.exp(-(((t - 0.6) / 0.2) ** 2)),
    }
    place = np.linspace(0, 1, 64)
    burgers = {
        "truth": np.sin(6 * place),
        "prediction": np.sin(6 * place) + 0.02,
        "aleatoric": 0.02 + 0.01 * place,
        "epistemic": 0.01 + 0.02 * place,
        "coordinate": place,
    }
    return {
        "kuramoto-sivashinsky-sampler": ks,
        "depth-synthetic-sampler-shifted": {k: v[:32, :40] for k, v in ks.items()},
        "burgers-sampler": burgers,
    }
