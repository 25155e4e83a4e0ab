"""Traced functions: the cache of traces, what decides whether one may be used, and explanations."""

from eagerflow.function.decorator import trace
from eagerflow.function.traced import TracedFunction

__all__ = ["TracedFunction", "trace"]
