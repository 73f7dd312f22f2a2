"""A release in the making: one version, archives that are whole, extras that exist."""

import io
import re
import tarfile
import tomllib
import zipfile

import pytest
from elsewhere import ROOT
from release import KUQ, STUDY, archives, problems, version_of

import kuq

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
STUDY_PROJECT = tomllib.loads((ROOT / "study" / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_version_stands_in_one_place():
    assert version_of(ROOT) == kuq.__version__
    for project in (PROJECT, STUDY_PROJECT):
        assert "version" in project["project"]["dynamic"]
        assert "version" not in project["project"]
    source = STUDY_PROJECT["tool"]["hatch"]["version"]["path"]
    place = ROOT / PROJECT["tool"]["hatch"]["version"]["path"]
    assert (ROOT / "study" / source).resolve() == place
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, flags=re.MULTILINE)[1] == kuq.__version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{kuq.__version__}]" in changes


@pytest.mark.parametrize(
    "folder", ["src", "README.md", "docs", "Makefile", "study", "CONTRIBUTING.md"]
)
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


def test_the_study_is_no_part_of_kuq():
    """Neither its code nor its stand-ins, and kuq asks for it nowhere."""
    files = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    moved = (
        "bench/",
        "claims/",
        "paper/",
        "stand_in",
        "synthetic_",
        "render",
        "/rooms",
        "/streets",
    )
    assert not [name for name in files if any(word in name for word in moved)]
    assert "kuq-study" not in str(PROJECT["project"]["dependencies"]) + str(EXTRAS)
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/kuq"]


def test_what_the_study_installs_exists():
    assert STUDY_PROJECT["project"]["scripts"].keys() == {"kuq-study"}
    points = STUDY_PROJECT["project"]["entry-points"]["kuq.datasets"]
    for target in (*STUDY_PROJECT["project"]["scripts"].values(), *points.values()):
        module, _, name = target.partition(":")
        found = pytest.importorskip(module)
        assert not name or callable(getattr(found, name))
    assert (ROOT / "study" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_extras_refer_to_extras_that_exist():
    for listed in (*EXTRAS.values(), STUDY_PROJECT["project"]["dependencies"]):
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


def project(folder, version="1.2", of=KUQ):
    """A small project and its archives."""
    (folder / "src" / "kuq").mkdir(parents=True)
    (folder / "src" / "kuq" / "__init__.py").write_text('__version__ = "1.2"\n')
    root, folder = folder, folder / of.folder
    package = folder / "src" / of.name
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text('__version__ = "1.2"\n')
    (package / "table.csv").write_text("1\n")
    head = '[project]\nrequires-python = ">=3.11"\n[project.optional-dependencies]\nfast = []\n'
    (folder / "pyproject.toml").write_text(head)
    return root / f"{of.name}-{version}-py3-none-any.whl", root / f"{of.name}-{version}.tar.gz"


def pack(wheel, sdist, version="1.2", python=">=3.11", code=("__init__.py", "table.csv"), of=KUQ):
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in code:
            archive.writestr(f"{of.name}/{name}", "")
        text = METADATA.format(version=version, python=python)
        archive.writestr(f"{of.name}-{version}.dist-info/METADATA", text)
    with tarfile.open(sdist, "w:gz") as archive:
        for name in (*of.beside, f"src/{of.name}/__init__.py", f"src/{of.name}/table.csv"):
            archive.addfile(tarfile.TarInfo(f"{of.name}-{version}/{name}"), io.BytesIO())


@pytest.mark.parametrize("package", [KUQ, STUDY], ids=lambda package: package.name)
def test_whole_archives_are_in_order(tmp_path, package):
    wheel, sdist = project(tmp_path, of=package)
    pack(wheel, sdist, of=package)
    assert archives(tmp_path, package) == (sdist, wheel)
    assert problems(sdist, wheel, tmp_path, package) == []


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
