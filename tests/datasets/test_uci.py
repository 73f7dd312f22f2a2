"""The UCI tables: from a folder, from the web (a server of the test), from the cache."""

import functools
import gzip
import hashlib
import http.server
import io
import json
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import kuq
from kuq.datasets import DataError
from kuq.datasets.downloads import File, OpenML, read_table
from kuq.datasets.table_files import read, write
from kuq.datasets.uci import TABLES, Table, canonical, load_uci

ROOT = Path(__file__).parents[2]

NUMBERS = np.round(np.random.default_rng(0).normal(size=(40, 4)) * 100, 3)
CSV = "\n".join(["a,b,c,target", *(",".join(map(repr, row)) for row in NUMBERS.tolist())])


def digest(table, numbers):
    return hashlib.sha256(np.ascontiguousarray(canonical(table, numbers)).tobytes()).hexdigest()


def known(*sources, **facts):
    """A table like those of UCI, but small."""
    table = Table("small", 40, 3, "1 kB", "m", "depth", "", sources, **facts)
    return replace(table, sha256=digest(table, NUMBERS))


class Quiet(http.server.SimpleHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self.asked.append(self.path)
        if self.path != "/cut.csv":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Length", str(len(CSV)))
        self.end_headers()
        self.wfile.write(CSV[:200].encode())  # and no more: the connection breaks


@pytest.fixture
def web(tmp_path):
    """Address and folder of a server on this computer."""
    folder = tmp_path / "web"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KUQ_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUQ_DATA", raising=False)
    return tmp_path / "cache"


def same(a, b):
    for name in ("train", "validation", "test"):
        x, y = getattr(a, name), getattr(b, name)
        np.testing.assert_array_equal(x.x, y.x)
        np.testing.assert_array_equal(x.y, y.y)


def test_folder_download_and_cache_give_the_same(web, tmp_path, cache):
    address, folder = web
    (folder / "data.csv").write_text(CSV)
    table = known(File(f"{address}/data.csv", (0, 1, 2, 3)))
    own = tmp_path / "own"
    own.mkdir()
    write(own / "small.csv.gz", NUMBERS[::-1])  # the order of rows does not matter
    fresh = load_uci(table, None, 3)
    assert fresh.provenance["source"] == f"{address}/data.csv"
    assert fresh.provenance["checked"] == "SHA-256 of the numbers"
    (folder / "data.csv").unlink()
    cached = load_uci(table, None, 3)
    from_folder = load_uci(table, own, 3)
    same(cached, fresh)
    same(from_folder, fresh)
    assert [p.name for p in cache.rglob("*.csv.gz")] == ["small.csv.gz"]
    (own / "uci").mkdir()
    (own / "small.csv.gz").rename(own / "uci" / "small.csv.gz")
    same(load_uci(table, own, 3), fresh)


def test_two_at_once_download_once(web, monkeypatch):
    address, folder = web
    monkeypatch.setattr(Quiet, "asked", [])
    (folder / "data.csv").write_text(CSV)
    table = known(File(f"{address}/data.csv", (0, 1, 2, 3)))
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda seed: load_uci(table, None, seed), (3, 3))
    same(first, second)
    assert Quiet.asked == ["/data.csv"]


def test_environment_names_the_folder(tmp_path, monkeypatch):
    write(tmp_path / "small.csv.gz", NUMBERS)
    monkeypatch.setenv("KUQ_DATA", str(tmp_path))
    assert len(load_uci(known(), None, 0).train) == 32


def test_archives_and_other_columns(web):
    address, folder = web
    text = "\n".join("  ".join(f"{v:.7e}" for v in [row[3], *row[:3], 9.0]) for row in NUMBERS)
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("folder/data.txt", text + "\n \n")
    table = known(File(f"{address}/a.zip", (1, 2, 3, 0), "folder/data.txt"))
    (folder / "data.csv").write_text(CSV)
    plain = known(File(f"{address}/data.csv", (0, 1, 2, 3)))
    same(load_uci(table, None, 1), load_uci(replace(plain, name="plain"), None, 1))


def publish(folder, address, monkeypatch, md5=None):
    """The table as OpenML would show it."""
    names = ["a", "'out of use'", "b", "c", "target"]
    lines = ["% a comment", "@RELATION small", *(f"@ATTRIBUTE {n} REAL" for n in names), "@DATA"]
    lines += [",".join(map(repr, [row[0], 1.5, *row[1:]])) for row in NUMBERS.tolist()]
    content = "\n".join(lines).encode()
    (folder / "small.arff").write_bytes(content)
    facts = {"url": f"{address}/small.arff"}
    facts["md5_checksum"] = md5 or hashlib.md5(content).hexdigest()
    (folder / "7").write_text(json.dumps({"data_set_description": facts}))
    monkeypatch.setattr("kuq.datasets.downloads._OPENML", address + "/{}")
    return OpenML(7, "target", ("out of use",))


def test_second_source_is_openml(web, monkeypatch):
    address, folder = web
    second = publish(folder, address, monkeypatch)
    table = known(File(f"{address}/missing.csv", (0, 1, 2, 3)), second)
    data = load_uci(table, None, 0)
    assert data.provenance["source"] == f"{address}/7"
    (folder / "data.csv").write_text(CSV)
    first = known(File(f"{address}/data.csv", (0, 1, 2, 3)))
    same(data, load_uci(replace(first, name="first"), None, 0))


def refused(table, *words, data_dir=None):
    with pytest.raises(DataError) as error:
        load_uci(table, data_dir, 0)
    for word in words:
        assert word in str(error.value)


def test_wrong_checksum_of_a_download(web, monkeypatch, cache):
    address, folder = web
    source = publish(folder, address, monkeypatch, md5="0" * 32)
    refused(known(source), "small could not be downloaded", "does not match the known hash")
    assert not list(cache.rglob("*.csv.gz"))


def test_other_numbers_are_not_accepted(web, cache):
    address, folder = web
    (folder / "data.csv").write_text(CSV.replace("1", "2", 1))
    (folder / "fewer.csv").write_text("\n".join(CSV.splitlines()[:-1]))
    (folder / "page.csv").write_text("<html>not a table, but words</html>")
    table = known(*(File(f"{address}/{n}.csv", (0, 1, 2, 3)) for n in ("data", "fewer", "page")))
    reasons = ("their SHA-256 differs", "40 rows of 4 columns, got (39, 4)", "not a table")
    refused(table, *reasons, "KUQ_DATA")
    assert not list(cache.rglob("*.csv.gz"))


def test_a_broken_connection_leaves_nothing(web, cache):
    address, folder = web
    refused(known(File(f"{address}/cut.csv", (0, 1, 2, 3))), "cut.csv", "Without a network")
    left = [p for p in cache.rglob("*") if p.is_file() and p.suffix != ".lock"]
    assert left == []
    (folder / "data.csv").write_text(CSV)
    assert len(load_uci(known(File(f"{address}/data.csv", (0, 1, 2, 3))), None, 0).test) == 4


def test_no_network_is_one_clear_message(tmp_path):
    nowhere = "http://127.0.0.1:9/data.csv"
    refused(
        known(File(nowhere, (0, 1, 2, 3))),
        f"{nowhere}: no connection",
        f"It is not in {tmp_path} either",
        "kuq data fetch small",
        "copy its small.csv.gz into a folder that data_dir, --data-dir or KUQ_DATA names",
        data_dir=tmp_path,
    )


def test_a_damaged_cache_is_downloaded_again(web, cache):
    address, folder = web
    (folder / "data.csv").write_text(CSV)
    table = known(File(f"{address}/data.csv", (0, 1, 2, 3)))
    fresh = load_uci(table, None, 0)
    (path,) = cache.rglob("*.csv.gz")
    path.write_bytes(path.read_bytes()[:-20])
    same(load_uci(table, None, 0), fresh)
    write(path, NUMBERS + 1)
    same(load_uci(table, None, 0), fresh)


def test_own_files_are_checked(tmp_path):
    path = tmp_path / "small.csv.gz"
    write(path, NUMBERS)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refused(known(), str(path), "truncated", "replace it", data_dir=tmp_path)
    path.write_bytes(b"x0,y\n1,2\n")
    refused(known(), "not a table in .csv.gz", data_dir=tmp_path)
    path.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    refused(known(), "header x0, x1, …, y", data_dir=tmp_path)
    path.write_bytes(gzip.compress(b"x0,y\n1,nan\n"))
    refused(known(), "not finite", data_dir=tmp_path)
    write(path, NUMBERS[:30])
    refused(known(), "got (30, 4)", "verify=False", data_dir=tmp_path)
    data = load_uci(known(), tmp_path, 0, verify=False)
    assert len(data.train) == 24
    assert data.provenance["checked"] == "no"


def test_copies_that_differ_by_rounding(tmp_path):
    """Of such tables means and deviations are compared where the checksum differs."""
    places = (1, 1, 1, 1)
    base = known(decimals=places)
    rounded = np.round(NUMBERS, 1)
    summary = tuple(rounded.mean(0)), tuple(rounded.std(0))
    table = replace(base, summary=summary, sha256=digest(base, rounded))
    write(tmp_path / "small.csv.gz", NUMBERS)
    assert load_uci(table, tmp_path, 0).provenance["checked"] == "SHA-256 of the numbers"
    nudged = rounded.copy()
    nudged[5] += 0.1  # rounded the other way
    write(tmp_path / "small.csv.gz", nudged)
    assert "within the rounding" in load_uci(table, tmp_path, 0).provenance["checked"]
    write(tmp_path / "small.csv.gz", rounded + 0.2)
    refused(table, "their SHA-256 differs", data_dir=tmp_path)


def test_files_are_exact_and_the_same_every_time(tmp_path):
    odd = np.array([[1 / 3, -0.0, 1e-300], [np.pi, 2.0, 1e300]])
    write(tmp_path / "a.csv.gz", odd)
    write(tmp_path / "b.csv.gz", odd)
    np.testing.assert_array_equal(read(tmp_path / "a.csv.gz"), odd)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    with gzip.open(tmp_path / "a.csv.gz", "rt") as file:
        assert file.readline() == "x0,x1,y\n"


def test_tables_in_other_words():
    names, numbers = read_table(b"\xef\xbb\xbf'x one', y \n1, 2\n3,4\n", "a")
    assert names == ["x one", "y"]
    np.testing.assert_array_equal(numbers, [[1, 2], [3, 4]])
    for wrong in (b"", b"x,y\n", b"1,2\n3\n", b"1,2\nx,y\n"):
        with pytest.raises(DataError, match="somewhere"):
            read_table(wrong, "somewhere")


def test_archive_without_the_file(web):
    address, folder = web
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("other.txt", "")
    (folder / "a.zip").write_bytes(buffer.getvalue())
    (folder / "b.zip").write_bytes(b"no archive")
    sources = (File(f"{address}/{name}.zip", (0, 1, 2, 3), "data.txt") for name in "ab")
    refused(known(*sources), "a.zip is not an archive with 'data.txt'", "b.zip is not")


class TestRealTables:
    @pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
    def test_known_by_their_numbers(self, uci, table):
        data = kuq.datasets.load(table.name, uci, seed=1)
        assert data.provenance["checked"] == "SHA-256 of the numbers"
        parts = (data.train, data.validation, data.test)
        assert sum(map(len, parts)) == table.rows
        assert len(data.test) == round(table.rows / 10)
        assert all(p.x.shape[1] == table.features and np.isfinite(p.x).all() for p in parts)
        raw = kuq.datasets.load(table.name, uci, seed=1, standardise=False)
        rows = [np.column_stack([p.x, p.y]) for p in (raw.train, raw.validation, raw.test)]
        found, expected = np.concatenate(rows), read(uci / f"{table.name}.csv.gz")
        np.testing.assert_array_equal(found[np.lexsort(found.T)], expected[np.lexsort(expected.T)])

    def test_constant_features_stay_finite(self, uci):
        data = kuq.datasets.load("naval-propulsion-plant", uci)
        np.testing.assert_allclose(data.train.x[:, [8, 11]], 0, atol=1e-12)
        varying = np.delete(data.train.x, [8, 11], axis=1)
        np.testing.assert_allclose(varying.std(0), 1, rtol=1e-9)
