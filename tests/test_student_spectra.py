"""Student-t laws under kernels without a closed form, against Bessel's form of their transforms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

import kuq
from kuq.forms.form import Problem
from kuq.forms.table import plan
from kuq.scores.options import Options
from kuq.views import views


def characteristic(omega, df, loc, scale):
    z = math.sqrt(df) * scale * omega
    size = special.kve(df / 2, z) * np.exp(-z) * z ** (df / 2)
    return size / (special.gamma(df / 2) * 2 ** (df / 2 - 1)) * np.exp(1j * omega * loc)


def line(values):
    """Over ω on panels that are halved towards zero."""
    ends = np.concatenate([[0.0], np.geomspace(1e-12, 400.0, 2000)])
    nodes, rule = np.polynomial.legendre.leggauss(12)
    half, middle = np.diff(ends)[:, None] / 2, (ends[1:] + ends[:-1])[:, None] / 2
    return np.sum(values((middle + half * nodes).ravel()) * (half * rule).ravel())


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("bandwidth", [0.3, 1.0, 20.0])
@pytest.mark.parametrize("distance", [1e-2, 1.0, 20.0])
def test_rational_quadratic(bandwidth, distance, compiled):
    """1/(1 + r²/g²) is the transform of (g/2)·exp(−g|ω|)."""
    if compiled:
        pytest.importorskip("numba")
    laws = [(2.5, 0.0, 1.0), (7.0, distance, 1.7), (0.8, -distance, 0.4)]

    def density(omega):
        return bandwidth / 2 * np.exp(-bandwidth * omega)

    def apart(p, q):
        return line(lambda x: abs(characteristic(x, *p) - characteristic(x, *q)) ** 2 * density(x))

    entropy = [
        line(lambda x, p=p: (1 - abs(characteristic(x, *p)) ** 2) * density(x)) for p in laws
    ]
    matrix = np.asarray([[apart(p, q) for q in laws] for p in laws])
    with kuq.compiled(compiled):
        law = kuq.StudentT(*np.transpose(laws))
        u = kuq.decompose(kuq.Ensemble(law), kuq.RationalQuadratic(bandwidth), unbiased=False)
    assert float(u.aleatoric) == pytest.approx(np.mean(entropy), rel=1e-8)
    assert float(u.epistemic) == pytest.approx(matrix.mean(), rel=1e-8)


@pytest.mark.parametrize("kernel", [kuq.RationalQuadratic(2.0), kuq.Laplace(0.7), kuq.Energy(1.3)])
def test_points_beside_student_t_laws(kernel):
    """Several of them, two at one place: as laws so narrow that it does not matter."""
    rng = np.random.default_rng(0)
    loc, weights = rng.normal(size=(5, 3)), np.array([0.3, 0.1, 0.2, 0.15, 0.25])
    scale = rng.uniform(0.5, 1.5, size=(5, 3))
    scale[1:3], scale[3, 1] = 0.0, 0.0
    loc[2, 0] = loc[1, 0]

    def members(smallest):
        width = np.maximum(scale, smallest)
        return [kuq.StudentT(2.5, loc[:2], width[:2]), kuq.Normal(loc[2:], width[2:])]

    def found(smallest):
        laws = [law for group in members(smallest) for law in group_members(group)]
        return kuq.decompose(kuq.Ensemble(laws, weights), kernel, unbiased=False)

    def group_members(group):
        if isinstance(group, kuq.Normal):
            return [kuq.Normal(x, s) for x, s in zip(group.loc, group.scale, strict=True)]
        return [kuq.StudentT(2.5, x, s) for x, s in zip(group.loc, group.scale, strict=True)]

    exact, near = found(0.0), found(1e-9)
    np.testing.assert_allclose(exact.aleatoric, near.aleatoric, rtol=1e-7)
    np.testing.assert_allclose(exact.epistemic, near.epistemic, rtol=1e-7)


@pytest.mark.parametrize("beta", [0.5, 1.5])
def test_energy(beta):
    """E|X − Y|^β of Student-t laws and normals, from draws by quantiles in long tables."""
    u = (np.arange(4000) + 0.5) / 4000
    laws = [stats.t(9.0, 0.0, 1.0), stats.t(12.0, 1.5, 2.0), stats.norm(-1.0, 0.7)]
    x = [law.ppf(u) for law in laws]

    def mean(a, b):
        return np.mean(np.abs(a[:, None] - b[None, :]) ** beta)

    entropies = [mean(a, a) / 2 for a in x]
    matrix = np.asarray(
        [
            [mean(a, b) - entropies[i] - entropies[j] for j, b in enumerate(x)]
            for i, a in enumerate(x)
        ]
    )
    members = [kuq.StudentT(9.0, 0.0, 1.0), kuq.StudentT(12.0, 1.5, 2.0), kuq.Normal(-1.0, 0.7)]
    found = kuq.decompose(kuq.Ensemble(members), kuq.Energy(beta), unbiased=False)
    # The step 1/4000 in the quantiles leaves relative errors of 2e−4 (β = ½: 6e−4).
    assert float(found.aleatoric) == pytest.approx(np.mean(entropies), rel=5e-3)
    assert float(found.epistemic) == pytest.approx(matrix.mean(), rel=5e-3)


@pytest.mark.parametrize("kernel", [kuq.RationalQuadratic(1.0, alpha=0.7), kuq.Energy(1.3)])
@pytest.mark.parametrize("distance", [1e-7, 1e-3, 30.0, 1e5])
def test_both_forms_agree(kernel, distance):
    """Also where the fast one is given up: members that agree, and laws many scales apart."""
    df, scale = [2.5, 2.5 + min(distance, 1.0)], [1.0, 1.0 + min(distance, 3.0)]
    both = kuq.Ensemble(kuq.StudentT(df, [0.0, distance], scale))
    options = Options.checked(True, 1e-8, None, None, 2**28)
    (view,) = views(kernel.parts[0], options, both)
    problem = Problem.of(kernel, view.stack, False)
    names = [type(form).__name__ for form in plan(problem).forms]
    assert names[:2] == ["Spectral", "ScaleQuadrature"]
    found = kuq.decompose(both, kernel)
    slow = plan(problem)._replace(forms=plan(problem).forms[1:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kuq.driver.plan", lambda _: slow)
        wanted = kuq.decompose(both, kernel)
    np.testing.assert_allclose(found.aleatoric, wanted.aleatoric, rtol=1e-8)
    np.testing.assert_allclose(found.epistemic, wanted.epistemic, rtol=2e-8)
