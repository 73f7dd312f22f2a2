"""The workloads: what is computed, how large, and who computes it.

Sizes are those of a field of 4070 cells predicted by ten members, unless a title says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec

import kuq
from benchmarks import peers, problems, reference
from benchmarks.peers import Pair
from benchmarks.problems import Problem

CELLS = 4070
Solver = Callable[[Problem], Pair]


@dataclass(frozen=True)
class Peer:
    """A solver, and on how many rows it is run; its cost is scaled to all rows.

    Few rows flatter a peer that broadcasts: its temporaries stay small, and one row of forty
    costs up to five times one row of four. Goals are set against few rows, the harder case; the
    peers "at once" show all rows. A quick run leaves out peers without ``quick_rows``, and any run
    those whose library ``needs`` is not installed.
    """

    solve: Solver
    rows: int
    quick_rows: int
    needs: str = "numpy"

    @property
    def is_there(self) -> bool:
        return find_spec(self.needs) is not None


@dataclass(frozen=True)
class Workload:
    """``probe`` says at which part of the results the exact values are computed.

    A quick run leaves out workloads without ``quick_rows``.
    """

    key: str
    title: str
    build: Callable[[int], Problem]
    rows: int
    quick_rows: int
    solve: Solver
    exact: Solver
    probe: tuple[slice, ...]
    peers: dict[str, Peer] = field(default_factory=dict)


def decomposed(
    prediction: kuq.Ensemble,
    score: kuq.Score,
    rtol: float = 1e-8,
    directions: int | None = None,
) -> Pair:
    u = kuq.decompose(prediction, score, rtol=rtol, directions=directions)
    return u.aleatoric, u.epistemic


def of_normals(score: kuq.Score, event_ndim: int = 0, rtol: float = 1e-8) -> Solver:
    def solve(problem: Problem) -> Pair:
        law = kuq.Normal(problem["loc"], problem["scale"], event_ndim=event_ndim)
        return decomposed(kuq.Ensemble(law), score, rtol)

    return solve


def of_low_rank(score: kuq.Score, rtol: float = 1e-8) -> Solver:
    def solve(problem: Problem) -> Pair:
        law = kuq.LowRankNormal(problem["loc"], problem["factor"], problem["diag"])
        return decomposed(kuq.Ensemble(law), score, rtol)

    return solve


def of_draws(score: kuq.Score, event_ndim: int = 0) -> Solver:
    def solve(problem: Problem) -> Pair:
        return decomposed(kuq.Ensemble(kuq.Samples(problem["values"], event_ndim)), score)

    return solve


def by_kuq(solver: Solver) -> Solver:
    """Exact values from kuq itself at its finest tolerance and without compiled code."""

    def solve(problem: Problem) -> Pair:
        with kuq.compiled(False):
            return solver(problem)

    return solve


def with_bandwidth(solver: Callable, bandwidth: float, **options: bool) -> Solver:
    return lambda problem: solver(problem, bandwidth, **options)


FEW_CELLS = (slice(2), slice(3))
ONE_ROW = (slice(1),)
FEW_ROWS = (slice(3),)


def crps_of_normals(key: str, members: int, rows: int, quick: int, peer: int) -> Workload:
    return Workload(
        key,
        f"CRPS maps of normals, M={members}, d={CELLS}",
        lambda n: problems.normals(members, n, CELLS),
        rows,
        quick,
        of_normals(kuq.CRPS()),
        reference.crps_normals,
        FEW_CELLS,
        {"authors": Peer(peers.crps_hyp1f1, peer, 2)},
    )


def map_of_normals(
    key: str,
    name: str,
    score: kuq.Score,
    peer: Solver,
    exact: Solver,
    peer_name: str = "authors",
    quick: int = 0,
) -> Workload:
    return Workload(
        key,
        f"{name} maps of normals, M=10, d={CELLS}",
        lambda n: problems.normals(10, n, CELLS),
        40,
        quick,
        of_normals(score),
        exact,
        FEW_CELLS,
        {peer_name: Peer(peer, 4, 2), f"{peer_name}, at once": Peer(peer, 40, 0)},
    )


def energy_of_draws(count: int, rows: int, quick: int, all_peers: dict[str, Peer]) -> Workload:
    return Workload(
        f"W3-N{count}",
        f"energy score of draws, M=10, N={count}, d={CELLS}",
        lambda n: problems.draws(10, n, count, CELLS),
        rows,
        quick,
        of_draws(kuq.Energy(), 1),
        reference.energy_draws,
        ONE_ROW,
        all_peers,
    )


def energy_of_many_draws() -> Workload:
    solve = of_draws(kuq.Energy(), 1)
    return Workload(
        "W3-N10000",
        "energy distance of two samples, N=10000, d=10",
        lambda n: problems.draws(2, n, 10_000, 10),
        1,
        0,
        solve,
        by_kuq(solve),
        ONE_ROW,
        {"KeOps": Peer(peers.keops_energy, 1, 0, "pykeops")},
    )


def crps_of_draws(count: int, rows: int, quick: int, all_peers: dict[str, Peer]) -> Workload:
    return Workload(
        f"W4-N{count}",
        f"CRPS of scalar draws, M=10, N={count}",
        lambda n: problems.draws(10, n, count),
        rows,
        quick,
        of_draws(kuq.CRPS()),
        reference.crps_draws,
        FEW_ROWS,
        all_peers,
    )


def gaussian_of_draws(
    key: str, bandwidth: float, quick: int, all_peers: dict[str, Peer]
) -> Workload:
    return Workload(
        key,
        f"Gaussian kernel of scalar draws, M=10, N=100, γ={bandwidth}",
        lambda n: problems.draws(10, n, 100),
        1000,
        quick,
        of_draws(kuq.Gaussian(bandwidth)),
        with_bandwidth(reference.gaussian_draws, bandwidth),
        FEW_ROWS,
        {"torch": Peer(with_bandwidth(peers.gaussian_broadcast, bandwidth), 10, 5), **all_peers},
    )


#: About the distance of two outcomes of different members in 4070 dimensions.
WIDE = 150.0

WORKLOADS = (
    crps_of_normals("W1", 10, 100, 10, 4),
    crps_of_normals("W1-M2", 2, 100, 20, 20),
    crps_of_normals("W1-M5", 5, 100, 0, 10),
    crps_of_normals("W1-M25", 25, 10, 0, 1),
    Workload(
        "W2-diagonal",
        f"Gaussian kernel of diagonal normals, M=10, d={CELLS}",
        lambda n: problems.normals(10, n, CELLS),
        40,
        8,
        of_normals(kuq.Gaussian(WIDE), 1),
        with_bandwidth(reference.gaussian_normals, WIDE, joint=True),
        FEW_ROWS,
        {
            "torch": Peer(with_bandwidth(peers.gaussian_diagonal, WIDE), 4, 3),
            "torch, at once": Peer(with_bandwidth(peers.gaussian_diagonal, WIDE), 40, 0),
        },
    ),
    Workload(
        "W2-low-rank",
        f"Gaussian kernel of low-rank normals, r=10, M=10, d={CELLS}",
        lambda n: problems.low_rank_normals(10, n, CELLS, 10),
        4,
        1,
        of_low_rank(kuq.Gaussian(WIDE)),
        with_bandwidth(reference.gaussian_low_rank, WIDE),
        ONE_ROW,
        {"Woodbury": Peer(with_bandwidth(peers.gaussian_low_rank, WIDE), 2, 1)},
    ),
    map_of_normals(
        "W2-marginal",
        "Gaussian kernel",
        kuq.Gaussian(1.5),
        with_bandwidth(peers.gaussian_marginal, 1.5),
        with_bandwidth(reference.gaussian_normals, 1.5, joint=False),
        "torch",
    ),
    energy_of_draws(
        5,
        20,
        4,
        {
            "cdist": Peer(peers.energy_cdist, 6, 2),
            "scoringrules": Peer(peers.scoringrules_energy, 3, 1),
        },
    ),
    energy_of_draws(10, 20, 2, {"cdist": Peer(peers.energy_cdist, 4, 2)}),
    energy_of_draws(50, 2, 0, {"cdist": Peer(peers.energy_cdist, 1, 1)}),
    energy_of_many_draws(),
    crps_of_draws(
        10,
        CELLS,
        1000,
        {
            "scoringrules": Peer(peers.scoringrules_crps, 200, 100),
            "torch": Peer(peers.crps_broadcast, 2000, 500),
        },
    ),
    crps_of_draws(
        100,
        1000,
        200,
        {
            "torch": Peer(peers.crps_broadcast, 50, 20),
            "scoringrules": Peer(peers.scoringrules_crps, 4, 3),
        },
    ),
    gaussian_of_draws(
        "W5",
        1.5,
        5,
        {"scoringrules": Peer(with_bandwidth(peers.scoringrules_gaussian, 1.5), 3, 1)},
    ),
    gaussian_of_draws("W5-narrow", 0.2, 0, {}),
    Workload(
        "W6-pair",
        f"energy score of two diagonal normals, d={CELLS}",
        lambda n: problems.normals(2, n, CELLS),
        32,
        4,
        of_normals(kuq.Energy(), 1),
        reference.energy_normals,
        ONE_ROW,
        {"1000 draws": Peer(peers.energy_monte_carlo, 2, 1)},
    ),
    Workload(
        "W6-diagonal",
        f"energy score of diagonal normals, M=10, d={CELLS}",
        lambda n: problems.normals(10, n, CELLS),
        2,
        0,
        of_normals(kuq.Energy(), 1),
        by_kuq(of_normals(kuq.Energy(), 1, rtol=1e-12)),
        ONE_ROW,
        {"1000 draws": Peer(peers.energy_monte_carlo, 1, 1)},
    ),
    Workload(
        "W6-low-rank",
        f"energy score of two low-rank normals, r=10, d={CELLS}",
        lambda n: problems.low_rank_normals(2, n, CELLS, 10),
        4,
        0,
        of_low_rank(kuq.Energy()),
        by_kuq(of_low_rank(kuq.Energy(), rtol=1e-12)),
        ONE_ROW,
        {"1000 draws": Peer(peers.energy_monte_carlo, 2, 1)},
    ),
    Workload(
        "W7",
        "CRPS of M=1000 normal members",
        lambda n: problems.normals(1000, n),
        50,
        4,
        of_normals(kuq.CRPS()),
        reference.crps_many_normals,
        FEW_ROWS,
        {"authors": Peer(peers.crps_hyp1f1, 4, 1)},
    ),
    map_of_normals("log-score", "log score", kuq.LogScore(), peers.log_score, reference.log_score),
    map_of_normals(
        "squared-error",
        "squared error",
        kuq.SquaredError(),
        peers.squared_error,
        reference.squared_error,
        quick=8,
    ),
)
