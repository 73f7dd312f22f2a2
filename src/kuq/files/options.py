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
    "fixed": "--fixed",
    "nan_policy": "--nan",
}
_PYTHON = {command: name for name, command in reversed(_COMMAND.items())} | {
    "--target": "y",
    "--directions": "directions",
    "--monte-carlo": "draws",
    "--area-weights": 'weights="area"',
}
#: Names of parameters, which are given by renaming variables.
_RENAMED = re.compile(r"--(loc|scale|weights) (\w+)(?: --(loc|scale) (\w+))?")
_ONE_OF = re.compile(r"--(?:points|samples) (\w+)")
#: What the command line does not have.
_PYTHON_ALONE = " or unbiased=False"
#: What is said otherwise in Python.
_PHRASES = {
    "other names can be given with --loc and --scale, --samples or --points": (
        "other names are given by data.rename(…), and one variable by data[name]"
    ),
    "name it with --scale": "rename it to scale",
    "the file holds": "the data hold",
    "the file has": "the data have",
    "give a pattern of names, such as '{}_observed'": "say so: y={name: outcome}",
    " (outcome)'": "'",
}
_GIVEN = re.compile(rf"\b({'|'.join(_COMMAND)})=(\([^)]*\)|\"[^\"]*\"|'[^']*'|\[[^\]]*\]|\.\.\.)")
_BETWEEN = re.compile(rf"(?<=[\])'\".]), (?=(?:{'|'.join(_COMMAND)})=)")
_NAMED = re.compile(rf"\b({'|'.join(name for name in _COMMAND if '_' in name)})\b")
_COMMANDED = re.compile(
    rf"({'|'.join(_COMMAND.values())}) (?!(?:is|are|out|and|name|of)\b)([\w,]+)"
)
_BARE = re.compile(rf"({'|'.join(_PYTHON)})\b")


def in_command(text: str) -> str:
    """A sentence with the options of the command line in place of those of Python.

    >>> in_command("name them: member_dim='model', draws_dim='run', or level_dims=('model', 'run')")
    'name them: --member model --draws run, or --levels model,run'
    """

    def option(match: re.Match[str]) -> str:
        value = match[2].strip("()[]")
        values = "DIM" if value == "..." else value.replace(" ", "").replace("'", "")
        return f"{_COMMAND[match[1]]} {values.replace(chr(34), '')}"

    text = _GIVEN.sub(option, _BETWEEN.sub(" ", text.replace(_PYTHON_ALONE, "")))
    return _NAMED.sub(lambda match: _COMMAND[match[1]], text)


def in_python(text: str) -> str:
    """A sentence with the options of Python in place of those of the command line.

    >>> in_python("--levels scenario,number tells what each level adds")
    "level_dims=('scenario', 'number') tells what each level adds"
    """

    def option(match: re.Match[str]) -> str:
        values = tuple(match[2].split(","))
        return f"{_PYTHON[match[1]]}={values if len(values) > 1 else values[0]!r}"

    def renamed(match: re.Match[str]) -> str:
        pairs = [pair for pair in (match.group(2, 1), match.group(4, 3)) if pair[0]]
        return f"data.rename({{{', '.join(f'{name!r}: {role!r}' for name, role in pairs)}}})"

    for phrase, other in _PHRASES.items():
        text = text.replace(phrase, other)
    text = _ONE_OF.sub(r"data['\1']", _RENAMED.sub(renamed, text))
    text = re.sub(r"--target (\{\} \(outcome\)|\S+):", "y:", text)
    return _BARE.sub(lambda match: _PYTHON[match[1]], _COMMANDED.sub(option, text))
