"""Synthetic stand-ins: right geometry, and a task that a small model can learn."""

import dataclasses

import numpy as np
import pytest

import kuq
from kuq_study.stand_ins.materials import Material
from kuq_study.stand_ins.render import render
from kuq_study.stand_ins.rooms import room
from kuq_study.stand_ins.scene import Camera, Light, Scene, Solid, Surface
from kuq_study.stand_ins.streets import street
from kuq_study.stand_ins.synthetic_depth import load_synthetic_depth, rendered

WHITE = Surface((0.8, 0.8, 0.8))


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("KUQ_CACHE", str(tmp_path_factory.getbasetemp() / "stand-ins"))


def box_scene(*solids, yaw=0.0, pitch=0.0, focal=0.5):
    """A bare room of 4 × 6 × 3 m, seen from the middle of its south wall, 1.5 m high."""
    return Scene(
        low=(0.0, 0.0, 0.0),
        high=(4.0, 6.0, 3.0),
        walls=(WHITE,) * 6,
        solids=solids,
        camera=Camera((2.0, 0.0, 1.5), yaw, pitch, focal),
        light=Light((2.0, 3.0, 2.8), reach=3.0, strength=0.8, ambient=0.2),
    )


def depth_of(scene, shape=(9, 9)):
    return render([scene], shape)[1][0]


def test_walls_floor_and_ceiling_are_as_far_as_they_are():
    """Depth at a pixel whose ray has slopes (a, b): the nearest of 6, 2 / |a| and 1.5 / |b|."""
    slopes = ((np.arange(9) + 0.5) / 9 - 0.5) / 0.5
    a, b = np.meshgrid(slopes, -slopes)
    with np.errstate(divide="ignore"):
        expected = np.minimum(6.0, np.minimum(2 / np.abs(a), 1.5 / np.abs(b)))
    assert np.allclose(depth_of(box_scene()), expected, rtol=1e-5)


def test_depth_is_along_the_axis_of_the_camera():
    turned = depth_of(box_scene(yaw=0.3, focal=2.0))
    # The wall y = 6 is met by the ray of slope a after 6 / (cos yaw − a sin yaw) metres of depth.
    slopes = ((np.arange(5) + 0.5) / 9 - 0.5) / 2.0
    assert np.allclose(turned[4, :5], 6 / (np.cos(0.3) - slopes * np.sin(0.3)), rtol=1e-5)
    down = depth_of(box_scene(pitch=-0.6, focal=2.0))
    assert down[4, 4] == pytest.approx(1.5 / np.sin(0.6), rel=1e-5)


def test_boxes_and_ellipsoids_are_as_far_as_they_are():
    box = Solid((2.0, 3.0, 1.5), (0.5, 0.5, 0.5), 0.0, WHITE)
    turned = dataclasses.replace(box, yaw=np.pi / 4)
    ball = Solid((2.0, 3.0, 1.5), (0.5, 0.8, 0.5), 0.0, WHITE, round=True)
    for solid, middle in ((box, 2.5), (turned, 3 - np.sqrt(0.5)), (ball, 2.2)):
        depth = depth_of(box_scene(solid))
        assert depth[4, 4] == pytest.approx(middle, rel=1e-5)
        assert depth[4, 0] == pytest.approx(depth_of(box_scene())[4, 0])
    # Nearer things hide those behind them, whatever their order.
    both = [depth_of(box_scene(*pair))[4, 4] for pair in ((box, ball), (ball, box))]
    assert both == pytest.approx([2.2, 2.2], rel=1e-5)


def test_things_throw_shadows():
    table = Solid((2.0, 3.0, 1.0), (0.6, 0.6, 0.05), 0.0, WHITE)
    bare, shaded = (render([box_scene(*solids, pitch=-0.2)], (64, 64)) for solids in ((), (table,)))
    unhidden = shaded[1][0] == bare[1][0]
    darker = (bare[0][0] - shaded[0][0]).mean(axis=0) * unhidden
    assert darker[32:].max() > 0.1
    assert np.abs(darker[:16]).max() == 0


@pytest.mark.parametrize("make", [room, street])
def test_a_scene_depends_on_its_seed_and_number_alone(make):
    many = rendered(make, (7, 0), (16, 20), range(11))
    assert np.array_equal(rendered(make, (7, 0), (16, 20), range(9, 11)), many[9:])
    assert not np.array_equal(rendered(make, (8, 0), (16, 20), range(1)), many[:1])
    assert len(np.unique(many[:, :3].mean(axis=(1, 2, 3)))) == 11


def test_rooms_end_after_metres_and_streets_in_the_sky():
    rooms, streets = (rendered(make, (0,), (32, 40), range(24)) for make in (room, street))
    assert rooms[:, 3].min() > 1 / 12
    assert (streets[:, 3] == 0).mean() > 0.03
    assert np.median(streets[:, 3]) < 0.5 * np.median(rooms[:, 3])
    for pictures in (rooms[:, :3], streets[:, :3]):
        assert pictures.min() >= 0
        assert pictures.max() <= 1
        assert pictures.std(axis=(2, 3)).min() > 0.03


def test_every_material_is_used():
    solids = [
        solid
        for make in (room, street)
        for i in range(40)
        for solid in make(np.random.default_rng(i)).solids
    ]
    walls = [wall for i in range(40) for wall in room(np.random.default_rng(i)).walls]
    used = {solid.surface.material for solid in solids} | {wall.material for wall in walls}
    open_air = {wall.material for wall in street(np.random.default_rng(0)).walls}
    assert used | open_air == set(Material)


def small_net(channels, width, place):
    """Four-fold smaller and back: convolutions that see most of a small picture."""
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            conv, gelu = torch.nn.Conv2d, torch.nn.GELU
            self.down = torch.nn.Sequential(
                conv(channels, width, 4, stride=4), gelu(), conv(width, width, 3, padding=1), gelu()
            )
            self.place = torch.nn.Parameter(torch.zeros(1, width, *place))
            self.up = torch.nn.Sequential(
                conv(width, width, 3, padding=1),
                gelu(),
                conv(width, width, 3, padding=2, dilation=2),
                gelu(),
                conv(width, width, 3, padding=4, dilation=4),
                gelu(),
                conv(width, 16, 1),
                torch.nn.PixelShuffle(4),
            )

        def forward(self, x):
            return self.up(self.down(x) + self.place)

    return Net()


def local_net(channels, width):
    """Convolutions that see three pixels around each."""
    torch = pytest.importorskip("torch")
    return torch.nn.Sequential(
        torch.nn.Conv2d(channels, width, 5, padding=2),
        torch.nn.GELU(),
        torch.nn.Conv2d(width, width, 3, padding=1),
        torch.nn.GELU(),
        torch.nn.Conv2d(width, 1, 1),
    )


def trained(make_net, x, y, steps, rate=5e-3):
    """A function from inputs to predictions, fitted to (x, y) by squared error."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    state = torch.random.get_rng_state()
    torch.manual_seed(0)
    net = make_net()
    spread = float(y.std())
    x, y = torch.tensor(x), torch.tensor(y / spread)
    optimizer = torch.optim.Adam(net.parameters(), rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    for _ in range(steps):
        rows = torch.randint(len(x), (16,))
        loss = ((net(x[rows])[:, 0] - y[rows]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    torch.random.set_rng_state(state)
    torch.set_num_threads(threads)

    def predict(inputs):
        with torch.no_grad():
            return net(torch.tensor(inputs))[:, 0].numpy() * spread

    return predict


def test_depth_is_learnable_from_pictures():
    """A small net halves the squared error of the mean over training pictures at each pixel."""
    data = load_synthetic_depth(sizes=(320, 4, 64, 40), shape=(32, 40))
    mean = data.train.y.mean(axis=0)
    predict = trained(
        lambda: small_net(3, 32, (8, 10)), data.train.x - 0.5, data.train.y - mean, 260
    )

    def error(split):
        return ((predict(split.x - 0.5) + mean - split.y) ** 2).mean()

    baseline = ((data.test.y - mean) ** 2).mean()
    assert error(data.test) < 0.65 * baseline
    # Outside it does not even reach the mean of its training data inside.
    assert error(data.shifted) > baseline


def test_by_name_fresh_and_cached(monkeypatch, tmp_path):
    monkeypatch.setenv("KUQ_CACHE", str(tmp_path))
    sizes = {"sizes": (14, 2, 3, 4), "shape": (8, 12)}
    fresh = kuq.datasets.load("depth-synthetic", seed=1, **sizes)
    stored = sorted(tmp_path.glob("*.npy"))
    assert len(stored) == 4
    cached = kuq.datasets.load("depth-synthetic", seed=1, **sizes)
    assert sorted(tmp_path.glob("*.npy")) == stored
    for part in ("train", "validation", "test", "shifted"):
        one, two = getattr(fresh, part), getattr(cached, part)
        assert np.array_equal(one.x, two.x)
        assert np.array_equal(one.y, two.y)
        assert one.x.dtype == one.y.dtype == np.float32
        assert one.x.flags.writeable
    assert fresh.synthetic
    assert "synthetic" in fresh.name
    assert "synthetic" in fresh.provenance["source"]
    assert len(fresh.provenance["channels"]) == fresh.train.x.shape[1]


@pytest.mark.parametrize(
    "options", [{"sizes": (1, 1, 1)}, {"sizes": (1, 0, 1, 1)}, {"shape": (4, 8)}]
)
def test_bad_sizes_are_refused(options):
    with pytest.raises(kuq.ParameterError, match="rows of training"):
        load_synthetic_depth(**options)
