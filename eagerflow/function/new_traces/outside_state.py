"""Interface of a trace with state outside of its function: captured inputs, guards, stores.

While the function is traced, the numbers that it reads from outside are replaced by symbolic ones;
afterwards the state is restored. Stores of the function to the outside become part of each run.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from eagerflow.autograph.conversion.convert import does_more_in_graphs, why_not
from eagerflow.autograph.failures.handlers import missed
from eagerflow.autograph.values.lists import note_lists
from eagerflow.capture.access_paths import AccessPath, Location, Root, instance_dict
from eagerflow.capture.argument_containers import ask_in_keys, classes_in, is_container
from eagerflow.capture.bytecode import facts_of
from eagerflow.capture.changes import OutsideChange, Watch, put_back, substituted
from eagerflow.capture.findings import is_operand
from eagerflow.capture.guards.guard_choice import collect
from eagerflow.capture.guards.guards import Guards
from eagerflow.capture.inputs_and_stores import CapturedInput, Output, Store
from eagerflow.capture.reads import Finding, Holder, Read
from eagerflow.core.execute import execute
from eagerflow.core.op import get_op
from eagerflow.core.tensor import Tensor
from eagerflow.dims.number_stand_ins import NANS
from eagerflow.errors import TraceError
from eagerflow.function.new_traces.outputs import to_store
from eagerflow.function.new_traces.reached_prints import ReachedPrints
from eagerflow.graph.ir import Value
from eagerflow.source import Source
from eagerflow.tracing.number_conditions import Condition
from eagerflow.tracing.numpy_arrays import TracedArray, can_be_watched, is_numpy
from eagerflow.tracing.tracer import Tracer

if TYPE_CHECKING:
    from eagerflow.function.new_traces.make_entry import TraceRequest

_T = TypeVar("_T")
#: types of static arguments that are compared by value
_VALUES: Final = (list, tuple, dict, set, deque)


def identifier(name: str) -> str:
    """``name`` as the name of an input: ``self.cfg.lr`` becomes ``self_cfg_lr``."""
    return re.sub(r"\W+", "_", name).strip("_") or "x"


@final
class Outside:
    """The outside of one trace, in which the function runs.

    Args:
        request: the request for the trace.
        tracer: the trace.

    Raises:
        TraceError: with ``strict=True``, the function has effects that a trace would drop, or
            values that it would freeze.

    Attributes:
        tracer: the trace.
        converts: whether the function is converted.
        described: descriptions of the values read from outside that may differ from call to call.
        values: the captured inputs as they were when the function ran.
        unrepeated: changes of the function outside that no store can repeat.
        called: the functions with a cache that it called, with the arguments.
        prints: the prints in its code, which may turn out to happen in each run, or not at all.
    """

    def __init__(self, request: TraceRequest, tracer: Tracer) -> None:
        self.tracer = tracer
        self._request = request
        roots = [(leaf.name, leaf.value) for leaf in request.call.leaves if leaf.kind == "static"]
        self._by_value = [x for _, x in roots if isinstance(x, _VALUES)]
        classes = set() if request.call.is_flat else set(classes_in(request.call.values))
        self.reads = collect(request.fn, roots, classes)
        self._guards = Guards(self.reads)  # of the state before the function runs
        self._notes: list[str] = []
        self.prints = ReachedPrints()
        branches = any(facts_of(site.code).branches for site in self.reads.sites)
        branches |= self.reads.asks_identity  # of stand-ins for numbers
        self.converts = branches or any(map(does_more_in_graphs, self._reached()))
        tracer.whole.outside = self
        for finding in self.reads.findings:
            if self.converts and finding.what == "print":
                self.prints.places.append(finding)
            else:
                self._report(finding)
        #: the numbers that may differ from call to call: value in the graph, and read
        self._numbers: list[tuple[Value, Read]] = []
        self._substitutes: list[tuple[AccessPath, Any]] = []
        self._tensors: dict[int, Read] = {}
        self._data: dict[int, Read] = {}
        for read in self.reads.tensors:
            self._know(read)
        #: arrays that NumPy may compute with: the run of the function shows whether it does
        self._stand_ins: dict[int, TracedArray] = {}
        for read in self.reads.of_kind("content"):
            aliases = [r.path for r in self.reads.of_kind("alias") if r.value is read.path]
            paths = [read.path, *aliases]
            if can_be_watched(read.value) and all(is_operand(p, self.reads) for p in paths):
                array = TracedArray.of(read.value, read.path.described)
                self._stand_ins[id(read)] = array
                self._substitutes += [(path, array) for path in paths]
                self._data[id(read.value)] = read
        #: arguments that are read from outside as well: index of the leaf, and access path
        self.shared: list[tuple[int, AccessPath]] = []
        self._of_two_ways: list[AccessPath] = []  # the same, at paths that cannot be set
        self.described: list[str] = []
        self._watches: list[Watch] = []
        self._unproven: list[Read] = []
        self.values: list[Any] = []
        self.unrepeated: list[str] = []
        self.called: set[Any] = set()

    def _know(self, read: Read) -> None:
        """Note the read of a tensor, which the trace recognises by its data.

        If two tensors have one array, as `copy.copy` makes them, the second gets a view of it: they
        are two inputs, and may differ later.
        """
        x = read.value
        if self._data.get(id(x._data), read).value is not x:
            x._data = execute(get_op("reshape"), [x], {"shape": x._data.shape})._data
        self._tensors[id(x)] = self._data[id(x._data)] = read

    def why_static(self, number: Any) -> str:
        """The reason for which a number has no stand-in in the trace; empty if it has one.

        Containers treat a NaN as equal to itself only if it is the same object.
        """
        if self.reads.asks_types:
            return "type()"
        if number == number:
            return ""
        leaves = self._request.call.leaves
        numbers = [r.value for r in self.reads.numbers]
        numbers += [leaf.value for leaf in leaves if leaf.kind == "number"]
        hashed = [h.value for h in self.reads.containers if isinstance(h.value, (set, dict))]
        again = sum(x is number for x in chain(numbers, *hashed)) > 1
        return "its being a NaN in two places" if again or number in NANS else ""

    def connect(self, inputs: Sequence[Any]) -> None:
        """Prepare the substitutes for values outside while the function runs.

        Args:
            inputs: the leaves of the arguments as they are in the trace.
        """
        for read in self.reads.numbers:
            name = identifier(read.path.text)
            number = self.tracer.add_number(read.value, name, captured=True)
            self._numbers.append((number.value, read))
            why = self.why_static(read.value)
            if why:
                number.fix(why)
            else:
                self._substitutes.append((read.path, number))
        arguments = [
            (i, leaf.value, handle)
            for i, (leaf, handle) in enumerate(zip(self._request.call.leaves, inputs, strict=True))
            if type(handle) is Tensor and leaf.array is None
        ]
        if arguments:
            outside = self._tensors_outside()
            for i, value, handle in arguments:
                for path in outside.get(id(value), ()):
                    self._share(i, path, handle)

    def _tensors_outside(self) -> dict[int, list[AccessPath]]:
        """The paths of the tensors outside, by their ids."""
        paths: dict[int, list[AccessPath]] = {}
        for read in self.reads.of_kind("tensor", "alias"):
            value = read.value.get() if read.kind == "alias" else read.value
            if type(value) is Tensor:
                paths.setdefault(id(value), []).append(read.path)
        return paths

    def _share(self, leaf: int, path: AccessPath, handle: Tensor) -> None:
        """Substitute the handle of an argument for the same tensor outside."""
        if path.fixed:
            self._of_two_ways.append(path)
        else:
            self.shared.append((leaf, path))
            self._substitutes.append((path, handle))

    def refuse_shared(self, *, updates: bool) -> None:
        """Refuse an argument that is also at a path that cannot be set, if that makes a difference.

        Args:
            updates: whether an argument is updated in place.

        Raises:
            TraceError: the tensor at the path would not be updated, or would be another object.
        """
        if self._of_two_ways and (updates or self.reads.asks_identity or self.tracer.updated):
            raise TraceError(
                f"{self._request.name} updates or compares a tensor that is an argument and is "
                "also read from outside, where it cannot be replaced",
                given=f"{self._of_two_ways[0].text} as an argument",
                expected="a tensor in a name, an attribute of an object, a list or a dict",
                hint="keep it there and not in a tuple, a class or a default, or pass a copy",
            )

    def _reached(self) -> Iterator[Any]:
        """The function, the values that its code reaches by name, and the modules it imports."""
        yield self._request.fn
        yield from (read.value for read in self.reads.reads)
        for site in self.reads.sites:
            for name, _ in facts_of(site.code).imports:
                yield sys.modules.get(name)

    # --- while the function runs ---

    def run(self, call: Callable[[], _T]) -> _T:
        """``call()`` with stand-ins in place; then the state is restored, whatever ended the call.

        Ctrl-C may come at any time, also while state is restored.
        """
        # items first, and restored last: their keys may have numbers in attributes
        self._substitutes.sort(key=lambda one: one[0].how != "item")
        self._originals = [(path, path.get()) for path, _ in self._substitutes]
        try:
            for path, value in self._substitutes:
                path.set(value)
            self._watches.append(Watch(self.reads))  # after the stand-ins: they are no changes
            result = call()
            self._restore()
        except BaseException:
            self._restore()
            raise
        return result

    def _restore(self) -> None:
        """Restore updated tensors, substitutes and changed state."""
        self.tracer.restore_updated()
        # first and last: keys are looked up by attributes as they are outside of the trace
        put_back(self._substitutes, self._originals)
        for watch in self._watches:
            watch.restore()
        put_back(self._substitutes, self._originals)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Restore the original values of substitutes within the block."""
        with substituted(self._originals):
            yield

    def changes(self) -> Iterator[OutsideChange]:
        """The changes that the function has made so far."""
        for watch in self._watches:
            yield from watch.changes()

    def rely(self, read: Read) -> None:
        """Add a read, with its guard, found while the function ran."""
        self.reads.reads.append(read)
        self._guards.add(read)
        if read.kind == "tensor":
            self._know(read)
        elif read.kind in ("array", "content"):
            self._data[id(read.value)] = read

    def read_at(self, location: Location) -> None:
        """Rely on the value at a location for which there is no read, as code may only set it."""
        for watch in self._watches:
            read = watch.read_at(location)
            if read is None:
                continue
            known = next((t.path for t in self.reads.tensors if t.value is read.value), None)
            self.rely(read if known is None else Read(read.path, "alias", known))

    def look_into(self, value: Any, text: str) -> None:
        """Collect the reads from an object that was found while the function ran."""
        if self.knows(value):
            return
        below = collect(self._request.fn, [(text, value)]).below(value)
        for read in below.reads:
            self.rely(read._replace(kind="value") if read.kind == "number" else read)
        self.reads.containers += below.containers
        self.reads.objects += below.objects
        self._watches.append(Watch(below))
        note_lists(self.tracer, [one.value for one in below.containers])

    def stores(self, make: Callable[..., Store]) -> Iterator[Store]:
        """The stores after each run; to be called while the trace is alive.

        Args:
            make: ``make(kind, target, value)`` returns a store.
        """
        for handle, *_ in self.tracer.updated.values():
            now = Tensor()
            now._data, now._lane, now._mark = handle._data, handle._lane, None
            read = self._tensors.get(id(handle))
            if read is None:
                self._note("a tensor is updated that no access path reaches", self.unrepeated)
            else:
                yield make("update", read.path, now)
        for _, container in self.reads.containers:
            ask_in_keys(container, within=False)
        changes = list(self.changes())
        for watch in self._watches:
            self._unproven += watch.unproven(changes)
        for change in changes:
            new = to_store(change)
            ask_in_keys(new)
            try:
                store = None if change.kind == "memory" else make(change.kind, change.path, new)
            except (TraceError, TypeError):
                store = None
            if store is not None and not self._is_of_call(change.path):
                yield store
            else:
                if change.kind == "memory" and is_numpy(change.new):
                    raise _written(change)
                self._note(str(change), self.unrepeated)

    def _is_of_call(self, path: AccessPath | Root) -> bool:
        """Whether a path begins at a static argument that is another object in other calls."""
        start = path.root.get()
        return any(start is x for x in self._by_value)

    # --- results ---

    @property
    def outputs(self) -> dict[int, Output]:
        """The origins of tensors, arrays and containers outside as results, by their ids."""
        arrays = [(r.path, r.value) for r in self.reads.of_kind("content")]
        arrays = [*(one for one in self._substitutes if type(one[1]) is TracedArray), *arrays]
        tensors = [(read.path, read.value) for read in self._tensors.values()]
        held = [
            one
            for one in (*self.reads.containers, *self.reads.objects)
            if is_container(one.value) and not self._is_of_call(one.path)
        ]
        for path, x in self.reads.objects:  # vars(x)
            own = instance_dict(x)
            if own is not None and not self._is_of_call(path):
                held.append(Holder(AccessPath(path, "attribute", "__dict__", "", True), own))
        return {id(x): Output("outside", path) for path, x in (*reversed(arrays), *tensors, *held)}

    def origin_of(self, handle: Tensor) -> Read | None:
        """The read of the tensor outside that holds a value; None if there is not exactly one."""
        reads = [read for read in self._tensors.values() if read.value._data is handle._data]
        return reads[0] if len(reads) == 1 else None

    def knows(self, x: Any) -> bool:
        """Whether ``x`` is an object from outside."""
        return any(x is read.value for read in self.reads.reads) or any(
            x is holder.value
            for group in (self.reads.objects, self.reads.containers, self.reads.classes)
            for holder in group
        )

    def path_of(self, value: Value) -> AccessPath | None:
        """The access path of a number from outside."""
        return next((r.path for v, r in self._numbers if v is value), None)

    def name_of(self, value: Value) -> str | None:
        """The name of a number from outside."""
        path = self.path_of(value)
        return None if path is None else path.described

    def is_of_layer(self, value: Value) -> bool:
        """Whether a number from outside is an attribute of one of eagerflow's layers."""
        path: AccessPath | Root | None = self.path_of(value)
        while isinstance(path, AccessPath) and path.how == "item":  # of a tuple: kernel_size[0]
            path = path.parent
        owner = type(path.parent.get()) if isinstance(path, AccessPath) else type(None)
        return owner.__module__.startswith("eagerflow.nn.")

    def _report(self, finding: Finding) -> None:
        wrong = f"{finding.what} {finding.why}"
        self._note(str(finding), self._notes, wrong, hint=finding.hint, source=finding.source)

    def note_unrepeated(self, text: str, source: Source | None) -> None:
        """Note an effect that no run can repeat, so that the function itself runs in such calls."""
        self._note(text if source is None else f"{text} at {source}", self.unrepeated)

    def _note(self, text: str, to: list[str], wrong: str = "", **more: Any) -> None:
        """Note a difference from eager mode, or refuse it."""
        if self._request.strict:
            name = self._request.name
            raise TraceError(f"{name}: {wrong or text}", given="strict=True", **more)
        to.append(text)

    def reader_named_in(self, reason: str) -> str:
        """The line that reads the value with which a reason for a trace begins, if it does."""
        described = reason.partition(": was ")[0]
        if described == reason:
            return ""
        paths = (read.path for read in self.reads.reads if read.path.described == described)
        return next((str(line) for line in map(self.reads.line_of, paths) if line is not None), "")

    def notes(self) -> list[str]:
        """The differences from eager mode."""
        for finding in self.prints.once(self.tracer):
            self._report(finding)
        for text in missed.get(self.tracer, ()):
            self._note(text, self._notes)
        arrays = [leaf.name for leaf in self._request.call.leaves if leaf.is_numpy]
        for code, load in self.reads.loads.get(("global", "type"), ()) if arrays else ():
            reason = why_not(code)
            if reason is not None:
                self._note(
                    f"type() of {arrays[0]} is not numpy's, as {reason}, at "
                    f"{Source(code, load.offset)}; write isinstance(...)", self._notes,
                )  # fmt: skip
        return list(dict.fromkeys(self._notes))

    # --- inputs and guards ---

    def keep(self, conditions: Iterable[Condition]) -> list[Condition]:
        """Guard conditions on numbers from outside; return the conditions with arguments."""
        others = []
        for condition in conditions:
            if int in map(type, condition.sources):  # an argument
                others.append(condition)
            else:
                self._guards.add(Read(condition.sources[0], "decided", condition))
        return others

    def close(
        self, static: dict[int, Any]
    ) -> tuple[list[tuple[Value | None, CapturedInput]], list[tuple[Value, Any]], Guards]:
        """The captured inputs, the values that become constants, and the guards.

        A captured input has a value of the graph, or None where Python looked at its type alone.

        Args:
            static: the numbers that became static, by the id of their values.
        """
        for read in self._unproven:
            self._guards.add(read)
        inputs: list[tuple[Value | None, CapturedInput]] = list(self._close_numbers(static))
        constants: list[tuple[Value, Any]] = []
        guards = self._guards
        seen: set[int] = set()
        for capture in self.tracer.captures.values():
            origin = self._read_of(capture.handle)
            frozen = origin is not None and self._was_looked_at(origin)
            if origin is None or frozen:
                constants.append((capture.value, capture.handle))
                if not capture.fresh and not frozen:
                    where = f" at {capture.source}" if capture.source is not None else ""
                    self._note(
                        f"a tensor from outside is frozen: it cannot be watched{where}; pass it as "
                        "an argument, make it an ef.Variable, or read it in code of your own",
                        self._notes,
                    )
                continue
            seen.add(id(origin))
            if origin.kind == "content" and origin.path.how != "call":
                guards.add(Read(origin.path, "array", origin.value))  # an input now
            capture.value.label = self.tracer.graph.unique(identifier(origin.path.text))
            inputs.append((capture.value, self._captured(origin, capture.handle)))
            self.values.append(capture.handle)
        self.described = [f"{one.path.described}: {one.text}" for _, one in inputs]
        idle = [r for r in self.reads.tensors if id(r) not in seen]
        inputs += [(None, self._captured(r, r.value, used=False)) for r in idle]
        for _, one in inputs:
            if one.lane is not None:
                guards.add(Read(one.path, "input", one))
        guards.capture([one.path for _, one in inputs if one.used])
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
        data = handle._data if id(handle._data) in self.tracer.whole.looked_at else None
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
        """The read of a concrete tensor's value."""
        return self._data.get(id(handle._data))

    def _used(self) -> set[Value]:
        graph = self.tracer.graph
        return {v for node in graph.nodes for v in node.inputs} | set(graph.outputs)


def _written(change: OutsideChange) -> TraceError:
    return TraceError(
        "a traced function writes into an array of NumPy from outside",
        given=change.text.partition(":")[0],
        hint="keep it in an ef.Variable, which each run can assign, or work on a "
        "tensor: ef.asarray(...)",
        source=change.source,
    )
