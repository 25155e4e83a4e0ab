"""Test graphs: random graphs with every feature of the text form, and small graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.dims import broadcast, maximum, minimum
from eagerflow.graph import Graph, NumberType, Value
from eagerflow.types import DTYPES, TensorType

N, M = ef.Dim("n"), ef.Dim("m")

#: stand-ins for variables and queues, of which the text form needs nothing but identity
RESOURCES = {name: object() for name in ("w", "encoder/b", "queue 1", "größe")}

DIMS = st.one_of(
    st.integers(0, 20),
    st.sampled_from(
        [N, M, 2 * N + 1, N // 2, (N + 1) // 2, N % 3, N * M, maximum(N - 2, 0), minimum(N, 7)]
    ),
    st.sampled_from([broadcast(N, M), N * (M // 2), -N + M, N // (2 * M), 3 * (N // 2) - M]),
)
HERE = [ef.hardware.as_device(name) for name in ("cpu:0", "null:3")]
DEVICES = st.sampled_from([None, *HERE, "worker:1/gpu:0"])


def _type(dtype: str, shape: list[Any]) -> TensorType:
    return TensorType(DTYPES[dtype], tuple(shape))


TENSOR_TYPES = st.builds(_type, st.sampled_from(sorted(DTYPES)), st.lists(DIMS, max_size=3))
TYPES = st.one_of(TENSOR_TYPES, st.sampled_from([NumberType(k) for k in (int, float, complex)]))


def _tensor(dtype: str, shape: list[int], seed: int) -> Any:
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, (*shape, DTYPES[dtype].itemsize), dtype=np.uint8)
    if dtype == "bool":
        raw &= 1
    return ef.tensor(raw.reshape(-1).view(DTYPES[dtype].dtype).reshape(shape))


TENSORS = st.builds(
    _tensor,
    st.sampled_from(sorted(DTYPES)),
    st.lists(st.integers(0, 4), max_size=3),
    st.integers(0, 99),
)
STRINGS = st.one_of(st.text(max_size=8), st.sampled_from(['"', "\\", "\n#", "é→😀", "\ud800", ""]))
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([-0.0, float("inf"), float("-inf"), float("nan"), 1e300, 5e-324]),
    st.complex_numbers(),
    st.sampled_from([complex(-0.0, float("nan")), complex(float("inf"), -0.0), ...]),
    STRINGS,
    st.sampled_from(list(DTYPES.values())),
    st.sampled_from([ef.hardware.as_device("cpu:0"), ef.hardware.as_device("null:3")]),
    DIMS,
    TENSORS,
    st.sampled_from(list(RESOURCES.values())),
)
SLICE_PARTS = st.one_of(st.none(), st.integers(-9, 9), st.sampled_from([N, N - 1]))
NAMES = st.one_of(
    st.sampled_from(["x", "y", "add", "x_1", "θ", "größe", "graph", "return", "after", "f32"]),
    st.text(min_size=1, max_size=5),
)


def attributes(depth: int) -> st.SearchStrategy[Any]:
    """A strategy for values of attributes, with subgraphs of at most ``depth`` levels."""
    leaves = [LEAVES, st.builds(slice, SLICE_PARTS, SLICE_PARTS, SLICE_PARTS)]
    if depth:
        leaves.append(graphs(depth - 1))
    return st.recursive(
        st.one_of(*leaves), lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4
    )


@st.composite
def graphs(draw: Any, depth: int = 1) -> Graph:
    """A graph with a sound structure and arbitrary types."""
    graph = Graph(draw(st.one_of(st.just(""), NAMES)))
    graph.resources = dict(RESOURCES)
    for _ in range(draw(st.integers(0, 3))):
        graph.add_input(draw(TYPES), draw(NAMES), draw(DEVICES))
    for _ in range(draw(st.integers(0, 5))):
        values: list[Value] = list(graph.values())
        some = st.lists(st.sampled_from(values), max_size=3) if values else st.just([])
        before = st.lists(st.sampled_from(graph.nodes), max_size=2, unique_by=id)
        device = draw(DEVICES)
        node = graph.add_node(
            draw(NAMES),
            draw(some),
            draw(st.lists(TYPES, max_size=3)),
            draw(st.dictionaries(NAMES, attributes(depth), max_size=3)),
            draw(st.one_of(st.none(), NAMES)),
            control_inputs=tuple(draw(before)) if graph.nodes else (),
            device=device,
            because=draw(STRINGS) if device is not None else "",
            scope=draw(STRINGS),
            source=draw(st.one_of(st.none(), STRINGS)),
        )
        if node.inputs and draw(st.booleans()):
            node.reuses = node.inputs.index(draw(st.sampled_from(node.inputs)))
    values = list(graph.values())
    if values:
        graph.outputs = draw(st.lists(st.sampled_from(values), max_size=3))
    return graph


def small(text: str) -> Graph:
    """The graph of a text, with the resources in `RESOURCES`."""
    return Graph.parse(text, RESOURCES)
