"""The protocols need NumPy and SciPy alone."""

import json
import subprocess
import sys

CODE = """
import json, sys
import numpy as np
import kuq
assert "kuq.protocols" not in sys.modules
p = kuq.protocols
p.selective_prediction([1, 2, 3, 4], [0, 1, 3, 2])
p.ood_detection([1, 2], [3, 4])
p.average_ranks([[1, 2, 3], [2, 3, 1]])
base = kuq.Ensemble(kuq.Normal(np.zeros((2, 3)), 1.0))
p.robustness(base, base, [kuq.CRPS()])
p.influence_curves(base, kuq.Normal(np.zeros((1, 3)), 1.0), kuq.CRPS())
extras = ("torch", "jax", "sklearn", "matplotlib", "pandas", "xarray", "dask")
print(json.dumps([name for name in extras if name in sys.modules]))
"""


def test_protocols_import_no_extra():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
