"""All figures of a report, in their order."""

from __future__ import annotations

from kuq_study.estimates import Evidence
from kuq_study.figures import computed, curves, maps
from kuq_study.figures.drawing import Figure


def all_figures(evidence: Evidence) -> list[Figure]:
    """The computed figures, and those of every experiment that has records or fields."""
    figures: list[Figure | None] = [
        computed.epistemic_limits(),
        computed.theoretical_influence(),
        *curves.robustness(evidence),
        curves.retention(evidence),
        curves.training(evidence),
        *maps.maps(evidence),
        *curves.active_learning(evidence),
        curves.runtime(evidence),
        curves.approximation(evidence),
    ]
    return [figure for figure in figures if figure is not None and figure.panels]
