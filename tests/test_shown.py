"""How scores, results and progress are shown: by their usual names, and no longer than a line."""

from __future__ import annotations

import io

import numpy as np
import pytest

import kuq
from kuq.cli.progress import ProgressBar
from kuq.kernels.names import parse_score


@pytest.mark.parametrize(
    ("score", "shown"),
    [
        (kuq.CRPS(), "CRPS()"),
        (kuq.Marginal(kuq.Energy()), "CRPS()"),
        (kuq.CRPS(reduce=None), "CRPS(reduce=None)"),
        (kuq.CRPS(weights=np.ones(3)), "CRPS(weights=<array (3,)>)"),
        (kuq.CRPS(weights=[1.0] * 300), "CRPS(weights=<list of 300>)"),
        (kuq.Energy(weights=[[1.0, 2.0]] * 40), "Energy(beta=1.0, weights=<list of 40>)"),
        (kuq.Marginal(kuq.Energy(0.5)), "Marginal(kernel=Energy(beta=0.5), reduce='mean')"),
        (2 * kuq.CRPS(), "2 * CRPS()"),
    ],
)
def test_scores_print_by_their_usual_names(score, shown):
    assert repr(score) == shown


def test_the_card_of_the_crps_is_called_so():
    assert kuq.CRPS().card.name == "CRPS"
    assert kuq.CRPS(reduce=None).card.name == "CRPS(reduce=None)"
    assert kuq.Marginal(kuq.Gaussian(1.0)).card.name == "Marginal(Gaussian(bandwidth=1.0), mean)"


def test_long_reprs_are_cut():
    ensemble = kuq.Ensemble([kuq.Normal(0.0, 1.0) if i % 2 else kuq.Point(0.0) for i in range(30)])
    assert repr(ensemble) == (
        "Ensemble of 15 × Point(batch=(), event=()) + 15 × Normal(batch=(), event=())"
    )
    kernel = kuq.Gaussian(0.1)
    for i in range(1, 20):
        kernel = kernel + kuq.Gaussian(0.123456789 * i)
    u = kuq.decompose(ensemble, kernel)
    assert max(map(len, repr(u).splitlines())) <= 200
    assert "Gaussian(bandwidth=0.1) + " in repr(u)
    assert "…" in repr(u)


@pytest.mark.parametrize("columns", [20, 40, 80, 300])
def test_progress_fits_the_width_of_the_terminal(monkeypatch, columns):
    """A line that is longer than the terminal would scroll instead of being written over."""
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setenv("COLUMNS", str(columns))
    bar = ProgressBar(terminal, wait=0.0)
    for done in range(11):
        bar(done, 10)
    bar.end()
    lines = [line for line in terminal.getvalue().split("\r") if line]
    assert max(map(len, lines)) < columns
    assert max(map(len, lines)) >= min(columns - 2, 40)
    assert any("100 %" in line for line in lines)


def test_variance_is_the_name_of_a_score():
    assert parse_score("variance") == kuq.SquaredError()
    assert parse_score("Squared") == kuq.SquaredError()


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_no_mean_of_a_result_is_made_of_nan(library):
    values = np.random.default_rng(0).normal(size=(3, 4, 6))
    values[1, 2, 3] = np.nan
    if library != "numpy":
        module = pytest.importorskip({"jax": "jax.numpy"}.get(library, library))
        values = module.asarray(values)
    draws = kuq.Samples(values, nan_policy="propagate")
    u = kuq.decompose(kuq.Ensemble(draws), kuq.CRPS())
    known = np.asarray(u.total)[[0, 1, 3]]
    shown = repr(u).splitlines()[1]
    assert f"mean {known.mean():.6g}"[:10] in shown
    assert shown.endswith("(1 of 4 are NaN)")
    assert "nan" not in repr(u)
