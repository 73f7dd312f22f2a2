"""How networks are trained."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import final

from kuq._numbers import as_real_number, whole_number
from kuq.errors import ParameterError
from kuq.nn.backbones import check_positive


@final
@dataclass(frozen=True)
class Training:
    """How networks are trained; the defaults are those of ``Regressor``.

    ``learning_rate``: None is 0.01 for tables and 0.001 for functions and images. ``batch_size``:
    None is the root of the number of rows, at least 16, for tables and 32 for functions and images.
    ``patience``: epochs without a better validation loss (training loss where there are no rows to
    validate on) after which a member stops; None: never. ``plateau``: epochs after which its
    learning rate is halved; None: never. ``annealing``: whether learning rates fall towards zero
    at ``max_epochs``, as half a cosine. ``averaging``: over how many epochs weights are averaged,
    with exponentially falling shares; the averages are validated and kept; None: no averages.
    ``burn_in``: epochs in which only the mean is trained, by squared error. ``restore_best``: keep
    each member's best weights, not the last. ``margin``: the best are those of the latest epoch
    that is not worse than the one of the lowest validation loss by more than so many standard
    errors, of their difference over rows or of that loss, as the lowest of a few rows is mostly
    luck; 0: the lowest. Members that each set rows aside find that epoch together, by all of these
    rows. ``n_samples``: draws of a sampler for each row; five times as many, at
    most 50, in validation. ``compile``: compile loss and gradient (True, or the
    name of a backend of torch). ``mixed_precision``: bfloat16 where that is safe; None: on GPUs.
    ``checkpoint``: a file written every ``checkpoint_every`` epochs, from which the same call goes
    on after an interruption.
    """

    learning_rate: float | None = None
    batch_size: int | None = None
    max_epochs: int = 200
    patience: int | None = None
    plateau: int | None = None
    annealing: bool = True
    averaging: int | None = 5
    bootstrap: bool = False
    burn_in: int = 0
    restore_best: bool = True
    margin: float = 2.0
    n_samples: int = 10
    compile: bool | str = False
    mixed_precision: bool | None = None
    progress: bool = False
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: int = 50

    def __post_init__(self) -> None:
        check_positive(max_epochs=self.max_epochs, checkpoint_every=self.checkpoint_every)
        rate = self.learning_rate
        if rate is not None and not 0 < (as_real_number(rate) or 0.0) < float("inf"):
            raise ParameterError(f"learning_rate must be positive, got {rate!r}")
        for name in ("batch_size", "patience", "plateau", "averaging"):
            if getattr(self, name) is not None:
                check_positive(**{name: getattr(self, name)})
        margin = as_real_number(self.margin)
        if margin is None or not 0 <= margin < float("inf"):
            raise ParameterError(f"margin must be finite and not negative, got {self.margin!r}")
        whole_number(self.burn_in, "burn_in", 0)
        if self.n_samples < 2:
            raise ParameterError(
                f"a sampler is trained by at least two draws of each row, got {self.n_samples}"
            )

    def rate(self, x_shape: tuple[int, ...]) -> float:
        """The learning rate for inputs of this shape."""
        if self.learning_rate is not None:
            return self.learning_rate
        return 1e-2 if len(x_shape) == 1 else 1e-3

    def rows_in_a_batch(self, rows: int, x_shape: tuple[int, ...]) -> int:
        """How many of so many rows of this shape make a batch."""
        if self.batch_size is not None:
            return self.batch_size
        return max(16, round(math.sqrt(rows))) if len(x_shape) == 1 else 32
