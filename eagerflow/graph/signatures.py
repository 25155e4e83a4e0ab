"""Specs of the nodes that stand for no op of `eagerflow.ops`: constants, numbers, subgraphs.

A signature gives types and devices of a node's outputs, as both rules of an op do, or raises. Where
several are right, it may read those that the node has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

from eagerflow.core.op import find_op, moving
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Dim, Size, same, symbols
from eagerflow.errors import DeviceError, DTypeError, GraphError, ShapeError
from eagerflow.graph.edit import in_sizes, named_axes, sizes_named_by
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.number_ops import NUMBER_OPS, RANKS
from eagerflow.graph.value_types import NumberType, Reference, ValueSpec
from eagerflow.hardware import Device
from eagerflow.hardware.device_rules import transfer_hint
from eagerflow.types import TensorSpec, TensorType

#: the kind of a node: ``"op"``, or
#:
#: - ``"constant"``;
#: - ``"number"``, which computes with Python numbers (`eagerflow.graph.number_ops`);
#: - ``"call"``, whose subgraph ``body`` runs once;
#: - ``"branches"``, of whose subgraphs ``branches`` the first input selects one;
#: - ``"loop"``, whose subgraph ``body`` runs any number of times;
#: - ``"steering"``, which only lowered graphs have (`eagerflow.graph.lowering`).
NodeKind = Literal["op", "constant", "number", "call", "branches", "loop", "steering"]
#: where a node of a lowered graph leads the value that passes it: into one of several branches, out
#: of them, into a loop, into the next iteration, out of the loop, to another partition or from one
Lead = Literal["", "branch", "join", "enter", "repeat", "leave", "send", "receive"]
Rule = Callable[[Node], Sequence[ValueSpec]]
_R = TypeVar("_R", bound=Rule)


class NodeSignature(NamedTuple):
    """The facts of nodes that stand for no op.

    Attributes:
        kind: the kind of the nodes.
        types: gives the specs of the outputs, or raises.
        needs: the names of required attributes.
        takes: the names of optional attributes; None for any.
        operands: the number of operands; None for any number.
        host_inputs: the operands that are read in the memory of the host, such as predicates.
        leads: where the nodes lead the value that passes them.
    """

    kind: NodeKind
    types: Rule
    needs: str = ""
    takes: str | None = None
    operands: int | None = None
    host_inputs: tuple[int, ...] = ()
    leads: Lead = ""


#: by the op of the node
signatures: Final[dict[str, NodeSignature]] = {}

_INT, _FLOAT, _COMPLEX = NumberType(int), NumberType(float), NumberType(complex)


def signature(
    *ops: str, kind: NodeKind, needs: str = "", takes: str | None = None,
    operands: int | None = None, host_inputs: tuple[int, ...] = (), leads: Lead = "",
) -> Callable[[_R], _R]:  # fmt: skip
    """Register the decorated function as the type rule of nodes of ``ops``."""

    def register(rule: _R) -> _R:
        known = NodeSignature(kind, rule, needs, takes, operands, host_inputs, leads)
        signatures.update(dict.fromkeys(ops, known))
        return rule

    return register


def kind_of(op: str) -> NodeKind:
    """The kind of nodes of ``op``."""
    signature = signatures.get(op)
    return "op" if signature is None else signature.kind


def lead_of(op: str) -> Lead:
    """Where nodes of ``op`` lead the value that passes them."""
    signature = signatures.get(op)
    return "" if signature is None else signature.leads


def is_constant(value: Value) -> bool:
    """Whether ``value`` is the output of a constant node."""
    return value.node is not None and kind_of(value.node.op) == "constant"


def is_read(op: str) -> bool:
    """Whether nodes of ``op`` give the value of a variable, and do nothing else to state."""
    known = find_op(op)
    return known is not None and known.reads_variable


def is_transfer(op: str) -> bool:
    """Whether nodes of ``op`` move a value to another device."""
    return op in moving


def is_number(op: str) -> bool:
    """Whether nodes of ``op`` compute with Python numbers."""
    return kind_of(op) == "number"


def is_loop(op: str) -> bool:
    """Whether nodes of ``op`` have a body that runs any number of times."""
    return kind_of(op) == "loop"


def is_control(op: str) -> bool:
    """Whether values decide if, and how often, the subgraphs of nodes of ``op`` run."""
    return kind_of(op) in ("branches", "loop")


def is_structured(op: str) -> bool:
    """Whether each output of nodes of ``op`` has its own device, given by their subgraphs."""
    return kind_of(op) in ("call", "branches", "loop")


def fits(got: ValueSpec, want: ValueSpec) -> bool:
    """Whether two specs are the same for all sizes that names may stand for.

    Devices are compared where both are known.
    """
    return has_type(got, want) and is_together(got, want)


def is_together(a: ValueSpec, b: ValueSpec) -> bool:
    """Whether two values are on one device, as far as that is known."""
    return None in (a.device, b.device) or bool(a.device == b.device)


def has_type(got: ValueSpec, want: ValueSpec) -> bool:
    """Whether two specs have the same type; devices are ignored."""
    if isinstance(got, NumberType) or isinstance(want, NumberType):
        return got.type == want.type
    return (
        got.dtype is want.dtype
        and len(got.shape) == len(want.shape)
        and all(map(same, got.shape, want.shape))
    )


# --- reads on the host of values that a device makes -----------------------------------------


def late_reads(node: Node) -> list[int]:
    """The positions of the inputs that the host has to wait for before a node can run.

    They are predicates, and tensors that become Python numbers, on a device whose values are not
    ready when the op that makes them has returned; and the operands of an op whose output shapes
    depend on data (a mask, `nonzero`), as the host needs the number of elements.
    """
    late = [i for i, value in enumerate(node.inputs) if is_late(value)]
    if not late or (find_op(node.op) is not None and _is_sized_by_data(node)):
        return late
    read = read_on_host(node)
    return [i for i in late if i in read]


def _is_sized_by_data(node: Node) -> bool:
    made = _sizes(node.outputs)
    return bool(made) and not made <= _sizes(node.inputs).union(sizes_named_by(node))


def _sizes(values: Sequence[Value]) -> frozenset[str]:
    """The names of sizes in the types of ``values``."""
    return symbols([d for v in values if isinstance(v.type, TensorType) for d in v.type.shape])


def reads_late(node: Node) -> bool:
    """Whether a node in a subgraph reads an input late, or a loop its predicate."""
    return any(
        late_reads(inner) or _asks_late(inner) or reads_late(inner)
        for _, graph in node.subgraphs() for inner in graph.nodes
    ) or _asks_late(node)  # fmt: skip


def read_on_host(node: Node) -> frozenset[int]:
    """The positions of inputs that are read in host memory, wherever the node runs."""
    signature, op, count = signatures.get(node.op), find_op(node.op), len(node.inputs)
    if signature is not None:
        positions = signature.host_inputs
    else:
        positions = () if op is None else op.read_on_host(node.attrs)
    return frozenset(i % count for i in positions)


def is_late(value: Value) -> bool:
    """Whether a value may not be ready yet when the op that makes it has returned."""
    device = value.device
    if not isinstance(device, Device) or device.is_ready_at_once:
        return False
    maker = None if value.node is None else find_op(value.node.op)
    made_on_host = maker is not None and value.index in maker.host_outputs
    return not made_on_host and isinstance(value.type, TensorType)


def _asks_late(node: Node) -> bool:
    """Whether the predicate of a loop is such a late value."""
    asked = [v for key, graph in node.subgraphs() if key == "cond" for v in graph.outputs]
    return any(map(is_late, asked))


# --- constants and numbers --------------------------------------------------------------------


@signature("constant", kind="constant", needs="value", takes="", operands=0)
def _constant(node: Node) -> Sequence[ValueSpec]:
    value = node.attrs.get("value")
    if isinstance(value, (Tensor, Reference)):
        kind = value.type if isinstance(value, Reference) else value.type.type
        assert kind is not None
        # the array of a constant is on the host
        return (kind.on(next((v.device for v in node.outputs), None)),)
    if isinstance(value, (int, float, complex)) and type(value) in RANKS:
        return (NumberType(type(value)),)
    raise DTypeError("the value of a constant is a tensor or a number", given=repr(value))


@signature("python_size", kind="number", needs="size", takes="", operands=0)
def _size(node: Node) -> Sequence[ValueSpec]:
    """The spec of a size of an enclosing shape, as a number."""
    if not isinstance(node.attrs.get("size"), (Dim, int)):
        raise ShapeError("the attribute 'size' is not a size", given=repr(node.attrs.get("size")))
    return (_INT,)


@signature("python_tensor", kind="number", operands=1)
def _number_tensor(node: Node) -> Sequence[ValueSpec]:
    """The spec of a number as a tensor without axes."""
    _numbers(node)
    kind = _output(node)
    if not isinstance(kind, TensorSpec) or kind.shape:
        raise ShapeError("a number becomes a tensor without axes", given=str(kind))
    return (kind,)


def _arithmetic(node: Node) -> Sequence[ValueSpec]:
    op = NUMBER_OPS[node.op]
    operands = _numbers(node)
    if op.kind is None:
        return (_truth(node),)
    number_kind = op.kind([operand.kind for operand in operands])
    if op.widens:
        kind = _output(node)
        if isinstance(kind, NumberType) and RANKS[kind.kind] >= RANKS[number_kind]:
            return (kind,)
    return (NumberType(number_kind),)


for _op in NUMBER_OPS.values():
    signature(_op.name, kind="number", operands=_op.arity)(_arithmetic)


def _truth(node: Node) -> ValueSpec:
    kind = _output(node)
    if not isinstance(kind, TensorSpec) or kind.shape or kind.dtype.category != "bool":
        raise DTypeError("a comparison of numbers gives a bool without axes", given=str(kind))
    return kind


@signature("python_item", kind="number", operands=1, host_inputs=(0,))
def _item(node: Node) -> Sequence[ValueSpec]:
    """The type of the element of a tensor without axes, as a number."""
    (kind,) = [v.spec for v in node.inputs]
    if not isinstance(kind, TensorSpec) or kind.shape:
        raise ShapeError("a tensor without axes becomes a number", given=str(kind))
    return (_INT if kind.dtype.is_integer else _COMPLEX if kind.dtype.is_complex else _FLOAT,)


def _numbers(node: Node) -> list[NumberType]:
    types = [v.type for v in node.inputs if isinstance(v.type, NumberType)]
    if len(types) != len(node.inputs):
        given = ", ".join(str(v.spec) for v in node.inputs)
        raise GraphError(f"{node.op} takes numbers", given=given)
    return types


def _output(node: Node) -> ValueSpec:
    if len(node.outputs) != 1:
        raise GraphError(f"{node.op} has one output", given=str(len(node.outputs)))
    return node.outputs[0].spec


# --- calls and control flow -------------------------------------------------------------------


@signature("call", kind="call", needs="body")
def _call(node: Node) -> Sequence[ValueSpec]:
    return _apply(_body(node, "body"), [v.spec for v in node.inputs])


@signature("cond", "switch", kind="branches", needs="branches", takes="", host_inputs=(0,))
def _branches(node: Node) -> Sequence[ValueSpec]:
    """The specs of branches; the first input chooses one, which takes the other inputs."""
    branches = node.attrs.get("branches")
    if not isinstance(branches, tuple) or not all(isinstance(b, Graph) for b in branches):
        raise GraphError(f"{node.op} has no branches")
    if not branches or (node.op == "cond" and len(branches) != 2):
        raise GraphError(f"{node.op} has {len(branches)} branches")
    if not node.inputs:
        raise GraphError(f"{node.op} has no operands: the first one chooses a branch")
    predicate, *operands = [v.spec for v in node.inputs]
    kinds = ("bool",) if node.op == "cond" else ("signed integer", "unsigned integer")
    if (
        not isinstance(predicate, TensorSpec)
        or predicate.shape
        or predicate.dtype.category not in kinds
    ):
        raise DTypeError(f"{node.op} is chosen by a {kinds[0]} without axes", given=str(predicate))
    given = [v.spec for v in node.outputs]
    first, *others = [_as_given(b, operands, given) for b in branches]
    for i, other in enumerate(others, 1):
        pair = f"branches 0 and {i} give"
        _agree(f"{pair} different types", f"{pair} results on different devices", other, first)
    return first


@signature(
    "while_loop", kind="loop", needs="cond body",
    takes="max_iterations parallel_iterations recompute",
)  # fmt: skip
def _while_loop(node: Node) -> Sequence[ValueSpec]:
    types = [v.spec for v in node.inputs]
    (goes_on,) = _apply(_body(node, "cond"), types) or (None,)
    if not isinstance(goes_on, TensorSpec) or goes_on.shape or goes_on.dtype.category != "bool":
        raise DTypeError("the condition of a loop is a bool without axes", given=str(goes_on))
    body = _body(node, "body")
    _apply(body, types)
    return _after_iterations(node, body, types, body.outputs)


@signature("scan", kind="loop", needs="body carry length", takes="reverse")
def _scan(node: Node) -> Sequence[ValueSpec]:
    """The specs of a scan: the first ``carry`` inputs are carried, the others sliced (axis 0)."""
    count, length = node.attrs.get("carry"), node.attrs.get("length")
    if not isinstance(count, int) or not isinstance(length, (int, Dim)):
        raise GraphError("scan needs the attributes 'carry' and 'length'")
    if not 0 <= count <= len(node.inputs):
        raise GraphError(f"scan has {len(node.inputs)} operands, and a carry of {count}")
    carry, xs = [v.spec for v in node.inputs[:count]], [v.spec for v in node.inputs[count:]]
    slices = []
    for kind in xs:
        if not isinstance(kind, TensorSpec) or not kind.shape or not same(kind.shape[0], length):
            raise ShapeError(f"scan iterates over a first axis of size {length}", given=str(kind))
        slices.append(kind.like(shape=kind.shape[1:]))
    body = _body(node, "body")
    results = _apply(body, [*carry, *slices])
    after = _after_iterations(node, body, carry, body.outputs[:count])
    return [*after, *(_stacked(kind, length) for kind in results[count:])]


def _after_iterations(
    node: Node, body: Graph, before: Sequence[ValueSpec], results: Sequence[Value]
) -> Sequence[ValueSpec]:
    """The specs of the carry after the last iteration: those before it, but for changed sizes.

    A name in the body's inputs stands for another size in each iteration, unless all iterations
    keep it. Sizes that iterations change are taken from the outputs of the node.
    """
    params = [v.spec for v in body.inputs[: len(before)]]
    after = [v.spec for v in results]
    first, later = _bindings(params, before), _bindings(params, after)
    kept = {n: s for n, s in first.items() if same(later.get(n, s), _name_in(params, n))}
    fixed = [in_sizes(kind, {**later, **{n: _name_in(params, n) for n in kept}}) for kind in params]
    what = "scan" if node.op == "scan" else "loop"
    change = f"an iteration of the {what} changes"
    _agree(f"{change} types", f"{change} the device of its carry", after, fixed)
    given = [v.spec for v in node.outputs[: len(before)]]
    ends = {n: s for n, s in _bindings(params, given).items() if n not in kept}
    return [in_sizes(kind, {**ends, **kept}) for kind in params]


def _bindings(params: Sequence[ValueSpec], given: Sequence[ValueSpec]) -> dict[str, Size]:
    """For each name that is a whole size in ``params`` the size in ``given``."""
    sizes: dict[str, Size] = {}
    for param, kind in zip(params, given, strict=False):
        for axis, name in named_axes(param):
            if axis < len(kind.shape):
                sizes.setdefault(name, kind.shape[axis])
    return sizes


def _name_in(params: Sequence[ValueSpec], name: str) -> Size:
    """The size in ``params`` that is this name."""
    return next(k.shape[axis] for k in params for axis, own in named_axes(k) if own == name)


def _stacked(kind: ValueSpec, length: Any) -> TensorSpec:
    if not isinstance(kind, TensorSpec):
        raise DTypeError("scan stacks tensors", given=str(kind))
    return kind.like(shape=(length, *kind.shape))


def _body(node: Node, key: str) -> Graph:
    body = node.attrs.get(key)
    if not isinstance(body, Graph):
        raise GraphError(f"{node.op} has no subgraph {key!r}")
    return body


def _agree(types: str, devices: str, got: Sequence[ValueSpec], want: Sequence[ValueSpec]) -> None:
    """Raise an error with one of two texts: types differ, or devices alone."""
    if len(got) != len(want) or not all(map(has_type, got, want)):
        raise ShapeError(types, given=_list(got), expected=_list(want))
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        if not fits(a, b):
            raise DeviceError(
                f"{devices}: number {i} is on {a.device}, not on {b.device}",
                given=_list(got),
                expected=_list(want),
                hint=transfer_hint("it", b.device),
            )


def _list(types: Sequence[ValueSpec]) -> str:
    return ", ".join(map(str, types)) or "none"


def _apply(graph: Graph, operands: Sequence[ValueSpec]) -> list[ValueSpec]:
    """The output specs of ``graph`` for operands of these specs, which give the sizes."""
    params = [v.spec for v in graph.inputs]
    sizes = _bindings(params, operands)
    name = f"the subgraph {graph.name or 'without a name'} takes"
    _agree(
        f"{name} other operands",
        f"{name} operands on other devices",
        operands,
        [in_sizes(p, sizes) for p in params],
    )
    return [in_sizes(v.spec, sizes) for v in graph.outputs]


def _as_given(
    graph: Graph, operands: Sequence[ValueSpec], given: Sequence[ValueSpec]
) -> list[ValueSpec]:
    """As `_apply`, with the names of ``given`` in place of sizes that are single names.

    A branch may know a size by another name than the enclosing graph: the cotangent of a value that
    the branch passes through has the size of its result inside, and of its operand outside. A name
    of ``given`` that no operand has is that of a size on which the branches differ.
    """
    results = _apply(graph, operands)
    known = frozenset[str]().union(*(symbols(x.shape) for x in operands))
    for i, (kind, other) in enumerate(zip(results, given, strict=False)):
        if isinstance(kind, TensorSpec) and len(kind.shape) == len(other.shape):
            shape = [
                b
                if isinstance(b, Dim)
                and isinstance(a, Dim)
                and (a.is_name or (b.is_name and not b.symbols <= known))
                else a
                for a, b in zip(kind.shape, other.shape, strict=True)
            ]
            results[i] = kind.like(shape=tuple(shape))
    return results
