"""The table of coverages and widths in the documentation, and the script that makes it."""

import re
from pathlib import Path

import numpy as np
import pytest

import kuq
from benchmarks import calibration as script

PAGE = Path(__file__).parents[1] / script.PAGE
#: Test rows below which a table counts as small.
FEW = 200


def test_recalibrated_intervals_cover_what_was_asked_for():
    text = PAGE.read_text().split(script.BEGIN)[1].split(script.END)[0]
    header, _, *lines = (line.strip("| ").split(" | ") for line in text.strip().splitlines())
    assert [line[0] for line in lines] == list(script.TABLES)
    for line in lines:
        cells = dict(zip(header, line, strict=True))
        coverage = float(re.match(r"[\d.]+", cells["kuq"])[0])
        room = 3.0 if int(cells["test rows"]) < FEW else 1.0
        assert abs(coverage - 100 * script.COVERAGE) <= room, line[0]


def test_the_script_judges_predictions_in_files(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "made-0.npz"
    arrays = {}
    for part, n in (("held_out", 300), ("test", 2000)):
        arrays[f"{part}_loc"] = 0.1 * rng.normal(size=(3, n))
        arrays[f"{part}_scale"] = np.full((3, n), 0.5)
        arrays[f"{part}_y"] = rng.normal(size=n)
    np.savez(path, **arrays)
    found = script.own_results(path)
    assert found["as predicted"][0] < 70
    # Shares of 300 and of 2000 rows: 1.9 percent; four of that.
    assert abs(found["kuq"][0] - 90) < 8
    assert found["kuq"][1] == pytest.approx(2 * 1.645, rel=0.2)
    prediction, y = script.rows_of(path, "test")
    assert isinstance(prediction, kuq.Ensemble)
    text = script.table({"made": {k: [v] for k, v in found.items()}}, {"made": y.size})
    assert text.splitlines()[2].startswith("| made | 2000 | ")
