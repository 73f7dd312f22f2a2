"""Names in an experiment file that kuq resolves: checked when it is read, not when cells run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kuq.errors import ParameterError
from kuq_study.entry import Entry
from kuq_study.model_settings import check_model
from kuq_study.named_scores import SCORES
from kuq_study.settings import checked_values

#: The representations of ``kuq.nn.Regressor``; listed here, since reading a file must not import
#: torch.
REPRESENTATIONS = ("normal", "evidential", "mixture", "low-rank", "sampler", "flow")


def check_scores(scores: Iterable[str], entries: Mapping[str, Entry], where: str) -> None:
    """Every score is one of the paper's or the user's own."""
    _check(scores, SCORES, entries, "score", "[scores]", where)


def check_learners(
    datasets: Iterable[str],
    representations: Iterable[str],
    model: Mapping[str, Any],
    model_for: Mapping[str, Any],
    data: Mapping[str, Any],
    entries: Mapping[str, Entry],
    where: str,
) -> None:
    """Every data set and representation is known, and so are their settings, where kuq's own."""
    from kuq.datasets import catalogue
    from kuq.datasets.catalogue import option_types

    _check(datasets, catalogue(), entries, "data set", "[datasets]", where)
    _check(representations, REPRESENTATIONS, entries, "representation", "[models]", where)
    if any(name not in entries for name in representations):
        check_model(model, f"'model' of {where}")
    for name, settings in model_for.items():
        if name not in entries:
            check_model(settings, f"'model_for.{name}' of {where}")
    for name in datasets:
        if name not in entries:
            checked_values(option_types(name), data, f"'data' of {where} for {name!r}")


def _check(
    names: Iterable[str],
    catalogue: Iterable[str],
    entries: Mapping[str, Entry],
    what: str,
    table: str,
    where: str,
) -> None:
    for name in names:
        if name not in catalogue and name not in entries:
            raise ParameterError(
                f"{where} names the {what} {name!r}, which is not known; there are "
                f"{', '.join(catalogue)}, and those of the table {table}"
            )
