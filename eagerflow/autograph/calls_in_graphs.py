"""Calls of functions in a graph: `call`, traced once, `call_in_scope`, grouped, and `in_graph`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from types import FunctionType, MethodType
from typing import Any, NamedTuple, TypeVar, final

from eagerflow.autodiff.custom_vjp import custom_vjp
from eagerflow.autograph.conversion.convert import call as converted
from eagerflow.autograph.conversion.convert import wrappers
from eagerflow.autograph.failures.raising import is_stated
from eagerflow.autograph.tracking.blocks import result_or_error
from eagerflow.capture.snapshot import Reachable
from eagerflow.control.apply import apply, mixed
from eagerflow.control.structured import Structured
from eagerflow.control.subgraphs import join, known_sizes, own_handles, trace_subgraph
from eagerflow.core import tree
from eagerflow.core.op import bind, get_op
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.core.to_tensor import tensor_of
from eagerflow.dims import symbols
from eagerflow.graph.ir import Node, Value
from eagerflow.graph.name_scopes import name_scope, resource_names
from eagerflow.graph.signatures import is_read
from eagerflow.hardware import current_device_scope
from eagerflow.ops.state.variables import Variable
from eagerflow.tracing.numbers import TracedNumber
from eagerflow.tracing.symbols import Symbol
from eagerflow.tracing.tracer import Tracer, current_tracer
from eagerflow.types import TensorSpec

_F = TypeVar("_F", bound=Callable[..., Any])


def call(f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """``f(*args, **kwargs)``; in a traced function as one node, whose graph all calls share.

    A function that is called a hundred times is traced once, and its nodes are in the graph once,
    as long as its tensor arguments have the same types, other arguments are equal, and the values
    that it captures are the same; else it is traced again. Its derivatives are shared likewise.
    Results are those of a plain call, bit for bit.

    Args:
        f: a function, a method, or a traced function. It may read and assign variables and draw
            random numbers, and may not change anything else outside.
        args: trees with tensors among their leaves. The function gets copies: an update in place
            does not reach the caller.
        kwargs: likewise.

    Raises:
        TraceError: the function changes state outside.

    >>> def layer(x, w):
    ...     return ef.tanh(x @ w)
    >>> @ef.trace
    ... def deep(x, w):
    ...     for _ in range(100):
    ...         x = ef.call(layer, x, w)
    ...     return x
    >>> graph = deep.graph(ef.ones((1, 2)), ef.eye(2))
    >>> len(graph.nodes), len(graph.nodes[0].attrs["body"].nodes)
    (100, 2)
    >>> graph.nodes[0].attrs["body"] is graph.nodes[99].attrs["body"]
    True
    """
    tracer = current_tracer()
    if tracer is None:
        args, kwargs = own_handles((args, kwargs))
        return f(*args, **kwargs)
    leaves, treedef = tree.flatten((args, kwargs), whole=True)
    leaves = [tensor_of(x) if isinstance(x, AbstractArray) else x for x in leaves]
    known = tracer.whole.calls
    scope = current_device_scope()
    key = (_identity(f), treedef, scope, *[_token(x, tracer) for x in leaves])
    shared = known.get(key)
    if shared is None or not shared.holds(tracer):
        make = functools.partial(_Shared, f, leaves, treedef, tracer)
        made, _ = result_or_error(make, is_stated)
        if made is None:  # it raises for any arguments, and is to raise in the trace around
            args, kwargs = own_handles((args, kwargs))
            return converted(f)(*args, **kwargs)
        shared = known[key] = made
    return shared.call(leaves, tracer)


def _identity(f: Any) -> Any:
    """The identity of a function: functions of one code that share their variables are equal."""
    if type(f) is FunctionType:
        defaults = (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values())
        return (id(f.__code__), id(f.__globals__), *map(id, (*(f.__closure__ or ()), *defaults)))
    if type(f) is MethodType:
        return (_identity(f.__func__), id(f.__self__))
    if type(f) is functools.partial:
        keywords = [(k, id(v)) for k, v in f.keywords.items()]
        return (_identity(f.func), *map(id, f.args), *keywords)
    return id(f)


def _token(x: Any, tracer: Tracer) -> Any:
    """The part of an argument that must be equal in all calls of one graph."""
    if type(x) is Tensor:
        return "tensor", str(tracer.value_of(x).spec)
    if type(x) is TracedNumber:
        return "number", id(x.value)
    try:
        hash(x)
    except TypeError:
        return "object", id(x)
    return type(x), repr(x) if type(x) in (float, complex) else x


class _Capture(NamedTuple):
    """A value that a graph captures from the trace around it.

    Attributes:
        value: a tensor or a number; None if it is read from a variable at each call.
        read: the node that reads the variable.
    """

    value: Any
    read: Node | None


@final
class _Shared:
    """A function that was traced for arguments of some types.

    Args:
        f: the function.
        leaves: of the arguments.
        treedef: their structure.
        tracer: the trace of the first call.
    """

    def __init__(self, f: Any, leaves: Sequence[Any], treedef: Any, tracer: Tracer) -> None:
        self._keeps = f, leaves  # kept alive, as the key has their ids
        users = f
        while not isinstance(users, FunctionType) and hasattr(users, "__wrapped__"):
            users = users.__wrapped__  # a traced function
        self._snapshot = Reachable([users, getattr(f, "__self__", None)])
        self._outside = tracer.sizes.names
        tensors = [x for x in leaves if type(x) is Tensor]

        def arguments(part: Tracer) -> Any:
            own = [part.add_input(tracer.spec_of(x), "x") for x in tensors]
            part.begins.update(zip(map(part.value_of, own), tensors, strict=True))
            return [tree.unflatten(treedef, mixed(leaves, own))]

        def run(given: Any) -> Any:
            args, kwargs = given
            return converted(f)(*args, **kwargs)

        part = trace_subgraph(run, "call", tracer, arguments, users)
        self._part, self._treedef = part, part.treedef
        self._results: list[Any] = []  # the number of an output, or any other value
        for i, leaf in enumerate(part.leaves):
            number = type(leaf.what) is TracedNumber and leaf.what.tracer is part.tracer
            value = part.number(i) if number else leaf.value
            self._results.append(leaf.what if value is None else None)
            part.graph.outputs += [] if value is None else [value]
        before = len(tracer.graph.nodes)
        given = join([part], len(tensors))
        reads = {n.outputs[0]: n for n in tracer.graph.nodes[before:] if is_read(n.op)}
        self._captures = [_capture(x, reads) for x in given]
        kinds = [tracer.spec_of(x) for x in (*tensors, *given)]
        self._whole = Structured(
            "call", {"body": part.graph}, kinds, [v.spec for v in part.graph.outputs]
        )

    def holds(self, tracer: Tracer) -> bool:
        """Whether the captured values are the same as when the function was traced."""
        before = self._snapshot
        return (
            next(before.changes(), None) is None
            and all(names.get(name) is value for names, name, value in before.globals)
            and all(x._data is data for x, data in before.tensors)
            and all(_is_here(one.value, tracer) for one in self._captures)
        )

    def call(self, leaves: Sequence[Any], tracer: Tracer) -> Any:
        """The results for other arguments of the same types."""
        tensors = [x for x in leaves if type(x) is Tensor]
        captured = [
            one.value if one.read is None else bind(get_op(one.read.op), **one.read.attrs)
            for one in self._captures
        ]
        outputs = iter(apply(self._fresh(tracer), [*tensors, *captured]))
        as_made = self._part.as_made
        results = [
            as_made(i, next(outputs)) if x is None else x for i, x in enumerate(self._results)
        ]
        return tree.unflatten(self._treedef, results)

    def _fresh(self, tracer: Tracer) -> Structured:
        """The node with new names for the sizes of this call that depend on data."""
        whole, known = self._whole, self._outside
        if all(symbols(kind.shape) <= known for kind in whole.outputs):
            return whole
        outputs = [
            kind.like(shape=known_sizes(kind.shape, known, tracer))
            if isinstance(kind, TensorSpec)
            else kind
            for kind in whole.outputs
        ]
        return Structured("call", whole.attrs, whole.inputs, outputs)


def _capture(x: Any, reads: Mapping[Value, Node]) -> _Capture:
    data = x._data if type(x) is Tensor else None
    read = reads.get(data.value) if isinstance(data, Symbol) else None
    return _Capture(x if read is None else None, read)


def _is_here(x: Any, tracer: Tracer) -> bool:
    """Whether a value belongs to a trace or to a trace around it."""
    if type(x) is TracedNumber:
        return tracer.is_within(x.tracer)
    if type(x) is Tensor and isinstance(x._data, Symbol):
        return tracer.is_within(x._data.tracer)
    return True


def in_graph(function: _F) -> _F:
    """The function to call in place of a user's, where a library keeps it and calls it later.

    In a trace, `if` and `for` on tensors become parts of the graph there, as they do in functions
    that a traced function calls itself. Elsewhere it is the function itself.

    >>> from eagerflow.extending import in_graph
    >>> in_graph(abs) is abs
    True
    """
    return function if current_tracer() is None else converted(function)


def _of_rule(function: custom_vjp) -> custom_vjp:
    return function.with_parts(converted)


wrappers[custom_vjp] = _of_rule


def call_in_scope(
    function: Callable[..., Any],
    args: Iterable[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    scope: str,
    names: Iterable[tuple[str, Variable]] | None = None,
) -> Any:
    """``function(*args, **kwargs)``, whose nodes are in a name scope in a trace.

    The function is the user's, or calls the user's code: `if` and `for` on tensors become parts of
    graphs there, as they do in functions that a traced function calls itself.

    Args:
        function: the function to call.
        args: its arguments.
        kwargs: likewise.
        scope: a name, such as ``"encoder"``; see `eagerflow.name_scope`.
        names: names for variables that the trace meets in the call for the first time; of
            two names the first counts. None leaves the names as they are.

    >>> from eagerflow.extending import call_in_scope
    >>> w = ef.Variable([1.0, 2.0])
    >>> def encode(x):
    ...     return x * w
    >>> @ef.trace
    ... def f(x):
    ...     return call_in_scope(encode, (x,), scope="encoder", names=[("encoder.w", w)])
    >>> graph = f.graph(ef.tensor([1.0, 1.0]))
    >>> graph.nodes[-1].scope, "encoder.w" in str(graph)
    ('encoder', True)
    """
    with ExitStack() as stack:
        if names is not None:
            known: dict[int, str] = {}
            for name, variable in names:
                known.setdefault(id(variable.resource), name)
            stack.callback(resource_names.reset, resource_names.set(known))
        stack.enter_context(name_scope(scope))
        return converted(function)(*args, **(kwargs or {}))
