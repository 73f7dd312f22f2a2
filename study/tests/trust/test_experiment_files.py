"""Experiment files with any odd value in any place: read, or one error of kuq's own."""

import copy
import datetime
import math
import tomllib
from pathlib import Path

import numpy as np

from kuq.errors import KuqError
from kuq_study.experiment import _experiment
from kuq_study.settings import refuse_odd_values

FILES = sorted((Path(__file__).parents[2] / "experiments").rglob("*.toml"))
ODD = [
    *(-300, 0, 1, 10**20, -(10**20), 2**63, math.nan, math.inf, -math.inf, -0.5, 1e300, True),
    *("", "a\0b", "a\nb", "/", "x" * 300, "\ud800", "never", "a:b", "../x.py:f"),
    datetime.date(2026, 11, 16),
    datetime.time(10, 0),
    datetime.datetime(2026, 11, 16, 10, 0),
    *([], [[]], [0], [math.nan], ["a"], [{}], {}, {"": 1}, {"a": {"b": []}}, {"kind": []}),
]


def places(table, path=()):
    """The path of every key, tables and their values alike."""
    for key, value in table.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from places(value, (*path, key))


def test_any_odd_value_anywhere(trials):
    tables = [(path, tomllib.loads(path.read_text(encoding="utf-8"))) for path in FILES]
    refused = 0
    whole = 1500
    for trial in range(trials(whole)):
        rng = np.random.default_rng(trial)
        path, table = tables[rng.integers(len(tables))]
        table = copy.deepcopy(table)
        found = list(places(table))
        *parents, key = found[rng.integers(len(found))]
        inner = table
        for parent in parents:
            inner = inner[parent]
        odd = ODD[rng.integers(len(ODD))]
        if rng.random() < 0.1:
            inner[odd if isinstance(odd, str) else "odd"] = odd
        else:
            inner[key] = odd
        try:
            refuse_odd_values(table)
            cells = list(_experiment(table, path.parent, None).cells())
        except KuqError:
            refused += 1
            continue
        for cell in cells:
            assert cell.key
            assert cell.settings_digest()
    assert refused > trials(whole) / 2
