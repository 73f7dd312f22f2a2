"""Sentences of pages that said what the numbers beside them did not."""

import html

import numpy as np
import pytest

import kuq


def page_of(prediction, tmp_path, **options):
    path = kuq.report(prediction, path=tmp_path / "page.html", **options)
    return html.unescape(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("inside", "of", "said"),
    [
        (168, 200, "Only 84 % of the outcomes lie in their 90 % intervals (95 % interval 78 to 88"),
        (192, 200, "these are wider than they need to be"),
        (182, 200, "hold about as many outcomes as they should"),
        (9, 10, "too few outcomes to tell"),
    ],
)
def test_coverage_is_judged_by_its_interval(tmp_path, inside, of, said):
    """84 % and 96 % of 200 outcomes were "about as many as they should"."""
    law = kuq.Ensemble(kuq.Normal(np.zeros((3, of)), 1.0))
    y = np.where(np.arange(of) < inside, 0.5, 3.0)
    page = page_of(law, tmp_path, y=y)
    assert said in page
    curve = kuq.calibration.coverage_curve(law, y, [0.9])
    assert f"(95 % interval {100 * curve.low[0]:.0f} to {100 * curve.high[0]:.0f} %)" in page
