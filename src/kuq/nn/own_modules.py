"""Predictions of fitted torch modules that come from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from kuq._numbers import require_no_mask, whole_number
from kuq.adapters.conversion import as_distribution
from kuq.distributions.base import Distribution
from kuq.distributions.ensemble import Ensemble
from kuq.distributions.nesting import as_one
from kuq.distributions.normal import Normal, Point
from kuq.distributions.samples import Samples
from kuq.errors import ParameterError, ShapeError
from kuq.nn.generators import Purpose, member_seed
from kuq.nn.one_by_one import seeded
from kuq.nn.streams import inputs_in_batches

#: What makes a law of the output of a module: a function, or what the numbers are.
ModuleHead = Callable[[Any], Any] | str


def members(
    models: Sequence[nn.Module], X: Any, *, head: ModuleHead | None = None, batch_size: int = 256
) -> Ensemble:
    """The predictions of fitted torch modules as an Ensemble, one member for each module.

    A module may return a kuq law, an object of ``torch.distributions`` (or anything else that
    ``kuq.as_distribution`` takes), or a tensor (rows, …), which is a point prediction. Everything
    else, a tuple too, does not say what it means: ``head`` then is a function from the output to
    one of these, or "mean-std", "mean-variance" or "mean-log-variance" (two tensors, or the last
    axis of one), or "draws" (rows, draws, …). Modules may differ, and so may their laws. They are
    put into evaluation mode for the time of the call, and see ``batch_size`` rows at once; no
    gradients are kept. Arrays become tensors of the module's dtype and device.

    >>> import kuq, torch
    >>> models = [torch.nn.Linear(3, 2) for _ in range(4)]
    >>> kuq.nn.members(models, torch.zeros(5, 3), head="mean-log-variance")
    Ensemble of 4 × Normal(batch=(5,), event=())
    """
    if isinstance(models, nn.Module) and not isinstance(models, nn.ModuleList):
        raise ParameterError(
            f"models must be a list of modules, got one {type(models).__name__}; for the passes of "
            "one network with dropout: kuq.nn.dropout_members"
        )
    listed = list(models)
    if not listed:
        raise ParameterError("models must hold at least one module, got none")
    batch_size = whole_number(batch_size, "batch_size", 1)
    laws = []
    for position, model in enumerate(listed):
        _check_module(model)
        with _modes_kept(model):
            model.eval()
            try:
                laws.append(_law(model, X, head, batch_size))
            except (ParameterError, ShapeError) as error:
                raise type(error)(f"module {position}: {error}") from error
    return _ensemble(laws)


def dropout_members(
    model: nn.Module,
    X: Any,
    n: int = 50,
    *,
    head: ModuleHead | None = None,
    seed: int = 0,
    batch_size: int = 256,
) -> Ensemble:
    """MC dropout: ``n`` passes of a network with other units dropped in each, as an Ensemble.

    Dropout layers are active, and all others, such as batch normalisation, are in evaluation mode;
    afterwards every layer is in the mode it was in. Dropout counts as a layer (``nn.Dropout`` and
    its kin) or as that of recurrent layers and attention; calls of ``functional.dropout`` inside of
    ``forward`` cannot be seen and stay off. ``head`` and the rest are as in ``kuq.nn.members``.
    Members that are points have no noise of their own (Gal and Ghahramani 2016 add a constant):
    their split is epistemic alone, unless the network predicts a distribution. The same seed gives
    the same passes for the same rows and ``batch_size``, whatever ``n`` is.

    >>> import kuq, torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.2))
    >>> kuq.nn.dropout_members(model, torch.zeros(5, 3), 20)
    Ensemble of 20 × Point(batch=(5,), event=(8,))
    """
    _check_module(model)
    n, seed = whole_number(n, "n", 2), whole_number(seed, "seed", 0)
    batch_size = whole_number(batch_size, "batch_size", 1)
    dropping = [module for module in model.modules() if _rate(module) > 0]
    if not dropping:
        raise ParameterError(
            f"{type(model).__name__} has no dropout layer with a rate above zero, so that all "
            "passes would be equal; use torch.nn.Dropout layers instead of functional.dropout, or "
            "train several networks and pass them to kuq.nn.members"
        )
    laws = []
    with _modes_kept(model), _no_shortcuts():
        model.eval()
        for module in dropping:
            module.training = True  # it alone: children of attention layers stay as they are
        for member in range(n):
            with seeded(member_seed(seed, member, Purpose.PREDICTION)):
                laws.append(_law(model, X, head, batch_size))
    return _ensemble(laws)


def _check_module(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise ParameterError(f"a torch module is needed, got {type(model).__name__}")


def _rate(module: nn.Module) -> float:
    """The share of units that a module drops by itself in training."""
    if isinstance(module, _DropoutNd):
        return float(module.p)
    if isinstance(module, (nn.RNNBase, nn.MultiheadAttention)):
        return float(module.dropout)
    return 0.0


@contextmanager
def _modes_kept(model: nn.Module) -> Iterator[None]:
    before = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


@contextmanager
def _no_shortcuts() -> Iterator[None]:
    """Transformer layers in evaluation mode take a fused path that knows no dropout."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@torch.no_grad()
def _law(model: nn.Module, X: Any, head: ModuleHead | None, batch_size: int) -> Distribution:
    x = _inputs(model, X)
    parts = []
    for start in range(0, len(x), batch_size):
        rows = x[start : start + batch_size]
        try:
            output = model(rows)
        except RuntimeError as error:
            raise ParameterError(
                f"{type(model).__name__} fails on rows of shape {tuple(rows.shape[1:])}: {error}"
            ) from error
        law = _as_law(output, head)
        if not law.batch_shape or law.batch_shape[0] != len(rows):
            raise ShapeError(
                f"{len(rows)} rows gave {law!r}; the first axis of a prediction must be the rows"
            )
        parts.append(law)
    return _joined(parts)


def _inputs(model: nn.Module, X: Any) -> Tensor:
    batches = inputs_in_batches(X)
    if batches is not None:
        X = torch.cat([torch.as_tensor(batch) for batch in batches])
    require_no_mask(X, "X")
    x = X if isinstance(X, Tensor) else torch.from_numpy(np.array(X, np.float64))
    if x.ndim == 0 or len(x) == 0:
        raise ShapeError(f"X needs rows along its first axis, got shape {tuple(x.shape)}")
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(()))
    return x.to(like) if x.is_floating_point() else x.to(like.device)


def _as_law(output: Any, head: ModuleHead | None) -> Distribution:
    if isinstance(head, str):
        output = _of_numbers(output, head)
    elif head is not None:
        output = head(output)
    if isinstance(output, Tensor):
        if output.ndim == 0:
            raise ShapeError("a single number is no prediction of rows")
        return Point(output, output.ndim - 1)
    if isinstance(output, (tuple, list, dict)):
        raise ParameterError(
            f"a {type(output).__name__} of {len(output)} does not say what it means; say it: "
            'head="mean-std", "mean-variance", "mean-log-variance" or "draws", or a function such '
            "as head=lambda output: kuq.Normal(output[0], output[1])"
        )
    law = as_distribution(output)
    if not isinstance(law, Distribution):
        raise ParameterError(f"a member must be a single law, got {law!r}")
    return law


def _of_numbers(output: Any, kind: str) -> Distribution:
    if kind == "draws":
        if not isinstance(output, Tensor) or output.ndim < 2:
            raise ShapeError('head="draws" needs a tensor (rows, draws, …)')
        return Samples(output, output.ndim - 2)
    if kind not in _DEVIATIONS:
        raise ParameterError(
            f"head must be one of {[*_DEVIATIONS, 'draws']} or a function, got {kind!r}"
        )
    if isinstance(output, Tensor) and output.ndim > 1 and output.shape[-1] == 2:
        output = output.unbind(-1)
    is_pair = isinstance(output, (tuple, list)) and len(output) == 2
    if not is_pair or not all(isinstance(tensor, Tensor) and tensor.ndim for tensor in output):
        shape = f" of shape {tuple(output.shape)}" if isinstance(output, Tensor) else ""
        raise ShapeError(
            f"head={kind!r} needs two tensors, or one whose last axis has length 2, got a "
            f"{type(output).__name__}{shape}"
        )
    mean, second = output
    return Normal(mean, _DEVIATIONS[kind](second), mean.ndim - 1)


def _root(variance: Tensor) -> Tensor:
    if bool((variance < 0).any()):
        raise ParameterError(
            'head="mean-variance" got negative variances; is it their logarithm? Then it is '
            '"mean-log-variance"'
        )
    return torch.sqrt(variance)


_DEVIATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean-std": lambda std: std,
    "mean-variance": _root,
    "mean-log-variance": lambda log_variance: torch.exp(log_variance / 2),
}


def _joined(parts: list[Distribution]) -> Distribution:
    """Laws of some rows after those of others."""
    if len(parts) == 1:
        return parts[0]
    whole = as_one(parts)
    if whole is None:
        raise ParameterError("a module must predict the same kind of law for all rows")
    return whole


def _ensemble(laws: list[Distribution]) -> Ensemble:
    listed = Ensemble(laws)
    whole = as_one(listed.groups)
    return listed if whole is None else Ensemble(whole)
