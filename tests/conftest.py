"""KUQ_WITHOUT=jax,torch hides libraries, so that each one can be tested on its own; a browser.

KUQ_TRIALS is the share of the long trials that run: a tenth in the suite, all of them by ``make trust``.
"""

import os
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
