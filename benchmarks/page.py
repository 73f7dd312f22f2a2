"""The stored results, docs/benchmarks.md and the table of README.md, all made from one run."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks import findings, goals
from benchmarks.findings import number

STORE = Path(__file__).parent / "results.json"
BEGIN, END = "<!-- speed: begin -->", "<!-- speed: end -->"

#: Rows of the table in README.md: workload and peer.
README_ROWS = (
    ("W1", "authors"),
    ("W2-diagonal", "torch"),
    ("W3-N10", "cdist"),
    ("W4-N100", "torch"),
    ("W5", "torch"),
    ("W6-pair", "1000 draws"),
    ("W7", "authors"),
)

PEERS = {
    "authors": "M × M broadcasting in torch, with `scipy.special.hyp1f1` for the CRPS",
    "torch": "plain torch, broadcasting over all pairs",
    "authors, at once": "the same on all rows in one call",
    "torch, at once": "the same on all rows in one call",
    "cdist": "`torch.cdist` for every pair of members",
    "KeOps": "its `LazyTensor`, three sums over all pairs, compiled for them",
    "Woodbury": "batched matrix identities in torch, pairs i ≤ j",
    "scoringrules": "its fair estimators on numba, from scores of members at each other's draws",
    "1000 draws": "Monte Carlo in NumPy, 1000 draws of each member",
    "plain torch": "the loss written out in torch",
}

#: Those of training.
TRAINING_PEERS = {
    "one by one": "the same networks in plain torch, one member after the other",
    "plain torch, float32": "the loss written out in torch, over all pairs",
    "cdist, float32": "the loss by `torch.cdist`",
}

METHOD = """\
## How it is measured

- All contestants of a workload run in one process, in turn, after a warm-up; the numbers are
  medians of {repeats} repetitions. A ratio is the CPU time of the peer over that of kuq (above 1,
  kuq is faster). Absolute times depend on the machine and on what else runs on it.
- *generic* is kuq in plain NumPy (`kuq.compiled(False)`); *default* is what a user gets with numba
  installed, which is the same where there is no compiled code for a route or the work is small.
- kuq tells the allocator to keep freed memory, once for the whole process. Peers in the same
  process profit from that, too.
- One thread for all: of BLAS, numba and torch. Times with two threads stand in their own table.
- A peer marked * ran on fewer rows; its time and memory are scaled linearly to all rows. This is
  in favour of peers that broadcast: in small batches their temporaries stay small, as they do not
  when all rows go in at once, and a row then costs several times as much. Goals are set against
  the small batches. Where all rows take only seconds, they stand beside it as "at once".
- Peak memory is what the process grows by during one call, with its results: the kernel's
  high-water mark of the resident set on Linux (sampled elsewhere). It sees NumPy, torch and
  compiled code alike. Inputs are not counted.
- Errors are those of aleatoric and epistemic uncertainty, the larger of the two, at a few
  outcomes: the largest deviation over the mean size. The exact values come from code that shares
  nothing with kuq (many digits or extended precision), apart from W6-diagonal and W6-low-rank, for
  which kuq is run at `rtol=1e-12`; W6-pair shows that this can be trusted. The Monte Carlo rows
  have the error of their draws.
- The cost of `hyp1f1` depends on its argument. The data are such that the means of two members
  differ by about one standard deviation of their difference; farther apart, the ratios of W1 and
  W7 are larger, and closer together smaller.
"""

LIMITS = """\
## What limits kuq

From profiles of single rows on a quiet machine, for those who want to know why a row is not better:

- **W1, generic.** A pair of normals costs 36 to 41 ns, of which `scipy.special.erf` and
  `numpy.expm1` take 10 each; 17 simple array operations, each a pass over the cache, share the
  rest. With these two functions alone the ratio would be about 14×. Compiled code takes 6 to 7 ns.
- **W2-diagonal.** Compiled, a call takes 8.8 ms, 1.2 ns for a coordinate of a pair. The time of the
  peer changes by a factor of two from run to run (202 to 424 ms have been seen), and the ratio with
  it, from 23× to 48×.
- **W3.** Centring, one matrix product and the root of the distances, written out in NumPy, take
  0.65 of 0.9 ms per row at N = 5, where the checks of finiteness and of size are two of five passes
  over the draws (16× without them), and 30 of 31 ms at N = 50, where the product itself runs at
  19 billion multiplications per second.
- **W4.** The two calls of `numpy.sort` take 1.5 of 1.8 to 2.0 µs per outcome at N = 10 and 15 of 17
  to 21 µs at N = 100. The peer of N = 10 took 257 to 470 ms in different runs.
- **W5.** The series has up to 28 terms, as many as 1e-12 of the smallest dispersion needs;
  compiled, a draw costs 9 ns, of which 2.3 are its cosine and sine. In plain NumPy those two cost
  27 of 76 ns.
- **W7.** A distribution function at one point costs 3.6 ns in compiled code, 15 ns in SciPy.
- **Levels.** Groups of members that are alike are entries of one batch, so that the first row
  costs as much as three calls without levels. Of 6.2 ms the means and squares take 3.3, the
  look at the size of the numbers 1.5 and copies of groups 0.3. The three lines of NumPy that it is
  compared with check nothing, and above the runs they see only means, which is enough for variances
  and for no other score.
- **Losses.** A step with the CRPS of 1000 normals takes about 95 µs, plain torch, which looks at
  nothing, 98. What torch does around any loss, with an empty step to record, takes 34 of them
  (leaves, exp, mean, and their gradients). The rest hardly depends on the number of inputs: 7 to
  make the law and 15 to recognise the call, where 6 of these 22 are looks for NaN and negative
  scales, 8 for the way to the compiled pass and 10 for that pass, value and slopes, and 21 for what
  the recorded step does with arrays and gradient. These are the differences that they make to the
  whole, where their code is not in the processor's cache; alone in a loop the pass takes 5.
- **Gradients.** `torch.cdist` has its own code for the gradient, which cannot be differentiated
  again; the losses of kuq can. The low-rank loss is recorded step by step: one row takes 3.1 ms
  beside 1.3 ms in plain torch, and they meet at about 8 rows of 4070 cells.
"""

MATRIX = """\
CPU time of `kuq.decompose` beside plain torch as a competent user would write it: one broadcast
over all pairs with erf and exp, `torch.cdist` for vectors. Where plain torch draws or takes nodes,
the difference is its own error.
"""

COMMANDS = """\
```sh
make bench            # everything, in about twenty minutes; writes this page and the results
make bench QUICK=1    # small sizes in two minutes, printed only
```

`python -m benchmarks --only W3` runs some workloads, `--render` writes the pages again from
`benchmarks/results.json`. Goals stand in `benchmarks/goals.py`.
"""


def stored() -> dict:
    return json.loads(STORE.read_text(encoding="utf-8"))


def store(results: dict, path: Path = STORE) -> None:
    """Four digits are more than a second run would repeat, and keep differences readable."""
    text = json.dumps(rounded(results), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def renewed(before: dict, results: dict) -> dict:
    """Stored results with the rows of a later run in place of their own, and their date."""
    merged = dict(before)
    for kind, rows in results.items():
        if isinstance(rows, list):
            new = {row["key"]: row | {"date": results["date"]} for row in rows if "key" in row}
            merged[kind] = [new.get(row.get("key"), row) for row in before[kind]]
    return merged


def rounded(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *rows])


def speed_table(results: dict) -> str:
    head = ("workload", "against", "NumPy only", "with numba")
    compared = {(row.key, row.peer, row.form): row for row in findings.comparisons(results)}
    rows = []
    for key, peer in README_ROWS:
        generic, default = (compared[key, peer, form] for form in ("generic", "default"))
        rows.append(
            (generic.title, PEERS[peer], f"{number(generic.ratio)}×", f"{number(default.ratio)}×")
        )
    return markdown(head, rows, left=2)


def comparison_table(results: dict) -> str:
    head = ("workload", "kuq", "peer", "ratio", "wall", "goal", "", "ms", "peer ms")
    head = (*head, "MiB", "peer MiB", "error", "peer error")
    rows = []
    for row in findings.comparisons(results):
        rows.append(
            (
                row.key,
                row.form,
                row.peer,
                f"{number(row.ratio)}×",
                f"{number(row.wall_ratio)}×",
                "–" if row.goal is None else f"≥ {number(row.goal)}×",
                emphasised(row.verdict),
                *findings.costs(row, r"\*"),
            )
        )
    return markdown(head, rows, left=3)


def emphasised(verdict: str) -> str:
    return f"**{verdict}**" if verdict == "MISSED" else verdict


def workload_table(results: dict) -> str:
    rows = [(w["key"], w["title"], str(w["rows"])) for w in results["workloads"]]
    others = results["gradients"] + results.get("losses", []) + results.get("training", [])
    rows += [(w["key"], w["title"], str(w["rows"])) for w in others]
    return markdown(("workload", "what is computed", "rows"), rows, left=2)


def matrix_table(results: dict) -> str:
    rows = [
        (
            row["title"],
            str(row["rows"]),
            number(row["cpu_ms"]),
            number(row["plain_ms"]),
            f"{number(row['ratio'])}×",
            f"≥ {number(row['goal'])}×",
            emphasised(goals.verdict(row["ratio"] >= row["goal"])),
            number(row["difference"]),
        )
        for row in results["matrix"]
    ]
    head = ("laws and kernel", "n", "ms", "plain torch ms", "ratio", "goal", "", "difference")
    return markdown(head, rows)


def honest_range(results: dict) -> str:
    """One sentence for README.md: the whole matrix, not only its best rows."""
    small = [row["ratio"] for row in results["matrix"] if row["key"].startswith("n=32")]
    others = [row for row in results["matrix"] if not row["key"].startswith(("n=32", "levels"))]
    ratios = sorted(row["ratio"] for row in others)
    middle = ratios[len(ratios) // 2]
    return (
        f"Over {len(ratios)} pairs of a law and a kernel at everyday sizes, kuq is "
        f"{number(ratios[0])} to {number(ratios[-1])} times as fast as plain torch on one thread "
        f"(median {number(middle)}); a call for 32 inputs takes {number(1 / max(small))} to "
        f"{number(1 / min(small))} times as long."
    )


def check_table(results: dict) -> str:
    rows = [
        (
            check.name,
            number(check.value),
            "–" if check.bound is None else f"{number(check.bound)} {check.unit}".strip(),
            emphasised(check.verdict),
        )
        for check in findings.checks(results)
    ]
    return markdown(("measured", "value", "goal", ""), rows)


def gradient_note(results: dict) -> str:
    worst = max((case["difference"] for case in results["gradients"]), default=0.0)
    return (
        "Gradients are those of the loss with respect to all parameters, value included; both "
        f"sides agree to {number(worst)} of their size."
    )


def thread_table(results: dict) -> str:
    rows = [
        (row["key"], number(row["one_ms"]), number(row["two_ms"]), f"{row['ratio']:.2f}×")
        for row in results["threads"]
    ]
    return markdown(("workload", "one thread, wall ms", "two threads, wall ms", "ratio"), rows)


def growth_table(results: dict) -> str:
    rows = [
        (
            row["route"],
            row["variable"],
            f"{row['sizes'][0]}–{row['sizes'][-1]}",
            f"{row['exponent']:.2f}",
            f"{row['expected']:g}",
            emphasised(findings.growth_verdict(row)),
        )
        for row in results["growth"]
    ]
    return markdown(("route", "in", "range", "exponent", "expected", ""), rows, left=2)


def missed_list(results: dict) -> str:
    missed = findings.missed(results)
    if not missed:
        return "Every goal is met in this run."
    return "\n".join(["Not met in this run:", "", *(f"- {line}" for line in missed)])


def measured_later(results: dict) -> str:
    """Which rows are of another day than the rest."""
    days: dict[str, list[str]] = {}
    for rows in results.values():
        for row in rows if isinstance(rows, list) else ():
            if "date" in row:
                days.setdefault(row["date"], []).append(row["key"])
    return "".join(f" Measured again on {day}: {', '.join(keys)}." for day, keys in days.items())


def rendered(results: dict) -> str:
    """docs/benchmarks.md."""
    machine, versions = results["machine"], results["versions"]
    texts = PEERS | (TRAINING_PEERS if results.get("training") else {})
    peers = "\n".join(f"- **{name}**: {text}" for name, text in texts.items())
    sections = [
        "# Benchmarks",
        "How fast, how accurate and how large kuq is beside what one would write without it. "
        "This page is made by the benchmark itself; do not edit it.",
        COMMANDS.strip(),
        f"Run on {results['date']} with kuq {results['kuq']}: {machine['processor']}, "
        f"{machine['cores']} cores, {machine['system']}; "
        + ", ".join(f"{name} {number_}" for name, number_ in versions.items())
        + f"; {results['seconds']} s in all."
        + measured_later(results),
        "## Goals that are missed",
        missed_list(results),
        "## Against peers",
        comparison_table(results),
        r"CPU time in milliseconds for all rows; \* scaled from fewer rows.",
        gradient_note(results),
        "The peers:",
        peers,
        "The workloads; rows are inputs with d cells each, or scalars:",
        workload_table(results),
        "## Laws and kernels at everyday sizes",
        MATRIX.strip(),
        matrix_table(results),
        "## Accuracy, memory, start",
        check_table(results),
        "## Two threads",
        thread_table(results),
        "Wall time in fresh processes. It needs two free cores: where others use them, threads of "
        "BLAS wait for each other, and two can be many times slower than one.",
        "## Growth",
        "Exponents of CPU time, by least squares of logarithms. Above the expected one by more "
        f"than {goals.EXPONENT_SLACK:g} counts as missed. *below*: fixed costs, or better use of "
        "the processor at larger sizes, still show in this range, so that the fit does not "
        "confirm the expected order; it only shows nothing worse.",
        growth_table(results),
        LIMITS.strip(),
        METHOD.format(repeats=results["repeats"]).strip(),
    ]
    return "\n\n".join(sections) + "\n"


def with_speed_table(readme: str, results: dict) -> str:
    """README.md with the table between its marks made anew."""
    block = f"{BEGIN}\n\n{speed_table(results)}\n\n{honest_range(results)}\n\n{END}"
    pattern = re.escape(BEGIN) + ".*?" + re.escape(END)
    return re.sub(pattern, lambda _: block, readme, count=1, flags=re.DOTALL)


def write(results: dict, root: Path) -> None:
    results = rounded(results)  # as they are stored, so that the pages can be made again from them
    docs = root / "docs" / "benchmarks.md"
    docs.parent.mkdir(exist_ok=True)
    docs.write_text(rendered(results), encoding="utf-8")
    readme = root / "README.md"
    text = readme.read_text(encoding="utf-8")
    readme.write_text(with_speed_table(text, results), encoding="utf-8")
