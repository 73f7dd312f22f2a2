"""Settings of a context: of one thread, or of one asynchronous task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, ClassVar, NamedTuple


class _Block(NamedTuple):
    """The state inside a ``with`` statement (``owner``), or outside of all (None)."""

    owner: object
    state: Any


class Switch:
    """Takes effect at once, in the context of the caller; in a ``with`` statement until its end.

    A subclass is one setting and names its default. The open blocks stand beside each other, so
    that each takes away only itself, in whatever order they end.
    """

    _blocks: ClassVar[ContextVar[tuple[_Block, ...]]]
    _state: ClassVar[ContextVar[Any]]
    #: That of the innermost block. It is asked several times in every call, and is no Python code.
    state: ClassVar[Callable[[], Any]]

    def __init_subclass__(cls, default: Any) -> None:
        cls._blocks = ContextVar(cls.__name__, default=(_Block(None, default),))
        cls._state = ContextVar(f"state of {cls.__name__}", default=default)
        cls.state = cls._state.get

    def __init__(self, state: Any) -> None:
        *outer, self._before = self._blocks.get()
        self._called = self._before._replace(state=state)
        self._stand((*outer, self._called))

    def _stand(self, blocks: tuple[_Block, ...]) -> None:
        self._blocks.set(blocks)
        self._state.set(blocks[-1].state)

    def __enter__(self) -> None:
        # What the call did to the block around it is over; this one has a state of its own.
        around = (self._before if b is self._called else b for b in self._blocks.get())
        self._stand((*around, _Block(self, self._called.state)))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stand(tuple(b for b in self._blocks.get() if b.owner is not self))


Settings = dict[type[Switch], Any]


def settings() -> Settings:
    """The state of all switches here, to be taken to work that runs elsewhere."""
    return {switch: switch.state() for switch in Switch.__subclasses__()}


@contextmanager
def under(states: Settings) -> Iterator[None]:
    """Inside, the switches stand as they stood elsewhere."""
    with ExitStack() as blocks:
        for switch, state in states.items():
            blocks.enter_context(switch(state))
        yield
