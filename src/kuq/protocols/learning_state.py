"""The state of active learning between two rounds, as a file."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import final

from kuq.errors import ParameterError


@final
@dataclass(frozen=True)
class ActiveLearningState:
    """Everything that the next round needs, besides the data and ``fit``.

    ``labelled`` are the places in the pool, in the order in which they were chosen, with the
    batch that the next round trains on; ``sizes`` how many each finished round had, ``errors``
    their test errors. ``settings`` guards against continuing with other settings.
    """

    settings: dict[str, int | str]
    labelled: tuple[int, ...]
    sizes: tuple[int, ...] = ()
    errors: tuple[float, ...] = ()

    @property
    def round(self) -> int:
        """The number of the next round."""
        return len(self.sizes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state as JSON; a file of that name is replaced at once or not at all."""
        target = Path(path)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"format": "kuq active learning 1", **asdict(self)}, file)
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ActiveLearningState:
        """Read a state that ``save`` wrote."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if content["format"] != "kuq active learning 1":
                raise KeyError(content["format"])
            return cls(
                settings={str(k): v for k, v in content["settings"].items()},
                labelled=tuple(int(i) for i in content["labelled"]),
                sizes=tuple(int(i) for i in content["sizes"]),
                errors=tuple(float(e) for e in content["errors"]),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ParameterError(
                f"{os.fspath(path)!r} is no saved state of active learning: {error!r}"
            ) from None
