"""Whether one member of an ensemble stands apart from the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Outlier:
    """A member that disagrees with the others far more than they do among each other."""

    member: int
    #: its mean divergence from the others over theirs from each other
    ratio: float


#: Ratios below this are no more than members of a healthy ensemble show.
_STANDS_APART = 3.0


def outlying_member(divergences: np.ndarray) -> Outlier | None:
    """The member that stands apart in a matrix (M, M) of divergences, if there is one.

    It is the one whose removal leaves the smallest mean divergence; it stands apart if its mean
    divergence from the others is three times theirs from each other.

    >>> import numpy as np
    >>> outlying_member(np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 8.0], [9.0, 8.0, 0.0]]))
    Outlier(member=2, ratio=8.5)
    """
    count = len(divergences)
    if count < 3 or not np.all(np.isfinite(divergences)):
        return None
    to_others = divergences.sum(axis=1) / (count - 1)
    member = int(np.argmax(to_others))
    rest = np.delete(np.delete(divergences, member, axis=0), member, axis=1)
    # Unbiased estimates between members that agree are of both signs; their size is noise.
    among = np.abs(rest).sum() / ((count - 1) * (count - 2))
    if not among > 0:
        ratio = np.inf if to_others[member] > 0 else 1.0
    else:
        ratio = float(to_others[member] / among)
    return Outlier(member, float(ratio)) if ratio >= _STANDS_APART else None
