"""The whole suite as it would run elsewhere: other processors, Pythons, orders, homes, languages.

``make elsewhere`` does every run of ``RUNS`` that this machine can do. Each of them changes several
things at once, so that few runs cover all. What the libraries really used is asked of them, and the
table of what was covered and what failed is printed and written to build/elsewhere.md.

    python tests/elsewhere.py                        every run (hours on two cores: minutes each)
    python tests/elsewhere.py --only nehalem,zen     these runs
    python tests/elsewhere.py -k mixture tests/test_*.py    a part of the suite, in every run
    python tests/elsewhere.py --list                 what would be done
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: What a kernel of OpenBLAS, and a level of PyTorch, needs of the processor.
NEEDS = {
    "Nehalem": "sse4_2",
    "Sandybridge": "avx",
    "Haswell": "avx2",
    "Zen": "avx2",
    "SkylakeX": "avx512f",
    "Cooperlake": "avx512_bf16",
    "avx2": "avx2",
    "avx512": "avx512f",
}
#: Everything that has wheels for every Python, so not PyTorch and what needs it.
EXTRAS = ("test", "fast", "jax", "plot", "xarray", "sklearn", "files", "datasets")


@dataclass(frozen=True)
class Run:
    """One run of the suite: what is set, and how the tests are ordered and distributed."""

    name: str
    order: int
    workers: int
    threads: int = 1
    #: kernels of OpenBLAS, PyTorch, Numba and JAX; None leaves them the choice
    blas: str | None = None
    torch: str | None = None
    numba: str | None = None
    jax: str | None = None
    #: what NumPy's own loops must do without: "avx512", or "avx2" for both
    without: str | None = None
    python: str | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def missing(self, flags: set[str]) -> str | None:
        """Why this machine cannot do it."""
        for kernel in (self.blas, self.torch):
            need = NEEDS.get(kernel or "")
            if need is not None and need not in flags:
                return f"no {need} here"
        if self.python is not None and interpreter(self.python) is None:
            return f"no Python {self.python} here"
        return None


OLD = {"torch": "default", "without": "avx2", "jax": "SSE4_2"}
MIDDLE = {"torch": "avx2", "without": "avx512", "jax": "AVX2"}
RUNS = (
    Run("here", order=0, workers=2),
    Run(
        "nehalem",
        order=1,
        workers=1,
        threads=2,
        blas="Nehalem",
        numba="nehalem",
        **OLD,
        # A home that nobody can write or create, not even root.
        environment={
            "HOME": "/proc/nobody",
            "LANG": "C",
            "LC_ALL": "C",
            "TZ": "Pacific/Kiritimati",
            "PYTHONHASHSEED": "1",
        },
    ),
    Run("haswell", 2, 4, blas="Haswell", numba="haswell", **MIDDLE),
    Run("zen", 3, 2, blas="Zen", torch="default", numba="znver1"),
    Run("sandybridge", 4, 2, blas="Sandybridge", torch="avx2", numba="sandybridge", jax="AVX"),
    Run("skylake", 5, 2, blas="SkylakeX", torch="avx512", without="avx512"),
    Run("cooperlake", 6, 4, blas="Cooperlake", torch="avx512"),
    Run("python3.12", 7, 2, python="3.12", environment={"TZ": "America/Adak"}),
    Run("python3.13", 8, 1, python="3.13", environment={"LANG": "C.UTF-8"}),
)

#: Run with the settings of a run: what the libraries make of them.
PROBE = """
import importlib.util, json, locale, os, platform, sys, time
import numpy
found = {"python": platform.python_version(), "zone": time.tzname[0]}
found["encoding"] = locale.getpreferredencoding(False)
found["home"] = "writable" if os.access(os.path.expanduser("~"), os.W_OK) else "not writable"
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
found["numpy"] = " ".join(n for n in __cpu_dispatch__ if __cpu_features__.get(n)) or "baseline"
def has(name):
    return importlib.util.find_spec(name) is not None
if has("threadpoolctl"):
    import threadpoolctl, scipy.linalg
    blas = [x for x in threadpoolctl.threadpool_info() if x["user_api"] == "blas"]
    found["blas"] = " ".join(sorted({f"{x['architecture']}x{x['num_threads']}" for x in blas}))
if has("torch"):
    import torch
    found["torch"] = f"{torch.backends.cpu.get_cpu_capability()}x{torch.get_num_threads()}"
if has("numba"):
    from numba.core.registry import cpu_target
    found["numba"] = cpu_target.target_context.codegen().magic_tuple()[1]
if has("jax"):
    limit = os.environ.get("XLA_FLAGS", "").rpartition("=")[2]
    found["jax"] = f"at most {limit}" if limit else "all"
print(json.dumps(found))
"""


def flags_of_this_processor() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    return set(next((x for x in text.splitlines() if x.startswith("flags")), "").split())


def interpreter(version: str) -> str | None:
    """A Python of this version that runs: by its name, or one that pyenv keeps."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for path in (shutil.which(f"python{version}"), *sorted(kept.glob(f"{version}.*/bin/python"))):
        if path is None:
            continue
        code = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
        done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return str(path)
    return None


def python_of(run: Run) -> str:
    """The interpreter of a run, with an environment of its own if it is not this one."""
    if run.python is None:
        return sys.executable
    folder = ROOT / f".venv-{run.python}"
    python, stamp = folder / "bin" / "python", folder / ".installed"
    inputs = [ROOT / name for name in ("pyproject.toml", "study/pyproject.toml", "constraints.txt")]
    if not stamp.exists() or stamp.stat().st_mtime < max(p.stat().st_mtime for p in inputs):
        print(f"installing into {folder.name}", flush=True)
        subprocess.run([interpreter(run.python), "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        wanted = [["-e", f".[{extra}]"] for extra in EXTRAS] + [["dask[distributed]"]]
        wanted.append(["--no-deps", "-e", "./study"])  # which asks for PyTorch
        for what in wanted:
            command = [*install, "-c", "constraints.txt", *what]
            if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
                print(f"{what[-1]} does not install for Python {run.python}: without it")
        stamp.touch()
    return str(python)


def numpy_features(without: str | None) -> str:
    """The groups of NumPy's loops above a level, by the names that this NumPy gives them."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    groups = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
    wide = [g for g in groups if g.startswith("AVX512") or g == "X86_V4"]
    if without == "avx512":
        return " ".join(wide)
    return " ".join(wide + [g for g in groups if g in {"AVX2", "FMA3", "X86_V3"}])


def environment_of(run: Run) -> dict[str, str]:
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    settings = {name: str(run.threads) for name in threads}
    settings |= {"KUQ_ORDER": str(run.order), **run.environment}
    named = {
        "OPENBLAS_CORETYPE": run.blas,
        "ATEN_CPU_CAPABILITY": run.torch,
        "NUMBA_CPU_NAME": run.numba,
        "XLA_FLAGS": f"--xla_cpu_max_isa={run.jax}" if run.jax else None,
        "NPY_DISABLE_CPU_FEATURES": numpy_features(run.without) if run.without else None,
    }
    settings |= {name: value for name, value in named.items() if value}
    if run.numba:  # its features would else be those of the host
        settings["NUMBA_CPU_FEATURES"] = ""
    return {**os.environ, **settings}


@dataclass(frozen=True)
class Outcome:
    """What a run found."""

    run: Run
    used: dict[str, str]
    counts: dict[str, int]
    failed: list[str]
    minutes: float

    def row(self) -> str:
        said = self.used
        cells = (
            self.run.name,
            said.get("python", ""),
            said.get("blas", ""),
            said.get("numpy", ""),
            said.get("torch", "none"),
            said.get("numba", "none"),
            said.get("jax", "none"),
            f"seed {self.run.order}, {self.run.workers} workers",
            f"{said.get('home')}, {said.get('encoding')}, {said.get('zone')}",
            str(self.counts.get("passed", 0)),
            str(self.counts.get("skipped", 0)),
            str(len(self.failed)),
            f"{self.minutes:.1f}",
        )
        return "| " + " | ".join(cells) + " |"


HEAD = (
    "| run | Python | BLAS and threads | NumPy | PyTorch | Numba | JAX | order "
    "| home, encoding, zone | passed | skipped | failed | minutes |"
)


def done(run: Run, arguments: list[str]) -> Outcome:
    python, environment = python_of(run), environment_of(run)
    asked = subprocess.run(
        [python, "-c", PROBE], env=environment, capture_output=True, text=True, check=False
    )
    if asked.returncode != 0:
        return Outcome(run, {}, {}, [f"the libraries do not load: {asked.stderr[-500:]}"], 0.0)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [python, "-m", "pytest", "-q", "-n", str(run.workers), "--dist", "worksteal"]
        command += ["-p", "no:cacheprovider", f"--junitxml={report}", *arguments]
        ended = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        minutes = (time.monotonic() - start) / 60
        if not report.exists():
            return Outcome(run, json.loads(asked.stdout), {}, [f"code {ended.returncode}"], minutes)
        counts, failed = read(report)
    if ended.returncode not in (0, 1, 5):
        failed.append(f"pytest ended with code {ended.returncode}")
    return Outcome(run, json.loads(asked.stdout), counts, failed, minutes)


def read(report: Path) -> tuple[dict[str, int], list[str]]:
    """How many tests passed and were skipped, and the names of those that failed."""
    counts, failed = {"passed": 0, "skipped": 0}, []
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        else:
            counts["skipped" if case.find("skipped") is not None else "passed"] += 1
    return counts, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="RUN,RUN")
    parser.add_argument("--list", action="store_true", help="say what would be done")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "elsewhere.md")
    options, arguments = parser.parse_known_args()
    names = {run.name for run in RUNS}
    if unknown := set(options.only or ()) - names:
        parser.error(f"there is no run {unknown.pop()!r}; there are: {', '.join(sorted(names))}")
    flags, lines, failures = flags_of_this_processor(), [HEAD, "|" + "---|" * 13], []
    for run in RUNS:
        if options.only and run.name not in options.only:
            continue
        missing = run.missing(flags)
        if missing is not None:
            lines.append(f"| {run.name} | not run: {missing} |" + " |" * 11)
        elif options.list:
            lines.append(f"| {run.name} | {run} |" + " |" * 11)
        else:
            print(f"== {run.name}", flush=True)
            outcome = done(run, arguments)
            lines.append(outcome.row())
            failures += [f"- {run.name}: `{name}`" for name in outcome.failed]
    text = "\n".join([*lines, "", *(failures or ["Nothing failed."])]) + "\n"
    print(text)
    if not options.list:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text, encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
