"""What the former commands ``kuq run`` and ``kuq report`` wrote is read, replaced and removed."""

import hashlib
import json

import pytest

from kuq_study.own_files import LIST, write_files
from kuq_study.runner import _prepare


def test_a_report_of_the_former_command_is_replaced(tmp_path):
    (tmp_path / "report.html").write_text("former")
    (tmp_path / "edited.csv").write_text("edited since")
    digest = hashlib.sha256(b"former").hexdigest()
    files = {"edited.csv": [digest], "report.html": [digest]}
    text = json.dumps({"made_by": "kuq report", "files": files}, indent=1) + "\n"
    (tmp_path / LIST).write_text(text)
    write_files(tmp_path, {"report.html": "new"})
    assert (tmp_path / "report.html").read_text() == "new"
    with pytest.raises(ValueError, match=r"edited\.csv' exists"):
        write_files(tmp_path, {"edited.csv": "new"})


def test_notes_of_the_former_command_are_removed(tmp_path):
    (tmp_path / "progress").mkdir()
    note = {"made_by": "kuq run", "stage": "fits", "fraction": 0.5}
    (tmp_path / "progress" / "cell.json").write_text(json.dumps(note))
    _prepare(tmp_path)
    assert list((tmp_path / "progress").iterdir()) == []
