"""The parser of the text form of a graph; the grammar is in `eagerflow.graph.ir`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, final

from eagerflow.core.tensor import Tensor
from eagerflow.dims import Size, parse_dim
from eagerflow.errors import DeviceError, DimError, EagerflowError
from eagerflow.graph.devices import settle
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.text.constants import from_bytes, from_numbers
from eagerflow.graph.text.cursor import WORD, Cursor
from eagerflow.graph.value_types import NumberType, Reference, ValueSpec
from eagerflow.hardware import Device, as_device
from eagerflow.hardware.device_names import DeviceName
from eagerflow.hardware.registry import known_name
from eagerflow.types import BYTES, DTYPES, LIST, DType, TensorSpec, TensorType

_NUMBER: Final = re.compile(r"-?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|inf\b|nan\b)")
_OUTPUT: Final = re.compile(r"\.(\d+)")
_TYPE: Final = re.compile(r"(\w+)(?:\[([^\[\]]*)\](?:@([\w.:*/]+))?)?")
_SOURCE: Final = re.compile(r"[ \t]*#([^\n]*)")
_OPERATOR: Final = re.compile(r"[ \t]*[-+*/%]")

_CONSTANTS: Final = {"None": None, "True": True, "False": False}
_NUMBERS: Final[dict[str, type[int] | type[float] | type[complex]]] = {
    "int": int, "float": float, "complex": complex,
}  # fmt: skip
#: our short names; NumPy would read "i8" as int64
_DTYPES: Final[dict[str, DType]] = {d.short: d for d in (*DTYPES.values(), LIST, BYTES)}
_DEPTH_LIMIT: Final = 40
#: gives the device of a name, or raises a `DeviceError`
FindDevice = Callable[[str], Device]


def parse_graph(
    text: str,
    resources: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Tensor | memoryview] | None = None,
    *,
    find_device: FindDevice = as_device,
) -> Graph:
    """The graph that ``text`` describes.

    Args:
        text: the text form.
        resources: the objects that ``@name`` refers to; the others become a `Reference`.
        arrays: the arrays that ``$name`` refers to, likewise: tensors, or bytes of the elements.
        find_device: gives the device of a name, or raises a `DeviceError` if there is none;
            then the name stands for it.

    Raises:
        GraphSyntaxError: the text does not follow the grammar; names line and column.
    """
    parser = _Parser(text, dict(resources or {}), arrays or {}, find_device)
    graph = parser.graph()
    parser.at.end()
    return graph


@final
class _Scope:
    """The nodes and values defined so far in the graph that is being read."""

    __slots__ = ("graph", "nodes", "values")

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values: dict[str, Value] = {}
        self.nodes: dict[str, Node] = {}


@final
class _Parser:
    def __init__(
        self, text: str, resources: dict[str, Any], arrays: Mapping[str, Any],
        find_device: FindDevice,
    ) -> None:  # fmt: skip
        self.at = Cursor(text)
        self.find_device = find_device
        self.resources = resources
        self.used: dict[str, Any] = {}  # resources of the graph and its subgraphs
        self.arrays = arrays
        self.depth = 0
        self.specs: dict[str, ValueSpec] = {}  # by their text: there are few
        self.last = ""  # the text of the subgraph that was read last
        self.bodies: dict[str, Graph] = {}  # of calls, which share them, by their text

    # --- graphs ---

    def graph(self) -> Graph:
        if not self.at.word("graph"):
            self.at.fail("'graph'")
        scope = _Scope(Graph("" if self.at.accept("(") else self.graph_name()))
        scope.graph.resources = self.used
        for name, spec, position in self.at.separated(self.input, ")"):
            value = scope.graph.add_input(spec.type, name, spec.device)
            value.label = name
            self.define(scope.values, name, value, position, f"%{name}")
        self.at.expect("{")
        while not self.at.word("return"):
            self.node(scope)
        scope.graph.outputs = self.at.separated(lambda: self.value(scope), "}")
        return scope.graph

    def graph_name(self) -> str:
        name = self.at.name("a name, or '('")
        self.at.expect("(")
        return name

    def input(self) -> tuple[str, ValueSpec, int]:
        position = self.at.skip()
        name = self.prefixed("%", "an input, such as %x: f32[2]")
        self.at.expect(":")
        return name, self.spec(), position

    def prefixed(self, prefix: str, what: str) -> str:
        if not self.at.accept(prefix):
            self.at.fail(what)
        return self.at.name(what)

    def define(
        self, known: dict[str, Any], name: str, item: Any, position: int, shown: str
    ) -> None:
        if name in known:
            self.at.fail(f"a name that is not taken ({shown} is)", position)
        known[name] = item

    def value(self, scope: _Scope) -> Value:
        position = self.at.skip()
        name = self.value_name("a value, such as %x")
        value = scope.values.get(name)
        if value is None:
            self.at.fail("a value that is defined above", position)
        return value

    def value_name(self, what: str) -> str:
        name = self.prefixed("%", what)
        output = None
        if self.at.text.startswith(".", self.at.position):  # few nodes have several
            output = _OUTPUT.match(self.at.text, self.at.position)
        if output is None:
            return name
        self.at.position = output.end()
        return name + output.group()

    def node(self, scope: _Scope) -> None:
        position = self.at.skip()
        label, results = self.results()
        op = self.at.name("an op")
        self.at.expect("(")
        inputs = self.at.separated(lambda: self.value(scope), ")")
        attrs = self.attrs()
        if op == "call" and type(attrs.get("body")) is Graph and "own" not in attrs:
            attrs["body"] = self.bodies.setdefault(self.last, attrs["body"])
        specs: list[ValueSpec] = []
        if results:
            self.at.expect(":")
            end = self.at.skip()
            specs = self.at.listed(self.spec)
            if len(specs) != len(results):
                self.at.fail(f"{len(results)} types, one for each output", end)
        scope.graph.unique(label)  # takes the name
        node = Node(op, label, tuple(inputs), attrs)
        node.outputs = tuple([Value(s.type, node, i) for i, s in enumerate(specs)])
        scope.graph.nodes.append(node)
        on = self.suffixes(node, scope)
        settle(node, [s.device for s in specs], on)
        self.define(scope.nodes, label, node, position, f"&{label}")
        for value in node.outputs:
            self.define(scope.values, value.name, value, position, f"%{value.name}")

    def results(self) -> tuple[str, list[str]]:
        """The name of a node and the names of its outputs."""
        if self.at.accept("&"):
            label = self.at.name("the name of a node")
            self.at.expect(":")
            return label, []
        position = self.at.skip()
        what = "a node, such as %y = exp(%x) : f32[2], or 'return'"
        results = self.at.listed(lambda: self.value_name(what))
        label = results[0] if len(results) == 1 else results[0].rpartition(".")[0]
        if len(results) > 1 and results != [f"{label}.{i}" for i in range(len(results))]:
            self.at.fail("outputs of one node, such as %y.0, %y.1", position)
        self.at.expect("=")
        return label, results

    def suffixes(self, node: Node, scope: _Scope) -> Device | str | None:
        """Read the clauses after the types; returns the device after ``on``."""
        on = None
        # most nodes have none of these words
        if self.at.text.startswith(("a", "i", "o", "w"), self.at.skip()):
            if self.at.word("after"):
                node.control_inputs = tuple(self.at.listed(lambda: self.label(scope)))
            if self.at.word("into"):
                node.reuses = self.reused(node, scope)
            if self.at.word("on"):
                on = self.device(self.at.string())
                if self.at.word("because"):
                    node.because = self.at.string()
            if self.at.word("within"):
                node.within = self.pattern()
            if self.at.word("in"):
                node.scope = self.at.string()
        source = _SOURCE.match(self.at.text, self.at.position)
        if source is not None:
            node.source = " ".join(source[1].split()) or None
            self.at.position = source.end()
        return on

    def reused(self, node: Node, scope: _Scope) -> int:
        """The index of the input whose buffer the output takes."""
        position = self.at.skip()
        value = self.value(scope)
        if value not in node.inputs:
            self.at.fail("an input of the node", position)
        return node.inputs.index(value)

    def pattern(self) -> DeviceName:
        position = self.at.skip()
        try:
            return known_name(self.at.string())
        except DeviceError as error:
            self.at.fail(error.expected or "a device name", position)

    def label(self, scope: _Scope) -> Node:
        position = self.at.skip()
        name = self.prefixed("&", "a node, such as &assign")
        node = scope.nodes.get(name)
        if node is None:
            self.at.fail("a node that is defined above", position)
        return node

    # --- types ---

    def spec(self) -> ValueSpec:
        position = self.at.skip()
        what = "a type, such as f32[2,n]@cpu:0"
        text = self.at.take(_TYPE, what)
        spec = self.specs.get(text)
        if spec is None:
            match = _TYPE.fullmatch(text)
            assert match is not None
            name, dims, device = match.groups()
            if dims is None and name in _NUMBERS:
                spec = NumberType(_NUMBERS[name])
            elif dims is None or name not in _DTYPES:
                self.at.fail(what, position)
            else:
                shape = self.shape(dims, position + len(name) + 1)
                spec = TensorType(_DTYPES[name], shape).on(self.device(device))
            self.specs[text] = spec
        return spec

    def shape(self, dims: str, position: int) -> tuple[Any, ...]:
        """The sizes in ``dims``, which begins at ``position``."""
        sizes: list[Size] = []
        start = 0 if dims.strip() else len(dims) + 1
        while start <= len(dims):
            end = _end(dims, start, ",")
            sizes.append(self.dim(dims[start:end], position + start))
            start = end + 1
        return tuple(sizes)

    def dim(self, text: str, position: int) -> Size:
        try:
            size = parse_dim(text)
        except EagerflowError as error:  # a DimError, or sizes that do not broadcast
            self.at.fail(error.expected or error.wrong, position)
        if type(size) is int and size < 0:
            self.at.fail("a size that is not negative", position)
        return size

    # --- attributes ---

    def attrs(self) -> dict[str, Any]:
        attrs: dict[str, Any] = {}
        if self.at.accept("{"):
            for name, value, position in self.at.separated(self.attr, "}"):
                self.define(attrs, name, value, position, name)
        return attrs

    def attr(self) -> tuple[str, Any, int]:
        position = self.at.skip()
        name = self.at.name("the name of an attribute")
        self.at.expect("=")
        return name, self.literal(), position

    def literal(self) -> Any:
        position = self.at.skip()
        self.depth += 1
        if self.depth > _DEPTH_LIMIT:
            self.at.fail(f"at most {_DEPTH_LIMIT} levels of nesting", position)
        literal = self.unnested(position)
        self.depth -= 1
        return literal

    def unnested(self, position: int) -> Any:
        first = self.at.text[position : position + 1]
        if first == '"':
            return self.at.string()
        if first == "(":
            return self.parenthesis(position)
        if first == "@":
            return self.resource()
        if self.at.accept("..."):
            return ...
        match = _NUMBER.match(self.at.text, position)
        if match is not None:
            if _OPERATOR.match(self.at.text, match.end()):
                return self.expression(position)
            self.at.position = match.end()
            return self.number(match.group(), position)
        return self.expression(position) if first == "-" else self.worded(position)

    def parenthesis(self, position: int) -> Any:
        self.at.position += 1
        if self.at.accept(")"):
            return ()
        items = [self.literal()]
        if self.at.accept(")"):
            return self.expression(position)  # parentheses around one item belong to a size
        self.at.expect(",")
        return (*items, *self.at.separated(self.literal, ")"))

    def number(self, text: str, position: int) -> float:
        try:
            return int(text) if text.lstrip("-").isdigit() else float(text)
        except ValueError:  # more digits than Python converts
            self.at.fail("a number with fewer digits", position)

    def worded(self, position: int) -> Any:
        match = WORD.match(self.at.text, position)
        word = match.group() if match is not None else ""
        if word == "graph":
            literal = self.graph()
            self.last = self.at.text[position : self.at.position]
            return literal
        after = position + len(word)
        form = _FORMS.get(word)
        is_name = word in _CONSTANTS or word in _DTYPES
        if is_name and (form is None or not self.at.text.startswith("(", after)):
            self.at.position = after
            return _CONSTANTS[word] if word in _CONSTANTS else _DTYPES[word]
        if form is not None and self.at.text.startswith("(", after):
            self.at.position = after + 1
            literal = form(self)
            self.at.expect(")")
            return literal
        if not word or word in _FORMS:
            self.at.fail("a literal", position)
        return self.expression(position)

    def expression(self, position: int) -> Size:
        """A size, from ``position`` up to a comma or bracket that does not belong to it."""
        self.at.position = _end(self.at.text, position, ",)}{\n")
        try:
            return parse_dim(self.at.text[position : self.at.position].rstrip())
        except DimError:
            self.at.fail("a literal", position)

    def resource(self) -> Any:
        name = self.prefixed("@", "a resource, such as @w")
        resource = self.resources.get(name)
        if resource is None:
            resource = self.resources[name] = Reference("resource", name)
        self.used[name] = resource
        return resource

    # --- literals that are written like calls ---

    def complex_form(self) -> complex:
        real = self.at.take(_NUMBER, "a number")
        self.at.expect(",")
        return complex(float(real), float(self.at.take(_NUMBER, "a number")))

    def bytes_form(self) -> bytes:
        try:
            return self.at.string().encode("latin-1")
        except UnicodeEncodeError:
            self.at.fail("a string with one character for each byte")

    def slice_form(self) -> slice:
        start = self.literal()
        self.at.expect(",")
        stop = self.literal()
        self.at.expect(",")
        return slice(start, stop, self.literal())

    def device_form(self) -> Device | Reference:
        name = self.at.string()
        device = self.device(name)
        return device if isinstance(device, Device) else Reference("device", name)

    def device(self, name: str | None) -> Device | str | None:
        """The device, or its name where this process does not have it."""
        try:
            return None if name is None else self.find_device(name)
        except DeviceError:
            return name

    def tensor_form(self) -> Any:
        position = self.at.skip()
        spec = self.spec()
        if not isinstance(spec, TensorSpec):
            self.at.fail("the type of a tensor", position)
        kind = spec.type
        self.at.expect(",")
        if self.at.accept("$"):
            return self.array(self.at.name(), kind, position)
        self.at.expect("(")
        values = self.at.separated(self.literal, ")")
        if not _is_fixed(kind) or kind.size != len(values):
            self.at.fail(
                f"a type with as many elements as there are literals ({len(values)})", position
            )
        try:
            return from_numbers(kind.dtype, kind.shape, values)
        except (EagerflowError, TypeError, ValueError, OverflowError):
            what = "strings" if kind.dtype is BYTES else "numbers"
            self.at.fail(f"{what} that {kind.dtype.name} holds", position)

    def array(self, name: str, kind: TensorType, position: int) -> Any:
        array = self.arrays.get(name)
        if array is None:
            return Reference("array", name, kind)
        if isinstance(array, Tensor):
            return array
        what = f"a type of {len(array)} bytes, which ${name} has"
        if not _is_fixed(kind) or (kind.dtype is not BYTES and kind.nbytes != len(array)):
            self.at.fail(what, position)
        try:
            return from_bytes(kind.dtype, kind.shape, array)
        except ValueError:  # bytes that are packed in another way
            self.at.fail(what, position)


_FORMS: Final[dict[str, Callable[[_Parser], Any]]] = {
    "bytes": _Parser.bytes_form,
    "complex": _Parser.complex_form,
    "device": _Parser.device_form,
    "slice": _Parser.slice_form,
    "tensor": _Parser.tensor_form,
}


def _is_fixed(kind: TensorType) -> bool:
    return all(type(d) is int for d in kind.shape)


def _end(text: str, position: int, marks: str) -> int:
    """The position of the first of ``marks`` from ``position`` on outside of parentheses."""
    depth = 0
    while position < len(text) and (depth or text[position] not in marks):
        depth += (text[position] == "(") - (text[position] == ")")
        position += 1
    return position
