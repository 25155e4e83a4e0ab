"""The API for libraries with threads: queues of any objects, waits, the end of the program."""

from eagerflow.resources.attempt_events import begin_told
from eagerflow.resources.queue_kinds import FifoStore, SequenceStore, ShuffleStore
from eagerflow.resources.queue_levels import to_html
from eagerflow.resources.queue_state import QueueState
from eagerflow.resources.waiting_operations import slept
from eagerflow.runtime.threads.ending import ending

__all__ = ["FifoStore", "QueueState", "SequenceStore", "ShuffleStore", "begin_told", "ending",
           "slept", "to_html"]  # fmt: skip
