"""Damaged, hostile and wrong files: one clear line, exit code 2, nothing half written."""

from __future__ import annotations

import os
import pickle
import zipfile

import numpy as np
import pytest

from kuq.cli import main

pd = pytest.importorskip("pandas")

LOC, SCALE = np.zeros((3, 4)), np.ones((3, 4))


class Bomb:
    """Leaves a trace if it is ever unpickled."""

    def __reduce__(self):
        return os.mkdir, ("exploded",)


def npz(**arrays):
    return lambda path: np.savez(path, **arrays)


def text(content):
    return lambda path: path.write_text(content)


def truncated(path):
    np.savez(path, mean=np.random.default_rng(0).normal(size=(3, 4000)), std=np.ones((3, 4000)))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def corrupted(path):
    np.savez_compressed(path, mean=LOC + np.arange(4) / 3, std=SCALE)
    data = bytearray(path.read_bytes())
    data[90:110] = b"\x00" * 20
    path.write_bytes(bytes(data))


def pickled(path):
    np.savez(path, mean=np.array([Bomb()], dtype=object), std=SCALE)


def bare_pickle(path):
    path.write_bytes(pickle.dumps(Bomb()))


def zip_without_arrays(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "nothing")


def truncated_parquet(path):
    pd.DataFrame({"mean_0": [1.0], "std_0": [1.0]}).to_parquet(path)
    path.write_bytes(path.read_bytes()[:-10])


def with_nan(shape, *index):
    values = np.ones(shape)
    values[index] = np.nan
    return values


ROWS = "x,member,mean,std\n0,a,1,1\n0,b,2,1\n1,a,1,1\n"
CASES = {
    "truncated.npz": (truncated, "damaged|readable"),
    "corrupted.npz": (corrupted, "damaged|readable"),
    "empty.npz": (text(""), "empty"),
    "text.npz": (text("hello"), "not an .npz file"),
    "pickled.npz": (pickled, "execute code"),
    "bare_pickle.npz": (bare_pickle, "not an .npz file"),
    "no_arrays.npz": (zip_without_arrays, "no prediction|readable|numbers"),
    "other_names.npz": (npz(a=LOC, b=SCALE), "--loc"),
    "only_means.npz": (npz(mean=LOC), "no prediction"),
    "shapes.npz": (npz(mean=LOC, std=np.ones((2, 5))), "fit each other"),
    "one_member.npz": (npz(mean=LOC[:1], std=SCALE[:1]), "two members"),
    "nan.npz": (npz(mean=with_nan((3, 4), 1, 2), std=SCALE), "finite"),
    "nan_draws.npz": (npz(samples=with_nan((3, 4, 5), 0, 0, 0)), "NaN"),
    "negative.npz": (npz(mean=LOC, std=-SCALE), "≥ 0"),
    "negative_variance.npz": (npz(mean=LOC, var=-SCALE), "variance"),
    "words.npz": (npz(mean=np.array([["a"], ["b"]]), std=SCALE), "real numbers"),
    "no_inputs.npz": (npz(mean=np.zeros((3, 0)), std=np.zeros((3, 0))), "axes"),
    "scalar.npz": (npz(mean=np.array(1.0), std=np.array(1.0)), "axes"),
    "weights.npz": (npz(mean=LOC, std=SCALE, weights=np.ones(2)), "weights"),
    "empty.csv": (text(""), "empty"),
    "head.csv": (text("mean_0,std_0,mean_1,std_1\n"), "no rows"),
    "ragged.csv": (text("mean_0,std_0,mean_1,std_1\n1,1,1,1\n1,1,1,1,1\n"), "line 3"),
    "words.csv": (text("mean_0,std_0,mean_1,std_1\nx,1,1,1\n"), "hold numbers"),
    "binary.csv": (lambda p: p.write_bytes(bytes(range(128, 256)) * 9), "UTF-8"),
    "columns.csv": (text("a,b\n1,2\n"), "mean_0"),
    "unpaired.csv": (text("mean_0,std_0,mean_1\n1,2,3\n"), "every member"),
    "missing.csv": (text("mean_0,std_0,mean_1,std_1\n1,,1,1\n"), "finite"),
    "incomplete.csv": (text(ROWS), "2 inputs × 2 members"),
    "twice.csv": (text(ROWS + "0,a,1,1\n"), "line 5 repeats line 2"),
    "one_number.csv": (text("sample_0,sample_1\n1,2\n"), "two numbers"),
    "taken.csv": (text("total,mean_0,std_0,mean_1,std_1\n9,1,1,2,1\n"), "'total' already"),
    "truncated.parquet": (truncated_parquet, "cannot be read"),
    "text.parquet": (text("hello"), "cannot be read"),
    "unknown.xlsx": (text("hello"), "must end in"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", CASES)
def test_bad_files(name, folder, capsys):
    make, words = CASES[name]
    path = folder / name
    make(path)
    before = sorted(folder.iterdir())
    assert main(["decompose", name, "--report", "report.html"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("kuq: error: ")
    assert err.count("\n") == 1
    assert any(word in err for word in words.split("|")), err
    assert sorted(folder.iterdir()) == before  # nothing written, nothing executed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such.npz"], "no file"),
        (["p.npz", "--loc", "nope"], "no such name"),
        (["p.npz", "--member", "first"], "number"),
        (["p.npz", "--member", "7"], "axis 7"),
        (["p.npz", "--event", "lat,lon"], "number"),
        (["p.npz", "--event", "5"], "axes"),
        (["p.npz", "--out", "p.csv"], "format of the input"),
        (["p.npz", "--out", "p.npz"], "replace the input"),
        (["p.npz", "--out", "no/such/folder/u.npz"], "does not exist"),
        (["folder.npz"], "is a folder"),
        (["p.csv", "--event", "lat"], "scalar outcomes"),
        (["p.csv", "--member", "who"], "no such column"),
    ],
)
def test_wrong_options(arguments, words, folder, capsys):
    np.savez(folder / "p.npz", mean=LOC, std=SCALE)
    (folder / "p.csv").write_text(ROWS)
    (folder / "folder.npz").mkdir()
    before = sorted(folder.iterdir())
    assert main(["decompose", *arguments]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["p.npz", "--score", "crsp"], "one of crps"),
        (["p.npz", "--report", "page.pdf"], ".html"),
        (["p.npz", "--nan", "ignore"], "invalid choice"),
        (["p.npz", "--monte-carlo", "-3"], "integer"),
        ([], "FILE"),
    ],
)
def test_wrong_usage(arguments, words, folder, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["decompose", *arguments])
    assert exit_.value.code == 2
    assert words in capsys.readouterr().err


def test_internal_errors_have_a_traceback_on_request_only(folder, capsys, monkeypatch):
    from kuq.files import decompose

    np.savez(folder / "p.npz", mean=LOC, std=SCALE)

    def broken(*args, **options):
        raise ZeroDivisionError("a\nbug")

    monkeypatch.setattr(decompose, "decompose_stored", broken)
    assert main(["decompose", "p.npz"]) == 1
    err = capsys.readouterr().err
    assert err == (
        "kuq: error: internal error: ZeroDivisionError: a bug (kuq --debug … shows where)\n"
    )
    assert main(["--debug", "decompose", "p.npz"]) == 1
    assert "Traceback" in capsys.readouterr().err
    assert main(["--debug", "decompose", "missing.npz"]) == 2
    assert "Traceback" in capsys.readouterr().err
