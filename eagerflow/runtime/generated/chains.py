"""Chains: elementwise ops over one shape, with reads and assignments of variables between them.

A chain is one call. Its intermediate values share memory, and a large chain runs by blocks that
stay in the cache, all its ops on one block before the next. That matters most for an optimiser's
update, which otherwise goes through memory once per op. The results are the same bit for bit: IEEE
754 determines each element of these ops.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, starmap
from math import prod
from operator import call
from typing import Any, Final, TypeAlias, final

import numpy as np

from eagerflow.core.op import find_op, get_op
from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import is_read
from eagerflow.hardware import Device
from eagerflow.resources.variable import VariableState
from eagerflow.runtime.generated.expressions import is_own
from eagerflow.runtime.generated.instructions import Instruction, Instructions
from eagerflow.types import TensorType
from eagerflow_kernels import table

_DTYPES: Final = ("float32", "float64")
#: number of ops from which on a chain is worth a call of its own
_LEAST: Final = 3
#: maximal number of instructions of a chain, as all its locks are held until it ends
_MOST: Final = 64
#: bytes of all arrays of a chain from which on they do not fit into the cache together
_CACHE: Final = 3 << 20
#: bytes of one array in a block
_BLOCK: Final = 1 << 17
#: bytes of one array above which a chain would keep Ctrl-C waiting
_LIMIT: Final = 1 << 26


@final
@dataclass(eq=False)
class Chain:
    """Instructions that run together.

    Attributes:
        kind: the type of all its arrays.
        lines: the instructions, in order.
        inputs: the registers that it takes, whole arrays first.
        whole: number of inputs that are whole arrays; the others hold one element.
        outputs: the registers that are read after it.
        states: its variables, each with the register that its assignment sets, or -1.
    """

    kind: TensorType
    lines: list[Instruction] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    whole: int = 0
    outputs: list[int] = field(default_factory=list)
    states: dict[VariableState, int] = field(default_factory=dict)

    @property
    def by_blocks(self) -> bool:
        """Whether its arrays do not fit into the cache together."""
        arrays = self.whole + len(self.states) + len(self.outputs) + 1
        size: int = prod(self.kind.shape)
        return size * self.kind.dtype.itemsize * arrays >= _CACHE

    @property
    def step(self) -> int:
        """Number of elements of each array in a block."""
        return _BLOCK // self.kind.dtype.itemsize


def assigns(node: Node) -> bool:
    """Whether a node of a chain changes a variable."""
    return get_op(node.op).updates is not None


def function_of(node: Node) -> Any:
    """NumPy's elementwise function for a node of a chain."""
    op = get_op(node.op)
    name = table.original_kernel(op.updates or op.base)
    assert isinstance(name, str)
    return getattr(np, name)


# --- finding them -----------------------------------------------------------------------------


Kernel: TypeAlias = Callable[[Instruction, Node], Any]


def find_chains(
    program: Instructions,
    lines: Sequence[Instruction],
    last: Mapping[int, int],
    kernel: Kernel,
) -> dict[int, Chain]:
    """The chains among the instructions of a block, by the position of their first one.

    Args:
        program: the program of the instructions.
        lines: the instructions of one block.
        last: for each register the index of its last reader.
        kernel: gives the kernel that runs an instruction.
    """
    chains: dict[int, Chain] = {}
    position = 0
    while position < len(lines):
        made = _Finder(program, last, kernel, position).run(lines)
        if made is not None:
            chains[position] = made
        position += len(made.lines) if made is not None else 1
    return chains


@final
class _Finder:
    """Grows one chain from a position on, as far as possible.

    Args:
        program: the program of the instructions.
        last: for each register the index of its last reader.
        kernel: gives the kernel that runs an instruction.
        start: the position of its first instruction.
    """

    def __init__(
        self, program: Instructions, last: Mapping[int, int], kernel: Kernel, start: int
    ) -> None:
        self.program = program
        self.last = last
        self.kernel = kernel
        self.start = start
        self.kind: TensorType | None = None
        self.lines: list[Instruction] = []
        self.joined = 0  # number of lines that are part of it; reads after them may become so
        self.own: set[int] = set()  # the registers that it sets
        self.taken: set[int] = set()  # the registers that it reads
        self.old: dict[VariableState, list[int]] = {}  # registers of values read from variables
        self.states: dict[VariableState, int] = {}

    def run(self, lines: Sequence[Instruction]) -> Chain | None:
        for position, line in enumerate(lines[self.start : self.start + _MOST], self.start):
            if not self._take(line, position):
                break
        return self._made()

    def _take(self, line: Instruction, position: int) -> bool:
        """Whether the chain goes on with this instruction."""
        node = line.single
        if node is None or len(line.outputs) != 1:
            return False
        kind = self.program.kinds[line.outputs[0]]
        device = self.program.devices[line.outputs[0]]
        if not isinstance(kind, TensorType) or not _is_array(kind, device):
            return False
        if not self._fits(line, node, kind):
            return False
        if not self._joins(line, node, position):
            return False
        self.lines.append(line)
        self.own.update(line.outputs)
        if not is_read(node.op):
            self.kind = kind
            self.taken.update(line.inputs)
            self.joined = len(self.lines)
        return True

    def _joins(self, line: Instruction, node: Node, position: int) -> bool:
        """Whether an instruction belongs to the chain; its variable, if any, is noted."""
        if is_read(node.op):
            variable, (register,) = node.attrs["resource"], line.outputs
            self.old.setdefault(variable, []).append(register)
            return variable not in self.states
        if self.joined and self.own.isdisjoint(line.inputs) and not self._shares(line):
            return False
        return not assigns(node) or self._assign(line, node, position)

    def _shares(self, line: Instruction) -> bool:
        """Whether an instruction reads an array that the chain reads, too."""
        return any(r in self.taken and self._is_whole(r) for r in line.inputs)

    def _is_whole(self, register: int) -> bool:
        kind = self.program.kinds[register]
        return isinstance(kind, TensorType) and bool(kind.shape)

    def _fits(self, line: Instruction, node: Node, kind: TensorType) -> bool:
        """Whether a chain can run an instruction, on arrays of type ``kind``."""
        if self.kind is not None and (kind.shape, kind.dtype) != (self.kind.shape, self.kind.dtype):
            return False
        device = self.program.devices[line.outputs[0]]
        if not all(self._is_operand(r, kind, device) for r in line.inputs):
            return False
        op = find_op(node.op)
        if op is None or not ((op.ieee and not node.attrs) or op.updates or op.reads_variable):
            return False
        return is_own(op, self.kernel(line, node))  # not a kernel that a user registered

    def _is_operand(self, register: int, kind: TensorType, device: Device | None) -> bool:
        operand = self.program.kinds[register]
        if not isinstance(operand, TensorType) or operand.dtype is not kind.dtype:
            return False
        if self.program.devices[register] is not device:
            return False
        if not operand.shape:
            return True
        same = _is_array(operand, device) and operand.shape == kind.shape
        return same and register not in self.program.constants

    def _assign(self, line: Instruction, node: Node, position: int) -> bool:
        """Whether a variable may be assigned here: its old value has no later reader."""
        variable = node.attrs["resource"]
        old = self.old.get(variable, ())
        if variable in self.states or any(self.last.get(r, -1) > position for r in old):
            return False
        self.states[variable] = line.outputs[0]
        return True

    def _made(self) -> Chain | None:
        lines = self.lines[: self.joined]
        worth = sum(1 for x in lines if x.node is not None and not is_read(x.node.op))
        if worth < _LEAST or self.kind is None:
            return None
        made = Chain(self.kind, lines)
        end = self.start + len(lines)
        own = {r for line in lines for r in line.outputs}
        taken = dict.fromkeys(r for line in lines for r in line.inputs if r not in own)
        made.inputs = sorted(taken, key=lambda r: not self._is_whole(r))
        made.inputs = [r for r in made.inputs if r not in self.program.constants]
        made.whole = sum(map(self._is_whole, made.inputs))
        made.outputs = [r for line in lines for r in line.outputs if self.last.get(r, -1) >= end]
        for line in lines:
            assert line.node is not None
            if is_read(line.node.op):
                made.states.setdefault(line.node.attrs["resource"], -1)
            elif assigns(line.node):
                made.states[line.node.attrs["resource"]] = line.outputs[0]
        assigned = any(register >= 0 for register in made.states.values())
        return made if assigned or made.by_blocks else None


def _is_array(kind: TensorType, device: Device | None) -> bool:
    """Whether chains support arrays of a type on a device."""
    if kind.dtype.name not in _DTYPES or not kind.shape:
        return False
    if device is None or device.backend.kind != "cpu":
        return False
    if any(type(size) is not int for size in kind.shape):
        return False
    size: int = prod(kind.shape)
    return 0 < size * kind.dtype.itemsize <= _LIMIT


# --- running them -----------------------------------------------------------------------------


def blocks(array: Any, step: int) -> list[Any]:
    """Views of a contiguous array, ``step`` elements each, in order."""
    flat = array.reshape(-1)
    end = flat.size - flat.size % step
    parts = list(flat[:end].reshape(-1, step))
    return [*parts, flat[end:]] if end < flat.size else parts


def scratch(like: Any, step: int) -> list[Any]:
    """The same memory for a block, repeated for each block of ``like``."""
    size = like.size
    part = np.empty(min(step, size), like.dtype)
    count, rest = divmod(size, step)
    return [part] * count + ([part[:rest]] if rest else [])


def sweep(*calls: Iterable[tuple[Any, ...]]) -> None:
    """Run all calls on the first block, then on the next.

    Args:
        calls: for each call its function and arguments, block by block.

    No byte code runs in between, so Ctrl-C cannot interrupt it and leave a variable half changed.
    """
    deque(starmap(call, chain.from_iterable(zip(*calls, strict=True))), maxlen=0)
