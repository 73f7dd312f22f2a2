"""Depth from one picture: NYU Depth v2 (rooms), with ApolloScape (streets) as the shifted twin.

Two forms of NYU are read, from files that the user has downloaded:

- ``depth_train.h5`` and ``depth_test.h5``, the caches that the authors of deep evidential
  regression give away: ``image`` (n, 128, 160, 3) and ``depth`` (n, 128, 160, 1), both uint8, where
  ``depth`` is in truth a disparity, used as value / 255;
- ``nyu_depth_v2_labeled.mat``, the labelled set itself: MATLAB 7.3, which is HDF5 with the axes
  in reverse order, ``images`` (n, 3, 640, 480) uint8 and ``depths`` (n, 640, 480) in metres.

ApolloScape comes as ``apolloscape_test.h5`` in the form of the caches. It was written by a library
that orders colours blue, green, red, while the NYU caches are red, green, blue: a model could tell
the domains apart by that alone. The loader gives red, green, blue for both.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kuq._digest import files_digest
from kuq._ranges import Count
from kuq.datasets.base import Dataset, Split
from kuq.datasets.cache import DataError, data_folder
from kuq.datasets.hdf5 import StoredRows, chosen_rows, stored_rows
from kuq.datasets.lazy_rows import lazy_rows
from kuq.datasets.resize import resized
from kuq.errors import InsufficientDataError, ParameterError, ShapeError

if TYPE_CHECKING:
    from collections.abc import Callable

Pixels: TypeAlias = NDArray[np.float32]

TRAIN, TEST, APOLLO = "depth_train.h5", "depth_test.h5", "apolloscape_test.h5"
LABELED = "nyu_depth_v2_labeled.mat"
_HOW = (
    "download them (kuq data list names the sources) and give their folder (data_dir, or KUQ_DATA)"
)
#: Height and width of the authors' caches.
SHAPE = (128, 160)
#: Pictures that are read at once.
ROWS = 16


def load_depth(
    data_dir: str | os.PathLike[str] | None,
    seed: int = 0,
    *,
    shape: tuple[Count, Count] = SHAPE,
    apollo_order: str = "bgr",
) -> Dataset:
    """NYU Depth v2 and ApolloScape from the files in ``data_dir``, as lazy Dask arrays.

    Pictures x (n, 3, height, width) are red, green, blue in [0, 1], averaged to ``shape``; targets
    y are (n, height, width). From the caches y is the disparity / 255; validation is one tenth
    of the training file by ``seed``. From the labelled set (read where there are no caches) y is
    the depth in metres, one tenth is for testing and a tenth of the rest for validation.
    ``apollo_order`` is the order of colours in the ApolloScape file: "bgr" as it is given away,
    "rgb" for a file that was put right. Its disparities have no known scale in metres, so that
    they are NaN beside the labelled set. Without the file there is no shifted twin.
    """
    if apollo_order not in ("bgr", "rgb"):
        raise ParameterError(f'apollo_order must be "bgr" or "rgb", got {apollo_order!r}')
    if len(shape) != 2 or min(shape) < 1:
        raise ParameterError(f"shape must be (height, width), both positive, got {shape}")
    folder = data_folder(None if data_dir is None else Path(data_dir))
    if folder is None:
        raise DataError(f"give the folder of {TRAIN} and {TEST}, or of {LABELED}: {_HOW}")
    if (folder / TRAIN).exists() or (folder / TEST).exists():
        parts, units, form = _cache_parts(folder, seed, shape), "disparity / 255", "caches"
    elif (folder / LABELED).exists():
        parts, units, form = _labeled_parts(folder / LABELED, seed, shape), "m", "labelled set"
    else:
        raise DataError(f"{folder} holds neither {TRAIN} with {TEST} nor {LABELED}: {_HOW}")
    twin = _apollo(folder, shape, apollo_order, scale_known=form == "caches")
    return Dataset(
        name="depth",
        train=parts[0],
        validation=parts[1],
        test=parts[2],
        shifted=twin,
        synthetic=False,
        units=units,
        provenance={
            "source": f"NYU Depth v2 ({form})" + (", ApolloScape" if twin else ""),
            "files": [name for name in (TRAIN, TEST, LABELED, APOLLO) if (folder / name).exists()],
            "channels": ("red", "green", "blue"),
            "apollo_order": apollo_order,
            "shape": tuple(shape),
            "seed": seed,
        },
    )


def depth_digest(data_dir: Path | None, **_: object) -> str:
    """The digest of all files in the folder that ``load_depth`` may read."""
    folder = data_folder(data_dir)
    names = (TRAIN, TEST, LABELED, APOLLO)
    paths = [folder / name for name in names if (folder / name).is_file()] if folder else []
    if folder is None or not paths:
        raise DataError(f"there is none of {', '.join(names)}: {_HOW}")
    return files_digest(paths, folder)


def _cache_parts(folder: Path, seed: int, shape: tuple[int, int]) -> tuple[Split, Split, Split]:
    train, test = _cache_arrays(folder / TRAIN), _cache_arrays(folder / TEST)
    held_out, kept = _tenth(train[0].shape[0], seed, folder / TRAIN)
    to_split = partial(_cache_split, shape=shape)
    return to_split(_both(train, kept)), to_split(_both(train, held_out)), to_split(test)


def _labeled_parts(path: Path, seed: int, shape: tuple[int, int]) -> tuple[Split, Split, Split]:
    images = stored_rows(path, "images", (3, None, None), "u")
    depths = stored_rows(path, "depths", (None, None), "f")
    _same_pictures(images, depths, images.shape[2:], depths.shape[1:])
    test, rest = _tenth(images.shape[0], seed, path)
    among, kept = _tenth(len(rest), seed + 1, path)

    def split(rows: NDArray[np.int64]) -> Split:
        x, y = _both((images, depths), rows)
        return Split(
            x=_lazy(x, partial(_upright_images, shape=shape), (3, *shape)),
            y=_lazy(y, partial(_upright_depths, shape=shape), shape),
        )

    return split(rest[kept]), split(rest[among]), split(test)


def _apollo(folder: Path, shape: tuple[int, int], order: str, *, scale_known: bool) -> Split | None:
    if not (folder / APOLLO).exists():
        return None
    split = _cache_split(_cache_arrays(folder / APOLLO), shape=shape)
    x = split.x[:, ::-1] if order == "bgr" else split.x
    return Split(x=x, y=split.y if scale_known else split.y * np.float32(np.nan))


def _cache_arrays(path: Path) -> tuple[StoredRows, StoredRows]:
    images = stored_rows(path, "image", (None, None, 3), "u")
    depths = stored_rows(path, "depth", (None, None, 1), "u")
    _same_pictures(images, depths, images.shape[1:3], depths.shape[1:3])
    return images, depths


def _same_pictures(
    images: StoredRows, depths: StoredRows, size: tuple[int, ...], target_size: tuple[int, ...]
) -> None:
    if images.shape[0] != depths.shape[0] or size != target_size:
        raise ShapeError(
            f"{images.path.name} needs one depth for each pixel of each picture, got "
            f"{images.key!r} {images.shape} and {depths.key!r} {depths.shape}"
        )
    if images.dtype != np.uint8:
        raise DataError(f"{images.key!r} of {images.path.name} must be uint8, got {images.dtype}")


def _both(
    arrays: tuple[StoredRows, StoredRows], rows: NDArray[np.int64]
) -> tuple[StoredRows, StoredRows]:
    return chosen_rows(arrays[0], rows), chosen_rows(arrays[1], rows)


def _tenth(rows: int, seed: int, path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A tenth of the row numbers, drawn by ``seed``, and the others."""
    if rows < 10:
        raise InsufficientDataError(f"{path.name} has {rows} pictures; splits need at least 10")
    order = np.random.default_rng(seed).permutation(rows)
    return order[: rows // 10], order[rows // 10 :]


def _cache_split(arrays: tuple[StoredRows, StoredRows], shape: tuple[int, int]) -> Split:
    return Split(
        x=_lazy(arrays[0], partial(_cache_images, shape=shape), (3, *shape)),
        y=_lazy(arrays[1], partial(_cache_depths, shape=shape), shape),
    )


def _lazy(
    stored: StoredRows, prepare: Callable[[NDArray[Any]], Pixels], form: tuple[int, ...]
) -> Any:
    """``prepare`` of the stored rows as a Dask array of rows of the shape ``form``."""
    raw = lazy_rows(stored, ROWS)
    lost = list(range(len(form) + 1, raw.ndim))
    return raw.map_blocks(
        prepare,
        dtype=np.float32,
        chunks=(raw.chunks[0], *((size,) for size in form)),
        drop_axis=lost,
        meta=np.empty((0,) * (len(form) + 1), dtype=np.float32),
    )


def _cache_images(block: NDArray[Any], shape: tuple[int, int]) -> Pixels:
    return resized(np.moveaxis(block, -1, 1).astype(np.float32) / np.float32(255), shape)


def _cache_depths(block: NDArray[Any], shape: tuple[int, int]) -> Pixels:
    return resized(block[..., 0].astype(np.float32) / np.float32(255), shape)


def _upright_images(block: NDArray[Any], shape: tuple[int, int]) -> Pixels:
    return resized(np.swapaxes(block, -1, -2).astype(np.float32) / np.float32(255), shape)


def _upright_depths(block: NDArray[Any], shape: tuple[int, int]) -> Pixels:
    if not (block > 0).all():
        raise DataError(
            "depths of the labelled set must be positive numbers of metres (rawDepths has zeros "
            "where the sensor saw nothing, depths has none): is the file whole?"
        )
    return resized(np.swapaxes(block, -1, -2).astype(np.float32), shape)
