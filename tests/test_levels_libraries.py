"""Levels of uncertainty in NumPy, PyTorch and JAX: the same numbers, types and gradients."""

import numpy as np
import pytest
from libraries import NAMES, opened, to_numpy

import kuq

LEVELS = ("scenario", "model")
DESIGNS = ({}, {"crossed": True}, {"fixed": "scenario"}, {"unbiased": False})


def parameters(seed):
    rng = np.random.default_rng(seed)
    loc = rng.normal(size=(2, 3, 4))
    scale = rng.uniform(0.5, 1.5, size=(2, 3, 4))
    return loc, scale, np.outer([0.4, 0.6], [0.2, 0.3, 0.5])


def parts(loc, scale, weights, score, **options):
    ensemble = kuq.Ensemble(kuq.Normal(loc, scale), weights, member_ndim=2)
    return dict(kuq.decompose(ensemble, score, levels=LEVELS, **options))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", DESIGNS, ids=str)
def test_every_library_gives_the_same(name, options):
    wanted = parts(*parameters(1), kuq.CRPS(), **options)
    with opened(name) as library:
        for dtype, rtol in (("float64", 1e-10), ("float32", 2e-4)):
            arrays = [library.array(values, dtype) for values in parameters(1)]
            found = parts(*arrays, kuq.CRPS(), **options)
            for key, value in wanted.items():
                assert library.owns(found[key])
                assert library.dtype_name(found[key]) == dtype
                np.testing.assert_allclose(to_numpy(found[key]), value, rtol=rtol, atol=1e-6 * rtol)
    assert len(wanted) == (5 if options.get("crossed") else 4)


def test_jax_compiles_it_as_a_whole():
    wanted = parts(*parameters(2), kuq.Gaussian(0.9), crossed=True)
    with opened("jax") as library:
        arrays = [library.array(values) for values in parameters(2)]
        found = library.call(lambda *a: parts(*a, kuq.Gaussian(0.9), crossed=True), *arrays)
        for key, value in wanted.items():
            np.testing.assert_allclose(to_numpy(found[key]), value, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize(
    ("name", "options", "score"),
    [
        *(("torch", options, kuq.CRPS()) for options in DESIGNS[:3]),
        ("torch", {}, kuq.Gaussian(0.9)),
        ("jax", {"crossed": True}, kuq.Gaussian(0.9)),
    ],
    ids=str,
)
def test_gradients_are_those_of_finite_differences(name, options, score):
    """By means and scales, and by the weights of scenarios: products of crossed levels stay so."""
    loc, scale, _ = parameters(3)
    outer, inner = np.array([0.4, 0.6]), np.array([0.2, 0.3, 0.5])
    mix = np.random.default_rng(4).normal(size=(4, 4))

    def loss(loc, scale, outer):
        weights = outer[:, None] * (inner if isinstance(loc, np.ndarray) else as_own(inner))
        found = parts(loc, scale, weights, score, **options)
        mixed = mix if isinstance(loc, np.ndarray) else as_own(mix)
        keys = [key for key in found if key != "total"][:4]
        return sum((found[key] * mixed[k]).sum() for k, key in enumerate(keys))

    given = (loc, scale, outer)
    with opened(name) as library:
        as_own = library.array
        arrays = [library.array(values) for values in given]
        if name == "torch":
            for array in arrays:
                array.requires_grad_()
            loss(*arrays).backward()
            found = [array.grad for array in arrays]
        else:
            found = library.module.jit(library.module.grad(loss, argnums=(0, 1, 2)))(*arrays)
        found = [to_numpy(gradient) for gradient in found]
    step = 1e-5
    rng = np.random.default_rng(5)
    for k, gradient in enumerate(found):
        towards = rng.normal(size=given[k].shape)
        ends = []
        for sign in (1, -1):
            moved = list(given)
            moved[k] = given[k] + sign * step * towards
            ends.append(loss(*moved))
        slope = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose((gradient * towards).sum(), slope, rtol=1e-6, atol=1e-8)


def test_equal_members_and_a_group_without_weight_have_finite_gradients():
    with opened("torch") as library:
        torch = library.module
        loc = torch.zeros((2, 3, 4), dtype=torch.float64, requires_grad=True)
        weights = torch.tensor([[0.2, 0.3, 0.5], [0.0, 0.0, 0.0]], requires_grad=True)
        ensemble = kuq.Ensemble(kuq.Normal(loc, 1.0), weights.double(), member_ndim=2)
        found = kuq.decompose(ensemble, kuq.CRPS(), levels=LEVELS, unbiased=False)
        found.total.sum().backward()
        assert torch.isfinite(loc.grad).all()
        assert torch.isfinite(weights.grad).all()
        assert (found["scenario"] == 0).all()


@pytest.mark.parametrize("weights", [[1.0, 2.0], None])
@pytest.mark.parametrize("name", ["torch", "jax"])
def test_groups_of_a_list_keep_their_library(name, weights):
    """Also where groups of different sizes count the same, which gives members weights."""
    rng = np.random.default_rng(6)
    with opened(name) as library:
        groups = [
            kuq.Ensemble(kuq.Point(library.array(rng.normal(size=(n, 3)), dtype)))
            for n, dtype in ((2, "float32"), (3, "float32"))
        ]
        found = kuq.decompose(kuq.Ensemble(groups, weights), "energy", levels=LEVELS)
        assert all(library.owns(part) for part in found.values())
        assert library.dtype_name(found.total) == "float32"
        shares = found.shares()
        np.testing.assert_allclose(sum(to_numpy(s) for s in shares.values()), 1.0, rtol=1e-5)
