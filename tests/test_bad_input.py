"""Bad input gives a typed error that says what was expected, what came and what to do."""

import re

import numpy as np
import pytest
from libraries import CASES, opened

import kuq
from kuq import (
    InsufficientDataError,
    NoClosedFormError,
    ParameterError,
    ShapeError,
)

ZERO = kuq.Normal(0.0, 1.0)
FIVE = kuq.Normal(np.zeros(5), 1.0)
PLANE = kuq.Normal(np.zeros((5, 2)), 1.0, event_ndim=1)
TWO = kuq.Ensemble(kuq.Normal([[0.0], [1.0]], 1.0))
THREE = kuq.Ensemble(kuq.Normal(np.zeros((3, 2)), 1.0))
DRAWS = kuq.Samples([[0.0, 1.0, 3.0]])
CRPS = kuq.CRPS()
NAN, INF = np.nan, np.inf
MASKED = np.ma.masked_array([0.0, 1.0], mask=[False, True])
half = [0.5, 0.5]


def squash(x):
    return x[..., 0]


class Own(kuq.Kernel):
    """A kernel known by its values only."""

    def __call__(self, x, y):
        return np.abs(x - y).sum(axis=-1)


#: name: (what the user does, the error, fragments that its message has to contain)
LAWS = {
    "negative scale": (lambda: kuq.Normal(0.0, -1.0), ParameterError,
        "scale of Normal", "≥ 0", "got -1", "standard deviation"),
    "negative scale inside": (lambda: kuq.Normal(0.0, [[1.0, 1.0], [1.0, -2.0]]), ParameterError,
        "scale", "got -2", r"index \(1, 1\)"),
    "parameters that do not broadcast": (lambda: kuq.Normal(np.zeros(3), np.ones(2)), ShapeError,
        "broadcast", r"loc \(3,\)", r"scale \(2,\)",
        "(reshape|axes|axis)"),
    "complex": (lambda: kuq.Normal(1j, 1.0), ParameterError, "loc", "real", "complex"),
    "complex array": (lambda: kuq.Point(np.zeros(2, complex)), ParameterError,
        "value", "real", "complex"),
    "text": (lambda: kuq.Normal("a", 1.0), ParameterError, "loc", "numbers", "got"),
    "array of text": (lambda: kuq.Normal(np.asarray(["a", "b"]), 1.0), ParameterError,
        "loc", "real numbers", "<U"),
    "dates": (lambda: kuq.Point(np.asarray(["2020-01-01"], "datetime64[D]")), ParameterError,
        "value", "real numbers", "datetime"),
    "periods": (lambda: kuq.Point(np.asarray([3], "timedelta64[s]")), ParameterError,
        "value", "real numbers", "timedelta"),
    "records": (lambda: kuq.Point(np.zeros(2, [("a", float)])), ParameterError, "value", "numbers"),
    "nothing": (lambda: kuq.Normal(None, 1.0), ParameterError, "loc", "NoneType"),
    "a dictionary": (lambda: kuq.Normal({"loc": 0}, 1.0), ParameterError, "loc", "dict"),
    "a generator": (lambda: kuq.Point(i for i in range(3)), ParameterError, "value", "generator"),
    "objects": (lambda: kuq.Point(np.asarray([object()])), ParameterError, "value", "real numbers",
        "object"),
    "ragged": (lambda: kuq.Normal([[0.0], [1.0, 2.0]], 1.0), ShapeError, "loc", "regular"),
    "masked": (lambda: kuq.Normal(MASKED, 1.0), ParameterError, "masked", r"filled\(numpy.nan\)",
        "omit"),
    "a distribution as parameter": (lambda: kuq.Normal(ZERO, 1.0), ParameterError, "loc", "Normal"),
    "event_ndim too large": (lambda: kuq.Normal(np.zeros(3), 1.0, event_ndim=2), ShapeError,
        "event_ndim=2", r"\(3,\)", "lower event_ndim"),
    "event_ndim negative": (lambda: kuq.Normal(0.0, 1.0, event_ndim=-1), ParameterError,
        "event_ndim", "≥ 0", "got -1"),
    "event_ndim not whole": (lambda: kuq.Point(np.zeros(3), event_ndim=1.0), ParameterError,
        "event_ndim", "integer", r"1\.0"),
    "event_ndim True": (lambda: kuq.Point(np.zeros(3), event_ndim=True), ParameterError,
        "event_ndim", "integer", "True"),
    "empty event": (lambda: kuq.Normal(np.zeros((3, 0)), 1.0, event_ndim=1), ShapeError,
        "event", "empty", r"\(0,\)"),
    "mixture of negative weights": (lambda: kuq.NormalMixture([1.5, -0.5], [0, 1], 1),
        ParameterError, "weights", "≥ 0", r"got -0\.5", "not logits"),
    "mixture weights that do not sum": (lambda: kuq.NormalMixture([0.5, 0.4], [0, 1], 1),
        ParameterError, "sum", "one", r"got 0\.9", "normalise", "softmax"),
    "mixture weights just off": (lambda: kuq.NormalMixture([0.5, 0.50001], [0, 1], 1.0),
        ParameterError, "sum", "one", "normalise"),
    "logits": (lambda: kuq.NormalMixture([2.0, 0.3], [0, 1], 1.0), ParameterError, "softmax"),
    "mixture without components": (lambda: kuq.NormalMixture(1.0, 0.0, 1.0), ShapeError,
        "component axis", r"\(\)"),
    "mixture of no components": (lambda: kuq.NormalMixture(*np.ones((3, 2, 0))), ShapeError,
        "component axis", r"\(2, 0\)"),
    "mixture of negative scale": (lambda: kuq.NormalMixture(half, [0, 1], -1.0), ParameterError,
        "scale", "≥ 0", "got -1", "standard deviation"),
    "mixture with event instead of components": (
        lambda: kuq.NormalMixture(half, [0, 1], 1.0, event_ndim=1), ShapeError,
        "event_ndim=1", r"\(\)"),
    "negative variances": (lambda: kuq.LowRankNormal([0, 0], np.ones((2, 1)), [1, -1]),
        ParameterError, "diag", "≥ 0", "got -1", "variances"),
    "factor of another dimension": (lambda: kuq.LowRankNormal([0, 0], np.ones((3, 1)), [1, 1]),
        ShapeError, r"factor \(…, d, r\)", r"\(3, 1\)"),
    "factor transposed": (lambda: kuq.LowRankNormal(np.zeros(4), np.ones((2, 4)), np.ones(4)),
        ShapeError, r"factor \(…, d, r\)", r"\(2, 4\)"),
    "factor as a vector": (lambda: kuq.LowRankNormal([0, 0], np.ones(2), [1, 1]), ShapeError,
        r"factor \(…, d, r\)", r"\(2,\)"),
    "scalar low rank": (lambda: kuq.LowRankNormal(0.0, [[1.0]], 1.0), ShapeError, r"loc \(…, d\)"),
    "low rank without dimensions": (
        lambda: kuq.LowRankNormal(np.zeros(0), np.ones((0, 1)), np.ones(0)), ShapeError, "d"),
    "low rank batches": (lambda: kuq.LowRankNormal(np.zeros((3, 2)), np.ones((4, 2, 1)), [1, 1]),
        ShapeError, "batch", "broadcast", r"\(4, 2, 1\)"),
    "no degrees of freedom": (lambda: kuq.StudentT(0.0, 0.0, 1.0), ParameterError,
        "df of StudentT", "positive", "got 0"),
    "negative Student scale": (lambda: kuq.StudentT(3.0, 0.0, -1.0), ParameterError,
        "scale of StudentT", "≥ 0", "got -1"),
    "nu of zero": (lambda: kuq.NormalInverseGamma(0.0, 0.0, 2.0, 1.0), ParameterError,
        "nu", "positive", "got 0"),
    "alpha of zero": (lambda: kuq.NormalInverseGamma(0.0, 1.0, 0.0, 1.0), ParameterError,
        "alpha", "positive", "got 0"),
    "negative beta": (lambda: kuq.NormalInverseGamma(0.0, 1.0, 2.0, -1.0), ParameterError,
        "beta", "positive", "got -1"),
    "evidential shapes": (lambda: kuq.NormalInverseGamma(np.zeros(3), np.ones(2), 2.0, 1.0),
        ShapeError, "broadcast", r"loc \(3,\)", r"nu \(2,\)"),
    "draws without an axis": (lambda: kuq.Samples(3.0), ShapeError, "draw axis", r"\(\)"),
    "no draws": (lambda: kuq.Samples(np.zeros((3, 0))), ShapeError,
        "at least one draw", r"\(3, 0\)"),
    "draws without an axis before the event": (lambda: kuq.Samples(np.zeros(3), event_ndim=1),
        ShapeError, "event_ndim=1", "draw axis", r"\(3,\)"),
    "sample axis out of range": (lambda: kuq.Samples(np.zeros((3, 2)), sample_axis=2), ShapeError,
        "sample_axis=2", r"\(3, 2\)",
        "-2", "1"),
    "sample axis far negative": (lambda: kuq.Samples(np.zeros((3, 2)), sample_axis=-3), ShapeError,
        "sample_axis=-3", r"\(3, 2\)"),
    "sample axis not whole": (lambda: kuq.Samples(np.zeros((3, 2)), sample_axis=1.0),
        ParameterError, "sample_axis", "integer", r"1\.0"),
    "unknown policy": (lambda: kuq.Samples([0.0], nan_policy="drop"), ParameterError,
        "nan_policy", "raise", "propagate", "omit", "'drop'"),
    "NaN draws": (lambda: kuq.Samples([[0.0, NAN]]), ParameterError,
        "NaN", r"index \(0, 1\)", "omit", "propagate"),
    "infinite draws": (lambda: kuq.Samples([0.0, INF]), ParameterError, "finite", "got inf",
        "(remove|impute|NaN)"),
    "infinite draws beside omit": (lambda: kuq.Samples([0.0, -INF], nan_policy="omit"),
        ParameterError, "finite", "got -inf",
        "(remove|impute|NaN)"),
    "infinite draws beside propagate": (lambda: kuq.Samples([0.0, INF], nan_policy="propagate"),
        ParameterError, "finite", "got inf",
        "(remove|impute|NaN)"),
    "negative draw weights": (lambda: kuq.Samples([0.0, 1.0], weights=[2.0, -1.0]), ParameterError,
        "weights of Samples", "≥ 0", "got -1"),
    "draw weights of zero": (lambda: kuq.Samples([0.0, 1.0], weights=[0.0, 0.0]), ParameterError,
        "sum", "weights of Samples", "positive", "got 0"),
    "draw weights of another shape": (lambda: kuq.Samples(np.zeros((5, 3)), weights=np.ones(5)),
        ShapeError, r"\(3,\)", r"\(5, 3\)", r"got \(5,\)"),
    "NaN draw weights": (lambda: kuq.Samples([0.0, 1.0], weights=[1.0, NAN]), ParameterError,
        "weights of Samples", "finite", "got nan"),
    "infinite draw weights": (lambda: kuq.Samples([0.0, 1.0], weights=[1.0, INF]), ParameterError,
        "weights of Samples", "finite", "got inf"),
}  # fmt: skip

ENSEMBLES = {
    "members without a member axis": (lambda: kuq.Ensemble(ZERO), ShapeError,
        "member axis", r"batch=\(\)", "list of distributions"),
    "draws that look like members": (lambda: kuq.Ensemble(kuq.Samples([0.0, 1.0])), ShapeError,
        "member axis", "N=2", "list of distributions"),
    "no members": (lambda: kuq.Ensemble([]), ShapeError, "at least one member",
        "got"),
    "an empty member axis": (lambda: kuq.Ensemble(kuq.Normal(np.zeros((0, 3)), 1.0)), ShapeError,
        "at least one member"),
    "arrays as members": (lambda: kuq.Ensemble(np.zeros((3, 2))), ParameterError,
        "distribution", "ndarray",
        "(Samples|Point|Normal)"),
    "arrays in the list": (lambda: kuq.Ensemble([ZERO, np.zeros(3)]), ParameterError,
        "distribution", "ndarray",
        "(Samples|Point|Normal)"),
    "member axes of a list": (lambda: kuq.Ensemble([ZERO, ZERO], member_ndim=2), ParameterError,
        "member_ndim is for arrays", "Ensembles"),
    "an ensemble beside a law": (lambda: kuq.Ensemble([TWO, ZERO]), ShapeError,
        "as many levels", "Normal", r"Ensemble\(\[member\]\)"),
    "an evidential law as members": (lambda: kuq.Ensemble(kuq.NormalInverseGamma([0.0], 1, 2, 1)),
        ParameterError, "distribution", "NormalInverseGamma"),
    "batches that differ": (lambda: kuq.Ensemble([FIVE, kuq.Normal(np.zeros(4), 1.0)]), ShapeError,
        "batch", r"batch=\(5,\)", "member 1", r"batch=\(4,\)"),
    "events that differ": (lambda: kuq.Ensemble([PLANE, kuq.Normal(np.zeros((5, 2)), 1.0)]),
        ShapeError, "event", r"event=\(2,\)", r"event=\(\)"),
    "weights of another shape": (lambda: kuq.Ensemble(THREE.members, weights=[1, 2]), ShapeError,
        r"\(3,\)", r"got \(2,\)"),
    "a weight for each input": (lambda: kuq.Ensemble(THREE.members, weights=np.ones((3, 2))),
        ShapeError, r"\(3,\)", r"got \(3, 2\)"),
    "negative weights": (lambda: kuq.Ensemble(THREE.members, weights=[1, 1, -1]), ParameterError,
        "weights of Ensemble", "≥ 0", "got -1"),
    "weights of zero": (lambda: kuq.Ensemble(THREE.members, weights=[0, 0, 0]), ParameterError,
        "sum", "positive", "got 0"),
    "NaN weights": (lambda: kuq.Ensemble(THREE.members, weights=[1, 1, NAN]), ParameterError,
        "weights of Ensemble", "finite", "got nan"),
}  # fmt: skip

WIDTHS = np.asarray([1.0, 2.0])
SCORES = {
    "beta of zero": (lambda: kuq.Energy(0.0), ParameterError, "beta", r"\(0, 2\)", r"got 0\.0"),
    "beta of two": (lambda: kuq.Energy(2), ParameterError, "beta", r"\(0, 2\)", "got 2",
        "SquaredError"),
    "negative beta": (lambda: kuq.Energy(-1.0), ParameterError, "beta", r"\(0, 2\)", r"got -1"),
    "beta NaN": (lambda: kuq.Energy(NAN), ParameterError, "beta", r"\(0, 2\)", "got nan"),
    "beta as text": (lambda: kuq.Energy("1"), ParameterError, "beta", "number", "str"),
    "beta True": (lambda: kuq.Energy(True), ParameterError, "beta", "number", "bool"),
    "no bandwidth": (lambda: kuq.Gaussian(None), ParameterError, "bandwidth", "NoneType", "median"),
    "unknown bandwidth": (lambda: kuq.Gaussian("mean"), ParameterError, "bandwidth", "median",
        "'mean'"),
    "bandwidth True": (lambda: kuq.Gaussian(True), ParameterError, "bandwidth", "bool"),
    "complex bandwidth": (lambda: kuq.Gaussian(np.asarray([1j])), ParameterError, "bandwidth"),
    "smoothness of zero": (lambda: kuq.Matern(1.0, 0.0), ParameterError, "nu", "got 0"),
    "infinite smoothness": (lambda: kuq.Matern(1.0, INF), ParameterError, "nu", "got inf"),
    "alpha of zero": (lambda: kuq.RationalQuadratic(1.0, 0.0), ParameterError, "alpha", "got 0"),
    "a zero in the bandwidths": (lambda: kuq.Gaussian(np.asarray([1.0, 0.0])), ParameterError,
        "bandwidth of Gaussian", "positive", "got 0", "index"),
    "a NaN in the bandwidths": (lambda: kuq.Laplace(np.asarray([1.0, NAN])), ParameterError,
        "bandwidth of Laplace", "positive", "got nan"),
    "bandwidths of another shape": (lambda: kuq.entropy(FIVE, kuq.Gaussian(WIDTHS)), ShapeError,
        "bandwidth", r"\(5,\)", r"got \(2,\)"),
    "bandwidths with a member axis": (
        lambda: kuq.decompose(THREE, kuq.Gaussian(np.ones((3, 2)))), ShapeError,
        "bandwidth", r"\(2,\)", r"got \(3, 2\)",
        "member"),
    "bandwidths over the event of a joint kernel": (
        lambda: kuq.entropy(PLANE, kuq.Gaussian(WIDTHS)), ShapeError,
        "bandwidth", r"batch shape \(5,\)", r"got \(2,\)"),
    "median of equal points": (
        lambda: kuq.decompose(kuq.Ensemble(kuq.Point([1.0, 1.0])), kuq.Gaussian("median")),
        ParameterError, "median", "0", "positive number", "median_bandwidth"),
    "median of infinite spread": (
        lambda: kuq.entropy(kuq.StudentT([1.5], 0.0, 1.0), kuq.Gaussian("median")),
        ParameterError, "median", "inf", "positive number"),
    "median without a prediction": (lambda: kuq.Gaussian("median")(np.zeros(1), np.ones(1)),
        ParameterError, "median", "prediction", "number"),
    "event weights of another shape": (lambda: kuq.entropy(PLANE, kuq.Energy(weights=np.ones(3))),
        ShapeError, "weights of Energy", r"\(2,\)", r"got \(3,\)"),
    "marginal weights of another shape": (lambda: kuq.entropy(PLANE, kuq.CRPS(weights=np.ones(5))),
        ShapeError, "weights", r"\(2,\)", r"got \(5,\)"),
    "event weights of a scalar": (lambda: kuq.entropy(FIVE, kuq.Energy(weights=np.ones(5))),
        ShapeError, "weights", r"\(\)", r"got \(5,\)"),
    "negative event weights": (lambda: kuq.Energy(weights=[1.0, -1.0]), ParameterError,
        "weights of Energy", "not negative", "got -1"),
    "NaN event weights": (lambda: kuq.Gaussian(1.0, weights=[1.0, NAN]), ParameterError,
        "weights of Gaussian", "finite", "got nan"),
    "event weights of zero": (lambda: kuq.SquaredError(weights=[0.0, 0.0]), ParameterError,
        "weights of SquaredError", "positive", "got 0"),
    "event weights of text": (lambda: kuq.Energy(weights=["a", "b"]), ParameterError, "weights"),
    "ragged event weights": (lambda: kuq.Energy(weights=[[1.0], [1.0, 2.0]]), ShapeError,
        "weights"),
    "event weights twice": (
        lambda: kuq.Marginal(kuq.Energy(weights=[1.0]), weights=[1.0]), ParameterError, "once"),
    "weights of a map": (lambda: kuq.CRPS(None, weights=[1.0, 2.0]), ParameterError,
        "reduce=None", '"mean" or "sum"'),
    "kernel plus a number": (lambda: CRPS + 1, ParameterError, "kernels", "int"),
    "a number plus a kernel": (lambda: 1 + CRPS, ParameterError, "kernels", "int"),
    "kernel plus nothing": (lambda: CRPS + None, ParameterError, "kernels", "NoneType"),
    "kernel plus a class": (lambda: CRPS + kuq.Energy, ParameterError, "kernels", "Energy"),
    "zero times a kernel": (lambda: 0 * CRPS, ParameterError, "factor", "positive", "got 0"),
    "minus a kernel": (lambda: -1 * CRPS, ParameterError, "factor", "positive", "got -1"),
    "NaN times a kernel": (lambda: NAN * CRPS, ParameterError, "factor", "positive", "got nan"),
    "infinity times a kernel": (lambda: INF * CRPS, ParameterError,
        "factor", "positive", "got inf"),
    "text times a kernel": (lambda: "2" * CRPS, ParameterError, "positive number", "str"),
    "True times a kernel": (lambda: True * CRPS, ParameterError, "positive number", "bool"),
    "a kernel times a kernel": (lambda: CRPS * CRPS, ParameterError, "positive number",
        "^(?!.*not a kernel)"),
    "an array times a kernel": (lambda: WIDTHS * CRPS, (ParameterError, TypeError), ""),
    "log score plus a kernel": (lambda: kuq.LogScore() + CRPS, ParameterError,
        "not a kernel", "CRPS", "each score"),
    "kernel plus the log score": (lambda: CRPS + kuq.LogScore(), ParameterError,
        "LogScore", "not a kernel"),
    "the log score in a sum": (lambda: sum([kuq.LogScore(), CRPS]), ParameterError, "not a kernel"),
    "twice the log score": (lambda: 2 * kuq.LogScore(), ParameterError, "not a kernel"),
    "a marginal marginal": (lambda: kuq.Marginal(CRPS), ParameterError, "one is enough"),
    "a marginal log score": (lambda: kuq.Marginal(kuq.LogScore()), ParameterError,
        "kernel", "LogScore"),
    "a marginal class": (lambda: kuq.Marginal(kuq.Energy), ParameterError, "kernel", "Energy"),
    "an unknown reduction": (lambda: kuq.CRPS("max"), ParameterError, "mean", "sum", "'max'"),
    "a transform that is none": (lambda: CRPS.on(3), ParameterError, "function", "3"),
    "a transform that drops the batch": (
        lambda: kuq.entropy(DRAWS, kuq.Energy().on(lambda x: x[0])), ShapeError,
        "keep the axes", r"\(1, 3\)", r"\(3,\)"),
    "a marginal transform that changes shapes": (
        lambda: kuq.entropy(kuq.Samples(np.zeros((4, 3, 2)), event_ndim=1),
                            kuq.Marginal(kuq.Energy().on(squash))), ShapeError,
        "keep the shape", r"\(4, 3, 2\)", r"\(4, 3\)"),
    "a transform that makes NaN": (
        lambda: kuq.entropy(DRAWS, kuq.Energy().on(lambda x: x * NAN)), ParameterError, "NaN"),
    "summands of different shapes": (
        lambda: kuq.entropy(PLANE, kuq.Energy() + kuq.CRPS(None)), ShapeError,
        "shapes", r"\(5,\)", r"\(5, 2\)", "same reduce"),
}  # fmt: skip

FUNCTIONS = {
    "decompose a law": (lambda: kuq.decompose(FIVE, CRPS), ParameterError,
        "second-order", "Normal", r"kuq\.Ensemble", r"kuq\.entropy"),
    "decompose an array": (lambda: kuq.decompose(np.zeros((3, 2)), CRPS), ParameterError,
        "Ensemble", "ndarray",
        "wrap"),
    "decompose a list": (lambda: kuq.decompose([ZERO, ZERO], CRPS), ParameterError,
        "Ensemble", "list",
        "wrap"),
    "decompose a class": (lambda: kuq.decompose(kuq.Ensemble, CRPS), ParameterError, "Ensemble"),
    "a score's class": (lambda: kuq.decompose(TWO, kuq.Energy), ParameterError,
        "score", "Energy", "instance"),
    "CRPS without parentheses": (lambda: kuq.decompose(TWO, kuq.CRPS), ParameterError,
        "score", r"CRPS\(\), not CRPS"),
    "a score's name": (lambda: kuq.decompose(TWO, "crsp"), ParameterError,
        "score", "crps", "'crsp'"),
    "no score": (lambda: kuq.decompose(TWO, None), ParameterError, "score", "None"),
    "arguments swapped": (lambda: kuq.decompose(CRPS, TWO), ParameterError, "score", "Ensemble"),
    "entropy of an array": (lambda: kuq.entropy(np.zeros(3), CRPS), ParameterError,
        "distribution", "ndarray", "Samples"),
    "entropy with a score's class": (lambda: kuq.entropy(ZERO, kuq.Gaussian), ParameterError,
        "instance"),
    "divergence from an array": (lambda: kuq.divergence(ZERO, np.zeros(3), CRPS), ParameterError,
        "distribution", "ndarray"),
    "divergence of events that differ": (
        lambda: kuq.divergence(PLANE, kuq.Normal(np.zeros((5, 3)), 1.0, event_ndim=1), CRPS),
        ShapeError, "event shape", r"\(2,\)", r"\(3,\)", "event_ndim"),
    "divergence of events that are forgotten": (
        lambda: kuq.divergence(PLANE, kuq.Normal(np.zeros((5, 2)), 1.0), CRPS),
        ShapeError, "event shape", r"\(2,\)", r"\(\)", "event_ndim"),
    "divergence of batches that differ": (lambda: kuq.divergence(FIVE, ZERO, CRPS), ShapeError,
        "batch shape", r"\(5,\)", r"\(\)", "broadcast"),
    "expected kernel of the log score": (
        lambda: kuq.expected_kernel(ZERO, ZERO, kuq.LogScore()), ParameterError,
        "kernel", "LogScore"),
    "expected kernel of shapes that differ": (lambda: kuq.expected_kernel(FIVE, ZERO, CRPS),
        ShapeError, "batch shape", r"\(5,\)", r"\(\)"),
    "a column as outcome": (lambda: kuq.score(FIVE, np.zeros((5, 1)), CRPS), ShapeError,
        r"batch \+ event = \(5,\)", r"got \(5, 1\)"),
    "too few outcomes": (lambda: kuq.score(FIVE, np.zeros(3), CRPS), ShapeError,
        r"\(5,\)", r"got \(3,\)"),
    "an outcome that would be stretched over the event": (
        lambda: kuq.score(PLANE, np.zeros((5, 1)), CRPS), ShapeError, r"\(5, 2\)", r"got \(5, 1\)"),
    "an outcome without its event": (lambda: kuq.score(PLANE, np.zeros(5), CRPS), ShapeError,
        r"\(5, 2\)", r"got \(5,\)"),
    "an outcome transposed": (lambda: kuq.score(PLANE, np.zeros((2, 5)), CRPS), ShapeError,
        r"\(5, 2\)", r"got \(2, 5\)"),
    "a scalar outcome for an event": (
        lambda: kuq.score(kuq.Normal(np.zeros(3), 1.0, event_ndim=1), 0.0, CRPS), ShapeError,
        r"\(3,\)", r"got \(\)"),
    "an outcome of one for two members": (
        lambda: kuq.score(kuq.Normal(np.zeros((3, 2)), 1.0), np.zeros((3, 1)), CRPS), ShapeError,
        r"\(3, 2\)", r"got \(3, 1\)"),
    "NaN outcome": (lambda: kuq.score(FIVE, [0, 0, NAN, 0, 0], CRPS), ParameterError,
        "finite", "got nan", "remove or impute",
        r"\by\b"),
    "infinite outcome": (lambda: kuq.score(FIVE, [0, 0, INF, 0, 0], CRPS), ParameterError,
        "finite", "got inf",
        r"\by\b"),
    "NaN outcome of the log score": (lambda: kuq.score(FIVE, [0, 0, NAN, 0, 0], kuq.LogScore()),
        ParameterError, "finite", "got nan",
        r"\by\b"),
    "complex outcome": (lambda: kuq.score(ZERO, 1j, CRPS), ParameterError, "real", "complex",
        r"\by\b"),
    "text as outcome": (lambda: kuq.score(ZERO, "0", CRPS), ParameterError, "numbers",
        r"\by\b"),
    "a law as outcome": (lambda: kuq.score(ZERO, ZERO, CRPS), ParameterError, "Normal",
        r"\by\b"),
    "masked outcome": (lambda: kuq.score(kuq.Normal(np.zeros(2), 1.0), MASKED, CRPS),
        ParameterError, "masked",
        r"\by\b"),
    "unknown estimator": (lambda: kuq.decompose(TWO, CRPS, estimator="mean"), ParameterError,
        "estimator", "pairwise", "bma", "'mean'"),
    "unknown unbiased": (lambda: kuq.decompose(TWO, CRPS, unbiased="both"), ParameterError,
        "unbiased", "members", "samples", "'both'"),
    "unbiased as a number": (lambda: kuq.entropy(ZERO, CRPS, unbiased=1), ParameterError,
        "unbiased", "True", "got 1"),
    "unbiased as a list": (lambda: kuq.entropy(ZERO, CRPS, unbiased=["members"]), ParameterError,
        "unbiased"),
    "rtol of zero": (lambda: kuq.entropy(ZERO, CRPS, rtol=0.0), ParameterError, "rtol", "1e-13",
        r"got 0\.0"),
    "rtol too coarse": (lambda: kuq.entropy(ZERO, CRPS, rtol=0.5), ParameterError, "rtol",
        "1e-2", r"got 0\.5"),
    "rtol NaN": (lambda: kuq.entropy(ZERO, CRPS, rtol=NAN), ParameterError, "rtol", "got nan"),
    "rtol as text": (lambda: kuq.entropy(ZERO, CRPS, rtol="1e-3"), ParameterError,
        "rtol", "'1e-3'"),
    "one draw": (lambda: kuq.entropy(ZERO, CRPS, draws=1), ParameterError, "draws", "≥ 2", "got 1"),
    "draws not whole": (lambda: kuq.entropy(ZERO, CRPS, draws=1e3), ParameterError, "draws",
        "integer", r"1000\.0"),
    "draws True": (lambda: kuq.entropy(ZERO, CRPS, draws=True), ParameterError, "draws", "True"),
    "negative seed": (lambda: kuq.entropy(ZERO, CRPS, seed=-1), ParameterError, "seed", "≥ 0",
        "got -1"),
    "a generator as seed": (lambda: kuq.entropy(ZERO, CRPS, seed=np.random.default_rng(0)),
        ParameterError, "seed", "integer"),
    "no memory": (lambda: kuq.entropy(ZERO, CRPS, max_memory=0), ParameterError, "max_memory",
        "positive", "bytes", "got 0"),
    "negative memory": (lambda: kuq.entropy(ZERO, CRPS, max_memory=-1), ParameterError,
        "max_memory", "got -1"),
    "memory NaN": (lambda: kuq.entropy(ZERO, CRPS, max_memory=NAN), ParameterError,
        "max_memory", "got nan"),
    "memory as text": (lambda: kuq.entropy(ZERO, CRPS, max_memory="1GB"), ParameterError,
        "max_memory", "'1GB'"),
    "an option that does not exist": (lambda: kuq.decompose(TWO, CRPS, unbaised=True), TypeError,
        "unbaised"),
    "one member": (lambda: kuq.decompose(kuq.Ensemble(kuq.Normal([0.0], 1.0)), CRPS),
        InsufficientDataError, "two members", "M = 1", "unbiased=False"),
    "one member of a list": (
        lambda: kuq.decompose(kuq.Ensemble([ZERO]), kuq.Gaussian(1.0), unbiased="members"),
        InsufficientDataError, "two members", "M = 1", "unbiased=False"),
    "one member of the log score": (
        lambda: kuq.decompose(kuq.Ensemble([ZERO]), kuq.LogScore()),
        InsufficientDataError, "two members", "M = 1"),
    "one member with weight": (
        lambda: kuq.decompose(kuq.Ensemble(TWO.members, weights=[1.0, 0.0]), CRPS),
        InsufficientDataError, "members", "weight", "unbiased=False"),
    "one member with weight under the log score": (
        lambda: kuq.decompose(kuq.Ensemble(TWO.members, weights=[0, 1]), kuq.LogScore()),
        InsufficientDataError, "members", "weight", "unbiased=False"),
    "one draw each": (lambda: kuq.decompose(kuq.Ensemble(kuq.Samples(np.zeros((3, 2, 1)))), CRPS),
        InsufficientDataError, "two draws", "N = 1", "unbiased=False"),
    "one draw in entropy": (lambda: kuq.entropy(kuq.Samples([1.0]), kuq.Gaussian(1.0)),
        InsufficientDataError, "two draws", "N = 1", "unbiased=False"),
    "one draw in a score": (lambda: kuq.score(kuq.Samples([1.0]), 0.0, CRPS, unbiased="samples"),
        InsufficientDataError, "two draws", "N = 1", "unbiased=False"),
    "one draw in a divergence": (
        lambda: kuq.divergence(kuq.Samples([1.0]), kuq.Samples([1.0, 2.0]), kuq.SquaredError()),
        InsufficientDataError, "two draws", "N = 1", "unbiased=False"),
    "influence of two": (lambda: kuq.member_influence(TWO, CRPS), InsufficientDataError,
        "3 members", "got 2",
        "unbiased=False"),
    "influence of one": (lambda: kuq.member_influence(kuq.Ensemble([ZERO]), CRPS, unbiased=False),
        InsufficientDataError, "2 members", "got 1"),
    "divergences of a law": (lambda: kuq.member_divergences(FIVE, CRPS), ParameterError,
        "Ensemble", "Normal"),
    "divergences of an evidential law": (
        lambda: kuq.member_divergences(kuq.NormalInverseGamma(0.0, 1, 2, 1), CRPS), ParameterError,
        "Ensemble", "NormalInverseGamma"),
    "influence in a list": (lambda: kuq.member_influence([ZERO, ZERO], CRPS), ParameterError,
        "Ensemble", "list"),
    "log score of draws": (lambda: kuq.entropy(DRAWS, kuq.LogScore()), ParameterError,
        "density", "Samples", "CRPS", "fit"),
    "log score of draws in a list": (
        lambda: kuq.decompose(kuq.Ensemble([FIVE, kuq.Samples(np.zeros((5, 3)))]), kuq.LogScore()),
        ParameterError, "density", "Samples"),
    "log score of drawn outcomes": (lambda: kuq.score(DRAWS, [0.0], kuq.LogScore()), ParameterError,
        "density", "Samples"),
    "mutual information in the plane": (
        lambda: kuq.decompose(kuq.Ensemble([PLANE, PLANE]), kuq.LogScore(), estimator="bma"),
        NoClosedFormError, "log score", "Normal", "draws=2000, seed=0"),
    "entropy of a mixture in the plane": (
        lambda: kuq.entropy(kuq.Ensemble([PLANE, PLANE]), kuq.LogScore()), NoClosedFormError,
        "log score", "Normal", "draws=2000, seed=0"),
    "low rank against a mixture": (
        lambda: kuq.divergence(
            kuq.LowRankNormal(np.zeros(2), np.ones((2, 1)), np.ones(2)),
            kuq.NormalMixture(np.full((2, 2), 0.5), np.zeros((2, 2)), 1.0, event_ndim=1),
            kuq.Energy()),
        NoClosedFormError, "Energy", "low-rank", "mixtures", "draws=2000, seed=0"),
    "a transform of a normal": (lambda: kuq.entropy(PLANE, kuq.Energy().on(squash)),
        NoClosedFormError, "transform", "Normal", "draws=2000, seed=0"),
    "an own kernel and a normal": (lambda: kuq.entropy(PLANE, Own()), NoClosedFormError,
        "Own", "normals", "draws=2000, seed=0"),
    "an own kernel and an evidential law": (
        lambda: kuq.decompose(kuq.NormalInverseGamma(0.0, 1, 2, 1), Own()), NoClosedFormError,
        "Own", "NormalInverseGamma", "draws=2000, seed=0"),
    "median of a scalar": (lambda: kuq.median_bandwidth(3.0), ShapeError, "axes", r"\(\)"),
    "median of one outcome": (lambda: kuq.median_bandwidth([3.0]), InsufficientDataError, "two",
        "got 1"),
    "median of equal outcomes": (lambda: kuq.median_bandwidth(np.ones(9)), ParameterError,
        "zero", "number"),
    "median with NaN": (lambda: kuq.median_bandwidth([0.0, NAN, 1.0]), ParameterError,
        "finite", "remove or impute"),
    "median of too many event axes": (lambda: kuq.median_bandwidth([0.0, 1.0], event_ndim=2),
        ShapeError, "event_ndim=2", r"\(2,\)"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "fragments"),
    [
        pytest.param(row[0], row[1], row[2:], id=f"{table}: {name}")
        for table, rows in (
            ("law", LAWS), ("ensemble", ENSEMBLES), ("score", SCORES), ("function", FUNCTIONS),
        )
        for name, row in rows.items()
    ],
)  # fmt: skip
def test_bad_input_is_explained(call, error, fragments):
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    missing = [fragment for fragment in fragments if not re.search(fragment, message)]
    assert not missing, f"{missing} not in: {message}"
    assert len(message) < 400


@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize(
    ("case", "name"), [(case, name) for case in CASES for name in CASES[case].parameters]
)
def test_no_parameter_lets_nonsense_in(case, name, value):
    arrays = {key: array.copy() for key, array in CASES[case].parameters.items()}
    arrays[name].flat[-1] = value
    with pytest.raises(ParameterError, match=f"{name}.*(finite|NaN).*got {value:g}"):
        CASES[case].make(**arrays)


POSITIVE = [
    ("Normal", "scale", 0),
    ("NormalMixture", "scale", 0),
    ("NormalMixture", "weights", 0),
    ("LowRankNormal", "diag", 0),
    ("StudentT", "scale", 0),
    ("StudentT", "df", 1),
    ("NormalInverseGamma", "nu", 1),
    ("NormalInverseGamma", "alpha", 1),
    ("NormalInverseGamma", "beta", 1),
]


@pytest.mark.parametrize(("case", "name", "zero_is_bad"), POSITIVE)
def test_sign_is_checked_in_every_entry(case, name, zero_is_bad):
    for place in (0, -1):
        for value in (-1e-9, *([0.0] if zero_is_bad else [])):
            arrays = {key: array.copy() for key, array in CASES[case].parameters.items()}
            arrays[name].flat[place] = value
            with pytest.raises(ParameterError, match=f"{name}.*got {value:g}"):
                CASES[case].make(**arrays)


WITH_BANDWIDTH = [
    kuq.Gaussian,
    kuq.Laplace,
    kuq.InverseMultiquadric,
    kuq.RationalQuadratic,
    kuq.Matern,
]


@pytest.mark.parametrize("kernel", WITH_BANDWIDTH)
@pytest.mark.parametrize("bandwidth", [0, 0.0, -1.0, NAN, INF, np.float32(0), np.asarray(-1.0)])
def test_bandwidth_is_positive(kernel, bandwidth):
    with pytest.raises(ParameterError, match=r"bandwidth of .* must be positive.*got"):
        kernel(bandwidth)


def test_numbers_of_numpy_scale_a_kernel():
    two = np.float64(2.0)
    assert two * kuq.Gaussian(1.0) == kuq.Gaussian(1.0) * two == 2.0 * kuq.Gaussian(1.0)


def test_every_error_is_a_value_error():
    for error in (ShapeError, ParameterError, InsufficientDataError, NoClosedFormError):
        assert issubclass(error, kuq.KuqError)
    assert issubclass(kuq.KuqError, ValueError)


def test_unknown_key_of_a_result():
    with pytest.raises(KeyError, match="epistemc"):
        kuq.decompose(TWO, CRPS)["epistemc"]


def test_a_result_cannot_be_changed():
    u = kuq.decompose(TWO, CRPS)
    with pytest.raises(AttributeError):
        u.total = 0.0


# Array libraries.


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_libraries_are_not_mixed(name):
    with opened(name) as library:
        foreign, own = library.array([0.0, 1.0]), np.asarray([0.0, 1.0])
        outcome = kuq.Normal(foreign, 1.0)
        calls = [
            lambda: kuq.Normal(foreign, own + 1),
            lambda: kuq.Normal(own, foreign + 1),
            lambda: kuq.Samples(own, weights=foreign + 1),
            lambda: kuq.score(outcome, own, CRPS),
            lambda: kuq.score(kuq.Normal(own, 1.0), foreign, CRPS),
            lambda: kuq.divergence(outcome, kuq.Normal(own, 1.0), CRPS),
            lambda: kuq.Ensemble([outcome, kuq.Normal(own, 1.0)]),
            lambda: kuq.Ensemble(outcome, weights=own + 1),
            lambda: kuq.entropy(outcome, kuq.Gaussian(own + 1)),
            lambda: kuq.entropy(kuq.Normal(own, 1.0), kuq.Gaussian(foreign + 1)),
            lambda: kuq.entropy(kuq.Normal(foreign, 1.0, 1), kuq.Energy(weights=own)),
            lambda: kuq.entropy(kuq.Normal(own, 1.0, 1), kuq.CRPS(weights=foreign)),
        ]
        for call in calls:
            with pytest.raises(ParameterError, match=r"one (array )?library"):
                call()


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_checks_work_in_every_library(name):
    with opened(name) as library:
        one = library.array([1.0, 1.0])
        bad = library.array([1.0, -2.0])
        for call in (
            lambda: kuq.Normal(one, bad),
            lambda: kuq.NormalMixture(bad / -1, one, one),
            lambda: kuq.Samples(one / 0 * 0 if name == "numpy" else one * NAN),
            lambda: kuq.Gaussian(bad),
            lambda: kuq.Energy(weights=bad),
            lambda: kuq.Ensemble(kuq.Normal(one, one), weights=bad),
        ):
            with pytest.raises(ParameterError, match=r"got (-2|-1|nan)"):
                call()
        with pytest.raises(ShapeError, match=r"got \(2, 1\)"):
            kuq.score(kuq.Normal(one, one), bad[:, None], CRPS)


def test_checks_can_be_switched_off_and_come_back():
    with kuq.checks(False):
        p = kuq.Normal([0.0, 1.0], [1.0, NAN])
        value = kuq.entropy(p, CRPS)
        assert np.isfinite(value[0])
        assert np.isnan(value[1])
        with pytest.raises(ShapeError):  # shapes are checked always
            kuq.Normal(np.zeros(3), np.ones(2))
    with pytest.raises(ParameterError):
        kuq.Normal([0.0, 1.0], [1.0, NAN])


@pytest.mark.parametrize("law", [kuq.Point, lambda loc: kuq.Normal(loc, 1.0)])
@pytest.mark.parametrize("levels", [None, "model"])
def test_noise_of_members_at_unknown_places_is_unknown(law, levels):
    with kuq.checks(False):
        u = kuq.decompose(kuq.Ensemble(law([[0.0, NAN], [1.0, 2.0]])), CRPS, levels=levels)
    for part in u.values():
        np.testing.assert_array_equal(np.isnan(part), [False, True])


# NaN among draws.


def energy(x, y):
    return float(np.sqrt(((x - y) ** 2).sum()))


def gaussian(x, y):
    return -float(np.exp(-((x - y) ** 2).sum() / 1.3**2))


def squared(x, y):
    return float(((x - y) ** 2).sum())


def dropped(draws, weights):
    """The valid draws and their weights, by hand."""
    keep = [i for i in range(len(draws)) if not np.isnan(draws[i]).any()]
    total = sum(weights[i] for i in keep)
    return [draws[i] for i in keep], [weights[i] / total for i in keep]


def within(k, x, w, unbiased):
    """E k(X, X') over pairs of draws, and E k(X, X)."""
    if not x or (unbiased and len(x) < 2):
        return NAN, NAN
    pairs = [(i, j) for i in range(len(x)) for j in range(len(x)) if i != j or not unbiased]
    total = sum(w[i] * w[j] for i, j in pairs)
    mean = sum(w[i] * w[j] * k(x[i], x[j]) for i, j in pairs) / total
    return mean, sum(w[i] * k(x[i], x[i]) for i in range(len(x)))


def brute_entropy(k, x, w, unbiased):
    pair, same = within(k, x, w, unbiased)
    return (pair - same) / 2


def brute_divergence(k, x, w, y, v, unbiased, unbiased_right=None):
    right = unbiased if unbiased_right is None else unbiased_right
    left_pair, right_pair = within(k, x, w, unbiased)[0], within(k, y, v, right)[0]
    cross = sum(
        a * b * k(p, q) for a, p in zip(w, x, strict=True) for b, q in zip(v, y, strict=True)
    )
    return cross - left_pair / 2 - right_pair / 2


def brute_decompose(k, members, unbiased):
    """AU and EU over members, each a pair of draws and weights; every pair of members counts."""
    aleatoric = np.mean([brute_entropy(k, x, w, unbiased) for x, w in members])
    count = len(members)
    total = sum(
        brute_divergence(k, *members[i], *members[j], unbiased)
        for i in range(count)
        for j in range(count)
        if i != j
    )
    return aleatoric, total / (count * (count - 1) if unbiased else count**2)


def holes():
    """Three members, two inputs, six draws of two coordinates; NaN here and there."""
    values = np.random.default_rng(5).normal(size=(3, 2, 6, 2))
    values[0, 0, 1, 0] = values[0, 0, 4, 1] = values[1, 0, 0] = values[2, 1, 5, 1] = NAN
    values[1, 1, 2:5, 0] = NAN
    weights = np.random.default_rng(6).uniform(0.5, 1.5, size=(3, 2, 6))
    return values, weights / weights.sum(-1, keepdims=True)


KERNELS = {
    "energy": (kuq.Energy(), energy),
    "gaussian": (kuq.Gaussian(1.3), gaussian),
    "squared": (kuq.SquaredError(), squared),
}
WEIGHTED = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
UNBIASED = pytest.mark.parametrize("unbiased", [True, False], ids=["u", "v"])


@pytest.mark.parametrize("kernel", KERNELS)
@WEIGHTED
@UNBIASED
def test_omitted_draws_are_as_if_never_drawn(kernel, weighted, unbiased):
    score, k = KERNELS[kernel]
    values, weights = holes()
    weights = weights if weighted else np.full_like(weights, 1 / 6)
    p = kuq.Samples(values, 1, weights=weights if weighted else None, nan_policy="omit")
    y = np.asarray([[0.3, -0.2], [1.0, 0.5]])
    u = kuq.decompose(kuq.Ensemble(p), score, unbiased=unbiased)
    entropy = kuq.entropy(p, score, unbiased=unbiased)
    loss = kuq.score(p, y, score, unbiased=unbiased)
    for n in range(2):
        members = [dropped(values[m, n], weights[m, n]) for m in range(3)]
        aleatoric, epistemic = brute_decompose(k, members, unbiased)
        np.testing.assert_allclose(u.aleatoric[n], aleatoric, rtol=1e-12)
        np.testing.assert_allclose(u.epistemic[n], epistemic, rtol=1e-11, atol=1e-14)
        for m, (x, w) in enumerate(members):
            np.testing.assert_allclose(entropy[m, n], brute_entropy(k, x, w, unbiased), rtol=1e-12)
            wanted = brute_divergence(k, x, w, [y[n]], [1.0], unbiased, False)
            np.testing.assert_allclose(loss[m, n], wanted, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("kernel", KERNELS)
@WEIGHTED
@UNBIASED
def test_marginal_scores_omit_by_coordinate(kernel, weighted, unbiased):
    score, k = KERNELS[kernel]
    values, weights = holes()
    weights = weights if weighted else np.full_like(weights, 1 / 6)
    p = kuq.Samples(values, 1, weights=weights if weighted else None, nan_policy="omit")
    u = kuq.decompose(kuq.Ensemble(p), kuq.Marginal(score, None), unbiased=unbiased)
    mean = kuq.decompose(kuq.Ensemble(p), kuq.Marginal(score), unbiased=unbiased)
    wanted = np.empty((2, 2, 2))
    for n in range(2):
        for j in range(2):
            column = values[:, n, :, j : j + 1]
            members = [dropped(column[m], weights[m, n]) for m in range(3)]
            wanted[:, n, j] = brute_decompose(k, members, unbiased)
    np.testing.assert_allclose(u.aleatoric, wanted[0], rtol=1e-12)
    np.testing.assert_allclose(u.epistemic, wanted[1], rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(mean.aleatoric, wanted[0].mean(-1), rtol=1e-12)
    np.testing.assert_allclose(mean.epistemic, wanted[1].mean(-1), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("kernel", KERNELS)
@UNBIASED
def test_propagated_nan_reaches_its_inputs_only(kernel, unbiased):
    score, k = KERNELS[kernel]
    values = np.random.default_rng(7).normal(size=(3, 2, 4, 2))
    values[1, 0, 2, 0] = NAN  # spoils the first input, and of a map its first coordinate
    p = kuq.Samples(values, 1, nan_policy="propagate")
    joint = kuq.decompose(kuq.Ensemble(p), score, unbiased=unbiased)
    each = kuq.decompose(kuq.Ensemble(p), kuq.Marginal(score, None), unbiased=unbiased)
    equal = [1 / 4] * 4
    for key, place in (("aleatoric", 0), ("epistemic", 1)):
        assert np.isnan(joint[key][0])
        wanted = brute_decompose(k, [(list(values[m, 1]), equal) for m in range(3)], unbiased)
        np.testing.assert_allclose(joint[key][1], wanted[place], rtol=1e-11, atol=1e-14)
        assert np.isnan(each[key][0, 0])
        column = [(list(values[m, 0, :, 1:]), equal) for m in range(3)]
        wanted = brute_decompose(k, column, unbiased)[place]
        np.testing.assert_allclose(each[key][0, 1], wanted, rtol=1e-11, atol=1e-14)
    assert np.isnan(kuq.entropy(p, score, unbiased=unbiased)[1, 0])
    loss = kuq.score(p, np.zeros((2, 2)), score, unbiased=unbiased)
    assert np.isnan(loss).tolist() == [[False, False], [True, False], [False, False]]


@pytest.mark.parametrize(
    "score",
    [kuq.CRPS(), kuq.Energy(0.7), kuq.Laplace(1.0), kuq.Matern(1.0), kuq.InverseMultiquadric(1)],
)
def test_propagated_nan_is_not_lost_in_any_kernel(score):
    values = np.asarray([[0.0, 1.0, 2.0], [0.0, NAN, 2.0]])
    p = kuq.Samples(values, nan_policy="propagate")
    for value in (
        kuq.entropy(p, score),
        kuq.score(p, [0.0, 0.0], score),
        kuq.divergence(p, kuq.Samples(np.zeros((2, 3))), score),
        kuq.expected_kernel(p, kuq.Point([0.0, 0.0]), score),
    ):
        assert np.isnan(value).tolist() == [False, True]
    pair = kuq.Ensemble([p, kuq.Samples(np.zeros((2, 3)))])
    assert np.isnan(kuq.decompose(pair, score).epistemic).tolist() == [False, True]


@pytest.mark.parametrize("score", [kuq.CRPS(), kuq.Gaussian(1.0), kuq.SquaredError()])
def test_too_few_valid_draws_give_nan_not_a_number(score):
    """Whether enough are left depends on the data, so one bad input does not stop the batch."""
    values = np.asarray([[0.0, 1.0, 3.0], [NAN, NAN, 2.0], [NAN, NAN, NAN]])
    p = kuq.Samples(values, nan_policy="omit")
    assert np.isnan(kuq.entropy(p, score)).tolist() == [False, True, True]
    assert np.isnan(kuq.score(p, np.zeros(3), score)).tolist() == [False, True, True]
    plain = kuq.entropy(p, score, unbiased=False)
    assert np.isnan(plain).tolist() == [False, False, True]
    assert plain[1] == 0
    u = kuq.decompose(kuq.Ensemble([p, kuq.Samples(np.zeros((3, 2)))]), score)
    assert np.isnan(u.epistemic).tolist() == [False, True, True]
    assert np.isnan(u.total).tolist() == [False, True, True]


@pytest.mark.parametrize("score", [kuq.CRPS(), kuq.Gaussian(1.0), kuq.SquaredError()])
def test_weights_that_leave_one_draw_give_nan_not_a_number(score):
    p = kuq.Samples([[1.0, 2.0], [1.0, 2.0]], weights=[[0.0, 1.0], [1.0, 1.0]])
    assert np.isnan(kuq.entropy(p, score)).tolist() == [True, False]
    assert kuq.entropy(p, score, unbiased=False)[0] == 0


def test_moments_follow_the_policy():
    values = np.asarray([[0.0, 1.0, NAN], [1.0, 3.0, 5.0]])
    omit, keep = (kuq.Samples(values, nan_policy=policy) for policy in ("omit", "propagate"))
    np.testing.assert_allclose(omit.mean(), [0.5, 3.0])
    np.testing.assert_allclose(omit.variance(), [0.25, 8 / 3])
    assert np.isnan(keep.mean()).tolist() == [True, False]


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_policies_agree_between_libraries(name):
    values, _ = holes()

    def omitted(array):
        return dict(kuq.decompose(kuq.Ensemble(kuq.Samples(array, 1, nan_policy="omit")), CRPS))

    wanted = omitted(values)
    with opened(name) as library:
        function = library.module.jit(omitted) if name == "jax" else omitted
        actual = function(library.array(values))
        for key in wanted:
            np.testing.assert_allclose(np.asarray(actual[key]), wanted[key], rtol=1e-12)
        with pytest.raises(ParameterError, match="omit"):
            kuq.Samples(library.array(values), 1)


@pytest.mark.parametrize("shape", [(3, 7), (3, 20_000), (2, 30, 500)])
@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, lambda x: x[..., ::2]])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_number_that_is_not_finite_is_seen(shape, layout, dtype):
    """In blocks of any size and order; numbers whose sum leaves the range are finite."""
    largest = np.full(shape, np.finfo(dtype).max, dtype)
    kuq.Normal(layout(largest), 1.0)
    for value in (NAN, INF, -INF):
        values = np.ones(shape, dtype)
        values[(-1,) * (len(shape) - 1) + (4,)] = value
        with pytest.raises(ParameterError, match=f"loc must be finite, got {value:g}"):
            kuq.Normal(layout(values), 1.0)
