"""One trace of a function: its executable, conditions on calls, and stores after each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, final

from eagerflow.autodiff.forward_mode import Forward
from eagerflow.autodiff.tape import Tape
from eagerflow.capture.access_paths import GONE, AccessPath, kind_of, refill
from eagerflow.capture.argument_containers import Apart
from eagerflow.capture.equality import same_value
from eagerflow.capture.guards.guards import Guards
from eagerflow.capture.inputs_and_stores import CapturedInput, Output, Pattern, Store, fits
from eagerflow.capture.undoing import undoing
from eagerflow.control.structured import changes_state
from eagerflow.core import interpreter, tree
from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.interpreter import AbstractDifferentiator, stack
from eagerflow.core.monitors import monitors
from eagerflow.core.tensor import AbstractArray, Tensor, make_tensor
from eagerflow.errors import CancelledError, TraceError
from eagerflow.function.derivative import Derivative
from eagerflow.function.explanations import LeafRecord, TraceRecord
from eagerflow.function.lookup.call_arguments import Call
from eagerflow.function.new_traces.leftover_handles import FirstRun
from eagerflow.function.pushforward import Pushforward
from eagerflow.graph.edit import all_nodes
from eagerflow.graph.ir import Graph, OutsideInput, Value
from eagerflow.graph.passes import optimise
from eagerflow.hardware import Lane
from eagerflow.hardware.kernel_library import in_force
from eagerflow.placement.apply_rules import Placement
from eagerflow.placement.rules import Rules
from eagerflow.runtime.background_compilation import Mode
from eagerflow.runtime.executable import Executable
from eagerflow.runtime.replay import is_watched, replay
from eagerflow.tracing.number_conditions import Condition, checker
from eagerflow.tracing.numpy_arrays import is_numpy

if TYPE_CHECKING:
    from eagerflow.function.placing.placement_trials import PlacementTrial

#: counts the uses of traces
uses: Final = count()
#: in a report, why kernels are not used that were not found to be slower
_IN_THREADS: Final = "not used: independent ops run at once, in threads, without kernels"


@final
class NothingDone(Exception):
    """Raised when a call had no effect yet, so that the function itself is to be called.

    Args:
        reason: description of the exception of the graph; empty if there was none.
    """


@final
class CacheEntry:
    """One trace, with the conditions under which a call may use it.

    Attributes:
        graph: as traced.
        optimised: the graph after placement and passes.
        executable: runs the optimised graph.
        arrays: the outputs that are arrays of NumPy to the user, with functions that make them.
        leaves: indices of the leaves of the arguments that are inputs of the graph, in order.
        patterns: the shapes of the tensors among the arguments.
        numbers: the static numbers: index and value of the leaf.
        conditions: the conditions on other numbers among the arguments.
        captured: the inputs after those of the arguments.
        shared: arguments that are read from outside as well: index of the leaf, and access path.
        asks_identity: whether code compares objects by identity.
        guards: the guards on the outside.
        treedef: the structure of the result.
        outputs: its leaves.
        made: containers in several places of results and stores: structure and leaves.
        stores: the stores after each run.
        apart: the check before the stores.
        record: the record of the trace for users.
        locals: the values that local variables of the function were bound to at its end.
        leaf_records: the arguments of the call that was traced, for messages.
        makes_resources: whether the function makes variables.
        own_rules: the names of functions with derivatives of their own, which the graph lacks.
        first: the run of the call that traced, if objects hold tensors or numbers of the trace.
        failure: description of the exception that ended the function; empty if there was none.
        catches: whether handlers in the function may be for exceptions of the graph.
        rules: by which it is placed; None where the program says.
        trial: runs the steps while automatic placement tries a plan; else None.
        compile: when it is compiled.
        checks: whether some captured inputs are tensors.
        asks_numbers: whether the values of numbers among the arguments matter.
        run_raw: runs it on arrays and numbers; returns a tuple of arrays and numbers.
        single: the lane of the result, if that is one tensor and there are no stores or checks.
        used: number of its latest use; a greater number is a later use.
    """

    __slots__ = (
        "__weakref__", "_derivative", "_holds", "_plain", "_pushforward", "_replay", "apart",
        "arrays", "asks_identity", "asks_numbers", "captured", "catches", "checks", "compile",
        "conditions", "executable", "failure", "first", "graph", "guards", "leaf_records", "leaves",
        "locals", "made", "makes_resources", "numbers", "optimised", "outputs", "own_rules",
        "patterns", "record", "rules", "run_raw", "shared", "single", "stores", "treedef", "trial",
        "updates", "used",
    )  # fmt: skip

    graph: Graph
    optimised: Graph
    executable: Executable
    arrays: tuple[tuple[int, Callable[[Tensor], Any]], ...]
    leaves: tuple[int, ...]
    leaf_records: tuple[LeafRecord, ...]
    makes_resources: bool
    patterns: tuple[Pattern, ...]
    numbers: tuple[tuple[int, Any], ...]
    conditions: tuple[Condition, ...]
    captured: tuple[CapturedInput, ...]
    shared: tuple[tuple[int, AccessPath], ...]
    asks_identity: bool
    guards: Guards
    treedef: Any
    outputs: tuple[Output, ...]
    made: tuple[tuple[Any, tuple[Output, ...]], ...]
    stores: tuple[Store, ...]
    apart: Apart | None
    record: TraceRecord
    locals: dict[str, Any]

    def __init__(self) -> None:
        self._derivative: Derivative | Literal[False] | None = False  # not tried yet
        self._pushforward: Pushforward | Literal[False] | None = False  # likewise
        self.first: FirstRun | None = None
        self.failure = ""
        self.own_rules: tuple[str, ...] = ()
        self.catches = False
        self.rules: Rules | None = None
        self.trial: PlacementTrial | None = None
        self.compile: Mode = "off"
        self.used = next(uses)

    def optimise(self, placement: Placement | None = None) -> None:
        """Optimise the traced graph, or the graph as placed by rules, and note its size."""
        self.optimised = optimise(self.graph if placement is None else placement.graph)[0]
        nodes = self.optimised.nodes
        self.record.nodes = len(nodes)
        self.record.inner_nodes = len([*all_nodes(nodes)]) - len(nodes)

    def replace(self, rules: Rules | None, placement: Placement | None) -> None:
        """Run the placed graph from the next step on; None for where the program says."""
        self.optimise(placement)
        self.rules = rules
        self.prepare()
        self._derivative = False  # made anew, as it follows the rules as well
        self._pushforward = False

    def prepare(self) -> None:
        """Make the executable and derived attributes; call it once all others are set."""
        self.executable = Executable(self.optimised, self.compile)
        planned = None if self.rules is None else self.rules.planned
        self.trial = None if planned is None else planned.trial(self)
        self.run_raw: Callable[..., Any] = self.trial or self.executable
        self._replay: Callable[..., Any] = replay
        if self.graph.resources:
            self.run_raw = undoing(self.run_raw, self.graph.resources.values())
            self._replay = undoing(replay, self.graph.resources.values())
        self._holds = checker(self.conditions) if self.conditions else None
        self.asks_numbers = bool(self.numbers or self.conditions)
        (first, *rest) = self.outputs or (None,)
        nothing_else = not (rest or self.stores or self.apart or self.arrays)
        alone = nothing_else and self.treedef.num_nodes == 1
        self.single: Lane | None = None
        if alone and first is not None and first.kind == "value":
            self.single = self.executable.lanes[first.what]
        self.checks = any(one.lane is not None for one in self.captured)
        #: whether tensors of the caller or from outside are updated in place
        self.updates = any(store.kind == "update" for store in self.stores)
        #: whether leaf i is input i, for all leaves
        self._plain = self.leaves == tuple(range(len(self.leaves)))

    def executables(self) -> list[Executable]:
        """All executables of the trace, of its trial and its derivative."""
        return [
            self.executable,
            *(() if self.trial is None else self.trial.executables),
            *(self._derivative.executables if self._derivative else ()),
            *(self._pushforward.executables if self._pushforward else ()),
        ]

    def compiled(self) -> list[str]:
        """The report of compilation to native code, for users; empty where there is none."""
        compilation = self.executable.compilation
        if compilation is None or in_force() != "native":
            return []
        report = compilation.report()
        told = any(line.startswith("not used") for line in report)
        unused = compilation.kernels and not self.executable.runs_kernels
        return [_IN_THREADS, *report] if unused and not told else report

    def takes(self, call: Call) -> bool:
        """Whether the sizes and numbers of a call fit the trace."""
        return all(map(fits, call.shapes, self.patterns)) and (
            not self.asks_numbers or self.agrees([leaf.value for leaf in call.leaves])
        )

    def graph_with_outside(self) -> Graph:
        """The optimised graph, which knows the inputs that are read from outside."""
        used = [one.path for one in self.captured if one.used]
        inputs = self.optimised.inputs[len(self.optimised.inputs) - len(used) :]
        self.optimised.outside = {
            value.name: OutsideInput(path.text, path.get)
            for value, path in zip(inputs, used, strict=True)
        }
        return self.optimised

    def shares(self, call: Call) -> bool:
        """Whether the same arguments as in the trace are read from outside as well.

        Without updates in place, only the arguments that were shared while tracing matter.
        """
        if any(path.get() is not call.leaves[i].value for i, path in self.shared):
            return False
        if not (self.checks and (self.updates or self.asks_identity)):
            return True
        known = {id(path) for _, path in self.shared}
        handles = {id(leaf.value) for leaf in call.leaves if leaf.kind == "tensor"}
        return not any(
            id(one.path.get()) in handles
            for one in self.captured
            if one.lane is not None and id(one.path) not in known
        )

    def agrees(self, leaves: Sequence[Any]) -> bool:
        """Whether numbers among these leaves of the arguments may use the trace."""
        return all(same_value(leaves[i], value) for i, value in self.numbers) and (
            self._holds is None or self._holds(leaves)
        )

    def is_direct(self, call: Call, given: Sequence[Any]) -> bool:
        """Whether a shortcut may pass ``given``, the leaves of positional arguments, to the trace.

        They must be the first leaves, all others being defaults. A call is not direct where the
        trace needs more checks: of the identity of an updated handle, which may be another argument
        as well, or of the value of a static number or array.
        """
        leaves = call.leaves
        return (
            len(leaves) >= len(given)
            and all(leaf.handle is x for leaf, x in zip(leaves, given, strict=False))
            and not any(
                leaf.kind == "static" and (type(leaf.value) in (int, float) or is_numpy(leaf.value))
                for leaf in leaves
            )
            and not self.shared
            and not (self.asks_identity and (self.checks or len(leaves) > len(given)))
            and not any(s.kind == "update" or s.of_arguments for s in self.stores)
            and self.apart is None
            and not any(
                out.kind == "argument"
                for outputs in (
                    self.outputs,
                    *[s.outputs for s in self.stores],
                    *[m[1] for m in self.made],
                )
                for out in outputs
            )
        )

    def local(self, name: str) -> Value | None:
        """The value in the optimised graph that a local variable was bound to."""
        value = self.locals.get(name)
        if value is None:
            return None
        if value.node is None or value in self.optimised.inputs:
            return next((v for v in self.optimised.inputs if v.label == value.label), None)
        made = (v for n in self.optimised.nodes for v in n.outputs)
        return next((v for v in made if (v.label or v.name) == value.name), None)

    def run_first(
        self, leaves: Sequence[Any], captured: Sequence[Any], arguments: Sequence[Any]
    ) -> Any:
        """Run it for the call that traced, which gives values to held tensors and numbers."""
        first, self.first = self.first, None
        if first is None:
            return self.run(leaves, captured, arguments)
        inputs = [*[leaves[i] for i in self.leaves], *captured]
        return first.run(
            self.graph,
            lambda graph: self._replay(graph, inputs),
            lambda values: self._finish(values, leaves, arguments),
        )

    def refuse(self, name: str, what: str) -> NoReturn:
        """Refuse ``what``, where the call that traced does not run the graph."""
        if self.first is not None:
            self.first.drop()
        raise TraceError(
            f"{name} keeps values in objects that a trace cannot follow",
            given=what,
            hint=f"call {name} once before, or keep tensors in names, attributes, lists or dicts",
        )

    @property
    def is_left(self) -> bool:
        """Whether the function itself is to run in place of the graph."""
        return bool(self.failure or self.record.unrepeated)

    def run(
        self, leaves: Sequence[Any], captured: Sequence[Any], arguments: Sequence[Any] = ()
    ) -> Any:
        """Run with these leaves of the arguments (tensors and numbers where they are inputs).

        Raises:
            NothingDone: the graph raised an exception, and a call has no effects but stores.
        """
        if self._plain and len(leaves) == len(self.leaves):
            inputs = [*leaves, *captured]
        else:
            inputs = [*[leaves[i] for i in self.leaves], *captured]
        watched = stack.installed and is_watched()
        try:
            if watched:
                values = self._run_watched(inputs)
            else:
                raw = self.run_raw(*[x._data if type(x) is Tensor else x for x in inputs])
        except Exception as error:
            if self._only_stores() and not isinstance(error, (CancelledError, MemoryError)):
                raise NothingDone(f"its graph raised {error!r}") from None
            raise
        if watched:
            return self._finish(values, leaves, arguments)
        if self.single is not None:
            return make_tensor(raw[0], self.single)
        return self.finish(raw, leaves, arguments)

    def _only_stores(self) -> bool:
        """Whether the function itself may run after a failed run, which had no effect."""
        if not (self.stores or self.catches) or self.record.notes:
            return False
        return not changes_state(self.graph)

    def raw_inputs(self, leaves: Sequence[Any], captured: Sequence[Any]) -> list[Any]:
        """The inputs, as arrays and numbers, of a run that the caller performs."""
        inputs = [*[leaves[i] for i in self.leaves], *captured]
        return [x._data if type(x) is Tensor else x for x in inputs]

    def finish(self, raw: Sequence[Any], leaves: Sequence[Any], arguments: Sequence[Any]) -> Any:
        """Perform the stores after a run, and build the result from its arrays and numbers."""
        return self._finish(self.executable.wrap(raw), leaves, arguments)

    def abstract(self, leaves: Sequence[Any]) -> Any:
        """The result with types in place of tensors."""
        types = [value.spec for value in self.graph.outputs]
        made = self._containers(types, leaves, ())
        results = [_output(out, types, leaves, (), made) for out in self.outputs]
        return tree.map(
            lambda x: x.type if isinstance(x, AbstractArray) else x,
            tree.unflatten(self.treedef, results),
        )

    def _run_watched(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Run under interpreters: a derived graph for a tape or forward mode alone, else op by op.

        The results are the same.
        """
        top = interpreter.current()
        alone = isinstance(top, AbstractDifferentiator) and top.below is interpreter.BASE
        if alone and not self.updates and next(monitors(), None) is None:
            outputs: Sequence[Any] | None = None
            if type(top) is Tape:
                one = self if self.trial is None else self.trial
                outputs = one.differentiated(top, inputs)
            elif type(top) is Forward:
                outputs = self._pushed(top, inputs)
            if outputs is not None:
                return outputs
        replayed: Sequence[Any] = self._replay(self.graph, inputs)
        return replayed

    def differentiated(self, tape: Tape, inputs: Sequence[Any]) -> Sequence[Tensor] | None:
        """Run it as one step of a tape; None where the tape has to record each op."""
        if self._derivative is False:
            self._derivative = Derivative.of(self.graph, self.rules, self.compile)
        return None if self._derivative is None else self._derivative.call(tape, inputs)

    def _pushed(self, forward: Forward, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """Run it with tangents; None where forward mode has to see each op."""
        if self.rules is not None or self.trial is not None:
            return None
        if self._pushforward is False:
            self._pushforward = Pushforward.of(self.graph, self.compile)
        return None if self._pushforward is None else self._pushforward.call(forward, inputs)

    def _containers(
        self, values: Sequence[Any], leaves: Sequence[Any], arguments: Sequence[Any]
    ) -> Sequence[Any]:
        """The containers in several places of results and stores."""
        made: list[Any] = []
        for treedef, outputs in self.made:  # each may contain earlier ones
            parts = [_output(out, values, leaves, arguments, made) for out in outputs]
            made.append(tree.unflatten(treedef, parts))
        return made

    def _finish(
        self, values: Sequence[Any], leaves: Sequence[Any], arguments: Sequence[Any]
    ) -> Any:
        """Perform the stores, and build the result."""
        if self.arrays:
            values = list(values)
            for i, make in self.arrays:
                values[i] = make(values[i])
        made = self._containers(values, leaves, arguments) if self.made else ()
        results = [_output(out, values, leaves, arguments, made) for out in self.outputs]
        if self.apart is not None:
            self.apart.check(arguments)
        # owners and values first: a store may remove or replace another's owner
        owners = [_owner(store, leaves, arguments) for store in self.stores]
        stored = [
            tree.unflatten(
                s.treedef, [_output(o, values, leaves, arguments, made) for o in s.outputs]
            )
            for s in self.stores
        ]
        for (kind, target, *_), owner, value in zip(self.stores, owners, stored, strict=True):
            if kind == "update":
                interpreter.current().rebind(owner, value)
            elif kind == "set" or kind == "delete":
                target.put(owner, GONE if kind == "delete" else value)
            elif kind == "append":
                kind_of(owner).extend(owner, value)
            else:
                refill(owner, value)
        return tree.unflatten(self.treedef, results)


def _owner(store: Store, leaves: Sequence[Any], arguments: Sequence[Any]) -> Any:
    """The object that a store changes."""
    target = store.target
    if isinstance(target, int):
        return leaves[target]
    path = target.parent if store.kind in ("set", "delete") else target
    return path.get(arguments) if store.of_arguments else path.get()


def _output(
    output: Output,
    values: Sequence[Any],
    leaves: Sequence[Any],
    arguments: Sequence[Any],
    made: Sequence[Any],
) -> Any:
    kind, what, shape = output
    if kind == "value":
        return values[what]
    if kind == "leaf":
        return leaves[what]
    if kind == "outside":
        return what.get()
    if kind == "argument":
        return what.get(arguments)
    if kind == "made":
        return made[what]
    if kind == "slices":
        return IndexedSlices(values[what], values[what + 1], shape)
    if kind == "copy":
        return what.copy()
    if kind == "choice":
        at, options = what
        return _output(options[not values[at].item()], values, leaves, arguments, made)
    return what
