"""Coverage and width of intervals on the UCI tables: ``python -m benchmarks.calibration``.

Small ensembles of normal networks, trained on the training rows of every split, are recalibrated on
its validation rows and judged on its test rows. Predictions are kept in ``build/calibration``, so
that a run goes on where it was stopped. ``--peers PYTHON`` names an interpreter with MAPIE and
clear-uq, which see the same predictions; the table goes into ``docs/howto/calibration.md``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import kuq

TABLES = (
    "yacht",
    "energy",
    "concrete",
    "kin8nm",
    "power-plant",
    "naval-propulsion-plant",
    "protein-tertiary-structure",
)
COVERAGE = 0.9
PAGE = Path("docs/howto/calibration.md")
BEGIN, END = "<!-- table: python -m benchmarks.calibration -->", "<!-- end of table -->"
PEERS = Path(__file__).with_name("calibration_peers.py")


def predictions(name: str, split: int, folder: Path, data_dir: str | None) -> Path:
    """A file with loc, scale and outcomes of held-out and of test rows."""
    path = folder / f"{name}-{split}.npz"
    if path.exists():
        return path
    data = kuq.datasets.load(name, data_dir=data_dir, seed=split)
    rows = len(data.train.y)
    model = kuq.nn.Regressor(
        "normal",
        n_members=5,
        hidden_sizes=(50,),
        max_epochs=int(np.clip(100_000 / rows, 8, 150)),
        batch_size=32 if rows < 2000 else 128 if rows < 12000 else 512,
        learning_rate=5e-3,
        annealing=True,
        patience=None,
        plateau=None,
        validation_fraction=0.0,
        restore_best=False,
        seed=split,
    ).fit(data.train.x, data.train.y)
    arrays = {}
    for part, rows_of in (("held_out", data.validation), ("test", data.test)):
        law = model.predict_distribution(rows_of.x).members
        arrays |= {f"{part}_loc": law.loc, f"{part}_scale": law.scale, f"{part}_y": rows_of.y}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)
    return path
