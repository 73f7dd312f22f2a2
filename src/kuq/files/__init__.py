"""Predictions in files: read, decompose, and write the same format."""

from kuq.files.decompose import DecomposedFile, Layout, decompose_file
from kuq.files.roles import Names

__all__ = ["DecomposedFile", "Layout", "Names", "decompose_file"]
