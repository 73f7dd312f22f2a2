"""Reference values to 17 digits (tests/reference/README.md tells how they were computed)."""

import json
from pathlib import Path

import numpy as np
import pytest

import kuq

RECORDS = [
    record
    for path in sorted(Path(__file__).parent.joinpath("reference").glob("*.json"))
    for record in json.loads(path.read_text())
]
CLOSED_IN_ONE_DIMENSION = {"squared", "crps", "gaussian", "multigaussian", "log"}


def law(params, kind):
    if kind == "gaussian":
        mu = np.asarray(params["mu"], float)
        return kuq.Normal(mu, np.asarray(params["sigma"], float), event_ndim=mu.ndim)
    if kind == "lowrank":
        return kuq.LowRankNormal(params["mu"], params["U"], params["D"])
    if kind == "mixture":
        return kuq.NormalMixture(params["w"], params["mu"], params["sigma"])
    if kind == "samples":
        x = np.asarray(params["x"], float)
        return kuq.Samples(x, event_ndim=x.ndim - 1)
    names = ("gamma", "upsilon", "alpha", "beta")
    if "coords" in params:
        values = [np.array([c[name] for c in params["coords"]]) for name in names]
        return kuq.NormalInverseGamma(*values, event_ndim=1)
    return kuq.NormalInverseGamma(*(params[name] for name in names))


def score_of(record):
    name, params = record["score"], record["score_params"]
    if name == "multigaussian":
        return (1 / len(params["gammas"])) * sum(kuq.Gaussian(g) for g in params["gammas"])
    makers = {
        "log": lambda: kuq.LogScore(),
        "squared": lambda: kuq.SquaredError(),
        "crps": lambda: kuq.CRPS(params.get("marginal", "mean")),
        "energy": lambda: kuq.Energy(params["beta"]),
        "gaussian": lambda: kuq.Gaussian(params["gamma"]),
        "laplace": lambda: kuq.Laplace(params["gamma"]),
        "imq": lambda: kuq.InverseMultiquadric(params["gamma"]),
    }
    return makers[name]()


def value_of(record, **options):
    kind, quantity, params = record["kind"], record["quantity"], record["params"]
    score = score_of(record)
    samples_u = record.get("first_order", "v") == "u"
    if quantity == "entropy":
        return kuq.entropy(law(params["p"], kind), score, unbiased=samples_u, **options)
    if quantity in ("divergence", "cross"):
        p, q = law(params["p"], kind), law(params["q"], kind)
        if quantity == "divergence":
            return kuq.divergence(p, q, score, unbiased=samples_u, **options)
        if record["score"] == "log":
            return kuq.divergence(p, q, score, **options) + kuq.entropy(q, score, **options)
        return kuq.expected_kernel(p, q, score, **options)
    if quantity == "score":
        return kuq.score(law(params["p"], kind), params["y"], score, unbiased=samples_u, **options)
    members_u = record["estimator"] == "u"
    if kind == "nig":
        prediction = law(params, kind)
    else:
        prediction = kuq.Ensemble([law(member, kind) for member in params["members"]])
    u = kuq.decompose(
        prediction,
        score,
        estimator="bma" if quantity.endswith("bma") else "pairwise",
        unbiased={
            (True, True): True,
            (False, False): False,
            (True, False): "members",
            (False, True): "samples",
        }[members_u, samples_u],
        **options,
    )
    return {"au": u.aleatoric, "eu": u.epistemic, "tu": u.total}[quantity[:2]]


def is_closed(record):
    score, kind = record["score"], record["kind"]
    if kind == "nig":
        scalar = "coords" not in record["params"]
        return score in ("squared", "log", "crps") or (score == "energy" and scalar)
    if score == "log" and (kind == "mixture" or record["quantity"].endswith("bma")):
        return False
    one_dimensional = kind == "mixture" or "gauss1d" in record["id"] or "ens1d" in record["id"]
    if score == "laplace" and one_dimensional:
        return "near_identical" not in record["tags"]
    return kind == "samples" or score in CLOSED_IN_ONE_DIMENSION


def tolerance(record):
    if not is_closed(record):
        return 1e-8
    return 1e-10 if record["kind"] == "lowrank" or "diag" in record["id"] else 1e-11


@pytest.mark.parametrize("record", RECORDS, ids=[r["id"] for r in RECORDS])
def test_reference_value(record):
    np.testing.assert_allclose(
        float(value_of(record)), float(record["value"]), rtol=tolerance(record), atol=0
    )


QUADRATURES = [r for r in RECORDS if not is_closed(r)]


@pytest.mark.parametrize("record", QUADRATURES, ids=[r["id"] for r in QUADRATURES])
def test_rtol_tightens_quadrature(record):
    value = float(value_of(record, rtol=1e-12))
    np.testing.assert_allclose(value, float(record["value"]), rtol=1e-12, atol=0)
