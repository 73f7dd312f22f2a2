"""The core without any extra: what it imports, how long that takes, and that every law works."""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest

import kuq

EXTRAS = ("torch", "jax", "jaxlib", "numba", "xarray", "matplotlib", "sklearn", "dask", "pandas")

IMPORTS = f"""
import json, sys
import kuq
extras = {EXTRAS!r}
kuq.decompose(kuq.Ensemble(kuq.Normal([[0.0], [1.0]], 1.0)), kuq.Energy())
kuq.entropy(kuq.Samples([0.0, 1.0]), kuq.Gaussian("median"))
print(json.dumps([name for name in extras if name in sys.modules]))
"""

TIMES = """
import time
start = time.process_time()
import array_api_compat.numpy, numpy, scipy.special
half = time.process_time()
import kuq
print((time.process_time() - half) / (half - start))
"""


def run(code):
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return json.loads(result.stdout)


def test_import_brings_no_extra():
    assert run(IMPORTS) == []


def test_import_is_fast():
    """In units of what it builds on: 0.6 where this was written, whatever the machine.

    The best of three, in processor time: a busy machine does not count.
    """
    assert min(run(TIMES) for _ in range(3)) < 2


def test_modules_import_by_themselves():
    """No module of the package needs another one to be imported first."""
    names = ["kuq._array", "kuq.kernels.base", "kuq.distributions.base", "kuq.uncertainty"]
    for name in names:
        code = f"import json, {name}; print(json.dumps({name}.__name__))"
        assert run(code) == name


LOC = np.asarray([[0.0, 1.0], [2.0, 1.0]])
MEMBERS = {
    "normal": kuq.Normal(LOC, 1.0),
    "point": kuq.Point(LOC),
    "mixture": kuq.NormalMixture([0.25, 0.75], LOC[..., None], 1.0),
    "low rank": kuq.LowRankNormal(LOC[..., None] * [1, 0], [[0.6], [0.0]], [0.64, 1.0]),
    "student": kuq.StudentT(5.0, LOC, 1.0),
    "samples": kuq.Samples(LOC[..., None] + [-1.0, 0.0, 1.0]),
}
#: E (X − mean)² of each law, summed over coordinates: the aleatoric part under the squared error
VARIANCE = {"normal": 1, "point": 0, "mixture": 1, "low rank": 2, "student": 5 / 3, "samples": 1}
SCORES = [
    kuq.CRPS(),
    kuq.Energy(0.7),
    kuq.Gaussian(1.0),
    kuq.Laplace(1.0),
    kuq.InverseMultiquadric(1.0),
    kuq.Matern(1.0),
]


@pytest.mark.parametrize("name", MEMBERS)
def test_squared_error_of_every_law(name):
    """Means 0 and 2 at the first input, equal at the second: EU is 4 and 0, AU the variance."""
    u = kuq.decompose(kuq.Ensemble(MEMBERS[name]), kuq.SquaredError(), unbiased="samples")
    bias = 2 * 1 / 3 / 2 if name == "samples" else 0  # two means of three draws, at 1/M = ½
    np.testing.assert_allclose(u.aleatoric, [VARIANCE[name]] * 2, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(u.epistemic, [2 - bias, -bias], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(u.total, u.aleatoric + u.epistemic, rtol=1e-15)


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_every_law_under_every_kernel(name, score):
    """Members agree at the second input and not at the first; only points are sure of theirs."""
    u = kuq.decompose(kuq.Ensemble(MEMBERS[name]), score, unbiased=False)
    assert u.epistemic[0] > 0.04
    assert abs(u.epistemic[1]) < 1e-12
    if name == "point":
        assert (u.aleatoric == 0).all()
    else:
        assert (u.aleatoric > 0.05).all()
    np.testing.assert_allclose(u.aleatoric[0], u.aleatoric[1], rtol=1e-7)  # the same up to a shift


def test_evidential_law():
    """σ² has mean β/(α−1) = 0.5 and μ the variance 0.5/ν = 0.25; pairs of members see it twice."""
    u = kuq.decompose(kuq.NormalInverseGamma(0.0, 2.0, 3.0, 1.0), kuq.SquaredError())
    np.testing.assert_allclose([u.aleatoric, u.epistemic], [0.5, 0.5], rtol=1e-14)
    for score in SCORES:
        u = kuq.decompose(kuq.NormalInverseGamma(0.0, 2.0, 3.0, 1.0), score)
        assert u.aleatoric > 0.05
        assert u.epistemic > 0.05


def test_log_score_of_normals():
    """½ log 2πe, and KL(N(0,1), N(2,1)) = 2."""
    u = kuq.decompose(kuq.Ensemble(MEMBERS["normal"]), kuq.LogScore())
    np.testing.assert_allclose(u.aleatoric, [0.5 * np.log(2 * np.pi * np.e)] * 2, rtol=1e-14)
    np.testing.assert_allclose(u.epistemic, [2.0, 0.0], atol=1e-14)


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) for name in ("torch", "sklearn", "matplotlib")),
    reason="extras are there",
)
def test_demo_shows_what_it_can(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "kuq", "demo"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert "In the gap the members disagree" in done.stdout
    assert [line.split(";")[0] for line in done.stderr.splitlines()] == [
        "no figure, since matplotlib is missing",
        "no page, since torch and sklearn are missing",
    ]
    assert list(tmp_path.iterdir()) == []
