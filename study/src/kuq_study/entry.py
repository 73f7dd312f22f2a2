"""Code of the user's own in a run: ``"file.py:name"`` or ``"package.module:name"``."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from kuq.errors import KuqError, ParameterError


@final
@dataclass(frozen=True)
class Entry:
    """A name in a Python file or in an installed module, not yet imported.

    ``version`` is a digest of the file's text, so that results made by other code are not taken
    for those of this one; what the file imports is not looked at.
    """

    module: str
    name: str
    version: str = ""

    @classmethod
    def parse(cls, text: str, folder: Path, where: str) -> Entry:
        """Read ``text``; a file is looked for beside the experiment file, in ``folder``."""
        module, colon, name = text.rpartition(":")
        if not colon or not module or not name.isidentifier():
            raise ParameterError(
                f"{where} must be 'file.py:name' or 'package.module:name', got {text!r}"
            )
        if not module.endswith(".py"):
            return cls(module, name)
        path = (folder / module).resolve()
        if not path.is_file():
            raise ParameterError(f"{where} names the file {module!r}, which is not in {folder}")
        return cls(str(path), name, hashlib.sha256(path.read_bytes()).hexdigest()[:16])

    @property
    def identity(self) -> str:
        """What tells results apart: the name and the version, not where the file lies."""
        return f"{Path(self.module).name}:{self.name}@{self.version}"

    def load(self) -> Any:
        """Import the module and return what the name stands for."""
        try:
            module = _module_of_file(Path(self.module)) if self.version else self._installed()
        except KuqError:
            raise
        except Exception as error:  # of the user's own code, whatever it does
            raise ParameterError(
                f"{self.module} cannot be imported: {type(error).__name__}: {error}"
            ) from error
        if not hasattr(module, self.name):
            raise ParameterError(f"{self.module} has no {self.name!r}; define it there")
        return getattr(module, self.name)

    def _installed(self) -> Any:
        try:
            return importlib.import_module(self.module)
        except ImportError as error:
            raise ParameterError(
                f"the module {self.module!r} cannot be imported ({error}); install it, or name a "
                "file as 'file.py:name'"
            ) from error


def _module_of_file(path: Path) -> Any:
    """The file as a module, imported once per process under a name that no other module has."""
    name = f"kuq_experiment_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ParameterError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses in the file look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
