"""Members of other libraries go into an Ensemble as they are; numbers are told what to be."""

import numpy as np
import pytest
import scipy.stats

import kuq


def test_a_list_of_torch_distributions():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    loc = torch.tensor(rng.normal(size=(5, 7)), requires_grad=True)
    found = kuq.Ensemble([torch.distributions.Normal(row, 0.5) for row in loc])
    by_hand = kuq.Ensemble(kuq.Normal(loc, 0.5))
    ours, theirs = (kuq.decompose(e, kuq.CRPS()) for e in (found, by_hand))
    np.testing.assert_allclose(
        ours.epistemic.detach(), theirs.epistemic.detach(), rtol=1e-12, atol=1e-15
    )
    ours.epistemic.sum().backward()
    assert loc.grad.abs().max() > 0
    weighted = kuq.Ensemble([torch.distributions.Normal(row, 0.5) for row in loc], [1, 1, 1, 1, 0])
    assert weighted.member_count == 5


def test_one_distribution_with_an_axis_of_members():
    frozen = scipy.stats.norm(np.zeros((4, 6)), 1.0)
    assert repr(kuq.Ensemble(frozen)) == repr(kuq.Ensemble(kuq.Normal(np.zeros((4, 6)), 1.0)))


def test_laws_of_several_libraries_together():
    members = [scipy.stats.norm(0.0, 1.0), kuq.Normal(0.5, 1.0), scipy.stats.t(5.0, 0.2)]
    assert kuq.decompose(kuq.Ensemble(members), kuq.CRPS()).method == "quadrature"


POINTS = np.arange(500.0).reshape(5, 100)


@pytest.mark.parametrize(
    "call",
    [
        lambda: kuq.Ensemble(POINTS),
        lambda: kuq.Ensemble(list(POINTS)),
        lambda: kuq.Ensemble(POINTS.tolist()),
        lambda: kuq.decompose(POINTS, kuq.CRPS()),
        lambda: kuq.as_distribution(POINTS),
    ],
    ids=["array", "list of arrays", "list of lists", "decompose", "as_distribution"],
)
def test_members_by_rows_are_pointed_to_points(call):
    with pytest.raises(kuq.ParameterError, match=r"\(5, 100\).*kuq\.Ensemble\(kuq\.Point\(") as e:
        call()
    assert str(e.value).index("kuq.Point") < str(e.value).index("kuq.Samples")


def test_tables_are_numbers_too():
    pd = pytest.importorskip("pandas")
    for call in (kuq.Ensemble, kuq.as_distribution, lambda x: kuq.decompose(x, kuq.CRPS())):
        with pytest.raises(kuq.ParameterError, match=r"numbers \(DataFrame of shape \(5, 100\)"):
            call(pd.DataFrame(POINTS))


def test_what_nobody_knows_is_refused_by_its_name():
    with pytest.raises(kuq.ParameterError, match=r"no adapter for builtins\.object"):
        kuq.Ensemble([object()])
    with pytest.raises(kuq.ParameterError, match=r"kuq\.Ensemble\(predictions\)"):
        kuq.as_distribution([scipy.stats.norm(0.0, 1.0)])
    with pytest.raises(kuq.ShapeError, match="at least one member"):
        kuq.Ensemble([])


def test_models_are_pointed_to_what_takes_them():
    ensemble = pytest.importorskip("sklearn.ensemble")
    pipeline = pytest.importorskip("sklearn.pipeline")
    model = pipeline.make_pipeline("passthrough", ensemble.RandomForestRegressor(2))
    model.fit(POINTS.T, POINTS[0])
    for call in (kuq.Ensemble, kuq.as_distribution, lambda m: kuq.decompose(m, kuq.CRPS())):
        with pytest.raises(kuq.ParameterError, match=r"from_fitted\(model, X_train, y_train\)"):
            call(model)


def test_every_coordinate_of_a_multivariate_normal_by_itself():
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    p = kuq.as_distribution(scipy.stats.multivariate_normal([1.0, 2.0], covariance), event_ndim=0)
    assert (p.batch_shape, p.event_shape) == ((2,), ())
    np.testing.assert_allclose(p.variance(), [2.0, 1.0])
    torch = pytest.importorskip("torch")
    law = torch.distributions.MultivariateNormal(torch.zeros(2), torch.tensor(covariance).float())
    np.testing.assert_allclose(kuq.as_distribution(law, event_ndim=0).variance(), [2.0, 1.0])


def test_affine_transforms_of_torch():
    torch = pytest.importorskip("torch")
    td = torch.distributions
    steps = [td.AffineTransform(1.0, -2.0), td.AffineTransform(0.5, 3.0)]
    moved = td.TransformedDistribution(td.StudentT(5.0, torch.zeros(3), 1.0), steps)
    p = kuq.as_distribution(moved)
    y = torch.linspace(-3.0, 3.0, 3)
    np.testing.assert_allclose(kuq.score(p, y, kuq.LogScore()), -moved.log_prob(y), rtol=1e-5)
    with pytest.raises(kuq.ParameterError, match="no adapter"):
        kuq.as_distribution(td.LogNormal(torch.zeros(3), 1.0))
