"""The study's own network for small fields."""

import numpy as np
import pytest
from numpy.random import default_rng

from kuq.errors import ShapeError

nn = pytest.importorskip("kuq.nn")


@pytest.mark.parametrize("representation", ["normal", "low-rank", "sampler", "flow"])
def test_fields_of_any_size_are_predicted(representation):
    from kuq_study.convolutions import Convolutions

    rng = default_rng(41)
    x, y = rng.standard_normal((12, 2, 5, 7)), rng.standard_normal((12, 5, 7))
    settings = {"n_members": 2, "n_samples": 3, "max_epochs": 1}
    backbone = Convolutions(width=4, layers=2)
    model = nn.Regressor(representation, backbone=backbone, **settings).fit(x, y)
    assert model.predict(x).shape == (12, 5, 7)


def test_cells_know_where_they_are():
    """The same input everywhere: only the place can tell one cell from another."""
    from kuq_study.convolutions import Convolutions

    rng = default_rng(42)
    x = np.repeat(rng.standard_normal((64, 1, 1, 1)), 6, axis=2).repeat(6, axis=3)
    y = x[:, 0] * np.linspace(-1.0, 1.0, 6)  # grows to the east
    backbone = Convolutions(width=8, layers=2)
    model = nn.Regressor(
        "normal", backbone=backbone, n_members=1, max_epochs=60, learning_rate=1e-2
    ).fit(x, y)
    error = np.mean((model.predict(x) - y) ** 2)
    assert error < 0.1 * np.mean(y**2)


def test_other_shapes_are_refused():
    from kuq_study.convolutions import Convolutions

    with pytest.raises(ShapeError, match="convolutions need X"):
        nn.Regressor("normal", backbone=Convolutions()).fit(np.zeros((9, 3)), np.arange(9.0))
