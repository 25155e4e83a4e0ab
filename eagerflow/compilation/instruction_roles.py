"""The role of an instruction in a native kernel, or the reason why it has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias, final

from eagerflow.core.op import find_op, get_op
from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import kind_of
from eagerflow.graph.value_types import NumberType
from eagerflow.hardware import Device
from eagerflow.resources.variable import VariableState
from eagerflow.types import TensorType
from eagerflow_kernels.native.loop_form import FLOATS, INTEGERS, LOW, Kind
from eagerflow_kernels.native.op_rules import OPS, NativeOp

#: dtypes that kernels have
KINDS: Final[Mapping[str, Kind]] = {
    "float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "bool": "bool",
    "float16": "f16", "bfloat16": "bf16",
}  # fmt: skip

#: a shape whose symbolic sizes are texts, so that shapes can be compared and looked up
Space: TypeAlias = tuple[int | str, ...]


class Line(Protocol):
    """An instruction: a node with the numbers of its values (see `runtime.generated`)."""

    @property
    def single(self) -> Node | None:
        """The node; None for an instruction that is more than one node."""

    @property
    def blocks(self) -> Sequence[Any]:
        """The branches, or the parts of a loop, that belong to the instruction."""

    @property
    def inputs(self) -> tuple[int, ...]:
        """The numbers of its operands."""

    @property
    def outputs(self) -> tuple[int, ...]:
        """The numbers of its results."""

    @property
    def reads(self) -> tuple[int, ...]:
        """All values that must have been computed before, values of sizes included."""


class Program(Protocol):
    """The known facts about the values of a program, by their numbers."""

    @property
    def kinds(self) -> Sequence[TensorType | NumberType | None]:
        """The type of each value."""

    @property
    def devices(self) -> Sequence[Device | None]:
        """The device of each value."""

    @property
    def constants(self) -> Mapping[int, Any]:
        """The arrays of the constants."""


#: whether an op of an instruction runs eagerflow's own kernel, not one of a user
IsOwn: TypeAlias = Callable[[Any], bool]


@final
@dataclass(frozen=True, slots=True)
class Role:
    """The role of an instruction in a kernel.

    Attributes:
        what: ``"elements"`` computes element by element, ``"reduction"`` reduces axes, ``"along"``
            computes elements from all elements along an axis, ``"pick"`` gives rows of a table and
            goes along their axes, ``"update"`` computes the new value of a variable element by
            element, ``"read"`` reads a variable. ``"repeat"`` and ``"view"`` forward their
            operand, for more elements or with other axes of size 1, ``"frame"`` forwards it into
            the inside of a larger array, ``"join"`` forwards its operands into the parts of one.
        space: the shape that the instruction goes through.
        axes: the axes that it reduces, or goes along.
        op: the name of the rule; empty for an instruction that only forwards its operand.
    """

    what: Literal[
        "elements", "reduction", "along", "pick", "update", "read", "repeat", "view", "frame",
        "join",
    ]  # fmt: skip
    space: Space
    axes: tuple[int, ...] = ()
    op: str = ""


def role_of(program: Program, line: Line, is_own: IsOwn) -> Role | str:
    """The role of an instruction, or the reason why it has none."""
    node = line.single
    if node is None or kind_of(node.op) != "op":
        return "it steers what runs"
    op = find_op(node.op)
    if op is None:
        return "it is not an op on arrays"
    wrong = _wrong_values(program, (*line.inputs, *line.outputs))
    if wrong:
        return wrong
    if op.reads_variable or op.updates is not None or node.op == "assign":
        return _role_of_state(program, line, node, is_own)
    if op.effect != "pure":
        return "it has an effect"
    if op.is_portable:
        return "it is a call of NumPy's"
    placed = _role_of_frame(program, line, node, is_own) or _role_of_join(program, line, is_own)
    if placed is not None:
        return placed
    rule = OPS.get(node.op)
    if rule is None:
        return "left to NumPy or BLAS"
    if not is_own(line):
        return "its kernel is a user's"
    return _role_of_rule(program, line, node, rule)


def _wrong_values(program: Program, registers: Sequence[int]) -> str | None:
    """The reason why kernels cannot take these values; None if they can."""
    for register in registers:
        kind, device = program.kinds[register], program.devices[register]
        if not isinstance(kind, TensorType):
            return "it takes or gives a Python number"
        if kind.dtype.name not in KINDS:
            return f"native kernels have no {kind.dtype.name}"
        if device is None or device.backend.kind != "cpu":
            return f"it is on {device}"
    return None


def type_at(program: Program, register: int) -> TensorType:
    """The type of a value that is a tensor."""
    kind = program.kinds[register]
    assert isinstance(kind, TensorType)
    return kind


def kind_at(program: Program, register: int) -> Kind:
    """The kind of the elements of a tensor."""
    return KINDS[type_at(program, register).dtype.name]


def computed_in(kind: Kind) -> Kind:
    """The kind in which kernels compute with arrays of a kind."""
    return "f32" if kind in LOW else kind


def space_at(program: Program, register: int) -> Space:
    """The shape of a value that is a tensor."""
    return tuple([n if type(n) is int else str(n) for n in type_at(program, register).shape])


def _role_of_state(program: Program, line: Line, node: Node, is_own: IsOwn) -> Role | str:
    op = get_op(node.op)
    variable = node.attrs.get("resource")
    if type(variable) is not VariableState or not is_own(line):
        return "its kernel is a user's"
    space = space_at(program, line.outputs[0])
    if op.reads_variable:
        return Role("read", space)
    given = space_at(program, line.inputs[0])
    if not all(type(size) is int for size in (*space, *given)):
        return "the size of the assigned value is known only when it runs"
    if op.updates is None and given != space:
        return "the assigned value has another shape than the variable"
    if KINDS[variable.dtype.name] == "bool" and op.updates is not None:
        return "it adds bools"
    return Role("update", space, op=op.updates or "")


def _role_of_rule(program: Program, line: Line, node: Node, rule: NativeOp) -> Role | str:
    if rule.picks:
        return _role_of_pick(program, line, node, rule)
    kinds = [kind_at(program, r) for r in line.inputs]
    if rule.condition and kinds.pop(0) != "bool":
        return "its condition is not a bool"
    if len(set(kinds)) != 1 or computed_in(kinds[0]) not in rule.kinds:
        return f"its native kernel takes no {'/'.join(dict.fromkeys(kinds))}"
    made = kind_at(program, line.outputs[0])
    if node.op == "cast":
        if computed_in(kinds[0]) in FLOATS and made in INTEGERS:
            return "a cast to integers is NumPy's"
        if made in LOW and kinds[0] in ("f64", *INTEGERS):
            return "it is rounded to float32 first, which NumPy's cast is not"
        return Role("elements", space_at(program, line.outputs[0]), op="cast")
    if rule.hands_on:
        return _role_of_view(program, line)
    if rule.along_axis:
        return _role_along(program, line, node, rule)
    for name, values in rule.takes.items():
        if node.attrs[name] not in values:
            return f"its native kernel is for no {name}={node.attrs[name]!r}"
    return Role("elements", space_at(program, line.outputs[0]), op=node.op)


def _role_of_pick(program: Program, line: Line, node: Node, rule: NativeOp) -> Role | str:
    table, places = line.inputs
    if kind_at(program, table) not in rule.kinds or kind_at(program, places) not in INTEGERS:
        return f"its native kernel takes no {kind_at(program, table)}"
    picked = len(space_at(program, places))
    space = space_at(program, line.outputs[0])
    if node.attrs["axis"] != 0 or not 0 < picked < len(space):
        return "its native kernel picks whole rows"
    return Role("pick", space, tuple(range(picked, len(space))), node.op)


def _role_of_frame(program: Program, line: Line, node: Node, is_own: IsOwn) -> Role | str | None:
    """The role of an op that puts an array into a larger one; None for other ops."""
    if node.op != "pad":
        return None
    if not is_own(line):
        return "its kernel is a user's"
    widths = [n for pair in node.attrs["widths"] for n in pair]
    if any(type(n) is not int for n in widths):
        return "its widths are known only when it runs"
    if not any(widths) or min(widths) < 0:
        return "it takes elements away, or adds none"
    return Role("frame", space_at(program, line.inputs[0]))


def _role_of_join(program: Program, line: Line, is_own: IsOwn) -> Role | str | None:
    """The role of an op that joins arrays of one shape along the last axis; None for other ops."""
    node = line.single
    if node is None or node.op != "concat":
        return None
    if not is_own(line):
        return "its kernel is a user's"
    spaces = {space_at(program, r) for r in line.inputs}
    (space, *others) = spaces
    if others or len(space) < 2 or node.attrs["axis"] != len(space) - 1:
        return "it joins other arrays than equal ones along the last axis"
    if type(space[-1]) is not int:
        return "the sizes of its parts are known only when it runs"
    if len(line.inputs) == 1:  # its readers go through as many elements: they may be in its region
        return "it joins one array"
    return Role("join", space)


def takes_part(line: Line) -> bool:
    """Whether an operand of an instruction is a part of an array with rows."""
    operands = () if line.single is None else line.single.inputs
    return any(
        v.node is not None
        and len(v.type.shape) > 1
        and (op := find_op(v.node.op)) is not None
        and op.parts
        for v in operands
    )


def _role_of_view(program: Program, line: Line) -> Role | str:
    given, made = space_at(program, line.inputs[0]), space_at(program, line.outputs[0])
    if [n for n in given if n != 1] == [n for n in made if n != 1]:
        return Role("view", made) if given != made else "there is nothing to compute"
    if len(given) <= len(made) and all(
        n in (1, m) for n, m in zip(reversed(given), reversed(made), strict=False)
    ):
        return Role("repeat", made)
    return "there is nothing to compute"


def _role_along(program: Program, line: Line, node: Node, rule: NativeOp) -> Role | str:
    given = space_at(program, line.inputs[0])
    if node.op == "sum_to":
        axes = _axes_added(given, space_at(program, line.outputs[0]))
    else:
        axis: Any = node.attrs["axis"]
        if axis is None:
            axis = range(len(given))
        axes = (axis,) if isinstance(axis, int) else tuple(axis)
    if not axes or not given:
        return "it reduces no axis"
    if node.attrs.get("least"):
        return "it may have too few elements"
    what: Literal["along", "reduction"] = "along" if rule.keeps_axis else "reduction"
    return Role(what, given, tuple(sorted(axes)), node.op)


def _axes_added(given: Space, made: Space) -> tuple[int, ...]:
    """The axes that are summed to make one shape of another; none if no kernel can sum them."""
    lead = len(given) - len(made)
    kept = [i for i, n in enumerate(made) if n != given[lead + i]]
    if kept and lead:
        return ()
    if any(made[i] != 1 for i in kept):
        return ()
    return tuple(range(lead)) or tuple(kept)


def attributes_of(node: Node, made: Kind) -> dict[str, Any]:
    """The arguments of the rule of a node besides its operands.

    Args:
        node: a node with a role.
        made: the kind of its result.
    """
    if node.op == "cast":
        return {"kind": computed_in(made)}
    rule = OPS[node.op]
    return {name: node.attrs[name] for name in (*rule.takes, *rule.numbers)}


#: see `layout_of`
Layout: TypeAlias = tuple[Literal["rows", "columns"], int]


def layout_of(axes: tuple[int, ...], ndim: int) -> Layout | None:
    """The layout of k axes in a shape: ``("rows", k)`` if last, ``("columns", k)`` if first."""
    count = len(axes)
    if axes == tuple(range(ndim - count, ndim)):
        return "rows", count
    if axes == tuple(range(count)) and ndim == count + 1:
        return "columns", count
    return None


def per_row(space: Space, layout: Layout) -> tuple[Space, Space]:
    """The shapes of values with one element per row, without and with the axes of the row."""
    name, count = layout
    if name == "rows":
        kept = tuple(space[: len(space) - count])
        return kept, (*kept, *(1,) * count)
    kept = tuple(space[count:])
    return kept, (*(1,) * count, *kept)
