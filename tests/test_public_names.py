"""What completion offers: ``dir`` of kuq and of its parts shows public names, and these alone."""

import pytest

import kuq

PARTS = ("adapters", *kuq._PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_parts_show_their_public_names(part):
    module = pytest.importorskip(f"kuq.{part}")
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, name) for name in dir(module))


def test_parts_can_be_imported_by_their_files():
    """Names that are not shown are still there."""
    heads = pytest.importorskip("kuq.nn.heads")
    assert heads.NormalHead is kuq.nn.NormalHead


def test_kuq_shows_its_names_and_parts():
    assert dir(kuq) == sorted({*kuq.__all__, *PARTS, "__version__"})
    pytest.importorskip("torch")  # which one of the parts needs
    assert all(hasattr(kuq, name) for name in dir(kuq))
