"""Running graphs: programs, replays, and runs of parts of a graph."""

from eagerflow.runtime.program import Program
from eagerflow.runtime.replay import is_watched, replay

__all__ = ["Program", "is_watched", "replay"]
