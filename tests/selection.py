"""Which tests run, and in which order: for ``conftest.py``."""

import zlib
from collections import defaultdict


def one_in(size, items):
    """A part of every file. It goes by the tests' own names: new tests change no other's turn."""
    files = defaultdict(list)
    for item in items:
        files[item.path].append((zlib.crc32(item.nodeid.encode()), item))
    chosen = set()
    for numbered in files.values():
        _, first = min(numbered, key=lambda pair: pair[0])
        chosen |= {first, *(item for number, item in numbered if number % size == 0)}
    return chosen


def shuffle(rng, items):
    """Another order; tests of one file stay together, for the sake of what they share."""
    items.sort(key=lambda item: item.nodeid)
    files = sorted({item.path for item in items})
    rng.shuffle(files)
    rng.shuffle(items)
    items.sort(key=lambda item: files.index(item.path))
