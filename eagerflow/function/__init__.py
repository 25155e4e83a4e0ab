"""Traced functions: the cache of traces, what decides whether one may be used, and explanations."""

from eagerflow.function.decorator import trace
from eagerflow.function.traced import TracedFunction
from eagerflow.runners.runner import Runner, spawn

__all__ = ["Runner", "TracedFunction", "spawn", "trace"]
