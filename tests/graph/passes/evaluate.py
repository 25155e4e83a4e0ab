"""A small reference evaluator, node by node through `bind`, and checks of passes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.core.op import bind, get_op
from eagerflow.core.to_tensor import as_tensor
from eagerflow.dims import Dim
from eagerflow.graph import Graph, Node, Value
from eagerflow.graph.passes import Pass, Report
from eagerflow.hardware.kernel_library import native_form
from eagerflow.types import TensorType
from eagerflow_kernels import table

NUMBERS: dict[str, Callable[..., Any]] = {
    "python_abs": abs, "python_complex": complex, "python_float": float, "python_int": int,
    "python_max": max, "python_min": min,
    **{f"python_{n}": getattr(operator, n) for n in (
        "add", "floordiv", "mod", "mul", "neg", "pos", "pow", "sub", "truediv")},
}  # fmt: skip


def run(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of ``graph``."""
    values = evaluate(graph, inputs)
    return [values[v] for v in graph.outputs]


def evaluate(graph: Graph, inputs: Sequence[Any]) -> dict[Value, Any]:
    """All values of ``graph``; buffers are reused where nodes say so."""
    values: dict[Value, Any] = {}
    sizes: dict[str, int] = {}
    for value, given in zip(graph.inputs, inputs, strict=True):
        values[value] = given
        _learn(value, given, sizes)
    for node in graph.nodes:
        results = _run(node, [values[v] for v in node.inputs], sizes)
        for value, made in zip(node.outputs, results, strict=True):
            values[value] = made
            _learn(value, made, sizes)
    return values


def _learn(value: Value, given: Any, sizes: dict[str, int]) -> None:
    if isinstance(value.type, TensorType):
        for size, known in zip(value.type.shape, given.shape, strict=True):
            if isinstance(size, Dim) and size.is_name:
                sizes.setdefault(str(size), known)


def _sized(item: Any, sizes: dict[str, int]) -> Any:
    if isinstance(item, Dim):
        return item.evaluate(sizes)
    return tuple([_sized(i, sizes) for i in item]) if isinstance(item, tuple) else item


def _run(node: Node, inputs: list[Any], sizes: dict[str, int]) -> Sequence[Any]:
    op, attrs = node.op, {k: _sized(v, sizes) for k, v in node.attrs.items()}
    if op == "constant":
        return (attrs["value"],)
    if op == "python_size":
        return (attrs["size"],)
    if op == "python_tensor":
        return (as_tensor(inputs[0], node.outputs[0].type.dtype),)
    if op in NUMBERS:
        return (NUMBERS[op](*inputs),)
    if op == "call":
        return run(attrs["body"], inputs)
    if op == "cond":
        predicate, *operands = inputs
        return run(attrs["branches"][0 if predicate.numpy() else 1], operands)
    if node.reuses is not None:
        return (_in_place(node, inputs),)
    outputs = bind(get_op(op), *inputs, **attrs)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _in_place(node: Node, inputs: list[Any]) -> Any:
    """The result in the reused buffer, after a check that it equals the result in a new buffer."""
    assert node.reuses is not None
    want = bind(get_op(node.op), *inputs)
    arrays = [x._data for x in inputs]
    names = (inputs[0].dtype.name,) * len(inputs)
    kernel = native_form(node.op, names) or table.find(node.op, "cpu", names[:1], np)
    assert isinstance(kernel, np.ufunc)
    buffer = arrays[node.reuses]
    kernel(*arrays, out=buffer)
    assert_same([want], [inputs[node.reuses]])
    return ef.asarray(buffer)


def assert_same(want: Sequence[Any], got: Sequence[Any]) -> None:
    """Assert that values have the same bits, but those of NaNs, and the same order of axes."""
    assert len(want) == len(got)
    for a, b in zip(want, got, strict=True):
        if not isinstance(a, ef.Tensor):
            assert type(a) is type(b)
            assert repr(a) == repr(b)
            continue
        assert a.type == b.type
        x, y = a.numpy(), b.numpy()
        assert _bits(x) == _bits(y), (x, y)
        if x.size:
            assert strides(x) == strides(y), (x.shape, x.strides, y.strides)


def _bits(x: np.ndarray[Any, Any]) -> bytes:
    """The bits of an array with one and the same NaN: `maximum(x, x)` is `x` but for its NaNs."""
    if x.dtype.kind not in "fc":
        return x.tobytes()
    parts = np.ascontiguousarray(x).view(x.real.dtype)
    return np.where(np.isnan(parts), np.array(np.nan, parts.dtype), parts).tobytes()


def strides(x: np.ndarray[Any, Any]) -> list[int]:
    return [s for s, d in zip(x.strides, x.shape, strict=True) if d > 1]


def changed(run_pass: Pass, before: str, after: str) -> Report:
    """Check that the pass gives ``after`` for ``before``, and leaves its argument unchanged."""
    graph = Graph.parse(before)
    text = str(graph)
    result, report = run_pass(graph)
    assert str(graph) == text
    assert str(result) == str(Graph.parse(after))
    assert run_pass(result)[0] is result
    assert (report.before, report.after) == (len(graph.nodes), len(result.nodes))
    return report


def unchanged(run_pass: Pass, text: str) -> None:
    """Check that the pass finds nothing to do."""
    graph = Graph.parse(text)
    result, report = run_pass(graph)
    assert result is graph, str(report)
    assert not report.changes
