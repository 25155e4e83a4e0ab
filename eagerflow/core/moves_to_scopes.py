"""Moves of operands into the open device scope, which `bind` makes before it applies an op.

A move is the op ``transfer``, bound as all others; tapes and traces see it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, ref

from eagerflow import settings
from eagerflow.core import interpreter
from eagerflow.core.infer import describe
from eagerflow.core.interpreter import (
    BASE,
    AbstractDifferentiator,
    AbstractInterpreter,
    AbstractTracer,
    stack,
)
from eagerflow.core.op import Op, declare
from eagerflow.core.tensor import AbstractArray, Tensor, type_of
from eagerflow.core.to_tensor import check_holds
from eagerflow.errors import DeviceError, MoveWarning
from eagerflow.hardware import Device, Lane, as_device, current_device, home_of
from eagerflow.hardware.device_rules import common_device
from eagerflow.hardware.device_scopes import (
    DeviceScope,
    OpenScope,
    all_open,
    is_home,
    latest,
    open_scope,
    runs_at,
)
from eagerflow.source import Source, capture, warn
from eagerflow.types import LIST

_transfer: Final = declare("transfer")


# --- where ops run ------------------------------------------------------------------------------


def move_inputs(op: Op, inputs: tuple[Tensor, ...], attrs: dict[str, Any]) -> tuple[Tensor, ...]:
    """The inputs of an op, moved to the device where it runs in this thread's open scope.

    Args:
        op: the op.
        inputs: its inputs.
        attrs: its attributes.

    Raises:
        DeviceError: an input has to be moved, and ``ef.config(moves="error")`` refuses that.
    """
    here = latest()  # `open_scope` written out: ops in a scope of a generator pay for this
    here = None if here is None else here.innermost()
    if here is None:
        return inputs
    scope = here.scope
    if scope is None or not inputs:
        return inputs
    # the device of inputs that need no move, for most ops; None if there is none
    usual: Device | None = scope.usual
    if op.devices is not common_device:
        usual = getattr(attrs.get("resource"), "device", None)
    for x in inputs:
        if x._lane.device is not usual:
            break
    else:
        return inputs
    home = _home(scope, op, inputs, attrs)
    if home is None:
        return inputs
    return tuple([
        x if x._lane.device is home else _moved(here, x, home, op, inputs, attrs) for x in inputs
    ])  # fmt: skip


def _home(
    scope: DeviceScope, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]
) -> Device | None:
    """The device of an op in a scope; None if it runs where its inputs are."""
    if op.moves:
        return None
    devices = [x._lane.device for x in inputs]
    if op.devices is not common_device:
        where = op.devices(*[None] * len(inputs), **attrs)
        if isinstance(where, tuple):  # depends on the inputs, which are moved only if apart
            return None if devices.count(devices[0]) == len(devices) else scope.home(devices)
        if where is not None:  # the device of its state
            home: Device = where
            return home
    for x in inputs:
        if x._lane.dtype is LIST:  # a list of tensors is not moved, as state is not
            return x._lane.device
    return scope.home(devices)


def lane_here(lane: Lane) -> Lane:
    """The lane of a number beside an operand of ``lane``, on the device where the op runs."""
    if is_home(lane.device):
        return lane
    other = home_of(lane.device).lanes[lane.dtype]
    return other.twin if lane.symbolic else other


def may_move() -> bool:
    """Whether a scope is open in which operands move, so that results may be elsewhere."""
    here = open_scope() if stack.scoped else None
    return here is not None and here.scope is not None and settings.current().moves != "error"


def device_of(*arrays: Any) -> Device | None:
    """The device of an op with these arguments; None without a tensor and an open scope.

    Args:
        arrays: arguments, of which tensors and variables count.
    """
    devices = [x.device for x in arrays if isinstance(x, AbstractArray)]
    home = all_open.home
    if stack.scoped and not (devices and all(one is home for one in devices)):
        here = open_scope()
        if here is not None and here.scope is not None:
            return here.scope.home(devices)
    return devices[0] if devices else None


def device_for(*arrays: Any) -> Device:
    """As `device_of`, but the current device instead of None."""
    return device_of(*arrays) or current_device()


def to_home(x: Tensor, device: Device) -> Tensor:
    """A tensor, moved to ``device`` if a scope is open; else as it is."""
    if x._lane.device is device or not stack.scoped:
        return x
    here = open_scope()
    if here is None:
        return x
    return _moved(here, x, device, _transfer, (x,), {})


def gathered(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors, moved to where an op of all of them runs if a scope is open; else as they are."""
    home = device_of(*tensors)
    return [x if home is None else to_home(x, home) for x in tensors]


_P = ParamSpec("_P")
_R = TypeVar("_R")


def device_wins(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a public function so that its argument ``device`` wins over an open scope."""

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not stack.scoped or kwargs.get("device") is None:
            return function(*args, **kwargs)
        with runs_at(as_device(kwargs["device"])) or nullcontext():
            return function(*args, **kwargs)

    return call


# --- moving -------------------------------------------------------------------------------------

#: A move, kept as long as its scope is open and the handle that was moved lives: a weak reference
#: to the handle, the data that it held, the moved tensor, and the interpreter that saw the move.
Moved = tuple[ref[Tensor], Any, Tensor, ref[AbstractInterpreter]]


def _moved(
    here: OpenScope, x: Tensor, home: Device, op: Op, inputs: Sequence[Tensor],
    attrs: dict[str, Any],
) -> Tensor:  # fmt: skip
    """``x`` on ``home``, moved for ``op`` unless it was moved before in this scope."""
    key = (id(x), home.name)
    top = interpreter.current()
    earlier = _moved_before(here, key, x, home, top)
    if earlier is not None:
        return earlier
    loop = _loop_around(here, x, top) if here.part is not None else None
    if loop is not None:
        before, around = loop
        with interpreter.use(around):
            return _moved(before, x, home, op, inputs, attrs)
    if settings.current().moves == "error":
        raise _refusal(here, x, home, op, inputs, attrs)
    check_holds(home, x._lane.dtype)
    _tell_of_read(x, home)
    out: Tensor = top.bind(_transfer, (x,), {"device": home, "source": x._lane.device})
    moved = here.moved

    def drop(_: object) -> None:
        moved.pop(key, None)

    moved[key] = (ref(x, drop), x._data, out, ref(top))
    return out


def _moved_before(
    here: OpenScope, key: Any, x: Tensor, home: Device, top: AbstractInterpreter
) -> Tensor | None:
    """The tensor that ``x`` was moved to in this scope, or in an enclosing one."""
    one: OpenScope | None = here
    while one is not None:
        moved: Moved | None = one.moved.get(key)
        if moved is not None:
            handle, data, out, seen = moved
            if (
                handle() is x and data is x._data and out._lane.device is home
                and seen() is top and _is_known(x, out, top)
            ):  # fmt: skip
                return out
        if one.part is not None:  # a subgraph may use moves of the enclosing trace
            top = one.part
        one = one.outer
    return None


def _is_known(x: Tensor, out: Tensor, top: AbstractInterpreter) -> bool:
    """Whether all differentiators that follow ``x`` have seen the move to ``out``."""
    while top is not BASE:
        if isinstance(top, AbstractDifferentiator) and top.follows(x) is not top.follows(out):
            return False
        top = top.below
    return True


def _loop_around(
    here: OpenScope, x: Tensor, top: AbstractInterpreter
) -> tuple[OpenScope, AbstractInterpreter] | None:
    """The scope and interpreter around the outermost traced loop in which ``x`` is invariant.

    A move in a branch of the body is hoisted as well: if the branch never runs, that costs one
    needless move; a move in the branch would cost one for each iteration.
    """
    around = None
    while here.part is not None and here.outer is not None:
        if not isinstance(top, AbstractTracer) or top.owns(x):
            break
        if top.repeats:
            around = here.outer, here.part
        here, top = here.outer, here.part
    return around


def _refusal(
    here: OpenScope, x: Tensor, home: Device, op: Op, inputs: Sequence[Tensor],
    attrs: dict[str, Any],
) -> DeviceError:  # fmt: skip
    whole = "a move" if op is _transfer else op.name
    line = "" if here.opened is None else f" at {Source(*here.opened)}"
    specs = [type_of(one) for one in inputs]
    return DeviceError(
        f'{whole}: an operand is not on {home}, and ef.config(moves="error") refuses to move it',
        given=describe(op, [s.type for s in specs], attrs, [s.device for s in specs]),
        expected=f"all on {home}, by the scope {here.scope}{line}",
        hint=f"move it explicitly: x.to({str(home)!r}), from {x.device}",
    )


# --- variables that cross -----------------------------------------------------------------------

#: the variables of the values that were read in scopes, by the identity of the handle
_reads: Final[dict[int, tuple[ref[Tensor], Any]]] = {}
#: for each variable the number of moves of its value, by line; None once a warning was given
_crossings: Final[WeakKeyDictionary[Any, Counter[Source | None] | None]] = WeakKeyDictionary()
_NEVER: Final[Counter[Source | None]] = Counter()
#: crossings of one line that may belong to a single step: an op has two operands
_TOLD_AFTER: Final = 2


def note_read(x: Tensor, state: Any) -> None:
    """Note that ``x`` is the value of a variable on another device, in case it is moved.

    Args:
        x: the value.
        state: the resource of the variable.
    """
    key = id(x)
    _reads[key] = (ref(x, _forget(key)), state)


def _forget(key: int) -> Callable[[object], None]:
    return lambda _: (_reads.pop(key, None), None)[1]


def _tell_of_read(x: Tensor, home: Device) -> None:
    """Warn once per variable that crosses in each step: in a trace, or in a repeated line."""
    handle, state = _reads.get(id(x), (None, None))
    if handle is None or handle() is not x:
        return
    counts = _crossings.setdefault(state, Counter())
    if counts is None:
        return
    source = capture(2)
    counts[source] += 1
    if counts[source] <= _TOLD_AFTER and not x._lane.symbolic:
        return
    size = int(type_of(x).type.nbytes)
    tell_of_crossing({state: size}, home, f"make it on {home}, or use it under ef.colocate(...)")


def tell_of_crossing(sizes: Mapping[Any, int], home: object, remedy: str) -> None:
    """Warn of variables that cross in each step, unless a warning was given for all of them.

    Variables of a task are meant to be read by other tasks.

    Args:
        sizes: the bytes of each variable, by its resource.
        home: the device on which they are read.
        remedy: the advice.
    """
    own = [state for state in sizes if state.device.task is None]
    new = [state for state in own if _crossings.get(state, _NEVER) is not None]
    if not new:
        return
    _crossings.update(dict.fromkeys(new))
    more = f" and {len(new) - 1} more variable{'s' * (len(new) > 2)}" if len(new) > 1 else ""
    total = sum(sizes[state] for state in new)
    made = getattr(new[0], "made", None) if new[0].name is None else None
    which = f"{new[0]!r}" + ("" if made is None else f", made at {made},")
    warn(
        f"{which}{more} {'are' if more else 'is'} read on {home} in every step: "
        f"{total:,} bytes cross each time; {remedy}",
        MoveWarning,
    )


def _refuse(old: settings.Settings, new: settings.Settings) -> None:
    stack.refusing = new.moves == "error"


settings.on_change(_refuse)
stack.move = move_inputs
