"""Functions traced with symbolic sizes; their graphs run, node by node, with other sizes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import eagerflow as ef
from eagerflow.core.op import bind, get_op
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.dims import Dim, evaluate
from eagerflow.graph.verify import verify
from eagerflow.tracing.tracer import Tracer
from tests.ops.table import map_type


class Traced:
    """A function, traced once.

    Args:
        function: the function.
        args: its arguments; each axis of a tensor becomes a symbol of its own, unless the index of
            the argument is in ``fixed``.
        kwargs: other arguments.
        fixed: the indices of arguments whose sizes stay numbers.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any] | None = None,
        fixed: Sequence[int] = (),
    ) -> None:
        self.tracer = tracer = Tracer("case")
        self.names: list[tuple[int, int, str]] = []
        self.count = 0
        with tracer:
            inputs = [
                map_type(Tensor, lambda x, i=i: self._input(x, i in fixed), a)
                for i, a in enumerate(args)
            ]
            result = function(*inputs, **(kwargs or {}))
            leaves: list[Tensor] = []
            self.shape = map_type(Tensor, lambda x: leaves.append(x) or len(leaves) - 1, result)
            tracer.graph.outputs = [tracer.value_of(x) for x in leaves]
        verify(tracer.graph)

    def _input(self, x: Tensor, fixed: bool) -> Tensor:
        shape = []
        for axis, size in enumerate(x.shape):
            if fixed:
                shape.append(size)
                continue
            name = f"n{len(self.names)}"
            self.names.append((self.count, axis, name))
            shape.append(self.tracer.sizes.add(name, size))
        self.count += 1
        return self.tracer.add_input(type_of(x).like(shape=tuple(shape)), f"x{self.count}")

    @property
    def specialised(self) -> dict[str, Any]:
        """The sizes that became static, each with its cause and line."""
        return self.tracer.sizes.static

    def __call__(self, *args: Any) -> Any:
        """Run the graph with other arguments of the same structure."""
        tensors: list[Tensor] = []
        for a in args:
            map_type(Tensor, tensors.append, a)
        sizes = {name: tensors[i].shape[axis] for i, axis, name in self.names}
        graph = self.tracer.graph
        values: dict[Any, Any] = dict(zip(graph.inputs, tensors, strict=False))
        values |= {c.value: c.handle for c in self.tracer.captures.values()}
        for node in graph.nodes:
            inputs = [values[v] for v in node.inputs]
            attrs = {k: _known(v, sizes) for k, v in node.attrs.items()}
            outputs = _run(node, inputs, attrs)
            for v, y in zip(node.outputs, outputs, strict=True):
                values[v] = y
                if isinstance(y, Tensor):
                    for size, got in zip(v.type.shape, y.shape, strict=True):
                        if isinstance(size, Dim) and size.is_name and str(size) not in sizes:
                            sizes[str(size)] = got
                    want = tuple(evaluate(d, sizes) for d in v.type.shape)
                    assert y.shape == want, f"{node.op}: rule {v.type} = {want}, kernel {y.shape}"
                    assert y.dtype is v.type.dtype, node.op
        results = [values[v] for v in graph.outputs]
        return map_type(int, lambda i: results[i], self.shape)


def _known(item: Any, sizes: dict[str, int]) -> Any:
    if isinstance(item, Dim):
        return item.evaluate(sizes)
    if type(item) is tuple:
        return tuple(_known(i, sizes) for i in item)
    if type(item) is slice:
        return slice(*(_known(i, sizes) for i in (item.start, item.stop, item.step)))
    return item


def _run(node: Any, inputs: list[Any], attrs: dict[str, Any]) -> tuple[Any, ...]:
    if node.op == "constant":
        return (attrs["value"],)
    if node.op == "python_size":
        return (attrs["size"],)
    if node.op == "python_tensor":
        kind = node.outputs[0].spec
        return (ef.tensor(inputs[0], dtype=kind.dtype, device=kind.device),)
    if node.op.startswith("python_"):
        return (getattr(operator, node.op.removeprefix("python_"))(*inputs),)
    out = bind(get_op(node.op), *inputs, **attrs)
    return out if isinstance(out, tuple) else (out,)
