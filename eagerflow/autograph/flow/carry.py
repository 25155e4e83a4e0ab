"""`Loop`: loops whose number of iterations only the graph knows, and their loop-carried values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from types import FunctionType
from typing import Any, Final, NoReturn, TypeVar, final

from eagerflow.autograph.conversion.source_code import line_text
from eagerflow.autograph.tracking.blocks import (
    Again,
    Found,
    HeldTensor,
    TracedBlock,
    UserCode,
    attempt,
    held,
    is_reached,
    note_read,
    tracer_here,
)
from eagerflow.autograph.tracking.unbound import forget_name
from eagerflow.autograph.values.in_place import is_from_outside, is_pinned, is_shared, pin_choice
from eagerflow.autograph.values.lists import Appended, NeedsArray, grow, is_outside, one_each
from eagerflow.autograph.values.value_kinds import are_alike, kind_text, zeros_as
from eagerflow.capture.access_paths import GONE, Location
from eagerflow.capture.snapshot import cells_of
from eagerflow.control.loops import scan, while_loop
from eagerflow.control.subgraphs import own_handles
from eagerflow.core import interpreter, tree
from eagerflow.core.interpreter import BASE
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.dims import Dim
from eagerflow.errors import TraceError
from eagerflow.ops.state import callbacks
from eagerflow.tracing.numpy_arrays import TracedArray

_Result = TypeVar("_Result")

#: maximum number of times that a part is traced until its effects on Python are known
_TRIALS: Final = 8

#: a name, a line that binds it, whether it is read later or in the next iteration, and whether all
#: bindings are augmented assignments (``+=``)
Names = Sequence[tuple[str, int, bool, bool]]


def until_known(
    what: str, functions: Sequence[Callable[..., Any]], trace: Callable[[], _Result]
) -> _Result:
    """Trace a branch or a loop until its effects on Python are known.

    Args:
        what: the construct, for messages.
        functions: the user's code in it.
        trace: traces the construct; raises `Again` or `NeedsArray` when it finds a new effect.
    """
    grown: list[tuple[Location, list[Any]]] = []  # the lists replaced by stand-ins meanwhile
    try:
        for _ in range(_TRIALS):
            try:
                return trace()
            except Again:
                continue
            except NeedsArray as need:
                grown += need.satisfied(functions)
        raise TraceError(f"{what} is traced to another graph each time")
    except BaseException:
        for location, owner in grown:
            location.set(owner)
        raise


@final
@dataclass(slots=True, eq=False)
class _Carried:
    """A location that iterations set.

    Attributes:
        location: the location.
        in_place: whether the tensor in it is updated in place.
        text: its name in the carry; empty if it is not loop-carried.
        start: its value before the first iteration.
        alone: whether nothing else refers to that value.
        like: the value after an iteration, for a name not bound before; else GONE.
        alias: a tensor that an iteration stores in it and that other handles may share.
        left: whether an iteration may leave it unbound.
    """

    location: Location
    in_place: bool
    text: str = ""
    start: Any = GONE
    alone: bool = False
    like: Any = GONE
    alias: Tensor | None = None
    left: bool = False


@final
class Loop:
    """A loop whose number of iterations only the graph knows.

    Args:
        functions: the user's code in the loop.
        body: its body.
        names: the names that it binds.
        known: whether at least one iteration is certain.
        size: the symbolic size of the axis that it iterates over, if any.
    """

    def __init__(
        self, functions: Sequence[Callable[..., Any]], body: FunctionType, names: Names,
        *, known: bool, size: Dim | None = None,
    ) -> None:  # fmt: skip
        self._functions = functions
        self._code = body.__code__
        self._dead = [name for name, _, live, _ in names if not live]
        self._known = known
        self._size = size
        self._locations: dict[Any, _Carried] = {}
        self._lists: dict[Any, tuple[list[Any], str]] = {}  # the lists that iterations append to
        self._over: Sequence[Tensor] = ()
        self._open = False  # whether the number of iterations is unknown
        self._stand_ins: dict[int, Any] = {}
        cells = cells_of(*functions)
        self._lines = {name: line for name, line, _, _ in names}
        for name, _, live, augmented in names:
            if live and name in cells:
                self._add(Location("cell", cells[name], name, name), augmented)

    def _add(self, location: Location, in_place: bool) -> None:
        note_read(location)
        in_place = location.kind == "handle" or (in_place and type(location.get()) is Tensor)
        self._locations[location.identity] = _Carried(location, in_place)

    def run(
        self, goes: Callable[[Any], Any], iteration: Callable[..., dict[str, Any]],
        extra: dict[str, Any], *, endless: bool = False,
    ) -> None:  # fmt: skip
        """Trace the loop as a `while_loop`, and set the locations that it sets.

        Args:
            goes: whether there is another iteration, given the carry.
            iteration: runs an iteration, given the carry; returns the next carry without the
                locations.
            extra: the initial carry without the locations.
            endless: whether only an error ends it.
        """

        def make(start: dict[str, Any], step: Callable[..., Any]) -> dict[str, Any]:
            body = UserCode(self._code, lambda carry: step(carry)[0])
            last: dict[str, Any] = while_loop(UserCode(self._code, goes), body, start)
            if endless:  # the loop has to run, although no result is needed
                callbacks.check(_unreachable, last)
            return last

        self._open = True
        self._trace(make, iteration, extra)

    def scan(
        self, iteration: Callable[..., dict[str, Any]], extra: dict[str, Any], rows: list[Tensor],
        length: Any, over: Sequence[Tensor] = (),
    ) -> None:  # fmt: skip
        """Trace the loop as a `scan`, and set the locations that it sets.

        Args:
            iteration: as for `run`, given the rows of the iteration as well.
            extra: the initial carry without the locations.
            rows: the tensors of which each iteration gets a row.
            length: the number of iterations.
            over: the tensors from which the rows are taken, which no iteration may update.
        """
        self._over = over
        stacked: list[Any] = []

        def make(start: dict[str, Any], step: Callable[..., Any]) -> dict[str, Any]:
            last: dict[str, Any]
            last, stacked[:] = scan(UserCode(self._code, step), start, rows, length=length)
            return last

        self._trace(make, iteration, extra)
        for (owner, text), parts in zip(self._lists.values(), stacked, strict=True):
            # Python's own lists outside get their items in each run, so the size becomes static
            if type(length) is int or is_outside(owner):
                owner += [tree.map(itemgetter(i), p) for i in range(length) for p in parts]
                continue
            grown = one_each(parts, text)
            like = grown.type.like(shape=grown.shape[1:])
            if is_reached(owner):
                raise NeedsArray(owner, text, like)
            grow(self._functions, owner, like, grown)

    def _trace(
        self, make: Callable[..., dict[str, Any]], iteration: Callable[..., dict[str, Any]],
        extra: dict[str, Any],
    ) -> None:  # fmt: skip
        def trace() -> None:
            start = self._begin(extra)
            try:
                with attempt():
                    result = make(start, partial(self._iteration, iteration))
            except NeedsArray as need:
                self._lists.pop(("list", id(need.owner), None), None)
                raise
            self._leave(result)

        until_known("a loop on tensors", self._functions, trace)

    def _begin(self, extra: dict[str, Any]) -> dict[str, Any]:
        """The carry before the first iteration.

        A location is loop-carried if it has a value, or if an iteration determines its type.
        """
        carry = dict(extra)
        for one in self._locations.values():
            one.text, one.start = "", GONE if one.left else one.location.get()
            if one.start is GONE and (one.left or one.like is GONE):
                continue
            text = one.location.text.removeprefix("@")
            one.text = f"{text}#{len(carry)}" if text in carry or not text else text
            # two known references: of the location and of ``start``
            one.alone = not is_shared([one.start], 2)
            carry[one.text] = own_handles(zeros_as(one.like) if one.start is GONE else one.start)
        return carry

    @property
    def _carried(self) -> list[_Carried]:
        """The loop-carried locations."""
        return [one for one in self._locations.values() if one.text]

    def _iteration(
        self, iteration: Callable[..., dict[str, Any]], carry: dict[str, Any], *rows: Any
    ) -> tuple[dict[str, Any], list[list[Any]]]:  # fmt: skip
        """One iteration: the next carry, and the values that it appends to each list."""
        block = TracedBlock(self._functions, self._dead)
        saved: list[tuple[Tensor, Any, Any, Any]] = []
        ends: dict[_Carried, Any] = {}
        holds: dict[_Carried, Any] = {}  # the tensors that this iteration may update in place
        stood: list[tuple[Location, Any]] = []  # locations with stand-ins, and their lists
        taken: list[list[Any]] = []

        def run() -> dict[str, Any]:
            lists = [Appended(owner, text) for owner, text in self._lists.values()]
            for stand_in in lists:
                for location in block.snapshot.holders(stand_in.owner):
                    stood.append((location, stand_in.owner))
                    location.set(stand_in)
            holds.update((c, self._put(c, carry[c.text], saved)) for c in self._carried)
            extra = iteration(carry, *rows)
            for one in self._locations.values():
                ends[one] = one.location.get()
                self._note_alias(one, ends[one], holds)
                if one in holds:
                    self._check_updates(one, carry[one.text], holds[one], ends[one])
            ends.update({one: own_handles(value) for one, value in ends.items()})
            taken[:] = [own_handles(one.taken()) for one in lists]
            self._stand_ins = {id(one): one.owner for one in lists}
            return extra

        try:
            result, _, changes = block.run(run)
        finally:
            for location, owner in stood:
                location.set(owner)
            for own in holds.values():
                held.pop(id(own), None)
            for handle, data, lane, mark in saved:
                handle._data, handle._lane, handle._mark = data, lane, mark
        self._learn(changes, ends)
        result.update((one.text, ends[one]) for one in self._carried)
        return result, taken

    def _note_alias(self, one: _Carried, end: Any, holds: dict[_Carried, Any]) -> None:
        """Note that an iteration stores a tensor that may be from outside the loop."""
        if is_pinned(end) or (
            is_from_outside(end) and not any(end is own for own in holds.values())
        ):
            one.alias = end

    def _put(self, one: _Carried, value: Any, saved: list[Any]) -> Any:
        """Store a loop-carried value; return the tensor that may be updated in place."""
        location = one.location
        if one.in_place:
            handle = location.get()
            saved.append((handle, handle._data, handle._lane, handle._mark))
            BASE.rebind(handle, value)
            return handle
        if one.like is not GONE:
            return None  # each iteration binds it anew, and does not read it before
        own = _arrays_as(one.start, own_handles(value))
        location.set(own)
        if type(own) is not Tensor:
            return None
        held[id(own)] = HeldTensor(own, one.alone)
        return own

    def _check_updates(self, one: _Carried, before: Any, tensor: Any, now: Any) -> None:
        """Find out whether iterations update a tensor in place, or rebind its name."""
        if tensor is None:
            return
        if one.in_place:
            if now is not tensor:
                one.in_place = False
                raise Again
        elif tensor._data is not before._data:
            if type(one.start) is not Tensor:
                return  # the first iteration made it from a number
            if now is not tensor and one.alone:
                return  # no other handle sees the updated tensor
            if now is tensor:
                one.in_place = True
                raise Again
            name = one.location.text
            raise TraceError(
                f"a loop on tensors updates {name} in place and binds the name to another tensor",
                given=self._line_of(one.location),
                hint=f"write {name} = {name} + … in the place of {name} += …",
            )

    def _learn(self, changes: Found, ends: dict[_Carried, Any]) -> None:
        """Raise `Again` if the iteration had effects that were not known before."""
        self._check_rows(changes)
        known = self._known_so_far
        for key, (location, value, _) in changes.items():
            if location.kind == "list":
                if self._open:
                    raise NeedsArray(location.owner, location.text, value[0])
                self._lists[key] = (location.owner, location.text)
            elif id(value) not in self._stand_ins and key not in self._locations:
                self._add(location, in_place=False)
        for one, value in ends.items():
            if value is GONE:
                one.left = True
            elif not one.text and not one.left:
                one.like = value
        if self._known_so_far != known:
            raise Again
        for one in self._carried:
            if one.left:
                self._unbinds(one.location)
            tensors = type(one.start) is type(ends[one]) is Tensor
            if not tensors and one.like is GONE and not are_alike(one.start, ends[one]):
                self._changes_kind(one, ends[one])

    @property
    def _known_so_far(self) -> tuple[int, ...]:
        """Counts that grow when an iteration has effects that were not known before."""
        every = self._locations.values()
        likes, lefts = [c.like is not GONE for c in every], [c.left and not c.text for c in every]
        return len(self._lists), len(every), sum(likes), sum(lefts)

    def _changes_kind(self, one: _Carried, value: Any) -> NoReturn:
        location, code = one.location, self._code
        raise TraceError(
            f"{location.text} changes its structure or type in a loop on tensors",
            given=f"{kind_text(one.start)} before {line_text(code, code.co_firstlineno)}\n"
            f"    and {kind_text(value)} after {self._line_of(location)}",
            hint="start with a value of the same structure and type, such as ef.zeros(...)",
        )

    def _check_rows(self, changes: Found) -> None:
        """Refuse an iteration that updates in place the tensor that the loop iterates over."""
        updated = [location.owner for location, *_ in changes.values() if location.kind == "handle"]
        updated += [one.start for one in self._carried if one.in_place]
        if any(x is row for x in updated for row in self._over):
            raise TraceError(
                "a loop on tensors updates in place the tensor that it iterates over",
                given=line_text(self._code, self._code.co_firstlineno),
                expected="rows that the loop does not change",
                hint="iterate over a range: `for i in range(xs.shape[0])`, and read xs[i]",
            )

    def _unbinds(self, location: Location) -> NoReturn:
        raise TraceError(
            f"an iteration of a loop on tensors leaves {location.text} unbound",
            given=self._line_of(location),
            hint="bind it on every path through the iteration",
        )

    def _leave(self, result: dict[str, Any]) -> None:
        if not self._known:
            for one in self._carried:
                if one.like is GONE and not one.in_place:
                    self._check_device(one, result[one.text])
        for one in self._carried:
            location, value = one.location, result[one.text]
            if one.in_place:
                interpreter.current().rebind(location.get(), value)
            elif one.like is not GONE and not location.key.startswith("@") and self._may_skip():
                forget_name(tracer_here(), location, self._maybe_unbound(location))
            else:
                self._pin(one, value)
                location.set(_arrays_as(one.start if one.like is GONE else one.like, value))

    def _may_skip(self) -> bool:
        """Whether there may be no iteration; for an axis its size decides, and becomes static."""
        if not self._known and self._size is not None:
            self._known = self._size > 0
        return not self._known

    def _check_device(self, one: _Carried, value: Any) -> None:
        """Refuse a loop that leaves a tensor on another device only if there is an iteration.

        In a graph the tensor is on that device from the beginning of the loop. Eager code without
        an iteration leaves it where it was.
        """
        for before, after in zip(tree.leaves(one.start), tree.leaves(value), strict=True):
            if type(before) is not Tensor or before.device is after.device:
                continue
            name, code = one.location.text, self._code
            alone = type(one.start) is Tensor
            moved = f"{name} = {name}" if alone else f"each tensor x in {name}: x"
            raise TraceError(
                f"an iteration of a loop on tensors leaves {name} on another device",
                given=f"{type_of(before)} before {line_text(code, code.co_firstlineno)}\n"
                f"    and {type_of(after)} after {self._line_of(one.location)}",
                expected="the same device with and without an iteration",
                hint=f"move it before the loop: {moved}.to('{after.device}')",
            )

    def _pin(self, one: _Carried, value: Any) -> None:
        """Refuse updates in place of a result that is the initial tensor after no iteration."""
        if type(value) is not Tensor:
            return
        old = [] if one.alias is None else [one.alias]
        box = [one.start]
        # two known references: of the location and of ``start``
        if not self._known and is_shared(box, 2):
            old += box
        if old:
            location = one.location
            pin_choice(location, old, value, "a loop on tensors", self._line_of(location))

    def _line_of(self, location: Location) -> str:
        """The line that binds the name of a location, or that of the loop, for messages."""
        return line_text(self._code, self._lines.get(location.key, self._code.co_firstlineno))

    def _maybe_unbound(self, location: Location) -> TraceError:
        return TraceError(
            f"{location.text} is bound only in a loop that may have no iteration",
            given=self._line_of(location),
            hint=f"bind it before the loop: {location.text} = ...",
        )


def _unreachable(carry: Any) -> NoReturn:
    raise AssertionError("code after an endless loop was run")


def _arrays_as(like: Any, values: Any) -> Any:
    """A tree with stand-ins for arrays of NumPy where ``like`` has them, in place of tensors."""
    if not any(type(x) is TracedArray for x in tree.flatten(like, whole=True)[0]):
        return values
    return tree.map(
        lambda x, y: x.like(y) if type(x) is TracedArray else y, like, values, whole=True
    )
