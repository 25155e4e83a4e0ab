"""The derivative of a call: two calls, of a forward and of a backward graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

from eagerflow.control.derivatives.building import Apply, flowing_gradients
from eagerflow.control.derivatives.joint import Joint
from eagerflow.control.structured import Structured, is_smooth, sizes_in
from eagerflow.dims import Size
from eagerflow.graph.ir import Graph, Node

__all__ = ["CallDerivative"]


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
            body, wanted, symbolic=True, known=sizes_in(whole.inputs),
            reads=[node.attrs["resource"] for node in reads],
        )  # fmt: skip
        places = {v: i for i, v in enumerate(joint.inputs)}
        count = self._count = len(whole.outputs)
        #: for each residual the operand that it is; None for results of the forward graph
        self._direct = [places.get(v) for v in joint.residuals]
        made = [i for i, place in enumerate(self._direct) if place is None]
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
