"""The command line: what it prints, what it saves, and how it refuses."""

import struct
import subprocess
import sys

import numpy as np
import pytest

import kuq
from kuq.cli import main
from kuq.demo import gap as demo
from kuq.kernels.catalogue import catalogue

SCORES = list(demo.SCORES)
KERNELS = [name for name in SCORES if name != "LogScore"]


@pytest.fixture(scope="module")
def result():
    return demo.run(seed=0)


@pytest.fixture
def known(result, monkeypatch):
    """The demonstration without its computation."""
    monkeypatch.setattr(demo, "run", lambda seed: result)
    return result


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def png_size(path):
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data[12:16] == b"IHDR"
    assert data[-8:-4] == b"IEND"
    return struct.unpack(">II", data[16:24])


def test_every_score_is_shown():
    shown = {type(score) for score in demo.SCORES.values()}
    assert shown == {type(score) for score in catalogue()}


@pytest.mark.parametrize("name", SCORES)
def test_epistemic_uncertainty_fills_the_gap(result, name):
    on_data = max(result.average(name, "epistemic", r) for r in ("low noise", "high noise"))
    assert result.average(name, "epistemic", "gap") > 10 * on_data > 0


@pytest.mark.parametrize("name", KERNELS)
def test_aleatoric_uncertainty_is_larger_where_the_noise_is(result, name):
    low, high = (result.average(name, "aleatoric", r) for r in ("low noise", "high noise"))
    assert high > 2 * low > 0


def test_log_score_entropy_grows_with_the_noise(result):
    low, high = (result.average("LogScore", "aleatoric", r) for r in ("low noise", "high noise"))
    assert high > low + 1  # in nats: the noise grows by more than a factor e


@pytest.mark.parametrize("name", ["CRPS", "Gaussian"])
def test_aleatoric_uncertainty_follows_the_true_noise_on_data(result, name):
    u = result.uncertainty[name]
    true = kuq.entropy(kuq.Normal(0.0, demo.noise(result.grid)), u.score)
    for region in ("low noise", "high noise"):
        low, high = demo.REGIONS[region]
        inside = (result.grid > low) & (result.grid < high)
        assert np.mean(np.abs(u.aleatoric - true)[inside]) < 0.15 * np.mean(true[inside])


@pytest.mark.parametrize("name", SCORES)
def test_total_is_the_sum(result, name):
    u = result.uncertainty[name]
    np.testing.assert_allclose(u.total, u.aleatoric + u.epistemic, rtol=0, atol=1e-14)


def test_the_facts_do_not_hang_on_the_seed():
    other = demo.run(seed=5)
    epistemic = {r: other.average("CRPS", "epistemic", r) for r in demo.REGIONS}
    assert epistemic["gap"] > 10 * max(epistemic["low noise"], epistemic["high noise"])


def test_table_is_aligned_narrow_and_plain(result):
    text = result.table()
    assert text.isascii()
    header, *rows = [line for line in text.splitlines() if not line.startswith("-")]
    assert len(rows) == len(SCORES) * len(demo.REGIONS)
    assert {len(line) for line in (header, *rows)} == {len(header)}
    assert len(header) < 80
    ends = [header.index(part) + len(part) for part in ("total", "aleatoric", "epistemic")]
    for row in rows:
        assert all(row[end - 1].isdigit() for end in ends)
        assert all(row[end : end + 2] == "  " for end in ends[:-1])
    for word in (*SCORES, *demo.REGIONS, "target units^2", "nats", "exact", "quadrature"):
        assert word in text


def test_table_shows_the_averages(result):
    rows = [line for line in result.table().splitlines() if " gap " in line]
    shown = [[float(cell) for cell in row.split()[-3:]] for row in rows]
    parts = ("total", "aleatoric", "epistemic")
    expected = [[result.average(name, part, "gap") for part in parts] for name in SCORES]
    np.testing.assert_allclose(shown, expected, rtol=0, atol=5.1e-5)


def test_demo_prints_the_table_and_saves_the_figure(folder, capsys, known):
    image = pytest.importorskip("matplotlib.image")
    assert main(["demo", "gap", "--scores"]) == 0
    out, err = capsys.readouterr()
    assert known.table() in out
    assert "figure: kuq-demo.png" in out
    assert err == ""
    path = folder / "kuq-demo.png"
    width, height = png_size(path)
    assert width >= 900
    assert height >= 900
    assert 50_000 < path.stat().st_size < 1_000_000
    pixels = image.imread(path)
    ink = np.any(pixels[..., :3] < 0.5, axis=-1)
    for panel in np.array_split(ink, 3):
        assert panel.mean() > 0.005


def test_demo_takes_a_name_and_a_seed(folder, capsys):
    pytest.importorskip("matplotlib")
    assert main(["demo", "gap", "--out", "other.svg", "--seed", "3"]) == 0
    assert "figure: other.svg" in capsys.readouterr().out
    assert "<svg" in (folder / "other.svg").read_text(encoding="utf-8")
    assert not (folder / "kuq-demo.png").exists()


def test_drawing_leaves_no_pyplot_behind(tmp_path):
    pytest.importorskip("matplotlib")
    code = (
        "import sys, kuq.cli; assert 'matplotlib' not in sys.modules;"
        "assert kuq.cli.main(['demo', 'gap', '--out', 'figure.pdf']) == 0;"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")


def test_without_matplotlib_the_table_is_still_printed(folder, capsys, monkeypatch, known):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["demo", "gap"]) == 0
    out, err = capsys.readouterr()
    assert known.table(["CRPS"]) in out
    assert 'pip install "kuq[plot]"' in err
    assert list(folder.iterdir()) == []
    assert (
        main(["demo", "gap", "--out", "asked-for.png"]) == 1
    )  # a file that was asked for is missing


def test_a_figure_that_cannot_be_saved(folder, capsys, known):
    pytest.importorskip("matplotlib")
    (folder / "taken.png").mkdir()
    assert main(["demo", "--out", "taken.png"]) == 2
    out, err = capsys.readouterr()
    assert out == ""  # told at once, before anything is computed
    assert "taken.png" in err


def test_kernels_prints_the_cards(capsys):
    assert main(["kernels"]) == 0
    out = capsys.readouterr().out
    assert out == f"{kuq.kernel_cards()}\n"
    assert "Prop. 3 (robust)" in out


def test_version(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"kuq {kuq.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--help"], ["demo", "kernels", "--version", "kernel scores"]),
        (
            ["demo", "--help"],
            ["patients", "--out FILE", "--seed N", "kuq-demo.png", "kuq-demo.html"],
        ),
        (["kernels", "--help"], ["choosing a kernel"]),
    ],
)
def test_help(arguments, words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 0
    text = capsys.readouterr().out
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dmeo"], ["invalid choice: 'dmeo'", "demo", "kernels"]),
        (["demo", "--seed", "-1"], ["--seed", ">= 0", "'-1'"]),
        (["demo", "--seed", "1.5"], ["--seed", "integer", "'1.5'"]),
        (["demo", "--seed"], ["--seed", "expected one argument"]),
        (["demo", "--out", "figure.txt"], ["--out", ".png", "'figure.txt'"]),
        (["demo", "--out", "figure"], ["--out", ".png", "'figure'"]),
        (["demo", "--out", "no/such/folder/figure.png"], ["no/such/folder", "does not exist"]),
        (["demo", "gaps"], ["invalid choice: 'gaps'", "gap", "patients"]),
        (["demo", "--colour"], ["unknown arguments: --colour;", "see kuq demo --help"]),
        (["demo", "--see=3"], ["unknown arguments: --see=3 (is it --seed?)"]),
        (["kernels", "extra"], ["unknown arguments: extra"]),
    ],
)
def test_wrong_usage(arguments, words, capsys, folder):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1  # not the list of all arguments
    for word in words:
        assert word in err
    assert list(folder.iterdir()) == []


def test_no_command(capsys):
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "usage: kuq" in err
    assert "a command is needed" in err


def test_as_a_process(tmp_path):
    def run(*arguments):
        command = [sys.executable, "-m", "kuq", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert run("--version").stdout == f"kuq {kuq.__version__}\n"
    bad = run("no-such-command")
    assert bad.returncode == 2
    assert "Traceback" not in bad.stderr


@pytest.mark.parametrize(
    "words", [["run", "a.toml", "--preset", "quick"], ["--debug", "report", "x"]]
)
def test_former_commands_say_where_they_are_now(words, capsys):
    assert main(words) == 2
    out, err = capsys.readouterr()
    name = next(word for word in words if not word.startswith("-"))
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"kuq: error: 'kuq {name}' is now 'kuq-study {name}'")
    assert "pip install . ./study" in err
