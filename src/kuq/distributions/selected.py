"""Some coordinates of a law: a box of a field has a law of the same kind."""

from __future__ import annotations

import copy
from typing import TypeVar

from kuq.distributions.base import Parametric

Law = TypeVar("Law", bound=Parametric)


def selected(law: Law, index: tuple[slice, ...]) -> Law:
    """The law of the coordinates at ``index``, one slice per event axis."""
    part = copy.copy(law)
    lead = len(law.batch_shape) + len(law.event_shape)
    for name in law.parameters:
        array = getattr(law, name)
        after = (slice(None),) * (array.ndim - lead)  # components, or columns of a factor
        setattr(part, name, array[(..., *index, *after)])
    return part
