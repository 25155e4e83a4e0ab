"""`scan` and `map`: loops along the first axis of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from eagerflow.control.applying import apply
from eagerflow.control.carry import Carry, check_iteration, own_leaves
from eagerflow.control.structured import Structured
from eagerflow.control.subgraphs import (
    Subgraph,
    argument_names,
    check_callable,
    join,
    kind_of,
    line_of,
    trace_subgraph,
    whole_number,
)
from eagerflow.core import interpreter, tree
from eagerflow.core.convert import as_tensor, tensor_of
from eagerflow.core.op import functions
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Dim, same, symbols
from eagerflow.errors import ShapeError, TraceError, hides_frames
from eagerflow.graph.ir import Value
from eagerflow.hardware import as_device
from eagerflow.ops.rules.sizes import matched
from eagerflow.runtime.python_control import go_along
from eagerflow.tracing.tracer import Tracer, tracer_of
from eagerflow.types import DTYPES, TensorSpec, TensorType

__all__ = ["map", "scan"]

_DTYPES: Final = {int: DTYPES["int64"], float: DTYPES["float32"], complex: DTYPES["complex64"]}


@hides_frames
def scan(
    f: Callable[..., Any], init: Any, xs: Any, *, length: Any = None, reverse: bool = False
) -> tuple[Any, Any]:
    """Iterate along the first axis of ``xs`` with a carry, and stack the results of iterations.

    Eagerly this is a Python loop. In a traced function it is one node, and so is its gradient,
    which keeps what the backward pass needs of each iteration.

    Args:
        f: ``f(carry, x)`` gives the next carry, of the same structure and types, and a tree of
            tensors or numbers, of the same types in all iterations.
        init: the initial carry.
        xs: a tree of tensors ``[n, ...]``; ``f`` gets their parts. None for none, with ``length``.
        length: the number of iterations, if ``xs`` does not determine it.
        reverse: whether to go from the last element to the first.

    Returns:
        The carry after the last iteration, and the trees that ``f`` gave, each leaf stacked:
        element i belongs to element i of ``xs``, in whatever direction.

    Raises:
        ShapeError: the first axes differ, or nothing determines the number of iterations.
        TensorValueError: ``length`` is not an int from 0 on.
        TraceError: an iteration changes the structure or a type.

    >>> ef.scan(lambda total, x: (total + x, total), 0, ef.tensor([1, 2, 3]))
    (Tensor(6, i64[]@cpu:0), Tensor([0, 1, 3], i64[3]@cpu:0))
    """
    return _Scan("scan", f, init, xs, length, reverse).result()


@hides_frames
def map(f: Callable[..., Any], xs: Any) -> Any:
    """``f`` of each part of ``xs`` along the first axis, the results stacked.

    Args:
        f: a function of a tree of tensors; gives one.
        xs: a tree of tensors ``[n, ...]``.

    Raises:
        ShapeError: the first axes differ.
        TraceError: ``f`` gives other structures or types for other parts.

    >>> ef.map(lambda x: ef.sort(x)[0], ef.tensor([[3.0, 1.0], [2.0, 5.0]]))
    Tensor([1., 2.], f32[2]@cpu:0)
    """

    def iteration(_: None, x: Any) -> tuple[None, Any]:
        return None, f(x)

    return _Scan("map", iteration, None, xs, None, reverse=False, users=f).result()[1]


@final
class _Scan:
    """One call of `scan` or `map`."""

    def __init__(
        self, op: str, f: Callable[..., Any], init: Any, xs: Any, length: Any, reverse: bool,
        users: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        check_callable(f"{op}: f", f if users is None else users)
        self.op = op
        self.f = f
        self.users = f if users is None else users
        self.reverse = reverse
        self.leaves, self.treedef = own_leaves(init)
        x_leaves, self.x_tree = tree.flatten(xs)
        self.xs = [tensor_of(x) for x in x_leaves]
        self.length = self._length(length)

    def _length(self, length: Any) -> Any:
        for x in self.xs:
            if not x.shape:
                wrong = f"{self.op}: there is no first axis to go along"
                listed = "a list is a tree of tensors: for one tensor write ef.tensor(xs)"
                hint = listed if len(self.xs) > 1 else None
                raise ShapeError(wrong, given=str(x.type), hint=hint)
            if length is None:
                length = x.shape[0]
        if length is None:
            raise ShapeError(
                f"{self.op}: nothing says how many iterations there are",
                hint="pass length=..." if self.op == "scan" else None,
            )
        if type(length) is not Dim:
            length = whole_number(f"{self.op}: length", length, 0)
        wrong = f"{self.op}: the first axes differ"
        given = ", ".join(str(x.type) for x in self.xs) + f", length {length}"
        self.xs = [
            x if same(x.shape[0], length) else matched(x, x.shape[:1], (length,), wrong, given)
            for x in self.xs
        ]
        return length

    def result(self) -> tuple[Any, Any]:
        tracer = tracer_of(interpreter.current()) if interpreter.stack.installed else None
        return self.run() if tracer is None else self.trace(tracer)

    def parted(self, result: Any) -> tuple[Any, Any]:
        """The result of an iteration: the carry and the rest."""
        if not isinstance(result, tuple) or len(result) != 2:
            raise TraceError(
                f"{self.op}: the function does not give a pair",
                given=f"{type(result).__name__} from {line_of(self.users)}",
                expected="(carry, y)",
            )
        return result

    # --- eagerly ---

    def run(self) -> tuple[Any, Any]:
        y_tree: tree.TreeDef | None = None

        def iteration(leaves: list[Any], parts: list[Any]) -> tuple[list[Any], list[Any]]:
            nonlocal y_tree
            x = tree.unflatten(self.x_tree, parts)
            carry, y = self.parted(self.f(tree.unflatten(self.treedef, leaves), x))
            after, treedef = own_leaves(carry)
            check_iteration(self.op, leaves, after, self.treedef, treedef, self.users)
            row, row_tree = own_leaves(y)
            if y_tree is not None and row_tree != y_tree:
                raise TraceError(
                    f"{self.op}: iterations give different structures",
                    given=f"{tree.show(row_tree)} from {line_of(self.users)}",
                    expected=f"{tree.show(y_tree)}, as at first",
                )
            y_tree = row_tree
            return after, [_row(self.op, y) for y in row]

        leaves, stacked = go_along(
            self.op, iteration, self.leaves, self.xs, self.length, self.reverse
        )
        if y_tree is None or stacked is None:
            return self.nothing()
        return tree.unflatten(self.treedef, leaves), tree.unflatten(y_tree, stacked)

    def nothing(self) -> tuple[Any, Any]:
        """The result of no iteration: an iteration is traced for the types of its results."""
        outer = Tracer(self.op)
        with outer:
            _, body, y_tree, _ = self.body(outer)
            kinds = [v.spec for v in self.rows(body)]
        ys = [functions["zeros"]((0, *k.shape), dtype=k.dtype, device=k.device) for k in kinds]
        return tree.unflatten(self.treedef, self.leaves), tree.unflatten(y_tree, ys)

    # --- in a trace ---

    def body(self, tracer: Tracer) -> tuple[Carry, Subgraph, tree.TreeDef, list[Value]]:
        """The carry, the traced function, the structure of y, the inputs that are parts."""
        names = argument_names(self.users, self.treedef, spread=False)
        carry = Carry(self.op, tracer, self.leaves, self.treedef, names, self.users)
        parts: list[Value] = []

        def arguments(part: Tracer) -> Any:
            state = tree.unflatten(self.treedef, carry.enter(part))
            parts.clear()
            for x in self.xs:
                value = tracer.value_of(x)
                kind: Any = value.type
                row = kind.like(shape=kind.shape[1:])
                parts.append(part.graph.add_input(row, "x", value.device))
            return state, tree.unflatten(self.x_tree, [part.result(v) for v in parts])

        def iteration(state: Any, x: Any) -> Any:
            return self.parted(self.f(state, x))

        while True:
            failed: Exception | None = None
            try:
                loop = carry.begin()
                body = trace_subgraph(iteration, self.op, tracer, arguments, self.users, loop)
            except (TraceError, ArithmeticError, LookupError) as error:
                failed = error
            if failed is not None:
                carry.hold(failed)
                continue
            body.treedef, y_tree = body.treedef.children()
            if carry.fits(body):
                return carry, body, y_tree, parts

    def rows(self, body: Subgraph) -> list[Any]:
        """The values that are stacked."""
        values = []
        for i in range(self.treedef.num_leaves, len(body.leaves)):
            leaf = body.leaves[i]
            if leaf.kind == "static":
                raise _no_tensor(self.op, leaf.what, body.line(i))
            value = leaf.value
            if value is None:
                values.append(body.tensor(i, tensor_spec(leaf.what)))
            else:
                values.append(value)
        return values

    def trace(self, tracer: Tracer) -> tuple[Any, Any]:
        outside = tracer.known_names
        carry, body, y_tree, parts = self.body(tracer)
        rows = self.rows(body)
        for value in rows:
            unknown = symbols(value.type.shape) - outside
            if unknown:
                raise TraceError(
                    f"{self.op}: an iteration gives a tensor whose size depends on data",
                    given=f"{value.spec} from {body.where}",
                    hint="give tensors of the same shape in all iterations, or keep them in an "
                    "ef.TensorArray in a while_loop",
                )
        count = carry.count
        captured = join([body], count + len(parts))
        graph = body.graph
        own, fixed = graph.inputs[:count], graph.inputs[count + len(parts) :]
        graph.inputs = [*own, *fixed, *parts]
        for i, value in enumerate(graph.inputs):
            value.index = i
        graph.outputs = [*graph.outputs, *fixed, *rows]
        operands = [*carry.starts, *captured]
        kinds: list[Any] = [tracer.spec_of(x) for x in operands]
        length = self.length
        stacked = [v.spec.like(shape=(length, *v.type.shape)) for v in rows]
        attrs = {"body": graph, "carry": len(operands), "length": length, "reverse": self.reverse}
        whole = Structured(
            "scan", attrs, [*kinds, *(tracer.spec_of(x) for x in self.xs)],
            [*carry.kinds, *kinds[count:], *stacked],
        )  # fmt: skip
        outputs = apply(whole, [*operands, *self.xs])
        state = tree.unflatten(self.treedef, carry.leave(outputs[:count]))
        return state, tree.unflatten(y_tree, outputs[len(operands) :])


def tensor_spec(number: Any) -> TensorSpec:
    """The spec of the tensor that a number becomes."""
    return TensorType(_DTYPES[kind_of(number).kind], ()).on(as_device(None))


def _row(op: str, y: Any) -> Tensor:
    """One part of the stacked values."""
    if type(y) is Tensor:
        return y
    if isinstance(y, (bool, int, float, complex, Dim)):
        return as_tensor(y)
    raise _no_tensor(op, y, None)


def _no_tensor(op: str, y: Any, where: str | None) -> TraceError:
    return TraceError(
        f"{op}: an iteration gives what cannot be stacked",
        given=type(y).__name__ + (f" from {where}" if where else ""),
        expected="tensors and numbers",
    )
