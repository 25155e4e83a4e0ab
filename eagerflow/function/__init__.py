"""Traced functions: the cache of traces, what decides whether one may be used, and explanations."""

from eagerflow.function.eval_shape import eval_shape
from eagerflow.function.traced import TracedFunction, trace

__all__ = ["TracedFunction", "eval_shape", "trace"]
