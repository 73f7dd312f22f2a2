"""The second part of ``kuq demo``: networks' predictions for patients they have not seen."""

import re
import sys

import numpy as np
import pytest

import kuq
from kuq.cli import main
from kuq.demo import patients

for library in ("torch", "sklearn", "matplotlib"):
    pytest.importorskip(library)


@pytest.fixture(scope="module")
def result():
    return patients.run(seed=0)


@pytest.fixture
def folder(tmp_path, monkeypatch, result):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(patients, "run", lambda seed: result)
    return tmp_path


def test_each_patient_is_predicted_and_better_than_by_the_mean(result):
    """A constant has the standard deviation of the outcomes as its error."""
    mean = result.prediction.members.loc
    assert mean.shape == (patients.MEMBERS, 442)
    assert np.isfinite(mean).all()
    error = np.sqrt(np.mean((mean.mean(0) - result.outcome) ** 2))
    assert error < 0.85 * result.outcome.std()


def test_no_patient_was_seen(result, monkeypatch):
    """Networks that remember every target they are given would predict these without error."""

    class Memory:
        def __init__(self, *arguments, **options):
            self.known = {}

        def fit(self, x, y):
            self.known = {row.tobytes(): value for row, value in zip(x, y, strict=True)}
            return self

        def predict_distribution(self, x):
            known = [self.known.get(row.tobytes(), -1.0) for row in x]
            return kuq.Ensemble(kuq.Normal(np.tile(known, (patients.MEMBERS, 1)), 1.0))

    monkeypatch.setattr("kuq.nn.Regressor", Memory)
    assert (patients.run(seed=1).prediction.members.loc == -1.0).all()


def test_the_uncertainty_is_worth_something(result):
    """Of 442 outcomes 90 % lie in the intervals, up to five standard deviations of that share."""
    assert abs(result.coverage - 0.9) < 5 * np.sqrt(0.9 * 0.1 / 442)
    sure, unsure = result.errors
    assert sure < unsure
    u = result.uncertainty
    assert 0 < np.mean(u.epistemic) < np.mean(u.aleatoric)


def test_the_summary_is_what_was_found(result):
    numbers = [float(n) for n in re.findall(r"([\d.]+)(?: %)?$", result.summary(), re.MULTILINE)]
    u = result.uncertainty
    means = [float(np.mean(part)) for part in (u.total, u.aleatoric, u.epistemic)]
    expected = [*means, *result.errors, 100 * result.coverage]
    np.testing.assert_allclose(numbers, expected, atol=0.51)
    assert all(len(line) < 80 for line in result.summary().splitlines())


def test_demo_ends_with_the_figure_and_the_page(folder, capsys, result):
    assert main(["demo"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert all(len(line) <= 80 for line in out.splitlines())
    assert result.summary() in out
    last = out.splitlines()[-2:]
    assert last == ["figure: kuq-demo.png", "page:   kuq-demo.html (open it in a browser)"]
    assert {path.name for path in folder.iterdir()} == {"kuq-demo.png", "kuq-demo.html"}
    page = (folder / "kuq-demo.html").read_text(encoding="utf-8")
    for words in ("442 outcomes", "Coverage", "patient ", "network 10", patients.TITLE):
        assert words in page
    assert main(["demo"]) == 0  # its own files are replaced


def test_only_the_page(folder, capsys):
    assert main(["demo", "patients", "--out", "mine.svg"]) == 0
    assert [path.name for path in folder.iterdir()] == ["mine.html"]


def test_without_torch_the_rest_is_shown(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)  # of tests before this one
    assert main(["demo"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == "figure: kuq-demo.png"
    assert err == 'no page, since torch is missing; to have it: pip install "kuq[torch]"\n'
    assert main(["demo", "--out", "asked.png"]) == 1
