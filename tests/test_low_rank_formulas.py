"""Gaussian-kernel expectations of low-rank normals, against dense matrices at 80 digits."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from kuq.expectations.low_rank import log_self_affinity, overlap, point_overlap

pytestmark = pytest.mark.filterwarnings("error")

DIGITS = 80  # the smallest gap below is 1e-58
NAMES = ("log_p", "log_q", "log_c", "shift", "gap", "tilt")
#: In units of 1/trace.
NODES = np.asarray([1e-12, 1e-3, 1.0, 1e3, 1e9])
FAR_NODES = np.asarray([1e15, 1e25])
SHAPES = [(6, 2), (5, 3), (2, 2), (8, 3), (2, 3), (1, 1)]
Laws = tuple[np.ndarray, ...]


# References in high precision.


def exact(values: np.ndarray) -> Any:
    return mp.matrix([[mp.mpf(float(x)) for x in row] for row in np.atleast_2d(values)])


def covariance(factor: np.ndarray, diag: np.ndarray) -> Any:
    return exact(factor) * exact(factor).T + mp.diag([mp.mpf(float(x)) for x in diag])


def log_determinant(matrix: Any) -> Any:
    lower = mp.cholesky(matrix)
    return 2 * sum(mp.log(lower[i, i]) for i in range(matrix.rows))


def overlap_reference(t: float, laws: Laws) -> tuple[Any, ...]:
    loc1, factor1, diag1, loc2, factor2, diag2 = laws
    with mp.workdps(DIGITS):
        t, eye = mp.mpf(float(t)), mp.eye(len(loc1))
        a = eye + 4 * t * covariance(factor1, diag1)
        b = eye + 4 * t * covariance(factor2, diag2)
        c = (a + b) / 2
        log_a, log_b, log_c = (log_determinant(m) for m in (a, b, c))
        delta = (exact(loc1) - exact(loc2)).T
        shift = t * (delta.T * mp.lu_solve(c, delta))[0]
        gap, tilt = -(log_a + log_b - 2 * log_c) / 4, (log_a - log_b) / 4
        return -log_a / 2, -log_b / 2, -log_c / 2, shift, gap, tilt


def divergence_reference(truth: tuple[Any, ...]) -> Any:
    log_p, log_q, log_c, shift, _, _ = truth
    with mp.workdps(DIGITS):
        return (mp.exp(log_p) + mp.exp(log_q)) / 2 - mp.exp(log_c - shift)


def point_reference(t: float, law: Laws, value: np.ndarray) -> Any:
    loc, factor, diag = law
    with mp.workdps(DIGITS):
        t = mp.mpf(float(t))
        c = mp.eye(len(loc)) + 2 * t * covariance(factor, diag)
        delta = (exact(loc) - exact(value)).T
        return -log_determinant(c) / 2 - t * (delta.T * mp.lu_solve(c, delta))[0]


def divergence(parts: Any) -> np.ndarray:
    """What the caller makes of the six numbers."""
    log_p, log_q, log_c, shift, gap, tilt = (np.asarray(x, dtype=np.float64) for x in parts)
    close = gap + np.abs(tilt) <= 1
    gap, tilt = np.where(close, gap, 0), np.where(close, tilt, 0)
    near = np.expm1(gap) * np.cosh(tilt) + 2 * np.sinh(tilt / 2) ** 2 - np.expm1(-shift)
    far = (np.exp(log_p) + np.exp(log_q)) / 2 - np.exp(log_c - shift)
    return np.where(close, np.exp(log_c) * near, far)


def relative_error(value: Any, truth: Any) -> float:
    return float(abs(mp.mpf(float(value)) - truth) / abs(truth)) if truth else abs(float(value))


def scaled(nodes: np.ndarray, laws: Laws) -> np.ndarray:
    _, factor1, diag1, _, factor2, diag2 = laws
    traces = np.sum(factor1**2) + np.sum(diag1), np.sum(factor2**2) + np.sum(diag2)
    return nodes / max(traces)


def assert_exact(nodes: np.ndarray, laws: Laws, rtol: float, rtol_close: float) -> None:
    """Errors of the logarithms and the shift, of gap and tilt, and of the divergence."""
    t = scaled(nodes, laws)
    parts = overlap(t, *laws)
    total = divergence(parts)
    for k, node in enumerate(t):
        truth = overlap_reference(node, laws)
        errors = {n: relative_error(x[k], y) for n, x, y in zip(NAMES, parts, truth, strict=True)}
        if truth[3] > 1e4:
            errors["shift"] = abs(float(parts[3][k]) - 1e4)
        # The divergence is exp(log_c) (gap + tilt^2/2 + shift) for small ones: a gap that is much
        # smaller than the shift, or a tilt than the root of the others, has no influence.
        visible = abs(truth[4]) + min(truth[3], 1)
        errors["gap"] *= float(truth[4] / visible) if truth[4] else 1.0
        size = max(abs(truth[5]), mp.sqrt(visible))
        error = abs(mp.mpf(float(parts[5][k])) - truth[5])
        errors["tilt"] = float(error / size) if size else float(error)
        if truth[4] + abs(truth[5]) > 1:
            errors["gap"] = errors["tilt"] = 0.0
        limits = dict.fromkeys(NAMES, rtol) | {"gap": rtol_close, "tilt": rtol_close}
        worst = {n: e for n, e in errors.items() if not e <= limits[n]}
        assert not worst, f"node {node}: {worst}"
        assert relative_error(total[k], divergence_reference(truth)) <= rtol_close


# Laws.


def draw(seed: int, d: int, r: int, diag: float = 1.0) -> Laws:
    rng = np.random.default_rng(seed)
    return rng.normal(size=d), rng.normal(size=(d, r)), diag * rng.uniform(0.5, 1.5, size=d)


def neighbour(seed: int, law: Laws, size: float, parts: str) -> Laws:
    """A law that differs by a relative size in some of loc, factor and diag."""
    rng = np.random.default_rng(seed)
    loc, factor, diag = law
    change = [size * rng.normal(size=x.shape) for x in law]
    return (
        loc + change[0] if "l" in parts else loc,
        factor + change[1] if "f" in parts else factor,
        diag * np.exp(change[2]) if "d" in parts else diag,
    )


def degenerate(d: int, r: int) -> dict[str, Laws]:
    loc, factor, diag = draw(20, d, r)
    other = draw(21, d, r)
    none, zero = np.zeros_like(factor), np.zeros_like(diag)
    first = factor * (np.arange(r) == 0)
    return {
        "no factor": (loc, none, diag, other[0], none, other[2]),
        "no factor, close": (loc, none, diag, *neighbour(22, (loc, none, diag), 1e-9, "ld")),
        "no diag": (loc, factor, zero, *other[:2], zero),
        "no diag, close": (loc, factor, zero, *neighbour(22, (loc, factor, zero), 1e-9, "lf")),
        "point and law": (loc, none, zero, *other),
        "point and law without diag": (loc, none, zero, *other[:2], zero),
        "points": (loc, none, zero, other[0], none, zero),
        "same law": (loc, factor, diag, loc, factor, diag),
        "same point": (loc, none, zero, loc, none, zero),
        "empty columns": (loc, first, diag, other[0], first, other[2]),
        "empty columns, close": (loc, first, diag, *neighbour(22, (loc, first, diag), 1e-9, "d")),
        "opposite columns": (loc, factor, diag, loc, -factor * (1 + 1e-6), diag),
        "scaled factor": (loc, factor, 1e-8 * diag, loc, 1.5 * factor, 1e-8 * diag),
    }


DEGENERATE = list(degenerate(2, 1))


# Values.


@pytest.mark.parametrize("diag", [1.0, 1e-8])
@pytest.mark.parametrize(("d", "r"), SHAPES)
def test_different_laws(d: int, r: int, diag: float) -> None:
    assert_exact(NODES, (*draw(1, d, r, diag), *draw(2, d, r, diag)), 1e-10, 1e-11)


@pytest.mark.parametrize("size", [1e-4, 1e-6, 1e-9])
@pytest.mark.parametrize("parts", ["lfd", "l", "f", "d"])
@pytest.mark.parametrize(("d", "r"), SHAPES[:3])
def test_close_laws(d: int, r: int, parts: str, size: float) -> None:
    law = draw(3, d, r)
    assert_exact(NODES, (*law, *neighbour(4, law, size, parts)), 1e-13, 1e-12)


@pytest.mark.parametrize("size", [1e-4, 1e-9])
@pytest.mark.parametrize("parts", ["lfd", "f", "d"])
@pytest.mark.parametrize(("d", "r"), SHAPES[:3])
def test_close_laws_of_condition_1e8(d: int, r: int, parts: str, size: float) -> None:
    law = draw(5, d, r, 1e-8)
    assert_exact(NODES, (*law, *neighbour(6, law, size, parts)), 1e-12, 1e-10)


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize(("d", "r"), [(7, 2), (2, 2)])
def test_degenerate_laws(d: int, r: int, name: str) -> None:
    laws = degenerate(d, r)[name]
    if name in ("points", "same point"):
        parts = overlap(NODES, *laws)
        assert all(np.all(parts[i] == 0) for i in (0, 1, 2, 4, 5))
        expected = np.minimum(NODES * np.sum((laws[0] - laws[3]) ** 2), 1e4)
        np.testing.assert_allclose(parts[3], expected, rtol=1e-14)
    else:
        assert_exact(NODES, laws, 1e-10, 1e-10)


@pytest.mark.parametrize("diag", [1.0, 1e-8, 0.0])
@pytest.mark.parametrize("size", [1.0, 1e-9])
def test_large_nodes(diag: float, size: float) -> None:
    law = draw(7, 6, 2, diag)
    assert_exact(FAR_NODES, (*law, *neighbour(8, law, size, "lfd")), 1e-12, 1e-12)


def test_dependent_columns_stay_finite() -> None:
    # The logarithms lose their digits here (see the module), but nothing may fail.
    loc, factor, _ = draw(9, 5, 1)
    laws = (loc, factor.repeat(3, axis=1), np.zeros(5), -loc, factor.repeat(3, axis=1), np.zeros(5))
    for dtype in (np.float64, np.float32):
        nodes = 10.0 ** np.arange(-12, 26)
        parts = overlap(nodes.astype(dtype), *(x.astype(dtype) for x in laws))
        assert all(np.isfinite(x).all() and x.dtype == dtype for x in parts)


@pytest.mark.parametrize(("d", "r"), [(6, 2), (2, 3)])
def test_self_affinity_and_points(d: int, r: int) -> None:
    law = loc, factor, diag = draw(10, d, r)
    values = np.concatenate([[loc], [loc + 1e-6], draw(11, 4, d)[1]])
    nodes = np.asarray([1e-12, 1e-3, 1.0, 1e3])
    affinity = log_self_affinity(nodes, factor, diag)
    parts = point_overlap(nodes[:, None], loc[None], factor[None], diag[None], values)
    log_p, log_cross = parts[0], parts[2] - parts[3]
    assert log_p.shape == (4, 1)
    assert log_cross.shape == (4, len(values))
    for k, t in enumerate(nodes):
        truth = overlap_reference(t, law + law)[0]
        assert relative_error(affinity[k], truth) < 1e-14
        assert relative_error(log_p[k, 0], truth) < 1e-14
        for n, value in enumerate(values):
            assert relative_error(log_cross[k, n], point_reference(t, law, value)) < 1e-13


@pytest.mark.parametrize("scale", [1e-9, 1e-6, 1.5e-6, 4e-6, 1e-3, 1.0])
def test_the_gap_to_a_point_keeps_its_digits(scale: float) -> None:
    """The gap is of second order in t times the variances, where logarithms are of first."""
    loc, factor, diag = draw(14, 6, 2)
    node = scale / float(np.sum(diag) + np.sum(factor**2))
    point = (loc, np.zeros_like(factor), np.zeros_like(diag))
    truth = overlap_reference(node, (loc, factor, diag, *point))[4]
    gap = point_overlap(np.asarray([node]), loc, factor, diag, loc)[4]
    assert relative_error(gap[0], truth) < 2e-9


# Shapes.


def log_cross_affinity(parts: tuple[np.ndarray, ...]) -> np.ndarray:
    return parts[2] - parts[3]


def test_lead_axes_broadcast() -> None:
    laws = [draw(30 + k, 5, 2) for k in range(3)]
    loc, factor, diag = (np.stack(x) for x in zip(*laws, strict=True))
    nodes = np.geomspace(1e-3, 1e3, 4)
    left, right = (x[:, None] for x in (loc, factor, diag)), (x[None] for x in (loc, factor, diag))
    parts = overlap(nodes[:, None, None], *left, *right)
    values = np.random.default_rng(0).normal(size=(3, 6, 5))
    law = (x[:, None] for x in (loc, factor, diag))
    cross = log_cross_affinity(point_overlap(nodes[:, None, None], *law, values))
    assert cross.shape == (4, 3, 6)
    for i, p in enumerate(laws):
        for j, q in enumerate(laws):
            for whole, single in zip(parts, overlap(nodes, *p, *q), strict=True):
                assert whole.shape == (4, 3, 3)
                np.testing.assert_allclose(whole[:, i, j], single, rtol=1e-12, atol=1e-15)
        for n in range(6):
            single = log_cross_affinity(point_overlap(nodes, *p, values[i, n]))
            np.testing.assert_allclose(cross[:, i, n], single, rtol=1e-12)


def test_one_node_and_many_nodes_agree() -> None:
    laws = (*draw(12, 9, 4), *draw(13, 9, 4))
    nodes = np.geomspace(1e-3, 1e3, 12)
    many = overlap(nodes, *laws)
    for k in range(12):
        for one, all_of_them in zip(overlap(nodes[k : k + 1], *laws), many, strict=True):
            np.testing.assert_allclose(one[0], all_of_them[k], rtol=1e-12)


# Stored values.


def stored() -> list[dict[str, Any]]:
    path = Path(__file__).parent / "reference" / "lowrank.json"
    return [r for r in json.loads(path.read_text()) if r["score"] in ("gaussian", "energy")]


def arrays(law: dict[str, Any]) -> Laws:
    return tuple(np.asarray(law[key]) for key in ("mu", "U", "D"))


def integrand(record: dict[str, Any], t: np.ndarray) -> np.ndarray:
    """The quantity for the kernel exp(-t r^2), at every node."""
    params, quantity = record["params"], record["quantity"]
    if quantity == "entropy":
        _, factor, diag = arrays(params["p"])
        return -np.expm1(log_self_affinity(t, factor, diag)) / 2
    if quantity == "divergence":
        return divergence(overlap(t, *arrays(params["p"]), *arrays(params["q"])))
    if quantity == "score":
        return divergence(point_overlap(t, *arrays(params["p"]), np.asarray(params["y"])))
    laws = [arrays(law) for law in params["members"]]
    return np.mean([divergence(overlap(t, *p, *q)) for p in laws for q in laws], axis=0)


@pytest.mark.parametrize("record", stored(), ids=lambda r: r["id"])
def test_stored_reference_values(record: dict[str, Any]) -> None:
    if record["score"] == "gaussian":
        value = integrand(record, np.asarray([record["score_params"]["gamma"] ** -2.0]))[0]
    else:
        b, step = record["score_params"]["beta"] / 2, 0.3
        u = np.arange(-60, 58, step)
        total = np.sum(integrand(record, np.exp(u)) * np.exp(-b * u)) * step
        value = total * b / math.gamma(1 - b)
    assert value == pytest.approx(record["value"], rel=1e-11)


# Array libraries, precision and gradients.


def weighted_sum(parts: Any) -> Any:
    """One number in which every output has a part of its own."""
    weights = (0.3, -0.7, 1.1, 0.9, 1.3, -0.4)
    return sum(w * x.sum() for w, x in zip(weights, parts, strict=True))


def torch_gradient(t: np.ndarray, laws: Laws) -> tuple[Any, Any]:
    torch = pytest.importorskip("torch")
    leaves = [torch.tensor(x, requires_grad=True) for x in laws]
    parts = overlap(torch.tensor(t), *leaves)
    gradient = torch.autograd.grad(weighted_sum(parts), leaves)
    return [x.detach().numpy() for x in parts], [g.numpy() for g in gradient]


@pytest.mark.parametrize(("d", "r"), [(5, 2), (2, 2)])
@pytest.mark.parametrize("size", [1.0, 0.03])
def test_gradient_against_finite_differences(d: int, r: int, size: float) -> None:
    law, t = draw(14, d, r), np.asarray([0.05, 0.7])
    laws = (*law, *neighbour(15, law, size / 3, "lfd"))
    _, gradient = torch_gradient(t, laws)
    for k, x in enumerate(laws):
        for index in np.ndindex(x.shape):
            step = np.zeros_like(x)
            step[index] = 1e-5
            up, down = (
                weighted_sum(overlap(t, *laws[:k], x + s, *laws[k + 1 :])) for s in (step, -step)
            )
            expected = (up - down) / 2e-5
            assert gradient[k][index] == pytest.approx(expected, rel=2e-6, abs=1e-8)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", DEGENERATE)
def test_torch(name: str, dtype: Any) -> None:
    for d, r in ((5, 2), (2, 2)):
        laws = tuple(x.astype(dtype) for x in degenerate(d, r)[name])
        t = (10.0 ** np.arange(-12, 26, 4)).astype(dtype)
        parts, gradient = torch_gradient(t, laws)
        assert all(np.isfinite(g).all() and g.dtype == dtype for g in gradient)
        rtol = 1e-6 if dtype is np.float64 else 0.05
        for n, x, y in zip(NAMES, parts, overlap(t, *laws), strict=True):
            assert x.dtype == y.dtype == dtype
            np.testing.assert_allclose(x[:6], y[:6], rtol=rtol, atol=1e-12, err_msg=n)


def test_jax() -> None:
    """Values and gradients under jit; the cases share one compilation."""
    jax = pytest.importorskip("jax")

    def both(t: Any, *laws: Any) -> Any:
        parts = overlap(t, *laws)
        return weighted_sum(parts), parts

    with jax.enable_x64(True):
        t, large = 10.0 ** np.arange(-12, 5, 4), 10.0 ** np.arange(8, 25, 4)
        function = jax.value_and_grad(both, argnums=tuple(range(1, 7)), has_aux=True)
        fast = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
        arguments = [jax.numpy.asarray(x) for x in (t, *degenerate(5, 2)["no diag"])]
        compiled = jax.jit(function).lower(*arguments).compile(compiler_options=fast)
        for name, laws in degenerate(5, 2).items():
            (_, parts), gradient = compiled(*(jax.numpy.asarray(x) for x in (t, *laws)))
            _, expected = torch_gradient(t, laws)
            for n, x, y in zip(NAMES, parts, overlap(t, *laws), strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-15, err_msg=f"{name}: {n}")
            for g, e in zip(gradient, expected, strict=True):
                np.testing.assert_allclose(g, e, rtol=1e-8, atol=1e-9, err_msg=name)
            (_, parts), gradient = compiled(*(jax.numpy.asarray(x) for x in (large, *laws)))
            assert all(np.isfinite(x).all() for x in (*parts, *gradient)), name


@pytest.mark.parametrize("size", [1.0, 1e-1, 1e-3])
def test_float32(size: float) -> None:
    law = draw(16, 6, 2)
    laws = (*law, *neighbour(17, law, size, "lfd"))
    single = tuple(x.astype(np.float32) for x in laws)
    t = np.geomspace(1e-4, 1e4, 5).astype(np.float32)
    parts = overlap(t, *single)
    assert all(x.dtype == np.float32 for x in parts)
    for k, node in enumerate(t):
        truth = divergence_reference(overlap_reference(node, single))
        assert relative_error(divergence(parts)[k], truth) < 1e-5
    cross = point_overlap(t, *single[:4])
    assert all(x.dtype == np.float32 for x in cross)
