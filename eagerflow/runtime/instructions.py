"""A graph as instructions over numbered registers: calls opened up, sizes named, lanes known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from eagerflow.core.tensor import Tensor
from eagerflow.dims import Dim
from eagerflow.errors import GraphError
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.kinds import NumberType, Reference
from eagerflow.graph.signatures import signatures
from eagerflow.hardware import Device, Lane, as_device
from eagerflow.source import Source
from eagerflow.types import TensorType

__all__ = ["NOT_RUN", "Instruction", "Instructions", "check_given", "flatten", "has_dims",
           "named_axes", "on_device", "parts"]  # fmt: skip

#: nodes that no tier runs yet
NOT_RUN: Final = frozenset(
    op for op in signatures if op not in ("call", "constant") and not op.startswith("python_")
)


@final
@dataclass(slots=True, eq=False)
class Instruction:
    """One line of a program.

    Attributes:
        node: the node that it runs; None where it takes a size of an input of the program.
        inputs: registers that it takes.
        outputs: registers that it sets.
        sizes: the registers of the sizes that its attributes name.
        axis: it takes the size of this axis of its input instead of running the node.
    """

    node: Node | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    sizes: Mapping[str, int]
    axis: int | None = None

    @property
    def reads(self) -> tuple[int, ...]:
        """All registers that must be set before."""
        return (*self.inputs, *self.sizes.values())


@final
class Instructions:
    """What `flatten` gives.

    Attributes:
        lines: the instructions, in order.
        kinds: the type of each register, its device known; None for sizes.
        constants: the registers that are set for all runs, with what they hold.
        inputs: the registers of the graph's inputs.
        outputs: the registers of the graph's outputs.
    """

    def __init__(self) -> None:
        self.lines: list[Instruction] = []
        self.kinds: list[TensorType | NumberType | None] = []
        self.constants: dict[int, Any] = {}
        self.inputs: list[int] = []
        self.outputs: list[int] = []

    def register(self, kind: TensorType | NumberType | None) -> int:
        """A new register."""
        self.kinds.append(kind)
        return len(self.kinds) - 1

    def lane(self, register: int) -> Lane | None:
        """The lane of what a register holds; None for numbers."""
        kind = self.kinds[register]
        if not isinstance(kind, TensorType):
            return None
        lane: Lane = kind.device.lanes[kind.dtype]
        return lane

    def types(self, line: Instruction) -> tuple[TensorType, ...]:
        """The types of the inputs of an instruction that runs an op."""
        found = []
        for register in line.inputs:
            kind = self.kinds[register]
            if not isinstance(kind, TensorType):
                assert line.node is not None
                raise GraphError(
                    f"{line.node.op} takes tensors",
                    given=f"a number for &{line.node.name}",
                    expected="python_tensor in between",
                    source=_source(line.node),
                )
            found.append(kind)
        return tuple(found)


def flatten(graph: Graph) -> Instructions:
    """The instructions of ``graph``.

    Raises:
        GraphError: the graph has nodes that do not run yet, sizes that follow from nothing, or
            constants of which it has only the name.
    """
    found = Instructions()
    found.inputs = [found.register(_placed(v, None, None)) for v in graph.inputs]
    found.outputs = _Scope(found, graph, found.inputs, {}, None).run()
    return found


@final
class _Scope:
    """A graph that is being flattened: the program's own, or the body of a call.

    Args:
        result: where the instructions go.
        graph: the graph.
        operands: the registers of its inputs.
        sizes: the registers of sizes that are known around it, by name.
        caller: the node that calls it.
    """

    def __init__(
        self,
        result: Instructions,
        graph: Graph,
        operands: Sequence[int],
        sizes: Mapping[str, int],
        caller: Node | None,
    ) -> None:
        self.result = result
        self.graph = graph
        self.sizes = dict(sizes)
        self.registers: dict[Value, int] = dict(zip(graph.inputs, operands, strict=True))
        self.wanted = _wanted(graph)
        own = set[str]()
        for value in graph.inputs:
            self.name_sizes(value, caller, own)

    def run(self) -> list[int]:
        for node in self.graph.nodes:
            if node.op == "constant":
                self.constant(node)
            elif node.op == "call":
                self.call(node)
            else:
                self.line(node)
        return [self.registers[v] for v in self.graph.outputs]

    def name_sizes(self, value: Value, node: Node | None, own: set[str]) -> None:
        """Take the sizes that the type of ``value`` is the first to name, if they are wanted."""
        for axis, name in named_axes(value.type):
            known = name in own or (node is value.node and name in self.sizes)
            if name in self.wanted and not known:
                own.add(name)
                register = self.result.register(None)
                source = (self.registers[value],)
                self.result.lines.append(Instruction(node, source, (register,), {}, axis))
                self.sizes[name] = register

    def line(self, node: Node) -> None:
        check_given(node)
        if node.op in NOT_RUN:
            raise GraphError(
                f"{node.op} cannot be run yet", given=f"&{node.name}", source=_source(node)
            )
        inputs = tuple([self.registers[v] for v in node.inputs])
        sizes = {}
        for name in sorted(_names(node)):
            if name not in self.sizes:
                raise GraphError(
                    f"the size {name} follows from no input and no result",
                    given=f"the attributes of &{node.name}",
                    expected="a type above that has it as the size of an axis",
                    source=_source(node),
                )
            sizes[name] = self.sizes[name]
        first = self.device(inputs)
        for value in node.outputs:
            self.registers[value] = self.result.register(_placed(value, node, first))
        outputs = tuple([self.registers[v] for v in node.outputs])
        self.result.lines.append(Instruction(node, inputs, outputs, sizes))
        own = set[str]()
        for value in node.outputs:
            self.name_sizes(value, node, own)

    def device(self, registers: Sequence[int]) -> Device | None:
        lanes = [self.result.lane(r) for r in registers]
        return next((lane.device for lane in lanes if lane is not None), None)

    def constant(self, node: Node) -> None:
        (output,) = node.outputs
        value = node.attrs["value"]
        kind = _placed(output, node, None)
        register = self.registers[output] = self.result.register(kind)
        if isinstance(kind, NumberType):
            self.result.constants[register] = value
        elif isinstance(value, Tensor):
            self.result.constants[register] = on_device(value, kind.device)
        else:
            raise GraphError(
                "a constant of the graph was not given", given=repr(value), source=_source(node)
            )

    def call(self, node: Node) -> None:
        operands = [self.registers[v] for v in node.inputs]
        body = _Scope(self.result, node.attrs["body"], operands, self.sizes, node)
        self.registers.update(zip(node.outputs, body.run(), strict=True))
        own = set[str]()
        for value in node.outputs:
            self.name_sizes(value, node, own)


def _source(node: Node) -> Source | None:
    return node.source if isinstance(node.source, Source) else None


def _placed(value: Value, node: Node | None, first: Device | None) -> TensorType | NumberType:
    """The type of a value with its device: as written, as the node is placed, or as its input."""
    kind = value.type
    if isinstance(kind, NumberType):
        return kind
    asked = node.attrs.get("device") if node is not None else None
    where = kind.device or (node is not None and node.device) or asked or first
    return TensorType(kind.dtype, kind.shape, as_device(where or None))


def on_device(value: Tensor, device: Device) -> Any:
    """The array of a constant on the device."""
    if value.device is device:
        return value._data
    backend = value.device.backend
    return device.backend.from_host(backend.to_host(value._data, value.device), device)


def check_given(node: Node) -> None:
    """Refuse a node that refers to an object of which the graph has only the name."""
    for value in node.attrs.values():
        for part in parts(value):
            if isinstance(part, Reference):
                raise GraphError(
                    f"&{node.name} refers to what was not given",
                    given=repr(part),
                    hint="pass it when the graph is read: Graph.parse(text, resources={...})",
                    source=_source(node),
                )


# --- attributes ----------------------------------------------------------------------


def named_axes(kind: TensorType | NumberType) -> Iterator[tuple[int, str]]:
    """The axes of which the size is a name alone, with the name."""
    sizes: Sequence[Any] = kind.shape
    for axis, size in enumerate(sizes):
        if type(size) is Dim and size.is_name:
            yield axis, str(size)


def parts(value: Any) -> Iterator[Any]:
    """``value``, or what is in it if it is a tuple or a slice, at any depth."""
    if type(value) is slice:
        value = (value.start, value.stop, value.step)
    if type(value) is tuple:
        for item in value:
            yield from parts(item)
    else:
        yield value


def has_dims(value: Any) -> bool:
    """Whether an attribute holds symbolic sizes."""
    return any(type(part) is Dim for part in parts(value))


def _names(node: Node) -> frozenset[str]:
    dims = [p for value in node.attrs.values() for p in parts(value) if type(p) is Dim]
    return frozenset().union(*(d.symbols for d in dims))


def _wanted(graph: Graph) -> set[str]:
    """The names of sizes that occur in attributes, in those of subgraphs too."""
    found = set[str]()
    for node in graph.nodes:
        found |= _names(node)
        for _, inner in node.subgraphs():
            found |= _wanted(inner)
    return found
