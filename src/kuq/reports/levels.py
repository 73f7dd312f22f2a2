"""The report of several levels of members: noise, what each level adds, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

import numpy as np

from kuq.files.decomposed import Partitioned
from kuq.partition import Partition
from kuq.reports import figures
from kuq.reports.components import cell_kernel, named_by_cell
from kuq.reports.figures import plain
from kuq.reports.inputs import finite_mean, label_cell, label_of, mean_map, mean_of_rows, with_axes
from kuq.reports.page import (
    Section,
    card,
    definitions,
    figure,
    heading,
    keys,
    page_of,
    paragraph,
)
from kuq.reports.words import METHODS, facts_of_score, grouped, score_in_words

_ROWS = 10
#: Rows and columns below which a map says little.
_FEWEST_CELLS = 4
#: Colours of the page for levels and interactions; noise has that of aleatoric uncertainty.
_COLOURS = ("s0", "s2", "s3", "s4", "s5", "s6", "s7")


def levels_page(name: str, variables: Mapping[str, Partitioned], written: str | None = None) -> str:
    """A self-contained HTML page about what each level adds, with a section for each variable."""
    several = len(variables) > 1
    sections = [
        Section(key, list(_head(one)), list(_parts(one, several))) for key, one in variables.items()
    ]
    told = next(iter(variables.values())).partition
    return page_of(name, sections, _meaning(told, several, written))


def _head(one: Partitioned) -> Iterator[str]:
    u = one.partition
    fixed = f", fixed: {', '.join(u.fixed)}" if u.fixed else ""
    about = f"{one.description}. Levels: {u.design}{fixed}. Score: {score_in_words(u)}."
    yield paragraph(f"{about[0].upper()}{about[1:]}", "soft")
    yield from (paragraph(f"Note: {note}.") for note in (*one.notes, u.note) if note)


def _parts(one: Partitioned, several: bool) -> Iterator[str]:
    parts = {name: np.asarray(values, dtype=float) for name, values in one.partition.known.items()}
    count = int(np.sum(np.isfinite(parts["total"])))
    if count == 0:
        yield paragraph("No input has a result: every prediction has missing values.")
        return
    yield from _overview(one, parts, count, several)
    yield from _rows(one, parts, several)
    yield from _maps(one, parts, several)


def _overview(
    one: Partitioned, parts: dict[str, np.ndarray], count: int, several: bool
) -> Iterator[str]:
    u = one.partition
    means = {name: finite_mean(values, one.input_weights) for name, values in parts.items()}
    added = [name for name in parts if name != "total"]
    shares = {name: means[name] / means["total"] if means["total"] > 0 else 0.0 for name in added}
    largest = max(added, key=lambda name: shares[name])
    missing = parts["total"].size - count
    yield "<div class='cards'>"
    without = f", {grouped(missing)} more without a result" if missing else ""
    yield card(grouped(count), f"predictions{without}")
    yield card(plain(means["total"]), f"mean total uncertainty ({u.units})")
    if "noise" in means:
        yield card(plain(means["noise"]), "mean noise of single members", "aleatoric")
    yield card(f"{100 * shares[largest]:.0f} %", f"of the total by the largest part, {largest}")
    yield "</div>"
    yield heading("What each level adds", several)
    yield paragraph("Shares of the mean total uncertainty; all parts together are the total.")
    yield _bar({name: max(shares[name], 0.0) for name in added}, sum(shares.values()), "bar whole")
    yield keys((_colour(u, name), f"{name} {100 * shares[name]:.0f} %") for name in added)
    columns = ("mean", "share", "largest")
    yield "<div class='table'><table><thead><tr><th>part</th>"
    yield "".join(f"<th>{column}</th>" for column in columns) + "</tr></thead><tbody>"
    for name, values in parts.items():
        there = values[np.isfinite(values)]
        share = f"{100 * shares[name]:.1f} %" if name in shares else ""
        cells = (plain(means[name]), share, plain(there.max()))
        yield f"<tr><td>{escape(name)}</td>" + "".join(f"<td>{c}</td>" for c in cells) + "</tr>"
    yield "</tbody></table></div>"


def _rows(one: Partitioned, parts: dict[str, np.ndarray], several: bool) -> Iterator[str]:
    if parts["total"].ndim == 0 or parts["total"].size == 1:
        return
    over = ""
    if parts["total"].ndim > 2:  # rank what has a field of its own by the mean of its field
        over = f" Means over {', '.join(one.dims[1:])}."
        parts = {name: mean_of_rows(values, one) for name, values in parts.items()}
    total = parts["total"].ravel()
    there = np.flatnonzero(np.isfinite(total))
    order = there[np.argsort(-total[there], kind="stable")][:_ROWS]
    largest = max(float(total[order[0]]), 0.0)
    yield heading("The inputs with the most uncertainty", several)
    added = [name for name in parts if name != "total"]
    yield paragraph(f"Sorted by the total; bars show what it is made of.{over}")
    yield keys((_colour(one.partition, name), name) for name in added)
    inputs = escape(", ".join(one.dims[: parts["total"].ndim]))
    yield f"<div class='table'><table><thead><tr><th>{inputs}</th>"
    yield "".join(f"<th>{escape(name)}</th>" for name in parts)
    yield "<th class='wide'></th></tr></thead><tbody>"
    for position in order:
        label = label_of(one, int(position), parts["total"].shape)
        row = f"<tr>{label_cell(label)}"
        row += "".join(
            f"<td>{plain(float(values.ravel()[position]))}</td>" for values in parts.values()
        )
        heights = {name: max(float(parts[name].ravel()[position]), 0.0) for name in added}
        yield f"{row}<td class='wide'>{_bar(heights, largest)}</td></tr>"
    yield "</tbody></table></div>"


def _bar(parts: dict[str, float], whole: float, kind: str = "bar") -> str:
    """Parts side by side; ``whole`` is as wide as there is room."""
    whole = max(whole, sum(parts.values()))
    widths = {name: 100 * size / whole if whole > 0 else 0.0 for name, size in parts.items()}
    colours = _colours(list(parts))
    bars = (
        f"<i class='{colours[name]}' style='width:{width:.1f}%' title='{escape(name)}'></i>"
        for name, width in widths.items()
    )
    return f"<div class='{kind}'>{''.join(bars)}</div>"


def _colours(names: list[str]) -> dict[str, str]:
    others = [name for name in names if name != "noise"]
    return {"noise": "aleatoric"} | {
        name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(others)
    }


def _colour(u: Partition, name: str) -> str:
    return _colours(list(u.components))[name]


def _maps(one: Partitioned, parts: dict[str, np.ndarray], several: bool) -> Iterator[str]:
    u = one.partition
    names, unit = one.dims, u.units
    others = one.dims[:-2]
    where = f"Mean over {', '.join(others)}. " if others else ""
    if parts["total"].ndim < 2 or min(parts["total"].shape[-2:]) < _FEWEST_CELLS:
        if one.cells is None:
            return
        kernel = cell_kernel(u.score)
        parts = {name: np.asarray(grid, dtype=float) for name, grid in one.cells(kernel).items()}
        parts = {name: grid for name, grid in parts.items() if name in u.known}
        names = one.event_dims or ("rows", "columns")
        unit = u.units if kernel.units == u.score.units else kernel.units
        where = f"Cell by cell under the {named_by_cell(kernel)}, mean over inputs. "
        if min(parts["total"].shape[-2:]) < _FEWEST_CELLS:
            return
    maps = {name: mean_map(grid) for name, grid in parts.items()}
    whole = maps["total"][np.isfinite(maps["total"])]
    if whole.size == 0:
        return
    # A sum of many parts would leave hardly any colours to each of them.
    added = [grid[np.isfinite(grid)] for name, grid in maps.items() if name != "total"]
    scales = {name: _limits(*added) for name in maps} | {"total": _limits(whole)}
    blank = " Cells without a colour are missing." if np.isnan(maps["total"]).any() else ""
    yield heading("Where on the grid", several)
    yield paragraph(f"{where}One scale for all parts, another for the total; light is high.{blank}")
    yield "<div class='figures'>"
    for name, grid in maps.items():
        cells, rows, columns = with_axes(one, names, grid)
        svg = figures.grid_map(cells, f"map of {name}", unit, scales[name], rows, columns)
        yield figure(svg, name.capitalize())
    yield "</div>"


def _limits(*values: np.ndarray) -> tuple[float, float]:
    every = np.concatenate(values)
    return float(min(every.min(), 0.0)), float(every.max())


def _meaning(u: Partition, several: bool, written: str | None) -> Iterator[str]:
    entries = [
        *_noise_in_words(u),
        *_levels_in_words(u),
        ("Total", "The sum of all parts, to the last digit."),
        (
            "Score",
            f"{score_in_words(u)}: {'; '.join(facts_of_score(u))}."
            + ("" if several else f" Unit: {u.units}."),
        ),
        ("Computed", _computed(u)),
    ]
    if any(np.any(np.asarray(component) < 0) for component in u.components.values()):
        text = (
            "Unbiased estimates from few members or draws may fall below zero where a level adds "
            "little; they are not cut off, so that averages stay right."
        )
        entries.insert(-2, ("Negative values", text))
    if written is not None:
        entries.append(("Written to", written))
    yield "<h2>What the numbers mean</h2>"
    yield definitions(entries)


def _noise_in_words(u: Partition) -> Iterator[tuple[str, str]]:
    if u.note:
        yield "Noise", "Members are single values; their own noise is unknown, and none is counted."
    else:
        yield "Noise", "What each member says about its own uncertainty, averaged over members."


def _levels_in_words(u: Partition) -> Iterator[tuple[str, str]]:
    """What each level and interaction counts, with where it lies and whether it is a sample."""
    inside: list[str] = []
    blocks = [block.split(" × ") for block in u.design.split(" / ")]
    for block in blocks:
        for level in block:
            where = f" inside of {' and '.join(inside)}" if inside else ""
            kind = "taken as they are, with no more of their kind" if level in u.fixed else ""
            if not kind and u.unbiased in (True, "members"):
                kind = "taken as a sample of more of their kind"
            text = f"How far members differ by {level}{where}"
            yield level, f"{text}; {kind}." if kind else f"{text}."
        inside += block
    for name in u.components:
        if ":" in name:
            both = " and ".join(name.split(":"))
            yield name, f"What {both} do together: how one acts depends on the other."


def _computed(u: Partition) -> str:
    half = (
        ", against the mixture of members, half of what two members differ by"
        if u.estimator == "bma"
        else ", what two members differ by on average"
    )
    how = METHODS[u.method]
    return (
        f"{how} (estimator {u.estimator}{half}; unbiased={u.unbiased}). The divergence of a kernel "
        "is half a squared distance, so that the parts are those of an analysis of variance, for "
        "every score."
    )
