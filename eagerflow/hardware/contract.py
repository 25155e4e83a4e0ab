"""The device contract: the members of a backend, and the queries that it may make in return.

All of it is structural. A backend is any object with these members; it needs nothing of eagerflow,
and the backends of eagerflow are written like those of others. The guarantees between the members
(order, completion, late failures, buffers) are stated here and nowhere else.

**Order.** Each device does its work in the order in which it was issued; copies may run beside
kernels. A value may be used as soon as it was issued: the backend makes later work wait for it.

**Completion.** A launcher and a copy may return before the work is done. `copy_out`, `synchronize`
and Python's queries of an array (``bool(x)``) wait; `when_ready` does not. If waiting threads do
the work of a device, its `when_ready` returns a function that does the next piece of it.

**Late failures.** A launcher that returns before its kernel has run asks `KernelCall.issued` for
the function that translates the kernel's later error: its result names the line that issued the
work. The error is raised by the reader of the value, or of a value computed from it; by
`synchronize` if there was no reader.

**Host buffers.** The array passed to `copy_in` is not written into while the backend refers to it,
so a backend may copy it later and has to hold it until then. ``borrowed`` memory may be written
into as soon as `copy_in` has returned, so it has to be read by then. The result of `copy_out`
belongs to the caller for as long as the caller holds it: it is complete, and the backend does not
write into it again.

**Layout.** Copies keep strides, as far as that takes no more than a few times the memory
(`eagerflow_kernels.strides`), so that results computed from them have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, final

import numpy as np

HostArray = np.ndarray[Any, Any]
Launcher = Callable[..., Any]  # arrays by position and attributes by keyword, as a kernel
Ready = Callable[[Exception | None], object]


@final
@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Memory of a device in bytes; None where a figure is not available.

    Attributes:
        in_use: bytes held by live values (on CPU: resident memory of this process).
        reserved: bytes held by the allocator.
        limit: bytes that eagerflow may use at most.
        total: bytes of the device.
    """

    in_use: int | None
    reserved: int | None
    limit: int | None
    total: int | None


class MemoryFigures(Protocol):
    """A backend's memory statistics: `MemoryStats`, or an object with the same attributes."""

    @property
    def in_use(self) -> int | None: ...
    @property
    def reserved(self) -> int | None: ...
    @property
    def limit(self) -> int | None: ...
    @property
    def total(self) -> int | None: ...


class Issued(Protocol):
    """Translator of the error of a kernel that was issued earlier.

    Attributes:
        source: the user's line that issued it, as text.
    """

    @property
    def source(self) -> Any: ...

    def __call__(self, error: Exception) -> Exception:
        """The error that names the line where the call was issued."""


class KernelCall(Protocol):
    """Description, for a backend, of the calls of a launcher: an op with its dtypes.

    Attributes:
        name: the name of the op.
        several: whether the kernel returns a tuple of arrays, not one array.
        on_host: whether the kernel has to run at once, in the calling thread, on the arrays as
            they are: it changes state, calls Python or holds lists.
        shares: whether results may be views of inputs, which take no memory.
    """

    @property
    def name(self) -> str: ...
    @property
    def several(self) -> bool: ...
    @property
    def on_host(self) -> bool: ...
    @property
    def shares(self) -> bool: ...

    def host_inputs(self, count: int, attrs: dict[str, Any]) -> frozenset[int]:
        """The indices of the inputs, of ``count``, that the kernel reads in the host's memory."""

    def host_outputs(self) -> frozenset[int]:
        """The indices of the outputs that the kernel makes in the host's memory."""

    def kernel(self, xp: Any, array_type: type[Any], like: str | None = None) -> Callable[..., Any]:
        """The kernel: a special one of the kind of device, else the portable one.

        Args:
            xp: the array namespace that portable kernels get.
            array_type: the class of the arrays that it gets.
            like: another kind, whose special kernels serve if the own kind has none.

        Raises:
            KernelError: there is no kernel.
        """

    def outputs(
        self, arrays: Sequence[Any], attrs: dict[str, Any]
    ) -> list[tuple[np.dtype[Any], tuple[int, ...]]]:
        """The dtypes and shapes of the results, by the type rule of the op.

        Raises:
            EagerflowError: the rule refuses the inputs, or sizes depend on the data.
        """

    def foreseen(
        self, arrays: Sequence[Any], attrs: dict[str, Any]
    ) -> list[tuple[np.dtype[Any], tuple[int, ...]]] | None:
        """The same; None if sizes depend on the data."""

    def issued(self, arrays: Sequence[Any], attrs: dict[str, Any]) -> Issued:
        """Note that a call is issued here; returns the translator of its kernel's error."""


class Backend(Protocol):
    """The object that all devices of one kind share; their number, ``index``, distinguishes them.

    Attributes:
        kind: the kind's name, as in ``kind:0``.
        array_type: the class of the arrays.
        holds_bytes: whether arrays can be of dtype bytes, which are objects of Python.
        holds_data: whether there are values at all; null devices know types only.
    """

    @property
    def kind(self) -> str: ...
    @property
    def array_type(self) -> type[Any]: ...
    @property
    def holds_bytes(self) -> bool: ...
    @property
    def holds_data(self) -> bool: ...

    def count(self) -> int:
        """The number of devices of this kind now."""

    def namespace(self, index: int) -> Any:
        """The array namespace for arrays of a device; None if they have no values."""

    def launcher(self, call: KernelCall, index: int) -> Launcher:
        """The launcher for the kernel of ``call``; made once for an op, its dtypes and a device.

        A launcher returns the kernel's results: arrays of ``array_type``, scalars of NumPy, or
        arrays of NumPy for outputs in the memory of the host. If a kernel needs no preparation, its
        launcher is the kernel itself.
        """

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any], index: int) -> Any:
        """An array whose elements are not set.

        Raises:
            MemoryError: there is not enough; may have the attribute ``asked``, in bytes.
        """

    def copy_in(self, array: HostArray, index: int, *, borrowed: bool) -> Any:
        """An array with the values of one in the memory of the host.

        Args:
            array: the values.
            index: the index of the device.
            borrowed: whether the caller may write into ``array`` after the call.

        Raises:
            MemoryError: as for `allocate`.
        """

    def copy_out(self, data: Any, index: int) -> HostArray:
        """The values in the memory of the host; waits for them.

        Raises:
            Exception: a late failure, as `KernelCall.issued` translated it.
        """

    def copy_to_peer(self, data: Any, index: int, peer: int) -> Any:
        """The same values on another device of this kind; the array itself if both can read it.

        Raises:
            MemoryError: as for `allocate`.
        """

    def ready(self, data: Any) -> bool:
        """Whether all work that computes ``data`` is done or has failed."""

    def when_ready(self, data: Any, done: Ready) -> Callable[[], object] | None:
        """Call ``done(error)`` when ``data`` is ready: at once, or later from any thread.

        It returns None, or, where only waiting threads make progress, a function that does a piece
        of the work: a thread that has nothing else to do calls it until ``done`` was called.
        """

    def synchronize(self, index: int) -> None:
        """Wait until all work that was issued is done.

        Raises:
            Exception: the first late failure that was not raised yet.
        """

    def memory(self, index: int) -> MemoryFigures:
        """Memory statistics of a device."""

    def limit_memory(self, nbytes: int | None, index: int) -> None:
        """Hold no more than so many bytes from now on; None for no limit.

        Raises:
            ValueError: the kind has no limit that could be set.
        """

    def held(self, index: int) -> Sequence[tuple[np.dtype[Any], tuple[int, ...], str]]:
        """The arrays that hold memory, the largest first, each with the line that made it.

        The line is empty, and there are no arrays, where that is not known.
        """

    def release(self, index: int) -> None:
        """Give memory that is reserved but not used back to the system."""


#: the members that a backend must have
MEMBERS: Final = tuple(sorted(name for name in vars(Backend) if not name.startswith("_")))
