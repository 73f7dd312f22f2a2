"""Tables of an experiment file, turned into frozen dataclasses with errors that name the place."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from kuq.errors import ParameterError

Settings = TypeVar("Settings")


def from_table(kind: type[Settings], table: Mapping[str, Any], where: str) -> Settings:
    """The dataclass ``kind`` filled from a table; unknown, missing and mistyped keys are errors.

    ``where`` is the place that a message names, such as ``"[grid.uci.model]"``.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Options:
    ...     rounds: int = 20
    >>> from_table(Options, {"round": 3}, "[grid.uci.evaluation]")
    Traceback (most recent call last):
    kuq.errors.ParameterError: [grid.uci.evaluation] has no key 'round'; it may have: rounds
    """
    assert dataclasses.is_dataclass(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    refuse_unknown(table, fields, where)
    hints = typing.get_type_hints(kind)
    values = {}
    for name, field in fields.items():
        if name in table:
            values[name] = _converted(table[name], hints[name], f"{name!r} of {where}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ParameterError(f"{where} needs the key {name!r}")
    return typing.cast(Settings, kind(**values))


def refuse_unknown(table: Mapping[str, Any], known: typing.Iterable[str], where: str) -> None:
    """Raise on the first key that is not known, with those that are."""
    names = sorted(known)
    for key in table:
        if key not in names:
            raise ParameterError(f"{where} has no key {key!r}; it may have: {', '.join(names)}")


def _converted(value: Any, hint: Any, where: str) -> Any:
    """The value as the type asks for it; lists become tuples, integers may stand for floats."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        kinds = [kind for kind in inner if _fits(value, kind)]
        if kinds:
            return _converted(value, kinds[0], where)
    elif _fits(value, hint):
        if origin is tuple:
            return tuple(_converted(item, inner[0], where) for item in value)
        return float(value) if hint is float else value
    raise ParameterError(f"{where} must be {_words(hint)}, got {value!r}")


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin is tuple:
        return isinstance(value, (list, tuple)) and all(_fits(item, inner[0]) for item in value)
    if origin is Mapping or hint is Mapping:
        return isinstance(value, Mapping)
    if hint in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if hint is float else hint)


def _words(hint: Any) -> str:
    """How a message calls a type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_words(kind) for kind in inner if kind is not types.NoneType)
    if origin is tuple:
        return f"a list ({_words(inner[0])} each)"
    names = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}
    return names.get(hint, "a table")
