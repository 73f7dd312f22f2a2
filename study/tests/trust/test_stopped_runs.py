"""A run that is asked to stop."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from tiny_procedure import write_experiment

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs signals")
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@pytest.fixture(autouse=True)
def signals_are_heard():
    """A shell starts what runs behind it with the interrupt ignored, and children inherit that."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@contextmanager
def running(command, **options):
    """A command at work, ended in any case."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", SIGNALS)
def test_a_run_is_stopped_soon_and_says_how_to_go_on(tmp_path, number):
    log = tmp_path / "log"
    log.touch()
    path = write_experiment(tmp_path, sleep=60.0, log=log)
    command = [sys.executable, "-m", "kuq_study", "run", str(path), "--out", str(tmp_path / "run")]
    with running([*command, "--jobs", "2"]) as process:
        deadline = time.monotonic() + 60
        while not log.read_text():  # until a cell is at work
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        start = time.monotonic()
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert time.monotonic() - start < 6.0
        assert process.returncode == 128 + number
    assert err == "4 cells\nkuq-study: stopped; the same command goes on from here\n"
    assert list((tmp_path / "run" / "progress").iterdir()) == []
