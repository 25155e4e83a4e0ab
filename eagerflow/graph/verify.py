"""Checks that a graph is well formed, and that its types and devices follow its ops' rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, final

from eagerflow.core.infer import infer_specs
from eagerflow.core.op import get_op
from eagerflow.dims import Dim, evaluate, resolving
from eagerflow.dims.polynomial import Atom
from eagerflow.errors import EagerflowError, GraphError
from eagerflow.graph.devices import bindings, device_text
from eagerflow.graph.edit import atoms_in, flat_items
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.node_arguments import check_arguments
from eagerflow.graph.signatures import fits, has_type, is_structured, kind_of, signatures
from eagerflow.graph.text.printer import print_node
from eagerflow.graph.value_types import Reference, ValueSpec
from eagerflow.hardware.device_rules import ONE_DEVICE, operands_apart, transfer_hint
from eagerflow.source import Source
from eagerflow.types import TensorSpec

#: number of nodes that a message shows before and after the wrong node
_AROUND: Final = 2
_SAMPLE: Final = 5


def verify(graph: Graph) -> None:
    """Check ``graph`` and its subgraphs.

    Every value is defined before it is used; names are unique; ops are known; types are those
    that the rules of the ops give; control edges come from earlier nodes; a name of a resource
    means one object. The operands of a node are on its device, as far as devices are known, except
    those of calls, branches and loops, whose subgraphs are checked instead. A rule that needs a
    number for a symbolic size gets a sample. The types of a node that refers to an object which
    the text of the graph only names are not checked.

    Raises:
        GraphError: a condition is violated; shows the neighbouring nodes.
    """
    resolving(_undecided).run(_Check(graph, frozenset(), {}, {}).run)


def check_nodes(graph: Graph) -> None:
    """Check each node of ``graph`` and its subgraphs by the rules of its op, and nothing else.

    Raises:
        GraphError: operands, attributes, devices or types of a node are not those that its op
            takes and gives; shows the neighbouring nodes.
    """
    resolving(_undecided).run(lambda: _check_nodes(graph, frozenset(), {}))


def _check_nodes(graph: Graph, sizes: frozenset[Atom], around: dict[Value, Value]) -> None:
    check = _Check(graph, sizes, {}, around)
    check.sizes.update(*[atoms_in(v.type.shape) for v in graph.inputs])
    for position, node in enumerate(graph.nodes):
        check.arguments(node, position)
        around.update(bindings(node))
        for _, inner in node.subgraphs():
            _check_nodes(inner, frozenset(check.sizes), around)
        check.devices(node, position)
        check.types(node, position)
        check.sizes.update(*[atoms_in(v.type.shape) for v in node.outputs])


@final
class _UndecidedError(Exception):
    """Raised when a type rule asks for a size that is not known."""


def _undecided(dim: Dim, why: str) -> NoReturn:
    raise _UndecidedError


@final
class _Check:
    """The check of one graph.

    Args:
        graph: the graph.
        sizes: the names of sizes that are known in the enclosing graph, with their owners.
        resources: the resources of the enclosing graphs, by name.
        around: the operands bound to its inputs, and to those of the enclosing graphs.
    """

    def __init__(
        self, graph: Graph, sizes: frozenset[Atom], resources: dict[str, Any],
        around: dict[Value, Value],
    ) -> None:  # fmt: skip
        self.graph = graph
        self.around = around
        self.sizes = set(sizes)
        self.resources = resources
        self.defined: set[int] = set()
        self.ran: set[int] = set()
        self.names: set[str] = set()
        self.gone: set[int] = set()  # values whose buffer was reused

    def run(self) -> None:
        graph = self.graph
        named = {id(resource) for resource in self.resources.values()}
        for name, resource in graph.resources.items():
            if id(resource) in named:
                continue  # the text uses the name of the enclosing graph
            if self.resources.setdefault(name, resource) is not resource:
                raise GraphError(f"@{name} means two objects")
        for i, value in enumerate(graph.inputs):
            if value.node is not None or value.index != i:
                raise GraphError(f"%{value.name} is an input, and not the {i}th of this graph")
            self.define(value, None)
        for i, node in enumerate(graph.nodes):
            self.node(node, i)
        for value in graph.outputs:
            if id(value) not in self.defined:
                self.fail(len(graph.nodes), f"%{value.name} is returned and not defined")
            if id(value) in self.gone:
                self.fail(len(graph.nodes), f"%{value.name} is returned after its buffer was taken")

    def fail(
        self, position: int, wrong: str, expected: str | None = None, hint: str | None = None
    ) -> NoReturn:
        """Raise a `GraphError` that shows the neighbours of the node at ``position``."""
        nodes = self.graph.nodes
        first = max(0, position - _AROUND)
        lines = [self.graph.name or "a graph without a name"]
        for i, node in enumerate(nodes[first : position + _AROUND + 1], first):
            lines.append(f"{'>' if i == position else ' '} {print_node(node, self.graph)}")
        source = nodes[position].source if position < len(nodes) else None
        raise GraphError(
            wrong,
            given="\n    ".join(lines),
            expected=expected,
            hint=hint,
            source=source if isinstance(source, Source) else None,
        )

    def define(self, value: Value, position: int | None) -> None:
        self.defined.add(id(value))
        self.sizes |= atoms_in(value.type.shape)
        self.take(value.name, position or 0)

    def take(self, name: str, position: int) -> None:
        if name in self.names:
            self.fail(position, f"two values or nodes are called {name!r}")
        self.names.add(name)

    def node(self, node: Node, position: int) -> None:
        for value in node.inputs:
            if id(value) not in self.defined:
                self.fail(position, f"%{value.name} is used and not defined above")
            if id(value) in self.gone:
                self.fail(position, f"%{value.name} is used after its buffer was taken")
        for before in node.control_inputs:
            if id(before) not in self.ran:
                self.fail(position, f"&{node.name} comes before &{before.name}, which it waits for")
        for i, value in enumerate(node.outputs):
            if value.node is not node or value.index != i:
                self.fail(position, f"%{value.name} is not output {i} of &{node.name}")
        self.arguments(node, position)
        self.subgraphs(node)
        unknown = atoms_in(flat_items(node.attrs.values())) - self.sizes
        if unknown:
            names = sorted(atom[1] for atom in unknown)
            self.fail(position, f"the sizes {names} occur in no type above (of this trace)")
        self.devices(node, position)
        self.types(node, position)
        if node.reuses is not None:
            self.reuse(node, position, node.reuses)
        self.ran.add(id(node))
        if len(node.outputs) != 1:
            self.take(node.name, position)
        for value in node.outputs:
            self.define(value, position)

    def reuse(self, node: Node, position: int, index: int) -> None:
        if not 0 <= index < len(node.inputs) or len(node.outputs) != 1:
            self.fail(position, f"&{node.name} reuses the buffer of an input that it does not have")
        value = node.inputs[index]
        if value.node is None or value.node.op == "constant":
            self.fail(position, f"the buffer of %{value.name} does not belong to this graph")
        if not fits(value.spec, node.outputs[0].spec):
            self.fail(position, f"the buffer of %{value.name} has another type", str(value.spec))
        self.gone.add(id(value))

    def arguments(self, node: Node, position: int) -> None:
        try:
            check_arguments(node)
        except GraphError as error:
            self.fail(position, error.wrong, error.expected)

    def subgraphs(self, node: Node) -> None:
        self.around.update(bindings(node))
        for _, graph in node.subgraphs():
            _Check(graph, frozenset(self.sizes), self.resources, self.around).run()

    def where(self, value: Value) -> str:
        return device_text(value, self.around)

    def devices(self, node: Node, position: int) -> None:
        """Refuse operands on several devices, or on another device than the node."""
        if is_structured(node.op) or kind_of(node.op) == "steering":  # checked by signatures
            return
        operands = [v for v in node.inputs if v.device is not None]
        for value in operands[1:]:
            if value.device != operands[0].device:
                self.fail(
                    position,
                    operands_apart(node.name, self.where(operands[0]), self.where(value)),
                    ONE_DEVICE,
                    transfer_hint("one of them", operands[0].device),
                )
        if operands and node.device is not None and node.device != operands[0].device:
            self.fail(
                position,
                f"&{node.name} is on {node.device}, and its operand {self.where(operands[0])}",
                f"on {operands[0].device}",
                transfer_hint("the operand", node.device),
            )

    def fail_at_attributes(self, node: Node, position: int) -> NoReturn:
        values = ", ".join(f"{k}={v!r}" for k, v in node.attrs.items())
        self.fail(position, f"&{node.name}: {node.op} cannot have these attributes: {values}")

    def types(self, node: Node, position: int) -> None:
        got = [v.spec for v in node.outputs]
        sizes: dict[str, int] | None = None
        try:
            try:
                want = _want(node)
            except _UndecidedError:
                sizes = _Sample()
                with resolving(lambda dim, why: dim.evaluate(sizes)):
                    want = _want(node)
            if want is None or _agree(got, want, sizes):
                return
            what = "devices" if _agree(got, want, sizes, has_type) else "types"
            shown = ", ".join(map(str, want)) or "no output"
        except EagerflowError as error:
            if error.__cause__ is not None:  # of Python, raised by the rule
                self.fail_at_attributes(node, position)
            # names that first occur here are sizes that depend on data, which no rule knows
            if sizes is not None or any(atoms_in(kind.shape) - self.sizes for kind in got):
                return
            self.fail(position, error.wrong, error.expected, error.hint)
        except RecursionError:
            raise
        except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError,
                TypeError, ValueError):  # fmt: skip
            self.fail_at_attributes(node, position)
        self.fail(position, f"the {what} of &{node.name} are not those of its rule", shown)


@final
class _Sample(dict[str, int]):
    """Distinct sizes for all names, for rules that need a number."""

    def __missing__(self, name: str) -> int:
        size = self[name] = _SAMPLE + len(self)
        return size


def _agree(
    got: Sequence[ValueSpec], want: Sequence[ValueSpec], sizes: dict[str, int] | None,
    fit: Callable[[ValueSpec, ValueSpec], bool] = fits,
) -> bool:  # fmt: skip
    if sizes is not None:
        got, want = [[_sampled(kind, sizes) for kind in kinds] for kinds in (got, want)]
    return len(got) == len(want) and all(map(fit, got, want))


def _sampled(kind: ValueSpec, sizes: dict[str, int]) -> ValueSpec:
    if isinstance(kind, TensorSpec):
        return kind.like(shape=tuple([evaluate(size, sizes) for size in kind.shape]))
    return kind


def _want(node: Node) -> Sequence[ValueSpec] | None:
    """The output specs by the type rule of the op; None if the rule needs a missing resource."""
    if node.op in signatures:
        return signatures[node.op].types(node)
    op = get_op(node.op)
    if any(isinstance(item, Reference) for item in flat_items(node.attrs.values())):
        return None
    specs = []
    for value in node.inputs:
        if not isinstance(spec := value.spec, TensorSpec):
            raise GraphError(f"{node.op} takes tensors", expected="python_tensor in between")
        specs.append(spec)
    return infer_specs(op, specs, node.attrs)
