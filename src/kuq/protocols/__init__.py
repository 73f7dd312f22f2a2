"""Protocols that judge uncertainties by their use: plain functions on anybody's predictions."""

from kuq.protocols.acquisition import PowerSampling, largest
from kuq.protocols.active import ActiveLearningStep, active_learning
from kuq.protocols.batches import select_batch
from kuq.protocols.comparison import (
    DetectionComparison,
    RetentionComparison,
    compare_detection,
    compare_retention,
)
from kuq.protocols.corruption import Robustness, robustness
from kuq.protocols.detection import OodDetection, ood_detection
from kuq.protocols.influence import Influence, influence_curves
from kuq.protocols.learning_state import ActiveLearningState
from kuq.protocols.paired import PairedDifference, paired_difference
from kuq.protocols.power import runs_needed, smallest_detectable_effect
from kuq.protocols.ranks import AverageRanks, average_ranks
from kuq.protocols.retention import SelectivePrediction, selective_prediction
from kuq.protocols.selection import CandidateResult, ScoreSelection, select_score

__all__ = [
    "ActiveLearningState",
    "ActiveLearningStep",
    "AverageRanks",
    "CandidateResult",
    "DetectionComparison",
    "Influence",
    "OodDetection",
    "PairedDifference",
    "PowerSampling",
    "RetentionComparison",
    "Robustness",
    "ScoreSelection",
    "SelectivePrediction",
    "active_learning",
    "average_ranks",
    "compare_detection",
    "compare_retention",
    "influence_curves",
    "largest",
    "ood_detection",
    "paired_difference",
    "robustness",
    "runs_needed",
    "select_batch",
    "select_score",
    "selective_prediction",
    "smallest_detectable_effect",
]


def __dir__() -> list[str]:
    return __all__
