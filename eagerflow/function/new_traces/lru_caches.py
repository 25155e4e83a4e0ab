"""Calls of functions with a cache (`functools.lru_cache`) in a trace.

The calls run eagerly, outside of the trace, so that the cache holds values. The guard calls the
functions again, as eager code does at each call, and compares the results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from eagerflow.autograph.conversion.convert import wrappers
from eagerflow.autograph.tracking.blocks import reach
from eagerflow.capture.access_paths import AccessPath, Root
from eagerflow.capture.changes import OutsideChange
from eagerflow.capture.equality import ATOMS
from eagerflow.capture.guards.guard_choice import collect
from eagerflow.capture.library_code import CACHED
from eagerflow.capture.reads import Read
from eagerflow.capture.snapshot import is_memory
from eagerflow.core import tree
from eagerflow.core.abstract_symbols import AbstractNumber
from eagerflow.core.interpreter import BASE, use
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.dims import Dim
from eagerflow.errors import TraceError
from eagerflow.source import capture
from eagerflow.tracing.tracer import current_tracer

if TYPE_CHECKING:
    from eagerflow.function.new_traces.outside_state import Outside


def _called_outside(function: Any) -> Callable[..., Any]:
    """The wrapper that a trace calls in place of a function with a cache."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tracer = current_tracer()
        outside = None if tracer is None else tracer.whole.outside
        if outside is None:
            return function(*args, **kwargs)
        args, kwargs = tuple(map(_outside, args)), {k: _outside(v) for k, v in kwargs.items()}
        return _call(outside, function, args, kwargs)

    return call


wrappers[CACHED] = _called_outside


def _outside(argument: Any) -> Any:
    """An argument without values of the trace; the same object if it contains none."""
    leaves, treedef = tree.flatten(argument, whole=True)
    known = list(map(_known, leaves))
    same = all(a is b for a, b in zip(leaves, known, strict=True))
    return argument if same else tree.unflatten(treedef, known)


def _known(x: Any) -> Any:
    """A leaf of an argument as a value: numbers and sizes become static."""
    if issubclass(type(x), AbstractNumber):
        return x.ask("the call of a function with a cache")
    if type(x) is Dim:
        return int(x)
    if type(x) is Tensor and x._lane.symbolic:
        raise TraceError(
            "a function with a cache gets a tensor of the trace, whose value only the graph knows",
            given=str(x.type),
            hint="call the function without its cache, f.__wrapped__(x), or compute its result "
            "outside and pass it as an argument",
        )
    return x


def _call(outside: Outside, function: Any, args: Any, kwargs: Any) -> Any:
    name = getattr(function, "__name__", "a function with a cache")
    before = list(outside.changes())
    read = _changed_before(outside, before, function)
    if read is not None:
        raise _refused(name, f"reads state that the traced function has changed: {read}")
    with outside.suspended(), use(BASE):
        state = list(_state(outside))
        value = function(*args, **kwargs)
        new = [f"{known.path.described} is set" for known in state if not known.is_there()]
    new += {str(change) for change in outside.changes()} - {str(change) for change in before}
    if new:
        raise _refused(name, f"changes state that the traced function uses: {new[0]}")
    key = (id(function), args, tuple(kwargs.items()))
    holds = _kind(value) == "identity" and not isinstance(value, AbstractArray)
    if holds:
        reach(value, f"{name}()")
    if key not in outside.called:
        outside.called.add(key)
        if holds:
            outside.look_into(value, f"{name}()")
        # a list, of which each call makes a new tuple: with the same tuple a cache would return
        # its old result, although the items may have other hashes by now
        again = ([*args], kwargs)
        path = AccessPath(Root(function, name), "call", again, f"{name}()", fixed=True)
        outside.rely(Read(path, _kind(value), value))
    return value


class _Known(NamedTuple):
    """A value outside before the call, and of a tensor its data, which an update replaces."""

    path: AccessPath
    value: Any
    data: Any

    def is_there(self) -> bool:
        """Whether the path leads to the same value, and the tensor has the same data."""
        now = self.path.get()
        if type(now) in ATOMS and type(now) is type(self.value) and now == self.value:
            return True
        return now is self.value and _data(now) is self.data


def _state(outside: Outside) -> Iterator[_Known]:
    """What the trace reads from outside, but for results of such calls.

    The call may set it. The code of the call is no part of the trace, so that what it sets counts
    as a change by another thread where states are compared.
    """
    for read in outside.reads.reads:
        path = read.path
        if read.kind in ("tensor", "number", "value", "identity") and not _is_called(path):
            value = path.get()
            yield _Known(path, value, _data(value))


def _data(value: Any) -> Any:
    return value._data if type(value) is Tensor else None


def _is_called(path: AccessPath | Root) -> bool:
    """Whether a path goes through the result of a call."""
    return isinstance(path, AccessPath) and (path.how == "call" or _is_called(path.parent))


def _kind(value: Any) -> str:
    """The kind of guard for a result; a tensor is an input."""
    if type(value) is Tensor:
        return "tensor"
    if type(value) in ATOMS:
        return "value"
    return "content" if is_memory(value) else "identity"


def _changed_before(outside: Outside, changes: list[OutsideChange], function: Any) -> Any:
    """A change of state that a function reads, or the path of an updated tensor; None without."""
    updated = outside.tracer.updated
    if not changes and not updated:
        return None
    reads = collect(function.__wrapped__)
    for read in reads.tensors:
        if id(read.value) in updated:
            return read.path
    holders = {id(one.value) for one in (*reads.containers, *reads.objects)}
    places = {
        r.path.location().identity
        for r in reads.reads
        if not r.path.fixed and r.path.how != "class"
    }
    for change in changes:
        if change.kind in ("append", "fill", "memory"):
            if id(change.path.get()) in holders:
                return change
        elif isinstance(change.path, AccessPath) and change.path.location().identity in places:
            return change
    return None


def _refused(name: str, why: str) -> TraceError:
    return TraceError(
        f"{name}() has a cache, is called in a trace, and {why}",
        given="a function that runs outside of the trace, so that its cache holds values",
        hint=f"call {name}() before the traced function and pass it the result, or call it without "
        f"its cache: {name}.__wrapped__()",
        source=capture(),
    )
