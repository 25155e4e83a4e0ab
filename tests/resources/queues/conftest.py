"""Each test of this folder runs in all modes, if it takes ``call``."""

from tests.resources.queues.modes import call, no_threads

__all__ = ["call", "no_threads"]
