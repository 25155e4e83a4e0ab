"""Forward mode: an interpreter that computes a tangent along with each value.

A tangent is a plain tensor of the interpreters below, noted in the handle of its value. So nesting
needs no bookkeeping: each `Forward` knows only the tangents of its own level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, final
from weakref import ref

from eagerflow.autodiff.backward import Cotangent, add_at, dense, full_like, gradients, pull
from eagerflow.autodiff.tape import Tape
from eagerflow.core.composites import Composite
from eagerflow.core.interpreter import (
    BASE,
    AbstractDifferentiator,
    applying_rules,
    find_note,
    installed,
    is_followed,
    strip_notes,
    use,
)
from eagerflow.core.op import Op, declare, functions
from eagerflow.core.tensor import Tensor, handle_of
from eagerflow.error_messages import note_origin
from eagerflow.errors import EagerflowError, GradientError
from eagerflow.source import Source, capture
from eagerflow.types import same_shape

_stop_gradient: Final = declare("stop_gradient")


class Broken(NamedTuple):
    """The stand-in for the tangent of a value that depends on others without a derivative.

    Attributes:
        name: the op that has no derivative.
        source: the user's line.
    """

    name: str
    source: Source | None


Tangent = Tensor | Broken | None


@final
class Forward(AbstractDifferentiator):
    """The interpreter that computes tangents while it is installed.

    Attributes:
        look: the line where Python last read a number from a value with a tangent.
        shares_looks: whether a derivative taken within flows through such a value, too.
    """

    def __init__(self) -> None:
        self.owner = ref(self)
        self.look: Source | None = None
        self.shares_looks = False
        #: during the forward pass of a composite: the tangents of the values that it uses
        self._used: list[Tangent] | None = None
        self._rules = 0  # number of runs of rules under way

    def begin_rules(self) -> None:
        self._rules += 1

    def end_rules(self) -> None:
        self._rules -= 1

    @property
    def is_within_rule(self) -> bool:
        """Whether a rule runs, or the forward pass of a composite."""
        return bool(self._rules) or self._used is not None

    def follows(self, x: Tensor) -> bool:
        tangent = self.tangent_of(x)
        return tangent is not None and not isinstance(tangent, Broken)

    def looked(self, value: Tensor) -> None:
        if self.follows(value):
            self.look = capture(3)
            self.shares_looks = self.shares_looks or is_followed(value, within=self)
        self.below.looked(value)

    def tangent_of(self, x: Tensor) -> Tangent:
        """The tangent of the value that ``x`` holds, None if it is zero."""
        tangent: Tangent = find_note(x._mark, self.owner)
        return tangent

    def enter(self, x: Tensor, tangent: Tangent) -> None:
        """Set the tangent of the value of the new handle ``x``."""
        if tangent is not None:
            x._mark = (self.owner, tangent, x._mark)

    def bind(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        result = self.below.bind(op, inputs, attrs)
        tangents = [self.tangent_of(x) for x in inputs]
        if all(t is None for t in tangents):
            return result
        outputs = result if type(result) is tuple else (result,)
        if self._used is not None:
            self._used += tangents
        elif op is not _stop_gradient:
            try:
                with use(self.below), applying_rules():
                    output_tangents = _push(op, tangents, result, outputs, inputs, attrs)
            except EagerflowError as error:
                note_origin(error, f"in the tangent of {op.name}, applied at {capture()}")
                raise
            for out, tangent in zip(outputs, output_tangents, strict=True):
                if not (self._rules and isinstance(tangent, Broken)):
                    self.enter(out, tangent)
        return result

    def call(self, composite: Composite, inputs: Sequence[Tensor]) -> tuple[Any, ...]:
        if composite.node is None and (self._used is not None or not composite.own_rule):
            return super().call(composite, inputs)
        tangents = [self.tangent_of(x) for x in inputs]
        if self._used is not None:
            self._used += tangents
            return self.below.call(composite, inputs)
        if self.below is not BASE and all(t is None for t in tangents):
            return self.below.call(composite, inputs)  # which may have a rule for it
        if composite.push is not None:
            return self._push(composite.push, inputs, tangents)
        self._used = []
        try:
            with use(self):
                passed = composite.forward(*inputs)
            used = self._used
        finally:
            self._used = None
        tangents += [self.tangent_of(x) for x in passed.captured]
        used += [self.tangent_of(x) for x in passed.outputs]
        outputs = tuple([handle_of(x) for x in passed.outputs])
        for x in outputs:
            strip_notes(x, self.owner)
        lost = any(t is not None and all(t is not one for one in tangents) for t in used)
        smooth, broken = _parted(tangents)
        if lost and broken is None:
            broken = Broken(composite.name, capture(2))

        def back(gs: Sequence[Any]) -> Sequence[Cotangent | None]:
            return passed.pull(passed.residuals, gs, [t is not None for t in smooth])

        with use(self.below), applying_rules():
            output_tangents = transposed(back, outputs, smooth, name=composite.name)
        for out, tangent in zip(outputs, output_tangents, strict=True):
            self.enter(out, _settled(composite.name, out, tangent, smooth, broken))
        return outputs

    def _push(
        self, push: Callable[[Sequence[Any], Sequence[Any]], tuple[Any, Any]],
        inputs: Sequence[Tensor], tangents: Sequence[Tangent],
    ) -> tuple[Any, ...]:  # fmt: skip
        """The outputs of a composite that has its own rule for tangents."""
        with use(self.below):
            results, output_tangents = push(inputs, tangents)
        outputs = tuple([handle_of(x) for x in results])
        for out, tangent in zip(outputs, output_tangents, strict=True):
            self.enter(out, tangent)
        return outputs


def _parted(tangents: Sequence[Tangent]) -> tuple[list[Tensor | None], Broken | None]:
    """The tangents that are tensors (None for others), and the first broken tangent."""
    smooth = [None if isinstance(t, Broken) else t for t in tangents]
    return smooth, next((t for t in tangents if isinstance(t, Broken)), None)


def _settled(
    name: str, out: Tensor, tangent: Tensor | None, smooth: Sequence[Any], broken: Broken | None
) -> Tangent:
    """The tangent of an output; `Broken` if it depends on an input without a derivative."""
    if out._lane.dtype.is_inexact:
        return broken if tangent is None else tangent
    return Broken(name, capture(3)) if any(t is not None for t in smooth) else broken


def _push(
    op: Op, tangents: Sequence[Tangent], result: Any, outputs: Sequence[Tensor],
    inputs: Sequence[Tensor], attrs: dict[str, Any],
) -> list[Tangent]:  # fmt: skip
    """The tangents of the outputs of an op; runs in the chain below."""
    smooth, broken = _parted(tangents)
    if op.cuts:
        rules: Any = op.vjp
        moving = any(t is not None and r is not None for t, r in zip(smooth, rules, strict=True))
    else:
        moving = any(t is not None for t in smooth)
    output_tangents: Sequence[Tensor | None] = [None] * len(outputs)
    if moving and any(out._lane.dtype.is_inexact for out in outputs):
        if op.nondifferentiable:
            raise GradientError(f"{op.name} has no derivative")
        output_tangents = _tangents(op, smooth, result, outputs, inputs, attrs)
    return [
        _settled(op.name, out, t, smooth, broken)
        for out, t in zip(outputs, output_tangents, strict=True)
    ]


def _tangents(
    op: Op, tangents: Sequence[Tensor | None], result: Any, outputs: Sequence[Tensor],
    inputs: Sequence[Tensor], attrs: dict[str, Any],
) -> Sequence[Tensor | None]:  # fmt: skip
    if op.jvp is not None:
        pushed = op.jvp(tangents, result, *inputs, **attrs)
        return pushed if type(result) is tuple else (pushed,)
    rule = op.vjp
    if type(rule) is tuple and _is_diagonal(op, tangents, outputs, inputs):
        return (_pushed(rule, tangents, outputs[0], inputs, attrs),)
    wanted = [-1 if t is None else 0 for t in tangents]

    def back(gs: Sequence[Any]) -> Sequence[Cotangent | None]:
        g = tuple(gs) if type(result) is tuple else gs[0]
        return pull(op, wanted, g, result, inputs, attrs)

    return transposed(back, outputs, tangents)


def _is_diagonal(
    op: Op, tangents: Sequence[Tensor | None], outputs: Sequence[Tensor], inputs: Sequence[Tensor]
) -> bool:
    """Whether the derivative by each moving input is surely diagonal, and so its own transpose.

    It is for elementwise ops of real numbers, unless an input is broadcast. The rule of a user may
    be any function.
    """
    if not op.elementwise or op.users_rules or len(outputs) != 1:
        return False
    (out,) = outputs
    return all(
        t is None or (same_shape(x.shape, out.shape) and x._lane.dtype.is_floating)
        for t, x in zip(tangents, inputs, strict=True)
    ) and bool(out._lane.dtype.is_floating)


def _pushed(
    rules: Sequence[Callable[..., Any] | None], tangents: Sequence[Tensor | None], out: Tensor,
    inputs: Sequence[Tensor], attrs: dict[str, Any],
) -> Tensor | None:  # fmt: skip
    """The tangent of a diagonal op: its vjp rules, with the tangents as cotangents, added up."""
    total: Tensor | None = None
    for rule, t in zip(rules, tangents, strict=True):
        if rule is not None and t is not None:
            part = dense(rule(t, out, *inputs, **attrs))
            total = part if total is None else total + part
    return total


def transposed(
    back: Callable[[Sequence[Any]], Sequence[Cotangent | None]], outputs: Sequence[Tensor],
    tangents: Sequence[Tensor | None], *, name: str | None = None,
) -> Sequence[Tensor | None]:  # fmt: skip
    """The tangents of outputs, from a function that pulls cotangents back to the inputs.

    The pullback is linear, so its own gradient, taken at any point and with the tangents as
    cotangents, is its transpose, which pushes tangents forward.

    Args:
        back: maps the cotangents of the outputs to the cotangents of the inputs.
        outputs: the outputs.
        tangents: the tangents of the inputs, None for zero.
        name: the name of the function if ``back`` is the user's, and may not be made of ops.

    Raises:
        GradientError: the result of ``back`` is not computed from its argument by ops.
    """
    tape = Tape()
    # the gradient of a linear function is the same at every point; at a point other than zero, a
    # result that does not depend on the point is detected
    point = 0.0 if name is None else 2.0**-10
    gs = [full_like(out, point) if out._lane.dtype.is_inexact else None for out in outputs]
    sources = [() if g is None else (tape.watch(g),) for g in gs]
    with installed(tape):
        us = [None if u is None else dense(u) for u in back(gs)]
    seeds: dict[int, Any] = {}
    for u, t in zip(us, tangents, strict=True):
        if u is None or t is None:
            continue
        slot = tape.slot_of(u)
        if slot >= 0:
            add_at(seeds, slot, t)
        elif name is not None and bool(functions["any"](u)):
            raise GradientError(
                f"{name}: forward mode needs a backward rule that is made of ops",
                given=f"a cotangent {u.type} that does not depend on that of the result",
            )
    output_tangents = gradients(tape, seeds, sources, "jvp", lambda i: "a cotangent")
    return [None if g is None else dense(g) for g in output_tangents]
