"""`Tensor`: an immutable value in a handle; eager, traced and remote values have this class."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from eagerflow.core import interpreter
from eagerflow.core.interpreter import Mark, stack
from eagerflow.core.op import Op, bind, declare, functions
from eagerflow.core.tensor_text import elements, shown
from eagerflow.core.to_python import AbstractConversions
from eagerflow.dims import Dim, may_equal
from eagerflow.errors import (
    DTypeError,
    EagerflowError,
    ShapeError,
    hide_frames,
    strip,
)
from eagerflow.events import FetchEvent, told
from eagerflow.hardware import Device, Lane, operator_number, to_host
from eagerflow.hardware.device_scopes import is_home, runs_at
from eagerflow.source import capture
from eagerflow.types import BYTES, DType, TensorSpec, TensorType, same_shape
from eagerflow.unknown_names import hint_at

if TYPE_CHECKING:
    from eagerflow.types import Shape

#: the types that operators take besides tensors and variables
_NUMBERS = (bool, int, float, complex, bytes, np.ndarray, np.generic, list, tuple, Dim)
_stack = stack
#: the types of the parts of plain index expressions, which arrays take as they are
PLAIN = frozenset({int, slice, type(None), type(...)})
_NO_ATTRS: dict[str, Any] = {}
_check_sizes: Final = declare("check_sizes")

#: the binary operators by name, the latest of each
_methods: Final[dict[str, Callable[[Any, Any], Any]]] = {}


def _operator(name: str, *, weak: bool = True, truth: bool = False) -> Callable[[Any, Any], Tensor]:
    """A binary operator. Operands of one lane go straight to the kernel without interpreters.

    Args:
        name: of the op and of the public function that handles all other cases.
        weak: whether the kernel takes Python numbers.
        truth: whether the result is of dtype bool; otherwise it is of the operands' dtype.
    """
    op: Op = declare(name)
    number = operator_number(name)

    def method(self: Any, other: Any) -> Any:
        try:  # costs nothing where nothing is raised
            lane = self._lane
            if type(other) is Tensor:
                if other._lane is not lane:
                    return _general(name, self, other)
                if _stack.engaged and (_stack.installed or not is_home(lane.device)):
                    return _observed(op, number, truth, self, other)
                value = other._data
            elif (
                lane is not None and weak and type(other) in lane.weak
                and (not _stack.engaged or (not _stack.installed and is_home(lane.device)))
            ):  # fmt: skip
                value = other
            else:
                return _general(name, self, other)
            kernel = lane.kernels[number]
            if kernel is None:
                return _first(op, number, truth, self, other)
            try:
                data = kernel(self._data, value)
            except Exception:
                return _again(name, self, other)
            if type(data) is not lane.array_type:
                entry = op.resolved.get(lane)
                data = _array_of(data, op, self) if entry is None else entry.asarray(data)
            out = Tensor()
            out._data = data
            out._lane = lane.truth if truth else lane
            out._mark = None
            return out
        except BaseException as error:
            hide_frames(error)
            raise

    method.__name__ = method.__qualname__ = name
    _methods[name] = method
    return method


def _observed(op: Op, number: int, truth: bool, self: Any, other: Any) -> Any:
    """A binary operator while an interpreter is installed; an observer only gets the result."""
    top = interpreter.current()
    lane = self._lane
    kernel = lane.kernels[number]
    if kernel is None:
        return _first(op, number, truth, self, other)
    if not top.looks_on or _stack.monitored or (_stack.scoped and not is_home(lane.device)):
        return bind(op, self, other)
    try:
        data = kernel(self._data, other._data)
    except Exception:
        return _again(op.name, self, other)
    if type(data) is not lane.array_type:
        data = _array_of(data, op, self)
    out = Tensor()
    out._data = data
    out._lane = lane.truth if truth else lane
    out._mark = None
    top.observe(op, (self, other), _NO_ATTRS, out)
    return out


def _first(op: Op, number: int, truth: bool, self: Any, other: Any) -> Any:
    """The first call on a lane: the public function resolves the kernel, which is cached."""
    out = functions[op.name](self, other)
    lane = self._lane
    if lane.symbolic:  # there is no kernel to cache
        return out
    if out._lane is (lane.truth if truth else lane):
        # the function may have bound a simpler op, such as a square for a power
        entry = op.resolved.get(lane) or _stack.resolve(op, (self, self), {}, lane)
        lane.kernels[number] = entry.eager
    return out


def _array_of(data: Any, op: Op, self: Any) -> Any:
    """A kernel's result as an array; the kernel may have been registered anew since."""
    lane = self._lane
    entry = op.resolved.get(lane) or _stack.resolve(op, (self, self), {}, lane)
    return entry.asarray(data)


def _again(name: str, self: Any, other: Any) -> Any:
    """Call the public function after the kernel raised: it words the error."""
    try:
        return functions[name](self, other)
    except EagerflowError as error:
        raise strip(error) from None


def _general(name: str, self: Any, other: Any) -> Any:
    """The general case: variables are read first; numbers and arrays take the public function."""
    if self._lane is None:
        self = self.__tensor__()
        if type(other) is Tensor or type(other) in self._lane.weak:
            return _methods[name](self, other)
    if type(other) is Tensor or isinstance(other, _NUMBERS):
        return functions[name](self, other)
    if isinstance(other, AbstractArray):
        return _methods[name](self, other.__tensor__())
    if isinstance(other, str) and self.dtype is BYTES:  # else == would be False
        return functions[name](self, other)
    return NotImplemented


def _reflected(name: str) -> Callable[[Any, Any], Tensor]:
    forward = _operator(name)
    op = declare(name)

    def method(self: Any, other: Any) -> Any:
        try:
            if isinstance(other, _NUMBERS):
                return forward(self, other) if op.commutative else functions[name](other, self)
            return NotImplemented
        except BaseException as error:
            hide_frames(error)
            raise

    method.__name__ = method.__qualname__ = name
    return method


def _in_place(name: str) -> Callable[[Any, Any], Tensor]:
    """An in-place operator (``x += v``): a new value of the same dtype and shape for the handle."""
    forward = _operator(name)

    def method(self: Any, other: Any) -> Any:
        try:
            block = runs_at(self.device) if _stack.scoped else None
            if block is None:
                return _updated(forward, self, other, name)
            with block:
                return _updated(forward, self, other, name)
        except BaseException as error:
            hide_frames(error)
            raise

    method.__name__ = method.__qualname__ = name
    return method


def _updated(forward: Callable[[Any, Any], Tensor], handle: Tensor, other: Any, name: str) -> Any:
    result = forward(handle, other)
    if result is NotImplemented:
        return result
    _update(handle, result, name)
    return handle


def _unary(name: str) -> Callable[[Any], Tensor]:
    def method(self: Any) -> Any:
        try:
            return functions[name](self)
        except BaseException as error:
            hide_frames(error)
            raise

    method.__name__ = method.__qualname__ = name
    return method


def _of_shape(value: Tensor, handle: Tensor, refusal: str) -> Tensor:
    """``value``, if its shape may be that of ``handle``; in a trace the run checks it."""
    sizes, expected = value.shape, handle.shape
    if len(sizes) != len(expected) or not all(map(may_equal, sizes, expected)):
        raise ShapeError(
            refusal,
            given=f"{type_of(handle)}, result {type_of(value)}",
            hint="write x = x + y",
        )
    attrs = {"sizes": sizes, "expected": expected, "least": False, "refusal": refusal}
    return bind(_check_sizes, value, **attrs)


def _update(handle: Tensor, value: Tensor, name: str) -> None:
    shape, other = handle.shape, value.shape
    if not (same_shape(other, shape) if _stack.installed else other == shape):
        value = _of_shape(value, handle, f"{name}: an in-place operator cannot change the shape")
    if value.dtype is not handle.dtype:
        if not np.can_cast(value.dtype.dtype, handle.dtype.dtype, "same_kind"):
            raise DTypeError(
                f"{name}: an in-place operator cannot change the kind of dtype",
                given=f"{type_of(handle)}, result {type_of(value)}",
                hint="write x = x + y, or convert the operand with .astype(...)",
            )
        value = functions["astype"](value, handle.dtype)
    interpreter.current().rebind(handle, value)


class AbstractArray(AbstractConversions):
    """The base of tensors and variables: operators, methods and conversions."""

    __slots__ = ()
    #: makes NumPy's operators give way to ours
    __array_priority__ = 1000

    _lane: Lane | None

    __add__ = _operator("add")
    __sub__ = _operator("subtract")
    __mul__ = _operator("multiply")
    __truediv__ = _operator("divide")
    __floordiv__ = _operator("floor_divide")
    __mod__ = _operator("remainder")
    __pow__ = _operator("pow")
    __matmul__ = _operator("matmul", weak=False)
    __and__ = _operator("bitwise_and")
    __or__ = _operator("bitwise_or")
    __xor__ = _operator("bitwise_xor")
    __lshift__ = _operator("bitwise_left_shift")
    __rshift__ = _operator("bitwise_right_shift")
    __lt__ = _operator("less", truth=True)
    __le__ = _operator("less_equal", truth=True)
    __gt__ = _operator("greater", truth=True)
    __ge__ = _operator("greater_equal", truth=True)
    # comparison by elements, as in NumPy, breaks the contract of `object`
    __eq__ = _operator("equal", truth=True)  # type: ignore[assignment]
    __ne__ = _operator("not_equal", truth=True)  # type: ignore[assignment]

    __hash__ = AbstractConversions.__hash__  # a class that defines == loses it

    __radd__ = _reflected("add")
    __rsub__ = _reflected("subtract")
    __rmul__ = _reflected("multiply")
    __rtruediv__ = _reflected("divide")
    __rfloordiv__ = _reflected("floor_divide")
    __rmod__ = _reflected("remainder")
    __rpow__ = _reflected("pow")
    __rmatmul__ = _reflected("matmul")
    __rand__ = _reflected("bitwise_and")
    __ror__ = _reflected("bitwise_or")
    __rxor__ = _reflected("bitwise_xor")
    __rlshift__ = _reflected("bitwise_left_shift")
    __rrshift__ = _reflected("bitwise_right_shift")

    __neg__ = _unary("negative")
    __pos__ = _unary("positive")
    __abs__ = _unary("abs")
    __invert__ = _unary("bitwise_invert")

    def __getitem__(self: Any, key: Any) -> Tensor:
        # a plain index goes straight to the array if no interpreter is installed, like operators
        try:
            lane = self._lane
            kind = type(key)
            if (
                lane is None
                or (_stack.engaged and (_stack.installed or not is_home(lane.device)))
                or (kind not in PLAIN and kind is not tuple)
            ):
                return functions["getitem"](self, key)
            if kind is tuple:
                for part in key:
                    if type(part) not in PLAIN:
                        return functions["getitem"](self, key)
            try:
                data = self._data[key]
            except Exception:
                return functions["getitem"](self, key)
            if type(data) is not lane.array_type:  # a NumPy scalar, or bytes
                data = lane.device.xp.asarray(data, lane.dtype.dtype)
            out = Tensor()
            out._data = data
            out._lane = lane
            out._mark = None
            return out
        except BaseException as error:
            hide_frames(error)
            raise


#: names of other frameworks, whose replacements are in `hints/attribute_names.py`
_HINTED: Final = """
    abs add add_ addcdiv addcmul adjoint amax amin aminmax at backward bernoulli_ bfloat16 bincount
    block_until_ready bmm bool ceil char cholesky chunk clamp clamp_max clamp_min clone coalesce
    contiguous copy_ cos cosh cpu cuda data data_ptr det detach diag diag_embed diagonal diff dim
    div double element_size eq erf exp expand expand_as expm1 fill fill_ flat flip float floor frac
    gather ge get_device grad grad_fn gt half histc index_add index_add_ index_copy index_copy_
    index_fill index_fill_ index_put index_put_ index_select indices int inverse is_complex
    is_contiguous is_cpu is_cuda is_floating_point is_leaf isfinite isinf isnan le lerp log log10
    log1p log2 log_softmax logcumsumexp logdet logsumexp long lt mH masked_fill masked_fill_
    masked_scatter masked_scatter_ masked_select matmul matrix_exp matrix_power maximum median
    minimum mm movedim msort mul mul_ narrow ndimension ne neg nelement new_empty new_full new_ones
    new_tensor new_zeros norm normal_ numel outer permute pin_memory pinverse pow qr random_
    reciprocal register_hook register_post_accumulate_grad_hook relu repeat_interleave requires_grad
    requires_grad_ reshape_as resize retain_grad retains_grad roll rsqrt scatter scatter_
    scatter_add_ scatter_reduce share_memory_ sigmoid sign sin sinh slogdet softmax split
    split_with_sizes sqrt square storage storage_offset stride strides sub sub_ svd swapdims t
    take_along_dim tan tanh tile to_dense to_sparse tobytes topk trace tril triu trunc type_as
    unbind unflatten unfold uniform_ unique unique_consecutive unsqueeze untyped_storage values view
    view_as where zero_
"""
hint_at(AbstractArray, _HINTED.split())


@final
class Tensor(AbstractArray):
    """An array: an immutable value in a handle that has a dtype, a shape and a device.

    ``x[i] = v`` and ``x += v`` put a new value into the handle: names bound to the same object
    see it, no other tensor does, views included. Make a tensor with `eagerflow.tensor`; the class
    itself takes no arguments (``__new__`` or ``__init__`` would cost every op 5 % of its time).

    >>> x = ef.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> x
    Tensor([[1., 2.],
            [3., 4.]], f32[2,2]@cpu:0)
    >>> x.T @ x
    Tensor([[10., 14.],
            [14., 20.]], f32[2,2]@cpu:0)
    """

    __slots__ = ("__weakref__", "_data", "_lane", "_mark")

    _data: Any  # an array of the device's backend, or a symbolic value
    _lane: Lane
    _mark: Mark | None

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._lane.dtype

    @property
    def shape(self) -> Shape:
        """The size of each axis."""
        shape: Shape = self._data.shape
        return shape

    @property
    def device(self) -> Device:
        """The device of the elements."""
        return self._lane.device

    def __tensor__(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements as a read-only NumPy array; on CPU a view, not a copy.

        >>> ef.tensor([1.0, 2.0]).numpy()
        array([1., 2.], dtype=float32)
        """
        data, lane = self._data, self._lane
        if lane.symbolic:
            data = data.concrete("numpy()")
        elif _stack.installed:
            interpreter.current().looked(self)
        if type(data) is not np.ndarray:
            data = _fetched(data, self)
        array: np.ndarray[Any, Any] = data.view()
        array.flags.writeable = False
        return array

    def __setitem__(self, key: Any, value: Any) -> None:
        try:
            functions["setitem"](self, key, value)
        except BaseException as error:
            hide_frames(error)
            raise

    __iadd__ = _in_place("add")
    __isub__ = _in_place("subtract")
    __imul__ = _in_place("multiply")
    __itruediv__ = _in_place("divide")
    __ifloordiv__ = _in_place("floor_divide")
    __imod__ = _in_place("remainder")
    __ipow__ = _in_place("pow")
    __imatmul__ = _in_place("matmul")
    __iand__ = _in_place("bitwise_and")
    __ior__ = _in_place("bitwise_or")
    __ixor__ = _in_place("bitwise_xor")
    __ilshift__ = _in_place("bitwise_left_shift")
    __irshift__ = _in_place("bitwise_right_shift")

    def __repr__(self) -> str:
        if not self._has_values or self._lane.device.task is not None:  # asking a task would wait
            return f"Tensor({self.type})"
        return shown(self)

    def __str__(self) -> str:
        if self._lane.symbolic:
            text: str = self._data.text(self, str)
            return text
        return elements(self) if self._has_values else str(self.type)

    @property
    def _has_values(self) -> bool:
        return not self._lane.symbolic and self._lane.device.holds_data

    def __copy__(self) -> Tensor:
        return handle_of(self)

    def __deepcopy__(self, memo: Any) -> Tensor:
        return handle_of(self)  # values are immutable

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self.numpy().copy(), self.dtype.name, self.device.name))


def make_tensor(data: Any, lane: Lane) -> Tensor:
    """A tensor of an array on the lane's device; the array is shared, not copied."""
    out = Tensor()
    out._data = data
    out._lane = lane
    out._mark = None
    return out


def handle_of(x: Tensor) -> Tensor:
    """Another handle of the value that ``x`` holds."""
    out = Tensor()
    out._data = x._data
    out._lane = x._lane
    out._mark = x._mark
    return out


def _fetched(data: Any, x: Tensor) -> np.ndarray[Any, Any]:
    """The elements of a value of a device, in the memory of the host."""
    device = x.device
    if not FetchEvent.listeners:
        return to_host(data, device)
    event = FetchEvent(
        name=device.name, device=device.name, nbytes=x.size * x.dtype.itemsize, source=capture(2)
    )
    with told(event):
        return to_host(data, device)


def type_of(x: AbstractArray) -> TensorSpec:
    """The type of a tensor, with its device."""
    return TensorSpec(TensorType(x.dtype, x.shape), x.device)


def _restore(array: np.ndarray[Any, Any], dtype: str, device: str) -> Any:
    return functions["tensor"](array, dtype=dtype, device=device)
