"""What rows of the equations' data are: their trajectory, their frame, and their seed."""

import pickle

import numpy as np
import pytest

import kuq
from kuq.datasets import Split, burgers, load
from kuq.datasets.pairs import Pairs, pair_dataset

SMALL = {"trajectories": 20, "points": 32, "frames": 8, "pairs": 3}
NAMES = ("kuramoto-sivashinsky", "burgers")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def use_cache(cache, monkeypatch):
    monkeypatch.setenv("KUQ_CACHE", str(cache))
    monkeypatch.delenv("KUQ_DATA", raising=False)


def splits(data):
    return (data.train, data.validation, data.test, data.shifted)


@pytest.mark.parametrize("standardise", [False, True])
def test_rows_name_trajectory_and_frame(standardise):
    u = np.random.default_rng(0).normal(size=(20, 9, 5))
    twin = np.random.default_rng(1).normal(size=(3, 9, 5))
    data = pair_dataset("a", u, twin, Pairs(4, 9, 3), 1, "m", {}, standardise)
    mean, scale = (data.provenance.get(f"x_{word}", d) for word, d in (("mean", 0), ("scale", 1)))
    for split in splits(data):
        source = twin if split is data.shifted else u
        for x, row, frame in zip(
            split.x, split.rows["trajectory"], split.rows["frame"], strict=True
        ):
            np.testing.assert_allclose(x * scale + mean, source[row, [frame - 2, frame - 1]])
        assert split.rows["frame"].min() >= 3
    assert data.provenance["first_frame"] == 3


def test_all_late_pairs_and_none_before():
    u = np.random.default_rng(0).normal(size=(10, 8, 4))
    data = pair_dataset("a", u, u[:1], Pairs(3, 8, 5), 0, "m", {})
    assert data.train.rows["frame"][:6].tolist() == [5, 6, 7, 5, 6, 7]
    with pytest.raises(kuq.ParameterError, match=r"3 pairs at most, got pairs=4; .*first_frame=5"):
        Pairs(4, 8, 5)
    with pytest.raises(kuq.ParameterError, match="first_frame must be an integer ≥ 2"):
        Pairs(1, 8, 1)


@pytest.mark.parametrize("name", NAMES)
def test_whole_trajectories_can_be_tested_where_few_steps_train(name):
    few, whole = load(name, **SMALL), load(name, test_pairs=6, **SMALL)
    np.testing.assert_array_equal(few.train.x, whole.train.x)
    np.testing.assert_array_equal(few.validation.x, whole.validation.x)
    for split in (whole.test, whole.shifted):
        assert split.rows["frame"].reshape(-1, 6).tolist() == 2 * [[2, 3, 4, 5, 6, 7]]
    assert whole.provenance["test_pairs"] == 6
    with pytest.raises(kuq.ParameterError, match="6 pairs at most, got test_pairs=7"):
        load(name, test_pairs=7, **SMALL)


def test_first_frame_two_changes_nothing():
    """The pairs of earlier versions: frames s − 2 drawn among all that have two after them."""
    u = np.random.default_rng(0).normal(size=(20, 7, 4))
    data = pair_dataset("a", u, u[:2], Pairs(2, 7), 3, "m", {})
    stream = np.random.default_rng([3, 1]).spawn(4)[0]
    row = data.train.rows["trajectory"][0]
    begin = np.sort(stream.permutation(5)[:2])
    np.testing.assert_array_equal(data.train.x[:2, 0], u[row, begin])
    np.testing.assert_array_equal(data.train.y[:2], u[row, begin + 2] - u[row, begin + 1])


@pytest.mark.parametrize("name", NAMES)
def test_each_seed_can_have_trajectories_of_its_own(name, cache):
    shared = [load(name, seed=seed, **SMALL) for seed in (0, 1)]
    before = set(cache.glob("*.npy"))
    own = [load(name, seed=seed, own_simulations=True, **SMALL) for seed in (0, 1)]
    assert len(set(cache.glob("*.npy")) - before) == 4  # a set and its twin for either seed
    again = load(name, seed=1, own_simulations=True, **SMALL)
    assert len(set(cache.glob("*.npy")) - before) == 4
    np.testing.assert_array_equal(again.train.x, own[1].train.x)

    def states(data):
        return {state.tobytes() for split in splits(data) for state in split.x[:, 0]}

    assert states(shared[0]) & states(shared[1])
    assert not states(own[0]) & states(own[1])
    assert not states(own[0]) & states(shared[0])
    other = load(name, seed=1, own_simulations=True, simulation_seed=1, **SMALL)
    assert not states(other) & states(own[1])
    assert other.provenance["own_simulations"]


def test_the_fixed_set_stays_what_it_was():
    data = load("burgers", seed=4, **SMALL, final_time=0.5)
    u = burgers(20, frames=8, final_time=0.5)[..., ::8]
    row, frame = data.test.rows["trajectory"][0], data.test.rows["frame"][0]
    np.testing.assert_array_equal(data.test.x[0, 0], u[row, frame - 2])


def test_files_give_other_trajectories_to_each_seed(tmp_path):
    h5py = pytest.importorskip("h5py")
    u = {}
    for nu in (0.1, 0.01):
        rng = np.random.default_rng(round(1000 * nu))
        u[nu] = rng.normal(size=(60, 11, 32)).astype(np.float32)
        with h5py.File(tmp_path / f"1D_Burgers_Sols_Nu{nu}.hdf5", "w") as file:
            file["tensor"] = u[nu]
            file["t-coordinate"] = np.arange(12, dtype=np.float32) * np.float32(0.2)
            file.attrs["Nu"] = nu
    options = {"trajectories": 20, "points": 32, "frames": 11, "pairs": 2, "own_simulations": True}
    chosen = []
    for seed in (0, 1):
        data = load("burgers", tmp_path, seed, **options)
        chosen.append({int(np.nonzero((u[0.1] == x).all(-1))[0][0]) for x in data.train.x[:, 0]})
    assert len(chosen[0] | chosen[1]) > 20


def test_taking_rows_takes_what_they_are():
    rows = {"frame": np.arange(4), "time": np.array(["2000-01"] * 4, "datetime64[M]")}
    grid = {"latitude": np.arange(3.0), "longitude": np.arange(2.0)}
    split = Split(np.arange(8.0).reshape(4, 2), np.zeros((4, 3, 2)), rows, grid)
    part = split.take([2, 0])
    assert part.x.tolist() == [[4, 5], [0, 1]]
    assert part.rows["frame"].tolist() == [2, 0]
    assert part.grid is split.grid
    assert split.take(split.rows["frame"] >= 3).rows["frame"].tolist() == [3]
    assert pickle.loads(pickle.dumps(split)).rows["frame"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"rows": {"frame": np.arange(3)}}, r"rows\['frame'\] needs one entry for each of 4 rows"),
        ({"grid": {"latitude": np.arange(3)}}, r"every axis of y, \(3, 2\), got lengths \(3,\)"),
    ],
)
def test_labels_must_fit(more, words):
    with pytest.raises(kuq.ShapeError, match=words):
        Split(np.zeros((4, 2)), np.zeros((4, 3, 2)), **more)
