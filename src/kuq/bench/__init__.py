"""Experiments: a runner for grids of cells, a store of their results, tables, figures, reports."""
