"""Damage to files."""

import numpy as np


def flipped(content, trial):
    """The bytes with one bit changed; the trial says which."""
    rng = np.random.default_rng(trial)
    changed = bytearray(content)
    changed[rng.integers(len(changed))] ^= 1 << int(rng.integers(8))
    return bytes(changed)
