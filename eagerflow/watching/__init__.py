"""Looking at what runs, at next to no cost: gathered here, told to views in small messages.

Steps and regions are told in brief, a tuple on a list each; queues, waits, transfers and retraces
by their events; the times of nodes come from single steps that are observed, and places from
samples of the stacks of threads. One thread takes these in, keeps them in bounded memory, and sends
what has changed.
"""

from eagerflow.watching.connection import Comm, Connection
from eagerflow.watching.watcher import Watcher, shared

__all__ = ["Comm", "Connection", "Watcher", "shared"]
