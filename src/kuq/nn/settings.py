"""How networks are trained."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import final

from kuq._numbers import whole_number
from kuq.errors import ParameterError
from kuq.nn.backbones import check_positive


@final
@dataclass(frozen=True)
class Training:
    """How networks are trained; the defaults are those of ``Regressor``.

    ``patience``: epochs without a better validation loss (training loss where there are no rows to
    validate on) after which a member stops; None: never. ``plateau``: epochs after which its
    learning rate is halved; None: never. ``annealing``: whether learning rates also fall towards
    zero at ``max_epochs``, as half a cosine. ``burn_in``: epochs in which only the mean is trained,
    by squared error. ``restore_best``: keep each member's best weights, not the last.
    ``n_samples``: draws of a sampler for each row. ``compile``: compile loss and gradient (True, or
    the name of a backend of torch). ``mixed_precision``: bfloat16 where that is safe; None: on
    GPUs. ``checkpoint``: a file written every ``checkpoint_every`` epochs, from which the same call
    goes on after an interruption.
    """

    learning_rate: float = 1e-3
    batch_size: int = 32
    max_epochs: int = 500
    patience: int | None = 25
    plateau: int | None = 5
    annealing: bool = False
    bootstrap: bool = False
    burn_in: int = 0
    restore_best: bool = True
    n_samples: int = 20
    compile: bool | str = False
    mixed_precision: bool | None = None
    progress: bool = False
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: int = 50

    def __post_init__(self) -> None:
        check_positive(
            batch_size=self.batch_size,
            max_epochs=self.max_epochs,
            checkpoint_every=self.checkpoint_every,
        )
        if not 0 < self.learning_rate < float("inf"):
            raise ParameterError(f"learning_rate must be positive, got {self.learning_rate!r}")
        for name in ("patience", "plateau"):
            if getattr(self, name) is not None:
                check_positive(**{name: getattr(self, name)})
        whole_number(self.burn_in, "burn_in", 0)
        if self.n_samples < 2:
            raise ParameterError(
                f"a sampler is trained by at least two draws of each row, got {self.n_samples}"
            )
