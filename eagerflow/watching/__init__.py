"""Monitoring of running steps at next to no cost: data for views, sent in small messages.

Steps and regions are reported in brief, as tuples appended to lists; queues, waits, transfers and
retraces by their events; the times of nodes come from single observed steps, and places from
samples of the stacks of threads. One thread collects these, keeps them in bounded memory, and sends
changes.
"""

from eagerflow.watching.connection import Comm, Connection
from eagerflow.watching.watcher import Watcher, shared

__all__ = ["Comm", "Connection", "Watcher", "shared"]
