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
