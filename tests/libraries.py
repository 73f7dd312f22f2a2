"""The array libraries under test, and laws and scores that can be built in each of them.

Nothing here imports an extra: a library is loaded when a test asks for it.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import kuq

NAMES = ("numpy", "torch", "jax")


@dataclass(frozen=True)
class Library:
    """Arrays of one library from NumPy arrays, and back."""

    name: str
    module: Any

    def array(self, values: Any, dtype: str = "float64") -> Any:
        values = np.asarray(values)
        if self.name == "numpy":
            return values.astype(dtype)
        if self.name == "torch":
            return self.module.asarray(values.copy()).to(getattr(self.module, dtype))
        return self.module.numpy.asarray(values, dtype=dtype)

    def call(self, function: Callable[..., Any], *arrays: Any) -> Any:
        """The function's arrays; JAX compiles it as a whole, which is quicker than line by line."""
        return self.module.jit(function)(*arrays) if self.name == "jax" else function(*arrays)

    def owns(self, value: Any) -> bool:
        kinds = {"numpy": "ndarray", "torch": "Tensor", "jax": "Array"}
        return isinstance(value, getattr(self.module, kinds[self.name]))

    @staticmethod
    def dtype_name(value: Any) -> str:
        return str(value.dtype).removeprefix("torch.")


@contextlib.contextmanager
def opened(name: str) -> Iterator[Library]:
    """A library; the test is skipped if it is missing."""
    module = pytest.importorskip(name)
    context = {"numpy": contextlib.nullcontext, "torch": _strict, "jax": _quick}[name]
    with context(module):
        yield Library(name, module)


@contextlib.contextmanager
def _strict(torch: Any) -> Iterator[None]:
    """Every warning every time, so that no test depends on which one ran first."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)


@contextlib.contextmanager
def _quick(jax: Any) -> Iterator[None]:
    """64-bit numbers, and code that is compiled quickly rather than made fast."""
    quick = "jax_disable_most_optimizations"
    before = {"jax_enable_x64": jax.config.jax_enable_x64, quick: jax.config.read(quick)}
    for name in before:
        jax.config.update(name, True)
    try:
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


def to_numpy(value: Any) -> np.ndarray:
    if type(value).__module__.startswith("torch"):
        value = value.detach().to(importlib.import_module("torch").float64).numpy()
    return np.asarray(value, dtype=np.float64)


@dataclass(frozen=True)
class Case:
    """A law: how to build it from arrays of shape (3 members, 2 inputs, …) of two coordinates."""

    make: Callable[..., kuq.Prediction]
    parameters: dict[str, np.ndarray]


def _draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def _positive(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.4, 1.6, size=shape)


_WEIGHTS = _positive(1, 3, 2, 2, 2)

CASES = {
    "Normal": Case(
        lambda loc, scale: kuq.Normal(loc, scale, event_ndim=1),
        {"loc": _draw(2, 3, 2, 2), "scale": _positive(3, 3, 2, 2)},
    ),
    "Point": Case(lambda value: kuq.Point(value, event_ndim=1), {"value": _draw(4, 3, 2, 2)}),
    "NormalMixture": Case(
        lambda weights, loc, scale: kuq.NormalMixture(weights, loc, scale, event_ndim=1),
        {
            "weights": _WEIGHTS / _WEIGHTS.sum(-1, keepdims=True),
            "loc": _draw(5, 3, 2, 2, 2),
            "scale": _positive(6, 3, 2, 2, 2),
        },
    ),
    "LowRankNormal": Case(
        kuq.LowRankNormal,
        {"loc": _draw(7, 3, 2, 2), "factor": _draw(8, 3, 2, 2, 1), "diag": _positive(9, 3, 2, 2)},
    ),
    "StudentT": Case(
        lambda df, loc, scale: kuq.StudentT(df, loc, scale, event_ndim=1),
        {
            "df": 3 + _positive(10, 3, 2, 2),
            "loc": _draw(11, 3, 2, 2),
            "scale": _positive(12, 3, 2, 2),
        },
    ),
    "Samples": Case(
        lambda values: kuq.Samples(values, event_ndim=1), {"values": _draw(13, 3, 2, 5, 2)}
    ),
    "NormalInverseGamma": Case(
        lambda loc, nu, alpha, beta: kuq.NormalInverseGamma(loc, nu, alpha, beta, event_ndim=1),
        {
            "loc": _draw(14, 3, 2, 2),
            "nu": 1 + _positive(15, 3, 2, 2),
            "alpha": 1.5 + _positive(16, 3, 2, 2),
            "beta": _positive(17, 3, 2, 2),
        },
    ),
}

OUTCOME = _draw(18, 2, 2)

SCORES: dict[str, kuq.Score] = {
    "crps": kuq.CRPS(),
    "crps-map": kuq.CRPS(None),
    "energy": kuq.Energy(),
    "energy-0.7": kuq.Energy(0.7),
    "squared": kuq.SquaredError(),
    "gaussian": kuq.Gaussian(1.3),
    "laplace": kuq.Laplace(1.3),
    "imq": kuq.InverseMultiquadric(1.3),
    "matern-1.5": kuq.Matern(1.3, 1.5),
    "log": kuq.LogScore(),
    "sum": kuq.Gaussian(0.8) + 0.5 * kuq.CRPS(),
    "weights": kuq.Laplace(1.1, weights=[0.5, 2.0]),
}


def has_score(case: str, score: str) -> bool:
    """Samples have no density; everything else works under every score of the table."""
    return not (case == "Samples" and score == "log")


PAIRS = [(case, score) for case in CASES for score in SCORES if has_score(case, score)]


def options_for(case: str, score: str) -> dict[str, Any]:
    """Monte Carlo where nothing better exists; coarse Student-t laws, whose cost is quadratic."""
    if (case, score) == ("StudentT", "log"):
        return {"draws": 3, "seed": 1}
    return {"rtol": 1e-5} if case in ("StudentT", "NormalInverseGamma") and score != "log" else {}


def measures(
    case: str, score: str, library: Library, dtype: str = "float64", **options: Any
) -> dict[str, Any]:
    """decompose, entropy, divergence and score of one law under one score."""
    law = CASES[case]
    arrays = {name: library.array(value, dtype) for name, value in law.parameters.items()}
    return from_arrays(case, score, arrays, library.array(OUTCOME, dtype), **options)


def from_arrays(
    case: str, score: str, arrays: dict[str, Any], y: Any, **options: Any
) -> dict[str, Any]:
    """The same from arrays that are given, so that a library may trace them."""
    make, rule = CASES[case].make, SCORES[score]
    options = options_for(case, score) | options
    law = make(**arrays)
    prediction = law if isinstance(law, kuq.NormalInverseGamma) else kuq.Ensemble(law)
    u = kuq.decompose(prediction, rule, **options)
    p, q = (make(**{name: value[m] for name, value in arrays.items()}) for m in (0, 1))
    # The predictive law of an evidential one is a Student-t, and those are compared by draws.
    drawn = {"draws": 3, "seed": 1} if case == "NormalInverseGamma" and score == "log" else {}
    return {
        "total": u.total,
        "aleatoric": u.aleatoric,
        "epistemic": u.epistemic,
        "entropy": kuq.entropy(p, rule, **options),
        "divergence": kuq.divergence(p, q, rule, **options | drawn),
        "score": kuq.score(p, y, rule, **options),
    }
