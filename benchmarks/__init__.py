"""How fast and how accurate kuq is beside what else one would write: `python -m benchmarks`."""
