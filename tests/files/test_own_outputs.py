"""Which outputs a command may replace: those that kuq has made and that nobody has changed."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from kuq.cli import main
from kuq.datasets import cache
from kuq.protocols.learning_state import ActiveLearningState

pd = pytest.importorskip("pandas")
xr = pytest.importorskip("xarray")
pytest.importorskip("h5netcdf")
pytest.importorskip("pyarrow")

FORMATS = ("npz", "csv", "parquet", "nc", "zarr")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A prediction in every format."""
    monkeypatch.chdir(tmp_path)
    mean = np.random.default_rng(0).normal(size=(3, 5))
    np.savez("in.npz", mean=mean, std=np.ones((3, 5)))
    columns = {f"mean_{m}": mean[m] for m in range(3)} | {f"std_{m}": 1.0 for m in range(3)}
    table = pd.DataFrame({"a,b\nc": [*"vwxyz"], **columns})
    table.to_csv("in.csv", index=False)
    table.set_index("a,b\nc").to_parquet("in.parquet")
    grid = xr.Dataset({"t": (("member", "x"), mean)}, coords={"y": ("x", np.arange(5.0))})
    grid.to_netcdf("in.nc", engine="h5netcdf")
    grid.to_zarr("in.zarr", consolidated=False)
    return tmp_path


def decompose(ending, *options):
    return main(["decompose", f"in.{ending}", "--out", f"out.{ending}", *options])


@pytest.mark.parametrize("ending", FORMATS)
def test_the_same_command_replaces_its_own_output(folder, ending, capsys):
    for _ in range(2):
        assert decompose(ending, "--report", "out.html") == 0, capsys.readouterr().err
    assert decompose(ending, "--score", "gaussian:1") == 0
    assert not list(folder.glob(".*"))


def test_the_mark_of_a_table_changes_no_value(folder):
    assert decompose("csv") == 0
    assert decompose("npz") == 0
    table = pd.read_csv("out.csv")
    assert list(table)[-3:] == ["total", "aleatoric", "epistemic"]
    with np.load("out.npz") as arrays:
        # pandas reads numbers to a few units of the last place.
        np.testing.assert_allclose(table["epistemic"], arrays["epistemic"], rtol=1e-14)


def another_array(path):
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, mine=1, **arrays)


def saved_again(path):
    pd.read_csv(path).to_csv(path, index=False)


def another_column(path):
    table = pd.read_parquet(path)
    table.assign(mine=1).to_parquet(path)


def another_variable(path):
    dataset = xr.load_dataset(path, engine="h5netcdf")
    dataset.assign(mine=1.0).to_netcdf(path, engine="h5netcdf")


def another_group(path):
    xr.Dataset({"mine": 1.0}).to_zarr(path, mode="a", consolidated=False)


def another_file(path):
    (path / "total" / "mine.txt").write_text("mine")


@pytest.mark.parametrize(
    ("ending", "change"),
    [
        ("npz", another_array),
        ("csv", saved_again),
        ("parquet", another_column),
        ("nc", another_variable),
        ("zarr", another_group),
        ("zarr", another_file),
    ],
)
def test_what_was_changed_is_not_replaced(folder, ending, change, capsys):
    out = folder / f"out.{ending}"
    assert decompose(ending) == 0
    change(out)
    before = {p: p.read_bytes() for p in [out, *out.rglob("*")] if p.is_file()}
    capsys.readouterr()
    assert decompose(ending) == 2
    assert f"'out.{ending}' exists and is a " in capsys.readouterr().err
    assert {p: p.read_bytes() for p in [out, *out.rglob("*")] if p.is_file()} == before


def test_one_input_by_many_names(folder, capsys):
    os.link("in.npz", "hard.npz")
    Path("link.npz").symlink_to("in.npz")
    Path("store.zarr").symlink_to("in.zarr")
    before = sorted(p for p in folder.rglob("*"))
    for arguments in (
        ["in.npz", "--out", "hard.npz"],
        ["link.npz", "--out", "in.npz"],
        ["in.npz", "--out", f"../{folder.name}/in.npz"],
        ["in.zarr", "--out", "store.zarr"],
        ["store.zarr", "--out", "in.zarr/out.zarr"],
        ["in.zarr", "--report", "in.zarr/page.html"],
    ):
        assert main(["decompose", *arguments]) == 2
        assert "the input" in capsys.readouterr().err
    assert sorted(p for p in folder.rglob("*")) == before


def test_a_page_inside_of_the_output_is_refused(folder, capsys):
    assert decompose("zarr") == 0
    assert decompose("zarr", "--report", "out.zarr/page.html") == 2
    assert "page.html' lies inside of" in capsys.readouterr().err


def test_figures(folder, capsys):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from kuq.plot.saving import save_figure

    for ending in ("png", "pdf", "svg"):
        for _ in range(2):
            save_figure(Figure(), folder / f"a.{ending}", "kuq demo")
        with pytest.raises(ValueError, match="not a figure of kuq data show"):
            save_figure(Figure(), folder / f"a.{ending}", "kuq data show")
        Figure().savefig(folder / f"b.{ending}")
        with pytest.raises(ValueError, match="exists and is a file"):
            save_figure(Figure(), folder / f"b.{ending}", "kuq demo")


def test_states_of_active_learning(folder):
    state = ActiveLearningState({"seed": 0}, (1, 2))
    for _ in range(2):
        state.save("state.json")
    Path("mine.json").write_text('{"format": "mine"}')
    with pytest.raises(ValueError, match=r"mine\.json' exists"):
        state.save("mine.json")
    assert Path("mine.json").read_text() == '{"format": "mine"}'


def test_models_and_checkpoints(folder):
    pytest.importorskip("torch")
    from safetensors.numpy import save_file

    from kuq.nn import store

    for kind in ("model", "checkpoint"):
        for _ in range(2):
            store.write(f"a.{kind}", kind, {"x": np.zeros(2)}, {})
    Path("a.model").write_bytes(Path("a.model").read_bytes()[:-4])  # damaged, and still kuq's
    store.write("a.model", "model", {"x": np.ones(2)}, {})
    save_file({"x": np.zeros(2)}, "mine.model")
    Path("folder.model").mkdir()
    for name in ("mine.model", "folder.model", "a.checkpoint"):
        with pytest.raises(ValueError, match=f"{name}' exists"):
            store.write(name, "model", {"x": np.zeros(2)}, {})


@pytest.mark.parametrize("system", ["with fallocate", "without"])
def test_the_space_of_cached_arrays_is_taken_before_they_are_mapped(tmp_path, monkeypatch, system):
    monkeypatch.setenv("KUQ_CACHE", str(tmp_path))
    expected = np.random.default_rng(0).normal(size=(40, 300))

    def fill(array):
        array[:] = expected

    if system == "without":
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
        monkeypatch.setattr(cache, "_ZEROS", 1000)
    np.testing.assert_array_equal(cache.cached_array("a", {}, (40, 300), fill), expected)
    if system == "without" or sys.platform != "linux":
        return

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    def never(array):
        raise AssertionError("it would be killed")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        cache.cached_array("b", {}, (40, 300), never)
    assert not list(tmp_path.glob(".*"))
    shutil.rmtree(tmp_path)
