"""Seven regression tables, as chosen by Hernández-Lobato and Adams (2015), most of them from UCI.

A table is known by its numbers, not by the file that brought them: the rows are rounded where
copies differ in their digits, sorted, and compared with a SHA-256. So the same seed gives the same
splits from every source, whatever the order of its rows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from kuq._replacing import replacing
from kuq.datasets import table_files
from kuq.datasets.base import Dataset
from kuq.datasets.cache import DataError, cache_folder, data_folder, lock
from kuq.datasets.downloads import File, OpenML, Source
from kuq.datasets.tables import Real, table_dataset

LICENCE = "CC BY 4.0"
_UCI = "https://archive.ics.uci.edu/static/public/"


@final
@dataclass(frozen=True)
class Table:
    """What is known of a table: its size, its numbers' checksum, and where to download it.

    ``decimals`` are those that all copies share, by column; None where copies do not differ.
    ``summary`` has the mean and the standard deviation of every column, for a table whose copies
    may differ by a rounding in the last of these decimals; ``remark`` what a user should know.
    """

    name: str
    rows: int
    features: int
    size: str
    units: str
    target: str
    sha256: str
    sources: tuple[Source, ...]
    decimals: tuple[int, ...] | None = None
    summary: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    remark: str = ""
    licence: str = LICENCE

    @property
    def origin(self) -> str:
        """Where it is downloaded from, in words."""
        names = ("the UCI repository" if isinstance(s, File) else "OpenML" for s in self.sources)
        return " or ".join(dict.fromkeys(names))


TABLES = (
    Table(
        "concrete",
        1030,
        8,
        "10 kB",
        "MPa",
        "compressive strength",
        "8c783310fd89ef19bc357ea58acd280e5dca82f1afb70134a46347bc9fa6eb60",
        (File(_UCI + "165/data.csv", tuple(range(9))), OpenML(44959, "strength")),
        (1, 1, 1, 1, 1, 1, 1, 0, 2),
        (
            (281.168, 73.8958, 54.1883, 181.567, 6.20466, 972.919, 773.58, 45.6621, 35.818),
            (104.456, 86.2374, 63.9659, 21.3438, 5.97094, 77.7162, 80.1371, 63.1392, 16.6976),
        ),
        "25 rows are duplicates",
    ),
    Table(
        "energy",
        768,
        8,
        "4 kB",
        "kWh/m²",
        "heating load",
        "c02de9294dbaf025d7a6eb23e6779daf99d9a00c953ea2cf861fe99677e83dbf",
        (File(_UCI + "242/data.csv", tuple(range(9))), OpenML(44960, "heating_load")),
        (2,) * 9,
    ),
    Table(
        "kin8nm",
        8192,
        8,
        "360 kB",
        "dimensionless",
        "distance of a robot arm's end from a point",
        "20d07850db8d874ed774aa79ff721947fd912b77b089c88322a2aeeb72801fd7",
        (OpenML(189, "y"), OpenML(44980, "y")),
        remark="of the Delve collection, not in the UCI repository",
        licence="public (OpenML)",
    ),
    Table(
        "naval-propulsion-plant",
        11934,
        16,
        "390 kB",
        "dimensionless",
        "decay coefficient of the compressor",
        "1ec6d728a4ef2be256dc311a624a399087c737916eb0f006e500eca2e51ff55d",
        (
            File(
                _UCI + "316/condition+based+maintenance+of+naval+propulsion+plants.zip",
                tuple(range(17)),
                "UCI CBM Dataset/data.txt",
            ),
            OpenML(
                44969,
                "gt_compressor_decay_state_coefficient",
                ("gt_turbine_decay_state_coefficient",),
            ),
        ),
        remark="features 8 and 11 are constant",
    ),
    Table(
        "power-plant",
        9568,
        4,
        "110 kB",
        "MW",
        "electrical output",
        "de02023f4e7f10d6743e3b661e4b02f0459e8d190e83ea3ed50e0e4fb414da4b",
        (File(_UCI + "294/data.csv", tuple(range(5))),),
        remark="41 rows are duplicates",
    ),
    Table(
        "protein-tertiary-structure",
        45730,
        9,
        "1.7 MB",
        "Å",
        "root mean square deviation of residues",
        "af0581c414e994d6cf8d18aa192fed5cc1bc9ab6850da8b7cc5be665bd711b19",
        (
            File(
                _UCI + "265/physicochemical+properties+of+protein+tertiary+structure.zip",
                (*range(1, 10), 0),
                "CASP.csv",
            ),
            OpenML(42903, "RMSD"),
        ),
        remark="1711 rows are duplicates",
    ),
    Table(
        "yacht",
        308,
        6,
        "2 kB",
        "dimensionless",
        "residuary resistance per unit weight of displacement",
        "1bd3364bf0c3ed03dc3544ef9326d22cfec94359ded5920effe8daea5a17b0d0",
        (
            File(_UCI + "243/yacht+hydrodynamics.zip", tuple(range(7)), "yacht_hydrodynamics.data"),
            OpenML(42370, "Residuary.resistance"),
        ),
    ),
)


def load_uci(
    table: Table, data_dir: Path | None, seed: int, *, standardise: bool = True, verify: bool = True
) -> Dataset:
    """One of the tables, split by seed and scaled by its training rows.

    It is read from ``<name>.csv.gz`` in the user's folder (or its subfolder ``uci``), with a header
    x0, x1, …, y, else from the cache, else downloaded. ``verify=False`` accepts other numbers in
    the user's file.
    """
    where, numbers = _find(table, data_dir, verify)
    facts = {
        "source": where,
        "licence": table.licence,
        "target": table.target,
        "checked": verified(table, numbers) if verify else "no",
        "remark": table.remark,
    }
    numbers = canonical(table, numbers)
    x, y = numbers[:, :-1], numbers[:, -1]
    return table_dataset(table.name, x, y, seed, table.units, facts, standardise)


def uci_digest(table: Table, data_dir: Path | None, *, verify: bool = True, **_: object) -> str:
    """The digest of the numbers that ``load_uci`` takes; those of a download are known before."""
    folder = data_folder(data_dir)
    if _own_file(table, folder) is None and not _cached(table).is_file():
        return table.sha256
    return _sha256(table, _find(table, data_dir, verify)[1])


def canonical(table: Table, numbers: Real) -> Real:
    """The rows rounded to the decimals that all copies share, in lexicographic order."""
    rounded = numbers + 0.0  # no negative zeros
    for column, places in enumerate(table.decimals or ()):
        rounded[:, column] = np.round(rounded[:, column], places)
    return np.asarray(rounded[np.lexsort(rounded.T[::-1])])


def verified(table: Table, numbers: Real) -> str:
    """How the numbers were recognised; an error if they are not those of the table."""
    expected = (table.rows, table.features + 1)
    if numbers.shape != expected:
        raise DataError(
            f"{table.name} has {expected[0]} rows of {expected[1]} columns, got {numbers.shape}"
        )
    if _sha256(table, numbers) == table.sha256:
        return "SHA-256 of the numbers"
    if table.summary is not None and table.decimals is not None:
        moments = numbers.mean(axis=0), numbers.std(axis=0)
        unit = 0.5 * 10.0 ** -np.asarray(table.decimals)
        if np.all(np.abs(np.array(moments) - np.array(table.summary)) <= unit):
            return "means and deviations of all columns, within the rounding of other copies"
    raise DataError(f"the numbers are not those of {table.name}: their SHA-256 differs")


def _sha256(table: Table, numbers: Real) -> str:
    content = np.ascontiguousarray(canonical(table, numbers), "<f8")
    return hashlib.sha256(content.tobytes()).hexdigest()


def _find(table: Table, data_dir: Path | None, verify: bool) -> tuple[str, Real]:
    """Name of the place, and the numbers."""
    folder = data_folder(data_dir)
    path = _own_file(table, folder)
    if path is None:
        return _from_cache(table, folder)
    numbers = table_files.read(path)
    if verify:
        _check_own(table, numbers, path)
    return path.name, numbers


def _own_file(table: Table, folder: Path | None) -> Path | None:
    """The table in the user's folder."""
    if folder is None:
        return None
    names = (folder / f"{table.name}.csv.gz", folder / "uci" / f"{table.name}.csv.gz")
    return next((path for path in names if path.is_file()), None)


def _cached(table: Table) -> Path:
    return cache_folder() / "uci" / f"{table.name}.csv.gz"


def _check_own(table: Table, numbers: Real, path: Path) -> None:
    try:
        verified(table, numbers)
    except DataError as error:
        raise DataError(
            f"{path}: {error}; replace the file, or pass verify=False to use it as it is"
        ) from error


def _from_cache(table: Table, folder: Path | None) -> tuple[str, Real]:
    path = _cached(table)
    path.parent.mkdir(exist_ok=True)
    with lock(path):
        if path.is_file():
            try:
                numbers = table_files.read(path)
                verified(table, numbers)
            except DataError:
                pass  # it is downloaded again
            else:
                return path.name, numbers
        where, numbers = _downloaded(table, path, folder)
        with replacing(path) as unfinished:
            table_files.write(unfinished, numbers)
    return where, numbers


def _downloaded(table: Table, path: Path, folder: Path | None) -> tuple[str, Real]:
    """Address and numbers of the first source that has them; else one error with all reasons."""
    reasons = []
    for source in table.sources:
        try:
            numbers = source.table()
            verified(table, numbers)
        except DataError as error:
            reasons.append(f"  {error}")
        else:
            return source.url, canonical(table, numbers)
    looked = "" if folder is None else f"It is not in {folder} either. "
    raise DataError(
        f"{table.name} could not be downloaded:\n" + "\n".join(reasons) + f"\n{looked}"
        f"Without a network, run `kuq data fetch {table.name}` on a computer that has one, and "
        f"copy its {path.name} into a folder that data_dir, --data-dir or KUQ_DATA names."
    )
