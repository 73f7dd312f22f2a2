"""Numbers where a prediction is needed: what they may mean has to be said."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Containers of numbers by their class, so that no library is imported for them.
_CONTAINERS = ("Tensor", "ArrayImpl", "DataFrame", "Series", "DataArray", "Dataset")


def are_numbers(value: Any) -> bool:
    """Whether something holds numbers and no word of what they are: arrays, tables, lists."""
    if isinstance(value, (list, tuple)):
        return bool(value) and are_numbers(value[0])
    numeric = isinstance(value, (int, float, np.ndarray, np.generic))
    return numeric or type(value).__name__ in _CONTAINERS


def what_they_may_mean(value: Any) -> str:
    """How to say what numbers are, the likeliest first by the number of their axes."""
    shape = getattr(value, "shape", None)
    if isinstance(value, (list, tuple)):
        inner = getattr(value[0], "shape", None)
        deeper = inner if inner is not None else (len(value[0]),) if _is_list(value[0]) else ()
        shape = (len(value), *deeper)
    shown = f" of shape {tuple(shape)}" if shape is not None and not callable(shape) else ""
    named = hasattr(value, "dims") and hasattr(value, "coords")
    values = "values"
    if type(value).__name__ == "DataFrame":
        shown += ", rows first"
        values = "table.T"
    if isinstance(value, (list, tuple)) and all(map(_is_pair, value)):
        return (
            f"a {type(value).__name__} of {len(value)} pairs does not say what they mean; if they "
            "are means and standard deviations of members: "
            "kuq.Ensemble([kuq.Normal(mean, std) for mean, std in pairs])"
        )
    return (
        f"numbers ({type(value).__name__}{shown}) are no distribution and do not say what they "
        f"mean; wrap them: point predictions (members, rows) as kuq.Ensemble(kuq.Point({values})), "
        "means and standard deviations as kuq.Ensemble(kuq.Normal(mean, std)), draws (members, "
        "rows, draws) as kuq.Ensemble(kuq.Samples(draws)); a single law without kuq.Ensemble"
        + ("; named dimensions: kuq.xarray.decompose" if named else "")
    )


def _is_pair(value: Any) -> bool:
    """Two arrays that belong together; two numbers in a list are a row of a table."""
    return _is_list(value) and len(value) == 2 and hasattr(value[0], "shape")


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))
