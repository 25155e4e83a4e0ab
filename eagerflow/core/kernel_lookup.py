"""Lookup of the kernel of an op for given dtypes on a device, and explanation of its errors.

`OpCall` is the view that a backend has of the calls that its launcher is for (see
`eagerflow.hardware.contract`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, final

import numpy as np

from eagerflow.atomic_files import advice
from eagerflow.core.infer import describe, infer, infer_specs
from eagerflow.core.op import Op, load_plugins
from eagerflow.core.op_records.kernels_of_users import checked, code_of_user, form_refusing
from eagerflow.error_messages import iteration_note, note_place
from eagerflow.errors import (
    DataDependentError,
    EagerflowError,
    FileError,
    KernelError,
    RecordError,
    SettingError,
    TensorIndexError,
    TensorValueError,
    relocate,
    strip,
)
from eagerflow.events import step_of
from eagerflow.hardware import Device, Lane, as_device, kernel_library, out_of_memory
from eagerflow.running_node import running_node
from eagerflow.source import Source, user_line
from eagerflow.types import BYTES, DTYPES, TensorSpec, TensorType
from eagerflow_kernels import table
from eagerflow_kernels.records import DamagedError

#: functions that convert arrays of float16 to float32, and back
Casts = tuple[Callable[[Any], Any], Callable[[Any], Any]]

_LOW = frozenset(d for d in DTYPES.values() if not d.is_native)
_FLOAT16 = DTYPES["float16"]
#: parts of NumPy's ValueErrors about sizes that no memory could hold
_TOO_LARGE = ("array is too big", "Maximum allowed dimension", "Maximum allowed size")
#: functions of integers that warn
_DIVIDES = (np.floor_divide, np.remainder, np.fmod)


@final
class IssuedCall:
    """The explanation of errors of a kernel that was issued earlier.

    Attributes:
        source: the user's line that issued the kernel.
    """

    __slots__ = ("_explain", "source")

    def __init__(self, explain: Callable[[Exception], Exception], source: Source | None) -> None:
        self._explain = explain
        self.source = source

    def __call__(self, error: Exception) -> Exception:
        return self._explain(error)


@final
class OpCall:
    """Calls of an op with inputs of some lanes on a device.

    Args:
        op: the op.
        lanes: of the inputs; a single lane stands for any number of inputs on it.
        device: the device that it runs on.

    Attributes:
        name: of the op.
        several: whether its kernel returns a tuple.
        on_host: whether its kernel has to run at once, in the calling thread.
        shares: whether results may be views of inputs.
        warns: whether NumPy may warn of numeric errors (overflow, NaN) in the kernel found.
    """

    __slots__ = ("_device", "_lanes", "_op", "name", "on_host", "several", "shares", "warns")

    def __init__(self, op: Op, lanes: list[Lane], device: Device) -> None:
        self._op, self._lanes, self._device = op, lanes, device
        self.name = op.name
        self.several = op.outputs != 1
        self.on_host = op.on_host
        self.shares = op.storage in ("same", "view")
        self.warns = False

    def host_inputs(self, count: int, attrs: dict[str, Any]) -> frozenset[int]:
        """The positions, of ``count`` inputs, that the kernel reads in the memory of the host."""
        return frozenset(i % count for i in self._op.read_on_host(attrs)) if count else frozenset()

    def host_outputs(self) -> frozenset[int]:
        """The positions of the outputs that the kernel makes in the memory of the host."""
        return frozenset(self._op.host_outputs)

    def kernel(self, xp: Any, array_type: type[Any], like: str | None = None) -> Callable[..., Any]:
        """The kernel: a special one of the kind of device, else the portable one.

        Args:
            xp: the array namespace that portable kernels get.
            array_type: the class of the kernel's arrays.
            like: another kind of device, whose special and native kernels are used where the own
                kind has no special kernel.

        Raises:
            KernelError: there is no kernel.
        """
        op, lanes = self._op, self._lanes
        kernel = _found(op, lanes, self._device, xp, like)
        users = code_of_user(kernel)
        self.warns = users is None and _may_warn(op, lanes, kernel)
        dtypes = {lane.dtype for lane in lanes}
        low = op.precision != "exact" and bool(dtypes & _LOW)
        via_float32 = low or (op.precision == "accumulate" and _FLOAT16 in dtypes)
        casts = None
        kinds = {self._device.backend.kind, like or self._device.backend.kind}
        if "cpu" in kinds and array_type is np.ndarray and _has_native(op, kinds, lanes):
            # NumPy's own functions of float16 have other bits than native kernels would have
            half = op.precision == "elementwise" and _FLOAT16 in dtypes
            wide = via_float32 or half
            names = ("float32",) if wide else tuple(lane.dtype.name for lane in lanes)
            native = kernel_library.native_form(op.name, names)
            via_float32 = via_float32 or (half and native is not None)
            if native is not None:
                kernel = native
                self.warns &= op.precision == "exact"  # NumPy does some casts, which may warn
                casts = kernel_library.half_casts() if _FLOAT16 in dtypes else None
        if BYTES in dtypes:
            kernel = _of_bytes(kernel)
        elif via_float32:
            kernel = self._via_float32(kernel, xp, casts)
        if users is None:
            return kernel
        protects = array_type is np.ndarray and op.effect == "pure" and not self.shares
        return checked(self.name, kernel, users, array_type, self._types, protects=protects)

    def outputs(
        self, arrays: Sequence[Any], attrs: dict[str, Any]
    ) -> list[tuple[np.dtype[Any], tuple[int, ...]]]:
        """The dtypes and shapes of the results, by the type rule.

        Raises:
            EagerflowError: the rule refuses the inputs, or sizes depend on the data.
        """
        types = self._types(arrays, attrs)
        return [(t.dtype.dtype, t.shape) for t in (types if isinstance(types, tuple) else (types,))]

    def foreseen(
        self, arrays: Sequence[Any], attrs: dict[str, Any]
    ) -> list[tuple[np.dtype[Any], tuple[int, ...]]] | None:
        """As `outputs`; None if sizes depend on the data."""
        try:
            return self.outputs(arrays, attrs)
        except DataDependentError:
            return None

    def issued(self, arrays: Sequence[Any], attrs: dict[str, Any]) -> IssuedCall:
        """Note that a call is issued here; returns the explanation of its kernel's errors."""
        op, at = self._op, running_node(2)
        frames = (*step_of.frames, *at.frames)
        pairs = zip(arrays, _repeat(self._lanes, len(arrays)), strict=True)
        specs = [_type(a, lane).on(self._device) for a, lane in pairs]
        known = attrs if arrays else {**attrs, "device": self._device}

        def explain_late(error: Exception) -> Exception:
            explained = explain(op, specs, known, error)
            if at.node:
                note_place(explained, f"  node: %{at.node} of {at.graph}")
            for loop, iteration in reversed(frames):
                note_place(explained, iteration_note(f"%{loop}", iteration))
            return relocate(explained, at.source, settled=True)

        return IssuedCall(explain_late, at.source)

    def _types(self, arrays: Sequence[Any], attrs: dict[str, Any]) -> Any:
        pairs = zip(arrays, _repeat(self._lanes, len(arrays)), strict=True)
        known = attrs if arrays else {**attrs, "device": self._device}
        types = [_type(a, lane) for a, lane in pairs]
        return infer(self._op, types, known, (self._device,) * len(arrays))

    def _via_float32(
        self, kernel: Callable[..., Any], xp: Any, casts: Casts | None = None
    ) -> Callable[..., Any]:
        """A kernel that computes 8- and 16-bit floats in float32 and rounds the results once.

        Args:
            kernel: the kernel for float32.
            xp: the array namespace.
            casts: from float16 to float32 and back; by default those of arrays.
        """
        lanes = self._lanes
        widen, narrow = casts or (_astype_float32, None)

        def low_precision(*arrays: Any, **attrs: Any) -> Any:
            outputs = self._types(arrays, attrs)
            wide = [
                widen(a)
                if lane.dtype is _FLOAT16
                else a.astype("float32")
                if lane.dtype in _LOW
                else a
                for a, lane in zip(arrays, _repeat(lanes, len(arrays)), strict=True)
            ]
            data = kernel(*wide, **attrs)

            def rounded(x: Any, kind: TensorType) -> Any:
                if narrow is not None and kind.dtype is _FLOAT16 and x.dtype == "float32":
                    x = narrow(x)
                return xp.asarray(x).astype(kind.dtype.dtype, copy=False)

            if isinstance(outputs, tuple):
                if not isinstance(data, tuple) or len(data) != len(outputs):
                    return data  # of a user's kernel, which is refused
                return tuple(rounded(d, t) for d, t in zip(data, outputs, strict=True))
            return rounded(data, outputs)

        low_precision.__dict__[_WIDE] = kernel
        return low_precision


def _astype_float32(x: Any) -> Any:
    return x.astype("float32")


#: the attribute in which a kernel that computes in float32 keeps the inner kernel
_WIDE: Final = "wide"


def in_float32(kernel: Callable[..., Any]) -> Callable[..., Any] | None:
    """The inner kernel that a kernel for 8- and 16-bit floats calls in float32; None for others."""
    wide: Callable[..., Any] | None = getattr(kernel, _WIDE, None)
    return wide


def _found(
    op: Op, lanes: list[Lane], device: Device, xp: Any, like: str | None
) -> Callable[..., Any]:
    load_plugins()
    names = tuple(lane.dtype.name for lane in lanes)
    kind = device.backend.kind
    kernel = None
    if op.is_portable:
        kernel = table.find_portable(op.base, xp)
    elif like is not None:
        kernel = _of_kind(op, kind, names, None)  # a special one, before those of the other kind
    if kernel is None and not op.is_portable:
        kernel = _of_kind(op, like or kind, names, xp)
    if kernel is None:
        raise KernelError(
            f"{op.base}: no kernel for {device}",
            given=", ".join(names),
            hint=f"register one for all devices with @portable({op.name!r}), or one for this kind "
            f"with @special({op.name!r}, {kind!r}): from eagerflow.extending import portable, "
            "special",
        )
    return kernel


def _of_kind(op: Op, kind: str, names: tuple[str, ...], xp: Any) -> Callable[..., Any] | None:
    kernel = table.find(op.name, kind, names, xp)
    if len(names) > 1 and len(set(names)) == 1:  # one name stands for any number of inputs
        single = table.find(op.name, kind, names[:1], xp)
        kernel = kernel if single is None else single
    return kernel


def _has_native(op: Op, kinds: Iterable[str], lanes: list[Lane]) -> bool:
    """Whether a native kernel may be used: there is no user's kernel for these lanes."""
    if op.is_portable:
        return False
    names = tuple(lane.dtype.name for lane in lanes)
    rows = (names, names[:1]) if len(set(names)) == 1 else (names,)
    return all(table.is_own(op.name, kind, row) for kind in kinds for row in rows)


def _may_warn(op: Op, lanes: list[Lane], kernel: Any) -> bool:
    """Whether NumPy may warn of numeric errors: on floats, or on division of integers."""
    if op.effect != "pure" or not (op.precision != "exact" or op.elementwise):
        return False
    return kernel in _DIVIDES or any(lane.dtype.is_inexact for lane in lanes)


def _of_bytes(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that returns an array where NumPy's returns a single ``bytes`` element."""

    def whole(*arrays: Any, **attrs: Any) -> Any:
        data = kernel(*arrays, **attrs)
        return np.array(data, object) if type(data) is bytes else data

    return whole


def _repeat(lanes: list[Lane], count: int) -> list[Lane]:
    """One lane for each input: calls of variadic ops on a lane share an entry with one lane."""
    return lanes if len(lanes) == count else [lanes[0]] * count


def _type(array: Any, lane: Lane) -> TensorType:
    """The type of an array, or of a Python number that a kernel takes in place of one."""
    return TensorType(lane.dtype, getattr(array, "shape", ()))


def explain(
    op: Op, specs: Sequence[TensorSpec], attrs: dict[str, Any], error: Exception
) -> Exception:
    """The error to raise for an error of a kernel: that of the type rule if that objects.

    Args:
        op: the op.
        specs: of the inputs.
        attrs: the attributes, including the device for an op without inputs.
        error: the error that the kernel raised.
    """
    try:
        explained = _explained(op, specs, attrs, error)
    except Exception as failure:  # of the repr of an attribute
        explained = KernelError(f"{op.base}: the kernel raised {_named(error)}")
        explained.__cause__ = error
        explained.add_note(f"  and the description of the error raised {_named(failure)}")
    line = None if isinstance(error, EagerflowError) else user_line(error)
    if line is not None and explained is not error:
        explained.__cause__ = explained.__cause__ or error
        explained.add_note(f"  kernel: {line}")
    return explained


def _named(error: Exception) -> str:
    """The repr of an error, or its class if that fails."""
    try:
        return repr(error)
    except Exception:
        return type(error).__name__


def _refusal(op: Op, specs: Sequence[TensorSpec], attrs: dict[str, Any]) -> EagerflowError | None:
    """The error of the type rule for these inputs, if it refuses them."""
    try:
        infer_specs(op, specs, attrs)
    except DataDependentError:  # the rule found no other mistake
        return None
    except EagerflowError as worded:
        return worded
    return None


def _explained(
    op: Op, specs: Sequence[TensorSpec], attrs: dict[str, Any], error: Exception
) -> Exception:
    if isinstance(error, EagerflowError):
        return strip(error)
    if op.effect == "fence" and callable(attrs.get("resource")):  # the error is the user's own
        return error
    refusal = _refusal(op, specs, attrs)
    if refusal is not None:
        return strip(refusal)
    given = describe(op, [s.type for s in specs], attrs, [s.device for s in specs])
    if isinstance(error, MemoryError) or any(words in str(error) for words in _TOO_LARGE):
        return out_of_memory(op.base, _where(op, specs, attrs), error, given)
    if isinstance(error, DamagedError):
        return RecordError(f"{op.base}: {error}", given=given)
    if isinstance(error, ImportError):
        return SettingError(f"{op.base}: {error}")
    if isinstance(error, OSError):
        failed = FileError(f"{op.base}: {error}", given=given, hint=advice(error))
        failed.errno, failed.filename = error.errno, error.filename
        return failed
    if isinstance(error, IndexError):
        # the second argument of a kernel's IndexError may be the expected value
        own = type(error) is IndexError and len(error.args) == 2
        wrong, expected = error.args if own else (str(error), None)
        words = wrong.replace("out of bounds", "out of range")  # NumPy's, made ours
        return TensorIndexError(f"{op.base}: {words}", given=given, expected=expected)
    if isinstance(error, ValueError) and str(error).endswith("read-only") and not op.calls_user:
        return KernelError(
            f"{op.base}: the kernel writes into its input", given=given,
            hint="make a new array, as x * 2, or write into a copy: x = x.copy()",
        )  # fmt: skip
    if isinstance(error, (np.linalg.LinAlgError, ValueError, OverflowError)):
        return TensorValueError(f"{op.base}: {error}", given=given)
    wrapped = _refused(op, specs, attrs, given) if isinstance(error, TypeError) else None
    wrapped = wrapped or KernelError(f"{op.base}: the kernel raised {error!r}", given=given)
    wrapped.__cause__ = error
    return wrapped


def _refused(
    op: Op, specs: Sequence[TensorSpec], attrs: dict[str, Any], given: str
) -> KernelError | None:
    """The error for inputs and attributes that a user's kernel does not take."""
    kind = _where(op, specs, attrs).backend.kind
    names = tuple(s.dtype.name for s in specs)
    of_kind = None if op.is_portable else _of_kind(op, kind, names, np)
    kernel = of_kind or table.find_portable(op.base, np)
    form = form_refusing(kernel, len(specs), attrs)
    if form is None:
        return None
    signature, call = form
    return KernelError(
        f"{op.base}: the kernel does not take these tensors and attributes",
        given=given,
        expected=signature,
        hint=f"tensors by position, attributes by name: bind({op.base}, {call})",
    )


def _where(op: Op, specs: Sequence[TensorSpec], attrs: dict[str, Any]) -> Device:
    """The device of the results of an op."""
    return as_device(specs[0].device if specs and not op.moves else attrs.get("device"))
