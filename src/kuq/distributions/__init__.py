"""Predictive distributions, first and second order."""
