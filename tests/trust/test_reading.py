"""Damaged files by the hundred, through the real command: refused in one line, or read rightly.

Trial i is seeded by i, so that a failure is repeated by its number. ``.npz`` archives have a
checksum of every byte, so that damage there never gives other numbers; CSV, NetCDF and Zarr have
none of their own, and there a trial asks for no more than a clear end.
"""

from __future__ import annotations

import copy
import json
import shutil
import warnings

import numpy as np
import pytest

from kuq.cli import main

pd = pytest.importorskip("pandas")
xr = pytest.importorskip("xarray")
pytest.importorskip("pyarrow")
pytest.importorskip("h5netcdf")
pytest.importorskip("zarr")

PARTS = ("total", "aleatoric", "epistemic")
SCORES = ("crps", "squared", "gaussian:1", "energy")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Trial:
    """One call of the command: its exit code, what it said, and what it left behind."""

    def __init__(self, folder, capsys, name, *options):
        before = {p.name for p in folder.iterdir()}
        with warnings.catch_warnings():  # of numbers that overflow, which damaged files may hold
            warnings.simplefilter("ignore")
            self.code = main(["decompose", name, *options])
        self.out, self.err = capsys.readouterr()
        self.new = {p.name for p in folder.iterdir()} - before

    def check(self, out):
        """It ended well or in one line, and left its output or nothing."""
        assert self.code in (0, 2), self.err
        assert "Traceback" not in self.err
        if self.code == 2:
            assert self.err.startswith("kuq: error: "), self.err
            assert self.err.count("\n") == 1, self.err
            assert "cannot be written" not in self.err, self.err
            assert self.new == set()
        else:
            assert self.new == {out}


def ensemble(rng):
    members, inputs = int(rng.integers(2, 6)), int(rng.integers(1, 9))
    loc = rng.normal(size=(members, inputs)) * 10.0 ** rng.integers(-2, 3)
    return loc, rng.uniform(0.1, 2.0, size=(members, inputs))


def write_npz(path, rng):
    loc, scale = ensemble(rng)
    arrays = {"mean": loc, "std": scale}
    if rng.random() < 0.3:
        arrays["member_weights"] = rng.uniform(0.5, 2.0, len(loc))
    if rng.random() < 0.3:
        arrays = {"samples": rng.normal(size=(*loc.shape, 4))}
    kind = rng.choice(["<f8", "<f4", ">f8", "<f2"])
    arrays = {name: array.astype(kind) for name, array in arrays.items()}
    if rng.random() < 0.2:
        arrays = {name: np.asfortranarray(array) for name, array in arrays.items()}
    save = np.savez if rng.random() < 0.5 else np.savez_compressed
    save(path, **arrays)


def table(rng):
    loc, scale = ensemble(rng)
    members, inputs = loc.shape
    if rng.random() < 0.5:
        columns = {"place": [f"town {i}" for i in range(inputs)]}
        for m in range(members):
            columns |= {f"mean_{m}": loc[m], f"std_{m}": scale[m]}
        return pd.DataFrame(columns)
    rows = [
        {"x": i, "member": f"m{m}", "mean": loc[m, i], "std": scale[m, i]}
        for i in range(inputs)
        for m in range(members)
    ]
    return pd.DataFrame(rows)


def write_csv(path, rng):
    table(rng).to_csv(path, index=False)


def write_parquet(path, rng):
    table(rng).to_parquet(path, write_page_checksum=bool(rng.random() < 0.5))


def grid(rng):
    loc, scale = ensemble(rng)
    coords = {"x": np.arange(loc.shape[1]) * 0.5, "height": 2.0}
    if rng.random() < 0.5:
        return xr.Dataset({"t2m": (("member", "x"), loc)}, coords)
    return xr.Dataset({"mean": (("member", "x"), loc), "std": (("member", "x"), scale)}, coords)


def write_nc(path, rng):
    data = grid(rng)
    if rng.random() < 0.3:
        data.to_netcdf(path, engine="scipy", format="NETCDF3_64BIT")
        return
    packed = {"zlib": True} if rng.random() < 0.5 else {}
    data.to_netcdf(path, engine="h5netcdf", encoding=dict.fromkeys(data.data_vars, packed))


def write_zarr(path, rng):
    data = grid(rng).chunk(x=2)
    data.to_zarr(path, zarr_format=int(rng.choice([2, 3])), consolidated=False)


WRITERS = {
    ".npz": write_npz,
    ".csv": write_csv,
    ".parquet": write_parquet,
    ".nc": write_nc,
    ".zarr": write_zarr,
}
STARTS = (
    b"PK\3\4",
    b"\x93NUMPY",
    b"\x89HDF\r\n\x1a\n",
    b"CDF\1",
    b"CDF\2",
    b"PAR1",
    b"\xff\xfe",
    b"",
)


def truncated(data, rng):
    return data[: int(rng.integers(0, len(data)))]


def flipped(data, rng):
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 9))):
        changed[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def overwritten(data, rng):
    start = int(rng.integers(len(data)))
    length = int(rng.integers(1, 64))
    fill = rng.bytes(length) if rng.random() < 0.5 else b"\x00" * length
    return data[:start] + fill + data[start + length :]


def cut_out(data, rng):
    start = int(rng.integers(len(data)))
    return data[:start] + data[start + int(rng.integers(1, 64)) :]


def inserted(data, rng):
    start = int(rng.integers(len(data)))
    return data[:start] + rng.bytes(int(rng.integers(1, 64))) + data[start:]


def wrong_start(data, rng):
    start = STARTS[int(rng.integers(len(STARTS)))]
    return start + data[len(start) :] if rng.random() < 0.5 else start + data


def noise(data, rng):
    start = STARTS[int(rng.integers(len(STARTS)))]
    return start + rng.bytes(int(rng.integers(0, 400)))


def repeated(data, rng):
    start = int(rng.integers(len(data)))
    return data[:start] + data


DAMAGES = (truncated, flipped, overwritten, cut_out, inserted, wrong_start, noise, repeated)


def damage(path, rng):
    """Damage a file, or one file of a store; whether it differs from what it was."""
    file = path
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file())
        file = files[int(rng.integers(len(files)))]
        if rng.random() < 0.1:
            file.unlink()
            return
    data = file.read_bytes()
    file.write_bytes(DAMAGES[int(rng.integers(len(DAMAGES)))](data, rng) if data else b"x")


def odd(path, rng):
    """A sound file of the kind with contents that are no prediction, or only just one."""
    shape = [(2, 3), (0,), (), (1, 3), (2, 0), (2, 3, 1), (3,)][int(rng.integers(7))]
    kinds = ["f8", "i8", "?", "c16", "U3", "S2", "M8[s]", "m8[s]", "f2", "u1", "O"]
    kind = kinds[int(rng.integers(len(kinds)))]
    values = np.zeros(shape, dtype=kind) if kind != "O" else np.full(shape, "a", dtype=object)
    if kind == "f8" and values.size:
        odd_numbers = [np.nan, np.inf, -np.inf, 1e308, 5e-324, -1.0]
        values.flat[0] = odd_numbers[int(rng.integers(len(odd_numbers)))]
    usual = ["mean", "std", "samples", "predictions", "weights", "df", "nu", "x", "total", "member"]
    names = [str(name) for name in rng.choice(usual, size=int(rng.integers(1, 4)), replace=False)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if path.suffix == ".npz":
            np.savez(path, **dict.fromkeys(names, values if kind != "O" else values.astype("U1")))
        elif path.suffix in (".csv", ".parquet"):
            flat = np.ravel(values)
            numbered = rng.random() < 0.5
            columns = {f"{n}_{m}" if numbered else n: flat for n in names for m in (0, 1)}
            frame = pd.DataFrame(columns)
            if path.suffix == ".csv":
                frame.to_csv(path, index=bool(rng.random() < 0.3))
            else:
                frame = frame.astype(str) if kind in ("c16", "m8[s]") else frame
                frame.to_parquet(path)
        else:
            dims = ("member", "x", "total")[: values.ndim]
            data = xr.Dataset({name: (dims, values) for name in names if name not in dims})
            write_odd_grid(path, data, kind, rng)


def write_odd_grid(path, data, kind, rng):
    if path.suffix == ".zarr":
        data.to_zarr(path, zarr_format=int(rng.choice([2, 3])), consolidated=False)
        return
    if kind == "c16" or not data.data_vars:
        data = xr.Dataset({"t2m": ((), 1.0)})
    data.to_netcdf(path, engine="h5netcdf")


def removed(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def numbers(path):
    with np.load(path) as stored:
        return {part: stored[part] for part in PARTS}


@pytest.mark.parametrize("suffix", WRITERS)
def test_fuzzed_files(suffix, folder, capsys, trials):
    """180 of each kind: an exit code of 0 or 2, one line, nothing left beside the input."""
    name, out = f"p{suffix}", f"p-uncertainty{suffix}"
    refused = 0
    for i in range(trials(180)):
        rng = np.random.default_rng(i)
        options = ["--score", SCORES[i % len(SCORES)]]
        if i % 6 == 5:
            odd(folder / name, rng)
        else:
            WRITERS[suffix](folder / name, rng)
            sound = Trial(folder, capsys, name, *options)
            assert sound.code == 0, (i, sound.err)
            expected = numbers(folder / out) if suffix == ".npz" else None
            removed(folder / out)
            damage(folder / name, rng)
        trial = Trial(folder, capsys, name, *options)
        try:
            trial.check(out)
            if trial.code == 0 and suffix == ".npz" and i % 6 != 5:
                found = numbers(folder / out)
                for part in PARTS:
                    np.testing.assert_array_equal(found[part], expected[part])
        except AssertionError as error:
            raise AssertionError(f"trial {i}: {error}") from error
        refused += trial.code == 2
        removed(folder / name)
        removed(folder / out)
    assert refused > 0


def test_flipped_bits_in_archives(folder, capsys, trials):
    """700 bits, one at a time: refused, or the very same numbers."""
    refused = 0
    for i in range(trials(700)):
        rng = np.random.default_rng(i)
        write_npz(folder / "p.npz", rng)
        assert main(["decompose", "p.npz", "--out", "expected.npz"]) == 0
        data = bytearray((folder / "p.npz").read_bytes())
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        (folder / "p.npz").write_bytes(bytes(data))
        expected = numbers(folder / "expected.npz")
        capsys.readouterr()
        trial = Trial(folder, capsys, "p.npz")
        trial.check("p-uncertainty.npz")
        refused += trial.code == 2
        if trial.code == 0:
            found = numbers(folder / "p-uncertainty.npz")
            for part in PARTS:
                np.testing.assert_array_equal(found[part], expected[part], err_msg=f"trial {i}")
            (folder / "p-uncertainty.npz").unlink()
    assert refused > 0.5 * trials(700)  # most bytes of an archive carry numbers


def test_bits_of_the_frame_of_an_archive(folder, capsys, trials):
    """A small archive is mostly headers, where a bit may hide an array instead of changing it."""
    arrays = {"mean": np.arange(6.0).reshape(3, 2), "std": np.ones((3, 2))}
    np.savez("p.npz", **arrays, member_weights=np.array([1.0, 2.0, 5.0]))
    assert main(["decompose", "p.npz", "--out", "expected.npz"]) == 0
    capsys.readouterr()
    expected = numbers(folder / "expected.npz")
    sound = (folder / "p.npz").read_bytes()
    bits = np.random.default_rng(0).permutation(8 * len(sound))[: trials(2000)]
    for bit in bits.tolist():
        data = bytearray(sound)
        data[bit // 8] ^= 1 << bit % 8
        (folder / "p.npz").write_bytes(bytes(data))
        trial = Trial(folder, capsys, "p.npz")
        trial.check("p-uncertainty.npz")
        if trial.code == 0:
            found = numbers(folder / "p-uncertainty.npz")
            for part in PARTS:
                np.testing.assert_array_equal(found[part], expected[part], err_msg=f"bit {bit}")
            (folder / "p-uncertainty.npz").unlink()


def test_fuzzed_metadata_of_stores(folder, capsys, trials):
    """Values in the JSON of a store replaced by others that JSON allows."""
    others = [None, True, -1, 0, 2**63, 10**30, 1.5, "", "x", [], {}, [[]], "NaN", [1, -1], "|O"]
    for i in range(trials(300)):
        rng = np.random.default_rng(i)
        write_zarr(folder / "p.zarr", rng)
        files = sorted(p for p in (folder / "p.zarr").rglob("*") if p.name[:2] in (".z", "za"))
        file = files[int(rng.integers(len(files)))]
        content = json.loads(file.read_text())
        for _ in range(int(rng.integers(1, 3))):
            place = content
            while True:
                keys = list(place) if isinstance(place, dict) else list(range(len(place)))
                if not keys:
                    break
                key = keys[int(rng.integers(len(keys)))]
                if isinstance(place[key], (dict, list)) and place[key] and rng.random() < 0.6:
                    place = place[key]
                    continue
                if isinstance(place, dict) and rng.random() < 0.2:
                    del place[key]
                else:
                    place[key] = copy.deepcopy(others[int(rng.integers(len(others)))])
                break
        file.write_text(json.dumps(content))
        trial = Trial(folder, capsys, "p.zarr")
        try:
            trial.check("p-uncertainty.zarr")
        except AssertionError as error:
            raise AssertionError(f"trial {i}: {error}") from error
        removed(folder / "p.zarr")
        removed(folder / "p-uncertainty.zarr")
