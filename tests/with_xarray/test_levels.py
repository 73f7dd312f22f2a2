"""Runs of models with named dimensions: what is a member, what a draw, and what is not known."""

import numpy as np
import pytest

import kuq
from kuq.cli import main

xr = pytest.importorskip("xarray")
POINTS = "spread of the members; their own noise is unknown"


def runs(*dims, seed=0):
    """GloSea4 has 13 runs of one model; here also of several models."""
    sizes = {"model": 3, "number": 13, "time": 4, "lat": 2, "sample": 5}
    values = np.random.default_rng(seed).normal(280.0, 2.0, size=[sizes[dim] for dim in dims])
    return xr.DataArray(values, dims=dims, attrs={"units": "K"})


def test_runs_of_one_model_are_a_spread():
    data = runs("number", "time", "lat")
    u = kuq.xarray.decompose(data, kuq.CRPS())
    assert u.attrs["note"] == POINTS
    x = data.values
    pairs = np.abs(x[:, None] - x[None]).sum(axis=(0, 1)) / (13 * 12)
    np.testing.assert_allclose(u.total.values, pairs, rtol=1e-12)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    ("dims", "options", "command", "unknown"),
    [
        (["number"], {}, [], ["aleatoric", "epistemic"]),
        (["number"], {"draws_dim": "number"}, ["--draws", "number"], ["aleatoric", "epistemic"]),
        (["model", "number"], {"level_dims": ("model", "number")}, ["--levels", "model,number"],
         ["noise"]),
    ],
)  # fmt: skip
def test_what_is_unknown_is_missing_as_in_files(tmp_path, lazy, dims, options, command, unknown):
    """In results of kuq.xarray it was zero, in files missing."""
    pytest.importorskip("dask")
    data = runs(*dims, "time", "lat").rename("t2m")
    data.to_netcdf(tmp_path / "runs.nc")
    u = kuq.xarray.decompose(data.chunk(time=2) if lazy else data, "crps", **options)
    assert (u.total.chunks is not None) == lazy
    for part in unknown:
        assert np.isnan(u[part].values).all()
        assert "unknown" in u[part].attrs["long_name"]
    assert main(["decompose", str(tmp_path / "runs.nc"), *command]) == 0
    with xr.open_dataset(tmp_path / "runs-uncertainty.nc") as written:
        assert list(written.data_vars) == list(u.data_vars)
        xr.testing.assert_allclose(written.load(), u.compute(), rtol=1e-12)


def test_members_with_draws_have_no_note():
    assert "note" not in kuq.xarray.decompose(runs("number", "time", "sample"), kuq.CRPS()).attrs
    loc = runs("number", "time")
    normals = xr.Dataset({"loc": loc, "scale": 0 * loc + 1.0})
    assert "note" not in kuq.xarray.decompose(normals, kuq.CRPS()).attrs


def test_draws_of_one_model_have_a_total_only():
    data = runs("number", "time", "lat")
    u = kuq.xarray.decompose(data, kuq.CRPS(), draws_dim="number")
    assert "one model" in u.attrs["note"]
    assert u.total.attrs["units"] == "K"
    x = data.values
    pairs = np.abs(x[:, None] - x[None]).sum(axis=(0, 1)) / (13 * 12)
    np.testing.assert_allclose(u.total.values, pairs / 2, rtol=1e-12)


@pytest.mark.parametrize("dims", [("model", "number", "time"), ("time", "number", "model")])
def test_models_and_runs_are_asked_for(dims):
    data = runs(*dims)
    with pytest.raises(kuq.ShapeError) as error:
        kuq.xarray.decompose(data, kuq.CRPS())
    assert "member_dim='model', draws_dim='number'" in str(error.value)
    assert "member_dim='number'" in str(error.value)
    with pytest.raises(kuq.ShapeError, match="draws_dim='number'"):
        kuq.xarray.score(data, data.isel(model=0, number=0, drop=True), kuq.CRPS())


def test_models_are_members_and_runs_their_draws():
    data = runs("model", "number", "time")
    by_hand = kuq.decompose(kuq.Ensemble(kuq.Samples(data.values, sample_axis=1)), kuq.CRPS())
    for options in ({"draws_dim": "number"}, {"draws_dim": "number", "member_dim": "model"}):
        u = kuq.xarray.decompose(data, kuq.CRPS(), **options)
        np.testing.assert_allclose(u.epistemic.values, by_hand.epistemic, rtol=1e-10, atol=1e-12)
        assert "note" not in u.attrs
    each = kuq.xarray.decompose(data, kuq.CRPS(), member_dim="number")
    assert set(each.total.dims) == {"model", "time"}
    assert each.attrs["note"] == POINTS


def test_models_alone_are_members():
    assert kuq.xarray.decompose(runs("model", "time"), kuq.CRPS()).total.dims == ("time",)


def test_contradictions_are_refused():
    data = runs("model", "number", "sample")
    with pytest.raises(kuq.ParameterError, match="give one of them"):
        kuq.xarray.decompose(data, kuq.CRPS(), sample_dim="sample", draws_dim="number")
    with pytest.raises(kuq.ShapeError, match="not a dimension"):
        kuq.xarray.decompose(data, kuq.CRPS(), draws_dim="draw")
    loc = runs("number", "time")
    with pytest.raises(kuq.ParameterError, match=r"pass one variable"):
        kuq.xarray.decompose(
            xr.Dataset({"loc": loc, "scale": abs(loc)}), kuq.CRPS(), draws_dim="number"
        )


def test_lazily_on_dask():
    pytest.importorskip("dask")
    data = runs("number", "time", "lat")
    lazy = kuq.xarray.decompose(data.chunk(time=2), kuq.CRPS(), draws_dim="number")
    assert lazy.total.chunks is not None
    eager = kuq.xarray.decompose(data, kuq.CRPS(), draws_dim="number")
    np.testing.assert_allclose(lazy.total.compute(), eager.total, rtol=1e-12)


# --- data.kuq ------------------------------------------------------------------------------------


def test_methods_are_the_functions():
    data, other = runs("number", "time", "lat"), runs("number", "time", "lat", seed=1)
    outcome = other.isel(number=0, drop=True)
    crps = kuq.CRPS()
    pairs = [
        (data.kuq.decompose("crps"), kuq.xarray.decompose(data, crps)),
        (data.kuq.decompose("variance"), kuq.xarray.decompose(data, "variance")),
        (data.kuq.entropy(crps), kuq.xarray.entropy(data, crps)),
        (data.kuq.divergence(other, "crps"), kuq.xarray.divergence(data, other, crps)),
        (data.kuq.score(outcome, "crps"), kuq.xarray.score(data, outcome, crps)),
        (data.kuq.member_divergences("crps"), kuq.xarray.member_divergences(data, crps)),
        (
            data.kuq.decompose("gaussian:0.5", event_dims=("lat",)),
            kuq.xarray.decompose(data, kuq.Gaussian(0.5), event_dims=("lat",)),
        ),
    ]
    for found, expected in pairs:
        xr.testing.assert_identical(found, expected)
    normals = xr.Dataset({"loc": data, "scale": 0 * data + 1.0})
    xr.testing.assert_identical(normals.kuq.decompose("crps"), kuq.xarray.decompose(normals, crps))


def test_unknown_names_are_refused():
    with pytest.raises(kuq.ParameterError, match="crps, energy"):
        runs("number", "time").kuq.decompose("crsp")
