"""`Lookup`: the cache entry for a call of a traced function, found or made."""

from __future__ import annotations

import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from time import perf_counter
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final
from weakref import WeakSet, WeakValueDictionary, ref

from eagerflow.capture.static_keys import static_key
from eagerflow.errors import RetraceWarning, TraceError, TraceWarning
from eagerflow.events import TraceEvent, told
from eagerflow.function.cache_entry import CacheEntry, uses
from eagerflow.function.explanations import TraceRecord
from eagerflow.function.lookup.call_arguments import Call, Signature
from eagerflow.function.lookup.retrace_reasons import Reason, reason_of, warning_due
from eagerflow.function.lookup.shortcuts import Shortcuts
from eagerflow.function.lookup.trace_cache import Cache
from eagerflow.function.new_traces.make_entry import TraceRequest, make_entry
from eagerflow.function.placing.placer import Placer
from eagerflow.graph.edit import devices_in
from eagerflow.graph.ir import Graph
from eagerflow.hardware import Device, on_replaced
from eagerflow.placement.rules import Rules
from eagerflow.runtime.background_compilation import Mode
from eagerflow.source import capture, cell_name

if TYPE_CHECKING:
    from eagerflow.placement.automatic.requests import Request

_FIRST: Final = Reason("the first call")
#: maximum number of records of traces that a function keeps, the latest ones
_RECORDS: Final = 1024
#: one trace at a time: values that the function reads from outside are replaced during it
_tracing: Final = threading.RLock()
#: lookups of the traced functions made last by name, so that a cell run again finds its traces
_known: Final[WeakValueDictionary[tuple[str, str], Lookup]] = WeakValueDictionary()
_all: Final[WeakSet[Lookup]] = WeakSet()


class Options(NamedTuple):
    """Options of a traced function: the arguments of `eagerflow.trace` with these names."""

    static: tuple[str, ...]
    compile: Mode
    strict: bool
    max_traces: int | None


@final
class Lookup:
    """The cache entries of one traced function, and the choice of one for a call.

    Args:
        fn: the Python function.
        name: the name of the traced function.
        options: the options of `eagerflow.trace`.

    Attributes:
        signature: parses calls.
        shortcuts: of calls whose form is known.
        cache: the cache entries.
        records: of the latest traces.
        placer: places traces by the rules of the function, None before it had any.
    """

    def __init__(self, fn: Callable[..., Any], name: str, options: Options) -> None:
        self.fn = fn
        self.name = name
        self.options = options
        self.signature = Signature(fn, options.static)
        self.shortcuts = Shortcuts()
        self.cache = Cache(self.shortcuts)
        self.records: deque[TraceRecord] = deque(maxlen=_RECORDS)
        self.placer: Placer | None = None
        self._traced = 0  # number of traces made
        self._culprits: Counter[str] = Counter()  # of traces after the first
        self._told: set[str] = set()
        self._unrepeated: set[str] = set()
        # first None: once `_inherit` has registered the lookup, another thread may read it
        self._legacy: _Legacy | None = None
        self._legacy = self._inherit()
        self._moved = ""  # text on moved state or replaced devices that made traces be forgotten
        self._forgotten: list[Graph] = []  # graphs of forgotten traces, until there is a new one
        _all.add(self)

    def find(self, call: Call, *, runs: bool = True) -> tuple[CacheEntry, Sequence[Any]]:
        """The trace for a call, made if there is none, and its captured values.

        Args:
            call: the call.
            runs: whether the call will run, so that effects which no run can repeat happen once.
        """
        match = self._existing(call)
        if match is not None:
            return match
        with _tracing:
            if self._legacy is not None:
                self._adopt()
            match = self._existing(call)  # another thread may have made it meanwhile
            return match if match is not None else self._trace(call, runs)

    def _existing(self, call: Call) -> tuple[CacheEntry, Sequence[Any]] | None:
        group = self.cache.group(call)
        for i, entry in enumerate(group.entries if group is not None else ()):
            if entry.takes(call) and entry.shares(call):
                captured = entry.guards.read()
                if captured is not None:
                    entry.used = next(uses)
                    if i and group is not None:
                        self.cache.prefer(group, entry)
                    return entry, captured
        return None

    def _trace(self, call: Call, runs: bool) -> tuple[CacheEntry, Sequence[Any]]:
        reason = _FIRST
        if self.records or len(self.cache):
            reason = reason_of(call, self.cache)
        if self._moved:
            reason, self._moved = Reason(self._moved), ""
        if self.options.max_traces is not None and self._traced >= self.options.max_traces:
            raise TraceError(
                f"{self.name} needs more than {self.options.max_traces} traces",
                given=reason.text,
                expected=f"max_traces={self.options.max_traces} to be enough",
                hint="see f.explain() for the reasons",
            )
        if not TraceEvent.listeners:
            return self._trace_for(call, reason, runs)
        with told(TraceEvent(name=self.name, reason=reason.text, source=capture())):
            return self._trace_for(call, reason, runs)

    def _trace_for(
        self, call: Call, reason: Reason, runs: bool
    ) -> tuple[CacheEntry, Sequence[Any]]:
        group = self.cache.ensure(call.key)
        start = perf_counter()
        request = TraceRequest(
            self.fn, self.name, self.signature, call, group.widen(call), self.options.strict,
            reason.text, None if self.placer is None else self.placer.place, runs,
            self.options.compile,
        )  # fmt: skip
        try:
            entry, first = make_entry(request)
        except BaseException:
            self.cache.tidy(call)
            raise
        if entry.failure:
            self.cache.tidy(call)
            self._tell(entry.record.notes, TraceWarning)
            return entry, first
        self._forgotten.clear()
        entry.record.seconds = perf_counter() - start
        self.records.append(entry.record)
        self._traced += 1
        if reason.culprit:
            self._tell_retrace(reason, entry.record)
        self._tell(entry.record.notes, TraceWarning)
        self.cache.add(call, entry)
        entry.guards.read()  # the first check decides which captured tensors are one object
        return entry, first

    def _tell_retrace(self, reason: Reason, record: TraceRecord) -> None:
        """Warn of a difference that made many traces."""
        self._culprits[reason.culprit] += 1
        warning = warning_due(self.name, reason, record, self._culprits[reason.culprit] + 1)
        if warning:
            warn(warning, RetraceWarning)

    def _tell(self, notes: Iterable[str], kind: type[TraceWarning]) -> None:
        """Warn of each note, once."""
        for note in notes:
            if note not in self._told:
                self._told.add(note)
                warn(f"{self.name}: {note}", kind)

    def tell_left(self, entry: CacheEntry) -> None:
        """Warn of effects for which the function itself runs, from the second call on."""
        texts = entry.record.unrepeated
        again = [f"runs as Python at each call: {t}" for t in texts if t in self._unrepeated]
        self._unrepeated.update(texts)
        self._tell(again, RetraceWarning)

    def place(self, rules: Rules | None) -> None:
        """Place present and later traces by other rules.

        Raises:
            PlacementError: present traces cannot be placed so. Nothing is changed.
        """
        with _tracing:
            self.placer = self.placer or Placer(self.name)
            self.placer.change(rules, list(self.cache.entries()), self._forgotten)

    def decide(self, request: Request) -> None:
        """Let automatic placement place present and later traces.

        Raises:
            PlacementError: a trace fits nowhere. Nothing is changed.
        """
        with _tracing:
            self.placer = self.placer or Placer(self.name)
            self.placer.decide(request, list(self.cache.entries()))

    def forget_moved(self, states: Collection[Any], text: str) -> None:
        """Forget the traces that use state which was moved.

        Args:
            states: the state that was moved.
            text: description of the move, for the reason of the next trace.
        """
        with _tracing:
            stale = self._forget(lambda entry: _uses(entry, states), text)
            if not len(self.cache):  # rules are checked against them, as there are no others
                self._forgotten += [entry.graph for entry in stale]

    def forget_devices(self, devices: Collection[Device], text: str) -> None:
        """Forget the traces that use devices which were replaced.

        Args:
            devices: the devices.
            text: description of the replacement, for the reason of the next trace.
        """
        gone = set(devices)
        self._forgotten.clear()  # they may be on these devices
        self._forget(lambda entry: not gone.isdisjoint(_devices_of(entry)), text)

    def _forget(self, is_stale: Callable[[CacheEntry], bool], text: str) -> list[CacheEntry]:
        with _tracing:
            stale = self.cache.forget(is_stale)
            if stale:
                self._moved = text
            return stale

    def latest(self) -> CacheEntry:
        """The trace used last."""
        latest = max(self.cache.entries(), key=lambda entry: entry.used, default=None)
        if latest is None:
            raise TraceError(f"{self.name} was not traced yet", hint="call it first")
        return latest

    def clear(self) -> None:
        """Forget all traces."""
        with _tracing:
            self.cache.clear()
            self.shortcuts.clear()
            self.records.clear()
            self._forgotten.clear()
            self._traced = 0
            self._culprits.clear()
            self._told.clear()
            self._unrepeated.clear()

    # --- cells that run again ---

    def _inherit(self) -> _Legacy | None:
        """The traces of the earlier function of this name, if it had the same code."""
        key = (str(getattr(self.fn, "__module__", "")), str(getattr(self.fn, "__qualname__", "")))
        with _tracing:
            before = _known.get(key)
            _known[key] = self
            if before is None or before.options != self.options:
                return None
            if not _same_definition(before.fn, self.fn):
                return None
            if before._legacy is not None and not len(before.cache):
                return before._legacy
            return _Legacy(ref(before), before.cache)

    def _adopt(self) -> None:
        """Take over the inherited traces if their function is gone.

        A function that is still alive keeps them: a factory makes many functions of one code.
        """
        legacy, self._legacy = self._legacy, None
        if legacy is None or legacy.owner() is not None:
            return
        for key, group in legacy.cache.groups():
            for entry in group.entries:
                if not entry.makes_resources:
                    entry.guards.rebase(self.fn)
                    if entry.guards.check():
                        if self.placer is not None:
                            self.placer.adopt(entry)
                        elif entry.rules is not None:
                            entry.replace(None, None)
                        self.cache.take(key, group, entry)
                        self.records.append(entry.record)


class _Legacy(NamedTuple):
    """Traces that a function may take over.

    Attributes:
        owner: the lookup of the function that made them.
        cache: the traces.
    """

    owner: ref[Lookup]
    cache: Cache


def _same_definition(a: Any, b: Any) -> bool:
    """Whether two plain functions have the same code and the same defaults."""
    if not isinstance(a, FunctionType) or not isinstance(b, FunctionType):
        return False
    return (
        a.__code__ == b.__code__
        and a.__globals__ is b.__globals__
        and static_key(a.__defaults__ or ()) == static_key(b.__defaults__ or ())
        and static_key(a.__kwdefaults__ or {}) == static_key(b.__kwdefaults__ or {})
    )


def _uses(entry: CacheEntry, states: Collection[Any]) -> bool:
    """Whether a trace reads or changes some state."""
    for resource in entry.graph.resources.values():
        if not {resource, *getattr(resource, "states", ())}.isdisjoint(states):
            return True
    return False


def _devices_of(entry: CacheEntry) -> set[Any]:
    """The devices of a trace, as traced and as placed by rules."""
    graphs = (entry.graph, entry.optimised)
    inputs = {value.device for graph in graphs for value in graph.inputs}
    return inputs.union(*[devices_in(graph.nodes) for graph in graphs])


def forget_moved(states: Collection[Any], text: str) -> None:
    """Let all traced functions forget the traces that use state which was moved."""
    for lookup in list(_all):
        lookup.forget_moved(states, text)


def _forget_replaced(devices: Collection[Device]) -> None:
    kind = next(iter(devices)).kind
    for lookup in list(_all):
        lookup.forget_devices(devices, f"the backend of {kind} was registered again")


on_replaced(_forget_replaced)


def warn(text: str, kind: type[TraceWarning]) -> None:
    """Warn at the user's own line."""
    source = capture(2)
    warnings.warn_explicit(
        text, kind, "<unknown>" if source is None else cell_name(source.file),
        0 if source is None else source.line,
    )  # fmt: skip
