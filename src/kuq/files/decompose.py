"""Decompose predictions in files: read, compute piece by piece, write the same format."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kuq._replacing import check_target, replacing, sweep
from kuq.errors import ParameterError
from kuq.files.arrays import read_npz
from kuq.files.csv_text import without_formulas
from kuq.files.decomposed import Decomposed, DecomposedFile
from kuq.files.dialect import Dialect, TextForm
from kuq.files.output_marks import ERRORS, KINDS, MADE_BY, MARK, NOTE, PARTS, SCORE
from kuq.files.parquet import write_parquet
from kuq.files.roles import Names
from kuq.files.stored import Progress, StoredPrediction, decompose_stored
from kuq.files.tables import TEXT, read_table
from kuq.files.words import in_words
from kuq.kernels.base import Score
from kuq.result import Uncertainty
from kuq.uncertainty import score as score_of

ARRAYS, TABLES, GRIDS = (".npz",), (*TEXT, ".parquet"), (".nc", ".zarr")
SUFFIXES = (*ARRAYS, *TABLES, *GRIDS)


@dataclass(frozen=True)
class Layout:
    """How a file is laid out, where names and axes are not the usual ones.

    ``member`` and ``sample`` name a dimension or a column, or number an axis of an ``.npz`` array;
    ``event`` names the dimensions of one outcome, or counts the last axes of an ``.npz`` array.
    """

    names: Names = field(default_factory=Names)
    member: str | None = None
    sample: str | None = None
    event: tuple[str, ...] = ()
    #: What NaN means: "raise", "propagate" or "omit"; None is "propagate" in grids, which have
    #: masks, and "raise" elsewhere.
    nan_policy: str | None = None
    #: The column, array or variable with what happened.
    target: str | None = None
    #: Whether cells of a grid count by their area: in the score where latitude is a dimension of
    #: the event, else in means.
    area_weights: bool = False
    #: How a .csv or .tsv file is written, where the file does not tell.
    text: TextForm = field(default_factory=TextForm)
    #: The columns of a table that tell its inputs apart, separated by commas; "" if every row is an
    #: input, None for all that are not used otherwise.
    by: str | None = None

    def check_format(self, suffix: str) -> None:
        """Refuse what only other formats have."""
        if self.area_weights and suffix not in GRIDS:
            raise ParameterError("--area-weights need the latitudes of a grid, .nc or .zarr")
        if suffix not in TEXT and self.text.options():
            raise ParameterError(f"{self.text.options()[0]} is for text, .csv and .tsv")
        if suffix not in TABLES and self.by is not None:
            raise ParameterError("--by names columns of tables: .csv, .tsv and .parquet")


def decompose_file(
    path: Path,
    score: Score,
    *,
    out: Path | None = None,
    layout: Layout | None = None,
    progress: Progress | None = None,
    draws: int | None = None,
    seed: int | None = None,
    directions: int | None = None,
    estimator: str = "pairwise",
) -> DecomposedFile:
    """Read a prediction, decompose its uncertainty, and write it in the same format.

    ``path`` ends in .npz, .csv, .tsv, .parquet, .nc or .zarr; ``out`` is by default the name with
    "-uncertainty" added. An output of an earlier call is replaced, anything else of that name is
    refused. Where nothing can be split, as of members that are single values, aleatoric and
    epistemic are missing in the file (NaN, empty cells), and its ``note`` says what ``total`` is.
    ``progress(done, total)`` is called now and then. Errors leave no file. ``directions`` are for
    very many draws of vectors, and their standard errors are written, too.

    >>> import kuq, numpy as np, tempfile, pathlib
    >>> from kuq.files import decompose_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "p.npz")
    ...     np.savez(path, mean=[[0.0], [2.0]], std=[[1.0], [1.0]])
    ...     result = decompose_file(path, kuq.SquaredError())
    >>> result.out.name, result.uncertainty.epistemic.tolist()
    ('p-uncertainty.npz', [4.0])
    """
    layout = Layout() if layout is None else layout
    out = checked_paths(path, out)
    suffix = _suffix(path)
    options: dict[str, Any] = {"draws": draws, "seed": seed}
    layout.check_format(suffix)
    if directions is not None:
        if suffix in TABLES:
            raise ParameterError(
                "--directions are for draws of vectors, and tables hold scalar outcomes, whose "
                "draws are compared quickly anyway; leave them out"
            )
        options["directions"] = directions
    if suffix in GRIDS:
        from kuq.files.grids import decompose_grid

        return decompose_grid(path, score, out, layout, progress, options, estimator)
    stored = read_stored(path, layout)
    u = decompose_stored(stored, score, progress, estimator=estimator, **options)
    scores = _scores(stored, u, options) if suffix in TABLES else None
    _write(out, stored, u, path, scores)
    axes = tuple(f"axis {k}" for k in range(1, len(u.total.shape)))
    dims = (stored.label_name, *axes)
    one = Decomposed(
        name="",
        uncertainty=u,
        description=in_words(stored.prediction(), dict(zip(dims, u.total.shape, strict=False))),
        dims=dims,
        labels=stored.labels,
        inputs_at=stored.part_at,
        options=options,
        notes=stored.notes,
        member_names=stored.member_names,
        target=layout.target,
    )
    return DecomposedFile(path, out, (one,))


def read_stored(path: Path, layout: Layout) -> StoredPrediction:
    """The prediction in an ``.npz``, ``.csv``, ``.tsv`` or ``.parquet`` file."""
    if _suffix(path) in TABLES:
        if layout.event:
            raise ParameterError("tables hold scalar outcomes; --event is for arrays and grids")
        return read_table(
            path,
            layout.names,
            member=layout.member,
            sample=layout.sample,
            nan_policy=layout.nan_policy or "raise",
            target=layout.target,
            by=layout.by,
            form=layout.text,
        )
    event = _axis(layout.event[0], "--event") if layout.event else None
    if len(layout.event) > 1 or (event is not None and event < 0):
        raise ParameterError("--event of an .npz file is how many last axes form one outcome")
    return read_npz(
        path,
        layout.names,
        event_ndim=event or 0,
        member_axis=_axis(layout.member, "--member"),
        sample_axis=_axis(layout.sample, "--draws"),
        nan_policy=layout.nan_policy or "raise",
        target=layout.target,
    )


def _axis(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise ParameterError(
            f"{option} of an .npz file is a number, since its axes have no names; got {text!r}"
        ) from None


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        sheets = "; save the sheet as .csv" if suffix in (".xlsx", ".xls", ".ods") else ""
        raise ParameterError(f"a file must end in {', '.join(SUFFIXES)}; got {path.name!r}{sheets}")
    return suffix


def checked_paths(path: Path, out: Path | None) -> Path:
    """Where to write what comes out of a file that can be read."""
    suffix = _suffix(path)
    out = path.with_name(f"{path.stem}-uncertainty{path.suffix}") if out is None else out
    if not path.exists() and path.parent.is_dir():
        sweep(path)  # a store may wait for the second half of its replacement
    if not path.exists():
        raise ParameterError(f"there is no file {str(path)!r}")
    if path.is_dir() and suffix != ".zarr":
        raise ParameterError(f"{str(path)!r} is a folder, not a {suffix} file")
    if out.suffix.lower() != suffix:
        raise ParameterError(f"the output has the format of the input, {suffix}; got {out.name!r}")
    if not out.parent.is_dir():
        raise ParameterError(f"the folder {str(out.parent)!r} does not exist")
    check_target(out, KINDS[suffix], [path])
    return out


def about(u: Uncertainty) -> dict[str, str]:
    """How the numbers came about, to be stored beside them."""
    return {
        "score": repr(u.score),
        "units": u.units,
        "method": u.method,
        "estimator": u.estimator,
        "unbiased": str(u.unbiased),
        **({NOTE: u.note} if u.note else {}),
        MADE_BY: MARK,
    }


def _scores(stored: StoredPrediction, u: Uncertainty, options: dict[str, Any]) -> np.ndarray | None:
    """How well every prediction fits its outcome, NaN without one; None if none is known."""
    if stored.outcome is None:
        return None
    whole = stored.part_at(np.arange(len(stored.outcome)))
    missing = np.isnan(stored.outcome)
    filled = np.where(missing, 0.0, stored.outcome)
    scores = np.array(score_of(whole.prediction, filled, u.score, **options), dtype=float)
    scores[whole.masked] = np.nan
    for rows, prediction in stored.by_some_members():
        scores[rows] = score_of(prediction, filled[rows], u.score, **options)
    return np.where(missing, np.nan, scores)


def _write(
    out: Path, stored: StoredPrediction, u: Uncertainty, source: Path, scores: np.ndarray | None
) -> None:
    parts = {component: np.asarray(u[component]) for component in PARTS}
    if not u.is_split:  # what is not known is missing
        parts |= {component: np.full(parts["total"].shape, np.nan) for component in PARTS[1:]}
    kind = KINDS[out.suffix.lower()]
    if out.suffix.lower() in ARRAYS:
        arrays: dict[str, Any] = {**parts, **about(u)}
        if u.standard_error is not None:
            arrays |= dict(zip(ERRORS, map(np.asarray, u.standard_error), strict=True))
        with replacing(out, kind, [source]) as unfinished, unfinished.open("wb") as file:
            np.savez_compressed(file, **arrays)
        return
    rows = stored.extra["rows"]
    if scores is not None:
        parts = {SCORE: scores, **parts}
    taken = [component for component in parts if component in rows.columns]
    if taken:
        raise ParameterError(f"the table has a column {taken[0]!r} already; rename it")
    table = rows.assign(**parts)
    with replacing(out, kind, [source]) as unfinished:
        if out.suffix.lower() in TEXT:
            _write_text(unfinished, without_formulas(table), stored.extra["dialect"])
        else:
            table.attrs = about(u)
            write_parquet(table, unfinished, stored.extra["index"])


def _write_text(unfinished: Path, table: Any, dialect: Dialect) -> None:
    """A table as the input writes it; quotes around the last name are the mark of kuq."""
    form = {"sep": dialect.separator, "decimal": dialect.marks.decimal, "lineterminator": "\n"}
    with unfinished.open("w", encoding=dialect.output_encoding, newline="") as file:
        head = table.iloc[:0].to_csv(index=False, **form).removesuffix(f"{PARTS[-1]}\n")
        file.write(f'{head}"{PARTS[-1]}"\n')
        table.to_csv(file, index=False, header=False, **form)
