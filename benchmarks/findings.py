"""Results beside their goals: the rows of all tables."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks import goals

#: What kuq itself is called among the contestants.
FORMS = ("generic", "default", "eager", "compiled")


@dataclass(frozen=True)
class Comparison:
    """kuq in one form beside one peer on one workload."""

    key: str
    title: str
    rows: int
    form: str
    peer: str
    ratio: float
    wall_ratio: float
    memory_ratio: float
    goal: float | None
    ours: dict
    theirs: dict
    scaled: bool

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.ratio >= self.goal

    @property
    def verdict(self) -> str:
        return goals.verdict(self.met)


@dataclass(frozen=True)
class Check:
    """A number with a bound."""

    name: str
    value: float
    bound: float | None
    unit: str
    met: bool | None

    @property
    def verdict(self) -> str:
        return goals.verdict(self.met)


def comparisons(results: dict) -> list[Comparison]:
    compared = []
    kinds = ("workloads", "gradients", "losses", "training")
    for workload in (workload for kind in kinds for workload in results.get(kind, [])):
        contestants = workload["contestants"]
        forms = [name for name in FORMS if name in contestants]
        for peer in contestants:
            if peer not in forms:
                compared += [_compare(workload, form, peer) for form in forms]
    return compared


def _compare(workload: dict, form: str, peer: str) -> Comparison:
    ours, theirs = workload["contestants"][form], workload["contestants"][peer]
    pair = (workload["key"], peer)
    return Comparison(
        key=workload["key"],
        title=workload["title"],
        rows=workload["rows"],
        form=form,
        peer=peer,
        ratio=theirs["cpu_ms"] / ours["cpu_ms"],
        wall_ratio=theirs["wall_ms"] / ours["wall_ms"],
        # Less than a page counts as a page of 4 KiB: a call may fit into what is already there.
        memory_ratio=theirs["peak_mib"] / max(ours["peak_mib"], 2**-8),
        goal=goals.goal(pair, form),
        ours=ours,
        theirs=theirs,
        scaled=theirs["rows"] < workload["rows"],
    )


def error(contestant: dict) -> float | None:
    """The larger of the errors of AU and EU; gradients have none of their own."""
    if "error_au" not in contestant:
        return None
    return max(contestant["error_au"], contestant["error_eu"])


def checks(results: dict) -> list[Check]:
    """Everything that has a bound, apart from ratios of time."""
    return [*memory_checks(results), *error_checks(results), *limit_checks(results)]


def memory_checks(results: dict) -> list[Check]:
    rows = []
    for row in comparisons(results):
        if (row.key, row.peer) in goals.MEMORY_RATIOS:
            bound = getattr(goals.MEMORY_RATIOS[row.key, row.peer], row.form)
            name = f"{row.key}, {row.form}: peak memory of {row.peer} over that of kuq"
            met = row.memory_ratio >= bound
            rows.append(Check(name, row.memory_ratio, bound, "× at least", met))
    return rows


def error_checks(results: dict) -> list[Check]:
    """One row for each workload: the worse of the two forms of kuq."""
    rows = []
    for workload in results["workloads"]:
        contestants, bound = workload["contestants"], goals.ERRORS.get(workload["key"])
        worst = max(error(contestants[form]) for form in ("generic", "default"))
        met = None if bound is None else worst <= bound
        name = f"{workload['key']}: relative error of kuq"
        rows.append(Check(name, worst, bound, "at most", met))
    return rows


def limit_checks(results: dict) -> list[Check]:
    rows = []
    for name, value in results["limits"].items():
        bound, unit = goals.LIMITS.get(name, (None, "CPU s"))
        met = None if bound is None else value <= bound
        rows.append(Check(name, value, bound, f"{unit} at most".strip(), met))
    return rows


def growth_met(row: dict) -> bool:
    return row["exponent"] <= row["expected"] + goals.EXPONENT_SLACK


def growth_verdict(row: dict) -> str:
    """A slope far below the expected one is no success: fixed costs still dominate the range."""
    if row["exponent"] < row["expected"] - goals.EXPONENT_SLACK:
        return "below"
    return goals.verdict(growth_met(row))


def missed(results: dict) -> list[str]:
    """What does not reach its goal, in words."""
    lines = [
        f"{row.key}, {row.form} against {row.peer}: {number(row.ratio)}× of {number(row.goal)}×"
        for row in comparisons(results)
        if row.met is False
    ]
    lines += [
        f"{row['title']}, n={row['rows']}: {number(row['ratio'])}× of {number(row['goal'])}× "
        "plain torch"
        for row in results.get("matrix", [])
        if row["ratio"] < row["goal"]
    ]
    lines += [
        f"{check.name}: {number(check.value)}, goal {number(check.bound)} {check.unit}"
        for check in checks(results)
        if check.met is False
    ]
    return lines + [
        f"growth of {row['route']} in {row['variable']}: exponent {row['exponent']:.2f}, "
        f"expected {row['expected']:g}"
        for row in results["growth"]
        if not growth_met(row)
    ]


def costs(row: Comparison, mark: str) -> tuple[str, ...]:
    """Time, memory and error of kuq and of the peer; the mark says that the peer was scaled."""
    mark = mark if row.scaled else ""
    return (
        number(row.ours["cpu_ms"]),
        number(row.theirs["cpu_ms"]) + mark,
        mib(row.ours["peak_mib"]),
        mib(row.theirs["peak_mib"]) + mark,
        number(error(row.ours)),
        number(error(row.theirs)),
    )


def number(value: float | None) -> str:
    """Two to three significant digits, as much as repeated runs agree on."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if not 1e-3 <= abs(value) < 1e6:
        return f"{value:.0e}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}".removesuffix(".0")


def mib(value: float) -> str:
    """A call may find room in what the process holds already, which shows as almost nothing."""
    return "< 0.1" if value < 0.1 else number(value)
