"""Options in words: those of the command line by those of kuq.xarray, and back."""

from __future__ import annotations

import re

#: The options of kuq.xarray, and what the command line calls them.
_COMMAND = {
    "member_dim": "--member",
    "draws_dim": "--draws",
    "sample_dim": "--draws",
    "event_dims": "--event",
    "level_dims": "--levels",
    "crossed": "--crossed",
    "nan_policy": "--nan",
}
_PYTHON = {command: name for name, command in reversed(_COMMAND.items())}
_GIVEN = re.compile(rf"\b({'|'.join(_COMMAND)})=(\([^)]*\)|\"[^\"]*\"|'[^']*'|\[[^\]]*\]|\.\.\.)")
_BETWEEN = re.compile(rf"(?<=[\])'\".]), (?=(?:{'|'.join(_COMMAND)})=)")
_NAMED = re.compile(rf"\b({'|'.join(name for name in _COMMAND if '_' in name)})\b")
_COMMANDED = re.compile(rf"({'|'.join(_PYTHON)}) ([\w,]+)")


def in_command(text: str) -> str:
    """A sentence with the options of the command line in place of those of Python.

    >>> in_command("name them: member_dim='model', draws_dim='run', or level_dims=('model', 'run')")
    'name them: --member model --draws run, or --levels model,run'
    """

    def option(found: re.Match[str]) -> str:
        value = found[2].strip("()[]")
        values = "DIM" if value == "..." else value.replace(" ", "").replace("'", "")
        return f"{_COMMAND[found[1]]} {values.replace(chr(34), '')}"

    text = _GIVEN.sub(option, _BETWEEN.sub(" ", text))
    return _NAMED.sub(lambda found: _COMMAND[found[1]], text)


def in_python(text: str) -> str:
    """A sentence with the options of Python in place of those of the command line.

    >>> in_python("--levels scenario,number tells what each level adds")
    "level_dims=('scenario', 'number') tells what each level adds"
    """

    def option(found: re.Match[str]) -> str:
        values = tuple(found[2].split(","))
        return f"{_PYTHON[found[1]]}={values if len(values) > 1 else values[0]!r}"

    return re.sub(r"--points (\w+)", r"data['\1']", _COMMANDED.sub(option, text))
