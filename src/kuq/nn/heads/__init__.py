"""The last layer of a network: features in, a kuq distribution out."""

from kuq.nn.heads.base import Head
from kuq.nn.heads.evidential import EvidentialHead
from kuq.nn.heads.flow import FlowHead
from kuq.nn.heads.low_rank import LowRankHead
from kuq.nn.heads.mixture import MixtureHead
from kuq.nn.heads.normal import NormalHead
from kuq.nn.heads.sampler import SamplerHead

__all__ = [
    "EvidentialHead",
    "FlowHead",
    "Head",
    "LowRankHead",
    "MixtureHead",
    "NormalHead",
    "SamplerHead",
]
