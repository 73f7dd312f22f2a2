"""Predictions in ``.npz`` files: named arrays with the axes (members, inputs…, [draws], event…)."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from kuq.errors import ParameterError, ShapeError
from kuq.files.roles import Names, as_parameter, find_law
from kuq.files.stored import StoredPrediction


def read_npz(
    path: Path,
    names: Names,
    *,
    event_ndim: int = 0,
    member_axis: int | None = None,
    sample_axis: int | None = None,
    nan_policy: str = "raise",
) -> StoredPrediction:
    """The prediction in an ``.npz`` file; nothing in it is executed.

    Axes are (members, inputs…, [draws], event…, [components]) unless ``member_axis`` and
    ``sample_axis``, numbers of axes of the array as stored, say otherwise.
    """
    arrays = _load(path)
    law, roles = find_law(arrays, names)
    found = {}
    weights = None
    for role, name in roles.items():
        array = arrays[name]
        if array.dtype.kind not in "fiub":
            raise ParameterError(f"{name!r} must hold real numbers, got dtype {array.dtype}")
        if role == "weights":
            weights = array
        else:
            found[role] = as_parameter(role, name, array)
    found = _broadcast(found)
    if law != "evidential":
        draws = sample_axis if law == "samples" else None
        found = {role: _arranged(a, member_axis, draws, event_ndim) for role, a in found.items()}
    return StoredPrediction(law, found, event_ndim, weights, nan_policy).checked()


def _load(path: Path) -> dict[str, np.ndarray]:
    if path.stat().st_size == 0:
        raise ParameterError(f"{path} is empty")
    try:
        with path.open("rb") as file:
            start = file.read(6)
            if not start.startswith((b"PK", b"\x93NUMPY")):
                raise ParameterError(
                    f"{path} is not an .npz file; numpy.savez(file, loc=loc, scale=scale) makes one"
                )
            file.seek(0)
            stored = np.load(file, allow_pickle=False)
            if not isinstance(stored, np.lib.npyio.NpzFile):
                raise ParameterError(
                    f"{path} holds a single array without a name; save it with numpy.savez, as in "
                    "savez(file, loc=loc, scale=scale)"
                )
            return {name: stored[name] for name in stored.files}
    except ValueError as error:
        if isinstance(error, ParameterError):
            raise
        if "allow_pickle" in str(error):
            raise ParameterError(
                f"{path} holds Python objects (pickles), which could execute code and are not "
                "read; save plain arrays of numbers"
            ) from None
        raise ParameterError(f"{path} is not a readable .npz file: {error}") from None
    except (zipfile.BadZipFile, EOFError, KeyError, zipfile.LargeZipFile, OSError) as error:
        raise ParameterError(f"{path} is damaged or not an .npz file: {error}") from None


def _broadcast(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Parameters may be smaller where they are the same for all."""
    try:
        shape = np.broadcast_shapes(*(a.shape for a in arrays.values()))
    except ValueError:
        listed = ", ".join(f"{name} {a.shape}" for name, a in arrays.items())
        raise ShapeError(f"the parameters must fit each other, got {listed}") from None
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
