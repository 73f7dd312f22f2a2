"""Rows that are not there in tables with a row for every input and member."""

from __future__ import annotations

import numpy as np
import pytest

import kuq
from kuq.cli import main

pd = pytest.importorskip("pandas")


def rows(**columns):
    rng = np.random.default_rng(2)
    return pd.DataFrame(
        [
            {"station": station, "member": member, "mean": rng.normal(), "std": 1.0, **columns}
            for station in ("Oslo", "Rome", "Wien")
            for member in range(4)
        ]
    )


def test_a_row_that_lacks_is_a_missing_value(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = rows(weight=1.0, observed=0.5)
    whole.drop(index=11).sample(frac=1, random_state=0).to_csv("p.csv", index=False)
    assert main(["decompose", "p.csv", "--target", "observed"]) == 2
    said = capsys.readouterr().err
    assert "no row for station Wien member 3; " in said
    assert "--nan propagate gives such inputs no result" in said
    assert main(["decompose", "p.csv", "--target", "observed", "--nan", "propagate"]) == 0
    assert "no row for station Wien member 3, which counts as missing" in capsys.readouterr().out
    found = pd.read_csv("p-uncertainty.csv").set_index("station")
    assert found.loc["Wien", ["score", "total", "aleatoric", "epistemic"]].isna().all()
    loc = whole["mean"].to_numpy().reshape(3, 4).T
    u = kuq.decompose(kuq.Ensemble(kuq.Normal(loc[:, :2], 1.0)), kuq.CRPS())
    np.testing.assert_allclose(found.loc[["Oslo", "Rome"], "total"], u.total, rtol=1e-12)


def test_draws_that_lack_are_left_out(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    values = rng.normal(size=(2, 3, 5))
    table = pd.DataFrame(
        [(s, m, k, values[s, m, k]) for s, m, k in np.ndindex(values.shape)],
        columns=["site", "member", "draw", "value"],
    )
    table.drop(index=7).to_csv("p.csv", index=False)
    assert main(["decompose", "p.csv"]) == 2
    assert "no row for site 0 member 1 draw 2; " in capsys.readouterr().err
    assert main(["decompose", "p.csv", "--nan", "omit"]) == 0
    values[0, 1, 2] = np.nan
    draws = kuq.Samples(np.swapaxes(values, 0, 1), nan_policy="omit")
    u = kuq.decompose(kuq.Ensemble(draws), kuq.CRPS())
    found = pd.read_csv("p-uncertainty.csv")
    np.testing.assert_allclose(found["epistemic"], u.epistemic, rtol=1e-12)


@pytest.mark.parametrize("policy", ["raise", "propagate"])
def test_rows_without_names_and_wrong_names_are_refused(policy, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows().drop(columns="station").drop(index=5).to_csv("p.csv", index=False)
    assert main(["decompose", "p.csv", "--nan", policy]) == 2
    assert "add a column that names them" in capsys.readouterr().err
    rows().assign(seconds=np.arange(12.0)).to_csv("p.csv", index=False)
    assert main(["decompose", "p.csv", "--nan", policy]) == 2
    assert "name them: --by station" in capsys.readouterr().err


@pytest.mark.parametrize("score", ["crps", "gaussian:0.7", "variance"])
@pytest.mark.parametrize("law", ["points", "normals"])
def test_inputs_with_fewer_members_are_decomposed_by_those(
    law, score, tmp_path, capsys, monkeypatch
):
    """Rows with other numbers of members than most had no result, and no option gave them one."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    loc, std = rng.normal(size=(4, 30)), rng.uniform(0.5, 2.0, size=(4, 30))
    weights, y = np.array([1.0, 2.0, 1.0, 3.0]), rng.normal(size=30)
    there = rng.random(size=(4, 30)) < 0.6
    there[:, :3], there[1:, 3], there[:, 4] = True, False, False
    table = {"id": [f"x{i}" for i in range(30)], "y": y}
    for m in range(4):
        table |= {f"mean_{m}": np.where(there[m], loc[m], np.nan)}
        table |= {f"std_{m}": np.where(there[m], std[m], np.nan)} if law == "normals" else {}
        table |= {f"weight_{m}": weights[m]}
    frame = pd.DataFrame(table)
    if law == "points":
        frame = frame.rename(columns={f"mean_{m}": f"member_{m}" for m in range(4)})
    frame.to_csv("p.csv", index=False)
    options = ["--score", score, "--target", "y", "--report", "p.html"]
    assert main(["decompose", "p.csv", *options]) == 2
    assert "--nan omit decomposes them by the members that are there" in capsys.readouterr().err
    assert main(["decompose", "p.csv", *options, "--nan", "omit"]) == 0
    said = capsys.readouterr().out
    few, some = there.sum(axis=0) < 2, ~there.all(axis=0)
    assert f"{few.sum()} of 30 inputs have fewer than two members and no result" in said
    assert f"{(some & ~few).sum()} of 30 inputs lack members and are decomposed by those" in said
    found = pd.read_csv("p-uncertainty.csv")
    assert found["total"].isna().tolist() == found["score"].isna().tolist() == few.tolist()
    for i in np.flatnonzero(~few):
        own = there[:, i]
        member = kuq.Normal(loc[own, i], std[own, i] if law == "normals" else 0.0)
        alone = kuq.Ensemble(member, weights[own])
        total = kuq.decompose(alone, score).total
        of_mean = "squared" if score == "variance" else score
        np.testing.assert_allclose(found["total"][i], total, rtol=1e-10)
        np.testing.assert_allclose(found["score"][i], kuq.score(alone, y[i], of_mean), rtol=1e-10)
    assert f"{(~some).sum()} outcomes" in said


def test_where_no_input_has_all_members(tmp_path, monkeypatch):
    """The exact table of somebody whose models were run at different places."""
    monkeypatch.chdir(tmp_path)
    lines = ["id,pred_1,pred_2,pred_3", "a,0,1,", "b,0,,3", "c,,2,7"]
    (tmp_path / "p.csv").write_text("\n".join(lines) + "\n")
    assert main(["decompose", "p.csv", "--points", "pred_{}", "--nan", "omit"]) == 0
    assert pd.read_csv("p-uncertainty.csv")["total"].tolist() == [1.0, 3.0, 5.0]
    np.savez("p.npz", predictions=[[[0.0, 0.0]], [[1.0, np.nan]], [[np.nan, 3.0]]])
    assert main(["decompose", "p.npz", "--nan", "omit"]) == 0
    with np.load("p-uncertainty.npz") as result:
        assert result["total"].tolist() == [[1.0, 3.0]]
