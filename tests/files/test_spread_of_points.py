"""Point predictions in files: the command line and the page speak of a spread, not of two parts."""

import numpy as np
import pytest

from kuq.cli import main

SENTENCE = "spread of the members; their own noise is unknown"


def decomposed(folder, monkeypatch, capsys, **arrays):
    monkeypatch.chdir(folder)
    np.savez("p.npz", **arrays)
    assert main(["decompose", "p.npz", "--report", "p.html"]) == 0
    return capsys.readouterr().out, (folder / "p.html").read_text(encoding="utf-8")


def test_points_are_not_called_epistemic(tmp_path, monkeypatch, capsys):
    """Thirteen forecasts of one model were "100 % epistemic: more training data can reduce it"."""
    forecasts = np.random.default_rng(0).normal(280.0, 2.0, size=(13, 6, 8, 9))
    said, page = decomposed(tmp_path, monkeypatch, capsys, predictions=forecasts)
    assert f"note: {SENTENCE}" in said
    assert "epistemic" not in said
    assert SENTENCE in page
    assert "100 %" not in page
    assert "can reduce it" not in page
    assert "More training data" not in page
    assert "to label" not in page
    for part in ("Aleatoric", "Epistemic"):
        assert part not in page


@pytest.mark.parametrize("silent", [0, 3])
def test_normals_are_split_and_inputs_without_noise_counted(tmp_path, monkeypatch, capsys, silent):
    loc = np.random.default_rng(1).normal(size=(4, 20))
    std = np.where(np.arange(20) < silent, 0.0, 1.0) * np.ones((4, 1))
    said, page = decomposed(tmp_path, monkeypatch, capsys, mean=loc, std=std)
    assert "epistemic" in said
    assert "Epistemic" in page
    assert (f"{silent} of 20 inputs: {SENTENCE}" in said) == (silent > 0)
    assert (f"{silent} of 20 inputs: {SENTENCE}" in page) == (silent > 0)
