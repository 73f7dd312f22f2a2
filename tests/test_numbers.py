"""Numbers of every kind as arguments: whole ones of any library, huge ones, more than 64 bits."""

from fractions import Fraction

import numpy as np
import pytest

import kuq
from kuq import ParameterError

HUGE = 10**400
FIELDS = np.random.default_rng(0).normal(size=(4, 5, 6, 6))  # never drawn from again

#: What takes a whole number: (a call with it, a value that it may have)
WHOLE = {
    "event_ndim of Normal": (lambda n: kuq.Normal(FIELDS, 1.0, n), 2),
    "event_ndim of Point": (lambda n: kuq.Point(FIELDS, n), 2),
    "event_ndim of StudentT": (lambda n: kuq.StudentT(5.0, FIELDS, 1.0, n), 2),
    "event_ndim of NormalMixture": (lambda n: kuq.NormalMixture([1 / 6] * 6, FIELDS, 1.0, n), 1),
    "event_ndim of NormalInverseGamma": (
        lambda n: kuq.NormalInverseGamma(FIELDS, 1.0, 2.0, 1.0, n),
        2,
    ),
    "event_ndim of Samples": (lambda n: kuq.Samples(FIELDS, n), 2),
    "sample_axis": (lambda n: kuq.Samples(FIELDS, 1, n), 1),
    "event_ndim of median_bandwidth": (lambda n: kuq.median_bandwidth(FIELDS, n), 2),
    "draws": (lambda n: _drawn(draws=n, seed=0), 7),
    "seed": (lambda n: _drawn(draws=7, seed=n), 3),
    "patches": (lambda n: kuq.patches(kuq.Energy(), (6, 6), n, n), 3),
    "shape of patches": (lambda n: kuq.patches(kuq.Energy(), (n, n), 3), 6),
    "one axis of patches": (lambda n: kuq.patches(kuq.Energy(), n, 3), 6),
    "max_lag": (lambda n: kuq.variogram(max_lag=n, event_ndim=n), 2),
    "event_ndim of spectral": (lambda n: kuq.spectral(event_ndim=n), 2),
    "length": (lambda n: kuq.graph_walks(length=n), 3),
}


def _drawn(**options):
    law = kuq.Normal(FIELDS[0], 1.0, event_ndim=1)
    return kuq.entropy(law, kuq.Energy().on(np.abs), **options).tolist()


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("kind", [np.int64, np.int8, np.uint16, np.asarray])
def test_whole_numbers_of_numpy(name, kind):
    call, value = WHOLE[name]
    assert repr(call(kind(value))) == repr(call(value))


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("value", [True, np.True_, 2.0, np.float64(2.0), "2", None, [2.5]])
def test_other_things_are_no_whole_numbers(name, value):
    if value is None and name in ("draws", "seed", "sample_axis", "max_lag"):
        return  # has a meaning of its own
    with pytest.raises(kuq.KuqError):
        WHOLE[name][0](value)


def test_tensors_without_axes_are_whole_numbers():
    torch = pytest.importorskip("torch")
    assert repr(kuq.Normal(FIELDS, 1.0, torch.tensor(2))) == repr(kuq.Normal(FIELDS, 1.0, 2))
    with pytest.raises(ParameterError, match="event_ndim must be an integer ≥ 0"):
        kuq.Normal(FIELDS, 1.0, torch.tensor(True))


NETWORKS = {
    "n_members": lambda nn, n: nn.Network(nn.MLP((4,)), nn.NormalHead, (1,), n_members=n),
    "hidden_sizes": lambda nn, n: nn.MLP((n, n)),
    "modes": lambda nn, n: nn.FNO(modes=n, channels=n, layers=n),
    "max_epochs": lambda nn, n: nn.Training(max_epochs=n, batch_size=n, burn_in=n, patience=n),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_whole_numbers_of_networks(name):
    pytest.importorskip("torch")
    from kuq.nn.settings import Training

    class Parts:
        MLP, FNO, Network, NormalHead = kuq.nn.MLP, kuq.nn.FNO, kuq.nn.Network, kuq.nn.NormalHead

    Parts.Training = Training
    build = NETWORKS[name]
    assert repr(build(Parts, np.int64(2))).replace("np.int64(2)", "2") == repr(build(Parts, 2))
    with pytest.raises(ParameterError):
        build(Parts, True)


def test_models_of_numpy_integers_are_saved(tmp_path):
    pytest.importorskip("torch")
    x = np.random.default_rng(1).normal(size=(20, 1))
    two = np.int64(2)
    model = kuq.nn.Regressor("normal", n_members=two, max_epochs=two, batch_size=two, seed=two)
    model.fit(x, x[:, 0]).save(tmp_path / "model.kuq")
    loaded = kuq.nn.Regressor.load(tmp_path / "model.kuq")
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))


#: Calls with an integer that no float can hold, and what the message names.
TOO_LARGE = {
    "loc": (lambda: kuq.Normal(HUGE, 1.0), "loc"),
    "an entry of loc": (lambda: kuq.Normal([HUGE, 1], 1.0), "loc"),
    "negative": (lambda: kuq.Normal([1.5, -HUGE], 1.0), "loc"),
    "scale": (lambda: kuq.Normal(np.zeros(3), HUGE), "scale"),
    "outcome": (lambda: kuq.score(kuq.Normal(0.0, 1.0), HUGE, kuq.CRPS()), "y"),
    "member weights": (
        lambda: kuq.Ensemble(kuq.Point([0.0, 1.0]), weights=[HUGE, 1]),
        "weights",
    ),
    "event weights": (lambda: kuq.Energy(weights=[HUGE, 1]), "weights of Energy"),
    "bandwidth": (lambda: kuq.Gaussian(HUGE), "bandwidth of Gaussian"),
    "nu": (lambda: kuq.Matern(1.0, HUGE), "nu of Matern"),
    "beta": (lambda: kuq.Energy(HUGE), "beta of Energy"),
    "factor": (lambda: HUGE * kuq.Energy(), "factor"),
    "threshold": (lambda: kuq.tail(kuq.CRPS(), HUGE), "threshold"),
    "power": (lambda: kuq.variogram(HUGE), "power"),
    "values": (lambda: kuq.median_bandwidth([HUGE, 1, 2]), "values"),
    "rtol": (lambda: kuq.entropy(kuq.Normal(0.0, 1.0), kuq.CRPS(), rtol=HUGE), "rtol"),
    "draws": (lambda: _drawn(draws=HUGE, seed=0), "draws"),
    "event_ndim": (lambda: kuq.Normal(0.0, 1.0, HUGE), "event_ndim"),
    "sample_axis": (lambda: kuq.Samples(FIELDS, 1, HUGE), "sample_axis"),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_integers_beyond_floats(name):
    call, named = TOO_LARGE[name]
    with pytest.raises(kuq.KuqError, match=named) as raised:
        call()
    assert "400 digits" in str(raised.value)


def test_integers_beyond_floats_beside_tensors():
    torch = pytest.importorskip("torch")
    with pytest.raises(ParameterError, match="scale must fit into a float"):
        kuq.Normal(torch.zeros(2), HUGE)


def test_integers_beyond_64_bits():
    """A float holds them: 2^70 exactly."""
    assert kuq.Point([2**70, 1]).value.tolist() == [2.0**70, 1.0]
    assert float(kuq.Point(2**70).value) == 2.0**70
    # No limit of memory can be meant by so many bytes.
    assert kuq.entropy(kuq.Normal(0.0, 1.0), kuq.CRPS(), max_memory=HUGE) > 0


def test_fractions_are_numbers():
    assert kuq.Gaussian(Fraction(1, 2)) == kuq.Gaussian(0.5)
    assert float(kuq.Point(Fraction(1, 4)).value) == 0.25


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long double has 64 bits here")
@pytest.mark.parametrize(
    "build",
    [
        lambda x: kuq.Normal(x, 1.0),
        lambda x: kuq.Samples(x),
        lambda x: kuq.Gaussian(np.abs(x) + 1),
        lambda x: kuq.score(kuq.Normal(np.zeros(3), 1.0), x, kuq.CRPS()),
    ],
)
def test_more_than_64_bits_are_refused(build):
    """Rounding them without a word would make members equal that are not."""
    with pytest.raises(
        ParameterError, match=r"64 bits at most; pass value.astype\(numpy.float64\)"
    ):
        build(np.arange(3, dtype=np.longdouble))


def test_bfloat16_of_numpy_is_refused():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    with pytest.raises(
        ParameterError, match=r"loc .* bfloat16; pass value.astype\(numpy.float32\)"
    ):
        kuq.Normal(np.ones(3, bfloat16), 1.0)
