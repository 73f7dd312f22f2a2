"""Experiments: a runner for grids of cells, a store of their results, tables, figures, reports."""

from kuq.bench.cell import Cell
from kuq.bench.experiment import Deviation, Experiment, read_experiment
from kuq.bench.procedure import Context, Procedure
from kuq.bench.records import Record
from kuq.bench.runner import Summary, run
from kuq.bench.store import CellState, Store, StoreError

__all__ = [
    "Cell",
    "CellState",
    "Context",
    "Deviation",
    "Experiment",
    "Procedure",
    "Record",
    "Store",
    "StoreError",
    "Summary",
    "read_experiment",
    "run",
]


def __dir__() -> list[str]:
    return __all__
