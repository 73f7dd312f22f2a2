"""The switch for compiled code, and the only way to it.

The twins in ``kuq._numba`` are faster forms of routes that exist in plain array code. They take
NumPy arrays of float64, and are used where numba is installed and the work is worth the half
second that importing numba takes.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

import numpy as np

from kuq._switch import Switch
from kuq.errors import ParameterError

#: Evaluations of a kernel between two laws from which on compiled code is worth its start.
WORTHWHILE = 200_000


class compiled(Switch, default=None):  # noqa: N801  (reads as a function: `kuq.compiled(False)`, `with kuq.compiled(False):`)
    """Choose compiled code for NumPy arrays: True always, False never, None for large work.

    The default is None. Results agree to rounding. Takes effect at once, in this thread (or
    asynchronous task) alone; used in a ``with`` statement it restores the former state at the
    end. Needs the extra ``fast`` (numba).

    >>> import kuq
    >>> with kuq.compiled(False):
    ...     u = kuq.decompose(kuq.Ensemble(kuq.Normal([0.0, 1.0], [1.0, 1.0])), kuq.CRPS())
    """

    def __init__(self, enabled: bool | None) -> None:
        if enabled is not None and not isinstance(enabled, bool):
            raise ParameterError(f"compiled takes True, False or None, got {enabled!r}")
        if enabled and not _installed():
            raise ParameterError('compiled code needs numba; install it with "kuq[fast]"')
        super().__init__(enabled)


class by_work_alone(Switch, default=False):  # noqa: N801  (reads as a function, like the above)
    """Inside, the choice of compiled code does not depend on what the process did before.

    For parts of a result that are computed in several processes, one of which may die: the same
    parts have the same bits wherever they are computed.
    """


def wanted(work: float, array: Any) -> bool:
    """Whether compiled code is to do this much work on arrays like this one."""
    state = compiled.state()
    if state is not None or not isinstance(array, np.ndarray):
        return state is True and isinstance(array, np.ndarray)
    if work >= WORTHWHILE:
        return _installed()
    return is_loaded() and not by_work_alone.state()


def is_loaded() -> bool:
    """Once numba is there it serves small work as well."""
    return "kuq._numba.compiling" in sys.modules


def twin(name: str) -> ModuleType:
    """The module of compiled functions of that name."""
    return importlib.import_module(f"kuq._numba.{name}")


@functools.cache
def _installed() -> bool:
    return importlib.util.find_spec("numba") is not None
