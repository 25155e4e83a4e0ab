"""Code generation: instructions as straight-line Python, one kernel call per node.

The text of ``y = exp(x); z = y + x`` is::

    def run(r0):
        r1 = exp_0(r0)
        r2 = add_1(r1, r0)
        del r1, r0
        return (r2,)

Branches and loops are Python's own, with the number of the iteration in a variable::

    for k3 in count():
        r5 = less(r2, r1)
        if not r5: break
        r6 = add(r2, r4)
        r2, = r6,
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, final

from eagerflow.core.op import get_op
from eagerflow.dims import resolving
from eagerflow.errors import EagerflowError, relocate
from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import is_number, kind_of
from eagerflow.running_node import CODE_FILE
from eagerflow.runtime.generated.chain_text import ChainText
from eagerflow.runtime.generated.chains import Chain, find_chains
from eagerflow.runtime.generated.expressions import Expressions, to_empty
from eagerflow.runtime.generated.finite_check import FiniteCheck
from eagerflow.runtime.generated.instructions import Block, Instruction, Instructions
from eagerflow.runtime.generated.joint_region_text import JointRegionText
from eagerflow.runtime.generated.lists_in_place import Stacks, find_stacks, stack_lines
from eagerflow.runtime.generated.native_region_text import RegionText
from eagerflow.runtime.generated.program_code import Code, FusedCall
from eagerflow.runtime.generated.staying_operands import Staying, find_staying
from eagerflow.runtime.python_control import choose_branch
from eagerflow.types import LIST, TensorType

if TYPE_CHECKING:
    from eagerflow.compilation.native_regions import JointRegions, Region
    from eagerflow.runtime.generated.native_kernels import NativeProgram
    from eagerflow.runtime.generated.tier_comparison import TierComparison
    from eagerflow_kernels.native.fusion import NativeRegion

_FENCES: Final = ("fence", "blocks")
_serial: Final = count(1)


def generate(
    name: str, program: Instructions, note: Callable[..., float] | None = None, *,
    chains: bool = False, native: NativeProgram | None = None,
    comparison: TierComparison | FiniteCheck | None = None,
) -> Code:  # fmt: skip
    """Write and compile the program.

    Args:
        name: of the graph.
        program: the instructions.
        note: called after each instruction as ``note(index, start, iterations, *outputs)``, if
            given; ``start`` is its last result, ``iterations`` are those of the loops around.
        chains: whether the code is otherwise as without ``note``, which is called without outputs.
            If not, chains are taken apart, and lists are values. Of a chain or kernel, ``note`` is
            called once, with the index of its last instruction.
        native: the kernels to call where there are some; then there are no chains.
        comparison: checks the results of ops and kernels, if given.
    """
    # an outer trace must not be asked for sizes
    return resolving(None).run(
        lambda: _Writer(program, note, chains or note is None, native, comparison).code(name)
    )


#: for each register the position of its last reader in one block
_Last = dict[int, int]


@final
class _Writer:
    """Writer of the text of one program.

    Args:
        program: the instructions.
        note: as for `generate`.
        chains: whether chains may be made.
        native: the kernels, which take the place of chains.
        comparison: as for `generate`.
    """

    def __init__(
        self, program: Instructions, note: Callable[..., float] | None, chains: bool,
        native: NativeProgram | None, comparison: TierComparison | FiniteCheck | None,
    ) -> None:  # fmt: skip
        self.program = program
        self.noted = note is not None
        self.chains = chains and native is None and comparison is None
        self.native = native
        self.comparison = comparison
        #: the instructions of each block with each region as one, by the identity of the block's
        self.planned: dict[int, list[Instruction]] = {}
        #: whether `note` gets values
        self.valued = self.noted and not chains
        #: the last instruction of each chain or region; and by that, the call that runs it
        self.ends: dict[str, int] = {}
        self.calls: dict[int, FusedCall] = {}
        self.kernels: dict[str, NativeRegion] = {}
        #: the functions of regions, which are written once the last readers of values are known,
        #: each with the name of the function that does the same op by op
        self.unwritten: dict[str, tuple[RegionText, str]] = {}
        self.expressions = Expressions(program, note)
        self.text: list[str] = []
        self.where: list[int] = []
        self.indent = " "
        self.iterations: list[str] = []  # the variables of the loops that are being written
        #: functions that the program calls, line by line as in `ChainText`
        self.called: list[tuple[str, int]] = []
        #: for each generator: the registers of its seed and its ticket, and the number of draws
        self.tickets: dict[Any, list[int]] = {}
        self.draws: dict[int, tuple[int, int, int]] = {}
        self.gone: set[int] = set()  # registers that are dropped before their last reader ends
        #: for each instruction in a loop the carried registers whose old values it reads last
        self.fading: dict[int, list[int]] = {}
        #: lists that are Python lists; none where instructions are observed, which takes values
        values = self.valued or comparison is not None
        self.stacks = Stacks() if values or not _has_lists(program) else find_stacks(program)
        self._reserve()
        self.last = self._last_reads()

    # --- looking ahead ---

    def _reserve(self) -> None:
        """Assign tickets to draws, if all can be reserved when the program starts.

        Tickets of a generator with draws in branches or loops are taken one by one.
        """
        nodes = [(x, node) for x in self.program.all if (node := x.single) is not None]
        nodes = [(x, node) for x, node in nodes if not is_number(node.op)]
        if any(get_op(node.op).effect in _FENCES for _, node in nodes):
            return
        draws = [(x, node.attrs["resource"]) for x, node in nodes if get_op(node.op).draws]
        outer = {x.index for x in self.program.lines}
        inside = {id(state) for x, state in draws if x.index not in outer}
        for line, state in draws:
            if id(state) in inside:
                continue
            if state not in self.tickets:
                seed, ticket = self.program.register(None), self.program.register(None)
                self.tickets[state] = [seed, ticket, 0]
            seed, ticket, number = self.tickets[state]
            self.draws[line.index] = seed, ticket, number
            self.tickets[state][2] += 1

    def reads(self, line: Instruction) -> Iterator[int]:
        """The registers that an instruction reads, without constants."""
        constants = self.program.constants
        yield from (r for r in line.reads if r not in constants)
        yield from self.draws.get(line.index, ())[:2]

    def _last_reads(self) -> _Last:
        lines = self.units_of(self.program.lines)
        last = {r: i for i, line in enumerate(lines) for r in self.reads(line)}
        last.update((r, len(lines)) for r in self.program.outputs)
        return last

    def _last_inside(self, block: Block) -> _Last:
        """The last readers within a block of the registers that it sets."""
        lines = self.units_of(block.lines)
        own = {r for line in lines for r in line.outputs}
        last = {r: i for i, line in enumerate(lines) for r in self.reads(line) if r in own}
        last.update((r, len(lines)) for r in block.outputs if r in own)
        return last

    # --- the functions ---

    def code(self, name: str) -> Code:
        self.add(f"def run({self.registers(self.program.inputs)}):")
        for state, (seed, ticket, number) in self.tickets.items():
            reserve = self.expressions.bound(state.reserve, "reserve")
            self.add(f" r{seed}, r{ticket} = {reserve}({number})")
        if self.noted:
            self.add(" t = note(-1, 0.0, ())")
        units = self.units_of(self.program.lines)
        self.lines(units, self.last)
        self.add(f" return {self.expressions.tuple(self.operands(self.program.outputs))}")
        quiet = self.comparison is None and all(line.called in self.kernels for line in units)
        text = [text for text, _ in self.called] + self.text
        where = [-1, *[index for _, index in self.called], *self.where]  # lines are counted from 1
        return self._compiled(name, "\n".join(text), where, quiet)

    def _compiled(self, name: str, text: str, where: list[int], quiet: bool) -> Code:
        """The code of a text; its functions share their globals."""
        file, names = f"{CODE_FILE}{next(_serial)}: {name}>", self.expressions.names
        for inner in compile(text, file, "exec").co_consts:
            if isinstance(inner, CodeType):
                names[inner.co_name] = FunctionType(inner, names)
        chains = {last: call.members for last, call in self.calls.items()}
        return Code(
            names["run"], text, self.program, file, where, self.calls, chains, self.kernels, quiet
        )

    def units_of(self, lines: list[Instruction]) -> list[Instruction]:
        """The instructions of a block as they run, with each region as one."""
        if self.native is None:
            return lines
        planned = self.planned.get(id(lines))
        if planned is None:
            units = self.native.units(lines)
            planned = self.planned[id(lines)] = [one for x in units for one in self.unit(x)]
        return planned

    def lines(self, lines: Sequence[Instruction], last: _Last) -> None:
        for line, first, stop in self.units(lines, last):
            self.instruction(line, last, first)
            self.forget(line, last, first, stop)

    def units(
        self, lines: Sequence[Instruction], last: _Last
    ) -> Iterator[tuple[Instruction, int, int]]:
        """Instructions, each chain as one, with the positions of their first and last one."""
        chains: dict[int, Chain] = {}
        if self.chains:
            chains = find_chains(self.program, lines, last, self.kernel)
        position = 0
        while position < len(lines):
            line, first = lines[position], position
            if position in chains:
                line = self.chain(chains[position])
                position += len(chains[position].lines) - 1
            yield line, first, position
            position += 1

    def kernel(self, line: Instruction, node: Node) -> Any:
        return self.expressions.entry(get_op(node.op), line, node)[0].kernel

    def chain(self, made: Chain) -> Instruction:
        """Write the function of a chain, and another that does the same op by op."""
        name, plain = self.expressions.new("chain"), self.expressions.new("plain")
        text = ChainText(made, self.expressions)
        text.write(name, plain)
        self.op_by_op(plain, Block(made.lines, made.outputs), made.inputs)
        return self.one_call(name, text.lines, made.lines, made.inputs, made.outputs)

    def unit(
        self, unit: JointRegions[Instruction] | Region[Instruction] | Instruction
    ) -> Iterator[Instruction]:
        """A region, a joint call or an instruction of a native plan, as instructions."""
        if isinstance(unit, Instruction):
            yield unit
        elif len(unit.regions) == 1:
            yield self.region(unit.regions[0])
        else:
            yield from self.joint(unit.regions)

    def joint(self, regions: Sequence[Region[Instruction]]) -> Iterator[Instruction]:
        """Write the function of a joint call, and the functions of its regions as a fallback."""
        alone = [self.region(x) for x in regions]
        texts = [self.unwritten[x.called][0] for x in alone if x.called in self.unwritten]
        text = JointRegionText(texts, self.expressions) if self.comparison is None else None
        if text is None or not text.fits:
            yield from alone
            return
        for one in alone:
            region, plain = self.unwritten.pop(one.called)
            region.write(one.called, plain)
            self.called += region.lines
        name = self.expressions.new("updates")
        text.write(name, [one.called for one in alone])
        self.kernels[name] = self.kernels[text.caller] = texts[0].native
        lines = [line for x in regions for line in x.lines]
        yield self.one_call(name, text.lines, lines, text.inputs, text.outputs)

    def region(self, region: Region[Instruction]) -> Instruction:
        """Write the function of a region, and another that does the same op by op."""
        assert self.native is not None
        name, plain = self.expressions.new("region"), self.expressions.new("plain")
        native = self.kernels[name] = self.native.native_region(region.kernel)
        text = RegionText(region, native, self.expressions)
        outputs = text.outputs
        if self.comparison is None:
            self.unwritten[name] = text, plain
        else:
            outputs = [r for line in region.lines for r in line.outputs]
            assert type(self.comparison) is not FiniteCheck  # it needs no kernels
            text.write_compared(name, plain, outputs, self.comparison.of(region))
        self.op_by_op(plain, Block([*region.lines], outputs), text.inputs)
        return self.one_call(name, text.lines, region.lines, text.inputs, text.outputs)

    def op_by_op(self, name: str, block: Block, inputs: Sequence[int]) -> None:
        """Write a function that runs instructions one by one."""
        kept = self.text, self.where, self.indent, self.noted, self.chains, self.native
        self.text, self.where, self.indent, self.noted, self.chains = [], [], " ", False, False
        self.native = None
        self.add(f"def {name}({self.registers(inputs)}):")
        last = self._last_inside(block)
        for i, line in enumerate(block.lines):
            last.update((r, i) for r in line.reads if r in inputs)
        self.lines(block.lines, last)
        self.add(f" return {self.expressions.tuple(self.operands(block.outputs))}")
        self.called += zip(self.text, self.where, strict=True)
        self.text, self.where, self.indent, self.noted, self.chains, self.native = kept

    def one_call(
        self, name: str, text: list[tuple[str, int]], lines: Sequence[Instruction],
        inputs: Sequence[int], outputs: Sequence[int],
    ) -> Instruction:  # fmt: skip
        """One instruction that calls a function of this text in place of ``lines``."""
        self.called += text
        self.ends[name] = lines[-1].index
        kernel = self.kernels[name].loops.name if name in self.kernels else ""
        members = tuple([x.index for x in lines])
        self.calls[lines[-1].index] = FusedCall(kernel, members, tuple(outputs))
        one = Instruction(None, tuple(inputs), tuple(outputs), {}, called=name)
        one.index = lines[0].index
        return one

    def forget(self, line: Instruction, last: _Last, first: int, end: int) -> None:
        """Delete registers that no later instruction reads."""
        dead = [r for r in dict.fromkeys(self.reads(line)) if first <= last.get(r, -1) <= end]
        dead += [r for r in line.outputs if r not in last]
        dead = [r for r in dead if r not in self.gone]
        if dead:
            self.put(f"del {self.registers(dead)}", line)

    # --- one instruction ---

    def instruction(self, line: Instruction, last: _Last, position: int) -> None:
        node = line.node
        if line.axis is not None:
            text = f"{self.expressions.operand(line.inputs[0])}.shape[{line.axis}]"
            self.put(f"r{line.outputs[0]} = {text}", line)
            return
        if line.called:
            if line.called in self.unwritten:
                region, plain = self.unwritten.pop(line.called)
                region.write(
                    line.called, plain, [r for r in line.inputs if last.get(r) == position]
                )
                self.called += region.lines
            targets = "".join(f"r{r}, " for r in line.outputs)
            text = f"{line.called}({self.registers(line.inputs)})"
            self.put(f"{targets}= {text}" if targets else text, line)
            if self.noted:
                end = self.ends[line.called]
                self.add(f"{self.indent}t = note({end}, t, {self.given(line)})", end)
            return
        assert node is not None
        try:
            if line.blocks:
                self.control(line, node, last, position)
                return
            if type(self.comparison) is FiniteCheck:  # it inspects operands, too: keep them intact
                self.node(line, node, lambda _: False, ())
            else:
                fading = self.fading.get(line.index, ())
                self.node(line, node, lambda r: last.get(r) == position, fading)
        except EagerflowError as error:
            raise relocate(error, node.source) from None
        if self.comparison is not None and not is_number(node.op):
            arrays = [self.expressions.tuple(self.operands(x)) for x in (line.inputs, line.outputs)]
            check = self.expressions.bound(self.comparison.check, "check")
            self.put(f"{check}({line.index}, {', '.join(arrays)})", line)
        if self.noted and not is_number(node.op):
            self.put(f"t = note({line.index}, t, {self.given(line)})", line)

    def given(self, line: Instruction) -> str:
        """What `note` is told of an instruction: the iterations, and the values if it gets them."""
        values = [f"r{r}" for r in line.outputs if self.valued]
        return ", ".join([self.expressions.tuple(self.iterations), *values])

    def node(
        self, line: Instruction, node: Node, dead: Callable[[int], bool], fading: Sequence[int]
    ) -> None:
        expressions = self.expressions
        if line.outputs and line.outputs[0] in self.stacks.lists:
            for statement in stack_lines(line, self.stacks, expressions.operand):
                self.put(statement, line)
            return
        under = ""
        if line.index in self.draws:
            text = expressions.draw(*self.draws[line.index])
        elif is_number(node.op):
            text = expressions.number(line, node)
        else:
            text, under = expressions.kernel(line, node, dead, fading)
        targets = self.registers(line.outputs)
        self.put(f"{under}{targets} = {text}" if targets else f"{under}{text}", line)
        if len(line.outputs) > 1:
            for register in line.outputs:
                wrapped = expressions.wrapped(f"r{register}", register, line, node)
                if wrapped != f"r{register}":
                    self.put(f"r{register} = {wrapped}", line)

    # --- branches and loops ---

    def control(self, line: Instruction, node: Node, last: _Last, position: int) -> None:
        if kind_of(node.op) == "branches":
            self.branches(line, node)
            return
        early = [r for r in line.inputs[: len(line.carried)] if last.get(r) == position]
        early = [r for r in dict.fromkeys(early) if r not in line.inner]
        early = [r for r in early if r not in line.inputs[len(line.carried) :]]
        self.move(line.carried, line.inputs[: len(line.carried)], early, line)
        self.gone.update(early)
        self._fade(line)
        self.iterations.append(f"k{line.index}")
        prepared = self.prepare(line)
        (self.scan if node.op == "scan" else self.loop)(line, node)
        if prepared:
            names = [self.expressions.prepared.pop(one) for one in prepared]
            self.put(f"del {', '.join(names)}", line)
        self.iterations.pop()

    def prepare(self, loop: Instruction) -> list[Staying]:
        """Prepare kernels for the operands that stay in a loop, unless a loop around it does."""
        if self.comparison is not None:
            return []
        prepared = self.expressions.prepared
        new = [one for one in find_staying(loop, self.kernel) if one not in prepared]
        for register, prepare in new:
            name = prepared[register, prepare] = f"p{len(prepared)}"
            function = self.expressions.bound(prepare, "prepare")
            self.put(f"{name} = {function}({self.expressions.operand(register)})", loop)
        return new

    def _fade(self, line: Instruction) -> None:
        body = line.blocks[-1]
        for register in set(line.carried).difference(body.outputs):
            readers = [x for x in body.lines if register in x.reads]
            if readers:
                self.fading.setdefault(readers[-1].index, []).append(register)

    def branches(self, line: Instruction, node: Node) -> None:
        predicate = self.expressions.operand(line.inputs[0])
        tests = [f"if {predicate}:", "else:"]
        if node.op == "switch":
            choice = f"b{line.index}"
            choose = self.expressions.bound(choose_branch, "choose")
            self.put(f"{choice} = {choose}({predicate}, {len(line.blocks)})", line)
            tests = [f"{'elif' if i else 'if'} {choice} == {i}:" for i in range(len(line.blocks))]
        for test, block in zip(tests, line.blocks, strict=True):
            self.put(test, line)
            self.block(block, line, line.outputs)

    def loop(self, line: Instruction, node: Node) -> None:
        test, body = line.blocks
        most = node.attrs.get("max_iterations")
        iterations = (
            f"{self.expressions.bound(count, 'count')}()" if most is None else f"range({most})"
        )
        self.put(f"for k{line.index} in {iterations}:", line)
        self.indent += " "
        self.lines(test.lines, self._last_inside(test))
        self.put(f"if not {self.expressions.operand(test.outputs[0])}: break", line)
        if self.noted:  # an iteration with numbers only has no other stop check
            self.put("t = note(-1, t, ())", line)
        self.indent = self.indent[:-1]
        self.block(body, line, line.carried)

    def scan(self, line: Instruction, node: Node) -> None:
        (body,) = line.blocks
        iteration, total = f"k{line.index}", len(line.carried)
        stacked = line.outputs[total:]
        for register in stacked:
            kind, lane = self.program.kinds[register], self.program.lane(register)
            assert kind is not None
            assert lane is not None
            shape = self.expressions.attribute(tuple(kind.shape), line)
            empty = self.expressions.bound(to_empty(lane), "empty")
            self.put(f"r{register} = {empty}({shape})", line)
        iterations = f"range({self.expressions.attribute(node.attrs['length'], line)})"
        if node.attrs.get("reverse"):
            iterations = f"reversed({iterations})"
        self.put(f"for {iteration} in {iterations}:", line)
        self.indent += " "
        for register, whole in zip(line.slices, line.inputs[total:], strict=True):
            self.put(f"r{register} = {self.expressions.operand(whole)}[{iteration}, ...]", line)
        self.indent = self.indent[:-1]
        rows = [f"r{r}[{iteration}, ...]" for r in stacked]
        self.block(body, line, line.carried, rows)

    def block(
        self, block: Block, line: Instruction, targets: Sequence[int], rows: Sequence[str] = ()
    ) -> None:
        """Write the instructions of a block, and the assignments of its outputs."""
        self.indent += " "
        last = self._last_inside(block)
        start = len(self.text)
        self.lines(self.units_of(block.lines), last)
        outputs = block.outputs[len(targets) :]
        for row, register in zip(rows, outputs, strict=True):
            self.put(f"{row} = {self.expressions.operand(register)}", line)
        own = [r for r in dict.fromkeys(block.outputs) if r in last]
        self.move(targets, block.outputs[: len(targets)], own, line)
        if len(self.text) == start:
            self.put("pass", line)
        self.indent = self.indent[:-1]

    def move(
        self, targets: Sequence[int], sources: Sequence[int], dead: Sequence[int],
        line: Instruction,
    ) -> None:  # fmt: skip
        """Assign ``sources`` to ``targets``, all at once, and delete the ``dead`` ones."""
        if targets:
            empty, lists = self.stacks.empty, self.stacks.lists
            values = [
                "[]" if r in empty and to in lists else self.expressions.operand(r)
                for to, r in zip(targets, sources, strict=True)
            ]
            self.put(f"{self.registers(targets)} = {', '.join(values)}", line)
        if dead:
            self.put(f"del {self.registers(dead)}", line)

    # --- lines ---

    def add(self, line: str, index: int = -1) -> None:
        self.text.append(line)
        self.where.append(index)

    def put(self, statement: str, line: Instruction) -> None:
        """Add a statement of an instruction, with the indentation of its block."""
        self.add(f"{self.indent}{statement}", line.index)

    def registers(self, registers: Sequence[int]) -> str:
        return ", ".join([f"r{r}" for r in registers])

    def operands(self, registers: Sequence[int]) -> list[str]:
        return [self.expressions.operand(r) for r in registers]


def _has_lists(program: Instructions) -> bool:
    return any(isinstance(kind, TensorType) and kind.dtype is LIST for kind in program.kinds)
