"""A regression problem with a gap in its data and uneven noise.

Ten normal predictions are fitted with NumPy alone. Where there are data they agree, so that
epistemic uncertainty is small and aleatoric uncertainty follows the noise; in the gap between
the data they disagree, and epistemic uncertainty fills it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kuq.distributions.ensemble import Ensemble
from kuq.distributions.normal import Normal
from kuq.kernels.base import Score
from kuq.kernels.energy import Energy
from kuq.kernels.gaussian import Gaussian
from kuq.kernels.laplace import Laplace
from kuq.kernels.log_score import LogScore
from kuq.kernels.marginal import CRPS
from kuq.kernels.matern import Matern
from kuq.kernels.rational_quadratic import InverseMultiquadric, RationalQuadratic
from kuq.kernels.squared_error import SquaredError
from kuq.result import Uncertainty
from kuq.uncertainty import decompose, entropy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Vector: TypeAlias = NDArray[np.float64]

SCORES: dict[str, Score] = {
    "SquaredError": SquaredError(),
    "CRPS": CRPS(),
    "Energy": Energy(),
    "Gaussian": Gaussian("median"),
    "Laplace": Laplace("median"),
    "InverseMultiquadric": InverseMultiquadric("median"),
    "RationalQuadratic": RationalQuadratic("median"),
    "Matern": Matern("median"),
    "LogScore": LogScore(),
}
REGIONS = {"low noise": (0.0, 3.5), "gap": (3.5, 6.5), "high noise": (6.5, 10.0)}
MEMBERS = 10
#: By which a later figure knows that it may replace this one.
MAKER = "kuq demo"
_PARTS = ("total", "aleatoric", "epistemic")


def truth(x: Vector) -> Vector:
    """The function behind the data."""
    return np.sin(x) + 0.15 * x


def noise(x: Vector) -> Vector:
    """The standard deviation of the data around the function."""
    return 0.07 + 0.45 * np.exp(-(((x - 8.3) / 1.5) ** 2))


@dataclass(frozen=True)
class Demo:
    """Data, predictions along ``grid``, and the uncertainty of these under every score."""

    x: Vector
    y: Vector
    grid: Vector
    means: Vector
    uncertainty: Mapping[str, Uncertainty]

    def average(self, name: str, component: str, region: str) -> float:
        """The mean of "total", "aleatoric" or "epistemic" under a score over a region."""
        low, high = REGIONS[region]
        inside = (self.grid > low) & (self.grid < high)
        return float(np.mean(self.uncertainty[name][component][inside]))

    def table(self, names: Iterable[str] = SCORES) -> str:
        """One row per score and region, in plain characters and less than 80 columns."""
        lines = [f"{'score':<27}  {'region':<10}" + "".join(f"  {kind:>9}" for kind in _PARTS)]
        rule = "-" * len(lines[0])
        for name in names:
            u = self.uncertainty[name]
            bandwidth = getattr(u.score, "bandwidth", None)
            title = name if bandwidth is None else f"{name}({bandwidth:.3f})"
            lines.append(rule)
            for head, region in zip((title, f"  {u.units}", f"  {u.method}"), REGIONS, strict=True):
                cells = "".join(f"  {self.average(name, kind, region):>9.4f}" for kind in _PARTS)
                lines.append(f"{head:<27}  {region:<10}{cells}")
        return "\n".join(lines)

    def save_figure(self, path: Path) -> None:
        """Draw the data and the two parts of the uncertainty; needs matplotlib."""
        from matplotlib.figure import Figure

        from kuq.plot.saving import save_figure

        figure = Figure(figsize=(9.0, 10.0), dpi=150, layout="constrained")
        axes = figure.subplots(3, 1, sharex=True, height_ratios=(1.2, 1.0, 1.0))
        self._draw_data(axes[0])
        self._draw_parts(axes[1], "CRPS", "Under the CRPS")
        self._draw_parts(axes[2], "Gaussian", "Under a Gaussian kernel")
        axes[2].set_xlabel("input x")
        figure.align_ylabels()
        save_figure(figure, path, MAKER)

    def _draw_data(self, axis: Axes) -> None:
        axis.plot(self.x, self.y, "o", ms=3, color=_GREY, alpha=0.55, mew=0, label="data")
        for position, mean in enumerate(self.means):
            label = f"means of the {MEMBERS} members" if position == 0 else None
            axis.plot(self.grid, mean, color=_SKY, lw=1.2, label=label)
        axis.plot(self.grid, truth(self.grid), "--", color="black", lw=1.8, label="true function")
        _finish(axis, "Data and predictions", "target y")
        low, high = axis.get_ylim()
        axis.set_ylim(low, high + 0.13 * (high - low))  # room for the names of the regions
        for name, (left, right) in REGIONS.items():
            place = ((left + right) / 2, 0.985)
            where = axis.get_xaxis_transform()
            axis.text(*place, name, transform=where, ha="center", va="top", style="italic")

    def _draw_parts(self, axis: Axes, name: str, title: str) -> None:
        u = self.uncertainty[name]
        true = entropy(Normal(truth(self.grid), noise(self.grid)), u.score)
        for component, color in (("epistemic", _VERMILLION), ("aleatoric", _BLUE)):
            axis.plot(self.grid, u[component], color=color, lw=2.4, label=component)
            axis.fill_between(self.grid, u[component], color=color, alpha=0.12, lw=0)
        axis.plot(self.grid, true, "--", color="black", lw=1.6, label="entropy of the true noise")
        axis.set_ylim(bottom=0)
        _finish(axis, title, f"uncertainty ({u.units})")


# Okabe and Ito's colours, which colour-blind readers can tell apart.
_BLUE, _SKY, _VERMILLION, _GREY = "#0072B2", "#56B4E9", "#D55E00", "#555555"


def _finish(axis: Axes, title: str, label: str) -> None:
    """Mark the gap, and put title and legend above the panel, where they cover nothing."""
    axis.axvspan(*REGIONS["gap"], color="#F0E442", alpha=0.25, lw=0, zorder=0)
    axis.margins(x=0)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_ylabel(label)
    axis.set_title(title, loc="left", fontweight="bold")
    axis.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, frameon=False, borderaxespad=0.2
    )


def run(seed: int = 0) -> Demo:
    """Make the data, fit the members, and decompose their uncertainty under every score."""
    rng = np.random.default_rng(seed)
    low, high = REGIONS["low noise"], REGIONS["high noise"]
    x = np.concatenate([rng.uniform(*low, 200), rng.uniform(*high, 200)])
    y = truth(x) + noise(x) * rng.standard_normal(x.size)
    grid = np.linspace(-0.8, 10.8, 233)
    fits = [_fit_member(x, y, grid, rng) for _ in range(MEMBERS)]
    means = np.stack([mean for mean, _ in fits])
    ensemble = Ensemble(Normal(means, np.stack([scale for _, scale in fits])))
    uncertainty = {name: decompose(ensemble, score) for name, score in SCORES.items()}
    return Demo(x, y, grid, means, uncertainty)


def _fit_member(
    x: Vector, y: Vector, grid: Vector, rng: np.random.Generator
) -> tuple[Vector, Vector]:
    """Mean and standard deviation along the grid of one member.

    A member has its own random features, resampled data, and its own random function to which
    it returns where there are no data: that is what makes members disagree in the gap.
    """
    shape, spread = _random_features(1.0, rng), _random_features(1.5, rng)
    drawn = rng.integers(x.size, size=x.size)
    prior = rng.standard_normal(_FEATURES)
    log_variance = np.full(x.size, np.log(0.1))
    for _ in range(3):  # the mean needs the noise level, and the noise level the mean
        precision = np.exp(-log_variance[drawn])
        w = _ridge(shape(x[drawn]), y[drawn], precision, prior)
        # A squared standard normal has mean log −1.27 with variance π²/2.
        target = np.log((y - shape(x) @ w) ** 2 + 1e-12) + 1.27
        centre = target.mean()
        v = _ridge(spread(x), target - centre, 4 / np.pi**2, np.zeros(_FEATURES))
        log_variance = centre + spread(x) @ v
    return shape(grid) @ w, np.exp((centre + spread(grid) @ v) / 2)


_FEATURES = 200


def _random_features(length: float, rng: np.random.Generator) -> Callable[[Vector], Vector]:
    """Random Fourier features of a Gaussian process with this length scale."""
    frequency = rng.standard_normal(_FEATURES) / length
    phase = rng.uniform(0, 2 * np.pi, _FEATURES)
    return lambda x: np.sqrt(2 / _FEATURES) * np.cos(x[:, None] * frequency + phase)


def _ridge(features: Vector, y: Vector, precision: Vector | float, prior: Vector) -> Vector:
    """Coefficients that weigh closeness to the data against closeness to ``prior``."""
    weighted = features.T * precision
    system = weighted @ features + np.eye(features.shape[1])
    return prior + np.linalg.solve(system, weighted @ (y - features @ prior))
