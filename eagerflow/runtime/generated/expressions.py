"""Constants, kernels, attributes and sizes as Python expressions in generated code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final, final

import numpy as np

from eagerflow.core.execute import ResolvedKernel, resolve_kernel
from eagerflow.core.op import Op, get_op
from eagerflow.core.op_records.op_facts import InlineSite
from eagerflow.core.to_tensor import scalar
from eagerflow.dims import Dim
from eagerflow.dims.polynomial import broadcast_sizes
from eagerflow.errors import GraphError
from eagerflow.graph.edit import flat_items
from eagerflow.graph.ir import Node
from eagerflow.graph.number_ops import NUMBER_OPS
from eagerflow.graph.passes.rewrite import may_be_large
from eagerflow.graph.signatures import kind_of
from eagerflow.graph.value_types import NumberType
from eagerflow.hardware import Lane, as_device
from eagerflow.hardware.kernel_library import is_native_form
from eagerflow.runtime.generated.buffer_reuse import reusing
from eagerflow.runtime.generated.instructions import Instruction, Instructions, has_dims
from eagerflow.runtime.generated.staying_operands import Staying
from eagerflow.types import LIST, TensorType
from eagerflow_kernels import table
from eagerflow_kernels.table import preparation

#: the module name of generated functions, so that their frames count as the framework's
GENERATED: Final = "eagerflow.runtime.generated.generated_tier"

_LITERALS: Final = (int, bool, str, type(None))
_TICKETS: Final = 2**64


@final
class Expressions:
    """Expressions of one program, and the global variables that they name.

    Args:
        program: the instructions.
        note: as for `eagerflow.runtime.generated.codegen.generate`.

    Attributes:
        names: the global variables of the generated functions.
        truths: the registers of comparisons of numbers that only serve as predicates.
    """

    def __init__(self, program: Instructions, note: Callable[..., float] | None) -> None:
        self.program = program
        self.names: dict[str, Any] = {
            "__name__": GENERATED,
            "broadcast": broadcast_sizes,
            "note": note,
        }
        self.truths = _predicates(program)
        #: the names of kernels that are prepared for operands that stay in the loops around
        self.prepared: dict[Staying, str] = {}
        self._objects: dict[int, str] = {}
        self._functions = 0

    # --- nodes ---

    def draw(self, seed: int, ticket: int, number: int) -> str:
        """The key of a draw, whose ticket is ``number`` more than that in the register."""
        make = self.bound(to_key, "key")
        return f"{make}(r{seed}, r{ticket} + {number})"

    def number(self, line: Instruction, node: Node) -> str:
        """The expression of a node that computes a number, or with one."""
        operands = [self.operand(r) for r in line.inputs]
        if node.op == "python_size":
            return self.attribute(node.attrs["size"], line)
        if node.op == "python_tensor":
            lane = self.program.lane(line.outputs[0])
            assert lane is not None
            return f"{self.bound(to_array(lane), 'tensor')}({operands[0]})"
        if node.op == "python_item":
            return f"{operands[0]}.item()"
        op = NUMBER_OPS[node.op]
        if op.widens:
            kind = self.program.kinds[line.outputs[0]]
            assert isinstance(kind, NumberType)
            return f"{self.bound(power(kind), 'power')}({', '.join(operands)})"
        text = op.source.format(*operands)
        lane = self.program.lane(line.outputs[0])
        if lane is None or line.outputs[0] in self.truths:
            return text
        return f"{self.bound(to_array(lane), 'tensor')}({text})"

    def kernel(
        self, line: Instruction, node: Node, dead: Callable[[int], bool], fading: Sequence[int] = ()
    ) -> tuple[str, str]:
        """The call of the kernel of an op, and the text that precedes its statement, if any.

        Args:
            line: the instruction.
            node: its node.
            dead: whether a register has no reader after the instruction.
            fading: loop-carried registers whose old value has no reader after the instruction.
        """
        op = get_op(node.op)
        entry, attrs = self.entry(op, line, node)
        kernel = self.reused(entry.kernel, line, node, dead, fading)
        operands = [self.operand(r) for r in line.inputs]
        # a native kernel gives the same bits as the inline expression
        if op.inline is not None and (is_own(op, kernel) or is_native_form(op.name, kernel)):
            types = self.program.types(line)
            site = InlineSite(operands, types, node.attrs, len(node.outputs), self.bound)
            inlined = op.inline(site)
            if inlined is not None:
                return inlined
        name = self.prepared_for(line, kernel)
        if name:
            del operands[-1]
        operands += [f"{key}={self.attribute(value, line)}" for key, value in attrs.items()]
        text = f"{name or self.bound(kernel, node.op)}({', '.join(operands)})"
        if op.moves:
            text += "._data"
        if len(line.outputs) == 1:
            if op.outputs != 1:
                text = f"{self.bound(_only, 'only')}({text})"
            text = self.wrapped(text, line.outputs[0], line, node)
        return text, ""

    def prepared_for(self, line: Instruction, kernel: Callable[..., Any]) -> str:
        """The name of the kernel prepared for the last operand; empty if there is none."""
        prepare = preparation(kernel) if self.prepared else None
        return "" if prepare is None else self.prepared.get((line.inputs[-1], prepare), "")

    def entry(self, op: Op, line: Instruction, node: Node) -> tuple[ResolvedKernel, dict[str, Any]]:
        """The kernel of an instruction, and the attributes that it gets."""
        attrs = node.attrs
        if self.program.types(line):
            lanes = tuple(map(self.program.lane, line.inputs))
            key: Any = lanes[0] if len(set(lanes)) == 1 else lanes
        else:
            key = as_device(attrs["device"])
            attrs = {k: v for k, v in attrs.items() if k != "device"}
        entry = op.resolved.get(key)
        return entry or resolve_kernel(op, self.program.specs(line), attrs, key), attrs

    def reused(
        self, kernel: Callable[..., Any], line: Instruction, node: Node,
        dead: Callable[[int], bool], fading: Sequence[int],
    ) -> Callable[..., Any]:  # fmt: skip
        """``kernel``, or a version that writes into a dead operand, where that pays."""
        position = node.reuses
        if position is None and fading:
            position = next((i for i, r in enumerate(line.inputs) if r in fading), None)
        elif position is not None and not dead(line.inputs[position]):  # it still has a reader
            return kernel
        if position is None or node.attrs or len(line.outputs) != 1:
            return kernel
        kind = self.program.kinds[line.outputs[0]]
        before = self.program.kinds[line.inputs[position]]
        if not isinstance(kind, TensorType) or not isinstance(before, TensorType):
            return kernel
        fits = type(kernel) is np.ufunc and kernel.nout == 1 and kind.dtype is before.dtype
        return reusing(kernel, position) if fits and may_be_large(kind) else kernel

    def wrapped(self, text: str, register: int, line: Instruction, node: Node) -> str:
        """``text``, converted to an array where NumPy's functions give a scalar."""
        kind = self.program.kinds[register]
        op = get_op(node.op)
        entry, _ = self.entry(op, line, node)
        assert kind is not None
        is_list = isinstance(kind, TensorType) and kind.dtype is LIST
        if kind.shape or entry.asarray is None or is_list or op.array_scalars:
            return text
        return f"{self.bound(entry.asarray, 'array')}({text})"

    # --- parts ---

    def tuple(self, items: Any) -> str:
        """The expression of a tuple of expressions."""
        return "(" + "".join(f"{item}, " for item in items) + ")"

    def operand(self, register: int) -> str:
        """The name of a register's local variable, or of its constant."""
        constants = self.program.constants
        return self.bound(constants[register]) if register in constants else f"r{register}"

    def bound(self, value: Any, hint: str = "constant") -> str:
        """The name of a global variable that holds ``value``, made of ``hint`` and a number."""
        name = self._objects.get(id(value))
        if name is None:
            name = f"{hint if hint.isidentifier() else 'op'}_{len(self._objects)}"
            self._objects[id(value)] = name
            self.names[name] = value
        return name

    def new(self, hint: str) -> str:
        """A new name for a function."""
        self._functions += 1
        return f"{hint}{self._functions}"

    def attribute(self, value: Any, line: Instruction) -> str:
        """The expression of an attribute."""
        if type(value) is Dim:
            return self.size(value, line)
        if not has_dims(value):
            plain = all(type(part) in _LITERALS for part in flat_items((value,)))
            return repr(value) if plain else self.bound(value)
        if type(value) is slice:
            ends = (value.start, value.stop, value.step)
            return f"slice({', '.join(self.attribute(v, line) for v in ends)})"
        return self.tuple(self.attribute(v, line) for v in value)

    def size(self, dim: Dim, line: Instruction) -> str:
        """A symbolic size as a Python expression over the registers of named sizes."""
        names = {name: Dim(f"r{line.sizes[name]}") for name in dim.symbols}
        return f"({dim.substitute(names)})"


def _predicates(program: Instructions) -> set[int]:
    """The registers of comparisons of numbers that are read only as predicates."""
    compared, used = set[int](), set[int](program.outputs)
    for line in program.all:
        node = line.node
        number = NUMBER_OPS.get(node.op) if node is not None and line.axis is None else None
        if number is not None and number.compares:
            compared.update(line.outputs)
        op = node.op if node is not None and line.blocks else ""
        used.update(line.inputs[1:] if kind_of(op) == "branches" else line.inputs)
        for block in line.blocks[1:] if op == "while_loop" else line.blocks:
            used.update(block.outputs)
    return compared - used


def _only(data: Any) -> Any:
    if type(data) is tuple:
        (data,) = data
    return data


@cache
def power(kind: NumberType) -> Callable[[Any, Any], Any]:
    """``**`` that checks the kind of its result, as ``2 ** -1`` is a float."""

    def raise_to(base: Any, exponent: Any) -> Any:
        result = base**exponent
        if type(result) is not kind.kind:
            raise GraphError(
                f"{base!r} ** {exponent!r} is a {type(result).__name__}",
                expected=f"a {kind.kind.__name__}, as when the function was traced",
            )
        return result

    return raise_to


def to_key(seed: int, ticket: int) -> Any:
    """The key of a draw from a seed and a ticket, in the memory of the host."""
    return np.asarray((seed, ticket % _TICKETS), dtype="uint64")


@cache
def to_empty(lane: Lane) -> Callable[[tuple[int, ...]], Any]:
    """A function that makes an uninitialised array of a shape."""
    return partial(lane.device.xp.empty, dtype=lane.dtype.dtype)


@cache
def to_array(lane: Lane) -> Callable[[Any], Any]:
    """A function from a number to an array without axes, as `eagerflow.core.to_tensor.scalar`."""

    def general(value: Any) -> Any:
        return scalar(value, lane)._data

    if lane.device.backend.array_type is not np.ndarray:
        return general
    dtype, array = lane.dtype.dtype, np.array

    def make(value: Any) -> Any:
        try:
            return array(value, dtype)
        except (OverflowError, ValueError):
            return general(value)  # raises the proper error

    return make


def is_own(op: Op, kernel: Callable[..., Any]) -> bool:
    """Whether ``kernel``, as in a resolved entry, is the op's original one, for NumPy.

    A native kernel counts as well: for ops of IEEE 754 it gives the same bits.
    """
    own = table.original_kernel(op.base)
    if isinstance(own, str):
        return kernel is getattr(np, own, None) or is_native_form(op.name, kernel)
    return own is not None and getattr(kernel, "func", None) is own
