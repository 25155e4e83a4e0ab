"""No test of this folder leaves a thread behind."""

from tests.resources.queues.modes import no_threads

__all__ = ["no_threads"]
