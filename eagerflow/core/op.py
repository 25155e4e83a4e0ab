"""The op record, the registry of ops, and `bind`, the one funnel of every op in every mode."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, cast, final

from eagerflow import plugins
from eagerflow.core import interpreter
from eagerflow.core.interpreter import stack
from eagerflow.core.op_records.batch_rules import STATE
from eagerflow.core.op_records.op_facts import GENERAL, family_of
from eagerflow.core.op_records.operands import read_operands
from eagerflow.core.op_records.registration_checks import (
    check_count,
    check_facts,
    check_kind,
    check_rules,
    check_statement,
    warn_of_unknown,
)
from eagerflow.errors import (
    OpDefinitionError,
    hide_frames,
)
from eagerflow.hardware import forget_kernel, on_replaced
from eagerflow.hardware.device_rules import common_device
from eagerflow.hardware.device_scopes import all_open, usual_device
from eagerflow.unknown_names import hint_at
from eagerflow_kernels import table

if TYPE_CHECKING:
    from typing import Unpack

    from eagerflow.core.op_records.batch_rules import BatchRule
    from eagerflow.core.op_records.cost_formulas import CostRule
    from eagerflow.core.op_records.op_facts import (
        FailsOn,
        InlineRule,
        Neutral,
        OpFacts,
        Order,
        Positions,
        Precision,
        Raised,
        Reaches,
        RowSum,
        Saved,
        StackRule,
        Storage,
    )
    from eagerflow.core.tensor import Tensor

Effect = Literal["pure", "reads", "writes", "fence", "blocks"]
Rule = Callable[..., Any]  # rules take tensors by position and the op's attributes by keyword


@final
class joint:
    """A vjp rule that gives the cotangents of all inputs at once, as a tuple.

    The rule is called ``rule(g, out, *inputs, **attrs)``, as rules per input are. It saves work
    that the cotangents share; None stands for zero.

    >>> from eagerflow.extending import INEXACT, bind, define, elementwise, joint, portable
    >>> @portable("hypotenuse")
    ... def kernel(xp, x, y):
    ...     return xp.sqrt(x * x + y * y)
    >>> def rule(g, out, x, y):
    ...     scaled = g / out
    ...     return scaled * x, scaled * y
    >>> op = define("hypotenuse", infer=elementwise(INEXACT), saved="all", vjp=joint(rule))
    >>> ef.grad(lambda x, y: bind(op, x, y), argnums=(0, 1))(ef.tensor(3.0), ef.tensor(4.0))
    (Tensor(0.6, f32[]@cpu:0), Tensor(0.8, f32[]@cpu:0))
    """

    __slots__ = ("rule",)

    def __init__(self, rule: Rule) -> None:
        self.rule = rule


@final
class Op:
    """The record of an op: its rules and facts.

    Attributes:
        name: its name.
        base: the key of its kernels in ``eagerflow_kernels.table``: its name, but for the results
            of `portable_form`.
        infer: ``infer(*types, **attrs)`` gives the type of the output, or a tuple of types, and
            raises `ShapeError`, `DTypeError`, … for arguments that the op does not take.
        devices: ``devices(*devices, **attrs)``, of the devices of the inputs, gives the device
            of the op and its outputs, or a tuple with a device for each output. None is a device
            that is not known. By default `common_device`.
        vjp: the reverse-mode rule, written with public ops. A tuple has one rule per input,
            ``rule(g, out, *inputs, **attrs)``, that gives its cotangent; a None in it means that
            no derivative flows to this input (an index, or a function that is constant almost
            everywhere). `joint` gives all at once; a single rule, not in a tuple, is for variadic
            ops and is called ``rule(i, g, out, *inputs, **attrs)`` for input ``i``. For ops of
            several outputs ``g`` and ``out`` are tuples.
        jvp: ``jvp(tangents, out, *inputs, **attrs)``, tangents in the order of the inputs with
            None for zero; derived from ``vjp`` by default.
        nondifferentiable: states that there is no derivative, instead of a rule.
        cuts: whether no derivative flows to some input, so that a tape has to check which.
        users_rules: whether a vjp rule is the user's, so that its cotangents are checked.
        effect: its effect on state.
        moves: whether it moves a value between devices (and so has no kernel of its own).
        resolved: the cache of resolved kernels, by lane.

    The other attributes, from ``precision`` on, are the facts that `OpFacts` explains
    (`core/op_records/op_facts.py`).
    """

    __slots__ = (*GENERAL, "base", "cuts", "devices", "effect", "infer", "jvp", "moves", "name",
                 "nondifferentiable", "resolved", "users_rules", "vjp")  # fmt: skip

    precision: Precision
    takes_bytes: bool
    saved: Saved
    cost: CostRule
    outputs: int | None
    elementwise: bool
    ieee: bool
    storage: Storage
    order: Order
    parts: bool
    array_scalars: bool
    fails_on: FailsOn | Callable[[Mapping[str, Any]], FailsOn]
    raises: Raised | Callable[[Mapping[str, Any]], Raised]
    commutative: bool
    neutral: Neutral | None
    involution: bool
    idempotent: bool
    linear_rows: bool
    resource: type | None
    reads_variable: bool
    updates: str | None
    errors_as: str | None
    with_gradient: str | None
    pair: str | None
    draws: bool
    inline: InlineRule | None
    on_stack: StackRule | None
    host_inputs: Positions | Callable[[Mapping[str, Any]], Positions]
    host_outputs: Positions
    on_host: bool
    calls_user: bool
    reaches: Reaches
    holds: bool
    releases: bool
    many: bool
    fill: Callable[[Mapping[str, Any]], Any] | None
    sums: bool
    row_sum: RowSum | None
    remedy: str
    gradient_remedy: str
    batch: BatchRule | str | None

    def __init__(self, name: str) -> None:
        self.name = self.base = name
        self.infer: Rule | None = None
        self.devices: Rule = common_device
        self.vjp: tuple[Rule | None, ...] | Rule | joint | None = None
        self.jvp: Rule | None = None
        self.nondifferentiable = False
        self.cuts = False
        self.users_rules = False
        self.effect: Effect = "pure"
        self.moves = False
        self.resolved: dict[Any, Any] = {}
        self.state(GENERAL)

    def state(self, facts: OpFacts) -> None:
        """Set facts; the others stay."""
        for name, fact in facts.items():
            setattr(self, name, fact)

    def __repr__(self) -> str:
        return f"Op({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (get_op, (self.name,))

    def raised(self, attrs: Mapping[str, Any]) -> Raised:
        """The exceptions of an ordinary run, with these attributes."""
        return self.raises(attrs) if callable(self.raises) else self.raises

    def read_on_host(self, attrs: Mapping[str, Any]) -> Positions:
        """The positions of inputs that the kernel reads in host memory, with these attributes."""
        return self.host_inputs(attrs) if callable(self.host_inputs) else self.host_inputs

    def failing(self, attrs: Mapping[str, Any]) -> FailsOn:
        """The kinds of mistakes for which the kernel may raise, with these attributes."""
        return self.fails_on(attrs) if callable(self.fails_on) else self.fails_on

    @property
    def is_portable(self) -> bool:
        """Whether the op is a `portable_form`."""
        return self.base != self.name

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the array arguments, as its kernel calls them, for messages.

        Variadic arguments, ``*g``, are not among them.
        """
        kernel = table.portable_kernel(self.base)
        if callable(kernel):
            names = list(inspect.signature(kernel).parameters.values())[1:]
            return tuple(p.name for p in names if p.kind is p.POSITIONAL_OR_KEYWORD)
        return ()

    @property
    def input_count(self) -> int | None:
        """The number of inputs, as the vjp rules or the kernel tell; None if that is not known."""
        return len(self.vjp) if isinstance(self.vjp, tuple) else self.kernel_inputs

    @property
    def kernel_inputs(self) -> int | None:
        """The number of arrays that the portable kernel takes; None if that is not known."""
        kernel = table.portable_kernel(self.base)
        if not callable(kernel):
            return None
        kinds = {p.kind for p in inspect.signature(kernel).parameters.values()}
        return None if inspect.Parameter.VAR_POSITIONAL in kinds else len(self.arguments)


hint_at(Op, ["impl", "kernel", "register_autograd", "register_fake", "register_kernel",
             "register_vmap"])  # fmt: skip
#: the list of functions for bytes, for messages
OPS_OF_BYTES: Final = (
    "bytes can be made, reshaped, joined, indexed, compared by == and !=, and put into variables"
    " and queues; ef.io.decode_raw and ef.io.parse_numbers make numbers of them"
)

_ops: Final[dict[str, Op]] = {}
#: the portable forms, by the name of their op
_portable_forms: Final[dict[str, Op]] = {}
#: the prefix of their names
_PORTABLE: Final = "portable_"
#: the names of ops that move values between devices, a set as graphs ask for each node
moving: Final[set[str]] = set()

#: public functions by name, which Tensor's methods and operators call. `eagerflow/__init__.py`
#: fills it with its exports. The type is that of nearly all of them.
functions: Final[dict[str, Callable[..., Tensor]]] = {}

_plugins_loaded = False
#: whether packages register at the moment: their kernels may come before their ops
_plugins_loading = False


def _no_families() -> None:
    """The default, which `load_families_by` replaces."""


_load_families: Callable[[], None] = _no_families


def load_families_by(load: Callable[[], None]) -> None:
    """Register the function, of a module above, that defines ops not requested yet."""
    global _load_families
    _load_families = load


def _load_every_family() -> None:
    _load_families()
    load_families_by(_no_families)  # graphs often look up names that are no ops


def declare(name: str) -> Op:
    """The op of that name, created empty if it does not exist (to be filled by `define`)."""
    op = _ops.get(name)
    if op is None:
        op = _ops[name] = Op(name)
    return op


def define(
    name: str,
    *,
    infer: Rule,
    devices: Rule | None = None,
    vjp: tuple[Rule | None, ...] | Rule | joint | None = None,
    jvp: Rule | None = None,
    nondifferentiable: bool = False,
    effect: Effect = "pure",
    moves: bool = False,
    replace: bool = False,
    **facts: Unpack[OpFacts],
) -> Op:
    """Define an op.

    Args:
        name: unique; also the key of its kernels.
        infer: the type rule; for this and all below see the attributes of `Op`.
        devices: the device rule, if it is not `common_device`.
        vjp: the reverse-mode rule.
        jvp: the forward-mode rule, if it is not to be derived.
        nondifferentiable: instead of ``vjp``: there is no derivative.
        effect: its effect on state.
        moves: whether it moves a value between devices.
        replace: overwrite an op of that name (as when a notebook cell runs again).
        facts: the values that its vjp reads, its cost, the memory layout of its result, and so on;
            by default those of the family of ``infer`` (`OpFacts`).

    Raises:
        OpDefinitionError: the name is taken, or there is no statement about its gradient.

    >>> from eagerflow.core.op import get_op
    >>> get_op("exp").effect
    'pure'
    """
    op = declare(name)
    if op.infer is not None and not replace:
        raise OpDefinitionError(
            f"an op named {name!r} exists", hint="pass replace=True to redefine it"
        )
    check_statement(name, vjp, nondifferentiable=nondifferentiable)
    op.users_rules = check_rules(op, vjp)
    check_facts(name, facts)
    op.infer, op.vjp, op.jvp, op.nondifferentiable = infer, vjp, jvp, nondifferentiable
    op.effect, op.moves, op.devices = effect, moves, devices or common_device
    (moving.add if moves else moving.discard)(name)
    op.cuts = isinstance(vjp, tuple) and None in vjp
    impure: OpFacts = {
        "on_host": True, "reaches": "unknown", "batch": None if effect == "reads" else STATE,
    }  # fmt: skip
    op.state({**GENERAL, **({} if effect == "pure" else impure), **family_of(infer)})
    if isinstance(vjp, tuple) and not any(vjp):
        op.saved = "none"  # no rule reads anything
    op.state(facts)
    for dtypes in table.dtypes_of_users(name):
        check_count(op, dtypes)
    _forget(name)
    _portable_forms.pop(name, None)
    return op


def get_op(name: str) -> Op:
    """The op of that name; packages that add ops by entry point are loaded if it is not known.

    Raises:
        OpDefinitionError: there is no such op.
    """
    op = find_op(name)
    if op is None:
        raise OpDefinitionError(f"there is no op named {name!r}")
    return op


def find_op(name: str) -> Op | None:
    """As `get_op`; None if there is no such op."""
    op = _ops.get(name)
    if op is None or op.infer is None:
        _load_every_family()
        load_plugins()
        op = _ops.get(name)
    if op is None and name.startswith(_PORTABLE):
        base = find_op(name.removeprefix(_PORTABLE))
        return None if base is None or base.effect != "pure" else portable_form(base)
    return None if op is None or op.infer is None else op


def portable_form(op: Op) -> Op:
    """The op that computes the same by the portable kernel, whatever library is in force.

    It is an op of its own, ``portable_exp`` for ``exp``, with all facts and rules of the original:
    graphs keep it, and the two are never merged.

    >>> from eagerflow.core.op import find_op
    >>> find_op("portable_exp").base
    'exp'
    """
    form = _portable_forms.get(op.name)
    if form is None:
        form = Op(_PORTABLE + op.name)
        own = {"name": form.name, "base": op.name, "resolved": form.resolved}
        for slot in Op.__slots__:
            setattr(form, slot, own.get(slot, getattr(op, slot)))
        form = _portable_forms.setdefault(op.name, form)
    return form


def all_ops() -> dict[str, Op]:
    """All ops by name."""
    _load_every_family()
    return dict(_ops)


def is_part(name: str) -> bool:
    """Whether errors of that op are about the arguments of a public function's caller.

    >>> from eagerflow.extending import is_part
    >>> is_part("check_labels"), is_part("exp")
    (True, False)
    """
    op = _ops.get(name)
    return op is not None and op.errors_as is not None


def load_plugins() -> None:
    """Load the entry points ``eagerflow.ops`` and ``eagerflow.kernels`` of installed packages."""
    global _plugins_loaded, _plugins_loading
    if not _plugins_loaded:
        _plugins_loaded = _plugins_loading = True
        try:
            for point in plugins.entry_points("eagerflow.ops", "eagerflow.kernels"):
                loaded = point.load()
                if callable(loaded):
                    loaded()
        finally:
            _plugins_loading = False


def _forget(name: str) -> None:
    for op in (_ops.get(name), _portable_forms.get(name)):
        if op is not None:
            op.resolved.clear()
            forget_kernel(op.name)


def _forget_replaced(devices: Collection[Any]) -> None:
    """Drop all resolved kernels, which hold replaced devices; they are resolved again on demand."""
    for op in (*_ops.values(), *_portable_forms.values()):
        op.resolved.clear()


def _check_row(name: str, kind: str, dtypes: tuple[str, ...] | None) -> None:
    """Refuse, or warn of, a special kernel of a user's that would never be called."""
    op = _ops.get(name) or find_op(name)
    check_kind(name, kind)
    if op is None or op.infer is None:
        if not _plugins_loading and name not in table.names():
            warn_of_unknown(name, _ops)
    elif dtypes is not None:
        check_count(op, dtypes)


table.check_by(_check_row)
table.on_change(_forget)
on_replaced(_forget_replaced)


def bind(op: Op, *inputs: Any, **attrs: Any) -> Tensor:
    """Apply ``op``: the only way from a public function to a kernel, a tape or a graph.

    Args:
        op: the op.
        inputs: tensors, or variables, which are read.
        attrs: static attributes.

    Returns:
        A tensor. Ops of several outputs give a tuple of them: see `bind_several`.

    >>> from eagerflow.core.op import get_op
    >>> from eagerflow.extending import bind
    >>> bind(get_op("sum"), ef.tensor([1.0, 2.0]), axis=(0,), keepdims=False)
    Tensor(3., f32[]@cpu:0)
    """
    try:  # costs nothing if nothing is raised
        if stack.engaged:
            if stack.scoped:  # written out: all ops within a scope pay for this
                home = all_open.home or usual_device()
                for x in inputs:
                    if x._lane.device is not home:
                        inputs = stack.move(op, inputs, attrs)
                        break
                else:
                    if op.devices is not common_device:
                        where = getattr(attrs.get("resource"), "device", None)
                        if where is not home:
                            inputs = stack.move(op, inputs, attrs)
            if stack.installed:
                return interpreter.current().bind(op, inputs, attrs)  # type: ignore[no-any-return]  # see `bind_several`
        return stack.execute(op, inputs, attrs)  # type: ignore[no-any-return]  # likewise
    except AttributeError as error:
        hide_frames(error)
        operands = read_operands(op, inputs)
        if operands is None:
            raise
    except BaseException as error:
        hide_frames(error)
        raise
    return bind(op, *operands, **attrs)


#: `bind` for ops of several outputs: the same function with the type of its result there
bind_several: Final = cast("Callable[..., tuple[Tensor, ...]]", bind)
