"""Which score fits a need, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kuq.errors import ParameterError
from kuq.kernels.base import Kernel, Score, Transformed
from kuq.kernels.energy import Energy
from kuq.kernels.gaussian import Gaussian
from kuq.kernels.laplace import Laplace
from kuq.kernels.log_score import LogScore
from kuq.kernels.marginal import CRPS
from kuq.kernels.squared_error import SquaredError
from kuq.kernels.structure import Differences, Spectrum, Walks, graph_walks, spectral, variogram
from kuq.kernels.tail import tail
from kuq.kernels.transforms import Clip


@dataclass(frozen=True)
class Need:
    """Something that a measure should do, and why a score does it: a text, or None."""

    name: str
    question: str
    reason: Callable[[Score], str | None]


def _robust(score: Score) -> str | None:
    return "bounded: one absurd member has limited influence" if score.card.robust else None


def _spread(score: Score) -> str | None:
    grows = score.card.aleatoric_grows_with_spread
    return "convex: aleatoric uncertainty grows when a prediction spreads out" if grows else None


def _shape(score: Score) -> str | None:
    if isinstance(score, LogScore):
        return "compares densities, not only means"
    assert isinstance(score, Kernel)
    if isinstance(score, Transformed):
        return None  # sees what its features see
    whole = any(term.kernel.card.strictly_proper for term in score.terms())
    return "tells apart members of equal mean and different shape" if whole else None


def _dependence(score: Score) -> str | None:
    if _features(score) == Differences:
        return "compares how coordinates differ from each other: kuq.variogram()"
    if score.card.strictly_proper:
        return "strictly proper: sees how coordinates depend on each other"
    return None


def _tails(score: Score) -> str | None:
    clipped = _features(score) == Clip
    return (
        "counts only what happens beyond a threshold: kuq.tail(kernel, threshold)"
        if clipped
        else None
    )


def _units(score: Score) -> str | None:
    return "in the unit of the target" if score.units == "target units" else None


def _no_bandwidth(score: Score) -> str | None:
    free = getattr(_base(score), "bandwidth", None) is None
    return "no bandwidth to choose" if free else None


def _samples(score: Score) -> str | None:
    return None if isinstance(score, LogScore) else "takes draws of any model, without a density"


def _exact(score: Score) -> str | None:
    closed_forms = (Gaussian, Laplace, LogScore, SquaredError)
    base = _base(score)
    closed = isinstance(base, closed_forms) or (isinstance(base, Energy) and base.beta == 1)
    plain = not isinstance(score, Transformed)
    return "closed form for scalar normals" if closed and plain else None


def _fields(score: Score) -> str | None:
    if _features(score) == Spectrum:
        return "compares structure at each scale, wherever it stands: kuq.spectral()"
    return _dependence(score)


def _graphs(score: Score) -> str | None:
    walks = _features(score) == Walks
    return "compares walks, whatever the order of the nodes: kuq.graph_walks()" if walks else None


def _features(score: Score) -> type | None:
    return type(score.transform) if isinstance(score, Transformed) else None


def _base(score: Score) -> Score:
    return next(score.terms()).kernel if isinstance(score, Kernel) else score


NEEDS = (
    Need("robust", "one absurd member must not spoil the measure", _robust),
    Need("spread", "a wider prediction must always count as less certain", _spread),
    Need("shape", "members of equal mean and different shape must count as disagreeing", _shape),
    Need("dependence", "how coordinates of an outcome depend on each other matters", _dependence),
    Need("tails", "only outcomes beyond a threshold matter, such as floods", _tails),
    Need("units", "numbers in the unit of the target", _units),
    Need("no-bandwidth", "nothing to tune", _no_bandwidth),
    Need("samples", "the model gives draws and no density", _samples),
    Need("exact", "closed form for normal predictions", _exact),
    Need("fields", "outcomes are fields", _fields),
    Need("graphs", "outcomes are graphs", _graphs),
)  # fmt: skip


def structured() -> tuple[Score, ...]:
    """Kernels for tails and structure, as examples beside the catalogue."""
    return (tail(CRPS(), 1.0), tail(Gaussian(1.0), 1.0), variogram(), spectral(), graph_walks())


def asked(need: str | Iterable[str]) -> tuple[Need, ...]:
    """Needs by name; a text may hold several, with commas between them."""
    names = need.split(",") if isinstance(need, str) else list(need)
    by_name = {one.name: one for one in NEEDS}
    wanted = []
    for name in (str(name).strip().lower() for name in names):
        if name not in by_name:
            raise ParameterError(f"a need is one of {', '.join(by_name)}; got {name!r}")
        if by_name[name] not in wanted:
            wanted.append(by_name[name])
    if not wanted:
        raise ParameterError(f"name at least one need of {', '.join(by_name)}")
    return tuple(wanted)


def reasons(score: Score, needs: tuple[Need, ...]) -> tuple[str, ...] | None:
    """Why a score meets all needs, one reason each, or None if it misses one."""
    answers = [need.reason(score) for need in needs]
    texts = tuple(reason for reason in answers if reason is not None)
    return texts if len(texts) == len(answers) else None


def why_none(needs: tuple[Need, ...]) -> str:
    """What to say where no score meets all needs."""
    names = [need.name for need in needs]
    text = f"no score that comes with kuq is {' and '.join(names)} at once"
    if {"robust", "spread"} <= set(names):
        text += "; no kernel can be both bounded and convex: choose robust or spread"
    elif "tails" in names:
        text += "; compose one with kuq.tail(kernel, threshold)"
    else:
        text += "; ask for fewer, or add kernels: a sum sees what any of them sees"
    return text
