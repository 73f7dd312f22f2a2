"""Tables as spreadsheets and other countries write them: the same numbers, or a clear refusal."""

from __future__ import annotations

import numpy as np
import pytest

import kuq
from kuq.cli import main
from kuq.files import Layout, TextForm, decompose_file
from kuq.files.roles import Names

pd = pytest.importorskip("pandas")

DIALECTS = {
    "semicolons": (".csv", {"sep": ";"}),
    "semicolons and decimal commas": (".csv", {"sep": ";", "decimal": ","}),
    "tabs in .csv": (".csv", {"sep": "\t"}),
    "tabs": (".tsv", {"sep": "\t"}),
    "tabs and decimal commas": (".tsv", {"sep": "\t", "decimal": ","}),
    "bars": (".csv", {"sep": "|"}),
    "decimal commas in quotes": (".csv", {"decimal": ","}),
    "Windows": (".csv", {"sep": ";", "decimal": ",", "encoding": "cp1252"}),
    "UTF-16": (".csv", {"sep": "\t", "encoding": "utf-16"}),
    "UTF-8 with a mark": (".csv", {"sep": ";", "encoding": "utf-8-sig"}),
}


def table(seed):
    rng = np.random.default_rng(seed)
    columns = {"Straße": [f"Köln {i}" for i in range(12)]}
    for m in range(3):
        columns |= {f"mean_{m}": rng.normal(size=12), f"std_{m}": rng.uniform(0.5, 2, size=12)}
    return pd.DataFrame(columns)


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_gives_the_same_numbers(name, tmp_path):
    suffix, options = DIALECTS[name]
    frame = table(1)
    frame.to_csv(tmp_path / f"p{suffix}", index=False, **options)
    result = decompose_file(tmp_path / f"p{suffix}", kuq.CRPS())
    means, stds = (frame[[f"{n}_{m}" for m in range(3)]].to_numpy().T for n in ("mean", "std"))
    expected = kuq.decompose(kuq.Ensemble(kuq.Normal(means, stds)), kuq.CRPS())
    np.testing.assert_allclose(result.uncertainty.total, expected.total, rtol=1e-12)
    assert result.labels[3] == "Köln 3"
    written = pd.read_csv(result.out, **options)
    np.testing.assert_allclose(written["epistemic"], expected.epistemic, rtol=1e-12)
    assert written["Straße"].tolist() == frame["Straße"].tolist()
    marks = [
        path.read_bytes()[:2] in (b"\xef\xbb", b"\xff\xfe") for path in (result.source, result.out)
    ]
    assert marks[0] == marks[1]
    decompose_file(tmp_path / f"p{suffix}", kuq.CRPS())  # its own output is known and replaced
    said = " ".join(result.only.notes)
    assert ("decimal commas" in said) == (options.get("decimal") == ",")
    assert ("separated by" in said) == ("sep" in options)


REFUSED = {
    "thousands or decimals": ("mean_0;std_0;mean_1;std_1\n1,234;1;2;1\n", ["'1,234'", "thousands"]),
    "both marks": (
        "mean_0;std_0;mean_1;std_1\n0,5;1;2;1\n0,5;1;2.5;1\n", ["'2.5'", "'mean_1'", "line 3"]
    ),
    "points beside decimal commas": (
        "mean_0;std_0;mean_1;std_1\n0,5;1;2;1\n1.234;1;2;1\n",
        ["'1.234'", "'mean_0'", "line 3", "--thousands ."],
    ),
    "commas beside decimal points": (
        "mean_0;std_0;mean_1;std_1\n0.5;1;2;1\n1,234;1;2;1\n",
        ["'1,234'", "line 3", "--thousands ,"],
    ),
    "two ways to separate thousands": (
        "mean_0;std_0;mean_1;std_1\n1'234;1;2;1\n1.234,5;1;2;1\n",
        ["'1.234,5'", "points", "apostrophes"],
    ),
    "one mark for both": (
        "mean_0;std_0;mean_1;std_1\n1,234,567;1;2;1\n0,5;1;2;1\n", ["','", "'0,5'", "1,234,567"]
    ),
    "groups that are none": ("mean_0;std_0;mean_1;std_1\n12,34,5;1;2;1\n", ["'12,34,5'", "line 2"]),
    "two separators": ("a;mean_0,mean_1;b,c\n1;2,3;4,5\n", ["';'", "','"]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_may_be_read_in_two_ways_is_refused(name, tmp_path, monkeypatch, capsys):
    text, words = REFUSED[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text(text)
    assert main(["decompose", "p.csv"]) == 2
    said = capsys.readouterr().err
    for word in words:
        assert word in said
    assert [p.name for p in tmp_path.iterdir()] == ["p.csv"]


def test_one_number_tells_that_commas_are_decimal(tmp_path):
    """1,234 alone may be a thousand; beside 0,5 it is not."""
    (tmp_path / "p.csv").write_text("mean_0;std_0;mean_1;std_1\n1,234;1;2;0,5\n")
    result = decompose_file(tmp_path / "p.csv", kuq.SquaredError())
    np.testing.assert_allclose(result.uncertainty.epistemic, [(2 - 1.234) ** 2], rtol=1e-12)


def test_names_with_other_marks_do_not_confuse(tmp_path):
    (tmp_path / "p.csv").write_text('"x; y",mean_0,std_0,mean_1,std_1\n"a; b",0,1,2,1\n')
    result = decompose_file(tmp_path / "p.csv", kuq.SquaredError())
    assert result.labels == ("a; b",)
    np.testing.assert_allclose(result.uncertainty.epistemic, [4.0], rtol=1e-12)


@pytest.mark.parametrize("mark", [";", "\t", ","])
def test_a_first_line_that_tells_the_separator(mark, tmp_path):
    rows = [["x", "mean_0", "std_0", "mean_1", "std_1"], ["a", "0", "1", "2", "1"]]
    text = "".join(mark.join(row) + "\r\n" for row in rows)
    (tmp_path / "p.csv").write_text(f"sep={mark}\r\n{text}", newline="")
    result = decompose_file(tmp_path / "p.csv", kuq.SquaredError())
    np.testing.assert_allclose(result.uncertainty.epistemic, [4.0], rtol=1e-12)
    (tmp_path / "q.csv").write_text(f"sep={mark}\n{text.replace('2', 'two')}")
    with pytest.raises(kuq.ParameterError, match="line 3"):
        decompose_file(tmp_path / "q.csv", kuq.SquaredError())


def test_the_index_of_pandas_has_no_name(tmp_path):
    table(2).to_csv(tmp_path / "p.csv")
    result = decompose_file(tmp_path / "p.csv", kuq.CRPS())
    assert result.only.notes == ("inputs are named by 'Straße'",)
    table(2).drop(columns="Straße").to_csv(tmp_path / "q.csv")
    result = decompose_file(tmp_path / "q.csv", kuq.CRPS())
    assert result.dims == ("row",)
    assert result.only.notes == ()


#: Decimal mark and what separates thousands, as Germany, the United States, Switzerland, France and
#: the SI write numbers.
COUNTRIES = [(",", "."), (".", ","), (".", "'"), (",", "\u202f"), (".", " ")]


@pytest.mark.parametrize(("decimal", "between"), COUNTRIES)
@pytest.mark.parametrize("places", [0, 2])
def test_separated_thousands(tmp_path, decimal, between, places):
    """10.125,73 and 10,125.73 were refused, though each says what its marks are."""
    rng = np.random.default_rng(5)
    values = np.round(10.0 ** rng.uniform(0, 7, size=(3, 30)), places)
    values[:, 0] = [1234567, 12, 1000]  # several groups tell, where there are no decimals

    def written(value):
        text = f"{value:,.{places}f}".replace(".", "d").replace(",", between)
        return f'"{text.replace("d", decimal)}"'

    lines = [";".join(map(written, row)) for row in values.T]
    (tmp_path / "p.csv").write_text("\n".join(["a;b;c", *lines]), encoding="utf-8")
    layout = Layout(names=Names(points="a,b,c"))
    result = decompose_file(tmp_path / "p.csv", kuq.CRPS(), layout=layout)
    expected = kuq.decompose(kuq.Ensemble(kuq.Point(values)), kuq.CRPS())
    np.testing.assert_allclose(result.uncertainty.total, expected.total, rtol=1e-12)
    assert "between thousands" in result.only.notes[0]
    back = pd.read_csv(result.out, sep=";", decimal=decimal if places else ".")
    np.testing.assert_allclose(back["total"], expected.total, rtol=1e-12)


def test_thousands_are_read_when_told(tmp_path, monkeypatch, capsys):
    """10,126 alone may be ten: numbers had to be written again without separators."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text('store,model 1,model 2\nF0,"10,126",950\nF1,"9,001","1,000"\n')
    told = ["decompose", "p.csv", "--points", "model {}", "--score", "squared"]
    assert main(told) == 2
    assert "--decimal , or --thousands ," in capsys.readouterr().err
    assert main([*told, "--thousands", ","]) == 0
    expected = [(10126 - 950) ** 2, (9001 - 1000) ** 2]
    np.testing.assert_allclose(pd.read_csv("p-uncertainty.csv")["total"], expected, rtol=1e-12)
    capsys.readouterr()
    for marks, word in (
        (["--thousands", ",", "--decimal", ","], "both ','"),
        (["--thousands", "x"], "'space'"),
    ):
        assert main([*told, *marks]) == 2
        assert word in capsys.readouterr().err
    (tmp_path / "q.csv").write_text("model 1;model 2\n1.234;0,5\n1.000;2\n")
    told[1] = "q.csv"
    assert main([*told, "--thousands", "."]) == 0
    written = pd.read_csv("q-uncertainty.csv", sep=";", decimal=",")
    np.testing.assert_allclose(written["total"], [1233.5**2, 998.0**2], rtol=1e-12)


THREE_DECIMALS = "mean_0;std_0;mean_1;std_1\n1,234;1,100;2,111;1,000\n2,345;1,100;2,222;1,000\n"


def test_three_decimals_everywhere_are_read_when_told(tmp_path, monkeypatch, capsys):
    """Decimal commas with exactly three decimals were refused; nobody could say what is meant."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text(THREE_DECIMALS)
    assert main(["decompose", "p.csv"]) == 2
    assert "--decimal ," in capsys.readouterr().err
    assert main(["decompose", "p.csv", "--decimal", ",", "--score", "squared"]) == 0
    written = pd.read_csv("p-uncertainty.csv", sep=";", decimal=",")
    expected = [(2.111 - 1.234) ** 2, (2.345 - 2.222) ** 2]
    np.testing.assert_allclose(written["epistemic"], expected, rtol=1e-12)
    capsys.readouterr()
    assert main(["decompose", "p.csv", "--decimal", "."]) == 2
    assert "'1,234' in line 2" in capsys.readouterr().err
    (tmp_path / "q.csv").write_text("mean_0;std_0;mean_1;std_1\n1,234;1.100;2;1\n")
    assert main(["decompose", "q.csv", "--decimal", ","]) == 2
    assert "'1.100'" in capsys.readouterr().err  # may be more than a thousand


def test_two_ways_to_separate_fields_are_told_apart(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text("member_0;x, y;member_1\n1;a, b;2\n3;c, d;5\n")
    assert main(["decompose", "p.csv"]) == 2
    said = capsys.readouterr().err
    assert "--delimiter ','" in said
    assert "--delimiter ';'" in said
    assert main(["decompose", "p.csv", "--delimiter", ";", "--score", "squared"]) == 0
    assert pd.read_csv("p-uncertainty.csv", sep=";")["total"].tolist() == [1.0, 4.0]
    (tmp_path / "t.csv").write_text("member_0\tmember_1\n1\t2\n")
    for tab in ("tab", "\\t", "\t"):
        assert main(["decompose", "t.csv", "--delimiter", tab]) == 0
    (tmp_path / "s.csv").write_text("sep=;\nmember_0;member_1\n1;2\n")
    assert main(["decompose", "s.csv", "--delimiter", ";"]) == 0
    capsys.readouterr()
    assert main(["decompose", "s.csv", "--delimiter", ","]) == 2
    assert "leave the option out" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["latin-1", "mac_roman", "utf-8", "utf-16"])
def test_an_encoding_is_taken_as_told(encoding, tmp_path):
    """Bytes of one encoding are letters in another: only its writer knows."""
    path = tmp_path / "p.csv"
    path.write_text("Straße,member_0,member_1\nKöln,1,2\n", encoding=encoding)
    layout = Layout(text=TextForm(encoding=encoding))
    assert decompose_file(path, kuq.CRPS(), layout=layout).labels == ("Köln",)
    if encoding == "mac_roman":
        assert decompose_file(path, kuq.CRPS()).labels != ("Köln",)


def test_what_options_cannot_mean_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text("member_0,member_1\n1,2\n")
    np.savez("p.npz", predictions=np.ones((2, 3)))
    for options, word in (
        (["p.csv", "--decimal", "x"], "'.' or ','"),
        (["p.csv", "--delimiter", ":"], "'tab'"),
        (["p.csv", "--encoding", "klingon"], "one that Python knows"),
        (["p.csv", "--encoding", "base64"], "one that Python knows"),
        (["p.csv", "--encoding", "utf-16"], "is not text"),
        (["p.npz", "--decimal", ","], "--decimal is for text"),
        (["p.npz", "--encoding", "utf-8"], "--encoding is for text"),
    ):
        assert main(["decompose", *options]) == 2
        assert word in capsys.readouterr().err


ROWS = "01.01.2024;10,5;11,5\n02.01.2024;9,5;12\n"


@pytest.mark.parametrize(
    "text",
    [
        f"Datum;Modell 1;Modell 2\n{ROWS};;\n;;\n",
        "Datum;Modell 1;Modell 2;;\n" + ROWS.replace("\n", ";;\n"),
        "\nDatum;Modell 1;Modell 2\n" + ROWS,
    ],
    ids=["empty lines", "empty columns", "an empty line first"],
)
def test_what_spreadsheets_leave_empty(tmp_path, text):
    """Empty lines were missing values, and empty columns "appear twice"."""
    (tmp_path / "p.csv").write_text(text)
    layout = Layout(names=Names(points="Modell {}"))
    result = decompose_file(tmp_path / "p.csv", kuq.CRPS(), layout=layout)
    np.testing.assert_allclose(result.uncertainty.total, [1.0, 2.5], rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"Export vom 3.1.\n\nDatum;Modell 1;Modell 2\n{ROWS}", ["first line", "remove what"]),
        ("id;Modell 1;Modell 2;\na;1;2;x\n", ["line 2", "'x'", "without a name"]),
        ("id,Modell 1,Modell 2\na,10%,12%\n", ["'10%'", "line 2", "units and signs belong"]),
        ("id;Modell 1;Modell 2\na;1.200,50 €;9,0\n", ["'1.200,50 €'", "units and signs belong"]),
        ("id;Modell 1;Modell 2\na;1;2\nb;-;3\n", ["missing (NaN) in line 3"]),
        ("id;Modell 1;Modell 2\na;1;2\nb;n.a.;3\n", ["missing (NaN) in line 3"]),
    ],
)
def test_what_exports_hold_beside_numbers(tmp_path, monkeypatch, capsys, text, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text(text, encoding="utf-8")
    assert main(["decompose", "p.csv", "--points", "Modell {}"]) == 2
    said = capsys.readouterr().err
    for word in words:
        assert word in said
