"""Synthetic data in place of those that must be downloaded, added to the data sets of kuq."""

from kuq.datasets import Entry, register
from kuq_study.stand_ins.synthetic_depth import load_synthetic_depth
from kuq_study.stand_ins.synthetic_temperature import load_synthetic_temperature

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
    Entry(
        "temperature-synthetic",
        load_synthetic_temperature,
        "surface temperature in 6 hours: made-up weather over two made-up regions",
        "image",
        "174 MiB",
        "MIT (kuq)",
        "simulated on first use",
        synthetic=True,
    ),
)
register(*ENTRIES)
