"""What a file says in two ways, or leaves open, is refused; what it says once is used."""

from __future__ import annotations

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


def refused(capsys, name, *words, options=()):
    """The command ends with code 2 and one line that has these words."""
    assert main(["decompose", str(name), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("kuq: error: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err, err


def save(data, path):
    if path.suffix == ".zarr":
        data.to_zarr(path, consolidated=False)
    else:
        data.to_netcdf(path, engine="h5netcdf")


TABLES = {
    "more fields": ("mean_0,std_0,mean_1,std_1\n9,0,1,2,1\n9,0,1,2,1\n", ["line 2", "5 fields"]),
    "more fields later": ("mean_0,std_0,mean_1,std_1\n0,1,2,1\n9,0,1,2,1\n", ["line 3"]),
    "trailing comma": ("mean_0,std_0,mean_1,std_1\n0,1,2,1,\n", ["line 2"]),
    "fewer fields": ("mean_0,std_0,mean_1,std_1,x\n0,1,2,1,5\n0,1,2,1\n", ["line 3", "4 fields"]),
    "quoted lines": ('x,mean_0,std_0,mean_1,std_1\n"a\nb",0,1,2,1\nc,0,1,2\n', ["line 4"]),
    "mean and mu": ("mean_0,mu_0,std_0,mean_1,std_1\n0,5,1,2,1\n", ["'mean_0'", "'mu_0'"]),
    "mean_1 and mean_01": (
        "mean_0,std_0,mean_1,std_1,mean_01,std_01\n0,1,2,1,7,1\n",
        ["'mean_1'", "'mean_01'"],
    ),
    "member and model": ("member_0,model_0,member_1\n0,5,1\n", ["'member_0'", "'model_0'"]),
    "twice": ("mean_0,mean_0,std_0,mean_1,std_1\n0,5,1,2,1\n", ["'mean_0' appears twice"]),
    "std and var": ("mean_0,std_0,var_0,mean_1,std_1,var_1\n0,1,9,2,1,9\n", ["scale", "variance"]),
    "points and std": ("member_0,std_0,member_1,std_1\n0,1,2,1\n", ["'member_0'", "'std_0'"]),
    "points and means": (
        "mean_0,std_0,mean_1,std_1,prediction_0,prediction_1\n0,1,2,1,3,4\n",
        ["points", "loc"],
    ),
    "vectors": ("mean_0_0,mean_0_1,std_0_0,std_0_1\n0,1,2,1\n", ["two numbers"]),
    "draws and draw": ("sample_0,sample_0_1,sample_1_0,sample_1_1\n1,2,3,4\n", ["two numbers"]),
    "mixtures": ("pi_0,loc_0,scale_0,pi_1,loc_1,scale_1\n1,2,3,1,4,5\n", ["'pi_0'"]),
    "evidential members": ("loc_0,nu_0,alpha_0,beta_0\n1,2,3,4\n", ["evidential"]),
    "weights of some": ("mean_0,std_0,weight_0,mean_1,std_1\n0,1,2,1,1\n", ["every member"]),
    "weights differ": (
        "mean_0,std_0,weight_0,mean_1,std_1,weight_1\n0,1,2,1,1,3\n0,1,2,1,1,4\n",
        ["same in all of its rows"],
    ),
    "unsaid spread": (
        "model,prediction,uncertainty\na,1,.5\nb,2,.5\n",
        ["'uncertainty'", "--scale"],
    ),
    "value and std": ("member,value,std\n0,1,1\n1,2,1\n", ["'std'", "--scale std"]),
    "two keys of members": (
        "x,model,member,mean,std\n0,a,0,1,1\n0,a,1,2,1\n0,b,0,3,1\n0,b,1,4,1\n",
        ["'model'", "'member'", "--member"],
    ),
    "mean and Mean": ("member,mean,Mean,std\n0,1,2,1\n1,2,3,1\n", ["'mean'", "'Mean'"]),
    "values and means": ("member,value,mean,std\n0,1,2,1\n1,2,3,1\n", ["--samples", "--loc"]),
    "std of t": ("member,df,mean,std\n0,3,2,1\n1,3,3,1\n", ["Student"]),
    "std of wide t": (
        "df_0,mean_0,std_0,df_1,mean_1,std_1\n3,0,1,3,1,1\n",
        ["'std_0'", "Student"],
    ),
    "missing draw": ("member,draw,value\n0,0,2\n0,,1\n1,0,1\n1,1,1\n", ["'draw' has missing"]),
    "thousands": ('mean_0,std_0,mean_1,std_1\n"1,000",1,2,1\n', ["'1,000'", "line 2"]),
    "underscores": ("mean_0,std_0,mean_1,std_1\n0,1,2,1\n1_000,1,2,1\n", ["'1_000'", "line 3"]),
    "decimal comma": ('mean_0,std_0,mean_1,std_1\n"0,5",1,2.5,1\n', ["'2.5'", "line 2"]),
    "word in numbers": ("mean_0,std_0,mean_1,std_1\n0,1,2,1\n0,1,x,1\n", ["'mean_1'", "line 3"]),
    "infinite": ("mean_0,std_0,mean_1,std_1\ninf,1,2,1\n", ["finite"]),
    "negative": ("mean_0,std_0,mean_1,std_1\n0,-1,2,1\n", ["≥ 0"]),
    "zero byte": ("mean_0,std_0,mean_1,std_1\n0,1,2\0,1\n", ["zero byte"]),
    "open quote": ('mean_0,std_0,mean_1,std_1\n0,1,2,"1\n', ["line 2"]),
    "no header": ("0.5,1,2,1\n0.5,1,2,1\n", ["numbered columns", "appears twice"][1:]),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_that_leave_something_open(name, folder, capsys):
    content, words = TABLES[name]
    (folder / "p.csv").write_text(content)
    refused(capsys, "p.csv", *words)
    assert [p.name for p in folder.iterdir()] == ["p.csv"]


def test_other_encodings(folder, capsys):
    text = "stadt,mean_0,std_0,mean_1,std_1\nKöln,0,1,2,1\n"
    for encoding in ("utf-16", "latin-1", "utf-8", "utf-8-sig"):
        (folder / "p.csv").write_bytes(text.encode(encoding))
        assert main(["decompose", "p.csv"]) == 0
        said = capsys.readouterr().out
        assert ("Windows-1252" in said) == (encoding == "latin-1")
        assert ("UTF-16" in said) == (encoding == "utf-16")
        written = pd.read_csv("p-uncertainty.csv", encoding=encoding)
        assert written["stadt"].tolist() == ["Köln"]
        assert written.columns[0] == "stadt"
    (folder / "p.csv").write_bytes(text.encode("latin-1") + b"\x81\x02")
    refused(capsys, "p.csv", "UTF-8", "0xf6")


def test_text_stays_as_it_is_written(folder):
    """Keys such as 007 or NA are names; pandas would make numbers and missing values of them."""
    keys = ["007", "NA", "1e5x", "", "0x10", "Köln, Dom", 'a "b"', "12345678901234567890"]
    loc = np.random.default_rng(0).normal(size=(2, len(keys)))
    table = pd.DataFrame(
        {"key": keys, "mean_0": loc[0], "std_0": 1.0, "mean_1": loc[1], "std_1": 2.0}
    )
    table.to_csv("p.csv", index=False)
    result = decompose_file(folder / "p.csv", kuq.CRPS())
    assert list(result.labels) == keys
    written = pd.read_csv(result.out, dtype={"key": str}, keep_default_na=False)
    assert written["key"].tolist() == keys
    expected = kuq.decompose(kuq.Ensemble(kuq.Normal(loc, [[1.0], [2.0]])), kuq.CRPS())
    np.testing.assert_allclose(written["total"], expected.total, rtol=1e-14)


def test_keys_that_are_numbers_are_equal_as_numbers(folder):
    (folder / "p.csv").write_text("x,member,value\n0.50,a,1\n.5,b,3\n2,a,5\n2.0,b,5\n")
    result = decompose_file(folder / "p.csv", kuq.SquaredError())
    np.testing.assert_allclose(result.uncertainty.epistemic, [4.0, 0.0], atol=1e-14)
    (folder / "q.csv").write_text("x,member,value\n07,a,1\n07,b,3\n7,a,5\n7,b,5\n")
    result = decompose_file(folder / "q.csv", kuq.SquaredError())
    assert result.labels == ("07", "7")


def test_numbers_are_read_to_the_last_bit(folder):
    rng = np.random.default_rng(5)
    loc = rng.normal(size=(2, 200)) * 10.0 ** rng.integers(-200, 200, size=(2, 200))
    pd.DataFrame({"member_0": loc[0], "member_1": loc[1]}).to_csv("p.csv", index=False)
    result = decompose_file(folder / "p.csv", kuq.CRPS())
    members = result.prediction_at(np.arange(200)).members.value
    np.testing.assert_array_equal(members, loc)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_weights_of_wide_tables_are_those_of_long_ones(folder, suffix):
    rng = np.random.default_rng(3)
    loc, scale = rng.normal(size=(3, 4)) * 10, rng.uniform(0.5, 2, size=(3, 4))
    weights = [1.0, 2.0, 5.0]
    columns = {}
    for m in range(3):
        columns |= {f"mean_{m}": loc[m], f"std_{m}": scale[m], f"weight_{m}": weights[m]}
    wide = pd.DataFrame(columns)
    wide.to_csv("p.csv", index=False) if suffix == ".csv" else wide.to_parquet("p.parquet")
    result = decompose_file(folder / f"p{suffix}", kuq.SquaredError())
    ensemble = kuq.Ensemble(kuq.Normal(loc, scale), weights)
    expected = kuq.decompose(ensemble, kuq.SquaredError())
    np.testing.assert_allclose(result.uncertainty.total, expected.total, rtol=1e-12)
    plain = kuq.decompose(kuq.Ensemble(kuq.Normal(loc, scale)), kuq.SquaredError())
    assert np.all(np.abs(plain.total - expected.total) > 1e-3)


def test_a_spread_that_is_named_is_used(folder):
    (folder / "p.csv").write_text("model,prediction,uncertainty\na,1,.5\nb,2,.7\n")
    layout = Layout(Names(loc="prediction", scale="uncertainty"))
    u = decompose_file(folder / "p.csv", kuq.SquaredError(), layout=layout).uncertainty
    np.testing.assert_allclose(u.aleatoric, [(0.25 + 0.49) / 2], rtol=1e-14)


def test_given_names_are_for_tables_with_members(folder, capsys):
    (folder / "p.csv").write_text("mean_0,std_0,mean_1,std_1\n0,1,2,1\n")
    refused(capsys, "p.csv", "--loc", "--member", options=["--loc", "mean_0"])


def test_names_that_are_given_settle_what_is_open(folder):
    (folder / "p.csv").write_text("member,mean,mu,std\n0,1,7,1\n1,2,9,1\n")
    layout = Layout(Names(loc="mean"))
    with pytest.raises(kuq.ShapeError, match="'mu'"):  # mu tells inputs apart, then
        decompose_file(folder / "p.csv", kuq.SquaredError(), layout=layout)
    np.savez("p.npz", mean=np.zeros((2, 3)), mu=np.ones((2, 3)), std=np.ones((2, 3)))
    u = decompose_file(folder / "p.npz", kuq.SquaredError(), layout=layout).uncertainty
    np.testing.assert_allclose(u.epistemic, 0.0, atol=1e-14)


LOC, ONES = np.arange(12.0).reshape(3, 4), np.ones((3, 4))
ARCHIVES = {
    "two cases": ({"mean": LOC, "Mean": LOC, "std": ONES}, ["'mean'", "'Mean'"]),
    "two names": ({"mean": LOC, "mu": LOC, "std": ONES}, ["'mean'", "'mu'"]),
    "two spreads": ({"mean": LOC, "std": ONES, "variance": ONES}, ["'std'", "'variance'"]),
    "two weights": (
        {"mean": LOC, "std": ONES, "weights": np.ones(3), "member_weights": np.ones(3)},
        ["'weights'", "'member_weights'"],
    ),
    "points and std": ({"predictions": LOC, "std": ONES}, ["--loc predictions --scale std"]),
    "values and std": ({"values": LOC, "std": ONES}, ["--samples values"]),
    "draws and means": ({"mean": LOC, "std": ONES, "samples": LOC}, ["--samples samples"]),
    "variance of t": ({"df": ONES + 2, "mean": LOC, "variance": ONES}, ["Student"]),
    "evidential weights": (
        {"loc": LOC[0], "nu": ONES[0], "alpha": ONES[0] + 1, "beta": ONES[0], "weights": ONES[0]},
        ["no members to weigh"],
    ),
    "long doubles": ({"mean": LOC.astype(np.longdouble), "std": ONES}, ["float64"]),
    "complex": ({"mean": LOC + 1j, "std": ONES}, ["real numbers"]),
    "dates": ({"mean": LOC.astype("M8[s]"), "std": ONES}, ["real numbers"]),
    "records": ({"mean": np.zeros(3, dtype=[("a", float)]), "std": ONES}, ["real numbers"]),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives_that_leave_something_open(name, folder, capsys):
    arrays, words = ARCHIVES[name]
    np.savez("p.npz", **arrays)
    refused(capsys, "p.npz", *words)


@pytest.mark.parametrize("arrays", [{"predictions": LOC}, {"mean": LOC, "std": ONES}])
def test_draws_need_an_array_of_draws(arrays, folder, capsys):
    np.savez("p.npz", **arrays)
    refused(capsys, "p.npz", "--samples", options=["--sample", "1"])


@pytest.mark.parametrize(
    "make",
    [
        np.asfortranarray,
        lambda a: a.astype(">f8"),
        lambda a: a.astype(">f4"),
        lambda a: a.astype(np.float16),
        lambda a: a.astype(np.int8),
        lambda a: a.astype(">u2"),
    ],
)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_types_and_orders_of_arrays(make, save, folder):
    loc = np.random.default_rng(2).integers(0, 100, size=(3, 4, 5))
    save("p.npz", predictions=make(loc.astype(float)))
    u = decompose_file(folder / "p.npz", kuq.SquaredError()).uncertainty
    expected = kuq.decompose(kuq.Ensemble(kuq.Point(loc.astype(float))), kuq.SquaredError())
    np.testing.assert_allclose(u.total, expected.total, rtol=1e-13)
    assert u.total.dtype == np.float64


def test_half_precision_is_computed_in_double(folder):
    loc = np.array([[50_000.0], [50_624.0]], dtype=np.float16)
    np.savez("p.npz", mean=loc, variance=np.array([[3], [5]], dtype=np.int8))
    u = decompose_file(folder / "p.npz", kuq.SquaredError()).uncertainty
    gap = float(loc[1, 0]) - float(loc[0, 0])
    np.testing.assert_allclose(u.epistemic, gap**2, rtol=1e-14)
    np.testing.assert_allclose(u.aleatoric, 4.0, rtol=1e-14)


def test_an_index_that_has_a_name_is_kept(folder):
    index = pd.Index(["Aachen", "Bonn"], name="station")
    table = pd.DataFrame(
        {"mean_0": [0.0, 1], "std_0": 1.0, "mean_1": [2.0, 1], "std_1": 1.0}, index
    )
    table.to_parquet("p.parquet")
    result = decompose_file(folder / "p.parquet", kuq.SquaredError())
    assert result.labels == ("Aachen", "Bonn")
    assert result.dims[0] == "station"
    written = pd.read_parquet(result.out)
    assert written.index.equals(index)
    assert written.index.name == "station"
    np.testing.assert_allclose(written["epistemic"], [4.0, 0.0], atol=1e-14)


def test_an_index_of_inputs_and_members(folder):
    index = pd.MultiIndex.from_product([["Aachen", "Bonn"], [0, 1]], names=["station", "member"])
    table = pd.DataFrame({"mean": [0.0, 2.0, 1.0, 1.0], "std": 1.0}, index)
    table.to_parquet("p.parquet")
    written = pd.read_parquet(decompose_file(folder / "p.parquet", kuq.SquaredError()).out)
    assert written.index.tolist() == ["Aachen", "Bonn"]
    np.testing.assert_allclose(written["epistemic"], [4.0, 0.0], atol=1e-14)


def test_an_index_without_a_name_is_kept_in_wide_tables(folder):
    table = pd.DataFrame({"member_0": [0.0, 1], "member_1": [2.0, 1]}, index=["a", "b"])
    table.to_parquet("p.parquet")
    written = pd.read_parquet(decompose_file(folder / "p.parquet", kuq.CRPS()).out)
    assert written.index.tolist() == ["a", "b"]


def test_parquet_of_other_types(folder, capsys):
    table = pd.DataFrame(
        {
            "kind": pd.Categorical(["b", "a", "b", "a"], categories=["c", "b", "a"]),
            "member": [0, 0, 1, 1],
            "value": pd.array([1, 2, 3, 2], dtype="Int8"),
        }
    )
    table.to_parquet("p.parquet")
    result = decompose_file(folder / "p.parquet", kuq.SquaredError())
    assert result.labels == ("b", "a")
    np.testing.assert_allclose(result.uncertainty.epistemic, [4.0, 0.0], atol=1e-14)
    pd.DataFrame({"x": [[1], [2]], "member": [0, 1], "value": [1.0, 2.0]}).to_parquet("q.parquet")
    refused(capsys, "q.parquet", "'x'", "text or numbers")


def test_checksums_of_parquet_pages_are_compared(folder, capsys):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(7)
    columns = {f"{name}_{m}": rng.uniform(1, 2, 500) for m in (0, 1) for name in ("mean", "std")}
    pq.write_table(
        pa.table(columns), "p.parquet", compression="none", use_dictionary=False,
        write_page_checksum=True,
    )  # fmt: skip
    data = bytearray((folder / "p.parquet").read_bytes())
    data[2000] ^= 1
    (folder / "p.parquet").write_bytes(bytes(data))
    refused(capsys, "p.parquet", "p.parquet")


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", " ="])
def test_formulas_are_not_written_into_tables(start, folder):
    cell = f'{start}HYPERLINK("http://example.org","x")'
    table = pd.DataFrame({"key": [cell, "-5.5", "-b", "plain"], "n": [-1, -2, 0, 3]})
    for m in (0, 1):
        table[f"member_{m}"] = [-1.0, 0.0, 1.0, 2.0]
    table.rename(columns={"n": "=n()"}).to_csv("p.csv", index=False)
    result = decompose_file(folder / "p.csv", kuq.CRPS())
    written = pd.read_csv(result.out, dtype=str, keep_default_na=False)
    shown = cell if start.strip(" ") and start != " =" else cell.strip()
    assert written["key"].tolist()[1:] == ["-5.5", "'-b", "plain"]
    assert written["key"][0].startswith("'")
    assert written["key"][0].strip("' \t\r\n").endswith(shown.strip(" \t\r\n")[-12:])
    assert "'=n()" in written.columns
    assert written["'=n()"].tolist() == ["-1", "-2", "0", "3"]
    assert written["member_0"][0] == "-1.0"


GRIDS = {
    "std": ["'std'", "no prediction"],
    "variance": ["'variance'"],
    "weights": ["'weights'"],
    "mean": ["'mean'", "--points mean"],
    "t2m_std": ["'t2m_std'"],
}


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
@pytest.mark.parametrize("name", GRIDS)
def test_grids_with_a_parameter_alone(name, suffix, folder, capsys):
    xr = pytest.importorskip("xarray")
    data = xr.Dataset({name: (("member", "x"), LOC + 1)})
    save(data, folder / f"p{suffix}")
    refused(capsys, f"p{suffix}", *GRIDS[name])
    assert main(["decompose", f"p{suffix}", "--points", name]) == 0


def test_weights_of_grids_lie_along_members(folder, capsys):
    xr = pytest.importorskip("xarray")
    square = np.arange(9.0).reshape(3, 3)
    data = xr.Dataset(
        {
            "mean": (("member", "lat"), square),
            "std": (("member", "lat"), square + 1),
            "weights": (("lat",), np.ones(3)),
        }
    )
    data.to_netcdf("p.nc", engine="h5netcdf")
    refused(capsys, "p.nc", "weights", "'lat'")


def test_weights_of_grids_are_one_per_member(folder, capsys):
    xr = pytest.importorskip("xarray")
    names = ("mean", "std", "weights")
    xr.Dataset(dict.fromkeys(names, (("member", "x"), LOC + 1))).to_netcdf(
        "p.nc", engine="h5netcdf"
    )
    refused(capsys, "p.nc", "'weights'", "along the members")


def test_grids_of_small_types_are_computed_in_double(folder):
    xr = pytest.importorskip("xarray")
    loc = np.array([[50_000.0], [50_624.0]], dtype=np.float16)
    variance = np.array([[3], [5]], dtype=np.int8)
    data = xr.Dataset({"mean": (("member", "x"), loc), "variance": (("member", "x"), variance)})
    data.to_zarr("p.zarr", consolidated=False)
    result = decompose_file(folder / "p.zarr", kuq.SquaredError())
    gap = float(loc[1, 0]) - float(loc[0, 0])
    np.testing.assert_allclose(result.uncertainty.epistemic, gap**2, rtol=1e-14)
    np.testing.assert_allclose(result.uncertainty.aleatoric, 4.0, rtol=1e-14)
    members = result.prediction_at(np.array([0])).members
    np.testing.assert_allclose(members.scale**2, variance, rtol=1e-14)


def test_negative_variances_of_grids(folder, capsys):
    xr = pytest.importorskip("xarray")
    data = xr.Dataset({"mean": (("member", "x"), LOC), "variance": (("member", "x"), -ONES)})
    data.to_netcdf("p.nc", engine="h5netcdf")
    for options in ([], ["--nan", "propagate"]):
        refused(capsys, "p.nc", "'variance'", "≥ 0", "member 0, x 0", options=options)


@pytest.mark.parametrize("engine", ["h5netcdf", "scipy"])
def test_packed_numbers(engine, folder):
    xr = pytest.importorskip("xarray")
    loc = 280.0 + np.random.default_rng(0).integers(-500, 500, size=(3, 4)) * 0.01
    data = xr.Dataset({"t2m": (("member", "x"), loc)})
    packing = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -32768}
    data.to_netcdf("p.nc", engine=engine, encoding={"t2m": packing})
    u = decompose_file(folder / "p.nc", kuq.SquaredError()).uncertainty
    expected = kuq.decompose(kuq.Ensemble(kuq.Point(loc)), kuq.SquaredError())
    np.testing.assert_allclose(u.total, expected.total, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("version", [2, 3])
def test_missing_chunks_are_told(version, folder, capsys):
    xr = pytest.importorskip("xarray")
    zarr = pytest.importorskip("zarr")
    values = np.random.default_rng(0).normal(size=(3, 8)) + 5
    data = xr.Dataset({"t2m": (("member", "x"), values)})
    encoding = {"t2m": {"chunks": (3, 2), "_FillValue": None}}
    if version == 3:
        encoding["t2m"]["fill_value"] = 0.0
    data.to_zarr("p.zarr", zarr_format=version, encoding=encoding, consolidated=False)
    assert zarr.open_array("p.zarr/t2m", mode="r").fill_value in (0, None)
    assert main(["decompose", "p.zarr", "--report", "r.html"]) == 0
    assert "not stored" not in capsys.readouterr().out
    name = "c/0/2" if version == 3 else "0.2"
    (folder / "p.zarr" / "t2m" / name).unlink()
    assert main(["decompose", "p.zarr", "--report", "r.html", "--nan", "propagate"]) == 0
    words = "1 of 4 chunks of 't2m' are not stored"
    assert f"note: {words}" in capsys.readouterr().out
    assert words.replace("'", "&#x27;") in (folder / "r.html").read_text()


def test_missing_chunks_inside_of_shards_are_told(folder, capsys):
    xr = pytest.importorskip("xarray")
    values = np.random.default_rng(0).normal(size=(3, 10)) + 5
    values[:, 4:6] = 0.0  # a chunk of nothing but the fill value is not stored
    data = xr.Dataset({"t2m": (("member", "x"), values)})
    shards = {"chunks": (3, 2), "shards": (3, 4), "fill_value": 0.0, "_FillValue": None}
    data.to_zarr("p.zarr", encoding={"t2m": shards}, zarr_format=3, consolidated=False)
    assert main(["decompose", "p.zarr"]) == 0
    assert "note: 1 of 5 chunks of 't2m'" in capsys.readouterr().out
    (folder / "p.zarr" / "t2m" / "c" / "0" / "0").unlink()
    assert main(["decompose", "p.zarr"]) == 0
    assert "note: 3 of 5 chunks of 't2m'" in capsys.readouterr().out


def test_attributes_are_not_taken_for_arrays(folder):
    xr = pytest.importorskip("xarray")
    for version in (2, 3):
        data = xr.Dataset({"t2m": (("member", "x"), LOC, {"shape": "round", "dtype": "|O"})})
        data.attrs = {"shape": [1, 2], "metadata": {"a": {"shape": "x"}}, "codecs": ["pickle"]}
        data.to_zarr(f"p{version}.zarr", zarr_format=version, consolidated=False)
        assert main(["decompose", f"p{version}.zarr"]) == 0


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
@pytest.mark.parametrize("kind", ["scalar", "index", "dimension"])
def test_names_of_the_result_are_taken(kind, suffix, folder, capsys):
    xr = pytest.importorskip("xarray")
    dim = "total" if kind == "dimension" else "x"
    data = xr.Dataset({"t2m": (("member", dim), LOC)})
    if kind == "scalar":
        data = data.assign_coords(total=3.0)
    if kind == "index":
        data = data.assign_coords(epistemic=("x", np.arange(4)))
    save(data, folder / f"p{suffix}")
    refused(capsys, f"p{suffix}", "epistemic" if kind == "index" else "total", "rename")


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_dimensions_without_length(suffix, folder, capsys):
    xr = pytest.importorskip("xarray")
    data = xr.Dataset({"t2m": (("member", "x"), np.zeros((3, 0)))})
    save(data, folder / f"p{suffix}")
    refused(capsys, f"p{suffix}", "empty")


def test_variables_in_groups(folder, capsys):
    xr = pytest.importorskip("xarray")
    data = xr.Dataset({"t2m": (("member", "x"), LOC)})
    data.to_netcdf("p.nc", engine="h5netcdf", group="forecast/hourly")
    refused(capsys, "p.nc", "groups", "'forecast'")


def test_coordinates_of_any_kind(folder):
    xr = pytest.importorskip("xarray")
    data = xr.Dataset(
        {"t2m": (("member", "time", "x"), np.random.default_rng(0).normal(size=(3, 2, 4)))},
        coords={
            "time": ("time", [6, 12], {"units": "hours"}),
            "x": ["a", "b", "c", "Köln"],
            "height": 2.0,
            "day": ("time", np.array(["2024-01-01", "2024-01-02"], dtype="M8[ns]")),
            "area": (("x",), np.ones(4)),
        },
    )
    data.to_netcdf("p.nc", engine="h5netcdf")
    result = decompose_file(folder / "p.nc", kuq.CRPS())
    with xr.open_dataset(result.out, engine="h5netcdf", decode_timedelta=False) as written:
        assert written["time"].values.tolist() == [6, 12]
        assert written["x"].values.tolist() == ["a", "b", "c", "Köln"]
        assert set(written.coords) == set(data.coords)
    expected = kuq.decompose(kuq.Ensemble(kuq.Point(data["t2m"].values)), kuq.CRPS())
    np.testing.assert_allclose(result.uncertainty.total, expected.total, rtol=1e-12)


def test_units_of_time_leave_numbers_alone(folder):
    xr = pytest.importorskip("xarray")
    data = xr.Dataset({"delay": (("member", "x"), LOC, {"units": "hours"})})
    data.to_netcdf("p.nc", engine="h5netcdf")
    u = decompose_file(folder / "p.nc", kuq.CRPS()).uncertainty
    expected = kuq.decompose(kuq.Ensemble(kuq.Point(LOC)), kuq.CRPS())
    np.testing.assert_allclose(u.total, expected.total, rtol=1e-12)


def test_a_dataset_with_two_names_for_one_parameter():
    xr = pytest.importorskip("xarray")
    import kuq.xarray

    data = xr.Dataset(dict.fromkeys(("loc", "mean", "scale"), (("member", "x"), LOC)))
    with pytest.raises(kuq.ParameterError, match="'loc' and 'mean'"):
        kuq.xarray.decompose(data, kuq.CRPS())


def test_names_of_many_digits_do_not_become_one(folder):
    names = ["12345678901234567", "12345678901234568.5", "0.5"]
    rows = [f"{name},0,1,2,1" for name in names]
    (folder / "in.csv").write_text("\n".join(["id,mean_0,std_0,mean_1,std_1", *rows]) + "\n")
    assert main(["decompose", "in.csv", "--out", "out.csv"]) == 0
    written = (folder / "out.csv").read_text().splitlines()[1:]
    assert [line.split(",")[0] for line in written] == names
