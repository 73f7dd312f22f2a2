"""Files that claim, hide, execute or lead elsewhere: one line, exit code 2, nothing happens."""

from __future__ import annotations

import json
import os
import pickle
import resource
import struct
import zipfile
import zlib

import numpy as np
import pytest

from kuq.cli import main

pd = pytest.importorskip("pandas")
h5py = pytest.importorskip("h5py")
xr = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")

LOC, ONES = np.arange(12.0).reshape(3, 4), np.ones((3, 4))


class Bomb:
    """Leaves a trace if it is ever unpickled."""

    def __reduce__(self):
        return os.mkdir, ("exploded",)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def grid(**coords):
    return xr.Dataset({"t2m": (("member", "x"), LOC)}, coords=coords)


# Archives.


def header(descr, shape, fortran=False):
    text = repr({"descr": descr, "fortran_order": fortran, "shape": shape}).encode()
    text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def archive(path, members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as out:
        for name, content in members.items():
            out.writestr(name, content)


def with_mean(content):
    def make(path):
        np.savez(path, std=ONES)
        with zipfile.ZipFile(path, "a") as out:
            out.writestr("mean.npy", content)

    return make


def fewer_members(path):
    """One bit of the header of an array, with the checksum of the archive left as it was."""
    np.savez(path, predictions=np.arange(10.0).reshape(5, 2))
    data = bytearray(path.read_bytes())
    place = data.index(b"(5, 2)") + 1
    data[place] ^= 1
    path.write_bytes(bytes(data))


def broken_stream(path):
    np.savez_compressed(path, mean=LOC, std=ONES)
    data = bytearray(path.read_bytes())
    start = 30 + len("mean.npy") + struct.unpack("<H", data[28:30])[0]
    data[start : start + 12] = b"\xff" * 12
    path.write_bytes(bytes(data))


def patched(offset_of, change):
    """A change in the local header and in the directory of the first member."""

    def make(path):
        np.savez(path, mean=LOC, std=ONES)
        data = bytearray(path.read_bytes())
        for mark, shift in ((b"PK\3\4", 0), (b"PK\1\2", 2)):
            change(data, data.index(mark) + offset_of + shift)
        path.write_bytes(bytes(data))

    return make


def set_bits(bits):
    def change(data, place):
        data[place] |= bits

    return change


def set_method(data, place):
    data[place : place + 2] = struct.pack("<H", 97)


def zip_bomb(path):
    """8 GiB of zeros in 8 MiB, made block by block."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = header("<f8", (2, 2**29))
    crc, packed = zlib.crc32(start), [packer.compress(start)]
    size = len(start) + 2**33
    block = bytes(2**20)
    one = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    body = b"".join([*packed, one, again * 8191, packer.flush()])
    name = b"predictions.npy"
    extra = struct.pack("<HHQQ", 1, 16, size, len(body))
    most = 0xFFFFFFFF
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 45, 0, 8, 0, 0, crc, most, most, 15, 20)
    entry = struct.pack(
        "<4s6H3L5H2L", b"PK\1\2", 45, 45, 0, 8, 0, 0, crc, most, most, 15, 20, 0, 0, 0, 0, 0
    )
    front = local + name + extra + body
    directory = entry + name + extra
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(directory), len(front), 0)
    path.write_bytes(front + directory + end)


def swallowed(path):
    """A directory in which the last entry is taken for a comment of the one before."""
    np.savez(path, mean=LOC, std=ONES, member_weights=np.array([1.0, 2.0, 5.0]))
    data = bytearray(path.read_bytes())
    second = data.index(b"PK\1\2", data.index(b"PK\1\2") + 4)
    third = data.index(b"PK\1\2", second + 4)
    end = data.index(b"PK\5\6")
    data[second + 32 : second + 34] = struct.pack("<H", end - third)
    path.write_bytes(bytes(data))


def twice(path):
    """The same array under its two names, of which NumPy shows one."""
    contents = {"std.npy": ONES, "mean": LOC, "mean.npy": 2 * LOC}
    archive(path, {name: header("<f8", (3, 4)) + a.tobytes() for name, a in contents.items()})


def sparse(path):
    """A header that claims 90 TiB, in a file that claims it, too, but does not hold it."""
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("mean.npy", header("<f8", (3, 2**42 // 3 * 3)) + b"0" * 100)
        out.writestr("std.npy", header("<f8", (3, 4)) + ONES.tobytes())


ARCHIVES = {
    "a flipped bit": (fewer_members, "CRC|damaged"),
    "zlib": (broken_stream, "damaged"),
    "encrypted": (patched(6, set_bits(1)), "encrypted"),
    "unknown method": (patched(8, set_method), "method 97"),
    "zip bomb": (zip_bomb, "8 GiB"),
    "swallowed entry": (swallowed, "damaged"),
    "twice": (twice, "twice"),
    "90 TiB": (sparse, "claims the shape"),
    "negative shape": (with_mean(header("<f8", (-3, -4)) + LOC.tobytes()), "claims the shape"),
    "words for a shape": (with_mean(header("<f8", ("a",)) + LOC.tobytes()), "damaged"),
    "more than it claims": (with_mean(header("<f8", (3, 4)) + bytes(104)), "claims the shape"),
    "no dtype": (with_mean(header("nonsense", (3, 4)) + LOC.tobytes()), "damaged"),
    "code for a header": (
        with_mean(b"\x93NUMPY\x01\x00\x40\x00" + b"__import__('os').mkdir('exploded')".ljust(64)),
        "damaged",
    ),
    "version 9": (with_mean(b"\x93NUMPY\x09\x00" + bytes(90)), "version|damaged"),
    "objects": (with_mean(header("|O", (1,)) + pickle.dumps([Bomb()])), "execute code"),
    "records with objects": (with_mean(header([("a", "|O")], (1,)) + bytes(8)), "execute code"),
    "bare pickle inside": (with_mean(pickle.dumps(Bomb())), "real numbers"),
    "something before": (
        lambda p: (np.savez(p, mean=LOC, std=ONES), p.write_bytes(b"PKPK" + p.read_bytes())),
        "damaged",
    ),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives(name, folder, capsys):
    make, words = ARCHIVES[name]
    make(folder / "p.npz")
    refused(folder, capsys, "p.npz", words)


def refused(folder, capsys, name, words):
    before = sorted(p.name for p in folder.iterdir())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert main(["decompose", name, "--report", "r.html"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("kuq: error: ")
    assert err.count("\n") == 1
    assert "uncertainty" not in err  # the output is not to blame
    assert any(word in err for word in words.split("|")), err
    assert sorted(p.name for p in folder.iterdir()) == before  # nothing written, nothing executed
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    assert grown < 300_000  # KiB: what is claimed was never allocated


def test_archives_written_to_a_stream_are_read(folder, capsys):
    class Stream:  # cannot be sought in: sizes stand behind the data
        def __init__(self, file):
            self.write, self.flush = file.write, file.flush

    with open("p.npz", "wb") as file, zipfile.ZipFile(Stream(file), "w", 8) as out:
        for name, array in (("mean", LOC), ("std", ONES)):
            with out.open(f"{name}.npy", "w", force_zip64=name == "mean") as member:
                member.write(header("<f8", (3, 4)) + array.tobytes())
    assert main(["decompose", "p.npz"]) == 0


# Tables.


def million_columns(path):
    with path.open("w") as out:
        out.write(",".join(f"mean_{m},std_{m}" for m in range(500_000)) + "\n")
        out.write(",".join(["1"] * 1_000_000) + "\n")


TABLES = {
    "p.csv": (million_columns, "1000000 columns"),
    "one.csv": (lambda p: p.write_text("a" * 200_000 + "\n1\n"), "field larger|numbered"),
    "pk.csv": (lambda p: p.write_bytes(b"PK\3\4" + bytes(100)), "spreadsheet"),
    "digits.csv": (lambda p: p.write_text(f"mean_{'9' * 5000},std_0\n1,2\n"), "std_0"),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(name, folder, capsys):
    make, words = TABLES[name]
    make(folder / name)
    refused(folder, capsys, name, words)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz", ".nc", ".zarr"])
def test_sizes_beyond_memory_are_refused_before_they_are_read(suffix, folder, capsys, monkeypatch):
    from kuq.files import claims

    table = pd.DataFrame(
        {f"member_{m}": np.random.default_rng(0).normal(size=2000) for m in (0, 1)}
    )
    if suffix == ".csv":
        table.to_csv("p.csv", index=False)
    elif suffix == ".parquet":
        table.to_parquet("p.parquet")
    elif suffix == ".npz":
        np.savez("p.npz", predictions=table.to_numpy().T)
    else:
        data = xr.Dataset({"t2m": (("member", "sample"), table.to_numpy().T)})
        data.to_zarr("p.zarr", consolidated=False) if suffix == ".zarr" else data.to_netcdf("p.nc")
    monkeypatch.setattr(claims, "memory", lambda: 40_000)
    refused(folder, capsys, f"p{suffix}", "memory")


def test_arrays_that_broadcast_beyond_memory(folder, capsys):
    np.savez("p.npz", mean=np.zeros((2, 10**6, 1)), std=np.ones((2, 1, 10**6)))
    refused(folder, capsys, "p.npz", "memory")


# NetCDF.


def external_link(path):
    with h5py.File("other.h5", "w") as other:
        other["t2m"] = LOC
    with h5py.File(path, "w") as file:
        file["t2m"] = h5py.ExternalLink("other.h5", "t2m")


def link_through_a_group(path):
    external_link(path)
    with h5py.File(path, "w") as file:
        file.create_group("a/b")["c"] = h5py.ExternalLink("other.h5", "t2m")
        file["t2m"] = h5py.SoftLink("/a/b/c")


def external_storage(path):
    (path.parent / "secret.bin").write_bytes(LOC.tobytes())
    grid().to_netcdf(path, engine="h5netcdf")
    with h5py.File(path, "a") as file:
        del file["t2m"]
        file.create_dataset("t2m", (3, 4), "f8", external=[("secret.bin", 0, 96)])
        for place, name in enumerate(("member", "x")):
            if name in file:
                file["t2m"].dims[place].attach_scale(file[name])


def virtual_dataset(path):
    with h5py.File("other.h5", "w") as other:
        other["t2m"] = LOC
    layout = h5py.VirtualLayout((3, 4), "f8")
    layout[:] = h5py.VirtualSource("other.h5", "t2m", (3, 4))
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("t2m", layout)


def dangling(path):
    grid().to_netcdf(path, engine="h5netcdf")
    with h5py.File(path, "a") as file:
        file["std"] = h5py.SoftLink("/nowhere")


def unstored(path):
    """Terabytes that are not there."""
    with h5py.File(path, "w") as file:
        data = file.create_dataset("t2m", (100, 2**20, 2**20), "f8", chunks=(1, 64, 64))
        for place, name in enumerate(("member", "y", "x")):
            scale = file.create_dataset(
                name, (data.shape[place],), "i1", chunks=(1024 if place else 10,)
            )
            scale.make_scale(name)
            data.dims[place].attach_scale(scale)


def overfull(path):
    """1 GiB in the place of 96 bytes."""
    encoding = {"t2m": {"zlib": True, "chunksizes": (3, 4)}}
    grid().to_netcdf(path, engine="h5netcdf", encoding=encoding)
    with h5py.File(path, "a") as file:
        file["t2m"].id.write_direct_chunk((0, 0), gigabyte())


def one_huge_chunk(path):
    """A few bytes that become gigabytes as soon as one of them is read."""
    with h5py.File(path, "w") as file:
        shape = {"maxshape": (3, None), "chunks": (3, 2**26), "compression": "gzip"}
        file.create_dataset("t2m", (3, 4), "f8", **shape)


def many_rows(path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    values = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2**22, np.int32)), pa.array([1.0]))
    table = pa.table({f"member_{m}": values for m in range(40)})
    pq.write_table(table, path)


def test_rows_that_a_table_does_not_hold(folder, capsys):
    many_rows(folder / "p.parquet")
    assert (folder / "p.parquet").stat().st_size < 2**20
    refused(folder, capsys, "p.parquet", "claim")


def without_names(path):
    with h5py.File(path, "w") as file:
        file["t2m"] = LOC


def strings(path):
    with h5py.File(path, "w") as file:
        file["t2m"] = np.array([["a", "b"]], dtype=h5py.string_dtype())


def ragged(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("t2m", (3,), h5py.vlen_dtype("f8"))


def damaged_chunk(path):
    encoding = {"t2m": {"zlib": True, "chunksizes": (3, 4)}}
    grid().to_netcdf(path, engine="h5netcdf", encoding=encoding)
    with h5py.File(path) as file:
        chunk = file["t2m"].id.get_chunk_info(0)
    data = bytearray(path.read_bytes())
    data[chunk.byte_offset + 2 : chunk.byte_offset + 12] = b"\xff" * 10
    path.write_bytes(bytes(data))


def fletcher(path):
    encoding = {"t2m": {"fletcher32": True, "chunksizes": (3, 4)}}
    grid().to_netcdf(path, engine="h5netcdf", encoding=encoding)
    with h5py.File(path) as file:
        chunk = file["t2m"].id.get_chunk_info(0)
    data = bytearray(path.read_bytes())
    data[chunk.byte_offset + 6] ^= 1
    path.write_bytes(bytes(data))


def truncated_classic(path):
    grid().to_netcdf(path, engine="scipy", format="NETCDF3_64BIT")
    path.write_bytes(path.read_bytes()[:-20])


FILES = {
    "external link": (external_link, "another file"),
    "external link behind a soft one": (link_through_a_group, "another file"),
    "external storage": (external_storage, "another file"),
    "virtual dataset": (virtual_dataset, "another file"),
    "dangling soft link": (dangling, "cannot be read|no prediction"),
    "unstored terabytes": (unstored, "claim"),
    "one huge chunk": (one_huge_chunk, "claim"),
    "an overfull chunk": (overfull, "stores"),
    "no names of dimensions": (without_names, "member"),
    "strings": (strings, "real numbers|cannot be read"),
    "ragged": (ragged, "real numbers|cannot be read"),
    "damaged chunk": (damaged_chunk, "p.nc cannot be read"),
    "checksum": (fletcher, "p.nc cannot be read"),
    "truncated classic": (truncated_classic, "cannot be read"),
    "classic 5": (lambda p: p.write_bytes(b"CDF\5" + bytes(60)), "nccopy"),
    "one byte": (lambda p: p.write_bytes(b"C"), "not NetCDF"),
}


@pytest.mark.parametrize("name", FILES)
def test_netcdf(name, folder, capsys):
    make, words = FILES[name]
    make(folder / "p.nc")
    refused(folder, capsys, "p.nc", words)


def test_a_virtual_dataset_of_its_own_file_is_read(folder):
    values = np.random.default_rng(0).normal(size=(3, 4))
    with h5py.File("p.nc", "w") as file:
        for place, name in enumerate(("member", "x")):
            file.create_dataset(name, data=np.arange(values.shape[place])).make_scale(name)
        file.create_group("raw")["t"] = values
        layout = h5py.VirtualLayout((3, 4), "f8")
        layout[:] = h5py.VirtualSource(".", "raw/t", (3, 4))
        data = file.create_virtual_dataset("t2m", layout)
        for place, name in enumerate(("member", "x")):
            data.dims[place].attach_scale(file[name])
    assert main(["decompose", "p.nc"]) == 0


# Zarr.


def store(version, **coords):
    return lambda path: grid(**coords).to_zarr(path, zarr_format=version, consolidated=False)


def pickled_coordinate(path, consolidated=False, nested=None):
    """Version 2: an array of objects with a filter that unpickles."""
    import numcodecs

    data = grid(x=np.arange(4))
    data.to_zarr(path, zarr_format=2, consolidated=False)
    about = json.loads((path / "x" / ".zarray").read_text())
    about |= {"dtype": "|O", "filters": [{"id": "pickle", "protocol": 5}], "fill_value": None}
    about["compressor"] = None
    (path / "x" / ".zarray").write_text(json.dumps(about))
    content = numcodecs.Pickle().encode(np.array([Bomb()] * 4, dtype=object))
    (path / "x" / "0").write_bytes(bytes(content))
    if consolidated:
        every = {
            p.relative_to(path).as_posix(): json.loads(p.read_text())
            for p in path.rglob(".z*")
            if p.name != ".zmetadata"
        }
        (path / ".zmetadata").write_text(
            json.dumps({"zarr_consolidated_format": 1, "metadata": every})
        )


def only_consolidated(path):
    """The description of the array stands in the consolidated metadata alone."""
    pickled_coordinate(path, consolidated=True)
    about = json.loads((path / "x" / ".zarray").read_text())
    about |= {"dtype": "<i8", "filters": None}
    (path / "x" / ".zarray").write_text(json.dumps(about))


def numbers_that_unpickle(path):
    """A filter that unpickles in front of plain numbers."""
    pickled_coordinate(path)
    about = json.loads((path / "x" / ".zarray").read_text())
    (path / "x" / ".zarray").write_text(json.dumps(about | {"dtype": "<i8"}))


def text_that_unpickles(path):
    pickled_coordinate(path)
    about = json.loads((path / "x" / ".zarray").read_text())
    about["filters"].insert(0, {"id": "vlen-utf8"})
    (path / "x" / ".zarray").write_text(json.dumps(about))


def as_a_compressor(path):
    pickled_coordinate(path)
    about = json.loads((path / "x" / ".zarray").read_text())
    about |= {"dtype": "<i8", "filters": None, "compressor": {"id": "pickle", "protocol": 5}}
    (path / "x" / ".zarray").write_text(json.dumps(about))


def with_codec(name, settings=None):
    """Version 3: a codec by its name."""

    def make(path):
        grid(x=np.arange(4)).to_zarr(path, zarr_format=3, consolidated=False)
        about = json.loads((path / "x" / "zarr.json").read_text())
        about["codecs"].insert(1, {"name": name, "configuration": settings or {}})
        (path / "x" / "zarr.json").write_text(json.dumps(about))
        (path / "x" / "c" / "0").write_bytes(pickle.dumps(Bomb()))

    return make


def changed(**values):
    def make(path):
        grid(x=np.arange(4)).to_zarr(path, zarr_format=3, consolidated=False)
        about = json.loads((path / "t2m" / "zarr.json").read_text())
        (path / "t2m" / "zarr.json").write_text(json.dumps(about | values))

    return make


def changed_2(**values):
    def make(path):
        grid(x=np.arange(4)).to_zarr(path, zarr_format=2, consolidated=False)
        about = json.loads((path / "t2m" / ".zarray").read_text())
        (path / "t2m" / ".zarray").write_text(json.dumps(about | values))

    return make


def overfull_chunk(path):
    """1 GiB in the place of 96 bytes."""
    grid().to_zarr(path, zarr_format=2, consolidated=False)
    about = json.loads((path / "t2m" / ".zarray").read_text())
    about["compressor"] = {"id": "zlib", "level": 9}
    (path / "t2m" / ".zarray").write_text(json.dumps(about))
    (path / "t2m" / "0.0").write_bytes(gigabyte())


def gigabyte():
    packer = zlib.compressobj(9)
    return b"".join([packer.compress(bytes(2**24)) for _ in range(64)] + [packer.flush()])


def linked(path):
    grid().to_zarr(path, zarr_format=3, consolidated=False)
    chunk = path / "t2m" / "c" / "0" / "0"
    (path.parent / "secret").write_bytes(chunk.read_bytes())
    chunk.unlink()
    chunk.symlink_to(path.parent / "secret")


def piped(path):
    grid().to_zarr(path, zarr_format=3, consolidated=False)
    os.mkfifo(path / "t2m" / "c" / "0" / "1")


def deep(path):
    path.mkdir()
    (path / "zarr.json").write_text("[" * 100_000)


def damaged_chunks(path):
    grid().to_zarr(path, zarr_format=3, consolidated=False)
    (path / "t2m" / "c" / "0" / "0").write_bytes(b"broken")


SHARDS = {
    "chunk_shape": [2],
    "codecs": [{"name": "bytes"}, {"name": "numcodecs.pickle"}],
    "index_codecs": [{"name": "bytes"}],
}
STORES = {
    "pickles": (pickled_coordinate, "Python objects"),
    "consolidated": (lambda p: pickled_coordinate(p, consolidated=True), "Python objects"),
    "only consolidated": (only_consolidated, "Python objects"),
    "a filter of numbers": (numbers_that_unpickle, "'pickle'"),
    "behind text": (text_that_unpickles, "'pickle'"),
    "a compressor": (as_a_compressor, "'pickle'"),
    "version 3": (with_codec("numcodecs.pickle"), "'pickle'"),
    "version 3, other name": (with_codec("pickle"), "'pickle'"),
    "in shards": (with_codec("sharding_indexed", SHARDS), "'pickle'"),
    "json objects": (with_codec("numcodecs.json2"), "'json2'"),
    "objects by a cast": (
        with_codec("numcodecs.astype", {"encode_dtype": "<i8", "decode_dtype": "|O"}),
        "'|O'",
    ),
    "objects of version 2": (changed_2(dtype="|O"), "Python objects"),
    "records": (changed_2(dtype=[["a", "|O"]]), "type"),
    "records of version 3": (changed(data_type={"name": "structured"}), "structured"),
    "own type": (changed(data_type={"name": "os.system"}), "os.system"),
    "transformers": (changed(storage_transformers=[{"name": "x"}]), "transformers"),
    "negative shape": (changed(shape=[-3, 4]), "shape"),
    "terabytes": (changed(shape=[3, 2**45]), "claim"),
    "terabytes of version 2": (changed_2(shape=[3, 2**45]), "claim"),
    "a shape of words": (changed(shape="34"), "shape"),
    "no chunks": (changed_2(chunks=[0, 4]), "chunks"),
    "one huge chunk": (changed_2(chunks=[3, 2**28]), "claim"),
    "an overfull chunk": (overfull_chunk, "stores"),
    "links": (linked, "link"),
    "pipes": (piped, "link or device"),
    "deep": (deep, "damaged"),
    "damaged": (damaged_chunks, "p.zarr cannot be read"),
    "a file": (lambda p: p.write_text("hello"), "folder"),
}


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("name", STORES)
def test_stores(name, guarded, folder, capsys, monkeypatch):
    """Whether the guard of numcodecs stands or not, kuq's own comes first."""
    pickles = pytest.importorskip("numcodecs.pickles")
    monkeypatch.setattr(pickles, "ALLOW_UNSAFE_PICKLE_DECODE", not guarded, raising=False)
    make, words = STORES[name]
    make(folder / "p.zarr")
    refused(folder, capsys, "p.zarr", words)


def test_the_pickles_are_live(folder, monkeypatch):
    """Without any check these stores do execute code: the trials above try something."""
    pickles = pytest.importorskip("numcodecs.pickles")
    monkeypatch.setattr(pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    text_that_unpickles(folder / "p.zarr")
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever it makes is no coordinate
        xr.open_zarr("p.zarr", consolidated=False, chunks=None).load()
    assert (folder / "exploded").is_dir()


@pytest.mark.parametrize("version", [2, 3])
def test_text_and_usual_codecs_are_read(version, folder):
    """What xarray itself writes: strings, times, compression of every kind."""
    from warnings import catch_warnings, simplefilter

    import numcodecs

    coords = {"x": np.array(["a", "bb", "c", "Köln"], dtype=object), "flag": ("x", [True] * 4)}
    data = grid(**coords)
    encoding = {}
    if version == 2:
        filters = [numcodecs.Delta("<f8"), numcodecs.Shuffle(8)]
        encoding = {"t2m": {"filters": filters, "compressors": numcodecs.Zlib()}}
    with catch_warnings():
        simplefilter("ignore")
        data.to_zarr("p.zarr", zarr_format=version, encoding=encoding, consolidated=True)
    assert main(["decompose", "p.zarr"]) == 0
    with xr.open_zarr("p-uncertainty.zarr", consolidated=False, chunks=None) as written:
        assert written["x"].values.tolist() == ["a", "bb", "c", "Köln"]


def test_memory_that_runs_out_is_said_in_one_line(folder, capsys, monkeypatch):
    from kuq.files import decompose

    def greedy(*args, **options):
        raise MemoryError

    np.savez("p.npz", predictions=LOC)
    monkeypatch.setattr(decompose, "decompose_stored", greedy)
    refused(folder, capsys, "p.npz", "memory")


@pytest.mark.parametrize("where", ["t2m", "x"])
@pytest.mark.parametrize("value", [np.True_, np.bytes_(b"\xff\xfe"), 1 + 2j])
def test_attributes_that_cannot_be_written_are_left_out(where, value, folder, capsys):
    grid(x=np.arange(4)).to_netcdf("p.nc", engine="h5netcdf")
    with h5py.File("p.nc", "a") as file:
        file[where].attrs["units"] = value
        file[where].attrs["long_name"] = "kept"
    assert main(["decompose", "p.nc"]) == 0
    with xr.open_dataset("p-uncertainty.nc", engine="h5netcdf") as written:
        assert "units" not in written["x"].attrs
        if where == "x":
            assert written["x"].attrs["long_name"] == "kept"


@pytest.mark.parametrize(
    ("kind", "note"),
    [
        (h5py.vlen_dtype("f8"), "note: 'aux' has values of different lengths and is left out"),
        (np.dtype([("a", "f8")]), "note: the coordinate 'aux' holds no numbers"),
    ],
)
def test_coordinates_that_cannot_be_written_are_told(kind, note, folder, capsys):
    """Lists of different lengths ended in an error of xarray where cftime is installed."""
    grid(x=np.arange(4)).to_netcdf("p.nc", engine="h5netcdf")
    with h5py.File("p.nc", "a") as file:
        aux = file.create_dataset("aux", (4,), kind)
        aux.dims[0].attach_scale(file["x"])
        file["t2m"].attrs["coordinates"] = "aux"
    assert main(["decompose", "p.nc"]) == 0
    assert note in capsys.readouterr().out


def test_names_do_not_reach_the_terminal_as_they_are(folder, capsys):
    """Sequences that clear the screen or set its title are shown, not obeyed."""
    hostile = "\x1b[2J\x1b]0;title\x07"
    xr.Dataset({"t2m": (("member", f"x{hostile}"), LOC)}).to_netcdf("p.nc", engine="h5netcdf")
    assert main(["decompose", "p.nc"]) == 0
    assert main(["decompose", "p.nc", "--event", hostile]) == 2
    (folder / "p.zarr" / hostile.replace("/", "")).mkdir(parents=True)
    (folder / "p.zarr" / hostile.replace("/", "") / ".zarray").write_text("{")
    assert main(["decompose", "p.zarr"]) == 2
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err


def test_long_names_take_no_time(folder, capsys):
    names = [f"member_0_{'a' * 100_000}!", "member_0", "member_1"]
    (folder / "p.csv").write_text(",".join(names) + "\n1,2,3\n")
    assert main(["decompose", "p.csv"]) == 0
