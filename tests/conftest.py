"""How the suite is run, by variables of the environment; a browser.

KUQ_WITHOUT=jax,torch hides libraries, so that each one can be tested on its own.
KUQ_TRIALS is the share of the long trials that run: a tenth in the suite, all by ``make trust``.
KUQ_ORDER=7 shuffles the files, and the tests of each file, by this seed.
"""

import os
import random
import shutil
import sys
from importlib.abc import MetaPathFinder

import pytest

HIDDEN = tuple(filter(None, os.environ.get("KUQ_WITHOUT", "").split(",")))


class Hide(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"{name} is hidden by KUQ_WITHOUT", name=name)


if HIDDEN:
    sys.meta_path.insert(0, Hide())


def pytest_collection_modifyitems(config, items):
    """Another order; tests of one file stay together, for the sake of what they share."""
    if order := os.environ.get("KUQ_ORDER"):
        rng = random.Random(int(order))
        items.sort(key=lambda item: item.nodeid)
        files = sorted({item.path for item in items})
        rng.shuffle(files)
        rng.shuffle(items)
        items.sort(key=lambda item: files.index(item.path))


@pytest.fixture(autouse=True)
def own_random_numbers():
    """Every test starts from the same state of the generators that libraries share."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


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
