"""A graph as instructions over numbered registers: calls inlined, sizes named, lanes known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from eagerflow.core.op import find_op
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Dim
from eagerflow.errors import GraphError
from eagerflow.graph.edit import flat_items, named_axes, named_sizes
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.passes.rewrite import is_pure
from eagerflow.graph.signatures import kind_of
from eagerflow.graph.value_types import NumberType, Reference
from eagerflow.hardware import Device, Lane, as_device, copied, out_of_memory
from eagerflow.source import Source
from eagerflow.types import TensorSpec, TensorType


@final
@dataclass(slots=True, eq=False)
class Block:
    """A branch, the condition or the body of a loop.

    Attributes:
        lines: its instructions, in order.
        outputs: the registers of its results.
    """

    lines: list[Instruction]
    outputs: list[int]

    def reads(self) -> set[int]:
        """The registers that it reads from outside."""
        reads, own = set[int](), set[int]()
        for line in self.lines:
            reads.update(r for r in line.reads if r not in own)
            own.update(line.outputs)
        reads.update(r for r in self.outputs if r not in own)
        return reads


@final
@dataclass(slots=True, eq=False)
class Instruction:
    """An instruction of a program.

    Attributes:
        node: the node that it runs; None where it takes a size of an input of the program.
        inputs: registers that it reads.
        outputs: registers that it sets.
        sizes: the registers of the sizes that its attributes name.
        axis: if given, it takes the size of this axis of its input instead of running the node.
        blocks: the branches, or the condition and the body of a loop.
        carried: of a loop, the loop-carried registers, each set to an input at first; they are
            its first outputs.
        slices: of a scan, the registers of the parts of its further inputs.
        called: if given, it calls the generated function of this name instead of running a node.
        index: its position among all instructions of the program, in the order of the text.
    """

    node: Node | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    sizes: Mapping[str, int]
    axis: int | None = None
    blocks: tuple[Block, ...] = ()
    carried: tuple[int, ...] = ()
    slices: tuple[int, ...] = ()
    called: str = ""
    index: int = 0

    @property
    def reads(self) -> tuple[int, ...]:
        """All registers that must be set before it runs."""
        if not self.blocks:
            return (*self.inputs, *self.sizes.values())
        return tuple(dict.fromkeys([*self.inputs, *self.sizes.values(), *sorted(self.inner)]))

    @property
    def single(self) -> Node | None:
        """The node, unless it takes a size or has blocks."""
        return None if self.axis is not None or self.blocks else self.node

    @property
    def inner(self) -> set[int]:
        """The registers that its blocks read from outside."""
        return set[int]().union(*(b.reads() for b in self.blocks)) - {*self.carried, *self.slices}


@final
class Instructions:
    """The instructions of a graph, as `flatten` returns them.

    Attributes:
        lines: the instructions, in order.
        all: these and the instructions of their blocks, in the order of the text.
        around: for each instruction of `all` the branches and loops around it, the outermost
            first, each with the number of the block.
        kinds: the type of each register; None for sizes.
        devices: the device of each register; None for sizes and numbers, which are on the host.
        constants: the registers that are set for all runs, with their values.
        inputs: the registers of the graph's inputs.
        outputs: the registers of the graph's outputs.
    """

    def __init__(self) -> None:
        self.lines: list[Instruction] = []
        self.all: list[Instruction] = []
        self.around: list[tuple[tuple[Instruction, int], ...]] = []
        self.kinds: list[TensorType | NumberType | None] = []
        self.devices: list[Device | None] = []
        self.constants: dict[int, Any] = {}
        self.inputs: list[int] = []
        self.outputs: list[int] = []

    def register(
        self, kind: TensorType | NumberType | None = None, device: Device | None = None
    ) -> int:
        """A new register."""
        self.kinds.append(kind)
        self.devices.append(device)
        return len(self.kinds) - 1

    def number(
        self, lines: Sequence[Instruction], around: tuple[tuple[Instruction, int], ...] = ()
    ) -> None:
        """Assign indices to instructions, and to the instructions of their blocks."""
        for line in lines:
            line.index = len(self.all)
            self.all.append(line)
            self.around.append(around)
            for i, block in enumerate(line.blocks):
                self.number(block.lines, (*around, (line, i)))

    def lane(self, register: int) -> Lane | None:
        """The lane of a register's value; None for numbers."""
        kind, device = self.kinds[register], self.devices[register]
        if device is None or not isinstance(kind, TensorType):
            return None
        return device.lanes[kind.dtype]

    def specs(self, line: Instruction) -> tuple[TensorSpec, ...]:
        """The types and devices of the inputs of an instruction that runs an op."""
        return tuple([
            kind.on(self.devices[register])
            for kind, register in zip(self.types(line), line.inputs, strict=True)
        ])  # fmt: skip

    def types(self, line: Instruction) -> tuple[TensorType, ...]:
        """The types of the inputs of an instruction that runs an op."""
        types = []
        for register in line.inputs:
            kind = self.kinds[register]
            if not isinstance(kind, TensorType):
                assert line.node is not None
                raise GraphError(
                    f"{line.node.op} takes tensors",
                    given=f"a number for &{line.node.name}",
                    expected="python_tensor in between",
                    source=line_of(line.node),
                )
            types.append(kind)
        return tuple(types)


def flatten(graph: Graph) -> Instructions:
    """The instructions of ``graph``.

    Raises:
        GraphError: the graph has nodes that cannot run, sizes that nothing determines, or
            constants of which it has only the name.
    """
    program = Instructions()
    program.inputs = [program.register(v.type, _device_of(v)) for v in graph.inputs]
    program.outputs = _Scope(program, program.lines, graph, program.inputs, {}, None).run()
    program.number(program.lines)
    return program


@final
class _Scope:
    """A graph that is being flattened: the program's own, the body of a call, or a block.

    Args:
        result: the program.
        lines: the list that its instructions are appended to.
        graph: the graph.
        operands: the registers of its inputs.
        sizes: the registers of sizes that are known around it, by name.
        caller: the node that calls it.
    """

    def __init__(
        self,
        result: Instructions,
        lines: list[Instruction],
        graph: Graph,
        operands: Sequence[int],
        sizes: Mapping[str, int],
        caller: Node | None,
    ) -> None:
        self.result = result
        self.lines = lines
        self.graph = graph
        self.sizes = dict(sizes)
        self.registers: dict[Value, int] = dict(zip(graph.inputs, operands, strict=True))
        self.wanted = set(named_sizes(graph))
        own = set[str]()
        for value in graph.inputs:
            self.name_sizes(value, caller, own)

    def run(self) -> list[int]:
        for node in self.graph.nodes:
            kind = kind_of(node.op)
            if kind == "constant":
                self.constant(node)
            elif kind == "call":
                self.call(node)
            elif kind == "loop":
                self.loop(node)
            elif kind == "branches":
                self.branches(node)
            else:
                self.line(node)
        return [self.registers[v] for v in self.graph.outputs]

    def name_sizes(self, value: Value, node: Node | None, own: set[str]) -> None:
        """Take the sizes that the type of ``value`` is the first to name, if they are wanted."""
        for axis, name in named_axes(value.type):
            known = name in own or (node is value.node and name in self.sizes)
            if name in self.wanted and not known:
                own.add(name)
                register = self.result.register()
                source = (self.registers[value],)
                self.lines.append(Instruction(node, source, (register,), {}, axis))
                self.sizes[name] = register

    def line(self, node: Node) -> None:
        check_given(node)
        inputs = tuple([self.registers[v] for v in node.inputs])
        sizes = self.sizes_of(node, named_sizes(tuple(node.attrs.values())))
        first = self.device(inputs)
        for value in node.outputs:
            self.registers[value] = self.result.register(value.type, _device_of(value, first))
        outputs = tuple([self.registers[v] for v in node.outputs])
        self.lines.append(Instruction(node, inputs, outputs, sizes))
        self.name_outputs(node)

    def name_outputs(self, node: Node) -> None:
        own = set[str]()
        for value in node.outputs:
            self.name_sizes(value, node, own)

    def sizes_of(self, node: Node, names: Iterable[str]) -> dict[str, int]:
        """The registers of the named sizes that ``node`` needs."""
        sizes = {}
        for name in sorted(set(names)):
            if name not in self.sizes:
                raise GraphError(
                    f"the size {name} follows from no input and no result",
                    given=f"the attributes of &{node.name}",
                    expected="a type above that has it as the size of an axis",
                    source=line_of(node),
                )
            sizes[name] = self.sizes[name]
        return sizes

    def device(self, registers: Sequence[int]) -> Device | None:
        """The device of the first tensor."""
        devices = [self.result.devices[r] for r in registers]
        return next((d for d in devices if d is not None), None)

    def constant(self, node: Node) -> None:
        (output,) = node.outputs
        value = node.attrs["value"]
        device = _device_of(output)
        register = self.registers[output] = self.result.register(output.type, device)
        if device is None:
            self.result.constants[register] = value
        elif isinstance(value, Tensor):
            self.result.constants[register] = on_device(value, device)
        else:
            raise GraphError(
                "a constant of the graph was not given", given=repr(value), source=line_of(node)
            )

    def call(self, node: Node) -> None:
        operands = [self.registers[v] for v in node.inputs]
        body = _Scope(self.result, self.lines, node.attrs["body"], operands, self.sizes, node)
        self.registers.update(zip(node.outputs, body.run(), strict=True))
        self.name_outputs(node)

    # --- branches and loops ---

    def block(self, node: Node, graph: Graph, operands: Sequence[int]) -> Block:
        lines: list[Instruction] = []
        scope = _Scope(self.result, lines, graph, operands, self.sizes, node)
        return Block(lines, scope.run())

    def branches(self, node: Node) -> None:
        predicate, *operands = [self.registers[v] for v in node.inputs]
        blocks = tuple([self.block(node, g, operands) for g in node.attrs["branches"]])
        first = self.device((predicate, *operands))
        for value in node.outputs:
            self.registers[value] = self.result.register(value.type, _device_of(value, first))
        outputs = tuple([self.registers[v] for v in node.outputs])
        self.lines.append(Instruction(node, (predicate,), outputs, {}, blocks=blocks))
        self.name_outputs(node)

    def loop(self, node: Node) -> None:
        """Add a loop. Inputs after the carry, as in a `scan`, are sliced."""
        operands = [self.registers[v] for v in node.inputs]
        body: Graph = node.attrs["body"]
        total: int = node.attrs.get("carry", len(operands))
        moving = [i for i in range(total) if body.outputs[i] is not body.inputs[i]]
        inside = list(operands)
        for i in (*moving, *range(total, len(operands))):
            device = _device_of(body.inputs[i], self.device(operands[i : i + 1]))
            inside[i] = self.result.register(body.inputs[i].type, device)
        carried, slices = tuple([inside[i] for i in moving]), tuple(inside[total:])
        graphs = [node.attrs[key] for key in ("cond", "body") if key in node.attrs]
        blocks = [self.block(node, graph, inside) for graph in graphs]
        self.lines += _take_out(blocks, (*carried, *slices), node.attrs.get("length"))
        iteration = blocks[-1]
        iteration.outputs = [iteration.outputs[i] for i in moving] + iteration.outputs[total:]
        first = self.device(operands)
        for i, value in enumerate(node.outputs):
            made = (
                inside[i]
                if i < total
                else self.result.register(value.type, _device_of(value, first))
            )
            self.registers[value] = made
        stacked = [self.registers[v] for v in node.outputs[total:]]
        stacked_shapes = [v.type.shape for v in node.outputs[total:]]
        sizes = self.sizes_of(node, named_sizes((node.attrs.get("length"), stacked_shapes)))
        inputs = tuple([operands[i] for i in (*moving, *range(total, len(operands)))])
        self.lines.append(
            Instruction(
                node, inputs, (*carried, *stacked), sizes,
                blocks=tuple(blocks), carried=carried, slices=slices,
            )
        )  # fmt: skip
        self.name_outputs(node)


def _take_out(blocks: Sequence[Block], varying: Iterable[int], least: Any) -> list[Instruction]:
    """Move loop-invariant instructions out of the blocks of a loop.

    Whether there is an iteration at all may be known only when the program runs. Then instructions
    stay that take long, or that may fail, which they must not without an iteration.

    Args:
        blocks: the condition, if there is one, and the body.
        varying: the registers that iterations set, besides the instructions.
        least: the number of iterations, if it is known: a size.

    Returns:
        The instructions that were moved, in order.
    """
    changing = set(varying)
    runs = type(least) is int and least > 0
    taken: list[Instruction] = []
    for i, block in enumerate(blocks):
        known = runs or i < len(blocks) - 1  # a condition is evaluated at least once
        kept = []
        for line in block.lines:
            if changing.isdisjoint(line.reads) and _may_leave(line, known):
                taken.append(line)
            else:
                kept.append(line)
                changing.update(line.outputs)
        block.lines = kept
    return taken


def _may_leave(line: Instruction, known: bool) -> bool:
    if line.axis is not None:
        return True
    node = line.node
    if node is None or line.blocks or node.control_inputs or not is_pure(node):
        return False
    return known or _only_looks(node)


def _only_looks(node: Node) -> bool:
    """Whether a node gives its operand or a view of it, and never fails."""
    op = find_op(node.op)
    views = op is not None and op.storage in ("same", "view")
    return op is not None and views and op.failing(node.attrs) == "nothing"


def line_of(node: Node) -> Source | None:
    """The user's line, if it is known as a `Source` and not only as text."""
    return node.source if isinstance(node.source, Source) else None


def _device_of(value: Value, operands: Device | None = None) -> Device | None:
    """The device of a value: as the graph says, else that of operands, else the current one.

    None for numbers.
    """
    if isinstance(value.type, NumberType):
        return None
    return as_device(value.device or operands)


def lane_of(value: Value) -> Lane | None:
    """The lane of a value; None for numbers."""
    kind = value.type
    return as_device(value.device).lanes[kind.dtype] if isinstance(kind, TensorType) else None


def on_device(value: Tensor, device: Device) -> Any:
    """The array of a constant on the device."""
    if value.device is device:
        return value._data
    try:
        return copied(value._data, value.device, device)
    except MemoryError as error:
        raise out_of_memory("constant", device, error) from None


def check_given(node: Node) -> None:
    """Refuse a node that refers to an object of which the graph has only the name."""
    for part in flat_items(node.attrs.values()):
        if isinstance(part, Reference):
            raise GraphError(
                f"&{node.name} refers to an object that was not given",
                given=repr(part),
                hint="pass it when the graph is read: Graph.parse(text, resources={...})",
                source=line_of(node),
            )


# --- attributes ----------------------------------------------------------------------


def has_dims(value: Any) -> bool:
    """Whether an attribute holds symbolic sizes."""
    return any(type(part) is Dim for part in flat_items((value,)))
