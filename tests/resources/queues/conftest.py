"""Fixtures of queue tests: a test that takes ``call`` runs in all modes."""

from tests.resources.queues.modes import call, no_threads

__all__ = ["call", "no_threads"]
