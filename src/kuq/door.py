"""The door: arrays whose values can be read on the CPU are seen as NumPy, without a copy.

NumPy arrays, torch tensors that record no gradient and jax arrays outside of a trace go through;
results take the same way back. Everything else stays in its library and is recorded there: step by
step, or as one step where its derivative is known.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from kuq._array import (
    Array,
    is_array,
    is_in_memory,
    is_jax,
    is_torch,
    is_traced,
    library_of,
)
from kuq.distributions.base import Parametric, Prediction
from kuq.distributions.ensemble import Ensemble
from kuq.kernels.base import Kernel, MarginalStage, Radial, Score
from kuq.kernels.transforms import Select
from kuq.result import PartErrors


def seen(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]] | None:
    """The arguments of a call as NumPy sees them; None if one has to stay in its library.

    A law or a score of the user's own may be written for one library only.
    """
    changed: list[Any] = []
    libraries = set()
    for value in (*args, *kwargs.values()):
        moved = value
        if isinstance(value, Prediction):
            libraries.add(library_of(value.reference))
            moved = _seen_prediction(value)
        elif isinstance(value, Score):
            moved = value if is_neutral(value) else None
        elif is_array(value):
            libraries.add(library_of(value))
            moved = entered(value) if _is_readable(value) else None
        if moved is None and value is not None:
            return None
        changed.append(moved)
    if len(libraries) > 1:  # which is refused behind it
        return None
    return changed[: len(args)], dict(zip(kwargs, changed[len(args) :], strict=True))


def _seen_prediction(prediction: Prediction) -> Prediction | None:
    laws, weights = _laws_of(prediction)
    if weights is not None and not _is_readable(weights):
        return None
    for law in laws:
        ours = isinstance(law, Parametric) and type(law).__module__.startswith("kuq.")
        if not ours or law.reference.dtype != law.dtype or not all(map(_is_readable, law.arrays())):
            return None
    moved = prediction.mapped(entered)
    laws, _ = _laws_of(moved)
    for law in laws:
        law.dtype = law.reference.dtype
    moved.dtype = np.result_type(*[law.dtype for law in laws])
    return moved


def _laws_of(prediction: Prediction) -> tuple[tuple[Any, ...], Array | None]:
    """The laws of which a prediction consists, and the weights of members."""
    if not isinstance(prediction, Ensemble):
        return (prediction,), None
    return prediction.groups, prediction.weights


def is_neutral(score: Score) -> bool:
    """Whether a score brings no arrays and no functions along."""
    if not isinstance(score, Kernel):
        return True
    for term in score.parts:
        if not isinstance(term.kernel, Radial):
            return False
        for stage in term.stages:
            if not isinstance(stage, (MarginalStage, Select)):
                return False
    return not score.arrays


def opens_for(arrays: Iterable[Any]) -> bool:
    """Whether all arrays can be seen as NumPy; what is no array does not matter."""
    return all(_is_readable(array) for array in arrays if is_array(array))


def _is_readable(array: Array) -> bool:
    if isinstance(array, np.ndarray):
        return True
    if is_torch(array):
        return not _is_watched() and is_in_memory(array) and not is_recorded(array)
    if is_jax(array) and not is_traced(array):
        devices = array.devices()
        return len(devices) == 1 and next(iter(devices)).platform == "cpu"
    return False


def is_recorded(array: Array) -> bool:
    """Whether torch keeps what is done with an array for its gradient."""
    return is_torch(array) and array.requires_grad and sys.modules["torch"].is_grad_enabled()


def _is_watched() -> bool:
    """Whether torch looks at all that is done: a compiler, a trace, a transform, duals."""
    torch = sys.modules["torch"]
    return bool(
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch.autograd.forward_ad._current_level >= 0
    )


def records() -> bool:
    """Whether torch records steps for a gradient, and looks at nothing else that is done."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.is_grad_enabled() and not _is_watched()


def opens_for_losses(arrays: Sequence[Any]) -> bool:
    """Whether arrays are plain tensors of which one asks for a gradient."""
    if not records():
        return False
    asked = False
    for array in arrays:
        if not is_in_memory(array):
            return False
        asked = asked or array.requires_grad
    return asked


def recorded(
    values: Sequence[np.ndarray],
    tensors: Sequence[Array],
    slopes: Callable[[list[np.ndarray | None]], Sequence[np.ndarray | None]],
    again: Callable[[Sequence[Array]], Sequence[Array]],
) -> tuple[Array, ...]:
    """Values that were computed from tensors outside of torch, as one step that torch records.

    ``slopes`` turns flat derivatives by the values into those by the tensors, as far as these ask
    for some, in the order of their numbers; None for zero. ``again``, which the step keeps, makes
    the values of tensors inside of torch, for derivatives of derivatives. Its ``places`` tell of
    which tensors it is: to ask for those that it saved may mean to compute them once more.
    """
    outputs: tuple[Array, ...] = _step().apply((values, slopes, again), *tensors)
    return outputs


@functools.cache
def _step() -> Any:
    torch = sys.modules["torch"]

    class Step(torch.autograd.Function):  # type: ignore[name-defined, misc]
        @staticmethod
        def forward(ctx: Any, made: Any, *tensors: Array) -> Any:
            values, ctx.slopes, ctx.again = made
            ctx.save_for_backward(*tensors)
            ctx.places = list(map(id, tensors))
            ctx.set_materialize_grads(False)
            return tuple(map(torch.from_numpy, values))

        @staticmethod
        def backward(ctx: Any, *by_values: Array | None) -> Any:
            tensors = ctx.saved_tensors
            wanted = ctx.needs_input_grad[1:]
            if all(g is None for g in by_values):
                return (None,) * (1 + len(tensors))
            if torch.is_grad_enabled():
                return None, *_slopes_inside(ctx.again(tensors), tensors, wanted, by_values)
            slopes = ctx.slopes([None if g is None else g.numpy().reshape(-1) for g in by_values])
            gradients: list[Array | None] = [None]
            for slope, tensor, want in zip(slopes, tensors, wanted, strict=True):
                if want and slope is not None:
                    gradient = torch.from_numpy(slope.reshape(tensor.shape))
                    same = gradient.dtype == tensor.dtype
                    gradients.append(gradient if same else gradient.to(tensor.dtype))
                else:
                    gradients.append(torch.zeros_like(tensor) if want else None)
            return tuple(gradients)

    def _slopes_inside(values: Any, tensors: Any, wanted: Any, by_values: Any) -> list[Any]:
        used = [(v, g) for v, g in zip(values, by_values, strict=True) if g is not None]
        inputs = [tensor for tensor, want in zip(tensors, wanted, strict=True) if want]
        slopes = iter(
            torch.autograd.grad(
                [v for v, _ in used],
                inputs,
                [g for _, g in used],
                create_graph=True,
                allow_unused=True,
            )
        )
        return [next(slopes) if want else None for want in wanted]

    return Step


def entered(array: Array) -> np.ndarray:
    """An array as NumPy sees it."""
    if isinstance(array, np.ndarray):
        return array
    if is_torch(array):
        seen: np.ndarray = array.detach().numpy()
        return seen
    return np.asarray(array)


def left(value: Array, like: Array) -> Array:
    """A result in the library of an array that came in."""
    if isinstance(like, np.ndarray) or not isinstance(value, (np.ndarray, np.generic)):
        return value
    if is_torch(like):
        return sys.modules["torch"].from_numpy(np.asarray(value))
    return sys.modules["jax"].numpy.asarray(value)


Outcome = TypeVar("Outcome")


def left_result(result: Outcome, like: Array) -> Outcome:
    """The same for what a call gives: an array, or an object that holds some."""
    if not dataclasses.is_dataclass(result):
        return cast(Outcome, left(result, like))

    def change(value: Any) -> Any:
        if isinstance(value, PartErrors):
            return PartErrors(*map(change, value))
        if isinstance(value, dict):
            return {name: change(array) for name, array in value.items()}
        return left(value, like) if is_array(value) else value

    changed = {name: change(value) for name, value in vars(result).items()}
    moved = {name: value for name, value in changed.items() if value is not vars(result)[name]}
    return cast(Outcome, dataclasses.replace(result, **moved))  # type: ignore[type-var]
