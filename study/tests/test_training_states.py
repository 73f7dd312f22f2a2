"""A run that is killed inside of a training goes on from there, with the same numbers."""

import os
import signal
import subprocess
import sys
import time

import pytest

from kuq_study import Store, read_experiment, run
from kuq_study.states import STATES

pytest.importorskip("torch")
LIMIT = 120  # seconds after which something hangs, however busy the machine

FITTED = """
experiment = "fitted"
procedure = "selective_prediction"

[grid.a]
datasets = ["diabetes"]
representations = ["normal"]
seeds = [0]
scores = ["crps"]

[grid.a.model]
n_members = 2
max_epochs = 200
patience = "never"
"""
LEARNING = """
experiment = "learning"
procedure = "active_learning"

[grid.a]
datasets = ["diabetes"]
representations = ["normal"]
seeds = [0]
scores = ["crps"]

[grid.a.model]
n_members = 2
max_epochs = 20
patience = "never"
validation_fraction = 0.0

[grid.a.evaluation]
rounds = 8
scaling = "pool"
"""


def files(out):
    return sorted((out / STATES).glob("*/*.state"))


def killed_within(path, out):
    """Start a run in a process of its own, and end it as soon as a state was written."""
    command = [sys.executable, "-m", "kuq_study", "run", str(path), "--out", str(out)]
    process = subprocess.Popen(
        [*command, "--jobs", "0"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + LIMIT
    while not files(out):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()


def records(out):
    with Store(out) as store:
        assert [cell.status for cell in store.cells()] == ["done"]
        return store.records()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no SIGKILL")
def test_a_killed_training_goes_on_with_the_same_numbers(tmp_path, monkeypatch):
    from kuq.nn.checkpoints import Checkpoint

    (tmp_path / "fitted.toml").write_text(FITTED)
    killed_within(tmp_path / "fitted.toml", tmp_path / "killed")
    assert len(files(tmp_path / "killed")) == 1
    begun, resume = [], Checkpoint.resume

    def noted(self):
        resume(self)
        begun.append(self.trainer.epoch)

    monkeypatch.setattr(Checkpoint, "resume", noted)
    experiment = read_experiment(tmp_path / "fitted.toml")
    for name in ("killed", "whole"):
        run([experiment], tmp_path / name, jobs=0)
    assert begun[0] >= 20  # a tenth of the epochs
    assert begun[1] == 0
    assert records(tmp_path / "killed") == records(tmp_path / "whole")
    assert list((tmp_path / "killed" / STATES).iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no SIGKILL")
def test_a_killed_cell_of_active_learning_goes_on_with_the_same_numbers(tmp_path):
    (tmp_path / "learning.toml").write_text(LEARNING)
    killed_within(tmp_path / "learning.toml", tmp_path / "killed")
    experiment = read_experiment(tmp_path / "learning.toml")
    for name in ("killed", "whole"):
        run([experiment], tmp_path / name, jobs=0)
    assert records(tmp_path / "killed") == records(tmp_path / "whole")
    assert list((tmp_path / "killed" / STATES).iterdir()) == []


def test_a_damaged_state_is_begun_anew(tmp_path, monkeypatch):
    """Also one of another version, whose networks are trained otherwise."""
    from kuq.nn.regressor import Regressor

    text = FITTED.replace("max_epochs = 200", "max_epochs = 5")
    (tmp_path / "fitted.toml").write_text(text)
    experiment = read_experiment(tmp_path / "fitted.toml")
    run([experiment], tmp_path / "whole", jobs=0)
    fit = Regressor.fit

    def damaged(self, *args, **more):
        if not damage:
            damage.append(self.checkpoint)
            self.checkpoint.write_bytes(b"damaged")
        return fit(self, *args, **more)

    damage = []
    monkeypatch.setattr(Regressor, "fit", damaged)
    run([experiment], tmp_path / "damaged", jobs=0)
    assert damage
    assert records(tmp_path / "damaged") == records(tmp_path / "whole")
