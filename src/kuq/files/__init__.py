"""Predictions in files: read, decompose, and write the same format."""

from kuq.files.decompose import Layout, decompose_file
from kuq.files.decomposed import Decomposed, DecomposedFile, Partitioned, PartitionedFile
from kuq.files.dialect import TextForm
from kuq.files.levels import Levels, partition_file
from kuq.files.roles import Names

__all__ = [
    "Decomposed",
    "DecomposedFile",
    "Layout",
    "Levels",
    "Names",
    "Partitioned",
    "PartitionedFile",
    "TextForm",
    "decompose_file",
    "partition_file",
]


def __dir__() -> list[str]:
    return __all__
