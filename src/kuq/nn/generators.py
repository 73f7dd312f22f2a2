"""Random numbers of members: they depend on the seed and the member, not on how many there are."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import torch


class Purpose(IntEnum):
    """What random numbers are for; every purpose has a stream of its own."""

    WEIGHTS = 0
    TRAINING = 1
    PREDICTION = 2
    BOOTSTRAP = 3
    SPLIT = 4
    SECOND_ORDER = 5


def member_seed(seed: int, member: int, purpose: Purpose, step: int = 0) -> int:
    """63 bits that are unrelated for different seeds, members, purposes and steps."""
    entropy = (seed, member, int(purpose), step)
    words = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(1))


def member_generators(
    seed: int, n_members: int, purpose: Purpose, device: torch.device
) -> list[torch.Generator]:
    """One generator for each member."""
    generators = []
    for member in range(n_members):
        generator = torch.Generator(device=device)
        generator.manual_seed(member_seed(seed, member, purpose))
        generators.append(generator)
    return generators
