"""Random programs, whose results with native kernels, without them and eagerly are compared.

Run: ``python -m tests.compilation.programs FIRST COUNT``. It prints the number of kernels, and
fails at the first program whose results differ in a bit.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.runtime.generated.codegen import generate
from eagerflow.runtime.generated.instructions import flatten
from eagerflow.runtime.generated.native_kernels import NativeProgram
from tests.kernels.native.compiling import same

_UNARY = ("exp", "tanh", "sigmoid", "negative", "abs", "square", "sqrt", "reciprocal", "log",
          "floor", "silu", "expm1", "log1p", "erf", "sin", "cos", "gelu", "softplus")  # fmt: skip


def _all(x: Any, axis: Any, keepdims: bool) -> Any:
    top = ef.max(x, axis=axis, keepdims=keepdims)
    return ef.where(ef.all(x < 2, axis=axis, keepdims=keepdims), top, -top)


_REDUCTIONS = (ef.sum, ef.max, ef.mean, ef.logsumexp, ef.var, ef.prod, _all)
_SIZES = ((3, 7), (1, 5), (20, 33), (4, 1), (17, 130))


def _binary(choice: float, x: Any, y: Any) -> Any:
    operations: tuple[Callable[[], Any], ...] = (
        lambda: x + y, lambda: x * y, lambda: x - y, lambda: ef.maximum(x, y), lambda: x / y,
        lambda: ef.where(x < y, x, y), lambda: x * 2.5 + 1, lambda: x**2, lambda: abs(x) ** y,
    )  # fmt: skip
    try:
        return operations[int(choice * len(operations))]()
    except ef.errors.ShapeError:
        return x + 1


def _next(values: list[Any], shape: tuple[int, int], draws: list[float]) -> Any:
    """The next value, computed from earlier ones."""
    what, first, second, choice = draws
    x, y = values[int(first * len(values))], values[int(second * len(values))]
    if what < 0.3:
        name = _UNARY[int(choice * len(_UNARY))]
        return getattr(ef, name)(x)
    if what < 0.65:
        return _binary(choice, x, y)
    if what < 0.85 and x.ndim:
        reduce = _REDUCTIONS[int(choice * 42) % 7]
        axis = (-1, 0, None)[int(choice * 6) % 3]
        return reduce(x, axis=axis, keepdims=choice > 0.5)
    if what < 0.9 and x.ndim:
        return ef.softmax(x, axis=-1)
    if what < 0.94 and x.ndim == 2:
        return ef.standardize(x, axis=-1)[int(choice * 3)]
    if what < 0.97 and x.ndim == 1 and x.shape[0] == shape[0]:
        return ef.reshape(x, (-1, 1))
    return ef.broadcast_to(ef.sum(x), shape)


def _stencil(x: Any, each: Any, border: str) -> list[Any]:
    """Parts of an array in one formula, with and without a border around it."""
    inside = (x[1:, :-1] * 0.5 + x[:-1, 1:]) * each[1:]
    around = ef.pad(inside, ((1, 0), (0, 1)), constant_values=float(border))
    return [around, inside] if border == "0" else [around, around[:, 1:] - x[:, 1:]]


def _gates(x: Any, y: Any) -> list[Any]:
    """Parts of a sum that are computed apart, and joined again."""
    parts = ef.split(x + y, x.shape[1], axis=1)
    wide = [ef.tanh(part) * y for part in parts[:3]]
    return [ef.concat(wide, axis=1), wide[0]]


def program(rng: random.Random, shape: tuple[int, int]) -> Callable[..., Any]:
    """A random function of `arguments`, which gives a tuple of tensors, or their gradients too."""
    steps = [[rng.random() for _ in range(4)] for _ in range(rng.randint(2, 14))]
    counter = ef.Variable(np.ones(shape, np.float32))
    row = ef.Variable(np.ones(shape[1:], np.float32))  # updated in the same way
    updates = rng.random() < 0.3

    def function(*arguments: Any) -> tuple[Any, ...]:
        values = list(arguments)
        for draws in steps:
            values.append(_next(values, shape, draws))
        if updates:
            last = values[-1]
            change = last if last.shape == shape else arguments[1]
            values.append(counter.assign_sub(change * 0.5 * counter) + 1)
            row.assign_sub(arguments[2] * 0.5 * row)
        if stencil and values[-1].shape == shape:
            values += _stencil(values[-1], arguments[3], border)
        if gates and values[-1].shape == shape:
            values += _gates(values[-1], arguments[1])
        return tuple([-x for x in values[-4:]])

    def with_gradients(*arguments: Any) -> tuple[Any, ...]:
        with ef.GradientTape() as tape:
            for x in arguments:
                tape.watch(x)
            results = function(*arguments)
            loss = sum((ef.sum(y) for y in results), ef.tensor(0.0))
        gradients = tape.gradient(loss, list(arguments))
        return (*results, *[g for g in gradients if g is not None])

    made = with_gradients if rng.random() < 0.5 else function
    stencil, border = rng.random() < 0.4, rng.choice(("0", "-0.5", "inf"))
    gates = rng.random() < 0.3
    made.__dict__["variables"] = counter, row
    return made


def arguments(seed: int, shape: tuple[int, int]) -> list[Any]:
    """Tensors of all shapes that broadcast to one.

    Sometimes an operand is in column-major order, or is a part of a larger array.
    """
    rng = np.random.default_rng(seed)
    rows, columns = shape
    shapes = [shape, shape, (columns,), (rows, 1), (), (1, columns)]
    arrays = [rng.normal(size=s).astype(np.float32) for s in shapes]
    if rng.random() < 0.2:
        arrays[0] = np.asfortranarray(arrays[0])
    if rng.random() < 0.2:
        arrays[1] = rng.normal(size=(rows + 2, columns + 3)).astype(np.float32)[1:-1, 2:-1]
    return [ef.asarray(x) for x in arrays]


def check(seed: int) -> int:
    """Compare one program's results; gives the number of its kernels."""
    rng = random.Random(seed)
    shape = rng.choice(_SIZES)
    function = program(rng, shape)
    inputs = arguments(seed, shape)
    variables = function.__dict__["variables"]
    graph = ef.trace(function).graph(*inputs)
    instructions = flatten(graph)
    native = NativeProgram(instructions)
    starts = [np.array(x.numpy()) for x in variables]

    def begin() -> None:
        for variable, start in zip(variables, starts, strict=True):
            variable.assign(start)

    # unused inputs are not in the graph
    by_name = {f"arguments_{i}": x for i, x in enumerate(inputs)}
    raw = [by_name[v.label]._data for v in graph.inputs]
    results = []
    for code in (generate("f", instructions), generate("f", instructions, native=native)):
        begin()
        results.append([*code.run(*raw), *[np.array(x.numpy()) for x in variables]])
    begin()
    results.append([*[x.numpy() for x in function(*inputs)], *[x.numpy() for x in variables]])
    for other in results[1:]:
        for i, (x, y) in enumerate(zip(results[0], other, strict=True)):
            assert same(x, y), (seed, i, graph)
            assert x.flags.c_contiguous == y.flags.c_contiguous or x.ndim < 2, (seed, i)
    return len(native.kernels)


if __name__ == "__main__":
    ef.config(kernels="native")
    first, count = map(int, sys.argv[1:])
    print(sum(map(check, range(first, first + count))))
