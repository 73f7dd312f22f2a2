"""The switch for compiled code, and the only way to it.

Compiled twins stand beside the array code that they do faster, in files that end in ``_compiled``.
They take NumPy arrays of float64, and are used where numba is installed and the work is worth the
half second that importing numba takes.
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
#: The same for many small calls, which pay back more slowly: about a thousand of them.
_MANY = 10 * WORTHWHILE
#: What the smallest call counts.
_LEAST = 2_000
_BY_WORK = "by work alone"
#: What every twin imports, and with it numba.
_ENGINE = "kuq._numba.compiling"


class compiled(Switch, default=None):  # noqa: N801  (reads as a function: `kuq.compiled(False)`, `with kuq.compiled(False):`)
    """Choose compiled code for NumPy arrays: True always, False never, None for large work.

    The default is None. Results agree to rounding. Takes effect at once, in this thread (or
    asynchronous task) alone; used in a ``with`` statement it restores the former state at the
    end. Needs the extra ``fast`` (numba).

    >>> import kuq
    >>> with kuq.compiled(False):
    ...     u = kuq.decompose(kuq.Ensemble(kuq.Normal([0.0, 1.0], [1.0, 1.0])), kuq.CRPS())
    """

    def __init__(self, enabled: bool | str | None) -> None:
        if enabled not in (None, _BY_WORK) and not isinstance(enabled, bool):
            raise ParameterError(f"compiled takes True, False or None, got {enabled!r}")
        if enabled is True and not _installed():
            raise ParameterError('compiled code needs numba; install it with "kuq[fast]"')
        super().__init__(enabled)


def by_work_alone() -> compiled:
    """Inside, the choice of compiled code does not depend on what the process did before.

    For parts of a result that are computed in several processes, one of which may die: the same
    parts have the same bits wherever they are computed.
    """
    state = compiled.state()
    return compiled(_BY_WORK if state is None else state)


def wanted(work: float, array: Any) -> bool:
    """Whether compiled code is to do this much work on arrays like this one."""
    state = compiled.state()
    if not isinstance(array, np.ndarray) or state is False or not _installed():
        return False
    if state is True or work >= WORTHWHILE:
        return True
    if state == _BY_WORK or is_loaded():
        return state is None
    _small.work += max(work, _LEAST)
    return _small.work >= _MANY


class _Small:
    """The small work that was done without compiled code: in a long loop it is large."""

    work = 0.0


_small = _Small()


def serves_losses() -> bool:
    """Whether compiled code is to give gradients; a loss of any size comes back many times."""
    state = compiled.state()
    return state is True or (state is None and _installed())


def looks() -> bool:
    """Whether compiled code is to look at numbers that are to be checked: where it is there."""
    return compiled.state() is not False and _ENGINE in sys.modules


def is_loaded() -> bool:
    """Once numba is there it serves small work as well."""
    return _ENGINE in sys.modules


@functools.cache
def twin(name: str) -> ModuleType:
    """The compiled functions beside the module of that name, such as ``forms.distances``."""
    return importlib.import_module(f"kuq.{name}_compiled")


@functools.cache
def _installed() -> bool:
    return importlib.util.find_spec("numba") is not None
