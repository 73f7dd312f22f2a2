"""Linear algebra has one thread inside a call, and what it had before after it."""

import threading

import numpy as np
import pytest

import kuq
from kuq import _threads


@pytest.fixture
def libraries():
    """The libraries of linear algebra, with two threads each."""
    found = _threads._blas_libraries()
    if not found:
        pytest.skip("no library of linear algebra is known here")
    before = [library.get_num_threads() for library in found]
    for library in found:
        library.set_num_threads(2)
    yield found
    for library, count in zip(found, before, strict=True):
        library.set_num_threads(count)


def counts(libraries):
    return {library.get_num_threads() for library in libraries}


def ensemble():
    return kuq.Ensemble(kuq.Samples(np.random.default_rng(0).normal(size=(3, 100, 8))))


def test_one_thread_inside(libraries):
    seen = []

    def watch(x):
        seen.append(counts(libraries))
        return x

    kuq.decompose(ensemble(), kuq.CRPS().on(watch))
    assert seen
    assert all(found == {1} for found in seen)
    assert counts(libraries) == {2}


def test_an_error_restores_them(libraries):
    def fail(x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        kuq.decompose(ensemble(), kuq.CRPS().on(fail))
    assert counts(libraries) == {2}


def test_calls_from_other_threads_leave_them(libraries):
    """Also while a call of the main thread is under way, which alone may set and restore them."""
    before, during = [], []

    def elsewhere(seen):
        thread = threading.Thread(
            target=lambda: (kuq.decompose(ensemble(), kuq.CRPS()), seen.append(counts(libraries)))
        )
        thread.start()
        thread.join()

    def watch(x):
        elsewhere(during)
        return x

    elsewhere(before)
    assert before == [{2}]
    kuq.decompose(ensemble(), kuq.CRPS().on(watch))
    assert all(found == {1} for found in during)
    assert counts(libraries) == {2}


def test_torch_has_one_thread_inside():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    seen = []

    def watch(x):
        seen.append(torch.get_num_threads())
        return x

    try:
        values = torch.asarray(np.random.default_rng(0).normal(size=(3, 100, 8)))
        kuq.decompose(kuq.Ensemble(kuq.Samples(values)), kuq.CRPS().on(watch))
        assert set(seen) == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_threads_do_not_start_threads():
    """Tiles in threads, and blocks of a tile one after the other."""
    names = set()

    def inner(_):
        names.add(threading.current_thread().name)

    def outer(item):
        assert _threads.free_workers() == 1
        names.add(threading.current_thread().name)
        _threads.in_threads(inner, range(4), 4)

    _threads.in_threads(outer, range(4), 2)
    assert len(names) <= 2


@pytest.mark.parametrize("event", [3, 400])
def test_threads_change_no_number(event, monkeypatch):
    """The pieces are the same for one and for several threads, or their sums agree to rounding."""
    values = np.random.default_rng(1).normal(size=(12, 4, 30, event))
    law = kuq.Ensemble(kuq.Samples(values, event_ndim=1))
    found = []
    for count in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", count)
        monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
        monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)), raising=False)
        found.append(kuq.decompose(law, kuq.Energy()))
    np.testing.assert_allclose(found[0].total, found[1].total, rtol=1e-12)
    np.testing.assert_allclose(found[0].epistemic, found[1].epistemic, rtol=1e-10)
