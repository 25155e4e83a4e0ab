"""`Executable`: the one object that runs a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, pairwise
from threading import RLock, get_ident
from time import perf_counter
from typing import Any, Final, final
from weakref import WeakMethod, WeakValueDictionary

from eagerflow import events, settings
from eagerflow.core.tensor import Tensor, make_tensor
from eagerflow.events import AbstractEvent, BriefStep, StepEvent, step_of, told
from eagerflow.events.event_kinds import where
from eagerflow.events.instruments import call_after_changes
from eagerflow.graph.edit import devices_in
from eagerflow.graph.ir import Graph
from eagerflow.graph.signatures import kind_of, late_reads, reads_late
from eagerflow.hardware import Device, Lane, as_device
from eagerflow.hardware.float_warnings import QUIET, error_state
from eagerflow.hardware.kernel_library import in_force
from eagerflow.hardware.long_arrays import expect_long_arrays
from eagerflow.runtime.background_compilation import STEPS_BEFORE_COMPILING, Compilation, Mode
from eagerflow.runtime.generated.failures import failure, note_written
from eagerflow.runtime.generated.generated_tier import GeneratedTier, RegionCode
from eagerflow.runtime.generated.instructions import lane_of
from eagerflow.runtime.generated.program_code import Code
from eagerflow.runtime.generated_or_scheduled import Choice, Trial
from eagerflow.runtime.observed_step import Observation
from eagerflow.runtime.scheduled import transfers as _transfers  # noqa: F401 - Send and Recv
from eagerflow.runtime.scheduled.detached import Result
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from eagerflow.runtime.scheduled.threadless_waits import has_free_waits
from eagerflow.runtime.threads import deadline
from eagerflow.runtime.threads.deadline import blocks
from eagerflow.runtime.tiers import Detach, Detached, Tier
from eagerflow.types import TensorType
from eagerflow_kernels import table

_serial: Final = count(1)
#: whether any thread wants results to be checked; then no step takes the direct call
_verifying = False
#: held for a comparison and an assignment alone; reentrant, as a finaliser may acquire it again
_lock: Final = RLock()
#: by number; without a lock, as each access is one operation of a dictionary
_executables: Final[WeakValueDictionary[int, Executable]] = WeakValueDictionary()


@final
class Executable:
    """A graph made ready to run. A run of it is a *step*.

    Called with raw arrays (the data of tensors) for tensor inputs, and Python numbers for others,
    it returns a tuple of these. Calls from many threads do not disturb each other.

    A step is run by a *tier*. By default an executable takes generated code. Independent parts of
    the graph that take at least 200 us each run at once, in threads, where measurements show that
    to be faster (see `eagerflow.runtime.generated_or_scheduled`); whether there may be such parts
    is decided by the sizes of the first call. The scheduler runs graphs with waiting ops that must
    not keep each other waiting, and steps under a deadline on a device that works asynchronously.
    It also runs steps that no caller waits for, unless the tier itself can.

    Args:
        graph: the graph. It must not change afterwards.
        compile: when the graph is compiled to native code, where native kernels are in force.

    Attributes:
        graph: the graph.
        compilation: makes the native code of the graph; None if it never has any.
        lanes: for each output its lane, or None for a number.
        number: distinguishes this executable from others in events and statistics.
        told_every: one step in this many is reported in brief. Reading the clock twice and keeping
            the times costs a tenth of a step of ten microseconds, so a watcher lets one step stand
            for several.

    Raises:
        GraphError: a node of the graph cannot run.

    >>> from eagerflow.runtime import Executable
    >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
    >>> (y,) = Executable(graph)(ef.zeros(2).numpy())
    >>> y
    array([1., 1.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_chosen", "_compilation", "_compiled", "_device", "_direct",
                 "_late", "_picker", "_steps_left", "_untold", "_waiting", "_wanted", "_where",
                 "graph", "lanes", "number", "told_every")  # fmt: skip

    def __init__(self, graph: Graph, compile: Mode = "off") -> None:
        self.graph = graph
        expect_long_arrays()
        self.number = next(_serial)
        self._device = as_device(None)  # of values without one; another may be current later
        self._where: dict[str, Any] | None = None  # device fields of events, once one was made
        self._wanted: Observation | None = None  # of the next step
        #: whether it reads values of an asynchronous device, for which a deadline counts
        self._late = reads_late_values(graph)
        #: runs steps that hold no thread while they wait
        self._waiting: ScheduledTier | None = None
        #: the default: a tier, or a choice that picks one by the inputs of a step
        self._chosen: Tier | Choice
        self.lanes: tuple[Lane | None, ...]
        #: the regions that native code is made of, and when
        self._compiled: tuple[Sequence[RegionCode], Mode] | None = None
        self._compilation: Compilation | None = None  # once it has begun, or was asked for
        chain, devices = _is_chain(graph), devices_in(graph.nodes)
        if any(isinstance(d, Device) and d.task is not None for d in devices):
            self._chosen, self._late = _tier_of_tasks(graph, self.number), False
            self.lanes = tuple(map(lane_of, graph.outputs))
        elif _are_several(devices, graph):
            self._chosen = self._waiting = ScheduledTier(graph, self.number, partitioned=True)
            self.lanes = self._waiting.lanes
        elif not chain and has_free_waits(graph):
            self._chosen = self._waiting = ScheduledTier(graph, self.number)
            self.lanes = self._waiting.lanes
        else:
            generated = GeneratedTier(graph, self.number)
            self._compiled = [generated.region], compile
            self._chosen = generated if chain else Choice(generated, graph, self.number)
            self.lanes = generated.lanes
        if self._waiting is not None:
            self._compiled = self._waiting.regions, compile
        self.told_every = 1
        self._untold = 0  # steps to come that the last reported step stands for
        self._direct: Code | None = None  # of the tier, where nothing else has to be checked
        #: the tier or choice in use, in a tuple that is replaced when `_direct` may be out of date
        self._picker: tuple[Tier | Choice] = (self._chosen,)
        _executables[self.number] = self
        #: steps until compilation begins; 0 if it has begun, or never will
        self._steps_left = 0
        if self._compiled is not None and compile != "off" and in_force() == "native":
            if compile == "now":
                self.begin_compiling()
            else:
                self._steps_left = STEPS_BEFORE_COMPILING + 1

    @property
    def compilation(self) -> Compilation | None:
        """The compilation to native code; None before it began, or where none is possible."""
        return self._compilation

    def begin_compiling(self) -> Compilation | None:
        """Make native code now or in the background, if that has not begun yet.

        Returns:
            The compilation, which may report why there is no code; None where none is possible.
        """
        with _lock:
            if self._compiled is None or self._compilation is not None:
                return self._compilation
            compilation = self._compilation = Compilation(*self._compiled)
            self._steps_left = 0
        compilation.begin(WeakMethod(self._take))
        return compilation

    def _count_step(self) -> None:
        """Begin to compile if the graph has run often enough."""
        if self._steps_left:
            self._steps_left -= 1
            if not self._steps_left:
                self.begin_compiling()

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """Run a step.

        Raises:
            EagerflowError: the error that eager code would raise, with the line of the node.
            DeadlineError: the step took longer than its `ef.deadline` allowed.
        """
        code, note, every = self._direct, None, 1
        if self._untold and self._wanted is None and code is not None and not blocks.count:
            self._untold -= 1  # first, and without a look at the listeners: most short steps
        elif code is None or AbstractEvent.listeners or (blocks.count and deadline.active()):
            note = StepEvent.brief_alone
            if code is None or note is None or self._wanted is not None or blocks.count:
                return self._step(inputs)
            every = self.told_every
            self._untold = every - 1
        start = 0.0 if note is None else perf_counter()
        token = None if code.quiet else error_state.set(QUIET)
        try:
            return code.run(*inputs)
        except Exception as error:
            failed = failure(code, error)
        except KeyboardInterrupt as error:
            note_written(code, error)
            raise
        finally:
            if token is not None:
                error_state.reset(token)
            if note is not None:
                note((self.number, start, perf_counter(), get_ident(), every))
        try:
            raise failed
        finally:
            del failed, inputs  # an exception whose frame holds them would keep them alive

    @property
    def untold(self) -> int:
        """The number of steps to come that the last reported one stands for."""
        return self._untold

    def apply(self, values: Sequence[Any]) -> list[Any]:
        """Run a step on tensors and numbers; the results are tensors and numbers, too."""
        return self.wrap(self(*[x._data if type(x) is Tensor else x for x in values]))

    def wrap(self, raw: Sequence[Any]) -> list[Any]:
        """The raw results of a step as tensors and numbers."""
        return [
            y if lane is None else make_tensor(y, lane)
            for y, lane in zip(raw, self.lanes, strict=True)
        ]

    def detached(self, done: Callable[[Result], object], runner: str = "") -> Detached:
        """A step without a waiting caller, not begun yet.

        The tier runs the step if it needs no waiting thread for it, else the scheduler does.

        Args:
            done: called once, in another thread, with a function that gives the outputs or raises
                the error of the step.
            runner: the name of the runner that the step is for, in events.
        """
        self._count_step()
        tier, make = self._detaching()
        event, seen, brief = None, None, StepEvent.brief
        if brief is not None:
            seen = None if self._wanted is None else self._take_observation()
            if seen is None and self._untold:
                self._untold -= 1
            else:
                done = self._noted(brief, done, seen)
        if StepEvent.listeners:
            event = self._event(tier)
            event.thread, event.caller, event.runner = 0, 0, runner
        number = events.next_step() if event is None else event.step
        around, step_of.observation = step_of.observation, seen
        try:
            return make(done, event, number=number, runner=runner)
        finally:
            step_of.observation = around

    def _noted(
        self, note: Callable[[BriefStep], object], done: Callable[[Result], object],
        seen: Observation | None,
    ) -> Callable[[Result], object]:  # fmt: skip
        """``done``, preceded by a note of how long the step that begins now took."""
        start, every = perf_counter(), 1
        if seen is None and not StepEvent.listeners:
            every = self.told_every
            self._untold = every - 1

        def noted(result: Result) -> object:
            if seen is None:
                note((self.number, start, perf_counter(), 0, every))
            else:
                seen.end(start, perf_counter())
            return done(result)

        return noted

    def observe(self, observation: Observation | None) -> Observation | None:
        """Observe the next step, or a later one, while an instrument hears of steps in brief.

        Args:
            observation: receives the times or values; used once. None withdraws a request.

        Returns:
            The observation that it replaces, which now is not made.
        """
        with _lock:
            before, self._wanted = self._wanted, observation
        return before

    def _take_observation(self) -> Observation | None:
        with _lock:
            observation = self._wanted
            if observation is not None and observation.passes_over():
                return None
            self._wanted = None
        return observation

    def _detaching(self) -> tuple[Tier, Detach]:
        """The tier for steps that no caller waits for, and the function that makes them."""
        (picker,) = self._picker
        if not isinstance(picker, Choice) and picker.detached is not None:
            return picker, picker.detached
        tier = self._scheduled()
        return tier, tier.detached

    def _scheduled(self) -> ScheduledTier:
        """The tier whose steps hold no thread while they wait."""
        tier = self._waiting
        if tier is None:  # two threads may make one each
            tier = self._waiting = ScheduledTier(self.graph, self.number)
        return tier

    @property
    def tier(self) -> Tier:
        """The tier that runs the next step, as far as that does not depend on its inputs.

        Another tier can be set at any time: a step that has begun keeps the tier that it has.
        ``del executable.tier`` leaves the choice to the executable again.
        """
        (picker,) = self._picker
        return picker.last if isinstance(picker, Choice) else picker

    @tier.setter
    def tier(self, tier: Tier) -> None:
        self._take(tier)

    @tier.deleter
    def tier(self) -> None:
        self._take(self._chosen)

    @property
    def runs_kernels(self) -> bool:
        """Whether the tier of the next step calls kernels that its regions were compiled to."""
        return any(region.native is not None for region in self.tier.regions)

    def _take(self, picker: Tier | Choice | None = None) -> None:
        """Use ``picker`` from the next step on; None keeps the present one and asks it again."""
        with _lock:
            (now,) = self._picker
            self._picker = (now if picker is None else picker,)
            self._direct = None

    @property
    def text(self) -> str:
        """The generated functions."""
        return self.tier.text

    def _step(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run a step for which there is more to do than to call the code."""
        self._count_step()
        if self._compilation is not None and self._compilation.failure:
            self._compilation.tell()
        if self._late and deadline.active():
            return self._run(self._scheduled(), inputs)
        picked = self._picker
        (picker,) = picked
        if _verifying:
            asked = settings.current()
            if asked.verify and in_force() == "native":
                return self._verified(picker, inputs)
            if asked.check_nan:
                return self._checked("finite", picker, inputs)
        if not isinstance(picker, Choice):
            self._shorten(picked, picker)
            return self._run(picker, inputs)
        tier = picker.pick(inputs)
        if picker.settled and not isinstance(tier, Trial):
            self._shorten(picked, tier)
        return self._run(tier, inputs)

    def _verified(self, picker: Tier | Choice, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run a step in native and plain code, and compare; wait until native code is there."""
        compilation = self.begin_compiling()
        if compilation is not None:
            compilation.wait()
        return self._checked("compared", picker, inputs)

    def _checked(self, what: str, picker: Tier | Choice, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run a step in code that checks each op."""
        tier = picker.pick(inputs) if isinstance(picker, Choice) else picker
        around, step_of.verifies = step_of.verifies, what
        try:
            return self._run(tier, inputs)
        finally:
            step_of.verifies = around

    def _shorten(self, picked: tuple[Tier | Choice], tier: Tier) -> None:
        """Let later steps call the code of the tier directly, unless another was set meanwhile."""
        if _verifying or self._steps_left:
            return
        direct = tier.direct  # generating the code may run any other code meanwhile
        if direct is not None and direct is not self._direct:
            with _lock:
                if self._picker is picked:
                    self._direct = direct

    def _run(self, tier: Tier | Trial, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run a step, and report it to the listeners."""
        around, frames, outer = step_of.step, step_of.frames, step_of.observation
        event = self._event(tier) if StepEvent.listeners else None
        step_of.step = events.next_step() if event is None else event.step
        step_of.frames = ()
        note, wanted = StepEvent.brief, self._wanted
        seen = None if note is None or wanted is None else self._take_observation()
        step_of.observation = seen
        start = 0.0 if note is None else perf_counter()
        try:
            if event is None:
                return tier.run(inputs)
            with told(event):
                return tier.run(inputs)
        finally:
            step_of.step, step_of.frames, step_of.observation = around, frames, outer
            if seen is not None:
                seen.end(start, perf_counter())
            elif note is not None:
                note((self.number, start, perf_counter(), get_ident(), 1))

    def _event(self, tier: Tier | Trial) -> StepEvent:
        """The event of a step that this thread calls for."""
        if self._where is None:
            values = [v for v in self.graph.values() if isinstance(v.type, TensorType)]
            devices = dict.fromkeys(str(as_device(v.device or self._device)) for v in values)
            self._where = where(tuple(devices))
        name = self.graph.name
        return StepEvent(
            name=name or "graph", graph=name, **self._where, executable=self.number,
            tier=tier.name, step=events.next_step(), parent=step_of.step,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<executable of {self.graph!r}>"


def _no_tasks(graph: Graph, number: int) -> Tier:
    """Placeholder that `run_tasks_by` replaces."""
    raise AssertionError("no function is registered that runs graphs on tasks")


_tier_of_tasks: Callable[[Graph, int], Tier] = _no_tasks


def run_tasks_by(make: Callable[[Graph, int], Tier]) -> None:
    """Register the function of a higher layer that makes the tier of graphs with remote devices.

    Args:
        make: gets a graph with a node on a task's device, and the number of its executable.
    """
    global _tier_of_tasks
    _tier_of_tasks = make


def find_executable(number: int) -> Executable | None:
    """The executable of this number, if it is still alive."""
    return _executables.get(number)


def _are_several(devices: set[Any], graph: Graph) -> bool:
    """Whether there are several devices, those of the inputs included."""
    return len(devices | {v.device for v in graph.inputs} - {None}) > 1


def spans_devices(graph: Graph) -> bool:
    """Whether a graph, with its subgraphs, has values on several devices."""
    return _are_several(devices_in(graph.nodes), graph)


def reads_late_values(graph: Graph) -> bool:
    """Whether the control of a graph depends on values of an asynchronous device."""
    return any(late_reads(node) or reads_late(node) for node in graph.nodes)


def _is_chain(graph: Graph) -> bool:
    """Whether each node needs the node before it, so that no two can run or wait at once."""
    nodes = [node for node in graph.nodes if kind_of(node.op) != "constant"]
    return all(
        before in node.control_inputs or any(v.node is before for v in node.inputs)
        for before, node in pairwise(nodes)
    ) and all(_is_chain(inner) for node in nodes for _, inner in node.subgraphs())


def _look_again(*changed: Any) -> None:
    """Have all executables ask for their tier again, as its dependencies have changed."""
    for one in _executables.valuerefs():
        if (executable := one()) is not None:
            executable._take()


def _settings_change(old: settings.Settings, new: settings.Settings) -> None:
    """Note the checks that are wanted; the faster tier also depends on the number of threads."""
    global _verifying
    _verifying = new.verify or new.check_nan
    known = old.threads, old.verify, old.check_nan
    if known != (new.threads, new.verify, new.check_nan):
        _look_again()


def _report_next() -> None:
    """Have all executables report their next step, as an instrument has come or gone."""
    for one in _executables.valuerefs():
        if (executable := one()) is not None:
            executable._untold = 0


call_after_changes(_report_next)
settings.on_change(_settings_change)
table.on_change(_look_again)  # after `RegionCode`, which has forgotten its code by then
