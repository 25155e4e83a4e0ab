"""Forward mode of branches and loops: the same nodes, with tangents beside the values.

Tangents of loop-carried values are loop-carried too, so that one loop without lists suffices,
whatever the number of iterations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, final

from eagerflow.autodiff.backward import full_like
from eagerflow.autodiff.forward_mode import Broken, Forward, Tangent
from eagerflow.control.derivatives.building import Apply, build
from eagerflow.control.structured import Structured
from eagerflow.core.interpreter import installed
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Size
from eagerflow.graph.ir import Graph
from eagerflow.graph.signatures import NodeKind, kind_of
from eagerflow.runtime.replay import replay

_FLOWS: Final = True
#: companion of a value: a tangent, a reason why the derivative breaks off, or nothing
_Along = bool | Broken | None


def push(
    apply: Apply, whole: Structured, operands: Sequence[Any], tangents: Sequence[Tangent],
    sizes: Mapping[str, Size],
) -> tuple[list[Any], list[Tangent]]:  # fmt: skip
    """The outputs and their tangents.

    Args:
        apply: appends a node to the trace.
        whole: a branch or a loop.
        operands: its operands, tensors and numbers.
        tangents: the tangent of each operand, None for zero.
        sizes: the values of size names that no operand determines.
    """
    along: list[_Along] = [_FLOWS if type(t) is Tensor else t for t in tangents]
    key = ("push", *map(_rank, along))
    pushed: _Pushed | None = whole.derivatives.get(key)
    if pushed is None:
        make = _MAKERS[kind_of(whole.op)]
        pushed = whole.derivatives[key] = make(whole, along)
    given = [
        t if type(t) is Tensor else full_like(x, 0.0)
        for x, t, a in zip(operands, tangents, pushed.inputs, strict=True)
        if a is _FLOWS
    ]
    results = apply(pushed.whole, _beside(operands, given, pushed.inputs, _cuts(whole)), sizes)
    return _apart(results, pushed.outputs, _cuts(whole, after=True))


@final
class _Pushed(NamedTuple):
    """A branch or a loop with tangents.

    Attributes:
        whole: the node to apply.
        inputs: the companion of each operand.
        outputs: the companion of each output.
    """

    whole: Structured
    inputs: Sequence[_Along]
    outputs: Sequence[_Along]


# --- positions of tangents -----------------------------------------------------------------------


def _cuts(whole: Structured, *, after: bool = False) -> tuple[int, ...]:
    """The bounds of groups of operands, or of outputs; tangents of a group follow the group."""
    count = len(whole.outputs if after else whole.inputs)
    if whole.op == "scan":
        return (0, whole.attrs["carry"], count)
    return (0, count)


def _beside(
    values: Sequence[Any], tangents: Sequence[Any], along: Sequence[_Along], cuts: Sequence[int]
) -> list[Any]:
    """Values in groups, each group followed by the tangents of its values."""
    rest = iter(tangents)
    items: list[Any] = []
    for start, end in pairwise(cuts):
        items += values[start:end]
        items += [next(rest) for a in along[start:end] if a is _FLOWS]
    return items


def _apart(
    items: Sequence[Any], along: Sequence[_Along], cuts: Sequence[int]
) -> tuple[list[Any], list[Any]]:
    """The values, and the companion of each: the inverse of `_beside`."""
    rest = iter(items)
    values, tangents = list[Any](), list[Any]()
    for start, end in pairwise(cuts):
        values += [next(rest) for _ in range(start, end)]
        tangents += [next(rest) if a is _FLOWS else a for a in along[start:end]]
    return values, tangents


def _rank(along: _Along) -> int:
    return 2 if along is _FLOWS else 0 if along is None else 1


def _join(a: Sequence[_Along], b: Sequence[_Along]) -> list[_Along]:
    """The stronger of two companions of each value: a tangent, then a break, then nothing."""
    return [x if _rank(x) >= _rank(y) else y for x, y in zip(a, b, strict=True)]


def _differ(a: Sequence[_Along], b: Sequence[_Along]) -> bool:
    return [*map(_rank, a)] != [*map(_rank, b)]


# --- graphs with tangents ------------------------------------------------------------------------


@final
class _Part:
    """A subgraph with tangents.

    Args:
        graph: the subgraph.
        inputs: the companions of its inputs.
        least: the least companions of its outputs, with zero tangents if need be.
        cuts: the bounds of groups of its inputs and of its outputs.
        taken: the names of outer sizes.

    Attributes:
        graph: the graph with tangents.
        outputs: the companions of its outputs.
    """

    def __init__(
        self, graph: Graph, inputs: Sequence[_Along], least: Sequence[_Along],
        cuts: tuple[Sequence[int], Sequence[int]], taken: frozenset[str],
    ) -> None:  # fmt: skip
        self._source = graph
        self._inputs = inputs
        self._cuts = cuts
        self.outputs = list(least)
        types = [v.spec for v in graph.inputs]
        moving = [t for t, a in zip(types, inputs, strict=True) if a is _FLOWS]
        kinds = _beside(types, moving, inputs, cuts[0])
        self.graph = build(graph.name, kinds, self._run, taken)

    def _run(self, items: list[Any]) -> Sequence[Any]:
        forward = Forward()
        values, tangents = _apart(items, self._inputs, self._cuts[0])
        for x, t in zip(values, tangents, strict=True):
            if t is not None:
                forward.enter(x, t)
        with installed(forward):
            outputs = replay(self._source, values, again=True)
        output_tangents = [forward.tangent_of(y) if type(y) is Tensor else None for y in outputs]
        along: list[_Along] = [_FLOWS if type(t) is Tensor else t for t in output_tangents]
        self.outputs = _join(self.outputs, along)
        moving = [
            t if type(t) is Tensor else full_like(y, 0.0)
            for y, t, a in zip(outputs, output_tangents, self.outputs, strict=True)
            if a is _FLOWS
        ]
        return _beside(outputs, moving, self.outputs, self._cuts[1])


def _push_branches(whole: Structured, along: Sequence[_Along]) -> _Pushed:
    """Branches with tangents; or a call, a single branch without a predicate."""
    is_call = whole.op == "call"
    inputs: list[_Along] = list(along) if is_call else [None, *along[1:]]  # no derivative decides
    first, taken = 0 if is_call else 1, whole.names()
    cuts = (0, len(along) - first), _cuts(whole, after=True)
    graphs = (whole.attrs["body"],) if is_call else whole.attrs["branches"]
    least: list[_Along] = [None] * len(whole.outputs)
    while True:
        parts = [_Part(g, along[first:], least, cuts, taken) for g in graphs]
        for part in parts:
            least = _join(least, part.outputs)
        if not any(_differ(least, part.outputs) for part in parts):
            break
    pushed = tuple([part.graph for part in parts])
    attrs = {"body": pushed[0]} if is_call else {"branches": pushed}
    return _Pushed(Structured(whole.op, attrs, *_types(whole, inputs, least)), inputs, least)


def _push_loop(whole: Structured, along: Sequence[_Along]) -> _Pushed:
    cuts = _cuts(whole), _cuts(whole, after=True)
    total, taken = cuts[0][1], whole.names()
    inputs = list(along)
    rows: list[_Along] = [None] * (len(whole.outputs) - total)
    while True:  # an output with a tangent is an input with one of the next iteration
        part = _Part(whole.attrs["body"], inputs, [*inputs[:total], *rows], cuts, taken)
        if not _differ(part.outputs[:total], inputs[:total]):
            break
        inputs[:total] = part.outputs[:total]
    attrs = {**whole.attrs, "body": part.graph}
    types, after = _types(whole, inputs, part.outputs)
    if whole.op == "scan":
        attrs["carry"] = total + sum(a is _FLOWS for a in inputs[:total])
    else:
        test: Graph = whole.attrs["cond"]
        kinds = [v.spec for v in part.graph.inputs]
        attrs["cond"] = build(
            test.name, kinds, lambda xs: replay(test, xs[:total], again=True), taken
        )
    return _Pushed(Structured(whole.op, attrs, types, after), inputs, part.outputs)


def _types(
    whole: Structured, inputs: Sequence[_Along], outputs: Sequence[_Along]
) -> Iterator[list[Any]]:
    """The types of the operands and of the outputs."""
    for kinds, along, after in ((whole.inputs, inputs, False), (whole.outputs, outputs, True)):
        moving = [k for k, a in zip(kinds, along, strict=True) if a is _FLOWS]
        yield _beside(kinds, moving, along, _cuts(whole, after=after))


@final
class PushedGraph:
    """A whole graph with tangents.

    Args:
        graph: the graph.
        along: for each input True if it has a tangent, else None.
        taken: the names of sizes that it knows, which no new size gets.

    Attributes:
        graph: from the inputs, followed by the tangents, to the outputs, followed by theirs.
    """

    def __init__(self, graph: Graph, along: Sequence[bool | None], taken: frozenset[str]) -> None:
        self._cuts = (0, len(graph.outputs))
        none: list[_Along] = [None] * len(graph.outputs)
        part = _Part(graph, along, none, ((0, len(graph.inputs)), self._cuts), taken)
        self._along = part.outputs
        self.graph = part.graph

    def apart(self, results: Sequence[Any]) -> tuple[list[Any], list[Tangent]]:
        """The outputs, and their tangents, from the results of a run."""
        return _apart(results, self._along, self._cuts)


_MAKERS: Final[dict[NodeKind, Any]] = {
    "call": _push_branches, "branches": _push_branches, "loop": _push_loop,
}  # fmt: skip
