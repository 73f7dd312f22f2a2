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


def test_one_prediction_is_one(tmp_path):
    one = kuq.Ensemble(kuq.Normal(np.zeros((3, 1, 4, 5)), 1.0, event_ndim=2))
    page = page_of(one, tmp_path)
    assert "<b>1</b><span>prediction</span>" in page
    assert "1 inputs" not in page


def test_the_last_bar_is_told_of_where_it_holds_more(tmp_path):
    said = "largest values are counted in the last bar"
    even = kuq.Normal(np.linspace(0, 1, 3)[:, None] * np.linspace(1, 2, 50), 1.0)
    assert said not in page_of(kuq.Ensemble(even), tmp_path)
    width = np.where(np.arange(2000) == 7, 100.0, 1.0)
    far = kuq.Ensemble(kuq.Normal(np.arange(3.0)[:, None] * width, width))
    assert said in page_of(far, tmp_path)


def test_what_cannot_be_told_from_zero_is_not_ranked(tmp_path):
    draws = np.random.default_rng(0).normal(size=(3, 2, 20))
    law = kuq.Ensemble(kuq.Samples(draws))
    e = kuq.standard_error(law, "crps", over="draws").epistemic
    assert np.all(kuq.decompose(law, "crps").epistemic < 2 * e)
    page = page_of(law, tmp_path)
    assert "At 2 of 2 inputs" in page
    assert "look at first" not in page
    apart = kuq.Ensemble(kuq.Samples(draws + 5 * np.arange(3.0)[:, None, None]))
    assert "look at first" in page_of(apart, tmp_path)


@pytest.mark.parametrize("known", [10, 400])
def test_a_ratio_that_may_be_chance_is_no_headline(tmp_path, known):
    rng = np.random.default_rng(0)
    width = rng.uniform(0.1, 3.0, 400)
    law = kuq.Ensemble(kuq.Normal(0.1 * rng.normal(size=(3, 400)), width))
    y = np.where(np.arange(400) < known, width * rng.normal(size=400), np.nan)
    page = page_of(law, tmp_path, y=y)
    assert ("That may be chance" in page) == (known == 10)
    assert ("the best here: 0 an oracle" in page) == (known == 400)


def test_worst_fields_keep_their_score_where_there_is_little_room(tmp_path):
    rng = np.random.default_rng(0)
    fields = kuq.Ensemble(kuq.Normal(rng.normal(size=(3, 12, 4, 4)), 1.0, event_ndim=2))
    assert "<th>score</th>" in page_of(fields, tmp_path, y=rng.normal(size=(12, 4, 4)))
    numbers = kuq.Ensemble(kuq.Normal(rng.normal(size=(3, 12)), 1.0))
    assert "<th class='roomy'>score</th>" in page_of(numbers, tmp_path, y=rng.normal(size=12))


def test_a_recalibrated_split_follows_its_factors(tmp_path):
    """It was read as knowledge, though coverage leaves the ratio of the factors open."""
    rng = np.random.default_rng(0)
    law = kuq.Ensemble(kuq.Normal(rng.normal(size=(4, 40)), 0.1))
    assert "better models can reduce it" in page_of(law, tmp_path)
    applied = kuq.calibration.Recalibration(2.0, 0.5, 0.9, 40).apply(law)
    page = page_of(applied, tmp_path)
    assert "noise was multiplied by 2 and disagreement by 0.5" in page
    assert "better models can reduce it" not in page
