"""The switch for compiled code, and the only way to it.

The twins in ``kuq._numba`` are faster forms of routes that exist in plain array code. They take
NumPy arrays of float64, and are used where numba is installed and the work is worth the half
second that importing numba takes.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any

import numpy as np

from kuq._switch import Switch
from kuq.errors import ParameterError

#: Evaluations of a kernel between two laws from which on compiled code is worth its start.
WORTHWHILE = 200_000

#: How often the work that is asked about comes again, as tiles and rows of pairs do.
_repetitions: ContextVar[float] = ContextVar("repetitions", default=1.0)


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


@contextmanager
def repeated(times: int) -> Iterator[None]:
    """All work inside is done so many times: what counts is the sum."""
    token = _repetitions.set(_repetitions.get() * max(1, times))
    try:
        yield
    finally:
        _repetitions.reset(token)


def twin(name: str, work: float, *arrays: Any) -> ModuleType | None:
    """The module ``kuq._numba.<name>``, or None where it is not to be used."""
    if not all(type(a) is np.ndarray and a.dtype == np.float64 for a in arrays):
        return None
    wanted = compiled.state()
    if wanted is False or (wanted is None and work * _repetitions.get() < WORTHWHILE):
        return None
    return importlib.import_module(f"kuq._numba.{name}") if _installed() else None


@functools.cache
def _installed() -> bool:
    return importlib.util.find_spec("numba") is not None
