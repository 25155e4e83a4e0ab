"""Tracing: the interpreter that appends a node for each op instead of running it.

In a trace a tensor is *symbolic*: its lane is the symbolic one of its dtype and device, and its
data is a `Symbol`, a value of the graph. All the rest (operators, methods, public functions, rules
of derivatives) is what runs eagerly.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from threading import get_ident
from typing import Any, Final, NoReturn, final

from eagerflow.core.convert import as_tensor
from eagerflow.core.interpreter import BASE, AbstractInterpreter, Composite, installed, use
from eagerflow.core.op import Op, bind, describe, get_op, infer
from eagerflow.core.symbols import AbstractSymbol
from eagerflow.core.tensor import Tensor, make_tensor
from eagerflow.dims import Dim, resolving
from eagerflow.errors import (
    DeviceError,
    LeakedTensorError,
    TraceError,
)
from eagerflow.graph.effects import EffectOrder
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.kinds import NumberType
from eagerflow.graph.numbers import AbstractRoot, NumberRoot, SizeRoot, TracedNumber
from eagerflow.graph.scopes import current_scope, resource_names
from eagerflow.hardware import Lane
from eagerflow.source import Source, capture, position
from eagerflow.types import TensorType

__all__ = ["Capture", "Symbol", "Tracer", "tracer_of"]

_owners: Final = itertools.count(1)


@final
class Symbol(AbstractSymbol):
    """The data of a symbolic tensor.

    Attributes:
        tracer: the trace that made it.
        value: what it is in the graph.
    """

    __slots__ = ("tracer", "value")

    def __init__(self, tracer: Tracer, value: Value) -> None:
        self.tracer = tracer
        self.value = value
        self.shape = value.type.shape

    def concrete(self, what: str) -> Any:
        return self.tracer.constant_of(self.value, what)

    def leaked(self, what: str) -> NoReturn:
        self.tracer.leaked(self.value, what)


@final
class Capture:
    """A concrete tensor from outside that a trace uses.

    Attributes:
        value: the input of the graph that stands for it.
        handle: a handle that holds it.
        fresh: whether it was made of data while tracing, so that it is a constant.
        source: the line where it was used first.
    """

    __slots__ = ("fresh", "handle", "source", "value")

    def __init__(self, value: Value, handle: Tensor, fresh: bool, source: Source | None) -> None:
        self.value = value
        self.handle = handle
        self.fresh = fresh
        self.source = source


@final
class Tracer(AbstractInterpreter):
    """One trace. It is a context manager: within the block ops are traced, and nothing else runs.

    Args:
        name: of the function.

    Attributes:
        graph: what was traced so far.
        thread: the one that traces.
        captures: the concrete tensors that were used, in the order of their first use.
        numbers: the numbers from outside.
        sizes: the sizes of symbolic dims, by name, in the call that traces.
        static_sizes: the names of those that Python asked for, with what asked and where.
        updated: the handles from outside that got another value, with what they held before.
        looked_at: the concrete tensors whose elements Python has seen, by id of their data.
        effects: the order of effects.
        own_rules: the names of composites with derivatives of their own, of which the graph has
            the ops alone.
    """

    traces = True

    def __init__(self, name: str = "") -> None:
        self.graph = Graph(name)
        self.owner = next(_owners)
        self.thread = get_ident()
        self.captures: dict[int, Capture] = {}  # by id of the data, which the handle keeps alive
        self.numbers: list[NumberRoot] = []
        self.sizes: dict[str, int] = {}
        self.static_sizes: dict[str, tuple[str, Source | None]] = {}
        self.updated: dict[int, tuple[Tensor, Any, Lane, Any]] = {}
        self.effects = EffectOrder()
        self.created_resources: list[Any] = []
        self.own_rules: list[str] = []
        self.looked_at: dict[int, Tensor] = {}
        self._fresh: dict[int, Tensor] = {}
        self._resources: dict[int, str] = {}
        self._tensors: dict[tuple[Value, Lane], Tensor] = {}  # numbers that became tensors
        self._constants: dict[Value, Any] = {}
        self._alive = False

    # --- the block ---

    def __enter__(self) -> Tracer:
        self._alive = True
        # what is installed outside sees the step when it runs, not when it is traced
        self._outside = use(BASE)
        self._outside.__enter__()
        self._inside = installed(self)
        self._inside.__enter__()
        self._resolver = resolving(self.size_of, self.size_number, self.fresh_size)
        self._resolver.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._resolver.__exit__(*exception)
        self._inside.__exit__(*exception)
        self._outside.__exit__(*exception)
        self._alive = False
        del self._resolver, self._inside, self._outside

    def forget(self) -> None:
        """Let go of tensors and resources; what has leaked still knows where it comes from."""
        self.captures = {}
        self.updated = {}
        self.looked_at = {}
        self.created_resources = []
        self._fresh = {}
        self._tensors = {}
        self._constants = {}

    def check_alive(self, what: str) -> None:
        """Refuse the use of a value of this trace after its end."""
        if not self._alive:
            raise LeakedTensorError(
                f"{what} of a number that belongs to a trace which has ended",
                given=f"a number of {self._function}",
                hint="return it from the traced function",
            )

    def check_own(self, number: TracedNumber, what: str) -> None:
        """Refuse a number of another trace, or of this one after its end."""
        number.tracer.check_alive(what)
        if number.tracer is not self:
            raise LeakedTensorError(
                f"{what} of a number that belongs to another trace",
                given=f"a number of {number.tracer._function} in {self._function}",
                hint="return it from the traced function",
            )

    @property
    def _function(self) -> str:
        return f"the traced function {self.graph.name}" if self.graph.name else "a traced function"

    # --- inputs ---

    def add_input(self, kind: TensorType, name: str) -> Tensor:
        """A new input, as a symbolic tensor."""
        return self._symbolic(self.graph.add_input(kind, name))

    def add_number(self, number: complex, name: str, captured: bool = False) -> TracedNumber:
        """A new input that is a Python number, ``number`` in the call that traces.

        Args:
            number: the number.
            name: of the input.
            captured: whether it will be in a place outside, where other threads may meet it.
        """
        kind: Any = type(number)
        root = NumberRoot(self.graph.add_input(NumberType(kind), name), number, captured)
        self.numbers.append(root)
        return TracedNumber(self, root.value, number, (root,))

    def add_size(self, name: str, size: int) -> Dim:
        """A new symbolic size, ``size`` in the call that traces."""
        self.sizes[name] = size
        return Dim(name, self.owner)

    def _symbolic(self, value: Value) -> Tensor:
        kind = value.type
        assert isinstance(kind, TensorType)
        return make_tensor(Symbol(self, value), kind.device.lanes[kind.dtype].twin)

    def value_of(self, x: Tensor) -> Value:
        """What a tensor is in the graph; a concrete one becomes an input."""
        data = x._data
        if type(data) is Symbol:
            if data.tracer is not self:
                data.tracer.leaked(data.value, "use in another trace")
            return data.value
        found = self.captures.get(id(data))
        if found is None:
            name = "constant" if id(data) in self._fresh else "captured"
            value = self.graph.add_input(TensorType(x.dtype, data.shape, x.device), name)
            handle = make_tensor(data, x._lane)
            handle._mark = x._mark
            fresh = id(data) in self._fresh
            found = self.captures[id(data)] = Capture(value, handle, fresh, capture(2))
        return found.value

    def made(self, value: Tensor) -> None:
        self._fresh[id(value._data)] = make_tensor(value._data, value._lane)

    def looked(self, value: Tensor) -> None:
        self.looked_at[id(value._data)] = make_tensor(value._data, value._lane)

    def is_fresh(self, x: Tensor) -> bool:
        """Whether the concrete data of ``x`` was made while tracing."""
        return id(x._data) in self._fresh

    # --- ops ---

    def bind(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        values = [self.value_of(x) for x in inputs]
        types = tuple([v.type for v in values])
        if len(types) > 1:
            self._check_devices(op, types, attrs)
        found = infer(op, types, attrs)  # type: ignore[arg-type]  # all are types of tensors
        several = type(found) is tuple
        code, offset = position(2)
        node = self.graph.add_node(
            op.name,
            values,
            found if several else (found,),
            attrs,
            control_inputs=self.effects.before(op, attrs),
            scope=current_scope(),
            source=None if code is None else Source(code, offset),
        )
        if op.effect != "pure":
            self.effects.add(op, node, attrs)
            self._name_resource(attrs)
        if several:
            return tuple([self._symbolic(v) for v in node.outputs])
        return self._symbolic(node.outputs[0])

    def _check_devices(self, op: Op, types: Sequence[Any], attrs: dict[str, Any]) -> None:
        device = types[0].device
        for kind in types:
            if kind.device is not device:
                raise DeviceError(
                    f"{op.name}: operands sit on different devices",
                    given=describe(op, tuple(types), attrs),
                    expected="all on one device",
                    hint=f"move one with .to('{device}')",
                )

    def _name_resource(self, attrs: dict[str, Any]) -> None:
        resource = attrs.get("resource")
        if resource is not None and id(resource) not in self._resources:
            base = (resource_names.get() or {}).get(id(resource)) or getattr(resource, "name", None)
            base = base or type(resource).__name__.removesuffix("State").lower()
            name, count = base, 0
            while name in self.graph.resources:
                count += 1
                name = f"{base}_{count}"
            self._resources[id(resource)] = name
            self.graph.resources[name] = resource

    def created(self, resource: Any, value: Tensor) -> None:
        """A variable that the function makes gets its first value anew in each run."""
        self.created_resources.append(resource)
        self.bind(get_op("assign"), (value,), {"resource": resource})

    def call(self, composite: Composite, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if composite.own_rule:
            self.own_rules.append(composite.name)
        return super().call(composite, inputs)

    def rebind(self, handle: Tensor, value: Tensor) -> None:
        if type(handle._data) is not Symbol and not self.is_fresh(handle):
            before = (handle, handle._data, handle._lane, handle._mark)
            self.updated.setdefault(id(handle), before)
        BASE.rebind(handle, value)

    # --- numbers ---

    def number(self, op: str, result: Any, *operands: Any) -> TracedNumber:
        """The number that ``op`` makes of others, ``result`` in the call that traces."""
        values, roots = [], dict[AbstractRoot, None]()
        for x in operands:
            if type(x) is TracedNumber:
                self.check_own(x, op)
                values.append(x.value)
                roots.update(dict.fromkeys(x.roots))
            else:
                values.append(self._number_constant(x))
        (output,) = self._number_node(op, values, NumberType(type(result))).outputs
        return TracedNumber(self, output, result, tuple(roots))

    def _number_constant(self, x: complex) -> Value:
        x = int(x) if isinstance(x, bool) else x
        kind: Any = type(x)
        return self._number_node("constant", (), NumberType(kind), value=x).outputs[0]

    def _number_node(self, op: str, values: Iterable[Value], kind: Any, **attrs: Any) -> Node:
        source = capture(3)
        return self.graph.add_node(op, values, (kind,), attrs, scope=current_scope(), source=source)

    def number_tensor(self, x: TracedNumber, lane: Lane) -> Tensor:
        """A number as a tensor without axes, on the lane."""
        self.check_alive("arithmetic with tensors")
        kind = TensorType(lane.dtype, (), lane.device)
        key = (x.value, lane)
        found = self._tensors.get(key)
        if found is None:
            as_tensor(x.number, lane.dtype, lane.device)  # refuses now what does not fit
            node = self._number_node("python_tensor", (x.value,), kind)
            found = self._tensors[key] = self._symbolic(node.outputs[0])
        return make_tensor(found._data, found._lane)

    # --- sizes ---

    def size_of(self, dim: Dim, why: str) -> int:
        """The size in the call that traces; static from then on."""
        for name in dim.symbols:
            if name not in self.sizes or self.owner not in dim.owners:
                raise TraceError(
                    f"{why}: this size depends on data, so it is not known while tracing",
                    given=f"the size {dim}",
                    hint="compute with the size as it is (x.shape[0] in arithmetic and as a shape "
                    "stays symbolic), or call the function eagerly",
                )
            self.static_sizes.setdefault(name, (why, capture(2)))
        return dim.evaluate(self.sizes)

    def size_number(self, dim: Dim) -> TracedNumber:
        """The size as a number that does arithmetic with floats."""
        node = self._number_node("python_size", (), NumberType(int), size=dim)
        known = dim.symbols <= self.sizes.keys()
        number = dim.evaluate(self.sizes) if known else 1
        return TracedNumber(self, node.outputs[0], number, (SizeRoot(dim, self),))

    def fresh_size(self, base: str) -> Dim:
        """A new name for a size that depends on data."""
        name, count = base, 0
        while name in self._names_of_sizes:
            count += 1
            name = f"{base}{count}"
        self._names_of_sizes.add(name)
        return Dim(name, self.owner)

    @property
    def _names_of_sizes(self) -> set[str]:
        if not hasattr(self, "_taken"):
            self._taken = set(self.sizes)
        return self._taken

    # --- when Python asks for values ---

    def constant_of(self, value: Value, what: str) -> Any:
        """The array of a value that follows from constants alone."""
        if not self._alive:
            self.leaked(value, what)
        try:
            return self._evaluate(value)
        except _NotConstantError as error:
            raise TraceError(
                f"{what} of a tensor whose value is known only when the graph runs",
                given=f"%{value.name}: {value.type} in {self._function}"
                + (f", from {error.source}" if error.source else ""),
                hint=_REMEDIES.get(what, _REMEDY),
            ) from None

    def _evaluate(self, value: Value) -> Any:
        """Run what ``value`` needs, if that is made of constants and pure ops."""
        known = self._constants
        if value in known:
            return known[value]
        if value.node is None:
            for found in self.captures.values():
                if found.value is value and found.fresh:
                    return found.handle._data
            raise _NotConstantError(value)
        node = value.node
        if node.op.startswith("python_") or node.op == "constant" or _has_dims(node):
            raise _NotConstantError(value)
        op = get_op(node.op)
        if op.effect != "pure":
            raise _NotConstantError(value)
        inputs = [
            make_tensor(self._evaluate(v), kind.device.lanes[kind.dtype])
            for v in node.inputs
            if isinstance(kind := v.type, TensorType)
        ]
        with use(BASE):
            result = bind(op, *inputs, **node.attrs)
        outputs = result if type(result) is tuple else (result,)
        for v, y in zip(node.outputs, outputs, strict=True):
            known[v] = y._data
        return known[value]

    def leaked(self, value: Value, what: str) -> NoReturn:
        """Raise for the use of a value outside of this trace."""
        where = value.node.source if value.node is not None else None
        made = f", made at {where}" if where is not None else f", an argument of {self._function}"
        raise LeakedTensorError(
            f"{what}: this tensor belongs to a trace{'' if self._alive else ' which has ended'}",
            given=f"%{value.name}: {value.type} of {self._function}{made}",
            hint="return it from the traced function, or keep it in an ef.Variable; of what else a "
            "function does outside, names, attributes and items that are set, and appends to lists "
            "are repeated in each run",
        )


_REMEDY: Final = (
    "return the tensor and look at it outside of the traced function, or use ef.py_call to run "
    "Python code on it in each step"
)
_REMEDIES: Final = {
    "bool()": "choose elements with ef.where(condition, a, b), compute the condition outside, or "
    "do not trace this function",
    "int()": "use the tensor itself as an index, or x.shape[i] for a size",
    "index()": "index with the tensor itself (x[i]), or use x.shape[i] for a size",
}


@final
class _NotConstantError(Exception):
    """A value depends on an input or an effect."""

    def __init__(self, value: Value) -> None:
        self.source = value.node.source if value.node is not None else None


def _has_dims(node: Node) -> bool:
    return any(
        isinstance(v.type, TensorType) and any(isinstance(d, Dim) for d in v.type.shape)
        for v in (*node.inputs, *node.outputs)
    )


def tracer_of(interpreter: AbstractInterpreter) -> Tracer | None:
    """The trace among ``interpreter`` and those below it."""
    while interpreter is not BASE:
        if isinstance(interpreter, Tracer):
            return interpreter
        interpreter = interpreter.below
    return None
