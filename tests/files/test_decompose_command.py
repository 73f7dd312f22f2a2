"""``kuq decompose``: what it prints and writes, its help, and its progress."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

import kuq
from kuq.cli import COMMANDS, main

LOC = np.random.default_rng(0).normal(size=(4, 30))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("predictions.npz", mean=LOC, std=np.ones((4, 30)))
    return tmp_path


def test_summary(folder, capsys):
    assert main(["decompose", "predictions.npz", "--score", "gaussian:0.5"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "4 members, each a normal distribution; 30 predictions by input" in out
    assert "written: predictions-uncertainty.npz" in out
    u = kuq.decompose(kuq.Ensemble(kuq.Normal(LOC, 1.0)), kuq.Gaussian(0.5))
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line}
    for part in u:
        shown = [float(cell) for cell in rows[part]]
        expected = [u[part].mean(), np.median(u[part]), u[part].max()]
        assert shown[0] == pytest.approx(expected[0], rel=1e-4)
        assert shown[1] == pytest.approx(expected[1], rel=0.1)
        assert shown[4] == pytest.approx(expected[2], rel=1e-4)
    assert [p.name for p in sorted(folder.iterdir())] == [
        "predictions-uncertainty.npz", "predictions.npz"
    ]  # fmt: skip


def test_names_of_outputs(folder, capsys):
    assert main(["decompose", "predictions.npz", "--out", "u.npz", "--report", "page.html"]) == 0
    assert "report: page.html" in capsys.readouterr().out
    assert {"u.npz", "page.html"} <= {p.name for p in folder.iterdir()}


def test_infinite_values_are_shown_as_such(folder, capsys):
    np.savez("points.npz", predictions=LOC)
    assert main(["decompose", "points.npz", "--score", "log", "--report", "page.html"]) == 0
    assert "inf" in capsys.readouterr().out
    assert "infinite" in (folder / "page.html").read_text()


def test_examples_of_the_help_work(folder, capsys, monkeypatch):
    """Every line that starts with `kuq` or `python` in the examples of every command."""
    pd = pytest.importorskip("pandas")
    table = {f"{name}_{m}": LOC[m] ** 2 + 1 for m in range(4) for name in ("mean", "std")}
    pd.DataFrame(table).to_csv("predictions.csv", index=False)
    named = {f"Model {m} {name}": LOC[m] ** 2 + 1 for m in range(4) for name in ("mean", "sd")}
    pd.DataFrame({**named, "observed": LOC[0]}).to_csv("models.csv", index=False)
    monkeypatch.setenv("KUQ_CACHE", str(folder / "cache"))
    lines = []
    for command in ([], *([name] for name in COMMANDS)):
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        text = capsys.readouterr().out
        assert "examples:" in text
        lines += re.findall(r"^  ((?:kuq|python) .*?)(?: {2,}.*)?$", text, re.MULTILINE)
    assert len(lines) >= 12
    elsewhere = ("forecast.nc", "demo", "*", "data fetch")  # these are tested, in other files
    for line in dict.fromkeys(lines):
        program, *arguments = shlex.split(line)
        if program == "python":
            subprocess.run([sys.executable, *arguments], check=True)
        elif not any(word in line for word in elsewhere):
            assert main(arguments) == 0, line
    capsys.readouterr()


def test_progress_is_shown_on_a_terminal_for_long_work_only(monkeypatch, capsys):
    from kuq.cli import progress as module

    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    progress = module.ProgressBar()
    progress(1, 4)
    now[0] = 3.0
    progress(2, 4)
    assert capsys.readouterr().err == ""  # not a terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    progress(3, 4)
    progress.end()
    err = capsys.readouterr().err
    assert "75 %" in err
    assert "1 s left" in err
    assert err.endswith("\r")


def test_a_closed_pipe_is_no_error(folder):
    command = f"{sys.executable} -m kuq kernels | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith("score")
