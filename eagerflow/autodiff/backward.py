"""The backward pass over a tape: from cotangents of results to cotangents of watched values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final, TypeVar

from eagerflow.autodiff.tape import FIRST_INPUT, PER_INPUT, UNKNOWN, Link, Record, Tape
from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.interpreter import applying_rules
from eagerflow.core.op import Op, bind, declare, functions, joint
from eagerflow.core.op_records.non_finite_remedies import note_gradient
from eagerflow.core.op_records.registration_checks import count_of_rules
from eagerflow.core.tensor import Tensor, make_tensor
from eagerflow.dims import may_equal
from eagerflow.errors import EagerflowError, GradientError
from eagerflow.formatting import kind_of
from eagerflow.hardware import NullArray, as_device
from eagerflow.ops.rules.gradients import sum_to_like
from eagerflow.ops.rules.promotion import cast
from eagerflow.ops.rules.sizes import matched
from eagerflow.ops.state.lists import list_add, list_new
from eagerflow.source import Source
from eagerflow.types import LIST, DType, Shape, TensorSpec, same_shape

Cotangent = Tensor | IndexedSlices
_C = TypeVar("_C", Tensor, Tensor | IndexedSlices)


def full_like(x: Any, value: float) -> Tensor:
    """A tensor of the type of ``x``, a tensor or a variable, filled with a number."""
    if x.dtype is LIST:
        return list_new(x.device)
    return bind(_full, shape=x.shape, fill_value=value, dtype=x.dtype, device=x.device)


def dense(g: Cotangent) -> Tensor:
    """A cotangent as a dense tensor."""
    return g.to_dense() if isinstance(g, IndexedSlices) else g


def add(a: Cotangent, b: Cotangent) -> Cotangent:
    """The sum of two cotangents; sparse if both are."""
    if type(a) is Tensor and type(b) is Tensor and a.dtype is LIST:
        return list_add(a, b)
    return a + b


def add_at(cotangents: dict[int, Any], slot: int, g: Cotangent) -> None:
    """Add a cotangent to the cotangent of a slot, if any.

    `UNKNOWN` is skipped: it leads to no source, and its values may differ in shape and device.
    """
    if slot == UNKNOWN:
        return
    before = cotangents.get(slot)
    cotangents[slot] = g if before is None else add(before, g)


def seeds_of(slots: Iterable[int], gs: Iterable[Cotangent | None]) -> dict[int, Cotangent]:
    """The cotangents of results by slot; cotangents of a result that occurs twice are added.

    Args:
        slots: the slots of the results.
        gs: the cotangent of each result, None for zero.
    """
    seeds: dict[int, Cotangent] = {}
    for slot, g in zip(slots, gs, strict=True):
        if g is not None:
            add_at(seeds, slot, g)
    return seeds


def fit(g: _C, type_: TensorSpec) -> _C | None:
    """A cotangent or tangent in the dtype of its value; None if it does not fit.

    Args:
        g: a tensor, or indexed slices.
        type_: the type of the value.
    """
    if g.dtype.is_complex and not type_.dtype.is_complex:
        return None
    if not _may_be(g.shape, type_.shape):
        return None
    if isinstance(g, IndexedSlices):
        return g
    x = g
    if not same_shape(x.shape, type_.shape):
        wrong = "the cotangent or tangent of a value has another shape"
        x = matched(x, x.shape, type_.shape, wrong, f"{x.type} for {type_}")
    return cast(x, type_.dtype)


def pull(
    op: Op, wanted: Sequence[int], g: Any, out: Any, inputs: Sequence[Tensor],
    attrs: dict[str, Any],
) -> Sequence[Cotangent | None]:  # fmt: skip
    """The cotangents of the inputs of an op.

    Args:
        op: the op, differentiable.
        wanted: for each input a number, not negative if its cotangent is wanted.
        g: the cotangent of the output; a tuple, without None, for ops of several outputs.
        out: the output, or the tuple of outputs.
        inputs: the inputs.
        attrs: the attributes.
    """
    if type(g) is IndexedSlices:
        if op.linear_rows:
            (rows,) = pull(op, wanted, g.values, out, inputs, attrs)
            return [None if rows is None else IndexedSlices(rows, g.indices, g.shape)]
        g = g.to_dense()
    gs = _by_rules(op, wanted, g, out, inputs, attrs)
    return _of_inputs(op, gs, g, inputs) if op.users_rules else gs


def _by_rules(
    op: Op, wanted: Sequence[int], g: Any, out: Any, inputs: Sequence[Tensor],
    attrs: dict[str, Any],
) -> Sequence[Cotangent | None]:  # fmt: skip
    """The results of the vjp rules of an op; see `pull`."""
    rule = op.vjp
    if type(rule) is tuple:
        if len(rule) != len(inputs):
            raise count_of_rules(op.name, len(rule), len(inputs))
        return [
            None if slot < 0 or one is None else one(g, out, *inputs, **attrs)
            for slot, one in zip(wanted, rule, strict=True)
        ]
    if isinstance(rule, joint):
        together: Sequence[Cotangent | None] = rule.rule(g, out, *inputs, **attrs)
        return together
    assert callable(rule)
    return [
        None if slot < 0 else rule(i, g, out, *inputs, **attrs) for i, slot in enumerate(wanted)
    ]


def _of_inputs(
    op: Op, gs: Sequence[Any], g: Any, inputs: Sequence[Tensor]
) -> list[Cotangent | None]:
    """Cotangents by rules of a user's, in the types of the inputs.

    Those of the shape of an output are summed over the axes along which the input was broadcast to
    it, as in PyTorch's functions.

    Args:
        op: the op.
        gs: what its rules give.
        g: the cotangent of the output, or a tuple of those.
        inputs: the inputs.

    Raises:
        GradientError: a rule gives no tensor, or one that is no cotangent of its input.
    """
    if not isinstance(gs, (tuple, list)) or len(gs) != len(inputs):
        shown = f"{len(gs)} values" if isinstance(gs, (tuple, list)) else type(gs).__name__
        raise GradientError(
            f"{op.name}: the vjp rule does not give a cotangent for each input",
            given=f"{shown}{_by(op.vjp)}",
            expected=f"a tuple of {len(inputs)}, with None for zero",
        )
    wholes = [one.shape for one in (g if isinstance(g, tuple) else (g,)) if one is not None]
    return [
        _of_input(op, i, one, x, wholes) if one is not None and x._lane.dtype.is_inexact else one
        for i, (one, x) in enumerate(zip(gs, inputs, strict=True))
    ]


def _of_input(op: Op, i: int, g: Any, x: Tensor, wholes: Sequence[Shape]) -> Cotangent:
    if not isinstance(g, (Tensor, IndexedSlices)):
        raise _misfit(op, i, "gives no tensor", kind_of(g), f"{x.type}")
    fitted = fit(g, x.type) if g.dtype.is_inexact else None
    is_whole = any(_may_be(g.shape, whole) for whole in wholes)
    if fitted is None and isinstance(g, Tensor) and is_whole and _is_broadcast(x.shape, g.shape):
        fitted = fit(sum_to_like(g, x), x.type) if g.dtype.is_inexact else None
    if fitted is None:
        raise _misfit(op, i, "gives a cotangent that does not fit", f"{g.type}", f"{x.type}")
    return fitted


def _may_be(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) and all(map(may_equal, a, b))


def _is_broadcast(shape: Shape, whole: Shape) -> bool:
    """Whether an input of a shape may have been broadcast to a whole shape."""
    lead = len(whole) - len(shape)
    sizes = zip(shape, whole[max(lead, 0) :], strict=True)
    return lead >= 0 and all(may_equal(d, 1) or may_equal(d, size) for d, size in sizes)


def _misfit(op: Op, i: int, what: str, given: str, expected: str) -> GradientError:
    """The error for what a vjp rule of a user's gives for input ``i``."""
    rules = op.vjp
    rule = rules[i] if isinstance(rules, tuple) else rules
    name = op.arguments[i] if i < len(op.arguments) else f"input {i}"
    return GradientError(
        f"{op.name}: the vjp rule of {name} {what}",
        given=f"{given}{_by(rule)}",
        expected=f"{expected}, the type of {name}",
        hint="a rule gives a tensor of the type of its input, or None for zero; the sum over the "
        "axes along which an input was broadcast is taken for it",
    )


def _by(rule: Any) -> str:
    """The line of a rule, as a part of what it gave; empty if it is no function of Python."""
    code = getattr(getattr(rule, "rule", rule), "__code__", None)
    return "" if code is None else f" by {Source(code, 0)}"


_full: Final = declare("full")
_null: Final = as_device("null:0")
#: `eagerflow.source` takes the local variable of this name in frames of this file for the source
REPLAYS: Final = "at"
#: likewise, the op whose rule is applied
GRADIENT_OF: Final = "op"


def gradients(
    tape: Tape, seeds: Mapping[int, Cotangent], sources: Sequence[Sequence[int]], what: str,
    name: Callable[[int], str], *, consume: bool = False,
) -> list[Cotangent | None]:  # fmt: skip
    """The cotangent of each source; None if the results do not depend on it.

    Args:
        tape: the recorded ops; it does not record the backward pass, other interpreters do.
        seeds: the cotangents of the results, by slot.
        sources: for each source the slots of its values: a single slot, or the reads of a variable.
        what: the name of the transform, for messages.
        name: maps the number of a source to its name, for messages.
        consume: whether to release each record right after its use, to free its values.

    Raises:
        GradientError: a cotangent reaches an op without derivative, or all paths from a source
            to the results lead through such ops.
    """
    cotangents = search(tape, seeds, sources, consume=consume)
    for i, g in enumerate(cotangents):
        if type(g) is Link:
            raise GradientError(
                f"{what}: {name(i)} reaches the result only through {g.name}, "
                "which has no derivative",
                hint="apply ef.stop_gradient to it, if a gradient of zero is meant",
                source=_source(g.code, g.offset),
            )
    return cotangents


def search(
    tape: Tape, seeds: Mapping[int, Cotangent], sources: Sequence[Sequence[int]], *, consume: bool
) -> list[Any]:
    """The result of `gradients`, with a link in place of each gradient that is lost at that link.

    Args:
        tape: the recorded ops.
        seeds: the cotangents of the results, by slot.
        sources: the slots of each source.
        consume: whether to release each record right after its use.
    """
    kept = frozenset(slot for slots in sources for slot in slots)
    flows = [_flow(r) for r in tape.records] if consume and tape.may_break else None
    before, tape.recording = tape.recording, False
    try:
        with applying_rules():
            cotangents = _run(tape, seeds, kept, consume)
            totals: list[Any] = [_total(cotangents, slots) for slots in sources]
    finally:
        tape.recording = before
    if tape.links and any(slots and g is None for slots, g in zip(sources, totals, strict=True)):
        lost = _lost(tape, flows or map(_flow, tape.records), seeds)
        for i, slots in enumerate(sources):
            if totals[i] is None:
                totals[i] = next((lost[slot] for slot in slots if slot in lost), None)
    return totals


def _run(
    tape: Tape, seeds: Mapping[int, Cotangent], kept: frozenset[int], consume: bool
) -> dict[int, Cotangent]:
    """The cotangents of the slots in ``kept``; rules run in the current chain."""
    records, origins = tape.records, tape.origins
    cotangents = {slot: g for slot, g in seeds.items() if slot >= 0}
    for i in range(len(records) - 1, -1, -1):
        record = records.pop() if consume else records[i]
        out_slots = record[1]
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
        if not origins:
            _back(tape, record, g, cotangents)
            continue
        origin = origins.get(out_slots if type(out_slots) is int else max(out_slots))
        with nullcontext() if origin is None else origin():
            _back(tape, record, g, cotangents)
    return cotangents


def _back(tape: Tape, record: Record, g: Any, cotangents: dict[int, Cotangent]) -> None:
    """Add the cotangents of the inputs of a record to ``cotangents``."""
    slots = record[FIRST_INPUT::PER_INPUT]
    for slot, one in zip(slots, _pull(record, slots, g), strict=True):
        if slot >= 0 and one is not None:
            if type(one) is Link:
                out = record[1] if type(record[1]) is int else max(record[1])
                tape.links.append(one._replace(in_slots=(slot,), out_slot=out))
                continue
            add_at(cotangents, slot, one)


def _total(cotangents: Mapping[int, Cotangent], slots: Sequence[int]) -> Cotangent | None:
    total: Cotangent | None = None
    for slot in reversed(slots):  # the last use first, as for all values and in sums of loops
        g = cotangents.get(slot)
        if g is not None:
            total = g if total is None else add(total, g)
    return total


def _flow(record: Record) -> tuple[Any, Sequence[int], Any]:
    """The op of a record, the slots of its inputs, and the slots of its outputs."""
    return record[0], record[FIRST_INPUT::PER_INPUT], record[1]


def _pull(record: Record, slots: Sequence[int], g: Any) -> Sequence[Any]:
    """The cotangents of a record's inputs, from the cotangent (or the list) of its outputs.

    A composite may return a link in place of a cotangent that is lost within it.
    """
    op, _, outs, attrs, code, offset = record[:FIRST_INPUT]
    at = record[4:FIRST_INPUT]  # noqa: F841 - nodes of rules belong to the line of the op
    try:
        if type(g) is list:
            assert outs is not None
            g = tuple([_whole(one, outs[3 * i], outs[3 * i + 1]) for i, one in enumerate(g)])
        if type(op) is str:
            composite, residuals = attrs
            wanted = [slot >= 0 for slot in slots]
            result: Sequence[Any] = composite(_values(residuals), g, wanted)
            return result
        assert isinstance(op, Op)
        if op.nondifferentiable:
            raise GradientError(f"{op.name} has no derivative", source=_source(code, offset))
        if outs is None:
            out: Any = _typed(g.shape, g.dtype)
        else:
            out = _values(outs)
            out = tuple(out) if type(g) is tuple else out[0]
        return pull(op, slots, g, out, _values(record, FIRST_INPUT + 1, PER_INPUT), attrs)
    except EagerflowError as error:
        note_gradient(error, op, _source(code, offset))
        raise


def _values(kept: Sequence[Any], start: int = 0, step: int = 3) -> list[Tensor]:
    """Values as a rule sees them: complete, or with a type only.

    Args:
        kept: items made by `keep`.
        start: position of the first value's items.
        step: distance between values.
    """
    values = []
    for i in range(start, len(kept), step):
        data, holder = kept[i], kept[i + 1]
        if type(data) is tuple:
            values.append(_typed(data, holder.dtype))
        else:
            x = make_tensor(data, holder._lane)
            # other interpreters may have begun to watch the value
            x._mark = holder._mark if holder._data is data else kept[i + 2]
            values.append(x)
    return values


def _typed(shape: Shape, dtype: DType) -> Tensor:
    """A tensor with a type and no value."""
    return make_tensor(NullArray(dtype.dtype, shape), _null.lanes[dtype.dtype])


def _whole(g: Cotangent | None, data: Any, holder: Any) -> Tensor | None:
    """A cotangent for the rule of an op of several outputs: zeros if none has arrived.

    Args:
        g: the cotangent.
        data: the data of the output, or its shape.
        holder: the handle of the output, or its lane.
    """
    lane = holder._lane if type(holder) is Tensor else holder
    if g is not None or not lane.dtype.is_inexact:
        return None if g is None else dense(g)
    shape = data if type(data) is tuple else data.shape
    if lane.dtype is LIST:
        return list_new(lane.device)
    return functions["zeros"](shape, dtype=lane.dtype, device=lane.device)


def _source(code: Any, offset: int) -> Source | None:
    return None if code is None else Source(code, offset)


def _lost(tape: Tape, flows: Iterable[Sequence[Any]], results: Iterable[int]) -> dict[int, Link]:
    """The slots on paths from ``results`` without a derivative, each with its nearest link."""
    ways: defaultdict[int, list[tuple[Sequence[int], Link | None]]] = defaultdict(list)
    for link in tape.links:
        if not tape.from_rule(link.out_slot):
            ways[link.out_slot].append((link.in_slots, link))
    for op, in_slots, out_slots in flows:
        several = [out_slots] if type(out_slots) is int else out_slots
        if tape.from_rule(max(several)):
            in_slots = [max(slot, UNKNOWN) for slot in in_slots]
        if getattr(op, "cuts", False):
            in_slots = [
                UNKNOWN if slot >= 0 and rule is None else slot
                for slot, rule in zip(in_slots, op.vjp, strict=True)
            ]
        for slot in several:
            ways[slot].append((in_slots, None))
    pending: list[tuple[int, Link | None]] = [(slot, None) for slot in results]
    seen: set[int] = set()  # on a path with a derivative
    lost: dict[int, Link] = {}
    while pending:
        slot, nearest = pending.pop()
        if slot == UNKNOWN or slot in (seen if nearest is None else lost):
            continue
        if nearest is None:
            seen.add(slot)
        else:
            lost[slot] = nearest
        for in_slots, way in ways.get(slot, ()):
            pending += [(s, way or nearest) for s in in_slots]
    return lost
