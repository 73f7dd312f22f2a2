"""What a report says about the noise of draws, and whether it is true."""

import html
import re

import numpy as np

import kuq


def text_of(prediction, tmp_path, **options):
    path = kuq.report(prediction, path=tmp_path / "report.html", **options)
    return html.unescape(re.sub("<[^>]*>", " ", path.read_text(encoding="utf-8")))


def test_few_draws_of_one_law_are_called_noise(tmp_path):
    draws = np.random.default_rng(1).normal(size=(5, 40, 8))
    text = text_of(kuq.Ensemble(kuq.Samples(draws)), tmp_path)
    ensemble = kuq.Ensemble(kuq.Samples(draws))
    noise = kuq.standard_error(ensemble, "crps", over="draws").epistemic
    below = int(np.sum(kuq.decompose(ensemble, "crps").epistemic < 2 * noise))
    assert below > 30
    assert f"At {below} of 40 inputs that were looked at the epistemic uncertainty is below" in text
    assert "with 8 draws of each member it cannot be told from zero there" in text
    assert "the members cannot be told apart" in text


def test_members_that_differ_are_seen(tmp_path):
    rng = np.random.default_rng(2)
    draws = rng.normal(size=(5, 30, 40)) + 0.3 * rng.normal(size=(5, 1, 1))
    draws[3] += 8
    text = text_of(kuq.Ensemble(kuq.Samples(draws)), tmp_path)
    assert "At all 30 inputs that were looked at the epistemic uncertainty is more" in text
    assert (
        "differ by more than chance of their draws explains (permutation test, p ≤ 0.005)" in text
    )
    assert "Member 3 stands apart." in text
    assert "not by chance of its draws (permutation test, p ≤ 0.005)" in text


def test_laws_that_are_known_have_no_noise(tmp_path):
    rng = np.random.default_rng(3)
    text = text_of(kuq.Ensemble(kuq.Normal(rng.normal(size=(5, 30)), 1.0)), tmp_path)
    assert "standard error" not in text
    assert "permutation" not in text


def test_one_input_and_draws_as_they_are(tmp_path):
    rng = np.random.default_rng(4)
    draws = rng.normal(size=(5, 8))
    text = text_of(kuq.Ensemble(kuq.Samples(draws)), tmp_path)
    assert "At the input the epistemic uncertainty is below" in text
    as_they_are = text_of(kuq.Ensemble(kuq.Samples(draws)), tmp_path, unbiased="members")
    assert "standard error" not in as_they_are


def test_weighted_and_very_many_draws(tmp_path):
    """Weights have a standard error and no test; what would take minutes is left out."""
    rng = np.random.default_rng(5)
    weighted = kuq.Ensemble(kuq.Samples(rng.normal(size=(4, 6, 9)), weights=rng.random(9)))
    text = text_of(weighted, tmp_path)
    assert "standard error over draws" in text
    assert "permutation" not in text
    many = text_of(kuq.Ensemble(kuq.Samples(rng.normal(size=(4, 2, 5000)))), tmp_path)
    assert "permutation" not in many
