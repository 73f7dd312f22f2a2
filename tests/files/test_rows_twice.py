"""Rows that appear twice or not at all are named, by their line and by what they are about."""

import numpy as np
import pytest

import kuq
from kuq.cli import main
from kuq.files import Layout, decompose_file

pd = pytest.importorskip("pandas")


def message(path):
    with pytest.raises(kuq.ShapeError) as error:
        decompose_file(path, kuq.CRPS())
    return str(error.value)


ROWS = ["Bonn,1,0,1.0,1", "Bonn,1,1,1.0,1", "Celle,1,0,2.0,1", "Celle,1,1,2.0,1"]


def written(folder, *rows):
    path = folder / "p.csv"
    path.write_text("\n".join(["station,day,member,mean,std", *rows]) + "\n")
    return path


def test_a_row_twice_is_named(tmp_path):
    """It said "expected one row for each of 2 inputs × 2 members, got 5 rows", and not which."""
    said = message(written(tmp_path, *ROWS, "Bonn,1,0,1.5,1"))
    assert "got 5 rows: line 6 repeats line 2 (station Bonn day 1 member 0);" in said
    assert "no row" not in said


def test_one_twice_and_another_missing(tmp_path):
    said = message(written(tmp_path, *ROWS[:3], "Bonn,1,1,1.5,1"))
    assert "line 5 repeats line 3 (station Bonn day 1 member 1)" in said
    assert "no row for station Celle day 1 member 1" in said


def test_blank_lines_count_and_only_the_first_are_named(tmp_path):
    twice = [f"Aachen,{k},0,1,1" for k in range(9)]
    said = message(written(tmp_path, *twice, "", *twice))
    assert "line 12 repeats line 2 (station Aachen day 0 member 0)" in said
    assert "line 14 repeats line 4" in said
    assert "line 15" not in said
    assert "and 6 more" in said


def test_missing_rows_without_keys(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("member,value\na,1\nb,2\na,3\n")
    assert "no row for input 1 member b; inputs are told apart by their order" in message(path)


def test_draws_and_tables_without_lines(tmp_path):
    pytest.importorskip("pyarrow")
    index = np.array([(m, d, i) for i in "xy" for m in range(2) for d in range(3)], dtype=object)
    table = pd.DataFrame(index, columns=["member", "sample", "site"])
    table["value"] = np.arange(12.0)
    table = pd.concat([table.drop(index=7), table.iloc[[2]]])
    table.to_parquet(tmp_path / "p.parquet", index=False)
    said = message(tmp_path / "p.parquet")
    assert (
        "row 11, counted from 0, repeats row 2, counted from 0, (site x member 0 sample 2)" in said
    )
    assert "no row for site y member 0 sample 1" in said


# --- a row per input -----------------------------------------------------------------------------


def wide(folder, header, *rows):
    path = folder / "w.csv"
    numbers = [f"{row},{k}.5,1,{k},2" for k, row in enumerate(rows)]
    path.write_text("\n".join([f"{header},mean_0,std_0,mean_1,std_1", *numbers]) + "\n")
    return path


def test_inputs_twice_in_a_table_with_a_row_for_each(tmp_path):
    """They were taken without a word, and stood twice on the page."""
    path = wide(tmp_path, "station,day", "Bonn,1", "Celle,1", "Bonn,2", "Bonn,1")
    result = decompose_file(path, kuq.CRPS())
    said = "line 5 repeats line 2 (station Bonn day 1); every row is taken for an input of its own"
    assert f"the same input twice? {said}" in result.only.notes
    assert result.uncertainty.total.shape == (4,)
    with pytest.raises(kuq.ShapeError) as refused:
        decompose_file(path, kuq.CRPS(), layout=Layout(by="station,day"))
    assert "line 5 repeats line 2 (station Bonn day 1);" in str(refused.value)
    assert "told apart by 'station', 'day'; if other columns do, name them: --by" in str(
        refused.value
    )
    evidential = tmp_path / "e.csv"
    evidential.write_text(
        "id,loc,nu,alpha,beta\n" + "".join(f"{k},0,1,2,1\n" for k in [7, 8, 9, 7])
    )
    assert "line 5 repeats line 2 (id 7)" in " ".join(
        decompose_file(evidential, kuq.CRPS()).only.notes
    )


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("split", ("test", "test", "test")),
        ("region", ("north", "south", "north")),
        ("comment", ("", "", "see line 2")),
        ("dose", ("0.5", "0.5", "1.5")),
        ("a,b,c,d", ("1,x,2,3", "1,x,2,3", "1,y,2,3")),
        ("station,note", ("Bonn,", "Celle,", "Ulm,")),
    ],
)
def test_columns_that_name_no_input_may_repeat(tmp_path, header, rows):
    result = decompose_file(wide(tmp_path, header, *rows), kuq.CRPS())
    assert result.uncertainty.total.shape == (3,)
    assert not [note for note in result.only.notes if "twice" in note]


def test_which_columns_tell_inputs_apart_can_be_said(tmp_path):
    path = wide(tmp_path, "id,region", "a,north", "b,south", "c,north", "c,south")
    assert decompose_file(path, kuq.CRPS()).labels[0] == "a, north"
    with pytest.raises(kuq.ShapeError, match=r"line 5 repeats line 4 \(id c\)"):
        decompose_file(path, kuq.CRPS(), layout=Layout(by="id"))
    region = wide(tmp_path, "region", "north", "south", "north")
    with pytest.raises(kuq.ShapeError, match="--by '' if every row is an input of its own"):
        decompose_file(region, kuq.CRPS(), layout=Layout(by="region"))
    found = decompose_file(region, kuq.CRPS(), layout=Layout(by=""))
    assert (found.dims, found.labels) == (("row",), ("0", "1", "2"))
    assert pd.read_csv(found.out)["region"].tolist() == ["north", "south", "north"]


# --- a row per input and member ------------------------------------------------------------------


LONG = """id,region,seed,member,mean,std,y
a,north,1,0,1.0,1,1.5
a,north,2,1,2.0,1,1.5
b,south,3,0,0.0,1,0.5
b,south,4,1,0.5,1,0.5
"""


def test_a_long_table_with_a_column_of_members_points_to_the_option(tmp_path, capsys):
    """A column such as the seed of each member made four inputs of two, with no way out."""
    path = tmp_path / "long.csv"
    path.write_text(LONG)
    assert main(["decompose", str(path), "--target", "y"]) == 2
    said = capsys.readouterr().err
    assert "told apart by 'id', 'region', 'seed'; if other columns do, name them: --by" in said
    assert main(["decompose", str(path), "--target", "y", "--by", "id"]) == 0
    said = capsys.readouterr().out
    assert "2 predictions by id" in said
    assert "left out, as they differ between members of an input: 'seed'" in said
    found = pd.read_csv(tmp_path / "long-uncertainty.csv")
    assert found.columns.tolist()[:3] == ["id", "y", "region"]
    assert found.region.tolist() == ["north", "south"]
    members = kuq.Ensemble(kuq.Normal([[1.0, 0.0], [2.0, 0.5]], 1.0))
    wanted = kuq.decompose(members, kuq.CRPS())
    np.testing.assert_allclose(found.epistemic, wanted.epistemic, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "by", "words"),
    [
        (
            "long.csv",
            "town",
            "no column 'town' beside those of the prediction; found 'id'",
        ),
        ("long.csv", "mean", "no column 'mean'"),
        ("long.csv", "member", "no column 'member'"),
        ("p.npz", "id", "--by names columns of tables"),
    ],
)
def test_columns_that_are_not_there(tmp_path, name, by, words):
    (tmp_path / "long.csv").write_text(LONG)
    np.savez(tmp_path / "p.npz", mean=np.zeros((2, 3)), std=np.ones((2, 3)))
    with pytest.raises(kuq.ParameterError, match=words):
        decompose_file(tmp_path / name, kuq.CRPS(), layout=Layout(by=by))


def test_columns_with_commas_in_their_name(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text(LONG.replace("id,region", '"id, old",region'))
    assert decompose_file(path, kuq.CRPS(), layout=Layout(by="id, old")).labels == ("a", "b")


def test_an_index_that_pandas_wrote_is_no_input(tmp_path):
    """``to_csv`` numbers the rows in a column without a name: each row was an input of its own."""
    table = pd.DataFrame({"id": list("aabb"), "member": [0, 1] * 2, "mean": [1.0, 2, 0, 0.5]})
    table["std"] = 1.0
    wanted = None
    for name, rows in (("named", table), ("alone", table.drop(columns="id"))):
        rows.to_csv(tmp_path / f"{name}.csv")
        found = decompose_file(tmp_path / f"{name}.csv", kuq.CRPS())
        wanted = found.uncertainty.total if wanted is None else wanted
        np.testing.assert_array_equal(found.uncertainty.total, wanted)
        assert not any("left out" in note for note in found.only.notes)
    by_member = pd.concat([table[table.member == m].reset_index(drop=True) for m in (0, 1)])
    by_member.drop(columns="id").iloc[[0, 1, 3, 2]].to_csv(tmp_path / "inputs.csv")
    found = decompose_file(tmp_path / "inputs.csv", kuq.CRPS())
    np.testing.assert_array_equal(found.uncertainty.total, wanted)
    assert found.dims == ("row",)
