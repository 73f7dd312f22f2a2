"""Synthetic data in place of those that must be downloaded, added to the data sets of kuq."""

from kuq.datasets import Entry, register
from kuq_study.stand_ins.synthetic_depth import load_synthetic_depth

ENTRIES = (
    Entry(
        "depth-synthetic",
        load_synthetic_depth,
        "inverse depth from a picture: rendered rooms, shifted rendered streets",
        "image",
        "127 MiB",
        "MIT (kuq)",
        "rendered on first use",
        synthetic=True,
    ),
)
register(*ENTRIES)
