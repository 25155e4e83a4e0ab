"""The tape: remembers the ops that depend on watched values, and replays their rules backwards.

Values are told apart by the identity of their data, not of the handle that holds them, so
``x[i] = v`` and ``x += v`` are plain ops here. A record keeps only what its rule reads
(`Op.saved`); in the place of other values the rule gets tensors of a null device, which know
their dtype and shape and nothing else.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Final, final

from eagerflow.core.interpreter import AbstractInterpreter, Composite, use
from eagerflow.core.op import Op, bind, functions, get_op, joint
from eagerflow.core.slices import IndexedSlices
from eagerflow.core.tensor import Tensor, make_tensor
from eagerflow.errors import GradientError
from eagerflow.hardware import Lane, NullArray, as_device
from eagerflow.source import Source, capture

__all__ = ["Cotangent", "Tape", "add_cotangents", "fresh"]

Cotangent = Tensor | IndexedSlices


@final
class _Kept:
    """A value as a record keeps it: its data, or only its type."""

    __slots__ = ("data", "lane")

    def __init__(self, data: Any, lane: Lane) -> None:
        self.data = data
        self.lane = lane

    def tensor(self) -> Tensor:
        return make_tensor(self.data, self.lane)


@final
class Record:
    """One op on the tape.

    Attributes:
        op: the op, or the composite.
        inputs: the inputs as the rule will see them.
        outputs: the outputs, likewise.
        in_slots: the slot of each input, -1 for one that nothing watched flows into.
        out_slots: the slot of each output.
        attrs: the attributes.
        source: the user's line.
        vjp: for a composite, what its `record` returned.
    """

    __slots__ = ("attrs", "in_slots", "inputs", "op", "out_slots", "outputs", "single", "source",
                 "vjp")  # fmt: skip

    op: Op | Composite
    inputs: Sequence[_Kept]
    outputs: Sequence[_Kept]
    in_slots: list[int]
    out_slots: list[int]
    attrs: dict[str, Any]
    source: Source | None
    single: bool
    vjp: Callable[..., Any] | None


def fresh(x: Tensor) -> Tensor:
    """A tensor of the same value with an identity of its own."""
    result: Tensor = bind(get_op("identity"), x)
    return result


@final
class Tape(AbstractInterpreter):
    """Records while it is installed; see `eagerflow.core.interpreter.installed`.

    Args:
        watch_variables: whether reads of trainable variables are watched. A container of
            variables watches just these.
    """

    def __init__(self, watch_variables: bool | Iterable[Any] = False) -> None:
        self.records: list[Record] = []
        self._index: dict[int, tuple[Any, int]] = {}  # id(data) -> (weakref to it, slot)
        self._slots = count()
        self._all_variables = watch_variables is True
        chosen = () if isinstance(watch_variables, bool) else watch_variables
        self._resources = {id(v) for v in chosen}
        #: slots of the reads of each variable, by the identity of its resource
        self.reads: dict[int, list[int]] = {}

    # --- recording ---

    def watch(self, x: Tensor) -> int:
        """Follow the value that ``x`` holds now; gives its slot."""
        slot = self.slot_of(x)
        if slot < 0:
            slot = self._enter(x._data)
        return slot

    def slot_of(self, x: Tensor) -> int:
        """The slot of the value that ``x`` holds, -1 if the tape does not know it."""
        data = x._data
        found = self._index.get(id(data))
        return found[1] if found is not None and found[0]() is data else -1

    def _enter(self, data: Any) -> int:
        slot = next(self._slots)
        self._index[id(data)] = (weakref.ref(data), slot)
        return slot

    def bind(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        result = self.below.bind(op, inputs, attrs)
        index = self._index
        for x in inputs:
            data = x._data
            found = index.get(id(data))
            if found is not None and found[0]() is data:
                return self._record(op, inputs, attrs, result)
        if op.effect == "reads":
            self._record_read(result, attrs["resource"])
        return result

    def _record(
        self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any], result: Any
    ) -> Any:
        single = type(result) is not tuple
        outputs = (result,) if single else result
        record = Record()
        record.op, record.attrs, record.source = op, attrs, capture(3)
        record.in_slots = [self.slot_of(x) for x in inputs]
        inside = [x._data for x in inputs]
        for out in outputs:
            if any(out._data is data for data in inside):  # a kernel gave its input back
                out._data = fresh(out)._data
        record.out_slots = [self._enter(out._data) for out in outputs]
        saved = op.saved
        record.inputs = _keep(inputs, saved in ("inputs", "all"))
        record.outputs = _keep(outputs, saved in ("outputs", "all"))
        record.single, record.vjp = single, None
        self.records.append(record)
        return result

    def _record_read(self, result: Tensor, resource: Any) -> None:
        key = id(resource)
        if key in self._resources or (self._all_variables and resource.trainable):
            # every read is a value of its own, though variables may share data
            result._data = fresh(result)._data
            self.reads.setdefault(key, []).append(self._enter(result._data))

    def call(self, composite: Composite, inputs: Sequence[Tensor]) -> tuple[Any, ...]:
        with use(self.below):
            outputs, extra, vjp = composite.record(*inputs)
            outputs = tuple(fresh(x) for x in outputs)
        record = Record()
        record.op, record.attrs, record.source = composite, {}, capture(2)
        record.inputs = record.outputs = ()
        record.in_slots = [self.slot_of(x) for x in (*inputs, *extra)]
        record.out_slots = [self._enter(x._data) for x in outputs]
        record.single, record.vjp = False, vjp
        record.outputs = _keep(outputs, False)
        self.records.append(record)
        return tuple(outputs)

    # --- replaying ---

    def backward(self, seeds: dict[int, Cotangent]) -> dict[int, Cotangent]:
        """The cotangents of all slots, from those of some; rules run in the current chain.

        Raises:
            GradientError: a cotangent reaches an op that has no derivative.
        """
        cotangents = dict(seeds)
        for record in reversed(self.records):
            arrived = [cotangents.pop(slot, None) for slot in record.out_slots]
            if all(g is None for g in arrived):
                continue
            for slot, g in zip(record.in_slots, _pull(record, arrived), strict=True):
                if slot >= 0 and g is not None:
                    before = cotangents.get(slot)
                    cotangents[slot] = g if before is None else add_cotangents(before, g)
        return cotangents


_null: Final = as_device("null:0")


def _keep(values: Sequence[Tensor], whole: bool) -> list[_Kept]:
    if whole:
        return [_Kept(x._data, x._lane) for x in values]
    return [
        _Kept(NullArray(x._lane.dtype.dtype, x._data.shape), _null.lanes[x._lane.dtype])
        for x in values
    ]


def _pull(record: Record, arrived: Sequence[Cotangent | None]) -> Sequence[Any]:
    """The cotangents of a record's inputs."""
    op = record.op
    if isinstance(op, Composite):
        assert record.vjp is not None
        zeros = [
            functions["zeros"](k.data.shape, dtype=k.lane.dtype) if g is None else dense(g)
            for g, k in zip(arrived, record.outputs, strict=True)
        ]
        result: Sequence[Any] = record.vjp(*zeros)
        return result
    if op.nondifferentiable:
        raise GradientError(f"{op.name} has no derivative", source=record.source)
    inputs = [k.tensor() for k in record.inputs]
    outputs = tuple(k.tensor() for k in record.outputs)
    gs = tuple(None if g is None else dense(g) for g in arrived)
    g, out = (gs[0], outputs[0]) if record.single else (gs, outputs)
    rule = op.vjp
    if isinstance(rule, joint):
        return rule.rule(g, out, *inputs, **record.attrs)  # type: ignore[no-any-return]
    if isinstance(rule, tuple):
        return [
            None if slot < 0 or one is None else one(g, out, *inputs, **record.attrs)
            for slot, one in zip(record.in_slots, rule, strict=True)
        ]
    assert rule is not None
    return [
        None if slot < 0 else rule(i, g, out, *inputs, **record.attrs)
        for i, slot in enumerate(record.in_slots)
    ]


def dense(g: Cotangent) -> Tensor:
    """A cotangent as a tensor."""
    return g.to_dense() if isinstance(g, IndexedSlices) else g


def add_cotangents(a: Cotangent, b: Cotangent) -> Cotangent:
    """The sum of two cotangents; sparse if both are."""
    if isinstance(a, IndexedSlices) and isinstance(b, IndexedSlices):
        values = functions["concat"]([a.values, b.values], axis=0)
        indices = functions["concat"]([a.indices, b.indices], axis=0)
        return IndexedSlices(values, indices, a.shape)
    result: Tensor = functions["add"](dense(a), dense(b))
    return result
