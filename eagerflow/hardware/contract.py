"""The device contract: what a kind of device supplies, and what it may ask in return.

All of it is structural. A backend is any object with these members; it needs nothing of eagerflow,
and the kinds that come with it are written like those of others. What the members promise to each
other (order, completion, late failures, buffers) stands here and nowhere else.

**Order.** Each device does its work in the order in which it was issued; copies may run beside
kernels. A value may be used as soon as it was issued: the backend makes later work wait for it.

**Completion.** A launcher and a copy may return before the work is done. `copy_out`, `synchronize`
and what Python asks of an array (``bool(x)``) wait; `when_ready` does not. There, a device whose
work is done by those that wait gives what does the next piece of it.

**Late failures.** A launcher that returns before its kernel has run asks `KernelCall.issued` for
what makes an error of whatever the kernel raises then: it names the line that issued the work.
The error is raised by whoever reads the value, or a value computed from it; by `synchronize` if
nobody did.

**Host buffers.** What is given to `copy_in` is not written into while the backend refers to it, so
a backend may copy it later and has to hold it until then. ``borrowed`` memory may be written into
as soon as `copy_in` has returned, so it has to be read by then. What `copy_out` gives belongs to
the caller for as long as it is held: it is complete, and the backend does not write into it again.

**Layout.** Copies keep strides, as far as that takes no more than a few times the memory
(`eagerflow_kernels.strides`): what is computed from them has the same bits.
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
    """Memory of a device in bytes; None where the device cannot tell.

    Attributes:
        in_use: held by living values (on CPU: resident memory of this process).
        reserved: held by the allocator.
        limit: what eagerflow may use at most.
        total: what the device has.
    """

    in_use: int | None
    reserved: int | None
    limit: int | None
    total: int | None


class MemoryFigures(Protocol):
    """What a backend says of memory: `MemoryStats`, or an object with the same attributes."""

    @property
    def in_use(self) -> int | None: ...
    @property
    def reserved(self) -> int | None: ...
    @property
    def limit(self) -> int | None: ...
    @property
    def total(self) -> int | None: ...


class Issued(Protocol):
    """Makes an error of what a kernel raises that was issued earlier.

    Attributes:
        source: the user's line that issued it, as text.
    """

    @property
    def source(self) -> Any: ...

    def __call__(self, error: Exception) -> Exception:
        """The error that says where the call was issued."""


class KernelCall(Protocol):
    """What a backend may ask about the calls that a launcher is for: an op, and its dtypes.

    Attributes:
        name: of the op.
        several: whether the kernel gives a tuple of arrays, not one.
        on_host: whether the kernel has to run at once, in the thread that calls, on the arrays as
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
        """Which of ``count`` inputs the kernel reads in the memory of the host."""

    def host_outputs(self) -> frozenset[int]:
        """Which outputs the kernel makes in the memory of the host."""

    def kernel(self, xp: Any, array_type: type[Any], like: str | None = None) -> Callable[..., Any]:
        """The kernel: a special one of the kind of device, else the portable one.

        Args:
            xp: the array namespace that portable kernels get.
            array_type: the class of the arrays that it gets.
            like: another kind, whose special kernels will do where the own kind has none.

        Raises:
            KernelError: there is none.
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
        """Note that a call is issued here; gives what makes an error of what its kernel raises."""


class Backend(Protocol):
    """What all devices of one kind share. They are told apart by their number, ``index``.

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
        """How many devices of this kind there are now."""

    def namespace(self, index: int) -> Any:
        """The array namespace for arrays of a device; None if they have no values."""

    def launcher(self, call: KernelCall, index: int) -> Launcher:
        """What runs the kernel of ``call``; made once for an op, its dtypes and a device.

        It gives what the kernel gives: arrays of ``array_type``, scalars of NumPy, or arrays of
        NumPy for outputs in the memory of the host. Where nothing has to be done around a kernel,
        it is the kernel itself.
        """

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any], index: int) -> Any:
        """An array whose elements are not set.

        Raises:
            MemoryError: there is not enough; with the attribute ``asked``, if it has one, in bytes.
        """

    def copy_in(self, array: HostArray, index: int, *, borrowed: bool) -> Any:
        """An array with the values of one in the memory of the host.

        Args:
            array: the values.
            index: of the device.
            borrowed: whether somebody may write into ``array`` after the call.

        Raises:
            MemoryError: as for `allocate`.
        """

    def copy_out(self, data: Any, index: int) -> HostArray:
        """The values in the memory of the host; waits for them.

        Raises:
            Exception: what `KernelCall.issued` made of a late failure.
        """

    def copy_to_peer(self, data: Any, index: int, peer: int) -> Any:
        """The same values on another device of this kind; the array itself if both can read it.

        Raises:
            MemoryError: as for `allocate`.
        """

    def ready(self, data: Any) -> bool:
        """Whether all that makes ``data`` is done or has failed."""

    def when_ready(self, data: Any, done: Ready) -> Callable[[], object] | None:
        """Call ``done(error)`` when ``data`` is ready: at once, or later from any thread.

        It gives None, or, where nothing is done unless somebody waits, a function that does a
        piece of the work: a thread that has nothing else to do calls it until ``done`` was called.
        """

    def synchronize(self, index: int) -> None:
        """Wait until all work that was issued is done.

        Raises:
            Exception: the first late failure that nobody has been told of.
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


#: what a backend must have
MEMBERS: Final = tuple(sorted(name for name in vars(Backend) if not name.startswith("_")))
