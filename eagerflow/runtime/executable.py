"""`Executable`: the one object that runs a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, pairwise
from threading import RLock, get_ident
from time import perf_counter
from typing import Any, Final, Protocol, final
from weakref import WeakMethod, WeakValueDictionary

from eagerflow import events, settings
from eagerflow.core.tensor import Tensor, make_tensor
from eagerflow.events import AbstractEvent, BriefStep, StepEvent, step_of, told
from eagerflow.events.event_kinds import where
from eagerflow.graph.edit import devices_in
from eagerflow.graph.ir import Graph
from eagerflow.graph.signatures import kind_of, late_reads, reads_late
from eagerflow.hardware import Device, Lane, as_device
from eagerflow.hardware.float_warnings import QUIET, error_state
from eagerflow.hardware.kernel_library import in_force
from eagerflow.runtime.background_compilation import STEPS_BEFORE_COMPILING, Compilation, Mode
from eagerflow.runtime.generated.codegen import Code
from eagerflow.runtime.generated.failures import failure, note_written
from eagerflow.runtime.generated.generated_tier import GeneratedTier, RegionCode
from eagerflow.runtime.generated.instructions import lane_of
from eagerflow.runtime.generated_or_scheduled import Choice, Trial
from eagerflow.runtime.observed_step import Observation
from eagerflow.runtime.scheduled import transfers as _transfers  # noqa: F401 - Send and Recv
from eagerflow.runtime.scheduled.detached import Result
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from eagerflow.runtime.scheduled.threadless_waits import has_free_waits
from eagerflow.runtime.threads import deadline
from eagerflow.runtime.threads.deadline import blocks
from eagerflow.types import TensorType
from eagerflow_kernels import table

_serial: Final = count(1)
#: whether any thread wants results to be checked; then no step takes the short way
_verifying = False
#: held for a comparison and an assignment alone: code that a finaliser runs may ask for it
_lock: Final = RLock()
#: by number; it needs no lock, as each access of it is one operation of a dictionary
_executables: Final[WeakValueDictionary[int, Executable]] = WeakValueDictionary()


class Detached(Protocol):
    """A step without a waiting caller."""

    @property
    def thread(self) -> int:
        """The thread that works for it now, 0 for none."""

    def begin(self, inputs: Sequence[Any]) -> None:
        """Begin it, on raw arrays and numbers."""

    def cancel(self, reason: str) -> None:
        """End it soon."""


class Detach(Protocol):
    """Makes a step without a waiting caller."""

    def __call__(
        self, done: Callable[[Result], object], event: StepEvent | None, *, number: int,
        runner: str,
    ) -> Detached:  # fmt: skip
        """The step, to be begun.

        Args:
            done: called once, in another thread, with a function that gives the outputs or raises
                the error of the step.
            event: of the step, if it has a listener, which the step begins and ends.
            number: of the step, for events within it.
            runner: the name of the runner that it is for, in events.
        """


class Tier(Protocol):
    """A way to run a graph."""

    @property
    def name(self) -> str:
        """What kind of way it is."""

    @property
    def direct(self) -> Code | None:
        """Code that a step without an observer may call at once if nothing can stop it, or None."""

    @property
    def detached(self) -> Detach | None:
        """How it runs a step that no caller waits for; None leaves these to the scheduler."""

    @property
    def text(self) -> str:
        """What it runs, as readable text."""

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run a step on raw arrays and numbers, in the thread that asks for it."""


@final
class Executable:
    """A graph made ready to run. One run of it is a *step*.

    Called with raw arrays (what tensors hold) for the inputs that are tensors, and Python numbers
    for the others, it gives a tuple of the same. Calls from many threads do not disturb each other.

    What runs a step is a *tier*. By itself an executable takes generated code. Parts of the graph
    that take at least 200 us each and do not need each other run at once, in threads, where that
    turns out to be faster (see `eagerflow.runtime.generated_or_scheduled`); whether there may be
    such parts is decided by the sizes of the first call. Where ops wait that must not keep each
    other waiting, or under a deadline for a device whose work is done later, it takes the
    scheduler, as for steps that no caller waits for, unless the tier runs those.

    Args:
        graph: the graph. It must not change afterwards.
        compile: when it is compiled to native code, where native kernels are in force.

    Attributes:
        graph: the graph.
        compilation: makes its native code; None if it never has any.
        lanes: for each output its lane, or None for a number.
        number: tells events and statistics of this executable from those of others.
        told_every: of how many steps one is told in brief. To read the clock twice and keep that
            takes a twentieth of a step of ten microseconds: so a watcher lets one of these stand
            for several.

    Raises:
        GraphError: something in the graph cannot run.

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
        self.number = next(_serial)
        self._device = as_device(None)  # of values that do not say; another may be current later
        self._where: dict[str, Any] | None = None  # what events say of devices, once one did
        self._wanted: Observation | None = None  # of the next step
        #: whether it reads values of a device that takes its time, so that a deadline counts
        self._late = reads_late_values(graph)
        #: runs steps that hold no thread while they wait
        self._waiting: ScheduledTier | None = None
        #: a tier, or what picks one for the inputs of a step: what there is if none was set
        self._chosen: Tier | Choice
        self.lanes: tuple[Lane | None, ...]
        #: what native code is made of
        self._compiled: tuple[Sequence[RegionCode], Mode] | None = None
        self._compilation: Compilation | None = None  # once there is one, or somebody asked
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
        self._untold = 0  # steps that the last one that was told stands for, and that have not run
        self._direct: Code | None = None  # of the tier, where nothing else has to be checked
        #: what is taken, in a tuple that is replaced when what was learnt of it may be wrong
        self._picker: tuple[Tier | Choice] = (self._chosen,)
        _executables[self.number] = self
        #: with which step from now on it begins to be compiled; 0 if it has, or never will
        self._steps_left = 0
        if self._compiled is not None and compile != "off" and in_force() == "native":
            if compile == "now":
                self.begin_compiling()
            else:
                self._steps_left = STEPS_BEFORE_COMPILING + 1

    @property
    def compilation(self) -> Compilation | None:
        """Makes native code of the graph; None before it began, or where nothing can be made."""
        return self._compilation

    def begin_compiling(self) -> Compilation | None:
        """Make native code now or in the background, if that has not begun yet.

        Returns:
            What makes it, or tells why there is none; None where none can be.
        """
        with _lock:
            if self._compiled is None or self._compilation is not None:
                return self._compilation
            compilation = self._compilation = Compilation(*self._compiled)
            self._steps_left = 0
        compilation.begin(WeakMethod(self._take))
        return compilation

    def _count_step(self) -> None:
        """Compile if it has run often enough."""
        if self._steps_left:
            self._steps_left -= 1
            if not self._steps_left:
                self.begin_compiling()

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """Run it.

        Raises:
            EagerflowError: what eager code would raise, with the line of the node.
            DeadlineError: it took longer than its `ef.deadline` allowed.
        """
        code, note, every = self._direct, None, 1
        if code is None or AbstractEvent.listeners or (blocks.count and deadline.active()):
            note = StepEvent.brief_alone
            if code is None or note is None or self._wanted is not None or blocks.count:
                return self._step(inputs)
            if self._untold > 0:
                self._untold -= 1
                note = None
            else:
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

    def apply(self, values: Sequence[Any]) -> list[Any]:
        """Run it on tensors and numbers; gives the same."""
        return self.wrap(self(*[x._data if type(x) is Tensor else x for x in values]))

    def wrap(self, raw: Sequence[Any]) -> list[Any]:
        """What a step gave as tensors and numbers."""
        return [
            y if lane is None else make_tensor(y, lane)
            for y, lane in zip(raw, self.lanes, strict=True)
        ]

    def detached(self, done: Callable[[Result], object], runner: str = "") -> Detached:
        """A step without a waiting caller, to be begun.

        The tier runs it if it can do without a thread that waits, else the scheduler.

        Args:
            done: called once, in another thread, with a function that gives the outputs or raises
                the error of the step.
            runner: the name of the runner that it is for, in events.
        """
        self._count_step()
        tier, make = self._detaching()
        event, seen, brief = None, None, StepEvent.brief
        if brief is not None:
            seen = None if self._wanted is None else self._take_observation()
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
        """``done``, which notes before how long a step took that begins now, or what was seen."""
        start = perf_counter()

        def noted(result: Result) -> object:
            if seen is None:
                note((self.number, start, perf_counter(), 0, 1))
            else:
                seen.end(start, perf_counter())
            return done(result)

        return noted

    def observe(self, observation: Observation | None) -> Observation | None:
        """Observe the next step that begins while an instrument hears of steps in brief.

        Args:
            observation: takes what is seen; it is used once. None if none is wanted any more.

        Returns:
            The one that it takes the place of, which was to be made and now is not.
        """
        with _lock:
            before, self._wanted = self._wanted, observation
        return before

    def _take_observation(self) -> Observation | None:
        with _lock:
            observation, self._wanted = self._wanted, None
        return observation

    def _detaching(self) -> tuple[Tier, Detach]:
        """The tier for steps that no caller waits for, and how it makes them."""
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
        """What runs the next step, as far as that does not depend on its inputs.

        Another one can be set at any time: a step that has begun goes on with the one it has.
        ``del executable.tier`` leaves it to the executable again.
        """
        (picker,) = self._picker
        return picker.last if isinstance(picker, Choice) else picker

    @tier.setter
    def tier(self, tier: Tier) -> None:
        self._take(tier)

    @tier.deleter
    def tier(self) -> None:
        self._take(self._chosen)

    def _take(self, picker: Tier | Choice | None = None) -> None:
        """Take this from the next step on; the same, asked again, if it is not given."""
        with _lock:
            (now,) = self._picker
            self._picker = (now if picker is None else picker,)
            self._direct = None

    @property
    def text(self) -> str:
        """The generated functions."""
        return self.tier.text

    def _step(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run it where there is more to do than to call the code."""
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
        """Run a step in both tiers, which are compared; it waits until there are both."""
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
        """Let later steps call the code of the tier at once, unless another one is taken by now."""
        if _verifying or self._steps_left:
            return
        direct = tier.direct  # to generate it may run any code meanwhile
        if direct is not None and direct is not self._direct:
            with _lock:
                if self._picker is picked:
                    self._direct = direct

    def _run(self, tier: Tier | Trial, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run a step, and tell of it."""
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
        """The event of a step that is asked for in this thread."""
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
    """What `run_tasks_by` replaces."""
    raise AssertionError("devices of tasks are made by what runs graphs on them")


_tier_of_tasks: Callable[[Graph, int], Tier] = _no_tasks


def run_tasks_by(make: Callable[[Graph, int], Tier]) -> None:
    """Let a function from above make the tier of graphs that use devices of task servers.

    Args:
        make: gets a graph with a node on one, and the number of its executable.
    """
    global _tier_of_tasks
    _tier_of_tasks = make


def find_executable(number: int) -> Executable | None:
    """The executable of this number, if it lives."""
    return _executables.get(number)


def _are_several(devices: set[Any], graph: Graph) -> bool:
    """Whether there are several devices, those of the inputs included."""
    return len(devices | {v.device for v in graph.inputs} - {None}) > 1


def spans_devices(graph: Graph) -> bool:
    """Whether a graph, with its subgraphs, has values on several devices."""
    return _are_several(devices_in(graph.nodes), graph)


def reads_late_values(graph: Graph) -> bool:
    """Whether what runs next depends on values of a device that takes its time."""
    return any(late_reads(node) or reads_late(node) for node in graph.nodes)


def _is_chain(graph: Graph) -> bool:
    """Whether each node needs the one before it: nothing can run, or wait, beside another."""
    nodes = [node for node in graph.nodes if kind_of(node.op) != "constant"]
    return all(
        before in node.control_inputs or any(v.node is before for v in node.inputs)
        for before, node in pairwise(nodes)
    ) and all(_is_chain(inner) for node in nodes for _, inner in node.subgraphs())


def _look_again(*changed: Any) -> None:
    """Ask all tiers again, as what they depend on has changed."""
    for one in _executables.valuerefs():
        if (executable := one()) is not None:
            executable._take()


def _settings_change(old: settings.Settings, new: settings.Settings) -> None:
    """Which way to run is the faster one depends on the number of threads."""
    global _verifying
    _verifying = new.verify or new.check_nan
    known = old.threads, old.verify, old.check_nan
    if known != (new.threads, new.verify, new.check_nan):
        _look_again()


settings.on_change(_settings_change)
table.on_change(_look_again)  # after `RegionCode`, which has forgotten its code by then
