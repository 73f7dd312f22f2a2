"""The Kuramoto-Sivashinsky equation in space by py-pde, in time by SciPy; prints the solutions.

Run as a script with NUMBA_DISABLE_JIT=1: for so little work, compiling takes longer than running.
"""

import json
import sys

import numpy as np
import pde
from scipy.integrate import solve_ivp


def solve(length: float, initial: list[float], time: float) -> list[float]:
    """``initial`` stands at the centres of equal cells of [0, length]."""
    grid = pde.CartesianGrid([[0, length]], len(initial), periodic=True)
    equation = pde.PDE({"u": "-u * d_dx(u) - laplace(u + laplace(u))"})
    field = pde.ScalarField(grid, np.array(initial))

    def rate(_, values):
        field.data[:] = values
        return equation.evolution_rate(field).data

    found = solve_ivp(rate, (0, time), initial, method="BDF", rtol=1e-7, atol=1e-9)
    return found.y[:, -1].tolist()


if __name__ == "__main__":
    json.dump([solve(**problem) for problem in json.load(sys.stdin)], sys.stdout)
