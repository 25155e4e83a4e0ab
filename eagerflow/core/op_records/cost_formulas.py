"""Cost rules of ops: operations and bytes, from types and attributes alone.

A record has a *cost rule*, ``rule(inputs, outputs, attrs)``, of the types of the inputs and of the
outputs. Sizes are plain numbers; those of symbolic axes are estimates, which may contradict each
other, so a cost rule checks nothing and never raises. Here are the rules that ops share; the cost
of a single op, such as ``flops=40``, is in its definition in `eagerflow.ops`. The time that an op
takes depends on the device: for the cores of this machine
`eagerflow.runtime.node_seconds` estimates it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log2, prod
from typing import Any, Final, NamedTuple

from eagerflow.types import TensorType

Types = Sequence[TensorType]


class Cost(NamedTuple):
    """The cost of an op.

    Attributes:
        flops: operations on elements one by one, in units of an addition: a sine is about 40.
        bytes: the bytes read from and written to memory.
        matrix: operations in products and decompositions of matrices, for which the libraries of
            linear algebra take threads of their own.
    """

    flops: float = 0.0
    bytes: float = 0.0
    matrix: float = 0.0


CostRule = Callable[[Types, Types, Mapping[str, Any]], Cost]


def size_of(kind: TensorType) -> int:
    """The number of elements."""
    sizes: Any = kind.shape
    return prod(sizes)


def bytes_of(kinds: Types) -> int:
    """The total size in bytes of arrays of these types."""
    return sum([size_of(kind) * kind.dtype.itemsize for kind in kinds])


def _last(kind: TensorType) -> int:
    size: Any = kind.shape[-1] if kind.shape else 1
    return int(size)


def free(inputs: Types, outputs: Types, attrs: Mapping[str, Any]) -> Cost:
    """The rule of ops that return a view, or an existing array."""
    return Cost()


FREE: Final[CostRule] = free


def per_output(flops: float) -> CostRule:
    """The rule of ops with ``flops`` operations per element of the first output.

    Args:
        flops: number of operations; an addition is one.

    >>> from eagerflow.extending import per_output
    >>> kind = ef.ones((2, 3)).type
    >>> per_output(40)([kind], [kind], {}).flops
    240
    """

    def rule(inputs: Types, outputs: Types, attrs: Mapping[str, Any]) -> Cost:
        total = flops * size_of(outputs[0]) if outputs else 0.0
        return Cost(total, bytes_of(inputs) + bytes_of(outputs))

    return rule


#: the default rule: one operation per element of the first output
moving: Final[CostRule] = per_output(1)


def per_input(flops: float) -> CostRule:
    """The rule of ops with ``flops`` operations per element of the first input."""

    def rule(inputs: Types, outputs: Types, attrs: Mapping[str, Any]) -> Cost:
        return Cost(flops * size_of(inputs[0]), bytes_of(inputs) + bytes_of(outputs))

    return rule


def picking(inputs: Types, outputs: Types, attrs: Mapping[str, Any]) -> Cost:
    """The rule of ops that gather some elements of their first input."""
    written = bytes_of(outputs)
    return Cost(float(sum(map(size_of, outputs))), 2 * written + bytes_of(inputs[1:]))


def writing_rows(inputs: Types, outputs: Types, attrs: Mapping[str, Any]) -> Cost:
    """The rule of ops with inputs indices and rows that write rows of a variable, their output."""
    (variable,) = outputs
    rows = size_of(inputs[0]) * size_of(variable) // max(1, int(variable.shape[0]))
    return Cost(float(rows), 2 * rows * variable.dtype.itemsize + bytes_of(inputs))


def product(inputs: Types, outputs: Types, attrs: Mapping[str, Any]) -> Cost:
    """The rule of products along the last axis of the first input."""
    flops = 2.0 * size_of(outputs[0]) * _last(inputs[0])
    return Cost(matrix=flops, bytes=bytes_of(inputs) + bytes_of(outputs))


def decomposition(factor: float) -> CostRule:
    """The rule of LAPACK's decompositions: ``factor`` * n**3 operations for an n x n matrix."""

    def rule(inputs: Types, outputs: Types, attrs: Mapping[str, Any]) -> Cost:
        flops = factor * size_of(inputs[0]) * _last(inputs[0])
        return Cost(matrix=flops, bytes=bytes_of(inputs) + bytes_of(outputs))

    return rule


def sorting(inputs: Types, outputs: Types, attrs: Mapping[str, Any]) -> Cost:
    """The rule of ops that sort their first input."""
    size = size_of(inputs[0])
    return Cost(16 * size * log2(size + 2), bytes_of(inputs) + bytes_of(outputs))


def searching(inputs: Types, outputs: Types, attrs: Mapping[str, Any]) -> Cost:
    """The rule of ops that search for each element of one input in the other."""
    first, second = map(size_of, inputs)
    return Cost(16 * (first + second) * log2(first + 2), bytes_of(inputs) + bytes_of(outputs))


def fourier(inputs: Types, outputs: Types, attrs: Mapping[str, Any]) -> Cost:
    """The rule of fast Fourier transforms."""
    size = max(size_of(inputs[0]), size_of(outputs[0]))
    return Cost(5 * size * log2(size + 2), bytes_of(inputs) + bytes_of(outputs))
