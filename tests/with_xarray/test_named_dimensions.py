"""kuq.xarray gives the numbers of kuq, whatever the order of dimensions."""

import numpy as np
import pytest
import xarray as xr

import kuq
from kuq._compiled import by_work_alone

M, T, N, LAT, LON, K = 4, 3, 5, 2, 6, 7


def named(*dims, seed=2):
    sizes = {"member": M, "time": T, "sample": N, "lat": LAT, "lon": LON, "component": K, "rank": 2}
    return xr.DataArray(
        np.random.default_rng(seed).normal(size=[sizes[d] for d in dims]), dims=dims
    )


def positive(*dims, seed=3):
    return np.exp(named(*dims, seed=seed))


FIELD = ("member", "time", "lat", "lon")
MIXING = positive(*FIELD, "component")
MIXING = MIXING / MIXING.sum("component")

#: Data, and the plain prediction with axes (member, time, lat, lon), for event dims (lat, lon).
CASES = {
    "draws": (
        named("member", "time", "sample", "lat", "lon"),
        lambda d: kuq.Ensemble(kuq.Samples(d.values, 2)),
    ),
    "points": (named(*FIELD), lambda d: kuq.Ensemble(kuq.Point(d.values, 2))),
    "normals": (
        xr.Dataset({"loc": named(*FIELD), "scale": positive(*FIELD)}),
        lambda d: kuq.Ensemble(kuq.Normal(d["loc"].values, d["scale"].values, 2)),
    ),
    "normals with one deviation per time": (
        xr.Dataset({"mean": named(*FIELD), "std": positive("time")}),
        lambda d: kuq.Ensemble(kuq.Normal(d["mean"].values, d["std"].values[:, None, None], 2)),
    ),
    "students": (
        xr.Dataset(
            {"df": positive(*FIELD, seed=4) + 3, "loc": named(*FIELD), "scale": positive(*FIELD)}
        ),
        lambda d: kuq.Ensemble(kuq.StudentT(d["df"].values, d["loc"].values, d["scale"].values, 2)),
    ),
    "mixtures": (
        xr.Dataset(
            {
                "weights": MIXING,
                "loc": named(*FIELD, "component"),
                "scale": positive(*FIELD, "component", seed=4),
            }
        ),
        lambda d: kuq.Ensemble(
            kuq.NormalMixture(d["weights"].values, d["loc"].values, d["scale"].values, 2)
        ),
    ),
    "evidential": (
        xr.Dataset(
            {
                "loc": named("time", "lat", "lon"),
                "nu": positive("time", "lat", "lon"),
                "alpha": positive("time", "lat", "lon", seed=4) + 2,
                "beta": positive("time", "lat", "lon", seed=5),
            }
        ),
        lambda d: kuq.NormalInverseGamma(
            d["loc"].values, d["nu"].values, d["alpha"].values, d["beta"].values, 2
        ),
    ),
}
SCORES = [kuq.CRPS(), kuq.CRPS(reduce=None), kuq.Gaussian(2.0), kuq.SquaredError()]


def check(found, expected, rtol=1e-12):
    table = expected.to_frame()  # what cannot be split is missing in it, too
    for key in ("total", "aleatoric", "epistemic"):
        wanted = table[key].to_numpy().reshape(expected.total.shape)
        np.testing.assert_allclose(found[key].values, wanted, rtol=rtol, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_equals_plain_arrays_in_any_order(name, score):
    data, plain = CASES[name]
    with by_work_alone():  # compiled code has a quadrature of its own for evidential laws
        expected = kuq.decompose(plain(data), score)
    event = ("lat", "lon")
    check(kuq.xarray.decompose(data, score, event_dims=event), expected)
    turned = data.transpose("lon", "time", ...)
    found = kuq.xarray.decompose(turned, score, event_dims=event)
    assert found.total.dims == (("time", "lat", "lon") if expected.total.ndim == 3 else ("time",))
    assert found.attrs["method"] == expected.method
    check(found, expected)


def test_low_rank_normals():
    data = xr.Dataset(
        {
            "loc": named("member", "time", "lon"),
            "factor": named("member", "time", "lon", "rank", seed=4),
            "diag": positive("lon"),
        }
    )
    found = kuq.xarray.decompose(
        data.transpose("rank", "lon", ...), kuq.Energy(), event_dims=["lon"]
    )
    plain = kuq.LowRankNormal(*(data[v].values for v in ("loc", "factor", "diag")))
    check(found, kuq.decompose(kuq.Ensemble(plain), kuq.Energy()))
    with pytest.raises(kuq.ShapeError, match="one event dimension"):
        kuq.xarray.decompose(data, kuq.Energy(), event_dims=["lon", "time"])


def test_scalar_outcomes_keep_every_other_dimension():
    data = named("sample", "lat", "member", "time")
    found = kuq.xarray.decompose(data, kuq.Energy())
    plain = data.transpose("member", "lat", "time", "sample").values
    assert found.total.dims == ("lat", "time")
    check(found, kuq.decompose(kuq.Ensemble(kuq.Samples(plain)), kuq.Energy()))


@pytest.mark.parametrize("name", ["member", "realization", "number", "ensemble", "Realization"])
def test_usual_names_of_members_are_found(name):
    data = named("time", "member")
    expected = kuq.xarray.decompose(data, kuq.CRPS(), member_dim="member")
    found = kuq.xarray.decompose(data.rename(member=name), kuq.CRPS())
    xr.testing.assert_identical(found, expected)


def test_options_reach_the_core():
    data = named("member", "time", "sample")
    plain = kuq.Ensemble(kuq.Samples(data.values), weights=[1.0, 2.0, 3.0, 4.0])
    options = {"estimator": "bma", "unbiased": False}
    weights = xr.DataArray([4.0, 3.0, 2.0, 1.0], coords={"member": [3, 2, 1, 0]}, dims="member")
    labelled = data.assign_coords(member=[0, 1, 2, 3])
    found = kuq.xarray.decompose(labelled, kuq.CRPS(), member_weights=weights, **options)
    check(found, kuq.decompose(plain, kuq.CRPS(), **options))
    assert (found.attrs["estimator"], found.attrs["unbiased"]) == ("bma", "False")
    mixture = xr.Dataset({"weights": MIXING, "loc": MIXING, "scale": MIXING}).isel(lat=0, lon=0)
    options = {"draws": 50, "seed": 3}
    plain = kuq.Ensemble(kuq.NormalMixture(*[mixture["loc"].values] * 3))
    found = kuq.xarray.decompose(mixture, kuq.Energy().on(np.abs), **options)
    check(found, kuq.decompose(plain, kuq.Energy().on(np.abs), **options))
    assert found.attrs["method"] == "monte-carlo"


def test_coordinates_units_and_attributes_are_kept():
    data = named("member", "time", "sample").assign_coords(
        time=[10, 20, 30], member=list("abcd"), run=7, season=("time", list("xyz"))
    )
    data.attrs = {"units": "m s-1", "long_name": "wind", "source": "model"}
    data.time.attrs["units"], data.season.attrs["kind"] = "hours since 2020-01-01", "letter"
    found = kuq.xarray.decompose(data, kuq.SquaredError())
    assert found.time.attrs == {"units": "hours since 2020-01-01"}
    assert found.season.attrs == found.total.season.attrs == {"kind": "letter"}
    assert set(found.coords) == {"time", "run", "season"}
    assert found.attrs["source"] == "model"
    assert found.attrs["score"] == "SquaredError()"
    assert "long_name" not in found.attrs
    assert found.total.attrs == {"long_name": "total uncertainty", "units": "(m s-1)^2"}
    for score, units in [(kuq.CRPS(), "m s-1"), (kuq.Gaussian(1.0), "1")]:
        assert kuq.xarray.decompose(data, score).epistemic.attrs["units"] == units
    bare = kuq.xarray.decompose(named("member", "time"), kuq.CRPS())
    assert bare.total.attrs["units"] == "target units"


def test_single_precision_stays():
    data = named("member", "time", "sample").astype(np.float32)
    found = kuq.xarray.decompose(data, kuq.CRPS())
    assert found.total.dtype == np.float32
    counts = xr.DataArray(np.arange(12).reshape(4, 3), dims=("member", "time"))
    assert kuq.xarray.decompose(counts, kuq.CRPS()).total.dtype == np.float64


@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_entropy_divergence_and_score(score):
    event = {"event_dims": ("lat", "lon")}
    draws, make_draws = CASES["draws"]
    normals, make_normals = CASES["normals"]
    p, q = make_draws(draws), make_normals(normals)
    y = named("lon", "time", "lat", seed=6)
    plain_y = y.transpose("time", "lat", "lon").values
    pairs = [
        (kuq.xarray.entropy(draws, score, **event), kuq.entropy(p, score)),
        (kuq.xarray.divergence(draws, normals, score, **event), kuq.divergence(p, q, score)),
        (kuq.xarray.score(normals, y, score, **event), kuq.score(q, plain_y, score)),
    ]
    for found, expected in pairs:
        np.testing.assert_allclose(found.values, expected, rtol=1e-12, atol=1e-14)
        assert found.attrs["score"] == repr(score)


def test_predictions_with_different_members_are_compared():
    p, q = named("member", "time"), named("member", "time", seed=3).isel(member=slice(2))
    found = kuq.xarray.divergence(p.assign_coords(member=range(4)), q, kuq.CRPS())
    plain = [kuq.Ensemble(kuq.Point(x.values)) for x in (p, q)]
    np.testing.assert_allclose(found, kuq.divergence(*plain, kuq.CRPS()), rtol=1e-12)


def test_members_can_be_kept_apart():
    data = named("time", "member", "sample")
    found = kuq.xarray.entropy(data, kuq.CRPS(), member_dim=None)
    assert found.dims == ("time", "member")
    np.testing.assert_allclose(found, kuq.entropy(kuq.Samples(data.values), kuq.CRPS()))
    y = named("time", seed=3)
    one = kuq.xarray.score(data, y, kuq.CRPS(), member_dim=None)
    assert one.dims == ("time", "member")
    fair = kuq.xarray.score(named("time", "member"), y, kuq.CRPS(), None, "member")
    assert fair.dims == ("time",)


def test_outcomes_may_have_dimensions_of_their_own():
    p, y = named("member", "time"), named("lat", "time", seed=3)
    found = kuq.xarray.score(p, y, kuq.CRPS())
    for k in range(LAT):
        one = kuq.score(kuq.Ensemble(kuq.Point(p.values)), y.values[k], kuq.CRPS())
        np.testing.assert_allclose(found.isel(lat=k).transpose("time"), one, rtol=1e-13)


@pytest.mark.parametrize("score", [kuq.Energy(), kuq.CRPS(reduce=None)], ids=repr)
def test_member_divergences(score):
    data = named("lat", "time", "member", "sample").assign_coords(member=list("abcd"))
    found = kuq.xarray.member_divergences(data, score, event_dims=["lat"])
    plain = data.transpose("member", "time", "sample", "lat").values
    expected = kuq.member_divergences(kuq.Ensemble(kuq.Samples(plain, 1)), score)
    assert found.dims[:2] == ("member", "other_member")
    np.testing.assert_allclose(found.values, expected, rtol=1e-12, atol=1e-14)
    labelled = found.sel(member="a", other_member="c").values
    np.testing.assert_allclose(labelled, expected[0, 2], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: x.decompose(named("time"), kuq.CRPS()), kuq.ShapeError, "no member dimension"),
        (
            lambda x: x.decompose(named("member", "time").rename(time="number"), kuq.CRPS()),
            kuq.ShapeError,
            "may all be",
        ),
        (lambda x: x.decompose(named("member"), kuq.CRPS(), "x"), kuq.ShapeError, "'x' is not"),
        (
            lambda x: x.decompose(named("member"), kuq.CRPS(), event_dims=["lat"]),
            kuq.ShapeError,
            "event dimension 'lat'",
        ),
        (
            lambda x: x.decompose(named("member"), kuq.CRPS(), event_dims=["member"]),
            kuq.ShapeError,
            "one role",
        ),
        (lambda x: x.decompose(np.zeros(3), kuq.CRPS()), kuq.ParameterError, "DataArray"),
        (lambda x: x.decompose(named("member"), "crsp"), kuq.ParameterError, "one of crps"),
        (
            lambda x: x.decompose(named("time").to_dataset(name="t2m"), kuq.CRPS()),
            kuq.ParameterError,
            "dataset\\[name\\]",
        ),
        (
            lambda x: x.decompose(named("member"), kuq.CRPS(), color="red"),
            kuq.ParameterError,
            "unknown options",
        ),
        (
            lambda x: x.decompose(named("member"), kuq.CRPS(), nan_policy="drop"),
            kuq.ParameterError,
            "nan_policy",
        ),
        (
            lambda x: x.decompose(named("member").isel(member=[0]), kuq.CRPS()),
            kuq.InsufficientDataError,
            "two members",
        ),
        (
            lambda x: x.decompose(CASES["mixtures"][0].rename(component="k"), kuq.CRPS()),
            kuq.ShapeError,
            "component_dim",
        ),
        (
            lambda x: x.score(named("member", "time"), named("member", seed=3), kuq.CRPS()),
            kuq.ShapeError,
            "must not have",
        ),
        (
            lambda x: x.score(
                named("member", "lat"), named("time"), kuq.CRPS(), event_dims=["lat"]
            ),
            kuq.ShapeError,
            "lacks",
        ),
        (
            lambda x: x.decompose(named("member", "time"), kuq.Gaussian(np.ones(3))),
            kuq.ParameterError,
            "bandwidth for every entry",
        ),
        (
            lambda x: x.decompose(named("member").astype(str), kuq.CRPS()),
            kuq.ParameterError,
            "real numbers",
        ),
    ],
)
def test_wrong_use_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call(kuq.xarray)


def test_draws_have_the_same_name_in_every_measure():
    rng = np.random.default_rng(5)
    runs = xr.DataArray(rng.normal(size=(3, 6, 4)), dims=("model", "number", "time"))
    observed = xr.DataArray(rng.normal(size=4), dims="time")
    names = {"member_dim": "model", "draws_dim": "number"}
    other = {"member_dim": "model", "sample_dim": "number"}
    for measure, operands in (
        (kuq.xarray.entropy, (runs,)),
        (kuq.xarray.divergence, (runs, runs + 1.0)),
        (kuq.xarray.score, (runs, observed)),
        (kuq.xarray.member_divergences, (runs,)),
    ):
        found = measure(*operands, kuq.CRPS(), **names)
        xr.testing.assert_identical(found, measure(*operands, kuq.CRPS(), **other))


def test_entropy_by_directions():
    """decompose had directions, and entropy had not."""
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(2, 1500, 3))
    data = xr.DataArray(draws, dims=("time", "draw", "place"))
    options = {"event_dims": ["place"], "directions": 40, "seed": 1}
    found = kuq.xarray.entropy(data, kuq.Energy(), **options)
    expected = kuq.entropy(kuq.Samples(draws, 1), kuq.Energy(), directions=40, seed=1)
    assert expected.method == "sliced"
    np.testing.assert_allclose(found.entropy, expected.value, rtol=1e-12)
    np.testing.assert_allclose(found.entropy_standard_error, expected.standard_error, rtol=1e-12)
    assert found.entropy.attrs["units"] == "target units"
    xr.testing.assert_identical(found, data.kuq.entropy(kuq.Energy(), **options))


def test_a_dimension_under_two_names_makes_no_table_of_all_with_all():
    """Every latitude of the forecast met every latitude of the observation, without a word."""
    rng = np.random.default_rng(30)
    p = xr.DataArray(rng.normal(size=(3, 4, 5)), dims=("number", "time", "lat"))
    y = p.mean("number")
    with pytest.raises(kuq.ShapeError, match=r"\['lat'\] and \['latitude'\].*rename"):
        kuq.xarray.score(p, y.rename(lat="latitude"), kuq.CRPS())
    with pytest.raises(kuq.ShapeError, match=r"\['lat'\] and \['latitude'\].*rename"):
        kuq.xarray.divergence(p, p.rename(lat="latitude"), kuq.CRPS())
    by_source = kuq.xarray.score(p, y.expand_dims(source=2), kuq.CRPS())
    assert by_source.sizes == {"time": 4, "lat": 5, "source": 2}


def test_one_event_dimension_may_stand_alone():
    p = xr.DataArray(
        np.random.default_rng(31).normal(size=(3, 4, 5)), dims=("number", "time", "lat")
    )
    alone = kuq.xarray.decompose(p, kuq.Energy(), event_dims="lat")
    listed = kuq.xarray.decompose(p, kuq.Energy(), event_dims=("lat",))
    xr.testing.assert_identical(alone, listed)
