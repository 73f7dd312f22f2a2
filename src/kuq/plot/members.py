"""Who disagrees with whom: the divergences between members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kuq.distributions.ensemble import Ensemble
from kuq.errors import ParameterError, ShapeError
from kuq.kernels.base import Score
from kuq.kernels.names import as_score
from kuq.plot.style import COLOUR_MAP, axes_or_new, values_of, with_unit
from kuq.uncertainty import member_divergences

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Up to so many members every cell has its number.
_MOST_NUMBERS = 12


def divergence_matrix(
    members: Any,
    score: Score | str | None = None,
    *,
    names: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the matrix of divergences between members, averaged over inputs.

    ``members`` is an Ensemble, with the score to compare by, or the array of
    :func:`kuq.member_divergences`, (M, M, …). ``names`` label the members.

    >>> import kuq, numpy as np, matplotlib
    >>> matplotlib.use("agg")
    >>> ensemble = kuq.Ensemble(kuq.Point(np.array([[0.0], [0.1], [3.0]])))
    >>> ax = kuq.plot.divergence_matrix(ensemble, kuq.Energy())
    >>> [text.get_text() for text in ax.texts][2]
    '3'
    """
    unit = "" if score is None else as_score(score).units
    if isinstance(members, Ensemble):
        if score is None:
            raise ParameterError("the divergences of an Ensemble need a score such as kuq.CRPS()")
        members = member_divergences(members, score)
    matrix = values_of(members)
    if matrix.ndim < 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"member divergences have the shape (M, M, …), got {matrix.shape}")
    count = len(matrix)
    matrix = matrix.reshape(count, count, -1).mean(axis=-1)
    labels = [str(m) for m in range(count)] if names is None else [str(name) for name in names]
    if len(labels) != count:
        raise ShapeError(f"{count} members need {count} names, got {len(labels)}")
    ax = axes_or_new(ax, (5.2, 4.4))
    image = ax.imshow(matrix, cmap=COLOUR_MAP)
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03)
    bar.set_label(with_unit("divergence", unit))
    bar.outline.set_visible(False)
    every = max(1, -(-count // 20))
    ticks = np.arange(0, count, every)
    ax.set_xticks(ticks, [labels[t] for t in ticks], rotation=90 if _long(labels) else 0)
    ax.set_yticks(ticks, [labels[t] for t in ticks])
    if count <= _MOST_NUMBERS:
        _write_numbers(ax, matrix)
    ax.set_xlabel("member")
    ax.set_ylabel("member")
    ax.spines[:].set_visible(False)
    return ax


def _long(labels: list[str]) -> bool:
    return max(len(label) for label in labels) > 3


def _write_numbers(ax: Axes, matrix: np.ndarray) -> None:
    middle = (np.nanmin(matrix) + np.nanmax(matrix)) / 2
    for (i, j), value in np.ndenumerate(matrix):
        colour = "black" if value > middle else "white"
        ax.text(j, i, f"{value:.2g}", ha="center", va="center", color=colour, fontsize="small")
