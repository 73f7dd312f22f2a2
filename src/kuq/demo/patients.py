"""Real predictions with known outcomes: ensembles of networks for patients they have not seen.

The data come with scikit-learn: ten measurements of each of 442 patients, and how far their
diabetes has progressed a year later.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kuq.datasets.diabetes import load_table
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.normal import Normal
from kuq.kernels.marginal import CRPS
from kuq.result import Uncertainty
from kuq.uncertainty import decompose

Vector: TypeAlias = NDArray[np.float64]

MEMBERS, FOLDS, COVERAGE = 10, 5, 0.9
TITLE = "how diabetes progresses in 442 patients"
#: The libraries that are needed, and the extra that brings them.
LIBRARIES, EXTRA = ("torch", "sklearn"), "torch"


@dataclass(frozen=True)
class Patients:
    """What the networks say about patients whom they were not trained on, and what came true."""

    prediction: Ensemble
    outcome: Vector
    uncertainty: Uncertainty

    @property
    def coverage(self) -> float:
        """The share of outcomes in the 90 % intervals."""
        low, high = self.prediction.interval(COVERAGE)
        return float(np.mean((low <= self.outcome) & (self.outcome <= high)))

    @property
    def errors(self) -> tuple[float, float]:
        """Mean absolute errors of the less and of the more uncertain half of the patients."""
        error = np.abs(np.asarray(self.prediction.mean()) - self.outcome)
        order = np.argsort(self.uncertainty.total)
        sure, unsure = np.array_split(error[order], 2)
        return float(sure.mean()), float(unsure.mean())

    def summary(self) -> str:
        """The answer in a few lines."""
        u = self.uncertainty
        total, noise, members = (
            float(np.mean(component)) for component in (u.total, u.aleatoric, u.epistemic)
        )
        sure, unsure = self.errors
        rows = (
            (f"uncertainty (CRPS, outcomes spread by {self.outcome.std():.0f})", total),
            ("  noise in the outcome itself: aleatoric", noise),
            ("  the networks disagree: epistemic", members),
            ("mean error of the half that they are surer of", sure),
            ("mean error of the other half", unsure),
        )
        lines = [f"{words:<50}{number:>8.1f}" for words, number in rows]
        share = f"{100 * self.coverage:.0f} %"
        lines.append(f"{f'outcomes in the {100 * COVERAGE:.0f} % intervals':<50}{share:>8}")
        return "\n".join(lines)

    def write_report(self, path: Path) -> None:
        """The page about these predictions."""
        from kuq.reports.in_memory import report

        labels = [f"patient {number}" for number in range(1, self.outcome.size + 1)]
        names = [f"network {number}" for number in range(1, MEMBERS + 1)]
        report(self.prediction, y=self.outcome, names=names, labels=labels, path=path, title=TITLE)


def run(seed: int = 0) -> Patients:
    """Train ten networks on four fifths of the patients, predict the others, five times."""
    from kuq.nn import Regressor

    x, y = load_table()
    fold = np.random.default_rng(seed).permutation(y.size) % FOLDS
    mean, std = np.empty((2, MEMBERS, y.size))
    for number in range(FOLDS):
        unseen = fold == number
        model = Regressor("normal", n_members=MEMBERS, bootstrap=True, seed=seed)
        predicted = model.fit(x[~unseen], y[~unseen]).predict_distribution(x[unseen])
        assert isinstance(predicted, Ensemble)
        members = predicted.members
        assert isinstance(members, Normal)
        mean[:, unseen], std[:, unseen] = members.loc, members.scale
    prediction = Ensemble(Normal(mean, std))
    return Patients(prediction, y, decompose(prediction, CRPS()))
