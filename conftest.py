"""How the suite is run, by variables of the environment; a browser.

KUQ_WITHOUT=jax,torch hides libraries, so that each one can be tested on its own.
KUQ_TRIALS is the share of the long trials that run: a tenth in the suite, all by ``make trust``.
KUQ_ORDER=7 shuffles the files, and the tests of each file, by this seed.
KUQ_TEST_UCI names a folder with the UCI tables, which a few tests need; else they are skipped.
KUQ_EXAMPLES=nightly gives properties many examples, other ones in every run; in the suite there
are fewer, always the same.
KUQ_ONE_IN=10 runs about every tenth test of each file and at least one, always the same ones.
"""

import contextlib
import os
import random
import shutil
import sys
import zlib
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest
from selection import one_in, shuffle

EXAMPLES = os.environ.get("KUQ_EXAMPLES", "suite")
hypothesis.settings.register_profile("suite", max_examples=50, deadline=None, database=None)
hypothesis.settings.register_profile("nightly", max_examples=500, deadline=None, print_blob=True)
hypothesis.settings.load_profile(EXAMPLES)
HIDDEN = tuple(filter(None, os.environ.get("KUQ_WITHOUT", "").split(",")))


class Hide(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"{name} is hidden by KUQ_WITHOUT", name=name)


if HIDDEN:
    sys.meta_path.insert(0, Hide())
try:
    HAS_TORCH = find_spec("torch") is not None
except ModuleNotFoundError:  # hidden
    HAS_TORCH = False
# Their examples cannot run, and of a part that cannot be imported pytest would leave an empty one.
NEED_TORCH = ("nn/*", "adapters/botorch_posteriors.py", "adapters/torch_distributions.py")
collect_ignore_glob = (
    []
    if HAS_TORCH
    else [*(f"src/kuq/{name}" for name in NEED_TORCH), "study/src/kuq_study/convolutions.py"]
)


def pytest_collection_modifyitems(config, items):
    if size := os.environ.get("KUQ_ONE_IN"):
        chosen = one_in(int(size), items)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]
    if order := os.environ.get("KUQ_ORDER"):
        shuffle(random.Random(int(order)), items)


def pytest_runtest_setup(item):
    """Examples that are the same in every run of the suite, and not the same for every case."""
    function = getattr(item, "function", None)
    if EXAMPLES == "suite" and getattr(function, "is_hypothesis_test", False):
        hypothesis.seed(zlib.crc32(item.nodeid.encode()))(function)


@pytest.fixture(autouse=True)
def own_random_numbers():
    """Every test starts from the same state of the generators that libraries share."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def own_folders(tmp_path_factory):
    """Nobody's data or cache is read or written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("KUQ_DATA", raising=False)
        patch.setenv("KUQ_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def compiled_code():
    """There from the start: when it were loaded, and so the last bit, would depend on the order."""
    with contextlib.suppress(ModuleNotFoundError):
        import_module("kuq._numba.compiling")


@pytest.fixture(scope="session")
def uci():
    folder = os.environ.get("KUQ_TEST_UCI")
    if folder is None:
        pytest.skip("KUQ_TEST_UCI names no folder with the UCI tables")
    return Path(folder)


@pytest.fixture
def trials():
    """How many of ``whole`` trials to run; trial i of a tenth is trial i of the whole."""
    share = float(os.environ.get("KUQ_TRIALS", "0.1"))
    return lambda whole: max(1, round(share * whole))


@pytest.fixture(scope="module")
def browser():
    """A real browser for pages; tests of pages are skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no Chromium on this machine")
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=options)
        yield opened
        opened.close()
