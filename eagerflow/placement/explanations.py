"""Text of ``f.explain("placement")``: devices of nodes, reasons, and values that cross."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

from eagerflow.core.op import find_op
from eagerflow.formatting import escape
from eagerflow.graph.devices import bindings
from eagerflow.graph.edit import inner_graphs, nbytes
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.placement_reasons import general_reason, reason_of
from eagerflow.graph.signatures import (
    is_control,
    is_number,
    is_structured,
    is_transfer,
    kind_of,
)
from eagerflow.graph.value_types import NumberType
from eagerflow.placement.node_homes import source_of
from eagerflow.placement.rules import Rules

_ROWS: Final = 40  # of a table; the attributes have all of it
_HEAD: Final = ("device", "scope", "nodes", "why")
_OPS: Final = 4  # names of ops in a row
_Met = tuple[Node, str]
#: notebooks align the texts of tables right
_LEFT: Final = ' style="text-align: left"'


@final
@dataclass(slots=True)
class Placed:
    """Nodes of one scope that run on one device, for one reason.

    Attributes:
        device: the device.
        scope: the scope.
        why: the reason.
        nodes: the nodes.
    """

    device: str
    scope: str
    why: str
    nodes: list[Node] = field(default_factory=list)

    @property
    def ops(self) -> str:
        """The ops of the nodes with their counts, the most frequent first."""
        counted = Counter(node.op for node in self.nodes).most_common()
        texts = [op if count == 1 else f"{count} {op}" for op, count in counted]
        return ", ".join([*texts[:_OPS], *(["…"] if len(texts) > _OPS else [])])

    def cells(self) -> list[str]:
        """A row of the table."""
        why = reason_of(self.nodes[0]) if len(self.nodes) == 1 else self.why
        return [self.device, self.scope or "-", self.ops, why]


@final
@dataclass(frozen=True, slots=True)
class Crossing:
    """A value that goes from one device to another.

    Attributes:
        value: the value.
        source: the device that has it.
        target: the device that needs it.
        when: the loop or branch of the move; empty if it happens once in each step.
    """

    value: Value
    source: str
    target: str
    when: str = ""

    @property
    def bytes(self) -> int | None:
        """Number of bytes of the value; None if a dim is symbolic."""
        return nbytes((self.value,))

    def cells(self) -> list[str]:
        """A row of the table."""
        size = "size not known" if self.bytes is None else _bytes_text(self.bytes)
        way = f"{self.source} -> {self.target}"
        return [f"%{self.value.name}", str(self.value.type), way, size, self.when]


@final
class PlacementExplanation:
    """The devices of nodes, the reasons, and the values that cross.

    Prints as text, and as tables in notebooks.

    Args:
        name: the name of the function.
        graph: the graph that runs.
        rules: the rules that placed it; None without any.

    Attributes:
        name: the name of the function.
        rules: the rules that placed it; None without any.
        placed: nodes by device, scope and reason.
        crossings: the values that go from device to device.

    >>> @ef.trace
    ... def f(x):
    ...     with ef.name_scope("double"):
    ...         y = x * 2
    ...     return ef.exp(y)
    >>> with ef.config(cpu_devices=2):
    ...     y = f.place({"double": "cpu:1"})(ef.zeros(3))
    ...     print(f.explain("placement"))  # doctest: +ELLIPSIS
    f: 3 nodes on 2 devices, by 'double': cpu:1 at ...
    device  scope   nodes     why
    cpu:0   -       exp       where its operands are: %multiply moved to cpu:0, by ...
    cpu:1   -       constant  a constant, of which each device that needs it has a copy
    cpu:1   double  multiply  rule 'double'
    24 bytes cross:
    %x         f32[3]  cpu:0 -> cpu:1  12 bytes
    %multiply  f32[3]  cpu:1 -> cpu:0  12 bytes
    """

    def __init__(self, name: str, graph: Graph, rules: Rules | None) -> None:
        self.name = name
        self.rules = rules
        self._groups: dict[tuple[str, str, str], Placed] = {}
        self._crossings: dict[tuple[Value, str], Crossing] = {}
        self._given: dict[Value, Value] = {}  # operands, by the input of a branch
        for node, when in _walk(graph):
            self._add(node, when)
        self.placed: Sequence[Placed] = sorted(self._groups.values(), key=lambda p: p.device)
        self.crossings: Sequence[Crossing] = list(self._crossings.values())

    def _add(self, node: Node, when: str) -> None:
        op = find_op(node.op)
        if is_control(node.op):
            self._add_predicate(node, when)
        if kind_of(node.op) == "branches":
            self._given.update(bindings(node))
        if op is not None and op.moves:
            value, target = self._source(node.inputs[0]), node.outputs[0].device
            if value.device != target and not _is_copied(value):
                crossing = Crossing(value, str(value.device), str(target), when)
                self._crossings.setdefault((value, str(target)), crossing)
        elif not is_structured(node.op):
            device = "host" if _is_of_host(node) else str(node.device or "not known")
            key = device, node.scope, general_reason(node)
            self._groups.setdefault(key, Placed(*key)).nodes.append(node)

    def _source(self, value: Value) -> Value:
        """The original of a copied value, also outside of a branch."""
        value = source_of(value)
        while value in self._given:
            value = source_of(self._given[value])
        return value

    def _add_predicate(self, node: Node, when: str) -> None:
        """Add the crossings of a predicate to all devices that run part of its branch or loop."""
        value = _predicate(node)
        if value is None or value.device is None or _is_copied(value):
            return
        if kind_of(node.op) == "loop":
            when = f"in each iteration of &{node.name}"
        for target in sorted(map(str, _running(node) - {value.device})):
            crossing = Crossing(value, str(value.device), target, when)
            self._crossings.setdefault((value, target), crossing)

    @property
    def devices(self) -> list[str]:
        """The devices that run nodes."""
        names = dict.fromkeys(one.device for one in self.placed)
        return [name for name in names if name != "host"]

    def _title(self) -> str:
        count = sum(len(one.nodes) for one in self.placed)
        nodes = f"{count:,} node{'' if count == 1 else 's'}"
        on = self.devices
        where = f"on {on[0] if len(on) == 1 else f'{len(on)} devices'}" if on else "on the host"
        by = "where the program says" if self.rules is None else f"by {self.rules}"
        return f"{self.name}: {nodes} {where}, {by}"

    def _total(self) -> str:
        sizes = [one.bytes for one in self.crossings]
        count = sum(size or 0 for size in sizes)
        total = f"{_bytes_text(count)} cross{'es' if count == 1 else ''}"
        more = " and some whose size is not known" if None in sizes else ""
        again = any(one.when for one in self.crossings)
        return f"{total}{more}{', each loop and branch counted once' if again else ''}"

    def __str__(self) -> str:
        lines = [self._title(), *_table(_HEAD, self.placed)]
        if self.crossings:
            lines += [f"{self._total()}:", *_table([], self.crossings)]
        if self.rules is not None and self.rules.plan is not None:
            lines += self.rules.plan.lines()
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def table(head: Sequence[str], rows: Sequence[Placed | Crossing]) -> str:
            cells = [row.cells() for row in rows[:_ROWS]]
            cells += [[_more(rows)]] if len(rows) > _ROWS else []
            titles = "".join(f"<th{_LEFT}>{title}</th>" for title in head)
            lines = [[f"<td{_LEFT}>{escape(cell)}</td>" for cell in row] for row in cells]
            body = "".join(f"<tr>{''.join(line)}</tr>" for line in lines)
            return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"

        text = f"<b>{escape(self._title())}</b>{table(_HEAD, self.placed)}"
        if self.crossings:
            text += self._total() + table(["value", "type", "way", "size", ""], self.crossings)
        if self.rules is not None and self.rules.plan is not None:
            text += f"<pre>{escape(chr(10).join(self.rules.plan.lines()))}</pre>"
        return text


def _walk(
    graph: Graph, when: str = "", fixed: Container[Value] = (), copied: Container[Value] = ()
) -> Iterator[_Met]:
    """The nodes of a graph and of its subgraphs, each with its enclosing loop or branch.

    Args:
        graph: the graph.
        when: the loop or branch whose subgraph this is.
        fixed: the inputs of a loop body that no iteration changes.
        copied: the constants among ``fixed``.
    """
    for node in graph.nodes:
        given = node.inputs[0] if node.inputs else None
        if given in copied and is_transfer(node.op):
            continue
        yield node, f"once for {when.rpartition(' ')[2]}" if given in fixed else when
        kind = kind_of(node.op)
        for _, inner in node.subgraphs() if node.attrs else ():
            if kind == "loop":
                body = node.attrs["body"]
                pairs = zip(body.inputs, body.outputs, strict=False)
                still = {i for i, (before, after) in enumerate(pairs) if before is after}
                values = {v for v in inner.inputs if v.index in still}
                copies = {v for v in values if _is_copied(source_of(node.inputs[v.index]))}
                yield from _walk(inner, f"in each iteration of &{node.name}", values, copies)
            else:
                text = f"in a branch of &{node.name}" if kind == "branches" else when
                yield from _walk(inner, text)


def _bytes_text(count: int) -> str:
    return f"{count:,} byte{'' if count == 1 else 's'}"


def _predicate(node: Node) -> Value | None:
    """The predicate of a branch or a loop; None if it is computed from numbers."""
    asked = node.attrs["cond"].outputs[0] if "cond" in node.attrs else None
    value = node.inputs[0] if kind_of(node.op) == "branches" else asked
    if value is None or isinstance(value.type, NumberType):
        return None
    value = source_of(value)
    return None if value.node is not None and is_number(value.node.op) else value


def _running(node: Node) -> set[Any]:
    """The devices that run nodes of a branch or a loop, or hold loop-carried values."""
    devices = {
        n.device
        for graph in inner_graphs([node])
        for n in graph.nodes
        if kind_of(n.op) == "op" and not is_transfer(n.op)
    }
    if kind_of(node.op) == "loop":
        body = node.attrs["body"]
        pairs = zip(body.inputs, body.outputs, strict=False)
        devices |= {before.device for before, after in pairs if before is not after}
    return devices - {None}


def _is_of_host(node: Node) -> bool:
    return bool(node.outputs) and all(isinstance(v.type, NumberType) for v in node.outputs)


def _is_copied(value: Value) -> bool:
    """Whether each device has its own copy of the value, so that nothing crosses."""
    return value.node is not None and value.node.op == "constant"


def _table(head: Sequence[str], rows: Sequence[Placed | Crossing]) -> Iterable[str]:
    """Rows as text, columns but the last padded; at most `_ROWS` of them."""
    shown = [*([head] if head else []), *[row.cells() for row in rows[:_ROWS]]]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join(cells).rstrip()
    if len(rows) > _ROWS:
        yield _more(rows)


def _more(rows: Sequence[object]) -> str:
    return f"and {len(rows) - _ROWS:,} more"
