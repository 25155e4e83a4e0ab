"""For libraries with threads of their own: queues of any objects, waits, the program's end."""

from eagerflow.resources.attempts import slept
from eagerflow.resources.levels import to_html
from eagerflow.resources.queue import QueueState
from eagerflow.resources.stores import FifoStore, SequenceStore, ShuffleStore
from eagerflow.runtime.ending import ending

__all__ = [
    "FifoStore",
    "QueueState",
    "SequenceStore",
    "ShuffleStore",
    "ending",
    "slept",
    "to_html",
]
