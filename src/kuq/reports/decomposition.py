"""The report of ``kuq decompose``: how large, where, who disagrees, and what it means."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import numpy as np

import kuq
from kuq.distributions.ensemble import Ensemble
from kuq.files.decompose import DecomposedFile
from kuq.files.own import PARTS
from kuq.kernels.base import Kernel
from kuq.kernels.log_score import LogScore
from kuq.kernels.marginal import CRPS, Marginal
from kuq.kernels.names import NAMES, score_name
from kuq.kernels.squared_error import SquaredError
from kuq.reports import figures
from kuq.reports.figures import plain
from kuq.reports.outlier import outlying_member
from kuq.reports.page import card, definitions, figure, page, paragraph
from kuq.uncertainty import decompose, member_divergences, member_influence

#: Inputs that are looked at for the divergences between members, and for maps.
_INPUTS_LOOKED_AT = 200
#: Numbers of one prediction that are looked at for that.
_NUMBERS_LOOKED_AT = 2**23
_MOST_MEMBERS = 40
_ROWS = 10
_MOST_ACROSS = 400


def decomposition_report(result: DecomposedFile) -> str:
    """A self-contained HTML page about a decomposed file."""
    name = result.source.name
    body = [
        *_head(result),
        *_overview(result),
        *_distributions(result),
        *_least_known(result),
        *_maps(result),
        *_members(result),
        *_meaning(result),
        f"<footer>Made by kuq {escape(kuq.__version__)}. This page loads nothing and runs no "
        "script.</footer>",
    ]
    return page(f"Uncertainty of {name}", body)


def _head(result: DecomposedFile) -> Iterator[str]:
    yield "<header>"
    yield f"<h1>Uncertainty of <span class='name'>{escape(result.source.name)}</span></h1>"
    yield paragraph(f"{result.description}, under the score {_name(result)}.", "soft")
    yield from (paragraph(f"Note: {note}.") for note in result.notes)
    yield "</header>"


def _name(result: DecomposedFile) -> str:
    """The score by its short name, with a bandwidth of four digits."""
    text = score_name(result.uncertainty.score)
    name, *numbers = text.split(":")
    return ":".join([name, *(f"{float(n):.4g}" for n in numbers)]) if name in NAMES else text


def _shown_parts(result: DecomposedFile) -> tuple[str, ...]:
    """The components; of a spread that cannot be split only the total."""
    return PARTS if result.uncertainty.is_split else ("total",)


def _finite_mean(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else float("nan")


def _overview(result: DecomposedFile) -> Iterator[str]:
    u = result.uncertainty
    means = {part: _finite_mean(np.asarray(u[part])) for part in PARTS}
    count = int(np.asarray(u.total).size)
    share = _share(result, means)
    yield "<div class='cards'>"
    yield card(f"{count:,}".replace(",", " "), "predictions")
    if not u.is_split:
        yield card(plain(means["total"]), f"mean spread ({u.units})")
        yield "</div>"
        yield paragraph(_one_level(u.note))
    else:
        yield card(plain(means["total"]), f"mean total uncertainty ({u.units})")
        yield card(plain(means["aleatoric"]), "mean aleatoric: noise that stays", "aleatoric")
        yield card(plain(means["epistemic"]), "mean epistemic: what is not known", "epistemic")
        if share is not None:
            yield card(f"{100 * share:.0f} %", "of the total is epistemic")
        yield "</div>"
        yield paragraph(_in_words(share))
        if u.note:
            yield paragraph(f"{u.note[0].upper()}{u.note[1:]}.")
    infinite = sum(int(np.isinf(np.asarray(u[part])).sum()) for part in PARTS)
    if infinite:
        yield paragraph(f"{infinite} values are infinite and left out of means and figures.")


def _one_level(note: str) -> str:
    return (
        f"These numbers are the {note}. So they are not split into aleatoric and epistemic "
        "uncertainty, and nothing follows from them about what more training data would change. "
        "Members that predict distributions (a mean and a standard deviation, or draws) can be "
        "split."
    )


def _share(result: DecomposedFile, means: dict[str, float]) -> float | None:
    """The epistemic share, where the parts can be compared."""
    if isinstance(result.uncertainty.score, LogScore) or not means["total"] > 0:
        return None
    return min(max(means["epistemic"] / means["total"], 0.0), 1.0)


def _in_words(share: float | None) -> str:
    if share is None:
        return (
            "Under the log score aleatoric uncertainty can be negative and shifts with the unit of "
            "the target, so the two parts are compared from input to input, not with each other."
        )
    if share < 0.1:
        return (
            "Almost all of the uncertainty is aleatoric: the members agree with each other. More "
            "training data of the same kind would change little; better inputs might."
        )
    if share < 0.4:
        return (
            "Most of the uncertainty is aleatoric, but the members also disagree. More training "
            "data helps most at the inputs listed below."
        )
    return (
        "A large part of the uncertainty is epistemic: the members disagree about the prediction "
        "itself. More training data near the inputs listed below, or a better model, can reduce it."
    )


def _distributions(result: DecomposedFile) -> Iterator[str]:
    u = result.uncertainty
    every = {part: np.asarray(u[part], dtype=float).ravel() for part in _shown_parts(result)}
    pooled = np.concatenate([v[np.isfinite(v)] for v in every.values()])
    if pooled.size == 0:
        return
    low, high = float(min(pooled.min(), 0.0)), float(np.quantile(pooled, 0.998))
    ticks = figures.round_limits(low, high if high > low else low + 1.0)
    yield "<h2>How large the components are</h2>"
    same = "The same axis for all three; the" if u.is_split else "The"
    yield paragraph(
        f"{same} dashed line is the median. The few largest values are counted in the last bar."
    )
    yield "<div class='figures'>"
    for part in _shown_parts(result):
        yield figure(figures.histogram(every[part], part, low, ticks, u.units), part.capitalize())
    yield "</div>"


def _least_known(result: DecomposedFile) -> Iterator[str]:
    u = result.uncertainty
    parts = {part: np.asarray(u[part], dtype=float) for part in _shown_parts(result)}
    if parts["total"].ndim == 0:
        return
    first = "epistemic" if u.is_split else "total"
    over = ""
    if parts["total"].ndim > 2:  # rank what has a field of its own by the mean of its field
        axes = tuple(range(1, parts["total"].ndim))
        over = f" Means over {', '.join(result.dims[1:])}."
        parts = {part: values.mean(axis=axes) for part, values in parts.items()}
    ranked = np.nan_to_num(parts[first].ravel(), nan=-np.inf)
    order = np.argsort(-ranked, kind="stable")[:_ROWS]
    largest = np.max(np.abs(parts["total"].ravel()[order]))
    bars = bool(u.is_split and np.all(np.isfinite(largest)) and largest > 0)
    bars = bars and all(bool(np.all(v.ravel()[order] >= -0.02 * largest)) for v in parts.values())
    heading = escape(", ".join(result.dims[: parts["total"].ndim]))
    title = "that the model knows least about" if u.is_split else "with the largest spread"
    yield f"<h2>The inputs {title}</h2>"
    key = "".join(
        f"<span class='keys'><span class='key {part}'></span>{part}</span> "
        for part in ("aleatoric", "epistemic")
    )
    why = "Sorted by epistemic uncertainty: where the members disagree most. These are the inputs "
    why += "to look at, or to label, first."
    if not u.is_split:
        why = "Sorted by the spread, which may come from noise as well as from missing knowledge."
    yield f"<p>{why}{escape(over)}{key if bars else ''}</p>"
    yield f"<div class='table'><table><thead><tr><th>{heading}</th>"
    yield "".join(f"<th>{part}</th>" for part in reversed(parts))
    yield ("<th class='wide'></th>" if bars else "") + "</tr></thead><tbody>"
    for position in order:
        cells = [plain(float(parts[part].ravel()[position])) for part in reversed(parts)]
        row = f"<tr><td>{escape(_label(result, int(position), parts['total'].shape))}</td>"
        row += "".join(f"<td>{cell}</td>" for cell in cells)
        if bars:
            widths = {
                part: 100 * max(float(parts[part].ravel()[position]), 0.0) / float(largest)
                for part in ("aleatoric", "epistemic")
            }
            row += "<td class='wide'><div class='bar'>" + "".join(
                f"<i class='{part}' style='width:{width:.1f}%'></i>"
                for part, width in widths.items()
            )
            row += "</div></td>"
        yield row + "</tr>"
    yield "</tbody></table></div>"


def _label(result: DecomposedFile, position: int, shape: tuple[int, ...]) -> str:
    """How an input is called: by its coordinates, its row, or its position."""
    index = np.unravel_index(position, shape)
    texts = []
    for axis, (dim, at) in enumerate(zip(result.dims, index, strict=False)):
        if axis == 0 and result.labels:
            text = result.labels[int(at)]
        elif dim in result.coordinates:
            text = str(result.coordinates[dim][int(at)])
        else:
            text = str(int(at))
        texts.append(text if len(shape) == 1 else f"{dim} {text}")
    return ", ".join(texts)


def _looked_at(result: DecomposedFile) -> np.ndarray:
    """Positions along the first axis, evenly spread, that are looked at in more detail."""
    shape = np.asarray(result.uncertainty.total).shape
    count = shape[0] if shape else 1
    one = result.some(np.array([0]))
    members = one.member_count if isinstance(one, Ensemble) else 1
    numbers = max(1, int(np.size(one.reference)), members)
    most = int(np.clip(_NUMBERS_LOOKED_AT // numbers, 1, _INPUTS_LOOKED_AT))
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))


def _maps(result: DecomposedFile) -> Iterator[str]:
    u = result.uncertainty
    shown = ("aleatoric", "epistemic") if u.is_split else ("total",)
    grids = {part: np.asarray(u[part], dtype=float) for part in shown}
    shape = np.asarray(u.total).shape
    where, names = _axes_of_maps(result.dims), result.dims
    if min(shape[-2:], default=0) < 4 or len(shape) < 2:
        some = result.some(_looked_at(result))
        if len(some.event_shape) != 2 or min(some.event_shape) < 4:
            return
        kernel = Marginal(_base(u.score), reduce=None)
        of_cells = decompose(some, kernel, **result.options)
        grids = {part: np.asarray(of_cells[part], dtype=float) for part in grids}
        names = result.event_dims or ("rows", "columns")
        where = f"Cell by cell under {kernel!r}, mean over {len(_looked_at(result))} inputs."
    yield "<h2>Where on the grid</h2>"
    yield paragraph(where + " Light is high.")
    yield "<div class='figures'>"
    for part, values in grids.items():
        flat = values.reshape(-1, *values.shape[-2:])
        mean = np.ma.masked_invalid(flat).mean(axis=0).filled(np.nan)
        mean = _thinned(_upright(result, names, mean))
        yield figure(figures.grid_map(mean, f"map of {part}", u.units), part.capitalize())
    yield "</div>"


def _axes_of_maps(dims: tuple[str, ...]) -> str:
    *others, rows, columns = ("", "", *dims)
    others = [dim for dim in others if dim]
    mean = f"Mean over {', '.join(others)}. " if others else ""
    return f"{mean}Rows are {rows}, columns {columns}."


def _base(score: object) -> Kernel:
    """The kernel to look at cells with: that of the score if it is a plain one."""
    base = next(score.terms()).kernel if isinstance(score, Kernel) else None
    bandwidth = getattr(base, "bandwidth", None)
    if base is None or base.weights is not None or not isinstance(bandwidth, (float, type(None))):
        return CRPS().kernel
    return base


def _upright(result: DecomposedFile, names: tuple[str, ...], grid: np.ndarray) -> np.ndarray:
    """North is up where the rows are latitudes."""
    rows = names[-2]
    places = result.coordinates.get(rows)
    rising = places is not None and places.size > 1 and places[-1] > places[0]
    return grid[::-1] if rising and rows.lower().startswith("lat") else grid


def _thinned(grid: np.ndarray) -> np.ndarray:
    """No more cells than can be seen."""
    steps = tuple(-(-n // _MOST_ACROSS) for n in grid.shape)
    return grid[:: steps[0], :: steps[1]]


def _members(result: DecomposedFile) -> Iterator[str]:
    chosen = _looked_at(result)
    some = result.some(chosen)
    if not isinstance(some, Ensemble) or some.member_count < 2:
        return
    yield "<h2>Which members disagree</h2>"
    if some.member_count > _MOST_MEMBERS:
        yield paragraph(
            f"{some.member_count} members are too many to show one by one; "
            "kuq.member_divergences gives all pairs."
        )
        return
    score = result.uncertainty.score
    matrix = np.asarray(member_divergences(some, score, **result.options), dtype=float)
    matrix = matrix.reshape(*matrix.shape[:2], -1).mean(axis=-1)
    outlier = outlying_member(matrix)
    whole = len(chosen) == (np.asarray(result.uncertainty.total).shape or (1,))[0]
    over = "all inputs" if whole else f"{len(chosen)} inputs, evenly spread"
    yield paragraph(
        f"The mean divergence of every pair over {over}. Their mean is the "
        f"{'epistemic uncertainty' if result.uncertainty.is_split else 'spread'}. "
        "Dark pairs agree, light pairs do not."
    )
    if outlier is None:
        yield paragraph("No member stands apart from the others.")
    else:
        yield _outlier_note(result, some, outlier.member, outlier.ratio)
    yield "<div class='figures one'>"
    marked = None if outlier is None else outlier.member
    yield figure(figures.matrix(matrix, marked), "Divergences between members")
    yield "</div>"


def _outlier_note(result: DecomposedFile, some: Ensemble, member: int, ratio: float) -> str:
    score, options = result.uncertainty.score, result.options
    change = np.asarray(member_influence(some, score, **options).epistemic[member])
    now = _finite_mean(np.asarray(decompose(some, score, **options).epistemic))
    times = "infinitely many" if not np.isfinite(ratio) else f"{ratio:.1f}"
    advice = "Check how it was trained"
    if not score.card.robust:
        advice += (
            ", or use a bounded score such as gaussian:median, under which a single member has "
            "limited influence"
        )
    what = "epistemic uncertainty" if result.uncertainty.is_split else "spread"
    return (
        f"<div class='note'><b>Member {member} stands apart.</b> It disagrees with the others "
        f"{times} times as much as they do among each other. Without it the mean {what} "
        f"would be {plain(now + _finite_mean(change))} instead of {plain(now)}. "
        f"{advice}.</div>"
    )


def _meaning(result: DecomposedFile) -> Iterator[str]:
    u = result.uncertainty
    card_ = u.score.card
    facts = [f"k(x, y) = {card_.formula}" if isinstance(u.score, Kernel) else card_.formula]
    if card_.robust:
        facts.append("bounded, so a single wrong member has limited influence")
    if card_.aleatoric_grows_with_spread:
        facts.append("aleatoric uncertainty grows with the spread of a prediction")
    if isinstance(u.score, SquaredError):
        facts.append("only means are compared: members of different shape and equal mean agree")
    if isinstance(u.score, Marginal) and np.prod(result.some(np.array([0])).event_shape) > 1:
        facts.append("every coordinate is looked at by itself, not how they depend on each other")
    methods = {
        "exact": "by closed forms",
        "quadrature": "by quadrature, accurate to 1e-8",
        "samples": "from the draws in the file",
        "monte-carlo": "by Monte Carlo, from draws that kuq made",
    }
    entries = [
        ("Aleatoric", "What each member says about its own uncertainty, averaged over members: "
         "noise in the target, which more data cannot remove."),
        ("Epistemic", "How far two members disagree on average: what the model does not know, "
         "largest where training data are missing. The members stand for models that could also "
         "have been trained."),
        ("Total", "The sum of both."),
        ("Score", f"{_name(result)}: {'; '.join(facts)}. Unit: {u.units}."),
        ("Computed", f"{methods[u.method]} (estimator {u.estimator}, unbiased={u.unbiased})."),
        ("Written to", result.out.name),
    ]  # fmt: skip
    if not u.is_split:
        entries[:3] = [("Spread", f"The {u.note}.")]
    if np.any(np.asarray(u.epistemic) < 0):
        text = (
            "Unbiased estimates from a finite number of draws may fall slightly below zero where "
            "members agree; they are not cut off, so that averages stay right."
        )
        entries.insert(2, ("Negative values", text))
    yield "<h2>What the numbers mean</h2>"
    yield definitions(entries)
