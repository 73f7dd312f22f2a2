"""A part whose library is missing says what to install."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(("part", "library"), [("sklearn", "sklearn"), ("xarray", "xarray")])
def test_the_error_names_the_extra(part, library):
    code = f"import sys, kuq; sys.modules[{library!r}] = None; kuq.{part}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"ImportError: kuq.{part} needs" in done.stderr
    assert f'pip install "kuq[{part}]"' in done.stderr
