"""The carry of a loop: its types, and the changes of types that an iteration may make.

A loop is traced twice if a loop-carried number becomes a tensor, or a size changes. Nested loops
would be traced four times, and loops within these eight times, if each began anew. So a loop begins
with the types that it ended with when the trace around it was last traced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import is_not
from typing import Any, NamedTuple, TypeVar, final

from eagerflow.control.subgraphs import (
    ResultLeaf,
    Subgraph,
    is_number,
    kind_of,
    line_of,
    same_number,
)
from eagerflow.core import tree
from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.moves_to_scopes import may_move, to_home
from eagerflow.core.tensor import AbstractArray, Tensor, handle_of
from eagerflow.core.to_tensor import as_tensor, tensor_of
from eagerflow.dims import Dim, same
from eagerflow.errors import TraceError
from eagerflow.graph.ir import Value
from eagerflow.graph.value_types import NumberType
from eagerflow.ops.rules.promotion import weak_fits
from eagerflow.source import Source
from eagerflow.tracing.numbers import VARIES
from eagerflow.tracing.symbols import Symbol
from eagerflow.tracing.tracer import Tracer
from eagerflow.types import TensorSpec, same_shape

_Parts = TypeVar("_Parts", bound=tuple[Subgraph, ...])


def own_leaves(value: Any) -> tuple[list[Any], tree.TreeDef]:
    """The leaves of a tree: tensors in handles of their own, numbers, and other objects.

    Arrays and variables count as their values.
    """
    leaves, treedef = tree.flatten(value, whole=True)
    return [_own(x) for x in leaves], treedef


def _own(x: Any) -> Any:
    if type(x) is Tensor:
        return handle_of(x)
    if isinstance(x, IndexedSlices):
        return x.to_dense()
    if isinstance(x, AbstractArray) or (hasattr(x, "__array__") and not is_number(x)):
        return tensor_of(x) if type(x) is not Dim else x
    return x


# --- eagerly ------------------------------------------------------------------------------------


def next_leaves(
    op: str, before: Sequence[Any], treedef: tree.TreeDef, carry: Any, body: Any
) -> list[Any]:
    """The leaves of the carry after an iteration; a number in place of a tensor becomes one.

    Args:
        op: name of the op, for messages.
        before: the leaves before the iteration.
        treedef: the structure before the iteration.
        carry: the result of the iteration.
        body: the body of the loop.

    Raises:
        TraceError: the structure, a dtype, or the number of axes changed.
    """
    after, after_treedef = own_leaves(carry)
    if after_treedef != treedef:
        raise other_structure(op, treedef, after_treedef, line_of(body))
    for i, (a, b) in enumerate(zip(before, after, strict=True)):
        if type(a) is Tensor and type(b) is Tensor:
            if (a._lane is b._lane or a._lane.twin is b._lane) and len(a.shape) == len(b.shape):
                continue
            if (
                a.dtype is b.dtype and len(a.shape) == len(b.shape)
                and may_move()
            ):  # fmt: skip
                continue
        elif type(a) is type(b) or _becomes(a, b):
            continue
        elif _becomes(b, a):
            after[i] = as_tensor(b, a.dtype, a.device)
            continue
        specs = getattr(a, "type", None), getattr(b, "type", None)
        raise changed(op, treedef, i, specs, (_text(a), _text(b)), None, line_of(body))
    return after


def _becomes(a: Any, b: Any) -> bool:
    """Whether a number may become a tensor like ``b``: without axes, of a dtype that holds it."""
    if type(b) is not Tensor or not isinstance(a, (bool, int, float, complex)):
        return False
    return not b.shape and weak_fits(a, b.dtype)


def _text(x: Any) -> str:
    return str(x.type) if type(x) is Tensor else f"the {type(x).__name__} {x!r}"


def other_structure(op: str, before: tree.TreeDef, after: tree.TreeDef, where: str) -> TraceError:
    """The error for an iteration that changes the structure of the carry."""
    return TraceError(
        f"{op}: an iteration changes the structure of the carry",
        given=f"{tree.show(after)} from {where}",
        expected=f"{tree.show(before)}, as at the start of the loop",
    )


def changed(
    op: str, treedef: tree.TreeDef, i: int, specs: tuple[Any, Any], texts: tuple[str, str],
    first: str | None, where: str,
) -> TraceError:  # fmt: skip
    """The error for an iteration that changes the type or the device of a leaf of the carry.

    Args:
        op: name of the op, for messages.
        treedef: the structure of the carry.
        i: the number of the leaf.
        specs: the types before and after, where these are tensors.
        texts: descriptions of the leaf before and after.
        first: the line where the value before was made, if known.
        where: the line where the value after was made.
    """
    before, after = specs
    what, hint = "type", (
        "start with a value of the type that an iteration gives (0.0 for a float, "
        "x.astype(...), ef.zeros(...)), or convert the result of the iteration"
    )  # fmt: skip
    tensors = isinstance(before, TensorSpec) and isinstance(after, TensorSpec)
    if tensors and before.dtype is after.dtype and len(before.shape) == len(after.shape):
        what, hint = "device", f"move the result of the iteration: x.to({str(before.device)!r})"
    path = tree.paths(treedef)[i]
    return TraceError(
        f"{op}: an iteration changes the {what} of the carry{' at ' + path if path else ''}",
        given=f"{texts[1]} after an iteration, from {where}",
        expected=f"{texts[0]}, which the loop starts with" + (f", from {first}" if first else ""),
        hint=hint,
    )


# --- in a trace ---------------------------------------------------------------------------------


class _CarryLeaf(NamedTuple):
    """A leaf of the carry.

    Attributes:
        kind: its type; None for an object that is the same in all iterations.
        start: its value before the first iteration.
        loose: the axes whose size changes from iteration to iteration.
        stays: for a number, whether it was taken as constant, now or in an earlier trace.
    """

    kind: TensorSpec | NumberType | None
    start: Any
    loose: frozenset[int] = frozenset()
    stays: bool = False


def _still(leaf: _CarryLeaf) -> _CarryLeaf:
    """The leaf, taken as constant if it is a number not yet known to change."""
    number = isinstance(leaf.kind, NumberType) and not leaf.stays
    return _CarryLeaf(None, leaf.start, stays=True) if number else leaf


def _is_needed(leaf: _CarryLeaf, before: _CarryLeaf, result: ResultLeaf) -> bool:
    """Whether an iteration changes the sizes that were loosened in ``leaf``."""
    if not isinstance(leaf.kind, TensorSpec):
        return True
    if result.value is None:
        return False
    grown = zip(leaf.kind.shape, result.value.type.shape, strict=True)
    others = [axis for axis, (a, b) in enumerate(grown) if not same(a, b)]
    return leaf.loose - before.loose <= set(others)


def _begun_as(leaf: _CarryLeaf) -> Any:
    """The type with which a leaf begins, without its sizes."""
    kind = leaf.kind
    return (kind.dtype, len(kind.shape), kind.device) if isinstance(kind, TensorSpec) else kind


@final
class Carry:
    """The carry of a loop that is traced.

    Args:
        op: name of the op, for messages.
        tracer: the trace around the loop.
        leaves: the leaves of the initial carry.
        treedef: their structure.
        names: their names.
        body: the user's function.

    Attributes:
        count: the number of leaves that are values of the graph.
    """

    def __init__(
        self, op: str, tracer: Tracer, leaves: Sequence[Any], treedef: tree.TreeDef,
        names: Sequence[str], body: Callable[..., Any],
    ) -> None:  # fmt: skip
        self.op = op
        self.tracer = tracer
        self.treedef = treedef
        self.names = names
        self.leaves = [self._carry_leaf(x) for x in leaves]
        self._params: list[Value | None] = []  # inputs of the subgraph entered last
        self._first: Exception | None = None  # the reason why numbers are held constant
        self._begun = self.leaves
        code = getattr(getattr(body, "__func__", body), "__code__", None)
        self._key = (*tracer.place, tracer.parts, code, *map(_begun_as, self.leaves))
        self._guessed = False  # whether the types of the last trace are tried
        self._guess()

    def settle(self, trace: Callable[[], _Parts]) -> _Parts:
        """Trace the subgraphs until the body returns the types that it takes.

        Args:
            trace: traces the subgraphs once; the body is the last of them.

        Raises:
            TraceError: no types fit.
        """
        first = self.tracer.parts
        while True:
            failed: Exception | None = None
            self.tracer.parts = first
            try:
                parts = trace()
            except (TraceError, ArithmeticError, LookupError) as error:
                failed = error
            if failed is not None:  # and no exception is being handled
                self._hold(failed)
            elif self._fits(parts[-1]):
                return parts

    def _guess(self) -> None:
        """Begin with the types that the loop had when the outer trace was last traced."""
        known = self.tracer.whole.carries.get(self._key)
        if known is not None:
            self.leaves = [self._as_before(a, b) for a, b in zip(self.leaves, known, strict=True)]
            self._guessed = any(map(is_not, self._begun, self.leaves))

    def _as_before(self, leaf: _CarryLeaf, known: _CarryLeaf) -> _CarryLeaf:
        kind, became = leaf.kind, known.kind
        if isinstance(kind, TensorSpec):
            return self._loosened(leaf, kind, known.loose)
        if isinstance(kind, NumberType) and became is None:
            return _CarryLeaf(None, leaf.start, stays=True)
        if isinstance(became, TensorSpec) and weak_fits(leaf.start, became.dtype):
            return _CarryLeaf(became, as_tensor(leaf.start, became.dtype, became.device))
        return leaf

    def _guessed_wrong(self) -> bool:
        """Begin again with the initial types if types were guessed; returns whether they were."""
        if not self._guessed:
            return False
        self.leaves, self._guessed = self._begun, False
        return True

    def _carry_leaf(self, x: Any) -> _CarryLeaf:
        if isinstance(x, bool):
            x = as_tensor(x)
        if type(x) is Tensor:
            kind: Any = self.tracer.spec_of(x)
            return _CarryLeaf(kind, x)
        if type(x) is Dim or is_number(x):
            return _CarryLeaf(kind_of(x), x)
        return _CarryLeaf(None, x)

    @property
    def count(self) -> int:
        return sum(leaf.kind is not None for leaf in self.leaves)

    @property
    def starts(self) -> list[Any]:
        """The initial tensors and numbers of the loop."""
        return [leaf.start for leaf in self.leaves if leaf.kind is not None]

    @property
    def kinds(self) -> list[Any]:
        """The types of the final values of the loop."""
        kinds = []
        for kind, _, loose, _ in self.leaves:
            if isinstance(kind, TensorSpec):
                kind = self._freshened(kind, loose)
            if kind is not None:
                kinds.append(kind)
        return kinds

    def enter(self, part: Tracer) -> list[Any]:
        """Add the leaves as inputs to a subgraph; returns them."""
        named = list(zip(self.leaves, self.names, strict=True))
        inputs = [part.add_input(leaf.kind, name) for leaf, name in named if leaf.kind is not None]
        part.begins.update(zip(part.graph.inputs, self.starts, strict=True))
        own = iter(part.graph.inputs)
        self._params = [None if leaf.kind is None else next(own) for leaf in self.leaves]
        return self.leave(inputs)

    def _hold(self, error: Exception) -> None:
        """Take the numbers as constants: Python asked for a value that iterations may not change.

        If an iteration changes it, the number is loop-carried, and the request for it is an error.

        Raises:
            Exception: ``error``, or the error of the first trace, if constants do not help.
        """
        if self._guessed_wrong():
            return
        held = [_still(leaf) for leaf in self.leaves]
        if not getattr(error, "wrong", "").endswith(VARIES) or held == self.leaves:
            raise self._first or error
        self.leaves, self._first = held, error

    def moved(self, leaves: Sequence[Any]) -> list[Any]:
        """The leaves of an initial carry, moved to the devices where iterations leave them."""
        pairs = zip(leaves, [leaf.kind for leaf in self.leaves], strict=True)
        return [
            x.to(kind.device) if type(x) is Tensor and isinstance(kind, TensorSpec) else x
            for x, kind in pairs
        ]

    def leave(self, outputs: Sequence[Any]) -> list[Any]:
        """The leaves after the loop, from the outputs of the node."""
        rest = iter(outputs)
        return [leaf.start if leaf.kind is None else next(rest) for leaf in self.leaves]

    def _fits(self, body: Subgraph) -> bool:
        """Whether an iteration returns the types that it takes; else other types are set up.

        Raises:
            TraceError: no other types help.
        """
        if body.treedef != self.treedef:
            raise other_structure(self.op, self.treedef, body.treedef, body.where)
        before = self.leaves
        if self._guessed and not self._is_right(body):
            return not self._guessed_wrong()
        self.leaves = [self._next(i, body) for i in range(len(before))]
        if any(map(is_not, before, self.leaves)):
            return False
        # without their values, which refer to the trace
        self.tracer.whole.carries[self._key] = [x._replace(start=None) for x in self.leaves]
        body.graph.outputs = [
            self._output(i, leaf.kind, body)
            for i, leaf in enumerate(self.leaves)
            if leaf.kind is not None
        ]
        return True

    def _is_right(self, body: Subgraph) -> bool:
        """Whether an iteration confirms the types that were guessed."""
        try:
            after = [self._next(i, body) for i in range(len(self.leaves))]
        except TraceError:
            return False
        every = zip(self.leaves, after, self._begun, body.leaves, strict=True)
        return all(
            leaf is before or (now is leaf and _is_needed(leaf, before, result))
            for leaf, now, before, result in every
        )

    def _next(self, i: int, body: Subgraph) -> _CarryLeaf:
        """Leaf ``i`` of the carry after an iteration with the results of ``body``."""
        leaf, result = self.leaves[i], body.leaves[i]
        if leaf.kind is None:
            return self._next_static(i, body)
        if isinstance(leaf.kind, TensorSpec):
            return self._next_tensor(i, leaf.kind, body)
        if result.kind == "number" and kind_of(result.what) == leaf.kind:
            same_one = getattr(result.what, "value", None) is self._params[i]
            return _CarryLeaf(None, leaf.start, stays=True) if same_one and not leaf.stays else leaf
        spec = result.value.spec if result.value is not None else None
        if isinstance(spec, TensorSpec) and not spec.shape and weak_fits(leaf.start, spec.dtype):
            return _CarryLeaf(spec, as_tensor(leaf.start, spec.dtype, spec.device))
        raise self._changed(i, body)

    def _next_static(self, i: int, body: Subgraph) -> _CarryLeaf:
        leaf, result = self.leaves[i], body.leaves[i]
        if leaf.stays:
            if result.kind == "number" and same_number(result.what, leaf.start):
                return leaf
            return _CarryLeaf(kind_of(leaf.start), leaf.start, stays=True)
        if result.kind != "static" or (result.what is not leaf.start and result.what != leaf.start):
            raise self._changed(i, body)
        return leaf

    def _next_tensor(self, i: int, kind: TensorSpec, body: Subgraph) -> _CarryLeaf:
        leaf, result = self.leaves[i], body.leaves[i]
        if result.value is None:
            if kind.shape or result.kind == "static" or not weak_fits(result.what, kind.dtype):
                raise self._changed(i, body)
            return leaf
        spec: Any = result.value.spec
        if spec.dtype is not kind.dtype or len(spec.shape) != len(kind.shape):
            raise self._changed(i, body)
        if spec.device is not kind.device:
            begun = self._begun[i].kind
            moved = isinstance(begun, TensorSpec) and kind.device is not begun.device
            if moved or not may_move():
                raise self._changed(i, body)
            start = to_home(leaf.start, spec.device)  # the loop starts there instead
            return _CarryLeaf(kind.type.on(spec.device), start, leaf.loose)
        if same_shape(kind.shape, spec.shape):
            return leaf
        sizes = enumerate(zip(kind.shape, spec.shape, strict=True))
        return self._loosened(leaf, kind, {axis for axis, (a, b) in sizes if not same(a, b)})

    def _loosened(self, leaf: _CarryLeaf, kind: TensorSpec, axes: Collection[int]) -> _CarryLeaf:
        """The leaf with sizes that may change along ``axes``."""
        loose = leaf.loose.union(axes)
        if loose == leaf.loose:
            return leaf
        return _CarryLeaf(self._freshened(kind, loose - leaf.loose), leaf.start, loose)

    def _freshened(self, kind: TensorSpec, axes: Collection[int]) -> TensorSpec:
        """The type with new names for the sizes of ``axes``."""
        fresh = self.tracer.sizes.fresh
        sizes: Any = [fresh("size") if i in axes else d for i, d in enumerate(kind.shape)]
        return kind.like(shape=tuple(sizes))

    def _output(self, i: int, kind: Any, body: Subgraph) -> Value:
        value = body.leaves[i].value
        if value is not None:
            return value
        return body.number(i) if isinstance(kind, NumberType) else body.tensor(i, kind)

    def _changed(self, i: int, body: Subgraph) -> TraceError:
        start = self.leaves[i].start
        first = None
        if type(start) is Tensor:
            node = start._data.value.node if type(start._data) is Symbol else None
            source = None if node is None else node.source
            first = str(source) if isinstance(source, Source) else None
        result = body.leaves[i]
        specs = self.leaves[i].kind, None if result.value is None else result.value.spec
        texts = _text(start), result.text
        return changed(self.op, self.treedef, i, specs, texts, first, body.line(i))
