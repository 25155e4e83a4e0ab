"""For libraries with threads of their own: queues of any objects, waits, the program's end."""

from eagerflow.resources.attempt_events import begin_told as begin_told
from eagerflow.resources.attempts import slept as slept
from eagerflow.resources.levels import to_html as to_html
from eagerflow.resources.queue_state import QueueState as QueueState
from eagerflow.resources.queue_stores import FifoStore as FifoStore
from eagerflow.resources.queue_stores import SequenceStore as SequenceStore
from eagerflow.resources.queue_stores import ShuffleStore as ShuffleStore
from eagerflow.runtime.threads.ending import ending as ending
