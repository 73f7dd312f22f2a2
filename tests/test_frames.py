"""Results as tables of pandas."""

import numpy as np
import pytest

import kuq

pd = pytest.importorskip("pandas")


def result(shape):
    rng = np.random.default_rng(0)
    return kuq.decompose(kuq.Ensemble(kuq.Normal(rng.normal(size=(3, *shape)), 1.0)), kuq.CRPS())


def test_a_row_for_every_input():
    u = result((4,))
    frame = u.to_frame(index=pd.Index(["a", "b", "c", "d"], name="site"))
    assert list(frame.columns) == ["total", "aleatoric", "epistemic"]
    assert frame.index.tolist() == ["a", "b", "c", "d"]
    assert frame.index.name == "site"
    for part in u:
        np.testing.assert_array_equal(frame[part], u[part])
    assert u.to_frame().index.tolist() == [0, 1, 2, 3]
    assert frame.attrs["units"] == "target units"
    assert "note" not in frame.attrs
    points = kuq.decompose(kuq.Ensemble(kuq.Point([[0.0, 1.0], [2.0, 4.0]])), kuq.CRPS())
    assert points.to_frame().attrs["note"] == points.note


def test_several_axes_become_levels_of_the_index():
    u = result((2, 3))
    frame = u.to_frame()
    assert frame.index.nlevels == 2
    assert frame.loc[(1, 2), "epistemic"] == u.epistemic[1, 2]
    assert len(result(()).to_frame()) == 1


def test_an_index_of_another_length_is_refused():
    with pytest.raises(kuq.ShapeError, match=r"index of 3 .* 4 inputs"):
        result((4,)).to_frame(index=[0, 1, 2])


def test_a_frame_of_the_result_itself_is_refused_with_the_way():
    """pandas would make a column of the words total, aleatoric and epistemic."""
    for call in (lambda: pd.DataFrame(result((4,))), lambda: np.asarray(result((4,)))):
        with pytest.raises(TypeError, match=r"to_frame\(\)"):
            call()


def test_a_mapping_of_it_still_works():
    u = result((4,))
    pd.testing.assert_frame_equal(pd.DataFrame(dict(u)), u.to_frame())


def test_torch_with_gradients():
    torch = pytest.importorskip("torch")
    loc = torch.zeros(2, 3, requires_grad=True)
    u = kuq.decompose(kuq.Ensemble(kuq.Normal(loc, 1.0)), kuq.CRPS())
    assert u.to_frame().shape == (3, 3)
