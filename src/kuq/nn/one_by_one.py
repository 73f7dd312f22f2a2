"""Members that are ordinary torch modules, computed one after the other."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from kuq.errors import ParameterError, ShapeError
from kuq.nn.backbones import Backbone, Body
from kuq.nn.generators import Purpose, member_seed
from kuq.nn.layers import Members


@final
@dataclass(frozen=True)
class OneByOne(Backbone):
    """Any torch module as a trunk: (B, inputs…) to (B, features[, grid…]), one copy a member.

    ``make`` is a function that returns a fresh module, or a module, which is copied and
    initialised anew for every member. Features may have the axes of the outcome's grid.

    >>> import kuq, torch
    >>> trunk = kuq.nn.OneByOne(lambda: torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh()))
    >>> kuq.nn.Network(trunk, kuq.nn.NormalHead, (3,), n_members=2)(torch.zeros(5, 3))
    Normal(batch=(2, 5), event=())
    """

    make: Callable[[], nn.Module] | nn.Module
    fits_inputs: ClassVar[bool] = False

    def check(self, x_shape: tuple[int, ...], event_shape: tuple[int, ...]) -> None:
        return None

    def build(
        self, n_members: int, x_shape: tuple[int, ...], event_shape: tuple[int, ...], seed: int
    ) -> Body:
        return OneByOneBody(
            [self._member(seed, member) for member in range(n_members)], x_shape, event_shape
        )

    def _member(self, seed: int, member: int) -> nn.Module:
        with seeded(member_seed(seed, member, Purpose.WEIGHTS)):
            if isinstance(self.make, nn.Module):
                module = copy.deepcopy(self.make)
                module.apply(_initialise_anew)
            else:
                module = self.make()
        if not isinstance(module, nn.Module):
            raise ParameterError(
                f"a backbone function must return a torch module, got {type(module).__name__}"
            )
        return module


class OneByOneBody(Body):
    """A list of modules behind the face of a trunk.

    With ``joins_noise`` they have ``before_noise`` and ``with_noise``, as a trunk has, for one
    member.
    """

    at_once = False

    def __init__(
        self,
        modules: list[nn.Module],
        x_shape: tuple[int, ...],
        event_shape: tuple[int, ...],
        joins_noise: bool = False,
    ) -> None:
        super().__init__()
        for name, weight in modules[0].named_parameters():
            if isinstance(weight, nn.parameter.UninitializedParameter):
                raise ParameterError(
                    f"the backbone module has a lazy layer, {name!r} of which has no size yet, so "
                    "that a seed could not fix its first weights; give its inputs, as in "
                    "nn.Linear(inputs, outputs)"
                )
        self.members = nn.ModuleList(modules)
        self.joins_noise = joins_noise
        shape = _shape_of_features(modules[0], (2, *x_shape))
        grid = shape[2:]
        if len(shape) < 2 or shape[0] != 2 or shape[1] == 0 or (grid and grid != event_shape):
            raise ShapeError(
                f"the backbone module must map {(2, *x_shape)} to (2, features)"
                f" or (2, features, *{event_shape}), got {shape}"
            )
        self.features, self.on_grid = shape[1], bool(grid)

    def forward(self, x: Tensor, members: Members = None) -> Tensor:
        return torch.stack(
            [module(rows) for module, rows in zip(self._chosen(members), x, strict=True)]
        )

    def before_noise(self, x: Tensor, members: Members = None) -> Any:
        if not self.joins_noise:
            return super().before_noise(x, members)
        chosen: Any = self._chosen(members)
        return [module.before_noise(rows) for module, rows in zip(chosen, x, strict=True)]

    def with_noise(self, before: Any, noise: Tensor, members: Members = None) -> Tensor:
        if not self.joins_noise:
            return super().with_noise(before, noise, members)
        chosen: Any = self._chosen(members)
        each = zip(chosen, before, noise, strict=True)
        return torch.stack([module.with_noise(first, draws) for module, first, draws in each])

    def _chosen(self, members: Members) -> list[nn.Module]:
        chosen = range(len(self.members)) if members is None else members.tolist()
        return [self.members[m] for m in chosen]


def _shape_of_features(module: nn.Module, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what a module makes of inputs, if it is what a head can work on."""
    was_training = module.training
    try:
        with torch.no_grad():
            probe: Any = module.eval()(torch.zeros(shape))
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise ShapeError(
            f"the backbone module failed on inputs of shape {shape}, two rows of X, in float32: "
            f"{error}"
        ) from error
    finally:
        module.train(was_training)
    if not isinstance(probe, Tensor):
        size = f" of {len(probe)}" if isinstance(probe, (tuple, list)) else ""
        raise ParameterError(
            f"the backbone module must return one tensor of features, and returned a "
            f"{type(probe).__name__}{size}; wrap it in a module that picks the tensor"
        )
    if not probe.is_floating_point():
        raise ParameterError(
            f"the backbone module must return floating point numbers, and returned {probe.dtype}"
        )
    return tuple(probe.shape)


class seeded:  # noqa: N801  (reads as a function)
    """torch's global generators with a seed inside a ``with`` statement, as they were after it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.fork: Any = None

    def __enter__(self) -> None:
        self.fork = torch.random.fork_rng()
        self.fork.__enter__()
        seed_generators(self.seed)

    def __exit__(self, *reason: Any) -> None:
        self.fork.__exit__(*reason)


def seed_generators(seed: int) -> None:
    """Seed torch's global generators of the CPU and of GPUs.

    ``torch.manual_seed`` also notes the call, with its stack, for kinds of devices that are not
    there: milliseconds and memory for every call.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


def _initialise_anew(module: nn.Module) -> None:
    reset = getattr(module, "reset_parameters", None)
    if callable(reset):
        reset()
