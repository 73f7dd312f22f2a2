"""Protocols that judge uncertainties by their use: plain functions on anybody's predictions."""

from kuq.protocols.acquisition import PowerSampling, largest
from kuq.protocols.active import ActiveLearningStep, active_learning
from kuq.protocols.batches import select_batch
from kuq.protocols.comparison import RetentionComparison, compare_retention
from kuq.protocols.corruption import Robustness, robustness
from kuq.protocols.detection import OodDetection, ood_detection
from kuq.protocols.influence import Influence, influence_curves
from kuq.protocols.learning_state import ActiveLearningState
from kuq.protocols.ranks import AverageRanks, average_ranks
from kuq.protocols.retention import SelectivePrediction, selective_prediction

__all__ = [
    "ActiveLearningState",
    "ActiveLearningStep",
    "AverageRanks",
    "Influence",
    "OodDetection",
    "PowerSampling",
    "RetentionComparison",
    "Robustness",
    "SelectivePrediction",
    "active_learning",
    "average_ranks",
    "compare_retention",
    "influence_curves",
    "largest",
    "ood_detection",
    "robustness",
    "select_batch",
    "selective_prediction",
]


def __dir__() -> list[str]:
    return __all__
