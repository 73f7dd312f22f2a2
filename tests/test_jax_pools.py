"""Compiled by JAX for the CPU, no step waits for threads of the pool that it is running in.

A LAPACK call on a stack of matrices gives them to the pool of the compiled function and waits
inside of it; two of them side by side never return where the pool has two threads.
"""

import re

import numpy as np
import pytest
from libraries import opened

import kuq

SCORES = {"energy": kuq.Energy(), "gaussian": kuq.Gaussian(1.3), "log": kuq.LogScore()}
#: A call of LAPACK with the types of what it takes.
CALL = re.compile(r"custom_call @lapack_\w+\(.*?\).*?: \((.*?)\) ->")


@pytest.fixture
def jax():
    with opened("jax") as library:
        yield library.module


def stacks(text):
    """The shapes of the stacks of matrices that LAPACK is called with."""
    operands = [
        t for types in CALL.findall(text) for t in re.findall(r"tensor<([\dx]*)f\d+>", types)
    ]
    assert operands, "no call of LAPACK was found"
    return [t for t in operands if t.count("x") > 2]


def test_stacks_are_recognised(jax):
    plain = jax.jit(jax.numpy.linalg.eigvalsh)
    assert stacks(plain.lower(np.zeros((5, 3, 3))).as_text())


@pytest.mark.parametrize("rank", [1, 5])
@pytest.mark.parametrize("score", SCORES)
def test_matrices_go_one_by_one(jax, score, rank):
    def function(loc, factor, diag, y):
        p = kuq.Ensemble(kuq.LowRankNormal(loc, factor, diag))
        u = kuq.decompose(p, SCORES[score])
        return (
            u.total + kuq.score(kuq.LowRankNormal(loc[0], factor[0], diag[0]), y, SCORES[score])
        ).sum()

    shapes = [(4, 6, 3), (4, 6, 3, rank), (4, 6, 3), (6, 3)]
    arguments = [jax.ShapeDtypeStruct(shape, np.float64) for shape in shapes]
    gradient = jax.jit(jax.grad(function, argnums=(0, 1, 2)))
    assert not stacks(gradient.lower(*arguments).as_text())
