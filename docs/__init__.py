"""The documentation; ``docs.pages`` runs its code."""
