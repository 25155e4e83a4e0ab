"""What a trace has to do with the world outside of its function: inputs, guards, what is put back.

While the function is traced, the numbers that it reads from outside are replaced by symbolic ones;
afterwards all is as it was. What the function stores outside becomes part of each run.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, final

from eagerflow.autograph.conversion.convert import branches, call, why_not
from eagerflow.autograph.failures.handlers import missed
from eagerflow.autograph.flow.builtins import printed
from eagerflow.autograph.values.lists import as_lists
from eagerflow.capture.border import CapturedInput, Store
from eagerflow.capture.bytecode import facts_of
from eagerflow.capture.changes import Mutation, Rebinding, Watch, substituted, watching
from eagerflow.capture.collect import collect
from eagerflow.capture.findings import asks_types, is_operand
from eagerflow.capture.guards import Guards
from eagerflow.capture.library import may_look_at_types
from eagerflow.capture.paths import GONE, AccessPath, Root
from eagerflow.capture.reachable import CACHED
from eagerflow.capture.reads import Finding, Read
from eagerflow.core import tree
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.core.texts import holds_placeholder
from eagerflow.dims.asked import ask_in_keys
from eagerflow.errors import TraceError
from eagerflow.graph.ir import Value
from eagerflow.source import Source
from eagerflow.tracing.arrays import TracedArray, can_be_watched, is_numpy
from eagerflow.tracing.numbers import TracedNumber
from eagerflow.tracing.tracer import Tracer

if TYPE_CHECKING:
    from eagerflow.function.tracing import TraceRequest


def identifier(name: str) -> str:
    """``name`` as the name of an input: ``self.cfg.lr`` becomes ``self_cfg_lr``."""
    return re.sub(r"\W+", "_", name).strip("_") or "x"


@final
class Outside:
    """The outside of one trace; a context manager around the run of the function.

    Args:
        request: what is traced.
        tracer: the trace.

    Raises:
        TraceError: with ``strict=True``, if the function does what a trace would drop or freeze.

    Attributes:
        branches: whether code has control flow of Python.
        converts: whether the function is converted.
        asks_types: whether code looks at the types of objects, so that numbers have to be numbers.
        values: the captured inputs as they were when the function ran.
    """

    def __init__(self, request: TraceRequest, tracer: Tracer) -> None:
        self._tracer = tracer
        self._request = request
        roots = [(leaf.name, leaf.value) for leaf in request.call.leaves if leaf.kind == "static"]
        self.reads = collect(request.fn, roots)
        self._guards = Guards(self.reads)  # of what is there before the function runs
        self._notes: list[str] = []
        self._prints: list[Finding] = []  # which may print in each run, as is seen when they do
        cached = any(type(held.value) is CACHED for held in self.reads.objects)  # results are noted
        self.branches = any(branches(site.code) for site in self.reads.sites)
        #: functions of Python's library that need the numbers themselves get them
        exact = any(map(may_look_at_types, self._reached()))
        self.converts = self.branches or cached or exact
        for finding in self.reads.findings:
            if self.branches and finding.what == "print":
                self._prints.append(finding)
            else:
                self._report(finding)
        #: the numbers that may differ from call to call: what they are in the graph, and where
        self._numbers: list[tuple[Value, Read]] = []
        self._substitutes: list[tuple[AccessPath, Any]] = []
        self.asks_types = asks_types(self.reads)
        self._tensors = {id(r.value): r for r in self.reads.tensors}
        self._data = {id(r.value._data): r for r in self.reads.tensors}
        #: arrays that NumPy may compute with: whether it does is seen when the function runs
        self._stand_ins: dict[int, TracedArray] = {}
        for read in self.reads.of_kind("content"):
            aliases = [r.path for r in self.reads.of_kind("alias") if r.value is read.path]
            paths = [read.path, *aliases]
            if can_be_watched(read.value) and all(is_operand(p, self.reads) for p in paths):
                array = TracedArray.of(read.value, read.path.described)
                self._stand_ins[id(read)] = array
                self._substitutes += [(path, array) for path in paths]
                self._data[id(read.value)] = read
        #: arguments that are read from outside as well: which leaf, and where
        self.shared: list[tuple[int, AccessPath]] = []
        self._kept: list[tuple[AccessPath, Any]] = []  # what stays as the function left it
        self._described: list[str] = []
        self._watch: Watch | None = None
        self._unproven: list[Read] = []
        self.values: list[Any] = []

    def connect(self, inputs: Sequence[Any]) -> None:
        """Prepare the substitutes for values outside while the function runs.

        Args:
            inputs: what the leaves of the arguments are in the trace.
        """
        for read in self.reads.numbers:
            name = identifier(read.path.text)
            number = self._tracer.add_number(read.value, name, captured=True)
            self._numbers.append((number.value, read))
            if self.asks_types:
                number.fix("type()")
            else:
                self._substitutes.append((read.path, number))
        for i, (leaf, handle) in enumerate(zip(self._request.call.leaves, inputs, strict=True)):
            if type(handle) is Tensor and leaf.array is None:
                self._share(i, leaf.value, handle)

    def _share(self, leaf: int, value: Tensor, handle: Tensor) -> None:
        """Substitute the handle of the argument for a tensor outside that is an argument, too."""
        for read in self.reads.of_kind("tensor", "alias"):
            candidate = read.value.get() if read.kind == "alias" else read.value
            if candidate is value and not read.path.fixed:
                self.shared.append((leaf, read.path))
                self._substitutes.append((read.path, handle))

    def converted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with Python's control flow on tensors as that of graphs, if it has any."""
        if not self.converts:
            return function
        converted: Callable[..., Any] = call(function)
        return converted

    def _reached(self) -> Iterator[Any]:
        """What code reaches by name, and modules that it imports itself."""
        yield from (read.value for read in self.reads.reads)
        for site in self.reads.sites:
            for name, _, _ in facts_of(site.code).imports:
                yield sys.modules.get(name)

    # --- while the function runs ---

    def __enter__(self) -> None:
        self._stack = ExitStack()
        if self.reads.can_change:
            self._watch = self._stack.enter_context(watching(self.reads))
        if self._substitutes:
            self._stack.enter_context(substituted(self._substitutes))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tracer.restore_updated()
        self._stack.__exit__(kind, value, trace)
        if kind is None:
            for path, new in self._kept:
                path.set(new)

    def stores(self, make: Callable[..., Store]) -> Iterator[Store]:
        """What is put back after each run; to be asked for while the trace is alive.

        Args:
            make: ``make(kind, target, value, outside)`` gives a store.
        """
        for handle, *_ in self._tracer.updated.values():
            now = Tensor()
            now._data, now._lane, now._mark = handle._data, handle._lane, None
            read = self._tensors.get(id(handle))
            if read is None:
                self._doubt("a tensor from outside is updated in a way that cannot be repeated")
            else:
                yield make("update", read.path, now, self)
        if self._watch is None:
            return
        for _, container in self.reads.containers:
            ask_in_keys(container, within=False)
        self._unproven = self._watch.unproven()
        changes, mutations = self._watch.changes()
        for change in changes:
            if self._is_own(change.path, change.new):
                continue
            new = _to_store(change, change.new)
            store = None if new is GONE else self._store(make, "set", change.path, new)
            if store is not None:
                yield store
            else:
                self._doubt(f"{change}, only while tracing")
                self._kept.append((change.path, new))
        for mutation in mutations:
            if is_numpy(mutation.value):
                raise TraceError(
                    "a traced function writes into an array of NumPy from outside",
                    given=mutation.text.partition(":")[0],
                    hint="keep it in an ef.Variable, which each run can assign, or work on a "
                    "tensor: ef.asarray(...)",
                    source=mutation.source,
                )
            appended = _to_store(mutation, mutation.appended)
            store = (
                None if appended is None else self._store(make, "append", mutation.path, appended)
            )
            if store is not None:
                yield store
            else:
                self._doubt(str(mutation))
                self._watch.kept.add(id(mutation.value))

    def _store(
        self, make: Callable[..., Store], kind: str, path: AccessPath | Root, value: Any
    ) -> Store | None:
        """A store; None if what it does cannot be repeated after each run."""
        try:
            return make(kind, path, value, self)
        except (TraceError, TypeError):
            return None

    def _is_own(self, path: AccessPath, value: Any) -> bool:
        """Whether the new value at an access path is the substitute that the trace put there."""
        return type(value) in (Tensor, TracedArray, TracedNumber) and any(
            value is substitute and path.location().identity == own.location().identity
            for own, substitute in self._substitutes
        )

    def _doubt(self, text: str) -> None:
        """Note something that happens only while tracing."""
        if self._request.strict:
            raise TraceError(f"{self._request.name}: {text}", given="strict=True")
        self._notes.append(text)

    # --- results ---

    def path_of(self, x: Tensor) -> AccessPath | None:
        """Where a tensor from outside is that a result is, unchanged or updated."""
        read = self._tensors.get(id(x))
        return None if read is None else read.path

    def path_of_array(self, x: Any) -> AccessPath | None:
        """Where an array of NumPy from outside is that a result is, or stands for."""
        known = [(r.path, r.value) for r in self.reads.of_kind("content")]
        return next((path for path, y in (*self._substitutes, *known) if y is x), None)

    def is_array(self, x: Any) -> bool:
        """Whether ``x`` is an array of NumPy."""
        return hasattr(type(x), "__array_interface__") and not isinstance(x, AbstractArray)

    def knows(self, x: Any) -> bool:
        """Whether ``x`` is an object from outside."""
        return any(x is read.value for read in self.reads.reads) or any(
            x is holder.value
            for group in (self.reads.objects, self.reads.containers, self.reads.classes)
            for holder in group
        )

    def name_of(self, value: Value) -> str | None:
        """What a number from outside is called."""
        return next((r.path.described for v, r in self._numbers if v is value), None)

    def described(self) -> list[str]:
        """What is read from outside and may differ from call to call, in words."""
        return self._described

    def _report(self, finding: Finding) -> None:
        if self._request.strict:
            raise TraceError(
                f"{self._request.name}: {finding.what} {finding.why}",
                given="strict=True",
                hint=finding.hint,
                source=finding.source,
            )
        self._notes.append(str(finding))

    def notes(self) -> list[str]:
        """What is not as in eager mode."""
        for finding in self._prints:
            if not printed(self._tracer, finding.source):
                self._report(finding)
        for text in missed.get(self._tracer, ()):
            self._doubt(text)
        arrays = [leaf.name for leaf in self._request.call.leaves if is_numpy(leaf.array)]
        for code, load in self.reads.loads.get(("global", "type"), ()) if arrays else ():
            reason = why_not(code)
            if reason is not None:
                self._doubt(
                    f"type() of {arrays[0]} is not numpy's, as {reason}, at "
                    f"{Source(code, load.offset)}; write isinstance(...)"
                )
        return list(dict.fromkeys(self._notes))

    # --- inputs and guards ---

    def close(
        self, static: dict[int, Any]
    ) -> tuple[list[tuple[Value | None, CapturedInput]], list[tuple[Value, Any]], Guards]:
        """What is read from outside, the values that are constants, and the guards.

        What is read is an input of the graph, or None where Python looked at its type alone.

        Args:
            static: the numbers that became static, by the id of their values.
        """
        for read in self._unproven:
            self._guards.add(read)
        inputs: list[tuple[Value | None, CapturedInput]] = list(self._close_numbers(static))
        constants: list[tuple[Value, Any]] = []
        guards = self._guards
        seen: set[int] = set()
        for capture in self._tracer.captures.values():
            origin = self._read_of(capture.handle)
            frozen = origin is not None and self._was_looked_at(origin)
            if origin is None or frozen:
                constants.append((capture.value, capture.handle))
                if not capture.fresh and not frozen:
                    where = f" at {capture.source}" if capture.source is not None else ""
                    self._doubt(f"a tensor from outside is frozen: it cannot be watched{where}")
                continue
            seen.add(id(origin))
            if origin.kind == "content":
                guards.relax(origin.path, origin.value)
            capture.value.label = self._tracer.graph.unique(identifier(origin.path.text))
            inputs.append((capture.value, self._captured(origin, capture.handle)))
            self.values.append(capture.handle)
        self._described = [f"{one.path.described}: {one.text}" for _, one in inputs]
        idle = [r for r in self.reads.tensors if id(r) not in seen]
        inputs += [(None, self._captured(r, r.value, used=False)) for r in idle]
        guards.capture([one.path for _, one in inputs])
        return inputs, constants, guards

    def _close_numbers(self, static: dict[int, Any]) -> Iterator[tuple[Value, CapturedInput]]:
        """The numbers that are inputs; those that became static are guarded by their value."""
        used = self._used()
        for value, read in self._numbers:
            if id(value) in static:
                self._guards.specialise(read.path, read.value)
            elif value in used:
                self.values.append(read.value)
                yield value, CapturedInput(read.path, None, (), type(read.value).__name__)

    def _captured(self, read: Read, handle: Tensor, *, used: bool = True) -> CapturedInput:
        data = handle._data if id(handle._data) in self._tracer.looked_at else None
        foreign = read.kind == "content"
        return CapturedInput(
            read.path, handle._lane, handle._data.shape, str(handle.type),
            foreign=foreign, used=used, data=None if foreign else data,
        )  # fmt: skip

    def _was_looked_at(self, read: Read) -> bool:
        """Whether NumPy computed with an array, so that its content counts."""
        stand_in = self._stand_ins.get(id(read))
        return stand_in is not None and stand_in.looked

    def _read_of(self, handle: Tensor) -> Read | None:
        """Where the value of a concrete tensor was read."""
        return self._data.get(id(handle._data))

    def _used(self) -> set[Value]:
        graph = self._tracer.graph
        return {v for node in graph.nodes for v in node.inputs} | set(graph.outputs)


def _to_store(what: Rebinding | Mutation, value: Any) -> Any:
    """What is kept outside by a store; a text that shows what only the graph knows is refused."""
    if any(map(holds_placeholder, tree.leaves(value))):
        raise TraceError(
            "a traced function keeps a text that shows a value",
            given=str(what),
            hint="keep the tensor or the number, and make the text of it outside",
        )
    return kept_lists(value, what.path.text, what.source)


def kept_lists(value: Any, text: str, source: Source | None) -> Any:
    """What is kept outside, with Python's lists in the place of those of the graph.

    Args:
        value: a tree.
        text: where it is kept.
        source: the line that puts it there.

    Raises:
        TraceError: one has a length that depends on data.
    """
    return as_lists(
        value,
        f"{text} keeps a list of which only the graph knows how long it is",
        "keep ef.stack(list), or return it",
        source,
    )
