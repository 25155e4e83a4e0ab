"""The run of the call that traced, where it is not as all others: what is held gets values.

What a function did that no run of a graph can repeat is left as the function left it. So which
objects are one, and in which order keys are, is what eager code gives.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, final
from weakref import ref

from eagerflow.capture.access_paths import AccessPath
from eagerflow.capture.border import act
from eagerflow.core import tree
from eagerflow.core.interpreter import current
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Dim, number_of
from eagerflow.function.leftover_handles import Remains
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.runtime.replay import replay

if TYPE_CHECKING:
    from eagerflow.function.outside_state import Outside

#: kind, target and value of a change
_Edit = tuple[str, AccessPath, Any]


@final
class Aftermath:
    """What a function left behind that no run repeats: the world outside, arguments, its result.

    While the function ran there were copies in the place of arguments. What holds one gets the
    argument itself.

    Args:
        outside: the world.
        copies: what was in the place of arguments, and these.
        updated: those of them that are tensors which were updated.
        edits: what was done to containers among the copies.
        result: of the function.
        chosen: the tensors of which a branch decides whether they are one that was there before.

    Attributes:
        tests: what decides that.
        copies: what was in the place of arguments.
        given: these.
    """

    def __init__(
        self, outside: Outside, copies: Sequence[tuple[Any, Any]],
        updated: Sequence[tuple[Tensor, Any]], edits: Iterable[_Edit], result: Any,
        chosen: Sequence[tuple[Tensor, Value, Sequence[Any]]],
    ) -> None:  # fmt: skip
        self._before = outside.leave()
        self.copies = [one for one, _ in copies]
        self.given = [given for _, given in copies]
        self._updated = list(updated)
        self._edits = [list(edit) for edit in edits]
        if any(type(x) is Dim for x in tree.leaves(result)):
            result = tree.map(lambda x: number_of(x) if type(x) is Dim else x, result)
        self._result = [result]
        self._chosen = [(x, known) for x, _, known in chosen]
        self.tests = [test for _, test, _ in chosen]

    def undo(self) -> None:
        """Put it back as it was before the call."""
        for held in self._before:
            held.restore()

    def update(self, tests: Sequence[Any]) -> None:
        """Give arguments the values that the copies got, all of which are known by now."""
        for (x, known), test in zip(self._chosen, tests, strict=True):
            there = known[not test.item()]
            if there is not None:
                self.copies.append(x)
                self.given.append(there)
        self._chosen.clear()
        for made, given in self._updated:
            current().rebind(given, made)
        self._updated.clear()

    def finish(self, arguments: Sequence[Any]) -> Any:
        """Do to the arguments what was done to the copies; gives the result."""
        owners = [path.get(arguments) if kind in ("append", "fill") else path.parent.get(arguments)
                  for kind, path, _ in self._edits]  # fmt: skip
        for (kind, path, value), owner in zip(self._edits, owners, strict=True):
            act(kind, path, owner, value)
        return self._result[0]


@final
class FirstRun:
    """The run of the call that traced.

    Args:
        graph: as traced.
        remains: what is held.
        aftermath: what is left as it is, if runs do not repeat what the function did.
        handles: the tensors that outputs of the graph were, by number, while something holds them.
        failure: the exception that ended the function, None if none did.
        last: or the node that raises it.
    """

    def __init__(
        self, graph: Graph, remains: Remains, aftermath: Aftermath | None = None,
        handles: Sequence[tuple[int, ref[Tensor]]] = (), failure: Exception | None = None,
        last: Node | None = None,
    ) -> None:  # fmt: skip
        self._remains = remains
        self._aftermath = aftermath
        self._handles = handles
        self._failure = failure
        self._graph = copy.copy(graph)
        outputs = graph.outputs if aftermath is None else []
        self._count = len(outputs)
        tests = [] if aftermath is None else aftermath.tests
        self._graph.outputs = [*outputs, *remains.values, *tests]
        self._end: Graph | None = None
        if last is not None:
            self._graph.nodes = [node for node in graph.nodes if node is not last]
            self._graph.outputs += last.inputs
            self._end = Graph(graph.name)
            self._end.inputs, self._end.nodes = list(dict.fromkeys(last.inputs)), [last]

    def run(
        self, run: Callable[[Graph], Sequence[Any]], finish: Callable[..., Any],
        arguments: Sequence[Any],
    ) -> Any:  # fmt: skip
        """Run the graph node by node.

        Args:
            run: gives the values of the outputs of a graph.
            finish: makes the result of these, and puts back what is stored outside.
            arguments: of the call.
        """
        try:
            outputs = list(run(self._graph))
            values = dict(zip(self._graph.outputs, outputs, strict=True))
            self._remains.fill([values[v] for v in self._remains.values])
            if self._aftermath is None:
                self._remains.settle([], [])
                for i, handle in self._handles:
                    held = handle()
                    outputs[i] = outputs[i] if held is None else held
                result = finish(outputs[: self._count])
            else:
                self._aftermath.update([values[v] for v in self._aftermath.tests])
                self._remains.settle(self._aftermath.copies, self._aftermath.given)
                result = self._aftermath.finish(arguments)
        except BaseException:
            if self._aftermath is not None:
                self._aftermath.undo()
            raise
        if self._end is not None:
            replay(self._end, [values[v] for v in self._end.inputs])
        if self._failure is not None:
            raise self._failure
        return result

    def drop(self) -> None:
        """Let it be: what is held stays without a value, and the function has failed.

        Raises:
            Exception: the failure.
        """
        self._remains.forget()
        if self._aftermath is not None:
            self._aftermath.undo()
        if self._failure is not None:
            raise self._failure
