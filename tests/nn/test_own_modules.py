"""Ensembles of torch modules that were fitted elsewhere, and MC dropout."""

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import kuq


def rows(n=7, features=3, seed=0):
    return torch.randn(n, features, generator=torch.Generator().manual_seed(seed))


def modules(outputs, count=3):
    made = []
    for seed in range(count):
        torch.manual_seed(seed)
        made.append(nn.Linear(3, outputs))
    return made


class Then(nn.Module):
    """A linear layer and a function of its output."""

    def __init__(self, change, outputs=2):
        super().__init__()
        self.linear, self.change = nn.Linear(3, outputs), change

    def forward(self, x):
        return self.change(self.linear(x))


HEADS = {
    "mean-std": lambda out: kuq.Normal(out[..., 0], out[..., 1]),
    "mean-variance": lambda out: kuq.Normal(out[..., 0], torch.sqrt(out[..., 1])),
    "mean-log-variance": lambda out: kuq.Normal(out[..., 0], torch.exp(out[..., 1] / 2)),
}


@pytest.mark.parametrize("batch_size", [2, 256])
@pytest.mark.parametrize("as_tuple", [False, True])
@pytest.mark.parametrize("name", HEADS)
def test_numbers_are_what_the_head_says(name, as_tuple, batch_size):
    x = rows()
    change = (lambda out: tuple(out.exp().unbind(-1))) if as_tuple else torch.exp
    models = [Then(change) for _ in range(3)]
    found = kuq.nn.members(models, x, head=name, batch_size=batch_size)
    with torch.no_grad():
        expected = kuq.Ensemble([HEADS[name](model.linear(x).exp()) for model in models])
    assert repr(found) == "Ensemble of 3 × Normal(batch=(7,), event=())"
    for moment in ("mean", "variance"):
        torch.testing.assert_close(getattr(found, moment)(), getattr(expected, moment)())
    assert not found.members.loc.requires_grad


def test_a_tensor_is_a_point():
    x = rows()
    models = modules(4)
    found = kuq.nn.members(models, x, batch_size=3)
    assert repr(found) == "Ensemble of 3 × Point(batch=(7,), event=(4,))"
    with torch.no_grad():
        torch.testing.assert_close(found.member_means(), torch.stack([m(x) for m in models]))
    draws = kuq.nn.members(models, x, head="draws", batch_size=3)
    assert repr(draws) == "Ensemble of 3 × Samples(batch=(7,), N=4, event=())"


def test_every_module_may_have_a_law_of_its_own():
    spread = nn.functional.softplus
    models = [
        Then(lambda out: kuq.Normal(out[:, 0], spread(out[:, 1]))),
        Then(lambda out: torch.distributions.StudentT(5.0, out[:, 0], spread(out[:, 1]))),
        Then(lambda out: kuq.Samples(out), outputs=30),
        Then(lambda out: out[:, 0]),
    ]
    x = rows()
    found = kuq.nn.members(models, x, batch_size=4)
    kinds = [type(law).__name__ for law in found.member_list()]
    assert kinds == ["Normal", "StudentT", "Samples", "Point"]
    whole = kuq.nn.members(models, x)
    u, v = (kuq.decompose(e, kuq.CRPS(), unbiased="members") for e in (found, whole))
    torch.testing.assert_close(u.total, v.total)
    assert tuple(u.total.shape) == (7,)


def test_a_function_makes_a_law_of_anything():
    models = [Then(lambda out: {"mu": out[:, 0], "sigma": out[:, 1].abs()}) for _ in range(2)]
    found = kuq.nn.members(models, rows(), head=lambda out: kuq.Normal(out["mu"], out["sigma"]))
    assert repr(found) == "Ensemble of 2 × Normal(batch=(7,), event=())"
    torch_law = lambda out: torch.distributions.Normal(out["mu"], out["sigma"])  # noqa: E731
    again = kuq.nn.members(models, rows(), head=torch_law)
    torch.testing.assert_close(again.mean(), found.mean())


def test_modules_keep_their_modes_and_dtypes():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).double()
    model[1].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = kuq.nn.members([model, model], rows().numpy())
    assert found.members.reference.dtype == torch.float64
    assert [module.training for module in model.modules()] == [True, True, False, True]
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    torch.testing.assert_close(*found.member_means())  # no dropout
    embedding = nn.Embedding(10, 2)
    kuq.nn.members([embedding], torch.arange(5), head="mean-log-variance")


WRONG = {
    "a tuple": ([Then(lambda out: (out[:, 0], out[:, 1]))], {}, "module 0: a tuple of 2 does not"),
    "a dict": ([Then(lambda out: {"a": out})], {}, "module 0: a dict of 1 does not say"),
    "nothing": ([Then(lambda out: None)], {}, "there is no adapter for"),
    "an unknown head": (modules(2), {"head": "normal"}, r"head must be one of \['mean-std', "),
    "three numbers": (modules(3), {"head": "mean-std"}, r"length 2, got a Tensor of shape \(7, 3"),
    "negative deviations": ([Then(lambda out: -out.abs())], {"head": "mean-std"}, "scale of Norm"),
    "negative variances": (
        [Then(lambda out: -out.abs())],
        {"head": "mean-variance"},
        "mean-log-variance",
    ),
    "no rows": ([Then(lambda out: out.sum())], {}, "a single number is no prediction"),
    "other rows": ([Then(lambda out: out[:2])], {}, "7 rows gave Point"),
    "an ensemble": (
        [Then(lambda out: kuq.Ensemble(kuq.Point(out.T)))],
        {},
        "a member must be a single law",
    ),
    "one module": (nn.Linear(3, 2), {}, "models must be a list of modules, got one Linear"),
    "no modules": ([], {}, "at least one module"),
    "no module": ([lambda x: x], {}, "a torch module is needed, got function"),
    "other shapes": ([nn.Linear(3, 2), nn.Linear(3, 4)], {}, "equal batch and event shapes"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_modules(case):
    models, options, message = WRONG[case]
    with pytest.raises(kuq.KuqError, match=message):
        kuq.nn.members(models, rows(), **options)


def with_dropout(p=0.3):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(3, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(p), nn.Linear(64, 1)
    )


def test_dropout_members_are_passes_with_dropped_units():
    """Their mean and variance are those of the formula: units are dropped independently."""
    model = with_dropout()
    x = rows(5)
    passes = kuq.nn.dropout_members(model, x.repeat(80, 1), 50)
    found = passes.member_means().reshape(-1, 5)
    with torch.no_grad():
        hidden = model[:3].eval()(x) * model[4].weight[0]
        mean, variance = hidden.sum(1) + model[4].bias, (hidden**2).sum(1) * 0.3 / 0.7
    # Standard errors over 4000 masks: 1/63 deviation, and 2 % of the variance; five of them.
    gap = (found.mean(0) - mean) / variance.sqrt()
    assert gap.abs().max() < 5 / 63
    assert (found.var(0) / variance - 1).abs().max() < 0.15


def test_dropout_is_seeded_and_leaves_no_trace():
    model = with_dropout().train()
    model[1].eval()
    x = rows(20)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    few = kuq.nn.dropout_members(model, x, 3, seed=1, batch_size=8)
    many = kuq.nn.dropout_members(model, x, 6, seed=1, batch_size=8)
    other = kuq.nn.dropout_members(model, x, 3, seed=2, batch_size=8)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(few.member_means(), many.member_means()[:3])
    assert not torch.equal(few.member_means(), other.member_means())
    assert len(torch.unique(many.member_means()[:, 0])) == 6
    assert [module.training for module in model.children()] == [True, False, True, True, True]
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    # Rows have masks of their own, also in different batches.
    same = kuq.nn.dropout_members(model, x[:1].expand(20, 3), 2, batch_size=4)
    assert len(torch.unique(same.member_means()[0])) > 10


def test_modes_come_back_after_an_error():
    model = with_dropout().eval()
    with pytest.raises(kuq.ParameterError, match=r"Sequential fails on.*mat1 and mat2"):
        kuq.nn.dropout_members(model, torch.zeros(4, 2), 3)
    assert not any(module.training for module in model.modules())
    assert torch.backends.mha.get_fastpath_enabled()


def test_dropout_with_a_head():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 16), nn.Dropout(0.1), nn.Linear(16, 2))
    prediction = kuq.nn.dropout_members(model, rows(), 10, head="mean-log-variance")
    u = kuq.decompose(prediction, "crps")
    assert bool((u.aleatoric > 0).all())
    assert bool((u.epistemic > 0).all())


class Attention(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)


HIDDEN = {
    "attention": lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True),
    "channels": lambda: nn.Sequential(nn.Conv1d(4, 4, 1), nn.Dropout1d(0.4)),
    "alpha": lambda: nn.Sequential(nn.SELU(), nn.AlphaDropout(0.2)),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_dropout_that_is_deep_inside(name):
    torch.manual_seed(0)
    x = torch.randn(5, 4, 8)
    found = kuq.nn.dropout_members(Attention(HIDDEN[name]()).eval(), x, 4)
    assert len(torch.unique(found.member_means()[:, 0, 0, 0])) > 1


def test_dropout_inside_of_recurrent_layers():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.recurrent = nn.LSTM(3, 8, num_layers=2, dropout=0.3, batch_first=True)

        def forward(self, x):
            return self.recurrent(x)[0][:, -1]

    torch.manual_seed(0)
    found = kuq.nn.dropout_members(Last().eval(), torch.randn(5, 6, 3), 4)
    assert len(torch.unique(found.member_means()[:, 0, 0])) == 4


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda: nn.Linear(3, 2), {}, "Linear has no dropout layer"),
        (lambda: with_dropout(0.0), {}, "no dropout layer with a rate above zero"),
        (lambda: nn.LSTM(3, 2), {}, "no dropout layer"),
        (lambda: with_dropout(), {"n": 1}, "n must be an integer ≥ 2"),
        (lambda: with_dropout(), {"seed": -1}, "seed must be"),
        (lambda: with_dropout(), {"batch_size": 0}, "batch_size must be"),
        (lambda: with_dropout, {}, "a torch module is needed, got function"),
    ],
)
def test_wrong_dropout(make, options, message):
    with pytest.raises(kuq.ParameterError, match=message):
        kuq.nn.dropout_members(make(), rows(), **options)


def test_arrays_that_are_no_rows():
    for x in (np.float64(3.0), np.zeros((0, 3))):
        with pytest.raises(kuq.ShapeError, match="X needs rows"):
            kuq.nn.members([nn.Linear(3, 1)], x)


def test_modules_where_predictions_belong_are_told_where_to_go():
    for wrong in (nn.Linear(2, 1), [nn.Linear(2, 1)]):
        with pytest.raises(kuq.ParameterError, match=r"kuq\.nn\.members|kuq\.Ensemble"):
            kuq.decompose(wrong, "crps")
    with pytest.raises(kuq.ParameterError, match=r"kuq\.nn\.members"):
        kuq.Ensemble([nn.Linear(2, 1), nn.Linear(2, 1)])
