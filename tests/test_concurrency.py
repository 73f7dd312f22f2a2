"""Calls in many threads at once, and calls in a process that was forked after use."""

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

import kuq

THREADS = 8
CALLS = 15
#: Libraries of linear algebra may sum in another order while another thread holds their threads.
ROUNDING = {"rtol": 1e-10, "atol": 1e-12}


def mixed_calls():
    """Different laws, kernels, sizes, questions and libraries; each may run compiled or not."""
    rng = np.random.default_rng(7)
    y = rng.normal(size=50)
    fields = rng.normal(size=(4, 3, 25, 60))
    normals = kuq.Normal(rng.normal(size=(5, 50)), rng.gamma(2.0, size=(5, 50)))
    mixtures = kuq.NormalMixture(
        rng.dirichlet(np.ones(3), size=(4, 50)), rng.normal(size=(4, 50, 3)), np.ones((4, 50, 3))
    )
    draws = kuq.Samples(rng.normal(size=(3, 50, 40)))
    calls = [
        lambda: kuq.decompose(kuq.Ensemble(normals), "crps").epistemic,
        lambda: kuq.decompose(kuq.Ensemble(normals), "log").total,
        lambda: kuq.decompose(kuq.Ensemble(mixtures), kuq.Gaussian(0.5)).aleatoric,
        lambda: kuq.decompose(kuq.Ensemble(draws), kuq.Laplace(1.0)).epistemic,
        lambda: (
            kuq.decompose(kuq.Ensemble(kuq.Samples(fields, event_ndim=1)), kuq.Energy()).epistemic
        ),
        lambda: kuq.member_divergences(kuq.Ensemble(draws), kuq.Gaussian("median")),
        lambda: kuq.score(kuq.Ensemble(draws), y, "crps"),
    ]
    try:
        import torch
    except ModuleNotFoundError:
        return calls
    loc = torch.as_tensor(normals.loc)

    def slope():
        own = loc.clone().requires_grad_()
        kuq.decompose(kuq.Ensemble(kuq.Normal(own, 1.0)), "crps").epistemic.sum().backward()
        return own.grad.numpy()

    return [*calls, slope, lambda: kuq.entropy(kuq.Normal(loc, 1.0), "crps").numpy()]


@pytest.mark.parametrize("compiled", [False, True])
def test_eight_threads_find_what_one_finds(compiled):
    if compiled:
        pytest.importorskip("numba")
    calls = mixed_calls()
    with kuq.compiled(compiled):
        expected = [np.array(call()) for call in calls]
    together = Barrier(THREADS)

    def work(thread):
        order = random.Random(thread)
        unchecked = thread == 0
        together.wait(timeout=60)
        with kuq.compiled(compiled), kuq.checks(not unchecked):
            for _ in range(CALLS):
                place = order.randrange(len(calls))
                np.testing.assert_allclose(np.array(calls[place]()), expected[place], **ROUNDING)
                if unchecked:
                    kuq.Normal(0.0, -1.0)
                    continue
                with pytest.raises(kuq.ParameterError, match="scale"):
                    kuq.Normal(0.0, -1.0)
        return True

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(work, range(THREADS)))


FORKED = """
import os, sys
import numpy as np
import kuq

def values():
    rng = np.random.default_rng(3)
    draws = kuq.Ensemble(kuq.Samples(rng.normal(size=(5, 40, 50, 20)), event_ndim=1))
    normals = kuq.Ensemble(kuq.Normal(rng.normal(size=(5, 20_000)), 1.0))
    return [
        kuq.decompose(draws, kuq.Energy()).epistemic,
        kuq.decompose(draws, kuq.Gaussian("median")).epistemic,
        kuq.decompose(normals, "crps").total,
    ]

with kuq.compiled(sys.argv[1] == "True"):
    before = values()
    child = os.fork()
    same = all(np.allclose(a, b, 1e-10) for a, b in zip(before, values(), strict=True))
    if child == 0:
        os._exit(0 if same else 3)
    _, status = os.waitpid(child, 0)
    print(same, os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("compiled", [False, True])
def test_a_forked_process_goes_on(compiled):
    if compiled:
        pytest.importorskip("numba")
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, str(compiled)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("True 0\n", 0), done.stderr
