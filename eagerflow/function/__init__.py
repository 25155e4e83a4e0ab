"""Traced functions: the cache of traces, what decides whether one may be used, and explanations."""

from eagerflow.function.trace_decorator import eval_shape, trace
from eagerflow.function.traced_function import TracedFunction

__all__ = ["TracedFunction", "eval_shape", "trace"]
