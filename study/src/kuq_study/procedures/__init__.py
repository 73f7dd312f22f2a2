"""The procedures that experiment files name, each loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from kuq_study.procedure import Procedure


def _loader(name: str) -> Callable[[], Procedure]:
    def load() -> Procedure:
        procedure = import_module(f"kuq_study.procedures.{name}").PROCEDURE
        assert isinstance(procedure, Procedure)
        return procedure

    return load


#: By name, what gives the procedure; the modules bring what they need only then.
PROCEDURES: dict[str, Callable[[], Procedure]] = {
    name: _loader(name)
    for name in (
        "active_learning",
        "approximation",
        "ood_detection",
        "robustness",
        "runtime",
        "selective_prediction",
    )
}
