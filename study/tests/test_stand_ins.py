"""Synthetic stand-ins: right geometry and physics, and a task that a small model can learn."""

import dataclasses

import numpy as np
import pytest

import kuq
from kuq.datasets.weather import CHANNELS, DYNAMIC, STATIC
from kuq_study.stand_ins.geography import geography
from kuq_study.stand_ins.materials import Material
from kuq_study.stand_ins.render import render
from kuq_study.stand_ins.rooms import room
from kuq_study.stand_ins.scene import Camera, Light, Scene, Solid, Surface
from kuq_study.stand_ins.streets import street
from kuq_study.stand_ins.synthetic_depth import load_synthetic_depth, rendered
from kuq_study.stand_ins.synthetic_temperature import (
    INSIDE,
    OUTSIDE,
    STRETCH,
    forecasts,
    load_synthetic_temperature,
)
from kuq_study.stand_ins.synthetic_weather import AIR_STEP, DEGREE, MEMORY, simulated

WHITE = Surface((0.8, 0.8, 0.8))
T2M, T850, Z500 = 2, 3, 4


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


@pytest.fixture(scope="module")
def weather():
    """Inputs and targets of the stand-in on a coarse grid, and of its variants."""
    ground = geography(0, (24, 32))

    def rows(count, seed, climate=INSIDE, land=ground):
        starts = range(0, count, STRETCH)
        blocks = [
            forecasts(climate, land, (seed,), range(start, start + STRETCH)) for start in starts
        ]
        both = np.concatenate(blocks)
        return both[:, :12], both[:, 12]

    return rows


def ratio(predict, x, y):
    """Squared error in units of that of persistence, which predicts no change."""
    return float(((predict(x) - y) ** 2).mean() / (y**2).mean())


def test_the_change_of_temperature_is_learnable(weather):
    """With 12 channels a small net has a third of the squared error of persistence."""
    x, y = weather(240, 0)
    predict = trained(lambda: local_net(12, 16), x, y, 400)
    x_test, y_test = weather(60, 1)
    inside = ((predict(x_test) - y_test) ** 2).mean()
    assert inside < 0.45 * (y_test**2).mean()
    # The twin is harder for it, also when its land is the same, so not for its statics alone.
    for land in (geography(0, (24, 32)), geography(1, (24, 32))):
        x_twin, y_twin = weather(36, 2, OUTSIDE, land)
        assert ((predict(x_twin) - y_twin) ** 2).mean() > 1.15 * inside


def test_without_the_phase_of_the_day_there_is_nothing_to_learn(weather):
    """The cause of an unlearnable design: slow winds, and no channel without the daily cycle."""
    slow = dataclasses.replace(INSIDE, jet=2.0, waves=1.7)
    (x, y), (x_test, y_test) = weather(144, 0, slow), weather(48, 1, slow)

    def blind(inputs):
        hidden = inputs.copy()
        hidden[:, [T850, 5 + T850]] = 0
        return hidden

    def with_hour(inputs):
        hour = np.arange(len(inputs)) % 4
        clock = (hour[:, None] == np.arange(4)).astype(np.float32)[..., None, None]
        return np.concatenate([inputs, clock * np.ones_like(inputs[:, :1])], axis=1)

    predict = trained(lambda: local_net(12, 16), blind(x), y, 120)
    assert ratio(predict, blind(x_test), y_test) > 0.8
    predict = trained(lambda: local_net(16, 16), with_hour(blind(x)), y, 120)
    assert ratio(predict, with_hour(blind(x_test)), y_test) < 0.35


def test_wind_carries_temperature():
    """Under a steady west wind of two cells in 6 hours, fields move by two cells and fade."""
    ground = geography(0, (24, 32))
    east = 55 / 32 * DEGREE * np.cos(np.radians(55))
    steady = dataclasses.replace(INSIDE, waves=0.0, mixing=0.0, jet=2 * east / (2 * AIR_STEP))
    upper = simulated(steady, ground, np.random.default_rng(0), 4)[:, T850]
    # What depends on latitude alone is not carried: differences along a row are free of it.
    along = np.diff(upper, axis=2)
    moved = along[:-1, :, :-2] * np.exp(-2 * AIR_STEP / MEMORY)
    assert np.abs(along).std() > 0.1
    assert np.allclose(along[1:, :, 2:], moved, atol=1e-9)


def test_mixing_smooths_fronts():
    ground = geography(0, (24, 32))
    steepest = [
        np.abs(np.diff(simulated(climate, ground, np.random.default_rng(3), 1)[0, T850])).max()
        for climate in (dataclasses.replace(INSIDE, mixing=0.0), INSIDE)
    ]
    assert steepest[1] < 0.7 * steepest[0]


def test_wind_follows_the_slope_of_the_pressure():
    """Over the sea the wind at the ground is three quarters of the geostrophic wind."""
    shape = (40, 56)
    ground = geography(0, shape)
    u, v, _, _, height = simulated(INSIDE, ground, np.random.default_rng(1), 1)[0]
    south, east = np.gradient(height, DEGREE, 55 / 56 * DEGREE * np.cos(np.radians(55)))
    speed = np.hypot(south, east) / 1.2e-4
    sea = (ground.mask == 0)[1:-1, 1:-1]
    assert sea.mean() > 0.2
    ratios = (np.hypot(u, v) / speed)[1:-1, 1:-1][sea]
    assert np.median(ratios) == pytest.approx(0.75, rel=0.01)


def test_land_warms_by_day_and_mountains_are_cold():
    ground = geography(0, (24, 32))
    still = dataclasses.replace(INSIDE, waves=0.0, jet=0.0, noise=0.0)
    states = simulated(still, ground, np.random.default_rng(0), 9)
    surface = states[:, T2M]
    land, sea = ground.mask == 1, ground.mask == 0
    # 0, 6, 12, 18 UTC over Europe: noon is much warmer than midnight over land, not over the sea.
    daily = surface[2::4].mean(axis=0) - surface[0:8:4].mean(axis=0)
    assert daily[land].mean() > 4 * abs(daily[sea]).mean()
    low, high = land & (ground.orography < 50), land & (ground.orography > 1200)
    rise = (ground.orography[high].mean() - ground.orography[low].mean()) / 1000
    gap = surface - states[:, T850]
    lapse = (gap[:, low].mean() - gap[:, high].mean()) / rise
    assert lapse == pytest.approx(5.5, rel=0.2)


def test_values_are_those_of_middle_latitudes():
    data = load_synthetic_temperature(sizes=(36, 1, 1, 36), shape=(16, 24))
    for split in (data.train, data.shifted):
        x = split.x.reshape(len(split), 12, -1)
        facts = [*DYNAMIC, *DYNAMIC, *STATIC]
        units = [x[:, k] * fact.scale + fact.centre for k, fact in enumerate(facts)]
        for k in (T2M, T850, 5 + T2M, 5 + T850):
            assert 225 < units[k].min() < units[k].mean() < units[k].max() < 325
        assert 46_000 < units[Z500].min() < units[Z500].max() < 61_000
        assert np.abs(np.stack(units[:2])).max() < 45
        assert np.abs(x).mean() < 2
        assert 1 < split.y.std() < 4


def test_statics_have_one_distribution_in_both_regions():
    sizes = (1, 1, 1, 1)
    own = load_synthetic_temperature(sizes=sizes, shape=(24, 32))
    shared = load_synthetic_temperature(sizes=sizes, shape=(24, 32), statics="shared")
    here, there = own.train.x[0, 10:], own.shifted.x[0, 10:]
    assert not np.array_equal(here, there)
    for k in range(2):
        assert np.array_equal(np.sort(here[k], axis=None), np.sort(there[k], axis=None))
    assert np.array_equal(shared.shifted.x[0, 10:], here)
    assert not np.array_equal(shared.shifted.x[:, :10], own.train.x[:, :10])
    assert 0.4 < geography(5, (24, 32)).mask.mean() < 0.7


def test_rows_depend_on_seed_and_number_alone():
    few, many = (
        load_synthetic_temperature(seed=4, sizes=(n, 1, 1, 1), shape=(8, 10)) for n in (5, 20)
    )
    assert np.array_equal(many.train.x[:5], few.train.x)
    assert np.array_equal(many.train.y[:5], few.train.y)
    assert not np.array_equal(few.train.x[0], few.validation.x[0])
    # Rows follow each other in time: the present of one is the past of the next.
    assert np.array_equal(many.train.x[:4, 5:10], many.train.x[1:5, :5])
    absolute = load_synthetic_temperature(
        seed=4, sizes=(5, 1, 1, 1), shape=(8, 10), target="temperature"
    )
    now = many.train.x[:5, 5 + T2M] * 10 + 280
    assert np.allclose(absolute.train.y - now, few.train.y, atol=1e-4)


@pytest.mark.parametrize("name", ["depth-synthetic", "temperature-synthetic"])
def test_by_name_fresh_and_cached(name, monkeypatch, tmp_path):
    monkeypatch.setenv("KUQ_CACHE", str(tmp_path))
    sizes = {"sizes": (14, 2, 3, 4), "shape": (8, 12)}
    fresh = kuq.datasets.load(name, seed=1, **sizes)
    stored = sorted(tmp_path.glob("*.npy"))
    assert len(stored) == 4
    cached = kuq.datasets.load(name, seed=1, **sizes)
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


@pytest.mark.parametrize("load", [load_synthetic_depth, load_synthetic_temperature])
@pytest.mark.parametrize(
    "options", [{"sizes": (1, 1, 1)}, {"sizes": (1, 0, 1, 1)}, {"shape": (4, 8)}]
)
def test_bad_sizes_are_refused(load, options):
    with pytest.raises(kuq.ParameterError, match="rows of training"):
        load(**options)


@pytest.mark.parametrize("option", ["target", "statics"])
def test_bad_words_are_refused(option):
    with pytest.raises(kuq.ParameterError, match=option):
        load_synthetic_temperature(**{option: "none"})


def test_channels_are_named():
    assert len(CHANNELS) == 12
    assert CHANNELS[5 + T2M] == "T2M(t)"
