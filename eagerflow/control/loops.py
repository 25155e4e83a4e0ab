"""`while_loop`, `scan` and `map`, eagerly and in traces. Their carry: `control/carry.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

from eagerflow.control.apply import apply
from eagerflow.control.carry import Carry, next_leaves, own_leaves
from eagerflow.control.structured import Structured
from eagerflow.control.subgraphs import (
    Subgraph,
    argument_names,
    as_truth,
    check_callable,
    join,
    kind_of,
    line_of,
    trace_subgraph,
    whole_number,
)
from eagerflow.core import tree
from eagerflow.core.moves_to_scopes import to_home
from eagerflow.core.op import functions
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import as_tensor, tensor_of
from eagerflow.dims import Dim, same, symbols
from eagerflow.errors import ShapeError, TraceError, hides_frames
from eagerflow.graph.ir import Value
from eagerflow.hardware import as_device, current_device_scope, home_of
from eagerflow.ops.rules.sizes import matched
from eagerflow.runtime.python_control import go_along, repeat
from eagerflow.tracing.tracer import Tracer, current_tracer
from eagerflow.types import DTYPES, TensorSpec, TensorType

_DTYPES: Final = {int: DTYPES["int64"], float: DTYPES["float32"], complex: DTYPES["complex64"]}

_PARALLEL: Final = 10  # iterations that may overlap


# --- `while_loop` -----------------------------------------------------------------------------


@hides_frames
def while_loop(
    cond: Callable[..., Any], body: Callable[..., Any], init: object, *,
    parallel_iterations: int = _PARALLEL, max_iterations: int | None = None,
    recompute: bool = False,
) -> Any:  # fmt: skip
    """Repeat ``x = body(x)``, starting with ``init``, while ``cond(x)`` holds.

    Eagerly this is Python's ``while``. In a traced function it is one node, whose number of
    iterations is decided at run time. Its gradient keeps the residuals of each iteration, so that
    memory grows with the number of iterations; with ``recompute`` it keeps only the carry, and
    computes each iteration again.

    Args:
        cond: the predicate: returns a bool, or a bool tensor without axes.
        body: returns the next carry: a tree of the same structure, with tensors of the same
            dtypes and ranks. Sizes may change. Python numbers stay numbers of their kind.
        init: the initial carry, a tree of tensors and numbers. The elements of a tuple or a list
            are passed to ``cond`` and ``body`` as separate arguments, anything else as one.
        parallel_iterations: number of iterations that may overlap if the body is on several
            devices.
        max_iterations: maximum number of iterations; None for no limit.
        recompute: whether the gradient recomputes intermediate values instead of keeping them.

    Returns:
        The carry after the last iteration, or ``init`` without any.

    Raises:
        TraceError: an iteration changes a structure, a dtype or a number of axes.
        DTypeError: ``cond`` does not return a bool.
        ShapeError: ``cond`` returns a tensor with axes.
        TensorValueError: a number of iterations is not an int, or too small.

    >>> halve = lambda x: ef.while_loop(lambda x, n: x > 1, lambda x, n: (x / 2, n + 1), (x, 0))
    >>> halve(ef.tensor(100.0)), ef.trace(halve)(ef.tensor(100.0))
    ((Tensor(0.78125, f32[]@cpu:0), 7), (Tensor(0.78125, f32[]@cpu:0), 7))
    """
    check_callable("while_loop: cond", cond)
    check_callable("while_loop: body", body)
    parallel = whole_number("while_loop: parallel_iterations", parallel_iterations, 1)
    attrs: dict[str, Any] = {"parallel_iterations": parallel}
    if max_iterations is not None:
        attrs["max_iterations"] = whole_number("while_loop: max_iterations", max_iterations, 0)
    if recompute:
        attrs["recompute"] = True
    loop, tracer = _Loop(cond, body, init), current_tracer()
    return loop.run(attrs.get("max_iterations")) if tracer is None else loop.trace(tracer, attrs)


@final
class _Loop:
    """A call of `while_loop`."""

    def __init__(self, cond: Callable[..., Any], body: Callable[..., Any], init: Any) -> None:
        self.cond = cond
        self.body = body
        self.spread = type(init) in (tuple, list)
        self.kind: Any = type(init)
        self.leaves, self.treedef = own_leaves(init)

    def arguments(self, leaves: Sequence[Any]) -> Any:
        """The arguments of ``cond`` and ``body``, from the leaves of the carry."""
        value = tree.unflatten(self.treedef, leaves)
        return value if self.spread else (value,)

    def test(self, *args: Any) -> Any:
        """Whether there is another iteration."""
        return as_truth("while_loop: cond", self.cond(*args))

    def iteration(self, *args: Any) -> Any:
        """The next carry, as a tree like ``init``."""
        carry = self.body(*args)
        if not self.spread:
            return carry
        if type(carry) not in (tuple, list) and self.treedef.num_children == 1:
            carry = (carry,)
        return self.kind(carry) if type(carry) in (tuple, list) else carry

    # --- eagerly ---

    def run(self, most: int | None) -> Any:
        def goes_on(leaves: list[Any]) -> Any:
            return self.test(*self.arguments(leaves))

        def iteration(leaves: list[Any]) -> list[Any]:
            carry = self.iteration(*self.arguments(leaves))
            return next_leaves("while_loop", leaves, self.treedef, carry, self.body)

        leaves = repeat(goes_on, iteration, self.leaves, most)
        if leaves is self.leaves and current_device_scope() is not None:  # no iteration ran
            leaves = self.moved_by_iterations()
        return tree.unflatten(self.treedef, leaves)

    def moved_by_iterations(self) -> list[Any]:
        """The initial carry on the devices where iterations would leave it, as in a graph.

        An iteration is traced to find these. If tracing fails or raises, the carry stays where it
        is: eagerly the iteration does not happen.
        """
        outer = Tracer("while_loop")
        try:
            with outer:
                carry, _, _ = self.traced(outer)
        except Exception:
            return self.leaves
        return carry.moved(self.leaves)

    # --- in a trace ---

    def traced(self, tracer: Tracer) -> tuple[Carry, Subgraph, Subgraph]:
        """The carry, the traced test and the traced body."""
        names = argument_names(self.body, self.treedef, spread=self.spread)
        carry = Carry("while_loop", tracer, self.leaves, self.treedef, names, self.body)

        def arguments(part: Tracer) -> Any:
            return self.arguments(carry.enter(part))

        def parts() -> tuple[Subgraph, Subgraph]:
            both = (self.test, "cond", self.cond), (self.iteration, "body", self.body)
            test, body = (
                trace_subgraph(function, name, tracer, arguments, users, repeats=True)
                for function, name, users in both
            )
            return test, body

        return carry, *carry.settle(parts)

    def trace(self, tracer: Tracer, attrs: dict[str, Any]) -> Any:
        carry, test, body = self.traced(tracer)
        (goes_on,) = test.leaves
        assert goes_on.value is not None
        test.graph.outputs = [goes_on.value]
        captured = join([test, body], carry.count)
        body.graph.outputs += body.graph.inputs[carry.count :]
        operands = [*carry.starts, *captured]
        kinds = [tracer.spec_of(x) for x in operands]
        whole = Structured(
            "while_loop",
            {"cond": test.graph, "body": body.graph, **attrs},
            kinds,
            [*carry.kinds, *kinds[carry.count :]],
        )
        outputs = apply(whole, operands)
        return tree.unflatten(self.treedef, carry.leave(outputs[: carry.count]))


# --- `scan` and `map` -------------------------------------------------------------------------


@hides_frames
def scan(
    f: Callable[..., Any],
    init: object,
    xs: object,
    *,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Iterate along the first axis of ``xs`` with a carry, and stack the results.

    Eagerly this is a Python loop; without an iteration, ``f`` is traced for the types of its
    results, so that an ``if`` on a tensor in it needs `ef.cond`. In a traced function it is one
    node, and so is its gradient, which keeps the residuals of each iteration.

    Args:
        f: ``f(carry, x)`` returns the next carry, of the same structure and types, and a tree of
            tensors or numbers, of the same types in all iterations.
        init: the initial carry.
        xs: a tree of tensors ``[n, ...]``; ``f`` gets their slices. None for no inputs, with
            ``length``.
        length: the number of iterations, if ``xs`` does not determine it.
        reverse: whether to iterate from the last element to the first.

    Returns:
        The carry after the last iteration, and the trees returned by ``f``, each leaf stacked:
        element i belongs to element i of ``xs``, whatever the direction.

    Raises:
        ShapeError: the first axes differ, or nothing determines the number of iterations.
        TensorValueError: ``length`` is not an int of at least 0.
        TraceError: an iteration changes the structure or a type.

    >>> ef.scan(lambda total, x: (total + x, total), 0, ef.tensor([1, 2, 3]))
    (Tensor(6, i64[]@cpu:0), Tensor([0, 1, 3], i64[3]@cpu:0))
    """
    return _Scan("scan", f, init, xs, length, reverse).result()


@hides_frames
def map(f: Callable[..., Any], xs: object) -> Any:
    """Apply ``f`` to each slice of ``xs`` along the first axis, and stack the results.

    Eagerly this is a Python loop; without slices, as for `scan`.

    Args:
        f: a function from a tree of tensors to a tree of tensors.
        xs: a tree of tensors ``[n, ...]``.

    Raises:
        ShapeError: the first axes differ.
        TraceError: structures or types of the results of ``f`` differ between slices.

    >>> ef.map(lambda x: ef.sort(x)[0], ef.tensor([[3.0, 1.0], [2.0, 5.0]]))
    Tensor([1., 2.], f32[2]@cpu:0)
    """

    def iteration(_: None, x: Any) -> tuple[None, Any]:
        return None, f(x)

    return _Scan("map", iteration, None, xs, None, reverse=False, users=f).result()[1]


@final
class _Scan:
    """A call of `scan` or `map`."""

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
                wrong = f"{self.op}: there is no first axis to iterate over"
                listed = "a list is a tree of tensors: for one tensor write ef.tensor(xs)"
                hint = listed if len(self.xs) > 1 else None
                raise ShapeError(wrong, given=str(x.type), hint=hint)
            if length is None:
                length = x.shape[0]
        if length is None:
            raise ShapeError(
                f"{self.op}: the number of iterations is not known",
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
        tracer = current_tracer()
        return self.run() if tracer is None else self.trace(tracer)

    def parted(self, result: Any) -> tuple[Any, Any]:
        """The result of an iteration, split into the carry and the outputs to stack."""
        if not isinstance(result, tuple) or len(result) != 2:
            raise TraceError(
                f"{self.op}: the function does not give a pair",
                given=f"{type(result).__name__} from {line_of(self.users)}",
                expected="(carry, y)",
                hint="y is stacked over the iterations; without it return (carry, None)",
            )
        return result

    # --- eagerly ---

    def run(self) -> tuple[Any, Any]:
        y_tree: tree.TreeDef | None = None

        def iteration(leaves: list[Any], parts: list[Any]) -> tuple[list[Any], list[Any]]:
            nonlocal y_tree
            x = tree.unflatten(self.x_tree, parts)
            carry, y = self.parted(self.f(tree.unflatten(self.treedef, leaves), x))
            after = next_leaves(self.op, leaves, self.treedef, carry, self.users)
            row, row_tree = own_leaves(y)
            if y_tree is not None and row_tree != y_tree:
                raise TraceError(
                    f"{self.op}: iterations give different structures",
                    given=f"{tree.show(row_tree)} from {line_of(self.users)}",
                    expected=f"{tree.show(y_tree)}, as in the first iteration",
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
        """The result for zero iterations, with types found by tracing an iteration."""
        outer = Tracer(self.op)
        try:
            with outer:
                carry, body, y_tree, _ = self.body(outer)
                kinds = [v.spec for v in self.rows(body)]
        except TraceError as error:
            error.add_note(f"{self.op} of nothing traces the function for the types of its results")
            raise
        ys = [
            functions["zeros"]((0, *k.shape), dtype=k.dtype, device=home_of(k.device))
            for k in kinds
        ]
        return tree.unflatten(self.treedef, carry.moved(self.leaves)), tree.unflatten(y_tree, ys)

    # --- in a trace ---

    def body(self, tracer: Tracer) -> tuple[Carry, Subgraph, tree.TreeDef, list[Value]]:
        """The carry, the traced function, the structure of its outputs, and the sliced inputs."""
        names = argument_names(self.users, self.treedef, spread=False)
        carry = Carry(self.op, tracer, self.leaves, self.treedef, names, self.users)
        parts: list[Value] = []

        def arguments(part: Tracer) -> Any:
            state = tree.unflatten(self.treedef, carry.enter(part))
            kinds: list[Any] = [tracer.spec_of(x) for x in self.xs]
            rows = [part.add_input(kind.like(shape=kind.shape[1:]), "x") for kind in kinds]
            parts[:] = [part.value_of(row) for row in rows]
            part.begins.update(zip(parts, self.xs, strict=True))
            return state, tree.unflatten(self.x_tree, rows)

        def iteration(state: Any, x: Any) -> Any:
            return self.parted(self.f(state, x))

        y_tree: tree.TreeDef = self.treedef

        def trace() -> tuple[Subgraph]:
            nonlocal y_tree
            body = trace_subgraph(iteration, self.op, tracer, arguments, self.users, repeats=True)
            body.treedef, y_tree = body.treedef.children()
            return (body,)

        (body,) = carry.settle(trace)
        return carry, body, y_tree, parts

    def rows(self, body: Subgraph) -> list[Any]:
        """The values to be stacked, as outputs of the body."""
        values = []
        for i in range(self.treedef.num_leaves, len(body.leaves)):
            leaf = body.leaves[i]
            if leaf.kind == "static":
                raise _no_tensor(self.op, leaf.what, body.line(i))
            values.append(leaf.value or body.tensor(i, _tensor_spec(leaf.what)))
        return values

    def trace(self, tracer: Tracer) -> tuple[Any, Any]:
        outside = tracer.sizes.names
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
        ys = [to_home(y, home_of(y.device)) for y in outputs[len(operands) :]]
        return state, tree.unflatten(y_tree, ys)  # stacked on the device of the scope, as eagerly


def _tensor_spec(number: Any) -> TensorSpec:
    """The spec of the tensor that a number becomes."""
    return TensorType(_DTYPES[kind_of(number).kind], ()).on(as_device(None))


def _row(op: str, y: Any) -> Tensor:
    """The output of an iteration, as a slice of the stacked values."""
    if type(y) is Tensor:
        return y
    if isinstance(y, (bool, int, float, complex, Dim)):
        return as_tensor(y)
    raise _no_tensor(op, y, None)


def _no_tensor(op: str, y: Any, where: str | None) -> TraceError:
    return TraceError(
        f"{op}: an iteration gives a value that cannot be stacked",
        given=type(y).__name__ + (f" from {where}" if where else ""),
        expected="tensors and numbers",
    )
