"""The state of active learning between two rounds, as a file."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import final

from kuq._digest import plain_digest
from kuq._replacing import Kind, write_text
from kuq.errors import ParameterError

_FORMAT = "kuq active learning 2"


def _is_saved(path: Path) -> bool:
    return str(json.loads(path.read_bytes())["format"]).startswith("kuq active learning ")


_SAVED = Kind("a saved state of active learning", _is_saved)


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
        """Write the state as JSON; a saved state of that name is replaced at once or not at all."""
        state = asdict(self)
        content = {"format": _FORMAT, "sha256": plain_digest(state), "state": state}
        write_text(path, json.dumps(content), _SAVED)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ActiveLearningState:
        """Read a state that ``save`` wrote."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if content["format"] != _FORMAT:
                raise ValueError(f"its format is {content['format']!r}, not {_FORMAT!r}")
            state = content["state"]
            if content["sha256"] != plain_digest(state):
                raise ValueError("its content does not match its digest, so it is damaged")
            return cls(
                settings={str(k): v for k, v in state["settings"].items()},
                labelled=tuple(int(i) for i in state["labelled"]),
                sizes=tuple(int(i) for i in state["sizes"]),
                errors=tuple(float(e) for e in state["errors"]),
            )
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise ParameterError(
                f"{os.fspath(path)!r} is no saved state of active learning: {error!r}"
            ) from None
