"""The errors that kuq raises; all derive from :class:`KuqError`, itself a ``ValueError``."""


class KuqError(ValueError):
    """Base of every error that kuq raises on purpose."""


class ShapeError(KuqError):
    """Array shapes do not fit each other."""


class ParameterError(KuqError):
    """A value or an option lies outside what is allowed."""


class InsufficientDataError(KuqError):
    """Too few members or draws for the statistic that was asked for."""


class NoClosedFormError(KuqError):
    """There is no exact or quadrature route for this pair of law and score."""
