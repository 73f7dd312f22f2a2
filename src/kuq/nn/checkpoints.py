"""The state of training in a file, from which it goes on as if nothing had happened."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from torch import Tensor

from kuq.errors import ParameterError
from kuq.nn import store
from kuq.nn.rows import OwnRows, Rows
from kuq.nn.streams import Stream

if TYPE_CHECKING:
    from kuq.nn.trainer import Trainer

_KIND = "checkpoint"
#: Counts the changes of training that make it end elsewhere; files without it are of the first.
TRAINING = 5
#: Settings that may differ between the calls before and after an interruption.
_FREE = ("max_epochs", "progress", "checkpoint", "checkpoint_every")


@final
class Checkpoint:
    """Writes and reads the arrays of a trainer; a digest tells whether data and settings match."""

    def __init__(self, trainer: Trainer, path: str | os.PathLike[str]) -> None:
        self.trainer, self.path = trainer, Path(path)
        self.digest = _digest(trainer)

    @classmethod
    def of(cls, trainer: Trainer) -> Checkpoint | None:
        path = trainer.training.checkpoint
        return None if path is None else cls(trainer, path)

    def write_if_due(self) -> None:
        if self.trainer.epoch % self.trainer.training.checkpoint_every == 0:
            self.write()

    def write(self) -> None:
        """All arrays, at the end of an epoch."""
        t = self.trainer
        arrays = {name: tensor.cpu().numpy() for name, tensor in _tensors(t).items()}
        arrays |= t.stopping.arrays()
        arrays["kept_epoch"] = t.kept_epoch
        if t.lowest.losses is not None:
            arrays["lowest_losses"] = t.lowest.losses.cpu().numpy()
        arrays["generators"] = np.stack([g.get_state().numpy() for g in t.generators])
        arrays["train_losses"] = np.array(t.train_losses)
        arrays["validation_losses"] = np.array(t.validation_losses)
        header = {"digest": self.digest, "steps": t.adam.steps, "training": TRAINING}
        store.write(self.path, _KIND, arrays, header)

    @torch.no_grad()
    def resume(self) -> None:
        """Take over the state of the file, if there is one."""
        if not self.path.exists():
            return
        arrays, header = store.read(self.path, _KIND)
        if header.get("training") != TRAINING:
            raise ParameterError(
                f"the checkpoint {os.fspath(self.path)!r} was written by another version of kuq, "
                "whose networks are trained otherwise; go on with that version, or delete it to "
                "start anew"
            )
        if header.get("digest") != self.digest:
            raise ParameterError(
                f"the checkpoint {os.fspath(self.path)!r} belongs to other data or settings, or to "
                "those of another version of kuq; delete it to start anew, or give another name"
            )
        try:
            self._take_over(arrays, header)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ParameterError(
                f"{os.fspath(self.path)!r} is no checkpoint that this version of kuq can read: "
                f"{error!r}; delete it to start anew"
            ) from error

    def _take_over(self, arrays: dict[str, np.ndarray], header: dict[str, Any]) -> None:
        t = self.trainer
        for name, tensor in _tensors(t).items():
            tensor.copy_(torch.from_numpy(arrays[name]))
        t.stopping.restore(arrays)
        t.kept_epoch[:] = arrays["kept_epoch"]
        if "lowest_losses" in arrays:
            t.lowest.losses = torch.from_numpy(arrays["lowest_losses"]).to(t.device)
        for generator, state in zip(t.generators, arrays["generators"], strict=True):
            generator.set_state(torch.from_numpy(state))
        t.train_losses = list(arrays["train_losses"])
        t.validation_losses = list(arrays["validation_losses"])
        t.adam.steps = int(header["steps"])


def _tensors(t: Trainer) -> dict[str, Tensor]:
    return {
        "values": t.weights.values,
        "tracked": t.weights.tracked,
        "moment": t.adam.moment,
        "square": t.adam.square,
        "averages": t.averages.values,
        "averages_tracked": t.averages.tracked,
        "best": t.best,
        "best_tracked": t.best_tracked,
    }


def _digest(t: Trainer) -> str:
    """A hash of everything that decides how training goes."""
    settings = {k: v for k, v in asdict(t.training).items() if k not in _FREE}
    if t.training.annealing:
        settings["max_epochs"] = t.training.max_epochs
    facts = [repr(t.network), repr(t.score), t.network.seed, settings]
    rows = [*_data(t.rows, facts)[:2], t.weights.values]
    rows += [] if t.validation is None else _data(t.validation, facts)
    rows += _data(t.rows, [])[2:]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for tensor in rows:
        digest.update(repr(tuple(tensor.shape)).encode())
        digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
    return digest.hexdigest()


def _data(rows: Rows | Stream | OwnRows, facts: list[Any]) -> list[Tensor]:
    """The tensors that training sees; of batches, which may change, their number and shapes."""
    if isinstance(rows, Stream):
        facts += [rows.summary.rows, rows.summary.x_shape, rows.summary.event_shape]
        return []
    if isinstance(rows, OwnRows):
        return [rows.index]
    return [rows.x, rows.y] + ([] if rows.weight is None else [rows.weight])
