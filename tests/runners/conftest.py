"""Fixtures of runner tests: no test leaves a thread behind."""

from tests.resources.queues.modes import no_threads

__all__ = ["no_threads"]
