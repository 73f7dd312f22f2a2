"""Where cells run: in this process, in local processes, or on a Dask cluster."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import secrets
import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, final

from kuq._replacing import abandon
from kuq.errors import KuqError, ParameterError
from kuq_study.worker import CellResult, Task, run_cell

#: One thread each: as many processes as cores already use them, and sums do not depend on how
#: many threads share them, so that the number of jobs changes no result.
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class PoolError(KuqError):
    """The processes that run the cells are gone and do not come back."""


class Pool(ABC):
    """Takes tasks and gives futures of their results."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """How many cells can run at once; 0 while there is no process to run them."""

    @abstractmethod
    def submit(self, task: Task) -> Future[CellResult]: ...

    @abstractmethod
    def close(self, at_once: bool) -> None:
        """Give the processes back; ``at_once`` ends cells that still run."""

    @abstractmethod
    def renew(self) -> None:
        """Take new processes after one of them died."""


@final
class InProcess(Pool):
    """Runs every cell here, one after the other: for small grids and for a debugger."""

    slots = 1

    def submit(self, task: Task) -> Future[CellResult]:
        future: Future[CellResult] = Future()
        future.set_result(run_cell(task))
        return future

    def close(self, at_once: bool) -> None:
        return

    def renew(self) -> None:
        return


@final
class LocalProcesses(Pool):
    """Processes of this machine, with one thread each; they end when this process does."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._context = multiprocessing.get_context("spawn")
        self._stop_seen, self._stop = self._context.Pipe(duplex=False)
        self._before = {name: os.environ.get(name) for name in _ONE_THREAD}
        os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))  # new processes take it from here
        self._executor = self._new()

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self.jobs, self._context, initializer=_end_when_closed, initargs=(self._stop_seen,)
        )

    @property
    def slots(self) -> int:
        return self.jobs

    def submit(self, task: Task) -> Future[CellResult]:
        return self._executor.submit(run_cell, task)

    def close(self, at_once: bool) -> None:
        if at_once:
            self._stop.close()  # nothing is lost: every file appears whole or not at all
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._stop.close()
        self._stop_seen.close()
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def renew(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._executor = self._new()


def _end_when_closed(stop: Connection) -> None:
    """End this worker when the other end of ``stop`` is closed, by the run or by its death.

    A killed run gives no other sign to its workers: they would wait for work for ever.
    """

    def watch() -> None:
        with contextlib.suppress(EOFError, OSError):
            stop.recv_bytes()
        abandon()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@final
class DaskCluster(Pool):
    """Workers of a ``dask.distributed`` scheduler, which must see the folders of run and data."""

    def __init__(self, address: str, run: Path) -> None:
        try:
            import distributed
        except ImportError as error:
            raise ParameterError(
                'a scheduler needs Dask: pip install "dask[distributed]"'
            ) from error
        # Made before it connects, so that one that fails can be closed here and now: left to the
        # collection of garbage, its closing can wait for ever on a lock that another client holds.
        kind: Any = distributed.Client  # which has no types
        self._client = object.__new__(kind)
        try:
            self._client.__init__(address, timeout=10, set_as_default=False)
        except (OSError, ValueError) as error:
            self._client.close()
            raise ParameterError(f"no Dask scheduler answers at {address!r}: {error}") from error
        self._executor = self._client.get_executor(pure=False)
        try:
            self._check_folder(run)
        except BaseException:
            self.close(at_once=True)
            raise

    def _check_folder(self, run: Path) -> None:
        """Every worker must read what is written here, else predictions would be lost."""
        if not self.slots:
            raise ParameterError("the Dask scheduler has no workers; start some, then run again")
        word = secrets.token_hex(8)
        path = run / f".seen-by-workers-{word}"
        path.write_text(word)
        try:
            blind = [who for who, saw in self._client.run(_read, path).items() if saw != word]
        finally:
            path.unlink()
        if blind:
            raise ParameterError(
                f"these Dask workers do not see the folder {run}: {', '.join(sorted(blind))}; put "
                "it on a disk that all machines share, by --out"
            )

    @property
    def slots(self) -> int:
        try:
            return sum(int(threads) for threads in self._client.nthreads().values())
        except (OSError, AttributeError):  # the scheduler is gone, or the client has given it up
            return 0

    def submit(self, task: Task) -> Future[CellResult]:
        try:
            future: Future[CellResult] = self._executor.submit(run_cell, task)
        except (OSError, RuntimeError, AttributeError) as error:
            raise PoolError(
                f"the Dask scheduler takes no more cells ({error}); start it and its workers, and "
                "the same command goes on from here"
            ) from error
        return future

    def close(self, at_once: bool) -> None:
        self._executor.shutdown(wait=False)  # which cancels what still runs
        self._client.close()

    def renew(self) -> None:
        return  # the scheduler itself gives the cell of a lost worker to another one


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
