"""The derivative of `while_loop` and `scan`: a loop over the iterations in reverse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

from eagerflow.autodiff.backward import dense
from eagerflow.control.derivatives.building import (
    Apply,
    Residuals,
    as_residual,
    build,
    flowing_gradients,
    from_residual,
    names_in,
    zeros_of,
)
from eagerflow.control.derivatives.joint import Joint
from eagerflow.control.derivatives.sinks import Sink
from eagerflow.control.structured import Structured, is_smooth
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Dim, Size
from eagerflow.graph.edit import all_nodes, clone
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.signatures import is_read
from eagerflow.graph.value_types import NumberType, ValueSpec
from eagerflow.runtime.replay import replay
from eagerflow.types import TensorSpec

_INT = NumberType(int)


@final
class LoopDerivative:
    """The derivative of a loop.

    A loop-carried value is *moving* if an iteration changes it, else *fixed*; it is *active* if a
    cotangent flows through it. The inputs of a scan that are split along an axis are *sliced*.

    The cotangent of a fixed value or a variable is a sum over the iterations, its *sink*; or, where
    each iteration returns rows of a sparse cotangent, lists of these.

    Args:
        whole: the node to differentiate.
        wanted: which operands need a cotangent.
        reads: the nodes that read the variables that need a cotangent.
    """

    def __init__(self, whole: Structured, wanted: Sequence[bool], reads: Sequence[Node]) -> None:
        self.whole = whole
        self.reads = reads
        self.names = whole.names()
        self.outside = whole.outside
        self.is_scan = whole.op == "scan"
        #: number of iteration counters before the lists: none where the length is known
        self.counts = 0 if self.is_scan else 1
        self.body: Graph = whole.attrs["body"]
        self.total = whole.attrs["carry"] if self.is_scan else len(whole.inputs)
        body = self.body
        self.moving = [i for i in range(self.total) if i not in whole.fixed]
        self.kinds = [v.spec for v in body.inputs]
        self.active = self._active(wanted)
        self.joint = self._joint()
        self.sliced = [i for i in range(self.total, len(self.kinds)) if self.active[i]]
        self.active_moving = [i for i in self.moving if self.active[i]]
        self.sinks = self._sinks(wanted)
        numbers = {v: i for i, v in enumerate(self.joint.inputs)}
        self.fixed = [
            numbers[v]
            for v in self.joint.residuals
            if v in numbers and numbers[v] < self.total and numbers[v] not in self.moving
        ]
        still = [i for i in range(self.total) if i not in self.moving]
        #: values computed from fixed inputs alone are recomputed, once, before the backward loop
        self.bases, self.shared, self.lifted = self.joint.lifted(still)
        once = {*self.shared, *[self.joint.inputs[i] for i in self.fixed]}
        self.pushed = [v for v in self.joint.residuals if v not in once]
        self.pushed += self._sized_zeros()
        #: the residuals of iterations
        self.kept = Residuals(self.pushed, self.outside.keys())
        self.forward = self._forward()
        self.backward = self._backward()

    # --- data flow ---

    def _active(self, wanted: Sequence[bool]) -> list[bool]:
        """Which inputs of the body depend on operands that need a cotangent, in any iteration."""
        active = [w and is_smooth(k) for w, k in zip(wanted, self.kinds, strict=True)]
        while True:
            reached = self._reached(active)
            more = [i for i in self.moving if not active[i]]
            more = [i for i in more if self.body.outputs[i] in reached and is_smooth(self.kinds[i])]
            if not more:
                return active
            for i in more:
                active[i] = True

    def _reached(self, active: Sequence[bool]) -> set[Value]:
        """The values in an iteration that depend on active inputs or on variables."""
        reached = {v for v, a in zip(self.body.inputs, active, strict=True) if a}
        resources = {id(n.attrs["resource"]) for n in self.reads}
        for node in self.body.nodes:
            reads = (n for n in all_nodes([node]) if is_read(n.op))
            if not reached.isdisjoint(node.inputs) or any(
                id(n.attrs["resource"]) in resources for n in reads
            ):
                reached.update(node.outputs)
        return reached

    def _joint(self) -> Joint:
        """The joint graph of the body, without fixed values."""
        graph, values = clone(self.body)
        outputs = [*self.moving, *range(self.total, len(self.body.outputs))]
        graph.outputs = [values[self.body.outputs[i]] for i in outputs]
        reached = self._reached(self.active)
        own = [i for i in outputs if i >= self.total or self.active[i]]
        ends = self.body.outputs
        self.seeded = [i for i in own if ends[i] in reached and is_smooth(ends[i].spec)]
        seeded = [i in self.seeded for i in outputs]
        #: the names of sizes that change from iteration to iteration
        self.loose = names_in(self.kinds) - self.outside.keys()
        recompute, first = bool(self.whole.attrs.get("recompute")), len(self.kinds)
        return Joint(
            graph, self.active, seeded, symbolic=True, recompute=recompute,
            known=self.outside, reads=[n.attrs["resource"] for n in self.reads],
            apart={*range(self.total), *range(first, first + len(self.reads))} - {*self.moving},
        )  # fmt: skip

    def _sinks(self, wanted: Sequence[bool]) -> list[Sink]:
        gradients, known = self.joint.gradients, self.outside.keys()
        kinds = dict(enumerate(self.whole.inputs[: self.total]))
        operands = [i for i in kinds if wanted[i] and i not in self.moving]
        first = len(self.joint.inputs)
        for j, node in enumerate(self.reads):
            kinds[first + j] = node.outputs[0].spec
            operands.append(first + j)
        return [
            Sink.of(i, kinds[i], [gradients[i]], known) for i in operands if gradients[i].values
        ]

    def _sized_zeros(self) -> list[Value]:
        """The inputs with a zero cotangent of a size that changes between iterations."""
        zeros = [
            self.joint.inputs[i]
            for i in self.active_moving
            if not self.joint.gradients[i].values and names_in([self.kinds[i]]) & self.loose
        ]
        return [v for v in zeros if v not in self.pushed]

    # --- the two loops ---

    def _more(self) -> list[ValueSpec]:
        """The types of the extra loop-carried values: the number of iterations, and residuals."""
        return [*[_INT] * self.counts, *self.kept.kinds]

    def _forward(self) -> Structured:
        more = self._more()
        count = len(more)

        def iteration(xs: list[Any]) -> Sequence[Any]:
            state, extra = xs[: self.total], xs[self.total : self.total + count]
            rows = xs[self.total + count :]
            results = replay(self.joint.forward, [*state, *rows], self.outside, again=True)
            stacked = len(self.body.outputs) - self.total
            ends = len(self.moving) + stacked
            residuals = dict(zip(self.joint.residuals, results[ends:], strict=True))
            for i, y in zip(self.moving, results, strict=False):
                state[i] = y
            counted = [x + 1 for x in extra[: self.counts]]
            extra = [*counted, *self.kept.push(extra[self.counts :], residuals)]
            return [*state, *extra, *results[len(self.moving) : ends]]

        kinds = [*self.kinds[: self.total], *more, *self.kinds[self.total :]]
        whole = self.whole
        attrs = {**whole.attrs, "body": build(self.body.name, kinds, iteration, self.names)}
        if self.is_scan:
            attrs["carry"] = self.total + count
        else:
            test: Graph = whole.attrs["cond"]
            attrs["cond"] = build(
                test.name,
                kinds,
                lambda xs: replay(test, xs[: self.total], self.outside, again=True),
                self.names,
            )
        inputs = [*whole.inputs[: self.total], *more, *whole.inputs[self.total :]]
        outputs = [*whole.outputs[: self.total], *more, *whole.outputs[self.total :]]
        return Structured(whole.op, attrs, inputs, outputs)

    def _backward(self) -> Structured | None:
        if not self.active_moving and not (self.seeded and (self.sinks or self.sliced)):
            return None
        whole, more = self.whole, self._more()
        cotangents = [_own_sizes(self.kinds[i], self.loose, i) for i in self.active_moving]
        sinks = [kind for sink in self.sinks for kind in sink.kinds]
        fixed = [*sinks, *[whole.inputs[i] for i in self.fixed], *[v.spec for v in self.shared]]
        carried = [*more, *cotangents, *fixed]
        rows = [i for i in self.seeded if i >= self.total]
        parts = [self.body.outputs[i].spec for i in rows]
        body = build(
            f"{self.body.name}_gradient", [*carried, *parts], self._iterate_back, self.names
        )
        inputs = [*more, *[whole.outputs[i] for i in self.active_moving], *fixed]
        outputs = [*more, *[whole.inputs[i] for i in self.active_moving], *fixed]
        attrs: dict[str, Any]
        if self.is_scan:
            length, reverse = whole.attrs["length"], not whole.attrs.get("reverse", False)
            attrs = {"body": body, "carry": len(carried), "length": length, "reverse": reverse}
        else:
            test = build("cond", carried, lambda xs: [xs[0] > 0])
            attrs = {"cond": test, "body": body, "parallel_iterations": 10}
        inputs += [whole.outputs[i] for i in rows]
        outputs += [whole.inputs[i] for i in self.sliced]
        return Structured(whole.op, attrs, inputs, outputs)

    def _iterate_back(self, xs: list[Any]) -> Sequence[Any]:
        """An iteration of the backward loop."""
        joint, count = self.joint, len(self._more())
        extra, xs = xs[:count], xs[count:]
        first = len(self.active_moving)
        last = first + sum(len(sink.kinds) for sink in self.sinks)
        cotangents, sums = xs[:first], iter(xs[first:last])
        end = last + len(self.fixed) + len(self.shared)
        fixed, rows = xs[last:end], xs[end:]
        counted = [x - 1 for x in extra[: self.counts]]
        inputs = joint.inputs
        once = [*[inputs[i] for i in self.fixed], *self.shared]
        values: dict[Value, Any] = dict(zip(once, fixed, strict=True))
        lists, popped = self.kept.pop(extra[self.counts :])
        values.update(popped)
        by_operand = dict(zip(self.active_moving, cotangents, strict=True))
        seeds = [by_operand[i] for i in self.seeded if i < self.total]
        items = [*[values[v] for v in joint.residuals], *seeds, *rows]
        outputs = replay(joint.backward, items, self.outside, again=True)
        gradients = flowing_gradients(joint.gradients, outputs)
        new = [
            self._zeros(i, values) if gradients[i] is None else dense(gradients[i])
            for i in self.active_moving
        ]
        totals = [x for sink in self.sinks for x in sink.more(sums, gradients[sink.operand])]
        slices = [
            zeros_of(self.kinds[i]) if gradients[i] is None else dense(gradients[i])
            for i in self.sliced
        ]
        return [*counted, *lists, *new, *totals, *fixed, *slices]

    def _zeros(self, i: int, values: Mapping[Value, Any]) -> Tensor:
        """The zero cotangent of input ``i`` of the body."""
        kind = self.kinds[i]
        x = values.get(self.joint.inputs[i])
        if x is not None and isinstance(kind, TensorSpec) and names_in([kind]) & self.loose:
            kind = kind.like(shape=x.shape)
        return zeros_of(kind)

    # --- running ---

    def run(self, apply: Apply, operands: Sequence[Any], sizes: Mapping[str, Size]) -> Any:
        """The outputs, the residuals and the pullback."""
        more = [*[0] * self.counts, *self.kept.start()]
        state = operands[: self.total]
        results = apply(self.forward, [*state, *more, *operands[self.total :]], sizes)
        ends = self.total + len(more)
        outputs = [*results[: self.total], *results[ends:]]
        extra = [as_residual(x) for x in results[self.total : ends]]
        fixed = [operands[i] for i in (*self.fixed, *self.bases)]

        def pull(given: Sequence[Any], gs: Sequence[Any]) -> list[Any]:
            return self._pull(apply, given, gs, sizes)

        return outputs, [*extra, *fixed], pull

    def _pull(
        self, apply: Apply, given: Sequence[Any], gs: Sequence[Any],
        sizes: Mapping[str, Size],
    ) -> list[Any]:  # fmt: skip
        gradients: list[Any] = [g.link for g in self.joint.gradients]
        kinds = enumerate(self.whole.outputs)
        own = [i for i, k in kinds if isinstance(k, TensorSpec) and i not in self.whole.fixed]
        cotangents = dict(zip(own, gs, strict=True))
        if self.backward is None:
            return gradients
        more = list(given[: len(self._more())])
        more[: self.counts] = [from_residual(_INT, x) for x in more[: self.counts]]
        seeds = [cotangents[i] for i in self.active_moving]
        sums = [x for sink in self.sinks for x in sink.start(sizes)]
        rows = [cotangents[i] for i in self.seeded if i >= self.total]
        fixed = given[len(more) : len(more) + len(self.fixed)]
        shared = replay(self.lifted, given[len(more) + len(self.fixed) :], again=True)
        results = apply(self.backward, [*more, *seeds, *sums, *fixed, *shared, *rows], sizes)
        rest = iter(results[len(more) :])
        for i in self.active_moving:
            gradients[i] = next(rest)
        for sink in self.sinks:
            gradients[sink.operand] = sink.end(rest, sizes)
        for i, g in zip(self.sliced, results[len(results) - len(self.sliced) :], strict=True):
            gradients[i] = g
        return gradients


def _own_sizes(kind: ValueSpec, loose: frozenset[str], number: int) -> ValueSpec:
    """The type of a cotangent, with size names of its own where sizes change between iterations."""
    if not isinstance(kind, TensorSpec) or not names_in([kind]) & loose:
        return kind
    sizes: Any = [
        Dim(f"size_of_g{number}_{axis}") if names_in([kind.like(shape=(d,))]) & loose else d
        for axis, d in enumerate(kind.shape)
    ]
    return kind.like(shape=tuple(sizes))
