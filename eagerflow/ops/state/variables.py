"""Variables: tensors as state, with ops to read and assign them."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from operator import index
from typing import TYPE_CHECKING, Any, Never, NoReturn, Unpack, final

from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.infer import infer_specs
from eagerflow.core.interpreter import BASE, current, is_traced, stack, use
from eagerflow.core.moves_to_scopes import note_read, to_home
from eagerflow.core.op import Op, bind, define
from eagerflow.core.op_records.cost_formulas import FREE, writing_rows
from eagerflow.core.op_records.op_facts import InlineSite, OpFacts
from eagerflow.core.tensor import AbstractArray, Tensor, make_tensor, type_of
from eagerflow.core.to_tensor import TensorLike, as_tensor
from eagerflow.errors import (
    DeviceError,
    DTypeError,
    EagerflowError,
    ShapeError,
    TensorIndexError,
    VariableError,
    strip,
)
from eagerflow.hardware import Device
from eagerflow.hardware.device_scopes import is_home
from eagerflow.ops.creation.arrays import tensor as new_tensor
from eagerflow.ops.creation.arrays import zeros
from eagerflow.ops.rules.arguments import DeviceLike
from eagerflow.ops.rules.promotion import kept_tensor
from eagerflow.ops.rules.sizes import matched
from eagerflow.ops.rules.type_rules import NUMERIC, check_kind, of_state, repeats_to
from eagerflow.resources.shared_resources import join_variable
from eagerflow.resources.variable import Companions, VariableState
from eagerflow.types import DType, DTypeLike, Shape, TensorType, may_be_same_shape

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Variable"]

# --- ops --------------------------------------------------------------------------------------


def _read_type(*, resource: VariableState, device: Device | None = None) -> TensorType:
    return TensorType(resource.dtype, resource.shape)


def _check(value: TensorType, resource: VariableState) -> None:
    if value.dtype is not resource.dtype:
        raise DTypeError(
            "a variable keeps its dtype",
            expected=resource.dtype.short,
            hint="convert the value with .astype(...)",
        )


def _assign_type(value: TensorType, *, resource: VariableState) -> TensorType:
    _check(value, resource)
    if not may_be_same_shape(value.shape, resource.shape):
        raise ShapeError("a variable keeps its shape", expected=str(resource.shape))
    return value.like(shape=resource.shape)


def _combine_type(value: TensorType, *, resource: VariableState) -> TensorType:
    _check(value, resource)
    check_kind(value, NUMERIC)
    if not repeats_to(value.shape, resource.shape):
        raise ShapeError("a variable keeps its shape", expected=str(resource.shape))
    return value.like(shape=resource.shape)


def _scatter_type(
    indices: TensorType, values: TensorType, *, resource: VariableState
) -> TensorType:
    _check(values, resource)
    if not indices.dtype.is_integer:
        raise DTypeError("the indices must be integers")
    if not resource.shape:
        raise ShapeError("a variable with no axes has no rows")
    rows = indices.shape + resource.shape[1:]
    if not repeats_to(values.shape, rows):
        raise ShapeError("the values do not fit the rows", expected=f"values of shape {rows}")
    return values.like(shape=resource.shape)


def _inline(at: InlineSite) -> tuple[str, str] | None:
    variable = at.attrs["resource"]
    if type(variable) is not VariableState:
        return None
    lock = at.bound(variable.lock, "lock")
    return f"{at.bound(variable, 'variable')}._data[...]", f"with {lock}: "


_read = define(
    "read",
    infer=_read_type,
    devices=of_state,
    vjp=(),
    effect="reads",
    precision="exact",
    cost=FREE,
    order="rows",
    resource=VariableState,
    reaches="nothing",
    reads_variable=True,
    inline=_inline,
)


def _writing(
    name: str, infer: Callable[..., TensorType], inputs: int, **more: Unpack[OpFacts]
) -> Op:
    """Define an op that changes a variable and returns its new value."""
    facts: OpFacts = {
        "precision": "exact", "order": "rows", "resource": VariableState, "reaches": "nothing",
        **more,
    }  # fmt: skip
    constant = (None,) * inputs
    return define(name, infer=infer, devices=of_state, vjp=constant, effect="writes", **facts)


_assign = _writing("assign", _assign_type, 1, takes_bytes=True)
_assign_add = _writing("assign_add", _combine_type, 1, updates="add", array_scalars=True)
_assign_sub = _writing("assign_sub", _combine_type, 1, updates="subtract", array_scalars=True)
_scatter_update = _writing(
    "variable_scatter_update", _scatter_type, 2, takes_bytes=True, cost=writing_rows
)
_scatter_add = _writing("variable_scatter_add", _scatter_type, 2, cost=writing_rows)


def _stand_in(value: Tensor) -> Tensor:
    """Zeros of the type of ``value``, outside of any trace: the value before the first run."""
    shape = tuple([index(size) for size in value.shape])
    with use(BASE):
        return zeros(shape, dtype=value.dtype, device=value.device)


# --- Variable ---------------------------------------------------------------------------------


def _reword(error: EagerflowError, op: Op, state: VariableState, inputs: Any) -> None:
    """Reword the error of an op for the method: name the variable and the arguments."""
    method, wrong = op.name.removeprefix("variable_"), error.wrong.removeprefix(f"{op.name}: ")
    names = ("value",) if len(inputs) == 1 else ("indices", "values")
    given = ", ".join(f"{n}={type_of(x)}" for n, x in zip(names, inputs, strict=True))
    error.reword(f"{method}: {wrong}", f"{state!r}, {given}")


def _refuse(what: str, hint: str) -> Any:
    def method(self: Variable, *args: object) -> NoReturn:
        raise VariableError(
            f"a variable cannot be changed by {what}", given=str(self.type), hint=hint
        )

    return method


def _joined(first: Tensor, trainable: bool, name: str | None, container: str) -> VariableState:
    if is_traced():
        raise VariableError(
            "a variable that clients share is made outside of traced functions",
            given=f"{name!r} in the container {container!r}",
            hint="make it before, and use it in the function",
        )
    return join_variable(first._data, first._lane, trainable, name, container)


def _no_in_place(symbol: str) -> Any:
    # reading and assigning would be two steps, between which another thread may assign
    return _refuse(f"{symbol}=", f"write v.assign(v {symbol} x)")


@final
class Variable(AbstractArray):
    """A variable: state that holds a tensor of fixed dtype and shape, replaced by assignments.

    It is usable wherever a tensor is, and stands for its present value: a value read earlier never
    changes. Assignments are atomic: no `assign_add` of concurrent threads is lost. They return the
    new value. ``v += x`` and ``v -= x`` are `assign_add` and `assign_sub` and leave ``v`` the
    variable; other in-place operators raise.

    Args:
        value: the initial value, which is copied.
        dtype: dtype of the variable; by default that of the value.
        device: device of the variable; by default that of the value.
        trainable: whether tapes watch the variable automatically.
        name: name for display, and within a container.
        container: the name of a container of the task of its device (`eagerflow.cluster`). If
            another client has made a variable of that name and type there, it is shared, with its
            present value. By default a variable is local to this process.

    Attributes:
        resource: the state.

    Raises:
        ResourceError: the container has another resource of that name, or the device does not
            belong to a task.

    >>> v = ef.Variable([1.0, 2.0], name="w")
    >>> v * 10
    Tensor([10., 20.], f32[2]@cpu:0)
    >>> v.assign_add([1.0, 1.0])
    Tensor([2., 3.], f32[2]@cpu:0)
    >>> v
    Variable([2., 3.], f32[2]@cpu:0, name='w')
    """

    __slots__ = ("__weakref__", "resource")

    _lane = None  # operators take the general path, which reads the variable

    def __init__(
        self,
        value: TensorLike,
        *,
        dtype: DTypeLike = None,
        device: DeviceLike = None,
        trainable: bool = True,
        name: str | None = None,
        container: str | None = None,
    ) -> None:
        if container is not None:
            self.resource = _joined(new_tensor(value, dtype, device), trainable, name, container)
            return
        tensor = new_tensor(value, dtype, device)
        first = tensor if not tensor._lane.symbolic else _stand_in(tensor)
        self.resource = VariableState(first._data, first._lane, trainable, name)
        if stack.installed:
            current().created(self.resource, tensor)

    def __tensor__(self) -> Tensor:
        state = self.resource
        entry = _read.resolved.get(state.device)
        if entry is None or stack.installed:
            value = bind(_read, resource=state, device=state.device)
        else:  # without interpreters: straight to the kernel, as operators do
            value = make_tensor(entry.kernel(resource=state), state.lane)
        if stack.scoped and not is_home(state.device):
            note_read(value, state)
        return value

    @property
    def value(self) -> Tensor:
        """The present value, as a tensor."""
        return self.__tensor__()

    @value.setter
    def value(self, new: Never) -> None:
        raise VariableError(
            "a variable's value is not set as an attribute",
            given="v.value = x",
            expected="an assignment that returns when it is done",
            hint="v.assign(x)",
        )

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self.resource.dtype

    @property
    def shape(self) -> Shape:
        """The size of each axis."""
        return self.resource.shape

    @property
    def device(self) -> Device:
        """The device of the variable."""
        return self.resource.device

    @property
    def trainable(self) -> bool:
        """Whether tapes watch the variable automatically."""
        return self.resource.trainable

    @property
    def name(self) -> str | None:
        """The name of the variable, for display."""
        return self.resource.name

    def numpy(self) -> np.ndarray[Any, Any]:
        """The present value as a read-only NumPy array.

        >>> ef.Variable(1.5).numpy()
        array(1.5, dtype=float32)
        """
        return self.value.numpy()

    # --- assignments ---

    def assign(self, value: TensorLike) -> Tensor:
        """Replace the value.

        Args:
            value: the new value, of the variable's dtype and shape; numbers and sequences take the
                dtype. Memory that may be written from elsewhere, such as that of a NumPy array or a
                view, is copied; the fresh result of an op is not.

        Returns:
            The new value.

        Raises:
            ShapeError: ``value`` has another shape.
            DTypeError: ``value`` has another dtype.
            DeviceError: ``value`` is on another device.

        >>> ef.Variable([1.0, 2.0]).assign([3.0, 4.0])
        Tensor([3., 4.], f32[2]@cpu:0)
        """
        return self._bind(_assign, self._operand(value))

    def assign_add(self, value: TensorLike | IndexedSlices) -> Tensor:
        """Add to the value.

        Args:
            value: the summand, of the variable's dtype; broadcasts to its shape. `IndexedSlices`
                add to rows.

        Returns:
            The new value.

        Raises:
            ShapeError: the shape of ``value`` does not broadcast to that of the variable.
            DTypeError: ``value`` has another dtype.
            DeviceError: ``value`` is on another device.

        >>> ef.Variable([1.0, 2.0]).assign_add(1)
        Tensor([2., 3.], f32[2]@cpu:0)
        """
        if isinstance(value, IndexedSlices):
            return self._add_slices(value, value.values)
        return self._bind(_assign_add, self._operand(value))

    def assign_sub(self, value: TensorLike | IndexedSlices) -> Tensor:
        """Subtract from the value; as `assign_add`.

        >>> ef.Variable([1.0, 2.0]).assign_sub(1)
        Tensor([0., 1.], f32[2]@cpu:0)
        """
        if isinstance(value, IndexedSlices):
            return self._add_slices(value, -value.values)
        return self._bind(_assign_sub, self._operand(value))

    def scatter_update(self, indices: TensorLike, values: TensorLike) -> Tensor:
        """Replace rows; of several values for the same row, the last wins.

        Args:
            indices: integers, the rows along the first axis; negative indices count from the end.
            values: values of the variable's dtype; broadcast to ``indices.shape + v.shape[1:]``.

        Returns:
            The new value.

        Raises:
            TensorIndexError: a row is out of range; the variable is then unchanged.

        >>> ef.Variable([1.0, 2.0, 3.0]).scatter_update([0, 2], [9.0, 8.0])
        Tensor([9., 2., 8.], f32[3]@cpu:0)
        """
        return self._bind(_scatter_update, self._indices(indices), self._operand(values))

    def scatter_add(self, indices: TensorLike, values: TensorLike) -> Tensor:
        """Add to rows; values for the same row add up. Arguments are as for `scatter_update`.

        >>> ef.Variable([1.0, 2.0, 3.0]).scatter_add([0, 0], [1.0, 10.0])
        Tensor([12.,  2.,  3.], f32[3]@cpu:0)
        """
        return self._bind(_scatter_add, self._indices(indices), self._operand(values))

    def _bind(self, op: Op, *inputs: Tensor) -> Tensor:
        state = self.resource
        same = inputs[-1]._lane is state.lane and inputs[-1].shape == state.shape
        if stack.scoped and not (same and len(inputs) == 1):
            inputs = tuple([to_home(x, state.device) for x in inputs])
        try:
            if not same or len(inputs) > 1:
                # checked before: a kernel that fails could have written already
                infer_specs(op, list(map(type_of, inputs)), {"resource": state})
            result = bind(op, *inputs, resource=state)
        except (DTypeError, DeviceError, ShapeError, TensorIndexError) as error:
            _reword(error, op, state, inputs)
            raise strip(error) from None
        return result

    def _operand(self, value: TensorLike) -> Tensor:
        """The value to assign, as a tensor; weak values take the variable's dtype."""
        if type(value) is Tensor:
            return value
        state = self.resource
        return kept_tensor(value, state.dtype, state.device, "a variable of", state)

    def _indices(self, indices: TensorLike) -> Tensor:
        device = None if isinstance(indices, AbstractArray) else self.resource.device
        return as_tensor(indices, None, device)

    def _add_slices(self, slices: IndexedSlices, values: Tensor) -> Tensor:
        wrong = "the slices are of an array of another shape"
        if len(slices.shape) != len(self.shape):
            raise ShapeError(wrong, given=repr(slices), expected=str(self.shape))
        values = matched(values, slices.shape, self.shape, wrong, repr(slices))
        return self._bind(_scatter_add, slices.indices, values)

    # --- in-place operators ---

    def __iadd__(  # type: ignore[override, misc]  # unlike v + x, it stays a variable
        self, value: TensorLike | IndexedSlices
    ) -> Variable:
        self.assign_add(value)
        return self

    def __isub__(  # type: ignore[override, misc]  # unlike v - x, it stays a variable
        self, value: TensorLike | IndexedSlices
    ) -> Variable:
        self.assign_sub(value)
        return self

    __imul__ = _no_in_place("*")
    __itruediv__ = _no_in_place("/")
    __ifloordiv__ = _no_in_place("//")
    __imod__ = _no_in_place("%")
    __ipow__ = _no_in_place("**")
    __imatmul__ = _no_in_place("@")
    __iand__ = _no_in_place("&")
    __ior__ = _no_in_place("|")
    __ixor__ = _no_in_place("^")
    __ilshift__ = _no_in_place("<<")
    __irshift__ = _no_in_place(">>")
    __setitem__ = _refuse(
        "v[...] = x",
        "write v.scatter_update(rows, x) for rows, such as ef.arange(2, 5), v.assign(x) for all, "
        "or v.assign(ef.index_update(v, (slice(2, 5), 0), x))",
    )

    # --- display, and copies ---

    def __repr__(self) -> str:
        name = "" if self.name is None else f", name={self.name!r}"
        if is_traced():
            return f"Variable({self.type}{name})"
        text = repr(self.value)[len("Tensor") : -1].replace("\n", "\n  ")
        return f"Variable{text}{name})"

    def __str__(self) -> str:
        return str(self.value)

    def __copy__(self) -> Variable:
        return Variable(self, trainable=self.trainable, name=self.name)

    def __deepcopy__(self, memo: Any) -> Variable:
        # values are immutable, so only the companions need a deep copy
        companions = deepcopy(self.resource.companions, memo)
        return _restore(self.value, self.trainable, self.name, companions)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self.value, self.trainable, self.name, self.resource.companions))


def _restore(
    value: Tensor, trainable: bool, name: str | None, companions: Companions | None = None
) -> Variable:
    made = Variable(value, trainable=trainable, name=name)
    if companions is not None:
        companions.join(made.resource)
    return made


def keep_together(variable: Variable, *others: Variable) -> None:
    """Let variables move together: `eagerflow.move` of one of these moves all.

    Args:
        variable: a variable, such as a parameter.
        others: its companions, such as running means of its gradients.

    >>> from eagerflow.extending import keep_together
    >>> v, mean = ef.Variable([1.0, 2.0]), ef.Variable([0.0, 0.0])
    >>> keep_together(v, mean)
    >>> with ef.config(cpu_devices=2):
    ...     ef.move(v, "cpu:1")
    ...     mean.device
    Device('cpu:1')
    """
    companions = variable.resource.companions or Companions()
    for one in (variable, *others):
        companions.join(one.resource)
