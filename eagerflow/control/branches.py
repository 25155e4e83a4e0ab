"""`cond` and `switch`: one of several functions runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from eagerflow.control.applying import apply
from eagerflow.control.merging import NodeOutput, merged
from eagerflow.control.structured import Structured
from eagerflow.control.subgraphs import as_truth, check_callable, join, own_handles, trace_subgraph
from eagerflow.core import interpreter, tree
from eagerflow.core.convert import tensor_of
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.dims import Dim
from eagerflow.errors import DTypeError, ShapeError, TraceError, hides_frames
from eagerflow.runtime.python_control import choose
from eagerflow.tracing.numbers import TracedNumber
from eagerflow.tracing.tracer import Tracer, tracer_of

__all__ = ["cond", "switch"]

_NAMES: Final = ("true_fn", "false_fn")


@hides_frames
def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any
) -> Any:
    """``true_fn(*operands)`` if ``pred`` holds, else ``false_fn(*operands)``.

    Eagerly, and for a Python bool, this is Python's ``if``. In a traced function both are traced,
    into one node, which runs the chosen branch. They must give trees of the same structure, with
    tensors of the same dtypes and ranks; sizes may differ. Both may use enclosing variables, and
    read and assign `Variable` objects; only the effects of the branch that is taken happen.

    Args:
        pred: a bool, or a bool tensor without axes.
        true_fn: gives a tree of tensors and numbers.
        false_fn: gives a tree of the same structure.
        operands: the arguments of both, trees of tensors. In a branch these are values of its
            own: an update in place does not reach the caller.

    Raises:
        DTypeError: ``pred`` is not a bool.
        ShapeError: ``pred`` has axes.
        TraceError: the branches give different structures or types, or are not functions.

    >>> @ef.trace
    ... def root(x):
    ...     return ef.cond(x >= 0, lambda: ef.sqrt(x), lambda: ef.zeros_like(x))
    >>> root(ef.tensor(4.0)), root(ef.tensor(-4.0))
    (Tensor(2., f32[]@cpu:0), Tensor(0., f32[]@cpu:0))
    """
    check_callable("cond: true_fn", true_fn)
    check_callable("cond: false_fn", false_fn)
    test = as_truth("cond: pred", pred)
    return _choose("cond", test, (true_fn, false_fn), operands)


@hides_frames
def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """``branches[index](*operands)``, as `cond` for more than two branches.

    Args:
        index: an int, or an integer tensor without axes, 0 to ``len(branches) - 1``.
        branches: functions that give trees of the same structure.
        operands: their arguments, as for `cond`.

    Raises:
        TensorIndexError: there is no such branch.
        DTypeError: ``index`` is not an integer.
        ShapeError: ``index`` has axes.
        TraceError: the branches give different structures or types.

    >>> f = lambda i, x: ef.switch(i, [ef.sin, ef.cos, ef.exp], x)
    >>> f(2, ef.tensor(0.0)), ef.trace(f)(ef.tensor(1), ef.tensor(0.0))
    (Tensor(1., f32[]@cpu:0), Tensor(1., f32[]@cpu:0))
    """
    branches = tuple(branches)
    if not branches:
        raise TraceError("switch: there are no branches")
    check_callable("switch: a branch", *branches)
    chosen = _index(index)
    return _choose("switch", chosen, branches, operands)


def _index(index: Any) -> Any:
    """An int, or a tensor of one."""
    if type(index) is TracedNumber and index.varies and index.kind is int:
        return tensor_of(index)
    if isinstance(index, (int, Dim)) and not isinstance(index, bool):
        return int(index)
    if not isinstance(index, AbstractArray) and not hasattr(index, "__array__"):
        raise DTypeError("switch: index is no integer", given=repr(index), expected="i64[]")
    tensor = tensor_of(index)
    if not tensor.dtype.is_integer:
        raise DTypeError("switch: index is no integer", given=str(tensor.type), expected="i64[]")
    if tensor.shape:
        raise ShapeError("switch: index has axes", given=str(tensor.type), expected="i64[]")
    return tensor


def _choose(op: str, predicate: Any, functions: Sequence[Callable[..., Any]], operands: Any) -> Any:
    """The result of the chosen function: eagerly by Python, in a trace by a node."""
    tracer = tracer_of(interpreter.current()) if interpreter.stack.installed else None
    if type(predicate) is not Tensor or tracer is None:
        return choose(op, predicate, functions)(*own_handles(operands))
    names = _NAMES if op == "cond" else [f"branch{i}" for i in range(len(functions))]

    def arguments(part: Tracer) -> Any:
        return tree.map(lambda x: part.add_operand(x) if type(x) is Tensor else x, operands)

    outside = tracer.known_names
    parts = [
        trace_subgraph(f, name, tracer, arguments) for f, name in zip(functions, names, strict=True)
    ]
    results, kinds = merged(op, parts, tracer, outside)
    captured = join(parts, 0)  # results may capture more of the trace around
    chosen = tracer.value_of(predicate).spec
    whole = Structured(
        op,
        {"branches": tuple([p.graph for p in parts])},
        [chosen, *[v.spec for v in parts[0].graph.inputs]],
        kinds,
    )
    outputs = apply(whole, [predicate, *captured])
    leaves = [outputs[x.number] if type(x) is NodeOutput else x for x in results]
    return tree.unflatten(parts[0].treedef, leaves)
