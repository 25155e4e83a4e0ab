"""Traced functions: the cache of traces, what decides whether one may be used, and explanations."""

from eagerflow.function.decorator import trace
from eagerflow.function.runners import Runner, spawn
from eagerflow.function.traced import TracedFunction

__all__ = ["Runner", "TracedFunction", "spawn", "trace"]
