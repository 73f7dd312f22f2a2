"""A result that is not split is drawn as one curve, with its name."""

import numpy as np
import pytest

import kuq

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
from matplotlib.figure import Figure  # noqa: E402


def labels(u, **options):
    ax = kuq.plot.decomposition(u, ax=Figure().subplots(), **options)
    return [line.get_label() for line in ax.lines]


def test_points_are_one_curve():
    points = np.random.default_rng(0).normal(size=(4, 9))
    u = kuq.decompose(kuq.Ensemble(kuq.Point(points)), kuq.CRPS())
    assert labels(u) == [u.note]
    assert labels(u, parts=("epistemic",)) == ["epistemic"]
    xr = pytest.importorskip("xarray")
    data = xr.DataArray(points, dims=("number", "time"))
    assert labels(kuq.xarray.decompose(data, kuq.CRPS())) == [u.note]
    alone = kuq.xarray.decompose(data, kuq.CRPS(), draws_dim="number")
    assert labels(alone) == [alone.attrs["note"]]
    split = kuq.decompose(kuq.Ensemble(kuq.Normal(points, 1.0)), kuq.CRPS())
    assert labels(split) == ["total", "aleatoric", "epistemic"]
