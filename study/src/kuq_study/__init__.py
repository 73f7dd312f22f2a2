"""Experiments: a runner for grids of cells, a store of their results, tables, figures, reports."""

from kuq_study import stand_ins as stand_ins  # which adds them to the data sets of kuq
from kuq_study.cell import Cell
from kuq_study.experiment import Deviation, Experiment, read_experiment
from kuq_study.procedure import Context, Procedure
from kuq_study.records import Record
from kuq_study.runner import Summary, run
from kuq_study.store import CellState, Store, StoreError

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
