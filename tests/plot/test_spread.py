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


def test_maps_and_bands_of_what_is_not_split():
    """A map of the epistemic part of single values, which is unknown, would be empty."""
    xr = pytest.importorskip("xarray")
    values = np.random.default_rng(0).normal(size=(3, 2, 5, 4, 6))
    runs = xr.DataArray(values, dims=("model", "member", "time", "lat", "lon"))
    u = kuq.xarray.decompose(runs.isel(model=0), "crps")
    for one in (u.isel(time=0), u.mean("time", keep_attrs=False)):
        ax = kuq.plot.uncertainty_map(one)
        assert ax.get_title() == "total"
        assert np.isfinite(np.ma.filled(ax.collections[0].get_array(), np.nan)).all()
    levels = kuq.xarray.decompose(runs, "variance", level_dims=("model", "member"))
    ax = kuq.plot.partition(levels.mean(("lat", "lon"), keep_attrs=False))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["member", "model"]
