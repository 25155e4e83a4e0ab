"""`Recording`: a tape's records without values, of ops that can be run again.

Python does not run again, so nothing outside of the ops happens twice. Results of ops with an
effect are kept and used again: the effect is not repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, final
from weakref import ref

from eagerflow.autodiff.tape import FIRST_INPUT, PER_INPUT, Record, attach, find
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

#: `eagerflow.source` takes the local variable of this name in frames of this file for the place
REPLAYS: Final = "at"

#: records, each with the slots that are not read later
_Steps = list[tuple[Record, Sequence[int]]]


class _Forward(NamedTuple):
    """The forward pass of a composite, in place of an op in its record.

    Attributes:
        name: of the composite; not itself, as it may hold the tensors that it was made for.
        own_rule: as the composite has it.
        records: the records of its ops.
        steps: the needed records, once these are known.
        outputs: the slots of its outputs.
        residuals: those of its residuals.
        captured: those of its captured values.
        pull: as in `Passed`.
    """

    name: str
    own_rule: bool
    records: list[Record]
    steps: _Steps
    outputs: Sequence[int]
    residuals: Sequence[int]
    captured: Sequence[int]
    pull: Callable[..., Sequence[Any]]


@final
class Recording(AbstractInterpreter):
    """Records what runs while it is installed; `rerun` runs it again.

    It has the records of a tape, but of all ops, and they keep no values.

    Args:
        inputs: the values to start from.

    Attributes:
        held: the values from outside that were used, and the results of effects.
    """

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        self.held: list[Tensor] = []
        self._records: list[Record] = []
        self._last = -1  # the slot given last
        self._owner = ref(self)
        self._given = [self._enter(x) for x in inputs]
        self._inside = False  # of the forward pass of a composite

    def rerun(self, outputs: Sequence[Tensor]) -> Callable[[Sequence[Tensor]], list[Tensor]]:
        """A function that gives ``outputs`` again, from the inputs followed by the held values.

        It lets go of values after their last use, and keeps none.
        """
        slots = self._slots(outputs)
        steps, given = _needed(self._records, set(slots)), self._given

        def run(values: Sequence[Tensor]) -> list[Tensor]:
            known = dict(zip(given, values, strict=True))
            _run(steps, known)
            return [known[slot] for slot in slots]

        return run

    def _enter(self, x: Tensor) -> int:
        self._last += 1
        attach(x, self._owner, self._last)
        return self._last

    def _hold(self, x: Tensor) -> int:
        self.held.append(handle_of(x))
        slot = self._enter(x)
        self._given.append(slot)
        return slot

    def _slot(self, x: Tensor) -> int:
        slot: int | None = find(x._mark, self._owner)
        return self._hold(x) if slot is None else slot

    def _slots(self, xs: Sequence[Tensor]) -> list[int]:
        return [self._slot(x) for x in xs]

    def _record(
        self, op: Op | Composite | _Forward, slots: Sequence[int], outputs: Sequence[Tensor],
        attrs: dict[str, Any],
    ) -> None:  # fmt: skip
        outs = [self._enter(y) for y in outputs]
        items = [item for slot in slots for item in (slot, None, None, None)]
        self._records.append((op, outs, None, attrs, *position(3), *items))

    def bind(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        result = self.below.bind(op, inputs, attrs)
        outputs = result if type(result) is tuple else (result,)
        if op.effect == "pure":
            self._record(op, self._slots(inputs), outputs, attrs)
        else:
            for y in outputs:
                self._hold(y)
        return result

    def call(self, composite: Composite, inputs: Sequence[Tensor]) -> tuple[Any, ...]:
        """The forward pass of a composite is recorded apart, so that it stays one."""
        if composite.node is not None:
            return self._node(composite, inputs)
        if self._inside:  # its own rule may call it again
            return super().call(composite, inputs)
        slots = self._slots(inputs)
        around, records = self._records, list[Record]()
        self._records, self._inside = records, True
        try:
            with use(self):
                passed = composite.forward(*inputs)
            made = _Forward(
                composite.name, composite.own_rule, records, [], self._slots(passed.outputs),
                self._slots(passed.residuals), self._slots(passed.captured), passed.pull,
            )  # fmt: skip
        finally:
            self._records, self._inside = around, False
        outputs = tuple([handle_of(y) for y in passed.outputs])
        self._record(made, slots, outputs, {})
        return outputs

    def _node(self, composite: Composite, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """A composite that becomes a node runs again as it is; if it has effects, it is held."""
        if composite.node == "pure":
            outputs = self.below.call(composite, inputs)
            self._record(composite, self._slots(inputs), outputs, {})
            return outputs
        with use(self.below), installed(_AllWanted()):
            passed = composite.forward(*inputs)
        outputs = tuple([handle_of(y) for y in passed.outputs])
        whole = (*inputs, *passed.captured, *outputs, *passed.residuals)
        again = _held(composite, passed, len(inputs) + len(passed.captured))
        self._record(again, self._slots(whole), outputs, {})
        return outputs


def _needed(records: Iterable[Record], needed: set[int]) -> _Steps:
    """The records that are needed for some slots; the slots that these take are put among them."""
    steps: _Steps = []
    for record in reversed(list(records)):
        op, outs = record[:2]
        if needed.isdisjoint(outs):
            continue
        last = set[int]()
        if type(op) is _Forward:
            last = {*op.outputs, *op.residuals, *op.captured} - needed
            needed |= last
            op.steps[:] = _needed(op.records, needed)
        ins = set(record[FIRST_INPUT::PER_INPUT]) - needed
        needed |= ins
        steps.append((record, [*last, *ins]))
    steps.reverse()
    return steps


def _run(steps: _Steps, known: dict[int, Tensor]) -> None:
    """Run records again, from and to the values by slot."""
    for record, last in steps:
        op, outs, _, attrs = record[:4]
        at = record[4:FIRST_INPUT]  # noqa: F841 - the line of the op
        inputs = [known[slot] for slot in record[FIRST_INPUT::PER_INPUT]]
        if type(op) is not _Forward:  # that needs them
            for slot in last:
                del known[slot]
        if type(op) is _Forward:
            result: Any = current().call(_again(op, known), inputs)
            for slot in last:
                known.pop(slot, None)
        elif type(op) is Composite:
            result = current().call(op, inputs)
        else:
            result = bind(op, *inputs, **attrs)
        for slot, y in zip(outs, result if type(result) is tuple else (result,), strict=True):
            known[slot] = y
        del inputs, result


def _again(op: _Forward, known: dict[int, Tensor]) -> Composite:
    """A composite with the values of this run, which runs its records in place of Python."""

    def body(*_: Tensor) -> tuple[Tensor, ...]:
        _run(op.steps, known)
        return tuple([known[slot] for slot in op.outputs])

    def forward(*_: Tensor) -> Passed:
        outputs = body()
        residuals, captured = [[known[s] for s in slots] for slots in (op.residuals, op.captured)]
        return Passed(outputs, residuals, op.pull, captured)

    return Composite(op.name, body, forward, op.own_rule)


@final
class _AllWanted(AbstractDifferentiator):
    """Lets a composite keep what derivatives by any input need: requests for them come later."""

    def begin_rules(self) -> None:
        """Rules are not treated differently."""

    def end_rules(self) -> None:
        """Rules are not treated differently."""

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
            cotangents = pull(residuals, gs, wanted[:first])
            return [*cotangents, *[None] * (len(wanted) - first)]

        return Passed(inputs[first:last], inputs[last:], back)

    return Composite(composite.name, body, forward, own_rule=True, depends=composite.depends)
