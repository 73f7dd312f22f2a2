"""Settings of the whole process, switched by a call or for the length of a with statement."""

from __future__ import annotations

from types import TracebackType
from typing import Any, ClassVar


class Switch:
    """Takes effect at once; used in a ``with`` statement it restores the former state at its end.

    A subclass is one setting and starts with its own ``state``.
    """

    state: ClassVar[Any]

    def __init__(self, state: Any) -> None:
        self._before = type(self).state
        type(self).state = state

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        type(self).state = self._before
