"""``Samples(..., whole=True)``: values that are a law, and no draws of another one."""

import numpy as np
import pytest

import kuq

SCORES = [kuq.CRPS(), kuq.Gaussian(0.7), kuq.SquaredError(), kuq.Energy(0.5) + kuq.Laplace(1.0)]


def laws(whole, weighted=True):
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=(4, 6, 5)), rng.uniform(0.1, 1.0, size=(4, 6, 5))
    return kuq.Samples(values, weights=weights if weighted else None, whole=whole)


@pytest.mark.parametrize("score", SCORES, ids=repr)
@pytest.mark.parametrize("unbiased", [True, "samples"])
def test_nothing_is_corrected_for_their_number(score, unbiased):
    """As if draws were taken as they are, whatever is asked for."""
    as_it_is = {True: "members", "samples": False}[unbiased]
    whole, drawn = kuq.Ensemble(laws(True)), kuq.Ensemble(laws(False))
    found = kuq.decompose(whole, score, unbiased=unbiased)
    expected = kuq.decompose(drawn, score, unbiased=as_it_is)
    for key in found:
        np.testing.assert_array_equal(found[key], expected[key])
    y = np.zeros(6)
    for asked in (lambda p, **k: kuq.score(p, y, score, **k), lambda p, **k: kuq.entropy(p, score)):
        np.testing.assert_allclose(
            asked(whole, unbiased=True), asked(whole, unbiased=False), rtol=1e-14
        )
    np.testing.assert_array_equal(
        kuq.member_divergences(whole, score), kuq.member_divergences(drawn, score, unbiased=False)
    )


def test_whole_laws_beside_draws():
    """Neighbours of the same shape are not made one: each keeps its meaning."""
    (first, second), score = (laws(w, weighted=False) for w in (True, False)), kuq.SquaredError()
    one, other = first.member(0), second.member(1)
    for members in ([one, other], [other, one]):
        u = kuq.decompose(kuq.Ensemble(members), score)
        expected = (one.values.var(axis=-1) + other.values.var(axis=-1, ddof=1)) / 2
        np.testing.assert_allclose(u.aleatoric, expected, rtol=1e-12)
    groups = kuq.Ensemble([kuq.Ensemble(first), kuq.Ensemble(second)])
    noise = kuq.decompose(groups, score, levels=("kind", "member"))["noise"]
    expected = (first.values.var(axis=-1) + second.values.var(axis=-1, ddof=1)).mean(axis=0) / 2
    np.testing.assert_allclose(noise, expected, rtol=1e-12)


def test_it_stays_so_whatever_is_made_of_them():
    law = laws(True)
    made = [
        *(law.member(0), law.rows(slice(2)), law.rescaled(2.0), law.with_values(law.values, 0)),
        kuq.Ensemble(law).rescaled(0.5, 2.0).members,
    ]
    assert all(one.whole for one in made)
    assert "whole=True" in repr(law)
    assert "whole" not in repr(laws(False))
    ensemble = kuq.Ensemble(law)
    u = kuq.decompose(ensemble, kuq.CRPS().on(lambda x: x + 1.0))
    np.testing.assert_allclose(u.total, kuq.decompose(ensemble, kuq.CRPS()).total, rtol=1e-12)


def test_nothing_about_them_is_left_to_chance():
    ensemble = kuq.Ensemble(laws(True, weighted=False))
    e = kuq.standard_error(ensemble, kuq.CRPS())
    assert (e.over, e.draws) == ("members", None)
    with pytest.raises(kuq.ParameterError, match="laws are known"):
        kuq.standard_error(ensemble, kuq.CRPS(), over="draws")
    with pytest.raises(kuq.ParameterError, match="laws that are known"):
        kuq.member_test(ensemble, kuq.CRPS())


def test_a_single_value_is_a_law():
    law = kuq.Samples([[0.0, 1.0], [0.0, 1.0]], weights=[[1.0, 0.0], [0.5, 0.5]], whole=True)
    u = kuq.decompose(kuq.Ensemble(law), kuq.SquaredError())
    assert (float(u.aleatoric), float(u.epistemic)) == (0.125, 0.25)
