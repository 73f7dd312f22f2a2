"""The marks of kuq's own outputs, by which a later call knows what it may replace."""

from __future__ import annotations

import codecs
import json
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from kuq._replacing import Kind

#: The three components, in the order in which they are written.
PARTS = ("total", "aleatoric", "epistemic")
#: How well a row of a table fits its outcome.
SCORE = "score"
#: Their standard errors, where random directions were asked for.
ERRORS = tuple(f"{component}_standard_error" for component in PARTS)
#: The name of the mark in arrays, attributes and metadata, and what it says.
MADE_BY, MARK = "made_by", "kuq decompose"
#: What stands beside the components.
ABOUT = ("score", "units", "method", "estimator", "unbiased", MADE_BY)
#: What stands there too if a reader has to know more of the split.
NOTE = "note"
#: A table in CSV has no place for a mark but quotes that change nothing: those of one name.
_HEAD = re.compile(rb'(^|^\xef\xbb\xbf|[,;\t|])total([,;\t|])aleatoric\2"epistemic"\r?\n')
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_HEAD_BYTES = 2**20
#: Files and folders inside of an array in a Zarr store.
_ZARR_FILES = re.compile(r"zarr\.json|\.zarray|\.zattrs|c|\d+(\.\d+)*")
_ZARR_HEADS = {"zarr.json", ".zgroup", ".zattrs"}


def grid_mark(names: Iterable[Any]) -> str:
    """The mark of a grid: it names all variables and dimensions, to tell if more were added."""
    return f"{MARK}: {json.dumps(sorted(str(name) for name in names))}"


def _names(mark: str) -> set[str]:
    made_by, _, names = mark.partition(": ")
    return set(json.loads(names)) if made_by == MARK else set()


def _has_parts(names: Iterable[str]) -> bool:
    """Whether all components are there, or total and noise, of at least one variable."""
    present = list(names)

    def before(component: str) -> set[str]:
        return {name.removesuffix(component) for name in present if name.endswith(component)}

    return any(set.intersection(*map(before, parts)) for parts in (PARTS, ("total", "noise")))


def _own_npz(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        names = {name.removesuffix(".npy") for name in archive.namelist()}
        if names - {NOTE, *ERRORS} != {*PARTS, *ABOUT}:
            return False
        with archive.open(f"{MADE_BY}.npy") as file:
            return str(np.lib.format.read_array(file, allow_pickle=False)) == MARK


def _own_text(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(_HEAD_BYTES)
    if start.startswith(_UTF_16):
        start = start.decode("utf-16", errors="replace").encode()
    return _HEAD.search(start) is not None


def _own_parquet(path: Path) -> bool:
    from pyarrow import parquet

    schema = parquet.read_schema(path)
    metadata = schema.metadata or {}
    about = json.loads(metadata.get(b"PANDAS_ATTRS", b"{}"))
    labels = json.loads(metadata.get(b"pandas", b"{}")).get("index_columns", ())  # stand behind
    names = tuple(name for name in schema.names if name not in labels)
    return about.get(MADE_BY) == MARK and names[-len(PARTS) :] == PARTS


def _own_netcdf(path: Path) -> bool:
    import h5py

    with h5py.File(path, "r") as file:
        return _has_parts(file) and set(file) <= _names(str(file.attrs[MADE_BY]))


def _own_zarr(path: Path) -> bool:
    names = {entry.name for entry in path.iterdir()}
    if "zarr.json" in names:
        attributes = json.loads((path / "zarr.json").read_text(encoding="utf-8"))["attributes"]
    else:
        attributes = json.loads((path / ".zattrs").read_text(encoding="utf-8"))
    arrays = names - _ZARR_HEADS
    if not (_has_parts(arrays) and arrays <= _names(attributes[MADE_BY])):
        return False
    every = (entry for name in arrays for entry in (path / name).rglob("*"))
    return all(_ZARR_FILES.fullmatch(entry.name) and not entry.is_symlink() for entry in every)


#: The outputs of ``kuq decompose`` by the endings of their names.
KINDS = {
    ".npz": Kind("an .npz file of uncertainties", _own_npz),
    ".csv": Kind("a .csv file of uncertainties", _own_text),
    ".tsv": Kind("a .tsv file of uncertainties", _own_text),
    ".parquet": Kind("a .parquet file of uncertainties", _own_parquet),
    ".nc": Kind("an .nc file of uncertainties", _own_netcdf),
    ".zarr": Kind("a .zarr store of uncertainties", _own_zarr, folder=True),
}
