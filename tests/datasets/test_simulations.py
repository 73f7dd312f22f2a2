"""One-step prediction: pairs of simulated or stored trajectories, their splits and their twin."""

import numpy as np
import pytest

import kuq
from kuq.datasets import DataError, burgers, kuramoto_sivashinsky, load
from kuq.datasets.pairs import Pairs, pair_dataset

SMALL_KS = {"trajectories": 20, "points": 32, "frames": 6, "pairs": 2}
SMALL_BURGERS = {"trajectories": 20, "points": 64, "frames": 6, "final_time": 0.5, "pairs": 2}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def use_cache(cache, monkeypatch):
    monkeypatch.setenv("KUQ_CACHE", str(cache))
    monkeypatch.delenv("KUQ_DATA", raising=False)


def parts(data):
    return {"train": data.train, "validation": data.validation, "test": data.test}


def find(trajectories, state):
    """Row and frame of a state."""
    rows, frames = np.nonzero((trajectories == state).all(-1))
    assert len(rows) == 1
    return rows[0], frames[0]


@pytest.mark.parametrize("name", ["kuramoto-sivashinsky", "burgers"])
def test_pairs_are_of_whole_trajectories(name):
    options = SMALL_KS if name == "kuramoto-sivashinsky" else SMALL_BURGERS
    data = load(name, seed=4, **options)
    points = options["points"]
    if name == "burgers":
        u = burgers(20, frames=6, final_time=0.5)[..., :: 256 // points]
        twin = (0.1, 0.01)
    else:
        u = kuramoto_sivashinsky(20, frames=6)[..., :: 256 // points]
        twin = (64.0, 80.0)
    seen = {}
    for part, split in parts(data).items():
        assert split.x.shape == (len(split), 2, points)
        assert split.y.shape == (len(split), points)
        for x, y in zip(split.x, split.y, strict=True):
            row, frame = find(u, x[0])
            np.testing.assert_array_equal(x[1], u[row, frame + 1])
            np.testing.assert_array_equal(y, u[row, frame + 2] - u[row, frame + 1])
            seen.setdefault(row, []).append(part)
    # 20 trajectories: 2 for test, 2 of 18 to validate; two pairs of each, and none in two parts.
    assert sorted(seen) == list(range(20))
    assert all(len(names) == 2 and len(set(names)) == 1 for names in seen.values())
    assert [len(split) for split in parts(data).values()] == [32, 4, 4]
    assert len(data.shifted) == len(data.test)
    assert (data.provenance["inside"], data.provenance["shifted"]) == (
        dict.fromkeys(data.provenance["inside"], twin[0]),
        dict.fromkeys(data.provenance["shifted"], twin[1]),
    )
    assert not data.synthetic


def test_the_twin_starts_elsewhere_and_moves_otherwise():
    data = load("burgers", **SMALL_BURGERS)
    steep = [np.abs(np.diff(split.x[:, 1])).max() for split in (data.train, data.shifted)]
    assert steep[1] > 2 * steep[0]
    data = load("kuramoto-sivashinsky", **SMALL_KS)
    assert not any(np.array_equal(a, b) for a in data.shifted.x[:, 0] for b in data.test.x[:, 0])


def test_seed_chooses_splits_and_simulation_seed_trajectories(cache):
    first = load("kuramoto-sivashinsky", seed=0, **SMALL_KS)
    files = set(cache.glob("*.npy"))
    again = load("kuramoto-sivashinsky", seed=0, **SMALL_KS)
    other = load("kuramoto-sivashinsky", seed=1, **SMALL_KS)
    assert set(cache.glob("*.npy")) == files  # the same trajectories
    np.testing.assert_array_equal(first.train.x, again.train.x)
    np.testing.assert_array_equal(first.shifted.y, again.shifted.y)
    assert not np.array_equal(first.test.x, other.test.x)
    new = load("kuramoto-sivashinsky", seed=0, simulation_seed=1, **SMALL_KS)
    assert len(set(cache.glob("*.npy")) - files) == 2
    assert not np.array_equal(first.test.x, new.test.x)


def test_cached_equals_fresh(tmp_path, monkeypatch):
    cached = load("burgers", **SMALL_BURGERS)
    monkeypatch.setenv("KUQ_CACHE", str(tmp_path))
    fresh = load("burgers", **SMALL_BURGERS)
    for a, b in zip(parts(cached).values(), parts(fresh).values(), strict=True):
        np.testing.assert_array_equal(a.x, b.x)
        np.testing.assert_array_equal(a.y, b.y)


def test_simulation_in_parts_is_the_same(tmp_path, monkeypatch):
    """Memory is bounded by simulating some trajectories at a time."""
    whole = load("kuramoto-sivashinsky", **SMALL_KS)
    monkeypatch.setenv("KUQ_CACHE", str(tmp_path))
    monkeypatch.setattr("kuq.datasets.simulations._AT_ONCE", 7)
    np.testing.assert_allclose(load("kuramoto-sivashinsky", **SMALL_KS).train.x, whole.train.x)


def test_standardised_by_training_alone():
    u = np.random.default_rng(0).normal(3.0, 2.0, (20, 6, 8))
    how = Pairs(2, 6)
    data = pair_dataset("a", u, u[:2], how, 0, "m", {}, standardise=True)
    raw = pair_dataset("a", u, 1e3 * u[:2], how, 0, "m", {})
    assert data.train.x.mean() == pytest.approx(0, abs=1e-12)
    assert data.train.x.std() == pytest.approx(1)
    assert data.train.y.std() == pytest.approx(1)
    facts = data.provenance
    np.testing.assert_allclose(data.test.x * facts["x_scale"] + facts["x_mean"], raw.test.x)
    np.testing.assert_allclose(data.test.y * facts["y_scale"] + facts["y_mean"], raw.test.y)
    # Neither test trajectories nor the twin have a say.
    wild = u.copy()
    inside_test = [find(u, x)[0] for x in raw.test.x[:, 0]]
    wild[inside_test] = 1e6
    changed = pair_dataset("a", wild, 1e3 * u[:2], how, 0, "m", {}, standardise=True)
    np.testing.assert_array_equal(changed.train.x, data.train.x)


def test_all_pairs():
    u = np.random.default_rng(0).normal(size=(10, 5, 4))
    data = pair_dataset("a", u, u[:1], Pairs(3, 5), 0, "m", {})
    first = data.train.x[:3, 0]
    assert [find(u, state)[1] for state in first] == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"points": 100}, "points must divide 256"),
        ({"pairs": 5}, "6 frames have 4 pairs at most, got pairs=5"),
        ({"pairs": 0}, "pairs must be an integer ≥ 1"),
        ({"frames": 2}, "frames must be an integer ≥ 3"),
        ({"trajectories": 4}, "too few"),
        ({"simulation_seed": -1}, "simulation_seed"),
        ({"modes": 3}, "no option 'modes'; it has trajectories, points"),
    ],
)
@pytest.mark.parametrize("name", ["kuramoto-sivashinsky", "burgers"])
def test_bad_options_are_refused(name, options, words):
    small = SMALL_KS if name == "kuramoto-sivashinsky" else SMALL_BURGERS
    with pytest.raises(kuq.KuqError, match=words):
        load(name, **{**small, **options})


# --- PDEBench's files ----------------------------------------------------------------------------

h5py = pytest.importorskip("h5py")


def write_pdebench(path, viscosity, count=12, frames=21, points=128):
    """A small file in the form of PDEBench: float32, cell centres, one time more than frames."""
    rng = np.random.default_rng(round(1000 * viscosity))
    u = rng.normal(size=(count, frames, points)).astype(np.float32)
    with h5py.File(path, "w") as file:
        file["tensor"] = u
        file["x-coordinate"] = (np.arange(points, dtype=np.float32) + 0.5) / points
        file["t-coordinate"] = np.arange(frames + 1, dtype=np.float32) * np.float32(0.1)
        file.attrs["Nu"] = viscosity
    return u


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pdebench")
    files = {nu: f"1D_Burgers_Sols_Nu{nu}.hdf5" for nu in (0.1, 0.01)}
    return folder, {nu: write_pdebench(folder / name, nu) for nu, name in files.items()}


READ = {"trajectories": 12, "points": 32, "frames": 11, "pairs": 3}


def test_pdebench_is_read_where_it_is(stored, monkeypatch):
    folder, values = stored
    data = load("burgers", folder, **READ)
    u = values[0.1][:, ::2, ::4].astype(np.float64)
    for split in parts(data).values():
        for x, y in zip(split.x, split.y, strict=True):
            row, frame = find(u, x[0])
            np.testing.assert_array_equal(y, u[row, frame + 2] - u[row, frame + 1])
    find(values[0.01][:, ::2, ::4].astype(np.float64), data.shifted.x[0, 0])
    assert data.provenance["source"].startswith("PDEBench")
    assert data.provenance["licence"] == "CC BY 4.0"
    monkeypatch.setenv("KUQ_DATA", str(folder))
    np.testing.assert_array_equal(load("burgers", **READ).train.x, data.train.x)


def test_without_its_files_burgers_is_simulated(tmp_path):
    data = load("burgers", tmp_path, **SMALL_BURGERS)
    assert data.provenance["source"] == "simulated by kuq"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"points": 96}, "points must divide 128"),
        ({"frames": 8, "pairs": 2}, "do not hold 8 equal frames"),
        ({"final_time": 3.0}, "times from 0 to 2, 21 in all"),
        ({"trajectories": 13}, "has 12 trajectories, got trajectories=13"),
    ],
)
def test_what_pdebench_does_not_have(stored, options, words):
    with pytest.raises(DataError, match=words):
        load("burgers", stored[0], **{**READ, **options})


def test_damaged_pdebench(stored, tmp_path):
    names = [path.name for path in stored[0].iterdir()]
    contents = {name: (stored[0] / name).read_bytes() for name in names}
    for name in names:
        (tmp_path / name).write_bytes(contents[name][:3000])
    with pytest.raises(DataError, match=r"truncated or not a file of PDEBench .*download it again"):
        load("burgers", tmp_path, **READ)
    for name, other in zip(names, reversed(names), strict=True):
        (tmp_path / name).write_bytes(contents[other])
    with pytest.raises(DataError, match=r"is of viscosity 0\.01, expected 0\.1"):
        load("burgers", tmp_path, **READ)
    for name in names:
        with h5py.File(tmp_path / name, "w") as file:
            file["other"] = [1.0]
    with pytest.raises(DataError, match="not a file of PDEBench"):
        load("burgers", tmp_path, **READ)
    (tmp_path / "1D_Burgers_Sols_Nu0.01.hdf5").unlink()
    with pytest.raises(DataError, match=r"the twin needs 1D_Burgers_Sols_Nu0\.01\.hdf5, too"):
        load("burgers", tmp_path, **READ)
