"""`Outputs`: the origins of the results of a traced function, and of values stored outside.

Each leaf is a value of the graph, an object that existed before, or a constant.

`LocalNames` notes the values of the function's local variables.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final, final
from weakref import ref

from eagerflow.autograph.values.lists import as_lists
from eagerflow.capture.access_paths import GONE, Location
from eagerflow.capture.changes import OutsideChange
from eagerflow.capture.equality import is_plain
from eagerflow.capture.inputs_and_stores import Output, Store
from eagerflow.capture.library_code import is_library_class
from eagerflow.capture.snapshot import attributes_of
from eagerflow.core import tree
from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.placeholders import holds_placeholder
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.dims import Dim, number_of
from eagerflow.dims.number_stand_ins import asked
from eagerflow.errors import TraceError
from eagerflow.function.lookup.call_arguments import Leaf
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.signatures import kind_of
from eagerflow.source import Source
from eagerflow.tracing.numbers import TracedNumber
from eagerflow.tracing.numpy_arrays import TracedArray, is_numpy
from eagerflow.tracing.symbols import Symbol
from eagerflow.tracing.tracer import Tracer

if TYPE_CHECKING:
    from eagerflow.function.new_traces.outside_state import Outside

_IMMUTABLE: Final = (bool, int, float, complex, str, bytes, type(None), type, FunctionType,
                     ModuleType, range, slice, frozenset)  # fmt: skip


@final
class Outputs:
    """The outputs of a graph, and the trees that are built of them after each run.

    Args:
        tracer: the trace.
        outside: the outside of the trace.
        leaves: of the arguments.
        inputs: the leaves as they are in the trace.
        known: the origins of objects that existed before, by id.

    Attributes:
        values: the outputs.
        arrays: the outputs that are arrays of NumPy, by number.
        made: containers in several places: structure and leaves.
    """

    def __init__(
        self, tracer: Tracer, outside: Outside, leaves: Sequence[Leaf], inputs: Sequence[Any],
        known: dict[int, Output],
    ) -> None:  # fmt: skip
        self._tracer = tracer
        self._outside = outside
        self._leaves = leaves
        self._inputs = inputs
        self._known = known
        self.values: list[Value] = []
        self.arrays: dict[int, TracedArray] = {}
        self.made: list[tuple[tree.TreeDef, tuple[Output, ...]]] = []
        self._several: dict[int, Any] = {}  # containers made here that occur in several places
        self._built: dict[int, int] = {}  # their indices in `made`, once built
        self._handles: dict[int, tuple[int, Any]] = {}  # outputs that are tensors or arrays, by id

    @property
    def handles(self) -> list[tuple[int, ref[Tensor]]]:
        """Weak references to the outputs that are tensors, by number."""
        return [(i, ref(x)) for i, x in self._handles.values() if type(x) is Tensor]

    def store(self, kind: str, target: Any, value: Any) -> Store:
        """The store that puts ``value`` outside after each run.

        Raises:
            TraceError: no run can make the value.
        """
        return Store(kind, target, *self.tree(value, stored=kind != "update"))

    def note_several(self, values: Iterable[Any]) -> None:
        """Note the containers made by the function that occur in several places of these values.

        After each run they must be one object there, too: a change in one place shows in the
        others.
        """
        seen: dict[int, Any] = {}
        left = list(values)
        while left:
            x = left.pop()
            parts = None if id(x) in self._known else [] if type(x) is set else tree.children(x)
            if parts is None or x is None or _is_constant(x):
                continue
            if id(x) in seen:
                self._several[id(x)] = x
            else:
                seen[id(x)] = x
                left += parts

    def tree(
        self, value: Any, *, stored: bool = False, built: Any = None
    ) -> tuple[tree.TreeDef, tuple[Output, ...]]:
        """The structure of a value, and the origins of its leaves."""
        leaves, treedef = tree.flatten(
            value,
            lambda x: (
                _is_constant(x)
                or (x is not built and (id(x) in self._known or id(x) in self._several))
            ),
            whole=True,
        )
        outputs = [
            self._output(x, path, stored=stored)
            for x, path in zip(leaves, tree.paths(treedef), strict=True)
        ]
        return treedef, tuple(outputs)

    def _output(self, x: Any, path: str, *, stored: bool = False) -> Output:
        """The origin of a leaf of a result, or of a stored value."""
        if id(x) in self._known:
            return self._known[id(x)]
        if id(x) in self._several and type(x) is not set:
            if id(x) not in self._built:  # nested ones are built first
                self.made.append(self.tree(x, stored=stored, built=x))
                self._built[id(x)] = len(self.made) - 1
            return Output("made", self._built[id(x)])
        chosen = self._choice(x) if stored and type(x) is Tensor else None
        if chosen is not None:
            return chosen
        if type(x) is Tensor or type(x) is TracedArray:
            return Output("value", self._add_handle(x))
        if type(x) is Dim:
            x = number_of(x)
        if type(x) is TracedNumber:
            return Output("value", self.add(x.value))
        if type(x) is IndexedSlices:
            first = self.add(self._tracer.value_of(x.values))
            self.add(self._tracer.value_of(x.indices))
            return Output("slices", first, x.shape)
        return self._constant(x, path, stored)

    def _choice(self, x: Tensor) -> Output | None:
        """The output for a tensor that a branch may pass on from its operands unchanged.

        Eager code stores the operand itself. None if no branch passes on an existing tensor.
        """
        value = self._tracer.value_of(x)
        node = value.node
        if node is None or kind_of(node.op) != "branches" or len(node.attrs["branches"]) != 2:
            return None
        given = [self._passed_on(node, branch, value) for branch in node.attrs["branches"]]
        if given == [None, None]:
            return None
        made = Output("value", self._add_handle(x))
        return Output("choice", (self.add(node.inputs[0]), [one or made for one in given]))

    def _passed_on(self, node: Node, branch: Graph, value: Value) -> Output | None:
        """The origin of an output of a branch, if it is a tensor that existed before."""
        result = branch.outputs[node.outputs.index(value)]
        if result not in branch.inputs:
            return None
        operand = node.inputs[1 + branch.inputs.index(result)]
        captured = [c.handle for c in self._tracer.captures.values() if c.value is operand]
        if captured:
            read = self._outside.origin_of(captured[0])
            return None if read is None else Output("outside", read.path)
        if operand not in self._tracer.graph.inputs:
            return None
        leaves = [
            i for i, x in enumerate(self._inputs) if type(x) is Tensor and x._data.value is operand
        ]
        return Output("leaf", leaves[0]) if len(leaves) == 1 else None

    def _constant(self, x: Any, path: str, stored: bool) -> Output:
        """The output for a leaf that is no tensor: the same in each run."""
        if type(x) in (slice, frozenset):
            x = asked(x, f"its place in a {type(x).__name__}")
        if holds_placeholder(x):
            raise TraceError(
                "a traced function returns a text that shows a value",
                given=f"result{path} is {''.join([x])!r}",
                hint="return the tensor or the number, and make the text of it outside",
            )
        if isinstance(x, AbstractArray):
            resource = getattr(x, "resource", None)
            if not stored and any(resource is made for made in self._tracer.created_resources):
                raise TraceError(
                    "a traced function returns a variable that it makes",
                    given=f"result{path}",
                    hint="make the variable outside, or return its value: v.value",
                )
            return Output("constant", x)
        here = [i for i, leaf in enumerate(self._leaves) if leaf.value is x]
        if here and isinstance(x, set):  # another call passes its own set with equal items
            return Output("leaf", here[0])
        is_known = bool(here) or self._outside.knows(x)
        if is_numpy(x) or (type(x) is set and not is_known and self._is_of_constants(x)):
            return Output("copy", x.copy())
        hashes: Any = type(x).__hash__
        by_value = hashes is not None and hashes is not object.__hash__
        if is_known:
            return Output("constant", x)
        if by_value or isinstance(x, _IMMUTABLE):
            if not self._has_made_parts(x):
                return Output("constant", x)
            if not stored:
                text = f"the result{path} is a {type(x).__name__} of values that the function made"
                self._outside.note_unrepeated(text, None)
                return Output("constant", None)
        raise TraceError(
            f"a traced function returns a {type(x).__name__} that it makes",
            given=f"result{path}",
            expected="a tree (lists, tuples, dicts, dataclasses) of tensors, numbers and constants",
            hint="return its tensors, and build the object outside",
        )

    def _is_of_constants(self, x: set[Any]) -> bool:
        """Whether a set made by the function occurs in one place and holds plain values only."""
        return id(x) not in self._several and all(map(is_plain, x))

    def _has_made_parts(self, x: Any) -> bool:
        """Whether a function or an object, made here, holds objects that each run makes anew."""
        if type(x) is FunctionType:
            parts = [location.get() for location in map(_in_cell, x.__closure__ or ())]
        elif type(x) is MethodType:
            parts = [x.__self__]
        elif isinstance(x, type) or is_library_class(type(x)):
            return False
        else:
            parts = list(attributes_of(x).values())
        return any(
            part is not GONE and not isinstance(part, _IMMUTABLE)
            and id(part) not in self._known and not self._outside.knows(part)
            for part in parts
        )  # fmt: skip

    def _add_handle(self, x: Any) -> int:
        """The number of the output for a tensor or an array; repeated objects share an output."""
        if id(x) not in self._handles:
            array = type(x) is TracedArray
            number = self.add(self._tracer.value_of(x.tensor if array else x))
            self._handles[id(x)] = (number, x)
            if array:
                self.arrays[number] = x
        return self._handles[id(x)][0]

    def add(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1


def _in_cell(cell: Any) -> Location:
    return Location("cell", cell, None, "")


def _is_constant(x: Any) -> bool:
    """Whether ``x`` is a tuple of plain values, which is returned as the same object."""
    return type(x) is tuple and is_plain(x)


def to_store(change: OutsideChange) -> Any:
    """The value that a store puts outside for a change.

    Raises:
        TraceError: it is a text that shows a value of the graph, or a list whose length only the
            graph knows.
    """
    if any(map(holds_placeholder, tree.leaves(change.new))):
        raise TraceError(
            "a traced function keeps a text that shows a value",
            given=str(change),
            hint="keep the tensor or the number, and make the text of it outside",
        )
    if change.kind == "delete":
        return None
    return kept_lists(change.new, change.path.text, change.source)


def kept_lists(value: Any, text: str, source: Source | None) -> Any:
    """A value to be kept outside, with Python's lists in place of lists of the graph.

    Args:
        value: a tree.
        text: name of the place where it is kept.
        source: the line that stores it.

    Raises:
        TraceError: the length of a list depends on data.
    """
    return as_lists(
        value,
        f"{text} keeps a list whose length only the graph knows",
        "keep ef.stack(list), or return it",
        source,
    )


@final
class LocalNames:
    """Notes the values of the local variables of ``function`` when it returns, within the block.

    Nothing is noted while a debugger or a coverage tool has set a trace function.

    Args:
        function: the function as it runs, converted or not.
        watched: the ids of code objects.

    Attributes:
        ran: those of ``watched`` that have run.
        returned: where ``function`` returned; None if that is not known.
    """

    def __init__(self, function: Callable[..., Any], watched: frozenset[int]) -> None:
        self.ran: set[int] = set()
        self.returned: Source | None = None
        self._watched = watched
        plain = getattr(function, "__func__", function)
        self._code: CodeType | None = getattr(plain, "__code__", None)
        self._last: dict[str, Any] = {}
        self._installed = False

    def __enter__(self) -> None:
        if (self._code is not None or self._watched) and sys.gettrace() is None:
            self._installed = True
            sys.settrace(self._call)

    def __exit__(self, *raised: object) -> None:
        if self._installed:
            sys.settrace(None)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        if id(frame.f_code) in self._watched:
            self.ran.add(id(frame.f_code))
        if frame.f_code is not self._code:
            return None
        frame.f_trace_lines = False
        return self._return

    def _return(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "return":
            self._last.update(frame.f_locals)
            self.returned = Source(frame.f_code, frame.f_lasti)
        return self._return

    def values(self, tracer: Tracer) -> dict[str, Value]:
        """The values of the graph that local variables are bound to; drops all noted objects."""
        values = {}
        for name, x in self._last.items():
            x = x.tensor if type(x) is TracedArray else x
            if type(x) is Tensor and type(x._data) is Symbol and x._data.tracer is tracer:
                values[name] = x._data.value
            elif type(x) is TracedNumber and x.tracer is tracer:
                values[name] = x.value
        self._last.clear()
        return values
