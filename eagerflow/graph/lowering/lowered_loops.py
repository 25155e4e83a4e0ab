"""Loops: ``while_loop`` and ``scan`` as nodes that pass tokens from iteration to iteration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, final

from eagerflow.dims import Dim, Size, same, symbols
from eagerflow.graph.edit import in_sizes, lone_names, named_sizes
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.lowering.flat import (
    Gate,
    axes_of,
    first_teller,
    used_inputs,
)
from eagerflow.graph.lowering.parts import LoweredPart
from eagerflow.graph.passes.rewrite import is_pure
from eagerflow.graph.value_types import NumberType, ValueType
from eagerflow.hardware import as_device
from eagerflow.types import DTYPES, LIST, TensorType

_INT: Final = NumberType(int)
_TRUTH: Final = TensorType(DTYPES["bool"], ())
_PARALLEL: Final = 10  # iterations at once, by default


def lower_loop(
    part: LoweredPart, node: Node, inputs: Sequence[Value], after: Sequence[Node]
) -> Sequence[Value]:
    """Append the nodes of a loop.

    Args:
        part: the enclosing graph.
        node: the loop.
        inputs: its operands.
        after: the nodes that its effects wait for.

    Returns:
        Its results.
    """
    return _Loop(part, node, inputs, after).run()


@final
class _Loop:
    """The lowering of one loop."""

    def __init__(
        self, part: LoweredPart, node: Node, inputs: Sequence[Value], after: Sequence[Node]
    ) -> None:
        self.part = part
        self.node = node
        self.inputs = inputs
        self.after = after
        self.graph = part.flat.graph
        self.body: Graph = node.attrs["body"]
        self.frame = part.flat.frames.unique(node.op)
        self.rest: dict[str, Any] = {"source": node.source, "scope": node.scope}
        self.count = node.attrs.get("carry", len(node.inputs))
        pairs = enumerate(zip(self.body.inputs[: self.count], self.body.outputs, strict=False))
        self.moving = [i for i, (before, later) in pairs if before is not later]
        self.most = node.attrs.get("max_iterations")
        self.pure = is_pure(node)
        self.ends = [in_sizes(v.type, part.sizes) for v in node.outputs]
        #: whether the number of the iteration is part of the carry
        self.counted = (
            node.op == "scan" or self.most is not None or not self.pure or not self.moving
        )

    # --- the loop ---

    def run(self) -> Sequence[Value]:
        kinds = self.kinds()
        self.carried = {i: self.merge(self.inputs[i], kinds[i]) for i in self.moving}
        self.stacks = [self.merge(v, v.type) for v in self.lists()]
        self.iteration = self.merge(self.constant(0), _INT, self.after) if self.counted else None
        self.inside = [
            self.carried[i].outputs[0] if i in self.carried else self.enter(v, invariant=True)
            for i, v in enumerate(self.inputs)
        ]
        self.fixed = self.bounds()
        loose = [v for i, v in enumerate(self.inside) if i not in self.carried]
        self.tellers = [*self.inside, *self.size_values()]
        loose += [*self.fixed.values(), *self.tellers[len(self.inside) :]]
        first = self.iteration or next(iter(self.carried.values()))
        switches = self.switch(Gate(loose, first, self.teller))
        self.iterate(switches, Gate(loose, switches[first].outputs[0], self.teller))
        left = {m: self.exit(s) for m, s in switches.items()}
        self.part.done[self.node] = tuple([v.node for v in left.values() if v.node is not None])
        if self.iteration is not None and not self.pure:
            end = left[self.iteration].node
            assert end is not None
            self.part.effects.append(end)
        return self.results(left)

    def switch(self, path: Gate) -> dict[Node, Node]:
        """For each loop-carried value the switch between the next iteration and the exit."""
        goes_on, effects = self.test(path)
        merges = [
            *self.carried.values(),
            *self.stacks,
            *([self.iteration] if self.iteration else []),
        ]
        return {
            m: self.part.add(
                "Switch", (m.outputs[0], goes_on), [m.outputs[0].type] * 2, path=path,
                after=effects if m is self.iteration else (), **self.rest,
            )
            for m in merges
        }  # fmt: skip

    def iterate(self, switches: Mapping[Node, Node], path: Gate) -> None:
        """Lower the body, from the switches to the back edges."""
        values = [
            switches[self.carried[i]].outputs[0] if i in self.carried else v
            for i, v in enumerate(self.inside[: self.count])
        ]
        iteration = switches[self.iteration].outputs[0] if self.iteration else None
        at = (
            self.position(iteration, path)
            if self.node.op == "scan" and iteration is not None
            else None
        )
        if at is not None:
            values += [self.slice(v, at, path) for v in self.inside[self.count :]]
        body = LoweredPart(self.part.flat, self.body, values, path)
        outputs = body.run()
        for i, merge in self.carried.items():
            self.next(merge, outputs[i], path)
        for merge, y in zip(self.stacks, outputs[self.count :], strict=False):
            assert at is not None
            self.next(merge, self.put(switches[merge].outputs[0], at, y, path), path)
        if self.iteration is not None and iteration is not None:
            one = self.constant(1, path)
            more = self.value("python_add", (iteration, one), _INT, path=path, after=body.effects)
            self.next(self.iteration, more, path)

    def results(self, left: Mapping[Node, Value]) -> list[Value]:
        results = []
        for i in range(self.count):
            value = self.inputs[i]
            if i in self.carried:
                value = left[self.carried[i]]
                value.type = self.ends[i]  # its sizes have other names than in the loop
            results.append(value)
        ends = self.ends[self.count :]
        results += [self.stack(left[m], kind) for m, kind in zip(self.stacks, ends, strict=False)]
        return results

    # --- pieces ---

    def value(self, op: str, inputs: Sequence[Value], kind: ValueType, attrs: Any = None,
              **more: Any) -> Value:  # fmt: skip
        """Append a node (see `LoweredPart.add`); returns its output."""
        return self.part.add(op, inputs, [kind], attrs, **more, **self.rest).outputs[0]

    def enter(
        self, value: Value, after: Sequence[Node] = (), *, invariant: bool, **more: Any
    ) -> Value:
        loop = (self.node.op, self.node.name)
        attrs: dict[str, Any] = {"frame": self.frame, "loop": loop, **more}
        if invariant:
            attrs["invariant"] = True
        attrs["parallel_iterations"] = self.node.attrs.get("parallel_iterations", _PARALLEL)
        pure = invariant or self.pure
        return self.value("Enter", [value], value.type, attrs, after=after, pure=pure)

    def merge(self, value: Value, kind: ValueType, after: Sequence[Node] = ()) -> Node:
        """The merge of a loop-carried value, which starts as ``value``."""
        inside = self.enter(value, after, invariant=False)
        return self.graph.add_node("Merge", [inside], [kind], name="merge", **self.rest)

    def next(self, merge: Node, value: Value, path: Gate) -> None:
        made = self.part.add("NextIteration", [value], (), path=path, name="next", **self.rest)
        merge.attrs["back"] = made.name

    def exit(self, switch: Node) -> Value:
        value = switch.outputs[1]
        made = self.graph.add_node("Exit", [value], [value.type], name="exit", **self.rest)
        return made.outputs[0]

    def constant(self, value: int, path: Gate | None = None) -> Value:
        return self.value("constant", (), _INT, {"value": value}, name="iteration", path=path)

    # --- whether there is another iteration ---

    def test(self, path: Gate) -> tuple[Value, list[Node]]:
        """The predicate of another iteration, and the effects of computing it."""
        if self.node.op == "scan":
            return self.less("length", path), []
        graph: Graph = self.node.attrs["cond"]
        if self.most is None:
            part = LoweredPart(self.part.flat, graph, self.inside, path)
            (goes_on,) = part.run()
            return goes_on, part.effects
        (goes_on,), effects = self.part.select(
            [self.less("most", path), *self.inside], used_inputs(graph),
            [self.part.builder(graph), lambda _, given, chosen: ([chosen], [])],
            [_TRUTH], (), self.node, path,
        )  # fmt: skip
        return goes_on, effects

    def less(self, limit: str, path: Gate) -> Value:
        """The predicate that fewer iterations than ``limit`` were done."""
        assert self.iteration is not None
        operands = (self.iteration.outputs[0], self.fixed[limit])
        return self.value("python_lt", operands, _TRUTH, path=path, device=self.device())

    def device(self) -> Any:
        """The device of comparisons: that of the loop's own predicate, if it has one."""
        asked = self.node.attrs["cond"].outputs if "cond" in self.node.attrs else []
        devices = (v.device for v in (*asked, *self.node.inputs, *self.node.outputs))
        return next((d for d in devices if d is not None), None) or as_device(None)

    def bounds(self) -> dict[str, Value]:
        """Upper bounds of the number of iterations, by name."""
        if self.most is not None:
            return {"most": self.enter(self.constant(self.most), invariant=True)}
        if self.node.op != "scan":
            return {}
        length = in_sizes(self.node.attrs["length"], self.part.sizes)
        if type(length) is int:
            made = self.constant(length)
        else:
            made = self.value("python_size", (), _INT, {"size": length})
        how: dict[str, Any] = {"backwards": True} if self.node.attrs.get("reverse") else {}
        return {"length": self.enter(made, invariant=True, **how)}

    # --- slices and stacks of a scan ---

    def position(self, iteration: Value, path: Gate) -> Value:
        """The index along the first axis that belongs to an iteration."""
        if not self.node.attrs.get("reverse"):
            return iteration
        left = self.value("python_sub", (self.fixed["length"], iteration), _INT, path=path)
        return self.value("python_sub", (left, self.constant(1, path)), _INT, path=path)

    def slice(self, values: Value, at: Value, path: Gate) -> Value:
        assert isinstance(values.type, TensorType)
        kind = values.type.like(shape=values.type.shape[1:])
        return self.value("Slice", (values, at), kind, path=path)

    def lists(self) -> Iterator[Value]:
        """Empty lists for the results to be stacked."""
        for value in self.node.outputs[self.count :]:
            device = value.device or as_device(None)
            kind = TensorType(LIST, ())
            yield self.value("list_new", (), kind, {"device": device}, device=device)

    def put(self, values: Value, at: Value, y: Value, path: Gate) -> Value:
        """The list with the result of an iteration added."""
        assert isinstance(values.type, TensorType)
        kind = values.type.like(dtype=DTYPES["int64"])
        index = self.value("python_tensor", [at], kind, path=path, device=values.device)
        return self.value("list_write", (values, index, y), values.type, {"grow": True}, path=path)

    def stack(self, values: Value, kind: ValueType) -> Value:
        assert isinstance(kind, TensorType)
        size, *shape = kind.shape
        attrs = {"size": size, "shape": tuple(shape), "dtype": kind.dtype}
        return self.value("list_stack", [values], kind, attrs)

    # --- sizes ---

    def kinds(self) -> list[ValueType]:
        """The types of the loop-carried values, in all iterations."""
        sizes, changing = dict[str, Size](), set[str]()
        params = self.body.inputs[: self.count]
        for param, value, later in zip(params, self.inputs, self.body.outputs, strict=False):
            for size, given, after in axes_of(param.type, value.type, later.type):
                if isinstance(size, Dim) and size.is_name:
                    sizes.setdefault(str(size), given)
                    if not same(size, after):
                        changing.add(str(size))
        for name in sorted(changing):
            sizes[name] = self.part.flat.fresh_size(name)
        return [in_sizes(param.type, sizes) for param in params]

    def size_values(self) -> list[Value]:
        """Values of the enclosing graph that enter the loop because their shapes give sizes."""
        inside = {name for _, graph in self.node.subgraphs() for name in named_sizes(graph)}
        wanted = symbols([self.part.sizes.get(name, Dim(name)) for name in inside])
        there = {name for value in self.inside for name in lone_names(value.type)}
        values = []
        for name in sorted(wanted - there):
            value = self.part.teller(name)
            if value is not None:
                if self.part.path.teller(name) is value:  # its token does not show a taken branch
                    self.part.path.loose.add(value)
                values.append(self.enter(value, invariant=True))
        return values

    def teller(self, name: str) -> Value | None:
        """A value in the loop whose shape gives a size in each iteration."""
        return first_teller(name, self.tellers)
