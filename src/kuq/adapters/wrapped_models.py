"""The model inside of pipelines and searches of scikit-learn, and what happens to its inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from kuq.errors import ParameterError


def unwrapped(model: Any) -> tuple[Any, Prepared]:
    """The fitted model inside of Pipelines and searches, and the function that its inputs need.

    Known by their attributes, so that nothing is imported: searches have ``best_estimator_``,
    pipelines ``steps``.
    """
    before: list[Any] = []
    while True:
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif hasattr(model, "cv_results_"):
            raise ParameterError(
                f"{type(model).__name__} was fitted with refit=False and holds no model; fit the "
                "best one, or search with refit=True"
            )
        elif hasattr(model, "steps") and hasattr(model, "named_steps"):
            before.extend(step for _, step in model.steps[:-1] if hasattr(step, "transform"))
            model = model.steps[-1][1]
        elif hasattr(model, "regressor_") and hasattr(model, "transformer_"):
            raise ParameterError(
                f"{type(model).__name__} predicts transformed targets, and a distribution of these "
                "is not one of the targets; fit the regressor on the targets themselves, or pass "
                "model.regressor_ with transformed targets and read the results in their unit"
            )
        else:
            break
    return model, Prepared(tuple(before))


@final
@dataclass(frozen=True)
class Prepared:
    """Inputs after the steps of pipelines before the model; a class, so that it can be stored."""

    steps: tuple[Any, ...]

    def __call__(self, X: Any) -> Any:
        for step in self.steps:
            X = step.transform(X)
        return X
