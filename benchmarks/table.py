"""The results for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import findings, goals
from benchmarks.findings import number


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Text in columns; the first two to the left, numbers to the right."""
    widths = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]
    lines = []
    for row in [head, *rows]:
        cells = [
            cell.ljust(width) if k < 2 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def against_peers(results: dict) -> str:
    head = ("workload", "kuq / peer", "rows", "ratio", "goal", "", "ms", "peer ms")
    head = (*head, "MiB", "peer MiB", "error", "peer error")
    rows = []
    for row in findings.comparisons(results):
        rows.append(
            (
                row.key,
                f"{row.form} / {row.peer}",
                str(row.rows),
                f"{number(row.ratio)}×",
                "–" if row.goal is None else f"≥ {number(row.goal)}×",
                row.verdict,
                *findings.costs(row, "*"),
            )
        )
    return columns(head, rows)


def limits(results: dict) -> str:
    rows = [
        (check.name, check.verdict, number(check.value), number(check.bound), check.unit)
        for check in findings.checks(results)
    ]
    return columns(("measured", "", "value", "goal", ""), rows)


def exponents(results: dict) -> str:
    rows = [
        (
            f"{row['route']}, in {row['variable']}",
            findings.growth_verdict(row),
            f"{row['exponent']:.2f}",
            f"{row['expected']:g}",
            f"{row['sizes'][0]}–{row['sizes'][-1]}",
        )
        for row in results["growth"]
    ]
    return columns(("growth of CPU time", "", "exponent", "expected", "range"), rows)


def threads(results: dict) -> str:
    rows = [
        (
            row["key"],
            row["title"],
            number(row["one_ms"]),
            number(row["two_ms"]),
            f"{row['ratio']:.2f}×",
        )
        for row in results["threads"]
    ]
    return columns(("threads", "", "one: wall ms", "two: wall ms", "ratio"), rows)


def matrix(results: dict) -> str:
    rows = [
        (
            row["title"],
            goals.verdict(row["ratio"] >= row["goal"]),
            str(row["rows"]),
            number(row["cpu_ms"]),
            number(row["plain_ms"]),
            f"{number(row['ratio'])}×",
            f"≥ {number(row['goal'])}×",
            number(row["difference"]),
        )
        for row in results["matrix"]
    ]
    head = ("laws and kernels", "", "n", "ms", "plain torch ms", "ratio", "goal", "difference")
    return columns(head, rows)


def text(results: dict) -> str:
    parts = [against_peers(results), "* run on fewer rows and scaled", limits(results)]
    if results.get("matrix"):
        parts.append(matrix(results))
    if results["threads"]:
        parts.append(threads(results))
    if results["growth"]:
        parts.append(exponents(results))
    missed = findings.missed(results)
    parts.append(
        "\n".join(["Goals missed:", *(f"  {line}" for line in missed)])
        if missed
        else "All goals met."
    )
    if results["quick"]:
        parts.append("A quick run: the goals are meant for the sizes of a full one.")
    parts.append(f"{results['seconds']} s in all")
    return "\n\n".join(parts)
