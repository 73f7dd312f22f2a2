"""All members of an ensemble as one torch module: trunk, noise and head."""

from __future__ import annotations

import math
from typing import Any, final

import torch
from torch import Tensor, nn

from kuq._numbers import whole_number
from kuq.distributions.base import Prediction
from kuq.errors import ParameterError
from kuq.kernels.base import Score
from kuq.kernels.marginal import CRPS
from kuq.nn import flows
from kuq.nn.backbones import Backbone
from kuq.nn.generators import Purpose, member_generators
from kuq.nn.heads.base import Head, Parameters
from kuq.nn.heads.flow import FlowHead
from kuq.nn.heads.normal import NormalHead
from kuq.nn.layers import MemberLayer, Members
from kuq.nn.memory import require_room
from kuq.nn.one_by_one import OneByOne

#: The score by which the normal law is trained that a flow starts from.
_OF_START = CRPS()
#: Steps of a flow on held-out rows, whose draws are only compared with those of other epochs.
_STEPS_TO_JUDGE = 4


@final
class Network(nn.Module):
    """M networks with one backbone and one head: inputs (B, …) to laws of batch (M, B).

    ``backbone`` is one of kuq's, or a torch module or a function that returns one; ``head`` is
    the class of a head and ``head_options`` what it takes beside shapes. Member i has the same
    initial weights in an ensemble of any size.

    >>> import kuq, torch
    >>> network = kuq.nn.Network(kuq.nn.MLP(), kuq.nn.NormalHead, (3,), n_members=4)
    >>> network(torch.zeros(5, 3))
    Normal(batch=(4, 5), event=())
    """

    def __init__(
        self,
        backbone: Any,
        head: type[Head],
        x_shape: tuple[int, ...],
        event_shape: tuple[int, ...] = (),
        n_members: int = 10,
        seed: int = 0,
        **head_options: Any,
    ) -> None:
        super().__init__()
        n_members, seed = whole_number(n_members, "n_members", 1), whole_number(seed, "seed", 0)
        backbone = backbone if isinstance(backbone, Backbone) else OneByOne(backbone)
        if not (isinstance(head, type) and issubclass(head, Head)):
            raise ParameterError(f"head must be a class such as kuq.nn.NormalHead, got {head!r}")
        self.n_members, self.seed = n_members, seed
        self.x_shape, self.event_shape = tuple(x_shape), tuple(event_shape)
        first = backbone
        backbone = backbone.suited(head.normalised)
        shapes = (self.x_shape, self.event_shape)
        noise = head.joined_channels(*shapes, **head_options)
        self.noise_channels = noise
        joined = (self.x_shape[0] + noise, *self.x_shape[1:])
        backbone.check(joined, self.event_shape)
        try:
            body = backbone.build_sampler(n_members, *shapes, seed, noise) if noise else None
            if body is None:
                body = backbone.build(n_members, joined, self.event_shape, seed)
            self.body = body
            self.head = head(
                self.body.features, self.event_shape, n_members, self.body.on_grid, **head_options
            )
            # The normal law that a flow starts from.
            self.start: Network | None = None
            if head.starts_normal:
                shape = self.x_shape if first.fits_inputs else joined
                assert isinstance(self.head, FlowHead)
                self.start = Network(
                    *(first, NormalHead, shape, self.event_shape, n_members, seed),
                    **self.head.start_options,
                )
        except (MemoryError, RuntimeError) as error:
            if "memory" not in str(error).lower():
                raise
            raise ParameterError(
                f"{n_members} members do not fit into memory; take fewer or a smaller backbone"
            ) from error
        require_room(n_members, self.weight_count())
        cpu = torch.device("cpu")
        for member, generator in enumerate(
            member_generators(seed, n_members, Purpose.WEIGHTS, cpu)
        ):
            for module in self.modules():
                if isinstance(module, MemberLayer):
                    module.reset_member(member, generator)

    @property
    def at_once(self) -> bool:
        """Whether all members are one computation."""
        return bool(self.body.at_once)

    def forward(self, x: Tensor, n_samples: int = 50) -> Prediction:
        """The laws of all members; a sampler draws ``n_samples`` times, with the same noise."""
        shared = x.expand(self.n_members, *x.shape)
        return self.head.law(self.outputs(shared, self.prediction_noise(n_samples)))

    def outputs(
        self,
        x: Tensor,
        noise: Tensor | None = None,
        members: Members = None,
        at_once: int | None = None,
    ) -> Parameters:
        """The parameters of the laws for inputs (M, B, …) of some or all members.

        Draws are made so many ``at_once``, which bounds memory; None: all.
        """
        if noise is None:
            return self.head.outputs(self.body(x, members), members)
        steps = self.head.n_steps if isinstance(self.head, FlowHead) else None
        return self._draws(x, noise, members, steps, at_once)

    def losses(
        self,
        x: Tensor,
        y: Tensor,
        noise: Tensor | None,
        score: Score | None,
        members: Members = None,
        mean_only: bool = False,
        share: float = 0.0,
    ) -> Tensor:
        """The loss of every row (M, B); with ``mean_only`` the squared error of the mean.

        Its slopes have a ``share`` of those of ``Head.penalty``, whose value is none.
        """
        if self.start is not None and noise is not None:
            return self._flow_losses(x, y, noise, members, mean_only, share)
        parameters = self.outputs(x, noise, members)
        if mean_only:
            return _squared(self.head.mean(parameters) - y)
        return self.head.held_back(self.head.loss(parameters, y, score), score, members, share)

    def held_out_losses(
        self,
        x: Tensor,
        y: Tensor,
        noise: Tensor | None,
        score: Score | None,
        members: Members = None,
        mean_only: bool = False,
    ) -> Tensor:
        """The same for rows by which training is judged: a flow by the score of its draws.

        Its squared error in training says little about them: most of it cannot be learned.
        """
        if self.start is None or noise is None or mean_only:
            return self.losses(x, y, noise, score, members, mean_only)
        return self.head.loss(self._draws(x, noise, members, _STEPS_TO_JUDGE), y, score)

    def compiles(self, x: Tensor, y: Tensor, noise: Tensor | None, score: Score | None) -> bool:
        """Whether the graph of the loss is short enough to be compiled."""
        if self.start is not None:
            return self.start.compiles(self._for_start(x), y, None, _OF_START)
        return self.head.compiles(self.outputs(x, noise), y, score)

    def _draws(
        self,
        x: Tensor,
        noise: Tensor,
        members: Members,
        steps: int | None,
        at_once: int | None = None,
    ) -> Parameters:
        """Draws, those of a flow by so many steps."""
        before = self.body.before_noise(x, members)
        law: Parameters = ()
        if self.start is not None:
            law = self.start.outputs(self._for_start(x), None, members)
        draws = []
        for batch in torch.split(noise, at_once or noise.shape[2], dim=2):
            if steps is None:
                features = self.body.with_noise(before, batch, members)
                draws.append(self.head.outputs(features, members))
            else:
                draws.append(self._followed(law, before, batch, members, steps))
        if len(draws) == 1:
            return draws[0]
        return (torch.cat([values for (values,) in draws], dim=2),)

    def _for_start(self, x: Tensor) -> Tensor:
        """Inputs of the network for the normal law; its trunk may want the joined channels too."""
        assert self.start is not None
        missing = self.start.x_shape[0] - self.x_shape[0]
        if not missing:
            return x
        return torch.cat([x, x.new_zeros(*x.shape[:2], missing, *x.shape[3:])], dim=2)

    def _velocity(self, before: Any, place: Tensor, angle: Tensor, members: Members) -> Tensor:
        """The velocity at places of the paths, for what the trunk has made of inputs."""
        assert isinstance(self.head, FlowHead)
        joined = self.head.joined(place, angle, self.x_shape[1:])
        (velocity,) = self.head.outputs(self.body.with_noise(before, joined, members), members)
        return velocity

    def _flow_losses(
        self,
        x: Tensor,
        y: Tensor,
        noise: Tensor,
        members: Members,
        mean_only: bool,
        share: float,
    ) -> Tensor:
        """The CRPS of the normal law plus the loss of the flow, in units of the outcome.

        Residuals are data to the flow: no gradient goes through them to the normal law.
        """
        assert self.start is not None
        assert isinstance(self.head, FlowHead)
        loc, scale = self.start.outputs(self._for_start(x), None, members)
        if mean_only:
            return _squared(loc - y)
        first = self.start.head.loss((loc, scale), y, _OF_START)
        first = self.start.head.held_back(first, _OF_START, members, share)
        deviation = scale.detach().unsqueeze(2)
        residual = (y - loc.detach()).unsqueeze(2) / deviation
        starts, angles = self.head.starts_and_angles(noise)
        place, target = flows.on_path(starts, residual, _over(angles, residual))
        before = self.body.before_noise(x, members)
        error = self._velocity(before, place, angles, members) - target
        return first + (deviation * error.square()).flatten(2).mean(2)

    def _followed(
        self, law: Parameters, before: Any, noise: Tensor, members: Members, steps: int
    ) -> Parameters:
        """Draws of a flow from the normal law."""
        assert isinstance(self.head, FlowHead)
        loc, scale = law
        starts, angles = self.head.starts_and_angles(noise)

        def velocity(place: Tensor, angle: float) -> Tensor:
            return self._velocity(before, place, torch.full_like(angles, angle), members)

        starts = starts.expand(-1, loc.shape[1], *starts.shape[2:])
        residual = flows.follow(velocity, starts, steps)
        return (loc.unsqueeze(2) + scale.unsqueeze(2) * residual,)

    def noise(self, generators: list[torch.Generator], rows: int, draws: int) -> Tensor | None:
        """The random numbers behind draws, (M, rows, draws, …); None for laws that need none."""
        if not self.noise_channels:
            return None
        grid = self.x_shape[1:]
        return torch.stack([self.head.noise(g, rows, draws, grid) for g in generators])

    def prediction_noise(self, n_samples: int) -> Tensor | None:
        """Fixed noise, the same for all inputs: a prediction depends on its own input alone."""
        like = next(self.parameters())
        cpu = torch.device("cpu")
        generators = member_generators(self.seed, self.n_members, Purpose.PREDICTION, cpu)
        noise = self.noise(generators, 1, n_samples)
        return None if noise is None else noise.to(like)

    def weight_count(self) -> int:
        """Numbers to learn for each member."""
        return sum(p.numel() for p in self.parameters()) // self.n_members

    def extra_repr(self) -> str:
        return f"n_members={self.n_members}, {self.weight_count()} weights each"

    def output_size(self) -> int:
        """Numbers that leave the head for one input of one member."""
        return math.prod(self.event_shape) * self.head.width


def _squared(gap: Tensor) -> Tensor:
    """The mean square of every row, (M, B, event…) to (M, B)."""
    return gap.square().flatten(2).mean(2) if gap.ndim > 2 else gap.square()


def _over(angles: Tensor, places: Tensor) -> Tensor:
    """Angles (M, B, N) with the axes of an outcome."""
    return angles.view(*angles.shape, *(1 for _ in places.shape[3:]))
