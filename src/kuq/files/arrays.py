"""Predictions in ``.npz`` files: named arrays with the axes (members, inputs…, [draws], event…)."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kuq.errors import ParameterError, ShapeError
from kuq.files.archive import read_arrays
from kuq.files.claims import check_memory
from kuq.files.roles import Names, as_doubles, as_parameter, check_values, find_law, listed
from kuq.files.stored import StoredPrediction


def read_npz(
    path: Path,
    names: Names,
    *,
    event_ndim: int = 0,
    member_axis: int | None = None,
    sample_axis: int | None = None,
    nan_policy: str = "raise",
    target: str | None = None,
) -> StoredPrediction:
    """The prediction in an ``.npz`` file; nothing in it is executed.

    Axes are (members, inputs…, [draws], event…, [components]) unless ``member_axis`` and
    ``sample_axis``, numbers of axes of the array as stored, say otherwise.
    """
    arrays = read_arrays(path)
    if target is not None and target not in arrays:
        raise ParameterError(
            f"--target {target}: there is no such array; the file holds {listed(arrays)}"
        )
    law, roles = find_law([name for name in arrays if name != target], names)
    if law == "evidential" and member_axis is not None:
        raise ParameterError("evidential predictions have no members; leave out --member")
    if law != "samples" and sample_axis is not None:
        raise ParameterError(
            f"--draws is for draws, and the file is read as {law}; name their array: --samples "
            "(Monte Carlo is --monte-carlo)"
        )
    by_role = {}
    for role, name in roles.items():
        values = as_doubles(name, arrays[name])
        place = _place(values.shape)
        check_values(role, name, values, nan_policy, place, event_ndim > 0, law != "evidential")
        by_role[role] = as_parameter(role, name, values)
    weights = by_role.pop("weights", None)
    by_role = _broadcast(path, by_role)
    if law != "evidential":
        by_role = {
            role: _arranged(a, member_axis, sample_axis, event_ndim) for role, a in by_role.items()
        }
    unused = [name for name in arrays if name not in (*roles.values(), target)]
    notes = (f"not used: {listed(unused)}",) if unused else ()
    stored = StoredPrediction(law, by_role, event_ndim, weights, nan_policy, notes=notes).checked()
    return stored if target is None else stored.judged_by(as_doubles(target, arrays[target]))


def _place(shape: tuple[int, ...]) -> Callable[[int], str]:
    def said(at: int) -> str:
        index = ", ".join(str(int(i)) for i in np.unravel_index(at, shape))
        return f"the entry [{index}]"

    return said


def _broadcast(path: Path, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Parameters may be smaller where they are the same for all."""
    try:
        shape = np.broadcast_shapes(*(a.shape for a in arrays.values()))
    except ValueError:
        listed = ", ".join(f"{name} {a.shape}" for name, a in arrays.items())
        raise ShapeError(f"the parameters must fit each other, got {listed}") from None
    check_memory(path, 8 * len(arrays) * math.prod(shape))
    return {name: np.broadcast_to(a, shape) for name, a in arrays.items()}


def _arranged(
    array: np.ndarray, member: int | None, draws: int | None, event_ndim: int
) -> np.ndarray:
    """Members first, and draws right before the event."""
    for axis, what in ((member, "member"), (draws, "sample")):
        if axis is not None and not -array.ndim <= axis < array.ndim:
            raise ShapeError(f"there is no {what} axis {axis} in an array of shape {array.shape}")
    if draws is None:
        return array if member is None else np.moveaxis(array, member, 0)
    draws %= array.ndim
    member = (1 if draws == 0 else 0) if member is None else member % array.ndim
    if member == draws:
        raise ShapeError(f"members and draws cannot both be axis {member}")
    return np.moveaxis(array, (member, draws), (0, array.ndim - event_ndim - 1))
