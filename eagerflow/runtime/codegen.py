"""Programs as straight-line Python: one call of a kernel per node, values in local variables.

The text of ``y = exp(x); z = y + x`` is::

    def run(r0):
        r1 = exp_0(r0)
        r2 = add_1(r1, r0)
        del r1, r0
        return (r2,)

A function of many thousand lines would compile slowly, so long programs are several functions.
What one of them leaves to another goes through a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from types import CodeType, FunctionType
from typing import Any, Final, final

from eagerflow.core.execute import Entry, find_entry, lane_key
from eagerflow.core.op import Op, get_op
from eagerflow.dims import Dim, resolving
from eagerflow.errors import DimError, EagerflowError, relocate
from eagerflow.graph.ir import Node
from eagerflow.graph.kinds import NumberType
from eagerflow.hardware import as_device
from eagerflow.runtime.instructions import Instruction, Instructions, has_dims, parts
from eagerflow.runtime.numbers import EXPRESSIONS, broadcast_sizes, power, to_array
from eagerflow.runtime.reuse import pays, reusing
from eagerflow.types import TensorType

__all__ = ["Code", "generate"]

#: instructions of one function
_CHUNK: Final = 256
_FENCES: Final = ("fence", "blocks")
_LITERALS: Final = (int, bool, str, type(None))
_TICKETS: Final = 2**64
_serial: Final = count(1)


@final
class Code:
    """What `generate` gives.

    Attributes:
        run: the program as a function of the values of its inputs; gives a tuple.
        text: its source.
        file: what its code objects have for a file name.
        lines: for each line of the text the index of the instruction that it belongs to, or -1.
    """

    __slots__ = ("file", "lines", "run", "text")

    def __init__(self, name: str, lines: Sequence[str], where: list[int], names: dict[str, Any]):
        self.text = "\n".join(lines)
        self.file = f"<program {next(_serial)}: {name}>"
        self.lines = where
        names["__name__"] = "eagerflow.runtime.generated"  # its frames are none of the user's
        module = compile(self.text, self.file, "exec")
        for inner in module.co_consts:
            if isinstance(inner, CodeType):
                names[inner.co_name] = FunctionType(inner, names)
        self.run: Callable[..., tuple[Any, ...]] = names["run"]


def generate(name: str, program: Instructions, note: Callable[..., float] | None = None) -> Code:
    """Write and compile the program.

    Args:
        name: of the graph.
        program: its instructions.
        note: called after each of them as ``note(index, start, *outputs)``, if given; ``start`` is
            what it gave last.
    """
    with resolving(_undecided):  # an outer trace must not be asked for sizes
        return _Writer(program, note).code(name)


def _undecided(dim: Dim, why: str) -> int:
    raise DimError(f"the size {dim} is not known here", given=why)


@final
class _Writer:
    """Writes one program.

    Args:
        program: its instructions.
        note: as for `generate`.
    """

    def __init__(self, program: Instructions, note: Callable[..., float] | None) -> None:
        self.program = program
        self.noted = note is not None
        #: the global variables of the generated functions
        self.names: dict[str, Any] = {
            "__name__": "eagerflow.runtime.generated",  # so that its frames count as ours
            "broadcast": broadcast_sizes,
            "note": note,
        }
        self._objects: dict[int, str] = {}
        self._made: dict[Any, Any] = {}  # objects that nodes share
        self.text: list[str] = []
        self.where: list[int] = [-1]  # lines are counted from 1
        #: for each generator: the registers of its seed and its ticket, and how many are drawn
        self.tickets: dict[Any, list[int]] = {}
        self.draws: dict[int, tuple[int, int, int]] = {}
        self._reserve()
        self.last = self._last_reads()

    # --- looking ahead ---

    def _reserve(self) -> None:
        """Give draws their tickets, if all can be reserved when the program starts."""
        lines = [(i, x.node) for i, x in enumerate(self.program.lines) if _is_op(x)]
        if any(get_op(node.op).effect in _FENCES for _, node in lines if node is not None):
            return
        for i, node in lines:
            if node is not None and node.op == "next_key":
                state = node.attrs["resource"]
                if state not in self.tickets:
                    seed, ticket = self.program.register(None), self.program.register(None)
                    self.tickets[state] = [seed, ticket, 0]
                seed, ticket, number = self.tickets[state]
                self.draws[i] = seed, ticket, number
                self.tickets[state][2] += 1

    def reads(self, index: int) -> Iterator[int]:
        """The registers that an instruction reads, without those that never change."""
        line = self.program.lines[index]
        constants = self.program.constants
        yield from (r for r in line.reads if r not in constants)
        yield from self.draws.get(index, ())[:2]

    def _last_reads(self) -> dict[int, int]:
        """For each register the index of the last instruction that reads it."""
        found = {r: i for i in range(len(self.program.lines)) for r in self.reads(i)}
        end = len(self.program.lines)
        found.update((r, end) for r in self.program.outputs)
        return found

    # --- the functions ---

    def code(self, name: str) -> Code:
        total = len(self.program.lines)
        if total <= _CHUNK:
            self.add(f"def run({self.registers(self.program.inputs)}):")
            self.prologue()
            for i in range(total):
                self.instruction(i)
                self.forget(i)
            self.add(f" return {self.tuple(map(self.operand, self.program.outputs))}")
        else:
            self.chunks(total)
        return Code(name, self.text, self.where, self.names)

    def chunks(self, total: int) -> None:
        slots = self._slots()
        starts = range(0, total, _CHUNK)
        for start in starts:
            self.add(f"def chunk{start}(V):")
            if self.noted:
                self.add(" t = note(-1, 0.0)")
            self.chunk(start, min(start + _CHUNK, total), slots)
        self.add(f"def run({self.registers(self.program.inputs)}):")
        self.prologue()
        self.add(f" V = [None] * {len(slots)}")
        first = [*self.program.inputs, *(r for t in self.tickets.values() for r in t[:2])]
        for register in first:
            if register in slots:
                self.add(f" V[{slots[register]}] = r{register}")
        if first:
            self.add(f" del {self.registers(first)}")
        for start in starts:
            self.add(f" chunk{start}(V)")
        outputs = [
            f"V[{slots[r]}]" if r in slots else self.operand(r) for r in self.program.outputs
        ]
        self.add(f" return {self.tuple(outputs)}")

    def _slots(self) -> dict[int, int]:
        """Places in the list for registers that are read in another chunk than they are set in."""
        home = {r: i // _CHUNK for i, x in enumerate(self.program.lines) for r in x.outputs}
        slots: dict[int, int] = {}
        for register, last in self.last.items():
            if register in self.program.constants:
                continue
            outside = register not in home or last == len(self.program.lines)
            if outside or last // _CHUNK != home[register]:
                slots[register] = len(slots)
        return slots

    def chunk(self, start: int, end: int, slots: dict[int, int]) -> None:
        here: set[int] = set()
        for i in range(start, end):
            for register in dict.fromkeys(self.reads(i)):
                if register in slots and register not in here:
                    self.add(f" r{register} = V[{slots[register]}]", i)
                    if self.last[register] < end:
                        self.add(f" V[{slots[register]}] = None", i)
                    here.add(register)
            self.instruction(i)
            outputs = self.program.lines[i].outputs
            here.update(outputs)
            for register in outputs:
                if register in slots:
                    self.add(f" V[{slots[register]}] = r{register}", i)
            self.forget(i)

    def prologue(self) -> None:
        for state, (seed, ticket, number) in self.tickets.items():
            self.add(f" r{seed}, r{ticket} = {self.bound(state.reserve, 'reserve')}({number})")
        if self.noted:
            self.add(" t = note(-1, 0.0)")

    def forget(self, index: int) -> None:
        """Drop what no later instruction reads."""
        line = self.program.lines[index]
        dead = [r for r in dict.fromkeys(self.reads(index)) if self.last[r] == index]
        dead += [r for r in line.outputs if r not in self.last]
        if dead:
            self.add(f" del {self.registers(dead)}", index)

    # --- one instruction ---

    def instruction(self, index: int) -> None:
        line = self.program.lines[index]
        node = line.node
        if line.axis is not None:
            text = f"{self.operand(line.inputs[0])}.shape[{line.axis}]"
            self.add(f" r{line.outputs[0]} = {text}", index)
            return
        assert node is not None
        try:
            self.node(index, line, node)
        except EagerflowError as error:
            raise relocate(error, node.source) from None
        if self.noted and not node.op.startswith("python_"):
            outputs = "".join(f", r{r}" for r in line.outputs)
            self.add(f" t = note({index}, t{outputs})", index)

    def node(self, index: int, line: Instruction, node: Node) -> None:
        if index in self.draws:
            seed, ticket, number = self.draws[index]
            make = self.bound(self._key(node), "key")
            self.add(f" r{line.outputs[0]} = {make}(r{seed}, r{ticket} + {number})", index)
        elif node.op.startswith("python_"):
            self.add(f" r{line.outputs[0]} = {self.number(line, node)}", index)
        else:
            self.op(index, line, node)

    def _key(self, node: Node) -> Callable[[int, int], Any]:
        asarray = as_device(node.attrs["device"]).backend.xp.asarray

        def key(seed: int, ticket: int) -> Any:
            return asarray((seed, ticket % _TICKETS), dtype="uint64")

        found: Callable[[int, int], Any] = self._shared(("key", asarray), key)
        return found

    def _shared(self, key: Any, made: Any) -> Any:
        return self._made.setdefault(key, made)

    def number(self, line: Instruction, node: Node) -> str:
        operands = [self.operand(r) for r in line.inputs]
        if node.op == "python_size":
            return self.attribute(node.attrs["size"], line)
        if node.op == "python_tensor":
            lane = self.program.lane(line.outputs[0])
            assert lane is not None
            make = self._shared(("tensor", lane), to_array(lane))
            return f"{self.bound(make, 'tensor')}({operands[0]})"
        if node.op == "python_pow":
            kind = self.program.kinds[line.outputs[0]]
            assert isinstance(kind, NumberType)
            make = self._shared(("power", kind), power(kind.kind))
            return f"{self.bound(make, 'power')}({', '.join(operands)})"
        return EXPRESSIONS[node.op].format(*operands)

    def op(self, index: int, line: Instruction, node: Node) -> None:
        op = get_op(node.op)
        entry, attrs = self.entry(op, line, node)
        kernel = self.reused(entry.kernel, index, line, node)
        words = [self.operand(r) for r in line.inputs]
        words += [f"{key}={self.attribute(value, line)}" for key, value in attrs.items()]
        text = f"{self.bound(kernel, node.op)}({', '.join(words)})"
        if op.moves:
            text += "._data"
        if len(line.outputs) == 1:
            if not _gives_one(op):
                text = f"{self.bound(_only, 'only')}({text})"
            (register,) = line.outputs
            self.add(f" r{register} = {self.wrapped(text, register, entry)}", index)
            return
        targets = ", ".join(f"r{r}" for r in line.outputs)
        self.add(f" {targets} = {text}" if targets else f" {text}", index)
        for register in line.outputs:
            wrapped = self.wrapped(f"r{register}", register, entry)
            if wrapped != f"r{register}":
                self.add(f" r{register} = {wrapped}", index)

    def entry(self, op: Op, line: Instruction, node: Node) -> tuple[Entry, dict[str, Any]]:
        """The kernel, and the attributes that it gets."""
        attrs = node.attrs
        types = self.program.types(line)
        if types:
            lanes = [self.program.lane(r) for r in line.inputs]
            key: Any = lane_key(lanes)  # type: ignore[arg-type]  # all are tensors
        else:
            key = as_device(attrs["device"])
            attrs = {k: v for k, v in attrs.items() if k != "device"}
        found = op.entries.get(key)
        return found or find_entry(op, types, attrs, key), attrs

    def reused(
        self, kernel: Callable[..., Any], index: int, line: Instruction, node: Node
    ) -> Callable[..., Any]:
        """A kernel that writes into the input that the node may overwrite, where that pays."""
        place = node.reuses
        if place is None or node.attrs or len(line.outputs) != 1:
            return kernel
        if self.last.get(line.inputs[place]) != index:  # somebody wants it nevertheless
            return kernel
        kind = self.program.kinds[line.outputs[0]]
        before = self.program.kinds[line.inputs[place]]
        if not isinstance(kind, TensorType) or not isinstance(before, TensorType):
            return kernel
        if kind.dtype is not before.dtype or not pays(kernel, kind):
            return kernel
        found: Callable[..., Any] = self._shared((kernel, place), reusing(kernel, place))
        return found

    def wrapped(self, text: str, register: int, entry: Entry) -> str:
        """An array where NumPy's functions give a scalar."""
        kind = self.program.kinds[register]
        assert kind is not None
        if kind.shape or entry.asarray is None:
            return text
        return f"{self.bound(entry.asarray, 'array')}({text})"

    # --- words ---

    def add(self, line: str, index: int = -1) -> None:
        self.text.append(line)
        self.where.append(index)

    def registers(self, registers: Sequence[int]) -> str:
        return ", ".join([f"r{r}" for r in registers])

    def tuple(self, words: Any) -> str:
        return "(" + "".join(f"{word}, " for word in words) + ")"

    def operand(self, register: int) -> str:
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

    def attribute(self, value: Any, line: Instruction) -> str:
        """An expression for an attribute."""
        if type(value) is Dim:
            return self.size(value, line)
        if not has_dims(value):
            plain = all(type(part) in _LITERALS for part in parts(value))
            return repr(value) if plain else self.bound(value)
        if type(value) is slice:
            ends = (value.start, value.stop, value.step)
            return f"slice({', '.join(self.attribute(v, line) for v in ends)})"
        return self.tuple(self.attribute(v, line) for v in value)

    def size(self, dim: Dim, line: Instruction) -> str:
        """A symbolic size, in Python's syntax, of the registers that hold the sizes of names."""
        names = {name: Dim(f"r{line.sizes[name]}") for name in dim.symbols}
        return f"({dim.substitute(names)})"


def _is_op(line: Instruction) -> bool:
    node = line.node
    return node is not None and line.axis is None and not node.op.startswith("python_")


def _gives_one(op: Op) -> bool:
    """Whether kernels of the op give an array, and never a tuple with one array."""
    result = getattr(op.infer, "__annotations__", {}).get("return")
    return result in ("TensorType", TensorType)


def _only(data: Any) -> Any:
    if type(data) is tuple:
        (data,) = data
    return data
