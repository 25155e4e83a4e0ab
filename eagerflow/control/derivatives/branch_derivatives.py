"""The derivatives of calls, `cond` and `switch`: the backward pass of the branch that ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, final

from eagerflow.control.derivatives.building import (
    Apply,
    Residuals,
    build,
    flowing_gradients,
)
from eagerflow.control.derivatives.joint import Joint
from eagerflow.control.derivatives.sinks import Sink
from eagerflow.control.structured import Structured, is_smooth
from eagerflow.core.op import functions
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Size, same, symbols
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.value_types import ValueSpec
from eagerflow.runtime.replay import replay


@final
class CallDerivative:
    """The derivative of a call; all calls of one graph share it.

    Args:
        whole: the node to differentiate.
        wanted: which operands need a cotangent.
        reads: the nodes that read the variables that need a cotangent.
    """

    def __init__(self, whole: Structured, wanted: Sequence[bool], reads: Sequence[Node]) -> None:
        body: Graph = whole.attrs["body"]
        joint = self._joint = Joint(
            body, wanted, symbolic=True, known=whole.outside,
            reads=[node.attrs["resource"] for node in reads],
        )  # fmt: skip
        numbers = {v: i for i, v in enumerate(joint.inputs)}
        count = self._count = len(whole.outputs)
        #: for each residual the number of the operand it equals; None for forward results
        self._direct = [numbers.get(v) for v in joint.residuals]
        made = [i for i, number in enumerate(self._direct) if number is None]
        forward, backward = joint.forward, joint.backward
        forward.outputs = [
            *forward.outputs[:count],
            *[forward.outputs[count + i] for i in made],
        ]
        kinds = [joint.residuals[i].spec for i in made]
        self._forward = Structured(
            "call", {"body": forward}, whole.inputs, [*whole.outputs, *kinds]
        )
        given = [*[v.spec for v in joint.residuals], *filter(is_smooth, whole.outputs)]
        flowing = [v.spec for g in joint.gradients for v in g.values]
        self._backward = Structured("call", {"body": backward}, given, flowing)

    def run(self, apply: Apply, operands: Sequence[Any], sizes: Mapping[str, Size]) -> Any:
        """The outputs, the residuals and the pullback."""
        results = apply(self._forward, operands, sizes)
        made = iter(results[self._count :])
        residuals = [next(made) if i is None else operands[i] for i in self._direct]

        def pull(given: Sequence[Any], gs: Sequence[Any]) -> list[Any]:
            if not self._backward.outputs:
                return [g.link for g in self._joint.gradients]
            cotangents = [g for g in gs if g is not None]
            values = apply(self._backward, [*given, *cotangents], sizes)
            flowing = flowing_gradients(self._joint.gradients, values)
            return [g.link if c is None else c
                    for g, c in zip(self._joint.gradients, flowing, strict=True)]  # fmt: skip

        return results[: self._count], residuals, pull


@final
class BranchDerivative:
    """The derivative of `cond` and `switch`.

    Args:
        whole: the node to differentiate.
        wanted: which operands need a cotangent; the first operand is the predicate.
        reads: the nodes that read the variables that need a cotangent.
    """

    def __init__(self, whole: Structured, wanted: Sequence[bool], reads: Sequence[Node]) -> None:
        self.whole = whole
        self.names = whole.names()
        self.branches: Sequence[Graph] = whole.attrs["branches"]
        self.outside = whole.outside
        resources = [node.attrs["resource"] for node in reads]
        every = range(len(wanted) - 1 + len(reads))
        self.joints = [
            Joint(g, wanted[1:], symbolic=True, known=self.outside, reads=resources, apart=every)
            for g in self.branches
        ]
        numbers = [{v: i for i, v in enumerate(j.inputs)} for j in self.joints]
        #: the operands that the backward pass of some branch reads
        self.direct = sorted(
            {p[v] for j, p in zip(self.joints, numbers, strict=True) for v in j.residuals if v in p}
        )
        self.numbers = numbers
        #: the computed residuals of each branch; all branches return the same lists
        self.kept = [
            Residuals([v for v in j.residuals if v not in p], self.outside.keys())
            for j, p in zip(self.joints, numbers, strict=True)
        ]
        devices = list(dict.fromkeys(device for kept in self.kept for device in kept.devices))
        for kept in self.kept:
            kept.devices = devices
        #: for each operand but the predicate, then for each read, its gradients in the branches
        self.gradients = list(zip(*[j.gradients for j in self.joints], strict=True))
        self.forward = self._forward()
        #: sinks of cotangents of operands, then of variables, for those with any cotangent
        self.flowing = self._flowing([*whole.inputs[1:], *[n.outputs[0].spec for n in reads]])
        self.backward = self._backward()

    def _forward(self) -> Structured:
        inputs, outputs = self.whole.inputs, [*self.whole.outputs, *self.kept[0].kinds]
        graphs = [
            build(g.name, inputs[1:], partial(self._push, i), self.names)
            for i, g in enumerate(self.branches)
        ]
        return Structured(self.whole.op, {"branches": tuple(graphs)}, inputs, outputs)

    def _push(self, i: int, xs: list[Any]) -> Sequence[Any]:
        """Run branch ``i``; returns its outputs, and its residuals in lists."""
        joint, kept, count = self.joints[i], self.kept[i], len(self.whole.outputs)
        results = replay(joint.forward, xs, self.outside, again=True)
        residuals = dict(zip(joint.residuals, results[count:], strict=True))
        return [*results[:count], *kept.push(kept.start(), residuals)]

    def _flowing(self, kinds: Sequence[Any]) -> list[Sink]:
        known = self.outside.keys()
        every = enumerate(zip(kinds, self.gradients, strict=True))
        return [Sink.of(i, k, gs, known) for i, (k, gs) in every if any(g.values for g in gs)]

    def _backward(self) -> Structured | None:
        if not self.flowing:
            return None
        inputs = self.whole.inputs
        kinds: list[ValueSpec] = [inputs[1:][i] for i in self.direct]
        kinds += self.kept[0].kinds
        kinds += [k for k in self.whole.outputs if is_smooth(k)]
        graphs = [
            build(f"{g.name}_gradient", kinds, partial(self._pull, i), self.names)
            for i, g in enumerate(self.branches)
        ]
        outputs = [kind for flow in self.flowing for kind in flow.kinds_out]
        return Structured(self.whole.op, {"branches": tuple(graphs)}, [inputs[0], *kinds], outputs)

    def _pull(self, i: int, xs: list[Any]) -> Sequence[Any]:
        """Run the backward pass of branch ``i``."""
        joint = self.joints[i]
        known = dict(zip(self.direct, xs, strict=False))
        first = len(self.direct)
        last = first + len(self.kept[i].devices)
        _, values = self.kept[i].pop(xs[first:last])
        values.update({v: known[p] for v, p in self.numbers[i].items() if p in known})
        items = [*[values[v] for v in joint.residuals], *self._of_branch(i, xs[last:])]
        outputs = replay(joint.backward, items, self.outside, again=True)
        gradients = flowing_gradients(joint.gradients, outputs)
        return [x for flow in self.flowing for x in flow.give(gradients[flow.operand])]

    def _of_branch(self, i: int, cotangents: Sequence[Tensor]) -> list[Tensor]:
        """The cotangents, with the sizes that the results of branch ``i`` have.

        A size on which the branches differ has a name of its own outside of them; in the branch
        that ran it is the size of its result, so that gradients get the types of its inputs.
        """
        ends = zip(self.whole.outputs, self.branches[i].outputs, strict=True)
        shapes = [end.spec.shape for kind, end in ends if is_smooth(kind)]
        known = self.outside.keys()
        return [
            g if all(map(same, g.shape, shape)) or not symbols(shape) <= known
            else functions["reshape"](g, shape)
            for g, shape in zip(cotangents, shapes, strict=True)
        ]  # fmt: skip

    def run(self, apply: Apply, operands: Sequence[Any], sizes: Mapping[str, Size]) -> Any:
        """The outputs, the residuals and the pullback."""
        results = apply(self.forward, operands, sizes)
        count = len(self.whole.outputs)
        predicate, *others = operands
        residuals = [predicate, *[others[i] for i in self.direct], *results[count:]]
        links = [next((g.link for g in gs if g.link), None) for gs in self.gradients]

        def pull(given: Sequence[Any], gs: Sequence[Any]) -> list[Any]:
            gradients: list[Any] = [None, *links]
            if self.backward is not None:
                cotangents = [g for g in gs if g is not None]
                rest = iter(apply(self.backward, [*given, *cotangents], sizes))
                for flow in self.flowing:
                    gradients[flow.operand + 1] = flow.take(rest, sizes)
            return gradients

        return results[:count], residuals, pull
