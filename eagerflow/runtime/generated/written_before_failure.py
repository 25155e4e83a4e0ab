"""Writes of a step that failed: variables, generators and other resources, noted in its error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, final

from eagerflow.graph.ir import Node
from eagerflow.graph.passes.rewrite import effect_of
from eagerflow.graph.signatures import is_loop
from eagerflow.ops.state.callbacks import PyFunction
from eagerflow.resources.generator import GeneratorState
from eagerflow.resources.variable import VariableState
from eagerflow.runtime.generated.instructions import Instruction, Instructions
from eagerflow.source import Source, cell_name

_EFFECTS: Final = ("writes", "fence", "blocks")
_SURE, _PERHAPS = 2, 1


@final
class Written:
    """A record of written resources, by the names that errors give them.

    Attributes:
        sure: by identity, the resources that were written.
        perhaps: the resources of writes in branches and loops, of which no record says whether
            they ran, and of writes that Ctrl-C may have come before or after.
    """

    __slots__ = ("perhaps", "sure")

    def __init__(self) -> None:
        self.sure: dict[int, str] = {}
        self.perhaps: dict[int, str] = {}

    @staticmethod
    def by(nodes: Iterable[Node]) -> Written | None:
        """The writes of nodes that have run; None if they write nothing."""
        written = Written()
        for node in nodes:
            written._see(node, _SURE)
        return written if written.sure or written.perhaps else None

    def _see(self, node: Node, how: int) -> None:
        for _, graph in node.subgraphs():
            for inner in graph.nodes:
                self._see(inner, how if node.op == "call" else _PERHAPS)
        self._note(node, how)

    def _note(self, node: Node, how: int) -> None:
        resource = node.attrs.get("resource")
        if how and resource is not None and effect_of(node) in _EFFECTS:
            name = _name(resource, node)
            if name is not None:
                (self.sure if how == _SURE else self.perhaps)[id(resource)] = name

    @staticmethod
    def before(
        program: Instructions, index: int, iterations: Mapping[int, int], *, done: bool = False
    ) -> Written:
        """The writes of a program before one of its instructions failed.

        Args:
            program: all instructions.
            index: of the instruction that failed.
            iterations: by the index of a loop around it, the number of completed iterations.
            done: whether the instruction itself had run.
        """
        written = Written()
        for line in program.all:
            node = line.single
            if node is None:
                continue
            how = (
                _SURE if done and line.index == index else _in_this_iteration(program, line, index)
            )
            how = max(how, _in_iterations_before(program, line, iterations))
            written._note(node, how)
        return written

    def add(self, other: Written) -> None:
        """Add the writes of another record."""
        self.sure |= other.sure
        self.perhaps |= other.perhaps

    def may_include(self, other: Written | None) -> None:
        """Add writes of which it is not known how many were done."""
        if other is not None:
            self.perhaps |= other.sure | other.perhaps

    def take(self, error: BaseException) -> None:
        """Add the writes that are noted in an error."""
        known: Written | None = getattr(error, "_written", None)
        if known is not None:
            self.add(known)

    def note(self, error: BaseException) -> None:
        """Note the writes in an error, together with writes noted there already."""
        known: Written | None = getattr(error, "_written", None)
        if known is not None:
            self.take(error)
            error.__notes__ = [n for n in error.__notes__ if n not in known._notes()]
        for text in self._notes():
            error.add_note(text)
        if self.sure or self.perhaps:
            vars(error)["_written"] = self  # a name that only this class uses

    def _notes(self) -> list[str]:
        sure = dict.fromkeys(self.sure.values())  # a print in each iteration counts once
        unsure = [name for key, name in self.perhaps.items() if key not in self.sure]
        perhaps = dict.fromkeys([name for name in unsure if name not in sure])
        lines = [("had already written", sure), ("may have written", perhaps)]
        return [f"  this step {what}: {', '.join(names)}" for what, names in lines if names]


def _name(resource: Any, node: Node) -> str | None:
    """The name of a written resource, for messages; None if users do not see it as a write."""
    if isinstance(resource, GeneratorState):
        return "a generator"
    if isinstance(resource, PyFunction):
        if resource.checks:
            return None
        what = resource.title
        return what if node.source is None else f"{what} at {_line(node.source)}"
    if isinstance(resource, VariableState) and resource.name is None and resource.made is not None:
        return f"{resource!r} (made at {_line(resource.made)})"
    return repr(resource)


def _line(source: Source | str) -> str:
    """A source as file and line."""
    return source if isinstance(source, str) else f"{cell_name(source.file)}:{source.line}"


def _in_this_iteration(program: Instructions, line: Instruction, index: int) -> int:
    """How sure it is that ``line`` ran before instruction ``index``, in the same iterations."""
    if line.index >= index:
        return 0
    inside = {one.index: block for one, block in program.around[index]}
    how = _SURE
    for one, block in program.around[line.index]:
        if one.index not in inside:
            how = _PERHAPS
        elif not _is_loop(one) and inside[one.index] != block:
            return 0  # in the branch that was not taken
    return how


def _in_iterations_before(
    program: Instructions, line: Instruction, iterations: Mapping[int, int]
) -> int:
    """How sure it is that ``line`` ran in earlier iterations of a loop; 0 for no."""
    how = 0
    for one, _ in program.around[line.index]:
        if _is_loop(one) and iterations.get(one.index, 0) > 0:
            how = _SURE
        elif how:
            how = _PERHAPS
    return how


def _is_loop(line: Instruction) -> bool:
    return line.node is not None and is_loop(line.node.op)
