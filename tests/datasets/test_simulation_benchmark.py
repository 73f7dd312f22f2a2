"""The benchmark of simulations: its tables and verdicts. No timing here."""

import pytest

pytest.importorskip("torch")  # the benchmarks compare with it elsewhere

from benchmarks import simulations
from benchmarks.simulations import GOALS, Finding


def test_verdicts_and_table():
    found = [Finding(name, 99.0) for name in GOALS]
    assert [finding.verdict for finding in found] == ["MISSED", "–", "ok", "MISSED"]
    text = simulations.text(found)
    for name in GOALS:
        assert name in text
    assert "≥ 100 ×" in text
    assert "≤ 600 s" in text


def test_memory_beside_the_result_is_measured():
    wall, memory = simulations.large(2)
    assert wall.value > 0
    assert 0 <= memory.value < 64
