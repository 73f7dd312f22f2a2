"""Small problems whose answers are known."""

import numpy as np


def sine(n=200, features=3, seed=0):
    """y = sin x₁ plus noise of deviation 0.1."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (n, features))
    return x, np.sin(x[:, 0]) + 0.1 * rng.normal(size=n)


def functions(n=24, points=16, seed=0):
    """Functions that are the sum of one channel and another one, shifted."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2, points))
    return x, x[:, 0] + np.roll(x[:, 1], 2, axis=-1)


def images(n=10, height=12, width=16, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2, height, width))
    return x, x[:, 0] - 2 * x[:, 1]
