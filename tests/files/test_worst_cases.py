"""The largest errors on a page: which they are, and whether something announced them."""

import re

import numpy as np
import pytest

import kuq
from kuq.cli import main


def section(page, heading):
    """The text of a part of a page, and the rows of its first table."""
    text = page.read_text(encoding="utf-8").split(f">{heading}</h")[1]
    text = re.split(r"<h[23]", text)[0]
    rows = re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]
    return re.sub(r"<[^>]*>", " ", text.split("<div class='table'>")[0]), cells


def predictions():
    """Forty houses: eight whose noise is known to be high, eight on which members disagree."""
    rng = np.random.default_rng(0)
    noise = np.where(np.arange(40) < 8, 3.0, 0.5)
    apart = np.where(np.arange(40) >= 32, 3.0, 0.1)
    mean = 20.0 + apart * rng.normal(size=(6, 40))
    y = mean.mean(axis=0) + 0.1 * noise * rng.normal(size=40)
    y[[3, 35, 20]] += [14.0, -11.0, 8.0]
    return kuq.Ensemble(kuq.Normal(mean, np.broadcast_to(noise, mean.shape))), y


def test_a_page_lists_the_largest_errors(tmp_path):
    prediction, y = predictions()
    names = [f"house-{k}" for k in range(40)]
    page = kuq.report(prediction, y=y, labels=names, path=tmp_path / "p.html")
    words, (head, *rows) = section(page, "The largest errors")
    assert head == [
        *("input", "outcome", "predicted", "90 % interval", "score"),
        *("total", "aleatoric", "epistemic", "high there"),
    ]
    scores = kuq.score(prediction, y, kuq.CRPS())
    worst = np.argsort(-scores)[:10]
    assert [row[0] for row in rows] == [names[k] for k in worst]
    u = kuq.decompose(prediction, kuq.CRPS())
    low, high = prediction.interval(0.9)
    for row, k in zip(rows, worst, strict=True):
        bounds = [float(text.replace("−", "-")) for text in row[3].split(" to ")]
        found = [float(text.replace("−", "-")) for text in (*row[1:3], *row[4:8])]
        wanted = [y[k], prediction.mean()[k], scores[k], u.total[k], u.aleatoric[k], u.epistemic[k]]
        assert found == pytest.approx(wanted, rel=0.006, abs=0.06)
        assert bounds == pytest.approx([low[k], high[k]], abs=0.06)
    why = {row[0]: row[-1] for row in rows}
    assert why["house-3"] == "noise"
    assert why["house-35"] == "epistemic"
    assert why["house-20"] == "–"
    assert re.search(r"epistemic was high in \d+ and noise was high in \d+", words)
    assert "nothing announced the error" in words


def test_the_command_line_writes_it_with_the_keys_of_the_table(tmp_path, capsys):
    pd = pytest.importorskip("pandas")
    prediction, y = predictions()
    columns = {"house": [f"h{k}" for k in range(40)], "price": y.copy()}
    columns["price"][[0, 1]] = np.nan
    for m in range(6):
        columns |= {f"mean_{m}": prediction.members.loc[m], f"std_{m}": prediction.members.scale[m]}
    path, page = tmp_path / "p.csv", tmp_path / "p.html"
    pd.DataFrame(columns).to_csv(path, index=False)
    assert main(["decompose", str(path), "--target", "price", "--report", str(page)]) == 0
    capsys.readouterr()
    _, (head, *rows) = section(page, "The largest errors")
    table = pd.read_csv(tmp_path / "p-uncertainty.csv").sort_values("score", ascending=False)
    assert head[0] == "house"
    assert [row[0] for row in rows] == table.house[:10].tolist()


def test_large_numbers_keep_the_digits_that_matter(tmp_path):
    rng = np.random.default_rng(1)
    prediction = kuq.Ensemble(kuq.Normal(101_300 + rng.normal(size=(3, 12)), 2.0))
    y = 101_300 + 3 * rng.normal(size=12)
    page = kuq.report(prediction, y=y, path=tmp_path / "p.html")
    _, (_, *rows) = section(page, "The largest errors")
    worst = np.argmax(kuq.score(prediction, y, kuq.CRPS()))
    assert rows[0][:2] == [str(worst), f"{y[worst]:.1f}"]


def test_axes_of_inputs_vectors_and_a_spread(tmp_path):
    """Positions along several axes are named; outcomes that are vectors have no column."""
    rng = np.random.default_rng(2)
    prediction = kuq.Ensemble(kuq.Normal(rng.normal(size=(3, 4, 5)), 1.0))
    y = rng.normal(size=(4, 5))
    y[2, 3] = 9.0
    page = kuq.report(prediction, y=y, path=tmp_path / "axes.html")
    _, (head, first, *_) = section(page, "The largest errors")
    assert (head[0], first[0]) == ("input, axis 1", "input 2, axis 1 3")
    vectors = kuq.Ensemble(kuq.Normal(rng.normal(size=(3, 14, 2)), 1.0, event_ndim=1))
    target = rng.normal(size=(14, 2))
    target[5] = 7.0
    page = kuq.report(vectors, kuq.Energy(), y=target, path=tmp_path / "vectors.html")
    _, (head, first, *_) = section(page, "The largest errors")
    assert head == ["input", "score", "total", "aleatoric", "epistemic", "high there"]
    assert first[0] == "5"
    points = kuq.Ensemble(kuq.Point(rng.normal(size=(3, 14))))
    page = kuq.report(points, y=rng.normal(size=14), path=tmp_path / "points.html")
    words, (head, *rows) = section(page, "The largest errors")
    assert head[-2:] == ["spread", "high there"]
    assert {row[-1] for row in rows} <= {"spread", "–"}
    assert "spread was high in" in words


def test_noise_that_is_equal_everywhere_is_said_to_be(tmp_path):
    """A forest with noise from out-of-bag residuals: aleatoric uncertainty ranks nothing."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 2))
    y = X[:, 0] + rng.normal(size=80)
    forest = ensemble.RandomForestRegressor(10, random_state=0).fit(X[:50], y[:50])
    for noise in ("normal", "residuals"):
        found = kuq.sklearn.forest_ensemble(forest, X[:50], y[:50], X[50:], noise=noise)
        page = kuq.report(found, y=y[50:], path=tmp_path / f"{noise}.html")
        text = page.read_text(encoding="utf-8")
        assert "The aleatoric part is equal everywhere by construction" in text
        assert "<td>aleatoric (" not in text
        words, (_, *rows) = section(page, "The largest errors")
        assert "noise" not in words
        assert {row[-1] for row in rows} <= {"epistemic", "–"}
    other = kuq.Ensemble(kuq.Normal(rng.normal(size=(3, 9)), rng.uniform(1, 2, (3, 9))))
    text = kuq.report(other, path=tmp_path / "other.html").read_text(encoding="utf-8")
    assert "by construction" not in text


def test_leaves_are_not_said_to_be_corrected_for_their_number(tmp_path):
    """Targets in the leaves of a forest are its law itself: no score of theirs is "fair"."""
    rng = np.random.default_rng(4)
    values = rng.normal(size=(3, 20, 6))
    y = rng.normal(size=20)
    for whole in (True, False):
        members = kuq.Ensemble(kuq.Samples(values, whole=whole))
        page = kuq.report(members, y=y, path=tmp_path / f"{whole}.html")
        assert ("mean score is fair" in page.read_text(encoding="utf-8")) is not whole
