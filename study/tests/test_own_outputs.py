"""What a run writes replaces nothing that is not its own."""

import numpy as np
import pytest

from docs import keep_run
from kuq_study.own_files import LIST, write_files
from kuq_study.procedure import Context
from kuq_study.runner import _prepare
from kuq_study.worker import _Note


def test_files_of_a_report(tmp_path):
    report = tmp_path / "report"
    for text in ("one", "two"):
        write_files(report, {"a.csv": text, "tables/b.md": text})
    assert (report / "tables" / "b.md").read_text() == "two"
    assert sorted(p.name for p in report.iterdir()) == ["a.csv", LIST, "tables"]
    for name, text in (("tables/b.md", "edited"), ("mine.csv", "mine")):
        (report / name).write_text(text)
        with pytest.raises(ValueError, match=f"{name}' exists"):
            write_files(report, {"a.csv": "three", name: "three"})
        assert (report / name).read_text() == text
        assert (report / "a.csv").read_text() == "two"
    (report / LIST).write_text("{}")
    with pytest.raises(ValueError, match="exists"):
        write_files(report, {"new.csv": "four"})


def test_a_run_clears_its_own_notes_only(tmp_path):
    _prepare(tmp_path)
    note, other = (_Note(tmp_path / "progress" / f"{name}.json") for name in ("cell", "mine"))
    note("trains", 0.5)
    mine = {"mine.json": '{"stage": "mine"}', "notes.txt": "mine", ".hidden.tmp": "mine"}
    for name, text in mine.items():
        (tmp_path / "progress" / name).write_text(text)
    other("trains", 0.5)
    other.remove()
    _prepare(tmp_path)
    left = {p.name: p.read_text() for p in (tmp_path / "progress").iterdir()}
    assert left == mine


def test_fields_of_a_run_replace_no_other_file(tmp_path):
    context = Context(tmp_path, None, lambda stage, fraction: None)
    for _ in range(2):
        context.save_field("a", truth=np.eye(2))
    np.savez(tmp_path / "fields" / "mine.npz", truth=np.eye(3))
    with pytest.raises(ValueError, match=r"mine\.npz' exists"):
        context.save_field("mine", truth=np.eye(2))


def test_a_kept_run_replaces_no_other_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(keep_run, "ROOT", tmp_path / "results")
    (tmp_path / "results" / "own").mkdir(parents=True)
    (tmp_path / "results" / "own" / "precious").write_text("mine")
    (tmp_path / "own").mkdir()
    with pytest.raises(ValueError, match="exists and is a folder"):
        keep_run.keep(tmp_path / "own")
    assert (tmp_path / "results" / "own" / "precious").read_text() == "mine"
