"""What ``make dist`` does: sdists and wheels, checked, and kuq's alone tried by the core tests.

python tests/release.py              build into dist, check, try with every Python that is here
python tests/release.py --only 3.12  try with this one
python tests/release.py --keep       check and try what is in dist already
"""

from __future__ import annotations

import argparse
import email
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

from elsewhere import ROOT, interpreter

PYTHONS = ("3.11", "3.12", "3.13")


@dataclass(frozen=True)
class Package:
    """A package in a folder of the repository; ``beside``: what a reader of its sdist looks for."""

    name: str
    folder: str
    beside: tuple[str, ...]


KUQ = Package(
    "kuq",
    ".",
    (
        *("README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "pyproject.toml"),
        *("constraints.txt", "conftest.py", "tests/cases.py"),
    ),
)
STUDY = Package(
    "kuq_study",
    "study",
    (
        *("README.md", "LICENSE", "pyproject.toml", "experiments/robustness.toml"),
        *("experiments/own/tides.py", "tests/tiny_procedure.py"),
    ),
)


def version_of(folder: Path) -> str:
    """The version in the package, the one place where it stands."""
    text = (folder / "src" / "kuq" / "__init__.py").read_text(encoding="utf-8")
    found = re.findall(r'^__version__ = "([^"]+)"$', text, flags=re.MULTILINE)
    assert len(found) == 1, found
    return str(found[0])


def build(out: Path) -> None:
    """Of both packages the sdist, and the wheel from it, in an environment of its own."""
    shutil.rmtree(out, ignore_errors=True)
    for package in (KUQ, STUDY):
        place = ROOT / package.folder
        command = [sys.executable, "-m", "build", "--outdir", str(out), str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"the build failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *out.iterdir()], check=True)


def archives(out: Path, package: Package) -> tuple[Path, Path]:
    """The one sdist and the one wheel of a package in a folder."""
    (sdist,), (wheel,) = out.glob(f"{package.name}-*.tar.gz"), out.glob(f"{package.name}-*.whl")
    return sdist, wheel


def problems(sdist: Path, wheel: Path, root: Path, package: Package = KUQ) -> list[str]:
    """What is wrong with the two archives of a package of the repository ``root``."""
    version, folder, found = version_of(root), root / package.folder, []
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if not name.endswith("/")}
        heads = [name for name in inside if name.endswith(".dist-info/METADATA")]
        about = email.message_from_bytes(archive.read(heads[0])) if heads else None
    if about is None:
        return [f"{wheel.name} has no metadata"]
    if about["Version"] != version or f"-{version}-" not in wheel.name:
        found.append(f"{wheel.name} is version {about['Version']}, the package {version}")
    if about["Requires-Python"] != project["requires-python"]:
        found.append(f"{wheel.name} requires Python {about['Requires-Python']}")
    extras = set(project.get("optional-dependencies", ()))
    if set(about.get_all("Provides-Extra") or ()) != extras:
        found.append(f"{wheel.name} has other extras than pyproject.toml")
    here = {
        path.relative_to(folder / "src").as_posix()
        for path in (folder / "src" / package.name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    code = {name for name in inside if ".dist-info/" not in name}
    for name in sorted(here ^ code):
        found.append(f"{name} is {'missing in' if name in here else 'only in'} {wheel.name}")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in (*package.beside, *(f"src/{name}" for name in sorted(here))):
        if name not in names:
            found.append(f"{name} is missing in {sdist.name}")
    if version not in sdist.name:
        found.append(f"{sdist.name} is not of version {version}")
    return found


def tried(wheel: Path, study: Path, python: str) -> tuple[bool, str]:
    """Whether the core tests pass with the wheel alone, far from the sources, and the last line.

    And that the study comes with its own wheel: its command, and its data sets in the list of kuq.
    """
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        subprocess.run([python, "-m", "venv", place / "venv"], check=True)
        own = place / "venv" / "bin" / "python"
        install = [own, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        limits = ["-c", ROOT / "constraints.txt"]
        subprocess.run([*install, *limits, wheel, "pytest", "hypothesis"], check=True)
        shutil.copytree(ROOT / "tests", place / "tests")
        for name in ("pyproject.toml", "conftest.py"):
            shutil.copy(ROOT / name, place)
        where = [own, "-c", "import kuq; print(kuq.__file__, kuq.__version__)"]
        said = subprocess.run(where, cwd=place, capture_output=True, text=True, check=True).stdout
        if not said.startswith(str(place / "venv")) or version_of(ROOT) not in said:
            return False, f"not the wheel: {said.strip()}"
        command = [own, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/core_only"]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        lines = done.stdout.strip().splitlines() or [done.stderr[-500:]]
        if done.returncode != 0:
            print(done.stdout[-3000:])
            return False, lines[-1]
        alone = _of_the_study(own.parent)
        subprocess.run([*install, "--no-deps", study], check=True)  # not the gigabytes of PyTorch
        both = _of_the_study(own.parent)
        if (alone, both) != ((False, False), (True, True)):
            return False, f"command of the study and its data sets: {alone}, with kuq-study {both}"
        return True, lines[-1]


def _of_the_study(scripts: Path) -> tuple[bool, bool]:
    """Whether an environment has the command ``kuq-study``, and lists its data sets."""
    command, known = scripts / "kuq-study", [scripts / "kuq", "data", "list"]
    if command.exists():
        subprocess.run([command, "run", "--help"], capture_output=True, check=True)
    listed = subprocess.run(known, capture_output=True, check=True)
    return command.exists(), b"-synthetic" in listed.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="3.12,3.13")
    parser.add_argument("--keep", action="store_true", help="do not build")
    options = parser.parse_args()
    out = ROOT / "dist"
    if not options.keep:
        build(out)
    failed, wheels = False, []
    for package in (KUQ, STUDY):
        sdist, wheel = archives(out, package)
        found = problems(sdist, wheel, ROOT, package)
        print("\n".join(found) or f"{sdist.name} and {wheel.name} are in order")
        failed, wheels = failed or bool(found), [*wheels, wheel]
    for version in options.only or PYTHONS:
        python = interpreter(version)
        if python is None:
            print(f"Python {version}: not here")
            continue
        passed, line = tried(*wheels, python)
        failed = failed or not passed
        words = "the core tests pass, and the study comes with its own wheel"
        print(f"Python {version}: {words if passed else 'FAILED'} ({line})")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
