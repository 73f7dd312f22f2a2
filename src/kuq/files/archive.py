"""Arrays in ``.npz`` archives, every byte of which is checked before a number is believed.

NumPy reads as many bytes as the header of an array asks for and no more, so that the checksum of
the archive is never compared if a damaged header asks for fewer. Here every member is read to its
end, and what the archive says about it in two places has to agree.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np

from kuq.errors import ParameterError
from kuq.files.claims import check_memory, check_stored

_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_ENCRYPTED, _DESCRIBED_LATER = 0x1, 0x8
_LOCAL = struct.Struct("<4sHHHHHLLLHH")
_END = struct.Struct("<4sHHHHLLH")
_BLOCK = 2**20
#: The header of an array has few hundred bytes; its members are looked at no further.
_LONGEST_HEADER = 2**16


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file by their names; nothing in it is executed."""
    if path.stat().st_size == 0:
        raise ParameterError(f"{path} is empty")
    with path.open("rb") as file:
        start = file.read(6)
        if start == b"\x93NUMPY":
            raise ParameterError(
                f"{path} holds a single array without a name; save it with numpy.savez, as in "
                "savez(file, loc=loc, scale=scale)"
            )
        if not start.startswith(b"PK"):
            raise ParameterError(
                f"{path} is not an .npz file; numpy.savez(file, loc=loc, scale=scale) makes one"
            )
        try:
            with zipfile.ZipFile(file) as archive:
                members = _checked_members(path, archive, file)
                return {name: _array(path, archive, one) for name, one in members.items()}
        except ParameterError:
            raise
        except (
            zipfile.BadZipFile,
            zipfile.LargeZipFile,
            zlib.error,
            struct.error,
            EOFError,
            KeyError,
            ValueError,
            OverflowError,
            NotImplementedError,
            RuntimeError,
            SyntaxError,
            OSError,
        ) as error:
            text = str(error) or type(error).__name__
            raise ParameterError(f"{path} is damaged or not an .npz file: {text}") from None


def _checked_members(
    path: Path, archive: zipfile.ZipFile, file: IO[bytes]
) -> dict[str, zipfile.ZipInfo]:
    """The members by the names of their arrays, once the archive agrees with itself."""
    listed = archive.infolist()
    members: dict[str, zipfile.ZipInfo] = {}
    for one in listed:
        if one.flag_bits & _ENCRYPTED:
            raise ParameterError(f"{path} is encrypted ({one.filename!r}); save it without")
        if one.compress_type not in _METHODS:
            raise ParameterError(
                f"{path}: {one.filename!r} is compressed by method {one.compress_type}, which "
                ".npz files do not use; numpy.savez_compressed makes one that can be read"
            )
        name = one.filename.removesuffix(".npy")
        if name in members:
            raise ParameterError(f"{path} holds {name!r} twice")
        members[name] = one
    claimed = sum(one.file_size for one in listed)
    check_stored(path, claimed, path.stat().st_size)
    check_memory(path, claimed)
    position = 0
    for one in sorted(listed, key=lambda one: one.header_offset):
        if one.header_offset != position:
            raise _disagrees(path, "its members overlap or leave gaps")
        position = _end_of_member(path, file, one)
    if position != archive.start_dir:
        raise _disagrees(path, "there are bytes that belong to no array")
    file.seek(-_END.size, io.SEEK_END)
    end = _END.unpack(file.read(_END.size))
    if end[0] == b"PK\5\6" and end[4] not in (len(listed), 0xFFFF):
        raise _disagrees(path, f"it lists {len(listed)} members and counts {end[4]}")
    return members


def _end_of_member(path: Path, file: IO[bytes], one: zipfile.ZipInfo) -> int:
    """Where a member ends; its own header has to say what the directory says about it."""
    file.seek(one.header_offset)
    mark, _, flags, method, _, _, crc, packed, size, name_length, extra_length = _LOCAL.unpack(
        file.read(_LOCAL.size)
    )
    name = file.read(name_length)
    extra = file.read(extra_length)
    encoding = "utf-8" if flags & 0x800 else "cp437"
    end = file.tell() + one.compress_size
    expected = (one.flag_bits, one.compress_type, one.orig_filename)
    if mark != b"PK\3\4" or (flags, method, name.decode(encoding)) != expected:
        raise _disagrees(path, f"{one.filename!r} is described in two ways")
    if flags & _DESCRIBED_LATER:  # written to a stream: sizes stand behind the data
        return end + _descriptor(file, end, one)
    if 0xFFFFFFFF in (packed, size):
        size, packed = _large_sizes(extra, size, packed)
    if (crc, packed, size) != (one.CRC, one.compress_size, one.file_size):
        raise _disagrees(path, f"{one.filename!r} has two sizes or checksums")
    return end


def _large_sizes(extra: bytes, size: int, packed: int) -> tuple[int, int]:
    """The sizes of a member in the extra field that large archives have."""
    while len(extra) >= 4:
        kind, length = struct.unpack("<HH", extra[:4])
        if kind == 1:
            numbers = iter(struct.unpack(f"<{length // 8}Q", extra[4 : 4 + length // 8 * 8]))
            size = next(numbers, size) if size == 0xFFFFFFFF else size
            packed = next(numbers, packed) if packed == 0xFFFFFFFF else packed
            break
        extra = extra[4 + length :]
    return size, packed


def _descriptor(file: IO[bytes], end: int, one: zipfile.ZipInfo) -> int:
    """The length of the sizes that stand behind the data of a member."""
    file.seek(end)
    descriptor = file.read(24)
    for form in ("<4sLLL", "<4sLQQ"):
        length = struct.calcsize(form)
        if len(descriptor) >= length and struct.unpack(form, descriptor[:length]) == (
            b"PK\7\x08", one.CRC, one.compress_size, one.file_size
        ):  # fmt: skip
            return length
    raise zipfile.BadZipFile(f"the sizes behind {one.filename!r} are not those of the directory")


def _disagrees(path: Path, why: str) -> ParameterError:
    return ParameterError(f"{path} is damaged: {why}")


def _array(path: Path, archive: zipfile.ZipFile, one: zipfile.ZipInfo) -> np.ndarray:
    """One array, all bytes of which were read, so that the archive has compared its checksum."""
    content = bytearray(one.file_size)
    filled = 0
    with archive.open(one) as member:
        while block := member.read(_BLOCK):
            content[filled : filled + len(block)] = block
            filled += len(block)
    if filled != one.file_size or len(content) != one.file_size:
        raise zipfile.BadZipFile(f"{one.filename!r} ends early")
    if not one.filename.endswith(".npy") or content[:6] != b"\x93NUMPY":
        return np.frombuffer(content, dtype="V1")  # no array: refused where it is asked for
    header = io.BytesIO(bytes(content[:_LONGEST_HEADER]))
    version = np.lib.format.read_magic(header)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ParameterError(f"{path}: {one.filename!r} has an unknown version {version}")
    shape, fortran, dtype = read(header)
    if dtype.hasobject:
        raise ParameterError(
            f"{path} holds Python objects (pickles), which could execute code and are not "
            "read; save plain arrays of numbers"
        )
    start = header.tell()
    size = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or size != len(content) - start:
        raise _disagrees(
            path,
            f"{one.filename!r} claims the shape {shape} of {dtype}, {size} bytes, and holds "
            f"{len(content) - start}",
        )
    array = np.ndarray(shape, dtype, content, start, order="F" if fortran else "C")
    array.flags.writeable = False
    return array
