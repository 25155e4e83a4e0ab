"""`eval_shape`: the types of the results of a function, without its work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerflow.core import tree
from eagerflow.core.op import functions
from eagerflow.errors import TraceError, hides_frames
from eagerflow.function.traced import TracedFunction, trace
from eagerflow.tracing.tracer import current_tracer
from eagerflow.types import TensorSpec, TensorType


@hides_frames
def eval_shape(f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """The types of what a function gives for these arguments; none of its ops is computed.

    The function is traced: its Python code runs once, what it does to variables and to objects
    outside is not done.

    Args:
        f: a function, a module, or a traced function.
        args: its arguments; in place of tensors also their types (``x.type``), so that no memory is
            needed.
        kwargs: likewise.

    Returns:
        The result, with a `eagerflow.types.TensorSpec` (``dtype``, ``shape``, ``device``) in place
        of each tensor.

    Raises:
        TraceError: in a traced function, where types are known without it, or where the trace is
            refused.

    >>> x = ef.eval_shape(ef.zeros, (1000, 1000))
    >>> x
    f32[1000,1000]@cpu:0
    >>> ef.eval_shape(lambda x, y: {"product": x @ y, "n": 3}, x, x)
    {'product': f32[1000,1000]@cpu:0, 'n': 3}
    """
    if current_tracer() is not None:
        raise TraceError(
            "eval_shape within a traced function",
            given="a trace",
            hint="nothing is computed there: f(x).shape is known as it is",
        )
    args, kwargs = tree.map(_stand_in, (args, kwargs))
    traced = f if isinstance(f, TracedFunction) else trace(f)
    return traced.abstract(*args, **kwargs)


def _stand_in(leaf: Any) -> Any:
    """A tensor of a type, of a single element in memory."""
    if isinstance(leaf, TensorSpec):
        leaf, device = leaf.type, leaf.device
    elif isinstance(leaf, TensorType):
        device = None
    else:
        return leaf
    return functions["broadcast_to"](
        functions["zeros"]((), dtype=leaf.dtype, device=device), leaf.shape
    )
