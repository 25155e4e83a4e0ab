"""Running graphs: programs, replays, and runs of parts of a graph."""

from eagerflow.runtime.executable import Executable
from eagerflow.runtime.replay import is_watched, replay

__all__ = ["Executable", "is_watched", "replay"]
