"""Plots: what is drawn are the numbers, on the axes as given, from arrays of every kind."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.random import default_rng

import kuq

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
from matplotlib.colors import to_rgb  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

xarray = pytest.importorskip("xarray")

GRID = default_rng(0).permutation(np.linspace(-1.0, 2.0, 30))
MEMBERS = kuq.Ensemble(
    kuq.Normal(default_rng(1).normal(size=(4, 30)), default_rng(2).uniform(0.5, 1, size=(4, 30)))
)
U = kuq.decompose(MEMBERS, kuq.CRPS())


@pytest.fixture
def ax():
    return Figure(figsize=(6, 4)).subplots()


def ink(axes):
    """Pixels that are not background."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(axes.figure)
    canvas.draw()
    return float(np.mean(np.asarray(canvas.buffer_rgba())[..., :3] < 250))


def dataset(u, dims, coords):
    return xarray.Dataset({k: (dims, np.asarray(u[k])) for k in u}, coords, attrs={"units": "K"})


def test_decomposition_draws_all_parts_in_the_order_of_the_input(ax):
    assert kuq.plot.decomposition(U, GRID, ax=ax) is ax
    order = np.argsort(GRID)
    for line in ax.lines:
        np.testing.assert_array_equal(line.get_xdata(), GRID[order])
        np.testing.assert_array_equal(line.get_ydata(), U[line.get_label()][order])
    assert "target units" in ax.get_ylabel()
    assert ax.get_ylim()[0] == 0
    assert ink(ax) > 0.02


def test_decomposition_of_a_dataset_uses_its_coordinate(ax):
    coordinate = ("hour", GRID, {"long_name": "lead time", "units": "h"})
    kuq.plot.decomposition(dataset(U, "hour", {"hour": coordinate}), parts=["epistemic"], ax=ax)
    assert ax.get_xlabel() == "lead time (h)"
    assert ax.get_ylabel() == "uncertainty (K)"
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), np.sort(GRID))


def test_decomposition_keeps_values_below_zero_visible(ax):
    u = {"total": [1.0, 1.0], "aleatoric": [1.0, 1.2], "epistemic": [0.0, -0.2]}
    kuq.plot.decomposition(u, ax=ax)
    assert ax.get_ylim()[0] < -0.2


def test_torch_and_jax_arrays_are_drawn(ax):
    torch = pytest.importorskip("torch")
    loc = torch.zeros((3, 5), requires_grad=True) + torch.arange(3.0)[:, None]
    u = kuq.decompose(kuq.Ensemble(kuq.Normal(loc, 1.0)), kuq.CRPS())
    kuq.plot.decomposition(u, torch.arange(5.0), ax=ax)
    np.testing.assert_allclose(ax.lines[2].get_ydata(), u.epistemic.detach().numpy())


def test_map_of_a_plain_array(ax):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 7))
    assert kuq.plot.uncertainty_map(values, ax=ax) is ax
    (mesh,) = ax.collections
    np.testing.assert_array_equal(mesh.get_array().reshape(4, 7), values)
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # row zero on top
    assert len(ax.figure.axes) == 2  # and the colour bar


def test_map_of_a_dataset_has_its_coordinates_and_unit(ax):
    u = {"total": np.ones((3, 4)), "aleatoric": np.zeros((3, 4)), "epistemic": np.eye(3, 4)}
    coords = {"lat": [10.0, 20.0, 30.0], "lon": ("lon", np.arange(4.0), {"units": "deg"})}
    kuq.plot.uncertainty_map(dataset(u, ("lat", "lon"), coords), "epistemic", ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("lon (deg)", "lat")
    assert ax.get_ylim() == (5.0, 35.0)
    assert ax.figure.axes[1].get_ylabel() == "epistemic (K)"
    single = dataset(u, ("lat", "lon"), coords)["aleatoric"]
    other = Figure().subplots()
    kuq.plot.uncertainty_map(single, ax=other)
    assert other.get_title() == "aleatoric"


def test_divergence_matrix_of_an_ensemble_and_of_an_array(ax):
    kuq.plot.divergence_matrix(MEMBERS, kuq.CRPS(), ax=ax)
    matrix = kuq.member_divergences(MEMBERS, kuq.CRPS())
    np.testing.assert_allclose(ax.images[0].get_array(), matrix.mean(axis=-1))
    assert [t.get_text() for t in ax.texts][1] == f"{matrix[0, 1].mean():.2g}"
    other = Figure().subplots()
    kuq.plot.divergence_matrix(matrix, names=["a", "b", "<i>", "long name"], ax=other)
    np.testing.assert_allclose(other.images[0].get_array(), matrix.mean(axis=-1))
    assert [t.get_text() for t in other.get_xticklabels()][2] == "<i>"
    large = Figure().subplots()
    kuq.plot.divergence_matrix(np.zeros((60, 60)), ax=large)
    assert len(large.texts) == 0
    assert len(large.get_xticks()) <= 20


def test_numbers_on_the_matrix_can_be_read(ax):
    """Dark figures on light cells and the other way round, by relative luminance."""
    rng = np.random.default_rng(0)
    kuq.plot.divergence_matrix(rng.uniform(size=(5, 5)), ax=ax)
    colours = ax.images[0].cmap(ax.images[0].norm(ax.images[0].get_array())).reshape(-1, 4)
    for text, cell in zip(ax.texts, colours, strict=True):
        pair = sorted((_luminance(to_rgb(text.get_color())), _luminance(cell[:3])))
        assert (pair[1] + 0.05) / (pair[0] + 0.05) > 3


def _luminance(rgb):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def test_retention_curves_share_their_bounds(ax):
    at = np.linspace(0.5, 1.0, 6)
    for name, power in (("CRPS", 2), ("variance", 1)):
        curve = SimpleNamespace(retention=at, risk=at**power, oracle=at**3, random=np.ones(6))
        kuq.plot.retention_curve(curve, label=name, ax=ax)
    assert [line.get_label() for line in ax.lines] == ["random", "oracle", "CRPS", "variance"]
    np.testing.assert_allclose(ax.lines[2].get_xydata(), np.stack([100 * at, at**2], axis=1))
    assert ax.lines[2].get_color() != ax.lines[3].get_color()


def test_retention_curve_of_the_protocol(ax):
    rng = np.random.default_rng(0)
    result = kuq.protocols.selective_prediction(U.total, rng.uniform(size=30))
    kuq.plot.retention_curve(result, label="total", ax=ax)
    np.testing.assert_allclose(ax.lines[2].get_ydata(), result.risk)
    np.testing.assert_allclose(ax.lines[1].get_ydata(), result.oracle)


@pytest.mark.parametrize(("scale", "axis"), [(1.0, "linear"), (200.0, "log")])
def test_histograms_count_shares(ax, scale, axis):
    rng = np.random.default_rng(0)
    inside, outside = rng.uniform(1, 2, size=300), scale * rng.uniform(1, 2, size=50)
    outside[0] = np.inf
    kuq.plot.ood_histograms(inside, outside, ax=ax)
    assert ax.get_xscale() == axis
    heights = [sum(bar.get_height() for bar in bars) for bars in ax.containers[:2]]
    assert heights[0] == pytest.approx(1.0)
    medians = sorted(line.get_xdata()[0] for line in ax.lines)
    expected = sorted([np.median(inside), np.median(outside[1:])])
    np.testing.assert_allclose(medians, expected)


def test_kernel_comparison_shows_figure_one(ax):
    """Squared error stays, the log score diverges like 1/σ², energy tends to the distance."""
    two = kuq.Ensemble(kuq.Normal([[0.0], [2.0]], 1.0))
    kuq.plot.kernel_comparison(two, factors=[0.001, 0.1, 1.0], ax=ax)
    lines = {line.get_label(): line.get_ydata() for line in ax.lines}
    np.testing.assert_allclose(lines["squared error"], 1.0)
    np.testing.assert_allclose(lines["log score"], [1e6, 1e2, 1.0])
    level = float(kuq.divergence(kuq.Normal(0.0, 1.0), kuq.Normal(2.0, 1.0), kuq.Energy()))
    assert lines["energy"][0] == pytest.approx(2.0 / level, rel=1e-3)
    assert lines["energy"][2] == pytest.approx(1.0)


@pytest.mark.parametrize(
    "law",
    [
        kuq.Samples(default_rng(3).normal(size=(3, 4, 20))),
        kuq.NormalMixture(np.full((3, 4, 2), 0.5), default_rng(4).normal(size=(3, 4, 2)), 1.0),
        kuq.StudentT(6.0, default_rng(5).normal(size=(3, 4)), 1.0),
        kuq.LowRankNormal(
            default_rng(6).normal(size=(3, 4, 2)),
            default_rng(7).normal(size=(3, 4, 2, 1)),
            np.ones(2),
        ),
    ],
    ids=lambda law: type(law).__name__,
)
def test_kernel_comparison_takes_any_ensemble(ax, law):
    """Shrunk members keep their means, so that the squared error does not move."""
    scores = {"squared": kuq.SquaredError(), "energy": kuq.Energy()}
    kuq.plot.kernel_comparison(kuq.Ensemble(law), scores, factors=[0.1, 1.0], ax=ax)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), 1.0, rtol=1e-9)
    assert ax.lines[1].get_ydata()[0] > 1


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: kuq.plot.decomposition(np.ones(3)), "Uncertainty"),
        (lambda: kuq.plot.decomposition({"total": [1.0]}, parts=["epistemic"]), "missing"),
        (lambda: kuq.plot.decomposition(U, parts=["noise"]), "one of total"),
        (lambda: kuq.plot.decomposition(U, GRID[:3]), r"shape \(30,\)"),
        (lambda: kuq.plot.uncertainty_map(np.ones(3)), "2 axes"),
        (lambda: kuq.plot.uncertainty_map(np.ones((3, 2)), x=[1.0]), "columns"),
        (lambda: kuq.plot.uncertainty_map(np.array([["a"]])), "numbers"),
        (lambda: kuq.plot.divergence_matrix(MEMBERS), "score"),
        (lambda: kuq.plot.divergence_matrix(np.ones((2, 3))), "M, M"),
        (lambda: kuq.plot.divergence_matrix(np.ones((2, 2)), names=["a"]), "names"),
        (lambda: kuq.plot.ood_histograms([np.nan], [1.0]), "finite"),
        (lambda: kuq.plot.kernel_comparison(U), "Ensemble"),
        (lambda: kuq.plot.kernel_comparison(MEMBERS, factors=[-1.0]), "positive"),
    ],
)
def test_errors(draw, words):
    with pytest.raises(kuq.KuqError, match=words):
        draw()


def test_without_axes_a_figure_is_made_and_without_matplotlib_an_error():
    code = (
        "import sys, kuq; assert 'matplotlib' not in sys.modules; import numpy as np\n"
        "sys.modules['matplotlib'] = None\n"
        "try: kuq.plot.uncertainty_map(np.ones((2, 2)))\n"
        "except kuq.KuqError as error: assert 'kuq[plot]' in str(error)\n"
        "else: raise SystemExit('no error')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    from matplotlib import pyplot

    ax = kuq.plot.uncertainty_map(np.ones((2, 2)))
    pyplot.close(ax.figure)
