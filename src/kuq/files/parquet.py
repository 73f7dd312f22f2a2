"""Tables in Parquet files, with their checksums and named index."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from kuq.errors import ParameterError
from kuq.files.claims import check_memory, check_stored
from kuq.files.csv_text import MOST_COLUMNS

if TYPE_CHECKING:
    import pandas as pd


def read_parquet(path: Path) -> pd.DataFrame:
    """The table, whose named index became columns; ``attrs["index"]`` has their names."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise ParameterError('.parquet files need pyarrow: pip install "kuq[files]"') from None
    if path.stat().st_size == 0:
        raise ParameterError(f"{path} is empty")
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            about = file.metadata
            _check_claims(path, about.num_rows, about.num_columns)
            table: pd.DataFrame = file.read().to_pandas()
    except ParameterError:
        raise
    except Exception as error:  # Arrow has errors of many kinds for damaged files
        text = str(error) or type(error).__name__
        raise ParameterError(f"{path} cannot be read as a table: {text}") from None
    index = [name for name in table.index.names if name is not None]
    names = [str(name) for name in (*index, *table.columns)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ParameterError(f"the column {twice[0]!r} appears twice")
    if index:
        unnamed = [place for place, name in enumerate(table.index.names) if name is None]
        table = table.reset_index(level=unnamed, drop=True) if unnamed else table
        table = table.reset_index()
    table.columns = names
    table.attrs = {"index": [str(name) for name in index]}
    return table


def write_parquet(table: pd.DataFrame, path: Path, index: list[str]) -> None:
    """Write a table with checksums, and columns that were an index as an index again."""
    kept = [name for name in index if name in table.columns]
    table = table.set_index(kept) if kept else table
    table.to_parquet(path, engine="pyarrow", write_page_checksum=True)


def _check_claims(path: Path, rows: int, columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise ParameterError(
            f"{path} has {columns} columns, more than the {MOST_COLUMNS} that are read; use rows "
            "for inputs and members, or .npz"
        )
    check_stored(path, 8 * rows * columns, path.stat().st_size)
    check_memory(path, 8 * rows * columns)
