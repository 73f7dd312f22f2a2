"""A Dask cluster whose workers or scheduler die: one line after a while, and the run can go on."""

import json
import subprocess
import sys
import threading
import time

import pytest
from tiny_procedure import write_experiment

from kuq_study import Store, read_experiment, run
from kuq_study.cli import main

distributed = pytest.importorskip("distributed")


class Cluster:
    """A scheduler and one worker, each a process that can be killed."""

    def __init__(self, folder):
        self.processes = []
        self.where = ("--local-directory", str(folder / "worker"))
        file = folder / "scheduler.json"
        scheduler = [
            *("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"),
            *("--scheduler-file", str(file)),
        ]
        self.scheduler = self.start(*scheduler)
        self.wait_for(lambda: file.exists() and file.read_text().rstrip().endswith("}"))
        self.address = json.loads(file.read_text())["address"]
        self.worker = self.add_worker()

    def start(self, module, *options):
        command = [sys.executable, "-m", f"distributed.cli.{module}", *options]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def add_worker(self):
        options = ("--no-nanny", "--nthreads", "1", "--no-dashboard", *self.where)
        worker = self.start("dask_worker", self.address, *options)
        with distributed.Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=120)
        return worker

    @staticmethod
    def wait_for(what):
        deadline = time.monotonic() + 120
        while not what():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    found = Cluster(tmp_path)
    yield found
    found.close()


@pytest.mark.parametrize("victim", ["worker", "scheduler"])
def test_killed_while_cells_run(tmp_path, capsys, cluster, victim):
    log = tmp_path / "log"
    log.touch()
    path = write_experiment(tmp_path, log=log, sleep=0.5)
    out = tmp_path / "run"

    def kill():
        cluster.wait_for(log.read_text)
        getattr(cluster, victim).kill()

    killer = threading.Thread(target=kill)
    killer.start()
    options = ["--out", str(out), "--scheduler", cluster.address, "--worker-timeout", "2"]
    begin = time.monotonic()
    assert main(["run", str(path), *options]) == 1
    assert time.monotonic() - begin < 120  # and not for ever
    killer.join()
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("kuq-study: error: the ")
    assert said.endswith("the same command goes on from here")
    with Store(out) as store:
        assert {cell.status for cell in store.cells()} <= {"pending", "done"}

    if victim == "worker":
        cluster.add_worker()
        assert main(["run", str(path), *options]) == 0
    else:
        assert main(["run", str(path), "--out", str(out), "--jobs", "0"]) == 0
    run([read_experiment(path)], tmp_path / "whole", jobs=0)
    with Store(out) as one, Store(tmp_path / "whole") as other:
        assert one.records() == other.records()


@pytest.mark.parametrize("value", ["0", "-1", "nan", "soon"])
def test_the_limit_is_a_number_of_seconds(tmp_path, capsys, value):
    with pytest.raises(SystemExit) as caught:
        main(["run", "x.toml", "--worker-timeout", value])
    assert caught.value.code == 2
    assert "a number > 0 is needed" in capsys.readouterr().err
