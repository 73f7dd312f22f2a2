"""What came out of a decomposition, with all that a page about it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kuq.distributions.base import Prediction
from kuq.errors import ParameterError
from kuq.kernels.base import Score
from kuq.partition import Partition
from kuq.result import Uncertainty


@dataclass(frozen=True, eq=False)
class Part:
    """The prediction at some inputs, and what is known about them."""

    prediction: Prediction
    #: Where values are missing, so that the prediction holds others in their place, (batch…).
    masked: np.ndarray
    #: What happened, (batch…, event…), NaN where it is not known; None if nothing is.
    outcome: np.ndarray | None = None
    #: Which coordinates of an outcome count, (event…); None if all do.
    cells: np.ndarray | None = None
    #: How much each prediction counts, (batch…), and each coordinate of an outcome, (event…), such
    #: as the areas of grid cells; None if all count the same.
    weights: np.ndarray | None = None
    event_weights: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Decomposed:
    """The uncertainty of one prediction, and how its inputs and members are called."""

    #: What is predicted, where there is more than one such thing.
    name: str
    uncertainty: Uncertainty
    #: The prediction in words.
    description: str
    dims: tuple[str, ...]
    labels: tuple[str, ...]
    #: Some inputs by their positions along the first axis, to look at members, maps and outcomes.
    inputs_at: Callable[[np.ndarray], Part]
    coordinates: dict[str, np.ndarray] = field(default_factory=dict)
    #: The names of the dimensions of one outcome, where they have names.
    event_dims: tuple[str, ...] = ()
    #: How the numbers were computed, for further calls on a part.
    options: dict[str, Any] = field(default_factory=dict)
    #: What its reader may not expect.
    notes: tuple[str, ...] = ()
    #: Names of the members; empty for those without.
    member_names: tuple[str, ...] = ()
    #: Weights of the inputs in means, such as the areas of grid cells, like ``uncertainty.total``.
    input_weights: np.ndarray | None = None
    #: The target, where outcomes are known.
    target: str | None = None
    #: The factors (aleatoric, epistemic) of a recalibration, where there was one.
    factors: tuple[float, float] | None = None

    def prediction_at(self, places: np.ndarray) -> Prediction:
        """The prediction at some positions along the first axis."""
        return self.inputs_at(places).prediction


@dataclass(frozen=True, eq=False)
class Partitioned:
    """What each level of the members of a prediction adds, and how its inputs are called.

    Fields of the same name are those of ``Decomposed``.
    """

    partition: Partition
    description: str
    dims: tuple[str, ...]
    labels: tuple[str, ...] = ()
    coordinates: dict[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    input_weights: np.ndarray | None = None
    event_dims: tuple[str, ...] = ()
    #: The parts of every cell of an outcome that is a grid, (…, rows, columns), under a score of
    #: single cells.
    cells: Callable[[Score], dict[str, np.ndarray]] | None = None


@dataclass(frozen=True, eq=False)
class PartitionedFile:
    """What each level of members in a file adds, and where it was written."""

    source: Path
    out: Path
    result: Partitioned


@dataclass(frozen=True, eq=False)
class DecomposedFile:
    """What came out of a file, for each of its variables, and where it was written."""

    source: Path
    out: Path
    variables: tuple[Decomposed, ...]

    @property
    def only(self) -> Decomposed:
        """The variable, where there is one."""
        if len(self.variables) > 1:
            names = ", ".join(one.name for one in self.variables)
            raise ParameterError(f"there are several variables, take one of them: {names}")
        return self.variables[0]

    @property
    def uncertainty(self) -> Uncertainty:
        return self.only.uncertainty

    @property
    def description(self) -> str:
        return self.only.description

    @property
    def dims(self) -> tuple[str, ...]:
        return self.only.dims

    @property
    def labels(self) -> tuple[str, ...]:
        return self.only.labels

    def prediction_at(self, places: np.ndarray) -> Prediction:
        """The prediction at some positions along the first axis."""
        return self.only.prediction_at(places)
