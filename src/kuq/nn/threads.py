"""Threads for steps of training: none where a step is too small to share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from kuq.nn.network import Network

#: Multiplications of one step below which threads wait for each other longer than they work.
_SMALLEST_FOR_THREADS = 2e7


@contextmanager
def threads_for_steps(network: Network, rows: int, draws: int) -> Iterator[None]:
    """Inside, torch uses one thread if a step on so many rows and draws is small.

    On a busy machine its threads would spin, and a step takes ten times as long.
    """
    weights = sum(weight.numel() for weight in network.parameters())
    draws = draws if network.noise_channels else 1
    work = weights * rows * draws * math.prod(network.x_shape[1:])
    before = torch.get_num_threads()
    if work < _SMALLEST_FOR_THREADS:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
