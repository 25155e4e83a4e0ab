"""Random graphs of real ops with right types, and values for their inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.core.infer import infer
from eagerflow.core.op import get_op
from eagerflow.errors import EagerflowError
from eagerflow.graph import Graph, Value
from eagerflow.types import TensorType

CPU = ef.hardware.as_device("cpu:0")
Attributes = Callable[[TensorType, int], dict[str, Any]]


def _axes(kind: TensorType, pick: int) -> tuple[int, ...]:
    return tuple(i for i in range(kind.ndim) if pick >> i & 1)


def _order(kind: TensorType, pick: int) -> tuple[int, ...]:
    axes = list(range(kind.ndim))
    return tuple(axes[::-1] if pick % 2 else axes[pick % 3 % max(1, len(axes)) :]
                 + axes[: pick % 3 % max(1, len(axes))])  # fmt: skip


def _new_shape(kind: TensorType, pick: int) -> tuple[Any, ...]:
    flat = (kind.size,)
    return [kind.shape, flat, (1, *kind.shape), (*kind.shape[::-1],), (*kind.shape, 1)][pick % 5]


def _wider(kind: TensorType, pick: int) -> tuple[Any, ...]:
    return [kind.shape, (2, *kind.shape), (1, *kind.shape)][pick % 3]


ELEMENTWISE = ("negative", "abs", "positive", "identity", "stop_gradient", "copy", "conj", "exp",
               "floor", "ceil", "round", "trunc", "square", "bitwise_invert", "logical_not",
               "isnan")  # fmt: skip
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "floor_divide",
          "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor",
          "less", "equal", "matmul", "bitwise_left_shift")  # fmt: skip
SHAPED: dict[str, Attributes] = {
    "reshape": lambda t, i: {"shape": _new_shape(t, i)},
    "permute_dims": lambda t, i: {"axes": _order(t, i)},
    "flip": lambda t, i: {"axis": _axes(t, i)},
    "broadcast_to": lambda t, i: {"shape": _wider(t, i)},
    "expand_dims": lambda t, i: {"axis": ((0,), (t.ndim,), ())[i % 3]},
    "squeeze": lambda t, i: {"axis": ((0,), (t.ndim - 1,), ())[i % 3]},
    "sum": lambda t, i: {"axis": _axes(t, i), "keepdims": i % 3 == 0},
    "max": lambda t, i: {"axis": _axes(t, i), "keepdims": i % 3 == 0},
    "cast": lambda t, i: {"dtype": (ef.float32, ef.float64, ef.int64, ef.int32, ef.bool)[i % 5]},
    "getitem": lambda t, i: {"key": ((None, None, 2),) * min(1, t.ndim)},
}
#: exact conversions only: the conversion of NaN to an integer is undefined
SAFE = {("real floating", "signed integer")}

SCALARS = [
    *(ef.tensor(v, dtype=d) for d in (ef.float32, ef.float64) for v in (1.0, 0.0, -0.0, 2.0)),
    *(ef.tensor(v) for v in (1, 0, -1, 3, True, False, float("nan"))),
]
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    0.1,
    1e30,
    -1e30,
    5e-324,
    float("nan"),
    float("inf"),
    -float("inf"),
]

STEPS = st.lists(
    st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99), st.integers(0, 29)),
    max_size=14,
)


def build(steps: list[tuple[int, int, int, int]], n: Any, m: Any) -> Graph:
    """A graph: each step picks an op, its inputs and attributes; invalid steps are left out.

    Args:
        steps: numbers to pick by.
        n: a size, or its name.
        m: another size, or its name.
    """
    graph = Graph("f")
    for name, dtype, shape in (
        ("x", ef.float32, (n, 3)), ("y", ef.float32, (3, m)), ("v", ef.float32, (3,)),
        ("i", ef.int64, (n, 3)), ("b", ef.bool, (n, 3)), ("d", ef.float64, (2, m, 3)),
    ):  # fmt: skip
        graph.add_input(TensorType(dtype, shape), name, CPU)
    values = list(graph.inputs)
    for step in steps:
        values += _add(graph, values, *step)
    graph.outputs = values[-4:]
    return graph


def _add(graph: Graph, values: list[Value], what: int, a: int, b: int, i: int) -> tuple[Value, ...]:
    x, y = values[-1 - a % len(values)], values[-1 - b % len(values)]
    kind: Any = x.type
    ops = [
        *ELEMENTWISE,
        *BINARY,
        *BINARY,
        *SHAPED,
        *SHAPED,
        "constant",
        "constant",
        "where",
        "concat",
    ]
    op = ops[what % len(ops)]
    attrs: dict[str, Any] = {}
    inputs: tuple[Value, ...] = (x,)
    if op == "constant":
        value = SCALARS[i % len(SCALARS)]
        types = (value.type.type,)
        return graph.add_node(op, (), types, {"value": value}, device=value.device).outputs
    if op in BINARY:
        inputs = (x, y)
        if i % 2:
            fitting = [v for v in SCALARS if v.dtype is kind.dtype] or SCALARS
            number = fitting[i % len(fitting)]
            node = graph.add_node(
                "constant", (), (number.type.type,), {"value": number}, device=number.device
            )
            made = node.outputs[0]
            inputs = (x, made) if i % 3 else (made, x)
    elif op == "where":
        inputs = (next((v for v in values[::-1] if v.type.dtype is ef.bool), x), x, y)
    elif op == "concat":
        attrs = {"axis": 0}
        inputs = (x, y) if i % 2 else (x,)
    elif op in SHAPED:
        attrs = SHAPED[op](kind, i)
    if op == "cast" and (kind.dtype.category, attrs["dtype"].category) in SAFE:
        return ()
    try:
        output_type = infer(get_op(op), tuple(v.type for v in inputs), attrs)
    except (EagerflowError, IndexError):
        return ()
    return graph.add_node(op, inputs, (output_type,), attrs).outputs


def feeds(graph: Graph, sizes: dict[str, int], seed: int) -> list[Any]:
    """Values for the inputs, with special numbers, in various layouts."""
    rng = np.random.default_rng(seed)
    tensors = []
    for value in graph.inputs:
        kind: Any = value.type
        shape = [d.evaluate(sizes) if isinstance(d, ef.Dim) else d for d in kind.shape]
        if kind.dtype.is_floating:
            array = rng.normal(size=shape).astype(kind.dtype.dtype)
            mask = rng.random(shape) < 0.2
            with np.errstate(all="ignore"):
                array[mask] = rng.choice(SPECIAL, int(mask.sum())).astype(array.dtype)
        else:
            array = rng.integers(-3 if kind.dtype.is_integer else 0, 4, shape).astype(
                kind.dtype.dtype
            )
        tensors.append(ef.asarray(_laid(array, int(rng.integers(0, 4)))))
    return tensors


def _laid(array: np.ndarray[Any, Any], how: int) -> np.ndarray[Any, Any]:
    """The same elements in another layout: another order of axes, gaps, or reversed."""
    if how == 1:
        return np.asfortranarray(array)
    if how == 2:
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    return np.ascontiguousarray(array[::-1])[::-1] if how == 3 else array
