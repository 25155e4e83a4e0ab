"""The flat graph that lowering builds, gates of its frame paths, and names of sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, final

from eagerflow.dims import Dim, Size, same
from eagerflow.graph.edit import lone_names, named_sizes
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.name_scopes import free_name
from eagerflow.graph.value_types import ValueType
from eagerflow.types import TensorType


@final
class FlatGraph:
    """The flat graph under construction.

    Args:
        name: of the graph.
        whole: as for `eagerflow.graph.lowering.lower`.
        loop: ``loop(part, node, inputs, after)`` lowers a loop.
    """

    def __init__(
        self, name: str, whole: Callable[[Node], bool], loop: Callable[..., Sequence[Value]]
    ) -> None:
        self.graph = Graph(name)
        self.whole = whole
        self.loop = loop
        self.frames = Graph()  # hands out unique names of frames
        self.made: set[str] = set()  # names of sizes that nodes introduced

    def fresh_size(self, name: str) -> Dim:
        """A size of that name, with a number if it is taken; takes it."""
        free = free_name(name, self.made)
        self.made.add(free)
        return Dim(free)


@final
class Gate:
    """The signal that a frame path is reached, so that the nodes in it may run.

    Args:
        loose: values that do not imply that it is reached: invariants of a loop, constants.
        gate: a value or a node that implies it; None for the outermost path.
        teller: gives for the name of a size an enclosing value whose shape has it.

    Attributes:
        loose: the same.
        teller: the same.
    """

    def __init__(
        self, loose: Sequence[Value] = (), gate: Value | Node | None = None,
        teller: Callable[[str], Value | None] = lambda name: None,
    ) -> None:  # fmt: skip
        self.loose = set(loose)
        self.teller = teller
        self._gate = gate

    def pivot(self, graph: Graph) -> Node | None:
        """A node to wait for, which runs if this path is reached."""
        if isinstance(self._gate, Value):
            gate = self._gate
            self._gate = graph.add_node("Identity", [gate], [gate.type], name="pivot")
        return self._gate


# --- sizes ---


def first_teller(name: str, values: Iterable[Value]) -> Value | None:
    """The first of ``values`` whose shape gives a size."""
    return next((v for v in values if name in lone_names(v.type)), None)


def sizes_of(graph: Graph, operands: Sequence[Value], flat: FlatGraph) -> dict[str, Size]:
    """The sizes in the flat graph of names in ``graph``, where the two differ."""
    sizes: dict[str, Size] = {}
    known = set[str]()
    for param, value in zip(graph.inputs, operands, strict=True):
        for size, given, _ in axes_of(param.type, value.type, value.type):
            if isinstance(size, Dim) and size.is_name and str(size) not in known:
                known.add(str(size))
                if not same(size, given):
                    sizes[str(size)] = given
    for node in graph.nodes:
        given_names = known | set(named_sizes(tuple(node.attrs.values())))
        for value in node.outputs:
            for name in lone_names(value.type):
                if name not in given_names and name in flat.made:
                    sizes[name] = flat.fresh_size(name)
                elif name not in given_names:
                    flat.made.add(name)
                known.add(name)
    flat.made |= {n for v in operands for n in lone_names(v.type)}
    return sizes


def axes_of(*kinds: ValueType) -> Iterator[tuple[Any, ...]]:
    """The sizes of types along each axis."""
    if all(isinstance(k, TensorType) for k in kinds):
        yield from zip(*[k.shape for k in kinds], strict=False)


def used_inputs(graph: Graph) -> set[int]:
    """The indices of the inputs that are used."""
    taken = {v for node in graph.nodes for v in node.inputs} | set(graph.outputs)
    return {i for i, v in enumerate(graph.inputs) if v in taken}
