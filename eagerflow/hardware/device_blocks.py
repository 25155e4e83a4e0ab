"""The ``with`` statements that open a device scope: `device` and `colocate`."""

from __future__ import annotations

import sys
from abc import ABC
from inspect import CO_ASYNC_GENERATOR, CO_GENERATOR
from types import FrameType
from typing import Any, Final, final

from eagerflow.errors import DeviceError
from eagerflow.hardware.device_scopes import (
    DeviceScope,
    OpenScope,
    current_device_scope,
    end_since,
    latest,
    name_of,
    open_scope,
    scope_of,
)
from eagerflow.hardware.registry import (
    Device,
    existing,
    find,
    first_cpu,
    known_name,
    scopes_by,
)

#: modules that resume a generator in order to run their caller's code in its block
_RESUMING: Final = frozenset({"contextlib", "_pytest.fixtures"})


def _resumes(frame: FrameType | None) -> bool:
    return frame is not None and frame.f_globals.get("__name__") in _RESUMING


def _generator(frame: FrameType | None) -> FrameType | None:
    """The generator that opens a block, found from the opening frame; None for other code."""
    while frame is not None:
        generates = frame.f_code.co_flags & (CO_GENERATOR | CO_ASYNC_GENERATOR)
        if not _resumes(frame) and not (generates and _resumes(frame.f_back)):
            return frame if generates else None
        frame = frame.f_back
    return None


class AbstractScopeBlock(ABC):
    """A ``with`` statement that opens a scope. It may be entered several times.

    Attributes:
        device: the device on which new tensors are made in it.
    """

    device: Device

    def __init__(self, scope: DeviceScope | None, device: Device, anchor: Any = None) -> None:
        self.device = device
        self._scope = scope
        self._anchor = anchor
        self._open: list[OpenScope] = []

    def __enter__(self) -> Device:
        caller = sys._getframe(1)
        before = latest()
        try:
            self.device.put = caller.f_code, caller.f_lasti
            self._open.append(
                OpenScope(
                    self._scope, frame=_generator(caller), outer=open_scope(), anchor=self._anchor,
                    opened=(caller.f_code, caller.f_lasti),
                )
            )  # fmt: skip
            return self.device
        except BaseException:  # Ctrl-C: the block is not entered
            end_since(before)
            raise

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        left: list[OpenScope] = []
        try:
            self._leave(left, kind)
        except BaseException:  # Ctrl-C while the block is left
            self._leave(left, kind)
            raise

    def _leave(self, left: list[OpenScope], kind: type[BaseException] | None) -> None:
        """End an open scope and note it in ``left``; if called again, end the noted one again."""
        if not left:
            top = latest()
            here = () if top is None else top.chain()
            # this block may be open in several threads and generators
            left.append(next((one for one in here if one in self._open), self._open[-1]))
        if kind is not None and not issubclass(kind, Exception):
            end_since(left[0])
        left[0].end()
        if left[0] in self._open:
            self._open.remove(left[0])


@final
class device(AbstractScopeBlock):
    """Run ops on a device within a ``with`` block: new tensors are made there, operands move there.

    The innermost block wins. Operands are moved once for each block; ``.to()`` and ``device=`` win
    over it, ops on variables and queues run where these are, and an update in place (``x += y``,
    ``x[i] = y``) runs where ``x`` is. Outside of such blocks operands on several devices are an
    error. A traced function that is called in a block is traced for it.

    Args:
        name: a device or its name, such as ``"gpu:1"`` or ``"worker:1/gpu:0"``. Parts left out
            come from the enclosing block if they fit: ``"gpu"`` within ``"gpu:1"`` is gpu:1. With
            a pattern (``"gpu:*"``, ``"worker:*"``) an op runs where its first operand on such a
            device is; ops without such an operand run on the first device of the pattern. None
            suspends the enclosing block.

    Raises:
        DeviceError: no such device.

    >>> with ef.config(cpu_devices=2):
    ...     x = ef.ones(2)
    ...     with ef.device("cpu:1"):
    ...         y = x + 1
    ...     x.device, y.device
    (Device('cpu:0'), Device('cpu:1'))
    """

    def __init__(self, name: Device | AbstractScopeBlock | str | None) -> None:
        if name is None:
            super().__init__(None, first_cpu())
        elif isinstance(name, AbstractScopeBlock):
            super().__init__(name._scope, name.device, name._anchor)
        else:
            scope = _asked(name)
            super().__init__(scope, scope.device)

    def __repr__(self) -> str:
        return f"ef.device({None if self._scope is None else repr(self._scope)!r})"


def _asked(name: Device | str) -> DeviceScope:
    """The scope of a block with that name, merged with the scope in force."""
    around = current_device_scope()
    if isinstance(name, Device):
        return scope_of(name_of(name), name)
    own = known_name(name)
    outer = name_of(first_cpu()) if around is None else around.name
    merged = own.within(outer)
    first = existing(find(merged))
    if not merged.is_pattern:
        return scope_of(name_of(first), first)
    before = None if around is None else around.device  # which stays the choice if it fits
    return scope_of(merged, DeviceScope(merged, first, colocated=False).home([before]))


@final
class colocate(AbstractScopeBlock):
    """Run ops where a value is, within a ``with`` block: a scope for the device of ``x``.

    Args:
        x: a tensor, a variable, a queue, or anything else that has a ``device``.

    Raises:
        DeviceError: ``x`` has no device.

    >>> with ef.config(cpu_devices=2):
    ...     v = ef.Variable([1.0, 2.0], device="cpu:1")
    ...     with ef.colocate(v):
    ...         (ef.ones(2) * v).device
    Device('cpu:1')
    """

    def __init__(self, x: Any) -> None:
        where = getattr(x, "device", None) or getattr(getattr(x, "resource", None), "device", None)
        if not isinstance(where, Device):
            raise DeviceError(
                "colocate: the object is on no device",
                given=repr(x) if isinstance(x, str) else f"an object of type {type(x).__name__}",
                expected="a tensor, a variable, or another object that has a device",
                hint="ef.device(name) names a device" if isinstance(x, str) else None,
            )
        symbolic = getattr(getattr(x, "_lane", None), "symbolic", False)
        anchor = x._data if symbolic else None
        super().__init__(scope_of(name_of(where), where, colocated=True), where, anchor)

    def __repr__(self) -> str:
        return f"ef.colocate(<on {self.device}>)"


def _of_scope(name: object) -> Device | None:
    return name.device if isinstance(name, AbstractScopeBlock) else None


scopes_by(_of_scope)
