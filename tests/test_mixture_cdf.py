"""Close scalar mixtures under |x − y|: distribution functions against many digits."""

import mpmath
import numpy as np
import pytest

import kuq
from kuq.expectations import mixture_cdf

mpmath.mp.dps = 40


def mean_distance(gap, variance):
    deviation = mpmath.sqrt(variance)
    x = gap / deviation
    return deviation * mpmath.sqrt(2 / mpmath.pi) * mpmath.exp(-x * x / 2) + gap * mpmath.erf(
        x / mpmath.sqrt(2)
    )


def exact(p, q):
    """D from E|X − Y| with forty digits; laws are (weights, loc, scale)."""
    p, q = ([[mpmath.mpf(float(x)) for x in part] for part in law] for law in (p, q))

    def cross(a, b):
        return mpmath.fsum(
            u * v * mean_distance(m - k, s * s + t * t)
            for u, m, s in zip(*a, strict=True)
            for v, k, t in zip(*b, strict=True)
        )

    return cross(p, q) - (cross(p, p) + cross(q, q)) / 2


def pair(distance, offset, seed=0):
    """Mixtures whose parameters differ by ``distance``; weights are sums of powers of two."""
    rng = np.random.default_rng(seed)
    w = np.asarray([1.0, 2.0, 4.0, 1.0]) / 8
    loc, scale = rng.normal(size=4) + offset, rng.uniform(0.3, 1.0, 4)
    shift = np.round(distance * 2.0**58) / 2.0**60
    v = w + np.asarray([shift, -shift, 0.0, 0.0])
    moved = loc + distance * rng.normal(size=4)
    return (w, loc, scale), (v, moved, scale * np.exp(distance * rng.normal(size=4)))


@pytest.mark.parametrize("distance", [0.1, 1e-2, 1e-4, 1e-8])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_divergence_keeps_its_digits(distance, offset):
    p, q = pair(distance, offset)
    found = kuq.divergence(kuq.NormalMixture(*p), kuq.NormalMixture(*q), kuq.CRPS())
    want = exact(p, q)
    assert abs(float((found - want) / want)) < 1e-12


def test_several_members_are_all_of_their_pairs():
    """One far from the first, two that nearly agree, and weights."""
    near, nearer = pair(1e-4, 0.0)
    laws = near, nearer, pair(2e-2, 0.0)[1]
    w = np.asarray([1.0, 2.0, 5.0]) / 8
    members = kuq.NormalMixture(*(np.stack(part) for part in zip(*laws, strict=True)))
    found = kuq.decompose(kuq.Ensemble(members, w), kuq.CRPS(), unbiased=False).epistemic
    want = 2 * mpmath.fsum(
        w[i] * w[j] * exact(laws[i], laws[j]) for i, j in ((0, 1), (0, 2), (1, 2))
    )
    assert abs(float((found - want) / want)) < 1e-12


@pytest.mark.parametrize("light", [1e-14, 1e-20])
def test_a_first_member_of_little_weight_costs_no_digits(light):
    """Differences to it would have only the digits that it leaves of those between the others."""
    laws = pair(1.0, 0.0)[1], *pair(1e-8, 0.0)
    w = np.asarray([light, 0.5, 0.5])
    members = kuq.NormalMixture(*(np.stack(part) for part in zip(*laws, strict=True)))
    found = kuq.decompose(kuq.Ensemble(members, w), kuq.CRPS(), unbiased=False).epistemic
    shares = [mpmath.mpf(float(x)) for x in w]
    want = 2 * mpmath.fsum(
        shares[i] * shares[j] * exact(laws[i], laws[j]) for i, j in ((0, 1), (0, 2), (1, 2))
    )
    assert abs(float((found - want) / want)) < 1e-12


def test_pieces_do_not_matter():
    laws = [pair(1e-3, 0.0, seed) for seed in range(5)]
    members = [np.stack([[law[k][i] for law in laws] for k in range(2)]) for i in range(3)]
    whole, usable = mixture_cdf.dispersion(np.array([0.25, 0.75]), *members, 2**20)
    parts, _ = mixture_cdf.dispersion(np.array([0.25, 0.75]), *members, 40)
    apart = kuq.divergence(*(kuq.NormalMixture(*(a[k] for a in members)) for k in (0, 1)), "crps")
    np.testing.assert_allclose(whole, 2 * 0.25 * 0.75 * apart, rtol=1e-12)
    assert usable.all()
    np.testing.assert_allclose(parts, whole, rtol=1e-12)


def test_components_that_are_points_or_far_too_narrow_go_another_way():
    """A point, and a scale of a millionth: the integral over scales still has their digits."""
    for narrow in (0.0, 1e-6):
        w, loc, scale = np.asarray([0.5, 0.5]), np.asarray([0.0, 1.0]), np.asarray([narrow, 1.0])
        p, q = (
            kuq.NormalMixture(w, loc, scale),
            kuq.NormalMixture(w, np.asarray([0.0, 1.001]), scale),
        )
        found = kuq.divergence(p, q, kuq.CRPS())
        single = kuq.divergence(kuq.Normal(1.0, 1.0), kuq.Normal(1.001, 1.0), kuq.CRPS())
        np.testing.assert_allclose(found, single / 4, rtol=1e-7)


def test_the_route_is_taken(monkeypatch):
    used = []
    original = mixture_cdf.dispersion

    def watched(*arguments):
        used.append(True)
        return original(*arguments)

    monkeypatch.setattr(mixture_cdf, "dispersion", watched)
    for distance, count in ((1.0, 0), (1e-3, 1)):
        p, q = pair(distance, 0.0)
        kuq.divergence(kuq.NormalMixture(*p), kuq.NormalMixture(*q), kuq.CRPS())
        assert len(used) == count


def test_only_close_pairs_are_computed_again(monkeypatch):
    """One close pair in a batch must not cost as much as if all of them were close."""
    rng = np.random.default_rng(3)
    weights = np.broadcast_to([0.3, 0.7], (3, 40, 2))
    loc, scale = rng.normal(size=(3, 40, 2)), 0.5 + rng.random((3, 40, 2))
    loc[1, 7], scale[1, 7] = loc[0, 7] + 1e-6, scale[0, 7]
    laws = kuq.Ensemble(kuq.NormalMixture(weights, loc, scale))
    counts, original = [], mixture_cdf.dispersion
    monkeypatch.setattr(
        mixture_cdf,
        "dispersion",
        lambda *arguments: counts.append(arguments[2].shape[1]) or original(*arguments),
    )
    together = kuq.decompose(laws, kuq.CRPS()).epistemic
    assert counts == []  # in the sum over pairs a close one does not count
    matrix = kuq.member_divergences(laws, kuq.CRPS())
    assert counts == [1]
    wanted = kuq.divergence(
        *(kuq.NormalMixture(*(a[m, 7] for a in (weights, loc, scale))) for m in (0, 1)), kuq.CRPS()
    )
    np.testing.assert_allclose(matrix[0, 1, 7], wanted, rtol=1e-12)
    alone = [
        kuq.decompose(kuq.Ensemble(kuq.NormalMixture(*part)), kuq.CRPS()).epistemic[0]
        for part in (
            [a[:, row : row + 1] for a in (weights, loc, scale)] for row in range(loc.shape[1])
        )
    ]
    np.testing.assert_allclose(together, alone, rtol=1e-14)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_one_close_pair_of_normals_leaves_the_others_alone(library):
    """Under the Laplace kernel the same holds for normals, and for gradients."""
    rng = np.random.default_rng(4)
    loc, scale = rng.normal(size=(2, 30)), 0.5 + rng.random((2, 30))
    loc[1, 5], scale[1, 5] = loc[0, 5] + 1e-9, scale[0, 5]

    def epistemic(centre, width):
        return kuq.decompose(kuq.Ensemble(kuq.Normal(centre, width)), kuq.Laplace(1.0)).epistemic

    def values(part):
        if library == "numpy":
            return epistemic(loc[:, part], scale[:, part])[None]
        torch = pytest.importorskip("torch")
        centre = torch.tensor(loc[:, part], requires_grad=True)
        found = epistemic(centre, torch.tensor(scale[:, part]))
        [slope] = torch.autograd.grad(found.sum(), centre)
        return torch.cat([found[None], slope]).detach().numpy()

    together = values(slice(None))
    alone = np.concatenate([values(slice(k, k + 1)) for k in range(30)], axis=1)
    np.testing.assert_allclose(together, alone, rtol=1e-12, atol=1e-25)
    assert 0 < together[0, 5] < 1e-16
