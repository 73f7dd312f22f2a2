"""One-step prediction: from the last two states of a trajectory to the next increment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from kuq._numbers import whole_number
from kuq.datasets.base import Dataset, Split
from kuq.datasets.etdrk4 import Real
from kuq.datasets.tables import Rows, Scaling, split_rows, standardised_units
from kuq.errors import ParameterError


@final
@dataclass(frozen=True)
class Pairs:
    """How pairs are taken: ``count`` frames s of each trajectory, at random, from ``first`` on.

    ``in_tests`` is the number for trajectories of the test and the shifted split, by default the
    same. With fewer than all, what is true of a trajectory as a whole depends on the draw.
    """

    count: int
    frames: int
    first: int = 2
    in_tests: int | None = None

    def __post_init__(self) -> None:
        most = self.frames - whole_number(self.first, "first_frame", 2)
        for name, count in (("pairs", self.count), ("test_pairs", self.of_a_test)):
            if whole_number(count, name, 1) > most:
                raise ParameterError(
                    f"trajectories of {self.frames} frames have {max(0, most)} pairs at most, got "
                    f"{name}={count}; they start with first_frame={self.first}"
                )

    @property
    def of_a_test(self) -> int:
        """The number of pairs of a trajectory of the test and the shifted split."""
        return self.count if self.in_tests is None else self.in_tests

    def of(self, trajectories: Real, rows: Rows, rng: np.random.Generator, count: int) -> Split:
        """x (n, 2, points) with u(s−2), u(s−1), and y (n, points) with u(s) − u(s−1)."""
        x = np.empty((len(rows), count, 2, trajectories.shape[2]))
        y = np.empty((len(rows), count, trajectories.shape[2]))
        frame = np.empty((len(rows), count), np.int64)
        for position, row in enumerate(rows):
            states = np.asarray(trajectories[row])
            later = rng.permutation(self.frames - self.first)[:count]
            frame[position] = chosen = self.first + np.sort(later)
            x[position, :, 0], x[position, :, 1] = states[chosen - 2], states[chosen - 1]
            y[position] = states[chosen] - states[chosen - 1]
        return Split(
            x.reshape(-1, *x.shape[2:]),
            y.reshape(-1, y.shape[2]),
            {"trajectory": np.repeat(rows, count), "frame": frame.reshape(-1)},
        )


def pair_dataset(
    name: str,
    inside: Real,
    outside: Real,
    pairs: Pairs,
    seed: int,
    units: str,
    provenance: Mapping[str, Any],
    standardise: bool = False,
) -> Dataset:
    """Split trajectories (n, frames, points) by seed, and take pairs from each.

    Whole trajectories go to training, validation or test, so that no state is in two of them;
    ``rows`` of each split say of which ``"trajectory"`` and ``"frame"`` s a pair is.
    With ``standardise``, states and increments are scaled by two numbers each, the mean and the
    standard deviation in training.
    """
    parts = split_rows(len(inside), seed)
    streams = np.random.default_rng([seed, 1]).spawn(len(parts) + 1)
    counts = (pairs.count, pairs.count, pairs.of_a_test)
    splits = [
        pairs.of(inside, rows, rng, count)
        for rows, rng, count in zip(parts, streams[:-1], counts, strict=True)
    ]
    splits.append(pairs.of(outside, np.arange(len(outside)), streams[-1], pairs.of_a_test))
    facts = {**provenance, "seed": seed, "pairs": pairs.count, "first_frame": pairs.first}
    facts["test_pairs"] = pairs.of_a_test
    facts["standardised"] = standardise
    if standardise:
        of_x, of_y = (Scaling.of(a.reshape(-1)) for a in (splits[0].x, splits[0].y))
        splits = [replace(s, x=of_x(s.x), y=of_y(s.y)) for s in splits]
        facts |= {"x_mean": float(of_x.mean), "x_scale": float(of_x.scale)}
        facts |= {"y_mean": float(of_y.mean), "y_scale": float(of_y.scale)}
        units = standardised_units(units, of_y)
    train, validation, test, shifted = splits
    return Dataset(name, train, validation, test, shifted, False, units, facts)
