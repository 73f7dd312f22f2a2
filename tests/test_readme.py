"""README.md and docs/at-a-glance.md: their claims hold.

That their examples print what they say is checked in test_docs.py.
"""

import re
import subprocess
import sys

import numpy as np
import pytest
from numpy.random import default_rng

import kuq
from docs import pages, picture

README = (pages.ROOT / "README.md").read_text(encoding="utf-8")
GLANCE = (pages.ROOT / "docs" / "at-a-glance.md").read_text(encoding="utf-8")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def examples(page="README.md"):
    """Python blocks, each with the text that it prints; test_docs.py runs them all."""
    found = pages.blocks(pages.ROOT / page)
    return [(block.code, block.output or "") for block in found if block.kind == "python"]


def tables():
    """Tables at a glance as lists of rows, each a list of cells without back quotes."""
    for block in re.findall(r"(?:^\|.*\|\n)+", GLANCE, flags=re.MULTILINE):
        rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in block.splitlines()]
        yield [
            [cell.strip().replace("`", "") for cell in row] for row in rows if "---" not in row[0]
        ]


def table(*heading):
    (found,) = (rows for rows in tables() if rows[0][: len(heading)] == list(heading))
    return found[0], found[1:]


# --- examples -----------------------------------------------------------------------------------


def test_there_are_examples():
    assert len(examples()) >= 5
    assert len(examples("docs/at-a-glance.md")) >= 7


def test_first_example_is_short_and_stands_alone():
    first, output = examples()[0]
    code = [line for line in first.splitlines() if line.strip()]
    assert len(code) <= 10
    done = subprocess.run(
        [sys.executable, "-c", first], capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert done.stdout == output, done.stderr


def test_shapes_in_comments():
    """The comments of the block of functions name the shapes of the results."""
    (code,) = (body for body, _ in examples("docs/at-a-glance.md") if "member_influence" in body)
    names = {"np": np, "kuq": kuq, "mean": np.zeros((5, 3)), "std": np.ones((5, 3))}
    lines = [line for line in code.splitlines() if line.startswith("kuq.")]
    exec("\n".join(line for line in code.splitlines() if not line.startswith("kuq.")), names)
    checked = 0
    for line in lines:
        value = eval(line.split("#")[0], names)
        said = re.search(r"\((\d[\d, ]*)\)$", line)
        if said:
            shape = tuple(int(part) for part in said[1].split(",") if part.strip())
            assert value.shape == shape, line
            checked += 1
    assert checked == 4


# --- tables -------------------------------------------------------------------------------------


def test_every_public_distribution_and_score_is_listed():
    distributions = {row[0].split("(")[0] for row in table("distribution")[1]}
    scores = {row[0].split("(")[0] for row in table("score")[1]}
    kinds = [getattr(kuq, name) for name in kuq.__all__]
    concrete = [
        k for k in kinds if isinstance(k, type) and not getattr(k, "__abstractmethods__", 0)
    ]
    assert distributions == {k.__name__ for k in concrete if issubclass(k, kuq.Prediction)}
    shown = {k.__name__ for k in concrete if issubclass(k, kuq.Score)} - {"Marginal"}
    assert scores == shown | {"CRPS", "InverseMultiquadric"}


@pytest.mark.parametrize("row", table("score")[1], ids=lambda row: row[0])
def test_facts_of_scores(row):
    score = eval(row[0], vars(kuq))
    card = score.card
    facts = (card.strictly_proper, card.bounded, card.aleatoric_grows_with_spread)
    assert row[2:5] == ["yes" if fact else "no" for fact in facts]
    assert row[5] == score.units


HALVES = np.full(2, 0.5)
PREDICTIONS = {
    "Point": [
        kuq.Point(default_rng(3).normal(size=(3, 2))),
        kuq.Point(default_rng(4).normal(size=(3, 2, 4)), 1),
    ],
    "Samples": [
        kuq.Samples(default_rng(5).normal(size=(3, 2, 6))),
        kuq.Samples(default_rng(6).normal(size=(3, 2, 6, 4)), 1),
    ],
    "Normal, scalar": [kuq.Normal(default_rng(7).normal(size=(3, 2)), 1.0)],
    "Normal, vector": [kuq.Normal(default_rng(8).normal(size=(3, 2, 4)), 1.0, 1)],
    "NormalMixture, scalar": [
        kuq.NormalMixture(HALVES, default_rng(9).normal(size=(3, 2, 2)), 1.0)
    ],
    "NormalMixture, vector": [
        kuq.NormalMixture(HALVES, default_rng(10).normal(size=(3, 2, 4, 2)), 1.0, 1)
    ],
    "LowRankNormal": [
        kuq.LowRankNormal(
            default_rng(11).normal(size=(3, 2, 4)),
            default_rng(12).normal(size=(3, 2, 4, 2)),
            np.ones(4),
        )
    ],
    "StudentT": [
        kuq.StudentT(5.0, default_rng(13).normal(size=(3, 2)), 1.0),
        kuq.StudentT(5.0, default_rng(14).normal(size=(3, 2, 2)), 1.0, 1),
    ],
    "NormalInverseGamma, scalar": [kuq.NormalInverseGamma(np.zeros(2), 2.0, 3.0, 1.0)],
    "NormalInverseGamma, vector": [kuq.NormalInverseGamma(np.zeros((2, 3)), 2.0, 3.0, 1.0, 1)],
}
COLUMNS = {
    "SquaredError": [kuq.SquaredError()],
    "CRPS": [kuq.CRPS()],
    "Energy()": [kuq.Energy()],
    "Gaussian": [kuq.Gaussian(1.0)],
    "Laplace": [kuq.Laplace(1.0)],
    "RationalQuadratic, Matern": [kuq.RationalQuadratic(1.0), kuq.Matern(1.0)],
    "LogScore, pairwise": [kuq.LogScore()],
    "LogScore, bma": [kuq.LogScore()],
    ".on(…)": [kuq.Energy().on(np.tanh)],
}


@pytest.mark.parametrize("row", table("prediction")[1], ids=lambda row: row[0])
def test_table_of_methods(row):
    heading = table("prediction")[0]
    assert heading[1:] == list(COLUMNS)
    for prediction in PREDICTIONS[row[0]]:
        if isinstance(prediction, kuq.Distribution):
            prediction = kuq.Ensemble(prediction)
        for column, said in zip(heading[1:], row[1:], strict=True):
            for score in COLUMNS[column]:
                check_method(prediction, score, "bma" if "bma" in column else "pairwise", said)


def check_method(prediction, score, estimator, said):
    if said == "–":
        return
    if said != "monte-carlo":
        u = kuq.decompose(prediction, score, estimator=estimator, rtol=1e-3)
        assert u.method == said, (prediction, score, estimator)
        return
    with pytest.raises(kuq.NoClosedFormError, match="draws="):
        kuq.decompose(prediction, score, estimator=estimator)
    u = kuq.decompose(prediction, score, estimator=estimator, draws=50, seed=0)
    assert u.method == "monte-carlo", (prediction, score, estimator)


def test_all_rows_are_checked():
    assert [row[0] for row in table("prediction")[1]] == list(PREDICTIONS)


def test_dashes_are_where_there_is_no_density():
    with pytest.raises(kuq.ParameterError, match="density"):
        kuq.decompose(kuq.Ensemble(kuq.Samples(np.zeros((3, 6)))), kuq.LogScore())
    u = kuq.decompose(kuq.Ensemble(kuq.Point([0.0, 1.0])), kuq.LogScore())
    assert u.epistemic == np.inf


def test_pairs_without_a_route(rng):
    low_rank = kuq.LowRankNormal(np.zeros(2), np.ones((2, 1)), np.ones(2))
    others = {
        "normal": kuq.Normal(np.zeros(2), 1.0, 1),
        "point": kuq.Point(np.zeros(2), 1),
        "samples": kuq.Samples(rng.normal(size=(5, 2)), 1),
    }
    for other in others.values():
        kuq.decompose(kuq.Ensemble([low_rank, other]), kuq.Energy())
        kuq.decompose(
            kuq.Ensemble([kuq.NormalMixture(HALVES, np.zeros((2, 2)), 1.0, 1), other]), kuq.Energy()
        )
    without = [
        kuq.NormalMixture(HALVES, np.zeros((2, 2)), 1.0, 1),
        kuq.StudentT(5.0, np.zeros(2), 1.0, 1),
    ]
    for other in without:
        mixed = kuq.Ensemble([low_rank, other])
        with pytest.raises(kuq.NoClosedFormError):
            kuq.decompose(mixed, kuq.Energy())
        assert kuq.decompose(mixed, kuq.Energy(), draws=50, seed=0).method == "monte-carlo"
        kuq.decompose(mixed, kuq.CRPS())  # coordinates one by one do have a route


@pytest.mark.parametrize("row", table("unbiased=")[1], ids=lambda row: row[0])
def test_table_of_unbiased_options(row, rng):
    option = eval(row[0].removesuffix(" (default)"))
    values = rng.normal(size=(3, 5))  # 3 members of 5 draws
    u = kuq.decompose(kuq.Ensemble(kuq.Samples(values)), kuq.Energy(), unbiased=option)
    members, draws = (cell == "corrected" for cell in row[1:])
    a = np.abs(values[:, None, :, None] - values[None, :, None, :]).sum((2, 3))
    own = np.diag(a) / (5 * (5 - draws))
    between = (a.sum() - np.trace(a)) / 25
    pairs = 3 * (3 - members)
    np.testing.assert_allclose(u.aleatoric, own.mean() / 2, rtol=1e-12)
    np.testing.assert_allclose(u.epistemic, (between - 2 * own.sum()) / pairs, rtol=1e-10)


# --- claims about scores ------------------------------------------------------------------------


def epistemic(members, score):
    return float(kuq.decompose(kuq.Ensemble(members), score).epistemic)


BOUNDED = [kuq.Gaussian(1.0), kuq.Laplace(1.0), kuq.Matern(1.0), kuq.RationalQuadratic(1.0)]


@pytest.mark.parametrize("score", [kuq.Energy(), *BOUNDED, kuq.LogScore()], ids=repr)
def test_strictly_proper_scores_see_every_difference(score):
    assert epistemic(kuq.Normal([0.0, 0.0], [1.0, 1.1]), score) > 0
    assert epistemic(kuq.Normal([0.0, 0.0], [1.0, 1.0]), score) == 0


def test_squared_error_sees_means_only():
    assert epistemic(kuq.Normal([0.0, 0.0], [1.0, 9.0]), kuq.SquaredError()) == 0


def test_one_absurd_member(rng):
    sane = rng.normal(size=9)
    for far in (1e3, 1e6):
        members = kuq.Normal([*sane, far], 1.0)
        for score in BOUNDED:
            assert epistemic(members, score) < 1
        assert epistemic(members, kuq.Energy()) > 0.1 * far


@pytest.mark.parametrize("score", BOUNDED, ids=repr)
def test_bounded_kernels_saturate(score):
    near, far = (epistemic(kuq.Point([0.0, gap]), score) for gap in (1e4, 1e6))
    assert abs(far - near) < 1e-3
    wide = [float(kuq.entropy(kuq.Normal(0.0, s), score)) for s in (1e4, 1e6)]
    assert abs(wide[0] - wide[1]) < 1e-3


def test_aleatoric_uncertainty_and_spread():
    inner, outer = kuq.Samples([-3.0, -1.0, 1.0, 3.0]), kuq.Samples([-3.0, 3.0])
    for score, grows in (
        (kuq.Energy(), True),
        (kuq.SquaredError(), True),
        (kuq.CRPS(), True),
        (kuq.Gaussian(0.5), False),
        (kuq.Laplace(0.5), False),
    ):
        less, more = (float(kuq.entropy(p, score, unbiased=False)) for p in (inner, outer))
        assert (more > less) is grows, score
    cards = kuq.kernel_cards()
    assert not any(card.bounded and card.aleatoric_grows_with_spread for card in cards)


def test_bandwidth_in_many_dimensions():
    p = kuq.Normal(np.zeros(1000), 0.3, event_ndim=1)
    assert kuq.entropy(p, kuq.Gaussian(1.0)) == 0.5  # saturated
    assert 0.05 < kuq.entropy(p, kuq.Gaussian(1000**0.5)) < 0.45


def test_crps_does_not_see_dependence():
    dependent = kuq.LowRankNormal(np.zeros(2), np.full((2, 1), 0.9**0.5), np.full(2, 0.1))
    independent = kuq.Normal(np.zeros(2), 1.0, event_ndim=1)
    assert abs(kuq.divergence(dependent, independent, kuq.CRPS())) < 1e-15
    for score in (kuq.Energy(), *BOUNDED):
        assert kuq.divergence(dependent, independent, score) > 0.01, score


def test_log_score():
    assert kuq.entropy(kuq.Normal(0.0, 0.01), kuq.LogScore()) < 0
    assert epistemic(kuq.Normal([0.0, 1.0], 1e-3), kuq.LogScore()) > 1e5
    assert epistemic(kuq.Point([0.0, 1.0]), kuq.LogScore()) == np.inf
    metres, kilometres = (kuq.entropy(kuq.Normal(0.0, s), kuq.LogScore()) for s in (1.0, 1e-3))
    np.testing.assert_allclose(metres - kilometres, np.log(1000))


def test_energy_needs_beta_between_zero_and_two():
    for beta in (0.0, 2.0):
        with pytest.raises(kuq.ParameterError):
            kuq.Energy(beta)


# --- claims about the package -------------------------------------------------------------------


def test_dtypes_and_libraries():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.float64):
        u = kuq.decompose(
            kuq.Ensemble(kuq.Normal(torch.zeros((2, 3), dtype=dtype), 1.0)), kuq.CRPS()
        )
        assert isinstance(u.total, torch.Tensor)
        assert u.total.dtype == dtype
    jax = pytest.importorskip("jax")
    with jax.enable_x64(False):
        u = kuq.decompose(kuq.Ensemble(kuq.Normal(jax.numpy.zeros((2, 3)), 1.0)), kuq.CRPS())
    assert isinstance(u.total, jax.Array)
    assert u.total.dtype == "float32"
    with jax.enable_x64(True):
        assert kuq.entropy(kuq.Normal(jax.numpy.zeros(3), 1.0), kuq.CRPS()).dtype == "float64"
    narrow = kuq.decompose(kuq.Ensemble(kuq.Normal(np.zeros((2, 3), np.float32), 1.0)), kuq.CRPS())
    assert narrow.total.dtype == np.float32


def test_import_is_light():
    code = (
        "import sys, kuq;"
        "print([m for m in ('torch', 'jax', 'matplotlib', 'scoringrules') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_errors():
    assert issubclass(kuq.KuqError, ValueError)
    named = set(re.findall(r"`(\w+Error)`", GLANCE.split("## Errors")[1]))
    public = [getattr(kuq, name) for name in kuq.__all__]
    kinds = [k for k in public if isinstance(k, type) and issubclass(k, Exception)]
    assert named - {"ValueError"} >= {k.__name__ for k in kinds if k is not kuq.KuqError}
    assert all(issubclass(kind, kuq.KuqError) for kind in kinds)
    with kuq.checks(False):
        kuq.Normal(0.0, -1.0)
        with pytest.raises(kuq.ShapeError):
            kuq.Normal(np.zeros(2), np.zeros(3))


def test_links_exist():
    for page, text in ((pages.ROOT, README), (pages.ROOT / "docs", GLANCE)):
        for target in re.findall(r"\]\(([\w./-]+)", text):
            assert (page / target).is_file(), target


# --- the first screen ---------------------------------------------------------------------------


def test_the_first_screen_has_a_picture_for_light_and_dark():
    first = "\n".join(README.splitlines()[:20])
    shown = re.findall(r'(?:src|srcset)="([^"]+)"', first)
    assert shown == [f"docs/_static/{picture.name(theme)}" for theme in ("dark", "light")]
    assert re.search(r'alt="[^"]{40,}"', first)
    assert len(README.splitlines()) <= 237


def test_the_picture_is_that_of_the_script(tmp_path):
    """To half a point, which is less than a reader sees and more than processors differ by."""
    for path in picture.write(tmp_path):
        kept, made = (
            (folder / path.name).read_text(encoding="utf-8")
            for folder in (picture.FOLDER, tmp_path)
        )
        number = r"-?\d+\.\d+"
        # Matplotlib names clips and marks by a hash of their exact places.
        same = rf"{number}|#?\b[mp][0-9a-f]{{10}}\b"
        assert re.sub(same, "0", kept) == re.sub(same, "0", made)
        before, after = ([float(n) for n in re.findall(number, text)] for text in (kept, made))
        np.testing.assert_allclose(after, before, rtol=0, atol=0.5)


def channels(colour):
    return np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255


def lightness(parts):
    """Relative luminance, as in the rules for accessible pages."""
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_picture_can_be_read(theme):
    """Words have a contrast of 4.5 at least to the areas below them, and of 7 to the paper."""
    paper, ink, _, _, *areas = picture.THEMES[theme]
    for colour in areas:
        mixed = picture.OPACITY * channels(colour) + (1 - picture.OPACITY) * channels(paper)
        high, low = sorted((lightness(channels(ink)), lightness(mixed)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, (theme, colour)
    high, low = sorted((lightness(channels(ink)), lightness(channels(paper))), reverse=True)
    assert (high + 0.05) / (low + 0.05) >= 7
