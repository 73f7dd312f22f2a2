"""Forms: the ways to the statistics of an ensemble. ``table`` lists them, best first."""
