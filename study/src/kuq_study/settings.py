"""Tables of an experiment file, turned into frozen dataclasses with errors that name the place."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from kuq._ranges import Within
from kuq.errors import ParameterError

Settings = TypeVar("Settings")
#: What a column of SQLite holds, and every other program that reads a run.
_INTEGERS = Within(least=-(2**63), most=2**63 - 1)


def from_table(kind: type[Settings], table: Mapping[str, Any], where: str) -> Settings:
    """The dataclass ``kind`` filled from a table.

    Unknown, missing and mistyped keys are errors, and so are numbers out of the range that
    ``kuq._ranges.Within`` gives in the annotation. ``where`` is the place that a message names,
    such as ``"[grid.uci.model]"``.

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
    values = checked_values(typing.get_type_hints(kind, include_extras=True), table, where)
    for name, field in fields.items():
        if name in table:
            continue
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ParameterError(f"{where} needs the key {name!r}")
    try:
        return typing.cast(Settings, kind(**values))
    except ParameterError as error:
        raise ParameterError(f"{where}: {error}") from error


def checked_values(
    hints: Mapping[str, Any], table: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """The values of a table as the types by name ask for them."""
    refuse_unknown(table, hints, where)
    return {
        name: _converted(value, hints[name], f"{name!r} of {where}")
        for name, value in table.items()
    }


def refuse_unknown(table: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
    """Raise on the first key that is not known, with those that are."""
    names = sorted(allowed)
    for key in table:
        if key not in names:
            raise ParameterError(f"{where} has no key {key!r}; it may have: {', '.join(names)}")


def refuse_odd_values(table: Mapping[str, Any]) -> None:
    """Raise on what TOML can say and no setting can be: dates, nan, endless numbers, NUL."""
    for name, value in _leaves(table, ""):
        if isinstance(value, bool) or (isinstance(value, str) and "\0" not in value + name):
            continue
        if isinstance(value, int) and value in _INTEGERS and "\0" not in name:
            continue
        if isinstance(value, float) and math.isfinite(value) and "\0" not in name:
            continue
        raise ParameterError(
            f"{name!r} must be a text without NUL, true or false, an integer of at most 64 bits "
            f"or a finite number, got {value!r}"
        )


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _leaves(entry, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, name)
    else:
        yield name, value


def _converted(value: Any, hint: Any, where: str) -> Any:
    """The value as the type asks for it; lists become tuples, integers may stand for floats."""
    kind, limits = _parts(hint)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    wrong = ParameterError(f"{where} must be {_words(hint)}, got {value!r}")
    if origin in (typing.Union, types.UnionType):
        fitting = [option for option in inner if _fits(value, option)]
        if not fitting:
            raise wrong
        try:
            return _converted(value, fitting[0], where)
        except ParameterError:
            if isinstance(value, (Mapping, list)):  # an error that names the place inside of it
                raise
            raise wrong from None
    if not _fits(value, kind):
        raise wrong
    if limits is not None and (len(value) if origin is tuple else value) not in limits:
        raise wrong
    if origin is tuple:
        return tuple(
            _converted(item, item_hint, f"each item of {where}")
            for item, item_hint in zip(value, _item_hints(kind, len(value)), strict=True)
        )
    if origin is Mapping:
        return {key: _converted(item, inner[1], f"{where}.{key}") for key, item in value.items()}
    return float(value) if kind is float else value


def _parts(hint: Any) -> tuple[Any, Within | None]:
    """A type and the limits that were declared with it."""
    if typing.get_origin(hint) is not typing.Annotated:
        return hint, None
    kind, *notes = typing.get_args(hint)
    return kind, next((note for note in notes if isinstance(note, Within)), None)


def _item_hints(kind: Any, length: int) -> tuple[Any, ...]:
    inner = typing.get_args(kind)
    return (inner[0],) * length if inner[-1] is Ellipsis else inner


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value has the type, whatever its limits."""
    kind, _ = _parts(hint)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, option) for option in inner)
    if origin is typing.Literal:
        return isinstance(value, str) and value in inner
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            return False
        hints = _item_hints(kind, len(value))
        return len(value) == len(hints) and all(map(_fits, value, hints))
    if origin is Mapping or kind is Mapping:
        return isinstance(value, Mapping)
    if kind in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def _words(hint: Any) -> str:
    """How a message calls a type."""
    kind, limits = _parts(hint)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_words(option) for option in inner if option is not types.NoneType)
    if origin is typing.Literal:
        return " or ".join(map(repr, inner))
    if origin is tuple:
        length = f" of length {limits}" if limits else ""
        fixed = "" if inner[-1] is Ellipsis else f" of {len(inner)}"
        return f"a list{fixed} ({_words(inner[0])} each){length}"
    names = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}
    return names.get(kind, "a table") + (f" {limits}" if limits else "")
