"""A release in the making: one version, archives that are whole, extras that exist."""

import io
import re
import tarfile
import tomllib
import zipfile

import pytest
from elsewhere import ROOT
from release import BESIDE, problems, version_of

import kuq

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]


def test_the_version_stands_in_one_place():
    assert version_of(ROOT) == kuq.__version__
    assert "version" in PROJECT["project"]["dynamic"]
    assert "version" not in PROJECT["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, flags=re.MULTILINE)[1] == kuq.__version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{kuq.__version__}]" in changes


@pytest.mark.parametrize("folder", ["src", "README.md", "docs", "Makefile", "CONTRIBUTING.md"])
def test_extras_that_are_named_exist(folder):
    """In errors, docstrings and pages: kuq[files], ".[all]"."""
    place = ROOT / folder
    files = [place] if place.is_file() else [*place.rglob("*.py"), *place.rglob("*.md")]
    named = {
        (extra, path.name)
        for path in files
        for listed in re.findall(r'(?:kuq|"\.)\[([a-z, ]+)\]', path.read_text(encoding="utf-8"))
        for extra in re.split(r",\s*", listed)
    }
    assert {extra for extra, _ in named} <= set(EXTRAS), named
    assert named or folder == "CONTRIBUTING.md"


def test_extras_refer_to_extras_that_exist():
    for listed in EXTRAS.values():
        for inner in re.findall(r"^kuq\[([\w,]+)\]", "\n".join(listed), flags=re.MULTILINE):
            assert set(inner.split(",")) <= set(EXTRAS)


# --- archives ------------------------------------------------------------------------------------

METADATA = """\
Metadata-Version: 2.4
Name: kuq
Version: {version}
Requires-Python: {python}
Provides-Extra: fast
"""


def project(folder, version="1.2"):
    """A small project and its archives."""
    package = folder / "src" / "kuq"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "1.2"\n')
    (package / "table.csv").write_text("1\n")
    head = '[project]\nrequires-python = ">=3.11"\n[project.optional-dependencies]\nfast = []\n'
    (folder / "pyproject.toml").write_text(head)
    wheel, sdist = folder / f"kuq-{version}-py3-none-any.whl", folder / f"kuq-{version}.tar.gz"
    return wheel, sdist


def pack(wheel, sdist, version="1.2", python=">=3.11", code=("__init__.py", "table.csv")):
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in code:
            archive.writestr(f"kuq/{name}", "")
        text = METADATA.format(version=version, python=python)
        archive.writestr(f"kuq-{version}.dist-info/METADATA", text)
    with tarfile.open(sdist, "w:gz") as archive:
        for name in (*BESIDE, "src/kuq/__init__.py", "src/kuq/table.csv"):
            archive.addfile(tarfile.TarInfo(f"kuq-{version}/{name}"), io.BytesIO())


def test_whole_archives_are_in_order(tmp_path):
    wheel, sdist = project(tmp_path)
    pack(wheel, sdist)
    assert problems(sdist, wheel, tmp_path) == []


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"version": "1.3"}, "version 1.3"),
        ({"python": ">=3.9"}, "requires Python"),
        ({"code": ("__init__.py",)}, "kuq/table.csv is missing in"),
        ({"code": ("__init__.py", "table.csv", "left.py")}, "kuq/left.py is only in"),
    ],
    ids=["version", "python", "missing", "left over"],
)
def test_what_is_wrong_is_named(tmp_path, wrong, word):
    wheel, sdist = project(tmp_path)
    pack(wheel, sdist, **wrong)
    assert any(word in line for line in problems(sdist, wheel, tmp_path))
