"""Tracing of branches and loop bodies into subgraphs, and the checks of their arguments."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any, NamedTuple, final

from eagerflow.capture.snapshot import Reachable
from eagerflow.control.structured import effects_of
from eagerflow.core import interpreter, tree
from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.op import bind, get_op
from eagerflow.core.tensor import AbstractArray, Tensor, handle_of, type_of
from eagerflow.core.to_tensor import tensor_of
from eagerflow.dims import Dim, Size, number_of, same, symbols
from eagerflow.errors import DTypeError, ShapeError, TensorValueError, TraceError
from eagerflow.graph.edit import all_nodes
from eagerflow.graph.ir import Graph, Value
from eagerflow.graph.signatures import is_read
from eagerflow.graph.value_types import NumberType
from eagerflow.source import Source, cell_name
from eagerflow.tracing.numbers import TracedNumber
from eagerflow.tracing.numpy_arrays import TracedArray
from eagerflow.tracing.symbols import Operand
from eagerflow.tracing.tracer import Tracer
from eagerflow.types import TensorSpec

_NUMBERS = (int, float, complex)


class ResultLeaf(NamedTuple):
    """A leaf of the result of a branch or of an iteration of a loop.

    Attributes:
        kind: ``"tensor"``, ``"number"`` or ``"static"`` (any other object).
        what: the tensor (or the stand-in for a NumPy array), the number or the object.
        value: the graph value of a tensor.
    """

    kind: str
    what: Any
    value: Value | None = None

    @property
    def text(self) -> str:
        """The type of the leaf, for messages."""
        if self.value is not None:
            kind = "an array of NumPy, " * (type(self.what) is TracedArray)
            return f"{kind}{self.value.spec}"
        if type(self.what) is TracedNumber:
            return f"the {self.what.kind.__name__} %{self.what.value.name}"
        if self.kind == "number":
            return f"the {type(self.what).__name__} {self.what}"
        return f"{type(self.what).__name__} {self.what!r}"


@final
class Subgraph:
    """A function that was traced as a part of another trace.

    Attributes:
        tracer: the trace of the function.
        leaves: the leaves of its result.
        treedef: the structure of its result.
        where: the line of the function, for messages.
        said: the Python construct that it belongs to, such as an `if`; None for a call.
    """

    def __init__(self, tracer: Tracer, result: Any, where: str, said: str | None = None) -> None:
        self.tracer = tracer
        self.where = where
        self.said = said
        leaves, self.treedef = tree.flatten(result, whole=True)
        self.leaves = [self._leaf(x) for x in leaves]

    @property
    def graph(self) -> Graph:
        """The graph of the function."""
        return self.tracer.graph

    def _leaf(self, x: Any) -> ResultLeaf:
        if isinstance(x, IndexedSlices):
            x = x.to_dense()
        if type(x) is Dim or is_number(x):
            return ResultLeaf("number", x)
        array = isinstance(x, (AbstractArray, bool)) or hasattr(x, "__array__")
        if not array:
            return ResultLeaf("static", x)
        tensor = tensor_of(x)
        what = x if type(x) is TracedArray else tensor
        return ResultLeaf("tensor", what, self.tracer.value_of(tensor))

    def as_made(self, i: int, result: Any) -> Any:
        """The result of the node for leaf ``i``: a NumPy array if the function returns one."""
        what = self.leaves[i].what
        return what.like(result) if type(what) is TracedArray else result

    def line(self, i: int) -> str:
        """The line where leaf ``i`` was made."""
        value = self.leaves[i].value
        if value is None and type(self.leaves[i].what) is TracedNumber:
            value = self.leaves[i].what.value
        node = None if value is None else value.node
        return self.where if node is None or node.source is None else str(node.source)

    def number(self, i: int) -> Value:
        """Leaf ``i``, a number, as a value of the graph."""
        number = self.leaves[i].what
        number = number_of(number) if type(number) is Dim else number
        if type(number) is TracedNumber and number.tracer is self.tracer:
            return number.value
        return self.tracer.number_value(number, "a result")

    def tensor(self, i: int, kind: TensorSpec) -> Value:
        """Leaf ``i``, a number, as a tensor of that type without axes."""
        number = (self.number(i),)
        node = self.graph.add_node("python_tensor", number, (kind.type,), device=kind.device)
        return node.outputs[0]


def is_number(x: Any) -> bool:
    """Whether ``x`` is a Python number, not a bool, or stands for one."""
    return type(x) in _NUMBERS or type(x) is TracedNumber


def kind_of(x: Any) -> NumberType:
    """The type of a number."""
    return NumberType(int if type(x) is Dim else x.kind if type(x) is TracedNumber else type(x))


def same_number(a: Any, b: Any) -> bool:
    """Whether two numbers are equal and of one kind."""
    if type(a) is not type(b):
        return False
    if type(a) is TracedNumber:
        return a.value is b.value
    return same(a, b) if type(a) is Dim else repr(a) == repr(b)


def trace_subgraph(
    function: Callable[..., Any], name: str, parent: Tracer,
    arguments: Callable[[Tracer], Sequence[Any]], users: Callable[..., Any] | None = None,
    *, repeats: bool = False,
) -> Subgraph:  # fmt: skip
    """Trace a function as a part of the trace ``parent``.

    Args:
        function: the function.
        name: name of the graph, if the function has none.
        parent: the outer trace.
        arguments: makes the arguments of the function in the trace that it is given.
        users: the user's function, if ``function`` wraps it.
        repeats: whether it is the test or the body of a loop.
    """
    users = users or function
    own = getattr(users, "__name__", name)
    tracer = Tracer(name if own == "<lambda>" else own, parent)
    tracer.repeats = repeats
    before = Reachable([users])

    def trace() -> Subgraph:
        try:
            result = function(*arguments(tracer))
        except RecursionError:
            if parent.parent is not None:
                raise
            raise TraceError(
                "branches and loops are nested too deeply",
                given=line_of(users),
                hint="a function that calls itself in a branch has no end when it is traced, as "
                "all branches are: write it as a loop, or let Python values decide where it ends",
            ) from None
        _refuse_changes(before, line_of(users))
        return Subgraph(tracer, result, line_of(users), getattr(users, "said", None))

    return tracer.run(trace)


def _refuse_changes(before: Reachable, where: str) -> None:
    """Refuse changes of Python state, which no graph repeats, and undo them.

    A branch is traced once, whether it is taken or not, and a body until its types are known:
    appends and assignments of names would happen a different number of times than eagerly.
    """
    changed = [location for location, *_ in before.changes()]
    if changed:
        before.restore()
        raise TraceError(
            "a branch or a loop of a traced function changes something outside",
            given=f"{changed[0].text}, in {where}",
            hint="return the values it makes: values that iterations change are the carry (init), "
            "and state is kept in an ef.Variable",
        )


def check_callable(what: str, *functions: Any) -> None:
    """Refuse objects that are not callable.

    Args:
        what: the function and the parameter they are passed to, for messages.
        functions: the objects passed.

    Raises:
        TraceError: an object is not callable.
    """
    for f in functions:
        if not callable(f):
            raise TraceError(
                f"{what} is not a function",
                given=str(f.type) if isinstance(f, AbstractArray) else repr(f),
                hint="wrap it in a function: lambda: x",
            )


def line_of(function: Any) -> str:
    """The line where a function is defined, for messages."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None:
        return getattr(function, "__qualname__", repr(function))
    source = Source(code, 0)
    line = getattr(function, "line", code.co_firstlineno)
    return f"{cell_name(source.file)}:{line} in {code.co_qualname}"


def known_sizes(shape: Iterable[Size | None], known: Set[str], tracer: Tracer) -> Any:
    """A shape with new names for sizes whose names are unknown outside of a subgraph.

    Args:
        shape: the sizes; None for a size without a single name.
        known: the names known outside.
        tracer: the outer trace.
    """
    return tuple([
        d if d is not None and symbols((d,)) <= known else tracer.sizes.fresh("size") for d in shape
    ])  # fmt: skip


def own_handles(values: Any) -> Any:
    """The tree with its tensors in new handles, which updates of other handles do not reach."""
    return tree.map(lambda x: handle_of(x) if type(x) is Tensor else x, values)


def _take_reads_out(parts: Sequence[Subgraph]) -> None:
    """Move reads of variables that no part assigns to the outer trace: they become operands."""
    effects = [e for part in parts for e in effects_of(all_nodes(part.graph.nodes))]
    if any(effect in ("fence", "blocks") for effect, _ in effects):
        return  # callees may assign any variable
    assigned = {id(resource) for effect, resource in effects if effect == "writes"}
    values: dict[int, Tensor] = {}
    for part in parts:
        graph = part.graph
        reads = [n for n in graph.nodes if is_read(n.op)]
        reads = [n for n in reads if id(n.attrs["resource"]) not in assigned]
        for number, node in enumerate(reads):
            key = id(node.attrs["resource"])
            if key not in values:
                values[key] = bind(get_op(node.op), **node.attrs)
            (value,) = node.outputs
            value.stated = value.device
            value.node, value.label = None, node.name
            graph.inputs.append(value)
            part.tracer.operands["read", key, number] = Operand(value, values[key])
        gone = set(reads)
        graph.nodes = [n for n in graph.nodes if n not in gone]
        for node in graph.nodes:
            if node.control_inputs:
                node.control_inputs = tuple([n for n in node.control_inputs if n not in gone])


def join(parts: Sequence[Subgraph], count: int | Sequence[int]) -> list[Any]:
    """Give all graphs the same inputs; returns the values that they capture.

    Args:
        parts: the subgraphs.
        count: the number of their own inputs, which come first; one for each graph if they differ.
    """
    counts = [count] * len(parts) if isinstance(count, int) else count
    _take_reads_out(parts)
    operands: dict[Any, Operand] = {}
    for part in reversed(parts):
        operands.update(part.tracer.operands)
    operands = {key: operands[key] for part in parts for key in part.tracer.operands}
    for part, own_count in zip(parts, counts, strict=True):
        graph, own = part.graph, part.tracer.operands
        inputs = graph.inputs[:own_count]
        for key, operand in operands.items():
            like = operand.value
            inputs.append(
                own[key].value
                if key in own
                else graph.add_input(like.type, like.label, like.device)
            )
        graph.inputs = inputs
        for i, value in enumerate(inputs):
            value.index = i
    for part in parts:
        part.tracer.forget()
    return [operand.given for operand in operands.values()]


def argument_names(function: Any, treedef: tree.TreeDef, *, spread: bool) -> list[str]:
    """Names for the leaves of the arguments of ``function``.

    Args:
        function: the user's function.
        treedef: the structure of its argument, or of the tuple of its arguments.
        spread: whether ``treedef`` is the structure of the tuple.
    """
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    known = code.co_varnames[: code.co_argcount] if code is not None else ()
    known = known[1:] if hasattr(function, "__self__") else known
    children = treedef.children() if spread else [treedef]
    names = []
    for i, child in enumerate(children):
        name = known[i] if i < len(known) and known[i].isidentifier() else "x"
        names += _leaf_names(child, name)
    return names


def _leaf_names(treedef: tree.TreeDef, name: str) -> list[str]:
    """Names for the leaves of an argument; leaves of a dict are named by its keys."""
    if treedef.type is not dict:
        return [name] * treedef.num_leaves
    names = []
    for key, child in zip(treedef.entries(), treedef.children(), strict=True):
        own = key.replace(" ", "_") if isinstance(key, str) else ""
        names += _leaf_names(child, own if own.isidentifier() else name)
    return names


def whole_number(what: str, value: Any, least: int) -> int:
    """The argument, checked to be an int that is known when the loop is traced.

    Args:
        what: name of the argument, for messages.
        value: the argument.
        least: the smallest value allowed.

    Raises:
        TraceError: the value is known only at run time.
        TensorValueError: the value is not an int, or too small.
    """
    if isinstance(value, AbstractArray) and interpreter.is_traced():
        raise TraceError(
            f"{what} is a tensor, which is known only when the graph runs",
            given=str(type_of(value)),
            hint="let the cond of a while_loop count the iterations: lambda i, x: (i < n) & ...",
        )
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise TensorValueError(
            f"{what} is not an int, or too small",
            given=repr(value),
            expected=f"an int of at least {least}",
        )
    return number


def as_truth(what: str, test: Any) -> Any:
    """A predicate as a bool, or as a bool tensor without axes.

    Args:
        what: source of the predicate, for messages.
        test: a bool, or an array.

    Raises:
        DTypeError: the predicate is not a bool.
        ShapeError: the predicate has axes.
    """
    if isinstance(test, bool):
        return test
    hints = "compare it: x != 0", "say which elements count: x.any() or x.all()"
    return scalar_of(what, test, "bool", hints)


def scalar_of(
    what: str, x: Any, kind: str, hints: tuple[str | None, str | None] = (None, None)
) -> Tensor:
    """An array as a tensor, checked to have no axes.

    Args:
        what: source of the array, for messages.
        x: an array.
        kind: the kind of dtype: ``"bool"`` or ``"integer"``.
        hints: the hints for another dtype, and for axes.

    Raises:
        DTypeError: ``x`` has another dtype, or is no array.
        ShapeError: ``x`` has axes.
    """
    expected = "bool[]" if kind == "bool" else "i64[]"
    if type(x) is Tensor:
        tensor = x
    elif isinstance(x, AbstractArray) or hasattr(x, "__array__"):
        tensor = tensor_of(x)
    else:
        raise DTypeError(f"{what} is no {kind}", given=repr(x), expected=expected)
    fits = tensor.dtype.category == "bool" if kind == "bool" else tensor.dtype.is_integer
    if fits and not tensor.shape:
        return tensor
    error, wrong, hint = (
        (ShapeError, "has axes", hints[1]) if fits else (DTypeError, f"is no {kind}", hints[0])
    )
    raise error(f"{what} {wrong}", given=str(tensor.type), expected=expected, hint=hint)
