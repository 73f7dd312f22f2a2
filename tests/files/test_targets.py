"""Predictions judged by what happened: from files and from memory."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kuq
from kuq.cli import main
from kuq.files import Layout, decompose_file
from kuq.reports.decomposition import decomposition_report
from kuq.reports.judgement import judge
from kuq.reports.pit import pit_values


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def calibrated(seed, rows=300, members=4, shape=()):
    """Members around a centre, outcomes drawn from their mixture, noise of different size."""
    rng = np.random.default_rng(seed)
    size = (rows, *shape)
    noise = rng.uniform(0.2, 3.0, size=rows).reshape(rows, *(1,) * len(shape)) * np.ones(size)
    loc = rng.normal(0, 0.3, size=(members, *size))
    std = np.broadcast_to(noise, loc.shape)
    chosen = rng.integers(members, size=rows)
    y = loc[chosen, np.arange(rows)] + noise * rng.normal(size=size)
    return loc, std, y


def check(one, loc, std, y, event_ndim=0):
    """The numbers of a judgement by other means."""
    ensemble = kuq.Ensemble(kuq.Normal(loc, std, event_ndim))
    judged = judge(one)
    assert judged.count == len(y)
    losses = kuq.score(ensemble, y, kuq.CRPS())
    np.testing.assert_allclose(np.sort(judged.losses), np.sort(losses), rtol=1e-10)
    assert judged.score[0] == pytest.approx(losses.mean(), rel=1e-10)
    half = 1.96 * losses.std(ddof=1) / np.sqrt(len(y))
    assert judged.score[1] == pytest.approx(half, rel=1e-3)
    assert judged.rmse == pytest.approx(np.sqrt(((loc.mean(axis=0) - y) ** 2).mean()), rel=1e-10)
    inside = (kuq.Ensemble(kuq.Normal(loc, std)), y)
    np.testing.assert_allclose(np.sort(judged.pit), np.sort(pit_values(*inside).ravel()))
    return judged


def test_a_table_with_a_target(folder, capsys):
    pd = pytest.importorskip("pandas")
    loc, std, y = calibrated(0)
    columns = {"id": range(300), "seen": y}
    columns |= {f"{n}_{m}": v[m] for m in range(4) for n, v in (("mean", loc), ("std", std))}
    pd.DataFrame(columns).to_csv("p.csv", index=False)
    assert main(["decompose", "p.csv", "--target", "seen", "--report", "p.html"]) == 0
    said = capsys.readouterr().out
    result = decompose_file(folder / "p.csv", kuq.CRPS(), layout=Layout(target="seen"))
    judged = check(result.only, loc, std, y)
    assert "judged by 'seen', 300 outcomes" in said
    assert f"mean score {judged.score[0]:.4g}" in said
    assert f"hold {100 * judged.coverage(0.5):.0f} % and" in said
    page = (folder / "p.html").read_text(encoding="utf-8")
    best = judged.ranking.best
    assert f"errors are ranked best by {best}" in said
    for words in ("How good it is", "Coverage", "(PIT)", "Error of what is kept", best):
        assert words in page
    assert "The inputs with the most noise" in page
    assert "'seen'" not in said.split("judged by")[0]  # neither a label nor unused
    # Noise is what differs here, and all scores see it; chance is far away.
    assert judged.ranking.curves[best].prr < 0.9
    assert judged.ranking.intervals[best][1] < 1


def test_a_long_table_has_one_outcome_for_an_input(folder, capsys):
    pd = pytest.importorskip("pandas")
    loc, std, y = calibrated(1, rows=20)
    rows = [
        {"site": f"s{i}", "model": "abcd"[m], "mean": loc[m, i], "std": std[m, i], "y": y[i]}
        for i in range(20)
        for m in range(4)
    ]
    pd.DataFrame(rows).to_csv("p.csv", index=False)
    result = decompose_file(folder / "p.csv", kuq.CRPS(), layout=Layout(target="y"))
    check(result.only, loc, std, y)
    assert result.only.member_names == ("a", "b", "c", "d")
    assert pd.read_csv(result.out)["y"].tolist() == pytest.approx(y.tolist())
    rows[6]["y"] += 1
    pd.DataFrame(rows).to_csv("q.csv", index=False)
    assert main(["decompose", "q.csv", "--target", "y"]) == 2
    said = capsys.readouterr().err
    assert "same for all members" in said
    assert "line" in said


@pytest.mark.parametrize("event", [0, 1])
def test_arrays_with_a_target(folder, event):
    loc, std, y = calibrated(2, rows=40, shape=(3,))
    np.savez("p.npz", mean=loc, std=std, truth=y)
    layout = Layout(event=("1",) if event else (), target="truth")
    result = decompose_file(folder / "p.npz", kuq.CRPS(), layout=layout)
    if event:
        check(result.only, loc, std, y, event_ndim=1)
    else:
        flat = [a.reshape(*a.shape[: a.ndim - 2], -1) for a in (loc, std, y)]
        check(result.only, *flat)


@pytest.mark.parametrize("event", [(), ("lat", "lon")])
def test_a_grid_with_a_target_and_a_mask(folder, event):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("dask")
    loc, std, y = calibrated(3, rows=12, shape=(4, 5))
    sea = np.add.outer(np.arange(4), np.arange(5)) % 4 == 0
    hidden = [np.where(sea, np.nan, a) for a in (loc, std, y)]
    dims = ("time", "lat", "lon")
    data = xr.Dataset(
        {
            "mean": (("member", *dims), hidden[0]),
            "std": (("member", *dims), hidden[1]),
            "seen": (("lat", "time", "lon"), np.moveaxis(hidden[2], 0, 1)),
        }
    )
    data.to_netcdf("f.nc")
    layout = Layout(event=event, target="seen")
    result = decompose_file(folder / "f.nc", kuq.CRPS(), layout=layout)
    land = [a[..., ~sea] for a in (loc, std, y)]
    if event:
        check(result.only, *land, event_ndim=1)
    else:
        check(result.only, *(a.reshape(*a.shape[:-2], -1) for a in land))
    assert "How good it is" in decomposition_report(result)


def test_outcomes_that_are_not_known_are_left_out(folder, capsys):
    loc, std, y = calibrated(4, rows=50)
    y[[3, 17]] = np.nan
    np.savez("p.npz", mean=loc, std=std, y=y)
    result = decompose_file(folder / "p.npz", kuq.CRPS(), layout=Layout(target="y"))
    keep = ~np.isnan(y)
    check(result.only, loc[:, keep], std[:, keep], y[keep])
    np.savez("q.npz", mean=loc, std=std, y=np.full(50, np.nan))
    assert main(["decompose", "q.npz", "--target", "y", "--report", "q.html"]) == 0
    assert "fewer than two predictions have an outcome" in capsys.readouterr().out
    assert "Fewer than two predictions" in (folder / "q.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("y", "target", "words"),
    [
        (np.zeros(50), "z", "'y'"),
        (np.zeros(49), "y", "(50,)"),
        (np.full(50, np.inf), "y", "finite"),
        (np.array(["a"] * 50), "y", "real numbers"),
    ],
)
def test_targets_that_do_not_fit(folder, capsys, y, target, words):
    loc, std, _ = calibrated(5, rows=50)
    np.savez("p.npz", mean=loc, std=std, y=y)
    assert main(["decompose", "p.npz", "--target", target]) == 2
    assert words in capsys.readouterr().err
    assert not (folder / "p-uncertainty.npz").exists()


@pytest.mark.parametrize("dims", [("member", "x"), ("time",), ("x", "time", "y")])
def test_targets_of_grids_that_do_not_fit(folder, capsys, dims):
    """It is said before anything is computed or written."""
    xr = pytest.importorskip("xarray")
    pytest.importorskip("dask")
    loc = xr.DataArray(np.zeros((3, 4, 5)), dims=("member", "time", "x"))
    data = xr.Dataset({"mean": loc, "std": loc + 1})
    data["seen"] = (dims, np.zeros([{"member": 3, "time": 4, "x": 5, "y": 2}[d] for d in dims]))
    data.to_netcdf("f.nc")
    assert main(["decompose", "f.nc", "--target", "seen", "--event", "x"]) == 2
    assert "'seen'" in capsys.readouterr().err
    assert not (folder / "f-uncertainty.nc").exists()


def test_what_a_page_says_of_coverage(folder):
    loc, std, y = calibrated(5, rows=400)  # of one seed in twenty the 95 % interval misses 90 %
    words = {0.3: "too narrow", 1.0: "about as many", 4.0: "wider than they need"}
    for factor, expected in words.items():
        np.savez("p.npz", mean=loc, std=factor * std, y=y)
        result = decompose_file(folder / "p.npz", kuq.CRPS(), layout=Layout(target="y"))
        assert expected in decomposition_report(result)
    np.savez("p.npz", mean=loc - 3, std=std, y=y)
    result = decompose_file(folder / "p.npz", kuq.CRPS(), layout=Layout(target="y"))
    assert "lie above the predicted median" in decomposition_report(result)


def test_very_many_inputs_are_judged_by_some_of_them(folder):
    loc, std, y = calibrated(7, rows=5000)
    np.savez("p.npz", mean=loc, std=std, y=y)
    result = decompose_file(folder / "p.npz", kuq.CRPS(), layout=Layout(target="y"))
    judged = judge(result.only)
    assert judged.count == 2000
    assert judged.thinned
    assert "2 000 outcomes, evenly spread" in decomposition_report(result)


LAWS = {
    "normal": lambda loc, std: kuq.Normal(loc, std),
    "student": lambda loc, std: kuq.StudentT(np.full(loc.shape, 4.0), loc, std),
    "mixture": lambda loc, std: kuq.NormalMixture(
        np.array([0.3, 0.7]), np.stack([loc - 1, loc + 1], -1), np.stack([std, 2 * std], -1)
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_pit_is_the_distribution_function(name):
    """Against many draws of every law."""
    rng = np.random.default_rng(8)
    loc, std, y = rng.normal(size=(3, 5)), rng.uniform(0.5, 2, size=(3, 5)), rng.normal(size=5)
    law = LAWS[name](loc, std)
    draws = law.sample(50_000, np.random.default_rng(9))
    share = (np.asarray(draws) < y[:, None]).mean(axis=(0, 2))
    found = pit_values(kuq.Ensemble(law), y)
    np.testing.assert_allclose(found, share, atol=8e-3)  # six standard errors of 150 000 draws
    many = pit_values(kuq.Ensemble([law.member(m) for m in range(3)]), y)
    np.testing.assert_allclose(many, found, rtol=1e-12)


@pytest.mark.parametrize("kind", ["points", "draws", "weighted", "evidential", "zero"])
def test_pit_of_outcomes_like_the_draws_is_uniform(kind):
    from scipy import stats

    rng = np.random.default_rng(10)
    n = 4000
    values = rng.normal(size=(5, n))
    y = rng.normal(size=n)
    if kind == "points":
        prediction = kuq.Ensemble(kuq.Point(values))
    elif kind == "zero":  # of scale zero, like points
        prediction = kuq.Ensemble(kuq.Normal(values, np.zeros((5, n))))
        y = values[rng.integers(5, size=n), np.arange(n)]
    elif kind == "evidential":
        prediction = kuq.NormalInverseGamma(np.zeros(n), 2.0, 3.0, 1.5)
        variance = stats.invgamma.rvs(3.0, scale=1.5, size=n, random_state=rng)
        y = rng.normal(size=n) * np.sqrt(variance * (1 + 1 / 2.0))
    else:
        values = rng.normal(size=(3, n, 7))
        weights = rng.uniform(size=7) if kind == "weighted" else None
        prediction = kuq.Ensemble(kuq.Samples(values, weights=weights))
        if kind == "weighted":
            place = rng.choice(7, size=n, p=weights / weights.sum())
            y = values[rng.integers(3, size=n), np.arange(n), place]
    assert stats.kstest(pit_values(prediction, y), "uniform").pvalue > 1e-3


def test_a_report_from_memory(folder):
    loc, std, y = calibrated(11)
    ensemble = kuq.Ensemble(kuq.Normal(loc, std))
    names, labels = ["RF", "GBM", "<net>", "linear"], [f"site {i}" for i in range(300)]
    path = kuq.report(ensemble, names=names, y=y, labels=labels, path="report.html")
    page = path.read_text(encoding="utf-8")
    assert path.name == "report.html"
    for text in (
        "RF",
        "GBM",
        "&lt;net&gt;",
        "linear",
        "How good it is",
        "4 members, each a normal",
    ):
        assert text in page
    u = kuq.decompose(ensemble, kuq.CRPS())
    assert f"site {int(np.argmax(u.epistemic))}<" in page
    assert f"<b>{u.total.mean():.3g}</b>" in page
    np.savez("p.npz", mean=loc, std=std, y=y)
    assert main(["decompose", "p.npz", "--target", "y", "--report", "p.html"]) == 0
    numbers = [re.findall(r"<b>([^<]*)</b>", (folder / f).read_text()) for f in ("p.html", path)]
    assert numbers[0] == numbers[1]  # the same page as from a file
    kuq.report(ensemble, kuq.SquaredError(), estimator="bma", path="report.html")  # its own page
    assert "How good it is" not in path.read_text(encoding="utf-8")
    (folder / "mine.html").write_text("mine")
    with pytest.raises(kuq.ParameterError, match=r"mine\.html"):
        kuq.report(ensemble, path="mine.html")
    assert (folder / "mine.html").read_text() == "mine"


def test_names_of_rows_are_labels_and_outcomes_are_in_their_order(folder):
    pandas = pytest.importorskip("pandas")
    ensemble = kuq.Ensemble(kuq.Normal([[0.0, 1.0, 2.0], [0.0, 1.0, 5.0]], 1.0))
    with pytest.raises(kuq.ShapeError, match=r"2 members need 2 names, got 3; .*labels= names the"):
        kuq.report(ensemble, names=["a", "b", "c"], path="r.html")
    y = pandas.Series([1.0, 2.0, 3.0], index=["c", "b", "a"])
    with pytest.raises(kuq.ParameterError, match=r"'a' is at the place of 'c'.*y.loc"):
        kuq.report(ensemble, labels=["a", "b", "c"], y=y, path="r.html")
    labels = pandas.Series(["a", "b", "c"], index=[7, 8, 9])
    for fitting in (y.loc[labels.to_list()], y.rename({"a": "x"}), y.reset_index(drop=True)):
        assert kuq.report(ensemble, labels=labels, y=fitting, path="r.html").is_file()


def test_reports_of_several_predictions_of_any_kind(folder):
    rng = np.random.default_rng(12)
    loc, std, y = calibrated(13, rows=30)
    fields = kuq.Ensemble(kuq.Samples(rng.normal(size=(3, 6, 9, 5, 7)), event_ndim=2))
    mixed = kuq.Ensemble([kuq.Normal(loc[0], std[0]), kuq.StudentT(5.0, loc[1], std[1])])
    evidential = kuq.NormalInverseGamma(loc[0], 1.0, 3.0, std[0])
    predictions = {"wind": fields, "rain": mixed, "snow": evidential}
    page = kuq.report(predictions, y={"rain": y, "snow": y}, path="r.html").read_text("utf-8")
    for name in predictions:
        assert f"<h2>{name}</h2>" in page
    assert page.count("How good it is") == 2
    assert "members of different kinds" in page


@pytest.mark.parametrize("options", [{}, {"estimator": "bma"}, {"unbiased": False}])
def test_an_outlying_member_in_numbers_of_the_page(folder, options):
    loc, std, y = calibrated(16, rows=40)
    loc[2] += 9
    ensemble = kuq.Ensemble(kuq.Normal(loc, std))
    page = kuq.report(ensemble, kuq.SquaredError(), y=y, path="r.html", **options).read_text(
        "utf-8"
    )
    now = kuq.decompose(ensemble, kuq.SquaredError(), **options).epistemic.mean()
    rest = kuq.Ensemble(kuq.Normal(np.delete(loc, 2, axis=0), np.delete(std, 2, axis=0)))
    then = kuq.decompose(rest, kuq.SquaredError(), **options).epistemic.mean()
    assert "Member 2 stands apart" in page
    assert f"would be {then:.3g} instead of {now:.3g}" in page


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_reports_of_other_libraries(folder, library):
    loc, std, y = calibrated(14, rows=30)
    if library == "torch":
        torch = pytest.importorskip("torch")
        make = lambda a: torch.tensor(np.array(a), requires_grad=True)  # noqa: E731
    else:
        jnp = pytest.importorskip("jax.numpy")
        make = jnp.asarray
    page = kuq.report(kuq.Ensemble(kuq.Normal(make(loc), make(std))), y=make(y), path="r.html")
    kuq.report(kuq.Ensemble(kuq.Normal(loc, std)), y=y, path="s.html")
    if library == "torch":
        assert page.read_text() == (folder / "s.html").read_text()
    assert "How good it is" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"names": ["a"]}, "4 members"),
        ({"labels": ["a"]}, "labels"),
        ({"y": np.zeros(3)}, r"\(30,\)"),
        ({"path": "r.txt"}, "html"),
        ({"y": np.full(30, np.inf)}, "finite"),
    ],
)
def test_bad_calls_of_report(folder, arguments, words):
    loc, std, _ = calibrated(15, rows=30)
    with pytest.raises(kuq.KuqError, match=words):
        kuq.report(kuq.Ensemble(kuq.Normal(loc, std)), **arguments)
    assert list(folder.iterdir()) == []


def test_outcomes_far_from_every_member_lie_in_no_interval(folder):
    """Places that were drawn at random below all members counted as inside, at 52 of 100."""
    values = np.random.default_rng(11).normal(size=(10, 50))
    prediction = kuq.Ensemble(kuq.Point(values))
    kuq.report(prediction, y=np.full(50, -1000.0), path="far.html")
    page = (folder / "far.html").read_text(encoding="utf-8")
    assert re.search(r">0 %<.{0,60}of outcomes lie in their 90 % intervals", page)
