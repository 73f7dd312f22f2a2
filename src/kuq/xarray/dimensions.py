"""The dimensions of a prediction by their usual names."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

import kuq

#: Ask for a dimension by its usual names.
AUTO: Final = "auto"
MEMBER = ("member", "members", "realization", "number", "ensemble", "ens", "ensemble_member")
SAMPLE = ("sample", "samples", "draw", "draws")
COMPONENT = ("component", "components", "mixture")
RANK = ("rank", "factor_rank")


def found(
    dims: Iterable[Hashable], asked: Hashable | None, usual: tuple[str, ...], role: str
) -> Hashable | None:
    """The dimension that was asked for, or the only one with a usual name; None if there is none.

    Which of two usual names is meant has to be said.
    """
    present = list(dims)
    if asked is None:
        return None
    if asked != AUTO:
        if asked not in present:
            raise kuq.ShapeError(
                f"{role}_dim={asked!r} is not a dimension of the data, which has {present}"
            )
        return asked
    candidates = [name for name in present if str(name).lower() in usual]
    if len(candidates) > 1:
        raise kuq.ShapeError(
            f"{candidates} may all be the {role} dimension; name it: {role}_dim=..."
        )
    return candidates[0] if candidates else None


def needed(
    dims: Iterable[Hashable], asked: Hashable | None, usual: tuple[str, ...], role: str
) -> Hashable:
    """The same, where there has to be one."""
    present = list(dims)
    name = found(present, asked, usual, role)
    if name is None:
        raise kuq.ShapeError(
            f"no {role} dimension among {present} (usual names: {', '.join(usual)}); "
            f"name it: {role}_dim=..."
        )
    return name
