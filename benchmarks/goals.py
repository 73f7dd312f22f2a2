"""All goals in one place: ratios against peers, and limits on error, memory and time.

"generic" is kuq without compiled code (``kuq.compiled(False)``), "default" what a user gets with
the extra ``fast`` installed. A ratio is CPU time of the peer over that of kuq.
"""

from __future__ import annotations

from typing import NamedTuple


class Ratio(NamedTuple):
    """kuq is to be at least this many times faster than the peer."""

    generic: float | None
    default: float | None


#: (workload, peer) -> ratios. A pair that is not listed is measured without a goal.
RATIOS: dict[tuple[str, str], Ratio] = {
    ("W1", "authors"): Ratio(8, 35),
    ("W2-diagonal", "torch"): Ratio(2, 15),
    ("W2-low-rank", "Woodbury"): Ratio(2, 3),
    ("W3-N5", "cdist"): Ratio(12, None),
    ("W3-N10", "cdist"): Ratio(12, None),
    ("W3-N50", "cdist"): Ratio(4, None),
    ("W3-N5", "scoringrules"): Ratio(30, None),
    ("W3-N10000", "KeOps"): Ratio(None, 1),
    ("W4-N10", "scoringrules"): Ratio(40, None),
    ("W4-N100", "torch"): Ratio(40, None),
    ("W5", "torch"): Ratio(40, 300),
    ("W6-pair", "1000 draws"): Ratio(50, 400),
    ("W6-low-rank", "1000 draws"): Ratio(8, None),
    ("W7", "authors"): Ratio(40, 300),
    ("gradient-crps", "plain torch"): Ratio(None, 1),
    ("gradient-energy", "plain torch"): Ratio(None, 1),
    ("gradient-energy", "cdist"): Ratio(None, 1),
    ("gradient-low-rank", "plain torch"): Ratio(None, 1),
}
#: Losses of a training step, in either precision: key and rows -> ratio.
_LOSSES = {
    "crps-32": 0.5,
    "crps-1000": 1,
    "crps-50000": 1,
    "energy-32": 0.5,
    "energy-500": 2,
    "mixture-32": 0.5,
    "mixture-1000": 1,
    "members-32": 0.5,
    "members-1000": 1,
}
RATIOS |= {
    (f"loss-{name}-{precision}", "plain torch"): Ratio(None, ratio)
    for name, ratio in _LOSSES.items()
    for precision in ("float32", "float64")
}


class Steps(NamedTuple):
    """The same for training: as it is, and with ``compile=True``."""

    eager: float | None
    compiled: float | None = None


#: (case of training, peer) -> ratios.
TRAINING: dict[tuple[str, str], Steps] = {
    ("train-mlp", "one by one"): Steps(6, 15),
    ("train-fno", "one by one"): Steps(1),
    ("train-flow", "one by one"): Steps(2),
    ("loss-mixture", "plain torch, float32"): Steps(1),
    ("loss-energy", "plain torch, float32"): Steps(1),
}


def goal(pair: tuple[str, str], form: str) -> float | None:
    """The ratio that kuq in one form is to reach against a peer, if there is one."""
    return getattr(TRAINING.get(pair) or RATIOS.get(pair), form, None)


#: (workload, peer) -> how many times less peak memory kuq is to need.
MEMORY_RATIOS: dict[tuple[str, str], Ratio] = {("W1", "authors"): Ratio(20, 100)}

#: workload -> largest relative error of AU and EU, of kuq in both forms.
ERRORS: dict[str, float] = {
    "W1": 1e-13,
    "W1-M2": 1e-13,
    "W1-M5": 1e-13,
    "W1-M25": 1e-13,
    "W2-diagonal": 1e-12,
    "W2-low-rank": 1e-12,
    "W2-marginal": 1e-12,
    "W3-N5": 1e-12,
    "W3-N10": 1e-12,
    "W3-N50": 1e-12,
    "W3-N10000": 1e-11,
    "W4-N10": 1e-12,
    "W4-N100": 1e-12,
    "W5": 1e-12,
    "W5-narrow": 1e-12,
    "W6-pair": 1e-10,
    "W6-diagonal": 1e-10,
    "W6-low-rank": 1e-10,
    "W7": 1e-12,
    "log-score": 1e-13,
    "squared-error": 1e-13,
}

#: Upper limits: measured name -> (bound, unit). Memory is above inputs and outputs.
LIMITS: dict[str, tuple[float, str]] = {
    "million outcomes, time": (10.0, "CPU s"),
    "million outcomes, memory": (300.0, "MiB"),
    "1000 × 1000, memory": (100.0, "MiB"),
    "100 000 draws by 1000 directions, time": (3.0, "CPU s"),
    "100 000 draws by 1000 directions, memory": (100.0, "MiB"),
    "100 000 draws by 1000 directions, error": (0.2, "%"),
    "modules of numba after import kuq": (0.0, ""),
    "first compiled call, warm cache": (0.5, "CPU s"),
    "first eager call with JAX": (1.5, "CPU s"),
    "the same again, ms": (20.0, "CPU ms"),
}

#: A fitted exponent may exceed the expected one by this much.
EXPONENT_SLACK = 0.25


def verdict(met: bool | None) -> str:
    return "–" if met is None else ("ok" if met else "MISSED")
