"""Which score fits a need, and scores by their names."""

from __future__ import annotations

import pytest

import kuq
from kuq.cli import main
from kuq.kernels.names import NAMES, parse_score, score_name
from kuq.kernels.needs import NEEDS


def fitting(need):
    return {card.name for card in kuq.kernel_cards(need=need)}


def test_needs_follow_from_the_facts():
    cards = kuq.kernel_cards()
    assert fitting("robust") >= {card.name for card in cards if card.bounded}
    assert fitting("spread") == {c.name for c in cards if c.aleatoric_grows_with_spread}
    assert fitting("dependence") >= {card.name for card in cards if card.strictly_proper}
    assert "SquaredError" not in fitting("shape")
    assert "CRPS" in fitting("shape")
    assert "LogScore" not in fitting("samples")


def test_shape_is_what_members_of_one_mean_show():
    """Every catalogued score that claims to see shape tells two variances apart, no other does."""
    from kuq.kernels.catalogue import catalogue

    pair = kuq.Normal(0.0, 1.0), kuq.Normal(0.0, 3.0)
    names = fitting("shape")
    for score in catalogue():
        assert (float(kuq.divergence(*pair, score)) > 1e-3) == (score.card.name in names)


def test_several_needs_narrow_the_choice_and_give_a_reason_each():
    cards = kuq.kernel_cards(need=["spread", "units", "shape"])
    assert [card.name for card in cards] == ["Energy(1)", "CRPS"]
    assert all(len(why) == 3 for why in cards.reasons)
    assert "convex" in repr(cards)
    assert kuq.kernel_cards([kuq.Energy(), kuq.SquaredError()], need="shape")[0].name == "Energy(1)"


@pytest.mark.parametrize("need", [need.name for need in NEEDS])
def test_every_need_is_met_by_something(need):
    assert len(kuq.kernel_cards(need=need)) > 0


def test_what_cannot_be_had_is_explained():
    cards = kuq.kernel_cards(need="robust, spread")
    assert len(cards) == 0
    assert "bounded and convex" in repr(cards)


def test_on_the_command_line(capsys):
    assert main(["kernels", "--need", "tails,robust"]) == 0
    out = capsys.readouterr().out
    assert "Gaussian" in out
    assert "kuq.tail(kernel, threshold)" in out
    assert main(["kernels", "--need", "robust,nonsense"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "'nonsense'" in err
    assert "dependence" in err


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("crps", kuq.CRPS()),
        ("CRPS ", kuq.CRPS()),
        ("energy", kuq.Energy()),
        ("energy:1.5", kuq.Energy(1.5)),
        ("squared", kuq.SquaredError()),
        ("log", kuq.LogScore()),
        ("gaussian:0.5", kuq.Gaussian(0.5)),
        ("laplace:0.5", kuq.Laplace(0.5)),
        ("gaussian:median", kuq.Gaussian("median")),
        ("imq:2", kuq.InverseMultiquadric(2.0)),
        ("rational:2:1.5", kuq.RationalQuadratic(2.0, 1.5)),
        ("matern:median:2.5", kuq.Matern("median", 2.5)),
    ],
)
def test_names(text, score):
    assert parse_score(text) == score
    name = score_name(score)
    if not name[0].isupper():
        assert parse_score(name) == score


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("crp", "one of crps"),
        ("", "one of crps"),
        ("gaussian", "gaussian:0.5, gaussian:median or gaussian:multi"),
        ("gaussian:1:2", "gaussian:0.5"),
        ("gaussian:wide", "'wide'"),
        ("gaussian:nan", "'nan'"),
        ("gaussian:-1", "positive"),
        ("energy:2", "SquaredError"),
        ("energy:median", "'median'"),
        ("crps:1", "written crps"),
    ],
)
def test_wrong_names(text, words):
    with pytest.raises(kuq.ParameterError, match=words):
        parse_score(text)
    assert set(NAMES) >= {"crps", "energy", "squared", "log", "gaussian", "laplace"}
