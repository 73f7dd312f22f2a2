"""Plots of levels of uncertainty."""

import numpy as np
import pytest

import kuq

pytest.importorskip("matplotlib").use("agg")


@pytest.fixture(autouse=True)
def no_figure_stays():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def found(shape, **options):
    x = np.random.default_rng(0).normal(size=(3, 4, *shape)) + np.arange(3.0).reshape(
        3, *(1,) * (1 + len(shape))
    )
    ensemble = kuq.Ensemble(kuq.Normal(x, 0.5), member_ndim=2)
    return kuq.decompose(ensemble, "variance", levels=("model", "run"), **options)


def tops(ax):
    """The upper edge of every band, by its label, at the first input."""
    bands = zip(ax.get_legend().get_texts()[::-1], ax.collections, strict=True)
    return {text.get_text(): band.get_paths()[0].vertices[:, 1].max() for text, band in bands}


def test_bands_lie_on_top_of_each_other_in_order_of_the_inputs():
    u = found((6,), unbiased=False)
    ax = kuq.plot.partition(u, np.arange(6)[::-1], shares=False)
    assert list(tops(ax)) == ["noise", "model", "run"]
    np.testing.assert_allclose(tops(ax)["run"], u.total.max())
    assert ax.get_ylabel() == "uncertainty (target units^2)"
    line = ax.collections[-1].get_paths()[0].vertices
    np.testing.assert_allclose(line[line[:, 0] == 0, 1].max(), u.total[5])


def test_shares_end_at_a_hundred_percent_and_nothing_is_below_zero():
    u = found((6,))
    negative = u.mapped(lambda part: part)
    negative.components["run"][2] = -0.1
    ax = kuq.plot.partition(negative)
    np.testing.assert_allclose(tops(ax)["run"], 100.0)
    assert all((b.get_paths()[0].vertices[:, 1] >= 0).all() for b in ax.collections)


def test_datasets_bring_their_names_and_units():
    xr = pytest.importorskip("xarray")
    values = np.random.default_rng(1).normal(size=(2, 3, 5))
    data = xr.DataArray(
        values,
        dims=("model", "run", "time"),
        coords={"time": ("time", np.arange(5), {"units": "h"})},
        attrs={"units": "K"},
    )
    u = kuq.xarray.decompose(data, "crps", level_dims=("model", "run"))
    ax = kuq.plot.partition(u, shares=False)
    assert ax.get_xlabel() == "time (h)"
    assert ax.get_ylabel() == "uncertainty (K)"


def test_maps_of_a_level():
    u = found((5, 7))
    ax = kuq.plot.uncertainty_map(u, "model")
    assert ax.get_title() == "model"
    np.testing.assert_array_equal(ax.collections[0].get_array(), u["model"])
    with pytest.raises(kuq.ParameterError, match="total, noise, model, run; got 'epistemic'"):
        kuq.plot.uncertainty_map(u)


def test_what_has_no_levels_is_refused():
    plain = kuq.decompose(kuq.Ensemble(kuq.Normal(np.zeros((2, 3)), 1.0)), "crps")
    with pytest.raises(kuq.ParameterError, match="levels="):
        kuq.plot.partition(plain)
    with pytest.raises(kuq.ShapeError, match="1 axis"):
        kuq.plot.partition(found((5, 7)), np.arange(5))
