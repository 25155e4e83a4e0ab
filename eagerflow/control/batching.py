"""Branches and loops of a trace applied to many rows at once.

A node has the types of one row. Here its subgraphs are replayed for all rows, within branches and
loops of the interpreters below. Where rows diverge, idle rows are handled as in eager code
(`eagerflow.batching.divergent_branches`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

from eagerflow.batching.divergent_branches import Way, merged
from eagerflow.batching.vmap_interpreter import Vmap
from eagerflow.control.apply import batched
from eagerflow.control.branches import cond, switch
from eagerflow.control.loops import scan, while_loop
from eagerflow.control.structured import Structured
from eagerflow.core.interpreter import installed, use
from eagerflow.core.op import functions
from eagerflow.core.op_records.batch_rules import ROWS
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Size
from eagerflow.errors import VmapError
from eagerflow.graph.edit import in_sizes
from eagerflow.graph.ir import Graph, Node
from eagerflow.runtime.replay import replay
from eagerflow.types import LIST, TensorType


def apply_rows(
    vmap: Vmap, whole: Structured, operands: Sequence[Any], sizes: Mapping[str, Size]
) -> list[Any]:
    """The outputs of a node, from operands: both are tensors of one row, and numbers."""
    rows = _Rows(vmap, whole, operands, sizes)
    with use(vmap.below):
        results = {
            "cond": rows.branches, "switch": rows.branches, "while_loop": rows.loop,
            "scan": rows.scan, "call": rows.call,
        }[whole.op]()  # fmt: skip
    return [
        operands[i] if i in whole.fixed else x if i in rows.shared or type(x) is not Tensor
        else vmap.row(x)
        for i, x in enumerate(results)
    ]  # fmt: skip


def _is_list(x: Any) -> bool:
    return type(x) is Tensor and x.dtype is LIST


def _shared_lists(graph: Graph, own: Sequence[bool]) -> set[int]:
    """The outputs that are lists from outside of `vmap`: those made of such lists, op by op."""
    inputs = zip(graph.inputs, own, strict=True)
    shared = {x for x, has_rows in inputs if not has_rows and _holds_list(x)}
    for node in graph.nodes:
        if not shared.isdisjoint(node.inputs):
            shared.update(filter(_holds_list, node.outputs))
    return {i for i, x in enumerate(graph.outputs) if x in shared}


def _holds_list(x: Any) -> bool:
    return getattr(x.type, "dtype", None) is LIST


@final
class _Rows:
    """The application of a node to many rows.

    Args:
        vmap: the interpreter.
        whole: the node.
        operands: tensors of one row, and numbers.
        sizes: the values of size names that no operand determines.

    Attributes:
        shared: the outputs that are lists from outside of `vmap`, whose elements have no rows.
            Loops and branches may read them; whether a list has rows never changes.
    """

    def __init__(
        self, vmap: Vmap, whole: Structured, operands: Sequence[Any], sizes: Mapping[str, Size]
    ) -> None:
        self.vmap = vmap
        self.whole = whole
        self.own = [vmap.holds(x) for x in operands]
        self.values = [vmap.inside(x) if type(x) is Tensor else x for x in operands]
        self.sizes = whole.sizes(operands, sizes)
        self.shared: set[int] = set()

    def again(self) -> Vmap:
        """A new interpreter of the same rows, for a subgraph of a branch or a loop below."""
        return Vmap(self.vmap.rows, self.vmap.randomness)

    def run(
        self, vmap: Vmap, graph: Graph, values: Sequence[Any], own: Sequence[bool]
    ) -> list[Any]:
        """The outputs of a subgraph: tensors of one row of ``vmap``, and numbers."""
        items = [vmap.row(x) if o else x for x, o in zip(values, own, strict=True)]
        return replay(graph, items, self.sizes)

    def rows_of(
        self, graph: Graph, values: Sequence[Any], own: Sequence[bool], *, shared: bool = False
    ) -> tuple[list[Any], set[int]]:
        """The outputs of a subgraph for all rows, and which of them are lists without rows.

        If ``shared``, without an axis of rows.
        """
        vmap = self.again()
        with installed(vmap):
            results = self.run(vmap, graph, values, own)
            inside = vmap.inside if shared else vmap.whole
            lists = {i for i, x in enumerate(results) if _is_list(x)}
            every = [
                x if type(x) is not Tensor else vmap.inside(x) if i in lists else inside(x)
                for i, x in enumerate(results)
            ]
        return every, {i for i in lists if not vmap.holds(results[i])}

    def check_lists(self, before: set[int], after: set[int]) -> None:
        """Refuse lists with rows in the place of lists without, and the other way round."""
        if before != after:
            raise VmapError(
                f"{self.whole.op}: under ef.vmap, a list from outside has no rows, and takes the "
                "place of one that has, or the other way round",
                given="a TensorArray made outside of the mapped function, and one made inside",
                hint=f"make both inside; or {ROWS}",
            )

    def check_choice(
        self, items: Sequence[Any], names: Sequence[str] = (), condition: Node | None = None
    ) -> None:
        """Refuse shared values (lists and Python numbers) where rows diverge.

        Args:
            items: the values.
            names: their names in the user's code, if known.
            condition: the node that decides about the way of a row, if known.
        """
        if any(map(_is_list, items)):
            raise VmapError(
                f"{self.whole.op}: under ef.vmap, rows that go different ways fill lists of "
                "different lengths",
                given="a TensorArray, or the values that the gradient of the loop keeps",
                hint=f"take the gradient outside: ef.grad of ef.vmap; or {ROWS}",
            )
        numbers = [i for i, x in enumerate(items) if type(x) is not Tensor]
        if numbers:
            raise self.differing_number(names[numbers[0]] if names else "", condition)

    def differing_number(self, name: str, condition: Node | None) -> VmapError:
        """The error for a Python number where rows diverge."""
        known = name.isidentifier()
        source = None if condition is None else condition.source
        return VmapError(
            f"{self.whole.op}: under ef.vmap, a Python number would differ from row to row",
            given=f"{name if known else 'a number'}, and a condition that holds in some rows only"
            + (f": {source}" if source is not None else ""),
            hint=f"make it a tensor before: {name if known else 'n'} = ef.tensor(0) in place of "
            f"{name if known else 'n'} = 0",
        )

    # --- calls and branches ---

    def call(self) -> list[Any]:
        results, self.shared = self.rows_of(self.whole.attrs["body"], self.values, self.own)
        return results

    def branches(self) -> list[Any]:
        predicate, *values = self.values
        graphs: Sequence[Graph] = self.whole.attrs["branches"]
        own = self.own[1:]
        if self.own[0]:
            return self.ways(predicate, graphs, values, own)
        self.shared = _shared_lists(graphs[0], own)

        def taken(graph: Graph, items: Sequence[Any]) -> tuple[Any, ...]:
            results, shared = self.rows_of(graph, items, own)
            self.check_lists(self.shared, shared)
            return tuple(results)

        functions = [lambda *items, graph=graph: taken(graph, items) for graph in graphs]
        if self.whole.op == "cond":
            return list(cond(predicate, functions[0], functions[1], *values))
        return list(switch(predicate, functions, *values))

    def ways(
        self, predicate: Tensor, graphs: Sequence[Graph], values: list[Any], own: Sequence[bool]
    ) -> list[Any]:
        """Run each branch that a row takes, and merge the results of the rows that take it."""
        results = [self.empty(kind) for kind in self.whole.outputs]
        self.check_choice(results)
        for i, graph in enumerate(graphs):
            taking = predicate == i
            if self.whole.op == "cond":
                taking = functions["logical_not"](predicate) if i else predicate

            def run(taking: Tensor, before: Any, items: Any, graph: Graph = graph) -> Any:
                vmap = self.again()
                with installed(vmap):
                    row = vmap.row(taking)
                    with installed(Way(row)):
                        new = self.run(vmap, graph, items, own)
                    new = merged(self.whole.op, row, new, [vmap.row(x) for x in before])
                    return [vmap.whole(x) for x in new]

            results = cond(
                functions["any"](taking), run, lambda taking, before, items: before,
                taking, results, values,
            )  # fmt: skip
        return results

    def empty(self, kind: Any) -> Any:
        """Zeros for all rows of an output; None for a number."""
        if not isinstance(getattr(kind, "type", None), TensorType):
            return None
        shape = in_sizes(kind.shape, self.sizes)
        return functions["zeros"]((self.vmap.rows, *shape), dtype=kind.dtype, device=kind.device)

    # --- loops ---

    def loop(self) -> list[Any]:
        attrs = dict(self.whole.attrs)
        test, body = attrs.pop("cond"), attrs.pop("body")
        state = [i for i in range(len(self.values)) if i not in self.whole.fixed]
        starts = self.started(state)
        vmap = self.again()
        with installed(vmap):
            (first,) = self.run(vmap, test, *self.items(state, starts))
            going, differs = vmap.inside(first), vmap.holds(first)
        if not differs:
            ended = while_loop(
                lambda *carry: self.rows_of(test, *self.items(state, carry), shared=True)[0][0],
                lambda *carry: self.after(body, state, carry),
                tuple(starts), **attrs,
            )  # fmt: skip
            return self.placed(state, ended)
        names = [body.inputs[i].label for i in state]
        self.check_choice(starts, names, test.outputs[0].node)

        def iteration(going: Tensor, *carry: Any) -> tuple[Any, ...]:
            vmap = self.again()
            with installed(vmap):
                values, own = self.items(state, carry)
                row, before = vmap.row(going), [vmap.row(x) for x in carry]
                with installed(Way(row)):
                    new = self.run(vmap, body, values, own)
                    (goes_on,) = replay(test, new, self.sizes)
                kept = merged("while_loop", row, [new[i] for i in state], before)
                still = functions["logical_and"](row, goes_on)
                return tuple([vmap.whole(x) for x in (still, *kept)])

        _, *ended = while_loop(
            lambda going, *carry: functions["any"](going), iteration, (going, *starts), **attrs
        )
        return self.placed(state, ended)

    def scan(self) -> list[Any]:
        attrs = self.whole.attrs
        count, body = attrs["carry"], attrs["body"]
        state = [i for i in range(count) if i not in self.whole.fixed]
        own = self.own[count:]
        xs = [
            functions["moveaxis"](x, 0, 1) if o else x
            for x, o in zip(self.values[count:], own, strict=True)
        ]

        def iteration(carry: Any, parts: Any) -> tuple[Any, Any]:
            values, carried = self.items(state, carry)
            results, shared = self.rows_of(
                body, [*values[:count], *parts], [*carried[:count], *own]
            )
            self.check_lists(self.shared, shared & set(state))
            return [results[i] for i in state], results[count:]

        carry, stacked = scan(
            iteration, self.started(state), xs,
            length=in_sizes(attrs["length"], self.sizes), reverse=attrs.get("reverse", False),
        )  # fmt: skip
        return [
            *self.placed(state, carry)[:count],
            *(functions["moveaxis"](y, 1, 0) for y in stacked),
        ]

    def started(self, state: Sequence[int]) -> list[Any]:
        """The initial values, for all rows, of the operands that change; a list stays as it is."""
        starts = []
        for i in state:
            x = self.values[i]
            if _is_list(x) and not self.own[i]:
                self.shared.add(i)
            elif type(x) is Tensor and not self.own[i]:
                x = functions["broadcast_to"](x, (self.vmap.rows, *x.shape))
            starts.append(x)
        return starts

    def items(self, state: Sequence[int], carry: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        """The operands, updated by the carry, and whether each is batched."""
        values, own = [*self.values], [*self.own]
        for i, x in zip(state, carry, strict=True):
            values[i], own[i] = x, type(x) is Tensor and i not in self.shared
        return values, own

    def after(self, body: Graph, state: Sequence[int], carry: Sequence[Any]) -> tuple[Any, ...]:
        """The loop-carried values after an iteration of all rows."""
        results, shared = self.rows_of(body, *self.items(state, carry))
        self.check_lists(self.shared, shared & set(state))
        return tuple([results[i] for i in state])

    def placed(self, state: Sequence[int], ended: Sequence[Any]) -> list[Any]:
        """The outputs of a loop, from the final values of operands that change."""
        return self.items(state, ended)[0]


batched["apply"] = apply_rows
