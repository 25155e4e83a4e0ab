"""Traced functions: making traces, the cache and lookup of traces, placement, explanations."""

from eagerflow.function.trace_decorator import eval_shape, trace
from eagerflow.function.traced_function import TracedFunction

__all__ = ["TracedFunction", "eval_shape", "trace"]
