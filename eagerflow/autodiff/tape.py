"""The tape: remembers the ops that depend on watched values, so that `backward` can go back.

Values are told apart by the identity of their data, not of the handle that holds them, so
``x[i] = v`` and ``x += v`` are plain ops here. Each value that depends on a watched one has a
*slot*: a number from 0 on if a derivative flows into it; one below -1 if it depends on watched
values only through something that has no derivative (a comparison, an argmax, a cast to
integers). A value that depends on none is `UNKNOWN`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any, Final, NamedTuple, final
from weakref import ref

from eagerflow.autodiff.cotangents import distinct
from eagerflow.core.interpreter import BASE, AbstractDifferentiator, Composite, use
from eagerflow.core.op import Op, declare
from eagerflow.core.tensor import Tensor
from eagerflow.hardware import Lane
from eagerflow.source import Source, capture, position

__all__ = ["UNKNOWN", "Kept", "Link", "Record", "Tape", "keep"]

UNKNOWN: Final = -1
_stop_gradient: Final = declare("stop_gradient")

#: a value as a record keeps it: its data, or only its shape if no rule reads more, and its lane
Kept = tuple[Any, Lane]

#: One op: the op, or the name of a composite; the slots of its inputs; the slot of its output, or a list of
#: them; its inputs (of a composite, its residuals); its outputs; its attributes (of a composite,
#: its pull); the code object and the offset of the user's line. It is a plain tuple because a
#: class of its own would add a third to the time that an op takes under a tape.
Record = tuple[
    Op | str, Sequence[int], Any, Sequence[Kept], Sequence[Kept], Any, CodeType | None, int
]


class Link(NamedTuple):
    """A dependence that no derivative flows through.

    Attributes:
        name: the op.
        in_slots: the slots of its inputs.
        out_slot: the slot of its output.
        code: the code object of the user's line.
        offset: the offset there.
    """

    name: str
    in_slots: Sequence[int]
    out_slot: int
    code: CodeType | None
    offset: int


@final
class Tape(AbstractDifferentiator):
    """Records while it is installed; see `eagerflow.core.interpreter.installed`.

    Args:
        watch_variables: whether reads of trainable variables are watched. A collection of
            variables watches just these.

    Attributes:
        recording: whether it does.
        records: the ops that derivatives flow through, oldest first.
        links: the ops that none flows through.
    """

    def __init__(self, watch_variables: bool | Iterable[Any] = False) -> None:
        self.recording = True
        self.records: list[Record] = []
        self.links: list[Link] = []
        self._index: dict[int, tuple[ref[Any], int]] = {}  # id(data) -> (weakref to it, slot)
        self._last = self._last_link = UNKNOWN  # the slots given last, of either kind
        #: how many runs of rules are under way, the last slots before, and those of earlier runs
        self._rules = 0
        self._before_rules = (UNKNOWN, UNKNOWN)
        self._rule_slots: list[tuple[int, int, int, int]] = []
        #: while the forward pass of a composite runs: the slots of the values that it uses
        self._captured: set[int] | None = None
        self._all_variables = watch_variables is True
        #: id(resource) -> the resource and the slots of its reads, for those that are watched
        self._reads: dict[int, tuple[Any, list[int]]] = {}
        #: id(resource) -> the line of its last assignment, for those in _reads
        self._writes: dict[int, Source | None] = {}
        if not isinstance(watch_variables, bool):
            for variable in watch_variables:
                self.watch_variable(variable)

    # --- what is watched ---

    def watch(self, x: Tensor) -> int:
        """Follow the value that ``x`` holds now; gives its slot."""
        slot = self.slot_of(x)
        return slot if slot >= 0 else self._enter(x._data)

    def watch_variable(self, variable: Any) -> None:
        """Follow every later read of ``variable``."""
        self._reads.setdefault(id(variable.resource), (variable.resource, []))

    def slot_of(self, x: Tensor) -> int:
        """The slot of the value that ``x`` holds."""
        data = x._data
        found = self._index.get(id(data))
        return found[1] if found is not None and found[0]() is data else UNKNOWN

    def slots_of_reads(self, variable: Any) -> Sequence[int]:
        """The slots of all reads of ``variable``."""
        found = self._reads.get(id(variable.resource))
        return () if found is None else found[1]

    def forget(self) -> None:
        """Drop all that was recorded, and record no more."""
        self.recording = False
        self.records = []
        self.links = []
        self._index = {}
        self._reads = {}
        self._writes = {}

    def begin_rules(self) -> None:
        if not self._rules:
            self._before_rules = (self._last, self._last_link)
        self._rules += 1

    def end_rules(self) -> None:
        self._rules -= 1
        after = (self._last, self._last_link)
        if not self._rules and after != self._before_rules:
            self._rule_slots.append((*self._before_rules, *after))

    def from_rule(self, slot: int) -> bool:
        """Whether the value of ``slot`` was computed by the rule of a derivative."""
        return any(
            start < slot <= stop or link_stop <= slot < link_start
            for start, link_start, stop, link_stop in self._rule_slots
        )

    def _enter(self, data: Any) -> int:
        self._last = slot = self._last + 1
        self._index[id(data)] = (ref(data), slot)
        return slot

    def _enter_link(self, data: Any) -> int:
        self._last_link = slot = self._last_link - 1
        self._index[id(data)] = (ref(data), slot)
        return slot

    # --- ops ---

    def bind(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        result = self.below.bind(op, inputs, attrs)
        if not self.recording:
            return self._look_on(op, inputs, attrs, result)
        index = self._index
        slots = []
        known = False
        for x in inputs:
            data = x._data
            found = index.get(id(data))
            if found is None or found[0]() is not data:
                slots.append(UNKNOWN)
            else:
                slots.append(found[1])
                known = True
        if known:
            self._record(op, inputs, slots, attrs, result)
        if op.effect != "pure":
            self._note_effect(op, attrs, result)
        return result

    def _record(
        self, op: Op, inputs: Sequence[Tensor], slots: list[int], attrs: dict[str, Any],
        result: Any,
    ) -> None:  # fmt: skip
        code, offset = position(4)
        if type(result) is not Tensor or op.cuts or max(slots) < 0:
            outputs = result if type(result) is tuple else (result,)
            self._record_any(op, inputs, slots, attrs, outputs, code, offset)
            return
        lane, data = result._lane, result._data
        if not lane.dtype.is_inexact:
            self._record_any(op, inputs, slots, attrs, (result,), code, offset)
            return
        for x in inputs:
            if x._data is data:
                distinct((result,), inputs, self.below)
                data = result._data
                break
        self._last = slot = self._last + 1
        self._index[id(data)] = (ref(data), slot)
        saved = op.saved
        outs = ((data if saved == "outputs" or saved == "all" else data.shape, lane),)
        self.records.append((op, slots, slot, _keep_inputs(inputs, saved), outs, attrs, code, offset))

    def _record_any(
        self, op: Op, inputs: Sequence[Tensor], slots: list[int], attrs: dict[str, Any],
        outputs: Sequence[Tensor], code: CodeType | None, offset: int,
    ) -> None:  # fmt: skip
        """Record an op of whatever kind: several outputs, outputs or inputs without derivative."""
        distinct(outputs, inputs, self.below)
        if op is _stop_gradient:
            return
        flowing = slots
        if op.cuts:
            rules: Any = op.vjp
            flowing = [
                UNKNOWN if slot >= 0 and rule is None else slot
                for slot, rule in zip(slots, rules, strict=True)
            ]
        out_slots = self._enter_outputs(op.name, outputs, slots, flowing, (), code, offset)
        if max(out_slots) >= 0:
            single: Any = out_slots[0] if len(outputs) == 1 else out_slots
            outs = keep(outputs, op.saved in ("outputs", "all"))
            ins = _keep_inputs(inputs, op.saved)
            self.records.append((op, slots, single, ins, outs, attrs, code, offset))

    def _enter_outputs(
        self, name: str, outputs: Sequence[Tensor], slots: Sequence[int], flowing: Sequence[int],
        used: Sequence[int], code: CodeType | None, offset: int,
    ) -> list[int]:  # fmt: skip
        """Slots for the outputs, with a link for each dependence that has no derivative.

        Args:
            name: of the op.
            outputs: the outputs.
            slots: of its inputs.
            flowing: the same, `UNKNOWN` for inputs that floating outputs do not change with.
            used: slots that the outputs depend on without a derivative.
            code: the code object of the user's line.
            offset: the offset there.
        """
        live = max(flowing, default=UNKNOWN) >= 0
        out_slots = []
        for out in outputs:
            inexact = out._lane.dtype.is_inexact
            if live and inexact:
                slot, lost = self._enter(out._data), [*used]
            else:
                lost = [s for s in (flowing if inexact else slots) if s != UNKNOWN] + [*used]
                slot = self._enter_link(out._data) if lost else UNKNOWN
            if lost:
                self.links.append(Link(name, lost, slot, code, offset))
            out_slots.append(slot)
        return out_slots

    def _look_on(
        self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any], result: Any
    ) -> Any:
        """While nothing is recorded: keep values apart, and note what a composite uses."""
        known = {self.slot_of(x) for x in inputs} - {UNKNOWN}
        if known:
            distinct(result if type(result) is tuple else (result,), inputs, self.below)
        if self._captured is not None:
            self._captured |= known
            self._note_effect(op, attrs, result)
        return result

    # --- composites ---

    def call(self, composite: Composite, inputs: Sequence[Tensor]) -> tuple[Any, ...]:
        if not self.recording:
            return super().call(composite, inputs)
        slots = [self.slot_of(x) for x in inputs]
        if composite.own_rule and self.below is not BASE and all(s == UNKNOWN for s in slots):
            return self.below.call(composite, inputs)  # whose rule it may be
        code, offset = position(2)
        self.recording, self._captured = False, set()
        try:
            with use(self):
                passed = composite.forward(*inputs)
            used = self._captured
        finally:
            self.recording, self._captured = True, None
        slots += [self.slot_of(x) for x in passed.captured]
        outputs = tuple(passed.outputs)
        for x in outputs:  # one that was known before is a new value now
            if self.slot_of(x) != UNKNOWN:
                used.add(self.slot_of(x))
                distinct((x,), (x,), self.below)
        distinct(outputs, (), self.below)
        lost = sorted(used.difference(slots))
        out_slots = self._enter_outputs(
            composite.name, outputs, slots, slots, lost, code, offset
        )
        if max(out_slots, default=UNKNOWN) >= 0:
            ins, outs = keep(passed.residuals, True), keep(outputs, False)
            # not the composite itself: it may hold the tensors that it was made for
            self.records.append(
                (composite.name, slots, out_slots, ins, outs, passed.pull, code, offset)
            )
        return outputs

    # --- variables ---

    def _note_effect(self, op: Op, attrs: dict[str, Any], result: Any) -> None:
        resource = attrs.get("resource")
        key = id(resource)
        watched = self._reads.get(key)
        if watched is None:
            if not (self._all_variables and getattr(resource, "trainable", False)):
                return
            watched = self._reads[key] = (resource, [])
        if op.effect == "writes":
            self._writes[key] = capture(2)
        elif op.effect == "reads" and result._lane.dtype.is_inexact:
            self._warn_of_write(key)
            if self.slot_of(result) != UNKNOWN:  # every read is a value of its own
                distinct((result,), (result,), self.below)
            watched[1].append(self._enter(result._data))

    def _warn_of_write(self, key: int) -> None:
        """Warn of a read after an assignment; of the next one only after another assignment."""
        written = self._writes.pop(key, None)
        if written is None:
            return
        read = capture(2)
        warnings.warn_explicit(
            "a variable is read after it was assigned under the same tape; its derivative sums "
            "over its reads and does not go through the assignment\n"
            f"  assigned at: {written}\n  read at: {read}",
            RuntimeWarning,
            "<unknown>" if read is None else read.file,
            0 if read is None else read.line,
        )


def keep(values: Sequence[Tensor], whole: bool) -> list[Kept]:
    """What a record holds of values: their data, or only their shapes."""
    return [(x._data if whole else x._data.shape, x._lane) for x in values]


def _keep_inputs(inputs: Sequence[Tensor], saved: str) -> list[Kept]:
    if saved == "inputs" or saved == "all":
        return [(x._data, x._lane) for x in inputs]
    if saved == "indices":
        return [
            (x._data.shape if x._lane.dtype.is_inexact else x._data, x._lane) for x in inputs
        ]
    return [(x._data.shape, x._lane) for x in inputs]
