"""Linear algebra of stacks of small matrices, in every array library."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import array_api_compat
import numpy as np

from kuq._array import Array, is_traced, namespace


def cholesky(matrix: Array) -> Array:
    return _of_stacks("cholesky", matrix)


def eigvalsh(matrix: Array) -> Array:
    return _of_stacks("eigvalsh", matrix)


def inv(matrix: Array) -> Array:
    return _of_stacks("inv", matrix)


def qr(matrix: Array) -> tuple[Array, Array]:
    basis, triangle = _of_stacks("qr", matrix)
    return basis, triangle


def solve(system: Array, right: Array) -> Array:
    """The solutions for the columns of ``right`` (…, n, k)."""
    return _of_stacks("solve", system, right)


def _of_stacks(name: str, *matrices: Array) -> Any:
    if array_api_compat.is_jax_array(matrices[0]) and any(is_traced(m) for m in matrices):
        jax = sys.modules["jax"]
        if jax.default_backend() == "cpu":
            return _one_by_one(name, jax)(*matrices)
    return getattr(namespace(*matrices).linalg, name)(*matrices)


@functools.cache
def _one_by_one(name: str, jax: Any) -> Callable[..., Any]:
    """The operation as a loop over the stack.

    A compiled function runs independent steps side by side in one pool of threads. On the CPU the
    step for a stack of matrices hands them out to the threads of that same pool and waits for
    them there: as many such steps as there are threads wait for ever. One matrix needs no others.
    """
    operation = getattr(jax.numpy.linalg, name)

    def over_stack(*matrices: Array) -> Any:
        lead = np.broadcast_shapes(*(m.shape[:-2] for m in matrices))
        if math.prod(lead) == 0:  # a loop of no step has no shapes
            return operation(*matrices)
        flat = tuple(
            jax.numpy.broadcast_to(m, (*lead, *m.shape[-2:])).reshape(-1, *m.shape[-2:])
            for m in matrices
        )
        results = jax.lax.map(lambda parts: operation(*parts), flat)
        return jax.tree.map(lambda x: x.reshape(*lead, *x.shape[1:]), results)

    compiled: Callable[..., Any] = jax.jit(over_stack)
    return compiled
