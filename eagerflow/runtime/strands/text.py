"""The text of a strand: its statements as a generator of Python.

Where it has to wait it gives up control, by ``yield`` of the object that it waits for. A variable
is set to None after its last use; before it where that is a region, which may then write into the
array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import count, takewhile
from types import CodeType, FunctionType
from typing import Any, Final, final

from eagerflow.events import step_of
from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import lead_of
from eagerflow.runtime.generated.generated_tier import RegionCode
from eagerflow.runtime.generated.written_before_failure import Written
from eagerflow.runtime.node_region_graphs import region_graph
from eagerflow.runtime.python_control import choose_branch
from eagerflow.runtime.strands.run import AtOnce, Begin
from eagerflow.runtime.strands.statements import (
    Assign,
    Await,
    Guard,
    Late,
    Leave,
    LoopStatement,
    PassOver,
    ReadOnHost,
    Repeat,
    RunRegion,
    Statement,
    all_of,
)
from eagerflow.runtime.strands.translation import TranslatedPartition

_serial: Final = count()
_INDENT: Final = "    "
_CHOICE: Final = "c"  # the prefix of variables that hold the number of a branch


@final
class StrandCode:
    """A translated partition, compiled.

    Args:
        translated: the partition.
        edges: the number of each edge.
        routes: the number of the route of each edge.
        told: whether it publishes its present iterations, for events.
        send: gives for a Send the function that makes the value to send; None if unchanged.
        begins: for each op that may have to wait the function that begins it.
        at_once: gives for a node of such an op the function that runs it while it need not wait.

    Attributes:
        start: the generator function, of edges, routes, the run, and the inputs. It returns the
            outputs.
        text: its source.
        file: the file name of its code object.
        lines: for each line the node that it belongs to, and the loops around.
    """

    __slots__ = ("file", "lines", "start", "text")

    def __init__(
        self, translated: TranslatedPartition, edges: dict[str, int], routes: dict[str, int], *,
        told: bool, send: Callable[[Node], Callable[[Any], Any] | None],
        begins: Mapping[str, Begin], at_once: AtOnce,
    ) -> None:  # fmt: skip
        writer = _Writer(translated, edges, routes, told, send, begins, at_once)
        writer.write()
        self.lines = writer.where
        self.text = "\n".join(writer.lines)
        self.file = f"<strand {next(_serial)}: {translated.partition.graph.name}>"
        module = compile(self.text, self.file, "exec")
        (code,) = [one for one in module.co_consts if isinstance(one, CodeType)]
        self.start: Callable[..., Any] = FunctionType(code, writer.names)


def _constant(translated: TranslatedPartition, node: Node) -> Any:
    """The raw value of a constant, as in regions."""
    graph, _, _ = region_graph(translated.partition.graph, [node], {}, {node.outputs[0]: [None]})
    return RegionCode(graph, translated.number, graph.name).plain().run()[0]


def _common(known: Guard | None, other: Guard) -> Guard:
    """The branches that two guards have in common."""
    if known is None:
        return other
    same = takewhile(lambda pair: pair[0] == pair[1], zip(known, other, strict=False))
    return tuple([pair[0] for pair in same])


@final
class _Writer:
    """Writer of the text of one strand."""

    def __init__(
        self, translated: TranslatedPartition, edges: dict[str, int], routes: dict[str, int],
        told: bool, send: Callable[[Node], Callable[[Any], Any] | None],
        begins: Mapping[str, Begin], at_once: AtOnce,
    ) -> None:  # fmt: skip
        self.translated = translated
        self.begins = begins
        self.at_once = at_once
        self.edges = edges
        self.routes = routes
        self.told = told
        self.send = send
        self.lines: list[str] = []
        self.where: list[tuple[Node | None, tuple[LoopStatement, ...]]] = [
            (None, ())
        ]  # lines count from 1
        self.loops: tuple[LoopStatement, ...] = ()
        self.names: dict[str, Any] = {
            "__name__": __name__, "choose": choose_branch, "count": count,
        }  # fmt: skip
        self.guards: dict[str, Guard] = {}  # of the variables that the block makes
        self.kept = {*translated.outputs}
        self.read = Counter(_leaves(translated.statements))
        self.objects: dict[int, str] = {}

    def write(self) -> None:
        translated = self.translated
        for name, node in translated.constants.items():
            self.names[name] = _constant(translated, node)
        self.line(0, "def strand(edges, routes, run, inputs):")
        everything = [*all_of(translated.statements)]
        used = {one.node.attrs["edge"] for one in everything if isinstance(one, PassOver)}
        for edge in sorted(used, key=self.edges.__getitem__):
            self.line(1, f"e{self.edges[edge]} = edges[{self.edges[edge]}]")
        sent = {
            self.routes[n.attrs["edge"]]
            for one in everything if isinstance(one, Repeat) for n in one.sends
        }  # fmt: skip
        for route in sorted(sent):
            self.line(1, f"a{route} = routes[{route}]")
        if translated.inputs:
            self.line(1, f"{', '.join(translated.inputs)}, = inputs")
            self.line(1, "inputs.clear()")
        self.block(translated.statements, translated.inputs, set(), 1)
        self.line(1, f"return ({''.join(f'{name}, ' for name in translated.outputs)})")
        self.line(1, "yield")  # makes the function a generator even if it never waits

    def line(self, depth: int, text: str, node: Node | None = None) -> None:
        self.lines.append(_INDENT * depth + text)
        self.where.append((node, self.loops))

    # --- blocks ---

    def block(
        self, statements: Sequence[Statement], own: Iterable[str], after: Set[str], depth: int
    ) -> None:
        """Write statements, and drop their variables, and ``own``, after the last use.

        Args:
            statements: the statements.
            own: more variables that can be dropped.
            after: of a loop, the variables that are read after it.
            depth: of the indentation.
        """
        around, self.guards = self.guards, dict.fromkeys(own, ())
        last = dict.fromkeys(own, -1)
        for i, one in enumerate(statements):
            for name in one.makes:
                last[name] = i
                self.guards[name] = _common(self.guards.get(name), one.guard)
            for name in one.reads:
                if name in last:
                    last[name] = i
            if isinstance(one, Leave):
                last.update(dict.fromkeys(after & last.keys(), i))
        drops: dict[int, list[str]] = {}
        for name, i in last.items():
            if name not in self.kept and not name.startswith(_CHOICE):
                drops.setdefault(i, []).append(name)
        for i, one in enumerate(statements):
            inner = depth + self.condition(one.guard, depth)
            dying = self.statement(one, drops.get(i, []), inner)
            for guard in dict.fromkeys([one.guard, *map(self.guards.__getitem__, dying)]):
                names = [name for name in dying if self.guards[name] == guard]
                if names:
                    there = inner if guard == one.guard else depth + self.condition(guard, depth)
                    self.line(there, f"{' = '.join(names)} = None")
        self.guards = around

    def condition(self, guard: Guard, depth: int) -> int:
        if guard:
            self.line(depth, f"if {' and '.join([f'{c} == {port}' for c, port in guard])}:")
        return bool(guard)

    # --- statements ---

    def statement(self, one: Statement, dying: list[str], depth: int) -> list[str]:
        """Write a statement; returns the dying variables that are still to be dropped."""
        if isinstance(one, RunRegion):
            return self.run(one, dying, depth)
        if isinstance(one, Await):
            return self.wait(one, dying, depth)
        if isinstance(one, LoopStatement):
            self.loop(one, depth)
        elif isinstance(one, Leave):
            self.line(depth, f"if {one.reads[0]}: break")
        elif isinstance(one, Repeat):
            self.repeat(one, depth)
            return [name for name in dying if name not in one.later]
        elif isinstance(one, PassOver):
            self.crossing(one, depth)
        elif isinstance(one, ReadOnHost):
            read, of = self.named("n", one.node), self.named("d", one.device)
            self.line(depth, f"awaited = run.read({read}, {one.reads[0]}, {of})", one.node)
            self.taken(one.makes, one.node, depth)
        elif isinstance(one, Assign):
            self.late(one.late, one.node, depth)
            self.line(depth, f"{one.makes[0]} = {one.text}", one.node)
        return dying

    def gone(self, one: RunRegion | Await, dying: list[str]) -> list[str]:
        """The operands of a statement that nothing reads after it."""
        return [n for n in dict.fromkeys(one.reads) if n in dying and self.guards[n] == one.guard]

    def run(self, one: RunRegion, dying: list[str], depth: int) -> list[str]:
        gone = self.gone(one, dying)
        given = f"[{', '.join(one.reads[::-1])}]"
        self.late(one.late, one.nodes[0], depth)
        self.at(depth)
        if gone:
            self.line(depth, f"given = {given}")
            self.line(depth, f"{' = '.join(gone)} = None")
            given = "given"
        made = "".join(f"{name}, " for name in one.makes)
        name = f"r{one.region}"
        self.names[name] = one.code.run
        if one.is_heavy:
            self.names[f"n{name}"] = one.nodes[0]
            writes = self.writes(name, one.nodes)
            apart = f"run.apart({name}, n{name}, {given}{writes and ', '}{writes})"
            self.line(depth, f"awaited = {apart}", one.nodes[0])
            if gone:
                self.line(depth, "given = None")
            self.taken(one.makes, one.nodes[0], depth)
        else:
            writes = self.writes(name, one.nodes)
            if writes:
                self.line(depth, f"run.writing = {writes}")
            self.line(depth, f"{made + '= ' if made else ''}{name}({given})", one.nodes[0])
            self.wrote(name, one.nodes, depth)
        return [name for name in dying if name not in gone]

    def wait(self, one: Await, dying: list[str], depth: int) -> list[str]:
        name, given = f"b{one.number}", f"[{', '.join(one.reads)}]"
        self.names[name], self.names[f"n{name}"] = self.begins[one.node.op], one.node
        prepare = self.at_once.get(one.node.op)
        quick = None if prepare is None else prepare(one.node)
        made = "".join(f"{name}, " for name in one.makes)
        gone = self.gone(one, dying)
        drop = f"{' = '.join(gone)} = None" if gone else ""
        self.at(depth)
        begun = ""
        if quick is not None:
            self.names[f"q{one.number}"] = quick
            begun = ", awaited"
            self.line(depth, f"awaited = q{one.number}({given})", one.node)
            self.line(depth, "if type(awaited) is not tuple:")
        inner = depth + bool(begun)
        self.line(inner, f"awaited = run.begin({name}, n{name}, {given}{begun})", one.node)
        if drop:
            self.line(inner, drop)
        self.line(inner, "while not awaited.over: yield awaited")
        self.line(inner, "awaited = awaited.take()", one.node)
        if drop and begun:
            self.line(depth, drop)
        if made:
            self.line(depth, f"{made}= awaited")
            self.line(depth, "awaited = None")
        self.wrote(name, [one.node], depth)
        return [name for name in dying if name not in gone]

    def late(self, late: Late, node: Node, depth: int) -> None:
        """Wait for values that the host reads next."""
        for name, backend in late:
            reader, of = self.named("n", node), self.named("d", backend)
            self.line(depth, f"awaited = run.late({reader}, {name}, {of})", node)
            self.line(depth, "while not awaited.over: yield awaited")

    def named(self, letter: str, value: Any) -> str:
        """The name of a global variable that holds an object."""
        name = self.objects.setdefault(id(value), f"_{letter}{len(self.objects)}")
        self.names[name] = value
        return name

    def taken(self, makes: Sequence[str], node: Node, depth: int) -> None:
        """Wait for values that another thread may bring, and take them."""
        self.line(depth, "while not awaited.over: yield awaited")
        made = "".join(f"{name}, " for name in makes)
        self.line(depth, f"{made + '= ' if made else ''}awaited.take()", node)

    def writes(self, name: str, nodes: Sequence[Node]) -> str:
        """The name of the record of what nodes write; empty if they write nothing."""
        writes = Written.by(nodes)
        if writes is None:
            return ""
        self.names[f"w{name}"] = writes
        return f"w{name}"

    def wrote(self, name: str, nodes: Sequence[Node], depth: int) -> None:
        writes = self.writes(name, nodes)
        if writes:
            self.line(depth, f"run.written.add({writes})")

    def crossing(self, one: PassOver, depth: int) -> None:
        edge = f"e{self.edges[one.node.attrs['edge']]}"
        if lead_of(one.node.op) == "receive":
            self.line(depth, f"while not {edge}.values: yield {edge}")
            if one.late is not None:
                self.line(depth, f"awaited = {edge}.take()", one.node)
                self.taken(one.makes, one.late, depth)
            else:
                self.line(depth, f"{''.join(f'{n} = ' for n in one.makes)}{edge}.take()", one.node)
            return
        text = one.reads[0] if one.reads else "None"
        made = self.send(one.node)
        if made is not None:
            self.at(depth)
            self.names[f"m{edge}"] = made
            text = f"m{edge}({text})"
            if one.late is not None:
                text = f"run.moved({self.named('n', one.node)}, {one.reads[0]}, {text})"
        self.line(depth, f"{edge}.send({text})", one.node)

    def at(self, depth: int) -> None:
        """Publish the present iterations, if events have listeners."""
        if not self.told:
            return
        self.names["step_of"] = step_of
        frames = [f"({loop.name!r}, {loop.counted})" for loop in self.loops]
        self.line(depth, f"step_of.frames = ({''.join(f'{frame}, ' for frame in frames)})")

    # --- loops ---

    def loop(self, loop: LoopStatement, depth: int) -> None:
        around, self.loops = self.loops, (*self.loops, loop)
        self.line(depth, f"for {loop.number} in count():", loop.node)
        inside = Counter(_leaves([loop]))
        outside = {n for n in loop.makes if self.read[n] > inside[n] or n in self.kept}
        self.block(loop.items, loop.merges, outside, depth + 1)
        self.loops = around

    def repeat(self, one: Repeat, depth: int) -> None:
        """End an iteration: wait for credit on full routes, then assign loop-carried variables."""
        routes: dict[int, list[str]] = {}
        for node in one.sends:
            edge = node.attrs["edge"]
            routes.setdefault(self.routes[edge], []).append(f"e{self.edges[edge]}.values")
        for route, values in routes.items():
            wait = f"while a{route}.full and ({' or '.join(values)}): yield a{route}"
            self.line(depth, wait)
        if one.later:
            self.line(depth, f"{', '.join(one.later)} = {', '.join(one.later.values())}")


def _leaves(statements: Iterable[Statement]) -> Iterator[str]:
    """The variables that statements read, once for each read."""
    for one in all_of(statements):
        if isinstance(one, LoopStatement):
            yield from (one.length,) if one.length else ()
        else:
            yield from one.reads
