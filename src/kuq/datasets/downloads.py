"""Downloads by pooch: over https, with a progress bar, into a temporary folder."""

from __future__ import annotations

import io
import json
import logging
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, final

import numpy as np

from kuq.datasets.cache import DataError
from kuq.datasets.tables import Real

_OPENML = "https://www.openml.org/api/v1/json/data/{}"


@final
@dataclass(frozen=True)
class File:
    """A text file on the web, or a member of a zip archive; ``columns`` are features and target."""

    url: str
    columns: tuple[int, ...]
    member: str | None = None

    def table(self) -> Real:
        """Download it and return features and target, (n, features + 1)."""
        content = download(self.url)
        if self.member is not None:
            content = _unzipped(content, self.member, self.url)
        _, numbers = read_table(content, self.url)
        if numbers.shape[1] <= max(self.columns):
            raise DataError(f"{self.url} has only {numbers.shape[1]} columns")
        return numbers[:, list(self.columns)]


@final
@dataclass(frozen=True)
class OpenML:
    """A data set of OpenML by its number; features are all but the target and ``left_out``."""

    number: int
    target: str
    left_out: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return _OPENML.format(self.number)

    def table(self) -> Real:
        """Look up file and checksum, download it and return features and target."""
        description = download(self.url)
        try:
            facts = json.loads(description)["data_set_description"]
            address, digest = str(facts["url"]), f"md5:{facts['md5_checksum']}"
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{self.url} does not describe a data set any more") from error
        names, numbers = read_table(download(address, digest), address)
        if self.target not in names:
            raise DataError(f"{address} has no column {self.target!r}; it has {', '.join(names)}")
        skipped = {self.target, *self.left_out}
        features = [k for k, name in enumerate(names) if name not in skipped]
        return numbers[:, [*features, names.index(self.target)]]


Source: TypeAlias = File | OpenML


def download(url: str, known_hash: str | None = None) -> bytes:
    """The content behind an address, in memory; an error says what went wrong."""
    try:
        import pooch
        import requests
    except ModuleNotFoundError as error:
        raise DataError('downloads need pooch: pip install "kuq[datasets]"') from error
    pooch.get_logger().setLevel(logging.WARNING)  # it would ask the user to note a checksum
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = pooch.retrieve(url, known_hash, "file", folder, progressbar=sys.stderr.isatty())
            return Path(path).read_bytes()
        except requests.exceptions.ConnectionError as error:
            raise DataError(f"{url}: no connection") from error
        except ValueError as error:  # pooch's word for a wrong checksum
            raise DataError(f"{url}: {' '.join(str(error).split())}") from error
        except (requests.exceptions.RequestException, OSError) as error:
            raise DataError(f"{url}: {error}") from error


def read_table(content: bytes, where: str) -> tuple[list[str], Real]:
    """Names and numbers of a table in CSV, ARFF, or columns parted by blanks."""
    names: list[str] = []
    rows: list[list[float]] = []
    for line in io.StringIO(content.decode("utf-8-sig", errors="replace")):
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        if text.startswith("@"):
            if text.lower().startswith("@attribute"):
                names.append(text.split(maxsplit=1)[1].rsplit(maxsplit=1)[0].strip("'\" "))
            continue
        cells = text.split(",") if "," in text else text.split()
        try:
            rows.append([float(cell) for cell in cells])
        except ValueError:
            if rows or names:
                raise DataError(f"{where} has a line that is not numbers: {text[:60]!r}") from None
            names = [cell.strip("'\" ") for cell in cells]
    if not rows or len({len(row) for row in rows}) != 1:
        raise DataError(f"{where} is not a table of numbers")
    return names, np.array(rows)


def _unzipped(content: bytes, member: str, where: str) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return archive.read(member)
    except (zipfile.BadZipFile, KeyError) as error:
        raise DataError(f"{where} is not an archive with {member!r}") from error
