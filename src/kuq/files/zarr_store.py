"""Zarr stores that are safe to open: plain arrays and known codecs, inside of one folder.

What a store says about itself is read as JSON before Zarr reads it. Arrays of Python objects and
codecs that are not listed here are refused, since some execute code, in both versions of the
format, and whatever the versions of Zarr and its codecs do about it.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kuq.errors import ParameterError
from kuq.files.claims import check_memory, check_overfull, check_stored

_COMPRESSORS = {"blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"}
_CHECKSUMS = {"adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3"}
_TRANSFORMS = {"astype", "bitround", "delta", "fixedscaleoffset", "quantize", "shuffle"}
#: Codecs of version 2 by their ids, and those of version 3 beside them. All that they make are
#: numbers; vlen-utf8 makes text.
_CODECS = _COMPRESSORS | _CHECKSUMS | _TRANSFORMS
_TEXT = "vlen-utf8"
_CODECS_3 = {"bytes", "endian", "transpose", "sharding_indexed", *_COMPRESSORS, "crc32c"}
_PLAIN = re.compile(r"[<>|]?(?:b1|[iu][1248]|f[248]|c8|c16|[SU][0-9]{1,9}|[mM]8(?:\[\w+\])?)")
_TYPES_3 = {
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "string"),
    *("fixed_length_utf32", "null_terminated_bytes", "numpy.datetime64", "numpy.timedelta64"),
}
_METADATA = {".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json"}
_LONGEST_METADATA = 2**26


@dataclass(frozen=True)
class StoredArray:
    """An array of a store: how many chunks it has, how many of them are there, and the fill."""

    chunks: int
    present: int
    fill: Any


def check_store(path: Path) -> dict[str, StoredArray]:
    """Refuse a store that is not safe to open; else what is stored of its arrays, by name."""
    if not path.is_dir():
        raise ParameterError(f"{path} cannot be read as a grid: a Zarr store is a folder")
    described: dict[Path, dict[str, Any]] = {}
    files: dict[Path, int] = {}
    for file, size in _files(path):
        files[file] = size
        if file.name in _METADATA:
            described |= {file: _metadata(path, file, size)}
    folders: dict[Path, Mapping[str, Any]] = {}
    chunks_of_numbers: dict[Path, int] = {}
    claimed = 0
    for file, content in described.items():
        sizes = [_check_array(path, file, one) for one in _arrays_in(file.name, content)]
        if _is_array(file.name, content):
            folders[file.parent] = content
            chunk, itemsize = math.prod(_chunk_shape(path, content)), sizes[0]
            check_memory(path, chunk * itemsize, "a chunk is read as a whole; make them smaller")
            claimed += itemsize * max(chunk, math.prod(content["shape"]))
            if _holds_numbers(content):
                chunks_of_numbers[file.parent] = chunk * itemsize
    check_stored(path, claimed, sum(files.values()))
    chunks = _chunks_found(folders, files)
    for folder, chunk in chunks_of_numbers.items():
        most = max((files[file] for file in chunks[folder].values()), default=0)
        check_overfull(path, folder.relative_to(path).as_posix(), chunk, most)
    return {
        folder.relative_to(path).as_posix(): _stored_array(path, content, chunks[folder])
        for folder, content in folders.items()
    }


def _files(path: Path) -> Iterator[tuple[Path, int]]:
    """Every file of a store with its size; links and devices lead out of it and are refused."""
    waiting = [path]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                about = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(about.st_mode):
                    waiting.append(Path(entry.path))
                elif stat.S_ISREG(about.st_mode):
                    yield Path(entry.path), about.st_size
                else:
                    raise ParameterError(
                        f"{path} holds {entry.name!r}, a link or device, which leads out of the "
                        "store and is not followed"
                    )


def _metadata(path: Path, file: Path, size: int) -> dict[str, Any]:
    if size > _LONGEST_METADATA:
        raise ParameterError(f"{path}: {file.name} has {size} bytes, too many for metadata")
    try:
        content = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ParameterError(
            f"{path} cannot be read as a grid: {file.relative_to(path)} is damaged: {error}"
        ) from None
    if not isinstance(content, dict):
        raise ParameterError(
            f"{path} cannot be read as a grid: {file.relative_to(path)} is damaged"
        )
    return content


def _holds_numbers(array: Mapping[str, Any]) -> bool:
    """Whether entries have the size that their type says; those of text have any."""
    kind = array.get("data_type", array.get("dtype"))
    return isinstance(kind, str) and kind != "string" and not set("OSU") & set(kind)


def _is_array(name: str, content: Mapping[str, Any]) -> bool:
    return name == ".zarray" or (name == "zarr.json" and content.get("node_type") != "group")


def _arrays_in(name: str, content: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every description of an array in a file of metadata, consolidated ones too."""
    if _is_array(name, content):
        yield content
    inside = content.get("consolidated_metadata") if name == "zarr.json" else content
    inner = inside.get("metadata") if isinstance(inside, dict) else None
    if name in ("zarr.json", ".zmetadata") and isinstance(inner, dict):
        for key, value in inner.items():
            if isinstance(value, dict) and not key.endswith((".zattrs", ".zgroup")):
                yield from _arrays_in("zarr.json" if name == "zarr.json" else ".zarray", value)


def _check_array(path: Path, file: Path, array: Mapping[str, Any]) -> int:
    """Refuse what is not plain; else the bytes of one entry of an array, at least."""
    where = f"{path} cannot be read as a grid: {file.relative_to(path)}"
    shape = array.get("shape")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ParameterError(f"{where}: the shape {shape!r:.80} is no list of lengths")
    if "data_type" in array or array.get("zarr_format") == 3:
        size = _check_type_3(where, array.get("data_type"))
        _check_codecs_3(where, array.get("codecs"))
        if array.get("storage_transformers"):
            raise ParameterError(f"{where} has storage transformers, which are not read")
    else:
        size = _check_version_2(where, array)
    return size


def _check_version_2(where: str, array: Mapping[str, Any]) -> int:
    dtype, filters = array.get("dtype"), array.get("filters") or []
    if not isinstance(filters, list):
        raise ParameterError(f"{where}: the filters {filters!r:.80} are no list")
    compressor = array.get("compressor")
    codecs = [*filters, *([] if compressor is None else [compressor])]
    ids = [codec.get("id") if isinstance(codec, dict) else codec for codec in codecs]
    if dtype == "|O":
        if ids.count(_TEXT) != 1 or ids[0] != _TEXT:
            raise ParameterError(
                f"{where} describes Python objects, which could execute code and are not read; "
                "store plain numbers or text"
            )
        codecs = codecs[1:]
    for codec in codecs:
        _check_codec(where, codec, "id", _CODECS)
    if dtype == "|O":
        return 1
    return _check_dtype(where, dtype)


def _check_dtype(where: str, dtype: Any) -> int:
    if not isinstance(dtype, str) or not _PLAIN.fullmatch(dtype):
        raise ParameterError(
            f"{where}: the type {dtype!r:.80} is not that of plain numbers, text or times"
        )
    return max(1, int("0" + re.sub(r"\[.*", "", dtype).lstrip("<>|biufcSUmM")))


def _check_type_3(where: str, kind: Any) -> int:
    name = kind.get("name") if isinstance(kind, dict) else kind
    if name not in _TYPES_3:
        raise ParameterError(
            f"{where}: the type {name!r:.80} is not that of plain numbers, text or times"
        )
    bits = re.sub(r"[^0-9]", "", name) if isinstance(name, str) else ""
    return max(1, int(bits or 8) // 8)


def _check_codecs_3(where: str, codecs: Any) -> None:
    if not isinstance(codecs, list):
        raise ParameterError(f"{where}: the codecs {codecs!r:.80} are no list")
    for codec in codecs:
        codec = {"name": codec} if isinstance(codec, str) else codec
        name = codec.get("name") if isinstance(codec, dict) else None
        if isinstance(name, str) and name.startswith("numcodecs."):
            inside = codec.get("configuration") or {}
            _check_codec(where, {**inside, "id": name.removeprefix("numcodecs.")}, "id", _CODECS)
            continue
        _check_codec(where, codec, "name", _CODECS_3 | {_TEXT})
        settings = codec.get("configuration") or {}
        for inner in ("codecs", "index_codecs"):
            if name == "sharding_indexed" and inner in settings:
                _check_codecs_3(where, settings[inner])


def _check_codec(where: str, codec: Any, key: str, allowed: set[str]) -> None:
    name = codec.get(key) if isinstance(codec, dict) else codec
    if not isinstance(codec, dict) or name not in allowed:
        raise ParameterError(
            f"{where} uses the codec {name!r:.80}, which is not read; known are "
            f"{', '.join(sorted(allowed))}"
        )
    for setting, value in codec.items():
        if setting.endswith("dtype") or setting == "astype":
            _check_dtype(where, value)


def _chunks_found(
    folders: Mapping[Path, Mapping[str, Any]], files: Mapping[Path, int]
) -> dict[Path, dict[tuple[int, ...], Path]]:
    """The chunks that are there by their places, for every array."""
    chunks: dict[Path, dict[tuple[int, ...], Path]] = {folder: {} for folder in folders}
    for file in files:
        folder = next((parent for parent in file.parents if parent in chunks), None)
        if folder is not None and file.name not in _METADATA:
            key = re.split("[./]", file.relative_to(folder).as_posix())
            numbers = key[1:] if key[0] == "c" else key
            if all(number.isdecimal() and len(number) < 19 for number in numbers):
                chunks[folder][tuple(map(int, numbers))] = file
    return chunks


def _chunk_shape(path: Path, array: Mapping[str, Any]) -> list[int]:
    grid = array.get("chunk_grid")
    settings = grid.get("configuration") if isinstance(grid, dict) else None
    lengths = settings.get("chunk_shape") if isinstance(settings, dict) else array.get("chunks")
    return _lengths(path, lengths, len(array["shape"]))


def _lengths(path: Path, lengths: Any, ndim: int) -> list[int]:
    if (
        not isinstance(lengths, list)
        or len(lengths) != ndim
        or not all(type(n) is int and n > 0 for n in lengths)
    ):
        raise ParameterError(f"{path} cannot be read as a grid: it has chunks of {lengths!r:.80}")
    return lengths


def _stored_array(
    path: Path, array: Mapping[str, Any], chunks: Mapping[tuple[int, ...], Path]
) -> StoredArray:
    """How many of its chunks an array has, also of those inside of shards."""
    shape, lengths, fill = array["shape"], _chunk_shape(path, array), array.get("fill_value")
    if not shape:  # its only chunk is called "0" or "c"
        return StoredArray(1, min(1, len(chunks)), fill)
    counts = [-(-n // length) for n, length in zip(shape, lengths, strict=True)]
    there = {
        place: file
        for place, file in chunks.items()
        if len(place) == len(counts) and all(p < n for p, n in zip(place, counts, strict=True))
    }
    codec = (array.get("codecs") or [None])[0]
    if not isinstance(codec, dict) or codec.get("name") != "sharding_indexed":
        return StoredArray(math.prod(counts), len(there), fill)
    settings = codec.get("configuration") or {}
    inner = _lengths(path, settings.get("chunk_shape"), len(shape))
    whole = math.prod(-(-n // length) for n, length in zip(shape, inner, strict=True))
    per_shard = [outer // length for outer, length in zip(lengths, inner, strict=True)]
    count = 0
    for place, file in there.items():
        index = _shard_index(path, file, settings, per_shard)
        inside = tuple(
            slice(-(-(n - p * outer) // length))
            for n, p, outer, length in zip(shape, place, lengths, inner, strict=True)
        )
        count += int(index[inside].sum())
    return StoredArray(whole, count, fill)


def _shard_index(
    path: Path, file: Path, settings: Mapping[str, Any], per_shard: list[int]
) -> np.ndarray:
    """Which chunks a shard holds: its index has an offset and a length for each, or all ones."""
    check_memory(path, 16 * math.prod(per_shard), "a shard has too many chunks")
    size = 16 * math.prod(per_shard)
    behind = 4 if len(settings.get("index_codecs") or []) > 1 else 0  # a checksum
    with file.open("rb") as shard:
        if settings.get("index_location", "end") == "end":
            shard.seek(max(0, file.stat().st_size - size - behind))
        data = shard.read(size)
    if len(data) < size:
        raise ParameterError(f"{path} cannot be read as a grid: {file.name} has no whole index")
    entries = np.frombuffer(data, "<u8").reshape(*per_shard, 2)
    return np.asarray(np.any(entries != np.iinfo(np.uint64).max, axis=-1))
