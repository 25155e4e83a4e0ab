"""An asynchronous kind of device with memory of its own: for tests, on any machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, final

import numpy as np

from eagerflow_kernels import strides
from eagerflow_kernels.asynchronous.arrays import (
    DeviceArray,
    Namespace,
    arrays_in,
    results,
    with_elements,
)
from eagerflow_kernels.asynchronous.memory import DeviceMemory, MemoryBlock, MemoryUse
from eagerflow_kernels.asynchronous.streams import Done, Piece, Stream, Work, works_of
from eagerflow_kernels.lists import LIST_DTYPE

HostArray = np.ndarray[Any, Any]
Explain = Any  # the result of `KernelCall.issued`

_PIECES: Final = 3  # of a copy
_BYTE: Final = 0xA5  # the content of memory that is not written yet
#: the streams of each device: computation, and copies in and out beside it
_STREAMS: Final = ("compute", "in", "out")


@final
class AsyncBackend:
    """Devices with memory and streams of their own, simulated on the machine of the host.

    They follow the contract of devices as strictly as it allows: kernels and copies are issued, and
    run later, copies in several pieces and beside kernels; memory is counted, and filled with
    noise until it is written; only `copy_out` reads it. Kernels are the CPU's, so that results are
    equal bit for bit.

    Args:
        kind: the name of the kind.
        devices: the number of devices.
        threads: whether threads do the work as soon as they can. Else it is done in calls of
            `pump` and by waiters: always in the same order, in one thread.
        before_piece: called before each piece of work, to delay or count it; an exception that it
            raises is a failure of the work.
    """

    array_type = DeviceArray
    holds_bytes = False
    holds_data = True

    def __init__(
        self, kind: str = "async", devices: int = 2, *, threads: bool = True,
        before_piece: Callable[[], object] | None = None,
    ) -> None:  # fmt: skip
        self.kind = kind
        self._devices = devices
        self._threads = threads
        self._before_piece = before_piece
        self._streams: dict[tuple[int, str], Stream] = {}
        self._memories = [DeviceMemory() for _ in range(devices)]
        self._lock = threading.Lock()

    def count(self) -> int:
        """The number of devices."""
        return self._devices

    def namespace(self, index: int) -> Namespace:
        """NumPy's functions, computed by a device."""
        return Namespace(self, index)

    # --- running ---

    def launcher(self, call: Any, index: int) -> Callable[..., Any]:
        """The function that issues a kernel."""
        if call.on_host:
            return self._on_host(call, index)
        kernel = call.kernel(np, np.ndarray, "cpu")

        def launch(*arrays: Any, **attrs: Any) -> Any:
            inputs = self._placed(arrays, index, call.host_inputs(len(arrays), attrs))
            outputs = call.foreseen(arrays, attrs)
            explain = call.issued(arrays, attrs)
            run = partial(kernel, **attrs) if attrs else kernel
            if outputs is None or any(dtype == LIST_DTYPE for dtype, _ in outputs):
                return self._waited(run, inputs, index, explain)
            made = self._issued(run, inputs, outputs, index, explain, shares=call.shares)
            return tuple(made) if call.several else made[0]

        return launch

    def _on_host(self, call: Any, index: int) -> Callable[..., Any]:
        """A kernel that runs at once on the host, and issues its computations."""
        there = bool(call.host_outputs())
        kernel = call.kernel(np if there else self.namespace(index), DeviceArray, "cpu")

        def launch(*arrays: Any, **attrs: Any) -> Any:
            read = call.host_inputs(len(arrays), attrs)
            return kernel(*self._placed(arrays, index, read), **attrs)

        return launch

    def _placed(self, arrays: Sequence[Any], index: int, on_host: frozenset[int]) -> list[Any]:
        """Each input in the memory where the kernel reads it."""
        inputs = []
        for i, x in enumerate(arrays):
            if type(x) is DeviceArray and i in on_host:
                x = self.copy_out(x, index)
            elif type(x) is np.ndarray and i not in on_host:
                x = self.copy_in(x, index, borrowed=False)
            inputs.append(x)
        return inputs

    def issue(
        self, function: Callable[..., Any], args: Sequence[Any], dtype: np.dtype[Any],
        shape: tuple[int, ...], index: int, *, view: bool = False,
    ) -> DeviceArray:  # fmt: skip
        """Have a device call a function whose one result has a known dtype and shape."""
        return self._issued(function, args, [(dtype, shape)], index, None, shares=view)[0]

    def _issued(
        self, function: Callable[..., Any], args: Sequence[Any],
        outputs: Sequence[tuple[np.dtype[Any], tuple[int, ...]]], index: int,
        explain: Explain | None, *, shares: bool,
    ) -> list[DeviceArray]:  # fmt: skip
        line = getattr(explain, "source", None)
        blocks = [None if shares else self._block(*output, index, line=line) for output in outputs]
        pairs = zip(outputs, blocks, strict=True)
        made = [DeviceArray(self, index, *output, block) for output, block in pairs]
        values: list[Any] = []

        def compute() -> None:
            values.extend(results(function(*with_elements(list(args)))))

        def deliver(i: int) -> None:
            made[i].deliver(values[i])
            self._account(made[i], args)

        pieces: list[Piece] = [compute, *[partial(deliver, i) for i in range(len(made))]]
        work = Work(pieces, works_of(arrays_in(list(args))), explain)
        for array in made:
            array.work = work
        self.stream(index).issue(work)
        return made

    def _waited(
        self, function: Callable[..., Any], args: Sequence[Any], index: int, explain: Explain
    ) -> Any:
        """The results of a function, awaited, as their dtypes and shapes are not known before."""
        made: list[Any] = []
        work = Work(
            [lambda: made.append(function(*with_elements(list(args))))],
            works_of(arrays_in(list(args))),
            explain,
        )
        self.stream(index).issue(work)
        work.wait()
        return self.owned(made[0], index, args)

    def owned(self, value: Any, index: int, args: Sequence[Any]) -> Any:
        """Results of work of a device, with arrays of the device in place of NumPy's."""
        if isinstance(value, (np.ndarray, np.generic)):
            elements = np.asarray(value)
            made = DeviceArray(self, index, elements.dtype, elements.shape, None)
            made.deliver(elements)
            self._account(made, args)
            return made
        if isinstance(value, (list, tuple)):
            return tuple([self.owned(part, index, args) for part in value])
        return value

    def _account(self, array: DeviceArray, args: Sequence[Any]) -> None:
        """Set the memory block of a computed array: its own, or the one of which it is a view."""
        memory = _owner(array.elements())
        for other in arrays_in(list(args)):
            if _owner(other.elements()) is memory:
                array.block = other.block
                return
        if array.block is None or array.block.nbytes != memory.nbytes:
            account = self._memories[array.index]
            array.block = account.take(memory.nbytes, array.dtype, array.shape, limited=False)

    # --- memory ---

    def _block(
        self, dtype: np.dtype[Any], shape: tuple[int, ...], index: int, nbytes: int | None = None,
        line: object = None,
    ) -> MemoryBlock:  # fmt: skip
        """Memory for an array; if it is short, work that holds some is awaited first."""
        account = self._memories[index]
        if nbytes is None:
            nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if not account.fits(nbytes):
            self._drain(index)
        return account.take(nbytes, dtype, shape, line=line)

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any], index: int) -> DeviceArray:
        """An array of noise.

        Raises:
            NotEnoughError: there is not enough.
        """
        return self.issue(partial(_noise, shape, dtype), (), dtype, shape, index)

    def copy_in(self, array: HostArray, index: int, *, borrowed: bool) -> DeviceArray:
        """A copy on a device of an array of the host, made later.

        Raises:
            NotEnoughError: there is not enough.
        """
        held = strides.copied(array) if borrowed else array
        return self._copied(lambda: held, array.dtype, array.shape, (), index, held)

    def copy_to_peer(self, data: DeviceArray, index: int, peer: int) -> DeviceArray:
        """A copy of an array on another device, made later.

        Raises:
            NotEnoughError: there is not enough.
        """
        return self._copied(data.elements, data.dtype, data.shape, [data.work], peer, None)

    def _copied(
        self, source: Callable[[], HostArray], dtype: np.dtype[Any], shape: tuple[int, ...],
        needs: Sequence[Work], index: int, like: HostArray | None,
    ) -> DeviceArray:  # fmt: skip
        nbytes = None if like is None else strides.memory_of(like)
        made = DeviceArray(self, index, dtype, shape, self._block(dtype, shape, index, nbytes))

        def finish(target: HostArray) -> None:
            made.deliver(target)
            self._account(made, ())

        made.work = Work(_pieces(source, finish), needs)
        self.stream(index, "in").issue(made.work)
        return made

    def copy_out(self, data: Any, index: int) -> HostArray:
        """The values, in memory of the host that is the caller's own.

        Raises:
            Exception: the work that computes them has failed.
        """
        if type(data) is np.ndarray:
            return data
        # a copy that waited in the stream would hold up those behind it, for which a callback of
        # the very work that it waits for may be waiting
        data.work.wait()
        made: list[HostArray] = []
        work = Work(_pieces(data.elements, made.append), [data.work])
        self.stream(index, "out").issue(work)
        work.wait()
        return made[0]

    def memory(self, index: int) -> MemoryUse:
        """The memory of living arrays; nothing is reserved besides."""
        account = self._memories[index]
        return MemoryUse(account.in_use, account.in_use, account.limit, None)

    def limit_memory(self, nbytes: int | None, index: int) -> None:
        """Refuse arrays beyond ``nbytes`` in total; None for no limit."""
        self._memories[index].limit = nbytes

    def held(self, index: int) -> list[tuple[np.dtype[Any], tuple[int, ...], str]]:
        """The arrays that hold memory, the largest first."""
        return self._memories[index].held()

    def release(self, index: int) -> None:
        """Do nothing: no memory is reserved."""

    # --- completion ---

    def ready(self, data: Any) -> bool:
        """Whether the work of the elements has ended, in success or failure."""
        return type(data) is np.ndarray or data.work.ended

    def when_ready(self, data: Any, done: Done) -> Callable[[], object] | None:
        """Call ``done`` when the elements are ready, in the worker's thread; it must not wait.

        Without threads, returns a function that does the next piece of work, for a waiting caller.
        """
        if type(data) is np.ndarray:
            done(None)
            return None
        data.work.when_ended(done)
        return None if self._threads else data.work.bring_on

    def synchronize(self, index: int) -> None:
        """Wait until all work of a device has ended.

        Raises:
            Exception: the first failure that has not been reported.
        """
        self._drain(index)
        for name in _STREAMS:
            failures = self.stream(index, name).failures
            while failures:
                failure = failures.popleft()
                if not failure.told:
                    raise failure.tell()

    def stream(self, index: int, name: str = "compute") -> Stream:
        """One of the streams of a device."""
        with self._lock:
            stream = self._streams.get((index, name))
            if stream is None:
                stream = Stream(threads=self._threads, before_piece=self._before_piece)
                self._streams[index, name] = stream
            return stream

    def pump(self, pieces: int = 1) -> int:
        """Do so many pieces of work, round-robin over the streams; returns the number done."""
        count = 0
        while count < pieces:
            stepped = sum(s.step() for s in self._all() if count < pieces)
            if not stepped:
                break
            count += stepped
        return count

    def _all(self) -> list[Stream]:
        with self._lock:
            return list(self._streams.values())

    def _drain(self, index: int) -> None:
        for name in _STREAMS:
            stream = self.stream(index, name)
            last = stream.last
            if last is not None:
                stream.finish(last)


def _pieces(source: Callable[[], HostArray], finish: Callable[[HostArray], object]) -> list[Piece]:
    """The pieces of a copy in the order of the original, part by part along the first axis."""
    copy: list[HostArray] = []  # source and target

    def begin() -> None:
        x = source()
        target = strides.blank(x)
        if target.flags.writeable and not target.dtype.hasobject:
            _fill(target)
        copy.extend((x, target))

    def part(i: int) -> None:
        x, target = copy
        if not x.ndim:
            target[...] = x
            return
        rows = slice(i * len(x) // _PIECES, (i + 1) * len(x) // _PIECES)
        target[rows] = x[rows]

    return [begin, *[partial(part, i) for i in range(_PIECES)], lambda: finish(copy[1])]


def _noise(shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray:
    array = np.empty(shape, dtype)
    _fill(array)
    return array


def _fill(array: HostArray) -> None:
    """Write noise into the memory of an array."""
    array[...] = np.frombuffer(bytes([_BYTE]) * array.itemsize, array.dtype)[0]


def _owner(array: HostArray) -> Any:
    """The array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
