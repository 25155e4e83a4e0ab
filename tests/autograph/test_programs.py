"""Plain Python, converted, eager and traced runs of the table of programs agree."""

from __future__ import annotations

import copy
import warnings
from types import FunctionType
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.autograph.conversion.convert import converted
from eagerflow.core import tree
from eagerflow.graph.ir import Graph
from tests.autograph.programs import PROGRAMS
from tests.autograph.programs.program import Program


def _plain(x: Any) -> Any:
    """A result in Python numbers."""
    return tree.map(lambda y: y.tolist() if isinstance(y, ef.Tensor) else y, x)


def _tensors(args: tuple[Any, ...]) -> list[Any]:
    """Arguments with tensors in the place of floats, and of lists of them."""
    return [
        ef.tensor(x) if type(x) is float or (type(x) is list and type(x[0]) is float) else x
        for x in copy.deepcopy(args)
    ]


def _ops(graph: Graph) -> set[str]:
    """The ops of a graph that have subgraphs, those within them included."""
    ops = set()
    for node in graph.nodes:
        inner = [g for v in node.attrs.values() for g in (v if type(v) is tuple else (v,))
                 if type(g) is Graph]  # fmt: skip
        ops |= {node.op for _ in inner[:1]}.union(*map(_ops, inner))
    return ops


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_program(program: Program) -> None:
    assert isinstance(program.function, FunctionType)
    traced = ef.trace(program.function)
    for args, expected in program.calls:
        assert program.function(*copy.deepcopy(args)) == expected
        assert converted(program.function)(*copy.deepcopy(args)) == expected
        want = program.function(*_tensors(args))
        assert _plain(want) == pytest.approx(expected) or _plain(want) == expected
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ef.errors.TraceWarning)
            for _ in range(2):  # the trace, and a run of it
                assert _plain(traced(*_tensors(args))) == _plain(want)
    args = program.calls[0][0]
    assert program.ops <= _ops(traced.graph(*_tensors(args)))
