"""The graph: nodes in static single assignment form, in an order in which they can run.

Grammar of the text form (`eagerflow.graph.text` writes and reads it)::

    graph    ::= "graph" [name] "(" [input ("," input)*] ")" "{" node* "return" [values] "}"
    input    ::= value ":" spec
    node     ::= result op "(" [values] ")" [attrs] [":" specs]
                 [after] [into] [place] [leeway] [scope] [source]
    result   ::= values "=" | label ":"              # the label of a node without outputs
    attrs    ::= "{" name "=" literal ("," name "=" literal)* "}"
    after    ::= "after" label ("," label)*          # control edges
    into     ::= "into" value                        # an input whose buffer takes the output
    place    ::= "on" string ["because" string]      # where it runs, and why
    leeway   ::= "within" string                     # a pattern of devices that would do as well
    scope    ::= "in" string
    source   ::= "#" the user's line, up to the end of the line
    spec     ::= type ["@" device] | "int" | "float" | "complex"
    type     ::= dtype "[" [dim ("," dim)*] "]"
    literal  ::= "None" | "True" | "False" | "..." | number | string | dtype | dim
               | "complex" "(" number "," number ")" | "device" "(" string ")"
               | "slice" "(" literal "," literal "," literal ")" | "(" literals ")"
               | "tensor" "(" type "," ("(" numbers ")" | "$" name) ")" | "@" name | graph
    value    ::= "%" name ["." integer]              # the integer where a node has several outputs
    label    ::= "&" name                            # a node
    name     ::= identifier | string

A value is defined before it is used, and a subgraph uses no value of the graph around it. A node
runs where ``on`` says, else where its outputs are, else where its operands are; what ``on`` says
holds for its outputs too, except of ops that say themselves where each output is. Calls, branches
and loops are nowhere themselves: ``on`` behind them means nothing. ``@name``
is a resource (a variable, a queue, a Python function) that the graph refers to, ``$name`` a large
array that is kept beside the text. Sizes (dim) are those of `eagerflow.dims`, strings are those
of JSON, and a name that is no identifier is written as a string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from typing import Any, NamedTuple, final

from eagerflow.errors import GraphError
from eagerflow.graph.value_types import NumberType, ValueSpec, ValueType
from eagerflow.hardware import Device
from eagerflow.hardware.device_names import DeviceName
from eagerflow.source import Source
from eagerflow.types import text_of
from eagerflow.unknown_names import hint_at


def _above(module: str, function: str) -> Callable[..., Any]:
    """A function of a module above this one, which is loaded when the function is called."""
    above: Callable[..., Any] = getattr(import_module(module, __package__), function)
    return above


@final
@dataclass(slots=True, eq=False, repr=False, weakref_slot=True)
class Value:
    """A value of a graph: an input, or an output of a node.

    Attributes:
        type: its type.
        node: the node that makes it; None for an input.
        index: its position among the node's outputs, or among the inputs.
        label: the name of an input; of an output whose number has changed since other outputs of
            its node were dropped, its name before.
        stated: the device of an input, or of an output that is not where its node is.
    """

    type: ValueType
    node: Node | None
    index: int
    label: str = ""
    stated: Device | str | None = None

    @property
    def device(self) -> Device | str | None:
        """The device of the value, or the name of one that this process lacks; None if not known.

        Numbers are on the host and have none.
        """
        if type(self.type) is NumberType:
            return None
        return self.node.device if self.stated is None and self.node is not None else self.stated

    @property
    def spec(self) -> ValueSpec:
        """The type of the value with its device."""
        return self.type if isinstance(self.type, NumberType) else self.type.on(self.device)

    @property
    def name(self) -> str:
        """The name of the value in the text form, without the percent sign."""
        if self.node is None:
            return self.label
        return self.node.name if len(self.node.outputs) == 1 else f"{self.node.name}.{self.index}"

    def __repr__(self) -> str:
        return f"%{self.name}: {text_of(self.type, self.device)}"


@final
@dataclass(slots=True, eq=False, repr=False, weakref_slot=True)
class Node:
    """A node of a graph: an op applied to values.

    Attributes:
        op: the op's name.
        name: unique within the graph.
        inputs: the values it takes.
        attrs: its static attributes.
        outputs: the values it makes.
        control_inputs: the nodes that must have run before it.
        device: the device that it runs on, and that its outputs are on unless they state another;
            None if not known, and for calls, branches and loops, which may run on several devices.
        because: the reason of its placement, if something other than the program placed it.
        scope: the name scope, such as ``"encoder/layer0"``.
        source: the user's line.
        reuses: the index of an input that has no later reader, so that the output may be
            written into its buffer; None for a buffer of its own.
        forward: of a node that the rule of a derivative made, the node whose derivative it is part
            of; that may be in another graph.
        within: the device scope that said where it runs, or None. It is the text of a scope that
            names a device; the pattern of a scope that leaves a choice; for a colocation the value,
            perhaps of another graph.
    """

    op: str
    name: str
    inputs: tuple[Value, ...]
    attrs: dict[str, Any]
    outputs: tuple[Value, ...] = ()
    control_inputs: tuple[Node, ...] = ()
    device: Device | str | None = None
    because: str = ""
    scope: str = ""
    source: Source | str | None = None
    reuses: int | None = None
    forward: Node | None = None
    within: DeviceName | Value | str | None = None

    @property
    def leeway(self) -> DeviceName | Value | None:
        """The leeway of its scope: a pattern, or the value that it is colocated with."""
        return None if isinstance(self.within, str) else self.within

    @property
    def reason(self) -> str:
        """The reason of its placement, for people.

        >>> graph = ef.Graph.parse("graph f(%x: f32[n]@cpu:0) { %y = exp(%x) : f32[n] return %y }")
        >>> graph.nodes[0].reason
        'where its operands are: %x on cpu:0'
        """
        return str(_above(".placement_reasons", "reason_of")(self))

    def subgraphs(self) -> Iterator[tuple[str, Graph]]:
        """The graphs among the attributes (bodies, branches), with their names."""
        for key, value in self.attrs.items():
            if isinstance(value, Graph):
                yield key, value
            elif isinstance(value, tuple):
                for i, item in enumerate(value):
                    if isinstance(item, Graph):
                        yield f"{key}[{i}]", item

    @property
    def inner(self) -> Graph | None:
        """The body or the first branch, whose outputs give the devices of the node's outputs."""
        graphs = (graph for key, graph in self.subgraphs() if key in ("body", "branches[0]"))
        return next(graphs, None)

    def __repr__(self) -> str:
        return f"<node {self.name}: {self.op}>"


class OutsideInput(NamedTuple):
    """An input that a traced function reads from outside, such as ``optimiser.lr``.

    Attributes:
        text: the expression that it is read by.
        read: gives its present value.
    """

    text: str
    read: Callable[[], object]


@final
class Graph:
    """A function as a static dataflow graph.

    Attributes:
        name: of the function.
        inputs: the values that are fed.
        nodes: in an order in which they can run.
        outputs: the values that are returned.
        resources: the variables, queues and functions that nodes refer to, by name. Subgraphs may
            have other names for them, which count where a subgraph stands alone.
        origin: the graph that passes made it from (`eagerflow.graph.passes.Origin`), or None.
        outside: of a traced function, the inputs that each call reads from outside, by name.

    >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
    >>> graph.nodes[0].op, graph.inputs, graph.outputs[0].type
    ('exp', [%x: f32[n]], f32[n])
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.outputs: list[Value] = []
        self.resources: dict[str, Any] = {}
        self.origin: Any = None  # passes are above this module
        self.outside: Mapping[str, OutsideInput] = {}
        self._names: dict[str, int] = {}

    def unique(self, base: str) -> str:
        """A name that is not taken: ``base``, ``base_1``, …; takes it."""
        if "." in base:
            base = base.replace(".", "_")  # "name.0" is an output of "name"
        name, names = base, self._names
        while name in names:
            names[base] += 1
            name = f"{base}_{names[base]}"
        names[name] = 0
        return name

    def add_input(
        self, type: ValueType, name: str = "x", device: Device | str | None = None
    ) -> Value:
        """Append an input."""
        value = Value(type, None, len(self.inputs), self.unique(name), device)
        self.inputs.append(value)
        return value

    def add_node(
        self,
        op: str,
        inputs: Iterable[Value],
        types: Iterable[ValueType],
        attrs: Mapping[str, Any] | None = None,
        name: str | None = None,
        devices: Sequence[Device | str | None] | None = None,
        **rest: Any,
    ) -> Node:
        """Append a node with outputs of ``types``, called ``name`` (or ``op``) if that is free.

        Args:
            op: its op.
            inputs: its operands.
            types: of the outputs.
            attrs: its attributes.
            name: the name to give it.
            devices: of the outputs, if they need not be where the node is.
            rest: other attributes of `Node`. Without a device the node is where its inputs are;
                a node with a body or branches has no device, and its outputs are where the
                subgraph's are.
        """
        node = Node(op, self.unique(name or op), tuple(inputs), dict(attrs or {}), **rest)
        inner = node.inner if devices is None and node.device is None and attrs else None
        if inner is not None:
            devices = [v.device for v in inner.outputs]
        if devices is None:
            node.outputs = tuple([Value(t, node, i) for i, t in enumerate(types)])
            if node.device is None:
                known = (v.device for v in node.inputs)
                node.device = next((d for d in known if d is not None), None)
        else:
            pairs = enumerate(zip(types, devices, strict=True))
            node.outputs = tuple([Value(t, node, i, "", d) for i, (t, d) in pairs])
        self.nodes.append(node)
        return node

    def values(self) -> Iterator[Value]:
        """All values, inputs first, in order of definition."""
        yield from self.inputs
        for node in self.nodes:
            yield from node.outputs

    def value(self, name: str) -> Value:
        """The value of that name; raises `GraphError` if there is none.

        >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
        >>> graph.value("y")
        %y: f32[n]
        """
        for value in self.values():
            if value.name == name:
                return value
        raise GraphError(f"the graph has no value %{name}")

    def __repr__(self) -> str:
        lengths = {"node": len(self.nodes), "input": len(self.inputs), "output": len(self.outputs)}
        counts = [f"{count} {name}{'s' * (count != 1)}" for name, count in lengths.items()]
        return f"<graph {self.name or 'without a name'}: {', '.join(counts)}>"

    def __str__(self) -> str:
        return "\n".join(_above(".text.printer", "Printer")().graph(self))

    @staticmethod
    def parse(text: str, resources: Mapping[str, Any] | None = None) -> Graph:
        """The graph that ``text`` describes, in the form that ``str(graph)`` has.

        Args:
            text: the text form.
            resources: the objects that ``@name`` refers to. For a name that is not given, the
                graph holds a reference without the object.

        Raises:
            GraphSyntaxError: the text does not follow the grammar; says line and column.

        >>> print(ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }"))
        graph f(%x: f32[n]) {
          %y = exp(%x) : f32[n]
          return %y
        }
        """
        graph: Graph = _above(".text.parser", "parse_graph")(text, resources)
        return graph

    def save(self, path: str | PathLike[str]) -> None:
        """Write the graph and its constants, but no state, into one file (without pickle).

        Raises:
            GraphError: an attribute has no text form.
            FileError: the file cannot be written. It is an OSError.

        >>> import tempfile
        >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     graph.save(f"{folder}/f.graph")
        ...     again = ef.Graph.load(f"{folder}/f.graph")
        >>> str(again) == str(graph)
        True
        """
        _above(".text.graph_files", "save_graph")(self, path)

    @staticmethod
    def load(path: str | PathLike[str], resources: Mapping[str, Any] | None = None) -> Graph:
        """The graph that `save` wrote; ``resources`` as for `parse`.

        Raises:
            GraphFileError: the file is truncated, damaged, foreign, or of a newer format.

        >>> import os
        >>> ef.Graph.load(os.devnull)
        Traceback (most recent call last):
        eagerflow.errors.GraphFileError: ...
        """
        graph: Graph = _above(".text.graph_files", "load_graph")(path, resources)
        return graph

    def run(
        self, fetches: Iterable[Value | Node | str], feeds: Mapping[Any, Any] | None = None
    ) -> list[Any]:
        """Run the nodes that ``fetches`` need, by data and control edges, and no others.

        Effects that no fetch needs do not happen; fetch them by name (``"&print"``). Any number of
        threads may run parts of a graph at once.

        Args:
            fetches: values of the graph or their names, inner ones too; of nodes that have only an
                effect the nodes, or their names as in the text: ``"&queue_enqueue"``.
            feeds: a tensor, variable, array or number for each input that is needed, by value or
                name, moved to the device of that value. An input whose device the graph does not
                say is where its tensor is; if no such input is fed a tensor, on the current device.
                An inner value can be fed as well; its node, and the nodes that only that one needs,
                do not run then, even if a fetched effect comes after them.

        Returns:
            A tensor or a number for each of ``fetches``, None for a node.

        Raises:
            GraphError: an input is needed and not fed, or fed twice, or there is no such value.
            ShapeError: a feed has another shape than its value.
            DTypeError: a feed has another dtype than its value.

        >>> graph = ef.Graph.parse(
        ...     "graph f(%x: f32[n]) { %y = exp(%x) : f32[n] %z = add(%y, %y) : f32[n] return %z }"
        ... )
        >>> graph.run([graph.outputs[0], "y"], {"x": ef.zeros(2)})
        [Tensor([2., 2.], f32[2]@cpu:0), Tensor([1., 1.], f32[2]@cpu:0)]
        >>> graph.run(["z"], {"y": ef.ones(3)})
        [Tensor([2., 2., 2.], f32[3]@cpu:0)]
        """
        results: list[Any] = _above("..runtime.fetches", "run")(self, fetches, feeds)
        return results

    def optimise(self) -> Graph:
        """The graph after all passes (see `eagerflow.graph.passes`); this one stays as it is.

        >>> text = "graph (%x: f32[]) { %y = positive(%x) : f32[] return %y }"
        >>> len(ef.Graph.parse(text).optimise().nodes)
        0
        """
        graph: Graph = _above(".passes", "optimise")(self)[0]
        return graph

    def diff(self, pass_name: str | None = None) -> str:
        """The changes that passes made on the way to this graph, or would make in it.

        Args:
            pass_name: ``"prune"``, ``"fold"``, ``"simplify"``, ``"cse"`` or ``"donate"``; by
                default all of them together.

        Raises:
            GraphError: there is no such pass.

        >>> text = "graph (%x: f32[]) { %y = positive(%x) : f32[] return %y }"
        >>> print(ef.Graph.parse(text).diff("simplify"))
        simplify: 1 change, 1 -> 0 nodes
          %y = positive is %x
          graph(%x: f32[]) {
        -   %y = positive(%x) : f32[]
        -   return %y
        +   return %x
          }
        """
        text: str = _above(".passes.diff", "diff")(self, pass_name)
        return text

    def to_dot(self, limit: int = 300) -> str:
        """The graph in the DOT language; scopes become one box each above ``limit`` boxes.

        >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
        >>> graph.to_dot().split()[0]
        'digraph'
        """
        return str(_above("..pictures.by_graphviz", "to_dot")(self, limit))

    def to_svg(self, limit: int = 300) -> str:
        """The graph as a picture, an SVG; scopes become one box each above ``limit`` boxes.

        The result is a string that notebooks show as a picture.

        >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
        >>> graph.to_svg()[:4]
        '<svg'
        """
        picture: str = _above("..pictures.svg", "to_svg")(self, limit)
        return picture

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return dict(_above("..pictures.svg", "mimebundle")(self))


hint_at(Graph, ["memory"])
