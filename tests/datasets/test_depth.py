"""NYU Depth v2 and ApolloScape, read from small files in exactly their formats."""

import importlib.util
import pickle
import tracemalloc

import h5py
import numpy as np
import pytest

import kuq
from kuq.datasets import DataError
from kuq.datasets.depth import load_depth
from kuq.datasets.resize import resized

SIZE = (12, 16)


def write_cache(path, rows, size=SIZE, seed=0):
    """As the authors' script writes them: image and depth, uint8, channels last."""
    generator = np.random.default_rng(seed)
    image = generator.integers(0, 256, (rows, *size, 3), dtype=np.uint8)
    depth = generator.integers(0, 256, (rows, *size, 1), dtype=np.uint8)
    # The first pixel tells the number of the picture.
    image[:, 0, 0] = np.arange(rows)[:, None]
    with h5py.File(path, "w") as file:
        file.create_dataset("image", data=image, dtype=np.uint8)
        file.create_dataset("depth", data=depth, dtype=np.uint8)
    return image, depth


def write_labeled(path, rows, size=SIZE, seed=0):
    """As MATLAB writes version 7.3: a text block first, axes in reverse order."""
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (*size, 3, rows), dtype=np.uint8)
    depths = generator.uniform(0.7, 9.9, (*size, rows)).astype(np.float32)
    images[0, 0] = np.arange(rows)
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array, kind in (("images", images, "uint8"), ("depths", depths, "single")):
            stored = file.create_dataset(name, data=array.T, chunks=True, compression="gzip")
            stored.attrs["MATLAB_class"] = np.bytes_(kind)
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")
    return images, depths


@pytest.fixture
def caches(tmp_path):
    write_cache(tmp_path / "depth_train.h5", 40)
    write_cache(tmp_path / "depth_test.h5", 12, seed=1)
    write_cache(tmp_path / "apolloscape_test.h5", 11, seed=2)
    return tmp_path


def numbers(split):
    """Which pictures of the file a split has, by their first pixel."""
    return np.rint(np.asarray(split.x[:, 0, 0, 0]) * 255).astype(int)


def test_caches_become_colours_and_disparities_between_0_and_1(caches):
    data = load_depth(caches, shape=SIZE)
    image, depth = write_cache(caches / "again.h5", 12, seed=1)
    x, y = np.asarray(data.test.x), np.asarray(data.test.y)
    assert x.dtype == y.dtype == np.float32
    assert x.shape == (12, 3, *SIZE)
    assert y.shape == (12, *SIZE)
    for i, c, r, k in [(0, 0, 0, 1), (5, 1, 3, 7), (11, 2, 11, 15)]:
        assert x[i, c, r, k] == pytest.approx(image[i, r, k, c] / 255)
        assert y[i, r, k] == pytest.approx(depth[i, r, k, 0] / 255)
    assert (data.units, data.synthetic) == ("disparity / 255", False)


def test_a_tenth_of_the_training_file_is_for_validation(caches):
    data = load_depth(caches, seed=3, shape=SIZE)
    train, validation = numbers(data.train), numbers(data.validation)
    assert len(validation) == 4
    assert sorted([*train, *validation]) == list(range(40))
    again, other = load_depth(caches, seed=3, shape=SIZE), load_depth(caches, seed=4, shape=SIZE)
    assert np.array_equal(numbers(again.train), train)
    assert not np.array_equal(numbers(other.validation), validation)


def test_inputs_and_targets_are_of_the_same_pictures(caches):
    image, depth = write_cache(caches / "again.h5", 40)
    data = load_depth(caches, seed=5, shape=SIZE)
    for split in (data.train, data.validation):
        rows = numbers(split)
        assert np.allclose(np.asarray(split.y), depth[rows, :, :, 0] / 255)
        assert np.allclose(np.asarray(split.x), np.moveaxis(image[rows], -1, 1) / 255)


def test_apolloscape_is_turned_from_blue_green_red(caches):
    with h5py.File(caches / "apolloscape_test.h5", "r+") as file:
        file["image"][...] = np.array([10, 20, 200], dtype=np.uint8)  # blue, green, red
    red_first = np.asarray(load_depth(caches, shape=SIZE).shifted.x)
    assert np.allclose(red_first[:, :, 4, 4] * 255, [200, 20, 10])
    stored = load_depth(caches, shape=SIZE, apollo_order="rgb").shifted.x
    assert np.allclose(np.asarray(stored)[:, :, 4, 4] * 255, [10, 20, 200])
    # NYU is red, green, blue already.
    image, _ = write_cache(caches / "again.h5", 12, seed=1)
    assert np.allclose(np.asarray(load_depth(caches, shape=SIZE).test.x[3, :, 5, 6]) * 255,
                       image[3, 5, 6])  # fmt: skip


def test_the_labelled_set_stands_upright_in_metres(tmp_path):
    images, depths = write_labeled(tmp_path / "nyu_depth_v2_labeled.mat", 100)
    data = load_depth(tmp_path, shape=SIZE)
    assert [len(split) for split in (data.train, data.validation, data.test)] == [81, 9, 10]
    seen = [numbers(split) for split in (data.train, data.validation, data.test)]
    assert sorted(np.concatenate(seen)) == list(range(100))
    x, y = np.asarray(data.test.x), np.asarray(data.test.y)
    for i, n in enumerate(seen[2]):
        assert np.allclose(y[i], depths[:, :, n])
        assert np.allclose(x[i, 1] * 255, images[:, :, 1, n])
    assert data.units == "m"
    assert data.shifted is None


def test_disparities_without_a_scale_are_not_passed_off_as_metres(tmp_path):
    write_labeled(tmp_path / "nyu_depth_v2_labeled.mat", 20)
    write_cache(tmp_path / "apolloscape_test.h5", 11)
    data = load_depth(tmp_path, shape=SIZE)
    assert np.isnan(np.asarray(data.shifted.y)).all()
    assert np.isfinite(np.asarray(data.shifted.x)).all()


def test_pictures_are_averaged_over_the_area_of_a_new_pixel(caches):
    _, depth = write_cache(caches / "again.h5", 12, seed=1)
    small = load_depth(caches, shape=(4, 8)).test
    means = depth[..., 0].reshape(12, 4, 3, 8, 2).mean(axis=(2, 4)) / 255
    assert np.allclose(np.asarray(small.y), means, atol=1e-6)
    assert small.x.shape == (12, 3, 4, 8)
    odd = resized(np.asarray(small.x), (3, 5))
    assert np.allclose(odd.mean(axis=(2, 3)), np.asarray(small.x).mean(axis=(2, 3)), atol=1e-6)


def test_opening_reads_nothing(tmp_path):
    """Files that would be gigabytes: their numbers were never written, and none is asked for."""
    for name, rows in (("depth_train.h5", 30_000), ("depth_test.h5", 3000)):
        with h5py.File(tmp_path / name, "w") as file:
            file.create_dataset("image", (rows, 128, 160, 3), np.uint8, chunks=(1, 128, 160, 3))
            file.create_dataset("depth", (rows, 128, 160, 1), np.uint8, chunks=(1, 128, 160, 1))
    tracemalloc.start()
    data = load_depth(tmp_path)
    one = np.asarray(data.train.x[1234])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert data.train.x.nbytes > 6e9
    assert one.shape == (3, 128, 160)
    assert peak < 60e6


def test_lazy_arrays_go_to_other_processes(caches):
    x = load_depth(caches, shape=SIZE).train.x
    assert np.array_equal(np.asarray(pickle.loads(pickle.dumps(x))), np.asarray(x))


def test_by_name_with_the_folder_from_the_environment(caches, monkeypatch):
    monkeypatch.setenv("KUQ_DATA", str(caches))
    data = kuq.datasets.load("depth", shape=SIZE)
    assert len(data.shifted) == 11


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("KUQ_DATA", raising=False)
    with pytest.raises(DataError, match=r"give the folder of depth_train\.h5"):
        load_depth(None)
    with pytest.raises(DataError, match="holds neither"):
        load_depth(tmp_path)
    write_cache(tmp_path / "depth_train.h5", 20)
    with pytest.raises(DataError, match=r"there is no file .*depth_test\.h5"):
        load_depth(tmp_path)


def test_damaged_files_are_refused(caches):
    path = caches / "depth_test.h5"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="cut off"):
        load_depth(caches, shape=SIZE)
    path.write_bytes(b"MATLAB 5.0 MAT-file")
    with pytest.raises(DataError, match=r"no whole HDF5 file"):
        load_depth(caches, shape=SIZE)


@pytest.mark.parametrize(
    ("image", "depth", "message"),
    [
        (None, (12, 8, 8, 1), "no array 'image', only"),
        ((12, 8, 8, 3), None, "no array 'depth'"),
        ((12, 3, 8, 8), (12, 8, 8, 1), r"must have shape \(rows, any, any, 3\), got"),
        ((12, 8, 8, 3), (12, 8, 8), r"must have shape \(rows, any, any, 1\)"),
        ((12, 8, 8, 3), (11, 8, 8, 1), "one depth for each pixel of each picture"),
        ((12, 8, 8, 3), (12, 8, 9, 1), "one depth for each pixel of each picture"),
    ],
)
def test_arrays_of_another_shape_are_refused(caches, image, depth, message):
    with h5py.File(caches / "depth_test.h5", "w") as file:
        for name, shape in (("image", image), ("depth", depth)):
            if shape is not None:
                file.create_dataset(name, shape, np.uint8)
    with pytest.raises(kuq.KuqError, match=message):
        load_depth(caches, shape=SIZE)


def test_numbers_of_another_kind_are_refused(caches):
    with h5py.File(caches / "depth_test.h5", "w") as file:
        file.create_dataset("image", (12, 8, 8, 3), np.float32)
        file.create_dataset("depth", (12, 8, 8, 1), np.uint8)
    with pytest.raises(DataError, match=r"unsigned integers.*float32"):
        load_depth(caches, shape=SIZE)
    with h5py.File(caches / "depth_test.h5", "w") as file:
        file.create_dataset("image", (12, 8, 8, 3), np.uint16)
        file.create_dataset("depth", (12, 8, 8, 1), np.uint8)
    with pytest.raises(DataError, match="must be uint8, got uint16"):
        load_depth(caches, shape=SIZE)


def test_depths_that_cannot_be_are_refused(tmp_path):
    write_labeled(tmp_path / "nyu_depth_v2_labeled.mat", 20)
    with h5py.File(tmp_path / "nyu_depth_v2_labeled.mat", "r+") as file:
        file["depths"][:, 3, 3] = 0.0
    with pytest.raises(DataError, match="positive numbers of metres"):
        np.asarray(load_depth(tmp_path, shape=SIZE).test.y)


def test_too_few_pictures_and_bad_options_are_refused(caches):
    write_cache(caches / "depth_train.h5", 9)
    with pytest.raises(kuq.InsufficientDataError, match="9 pictures"):
        load_depth(caches)
    with pytest.raises(kuq.ParameterError, match='"bgr" or "rgb"'):
        load_depth(caches, apollo_order="gbr")
    with pytest.raises(kuq.ParameterError, match="shape must be"):
        load_depth(caches, shape=(0, 4))


def test_a_missing_library_is_named(caches, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "h5py" else found(name)
    )
    with pytest.raises(DataError, match=r'pip install "kuq\[datasets\]"'):
        load_depth(caches)
