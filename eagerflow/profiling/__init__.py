"""Measurements of runs: profiles of blocks, statistics of nodes, traces for Perfetto."""

from eagerflow.profiling.gap_statistics import GapStatistics
from eagerflow.profiling.line_statistics import LineStatistics
from eagerflow.profiling.node_statistics import NodeRow, NodeStatistics
from eagerflow.profiling.outside_statistics import OutsideStatistics
from eagerflow.profiling.profiles import OpStatistics, Profile, profile
from eagerflow.profiling.queue_statistics import QueueStatistics
from eagerflow.profiling.rows import RowTable
from eagerflow.profiling.thread_statistics import ThreadStatistics

__all__ = [
    "GapStatistics", "LineStatistics", "NodeRow", "NodeStatistics", "OpStatistics",
    "OutsideStatistics", "Profile", "QueueStatistics", "RowTable", "ThreadStatistics", "profile",
]  # fmt: skip
