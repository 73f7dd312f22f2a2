"""Data sets of other packages: registered, found by entry points, and broken ones."""

import subprocess
import sys

import pytest

import kuq
from kuq.datasets import Entry, catalogue, load, register
from kuq.datasets.base import Dataset, Split

FACTS = ("made up", "table", "none", "MIT", "here")


def made_up(data_dir, seed, *, rows: int = 4):
    part = Split([[float(seed)]] * rows, [1.0] * rows)
    return Dataset("other", part, part, part, None, True, "m", {"source": "here"})


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """What a test registers is gone after it."""
    catalogue()  # imports what other packages register, which stays
    module = sys.modules["kuq.datasets.catalogue"]  # beside the function of this name
    monkeypatch.setattr(module, "_ADDED", dict(module._ADDED))


def test_a_registered_data_set_loads_and_is_listed(capsys):
    from kuq.cli import main

    entry = Entry("made-up", made_up, *FACTS, synthetic=True)
    register(entry)
    register(entry)  # as a module does that is imported twice
    data = load("made-up", seed=3, rows=2)
    assert (data.name, len(data.train.x), data.train.x[0][0]) == ("made-up", 2, 3.0)
    assert catalogue()["made-up"] is entry
    assert main(["data", "list"]) == 0
    assert "made-up (synthetic)" in capsys.readouterr().out
    with pytest.raises(kuq.ParameterError, match="no option 'columns'; it has rows"):
        load("made-up", columns=3)


def test_names_are_given_once():
    register(Entry("made-up", made_up, *FACTS))
    for entry in (Entry("made-up", load, *FACTS), Entry("diabetes", made_up, *FACTS)):
        with pytest.raises(kuq.ParameterError, match=f"'{entry.name}' already"):
            register(entry)
    with pytest.raises(kuq.ParameterError, match=r"by a kuq\.datasets\.Entry, got 'diabetes'"):
        register("diabetes")


def run_with(folder, module, code):
    """Python with a package in ``folder`` that is installed, as far as its metadata tell."""
    (folder / "other.py").write_text(module)
    about = folder / "other_data-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: other-data\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[kuq.datasets]\nother = other\n")
    start = f"import sys; sys.path.insert(0, {str(folder)!r}); "
    return subprocess.run(
        [sys.executable, "-c", start + code], capture_output=True, text=True, check=True
    )


REGISTERS = """
from kuq.datasets import Entry, register
register(Entry("other", None, "made up", "table", "none", "MIT", "here"))
"""


def test_installed_packages_are_asked_where_a_name_is_not_known(tmp_path):
    code = (
        "from kuq.datasets.catalogue import catalogue, entry; entry('yacht'); "
        "print('other' in sys.modules, entry('other').title, 'other' in catalogue())"
    )
    done = run_with(tmp_path, REGISTERS, code)
    assert (done.stdout, done.stderr) == ("False made up True\n", "")


def test_a_package_that_is_broken_is_named_and_the_others_load(tmp_path):
    code = (
        "import kuq; print('yacht' in kuq.datasets.catalogue(), len(kuq.datasets.catalogue()) > 9)"
    )
    done = run_with(tmp_path, "raise OSError('no disk')", code)
    assert done.stdout == "True True\n"
    words = "the data sets of the package other-data are missing, since other cannot be imported"
    assert done.stderr.count(words) == 1
    assert "OSError: no disk" in done.stderr
