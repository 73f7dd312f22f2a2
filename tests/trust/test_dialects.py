"""Tables of random shape and form are read as what was written, or refused; never otherwise."""

from __future__ import annotations

import csv
import string

import numpy as np
import pytest

import kuq
from kuq.files import decompose_file

SEPARATORS = ",;\t|"
LETTERS = string.ascii_letters + "äöüßéñ" + "0123456789 ,;|.'\"-"


def number(rng, decimal):
    """A number as people write it, and its value."""
    digits = int(rng.integers(0, 7))
    value = round(float(rng.normal(0, 10.0 ** rng.integers(-2, 5))), digits)
    text = f"{value:.{digits}f}" if rng.random() < 0.8 else f"{value:.{digits}e}"
    return text.replace(".", decimal), float(text)


@pytest.mark.filterwarnings("ignore")
def test_random_tables_in_random_dialects(tmp_path, trials):
    pytest.importorskip("pandas")
    refused = 0
    count = trials(600)
    for seed in range(count):
        rng = np.random.default_rng(seed)
        separator = SEPARATORS[rng.integers(4)]
        decimal = ".,"[rng.integers(2)]
        encoding = ("utf-8", "utf-8-sig", "utf-16", "cp1252")[rng.integers(4)]
        rows, members = int(rng.integers(1, 30)), int(rng.integers(2, 5))
        header, columns = [], []
        for k in range(int(rng.integers(0, 4))):
            header.append(f"{k}" + "".join(rng.choice(list(LETTERS), size=rng.integers(0, 9))))
            cells = [
                "".join(rng.choice(list(LETTERS), size=rng.integers(0, 9))) for _ in range(rows)
            ]
            columns.append(cells)
        loc = np.empty((members, rows))
        for m in range(members):
            header.append(f"member_{m}")
            pairs = [number(rng, decimal) for _ in range(rows)]
            columns.append([text for text, _ in pairs])
            loc[m] = [value for _, value in pairs]
        path = tmp_path / f"t{seed}.csv"
        quoting = (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)[rng.integers(2)]
        with path.open("w", encoding=encoding, newline="") as file:
            writer = csv.writer(file, delimiter=separator, quoting=quoting)
            writer.writerow(header)
            writer.writerows(zip(*columns, strict=True))
        try:
            u = decompose_file(path, kuq.SquaredError()).uncertainty
        except kuq.KuqError:
            refused += 1
            continue
        expected = kuq.decompose(kuq.Ensemble(kuq.Point(loc)), kuq.SquaredError())
        np.testing.assert_allclose(u.total, expected.total, rtol=1e-9, err_msg=str(seed))
    assert refused < 0.2 * count  # two readings are rare
