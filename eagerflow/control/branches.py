"""`cond` and `switch`: run one of several functions, whose results are merged into one type."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from eagerflow.control.apply import apply
from eagerflow.control.structured import Structured
from eagerflow.control.subgraphs import (
    ResultLeaf,
    Subgraph,
    as_truth,
    check_callable,
    join,
    kind_of,
    known_sizes,
    own_handles,
    same_number,
    scalar_of,
    trace_subgraph,
)
from eagerflow.core import tree
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike, tensor_of
from eagerflow.dims import Dim, Size, same
from eagerflow.errors import TraceError, hides_frames
from eagerflow.graph.value_types import ValueSpec
from eagerflow.hardware import current_device_scope
from eagerflow.ops.rules.promotion import weak_fits
from eagerflow.runtime.python_control import choose
from eagerflow.tracing.numbers import TracedNumber
from eagerflow.tracing.numpy_arrays import TracedArray
from eagerflow.tracing.tracer import Tracer, current_tracer

#: the hint where branches return different strings
NO_TEXT: Final = (
    "a text cannot be chosen by a tensor: choose a number with ef.where(condition, 0, 1), return "
    "it, and look the text up outside; or print or raise it in the branches"
)
_KEY: Final = re.compile(r"\['([^']*)'\]")
_NAMES: Final = ("true_fn", "false_fn")


@hides_frames
def cond(
    pred: TensorLike, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: object
) -> Any:
    """``true_fn(*operands)`` if ``pred`` holds, else ``false_fn(*operands)``.

    Eagerly, and for a Python bool, this is Python's ``if``. In a traced function both branches are
    traced into one node, which runs the chosen branch. They must return trees of the same
    structure, with tensors of the same dtypes and ranks; sizes may differ. Both may use enclosing
    variables, and read and assign `Variable` objects; only effects of the chosen branch happen.

    Args:
        pred: a bool, or a bool tensor without axes.
        true_fn: a function that returns a tree of tensors and numbers.
        false_fn: a function that returns a tree of the same structure.
        operands: the arguments of both, trees of tensors, passed by value: an update in place
            within a branch does not reach the caller.

    Raises:
        DTypeError: ``pred`` is not a bool.
        ShapeError: ``pred`` has axes.
        TraceError: the branches return different structures or types, or are not functions.

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
def switch(index: TensorLike, branches: Sequence[Callable[..., Any]], *operands: object) -> Any:
    """``branches[index](*operands)``, as `cond` for more than two branches.

    Args:
        index: an int, or an integer tensor without axes, 0 to ``len(branches) - 1``.
        branches: functions that return trees of the same structure.
        operands: arguments of the chosen branch, as for `cond`.

    Raises:
        TensorIndexError: ``index`` is out of range.
        DTypeError: ``index`` is not an integer.
        ShapeError: ``index`` has axes.
        TraceError: the branches return different structures or types.

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
    """The index as an int, or as an integer tensor without axes."""
    if type(index) is TracedNumber and index.varies and index.kind is int:
        return tensor_of(index)
    if isinstance(index, (int, Dim)) and not isinstance(index, bool):
        return int(index)
    return scalar_of("switch: index", index, "integer")


def _choose(op: str, predicate: Any, functions: Sequence[Callable[..., Any]], operands: Any) -> Any:
    """The result of the chosen function: eagerly by Python, in a trace by a node."""
    tracer = current_tracer()
    if type(predicate) is not Tensor or tracer is None:
        return choose(op, predicate, functions, lambda f: f(*own_handles(operands)))
    names = _NAMES if op == "cond" else [f"branch{i}" for i in range(len(functions))]

    def arguments(part: Tracer) -> Any:
        return tree.map(lambda x: part.add_operand(x) if type(x) is Tensor else x, operands)

    outside = tracer.sizes.names
    parts = [
        trace_subgraph(f, name, tracer, arguments) for f, name in zip(functions, names, strict=True)
    ]
    merged = _Merged(op, parts, tracer, outside)
    captured = join(parts, 0)  # results may capture more values of the outer trace
    chosen = tracer.spec_of(predicate)
    whole = Structured(
        op,
        {"branches": tuple([p.graph for p in parts])},
        [chosen, *[v.spec for v in parts[0].graph.inputs]],
        merged.kinds,
    )
    outputs = iter(apply(whole, [predicate, *captured]))
    leaves = [
        parts[0].as_made(i, next(outputs)) if same is None else same[0]
        for i, same in enumerate(merged.common)
    ]
    return tree.unflatten(parts[0].treedef, leaves)


@final
class _Merged:
    """The results of branches: one type for each leaf, or an error with both lines.

    Args:
        op: for messages.
        parts: the branches, to whose graphs the outputs are added.
        tracer: the trace around them.
        outside: the names of sizes known in that trace.

    Attributes:
        common: for each leaf a tuple of the outer value that all branches return; None if the
            leaf is an output of the node.
        kinds: the types of the outputs.

    Raises:
        TraceError: the structures, or the types of a leaf, are incompatible.
    """

    def __init__(
        self, op: str, parts: Sequence[Subgraph], tracer: Tracer, outside: frozenset[str]
    ) -> None:
        self._op, self._parts = op, parts
        self._tracer, self._outside = tracer, outside
        first = parts[0]
        for other in parts[1:]:
            if other.treedef != first.treedef:
                raise TraceError(
                    f"{op}: the branches give different structures",
                    given=f"{tree.show(first.treedef)} from {first.where}\n"
                    f"    and {tree.show(other.treedef)} from {other.where}",
                    hint="let all branches give the same structure; a value of only one of them "
                    "needs a counterpart in the others, such as zeros",
                )
        self.common: list[tuple[Any] | None] = []
        self.kinds: list[ValueSpec] = []
        for i, leaves in enumerate(zip(*[part.leaves for part in parts], strict=True)):
            self.common.append(self._common(i, leaves))
            if self.common[i] is None:
                self.kinds.append(self._kind(i, leaves))

    def _common(self, i: int, leaves: Sequence[ResultLeaf]) -> tuple[Any] | None:
        """The outer value that all branches return as leaf ``i``, if it is the same in all."""
        first = leaves[0].what
        if all(leaf.kind == "static" for leaf in leaves):
            texts = all(isinstance(leaf.what, str) for leaf in leaves)
            self._check_alike(
                i, [leaf.what for leaf in leaves], "objects", NO_TEXT if texts else None
            )
            return (first,)
        if all(leaf.kind == "number" and same_number(leaf.what, first) for leaf in leaves):
            made = type(first) is TracedNumber and first.tracer is self._parts[0].tracer
            return None if made else (first,)
        return None

    def _check_alike(
        self, i: int, items: Sequence[Any], what: str, hint: str | None = None
    ) -> None:
        """Refuse items of leaf ``i``, one per branch, that are not all equal."""
        for other, item in enumerate(items):
            if item is not items[0] and item != items[0]:
                raise self._differ(i, other, what, hint)

    def _kind(self, i: int, leaves: Sequence[ResultLeaf]) -> ValueSpec:
        """Make leaf ``i`` an output of all graphs; returns its type."""
        self._check_alike(i, [leaf.kind == "static" for leaf in leaves], "kinds of values")
        if any(leaf.kind != "number" for leaf in leaves):
            return self._kind_of_tensors(i, leaves)
        kinds = [kind_of(leaf.what) for leaf in leaves]
        self._check_alike(i, kinds, "kinds of numbers", "write 0.0 for a float")
        for part in self._parts:
            part.graph.outputs.append(part.number(i))
        return kinds[0]

    def _kind_of_tensors(self, i: int, leaves: Sequence[ResultLeaf]) -> ValueSpec:
        first = next(j for j, leaf in enumerate(leaves) if leaf.value is not None)
        tensor: Any = leaves[first].value
        kind = tensor.spec
        shape: list[Size | None] = list(kind.shape)  # None for a size that differs
        for other, leaf in enumerate(leaves):
            if leaf.what.__class__ is not leaves[0].what.__class__ and any(
                type(one.what) is TracedArray for one in leaves
            ):
                hint = "convert the array of NumPy: ef.asarray(...)"
                raise self._differ(i, other, "kinds of arrays", hint)
            if leaf.value is None:
                if shape or not weak_fits(leaf.what, kind.dtype):
                    raise self._differ(i, other, "types", None, first)
                continue
            spec: Any = leaf.value.spec
            if spec.dtype is not kind.dtype:
                hint = "convert one: x.astype(...)"
                if (self._parts[0].said or "").startswith(
                    ("the result of `and`", "the result of `or`")
                ):
                    hint += "; to choose between two values, write `y if x else z`"
                raise self._differ(i, other, "dtypes", hint, first)
            if spec.device is not kind.device:
                scope = current_device_scope()
                there = kind.device if scope is None else scope.home([kind.device, spec.device])
                hint = f"move one: x.to({str(there)!r})"
                raise self._differ(i, other, "devices", hint, first)
            if len(spec.shape) != len(shape):
                raise self._differ(i, other, "numbers of axes", None, first)
            shape = [
                a if a is not None and same(a, b) else None
                for a, b in zip(shape, spec.shape, strict=True)
            ]
        for part in self._parts:
            value = part.leaves[i].value
            part.graph.outputs.append(part.tensor(i, kind) if value is None else value)
        merged: ValueSpec = kind.like(shape=known_sizes(shape, self._outside, self._tracer))
        return merged

    def _differ(
        self, i: int, other: int, what: str, hint: str | None = None, against: int = 0
    ) -> TraceError:
        parts = self._parts
        path = tree.paths(parts[0].treedef)[i]
        texts = [f"{parts[j].leaves[i].text} from {parts[j].line(i)}"
                 for j in sorted((against, other))]  # fmt: skip
        return TraceError(
            f"{_leaf_name(self._op, path, parts[0].said)} is "
            f"{'on' if what == 'devices' else 'of'} different {what} in two branches",
            given=f"{texts[0]}\n    and {texts[1]}",
            hint=hint,
        )


def _leaf_name(op: str, path: str, said: str | None) -> str:
    """The name of a leaf of the result of a branch, for messages.

    Args:
        op: the op.
        path: the path of the leaf.
        said: the Python construct that the branch belongs to; then the keys of the result are
            names of variables, and the empty key is the value of the construct.
    """
    if said is None:
        return f"{op}: result{path}" if path else f"{op}: the result"
    match = _KEY.match(path)
    name = match[1] if match else ""
    return f"{name or said}{path[match.end() :] if match else path}"
