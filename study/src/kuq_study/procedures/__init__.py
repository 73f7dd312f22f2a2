"""The procedures that experiment files name, each loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module

from kuq_study.procedure import Procedure


def _load(name: str) -> Procedure:
    procedure = import_module(f"kuq_study.procedures.{name}").PROCEDURE
    assert isinstance(procedure, Procedure)
    return procedure


#: By name, what gives the procedure; the modules bring what they need only then.
PROCEDURES: dict[str, Callable[[], Procedure]] = {
    name: partial(_load, name)
    for name in (
        "active_learning",
        "approximation",
        "ood_detection",
        "robustness",
        "runtime",
        "selective_prediction",
    )
}
