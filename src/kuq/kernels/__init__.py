"""Kernels: what decides how a measure of uncertainty behaves."""
