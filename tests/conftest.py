"""KUQ_WITHOUT=jax,torch hides libraries, so that each one can be tested on its own."""

import os
import sys
from importlib.abc import MetaPathFinder

HIDDEN = tuple(filter(None, os.environ.get("KUQ_WITHOUT", "").split(",")))


class Hide(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"{name} is hidden by KUQ_WITHOUT", name=name)


if HIDDEN:
    sys.meta_path.insert(0, Hide())
