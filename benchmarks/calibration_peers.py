"""Intervals of MAPIE and CLEAR for predictions in files; run by ``benchmarks.calibration``.

    python benchmarks/calibration_peers.py FOLDER OUT.npz COVERAGE

It needs MAPIE and clear-uq, whose versions of NumPy and PyTorch are older than those of kuq: so it
has an interpreter of its own and imports nothing of kuq. Every peer sees the predictions of the
ensemble on the held-out rows, and gives intervals for the test rows.
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from pathlib import Path

import numpy as np
from clear.clear import CLEAR
from mapie.regression import ConformalizedQuantileRegressor, SplitConformalRegressor
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin


class Column(RegressorMixin, BaseEstimator):
    """A fitted regressor that predicts what stands in one column of its input."""

    def __init__(self, column=0):
        self.column = column

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.asarray(X)[:, self.column]

    def __sklearn_is_fitted__(self):
        return True


def features(file, subset, coverage):
    """Mean, quantiles of the moment-matched normal, noise and spread of the members."""
    loc, scale = file[f"{subset}_loc"], file[f"{subset}_scale"]
    mean, noise = loc.mean(axis=0), np.sqrt((scale**2).mean(axis=0))
    z = stats.norm.ppf((1 + coverage) / 2)
    total = np.sqrt(noise**2 + loc.var(axis=0))
    return np.column_stack([mean, mean - z * total, mean + z * total, z * noise]), loc


def mapie_split(held_out, y, test, coverage):
    model = SplitConformalRegressor(Column(0), confidence_level=coverage, prefit=True)
    return model.conformalize(held_out[0], y).predict_interval(test[0])[1]


def mapie_cqr(held_out, y, test, coverage):
    columns = [Column(1), Column(2), Column(0)]
    model = ConformalizedQuantileRegressor(columns, confidence_level=coverage, prefit=True)
    return model.conformalize(held_out[0], y).predict_interval(test[0])[1]


def clear(held_out, y, test, coverage):
    def parts(rows):
        columns, loc = rows
        mean, noise = columns[:, 0], columns[:, 3]
        low, high = np.quantile(loc, [(1 - coverage) / 2, (1 + coverage) / 2], axis=0)
        return (
            {"median": mean, "lower": np.minimum(low, mean), "upper": np.maximum(high, mean)},
            {"median": mean, "lower": mean - noise, "upper": mean + noise},
        )

    model = CLEAR(desired_coverage=coverage, random_state=0, n_jobs=1)
    epistemic, aleatoric = parts(held_out)
    with contextlib.redirect_stdout(io.StringIO()):
        model.calibrate(
            y,
            epistemic["median"],
            *(aleatoric[side] for side in ("median", "lower", "upper")),
            *(epistemic[side] for side in ("lower", "upper")),
            verbose=False,
        )
        epistemic, aleatoric = parts(test)
        bounds = model.predict(
            np.zeros((len(test[0]), 1)), external_epistemic=epistemic, external_aleatoric=aleatoric
        )
    return np.column_stack(bounds[:2])


PEERS = {"MAPIE split": mapie_split, "MAPIE CQR": mapie_cqr, "CLEAR": clear}


def main(folder: str, out: str, coverage: float) -> None:
    warnings.simplefilter("ignore")
    intervals = {}
    for path in sorted(Path(folder).glob("*.npz")):
        file = np.load(path)
        held_out, test = (features(file, subset, coverage) for subset in ("held_out", "test"))
        for name, peer in PEERS.items():
            bounds = np.asarray(peer(held_out, file["held_out_y"], test, coverage))
            intervals[f"{path.stem}/{name}"] = bounds.reshape(len(file["test_y"]), 2)
    np.savez(out, **intervals)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
