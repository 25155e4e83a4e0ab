"""The tape: records the ops that depend on watched values, for the backward pass.

Each value that depends on a watched value has a *slot*, noted in its handle: a number from 0 on if
a derivative flows into it; a number below -1 if it depends on watched values only through ops
without derivative (a comparison, an argmax, a cast to integers). The slot of an independent value
is `UNKNOWN`.

`Tape.observe` is written inline, for speed: each op under a tape runs it.
"""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import CodeType
from typing import Any, Final, NamedTuple, final
from weakref import ref

from eagerflow.core.composites import Composite
from eagerflow.core.interpreter import (
    BASE,
    AbstractDifferentiator,
    attach_note,
    find_note,
    is_followed,
    stack,
    tracer_among,
    use,
)
from eagerflow.core.op import Op, declare
from eagerflow.core.tensor import Tensor, handle_of
from eagerflow.graph.name_scopes import belonging, current_scope
from eagerflow.source import Source, capture, position

UNKNOWN: Final = -1
FIRST_INPUT: Final = 6  # position of the items of the inputs in a record
PER_INPUT: Final = 4  # number of items of each input
_stop_gradient: Final = declare("stop_gradient")

#: One op: the op, or the name of a composite; the slot of its output, or a list of them; its
#: outputs, as `keep` gives them, None if their type is all that the rule reads; its attributes (of
#: a composite, its pull and its residuals); the code object and the offset of the user's line;
#: and for each input its slot and the three items that `keep` gives of it. One flat tuple, since
#: objects of their own would double the time of small ops, most of it in the garbage collector.
Record = tuple[Any, ...]


class Link(NamedTuple):
    """A dependence through which no derivative flows.

    Attributes:
        name: the op.
        in_slots: the slots of its inputs.
        out_slot: the slot of its output.
        code: the code object of the user's line.
        offset: the offset of the instruction in it.
    """

    name: str
    in_slots: Sequence[int]
    out_slot: int
    code: CodeType | None
    offset: int


@final
class Tape(AbstractDifferentiator):
    """An interpreter that records ops while it is installed (`eagerflow.core.interpreter`).

    Args:
        watch_variables: whether reads of trainable variables are watched; or a collection of the
            variables to watch.

    Attributes:
        recording: whether ops are recorded at present.
        records: the ops that derivatives flow through, oldest first.
        links: the dependences that no derivative flows through.
        origins: in a trace, by the last slot of a record, a function that makes the context in
            which nodes of its rule belong to the node of its op.
        may_break: whether there are links, or records that may lead to links.
        looks: by slot, the line where Python last looked at a value, the latest look at the end.
        shares_looks: whether a derivative taken within flows through one of these, too.
    """

    observes = True

    def __init__(self, watch_variables: bool | Iterable[Any] = False) -> None:
        self.recording = True
        self.records: list[Record] = []
        self.links: list[Link] = []
        self.origins: dict[int, Callable[[], belonging]] = {}
        self.may_break = False
        self.looks: dict[int, tuple[CodeType | None, int]] = {}
        self.shares_looks = False
        self._owner = ref(self)
        self._last = self._last_link = UNKNOWN  # the last slots assigned, of either kind
        self._rules = 0  # number of runs of rules under way
        #: the slots assigned by rules, of either kind, as spans: the slot before, the last slot
        self._rule_slots: tuple[list[list[int]], list[list[int]]] = ([], [])
        #: during the forward pass of a composite: the slots of the values that it uses
        self._captured: set[int] | None = None
        self._all_variables = watch_variables is True
        #: id(resource) -> the resource and the slots of its reads, for watched resources
        self._reads: dict[int, tuple[Any, list[int]]] = {}
        #: id(resource) -> the line of its last assignment, for resources in _reads
        self._writes: dict[int, Source | None] = {}
        if not isinstance(watch_variables, bool):
            for variable in watch_variables:
                self.watch_variable(variable)

    # --- watched values ---

    def watch(self, x: Tensor) -> int:
        """Follow the value that ``x`` holds now; returns its slot."""
        slot = self.slot_of(x)
        if slot < 0:
            self._last = slot = self._last + 1
            attach_note(x, self._owner, slot)
        return slot

    def watch_variable(self, variable: Any) -> None:
        """Follow every later read of ``variable``."""
        self._reads.setdefault(id(variable.resource), (variable.resource, []))

    def slot_of(self, x: Tensor) -> int:
        """The slot of the value that ``x`` holds."""
        slot: int | None = find_note(x._mark, self._owner)
        return UNKNOWN if slot is None else slot

    def slots_of_reads(self, variable: Any) -> Sequence[int]:
        """The slots of all reads of ``variable``."""
        entry = self._reads.get(id(variable.resource))
        return () if entry is None else entry[1]

    def forget(self) -> None:
        """Drop all records, and record no more."""
        self.recording = False
        self.records = []
        self.links = []
        self.origins = {}
        self.looks = {}
        self._reads = {}
        self._writes = {}

    def follows(self, x: Tensor) -> bool:
        return self.recording and self.slot_of(x) >= 0

    def knows(self, x: Tensor) -> bool:
        return self.slot_of(x) >= 0

    def looked(self, value: Tensor) -> None:
        slot = self.slot_of(value)
        if slot >= 0 and self.recording:
            self.looks.pop(slot, None)
            self.looks[slot] = position(3)
            self.shares_looks = self.shares_looks or is_followed(value, within=self)
        self.below.looked(value)

    def watches(self, resource: Any) -> bool:
        trainable = self._all_variables and getattr(resource, "trainable", False)
        return trainable or id(resource) in self._reads

    def begin_rules(self) -> None:
        if not self._rules:
            for spans, last in zip(self._rule_slots, (self._last, -self._last_link), strict=True):
                if not spans or spans[-1][1] != last:
                    spans.append([last, last])
        self._rules += 1

    def end_rules(self) -> None:
        self._rules -= 1
        if not self._rules:
            for spans, last in zip(self._rule_slots, (self._last, -self._last_link), strict=True):
                spans[-1][1] = last

    def from_rule(self, slot: int) -> bool:
        """Whether the value of ``slot`` was computed by a vjp rule."""
        spans, number = self._rule_slots[slot < 0], abs(slot)
        i = bisect_left(spans, [number]) - 1
        return i >= 0 and number <= spans[i][1]

    # --- ops ---

    def bind(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        if self.looks_on and not stack.monitored:
            result = stack.execute(op, inputs, attrs)
            self.observe(op, inputs, attrs, result)
            return result
        before = self._last
        result = self.below.bind(op, inputs, attrs)
        self.observe(op, inputs, attrs, result)
        if self._last != before:
            tracer = tracer_among(self.below)
            if tracer is not None:
                node = tracer.newest
                root = node if node.forward is None else node.forward
                self.origins[self._last] = partial(belonging, node.scope, root)
        return result

    def observe(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any], result: Any) -> None:
        if not self.recording or op.effect != "pure":
            self._observe_effect(op, inputs, attrs, result)
            return
        if len(inputs) != 2:
            self._observe_any(op, inputs, attrs, result)
            return
        owner = self._owner
        x, y = inputs
        mark = x._mark
        first = UNKNOWN if mark is None else mark[1] if mark[0] is owner else self.slot_of(x)
        mark = y._mark
        second = UNKNOWN if mark is None else mark[1] if mark[0] is owner else self.slot_of(y)
        if first < 0 and second < 0:
            if first != second or first != UNKNOWN:
                self._record(op, inputs, (first, second), attrs, result)
            return
        saved = op.saved
        if type(result) is not Tensor or op.cuts or not result._lane.dtype.is_inexact:
            self._record(op, inputs, (first, second), attrs, result)
        elif saved == "none":
            code, offset = position(4)
            self._last = slot = self._last + 1
            result._mark = (owner, slot, result._mark)
            self.records.append(
                (op, slot, None, attrs, code, offset,
                 first, x._data.shape, x._lane, None, second, y._data.shape, y._lane, None)
            )  # fmt: skip
        elif saved == "inputs":
            code, offset = position(4)
            self._last = slot = self._last + 1
            result._mark = (owner, slot, result._mark)
            self.records.append(
                (op, slot, None, attrs, code, offset,
                 first, x._data, x, x._mark, second, y._data, y, y._mark)
            )  # fmt: skip
        else:
            self._observe_any(op, inputs, attrs, result)

    def _observe_any(
        self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any], result: Any
    ) -> None:
        owner = self._owner
        slots = []
        top = low = UNKNOWN
        for x in inputs:
            mark = x._mark
            slot = UNKNOWN if mark is None else mark[1] if mark[0] is owner else self.slot_of(x)
            slots.append(slot)
            if slot > top:
                top = slot
            elif slot < low:
                low = slot
        if top < 0 or type(result) is not Tensor or op.cuts or not result._lane.dtype.is_inexact:
            if top >= 0 or low < UNKNOWN:
                self._record(op, inputs, slots, attrs, result)
            return
        code, offset = position(5)
        self._last = slot = self._last + 1
        result._mark = (owner, slot, result._mark)
        saved = op.saved
        whole = saved == "outputs" or saved == "all"
        outs = (result._data, result, result._mark) if whole else None
        record = [op, slot, outs, attrs, code, offset]
        whole = saved == "inputs" or saved == "all"
        for x in inputs:
            if whole or (saved == "indices" and not x._lane.dtype.is_inexact):
                record += (0, x._data, x, x._mark)
            else:
                record += (0, x._data.shape, x._lane, None)
        record[FIRST_INPUT::PER_INPUT] = slots
        self.records.append(tuple(record))

    def _record(
        self, op: Op, inputs: Sequence[Tensor], slots: Sequence[int], attrs: dict[str, Any],
        result: Any,
    ) -> None:  # fmt: skip
        """Record an op of any kind, whose outputs or inputs may have no derivative."""
        if op is _stop_gradient:
            return
        outputs = result if type(result) is tuple else (result,)
        flowing = slots
        if op.cuts:
            rules: Any = op.vjp
            flowing = [
                UNKNOWN if slot >= 0 and rule is None else slot
                for slot, rule in zip(slots, rules, strict=True)
            ]
        where = position(4)
        out_slots = self._enter_outputs(op.name, outputs, slots, flowing, (), where)
        if max(out_slots, default=UNKNOWN) >= 0:
            one = len(outputs) == 1
            whole = op.saved == "outputs" or op.saved == "all"
            # the type of a single output is that of its cotangent
            outs = keep(outputs, whole) if whole or not one else None
            ins = _inputs(op, inputs, slots)
            self.records.append((op, out_slots[0] if one else out_slots, outs, attrs, *where, *ins))

    def _enter_outputs(
        self, name: str, outputs: Sequence[Tensor], slots: Sequence[int], flowing: Sequence[int],
        used: Sequence[int], where: tuple[CodeType | None, int],
    ) -> list[int]:  # fmt: skip
        """Assign slots to the outputs, with a link for each dependence without derivative.

        Args:
            name: name of the op.
            outputs: the outputs.
            slots: the slots of its inputs.
            flowing: ``slots``, with `UNKNOWN` for inputs that floating outputs do not depend on.
            used: slots that the outputs depend on without a derivative.
            where: the user's line.
        """
        live = max(flowing, default=UNKNOWN) >= 0
        out_slots = []
        for out in outputs:
            inexact = out._lane.dtype.is_inexact
            lost = [*used]
            if live and inexact:
                self._last = slot = self._last + 1
            else:
                lost += [s for s in (flowing if inexact else slots) if s != UNKNOWN]
                slot = UNKNOWN
                if lost:
                    self._last_link = slot = self._last_link - 1
            if slot != UNKNOWN:
                out._mark = (self._owner, slot, out._mark)
            if lost:
                self.may_break = True
                self.links.append(Link(name, lost, slot, *where))
            out_slots.append(slot)
        return out_slots

    def _observe_effect(
        self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any], result: Any
    ) -> None:
        """Observe an op with an effect, or any op while recording is off."""
        if self.recording:
            self._observe_any(op, inputs, attrs, result)
        elif self._captured is None:
            return
        else:
            self._captured.update(self.slot_of(x) for x in inputs)
        if op.effect != "pure":
            self._note_effect(op, attrs, result)

    # --- composites ---

    def call(self, composite: Composite, inputs: Sequence[Tensor]) -> tuple[Any, ...]:
        if not self.recording:
            if composite.node is None:
                return super().call(composite, inputs)
            if self._captured is not None:
                self._captured.update(map(self.slot_of, inputs))
            return self.below.call(composite, inputs)
        slots = [self.slot_of(x) for x in inputs]
        reads = any(map(self.watches, composite.reads))
        untouched = not reads and all(s == UNKNOWN for s in slots)
        if composite.own_rule and self.below is not BASE and untouched:
            return self.below.call(composite, inputs)  # which may have a rule for it
        where = position(2)
        self.recording, self._captured = False, set()
        try:
            with use(self):
                passed = composite.forward(*inputs)
            used = self._captured
        finally:
            self.recording, self._captured = True, None
        slots += [self.slot_of(x) for x in passed.captured]
        used |= {self.slot_of(x) for x in passed.outputs}
        outputs = tuple([handle_of(x) for x in passed.outputs])
        lost = sorted(used.difference(slots, (UNKNOWN,)))
        out_slots, flowing = self._enter_results(composite, outputs, slots, lost, where)
        if max(out_slots, default=UNKNOWN) >= 0:
            self.may_break = True
            # not the composite itself, which may hold the tensors of its call
            ins = [item for slot in flowing for item in (slot, None, None, None)]
            pull = (passed.pull, keep(passed.residuals, True))
            self.records.append(
                (composite.name, out_slots, keep(outputs, False), pull, *where, *ins)
            )
            if tracer_among(self.below) is not None:  # its own nodes say to which they belong
                self.origins[self._last] = partial(belonging, current_scope())
        return outputs

    def _enter_results(
        self, composite: Composite, outputs: Sequence[Tensor], slots: Sequence[int],
        lost: Sequence[int], where: tuple[CodeType | None, int],
    ) -> tuple[list[int], Sequence[int]]:  # fmt: skip
        """Slots of the outputs of a composite, and of the inputs that they depend on."""
        name = composite.name
        if composite.depends is None:
            return self._enter_outputs(name, outputs, slots, slots, lost, where), slots
        out_slots = []
        reached: set[int] = set()
        for out, numbers in zip(outputs, composite.depends(), strict=True):
            own = [slots[i] for i in sorted(numbers)]
            out_slots += self._enter_outputs(name, (out,), own, own, lost, where)
            if out._lane.dtype.is_inexact:
                reached |= numbers
        return out_slots, [s if i in reached else UNKNOWN for i, s in enumerate(slots)]

    # --- variables ---

    def _note_effect(self, op: Op, attrs: dict[str, Any], result: Any) -> None:
        resource = attrs.get("resource")
        key = id(resource)
        if not self.watches(resource):
            return
        _, reads = self._reads.setdefault(key, (resource, []))
        if op.effect == "writes":
            self._writes[key] = capture(2)
        elif op.effect == "reads" and result._lane.dtype.is_inexact:
            self._warn_of_write(key)
            self._last = slot = self._last + 1
            result._mark = (self._owner, slot, result._mark)
            reads.append(slot)

    def assigned(self, resource: Any, source: Any) -> None:
        if self.recording and self.watches(resource):
            self._writes[id(resource)] = source

    def _warn_of_write(self, key: int) -> None:
        """Warn of a read after an assignment, once per assignment."""
        written = self._writes.pop(key, None)
        if written is not None:
            warn_of_read(written, capture(2))


def warn_of_read(written: Any, read: Any) -> None:
    """Warn of a read after an assignment.

    Args:
        written: the line of the assignment, None if unknown.
        read: the line of the read.
    """
    warnings.warn_explicit(
        "a variable is read after it was assigned under the same tape; its derivative sums "
        "over its reads and does not go through the assignment\n"
        f"  assigned at: {written}\n  read at: {read}",
        RuntimeWarning,
        getattr(read, "file", "<unknown>"),
        getattr(read, "line", 0),
    )


def keep(values: Sequence[Tensor], whole: bool) -> list[Any]:
    """The items of values in a record, three per value.

    For values that a rule reads: data, handle and mark, since the handle may get another value.
    For others: shape, lane and None.
    """
    kept: list[Any] = []
    for x in values:
        kept += (x._data, x, x._mark) if whole else (x._data.shape, x._lane, None)
    return kept


def _inputs(op: Op, inputs: Sequence[Tensor], slots: Sequence[int]) -> list[Any]:
    saved = op.saved
    items: list[Any] = []
    for x, slot in zip(inputs, slots, strict=True):
        whole = saved in ("inputs", "all")
        if saved == "indices":
            whole = not x._lane.dtype.is_inexact
        items += (slot, *keep((x,), whole))
    return items
