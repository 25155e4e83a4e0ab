"""The printer of the text form of a graph; the grammar is in `eagerflow.graph.ir`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, final

from eagerflow.core.tensor import Tensor
from eagerflow.dims import Dim
from eagerflow.errors import GraphError
from eagerflow.graph.devices import is_derivable
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.text.constants import content_name, has_values, numbers
from eagerflow.graph.value_types import Reference
from eagerflow.hardware import Device
from eagerflow.hardware.device_names import DeviceName
from eagerflow.resources.kind_words import kind_name
from eagerflow.types import DType, text_of

_IDENTIFIER: Final = re.compile(r"[^\W\d]\w*")
_INDENT: Final = "  "
_NOTED: Final = 200  # characters of a node in the note of an error


def print_node(node: Node, graph: Graph | None = None) -> str:
    """The line of one node, without the user's line, subgraphs in one line each."""
    printer = Printer(sources=False, bodies=False)
    if graph is not None:
        printer.enter(graph)
    return printer.node(node, "")


def node_note(node: Node) -> str:
    """The note of an error that names the failed node."""
    text = print_node(node).split(" # ")[0]
    return f"  node: {text if len(text) <= _NOTED else text[:_NOTED] + '…'}"


def quote(text: str) -> str:
    """``text`` as a string of JSON; non-printable characters are escaped."""
    quoted = json.dumps(text, ensure_ascii=False)
    if quoted.isprintable():
        return quoted
    return "".join([c if c.isprintable() else json.dumps(c)[1:-1] for c in quoted])


def _name(text: str) -> str:
    plain = (text.isascii() and text.isidentifier()) or _IDENTIFIER.fullmatch(text)
    return text if plain else quote(text)


@final
class Printer:
    """A printer of graphs.

    Args:
        sources: whether to print the user's lines.
        bodies: whether to print subgraphs, or their names only.
        strict: whether to refuse objects that have no text form, instead of showing their class.

    Attributes:
        arrays: the large arrays met so far, by name.
    """

    def __init__(
        self,
        *,
        sources: bool = True,
        bodies: bool = True,
        strict: bool = False,
    ) -> None:
        self.sources = sources
        self.bodies = bodies
        self.strict = strict
        self.arrays: dict[str, Tensor] = {}
        self._resources: dict[int, str] = {}  # names by identity
        self._types: dict[int, str] = {}  # by identity

    def enter(self, graph: Graph) -> None:
        """Register the names of the resources of ``graph``."""
        for name, resource in graph.resources.items():
            self._resources.setdefault(id(resource), name)

    def graph(self, graph: Graph, indent: str = "") -> Iterator[str]:
        """The lines of ``graph``, the first one without indentation."""
        self.enter(graph)
        inputs = ", ".join([f"{self.value(v)}: {self.spec(v)}" for v in graph.inputs])
        name = f" {_name(graph.name)}" if graph.name else ""
        yield f"graph{name}({inputs}) {{"
        inner = indent + _INDENT
        for node in graph.nodes:
            yield inner + self.node(node, inner)
        yield f"{inner}return {self.values(graph.outputs)}".rstrip()
        yield f"{indent}}}"

    def values(self, values: Iterable[Value]) -> str:
        """Values with commas between."""
        return ", ".join([self.value(v) for v in values])

    def value(self, value: Value) -> str:
        """The text that refers to a value."""
        node = value.node
        if node is None:
            return f"%{_name(value.label)}"
        if len(node.outputs) == 1:
            return f"%{_name(node.name)}"
        return f"%{_name(node.name)}.{value.index}"

    def spec(self, value: Value) -> str:
        """The type and the device of a value."""
        kind = value.type
        text = self._types.get(id(kind))
        if text is None:
            text = self._types[id(kind)] = str(kind)
        return text_of(text, value.device)

    def node(self, node: Node, indent: str) -> str:
        """The text of a node; ``indent`` is the indentation of the lines after the first."""
        label = f"{self.values(node.outputs)} =" if node.outputs else f"&{_name(node.name)}:"
        text = f"{label} {_name(node.op)}({self.values(node.inputs)})"
        if node.attrs:
            attrs = [f"{_name(k)}={self.literal(v, indent)}" for k, v in node.attrs.items()]
            text += f" {{{', '.join(attrs)}}}"
        if node.outputs:
            text += f" : {', '.join([self.spec(v) for v in node.outputs])}"
        if node.control_inputs:
            text += f" after {', '.join([f'&{_name(n.name)}' for n in node.control_inputs])}"
        if node.reuses is not None:
            # a slice, since `verify` reports an index out of range
            text += f" into {self.values(node.inputs[node.reuses : node.reuses + 1])}"
        if node.device is not None and (node.because or not is_derivable(node)):
            text += f" on {quote(str(node.device))}"
            if node.because:
                text += f" because {quote(node.because)}"
        if isinstance(node.leeway, DeviceName):
            text += f" within {quote(str(node.leeway))}"
        if node.scope:
            text += f" in {quote(node.scope)}"
        if self.sources and node.source is not None:
            source = " ".join(str(node.source).split())  # one line, whatever it holds
            text += f" # {source}" if source else ""
        return text

    def literal(self, value: Any, indent: str) -> str:
        """An attribute's value as text."""
        kind = type(value)
        plain = _PLAIN.get(kind)
        if plain is not None:
            return plain(value)
        form = _FORMS.get(kind)
        if form is not None:
            return form(self, value, indent)
        if id(value) in self._resources:
            return f"@{self._resource(value)}"
        if isinstance(value, (tuple, list)):
            return self._tuple(value, indent)
        for base, show in _PLAIN.items():
            if isinstance(value, base):  # an enum, or a number of NumPy
                return show(value)
        if hasattr(value, "dtype") and hasattr(value, "item") and not getattr(value, "ndim", 1):
            return self.literal(value.item(), indent)
        if self.strict:
            raise GraphError(
                f"a {kind.__name__} has no text form",
                given=repr(value),
                hint="put it into graph.resources under a name",
            )
        name = getattr(value, "name", None)
        return f"@{_name(name)}" if isinstance(name, str) and name else f"<{kind_name(kind)}>"

    def _tuple(self, items: Iterable[Any], indent: str) -> str:
        shown = [self.literal(item, indent) for item in items]
        return f"({shown[0]},)" if len(shown) == 1 else f"({', '.join(shown)})"

    def _slice(self, value: slice, indent: str) -> str:
        return f"slice{self._tuple((value.start, value.stop, value.step), indent)}"

    def _subgraph(self, graph: Graph, indent: str) -> str:
        return "\n".join(self.graph(graph, indent)) if self.bodies else f"graph {graph.name}"

    def _tensor(self, tensor: Tensor, indent: str) -> str:
        head = f"{tensor.dtype.short}[{','.join(map(str, tensor.shape))}]"
        if not has_values(tensor):
            return f"tensor({head}, $null)"
        literals = numbers(tensor)
        if literals is not None:
            comma = "," if len(literals) == 1 else ""
            return f"tensor({head}, ({', '.join(literals)}{comma}))"
        name = content_name(tensor)
        self.arrays[name] = tensor
        return f"tensor({head}, ${name})"

    def _reference(self, reference: Reference, indent: str) -> str:
        if reference.kind == "array":
            return f"tensor({reference.type}, ${_name(reference.name)})"
        if reference.kind == "device":
            return f"device({quote(reference.name)})"
        return f"@{self._resource(reference)}"

    def _resource(self, resource: Any) -> str:
        return _name(self._resources.get(id(resource), getattr(resource, "name", "")))


def _complex(value: complex) -> str:
    return f"complex({value.real!r}, {value.imag!r})"


_PLAIN: Final[dict[type, Callable[[Any], str]]] = {
    type(None): repr,
    bool: bool.__repr__,
    int: int.__repr__,
    float: float.__repr__,
    complex: _complex,
    bytes: lambda value: f"bytes({quote(value.decode('latin-1'))})",
    str: lambda value: quote(str.__str__(value)),
    type(...): lambda value: "...",
    DType: lambda value: value.short,
    Dim: str,
    Device: lambda value: f"device({quote(value.name)})",
}

_FORMS: Final[dict[type, Callable[[Printer, Any, str], str]]] = {
    tuple: Printer._tuple,
    list: Printer._tuple,
    slice: Printer._slice,
    Graph: Printer._subgraph,
    Tensor: Printer._tensor,
    Reference: Printer._reference,
}
