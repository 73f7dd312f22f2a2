"""Laws times kernels at everyday sizes, beside the plain torch that a competent user would write.

Plain torch means one broadcast over all pairs, with erf and exp, in float64, on one thread. What it
computes is E k(X, Y) of every pair of members, from which both uncertainties follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import kuq
from benchmarks.measure import alternate, relative_error

Pair = tuple[torch.Tensor, torch.Tensor]
#: Parts of an uncertainty by levels.
Parts = tuple[Any, ...]
WIDTH = 1.0


@dataclass(frozen=True)
class Cell:
    """One law under one kernel: ``build(n)`` gives both contestants for n inputs."""

    key: str
    title: str
    rows: int
    quick_rows: int
    build: Callable[[int], tuple[Callable[[], Pair], Callable[[], Pair]]]
    #: kuq is to be at least this many times faster
    goal: float
    #: how far plain torch may be off: it is no reference for what it only approximates
    agreement: float = 1e-6


# --- plain torch ----------------------------------------------------------------------------------


def from_table(table: torch.Tensor) -> Pair:
    """AU and unbiased EU of (M, M, n) expectations of a kernel that is zero on its diagonal."""
    members = len(table)
    diagonal = torch.diagonal(table, dim1=0, dim2=1).sum(-1)
    others = (table.sum((0, 1)) - diagonal) / (members * (members - 1))
    return diagonal / members / 2, others - diagonal / members


def expected_absolute(gap: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    deviation = torch.sqrt(variance)
    z = gap / deviation
    bell = math.sqrt(2 / math.pi) * torch.exp(-(z**2) / 2)
    return deviation * bell + gap * torch.erf(z / math.sqrt(2))


def expected_gaussian(gap: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    spread = WIDTH**2 + 2 * variance
    return 1 - WIDTH / torch.sqrt(spread) * torch.exp(-(gap**2) / spread)


def expected_laplace(gap: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    deviation = torch.sqrt(variance)
    ratio, z = deviation / WIDTH, gap.abs() / deviation
    tilt = torch.exp(variance / (2 * WIDTH**2))
    near = torch.exp(-gap.abs() / WIDTH) * torch.erfc((ratio - z) / math.sqrt(2))
    far = torch.exp(gap.abs() / WIDTH) * torch.erfc((ratio + z) / math.sqrt(2))
    return 1 - tilt * (near + far) / 2


def plain_normals(
    expected: Callable[..., torch.Tensor], loc: torch.Tensor, scale: torch.Tensor
) -> Pair:
    return from_table(expected(loc[:, None] - loc[None], scale[:, None] ** 2 + scale[None] ** 2))


def plain_mixtures(
    expected: Callable[..., torch.Tensor], w: torch.Tensor, loc: torch.Tensor, scale: torch.Tensor
) -> Pair:
    """Arrays (M, n, K)."""
    gap = loc[:, None, :, :, None] - loc[None, :, :, None, :]
    variance = scale[:, None, :, :, None] ** 2 + scale[None, :, :, None, :] ** 2
    weight = w[:, None, :, :, None] * w[None, :, :, None, :]
    return from_table((weight * expected(gap, variance)).sum((-1, -2)))


def plain_log_mixtures(w: torch.Tensor, loc: torch.Tensor, scale: torch.Tensor) -> Pair:
    """AU and pairwise EU of the log score on one grid of 600 nodes for all members."""
    low, high = (loc - 9 * scale).amin((0, 2)), (loc + 9 * scale).amax((0, 2))
    share = torch.linspace(0, 1, 600, dtype=loc.dtype)
    nodes = low[:, None] + (high - low)[:, None] * share
    z = (nodes[None, :, None] - loc[..., None]) / scale[..., None]
    parts = torch.log(w / scale)[..., None] - z**2 / 2 - math.log(2 * math.pi) / 2
    logs = torch.logsumexp(parts, dim=2)  # (M, n, nodes)
    mass = torch.exp(logs) * ((high - low) / 599)[:, None]
    cross = -torch.einsum("ink,jnk->ijn", mass, logs)
    members = len(loc)
    diagonal = torch.diagonal(cross, dim1=0, dim2=1).sum(-1)
    return diagonal / members, (cross.sum((0, 1)) - members * diagonal) / (members * (members - 1))


def plain_draws(profile: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Pair:
    """Draws (M, n, N): all pairs of draws of all pairs of members."""
    return from_draws(profile((x[:, None, :, :, None] - x[None, :, :, None, :]).abs()), x.shape[2])


def plain_fields(profile: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Pair:
    """Draws (M, n, N, d), by torch.cdist."""
    return from_draws(profile(torch.cdist(x[:, None], x[None])), x.shape[2])


def from_draws(values: torch.Tensor, draws: int) -> Pair:
    sums = values.sum((-1, -2))
    members = len(sums)
    diagonal = torch.diagonal(sums, dim1=0, dim2=1).sum(-1)
    inside = diagonal / (draws * (draws - 1) * members)
    across = (sums.sum((0, 1)) - diagonal) / (draws**2 * members * (members - 1))
    return inside / 2, across - inside


PROFILES: dict[str, tuple[kuq.Score, Callable[[torch.Tensor], torch.Tensor]]] = {
    "Energy": (kuq.Energy(), lambda r: r),
    "CRPS": (kuq.CRPS(), lambda r: r),
    "Gaussian": (kuq.Gaussian(WIDTH), lambda r: 1 - torch.exp(-((r / WIDTH) ** 2))),
    "Laplace": (kuq.Laplace(WIDTH), lambda r: 1 - torch.exp(-r / WIDTH)),
    "Matern(3/2)": (
        kuq.Matern(WIDTH, 1.5),
        lambda r: 1 - (1 + math.sqrt(3) * r / WIDTH) * torch.exp(-math.sqrt(3) * r / WIDTH),
    ),
    "InverseMultiquadric": (
        kuq.InverseMultiquadric(WIDTH),
        lambda r: 1 - 1 / torch.sqrt(1 + (r / WIDTH) ** 2),
    ),
}
EXPECTED = {"CRPS": expected_absolute, "Gaussian": expected_gaussian, "Laplace": expected_laplace}


# --- the cells ------------------------------------------------------------------------------------


def ours(prediction: Callable[[], kuq.Prediction], score: kuq.Score) -> Callable[[], Pair]:
    def call() -> Pair:
        u = kuq.decompose(prediction(), score)
        return u.aleatoric, u.epistemic

    return call


def normals(name: str, members: int, torch_arrays: bool = False) -> Callable[[int], tuple]:
    def build(n: int) -> tuple:
        rng = np.random.default_rng(0)
        loc, scale = rng.normal(0, 1.3, (members, n)), rng.uniform(0.5, 1.5, (members, n))
        tensors = torch.from_numpy(loc), torch.from_numpy(scale)
        arrays = tensors if torch_arrays else (loc, scale)
        score = PROFILES[name][0]
        return ours(lambda: kuq.Ensemble(kuq.Normal(*arrays)), score), lambda: plain_normals(
            EXPECTED[name], *tensors
        )

    return build


def mixtures(name: str) -> Callable[[int], tuple]:
    def build(n: int) -> tuple:
        rng = np.random.default_rng(1)
        shape = (5, n, 10)
        arrays = rng.dirichlet(np.ones(10), shape[:2]), rng.normal(0, 2, shape)
        arrays = (*arrays, rng.uniform(0.3, 1.5, shape))
        tensors = [torch.from_numpy(array) for array in arrays]
        prediction = kuq.NormalMixture(*arrays)
        if name == "LogScore":
            return ours(
                lambda: kuq.Ensemble(prediction), kuq.LogScore()
            ), lambda: plain_log_mixtures(*tensors)
        return ours(lambda: kuq.Ensemble(prediction), PROFILES[name][0]), lambda: plain_mixtures(
            EXPECTED[name], *tensors
        )

    return build


def draws(name: str, count: int, size: int | None = None) -> Callable[[int], tuple]:
    def build(n: int) -> tuple:
        rng = np.random.default_rng(2)
        event = () if size is None else (size,)
        x = rng.normal(0, 0.5, (5, n, 1, *event)) + rng.normal(size=(5, n, count, *event))
        if size is not None:
            x = x / math.sqrt(size)  # distances of the order of the bandwidth
        score, profile = PROFILES[name]
        tensor = torch.from_numpy(x)
        plain = plain_draws if size is None else plain_fields
        return ours(lambda: kuq.Ensemble(kuq.Samples(x, len(event))), score), lambda: plain(
            profile, tensor
        )

    return build


def evidential(n: int) -> tuple:
    """Plain: 256 draws of the normals behind the law; AU over all, EU over halves."""
    rng = np.random.default_rng(3)
    gamma, nu = rng.normal(size=n), rng.uniform(0.5, 5, n)
    alpha, beta = rng.uniform(1.5, 5, n), rng.uniform(0.5, 2, n)
    law = kuq.NormalInverseGamma(gamma, nu, alpha, beta)
    tensors = [torch.from_numpy(array) for array in (gamma, nu, alpha, beta)]

    def plain() -> Pair:
        torch.manual_seed(0)
        m, v, a, b = tensors
        variance = 1 / torch.distributions.Gamma(a, b).sample((256,))
        loc = m + torch.sqrt(variance / v) * torch.randn(256, n, dtype=m.dtype)
        within = expected_gaussian(torch.zeros_like(loc), 2 * variance).mean(0)
        left, right = slice(0, 128), slice(128, 256)
        cross = expected_gaussian(loc[left] - loc[right], variance[left] + variance[right]).mean(0)
        return within / 2, cross - within

    return ours(lambda: law, kuq.Gaussian(WIDTH)), plain


def energy_of_normals(n: int) -> tuple:
    """Plain: 200 draws of each of five normals in 64 dimensions."""
    rng = np.random.default_rng(4)
    loc, scale = rng.normal(0, 0.3, (5, n, 64)), rng.uniform(0.5, 1.5, (5, n, 64))
    tensors = torch.from_numpy(loc), torch.from_numpy(scale)

    def plain() -> Pair:
        torch.manual_seed(0)
        noise = torch.randn(5, n, 200, 64, dtype=torch.float64)
        return plain_fields(lambda r: r, tensors[0][:, :, None] + tensors[1][:, :, None] * noise)

    return ours(lambda: kuq.Ensemble(kuq.Normal(loc, scale, 1)), kuq.Energy()), plain


def variances_by_level(n: int) -> tuple:
    """Scenarios, models, runs. Plain: variances of means in NumPy, each less what is below it."""
    rng = np.random.default_rng(5)
    scenarios, models, runs = 3, 8, 5
    values = rng.normal(0, 2, (scenarios, 1, 1, n)) + rng.normal(0, 1, (scenarios, models, 1, n))
    values = values + rng.normal(size=(scenarios, models, runs, n))

    def call() -> Parts:
        members = kuq.Ensemble(kuq.Point(values), member_ndim=3)
        u = kuq.decompose(members, "variance", levels=("scenario", "model", "run"))
        return u["scenario"], u["model"], u["run"]

    def plain() -> Parts:
        run = values.var(axis=2, ddof=1).mean(axis=(0, 1))
        of_models = values.mean(axis=2)
        model = of_models.var(axis=1, ddof=1).mean(axis=0) - run / runs
        scenario = of_models.mean(axis=1).var(axis=0, ddof=1) - (model + run / runs) / models
        return scenario, model, run

    return call, plain


def crps_by_level(n: int) -> tuple:
    """Runs of models that are normals. Plain: the matrix of all pairs, by groups, in torch."""
    rng = np.random.default_rng(6)
    models, runs = 8, 5
    loc = rng.normal(0, 2, (models, 1, n)) + rng.normal(size=(models, runs, n))
    scale = rng.uniform(0.5, 1.5, (models, runs, n))
    tensors = [torch.from_numpy(array.reshape(-1, n)) for array in (loc, scale)]
    group = torch.arange(models * runs) // runs
    same = group[:, None] == group[None]
    inside = same & ~torch.eye(len(group), dtype=torch.bool)

    def call() -> Parts:
        members = kuq.Ensemble(kuq.Normal(loc, scale), member_ndim=2)
        u = kuq.decompose(members, kuq.CRPS(), levels=("model", "run"))
        return u["noise"], u["model"], u["run"]

    def plain() -> Parts:
        loc, scale = tensors
        table = expected_absolute(loc[:, None] - loc[None], scale[:, None] ** 2 + scale[None] ** 2)
        diagonal = torch.diagonal(table, dim1=0, dim2=1).T
        apart = table - (diagonal[:, None] + diagonal[None]) / 2
        run = apart[inside].mean(0)
        return diagonal.mean(0) / 2, apart[~same].mean(0) - run, run

    return call, plain


CELLS: tuple[Cell, ...] = (
    *(
        Cell(f"normals {name}", f"normals, M=10, {name}", 2000, 500, normals(name, 10), 3)
        for name in EXPECTED
    ),
    *(
        Cell(f"mixtures {name}", f"mixtures, M=5, K=10, {name}", 500, 50, mixtures(name), 3)
        for name in EXPECTED
    ),
    # A millisecond an input at 1e-8, whatever the scales; 600 even nodes are enough for these only.
    Cell(
        "mixtures LogScore",
        "mixtures, M=5, K=10, LogScore, against 600 nodes",
        50,
        10,
        mixtures("LogScore"),
        0.3,
        1e-2,
    ),
    *(
        Cell(f"draws N=20 {name}", f"draws, M=5, N=20, {name}", 2000, 100, draws(name, 20), 3)
        for name in ("CRPS", "Gaussian", "Laplace", "Matern(3/2)", "InverseMultiquadric")
    ),
    *(
        Cell(f"draws N=500 {name}", f"draws, M=5, N=500, {name}", 20, 2, draws(name, 500), 3)
        for name in ("Gaussian", "Laplace")
    ),
    *(
        Cell(f"fields {name}", f"draws, M=5, N=20, d=64, {name}", 100, 20, draws(name, 20, 64), 3)
        for name in ("Energy", "Gaussian", "Laplace")
    ),
    Cell(
        "evidential Gaussian",
        "evidential, Gaussian, against 256 draws",
        1000,
        200,
        evidential,
        3,
        1.0,
    ),
    Cell(
        "normals d=64 Energy",
        "normals, M=5, d=64, Energy, against 200 draws",
        50,
        5,
        energy_of_normals,
        3,
        0.2,
    ),
    Cell(
        "levels variance",
        "levels of points, 3 scenarios / 8 models / 5 runs, variance, against NumPy",
        2000,
        500,
        variances_by_level,
        0.1,
    ),
    Cell(
        "levels CRPS",
        "levels of normals, 8 models / 5 runs, CRPS",
        500,
        100,
        crps_by_level,
        3,
    ),
    Cell("n=32", "normals, M=5, CRPS, NumPy arrays", 32, 32, normals("CRPS", 5), 0.25),
    Cell("n=32 torch", "normals, M=5, CRPS, torch tensors", 32, 32, normals("CRPS", 5, True), 0.25),
    Cell("n=1000", "normals, M=5, CRPS, NumPy arrays", 1000, 1000, normals("CRPS", 5), 1),
    Cell(
        "n=1000 torch", "normals, M=5, CRPS, torch tensors", 1000, 1000, normals("CRPS", 5, True), 1
    ),
)


def run_cell(cell: Cell, quick: bool, repeats: int) -> dict:
    """Medians of CPU time of both, and how far plain torch is from kuq."""
    rows = cell.quick_rows if quick else cell.rows
    call, plain = cell.build(rows)
    with kuq.compiled(True):
        timings = alternate({"kuq": call, "plain": plain}, repeats)
    pairs = zip(timings["kuq"].result, timings["plain"].result, strict=True)
    return {
        "key": cell.key,
        "title": cell.title,
        "rows": rows,
        "cpu_ms": 1e3 * timings["kuq"].cpu,
        "plain_ms": 1e3 * timings["plain"].cpu,
        "ratio": timings["plain"].cpu / timings["kuq"].cpu,
        "goal": cell.goal,
        "difference": max(relative_error(np.asarray(b), np.asarray(a)) for a, b in pairs),
    }
