"""Scores of predictions: what the public functions are made of."""

from __future__ import annotations

from kuq._array import Array, namespace


def leave_one_out(
    entropies: Array, matrix: Array, weights: Array, unbiased_members: bool
) -> tuple[Array, Array]:
    """AU and EU without each member minus those of all members, (M, batch…) each."""
    xp = namespace(entropies)
    batch = (1,) * (entropies.ndim - 1)
    w = xp.reshape(weights, (-1, *batch))
    rows = xp.sum(matrix * w[None, ...], axis=1)
    columns = xp.sum(matrix * w[:, None, ...], axis=0)
    aleatoric = xp.sum(w * entropies, axis=0)
    dispersion = xp.sum(w * rows, axis=0)
    left = 1 - w
    squares = xp.sum(weights * weights)
    aleatoric_without = (aleatoric - w * entropies) / left
    dispersion_without = (dispersion - w * rows - w * columns) / (left * left)
    if unbiased_members:
        dispersion = dispersion / (1 - squares)
        dispersion_without = dispersion_without / (1 - (squares - w * w) / (left * left))
    return aleatoric_without - aleatoric, dispersion_without - dispersion
