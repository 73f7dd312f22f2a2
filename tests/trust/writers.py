"""Every writer of the package, each in a process of its own that may be killed or have no room.

``python writers.py PLANS FOLDER SIZE`` takes a JSON list of trials and prints, one per line, what
came of each. The processes are forked from one that has imported everything, which saves time.
"""

import contextlib
import gc
import hashlib
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

#: What a process does to files and folders, as far as Python tells.
EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "os.chmod")
FORMATS = ("npz", "csv", "parquet", "nc", "zarr")
#: For what a process says: not on a disk that may be full.
ASIDE, OWN = Path(tempfile.mkdtemp()), os.getpid()
LIBRARIES = ("kuq.nn", "kuq.cli", "kuq_study", "kuq.files", "h5netcdf", "zarr", "pyarrow.parquet")
LIBRARIES += ("dask.array", "xarray", "matplotlib.figure", "kuq.reports.decomposition")
LIBRARIES += ("kuq.demo.gap", "kuq.demo.patients", "kuq.plot.saving")
LIBRARIES += (
    "pandas",
    "kuq.files.grids",
    "kuq.files.grid_result",
    "kuq.xarray",
    "kuq.files.output_marks",
)


def values(seed, inputs=40):
    return np.random.default_rng(seed).normal(size=(3, inputs))


def make_inputs(folder, seed, inputs=40):
    """Files of all formats with the same predictions."""
    import pandas as pd
    import xarray as xr

    mean = values(seed, inputs)
    np.savez(folder / "in.npz", mean=mean, std=np.ones_like(mean))
    columns = {f"{name}_{m}": mean[m] if name == "mean" else np.ones(inputs)
               for m in range(3) for name in ("mean", "std")}  # fmt: skip
    table = pd.DataFrame({"site": [f"s{i}" for i in range(inputs)], **columns})
    table.to_csv(folder / "in.csv", index=False)
    table.to_parquet(folder / "in.parquet")
    grid = xr.DataArray(mean, dims=("member", "x"), name="t", coords={"x": np.arange(inputs) * 1.0})
    grid.to_netcdf(folder / "in.nc", engine="h5netcdf")
    grid.to_dataset().to_zarr(folder / "in.zarr", consolidated=False)


def write(kind, folder):
    """Write one output from the inputs in ``folder``; returns an exit code."""
    from kuq.cli import main

    os.chdir(folder)
    if kind in FORMATS:
        return main(["decompose", f"in.{kind}", "--out", f"out.{kind}"])
    if kind == "html":
        return main(["decompose", "in.npz", "--out", "beside.npz", "--report", "out.html"])
    if kind == "png":
        return main(["demo", "gap", "--out", "out.png"])
    if kind == "cache":
        os.environ["KUQ_CACHE"] = str(folder / "out.cache")
        return main(["data", "fetch", "kuramoto-sivashinsky-small", "--set", "trajectories=20"])
    with np.load("in.npz") as file:
        mean = file["mean"]
    if kind == "model":
        from kuq.nn import store

        store.write("out.model", "model", {"weights": mean}, {"about": "a model"})
    if kind == "state":
        from kuq.protocols.learning_state import ActiveLearningState

        ActiveLearningState({"seed": 0}, tuple(range(40)), (1,), (float(mean[0, 0]),)).save(
            "out.state"
        )
    if kind == "report":
        from kuq_study.own_files import write_files

        write_files(Path("out.report"), {"a.csv": str(mean[0]), "tables/b.md": str(mean[1])})
    return 0


def on_events(act):
    """Call ``act`` with a count whenever something is done to a file, once an output has begun."""
    seen = [0]

    def hook(event, args):
        if event in EVENTS:
            begins = event == "os.mkdir" and str(args[0]).endswith(".part")
            seen[0] += bool(seen[0] or begins)
            act(seen[0])

    sys.addaudithook(hook)
    return seen


def digest(path):
    """Of a file, or of all files of a folder with their names; "" where there is nothing."""
    if not path.exists():
        return ""
    if path.suffix == ".nc" and path.is_file():  # HDF5 lays out as threads come
        with h5py.File(path, "r") as file:
            arrays = [f"{name}{dict(file.attrs)}{file[name][()]}" for name in sorted(file)]
        return hashlib.sha256("".join(arrays).encode()).hexdigest()
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    whole = hashlib.sha256()
    for file in files:
        whole.update(f"{file.relative_to(path)}:{file.stat().st_size}:".encode())
        whole.update(file.read_bytes())
    return whole.hexdigest()


def trial(plan):
    """In the forked process, which it ends."""
    folder = Path(plan["folder"])
    if "inputs" in plan:
        make_inputs(folder, plan["inputs"], plan["size"])
        os._exit(0)
    with (ASIDE / "words").open("w") as words, open(os.devnull, "w") as nowhere:
        os.dup2(words.fileno(), 2)
        os.dup2(nowhere.fileno(), 1)
    if "kill" in plan:
        on_events(lambda n: n == plan["kill"] and os.kill(os.getpid(), signal.SIGKILL))
    seen = on_events(lambda n: None)
    if "limit" in plan:
        resource.setrlimit(resource.RLIMIT_FSIZE, (plan["limit"],) * 2)
    code = write(plan["kind"], folder)
    if "limit" not in plan:
        (ASIDE / "events").write_text(str(seen[0]))
    gc.collect()  # what is left half-closed may still complain
    if "full" in plan and plan["kind"] == "nc":  # HDF5 may crash when its process ends
        sys.exit(code)
    sys.stderr.flush()
    os._exit(code)


def forked(plan):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        trial(plan)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def prepared(inputs, folder, kind):
    """A folder with an old output, and inputs that give a new one; how the new one looks."""
    shutil.copytree(inputs[0], folder)
    assert forked({"folder": str(folder), "kind": kind}) == 0, (ASIDE / "words").read_text()
    for path in folder.glob("in.*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(inputs[1], folder, dirs_exist_ok=True)
    new = shutil.copytree(folder, folder.with_name(f"{folder.name}-new"))
    assert forked({"folder": str(new), "kind": kind}) == 0, (ASIDE / "words").read_text()
    out = new / f"out.{kind}"
    sizes = [p.stat().st_size for p in [out, *out.rglob("*")] if p.is_file()]
    return {
        "old": digest(folder / out.name),
        "new": digest(out),
        "events": int((ASIDE / "events").read_text()),
        "largest": max(sizes),
        "whole": sum(sizes),
    }


def run(plans, base, size):
    """Each plan has a kind and a place in (0, 1) at which to kill, or at which there is no room."""
    for library in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    inputs = [base / "first", base / "second"]
    for seed, folder in enumerate(inputs):
        folder.mkdir()
        forked({"folder": str(folder), "inputs": seed, "size": size})
    known = {}
    for number, plan in enumerate(plans):
        kind, old = plan["kind"], base / plan["kind"]
        if kind not in known:
            known[kind] = prepared(inputs, old, kind)
        about = known[kind]
        folder = shutil.copytree(old, base / f"{number}")
        if kind == "cache":  # what it has is not made again
            shutil.rmtree(folder / "out.cache")
        todo = {"kind": kind, "folder": str(folder)}
        if "kill" in plan:
            todo["kill"] = 1 + int(plan["kill"] * about["events"])
        if "limit" in plan:
            todo["full"] = True
            todo["limit"] = max(600, int(plan["limit"] * about["largest"]))
        if "disk" in plan:
            todo["full"] = True
            filler = folder / "filler"
            room = shutil.disk_usage(folder).free - int(plan["disk"] * about["whole"])
            filler.write_bytes(bytes(max(0, room)))
        code = forked(todo)
        out = folder / f"out.{kind}"
        found = {"code": code, "words": (ASIDE / "words").read_text(), "left": hidden(folder)}
        found |= {"found": digest(out), "old": about["old"], "new": about["new"]}
        if "disk" in plan:
            filler.unlink()
        code = forked({"kind": kind, "folder": str(folder)})
        found["again"] = {"code": code, "found": digest(out), "left": hidden(folder)}
        print(json.dumps({**plan, **found}), flush=True)


def hidden(folder):
    return [str(path.relative_to(folder)) for path in folder.rglob(".*")]


if __name__ == "__main__":
    try:
        run(json.loads(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    finally:
        if os.getpid() == OWN:
            shutil.rmtree(ASIDE, ignore_errors=True)
