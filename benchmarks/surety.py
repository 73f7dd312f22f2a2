"""Whether standard errors and tests of members keep their word: ``python -m benchmarks.surety``.

Standard errors of 30 laws and scores beside the spread over repeated experiments, the level of
``kuq.member_test`` where all members are the same law, and its power where one is not. The table
goes into docs/howto/surety.md, the numbers into surety.json (``--render``: only the table). About
four minutes of one core.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cells
from benchmarks.fresh import ROOT
from benchmarks.page import markdown

MEMBERS, DRAWS = 8, 8
#: Repetitions; so many tell a standard deviation to 1 or 2 %, as tails are heavier than normal.
TRIALS = 6000
LEVEL = 0.05
TESTS = 6000
SCORES = ("crps", "squared", "gaussian:1", "laplace:1", "energy")
#: (rng, trials, event) -> the prediction of so many repeated experiments, and what changes in them.
Experiment = Callable[[np.random.Generator, int, tuple[int, ...]], tuple[Any, str]]


def same_members(rng: np.random.Generator, trials: int, event: tuple[int, ...]) -> tuple[Any, str]:
    import kuq

    place = rng.normal(size=(MEMBERS, 1, 1, *event))
    draws = place + rng.normal(size=(MEMBERS, trials, DRAWS, *event))
    return kuq.Ensemble(kuq.Samples(draws, len(event))), "draws"


def other_members(
    rng: np.random.Generator,
    trials: int,
    event: tuple[int, ...],
    weights: np.ndarray | None = None,
) -> tuple[Any, str]:
    import kuq

    place = rng.normal(size=(MEMBERS, trials, 1, *event))
    draws = place + rng.normal(size=(MEMBERS, trials, DRAWS, *event))
    return kuq.Ensemble(kuq.Samples(draws, len(event)), weights), "both"


def weighted_members(
    rng: np.random.Generator, trials: int, event: tuple[int, ...]
) -> tuple[Any, str]:
    return other_members(rng, trials, event, np.arange(4.0, 4.0 + MEMBERS))


def normals(rng: np.random.Generator, trials: int, event: tuple[int, ...]) -> tuple[Any, str]:
    import kuq

    shape = (MEMBERS, trials, *event)
    law = kuq.Normal(rng.normal(size=shape), rng.uniform(0.5, 1.5, shape), len(event))
    return kuq.Ensemble(law), "members"


def mixtures(rng: np.random.Generator, trials: int, event: tuple[int, ...]) -> tuple[Any, str]:
    """Two components; of vectors low-rank normals in their place, as mixtures are of scalars."""
    import kuq

    if event:
        shape = (MEMBERS, trials, *event)
        law = kuq.LowRankNormal(
            rng.normal(size=shape), rng.normal(size=(*shape, 1)), rng.uniform(0.5, 1.5, shape)
        )
        return kuq.Ensemble(law), "members"
    shape = (MEMBERS, trials, 2)
    shares = rng.dirichlet(np.ones(2), shape[:2])
    law = kuq.NormalMixture(shares, rng.normal(0, 2, shape), rng.uniform(0.5, 1.5, shape))
    return kuq.Ensemble(law), "members"


def points(rng: np.random.Generator, trials: int, event: tuple[int, ...]) -> tuple[Any, str]:
    import kuq

    values = rng.normal(size=(MEMBERS, trials, *event))
    return kuq.Ensemble(kuq.Point(values, len(event))), "members"


EXPERIMENTS: dict[str, Experiment] = {
    "draws of the same members": same_members,
    "draws of other members": other_members,
    "the same with weights": weighted_members,
    "normals": normals,
    "mixtures, or low-rank normals": mixtures,
    "points": points,
}


def ratios(name: str, score: str, trials: int = TRIALS) -> dict[str, float | None]:
    """The root mean square of standard errors over the spread, for every part that varies."""
    import kuq

    rng = np.random.default_rng([list(EXPERIMENTS).index(name), SCORES.index(score)])
    event = (2,) if score == "energy" else ()
    prediction, over = EXPERIMENTS[name](rng, trials, event)
    u = kuq.decompose(prediction, score)
    error = kuq.standard_error(prediction, score, over=over)
    by_component: dict[str, float | None] = {}
    for component in ("total", "aleatoric", "epistemic"):
        spread = float(np.std(u[component], ddof=1))
        root = float(np.sqrt(np.mean(np.asarray(error[component]) ** 2)))
        by_component[component] = round(root / spread, 4) if spread > 1e-12 else None
    return by_component


LAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "heavy tails": lambda rng, shape: rng.standard_t(1.5, size=shape),
    "whole numbers": lambda rng, shape: rng.poisson(1.0, size=shape).astype(float),
}


def level(law: str, score: str, draws: int = 10, tests: int = TESTS) -> dict[str, float]:
    """How often members of one law differ with p ≤ 0.05, all together and the farthest one."""
    import kuq

    rng = np.random.default_rng([7, list(LAWS).index(law)])
    values = LAWS[law](rng, (4, tests, draws))
    test = kuq.member_test(
        kuq.Ensemble(kuq.Samples(values)), score, permutations=199, per_input=True
    )
    return {
        "all": round(float(np.mean(test.p_value <= LEVEL)), 4),
        "farthest": round(float(np.mean(test.outlier_p_value <= LEVEL)), 4),
    }


TESTED = ("crps", "gaussian:median")
POWERS = (5, 10, 20, 40)
SHIFTS = (0.0, 0.25, 0.5, 1.0, 1.5)


def power(draws: int, tests: int = 1000) -> dict[str, list[float]]:
    """The same where the first of four members is shifted, by standard deviations."""
    import kuq

    by_test: dict[str, list[float]] = {"all": [], "farthest": []}
    for place, shift in enumerate(SHIFTS):
        values = np.random.default_rng([8, draws, place]).normal(size=(4, tests, draws))
        values[0] += shift
        test = kuq.member_test(
            kuq.Ensemble(kuq.Samples(values)), "crps", permutations=199, per_input=True
        )
        named = (test.outlier_p_value <= LEVEL) & (test.outlier == 0)
        by_test["all"].append(round(float(np.mean(test.p_value <= LEVEL)), 3))
        by_test["farthest"].append(round(float(np.mean(named)), 3))
    return by_test


SLICED = ("energy", "gaussian:4", "laplace:4")


def within(score: str, repeats: int = 1000) -> dict[str, float]:
    """How often random directions are within three standard errors of all pairs."""
    import kuq

    rng = np.random.default_rng(9)
    draws = rng.normal(rng.normal(size=(3, 1, 4)), np.linspace(1.0, 2.0, 4), size=(3, 300, 4))
    prediction = kuq.Ensemble(kuq.Samples(draws, 1))
    exact = kuq.decompose(prediction, score)
    hits = dict.fromkeys(exact, 0)
    for seed in range(repeats):
        u = kuq.decompose(prediction, score, directions=200, seed=seed)
        for name in exact:
            hits[name] += abs(u[name] - exact[name]) <= 3 * getattr(u.standard_error, name)
    return {name: float(count / repeats) for name, count in hits.items()}


def asked() -> dict[str, Callable[[], Any]]:
    return {
        **{
            f"error|{name}|{score}": partial(ratios, name, score)
            for name in EXPERIMENTS
            for score in SCORES
        },
        **{f"level|{law}|{score}": partial(level, law, score) for law in LAWS for score in TESTED},
        **{f"power|{draws}": partial(power, draws) for draws in POWERS},
        **{f"within|{score}": partial(within, score) for score in SLICED},
    }


def rendered(results: dict[str, Any]) -> str:
    """A table in Markdown for each question, under its own words."""

    def shown(by_component: dict[str, float | None]) -> str:
        return " · ".join(f"{x:.2f}" for x in by_component.values() if x is not None)

    def percent(*shares: float, digits: int = 0) -> str:
        return " · ".join(f"{100 * share:.{digits}f}" for share in shares)

    errors = [
        [name, *(shown(results[f"error|{name}|{score}"]) for score in SCORES)]
        for name in EXPERIMENTS
    ]
    levels = [
        [law, *(percent(*results[f"level|{law}|{s}"].values(), digits=1) for s in TESTED)]
        for law in LAWS
    ]
    powers = []
    for draws in POWERS:
        by_test = results[f"power|{draws}"]
        shares = zip(by_test["all"], by_test["farthest"], strict=True)
        powers.append([f"{draws} draws", *(percent(*both) for both in shares)])
    near = [percent(*results[f"within|{score}"].values(), digits=1) for score in SLICED]
    return "\n\n".join(
        [
            "Standard errors over the spread of total · aleatoric · epistemic uncertainty in "
            f"{TRIALS} repeated experiments, {MEMBERS} members, {DRAWS} draws of each:",
            markdown(("members", *SCORES), errors),
            f"P-values up to {LEVEL:g} where four members of ten draws are the same law, in "
            f"percent of {TESTS} tests, all members · the farthest one:",
            markdown(("law", *TESTED), levels),
            "The same where the first of four normal members is shifted by so many standard "
            "deviations, under the CRPS, and for the farthest one if it is the right one:",
            markdown(("", *(f"shift {shift:g}" for shift in SHIFTS)), powers),
            "Random [directions](very-many-draws.md), 200 in 4 dimensions, within three of their "
            "standard errors of all pairs, in percent of 1000 seeds:",
            markdown(("", *SLICED), [["total · aleatoric · epistemic", *near]]),
        ]
    )


STUDY = cells.Study(
    "surety",
    __doc__ or "",
    Path(__file__).parent / "surety.json",
    ROOT / "docs" / "howto" / "surety.md",
    rendered,
)


def main(arguments: list[str] | None = None) -> int:
    return STUDY.command(lambda _: asked(), arguments)


if __name__ == "__main__":
    sys.exit(main())
