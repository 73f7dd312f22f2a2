"""Training networks of one's own."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from kuq._array import checks
from kuq.errors import ParameterError
from kuq.kernels.base import Score
from kuq.kernels.names import as_score
from kuq.nn.history import History
from kuq.nn.network import Network
from kuq.nn.one_by_one import seeded
from kuq.nn.rows import Folds, Rows
from kuq.nn.settings import Training
from kuq.nn.streams import Stream, are_batches, as_triple, require_nothing_beside_batches
from kuq.nn.threads import threads_for_steps
from kuq.nn.trainer import Trainer, rows_and_batch


def fit(
    network: Network,
    x: Any,
    y: Any = None,
    validation: Any = None,
    *,
    loss: Score | str | None = None,
    member_targets: Any = None,
    sample_weight: Any = None,
    training: Training | None = None,
) -> History:
    """Train all members of a network in place, on arrays or tensors as they are.

    ``x`` without y is a ``DataLoader`` or another iterable of batches (x, y) or (x, y, weight),
    read once before the first epoch and once in each; all members see the same batches.
    ``validation`` is (x, y), (x, y, weight), such an iterable, or a share of the rows, such as 0.1,
    that each member sets aside, others than the next member. ``loss`` is any kuq score of the
    predicted law, by default that of the head. ``sample_weight`` (n,) says how much rows count.
    ``member_targets`` (M, n, event…) replaces y for each member, for experiments in which
    members see different data. Training runs on the device of the network.

    >>> import kuq, torch
    >>> x = torch.linspace(-1, 1, 64)[:, None]
    >>> network = kuq.nn.Network(kuq.nn.MLP((8,)), kuq.nn.NormalHead, (1,), n_members=3)
    >>> kuq.nn.fit(network, x, x[:, 0], training=kuq.nn.Training(max_epochs=2)).epochs
    2
    """
    training = Training() if training is None else training
    rows = _rows(network, x, y, member_targets, sample_weight)
    held_out = None if validation is None else _held_out(network, rows, validation)
    score = network.head.default_score(rows.shared_y) if loss is None else as_score(loss)
    own_stream = nullcontext() if network.at_once else seeded(network.seed)
    _, step = rows_and_batch(rows, training, network)
    few = threads_for_steps(network, step, training.n_samples)
    with own_stream, checks(False), few:
        return Trainer(network, rows, held_out, score, training).run()


def _rows(
    network: Network, x: Any, y: Any, member_targets: Any, sample_weight: Any
) -> Rows | Stream:
    if y is not None:
        return Rows.checked(network, x, y, member_targets, sample_weight)
    require_nothing_beside_batches(member_targets, sample_weight)
    return (x if isinstance(x, Stream) else Stream.of(x)).fitting(network)


def _held_out(
    network: Network, rows: Rows | Stream, validation: Any
) -> Rows | Stream | Folds | None:
    if isinstance(validation, (int, float)):
        if isinstance(rows, Stream) or not 0 <= validation < 1:
            raise ParameterError(
                "validation as a share of the rows needs arrays and a number in [0, 1), got "
                f"{validation!r}"
            )
        return Folds.of(len(rows), validation, network.n_members, network.seed)
    if isinstance(validation, Stream) or are_batches(validation):
        return _rows(network, validation, None, None, None)
    x, y, weight = as_triple(validation)
    return Rows.checked(network, x, y, None, weight)
