"""PDEBench's HDF5 files of Burgers' equation: 10 000 trajectories, 201 times, 1024 points."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from kuq._numbers import whole_number
from kuq.datasets.cache import DataError, data_folder
from kuq.datasets.etdrk4 import Real
from kuq.datasets.trajectories import positive

SOURCE = "PDEBench (Takamoto et al., 2022), doi:10.18419/darus-2986"
LICENCE = "CC BY 4.0"


def file_name(viscosity: float) -> str:
    """The name PDEBench gives to its file.

    >>> file_name(0.01)
    '1D_Burgers_Sols_Nu0.01.hdf5'
    """
    return f"1D_Burgers_Sols_Nu{viscosity:g}.hdf5"


def find(data_dir: Path | None, viscosities: tuple[float, float]) -> list[Path] | None:
    """Both files in the user's folder or its subfolder ``pdebench``; None if there are none."""
    folder = data_folder(data_dir)
    if folder is None:
        return None
    for place in (folder, folder / "pdebench"):
        paths = [place / file_name(viscosity) for viscosity in viscosities]
        there = [path.is_file() for path in paths]
        if all(there):
            return paths
        if any(there):
            raise DataError(
                f"{place} has only {paths[there.index(True)].name}; the twin needs "
                f"{paths[there.index(False)].name}, too: add it, or remove the other to simulate"
            )
    return None


@final
@dataclass(frozen=True)
class Reading:
    """What is kept of the file: every so many points and times, and which trajectories.

    These are the first ones, or with ``seed`` drawn from all of the file.
    """

    points: int
    frames: int
    final_time: float
    seed: int | None = None

    def of(self, path: Path, viscosity: float, trajectories: int) -> Real:
        """Trajectories (n, frames, points), as float64."""
        whole_number(self.points, "points", 4)
        positive("viscosity", viscosity)
        try:
            import h5py
        except ModuleNotFoundError as error:
            raise DataError('PDEBench\'s files need h5py: pip install "kuq[datasets]"') from error
        try:
            with h5py.File(path, "r") as file:
                times, space = self._strides(file, path, viscosity, trajectories)
                stop = times * (self.frames - 1) + 1
                rows = self._rows(len(file["tensor"]), trajectories)
                values = file["tensor"][rows, :stop:times, ::space]
        except (OSError, KeyError) as error:
            raise DataError(
                f"{path} is truncated or not a file of PDEBench ({error}); download it again "
                f"from {SOURCE}"
            ) from error
        if not np.isfinite(values).all():
            raise DataError(f"{path} has values that are not finite; download it again")
        return np.asarray(values, np.float64)

    def _rows(self, count: int, trajectories: int) -> Any:
        if self.seed is None:
            return slice(trajectories)
        drawn = np.random.default_rng([self.seed, 2]).choice(count, trajectories, replace=False)
        return np.sort(drawn)  # as HDF5 wants them

    def _strides(
        self, file: Any, path: Path, viscosity: float, trajectories: int
    ) -> tuple[int, int]:
        """Steps along times and points."""
        count, frames, points = file["tensor"].shape
        stored = float(file.attrs.get("Nu", viscosity))
        if not np.isclose(stored, viscosity):
            raise DataError(f"{path} is of viscosity {stored:g}, expected {viscosity:g}")
        if trajectories > count:
            raise DataError(f"{path} has {count} trajectories, got trajectories={trajectories}")
        if points % self.points:
            raise DataError(f"points must divide {points}, the points of {path}")
        time = np.asarray(file["t-coordinate"])[:frames]
        wanted = np.linspace(0.0, self.final_time, self.frames)
        stride = max(1, round(float(wanted[1] / (time[1] - time[0]))))
        taken = time[::stride][: self.frames]
        if len(taken) < self.frames or not np.allclose(taken, wanted, atol=1e-4 * wanted[1]):
            raise DataError(
                f"{path} has times from {time[0]:g} to {time[-1]:g}, {len(time)} in all; they do "
                f"not hold {self.frames} equal frames up to {self.final_time:g}"
            )
        return stride, points // self.points
