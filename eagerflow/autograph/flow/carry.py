"""A loop whose number of iterations only the graph knows: its loop-carried values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
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
from eagerflow.autograph.values.kinds import are_alike, arrays_as, kind_text, zeros_as
from eagerflow.autograph.values.lists import Appended, NeedsArray, grow, is_outside, one_each
from eagerflow.capture.paths import GONE, Location
from eagerflow.capture.reachable import cells_of
from eagerflow.control.loops import scan, while_loop
from eagerflow.control.subgraphs import own_handles
from eagerflow.core import interpreter, tree
from eagerflow.core.interpreter import BASE
from eagerflow.core.tensor import Tensor
from eagerflow.errors import TraceError
from eagerflow.ops.state import callbacks

_Result = TypeVar("_Result")

#: how often a part is traced until its effects on Python are known
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
        trace: traces it; raises `Again` or `NeedsArray` where it has learned of an effect.
    """
    grown: list[tuple[Location, list[Any]]] = []  # the lists that are stood for meanwhile
    try:
        for _ in range(_TRIALS):
            try:
                return trace()
            except Again:
                continue
            except NeedsArray as need:
                grown += need.satisfied(functions)
        raise TraceError(f"{what} does something else each time that it is traced")
    except BaseException:
        for location, owner in grown:
            location.set(owner)
        raise


@final
class Loop:
    """A loop whose number of iterations only the graph knows.

    Args:
        functions: the user's code in it.
        body: its body.
        names: the names that it binds.
        known: whether at least one iteration is certain.
    """

    def __init__(
        self, functions: Sequence[Callable[..., Any]], body: FunctionType, names: Names,
        *, known: bool,
    ) -> None:  # fmt: skip
        self._functions = functions
        self._code = body.__code__
        self._dead = [name for name, _, live, _ in names if not live]
        self._known = known
        self._locations: dict[Any, Location] = {}
        self._in_place: dict[Any, bool] = {}  # whether the tensor in a location is itself updated
        self._like: dict[Any, Any] = {}  # what an iteration gives for a name not bound before
        self._lists: dict[Any, tuple[list[Any], str]] = {}  # the lists that iterations append to
        self._over: Sequence[Tensor] = ()
        self._open = False  # whether the number of iterations is unknown
        self._stand_ins: dict[int, Any] = {}
        self._taken: list[list[Any]] = []
        #: tensors given to locations by an iteration that other handles may share
        self._aliases: dict[Any, Tensor] = {}
        self._left: set[Any] = set()  # names that no iteration binds for certain
        cells = cells_of(*functions)
        self._lines = {name: line for name, line, _, _ in names}
        for name, _, live, augmented in names:
            if live and name in cells:
                self._add(Location("cell", cells[name], name, name), augmented)

    def _add(self, location: Location, in_place: bool) -> None:
        note_read(location)
        self._locations[location.identity] = location
        self._in_place[location.identity] = location.kind == "handle" or (
            in_place and type(location.get()) is Tensor
        )

    def run(
        self, goes: Callable[[Any], Any], iteration: Callable[..., dict[str, Any]],
        extra: dict[str, Any], *, endless: bool = False,
    ) -> None:  # fmt: skip
        """Trace it as a `while_loop`, and set what it sets.

        Args:
            goes: whether there is another iteration, given the carry.
            iteration: runs one, given the carry; returns the next carry without the locations.
            extra: the initial carry without the locations.
            endless: whether only an error ends it.
        """

        def make(start: dict[str, Any], step: Callable[..., Any]) -> dict[str, Any]:
            body = UserCode(self._code, lambda carry: step(carry)[0])
            last: dict[str, Any] = while_loop(UserCode(self._code, goes), body, start)
            if endless:  # it has to run, although no result is needed
                callbacks.check(_unreachable, last)
            return last

        self._open = True
        self._trace(make, iteration, extra)

    def scan(
        self, iteration: Callable[..., dict[str, Any]], extra: dict[str, Any], rows: list[Tensor],
        length: Any, over: Sequence[Tensor] = (),
    ) -> None:  # fmt: skip
        """Trace it as a `scan`, and set what it sets.

        Args:
            iteration: as for `run`, given the rows of the iteration as well.
            extra: the initial carry without the locations.
            rows: the tensors of which each iteration gets a row.
            length: the number of iterations.
            over: the tensors whose rows they are, which no iteration may update.
        """
        self._over = over
        stacked: list[Any] = []

        def make(start: dict[str, Any], step: Callable[..., Any]) -> dict[str, Any]:
            last: dict[str, Any]
            last, stacked[:] = scan(UserCode(self._code, step), start, rows, length=length)
            return last

        self._trace(make, iteration, extra)
        for (owner, text), parts in zip(self._lists.values(), stacked, strict=True):
            # Python's own lists outside get their items in each run: then that size is static
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
            keys = self._keys(extra)
            start = {**extra, **self._begin(keys)}
            try:
                with attempt():
                    result = make(start, partial(self._iteration, keys, iteration))
            except NeedsArray as need:
                self._lists.pop(("list", id(need.owner), None), None)
                raise
            self._leave(result, keys)

        until_known("a loop on tensors", self._functions, trace)

    def _begin(self, keys: dict[Any, str]) -> dict[str, Any]:
        """The carry before the first iteration."""
        self._start = {key: self._locations[key].get() for key in keys}
        # the location and what the loop starts with refer to it
        self._alone = {key: not is_shared([self._start[key]], 2) for key in keys}
        carry = {}
        for key, text in keys.items():
            value = self._start[key]
            like = zeros_as(self._like[key]) if value is GONE else value
            carry[text] = own_handles(like)
        return carry

    def _keys(self, extra: Collection[str]) -> dict[Any, str]:
        """The loop-carried locations: those with a value, or whose type an iteration determines.

        Args:
            extra: what else is loop-carried.
        """
        texts: dict[Any, str] = {}
        for key, location in self._locations.items():
            if key in self._left or (location.get() is GONE and key not in self._like):
                continue
            text = location.text.removeprefix("@")
            taken = text in extra or text in texts.values()
            texts[key] = f"{text}#{len(texts)}" if taken else text
        return texts

    def _iteration(
        self, keys: dict[Any, str], iteration: Callable[..., dict[str, Any]], carry: dict[str, Any],
        *rows: Any,
    ) -> tuple[dict[str, Any], list[list[Any]]]:  # fmt: skip
        """One iteration: the next carry, and the values that it appends to each list."""
        block = TracedBlock(self._functions, self._dead)
        saved: list[tuple[Tensor, Any, Any, Any]] = []
        ends: dict[Any, Any] = {}
        holds: dict[Any, Any] = {}  # the tensors that this iteration may update in place
        stood: list[
            tuple[Location, Any]
        ] = []  # the locations that had a stand-in, with their lists

        def run() -> dict[str, Any]:
            lists = [Appended(owner, text) for owner, text in self._lists.values()]
            for one in lists:
                for location in block.snapshot.holders(one.owner):
                    stood.append((location, one.owner))
                    location.set(one)
            holds.update((key, self._put(key, carry[text], saved)) for key, text in keys.items())
            extra = iteration(carry, *rows)
            for key, location in self._locations.items():
                ends[key] = location.get()
                self._note_alias(key, ends[key], holds)
                if key in holds:
                    self._check_updates(key, carry[keys[key]], holds[key], ends[key])
            ends.update({key: own_handles(value) for key, value in ends.items()})
            self._taken = [own_handles(one.taken()) for one in lists]
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
        self._learn(changes, ends, keys)
        result.update((text, ends[key]) for key, text in keys.items())
        return result, self._taken

    def _note_alias(self, key: Any, end: Any, holds: dict[Any, Any]) -> None:
        """Note that an iteration gives a location a tensor that may be from outside the loop."""
        if is_pinned(end) or (
            is_from_outside(end) and not any(end is own for own in holds.values())
        ):
            self._aliases[key] = end

    def _put(self, key: Any, value: Any, saved: list[Any]) -> Any:
        """Store a loop-carried value; gives the tensor that may be updated in place."""
        location = self._locations[key]
        if self._in_place[key]:
            handle = location.get()
            saved.append((handle, handle._data, handle._lane, handle._mark))
            BASE.rebind(handle, value)
            return handle
        if key in self._like:
            return None  # an iteration binds it, and does not see the binding of the last one
        own = arrays_as(self._start[key], own_handles(value))
        location.set(own)
        if type(own) is not Tensor:
            return None
        held[id(own)] = HeldTensor(own, self._alone[key])
        return own

    def _check_updates(self, key: Any, before: Any, tensor: Any, now: Any) -> None:
        """Find out whether iterations update a tensor in place, or rebind its name."""
        if tensor is None:
            return
        if self._in_place[key]:
            if now is not tensor:
                self._in_place[key] = False
                raise Again
        elif tensor._data is not before._data:
            if type(self._start[key]) is not Tensor:
                return  # the first iteration made it from a number
            if now is not tensor and self._alone[key]:
                return  # no other handle sees the updated tensor
            if now is tensor:
                self._in_place[key] = True
                raise Again
            location = self._locations[key]
            name = location.text
            raise TraceError(
                f"a loop on tensors updates {name} in place and gives the name to another one",
                given=self._line_of(location),
                hint=f"write {name} = {name} + … in the place of {name} += …",
            )

    def _learn(self, changes: Found, ends: dict[Any, Any], keys: dict[Any, str]) -> None:
        """Raise `Again` if the iteration had effects that were not known before."""
        self._check_rows(changes, keys)
        known = self._known_so_far
        for key, (location, value, _) in changes.items():
            if location.kind == "list":
                if self._open:
                    raise NeedsArray(location.owner, location.text, value[0])
                self._lists[key] = (location.owner, location.text)
            elif id(value) not in self._stand_ins and key not in self._locations:
                self._add(location, in_place=False)
        for key, value in ends.items():
            if value is GONE:
                self._left.add(key)
            elif key not in keys and key not in self._left:
                self._like[key] = value
        if self._known_so_far != known:
            raise Again
        for key in keys:
            if key in self._left:
                self._unbinds(key)
            before, after = self._start[key], ends[key]
            tensors = type(before) is type(after) is Tensor
            if not tensors and key not in self._like and not are_alike(before, after):
                self._changes_kind(key, after)

    @property
    def _known_so_far(self) -> tuple[int, ...]:
        """Counts that grow when an iteration has effects that were not known before."""
        unbound = self._left - self._start.keys()
        return len(self._lists), len(self._locations), len(self._like), len(unbound)

    def _changes_kind(self, key: Any, value: Any) -> NoReturn:
        location, code = self._locations[key], self._code
        raise TraceError(
            f"{location.text} becomes something else in a loop on tensors",
            given=f"{kind_text(self._start[key])} before {line_text(code, code.co_firstlineno)}\n"
            f"    and {kind_text(value)} after {self._line_of(location)}",
            hint="start with a value of the same structure and type, such as ef.zeros(...)",
        )

    def _check_rows(self, changes: Found, keys: dict[Any, str]) -> None:
        """Refuse an iteration that updates in place the tensor that the loop iterates over."""
        updated = [location.owner for location, *_ in changes.values() if location.kind == "handle"]
        updated += [self._start[key] for key in keys if self._in_place[key]]
        if any(x is row for x in updated for row in self._over):
            raise TraceError(
                "a loop on tensors updates in place the tensor that it goes over",
                given=line_text(self._code, self._code.co_firstlineno),
                expected="rows that are as they were before the loop",
                hint="go over a range: `for i in range(xs.shape[0])`, and read xs[i]",
            )

    def _unbinds(self, key: Any) -> NoReturn:
        location = self._locations[key]
        raise TraceError(
            f"an iteration of a loop on tensors leaves {location.text} unbound",
            given=self._line_of(location),
            hint="bind it whatever happens in the iteration",
        )

    def _leave(self, result: dict[str, Any], keys: dict[Any, str]) -> None:
        for key, text in keys.items():
            location, value = self._locations[key], result[text]
            if self._in_place[key]:
                interpreter.current().rebind(location.get(), value)
            elif key in self._like and not self._known and not location.key.startswith("@"):
                forget_name(tracer_here(), location, self._maybe_unbound(location))
            else:
                self._pin(location, key, value)
                location.set(arrays_as(self._like.get(key, self._start[key]), value))

    def _pin(self, location: Location, key: Any, value: Any) -> None:
        """Refuse updates in place of a result that is the initial tensor after no iteration."""
        if type(value) is not Tensor:
            return
        old = [self._aliases[key]] if key in self._aliases else []
        box = [self._start[key]]
        # its location and what the loop starts with refer to it
        if not self._known and is_shared(box, 2):
            old += box
        if old:
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
    raise AssertionError("what follows a loop without an end was run")
