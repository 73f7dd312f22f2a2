"""Kernels for tails and structure: the laws of kernels, and brute force over all pairs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cases import STRUCTURED
from numpy.random import default_rng

import kuq

scoringrules = pytest.importorskip("scoringrules")

PATCH = kuq.patches(kuq.Energy(), (4,), 2)
cases = pytest.mark.parametrize("case", STRUCTURED, ids=str)


def draws(case, *lead):
    return np.random.default_rng(7).normal(size=(*lead, *case.event))


def brute(case, x, y):
    return np.array([[case.k(a, b) for b in y] for a in x])


@cases
def test_values_are_those_of_the_formula(case):
    x = draws(case, 4)
    kernel = case.build()
    got = kuq.expected_kernel(
        kuq.Point(np.repeat(x, 4, axis=0), len(case.event)),
        kuq.Point(np.tile(x, (4,) + (1,) * len(case.event)), len(case.event)),
        kernel,
    )
    np.testing.assert_allclose(got.reshape(4, 4), brute(case, x, x), rtol=1e-12, atol=1e-13)


@cases
def test_symmetric_and_conditionally_negative_definite(case):
    x = draws(case, 8)
    k = brute(case, x, x)
    np.testing.assert_allclose(k, k.T, atol=1e-14)
    c = np.eye(8) - 1 / 8
    assert np.linalg.eigvalsh(-c @ k @ c)[0] > -1e-12 * np.abs(k).max()


@cases
@pytest.mark.parametrize("unbiased", [False, True])
def test_decomposition_of_draws_by_sums_over_all_pairs(case, unbiased):
    members, n = 3, 4
    x = draws(case, members, n)
    u = kuq.decompose(
        kuq.Ensemble(kuq.Samples(x, len(case.event))), case.build(), unbiased=unbiased
    )
    means = np.empty((members, members))
    entropies = np.empty(members)
    for i in range(members):
        for j in range(members):
            means[i, j] = brute(case, x[i], x[j]).mean()
        k = brute(case, x[i], x[i])
        centre = np.diag(k).mean()
        if unbiased:
            entropies[i] = (k.sum() - np.trace(k)) / (n * (n - 1)) / 2 - centre / 2
        else:
            entropies[i] = k.mean() / 2 - centre / 2
        means[i, i] = 2 * entropies[i] + centre
    divergence = means - (np.diag(means)[:, None] + np.diag(means)[None, :]) / 2
    pairs = members * (members - 1) if unbiased else members**2
    np.testing.assert_allclose(u.aleatoric, entropies.mean(), rtol=1e-10)
    np.testing.assert_allclose(u.epistemic, divergence.sum() / pairs, rtol=1e-9, atol=1e-12)
    assert u.method == "samples"


@cases
def test_torch_agrees(case):
    torch = pytest.importorskip("torch")
    x = draws(case, 3, 4).astype(np.float32)
    expected = kuq.decompose(kuq.Ensemble(kuq.Samples(x, len(case.event))), case.build())
    law = kuq.Samples(torch.asarray(x), len(case.event))
    u = kuq.decompose(kuq.Ensemble(law), case.build())
    np.testing.assert_allclose(u.total.numpy(), expected.total, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("case", [c for c in STRUCTURED if c.name != "patches"], ids=str)
def test_features_in_jax(case):
    """The rest of a decomposition is that of the elementary kernel, tested elsewhere."""
    jax_numpy = pytest.importorskip("jax.numpy")
    features = case.build().transform
    x = draws(case, 3).astype(np.float32)
    found = features(jax_numpy.asarray(x))
    assert found.dtype == "float32"
    np.testing.assert_allclose(np.asarray(found), features(x), rtol=1e-4, atol=1e-5)


@cases
def test_cards_promise_no_more_than_they_can(case):
    card = case.build().card
    assert not card.strictly_proper
    assert json.dumps(kuq.kernel_cards([case.build()]).records())


def test_variogram_is_that_of_scoringrules():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(20, 5)), rng.normal(size=5)
    weights = rng.uniform(size=(5, 5))
    weights = weights + weights.T
    for p, w in ((0.5, None), (1.0, weights)):
        ours = kuq.score(kuq.Samples(x, 1), y, kuq.variogram(p, weights=w), unbiased=False)
        theirs = scoringrules.vs_ensemble(y, x, w, m_axis=0, v_axis=-1, p=p)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_patches_of_normals_are_exact():
    """A patch of independent normals is the normal of its cells."""
    rng = np.random.default_rng(5)
    loc, scale = rng.normal(size=(3, 4, 6)), rng.uniform(0.5, 2, size=(3, 4, 6))
    field = kuq.Ensemble(kuq.Normal(loc, scale, event_ndim=2))
    u = kuq.decompose(field, kuq.patches(kuq.Gaussian(2.0), (4, 6), (2, 4)))
    boxes = [np.s_[:, a, b] for a in (slice(0, 2), slice(2, 4)) for b in (slice(0, 4), slice(4, 6))]
    parts = [
        kuq.decompose(kuq.Ensemble(kuq.Normal(loc[b], scale[b], event_ndim=2)), kuq.Gaussian(2.0))
        for b in boxes
    ]
    np.testing.assert_allclose(u.epistemic, np.mean([p.epistemic for p in parts]), rtol=1e-12)
    np.testing.assert_allclose(u.aleatoric, np.mean([p.aleatoric for p in parts]), rtol=1e-12)
    assert u.method == "exact"


@pytest.mark.parametrize(
    "law",
    [
        kuq.NormalMixture(np.full((2, 6, 2), 0.5), default_rng(5).normal(size=(2, 6, 2)), 1.0, 1),
        kuq.StudentT(7.0, default_rng(6).normal(size=(2, 6)), 1.0, 1),
        kuq.LowRankNormal(
            default_rng(7).normal(size=(2, 6)),
            default_rng(8).normal(size=(2, 6, 2)),
            np.ones((2, 6)),
        ),
    ],
    ids=lambda law: type(law).__name__,
)
def test_patches_of_other_laws_agree_with_draws(law):
    local = kuq.patches(kuq.Energy(), (6,), 3)
    exact = kuq.decompose(kuq.Ensemble(law), local)
    x = np.asarray(law.sample(1500, np.random.default_rng(0)))
    sampled = kuq.decompose(kuq.Ensemble(kuq.Samples(x, 1)), local)
    np.testing.assert_allclose(exact.aleatoric, sampled.aleatoric, rtol=0.05)
    np.testing.assert_allclose(exact.epistemic, sampled.epistemic, rtol=0.15, atol=0.03)
    assert exact.method == "quadrature"


def test_patches_overlap_by_their_stride_and_cover_the_field():
    kernel = kuq.patches(kuq.Energy(), (7,), 3, 2)
    assert [box.box[0] for box in kernel.boxes()] == [(0, 3), (2, 5), (4, 7)]
    kernel = kuq.patches(kuq.Energy(), (7, 4), (3, 4))
    assert [box.box for box in kernel.boxes()] == [
        ((0, 3), (0, 4)), ((3, 6), (0, 4)), ((6, 7), (0, 4))
    ]  # fmt: skip


def test_patches_take_the_median_bandwidth_patch_by_patch():
    x = np.random.default_rng(1).normal(size=(3, 5, 4)) * [1.0, 1.0, 10.0, 10.0]
    u = kuq.decompose(kuq.Ensemble(kuq.Samples(x, 1)), kuq.patches(kuq.Gaussian("median"), (4,), 2))
    widths = [term.kernel.bandwidth for term in u.score.terms()]
    assert 5 < widths[1] / widths[0] < 20


def test_the_norm_of_a_spectrum_is_the_root_mean_square():
    rng = np.random.default_rng(5)
    from kuq.kernels.structure import Spectrum

    x = rng.normal(size=(5, 6, 9))
    np.testing.assert_allclose(
        np.linalg.norm(Spectrum(2)(x), axis=-1), np.sqrt((x**2).mean(axis=(1, 2))), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: kuq.variogram(0.0), "power"),
        (lambda: kuq.variogram("1"), "power"),
        (lambda: kuq.variogram(weights=[[1.0, -1.0], [1.0, 1.0]]), "not negative"),
        (lambda: kuq.variogram(weights=[1.0]), r"\(d, d\)"),
        (lambda: kuq.variogram(weights=np.eye(2), max_lag=1), "not both"),
        (lambda: kuq.variogram(kernel="energy"), "kernel"),
        (lambda: kuq.spectral(event_ndim=0), "event_ndim"),
        (lambda: kuq.graph_walks(length=1.5), "length"),
        (lambda: kuq.patches(kuq.Energy(), (4, 4), 5), "do not fit"),
        (lambda: kuq.patches(kuq.Energy(), (4, 4), (2, 2, 2)), "one per axis"),
        (lambda: kuq.patches("energy", (4, 4), 2), "kernel"),
        (lambda: kuq.tail(kuq.LogScore(), 1.0), "kernel"),
        (lambda: kuq.tail(kuq.CRPS()), "threshold"),
        (lambda: kuq.tail(kuq.CRPS(), np.nan), "finite"),
        (lambda: kuq.tail(kuq.CRPS(), 2.0, below=1.0), "interval"),
        (lambda: kuq.entropy(kuq.Samples([[1.0], [2.0]], 1), kuq.variogram()), "two coordinates"),
        (lambda: kuq.entropy(kuq.Samples(np.ones((2, 3, 2)), 2), kuq.graph_walks()), "square"),
        (
            lambda: kuq.entropy(kuq.Samples(np.ones((2, 3)), 1), kuq.variogram(weights=np.eye(2))),
            r"\(3, 3\)",
        ),
        (lambda: kuq.entropy(kuq.Samples(np.ones((1, 4000)), 1), kuq.variogram()), "max_lag"),
        (lambda: kuq.entropy(kuq.Samples(np.ones((2, 3, 4)), 2), kuq.variogram()), "event_ndim"),
        (lambda: kuq.entropy(kuq.Samples(np.ones((2, 4)), 1), kuq.spectral()), "event_ndim"),
        (lambda: kuq.entropy(kuq.Samples(np.ones((2, 4)), 1), kuq.Marginal(PATCH)), "Marginal"),
        (lambda: kuq.entropy(kuq.Normal(np.ones((2, 4)), 1.0, 1), kuq.Marginal(PATCH)), "Marginal"),
        (lambda: kuq.entropy(kuq.Normal(np.ones((2, 6)), 1.0, 1), PATCH), r"\(6,\)"),
        (lambda: kuq.entropy(kuq.Samples(np.ones((2, 6)), 1), PATCH), r"\(6,\)"),
    ],
)
def test_errors_say_what_to_change(make, words):
    with pytest.raises(kuq.KuqError, match=words):
        make()


@pytest.mark.parametrize(("dtype", "unit"), [("f8", 2.0**-570), ("f8", 2.0**520), ("f4", 2.0**-80)])
def test_spectra_of_fields_in_unusual_units(dtype, unit):
    """Squares of amplitudes left the range of floats: 0, or NaN."""
    fields = np.random.default_rng(0).normal(size=(3, 2, 6, 4, 5)).astype(dtype)
    one, other = (
        kuq.decompose(kuq.Ensemble(kuq.Samples(f, event_ndim=2)), kuq.spectral())
        for f in (fields, fields * np.asarray(unit, dtype))
    )
    np.testing.assert_allclose(other.aleatoric / unit, one.aleatoric, rtol=1e-6)
    np.testing.assert_allclose(other.total / unit, one.total, rtol=1e-6)
