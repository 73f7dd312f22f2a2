"""Do predictions keep what they promise? PIT, coverage, reliability, and recalibration."""

from kuq.calibration.coverage import CoverageCurve, coverage_curve
from kuq.calibration.pit import PitHistogram, pit, pit_histogram
from kuq.calibration.recalibration import Recalibration, recalibrate
from kuq.calibration.reliability import Reliability, reliability

__all__ = [
    "CoverageCurve",
    "PitHistogram",
    "Recalibration",
    "Reliability",
    "coverage_curve",
    "pit",
    "pit_histogram",
    "recalibrate",
    "reliability",
]


def __dir__() -> list[str]:
    return __all__
