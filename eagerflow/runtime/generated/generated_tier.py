"""The generated tier: a graph as one Python function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import count
from threading import RLock, get_ident
from time import monotonic, perf_counter
from types import FrameType, FunctionType
from typing import Any, Final, TypeVar, final
from weakref import WeakValueDictionary

from eagerflow.core.op import find_op
from eagerflow.errors import CancelledError, DeadlineError, relocate
from eagerflow.events import NodeEvent, RegionEvent, check_stopped, step_of, told
from eagerflow.graph.ir import Graph
from eagerflow.graph.signatures import kind_of
from eagerflow.hardware import Lane, wait_for_data
from eagerflow.hardware.float_warnings import QUIET, error_state
from eagerflow.resources.mutex import this_thread
from eagerflow.resources.waiting_operations import slept
from eagerflow.running_node import RunningNode, codes_by_file
from eagerflow.runtime.generated.codegen import generate
from eagerflow.runtime.generated.failures import failure, note_written
from eagerflow.runtime.generated.finite_check import FiniteCheck
from eagerflow.runtime.generated.instructions import flatten, line_of
from eagerflow.runtime.generated.native_kernels import NativeProgram
from eagerflow.runtime.generated.observer import Observer, running_node_in
from eagerflow.runtime.generated.program_code import Code, FusedCall
from eagerflow.runtime.generated.tier_comparison import TierComparison
from eagerflow.runtime.native_or_plain import KernelTrial
from eagerflow.runtime.observed_step import Observation
from eagerflow.runtime.threads import deadline
from eagerflow.runtime.threads.deadline import blocks
from eagerflow_kernels import table

_Result = TypeVar("_Result")


def devices_of_regions(executable: int) -> dict[int, str]:
    """The device of each region of an executable, by number; without regions on several."""
    codes = [code for code in list(_codes.values()) if code._number == executable]
    return {code._region: device for code in codes if (device := code.device)}


@final
class RegionCode:
    """Nodes as one function of raw arrays and numbers, which returns a tuple.

    Each version of the function is written when it is first needed.

    Args:
        graph: the nodes as a graph of their own.
        number: of the executable that they belong to, for events.
        name: of the graph of the executable.
        region: the number of the region there.
        is_part: whether the executable has other regions; a single one is not reported in brief,
            as its step is.

    Attributes:
        graph: the same.
        lanes: for each output its lane, or None for a number.
        mutexes: the mutexes that it acquires.
        checked: whether it can ask between ops whether to go on (see `step_of`).
        native: the kernels that it calls; None for none.
        compiled: the kernels that exist, even if code without them is faster.
        trial: the kernel trial under way; None if there is none.
        trial_ended: the last kernel trial that has ended.

    Raises:
        GraphError: a node cannot run.
    """

    __slots__ = ("__weakref__", "_instructions", "_is_part", "_name", "_number", "_observer",
                 "_ops", "_region", "_versions", "checked", "compiled", "graph", "lanes", "mutexes",
                 "native", "trial", "trial_ended")  # fmt: skip

    def __init__(
        self, graph: Graph, number: int, name: str, region: int = 0, *, is_part: bool = False
    ) -> None:  # fmt: skip
        self.graph = graph
        self._is_part = is_part
        self._instructions = flatten(graph)
        self._name = name
        nodes = [line.node for line in self._instructions.all if line.node is not None]
        self._ops = {node.op for node in nodes}
        holding = [node for node in nodes if (op := find_op(node.op)) is not None and op.holds]
        self.mutexes = tuple(dict.fromkeys(node.attrs["resource"] for node in holding))
        #: code without ops and loops cannot be interrupted between them
        self.checked = any(kind_of(op) == "op" or op == "while_loop" for op in self._ops)
        self.lanes: tuple[Lane | None, ...] = tuple(
            map(self._instructions.lane, self._instructions.outputs)
        )
        self._observer: Observer | None = None
        self._number, self._region = number, region
        #: the versions written so far. Replaced when a kernel changes, so that code which is being
        #: written meanwhile is not kept
        self._versions: dict[str, Code] = {}
        self.native: NativeProgram | None = None
        self.compiled: NativeProgram | None = None
        self.trial: KernelTrial | None = None
        self.trial_ended: KernelTrial | None = None
        _codes[next(_serial)] = self

    @property
    def device(self) -> str:
        """The name of the device that it runs on; empty if there are several."""
        devices = {str(d) for d in self._instructions.devices if d is not None}
        return devices.pop() if len(devices) == 1 else ""

    def run(self, values: list[Any]) -> tuple[Any, ...]:
        """Run the function on inputs that are popped off ``values``, which has the first one last.

        So only the code holds the inputs, and it may write into those no longer needed.

        Raises:
            EagerflowError: the error that eager code would raise, with the line of the node.
        """
        if RegionEvent.listeners:
            with told(self._observing().region_event()):
                return self._run(values)
        note = RegionEvent.brief
        if note is None or not self._is_part or step_of.observation is not None:
            return self._run(values)
        start = perf_counter()
        try:
            return self._run(values)
        finally:
            note((self._number, self._region, start, perf_counter(), get_ident()))

    def _run(self, values: list[Any]) -> tuple[Any, ...]:
        looked_at = NodeEvent.listeners or step_of.observation or step_of.stopped
        if looked_at or step_of.verifies:
            return self._call(self._ready(), values)
        trial = self.trial
        if trial is not None:
            return self._try(trial, values)
        code = self._versions.get("plain" if self.native is None else "native")
        return self._call(code or self.plain(), values)

    def _try(self, trial: KernelTrial, values: list[Any]) -> tuple[Any, ...]:
        """Run the function with its kernels or without, and note the time."""
        native = trial.pick()
        code = self._version("native" if native else "plain")
        key = sum([getattr(x, "size", 1) for x in values])
        start = perf_counter()
        results = self._call(code, values)
        trial.took(native, perf_counter() - start, key)
        if trial.faster is not None and self.trial is trial:
            self.trial, self.trial_ended = None, trial
            if not trial.faster:
                self.native = None
        return results

    def _call(self, code: Code, values: list[Any]) -> tuple[Any, ...]:
        try:
            return _taking(len(values))(code.run, values.pop)
        except Exception as error:
            failed = failure(code, error)
        except KeyboardInterrupt as error:
            note_written(code, error)
            raise
        try:
            raise failed
        finally:
            del failed, values  # an exception whose frame holds them would keep them alive

    def plain(self) -> Code:
        """The version without notes and checks, native if there are kernels."""
        return self._version("plain" if self.native is None else "native")

    def _version(self, version: str) -> Code:
        """The version ``"plain"`` or ``"native"``, without notes and checks."""
        return self._versions.get(version) or self._generate(
            version, None, native=self.native if version == "native" else None
        )

    def compile(self, changed: Callable[[], object]) -> None:
        """Find the regions for native kernels, and compile these; takes a while.

        From the next run on the kernels are tried.

        Args:
            changed: called when the kernels are there.
        """
        versions = self._versions
        native = self.compiled = NativeProgram(self._instructions)
        if not native.kernels:
            return
        code = generate(self._name, self._instructions, native=native)
        with _lock:
            if self._versions is not versions:  # a kernel has changed meanwhile
                return
            codes_by_file[code.file] = self
            versions["native"] = code
            self.native, self.trial = native, KernelTrial()
        changed()

    def _ready(self) -> Code:
        """The version that this run needs."""
        if step_of.verifies:
            asks = self.checked and step_of.stopped is not None
            name = f"{step_of.verifies}, asking" if asks else step_of.verifies
            return self._versions.get(name) or self._checked(name, asks)
        if NodeEvent.listeners:
            return self._observed()
        observation = step_of.observation
        if observation is not None and observation.executable == self._number:
            return self._of(observation)
        if step_of.stopped is not None and self.checked:
            return self._noted("checked", _check)
        return self.plain()

    def _checked(self, version: str, asks: bool) -> Code:
        """The version that checks the results of each op, or compares kernels with ops."""
        compiled, note = self.compiled, _check if asks else None
        if step_of.verifies == "finite":
            finite = FiniteCheck(self._instructions)
            return self._generate(version, note, chains=True, comparison=finite)
        comparison = TierComparison(self._instructions)
        return self._generate(
            version, note, chains=True, comparison=comparison,
            native=compiled if compiled is not None and compiled.kernels else None,
        )  # fmt: skip

    def _noted(self, version: str, note: Callable[..., float]) -> Code:
        """The version that calls ``note``, with kernels or without as for its other runs."""
        native = self.native
        name = version if native is None else f"native {version}"
        return self._versions.get(name) or self._generate(name, note, chains=True, native=native)

    def _observed(self) -> Code:
        """The version that reports each node and the shapes of results, with the same kernels."""
        native, versions = self.native, self._versions
        name = "observed" if native is None else "native observed"
        code = versions.get(name)
        if code is None:
            calls: dict[int, FusedCall] = {}
            note = partial(self._note, calls)
            code = generate(self._name, self._instructions, note, native=native)
            calls.update(code.calls)  # before another thread may run it
            codes_by_file[code.file] = self
            versions[name] = code
        return code

    def _of(self, observation: Observation) -> Code:
        """The version that reports to an observation the values or times that it wants."""
        if observation.values:
            return self._versions.get("valued") or self._generate("valued", self._show)
        if observation.waits:
            name = "waiting"
            code = self._versions.get(name) or self._generate(name, self._time_of_results)
        else:
            code = self._noted("timed", self._time)
        observation.begin(self._region, code.program.all, code.chains, is_part=self._is_part)
        return code

    def _time(self, index: int, start: float, iterations: Sequence[int]) -> float:
        """Add the time of an instruction to the observation; returns the time now."""
        stop = perf_counter()
        waited, slept.told = slept.seconds - slept.told, slept.seconds
        observation = step_of.observation
        if index >= 0:
            observation.add(self._region, index, stop - start, waited)
        _check()
        return perf_counter()

    def _time_of_results(
        self, index: int, start: float, iterations: Sequence[int], *outputs: Any
    ) -> float:  # fmt: skip
        """As `_time`, once the results of the instruction are there."""
        if index >= 0:
            registers = self._instructions.all[index].outputs
            for register, data in zip(registers, outputs, strict=False):
                device = self._instructions.devices[register]
                if device is not None:
                    wait_for_data(data, device)
        return self._time(index, start, iterations)

    def _show(self, index: int, start: float, iterations: Sequence[int], *outputs: Any) -> float:
        """Pass the results of an instruction to the observation."""
        if index >= 0:
            node = self._instructions.all[index].node
            assert node is not None
            step_of.observation.show(node, outputs)
        return _check()

    def _generate(
        self, version: str, note: Callable[..., float] | None, *, chains: bool = False,
        native: NativeProgram | None = None,
        comparison: TierComparison | FiniteCheck | None = None,
    ) -> Code:  # fmt: skip
        versions = self._versions
        code = generate(
            self._name, self._instructions, note, chains=chains, native=native,
            comparison=comparison,
        )  # fmt: skip
        codes_by_file[code.file] = self
        versions[version] = code
        return code

    def running_node(self, file: str, frames: Sequence[FrameType]) -> RunningNode | None:
        """The node at which a thread is that runs a version of this code."""
        code = self._in_file(file)
        return None if code is None else running_node_in(code, frames, self._number, self._name)

    def node_at_line(self, file: str, line: int) -> RunningNode | None:
        """The node that a line of a version of this code runs."""
        code = self._in_file(file)
        index = -1 if code is None else code.lines[line]
        node = self._instructions.all[index].node if index >= 0 else None
        if node is None:
            return None
        return RunningNode(line_of(node), self._number, self._name, node.name)

    def _in_file(self, file: str) -> Code | None:
        """The version with this file name; None if it was replaced."""
        return next((code for code in list(self._versions.values()) if code.file == file), None)

    def _observing(self) -> Observer:
        """The observer of its events, made at the first call."""
        if self._observer is None:
            self._observer = Observer(self._number, self._name, self._region, self._instructions)
        return self._observer

    def _note(
        self, calls: Mapping[int, FusedCall], index: int, start: float, iterations: Sequence[int],
        *outputs: Any,
    ) -> float:  # fmt: skip
        _check()
        call = calls.get(index)
        if call is not None:
            return self._observing().note_call(call, start, iterations, *outputs)
        return self._observing().note(index, start, iterations, *outputs)

    def forget(self, op: str) -> None:
        """Recompile before the next run, if a kernel of that op is called."""
        if op in self._ops:
            with _lock:
                self._versions, self.native, self.trial, self.compiled = {}, None, None, None


def _check(*_: object) -> float:
    """Raise if the step of this thread is to end."""
    check_stopped()
    return 0.0


@lru_cache(maxsize=256)
def _taking(count: int) -> Callable[..., tuple[Any, ...]]:
    """A function that calls another with ``count`` values that are taken one after the other.

    A call with a tuple of the values would hold them until it ends.
    """
    text = f"lambda run, take: run({', '.join(['take()'] * count)})"
    (made, *_) = compile(text, "<taking>", "eval").co_consts
    taking: Callable[..., tuple[Any, ...]] = FunctionType(
        made, {"__name__": "eagerflow.runtime.generated.generated_tier"}
    )
    return taking


_serial: Final = count()
#: held while the kernels of a region's code are replaced
_lock: Final = RLock()
#: without a lock, as each access is one operation of a dictionary
_codes: Final[WeakValueDictionary[int, RegionCode]] = WeakValueDictionary()


def _kernels_changed(op: str) -> None:
    """Let a kernel that was registered count from the next call on, as in eager code."""
    for one in _codes.valuerefs():
        if (code := one()) is not None:
            code.forget(op)


table.on_change(_kernels_changed)


@final
class GeneratedTier:
    """Runs a whole graph in the calling thread, as one generated function.

    Kernels are looked up once; a value is dropped after its last use.

    Args:
        graph: the graph. It must not change afterwards.
        number: of its executable, for events.

    Attributes:
        lanes: for each output its lane, or None for a number.

    Raises:
        GraphError: a node of the graph cannot run.

    >>> from eagerflow.runtime.generated.generated_tier import GeneratedTier
    >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
    >>> GeneratedTier(graph).run([ef.zeros(2).numpy()])
    (array([1., 1.], dtype=float32),)
    """

    __slots__ = ("_region", "lanes")

    detached = None  # it would hold a thread while an op waits

    def __init__(self, graph: Graph, number: int = 0) -> None:
        self._region = RegionCode(graph, number, graph.name)
        self._region.plain()  # so that a graph that cannot run is refused now
        self.lanes: tuple[Lane | None, ...] = self._region.lanes

    @property
    def name(self) -> str:
        """``"native"`` if it calls native kernels, else ``"generated"``."""
        return "generated" if self._region.native is None else "native"

    @property
    def regions(self) -> list[RegionCode]:
        """The generated function alone."""
        return [self._region]

    @property
    def region(self) -> RegionCode:
        """The generated function, with its versions and kernels."""
        return self._region

    @property
    def direct(self) -> Code | None:
        """The function, unless a step has to do more than to call it."""
        region = self._region
        return None if region.mutexes or region.trial is not None else region.plain()

    @property
    def text(self) -> str:
        """The source of the function."""
        return self._region.plain().text

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run a step.

        Raises:
            EagerflowError: the error that eager code would raise, with the line of the node.
            DeadlineError: the step took longer than its `ef.deadline` allowed.
        """
        held = [(mutex, mutex.holds) for mutex in self._region.mutexes]
        try:
            return run_in_time(partial(self._region.run, [*reversed(inputs)]))
        finally:
            for mutex, before in held:  # in case the step failed before it released them
                mutex.drop_held_by(this_thread(), before)
            del inputs


def run_in_time(run: Callable[[], _Result]) -> _Result:
    """Run a step in this thread; its code asks between ops whether to go on (`step_of`).

    Raises:
        DeadlineError: the step took longer than its `ef.deadline` allowed.
    """
    end = deadline.moment() if blocks.count and deadline.active() else None
    around = step_of.stopped

    def stopped() -> bool:
        late = end is not None and monotonic() >= end
        return late or (around is not None and around())

    if end is not None:
        if stopped():
            raise deadline.too_late()
        step_of.stopped = stopped
    token = error_state.set(QUIET)
    try:
        return run()
    except DeadlineError:
        raise
    except CancelledError as error:
        if end is None or monotonic() < end:
            raise
        failed = relocate(deadline.too_late(), error.source)  # the line of the wait or of the call
        for note in getattr(error, "__notes__", ()):
            failed.add_note(note)
    finally:
        error_state.reset(token)
        step_of.stopped = around
    raise failed
