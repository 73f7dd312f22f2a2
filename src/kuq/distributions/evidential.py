"""Evidential laws: a normal-inverse-gamma law over the parameters of a normal."""

from __future__ import annotations

from typing import Any, final

from kuq._array import Array, adopt, broadcast, namespace, require, require_finite
from kuq.distributions.atoms import NormalInverseGammas
from kuq.distributions.base import Parametric, check_factors, checked_event_ndim
from kuq.distributions.laws import Law, event_to_atom
from kuq.distributions.marginals import Components
from kuq.distributions.student_t import StudentT


@final
class NormalInverseGamma(Parametric):
    """The second-order law of deep evidential regression, handled exactly.

    σ² ~ InverseGamma(alpha, beta) and μ | σ² ~ N(loc, σ²/nu); coordinates are independent.
    Where a first-order law is expected it means its Student-t predictive. ``loc`` is the mean.
    ``nu`` counts, so to speak, the observations behind it. ``alpha`` and ``beta`` are shape and
    scale of the variance. ``event_ndim`` is how many of the last axes form one outcome.

    >>> import kuq
    >>> u = kuq.decompose(kuq.NormalInverseGamma(0.0, 2.0, 3.0, 1.0), kuq.SquaredError())
    >>> float(u.aleatoric), float(u.epistemic)
    (0.5, 0.5)
    """

    parameters = ("loc", "nu", "alpha", "beta")

    def __init__(self, loc: Any, nu: Any, alpha: Any, beta: Any, event_ndim: int = 0) -> None:
        arrays, self.dtype = adopt(loc=loc, nu=nu, alpha=alpha, beta=beta)
        self.loc, self.nu, self.alpha, self.beta = broadcast(**arrays)
        self.event_ndim = checked_event_ndim(
            tuple(self.loc.shape), event_ndim, "NormalInverseGamma"
        )
        require_finite(**arrays)
        for name in ("nu", "alpha", "beta"):
            require(arrays[name] > 0, f"{name} of NormalInverseGamma", "positive", arrays[name])

    def predictive(self) -> StudentT:
        """The Student-t law of an outcome, with the parameters integrated out."""
        scale = namespace(self.nu).sqrt(self.beta * (1 + 1 / self.nu) / self.alpha)
        return StudentT(2 * self.alpha, self.loc, scale, self.event_ndim)

    def mean(self) -> Array:
        return self.loc

    def variance(self) -> Array:
        return self.predictive().variance()

    def rescaled(self, aleatoric: float, epistemic: float = 1.0) -> NormalInverseGamma:
        check_factors(aleatoric, epistemic)
        # σ is multiplied by one factor, and σ/√nu, the spread of μ, by the other.
        nu = self.nu * (aleatoric / epistemic) ** 2
        return NormalInverseGamma(
            self.loc, nu, self.alpha, self.beta * aleatoric**2, self.event_ndim
        )

    def sample(self, draws: int, seed: Any = None) -> Array:
        return self.predictive().sample(draws, seed)

    def log_density(self, x: Array) -> Array:
        return self.predictive().log_density(x)

    def components(self) -> tuple[Components, ...]:
        return self.predictive().components()

    def law(self, marginal: bool, rtol: float) -> Law:
        """The canonical form: an atom for the whole population of members."""
        arrays = (getattr(self, name) for name in self.parameters)
        atoms = (event_to_atom(x, self.event_ndim, marginal) for x in arrays)
        return Law(NormalInverseGammas(*atoms))
