"""Quantiles of random mixtures of everything, of any size and shape, against thirty digits."""

import math

import mpmath as mp
import numpy as np
from scalar_laws import assert_quantile, scalar_laws

import kuq


def random_law(rng):
    """A mixture of normals, Student-t laws, points and draws, far apart or not."""
    members = []
    for _ in range(int(rng.integers(1, 8))):
        loc = rng.normal() * 10.0 ** rng.uniform(-3, 5)
        scale = 10.0 ** rng.uniform(-4, 3)
        members.append(
            (
                lambda loc=loc, scale=scale: kuq.Normal(loc, scale),
                lambda loc=loc, scale=scale: kuq.StudentT(10 ** rng.uniform(-0.5, 2), loc, scale),
                lambda loc=loc: kuq.Point(loc),
                lambda loc=loc, scale=scale: kuq.Samples(loc + scale * rng.normal(size=7)),
                lambda loc=loc: kuq.Normal(loc, 0.0),
            )[rng.choice(5, p=[0.5, 0.2, 0.1, 0.1, 0.1])]()
        )
    return kuq.Ensemble(members, rng.dirichlet(np.full(len(members), 0.7)) + 1e-9)


def test_random_mixtures(trials):
    for trial in range(trials(3000)):
        rng = np.random.default_rng(trial)
        law = random_law(rng)
        parts = scalar_laws(law, ())
        q = float(rng.choice([rng.random(), 10.0 ** rng.uniform(-40, -1), 0.5, 1 - 2.0**-40]))
        x = float(law.quantile(q))
        width = max((part[3] for part in parts), default=0.0)
        with mp.workdps(60):
            assert math.isfinite(x), trial
            assert_quantile(parts, q, x, 1e-10 * max(width, abs(x)))
