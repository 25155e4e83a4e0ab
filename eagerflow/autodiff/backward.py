"""Going back over a tape: from the cotangents of results to those of what was watched."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from eagerflow.autodiff.cotangents import Cotangent, add, dense, pull
from eagerflow.autodiff.tape import UNKNOWN, Kept, Link, Record, Tape
from eagerflow.core.interpreter import applying_rules
from eagerflow.core.op import Op, functions
from eagerflow.core.tensor import Tensor, make_tensor
from eagerflow.errors import EagerflowError, GradientError
from eagerflow.hardware import NullArray, as_device
from eagerflow.source import Source

__all__ = ["Wanted", "gradients", "search"]

_null: Final = as_device("null:0")


class Wanted(NamedTuple):
    """A source of which the gradient is asked for.

    Attributes:
        name: for messages, such as ``"argument 0"``.
        slots: the slots of its values: one, or those of the reads of a variable.
    """

    name: str
    slots: Sequence[int]


def gradients(
    tape: Tape, seeds: Mapping[int, Cotangent], sources: Sequence[Wanted], what: str, *,
    consume: bool = False,
) -> list[Cotangent | None]:  # fmt: skip
    """The cotangent of each source, None for those that the results do not depend on.

    Args:
        tape: what was recorded; it records nothing of this, other interpreters do.
        seeds: the cotangents of the results, by slot.
        sources: what to differentiate by.
        what: the name of the transform, for messages.
        consume: let go of each record as soon as it was used, to free what it holds.

    Raises:
        GradientError: a cotangent reaches an op that has no derivative, or a source reaches the
            results only through such ops.
    """
    found = search(tape, seeds, [source.slots for source in sources], consume=consume)
    for source, g in zip(sources, found, strict=True):
        if type(g) is Link:
            raise GradientError(
                f"{what}: {source.name} reaches the result only through {g.name}, "
                "which has no derivative",
                hint="apply ef.stop_gradient to it, if a gradient of zero is meant",
                source=_source(g.code, g.offset),
            )
    return found


def search(
    tape: Tape, seeds: Mapping[int, Cotangent], sources: Sequence[Sequence[int]], *, consume: bool
) -> list[Any]:
    """What `gradients` gives, with the link in the place of a gradient that is lost at one.

    Args:
        tape: what was recorded.
        seeds: the cotangents of the results, by slot.
        sources: the slots of each source.
        consume: let go of each record as soon as it was used.
    """
    kept = frozenset(slot for slots in sources for slot in slots)
    flows = [record[:3] for record in tape.records] if consume else tape.records
    before, tape.recording = tape.recording, False
    try:
        with applying_rules():
            cotangents = _run(tape, seeds, kept, consume)
            found: list[Any] = [_total(cotangents, slots) for slots in sources]
    finally:
        tape.recording = before
    if tape.links:
        for i, slots in enumerate(sources):
            if found[i] is None:
                found[i] = _broken(tape, flows, seeds, slots)
    return found


def _run(
    tape: Tape, seeds: Mapping[int, Cotangent], kept: frozenset[int], consume: bool
) -> dict[int, Cotangent]:
    """The cotangents of the slots in ``kept``; rules run in the current chain."""
    records = tape.records
    cotangents = {slot: g for slot, g in seeds.items() if slot >= 0}
    for i in range(len(records) - 1, -1, -1):
        record = records.pop() if consume else records[i]
        out_slots = record[2]
        if type(out_slots) is int:
            g: Any = cotangents.get(out_slots)
            if g is None:
                continue
            if out_slots not in kept:
                del cotangents[out_slots]
        else:
            g = [cotangents.get(slot) for slot in out_slots]
            if all(one is None for one in g):
                continue
            for slot in out_slots:
                if slot not in kept:
                    cotangents.pop(slot, None)
        for slot, one in zip(record[1], _pull(record, g), strict=True):
            if slot >= 0 and one is not None:
                if type(one) is Link:
                    out = out_slots if type(out_slots) is int else max(out_slots)
                    tape.links.append(one._replace(in_slots=(slot,), out_slot=out))
                    continue
                before = cotangents.get(slot)
                cotangents[slot] = one if before is None else add(before, one)
    return cotangents


def _total(found: Mapping[int, Cotangent], slots: Sequence[int]) -> Cotangent | None:
    total: Cotangent | None = None
    for slot in slots:
        g = found.get(slot)
        if g is not None:
            total = g if total is None else add(total, g)
    return total


def _pull(record: Record, g: Any) -> Sequence[Cotangent | None]:
    """The cotangents of a record's inputs, from that of its output or the list of them."""
    op, slots, _, ins, outs, attrs, code, offset = record
    try:
        inputs = [_tensor(kept) for kept in ins]
        if type(g) is list:
            g = tuple([_whole(one, kept) for one, kept in zip(g, outs, strict=True)])
        if type(op) is str:
            result: Sequence[Cotangent | None] = attrs(inputs, g, [slot >= 0 for slot in slots])
            return result
        assert isinstance(op, Op)
        if op.nondifferentiable:
            raise GradientError(f"{op.name} has no derivative", source=_source(code, offset))
        out = _tensor(outs[0]) if len(outs) == 1 else tuple([_tensor(kept) for kept in outs])
        return pull(op, slots, g, out, inputs, attrs)
    except EagerflowError as error:
        if not hasattr(error, "__notes__"):
            name = op if type(op) is str else op.name
            error.add_note(f"in the gradient of {name}, applied at {_source(code, offset)}")
        raise


def _tensor(kept: Kept) -> Tensor:
    """A value as the rule sees it: whole, or with a type only."""
    data, lane = kept
    if type(data) is tuple:
        dtype = lane.dtype
        return make_tensor(NullArray(dtype.dtype, data), _null.lanes[dtype])
    return make_tensor(data, lane)


def _whole(g: Cotangent | None, kept: Kept) -> Tensor | None:
    """A cotangent as the rule of an op of several outputs gets it: zeros where none arrived."""
    if g is not None:
        return dense(g)
    data, lane = kept
    if not lane.dtype.is_inexact:
        return None
    shape = data if type(data) is tuple else data.shape
    zeros: Tensor = functions["zeros"](shape, dtype=lane.dtype, device=lane.device)
    return zeros


def _source(code: Any, offset: int) -> Source | None:
    return None if code is None else Source(code, offset)


def _broken(
    tape: Tape, flows: Iterable[Sequence[Any]], results: Iterable[int], sources: Sequence[int]
) -> Link | None:
    """The link next to ``sources`` on a way from ``results`` that no derivative takes."""
    ways: defaultdict[int, list[tuple[Sequence[int], Link | None]]] = defaultdict(list)
    for link in tape.links:
        if not tape.from_rule(link.out_slot):
            ways[link.out_slot].append((link.in_slots, link))
    for op, in_slots, out_slots, *_ in flows:
        first = out_slots if type(out_slots) is int else max(out_slots)
        if tape.from_rule(first):
            in_slots = [max(slot, UNKNOWN) for slot in in_slots]
        if getattr(op, "cuts", False):
            in_slots = [
                UNKNOWN if slot >= 0 and rule is None else slot
                for slot, rule in zip(in_slots, op.vjp, strict=True)
            ]
        for slot in (out_slots,) if type(out_slots) is int else out_slots:
            ways[slot].append((in_slots, None))
    pending: list[tuple[int, Link | None]] = [(slot, None) for slot in results]
    seen: set[tuple[int, bool]] = set()
    while pending:
        slot, nearest = pending.pop()
        if slot == UNKNOWN or (slot, nearest is None) in seen:
            continue
        seen.add((slot, nearest is None))
        if slot in sources and nearest is not None:
            return nearest
        for in_slots, link in ways.get(slot, ()):
            pending += [(s, nearest if link is None else link) for s in in_slots]
    return None
