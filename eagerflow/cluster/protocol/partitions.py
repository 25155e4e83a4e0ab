"""Partitions as messages and back: the text of the graph, its arrays, names for its resources.

A graph from another process is parsed, and checked node by node, before it is kept. It names ops of
this process, and resources of its containers; nothing in it is run, or looked up as an attribute.
`op_permissions.py` says which ops may run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from eagerflow.cluster.protocol.codec import all_taken
from eagerflow.cluster.protocol.eager_actions import DefineOp
from eagerflow.cluster.protocol.message_heads import ArrayHead
from eagerflow.cluster.protocol.message_limits import LIMITS, Limits
from eagerflow.cluster.protocol.messages import Register
from eagerflow.cluster.protocol.op_permissions import check_op
from eagerflow.cluster.protocol.values import Frame, decode_array, encode_value
from eagerflow.core.op import Op, find_op
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import array_tensor, bytes_tensor
from eagerflow.errors import GraphError, ProtocolError, ResourceError
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.signatures import lead_of, signatures
from eagerflow.graph.text.parser import FindDevice, parse_graph
from eagerflow.graph.text.printer import Printer
from eagerflow.graph.value_types import Reference
from eagerflow.graph.verify import verify
from eagerflow.hardware import as_device
from eagerflow.resources.containers import ResourceName
from eagerflow.types import BYTES, as_dtype

#: gives the resource of a container and a name, None if there is none
Find = Callable[[str, str], Any]


def write_partition(
    graphs: Sequence[Graph], number: int, partition: int, routes: Mapping[str, tuple[str, str]]
) -> tuple[Register, list[Frame]]:  # fmt: skip
    """The message that registers a partition, and its frames.

    Args:
        graphs: the graphs of the partition, one for each device of the task.
        number: the number of the message.
        partition: the number by which steps will name the partition.
        routes: for each edge the sending and the receiving device, each with its task.

    Raises:
        GraphError: a part of the graph has no text form, or a resource no name.
    """
    arrays, places, frames = _write(graphs)
    return Register(number, partition, arrays, places, dict(routes), len(graphs)), frames


def write_op(name: str, attrs: Mapping[str, Any], template: int) -> tuple[DefineOp, list[Frame]]:
    """The action that defines an op for eager calls, and its frames.

    Args:
        name: the name of the op.
        attrs: its attributes.
        template: the number by which calls will name it.

    Raises:
        GraphError: an attribute has no text form, or a resource no name.
    """
    graph = Graph()
    graph.add_node(name, (), (), attrs)
    resource = attrs.get("resource")
    if resource is not None:
        graph.resources["resource"] = resource
    arrays, places, frames = _write([graph])
    return DefineOp(template, arrays, places), frames


def _write(
    graphs: Sequence[Graph],
) -> tuple[dict[str, ArrayHead], dict[str, tuple[str, str]], list[Frame]]:
    """Heads of the arrays that the texts name, places of the resources, and the frames."""
    printer = Printer(strict=True)
    frames: list[Frame] = ["\n".join(printer.graph(graph)).encode() for graph in graphs]
    arrays: Any = {name: encode_value(x.numpy(), frames) for name, x in printer.arrays.items()}
    used = {name: r for graph in graphs for name, r in resources_of(graph).items()}
    return arrays, {name: _place(name, r) for name, r in used.items()}, frames


def resources_of(graph: Graph) -> dict[str, Any]:
    """The resources that nodes of a partition use, by name; its graph lists others as well."""
    used = {id(value) for node in _nodes(graph) for value in _items(node.attrs.values())}
    return {name: r for name, r in graph.resources.items() if id(r) in used}


def _place(name: str, resource: Any) -> tuple[str, str]:
    identity = getattr(resource, "identity", None)
    if not isinstance(identity, ResourceName):
        raise GraphError(
            f"@{name} cannot be used by another process",
            given=repr(resource),
            expected="variables, generators, queues and the like",
            hint="a Python function runs in the process that made it",
        )
    return identity.container, identity.name


def read_op(
    message: DefineOp, frames: Iterator[Frame], find: Find, limits: Limits = LIMITS,
    allows: Collection[str] = (), *, find_device: FindDevice = as_device,
) -> tuple[Op, dict[str, Any]]:  # fmt: skip
    """The op and the attributes of a message (see `write_op`); takes frames from ``frames``.

    Raises:
        EagerflowError: as for `read_partition`.
    """
    (graph,) = _read(message, 1, frames, find, limits, allows, find_device)
    if len(graph.nodes) != 1 or graph.inputs:
        raise GraphError("an eager op is a graph of one node", given=f"{len(graph.nodes)} nodes")
    (node,) = graph.nodes
    op = find_op(node.op)
    if op is None:
        raise GraphError(f"{node.op} is not an op that could run by itself")
    return op, node.attrs


def read_partition(
    message: Register, frames: Sequence[Frame], find: Find, limits: Limits = LIMITS,
    allows: Collection[str] = (), *, find_device: FindDevice = as_device,
) -> list[Graph]:  # fmt: skip
    """The graphs of a partition, one for each device.

    Args:
        message: the message.
        frames: its frames.
        find: finds a resource by container and name.
        limits: limits on the graph.
        allows: grants for its ops, beyond values and state.
        find_device: gives the device of a name, and loads no backend for it.

    Raises:
        ProtocolError: the frames do not fit the message, or the limits.
        ResourceError: a resource is not there.
        GraphError: a text is not a graph, or the graph may not run here.
    """
    rest = iter(frames)
    graphs = _read(message, message.graphs, rest, find, limits, allows, find_device)
    all_taken(rest)
    for node in [node for graph in graphs for node in graph.nodes]:
        for name in ("to", "source"):
            # the device of another task; values to or from it are packed here
            crosses = lead_of(node.op) in ("send", "receive")
            if crosses and type(node.attrs.get(name)) is Reference:
                node.attrs[name] = as_device("cpu:0")
    try:
        for graph in graphs:
            verify(graph)
    except RecursionError:
        raise GraphError("a graph is nested too deeply") from None
    return graphs


def _read(
    message: Register | DefineOp, count: int, frames: Iterator[Frame], find: Find, limits: Limits,
    allows: Collection[str], find_device: FindDevice,
) -> list[Graph]:  # fmt: skip
    texts = _texts([next(frames, None) for _ in range(count)], limits)
    arrays = {name: _tensor(head, frames) for name, head in message.arrays.items()}
    resources = {
        name: _found(container, known, find)
        for name, (container, known) in message.resources.items()
    }
    try:
        graphs = [parse_graph(text, resources, arrays, find_device=find_device) for text in texts]
        _check_nodes(graphs, limits, allows)
    except RecursionError:
        raise GraphError("a graph is nested too deeply") from None
    return graphs


def _texts(frames: Sequence[Frame | None], limits: Limits) -> list[str]:
    whole = [frame for frame in frames if frame is not None]
    if len(whole) < len(frames) or sum(map(len, whole)) > limits.text:
        raise ProtocolError(
            "a graph without a text, or with one that is too large",
            expected=f"at most {limits.text} bytes",
        )
    try:
        return [bytes(frame).decode() for frame in whole]
    except UnicodeDecodeError as error:
        raise ProtocolError(f"the text of a graph is not UTF-8: {error.reason}") from None


def _tensor(head: ArrayHead, frames: Iterator[Frame]) -> Tensor:
    data = decode_array(head, frames)
    device = as_device("cpu:0")
    dtype = as_dtype(head.dtype)
    if dtype is BYTES:
        return bytes_tensor(data, device)
    return array_tensor(data, dtype, device, copy=None)


def _found(container: str, name: str, find: Find) -> Any:
    resource = find(container, name)
    if resource is None:
        raise ResourceError(
            f"there is no {name!r} in the container {container!r}",
            hint="its task may have been restarted since it was made",
        )
    return resource


def _check_nodes(graphs: Sequence[Graph], limits: Limits, allows: Collection[str]) -> None:
    """Refuse graphs that are too large, and nodes that may not run here."""
    for count, node in enumerate(chain.from_iterable(map(_nodes, graphs)), 1):
        if count > limits.nodes:
            raise ProtocolError("a graph is too large", expected=f"at most {limits.nodes} nodes")
        if node.op not in signatures:
            check_op(node, allows)
        for value in _items(node.attrs.values()):
            if isinstance(value, Reference) and value.kind != "device":
                raise GraphError(
                    f"{node.op}: {value.name!r} is not known here", given=f"&{node.name}"
                )


def _nodes(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph and its subgraphs."""
    waiting = [graph]
    while waiting:
        for node in waiting.pop().nodes:
            yield node
            waiting += [inner for _, inner in node.subgraphs()]


def _items(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _items(value)
        else:
            yield value
