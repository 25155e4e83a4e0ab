"""The text of chains as functions: one call per op, or all ops block by block.

For an update of plain momentum it is::

    def chain_4(r5, r6):
        if not (r5.flags.c_contiguous): return plain_5(r5, r6)
        with lock_1, lock_2:
            n0 = variable_1.writable()
            o0 = variable_1._data
            if n0 is None: n0 = empty_like(o0)
            ...
            t0 = multiply(o0, momentum)
            ...
            variable_2._data = n1
"""

from __future__ import annotations

from itertools import repeat
from typing import final

from numpy import empty_like

from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import is_read
from eagerflow.resources.variable import in_order
from eagerflow.runtime.generated.chains import (
    Chain,
    assigns,
    blocks,
    function_of,
    scratch,
    sweep,
)
from eagerflow.runtime.generated.expressions import Expressions
from eagerflow.runtime.generated.instructions import Instruction


@final
class ChainText:
    """Writes the function of one chain.

    Args:
        made: the chain.
        expressions: the expressions of the program.

    Attributes:
        lines: of the text, each with the index of the instruction that it belongs to, or -1.
    """

    def __init__(self, made: Chain, expressions: Expressions) -> None:
        self.made = made
        self.expressions = expressions
        self.lines: list[tuple[str, int]] = []
        self.names: dict[int, str] = {}  # the local variable of each register
        self.blocked: list[str] = []  # the names that are iterated block by block
        self.temporary: dict[int, str] = {}  # as `names`, for values that live only within
        self.free: list[str] = []
        self.slots = 0
        self.states = in_order(made.states)
        self.last = {r: i for i, x in enumerate(made.lines) for r in x.inputs}

    def write(self, name: str, plain: str) -> None:
        """Write the function.

        Args:
            name: its name.
            plain: the name of a function that does the same op by op, for arrays that lie in
                another order than the variables: their results would, too.
        """
        made = self.made
        arguments = ", ".join(f"r{r}" for r in made.inputs)
        self.add(f"def {name}({arguments}):")
        unfit = " and ".join(f"r{r}.flags.c_contiguous" for r in made.inputs[: made.whole])
        if unfit:
            self.add(f" if not ({unfit}): return {plain}({arguments})")
        self.names.update((r, f"r{r}") for r in made.inputs)
        indent = " "
        if self.states:
            locks = ", ".join(self.expressions.bound(v.lock, "lock") for v in self.states)
            self.add(f" with {locks}:")
            indent = "  "
        self.open(indent)
        if made.by_blocks:
            self.by_blocks(indent)
        else:
            for line in made.lines:
                self.whole(line, indent)
        self.close(indent)
        outputs = self.expressions.tuple(self.result(r) for r in made.outputs)
        self.add(f" return {outputs}")

    def add(self, text: str, index: int = -1) -> None:
        self.lines.append((text, index))

    # --- variables ---

    def open(self, indent: str) -> None:
        """Write the loads of variables, and the memory for their new values."""
        for i, variable in enumerate(self.states):
            name, register = (
                self.expressions.bound(variable, "variable"),
                self.made.states[variable],
            )
            if register < 0:
                self.add(f"{indent}o{i} = {name}._data")
            else:
                empty = self.expressions.bound(empty_like, "empty_like")
                self.add(f"{indent}n{i} = {name}.writable()")
                self.add(f"{indent}o{i} = {name}._data")
                self.add(f"{indent}if n{i} is None: n{i} = {empty}(o{i})")
                self.names[register] = f"n{i}"
        for line in self.made.lines:
            if line.node is not None and is_read(line.node.op):
                position = self.states.index(line.node.attrs["resource"])
                self.names[line.outputs[0]] = f"o{position}"

    def close(self, indent: str) -> None:
        for i, variable in enumerate(self.states):
            if self.made.states[variable] >= 0:
                name = self.expressions.bound(variable, "variable")
                self.add(f"{indent}if n{i} is not o{i}: {name}._data = n{i}")

    def result(self, register: int) -> str:
        """A result; for a variable a view, whose reference keeps its array from being reused."""
        name = self.names[register]
        return f"{name}[...]" if name[0] in "on" else name

    # --- one op ---

    def operands_and_result(
        self, line: Instruction, node: Node, index: int
    ) -> tuple[list[str], str, bool]:
        """The names of an op's operands and result, and whether the result has memory already."""
        operands = [self.names.get(r) or self.expressions.operand(r) for r in line.inputs]
        (register,) = line.outputs
        for r in line.inputs:
            if r in self.temporary and self.last[r] == index:
                self.free.append(self.temporary.pop(r))
        if assigns(node):
            old = f"o{self.states.index(node.attrs['resource'])}"
            return [old, *operands], self.names[register], True
        if register in self.made.outputs:
            self.names[register] = f"r{register}"
            return operands, f"r{register}", False
        known = bool(self.free)
        name = self.free.pop() if known else f"t{self.slots}"
        self.slots += not known
        self.names[register] = self.temporary[register] = name
        return operands, name, known

    def function(self, node: Node) -> str:
        function = function_of(node)
        return self.expressions.bound(function, function.__name__)

    def whole(self, line: Instruction, indent: str) -> None:
        node = line.node
        assert node is not None
        if is_read(node.op):
            return
        operands, result, known = self.operands_and_result(line, node, self.made.lines.index(line))
        arguments = ", ".join([*operands, result] if known else operands)
        text = f"{self.function(node)}({arguments})"
        self.add(f"{indent}{text}" if known else f"{indent}{result} = {text}", line.index)

    # --- by blocks ---

    def by_blocks(self, indent: str) -> None:
        made, expressions = self.made, self.expressions
        cut, again = expressions.bound(blocks, "blocks"), expressions.bound(repeat, "repeat")
        calls: list[str] = []
        for position, line in enumerate(made.lines):
            node = line.node
            assert node is not None
            if is_read(node.op):
                continue
            operands, result, _ = self.operands_and_result(line, node, position)
            parts = [f"b{x}" if self.walks(x) else f"{again}({x})" for x in (*operands, result)]
            calls.append(f"zip({again}({self.function(node)}), {', '.join(parts)})")
        start = made.lines[0].index
        like = self.like()
        for r in made.outputs:
            if self.names[r] == f"r{r}":
                empty = expressions.bound(empty_like, "empty_like")
                self.add(f"{indent}r{r} = {empty}({like})", start)
        for name in self.blocked:
            if name[0] == "t":
                text = f"{expressions.bound(scratch, 'scratch')}({like}, {made.step})"
            else:
                text = f"{cut}({name}, {made.step})"
            if name[0] == "n" and f"o{name[1:]}" in self.blocked:
                text = f"bo{name[1:]} if {name} is o{name[1:]} else {text}"
            self.add(f"{indent}b{name} = {text}", start)
        self.add(f"{indent}{expressions.bound(sweep, 'sweep')}({', '.join(calls)})", start)

    def like(self) -> str:
        """The name of an array with the common type of the chain."""
        return f"r{self.made.inputs[0]}" if self.made.whole else "o0"

    def walks(self, name: str) -> bool:
        """Whether a name is that of a whole array, which is then iterated by blocks."""
        single = {f"r{r}" for r in self.made.inputs[self.made.whole :]}
        if name in single or name[0] not in "ront" or not name[1:].isdigit():
            return False
        if name not in self.blocked:
            self.blocked.append(name)
        return True
