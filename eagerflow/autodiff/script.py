"""Scripts: the ops that a function ran, noted so that they can be run again.

Python does not run again, so nothing outside of the ops happens twice. Results of ops with an
effect are held and given again: the effect is not repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final
from weakref import ref

from eagerflow.autodiff.cotangents import add
from eagerflow.autodiff.marks import attach, find
from eagerflow.autodiff.tape import UNKNOWN, Link
from eagerflow.core.interpreter import (
    AbstractDifferentiator,
    AbstractInterpreter,
    Composite,
    Passed,
    current,
    installed,
    use,
)
from eagerflow.core.op import Op, bind
from eagerflow.core.tensor import Tensor, handle_of
from eagerflow.source import position

__all__ = ["Script", "ScriptWriter"]


class Step(NamedTuple):
    """One op of a script; values are told by number.

    Attributes:
        op: the op, or the composite.
        ins: its inputs.
        outs: its outputs.
        attrs: its attributes.
        last: the values that no later step uses.
    """

    op: Op | Composite
    ins: Sequence[int]
    outs: Sequence[int]
    attrs: dict[str, Any]
    last: Sequence[int] = ()


@final
class Script:
    """Steps from given values to outputs. It holds no tensors.

    Args:
        steps: in order.
        given: the numbers of the values to start from.
        outputs: the numbers of the values that are wanted.
    """

    __slots__ = ("_given", "_outputs", "_steps")

    def __init__(self, steps: Sequence[Step], given: Sequence[int], outputs: Sequence[int]) -> None:
        self._given = given
        self._outputs = outputs
        self._steps: list[Step] = []
        needed = set(outputs)
        for step in reversed(steps):
            if not needed.isdisjoint(step.outs):  # else nobody wants it
                last = set(step.ins) - needed
                needed |= last
                self._steps.append(step._replace(last=tuple(last)))
        self._steps.reverse()

    def run(self, values: Sequence[Tensor]) -> list[Tensor]:
        """The outputs for these values; intermediate ones are let go of after their last use."""
        known = dict(zip(self._given, values, strict=True))
        for op, ins, outs, attrs, last in self._steps:
            inputs = [known[i] for i in ins]
            for i in last:
                del known[i]
            if isinstance(op, Composite):
                result: Any = current().call(op, inputs)
            else:
                result = bind(op, *inputs, **attrs)
            for i, y in zip(outs, result if type(result) is tuple else (result,), strict=True):
                known[i] = y
            del inputs, result
        return [known[i] for i in self._outputs]


@final
class ScriptWriter(AbstractInterpreter):
    """Notes what runs while it is installed.

    Args:
        inputs: the values to start from.
        opens: whether composites become the ops that they are made of.

    Attributes:
        held: the values from outside that were used, and the results of effects.
    """

    def __init__(self, inputs: Sequence[Tensor], opens: bool = False) -> None:
        self._opens = opens
        self.held: list[Tensor] = []
        self._steps: list[Step] = []
        self._count = 0
        self._owner = ref(self)
        self._given = [self._enter(x) for x in inputs]

    def script(self, outputs: Sequence[Tensor]) -> Script:
        """The script for these outputs. It is run with the inputs, then with what was held."""
        places = [self._number(y) for y in outputs]
        return Script(self._steps, self._given, places)

    def place_of(self, x: Tensor) -> int | None:
        """Where among the inputs and then what was held the value of ``x`` is.

        None for what a step gives: results of a node with effects, which stand for themselves
        when the step runs again, so that no cotangent flows to them.
        """
        number = self._number(x)
        return self._given.index(number) if number in self._given else None

    def _enter(self, x: Tensor) -> int:
        attach(x, self._owner, self._count)
        self._count += 1
        return self._count - 1

    def _hold(self, x: Tensor) -> int:
        self.held.append(handle_of(x))
        number = self._enter(x)
        self._given.append(number)
        return number

    def _number(self, x: Tensor) -> int:
        number: int | None = find(x._mark, self._owner)
        return self._hold(x) if number is None else number

    def bind(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        result = self.below.bind(op, inputs, attrs)
        outputs = result if type(result) is tuple else (result,)
        if op.effect == "pure":
            ins = [self._number(x) for x in inputs]
            self._steps.append(Step(op, ins, [self._enter(y) for y in outputs], attrs))
        else:
            for y in outputs:
                self._hold(y)
        return result

    def call(self, composite: Composite, inputs: Sequence[Tensor]) -> tuple[Any, ...]:
        """A composite becomes one step, with a script of its own for its forward pass."""
        if composite.node is not None:
            return self._node(composite, inputs)
        if self._opens:
            return super().call(composite, inputs)
        writer = ScriptWriter(inputs, opens=True)  # its own rule may call it again
        with use(self.below), installed(writer):
            passed = composite.forward(*inputs)
        outputs = tuple([handle_of(y) for y in passed.outputs])
        script = writer.script([*passed.outputs, *passed.residuals])
        whole = [*inputs, *writer.held]
        ins = [self._number(x) for x in whole]
        places = [*range(len(inputs)), *(writer.place_of(y) for y in passed.captured)]
        again = _again(composite, script, len(outputs), passed.pull, places)
        self._steps.append(Step(again, ins, [self._enter(y) for y in outputs], {}))
        return outputs

    def _node(self, composite: Composite, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """One that becomes a node runs again as it is; the effects of one are held instead."""
        if composite.node == "pure":
            outputs = self.below.call(composite, inputs)
            ins = [self._number(x) for x in inputs]
            self._steps.append(Step(composite, ins, [self._enter(y) for y in outputs], {}))
            return outputs
        with use(self.below), installed(_AllWanted()):
            passed = composite.forward(*inputs)
        outputs = tuple([handle_of(y) for y in passed.outputs])
        whole = (*inputs, *passed.captured, *outputs, *passed.residuals)
        again = _held(composite, passed, len(inputs) + len(passed.captured))
        ins = [self._number(x) for x in whole]
        self._steps.append(Step(again, ins, [self._enter(y) for y in outputs], {}))
        return outputs


@final
class _AllWanted(AbstractDifferentiator):
    """Lets a composite keep what derivatives by any input need: who asks for them comes later."""

    def begin_rules(self) -> None:
        """Rules are all the same to it."""

    def end_rules(self) -> None:
        """Rules are all the same to it."""

    def follows(self, x: Tensor) -> bool:
        return True

    def bind(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        return self.below.bind(op, inputs, attrs)

    def call(self, composite: Composite, inputs: Sequence[Any]) -> tuple[Any, ...]:
        return self.below.call(composite, inputs)


def _held(composite: Composite, passed: Passed, first: int) -> Composite:
    """A composite that gets its outputs and its residuals as inputs, after ``first`` others."""
    last, pull = first + len(passed.outputs), passed.pull

    def body(*inputs: Tensor) -> tuple[Tensor, ...]:
        return inputs[first:last]

    def forward(*inputs: Tensor) -> Passed:
        def back(
            residuals: Sequence[Tensor], gs: Sequence[Any], wanted: Sequence[bool]
        ) -> Sequence[Any]:
            found = pull(residuals, gs, wanted[:first])
            return [*found, *[None] * (len(wanted) - first)]

        return Passed(inputs[first:last], inputs[last:], back)

    return Composite(composite.name, body, forward, own_rule=True, depends=composite.depends)


def _again(
    composite: Composite, script: Script, count: int, pull: Callable[..., Sequence[Any]],
    places: Sequence[int | None],
) -> Composite:  # fmt: skip
    """A composite that runs by a script.

    Args:
        composite: what it repeats.
        script: gives its outputs and its residuals.
        count: how many outputs there are.
        pull: gives the cotangents of some of its inputs.
        places: of which; None where the script gives the value itself.
    """
    name, (code, offset) = composite.name, position(3)

    def body(*inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(script.run(inputs)[:count])

    def forward(*inputs: Tensor) -> Passed:
        values = script.run(inputs)
        total = len(inputs)

        def back(
            residuals: Sequence[Tensor], gs: Sequence[Any], wanted: Sequence[bool]
        ) -> Sequence[Any]:
            # what the pull does not know of is reached without a derivative
            found: list[Any] = [Link(name, (), UNKNOWN, code, offset)] * total
            for i in places:
                if i is not None:
                    found[i] = None
            asked = [i is not None and wanted[i] for i in places]
            for i, g in zip(places, pull(residuals, gs, asked), strict=True):
                if i is None:
                    continue
                if found[i] is None or type(found[i]) is Link:
                    found[i] = found[i] if g is None else g
                elif g is not None and type(g) is not Link:
                    found[i] = add(found[i], g)
            return found

        return Passed(values[:count], values[count:], back)

    return Composite(name, body, forward, composite.own_rule)
