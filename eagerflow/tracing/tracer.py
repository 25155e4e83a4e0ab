"""Tracing: the interpreter that appends a node for each op instead of running it.

In a trace a tensor is *symbolic*: its lane is the symbolic lane of its dtype and device, and its
data is a `Symbol`, a value of the graph. All other code (operators, methods, public functions,
rules of derivatives) is the same as in eager mode.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from threading import get_ident
from typing import Any, Final, NoReturn, TypeVar, final
from weakref import ref

from eagerflow.core.abstract_symbols import AbstractSymbol
from eagerflow.core.composites import Composite
from eagerflow.core.infer import infer
from eagerflow.core.interpreter import (
    BASE,
    AbstractInterpreter,
    AbstractTracer,
    current,
    installed,
    isolated,
    stack,
    tracer_among,
    use,
)
from eagerflow.core.op import Op, get_op
from eagerflow.core.placeholders import placeholder
from eagerflow.core.tensor import Tensor, make_tensor
from eagerflow.core.to_tensor import as_tensor
from eagerflow.dims import Dim, resolving, symbols
from eagerflow.errors import DeviceError, TraceError
from eagerflow.graph.devices import devices_of
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.name_scopes import current_forward, current_scope
from eagerflow.graph.value_types import NumberType, ValueSpec
from eagerflow.hardware import Lane, as_device
from eagerflow.hardware.device_rules import common_device
from eagerflow.hardware.device_scopes import anew, part_of_trace
from eagerflow.source import Source, capture, position
from eagerflow.tracing.constant_values import Constants
from eagerflow.tracing.device_errors import with_decisions
from eagerflow.tracing.effect_order import Effectful, EffectOrder
from eagerflow.tracing.numbers import (
    AbstractRoot,
    NumberRoot,
    ResultRoot,
    SizeRoot,
    TracedNumber,
    plain,
)
from eagerflow.tracing.numpy_functions import op_of_numpy
from eagerflow.tracing.symbols import (
    Capture,
    Operand,
    Sizes,
    Symbol,
    composites,
    device_scope,
    foreign_error,
    leaked_error,
    leaked_number,
    traces,
)
from eagerflow.tracing.whole_trace import WholeTrace
from eagerflow.types import DTYPES, TensorType

_T = TypeVar("_T")
_owners: Final = itertools.count(1)


@final
class Tracer(AbstractTracer):
    """One trace. It is a context manager: within the block ops are traced, and none is run.

    Args:
        name: of the function.
        parent: of a branch or the body of a loop, the trace that it is a part of.

    Attributes:
        graph: the graph traced so far.
        parent: the trace that it is a part of, if any.
        whole: what it shares with all parts of the trace of the function.
        operands: values of the trace around it that a part uses.
        begins: of a part, the initial values, in the trace around it, of the part's own inputs.
        parts: the number of its parts so far; a loop that is traced again counts once.
        place: of a part, its number among those of the trace around it, after the place of that.
        thread: the id of the thread that traces.
        captures: the concrete tensors that were used, in the order of their first use.
        numbers: the numbers from outside.
        sizes: the symbolic sizes.
        updated: the handles from outside that got another value, with their old contents.
        follows_updates: of a part, whether its maker handles updates of handles from outside.
        opens: of a part, whether composites in it become their ops alone.
    """

    def __init__(self, name: str = "", parent: Tracer | None = None) -> None:
        self.graph = Graph(name)
        self.parent = parent
        self.whole: WholeTrace = WholeTrace() if parent is None else parent.whole
        self.graph.resources = self.whole.resources
        self.operands: dict[Any, Operand] = {}  # by value of the graph around it, or id of data
        self.begins: dict[Value, Any] = {}
        self.parts = 0
        self.place: tuple[int, ...] = ()
        if parent is not None:
            self.place = (*parent.place, parent.parts)
            parent.parts += 1
        self.owner: int = next(_owners) if parent is None else parent.owner
        self.thread = get_ident()
        self.captures: dict[int, Capture] = {}  # by id of the data, which the handle keeps alive
        self.numbers: list[NumberRoot] = []
        self.sizes: Sizes = Sizes(self.owner) if parent is None else parent.sizes
        self.updated: dict[int, tuple[Tensor, Any, Lane, Any]] = {}
        self._effects: EffectOrder | None = None  # made for the first effect
        self.created_resources: list[Any] = []
        self._fresh: dict[int, Tensor] = {}
        if parent is None:
            traces.add(self)
        self._tensors: dict[tuple[Value, Lane], Tensor] = {}  # numbers that became tensors
        self._constants: Constants | None = None  # made when Python asks for a value
        self.follows_updates = False
        self.opens: bool = parent is not None and parent.opens
        self._alive = False

    # --- the block ---

    def run(self, call: Callable[[], _T]) -> _T:
        """``call()`` within the block, which is closed whatever ends the call: see `isolated`."""
        whole, before = self.whole, self.whole.innermost
        try:
            return isolated(lambda: self._within(call))
        finally:  # no call from here on: Ctrl-C comes before or after
            self._alive, whole.innermost = False, before

    def _within(self, call: Callable[[], _T]) -> _T:
        with self:
            return call()

    def __enter__(self) -> Tracer:
        self._alive, whole = True, self.whole
        resolver = resolving(self.sizes.ask, self.size_number, self.sizes.fresh, self.size_text)
        with ExitStack() as opened:  # if one fails, as at the end of Python's stack, all are closed
            # outer interpreters see the step when it runs, not when it is traced
            if stack.scoped:
                self._open_scope(opened)
            opened.enter_context(use(BASE))
            opened.enter_context(installed(self))
            opened.enter_context(resolver)
            self._opened = opened.pop_all()
        whole.innermost, self._before = self, whole.innermost
        return self

    def _open_scope(self, opened: ExitStack) -> None:
        """Open the device scope anew: moves in the trace belong to the trace."""
        again = anew() if self.parent is None else part_of_trace(current())
        if again is not None:
            opened.enter_context(again)

    def __exit__(self, *exception: Any) -> None:
        self.whole.innermost = self._before
        self._opened.__exit__(*exception)
        self._alive = False
        del self._opened

    def forget(self) -> None:
        """Drop references to tensors and resources; leaked values still know their origin."""
        self.captures, self.operands, self.updated, self.begins = {}, {}, {}, {}
        self.created_resources, self._fresh, self._tensors, self._constants = [], {}, {}, None
        if self.parent is None:
            whole = self.whole
            whole.pinned, whole.looked_at, whole.structures, whole.outside = {}, {}, None, None
            whole.calls, whole.carries, whole.stand_ins = {}, {}, ()
            whole.texts.clear()  # the texts refer to this list

    @property
    def effects(self) -> EffectOrder:
        """The order of effects."""
        if self._effects is None:
            self._effects = EffectOrder()
        return self._effects

    def restore_updated(self) -> None:
        """Restore the contents of updated handles from outside."""
        for handle, data, lane, mark in self.updated.values():
            handle._data, handle._lane, handle._mark = data, lane, mark
        self.updated.clear()

    @property
    def newest(self) -> Node:
        return self.graph.nodes[-1]

    @property
    def is_held(self) -> bool:
        """Whether an object still holds a tensor's data or a number that belongs to the trace."""
        return any(one() is not None for one in self.whole.handed_out)

    @property
    def is_alive(self) -> bool:
        """Whether the trace is under way."""
        return self._alive

    def check_alive(self, what: str) -> None:
        """Refuse the use of a value of this trace after its end."""
        if not self._alive:
            raise leaked_number(what, self.function)

    def check_own(self, number: TracedNumber, what: str) -> None:
        """Refuse a number of another trace, or of this one after its end."""
        number.tracer.check_alive(what)
        if not self.is_within(number.tracer):
            raise leaked_number(what, number.tracer.function, self.function)

    @property
    def root(self) -> Tracer:
        """The trace of the whole function."""
        tracer = self
        while tracer.parent is not None:
            tracer = tracer.parent
        return tracer

    def is_within(self, other: Tracer) -> bool:
        """Whether ``other`` is this trace, or a trace that it is a part of."""
        return other is self or (self.parent is not None and self.parent.is_within(other))

    @property
    def function(self) -> str:
        """The traced function, for messages."""
        return f"the traced function {self.graph.name}" if self.graph.name else "a traced function"

    # --- inputs ---

    def add_input(self, spec: ValueSpec, name: str) -> Any:
        """A new input, as a symbolic tensor or a number."""
        if any(type(size) is not int for size in spec.shape):
            self.sizes.reserve(symbols(spec.shape))
        return self.result(self.graph.add_input(spec.type, name, spec.device))

    def add_number(self, number: complex, name: str, captured: bool = False) -> TracedNumber:
        """A new input that is a Python number, ``number`` in the call that traces.

        Args:
            number: the number.
            name: of the input.
            captured: whether it will be put at an access path, where other threads may read it.
        """
        kind: Any = type(number)
        root = NumberRoot(self.graph.add_input(NumberType(kind), name), number, captured)
        self.numbers.append(root)
        return TracedNumber(self, root.value, number, (root,))

    def _symbolic(self, value: Value) -> Tensor:
        kind: Any = value.type
        device: Any = value.device
        symbol = Symbol(self, value)
        self.whole.handed_out.append(ref(symbol))
        return make_tensor(symbol, device.lanes[kind.dtype].twin)

    def value_of(self, x: Tensor) -> Value:
        """The value of a tensor in the graph; a concrete tensor becomes an input."""
        data = x._data
        if type(data) is Symbol:
            if data.tracer is self:
                return data.value
            if not self.is_within(data.tracer):
                data.tracer.leaked(data.value, "use in another trace")
        if self.parent is not None:
            return self._operand(data.value if type(data) is Symbol else id(data), x)
        entry = self.captures.get(id(data))
        if entry is None:
            name = "constant" if id(data) in self._fresh else "captured"
            value = self.graph.add_input(TensorType(x.dtype, data.shape), name, x.device)
            handle = make_tensor(data, x._lane)
            handle._mark = x._mark
            fresh = id(data) in self._fresh
            entry = self.captures[id(data)] = Capture(value, handle, fresh, capture(2))
        return entry.value

    def _operand(self, key: Any, x: Any) -> Value:
        """The input that stands for a value of the graph around this one."""
        operand = self.operands.get(key)
        if operand is None:
            if type(x) is Tensor:
                symbolic = type(x._data) is Symbol
                kind: Any = x._data.value.type if symbolic else TensorType(x.dtype, x._data.shape)
                device = x._lane.device
                name = x._data.value.name if symbolic else "captured"
                handle = make_tensor(x._data, x._lane)
                handle._mark = x._mark
            else:
                kind, device, name, handle = x.value.type, None, x.value.name, x
            operand = Operand(self.graph.add_input(kind, name, device), handle)
            self.operands[key] = operand
        return operand.value

    def add_operand(self, x: Tensor) -> Tensor:
        """A tensor of the graph around this one, in a handle that may be updated in place."""
        return self._symbolic(self.value_of(x))

    def made(self, value: Tensor) -> None:
        self._fresh[id(value._data)] = make_tensor(value._data, value._lane)
        if self.parent is not None:
            self.parent.made(value)

    def looked(self, value: Tensor) -> None:
        self.whole.looked_at[id(value._data)] = make_tensor(value._data, value._lane)

    def owns(self, x: Tensor) -> bool:
        """Whether ``x`` was made in this trace, and not in a trace around it or outside."""
        data = x._data
        return data.tracer is self if type(data) is Symbol else self.is_fresh(x)

    def is_fresh(self, x: Tensor) -> bool:
        """Whether the concrete data of ``x`` was made while tracing."""
        return id(x._data) in self._fresh

    # --- ops ---

    def bind(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        if self.follows_numpy:
            op = op_of_numpy(op, inputs)
        values = [self.value_of(x) for x in inputs]
        if any(type(x) is TracedNumber for x in attrs.values()):
            attrs = {
                k: plain(x, f"its use as the attribute {k} of {op.name}") for k, x in attrs.items()
            }
        types: Any = [v.type for v in values]
        devices = [x._lane.device for x in inputs]
        if devices and op.devices is common_device and devices.count(devices[0]) == len(devices):
            device, stated = devices[0], None  # most ops
        else:
            try:
                device, stated = devices_of(op, devices, attrs, types)
            except DeviceError as error:
                raise with_decisions(error, values, self) from None
        inferred = infer(op, types, attrs, devices)
        several = type(inferred) is tuple
        effects: Any = () if op.effect == "pure" else ((op.effect, attrs.get("resource")),)
        waits = effects or self._effects is not None
        code, offset = position(2)
        node = self.graph.add_node(
            op.name, values, inferred if several else (inferred,), attrs, devices=stated,
            control_inputs=self.effects.before(effects) if waits else (), device=device,
            scope=current_scope(), source=None if code is None else Source(code, offset),
            forward=current_forward(), within=None if op.moves else device_scope(device),
        )  # fmt: skip
        if op.effect != "pure":
            self.effects.add(node, effects)
            self.whole.name_resource(attrs.get("resource"))
        if several:
            return tuple([self._symbolic(v) for v in node.outputs])
        return self._symbolic(node.outputs[0])

    def created(self, resource: Any, value: Tensor) -> None:
        """Note a variable that the function makes; each run assigns its first value again."""
        if self.parent is not None:
            raise TraceError(
                "a variable is made inside a branch or a loop of a traced function",
                given=repr(resource),
                hint="make it outside, and assign to it inside",
            )
        self.created_resources.append(resource)
        self.bind(get_op("assign"), (value,), {"resource": resource})

    def call(self, composite: Composite, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if composite.node is None and not self.opens:
            if composite.keep is not None or self.parent is not None:
                return composites["keep"](self, composite, inputs)
            if composite.own_rule:
                self.whole.own_rules.append(composite.name)
        return super().call(composite, inputs)

    def rebind(self, handle: Tensor, value: Tensor) -> None:
        if id(handle) in self.whole.pinned:
            raise self.whole.pinned[id(handle)][1]()
        data = handle._data
        own = self.owns(handle)
        if self.parent is not None and not own and not self.follows_updates:
            raise TraceError(
                "a branch or a loop of a traced function updates a tensor from outside in place",
                given=f"{handle.type} in {self.function}",
                hint="return the new value, or keep it in an ef.Variable",
                source=capture(2),
            )
        if (type(data) is not Symbol or self.follows_updates) and not own:
            before = (handle, handle._data, handle._lane, handle._mark)
            self.updated.setdefault(id(handle), before)
        BASE.rebind(handle, value)

    # --- numbers ---

    def number(self, op: str, result: Any, *operands: Any) -> TracedNumber:
        """The number that ``op`` computes, ``result`` in the call that traces."""
        values, roots = [], dict[AbstractRoot, None]()
        for x in operands:
            if type(x) is TracedNumber:
                values.append(self.number_value(x, op))
                roots.update(dict.fromkeys(x.roots))
            else:
                values.append(self._number_constant(x))
        (output,) = self._number_node(op, values, NumberType(type(result))).outputs
        return TracedNumber(self, output, result, tuple(roots))

    def number_value(self, x: Any, what: str) -> Value:
        """The value of a number in the graph."""
        if type(x) is Dim:
            x = self.size_number(x)
        if type(x) is not TracedNumber:
            return self._number_constant(x)
        self.check_own(x, what)
        return x.value if x.tracer is self else self._operand(x.value, x)

    def graph_value(self, x: Any, what: str = "a result") -> Value:
        """The value of a tensor or a number in the graph."""
        return self.value_of(x) if type(x) is Tensor else self.number_value(x, what)

    def compare(self, op: str, *operands: Any) -> Tensor:
        """A comparison of numbers some of which are known only when the graph runs."""
        values = [self.number_value(x, op) for x in operands]
        kind = TensorType(DTYPES["bool"], ())
        node = self._number_node(op, values, kind, as_device(None))
        return self._symbolic(node.outputs[0])

    def structured(
        self, op: str, operands: Sequence[Any], attrs: dict[str, Any],
        specs: Sequence[ValueSpec], effects: Iterable[Effectful],
    ) -> tuple[Any, ...]:  # fmt: skip
        """Append a node with subgraphs; return its outputs, tensors and numbers."""
        values = [self.graph_value(x, op) for x in operands]
        effects = tuple(effects)
        waits = effects or self._effects is not None
        source = capture(2)
        node = self.graph.add_node(
            op, values, [s.type for s in specs], attrs, devices=[s.device for s in specs],
            control_inputs=self.effects.before(effects) if waits else (),
            scope=current_scope(), source=source, forward=current_forward(),
        )  # fmt: skip
        if effects:
            self.effects.add(node, effects)
        for _, resource in effects:  # subgraphs of derivatives may use another name
            self.whole.name_resource(resource)
        return tuple([self.result(v) for v in node.outputs])

    def spec_of(self, x: Any) -> ValueSpec:
        """The type and device that a tensor or a number has in the graph."""
        if type(x) is Tensor:
            rows = isinstance(x._data, AbstractSymbol) and type(x._data) is not Symbol
            return x.type if rows else self.value_of(x).spec
        return NumberType(x.kind if type(x) is TracedNumber else int if type(x) is Dim else type(x))

    def item(self, x: Tensor) -> Any:
        """The element of a tensor without axes, as a number."""
        dtype = x.dtype
        kind = NumberType(int if dtype.is_integer else complex if dtype.is_complex else float)
        return self.result(self._number_node("python_item", (self.value_of(x),), kind).outputs[0])

    def result(self, value: Value) -> Any:
        """A value of the graph as a tensor, or as a number known only when the graph runs."""
        if isinstance(value.type, NumberType):
            root = ResultRoot(value, self)
            return TracedNumber(self, value, value.type.kind(1), (root,))
        return self._symbolic(value)

    def _number_constant(self, x: complex) -> Value:
        x = int(x) if isinstance(x, bool) else x
        kind: Any = type(x)
        return self._number_node("constant", (), NumberType(kind), value=x).outputs[0]

    def _number_node(self, op: str, values: Any, kind: Any, on: Any = None, **attrs: Any) -> Node:
        rest: dict[str, Any] = {"scope": current_scope(), "forward": current_forward()}
        return self.graph.add_node(op, values, (kind,), attrs, device=on, source=capture(3), **rest)

    def number_tensor(self, x: TracedNumber, lane: Lane) -> Tensor:
        """A number as a tensor without axes, on the lane."""
        value = self.number_value(x, "arithmetic with tensors")
        kind = TensorType(lane.dtype, ())
        key = (value, lane)
        tensor = self._tensors.get(key)
        if tensor is None:
            if not x.varies:
                as_tensor(x.number, lane.dtype, lane.device)  # raises now if it does not fit
            node = self._number_node("python_tensor", (value,), kind, lane.device)
            tensor = self._tensors[key] = self._symbolic(node.outputs[0])
        return make_tensor(tensor._data, tensor._lane)

    # --- sizes ---

    def size_number(self, dim: Dim) -> TracedNumber:
        """The size as a number that does arithmetic with floats."""
        node = self._number_node("python_size", (), NumberType(int), size=dim)
        number = dim.evaluate(self.sizes.known) if self.sizes.knows(dim) else 1
        return TracedNumber(self, node.outputs[0], number, (SizeRoot(dim, self),))

    def size_text(self, dim: Dim, spell: Callable[[Any], str]) -> str | None:
        """The text of a size that depends on data; None if it does not."""
        if self.sizes.knows(dim):
            return None
        return self.text(self.size_number(dim), "int", spell)

    def text(self, value: Any, kind: str, spell: Callable[[Any], str]) -> str:
        """A text that shows a value which only the graph knows (see `core.placeholders`)."""
        return placeholder(value, kind, spell, self.whole.texts)

    # --- when Python asks for values ---

    @property
    def constants(self) -> Constants:
        """The values that follow from constants alone."""
        if self._constants is None:
            self._constants = Constants(self)
        return self._constants

    def constants_for(self, value: Value, what: str) -> Constants:
        """The same, where Python asks for a value."""
        if not self._alive:
            self.leaked(value, what)
        return self.constants

    def leaked(self, value: Value, what: str) -> NoReturn:
        """Raise for the use of a value outside of this trace."""
        if not self._alive or get_ident() == self.thread:
            raise leaked_error(value, what, self.function, self._alive)
        held = (x._data for x, *_ in list(self.root.updated.values()))
        if not any(type(data) is Symbol and data.value is value for data in held):
            # only a thread that the function works with can have the value
            self.whole.foreign = foreign_error(value, what, self.function)
        raise foreign_error(value, what, self.function)


def current_tracer() -> Tracer | None:
    """The innermost trace of this thread, if any."""
    return tracer_of(current()) if stack.installed else None


def tracer_of(interpreter: AbstractInterpreter) -> Tracer | None:
    """The trace among ``interpreter`` and those below it."""
    tracer = tracer_among(interpreter)
    return tracer if isinstance(tracer, Tracer) else None
