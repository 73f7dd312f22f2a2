"""The command ``kuq-study``: its help, its progress, what it says to strangers."""

import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import kuq
from kuq_study.cell import Cell
from kuq_study.cli import COMMANDS, main
from kuq_study.progress import Progress
from kuq_study.worker import note_file


def test_examples_of_the_help_work(tmp_path, capsys, monkeypatch):
    """Every line that starts with the command, apart from those over all experiments."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "experiments").symlink_to(Path(__file__).parents[1] / "experiments")
    lines = []
    for command in ([], *([name] for name in COMMANDS)):
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        text = capsys.readouterr().out
        assert "examples:" in text
        lines += re.findall(r"^  (kuq-study .*?)(?: {2,}.*)?$", text, re.MULTILINE)
    assert len(lines) == 6
    for line in sorted(dict.fromkeys(lines), key=lambda line: " report " in line):  # after runs
        if "*" not in line:
            assert main(shlex.split(line)[1:]) == 0, line


def test_as_a_module():
    def run(*arguments):
        command = [sys.executable, "-m", "kuq_study", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert run("--version").stdout == f"kuq-study {kuq.__version__}\n"
    bad = run("demo")
    assert bad.returncode == 2
    assert "kuq-study: error: " in bad.stderr


def test_an_error_is_one_line_by_the_name_of_the_command(tmp_path, capsys):
    assert main(["report", str(tmp_path / "none")]) == 2
    assert re.fullmatch(
        r"kuq-study: error: there are no results in .*kuq-study run\n", capsys.readouterr().err
    )
    assert main([]) == 2
    assert "kuq-study: error: a command is needed" in capsys.readouterr().err


def test_progress_of_a_run_fits_the_width_of_the_terminal(monkeypatch, tmp_path):
    class Named:
        key = "procedure/a-very-long-name-of-a-cell-" + "x" * 200

    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setenv("COLUMNS", "60")
    progress = Progress(terminal)
    progress.running([Named()], tmp_path)
    progress.running([Named()], tmp_path)
    lines = [line for line in terminal.getvalue().split("\r") if line]
    assert max(map(len, lines)) < 60


def test_notes_of_progress_have_names_that_files_can_have(tmp_path):
    """Keys are as long as four names, and joined names are not told apart by what joins them."""
    names = [("%" * 48,) * 4, ("a~b", "c", "d", "e"), ("a", "b~c", "d", "e")]
    notes = [note_file(tmp_path, Cell(*four, 0, "preset")) for four in names]
    assert len(set(notes)) == len(names)
    for note in notes:
        note.parent.mkdir(exist_ok=True)
        note.write_text("{}")
