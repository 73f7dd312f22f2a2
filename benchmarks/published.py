"""Published test errors on tables, for comparison.

Kelen et al. (2025), "Distribution-free data uncertainty for neural network regression", results of
their public code: CRPS in the units of the target, with 50 × 50 hidden units.
"""

from __future__ import annotations

#: One network, and an ensemble of five: means over 20 splits, 5 for protein.
PUBLISHED = {
    "concrete": (2.845, 2.433),
    "energy": (0.2277, 0.1982),
    "kin8nm": (0.0368, 0.0350),
    "power-plant": (1.981, 1.870),
    "protein-tertiary-structure": (1.754, 1.551),
    "yacht": (0.3225, 0.2511),
}
#: The ensemble in each of the first five splits. Small tables differ much from split to split.
ENSEMBLE = {
    "concrete": (2.6295, 2.8810, 2.1589, 2.8151, 3.0266),
    "energy": (0.18067, 0.21382, 0.16312, 0.20957, 0.23227),
    "kin8nm": (0.035316, 0.036790, 0.035017, 0.034781, 0.034949),
    "power-plant": (1.8625, 1.7842, 1.8068, 1.9022, 1.9754),
    "protein-tertiary-structure": (1.5601, 1.5328, 1.5391, 1.5905, 1.5321),
    "yacht": (0.14746, 0.28491, 0.13483, 0.32451, 0.31100),
}
