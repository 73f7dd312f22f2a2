"""Columns of any name as members, columns that are not used, and errors that say where."""

from __future__ import annotations

import shlex

import numpy as np
import pytest

import kuq
from kuq.cli import main
from kuq.files import Layout, Names, decompose_file

pd = pytest.importorskip("pandas")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys, *arguments):
    assert main(["decompose", *arguments]) == 2
    return capsys.readouterr().err


def models(rng, rows=9):
    names = ("B", "A", "long name")
    return {
        **{f"Model {n} mean": rng.normal(size=rows) for n in names},
        **{f"Model {n} sd": rng.uniform(1, 2, size=rows) for n in names},
    }


def test_means_and_deviations_by_patterns(folder, capsys):
    table = models(np.random.default_rng(0))
    pd.DataFrame({"id": range(9), **table}).to_csv("p.csv", index=False)
    options = ["--mean", "Model {} mean", "--std", "Model {} sd", "--report", "p.html"]
    assert main(["decompose", "p.csv", *options]) == 0
    values = list(table.values())
    ensemble = kuq.Ensemble(kuq.Normal(np.stack(values[:3]), np.stack(values[3:])))
    written = pd.read_csv("p-uncertainty.csv")
    np.testing.assert_allclose(
        written["epistemic"], kuq.decompose(ensemble, kuq.CRPS()).epistemic, rtol=1e-12
    )
    page = (folder / "p.html").read_text(encoding="utf-8")
    for name in ("A", "B", "long name"):
        assert f">{name}<" in page
    assert "inputs are named by 'id'" in capsys.readouterr().out


@pytest.mark.parametrize("pattern", ["RF*", "RF one,RF two,RF 3", "{}"])
def test_points_by_patterns_and_lists(folder, pattern):
    rng = np.random.default_rng(1)
    table = {name: rng.normal(size=5) for name in ("RF one", "RF two", "RF 3")}
    pd.DataFrame(table).to_csv("p.csv", index=False)
    result = decompose_file(folder / "p.csv", kuq.CRPS(), layout=Layout(Names(points=pattern)))
    ensemble = kuq.Ensemble(kuq.Point(np.stack(list(table.values()))))
    expected = kuq.decompose(ensemble, kuq.CRPS())
    np.testing.assert_allclose(result.uncertainty.epistemic, expected.epistemic, rtol=1e-12)
    assert result.only.member_names == ("RF one", "RF two", "RF 3")


def test_draws_by_two_gaps(folder):
    values = np.random.default_rng(2).normal(size=(2, 3, 4))  # members, draws, rows
    columns = {f"run {d} of {m}": values[k, d] for k, m in enumerate(("x", "y")) for d in (2, 0, 1)}
    pd.DataFrame(columns).to_csv("p.csv", index=False)
    layout = Layout(Names(samples="run {} of {}"))
    result = decompose_file(folder / "p.csv", kuq.CRPS(), layout=layout)
    # the first gap is the member: three runs with the draws x and y
    ensemble = kuq.Ensemble(kuq.Samples(np.moveaxis(values, (1, 2, 0), (0, 1, 2))))
    expected = kuq.decompose(ensemble, kuq.CRPS())
    np.testing.assert_allclose(result.uncertainty.epistemic, expected.epistemic, rtol=1e-12)
    assert result.only.member_names == ("0", "1", "2")


def test_a_variance_by_a_pattern_is_a_variance(folder):
    rng = np.random.default_rng(3)
    table = {f"{m} {n}": rng.uniform(1, 2, 4) for m in "ab" for n in ("mean", "var")}
    pd.DataFrame(table).to_csv("p.csv", index=False)
    layout = Layout(Names(loc="{} mean", scale="{} var"))
    result = decompose_file(folder / "p.csv", kuq.SquaredError(), layout=layout)
    expected = (table["a var"] + table["b var"]) / 2
    np.testing.assert_allclose(result.uncertainty.aleatoric, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--mean", "Modell {}"], ["'Modell {}'", "'Model A mean'"]),
        (["--mean", "Model {} mean", "--std", "Model A *"], ["every member"]),
        (["--points", "Model {} {}"], ["one gap"]),
        (["--samples", "Model {} mean"], ["two gaps"]),
        (["--mean", "Model {} mean", "--member", "id"], ["--member"]),
        (["--mean", "Model A mean"], ["--mean 'Model {} mean'"]),
        ([], ["--mean 'Model {} mean'", "'Model A mean'"]),
    ],
)
def test_patterns_that_do_not_fit(folder, capsys, options, words):
    pd.DataFrame({"id": range(9), **models(np.random.default_rng(4))}).to_csv("p.csv", index=False)
    said = refused(capsys, "p.csv", *options)
    for word in words:
        assert word in said


def test_a_column_like_a_standard_deviation_is_no_label(folder, capsys):
    """It was written beside the result as if it told the inputs apart."""
    (folder / "p.csv").write_text("pred std,member_0,member_1\n0.3,1,2\n0.4,2,4\n")
    said = refused(capsys, "p.csv")
    assert "'pred std'" in said
    assert "--std" in said
    assert main(["decompose", "p.csv", "--points", "member_{}"]) == 0
    assert "inputs are named by 'pred std'" in capsys.readouterr().out


def test_unused_columns_are_said_and_outcomes_offered(folder, capsys):
    (folder / "p.csv").write_text("id,x,observed,mean_0,std_0,mean_1,std_1\n7,1,2,0,1,2,1\n")
    assert main(["decompose", "p.csv"]) == 0
    said = capsys.readouterr().out
    assert "inputs are named by 'id', 'x', 'observed'" in said
    assert "--target observed" in said
    (folder / "q.csv").write_text("station,hour,member,mean,std\na,1,0,0,1\na,1,1,2,1\n")
    assert main(["decompose", "q.csv"]) == 0
    assert "told apart by 'station', 'hour'" in capsys.readouterr().out
    np.savez("p.npz", mean=np.ones((2, 3)), std=np.ones((2, 3)), extra=np.ones(3))
    assert main(["decompose", "p.npz"]) == 0
    assert "not used: 'extra'" in capsys.readouterr().out


def test_of_many_columns_one_names_the_inputs(folder):
    rng = np.random.default_rng(5)
    features = {f"x {i}": rng.normal(size=4).round(2) for i in "abcd"}
    columns = {"kind": list("uuvv"), "site": list("pqrs"), **features}
    columns |= {f"mean_{m}": rng.normal(size=4) for m in range(2)}
    columns |= {f"std_{m}": np.ones(4) for m in range(2)}
    pd.DataFrame(columns).to_csv("p.csv", index=False)
    result = decompose_file(folder / "p.csv", kuq.CRPS())
    assert result.dims == ("site",)
    assert result.labels == ("p", "q", "r", "s")


CELLS = {
    "negative": ("mean_0,std_0,mean_1,std_1\n0,1,2,1\n0,1,2,-1\n", ["'std_1'", "line 3", "-1"]),
    "missing": ("mean_0,std_0,mean_1,std_1\n0,1,2,1\n0,1,,1\n", ["'mean_1'", "line 3", "--nan"]),
    "infinite": ("mean_0,std_0,mean_1,std_1\n0,1,2,1\n0,1,inf,1\n", ["'mean_1'", "line 3"]),
    "blank lines": ("mean_0,std_0,mean_1,std_1\n\n\n0,1,2,-1\n", ["'std_1'", "line 4"]),
    "long": ("member,mean,std\n0,1,1\n1,2,\n", ["'std'", "line 3", "--nan propagate"]),
    "draws": ("sample_0_0,sample_0_1,sample_1_0,sample_1_1\n1,2,3,\n", ["--nan omit", "line 2"]),
}


@pytest.mark.parametrize("name", CELLS)
def test_errors_name_the_column_and_the_line(folder, capsys, name):
    text, words = CELLS[name]
    (folder / "p.csv").write_text(text)
    said = refused(capsys, "p.csv")
    for word in words:
        assert word in said


def test_errors_name_the_row_of_parquet_and_the_entry_of_arrays(folder, capsys):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"mean_0": [0.0, 1.0], "std_0": [1.0, -2.0], "mean_1": 1.0, "std_1": 1.0})
    table.to_parquet("p.parquet")
    said = refused(capsys, "p.parquet")
    assert "'std_0'" in said
    assert "row 1, counted from 0" in said
    mean = np.zeros((2, 3))
    mean[1, 2] = np.nan
    np.savez("p.npz", mean=mean, std=np.ones((2, 3)))
    said = refused(capsys, "p.npz")
    assert "'mean'" in said
    assert "[1, 2]" in said
    assert "--nan propagate" in said


def test_a_column_that_one_member_lacks_is_named(folder, capsys):
    (folder / "p.csv").write_text("id,mean_0,std_0,mean_1\n7,0,1,2\n")
    assert main(["decompose", "p.csv"]) == 2
    said = capsys.readouterr().err
    assert "there is 'mean_1', and none like 'std_0' for the same member" in said


def test_an_outcome_among_the_keys_of_a_long_table_is_pointed_out(folder, capsys):
    rows = "".join(f"{k},{k}.5,{m},0,1\n" for k in range(3) for m in range(2))
    (folder / "p.csv").write_text(f"id,outcome,member,mean,std\n{rows}")
    assert main(["decompose", "p.csv"]) == 0
    assert "if 'outcome' is what happened, --target outcome" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("header", "proposed"),
    [
        ("Datum;Temp (°C) Model 1;Temp (°C) Model 2;Messung (°C)", "--points 'Temp (°C) Model {}'"),
        ("t;Temp (°C) Model 1;Std (°C) Model 1;Temp (°C) Model 2;Std (°C) Model 2",
         "--mean 'Temp (°C) Model {}' --std 'Std (°C) Model {}'"),
        ("date;m1;m2;m3;observed", "--points 'm{}'"),
        ("id;pred_1;pred_2", "--points 'pred_{}'"),
        ("T2 run 1;T2 run 2;T2 run 3", "--points 'T2 run {}'"),
        ("House;RandomForest;XGBoost", "--points a,b,c"),
        ("id;mean_rf;std_rf;mean_gb;std_gb", "--mean 'mean_{}' --std 'std_{}'"),
        ("id;Net A mean;Net A sd;Net B mean;Net B sd", "--mean 'Net {} mean' --std 'Net {} sd'"),
        ("id;q10;q50;q90", "look like quantiles of one distribution"),
        ("id;mean;std", "'mean' and 'std' are those of one model"),
    ],
)  # fmt: skip
def test_the_likely_option_is_proposed(folder, capsys, header, proposed):
    """The error had options for other names only, so that each table took another attempt."""
    columns = header.split(";")
    rows = [";".join(f"{i + k / 2}" for k in range(len(columns))) for i in range(3)]
    (folder / "p.csv").write_text("\n".join([header, *rows]), encoding="utf-8-sig")
    assert main(["decompose", "p.csv"]) == 2
    assert proposed in capsys.readouterr().err
    if proposed.startswith("--") and "{}" in proposed:
        assert main(["decompose", "p.csv", *shlex.split(proposed)]) == 0
