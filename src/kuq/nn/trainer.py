"""The loop over epochs that trains all members of a network side by side."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from kuq.errors import ParameterError
from kuq.kernels.base import Bounded, Score
from kuq.nn.adam import Adam
from kuq.nn.averages import Averages
from kuq.nn.checkpoints import Checkpoint
from kuq.nn.compiled_step import CompiledStep
from kuq.nn.generators import Purpose, member_generators, member_seed
from kuq.nn.history import History
from kuq.nn.judged import Judged, Lowest
from kuq.nn.layers import Members
from kuq.nn.network import Network
from kuq.nn.one_by_one import seed_generators
from kuq.nn.rows import Batch, Folds, OwnRows, Rows, SharedRows
from kuq.nn.settings import Training
from kuq.nn.stopping import Stopping
from kuq.nn.streams import Stream
from kuq.nn.weights import Weights

#: Numbers that one piece of a forward pass without gradients may have in its widest layer.
_PIECE = 2**22
#: A bounded score gives ½ to a law without end, whatever the outcome. Who is that near to it has
#: learned next to nothing, and has next to no gradient.
_FLAT = 0.49


@final
class Trainer:
    """Everything that changes during training, in arrays with a row for each member."""

    def __init__(
        self,
        network: Network,
        rows: Rows | Stream,
        validation: Rows | Stream | Folds | None,
        score: Score | None,
        training: Training,
    ) -> None:
        self.network, self.rows = network, rows
        self.score, self.training = score, training
        self.device = next(network.parameters()).device
        self.learned: Tensor | None = None
        self.validation: Rows | Stream | OwnRows | None
        if isinstance(validation, Folds):
            assert isinstance(rows, Rows)
            folds = validation.to(self.device)
            self.learned = folds.learned
            self.validation = OwnRows(rows.judging(), folds.held_out)
        else:
            self.validation = validation
        self.count, self.batch_size = rows_and_batch(rows, training, network, self.learned)
        self.rate = training.rate(network.x_shape)
        self.weights = Weights(network)
        self.adam = Adam(self.weights.values)
        steps, epochs = math.ceil(self.count / self.batch_size), training.averaging
        self.averages = Averages(self.weights, None if epochs is None else epochs * steps)
        self.stopping = Stopping(network.n_members, self.rate, training.patience, training.plateau)
        self.lowest = Lowest(training.margin, isinstance(self.validation, OwnRows))
        self.kept_epoch = np.full(network.n_members, -1)
        self.best = self.weights.values.clone()
        self.best_tracked = self.weights.tracked.clone()
        self.generators = member_generators(
            network.seed, network.n_members, Purpose.TRAINING, self.device
        )
        if training.bootstrap:
            self.learned = self._bootstrap(self.count)
        self.noise = _validation_noise(network, training.n_samples)
        self.train_losses: list[np.ndarray] = []
        self.validation_losses: list[np.ndarray] = []
        self.compiled = self._compiled() if training.compile else None

    @property
    def epoch(self) -> int:
        return len(self.train_losses)

    def run(self) -> History:
        checkpoint = Checkpoint.of(self)
        if checkpoint is not None:
            checkpoint.resume()
        interrupted = False
        self.network.train()
        bar = _bar(self.training, self.epoch)
        try:
            while self.epoch < self.training.max_epochs and self.stopping.active:
                self._epoch()
                if checkpoint is not None:
                    checkpoint.write_if_due()
                bar.set_postfix_str(" ".join(f"{loss:.3g}" for loss in self._last()), False)
                bar.update()
        except KeyboardInterrupt:
            interrupted = True
            warnings.warn(
                f"training was interrupted after {self.epoch} of {self.training.max_epochs} "
                "epochs; the network keeps what it has learned",
                stacklevel=4,
            )
        finally:
            bar.close()
            self.network.eval()
        if checkpoint is not None and not interrupted:
            checkpoint.write()
        self._finish(interrupted)
        self.weights.release()
        return self._history(interrupted)

    def _last(self) -> np.ndarray:
        return (self.validation_losses or self.train_losses)[-1]

    def _epoch(self) -> None:
        burning = self.epoch < self.training.burn_in
        trained = self._pass_over_rows(burning)
        with self.averages.in_place():
            judged = None if self.validation is None else self._validate(burning)
        held_out = None
        if judged is not None:
            held_out = self._carried(judged.mean(), self.validation_losses)
        if not burning:
            running = self.stopping.active
            better = self.stopping.update(trained if held_out is None else held_out, self.epoch)
            kept = better
            if judged is not None:
                kept = self.lowest.as_good(judged, running)
            if kept.any():
                self._keep(kept)
        if held_out is not None:
            self.validation_losses.append(held_out)
        self.train_losses.append(trained)  # last: it is what counts epochs

    @torch.no_grad()
    def _keep(self, chosen: np.ndarray) -> None:
        self.kept_epoch[chosen] = self.epoch
        if chosen.all():
            self.best.copy_(self.averages.values)
            self.best_tracked.copy_(self.averages.tracked)
            return
        members = torch.from_numpy(chosen).to(self.device)
        self.best[members] = self.averages.values[members]
        self.best_tracked[members] = self.averages.tracked[members]

    def _pass_over_rows(self, burning: bool) -> np.ndarray:
        """One step for each batch; the mean training loss of every member."""
        rates = torch.from_numpy(self._rates()).to(self.device, torch.float32)
        groups, active = self._groups(), None if self.network.at_once else self.stopping.active
        total = torch.zeros(self.network.n_members, device=self.device)
        weight: Tensor | float = 0.0
        for batch in self._batches():
            weight = weight + batch.total_weight()
            if self.compiled is not None and len(batch) == self.batch_size:
                assert isinstance(batch, OwnRows)
                noise = self._noise(self.generators, len(batch))
                loss = self.compiled(batch.index, noise, rates, burning)
                self.averages.follow(self.adam.steps)
                total += loss * len(batch)
                continue
            self.weights.gradients.zero_()
            for members in groups:
                loss = self._step_losses(batch, members, burning)
                alone = None if self.network.at_once else int(members)  # type: ignore[arg-type]
                self.weights.add_gradients(loss.sum(), alone)
                _add(total, loss.detach() * len(batch), members)
            self.adam.step(self.weights.gradients, rates, active)
            self.averages.follow(self.adam.steps)
        return self._carried(total / weight, self.train_losses)

    def _batches(self) -> Iterator[OwnRows | SharedRows]:
        """One pass over all rows, for every member in an order of its own."""
        if isinstance(self.rows, Stream):
            yield from self.rows.batches()
            return
        count = len(self.rows) if self.learned is None else self.learned.shape[1]
        order = torch.stack([self._order(count, g) for g in self.generators])
        if self.learned is not None:
            order = self.learned.gather(1, order)
        yield from OwnRows(self.rows, order).pieces(self.batch_size)

    def _rates(self) -> np.ndarray:
        """The learning rate of every member in this epoch."""
        rates = self.stopping.rates()
        if not self.training.annealing:
            return rates
        return rates * math.cos(math.pi / 2 * self.epoch / self.training.max_epochs) ** 2

    def _step_losses(self, batch: OwnRows | SharedRows, members: Members, burning: bool) -> Tensor:
        generators = self.generators
        if members is not None:
            generators = [generators[m] for m in members.tolist()]
            if not self.network.at_once:  # what modules draw by themselves, such as dropout
                seed, member, step = self.network.seed, int(members[0]), self.adam.steps
                seed_generators(member_seed(seed, member, Purpose.TRAINING, step))
        rows = _of_members(batch, members, len(generators))
        noise = self._noise(generators, len(batch))
        with self._precision():
            return self._losses(rows, noise, members, burning)

    def _noise(self, generators: list[torch.Generator], rows: int) -> Tensor | None:
        return self.network.noise(generators, rows, self.training.n_samples)

    def _compiled(self) -> CompiledStep:
        if isinstance(self.rows, Stream):
            raise ParameterError("compile=True needs arrays: batches of an iterable may differ")
        if not self.network.at_once or not self._compiles():
            raise ParameterError(
                "compile=True needs a backbone that computes all members at once, and a loss with "
                f"a short graph; for {type(self.network.head).__name__} that is its own"
            )
        backend = self.training.compile if isinstance(self.training.compile, str) else "inductor"

        def losses(rows: Batch, noise: Tensor | None, burning: bool) -> Tensor:
            with self._precision():
                return self._losses(rows, noise, None, burning)

        return CompiledStep(self.network, losses, self.rows, self.weights, self.adam, backend)

    def _losses(self, rows: Batch, noise: Tensor | None, members: Members, burning: bool) -> Tensor:
        """The mean loss of every member over a batch, whose rows count by their weights."""
        given = (rows.x, rows.y, noise, self.score, members, burning)
        return _mean(self.network.losses(*given, 1 / self.count), rows)

    @torch.no_grad()
    def _compiles(self) -> bool:
        rows = next(iter(self.rows.pieces(1))).of(self.network.n_members)
        noise = None if self.noise is None else self.noise[:, :, :2]
        return self.network.compiles(rows.x, rows.y, noise, self.score)

    @torch.no_grad()
    def _validate(self, burning: bool) -> Judged:
        assert self.validation is not None
        self.network.eval()
        groups, n_members = self._groups(), self.network.n_members
        every, weights = [], []
        for rows in self.validation.pieces(self._piece()):
            losses = torch.zeros(n_members, len(rows), device=self.device)
            for members in groups:
                noise = self.noise
                if noise is not None and members is not None:
                    noise = noise[members]
                count = n_members if members is None else len(members)
                with self._precision():
                    batch = _of_members(rows, members, count)
                    given = (batch.x, batch.y, noise, self.score, members, burning)
                    _add(losses, self.network.held_out_losses(*given), members)
            every.append(losses.double())
            weights.append(rows.weights(n_members).double())
        self.network.train()
        return Judged(torch.cat(every, 1), torch.cat(weights, 1))

    def _piece(self) -> int:
        return rows_at_once(self.network, 1 if self.noise is None else self.noise.shape[2])

    def _groups(self) -> list[Members]:
        """Which members are computed together: all, those left of many, or one by one."""
        active = self.stopping.active
        if not self.network.at_once:
            return [torch.tensor([member], device=self.device) for member in active]
        if 2 * len(active) > self.network.n_members:
            return [None]
        return [torch.tensor(active, device=self.device)]

    def _carried(self, losses: Tensor, before: list[np.ndarray]) -> np.ndarray:
        """Losses as numbers; a member that stopped keeps its last one."""
        values = np.asarray(losses.double().cpu().numpy())
        return np.where(self.stopping.stopped == 0, values, before[-1] if before else values)

    def _order(self, count: int, generator: torch.Generator) -> Tensor:
        return torch.randperm(count, generator=generator, device=self.device)

    def _bootstrap(self, count: int) -> Tensor:
        """As many rows as there are to learn from, drawn with replacement by every member."""
        if isinstance(self.rows, Stream):
            raise ParameterError(
                "bootstrap=True draws rows for every member, which needs arrays; batches of an "
                "iterable are the same for all members"
            )
        members = self.network.n_members
        streams = member_generators(self.network.seed, members, Purpose.BOOTSTRAP, self.device)
        draws = [torch.randint(count, (count,), generator=g, device=self.device) for g in streams]
        drawn = torch.stack(draws)
        return drawn if self.learned is None else self.learned.gather(1, drawn)

    def _precision(self) -> AbstractContextManager[Any]:
        wanted = self.training.mixed_precision
        if wanted is None:
            wanted = self.device.type == "cuda"
        return torch.autocast(self.device.type, torch.bfloat16) if wanted else nullcontext()

    @torch.no_grad()
    def _finish(self, interrupted: bool) -> None:
        """Go back to each member's best averages, or complain about members without any."""
        lost = ~np.isfinite(self.stopping.best_loss)
        if lost.any() and not interrupted and self.epoch > self.training.burn_in:
            raise ParameterError(
                f"the loss of members {np.flatnonzero(lost).tolist()} was never finite; lower "
                f"learning_rate (now {self.rate:g}) or choose another loss"
            )
        if isinstance(self.score, Bounded) and self.network.start is None:
            self._warn_of_flatness(self.score)
        last = self._last() if self.epoch else np.zeros_like(self.stopping.best_loss)
        wanted = ~lost & (self.training.restore_best | ~np.isfinite(last))
        self.kept_epoch[~wanted] = self.epoch - 1
        chosen = torch.from_numpy(wanted).to(self.device)
        self.weights.values.copy_(self.averages.values)
        self.weights.tracked.copy_(self.averages.tracked)
        self.weights.values[chosen] = self.best[chosen]
        self.weights.tracked[chosen] = self.best_tracked[chosen]

    def _warn_of_flatness(self, score: Bounded) -> None:
        best = self.stopping.best_loss
        flat = np.isfinite(best) & (best > _FLAT)
        if flat.any():
            warnings.warn(
                f"members {np.flatnonzero(flat).tolist()} learned next to nothing: their loss is "
                f"{best[flat].min():.2f}, where {type(score).__name__} is flat, as outcomes are "
                f"many bandwidths away; lower learning_rate (now {self.rate:g}), give burn_in "
                "epochs, or another loss",
                stacklevel=5,
            )

    def _history(self, interrupted: bool) -> History:
        return History(
            np.array(self.train_losses).reshape(self.epoch, self.network.n_members),
            np.array(self.validation_losses) if self.validation_losses else None,
            self.stopping.best_loss,
            self.stopping.best_epoch,
            self.kept_epoch,
            self.stopping.rate,
            interrupted,
        )


def _validation_noise(network: Network, in_training: int) -> Tensor | None:
    """Noise (M, 1, N, …) of more draws than in training, each channel with mean 0 and variance 1.

    All epochs and rows see the same draws, so that their luck would add up and decide which epoch
    is best.
    """
    more = 5 if network.start is None else 2  # a draw of a flow takes several evaluations
    noise = network.prediction_noise(max(in_training, min(more * in_training, 50)))
    if noise is None:
        return None
    deviation, mean = torch.std_mean(noise, dim=2, keepdim=True, correction=0)
    return (noise - mean) / deviation


def rows_and_batch(
    rows: Rows | Stream, training: Training, network: Network, learned: Tensor | None = None
) -> tuple[int, int]:
    """How many rows a member learns from, and how many of them a step takes, at most."""
    if isinstance(rows, Stream):
        return rows.summary.rows, rows.summary.largest_batch
    count = len(rows) if learned is None else learned.shape[1]
    return count, training.rows_in_a_batch(count, network.x_shape)


def rows_at_once(network: Network, draws: int) -> int:
    """How many inputs a forward pass without gradients takes, so that memory stays bounded."""
    width = max(network.body.features, math.prod(network.x_shape), network.output_size())
    grid = math.prod(network.x_shape[1:])
    members = network.n_members if network.at_once else 1
    return int(max(1, _PIECE // (members * draws * width * grid)))


def draws_at_once(network: Network) -> int:
    """How many draws it makes for one input, likewise."""
    return rows_at_once(network, 1)


def _of_members(batch: OwnRows | SharedRows, members: Members, count: int) -> Batch:
    return batch.of(count) if isinstance(batch, SharedRows) else batch.of(members)


def _mean(losses: Tensor, rows: Batch) -> Tensor:
    return losses.mean(1) if rows.weight is None else (losses * rows.weight).mean(1)


def _add(total: Tensor, losses: Tensor, members: Members) -> None:
    if members is None:
        total += losses
    else:
        total[members] += losses


def _bar(training: Training, done: int) -> Any:
    from tqdm import tqdm

    return tqdm(
        total=training.max_epochs, initial=done, disable=not training.progress, unit="epoch"
    )
