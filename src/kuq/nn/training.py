"""Training networks of one's own."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from kuq._array import checks
from kuq.kernels.base import Score
from kuq.kernels.names import as_score
from kuq.nn.history import History
from kuq.nn.network import Network
from kuq.nn.one_by_one import seeded
from kuq.nn.rows import Rows
from kuq.nn.settings import Training
from kuq.nn.threads import threads_for_steps
from kuq.nn.trainer import Trainer


def fit(
    network: Network,
    x: Any,
    y: Any,
    validation: tuple[Any, Any] | None = None,
    *,
    loss: Score | str | None = None,
    member_targets: Any = None,
    training: Training | None = None,
) -> History:
    """Train all members of a network in place, on arrays or tensors as they are.

    ``loss`` is any kuq score of the predicted law, by default that of the head.
    ``member_targets`` (M, n, event…) replaces y for each member, for experiments in which
    members see different data. Training runs on the device of the network.

    >>> import kuq, torch
    >>> x = torch.linspace(-1, 1, 64)[:, None]
    >>> network = kuq.nn.Network(kuq.nn.MLP((8,)), kuq.nn.NormalHead, (1,), n_members=3)
    >>> kuq.nn.fit(network, x, x[:, 0], training=kuq.nn.Training(max_epochs=2)).epochs
    2
    """
    training = Training() if training is None else training
    rows = Rows.checked(network, x, y, member_targets)
    held_out = None if validation is None else Rows.checked(network, *validation)
    score = network.head.default_score(rows.shared_y) if loss is None else as_score(loss)
    own_stream = nullcontext() if network.at_once else seeded(network.seed)
    batch = training.rows_in_a_batch(len(rows), network.x_shape)
    few = threads_for_steps(network, batch, training.n_samples)
    with own_stream, checks(False), few:
        return Trainer(network, rows, held_out, score, training).run()
