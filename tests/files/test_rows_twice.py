"""Rows that appear twice or not at all are named, by their line and by what they are about."""

import numpy as np
import pytest

import kuq
from kuq.files import decompose_file

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
