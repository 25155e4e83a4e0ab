"""Reasons of retraces, and the number of traces at which there is a warning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

from eagerflow.capture.equality import same_value
from eagerflow.capture.inputs_and_stores import fits
from eagerflow.capture.static_keys import IdentityKey
from eagerflow.function.cache_entry import CacheEntry
from eagerflow.function.explanations import TOLD, LeafRecord, TraceRecord
from eagerflow.function.lookup.call_arguments import FOREIGN, Call, Leaf, text_of_scope
from eagerflow.function.lookup.symbolic_remedies import remedy_for
from eagerflow.function.lookup.trace_cache import Cache
from eagerflow.ops.names.random import Generator
from eagerflow.tracing.number_conditions import checker

_SHOWN: Final = 4  # maximum number of differences that a reason names
#: number of traces for one culprit at which there is a warning
_WARNED_AT: Final = 3
#: the same, where a truth value differs
_MANY_TRUTHS: Final = 8


#: the remedy for values read from outside
_OF_THE_GRAPH: Final = (
    "its value is part of the graph: keep it, or pass the number or tensor that it leads to as an "
    "argument"
)
#: the remedy for an argument that is another text
_REMEDY_FOR_TEXT: Final = (
    "a text is part of the graph, and each other text makes a trace: leave it out, or pass what "
    "changes as a number or a tensor"
)


@final
@dataclass(frozen=True, slots=True)
class Reason:
    """The reason for which a call needed a trace of its own.

    Attributes:
        text: the description.
        culprit: the difference, such as ``"x"`` or ``"h was redefined"``; empty for a first call.
        remedy: what to do instead; empty if nothing general can be said.
    """

    text: str
    culprit: str = ""
    remedy: str = ""

    @property
    def clause(self) -> str:
        """The clause that follows "traced again" in a sentence."""
        if TOLD.search(self.culprit):
            return f"because {self.text}"
        return f"because of {self.culprit}; {self.text}"

    @property
    def is_truth(self) -> bool:
        """Whether the difference is of a truth value, which has no third value."""
        return self.text.endswith((": was True, now False", ": was False, now True"))


def warning_due(name: str, reason: Reason, record: TraceRecord, count: int) -> str:
    """The text of the `RetraceWarning` due with a trace; empty if none is due.

    Args:
        name: of the function.
        reason: of the trace, which has a culprit.
        record: of the trace.
        count: number of traces with this culprit, with the one before it.
    """
    if count != (_MANY_TRUTHS if reason.is_truth else _WARNED_AT):
        return ""
    static = "".join(
        f"; static: {item}{remedy_for(reason.culprit, item)}"
        for item in record.static_of(reason.culprit)[:1]
    )
    remedy = f"; {reason.remedy}" if reason.remedy else ""
    if record.reader:
        remedy = f", read at {record.reader}; {_OF_THE_GRAPH}"
    why = f"{reason.clause}{static}{remedy}"
    return f"{name} was traced {count} times {why}; f.explain() lists them"


def reason_of(call: Call, cache: Cache) -> Reason:
    """The reason for which a call, not the first, cannot use a trace in the cache."""
    group = cache.group(call)
    if group is not None and group.entries:
        compared = [_Differences(entry, call) for entry in group.entries]
        return min(compared, key=lambda one: (one.count, -one.used)).reason
    scope = _other_scope(call, cache)
    if scope is not None:
        now, before = call.scope or "none", scope or "none"
        return Reason(f"the device scope: now {now}, before {before}")  # intended: no culprit
    shared = _other_aliases(call, cache)
    if shared:
        return Reason(f"{shared}: an update of one in place would show in the other", shared)
    records = [entry.leaf_records for entry in cache.entries()]
    if not records:
        return _objects_gone(call)
    return _arguments_differ(call, min(records, key=lambda before: _distance(call, before)))


def _objects_gone(call: Call) -> Reason:
    """The reason for a trace after all earlier ones went with objects that they were for.

    There is a warning for generators alone: networks, variables and settings come one after another
    in searches, each for many calls.
    """
    leaf = next((one for one in call.leaves if _is_object(one)), None)
    if leaf is None:
        return Reason("earlier traces were dropped with the objects that they were for")
    difference = f"{leaf.name} is another {type(leaf.value).__name__}"
    text = f"{difference}: the earlier one is gone, and its trace with it"
    if not isinstance(leaf.value, Generator):
        return Reason(text)
    return Reason(text, difference, _remedy_for_object(leaf))


def _is_object(leaf: Leaf) -> bool:
    """Whether an argument is static, and told apart from others by its identity."""
    return type(leaf.token) is IdentityKey and not callable(leaf.value)


def _remedy_for_object(leaf: Leaf) -> str:
    """What to do in place of passing another object in each call."""
    name = leaf.name
    if isinstance(leaf.value, Generator):
        state = "{'seed': 3, 'ticket': 0}"
        return f"keep one generator and set its state before the call: {name}.state = {state}"
    return f"keep one {type(leaf.value).__name__} and set its attributes, which each call reads"


def _other_scope(call: Call, cache: Cache) -> str | None:
    """The other device scope of the last trace for such arguments; None without such a trace."""
    for key, group in reversed(cache.groups()):
        if group.entries and key[:-1] == call.key[:-1]:
            return text_of_scope(key[-1])
    return None


def _other_aliases(call: Call, cache: Cache) -> str:
    """Which tensors are one now and were two in a trace for such arguments, or the other way round.

    Empty if no trace differs in this alone.
    """
    *same, now, scope = call.key
    for key, group in reversed(cache.groups()):
        *others, before, place = key
        if group.entries and others == same and place == scope:
            pairs, pairs_before = ({*zip(x[::2], x[1::2], strict=True)} for x in (now, before))
            later, earlier = min(pairs ^ pairs_before)
            name, other = call.leaves[later].name, call.leaves[earlier].name
            is_now = (later, earlier) in pairs
            return f"{name} is {other} now" if is_now else f"{name} was {other}, and is not now"
    return ""


@final
class _Differences:
    """The differences between a call and a trace of the same key.

    All that is read from outside counts as one: how many guards fail depends on how objects are
    nested.

    Args:
        entry: the trace.
        call: the call, which cannot use it.

    Attributes:
        count: their number.
        used: number of the latest use of the trace.
    """

    def __init__(self, entry: CacheEntry, call: Call) -> None:
        self._guards = entry.guards
        self._shares = entry.shares(call)
        self._arguments = [] if entry.takes(call) else [*_arguments_of(entry, call)]
        self.count = len(self._arguments) + (not (self._shares and entry.guards.check()))
        self.used = entry.used

    @property
    def reason(self) -> Reason:
        """The reason for which the call cannot use the trace."""
        if self._arguments:
            return Reason("; ".join(text for _, text in self._arguments), self._arguments[0][0])
        if not self._shares:
            text = "an argument that is also read from outside is not the same as before"
            return Reason(text, text)
        texts = self._guards.explain()
        text = "; ".join(texts[:_SHOWN]) or "the values that it reads from outside"
        if len(texts) > _SHOWN:  # as when a model of a hundred layers changes its mode
            text += f"; and {len(texts) - _SHOWN} more"
        return Reason(text, text.partition(":")[0].partition("; ")[0])


def _arguments_of(entry: CacheEntry, call: Call) -> Iterator[tuple[str, str]]:
    """The numbers, conditions and sizes of the arguments that differ: culprits and texts."""
    for i, value in entry.numbers:
        leaf = call.leaves[i]
        if not same_value(leaf.value, value):
            yield leaf.name, f"{leaf.name}: now {leaf.value!r}, before {value!r} (static)"
    for one in entry.conditions:
        if not checker([one])([leaf.value for leaf in call.leaves]):
            yield one.described, f"{one.described}: was {one.result}, now {not one.result}"
    patterns = iter(entry.patterns)
    for leaf, before in zip(call.leaves, entry.leaf_records, strict=True):
        if leaf.kind == "tensor" and not fits(leaf.value._data.shape, next(patterns)):
            yield leaf.name, f"{leaf.name}: now {leaf}, before {before.text}"


def _distance(call: Call, before: Sequence[LeafRecord]) -> int:
    """Number of arguments whose key differs from that in an earlier call."""
    same = {(r.name, r.token) for r in before}
    return sum((leaf.name, leaf.token) not in same for leaf in call.leaves)


def _arguments_differ(call: Call, before: Sequence[LeafRecord]) -> Reason:
    """The reason by the differences between the arguments of a call and of an earlier one."""
    now = [LeafRecord(leaf.name, str(leaf), leaf.token) for leaf in call.leaves]
    if [r.name for r in now] != [r.name for r in before]:
        names = {r.name for r in now} ^ {r.name for r in before}
        shown = ", ".join(sorted(names)) or "their order"
        return Reason(f"the structure of the arguments differs: {shown}", "the structure")
    parts, culprits = [], []
    keys_differ = any(a.token != b.token for a, b in zip(now, before, strict=True))
    for a, b in zip(now, before, strict=True):
        # sizes alone are no part of the key
        if a.token != b.token or (a.text != b.text and not keys_differ):
            what = f"{a.text}, again another object" if a.text == b.text else a.text
            parts.append(f"{a.name}: now {what}, before {b.text}")
            culprits.append(a.name)
    if not parts:
        text = "other devices, another order of keys, or arguments that are one object"
        return Reason(text, "the device")
    if any((FOREIGN in a.text) != (FOREIGN in b.text) for a, b in zip(now, before, strict=True)):
        parts.append("made tensors by ef.asarray, arrays need no trace of their own")
    leaf = next(leaf for leaf in call.leaves if leaf.name == culprits[0])
    remedy = ""
    if _is_object(leaf):
        remedy = _remedy_for_object(leaf)
    elif isinstance(leaf.value, str):
        remedy = _REMEDY_FOR_TEXT
    return Reason("; ".join(parts), culprits[0], remedy)
