"""Pages that explain: what they state holds, and what they list is complete."""

import re
import sys
import tomllib

import pytest
from scipy import integrate, optimize, stats

import kuq
from docs import pages

sys.path.append(str(pages.ROOT / "docs" / "_extensions"))

import docstrings

DOCS = pages.ROOT / "docs"


def text_of(name):
    return (DOCS / name).read_text(encoding="utf-8")


# --- how to read the numbers --------------------------------------------------------------------


def entropy(sigma):
    """The CRPS entropy of a normal: the integral of F (1 − F)."""
    law = stats.norm(0.0, sigma)
    return integrate.quad(lambda x: law.cdf(x) * law.sf(x), -12 * sigma, 12 * sigma)[0]


def divergence(distance, sigma):
    """The CRPS divergence of two normals of equal spread: the integral of (F − G)²."""
    left, right = stats.norm(0.0, sigma), stats.norm(distance, sigma)
    ends = (-12 * sigma, distance + 12 * sigma)
    return integrate.quad(lambda x: (left.cdf(x) - right.cdf(x)) ** 2, *ends, limit=200)[0]


def share(distance):
    epistemic = divergence(distance, 1.0)
    return epistemic / (epistemic + entropy(1.0))


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.0])
def test_aleatoric_of_a_normal(sigma):
    assert entropy(sigma) == pytest.approx(0.564 * sigma, rel=1e-3)
    assert float(kuq.entropy(kuq.Normal(0.0, sigma), kuq.CRPS())) == pytest.approx(entropy(sigma))


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.0])
def test_epistemic_of_near_and_far_members(sigma):
    near, far = 0.05 * sigma, 9.0 * sigma
    assert divergence(near, sigma) == pytest.approx(0.282 * near**2 / sigma, rel=2e-3)
    assert divergence(far, sigma) == pytest.approx(far - 1.128 * sigma, rel=1e-3)


@pytest.mark.parametrize("tau", [0.2, 1.0, 3.0])
def test_epistemic_of_many_members(tau):
    """The mean divergence over pairs, whose distances are normal of variance 2τ²."""
    law = stats.norm(0.0, 2**0.5 * tau)
    mean = integrate.quad(lambda m: law.pdf(m) * divergence(abs(m), 1.0), 0, 16 * tau)[0] * 2
    assert mean == pytest.approx(1.128 * ((1 + tau**2) ** 0.5 - 1), rel=1e-3)


def test_shares_of_the_table():
    """Half of σ apart: about a tenth; one and a half: about half."""
    assert optimize.brentq(lambda m: share(m) - 0.1, 0.01, 5.0) == pytest.approx(0.5, abs=0.05)
    assert optimize.brentq(lambda m: share(m) - 0.5, 0.01, 5.0) == pytest.approx(1.5, abs=0.05)


# --- lists --------------------------------------------------------------------------------------


def test_every_extra_is_explained():
    project = tomllib.loads((pages.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = re.findall(r"^\| (`.*?`) \|", text_of("installation.md"), flags=re.MULTILINE)
    explained = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert explained == set(project["optional-dependencies"])


def test_the_gallery_has_every_drawing_and_the_page_that_shows_it():
    shown = re.findall(
        r"\{drawing\} ([\w-]+)\n.*?\]\((.*?)\)", text_of("gallery.md"), flags=re.DOTALL
    )
    assert {name for name, _ in shown} == {path.stem for path in (DOCS / "figures").glob("*.svg")}
    for name, page in shown:
        assert f"{{drawing}} {name}\n" in text_of(page), page


def test_glossary_is_in_order():
    entries = re.findall(r"^(\w.*)\n  \S", text_of("glossary.md"), flags=re.MULTILINE)
    assert len(entries) > 30
    assert entries == sorted(entries, key=str.lower)


def test_every_page_of_these_is_in_the_menu():
    menu = text_of("index.md").splitlines()
    assert {"installation", "numbers", "gallery", "other-tools", "glossary", "changelog"} <= {*menu}


# --- parameters in the reference ----------------------------------------------------------------


def test_sentences_about_parameters_become_a_list():
    text = """What it does.

    Where ``x`` is known, more. ``x`` is an array. ``a`` and ``b``: two numbers, e.g. small ones.
    They are finite. ``other`` is no parameter. See ``kuq.nn``.
    """
    text = re.sub(r"^ +", "", text, flags=re.MULTILINE)
    prose, items = docstrings.parted(text, {"x", "a", "b"})
    assert prose == (
        "What it does.\n\nWhere ``x`` is known, more. ``other`` is no parameter. See ``kuq.nn``."
    )
    assert items == [
        "**x** is an array.",
        "**a** and **b**: two numbers, e.g. small ones. They are finite.",
    ]


def test_lists_and_code_of_docstrings_stay():
    text = "Kinds::\n\n    ``x`` is code.\n\n- ``x`` is an entry."
    assert docstrings.parted(text, {"x"}) == (text, [])


def test_parameters_of_the_regressor_are_listed():
    pytest.importorskip("torch")
    _, items = docstrings.parted(
        kuq.nn.Regressor.__doc__.split(">>>")[0].replace("\n    ", "\n"),
        docstrings.parameters_of(kuq.nn.Regressor),
    )
    named = [re.match(r"\*\*(\w+)\*\*", item)[1] for item in items]
    assert named == ["representation", "n_members", "backbone", "loss", "n_samples"]
