"""Runs the cells of experiments that are not done yet, and stores what comes of them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import final

from kuq._replacing import sweep_folder
from kuq._threads import workers
from kuq.errors import ParameterError
from kuq_study.cell import Cell
from kuq_study.data_digests import DataDigests
from kuq_study.experiment import Experiment
from kuq_study.lock import locked
from kuq_study.pools import DaskCluster, InProcess, LocalProcesses, Pool, PoolError
from kuq_study.progress import Progress
from kuq_study.states import clear_all
from kuq_study.store import Store
from kuq_study.worker import PREDICTIONS, PROGRESS, CellResult, Task, clear_notes

#: Seconds that a run waits for workers of a cluster that has lost all of them.
WORKER_TIMEOUT = 120.0
#: Seconds between two looks at what the cells in flight say of themselves.
_GLANCE = 1.0


@final
@dataclass(frozen=True)
class Summary:
    """How a run ended: cells done before it, done by it, and the messages of those that failed."""

    before: int
    done: int
    failed: Mapping[str, str]


def run(
    experiments: Sequence[Experiment],
    out: str | Path,
    *,
    jobs: int | None = None,
    scheduler: str | None = None,
    data_dir: str | Path | None = None,
    worker_timeout: float = WORKER_TIMEOUT,
    only: Collection[str] = (),
    progress: Progress | None = None,
) -> Summary:
    """Run all cells of the experiments that ``out`` has no results of, and store theirs there.

    ``only`` are the data sets whose cells are run now, by default all; the others stay to be done.
    ``jobs`` processes (by default one per core; 0 runs in this one), or the workers of the Dask
    ``scheduler``. Killed at any moment and called again, it repeats the cells that were in flight,
    no more, and of their trainings at most the last tenth. A cell that raises is stored as failed,
    is tried again by the next call, and the rest goes on. The numbers do not depend on the number
    of jobs or of interruptions. A cluster that has had no worker for ``worker_timeout`` seconds
    ends the run with a ``PoolError``.
    """
    presets = sorted({experiment.preset for experiment in experiments})
    if len(presets) != 1:
        raise ParameterError(f"experiments of one run need one preset, got {presets}")
    names = [experiment.name for experiment in experiments]
    if len(set(names)) != len(names):
        raise ParameterError(f"experiments of one run need different names, got {names}")
    if not worker_timeout > 0:
        raise ParameterError(
            f"worker_timeout must be a number of seconds > 0, got {worker_timeout}"
        )
    if jobs is not None and jobs < 0:
        raise ParameterError(f"jobs must be at least 0, got {jobs}")
    datasets = {
        name for each in experiments for grid in each.grids.values() for name in grid.datasets
    }
    if not datasets.issuperset(only):
        raise ParameterError(
            f"only: {sorted(set(only) - datasets)} are no data sets of these experiments at the "
            f"preset {presets[0]!r}; there are: {', '.join(sorted(datasets))}"
        )
    progress = Progress() if progress is None else progress
    with Store.create(out, presets[0]) as store, locked(store.folder):
        _prepare(store.folder)
        where = None if data_dir is None else Path(data_dir).resolve()
        planned, without_data = _planned(experiments, store, DataDigests(where))
        cells = [cell for cell in planned if not only or cell.dataset in only]
        done = {cell.key for cell in store.cells() if cell.status == "done"}
        # What was done stays as it is, but whether it is of these data nobody can tell.
        asked = {cell.key for cell in cells}
        failed = {key: why for key, why in without_data.items() if key in done & asked}
        todo = [cell for cell in cells if cell.key not in done]
        progress.begin(len(cells), len(cells) - len(todo))
        for key, why in failed.items():
            progress.say(f"{key}: FAILED: {why}")
        if todo:
            pool = _pool(jobs, scheduler, store.folder, len(todo))
            try:
                failed |= _work(todo, pool, store, where, progress, worker_timeout)
            except BaseException:
                pool.close(at_once=True)
                clear_notes(store.folder / PROGRESS)
                raise
            pool.close(at_once=False)
        if not failed and not only:
            clear_all(store.folder)
        unknown = len(failed.keys() & done)
        before = len(cells) - len(todo) - unknown
        return Summary(before, len(cells) - before - len(failed), failed)


def _planned(
    experiments: Sequence[Experiment], store: Store, digests: DataDigests
) -> tuple[list[Cell], dict[str, str]]:
    """The cells with the digests of their data, and by key why some cannot be read."""
    before = {cell.key: str(cell.settings.get("data_digest", "")) for cell in store.cells()}
    cells: list[Cell] = []
    unread = {}
    for experiment in experiments:
        planned = []
        for cell in experiment.cells():
            filled, why = digests.filled(cell, before.get(cell.key, ""))
            planned.append(filled)
            if why:
                unread[cell.key] = (
                    "the data cannot be read, so that its results, which are kept, may be those of "
                    f"other data ({why})"
                )
        store.plan(experiment, planned)
        cells += planned
    return cells, unread


def _prepare(folder: Path) -> None:
    """Make the folders, and clear what a killed run left half-written."""
    for name in (PREDICTIONS, PROGRESS, "fields"):
        (folder / name).mkdir(exist_ok=True)
        sweep_folder(folder / name)
    clear_notes(folder / PROGRESS)


def _pool(jobs: int | None, scheduler: str | None, run: Path, cells: int) -> Pool:
    if scheduler is not None:
        return DaskCluster(scheduler, run.resolve())
    if jobs == 0:
        return InProcess()
    return LocalProcesses(min(workers() if jobs is None else jobs, cells))


def _work(
    todo: Sequence[Cell],
    pool: Pool,
    store: Store,
    data_dir: Path | None,
    progress: Progress,
    worker_timeout: float,
) -> dict[str, str]:
    """Keep the pool busy until nothing is left; returns the messages of cells that failed."""
    waiting = deque(todo)
    alone: deque[Cell] = deque()  # cells in flight when a process died: one of them may be why
    flying: dict[Future[CellResult], Cell] = {}
    failed: dict[str, str] = {}
    run = store.folder.resolve()
    seen = time.monotonic()
    while waiting or alone or flying:
        there = pool.slots
        if there:
            seen = time.monotonic()
        elif time.monotonic() - seen > worker_timeout:
            raise PoolError(
                f"the cluster has had no workers for {worker_timeout:g} s; start some, and the "
                "same command goes on from here"
            )
        source, slots = (alone, min(1, there)) if alone else (waiting, there)
        broken = False
        while source and len(flying) < slots and not broken:
            try:
                future = pool.submit(Task(source[0], run, data_dir, store.checksums()))
                flying[future] = source.popleft()
            except BrokenProcessPool:  # a process died since the last look
                broken = True
        if not flying and not there:
            time.sleep(min(_GLANCE, worker_timeout))
        ended, _ = wait(flying, timeout=_GLANCE, return_when=FIRST_COMPLETED)
        lost: list[Cell] = []
        for future in ended:
            cell = flying.pop(future)
            error = _error_of(future)
            if error is None:
                result = future.result()
            elif isinstance(error, CancelledError):
                raise PoolError(
                    "the scheduler of the cluster is gone; start it and its workers, and the same "
                    "command goes on from here"
                )
            elif isinstance(error, BrokenProcessPool) and slots > 1:
                lost.append(cell)
                broken = True
                continue
            else:
                broken = broken or isinstance(error, BrokenProcessPool)
                result = CellResult(cell, message=_death(error))
            store.save(result)
            progress.cell(result)
            if not result.done:
                failed[cell.key] = result.message
        if broken:
            pool.renew()
            alone.extend([*lost, *flying.values()])
            flying.clear()
        progress.running(flying.values(), run)
    return failed


def _error_of(future: Future[CellResult]) -> BaseException | None:
    try:
        return future.exception()
    except CancelledError as error:  # a Dask scheduler that is gone
        return error


def _death(error: BaseException) -> str:
    return (
        f"the process of this cell died without a word ({type(error).__name__}: {error}); it may "
        "have run out of memory"
    )
