"""Mixtures under the log score: two rules with nothing in common but the integrand."""

import numpy as np
import pytest

import kuq


def test_panels_and_component_ends_agree(trials):
    pytest.importorskip("numba")
    for trial in range(trials(400)):
        rng = np.random.default_rng(trial)
        members, components = rng.integers(1, 5), rng.integers(1, 7)
        shape = (members, components)
        weights = rng.dirichlet(np.full(components, rng.choice([0.2, 1.0, 10.0])), size=members)
        loc = 10.0 ** rng.uniform(-2, 4) * rng.normal(size=shape)
        scale = 10.0 ** rng.uniform(-rng.uniform(0, 3), rng.uniform(0, 3), size=shape)
        ensemble = kuq.Ensemble(kuq.NormalMixture(weights, loc, scale))
        estimator = str(rng.choice(["pairwise", "bma"]))
        found = []
        for compiled in (False, True):
            with kuq.compiled(compiled):
                u = kuq.decompose(ensemble, kuq.LogScore(), estimator=estimator, unbiased=False)
                found.append([float(u.aleatoric), float(u.epistemic)])
        # Both have the accuracy 1e-8; entropies pass through zero, and a member is alone with zero.
        (au, eu), (au_compiled, eu_compiled) = found
        assert au_compiled == pytest.approx(au, rel=1e-7, abs=1e-7), f"trial {trial}"
        assert eu_compiled == pytest.approx(eu, rel=1e-7, abs=1e-14), f"trial {trial}"
