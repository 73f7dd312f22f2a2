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

from kuq.errors import ParameterError
from kuq.files.claims import check_memory, check_stored

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
    found: int
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
    claimed = 0
    for file, content in described.items():
        sizes = [_check_array(path, file, one) for one in _arrays_in(content)]
        if file.name in (".zarray", "zarr.json") and "shape" in content:
            folders[file.parent] = content
            claimed += sizes[0]
    check_stored(path, claimed, sum(files.values()))
    found = _chunks_found(folders, files)
    return {
        folder.relative_to(path).as_posix(): _stored_array(path, content, found[folder])
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


def _arrays_in(content: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every description of an array in a file of metadata, consolidated ones too."""
    if "shape" in content or content.get("node_type") == "array":
        yield content
    inside = content.get("consolidated_metadata")
    inner = [content.get("metadata"), inside.get("metadata") if isinstance(inside, dict) else None]
    for one in inner:
        if isinstance(one, dict):
            for value in one.values():
                if isinstance(value, dict):
                    yield from _arrays_in(value)


def _check_array(path: Path, file: Path, array: Mapping[str, Any]) -> int:
    """Refuse what is not plain; else the bytes that an array claims to hold."""
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
    return math.prod(shape) * size


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


def _check_codec(where: str, codec: Any, key: str, known: set[str]) -> None:
    name = codec.get(key) if isinstance(codec, dict) else codec
    if not isinstance(codec, dict) or name not in known:
        raise ParameterError(
            f"{where} uses the codec {name!r:.80}, which is not read; known are "
            f"{', '.join(sorted(known))}"
        )
    for setting, value in codec.items():
        if setting.endswith("dtype") or setting == "astype":
            _check_dtype(where, value)


def _chunks_found(
    folders: Mapping[Path, Mapping[str, Any]], files: Mapping[Path, int]
) -> dict[Path, set[tuple[int, ...]]]:
    """The places of the chunks that are there, for every array."""
    found: dict[Path, set[tuple[int, ...]]] = {folder: set() for folder in folders}
    for file in files:
        folder = next((parent for parent in file.parents if parent in found), None)
        if folder is not None and file.name not in _METADATA:
            key = re.split("[./]", file.relative_to(folder).as_posix())
            numbers = key[1:] if key[0] == "c" else key
            if all(number.isdecimal() and len(number) < 19 for number in numbers):
                found[folder].add(tuple(map(int, numbers)))
    return found


def _stored_array(path: Path, array: Mapping[str, Any], found: set[tuple[int, ...]]) -> StoredArray:
    """How many of its chunks an array has; what is inside of shards is not looked at."""
    grid = array.get("chunk_grid")
    settings = grid.get("configuration") if isinstance(grid, dict) else None
    lengths = settings.get("chunk_shape") if isinstance(settings, dict) else array.get("chunks")
    shape = array["shape"]
    if (
        not isinstance(lengths, list)
        or len(lengths) != len(shape)
        or not all(type(n) is int and n > 0 for n in lengths)
    ):
        raise ParameterError(f"{path} cannot be read as a grid: it has chunks of {lengths!r:.80}")
    check_memory(path, math.prod(lengths))
    counts = [-(-n // length) for n, length in zip(shape, lengths, strict=True)]
    if not shape:  # its only chunk is called "0" or "c"
        return StoredArray(1, min(1, len(found)), array.get("fill_value"))
    there = sum(
        len(place) == len(counts) and all(p < n for p, n in zip(place, counts, strict=True))
        for place in found
    )
    return StoredArray(math.prod(counts), there, array.get("fill_value"))
