"""Settings hold in the context that made them: threads, tasks and blocks do not meet."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import kuq
from kuq._compiled import compiled
from kuq._threads import in_threads

BAD = (0.0, -1.0)  # a negative scale


def refused() -> bool:
    try:
        kuq.Normal(*BAD)
    except kuq.ParameterError:
        return True
    return False


def in_thread(work):
    """The result of ``work`` in a thread of its own."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def test_a_block_in_one_thread_leaves_others_alone():
    with kuq.checks(False):
        assert not refused()
        assert in_thread(refused)
    assert refused()


def test_blocks_that_overlap_in_two_threads_both_end():
    inside, leave = threading.Event(), threading.Event()

    def block():
        with kuq.checks(False):
            inside.set()
            leave.wait(10)
        return refused()

    found = []
    thread = threading.Thread(target=lambda: found.append(block()))
    with kuq.checks(False):
        thread.start()
        assert inside.wait(10)
    assert refused()  # although the other block still stands
    leave.set()
    thread.join()
    assert found == [True]
    assert refused()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_blocks_that_overlap_in_one_thread_both_end(order):
    blocks = []
    for _ in range(2):
        blocks.append(kuq.checks(False))
        blocks[-1].__enter__()
    blocks[order[0]].__exit__(None, None, None)
    assert not refused()
    blocks[order[1]].__exit__(None, None, None)
    assert refused()


def test_tasks_have_settings_of_their_own():
    async def off():
        with kuq.checks(False):
            await asyncio.sleep(0.01)
            return refused()

    async def on():
        await asyncio.sleep(0.005)
        return refused()

    async def both():
        return await asyncio.gather(off(), on())

    assert asyncio.run(both()) == [False, True]


def test_a_call_holds_until_the_next_one_or_the_end_of_the_block():
    with kuq.checks(True):
        kuq.checks(False)
        assert not refused()
        with kuq.checks(True):
            assert refused()
        assert not refused()
        kuq.checks(True)
        assert refused()
        kuq.checks(False)
    assert refused()


def test_threads_of_kuq_inherit_settings():
    def seen(_):
        return refused(), compiled.state()

    with kuq.checks(False), kuq.compiled(False):
        assert in_threads(seen, range(4), 2) == [(False, False)] * 4
    assert in_threads(seen, range(4), 2) == [(True, None)] * 4


def test_compiled_is_a_setting_of_the_context():
    with kuq.compiled(False):
        assert in_thread(compiled.state) is None
        assert compiled.state() is False
    assert compiled.state() is None


def test_training_leaves_checks_of_other_threads_on(monkeypatch):
    torch = pytest.importorskip("torch")
    from kuq.nn.trainer import Trainer

    seen = []

    x = torch.linspace(-1, 1, 64)[:, None]
    network = kuq.nn.Network(kuq.nn.MLP((8,)), kuq.nn.NormalHead, (1,), n_members=2)
    run = Trainer.run

    def watched(trainer):
        seen.extend([refused(), in_thread(refused)])
        return run(trainer)

    monkeypatch.setattr(Trainer, "run", watched)
    kuq.nn.fit(network, x, x[:, 0], training=kuq.nn.Training(max_epochs=1, compile=False))
    assert seen == [False, True]
    assert refused()


def test_lazy_blocks_keep_the_settings_of_their_call():
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("dask")
    seen = []

    data = xarray.DataArray(np.zeros((3, 8)), dims=("member", "x")).chunk({"x": 4})

    def look(x):
        seen.append((refused(), compiled.state()))
        return x

    with kuq.checks(False), kuq.compiled(False):
        lazy = kuq.xarray.decompose(data, kuq.CRPS().on(look), unbiased=False)
    lazy.compute(scheduler="threads")
    assert set(seen) == {(False, False)}
