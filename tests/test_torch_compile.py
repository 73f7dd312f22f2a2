"""Functions with kuq inside, compiled by torch: the same numbers and gradients, and no warning."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

PROGRAM = """
import warnings

import kuq
import torch

warnings.simplefilter("always")  # torch hides some of its own, which would be errors
generator = torch.Generator().manual_seed(0)
loc = torch.randn(5, 8, generator=generator, requires_grad=True)
scale = torch.rand(5, 8, generator=generator) + 0.5
y = torch.randn(8, generator=generator)


def loss(loc, scale):
    return kuq.score(kuq.Ensemble(kuq.Normal(2 * loc, scale)), y, kuq.CRPS()).mean() + loc.sum()


def split(loc, scale):
    return kuq.decompose(kuq.Ensemble(kuq.Normal(loc, scale)), "gaussian:1").epistemic.sum()


def energy(loc, scale):
    draws = kuq.Samples(loc.T[..., None], event_ndim=1)
    return kuq.score(draws, y[:, None], kuq.Energy()).mean()


def of_a_prediction(loc, scale):
    p = kuq.Ensemble(kuq.Normal(loc, scale))
    return p.mean().sum() + p.std().sum() + p.log_density(y).sum() + p.cdf(y).sum()


for function in (loss, split, energy, of_a_prediction):
    compiled = torch.compile(function, backend="eager")
    for _ in range(2):
        found, expected = compiled(loc, scale), function(loc, scale)
        torch.testing.assert_close(found, expected)
        gradients = (torch.autograd.grad(value, loc)[0] for value in (found, expected))
        torch.testing.assert_close(*gradients)
"""


def test_nothing_is_warned_of():
    """It warned at length of every lru_cache on the way, and took up to a minute.

    In a process of its own: torch warns once, and remembers what it has compiled.
    """
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    for word in ("lru_cache", "recompile_limit", "Warning"):
        assert word not in done.stderr
