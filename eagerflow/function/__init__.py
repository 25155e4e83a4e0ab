"""Traced functions: the cache of traces, what decides whether one may be used, and explanations."""

from eagerflow.function.traced import TracedFunction
from eagerflow.function.transforms import eval_shape, trace

__all__ = ["TracedFunction", "eval_shape", "trace"]
