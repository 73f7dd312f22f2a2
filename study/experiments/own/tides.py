"""A data set, a model and a score of one's own, for ``kuq-study run tides.toml``."""

import numpy as np

import kuq
from kuq.datasets import Dataset, Split


def tides(data_dir, seed, noise=0.1):
    """Heights of a made-up tide against the hour; the shifted rows come a week later."""
    rng = np.random.default_rng(seed)

    def rows(count, start, stop):
        hour = rng.uniform(start, stop, count)
        height = np.sin(hour * np.pi / 6.2) + 0.3 * np.sin(hour * np.pi / 12.4)
        x = np.stack([np.sin(hour * np.pi / 6.2), np.cos(hour * np.pi / 6.2), hour / 24], axis=1)
        return Split(x, height + noise * (1 + hour / 24) * rng.standard_normal(count))

    return Dataset(
        name="tides",
        train=rows(200, 0, 48),
        validation=rows(50, 0, 48),
        test=rows(100, 0, 48),
        shifted=rows(100, 168, 216),
        synthetic=True,
        units="m",
        provenance={"source": "made up"},
    )


class BootstrappedLines:
    """Linear models of resampled rows: anything with these three methods will do."""

    def __init__(self, seed, n_members=10):
        self.seed, self.n_members = seed, n_members

    def fit(self, x, y, validation=None):
        rng = np.random.default_rng(self.seed)
        self.weights, self.scales = [], []
        for _ in range(self.n_members):
            chosen = rng.integers(len(y), size=len(y))
            design = np.column_stack([x[chosen], np.ones(len(y))])
            weights, *_ = np.linalg.lstsq(design, y[chosen], rcond=None)
            self.weights.append(weights)
            self.scales.append(np.std(design @ weights - y[chosen]))
        return self

    def predict_distribution(self, x):
        means = np.stack([np.column_stack([x, np.ones(len(x))]) @ w for w in self.weights])
        return kuq.Ensemble(kuq.Normal(means, np.array(self.scales)[:, None]))

    def predict(self, x):
        return self.predict_distribution(x).mean()


def two_scales(bandwidth):
    """Two bounded kernels: for gross errors, and for fine ones; ``bandwidth`` is the data set's."""
    return kuq.Gaussian(bandwidth) + kuq.Gaussian(bandwidth / 5)
