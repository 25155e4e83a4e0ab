"""Measurements of runs: profiles of blocks, statistics of nodes, traces for Perfetto."""

from eagerflow.profiling.node_statistics import NodeRow, NodeStatistics
from eagerflow.profiling.profiles import OpStatistics, Profile, profile

__all__ = ["NodeRow", "NodeStatistics", "OpStatistics", "Profile", "profile"]
