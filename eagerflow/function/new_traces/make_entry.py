"""Makes a cache entry: runs the function once with symbolic arguments, and finishes the graph.

Reads and stores outside: `function/new_traces/outside_state.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, final

import eagerflow.function.new_traces.lru_caches  # noqa: F401 - it registers their wrapper
from eagerflow import settings
from eagerflow.autograph.conversion.convert import call
from eagerflow.autograph.flow.unrolled_loops import LARGE, loops, unrolled_loops
from eagerflow.autograph.operators import leave_to_graph, result_with_lists
from eagerflow.autograph.values.lists import grown_in, note_lists
from eagerflow.capture.access_paths import AccessPath
from eagerflow.capture.argument_containers import (
    Apart,
    ArgumentContainers,
    ask_in_keys,
    is_container,
)
from eagerflow.capture.inputs_and_stores import Output, Pattern, Store
from eagerflow.control.structured import changes_state
from eagerflow.core import tree
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.errors import CancelledError, LeakedTensorError, TraceError, relocate
from eagerflow.function.cache_entry import CacheEntry
from eagerflow.function.explanations import LeafRecord, TraceRecord
from eagerflow.function.lookup.call_arguments import Call, Leaf, Signature
from eagerflow.function.new_traces.leftover_handles import FirstRun
from eagerflow.function.new_traces.outputs import LocalNames, Outputs, kept_lists
from eagerflow.function.new_traces.outside_state import Outside, identifier
from eagerflow.function.new_traces.referrers import Holders
from eagerflow.function.new_traces.rows_of_results import warn_of_rows
from eagerflow.graph.edit import substitute_sizes
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.name_scopes import belonging, current_forward, current_scope
from eagerflow.graph.verify import verify
from eagerflow.placement.apply_rules import Placement
from eagerflow.placement.rules import Rules
from eagerflow.runtime.background_compilation import Mode
from eagerflow.source import Source
from eagerflow.tracing.number_conditions import Condition, Decisions
from eagerflow.tracing.numbers import NumberRoot
from eagerflow.tracing.numpy_arrays import TracedArray
from eagerflow.tracing.tracer import Tracer

#: the names of symbolic sizes, in the order of their use; u1 is a dtype in texts
_LETTERS: Final = "nmpqrstvwy"


@final
@dataclass(frozen=True)
class TraceRequest:
    """A request for a trace.

    Attributes:
        fn: the function.
        name: of the graph.
        signature: of the function.
        call: the arguments.
        sizes: for each tensor among them its shape, None for a size that is to be symbolic.
        strict: whether effects or values that a trace would drop or freeze are errors.
        reason: the reason for the trace, as text.
        place: places the graph, None if there are no rules.
        runs: whether the call that traces runs the graph.
        compile: when the graph is compiled.
    """

    fn: Callable[..., Any]
    name: str
    signature: Signature
    call: Call
    sizes: Sequence[Pattern]
    strict: bool
    reason: str
    place: Callable[[Graph], tuple[Rules | None, Placement | None]] | None
    runs: bool = True
    compile: Mode = "off"


def make_entry(request: TraceRequest) -> tuple[CacheEntry, Sequence[Any]]:
    """Trace the function and make its graph ready to run; return the captured values as well.

    Raises:
        TraceError: a trace cannot do what the function does.
    """
    tracer = Tracer(request.name)
    tracer.whole.decisions = Decisions()
    maker = _Maker(request, tracer)
    try:
        entry, values = maker.entry()
        entry.first = maker.first_run(entry)
    except BaseException:
        tracer.whole.handed_out.clear()  # its tensors get no value: their use is an error
        raise
    return entry, values


@final
class _Maker:
    """Makes one entry."""

    def __init__(self, request: TraceRequest, tracer: Tracer) -> None:
        self.request = request
        self.tracer = tracer
        self.leaves = request.call.leaves
        self.axes: dict[str, str] = {}  # symbolic size -> description of its axis
        #: for each leaf its symbolic handle or number, or the static value
        self.inputs: list[Any] = []
        #: the data of each handle before the function ran
        self.before: list[Any] = []
        self.graph_leaves: list[int] = []
        self.containers = ArgumentContainers((), (), ())
        self.outputs: Outputs | None = None  # once the function has run

    def entry(self) -> tuple[CacheEntry, Sequence[Any]]:
        """The entry, and the captured inputs as they were when the function ran."""
        request, tracer = self.request, self.tracer
        outside = Outside(request, tracer)
        self._make_inputs(outside)
        outside.connect(self.inputs)
        arguments = request.signature.rebuild(request.call, self.inputs)
        if not request.call.is_flat:
            static = [treedef is None for treedef in request.call.treedefs]
            self.containers = ArgumentContainers(request.call.names, arguments, static)
        tracer.whole.stand_ins = (*self.inputs, *self.containers.values)
        args, kwargs = request.signature.apply(request.call, arguments)
        known = [held.value for held in outside.reads.containers]
        known += self.containers.values
        if known:
            note_lists(tracer, known)
        try:
            entry = outside.run(lambda: tracer.run(lambda: self._traced(args, kwargs, outside)))
        finally:
            tracer.forget()
        return entry, outside.values

    def _traced(self, args: Any, kwargs: Any, outside: Outside) -> CacheEntry:
        """Run the function, and make the entry of its result and effects."""
        request, tracer, whole = self.request, self.tracer, self.tracer.whole
        # converted only here, where stand-ins replace the arguments of a partial
        function = call(request.fn) if outside.converts else request.fn
        names = LocalNames(function, outside.prints.codes)
        outside.prints.ran = names.ran
        with self._scopes():
            try:
                with names:
                    result = self._result(function, args, kwargs)
                if whole.foreign is not None:
                    raise whole.foreign
            except Exception as error:
                if whole.foreign is not None and error is not whole.foreign:
                    raise whole.foreign from error  # a failed thread may be the cause
                if isinstance(error, (TraceError, LeakedTensorError, CancelledError)):
                    raise  # an error of tracing alone, or a deadline ended the call
                if not (request.runs and self._has_acted(outside)):
                    raise
                entry = self._failed(error, outside)
            else:
                entry = self._finish(result, outside, names.returned or self._first_line)
                if whole.raises is not None and request.runs and self._has_acted(outside):
                    entry.failure = "its graph raised an exception"
        entry.locals = names.values(tracer)
        if whole.structures is not None and not entry.failure:
            whole.structures.settle(outside.reads)
            entry.guards.rely(whole.structures)
        return entry

    def _result(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The result of the function; None if it raised an exception that the graph raises."""
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            if not leave_to_graph(error, self.tracer):
                raise
            return None
        return result_with_lists(result, function) if self.tracer in grown_in else result

    def _has_acted(self, outside: Outside) -> bool:
        """Whether the function has had an effect, in Python or in the graph."""
        changes = chain(self._updated_handles(), self.containers.changes(), outside.changes())
        return (
            changes_state(self.tracer.graph)
            or bool(self.tracer.updated)
            or next(changes, None) is not None
        )

    def _failed(self, failure: Exception, outside: Outside) -> CacheEntry:
        """The entry for a call that the function itself is to run, up to its exception."""
        entry = CacheEntry()
        entry.failure = f"its trace raised {failure!r}"
        entry.record = TraceRecord(self.request.name, self.request.reason)
        entry.record.notes += outside.notes()
        return entry

    def first_run(self, entry: CacheEntry) -> FirstRun | None:
        """The first run, if objects hold tensors or numbers of the trace; else None.

        Raises:
            TraceError: a holder cannot hold the value.
        """
        request, tracer = self.request, self.tracer
        near = [request.fn, [leaf.value for leaf in self.leaves]]
        handles = () if self.outputs is None else self.outputs.handles
        # the maker must not be a holder itself
        self.inputs, self.before, self.outputs = [], [], None
        self.containers = ArgumentContainers((), (), ())
        if not tracer.is_held:
            tracer.whole.handed_out.clear()
            return None
        first = FirstRun(tracer, Holders(near), handles)
        wrong = next(iter(first.texts), None)
        if wrong is not None and request.strict:
            raise TraceError(f"{request.name}: {wrong}", given="strict=True")
        if wrong is not None and entry.is_left:
            raise TraceError(
                f"{request.name}: {wrong}, or take it back to let the function itself do the call",
                given=entry.failure or entry.record.unrepeated[0],
                hint=f"do one of the two outside of {request.name}",
            )
        if entry.is_left or not first.values:
            first.drop()
        entry.record.unrepeated += first.texts
        return first if first.values or first.texts else None

    def _scopes(self) -> AbstractContextManager[None]:
        """Block in which scopes start anew, whatever scope the call is in."""
        return belonging("") if current_scope() or current_forward() else nullcontext()

    @property
    def _first_line(self) -> Source | None:
        """The first line of the function, below its decorators."""
        code = getattr(self.request.fn, "__code__", None)
        if code is None:
            return None
        starts = [(at, line) for at, _, line in code.co_lines() if line]  # some have no line
        below = [at for at, line in starts if line > code.co_firstlineno]
        return Source(code, next(iter(below or [at for at, _ in starts]), 0))

    # --- inputs ---

    def _make_inputs(self, outside: Outside) -> None:
        """Make the inputs of the graph."""
        static = outside.reads.asks_types  # numbers and sizes must be Python's own
        sizes = iter(self.request.sizes)
        handles: dict[int, Any] = {}
        for i, leaf in enumerate(self.leaves):
            made = leaf.value
            if leaf.kind == "tensor":
                pattern = next(sizes)
                made = handles.get(id(leaf.handle))
                if made is None:
                    made = handles[id(leaf.handle)] = self._handle(leaf, pattern, static)
                    self.graph_leaves.append(i)
            elif leaf.kind == "number":
                made = self.tracer.add_number(leaf.value, identifier(leaf.name))
                why = outside.why_static(leaf.value)
                made = made.fix(why) if why else made
                self.graph_leaves.append(i)
            self.inputs.append(made)
            handle = made.tensor if type(made) is TracedArray else made
            self.before.append(handle._data if type(handle) is Tensor else None)

    def _handle(self, leaf: Leaf, pattern: Pattern, static: bool) -> Any:
        """The input, or the stand-in for an array of NumPy."""
        tensor = self._tensor(leaf, pattern, static)
        if not leaf.is_numpy:
            return tensor
        return TracedArray(tensor, type(leaf.array), leaf.name, shares=True)

    def _tensor(self, leaf: Leaf, pattern: Pattern, static: bool) -> Tensor:
        """The input, with a new name for each size that is to be symbolic, unless all is static."""
        kind = type_of(leaf.value)
        sizes: list[Any] = []  # ints and dims
        for axis, (size, known) in enumerate(zip(kind.shape, pattern, strict=True)):
            if known is not None:
                sizes.append(size)
                continue
            letter = _dim_name(len(self.tracer.sizes.known))
            self.axes[letter] = f"axis {axis} of {leaf.name}"
            dim = self.tracer.sizes.add(letter, size)
            sizes.append(self.tracer.sizes.ask(dim, "type()") if static else dim)
        spec = kind.like(shape=tuple(sizes))
        made: Tensor = self.tracer.add_input(spec, identifier(leaf.name))
        return made

    # --- results ---

    def _finish(self, result: Any, outside: Outside, returned: Source | None) -> CacheEntry:
        entry = CacheEntry()
        if type(result) is not Tensor:
            tree.leaves(result)  # a list that holds itself is refused here
            ask_in_keys(result)
        containers = self.containers
        for container in containers.values:
            ask_in_keys(container, within=False)
        changes, changed = [], []
        for kind, path, value in containers.changes():
            changed.append(path if kind in ("append", "fill") else path.parent)
            value = kept_lists(value, changed[-1].text, self._first_line)
            ask_in_keys(value)
            changes.append((kind, path, value))
        leaves = [(i, x) for i, x in enumerate(self.inputs) if type(x) is Tensor]
        known = outside.outputs | containers.outputs
        known |= {id(x): Output("leaf", i) for i, x in reversed(leaves)}
        outputs = self.outputs = Outputs(self.tracer, outside, self.leaves, self.inputs, known)
        outputs.note_several(
            [result, *[x for *_, x in changes], *[x.new for x in outside.changes()]]
        )
        try:
            entry.treedef, entry.outputs = outputs.tree(result)
        except TraceError as error:
            relocate(error, returned)  # nearer than that of the call
            raise
        stores = list(outside.stores(outputs.store))
        entry.apart = self._apart(changed, stores, outside)
        updated = tuple(self._updated_arguments(outputs))
        outside.refuse_shared(updates=bool(updated))
        entry.stores = (
            *updated,
            *self._argument_stores(changes, outputs, outside),
            *stores,
        )
        entry.made = tuple(outputs.made)
        entry.arrays = tuple([(i, x.maker) for i, x in outputs.arrays.items()])
        self._close_graph(entry, outside, outputs.values)
        return entry

    def _updated_arguments(self, outputs: Outputs) -> Iterator[Store]:
        """The stores for updated handles of the caller."""
        changed = {id(x): (i, x) for i, x in reversed(list(self._updated_handles()))}
        for i, x in changed.values():
            leaf = self.leaves[i]
            if leaf.array is not None:
                raise TraceError(
                    f"a traced function cannot write into the array {leaf.name}",
                    given=type(leaf.value).__name__,
                    hint="pass ef.tensor(array), or work on a copy: x = ef.tensor(x)",
                )
            output = Output("value", outputs.add(self.tracer.value_of(x)))
            yield Store("update", i, tree.flatten(0)[1], (output,))

    def _updated_handles(self) -> Iterator[tuple[int, Tensor]]:
        """The tensors among the inputs that were updated, with the number of the leaf."""
        for i, (x, before) in enumerate(zip(self.inputs, self.before, strict=True)):
            if type(x) is Tensor and x._data is not before:
                yield i, x

    def _argument_stores(
        self, changes: Iterable[tuple[str, AccessPath, Any]], outputs: Outputs, outside: Outside
    ) -> Iterator[Store]:
        """The stores to containers among the arguments."""
        for kind, path, value in changes:
            try:
                yield outputs.store(kind, path, value)._replace(of_arguments=True)
            except TraceError:
                outside.note_unrepeated(f"{path.text} is changed", self._first_line)

    def _apart(self, changed: list[Any], stores: list[Store], outside: Outside) -> Apart | None:
        """The check that no changed container is both an argument and from outside, if needed."""
        reads = outside.reads
        read = [h.path for h in (*reads.containers, *reads.objects) if is_container(h.value)]
        written = [s.target.parent if s.kind == "set" else s.target
                   for s in stores if s.kind in ("set", "append")]  # fmt: skip
        written = [path for path in written if is_container(path.get())]
        if reads.asks_identity:
            changed = [*self.containers.paths]
        pairs = [(tuple(dict.fromkeys(changed)), tuple(read)),
                 (self.containers.paths, tuple(written))]  # fmt: skip
        pairs = [(paths, outer) for paths, outer in pairs if paths and outer]
        return Apart(tuple(pairs), self.request.name) if pairs else None

    # --- the graph ---

    def _close_graph(self, entry: CacheEntry, outside: Outside, outputs: list[Value]) -> None:
        """Order the inputs, and make constants of values that are static or made while tracing."""
        tracer, graph = self.tracer, self.tracer.graph
        static = {id(r.value): r for r in tracer.numbers if r.why is not None}
        pairs = list(zip(graph.inputs, self.graph_leaves, strict=False))
        conditions = self._conditions(dict(pairs), outside)
        entry.conditions = tuple(outside.keep(conditions))
        entry.leaves = tuple([i for value, i in pairs if id(value) not in static])
        entry.numbers = tuple([(i, static[id(v)].number) for v, i in pairs if id(v) in static])
        inputs = [value for value, _ in pairs if id(value) not in static]
        graph.outputs = outputs
        captured, constants, entry.guards = outside.close(static)
        entry.guards.keep_apart(outside.reads, entry.stores)
        entry.guards.keep_addresses(outside.reads)
        entry.asks_identity = outside.reads.asks_identity
        inputs += [value for value, _ in captured if value is not None]
        entry.captured = tuple([one for _, one in captured])
        entry.shared = tuple(outside.shared)
        constants = [*[(r.value, r.number) for r in static.values()], *constants]
        graph.nodes[:0] = [_constant_node(value, item) for value, item in constants]
        graph.inputs = inputs
        for i, value in enumerate(inputs):
            value.index = i
        sizes = {name: tracer.sizes.known[name] for name in tracer.sizes.static}
        if sizes:
            substitute_sizes(graph, sizes)
        entry.patterns = tuple([
            _pattern(before.shape, sizes)
            for leaf, before in zip(self.leaves, self.before, strict=True)
            if leaf.kind == "tensor"
        ])  # fmt: skip
        entry.record = self._record(static, outside)
        assert self.tracer.whole.decisions is not None
        entry.catches = self.tracer.whole.decisions.catches
        entry.record.static += [f"{one.described} is {one.result}" for one in conditions]
        entry.leaf_records = tuple(
            [LeafRecord(leaf.name, str(leaf), leaf.token) for leaf in self.leaves]
        )
        entry.makes_resources = bool(tracer.created_resources)
        entry.own_rules = tuple(tracer.whole.own_rules)
        entry.graph = graph
        if settings.current().verify:
            verify(graph)
        placement = None
        if self.request.place is not None:
            entry.rules, placement = self.request.place(graph)
        entry.optimise(placement)
        entry.compile = self.request.compile
        entry.prepare()

    def _conditions(self, leaves: dict[Value, int], outside: Outside) -> list[Condition]:
        """The conditions on numbers, which are arguments or read from outside."""

        def source_of(root: NumberRoot) -> Any:
            return leaves.get(root.value, outside.path_of(root.value))

        def name_of(root: NumberRoot) -> str:
            leaf = leaves.get(root.value)
            return self.leaves[leaf].name if leaf is not None else source_of(root).text

        assert self.tracer.whole.decisions is not None
        answers = self.tracer.whole.decisions.answers.values()
        conditions = [answer.condition(source_of, name_of) for answer in answers]
        return [one for one in conditions if one is not None]

    def _record(self, static: dict[int, Any], outside: Outside) -> TraceRecord:
        types = []
        for leaf, before in zip(self.leaves, self.before, strict=True):
            text = str(leaf)
            if leaf.kind == "tensor":
                kind = type_of(leaf.value)
                shape = tuple([
                    self.tracer.sizes.known[str(d)] if str(d) in self.tracer.sizes.static else d
                    for d in before.shape
                ])  # fmt: skip
                text = str(kind.like(shape=shape))
            types.append(f"{leaf.name}: {text}" if leaf.kind != "static" else f"{leaf.name}={text}")
        signature = f"{self.request.name}({', '.join(types)})"
        record = TraceRecord(signature, self.request.reason, self.request.call.scope)
        names = {id(v): self.leaves[i].name for v, i in zip(
            self.tracer.graph.inputs, self.graph_leaves, strict=False)}  # fmt: skip
        for root in static.values():
            name = names.get(id(root.value)) or outside.name_of(root.value) or root.value.label
            where = f" at {root.where}" if root.where is not None else ""
            record.static.append(f"{name}={root.number!r}, because of {root.why}{where}")
            if " in " in root.why and outside.is_of_layer(root.value):  # asked by our function
                record.layers.add(record.static[-1])
        for name, (why, source) in self.tracer.sizes.static.items():
            where = f" at {source}" if source is not None else ""
            record.static.append(
                f"{self.axes[name]} = {self.tracer.sizes.known[name]}, because of {why}{where}"
            )
        record.outside += outside.described
        record.reader = outside.reader_named_in(self.request.reason)
        record.notes += outside.notes()
        record.unrepeated += outside.unrepeated
        warn_of_rows(self.tracer.graph)
        if self.tracer in loops:
            unrolled = unrolled_loops(self.tracer)
            record.unrolled += map(str, unrolled)
            told = any(loop.reported for loop in unrolled)
            largest = [] if told else unrolled[:1]
            record.notes += [loop.warning for loop in largest if loop.nodes >= LARGE]
        return record


def _pattern(shape: Any, sizes: dict[str, int]) -> Pattern:
    """A shape with None for each size that stayed symbolic."""
    return tuple([d if type(d) is int else sizes.get(str(d)) for d in shape])


def _constant_node(value: Value, item: Any) -> Node:
    """The node that makes ``value``, which was an input, a constant."""
    node = Node("constant", value.label, (), {"value": item}, (value,), device=value.device)
    value.node, value.index, value.stated = node, 0, None
    return node


def _dim_name(number: int) -> str:
    letter, again = _LETTERS[number % len(_LETTERS)], number // len(_LETTERS)
    return f"{letter}{again}" if again else letter
