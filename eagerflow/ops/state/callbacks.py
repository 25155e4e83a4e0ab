"""Ops that call Python when they run: `print` and `py_call`.

Both are fences: they wait for all effects before them, and later effects wait for them.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TextIO, final

from eagerflow.core import tree
from eagerflow.core.abstract_symbols import AbstractNumber, AbstractTracedArray
from eagerflow.core.interpreter import BASE, use
from eagerflow.core.moves_to_scopes import to_home
from eagerflow.core.op import Op, bind
from eagerflow.core.placeholders import Placeholder, text_parts
from eagerflow.core.tensor import AbstractArray, Tensor, make_tensor, type_of
from eagerflow.core.to_tensor import TensorLike, as_tensor, tensor_of
from eagerflow.dims import Dim, number_of
from eagerflow.errors import DTypeError, ResourceError, ShapeError, TensorValueError, hides_frames
from eagerflow.hardware import Device, as_device, current_device, current_device_scope, home_of
from eagerflow.hardware.device_rules import common_device
from eagerflow.hardware.device_scopes import within
from eagerflow.ops.rules.type_rules import effect_op
from eagerflow.ops.state.imported_functions import call_name, import_name, read_call
from eagerflow.ops.state.queue_elements import as_spec, fresh_types
from eagerflow.resources.containers import ResourceName
from eagerflow.types import DTYPES, TensorSpec, TensorType

__all__ = ["print", "py_call"]

_NUMBERS: Final = {int: DTYPES["int64"], float: DTYPES["float64"], complex: DTYPES["complex128"]}


@final
class PyFunction:
    """A Python function as a resource of a graph, with the structure of its arguments.

    Args:
        function: the function to call.
        template: the leaves of the arguments, with an `_Argument` in place of each array, and a
            `_Text` in place of each string that shows values of arrays.
        treedef: the structure of the result.
        specs: the specs of the leaves of the result.
        checks: whether the function only checks: it raises an exception or has no effect.
        title: a name for its calls, if the function is not a user's.

    Attributes:
        name: name of the function, for display.
        title: a name for its calls, for messages.
        specs: the specs of the leaves of the result.
        checks: see above.
    """

    def __init__(
        self, function: Callable[..., Any], template: Sequence[Any], argument_tree: tree.TreeDef,
        treedef: tree.TreeDef, specs: Sequence[TensorSpec], *, checks: bool = False,
        title: str | None = None,
    ) -> None:  # fmt: skip
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self.title = title or f"py_call of {self.name}"
        self.specs = specs
        self.checks = checks
        self._function = function
        self._template = template
        self._argument_tree = argument_tree
        self._treedef = treedef
        self._scope = current_device_scope()  # its ops run in the scope of the call
        self._is_users = not (title or checks)

    @property
    def import_name(self) -> str | None:
        """``"module:function"`` for a user's function that a module holds; else None."""
        return import_name(self._function) if self._is_users else None

    @property
    def identity(self) -> ResourceName | None:
        """The name of the call in another process that has listed the function.

        None if the function, an argument or the structure of the result is local to this process.
        """
        if self.import_name is None:
            return None
        inputs = [x.spec for x in self._template if type(x) is _Argument and x.is_tensor]
        flat = tuple(range(len(inputs)))
        if len(inputs) < len(self._template) or self._argument_tree != tree.flatten(flat)[1]:
            return None
        for structure in _STRUCTURES:
            if self._treedef == _result_tree(structure, len(self.specs)):
                return call_name(self._function, inputs, self.specs, structure)
        return None

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Call the function with tensors of the arrays; returns the arrays of its result."""
        rest = iter(arrays)
        leaves = [x.restore(rest) if type(x) in (_Argument, _Text) else x for x in self._template]
        # its ops are not part of any recording under way
        with use(BASE), within(self._scope):
            result = self._function(*tree.unflatten(self._argument_tree, leaves))
            if not self.specs:
                return []
            return self._checked(result)

    def _checked(self, result: Any) -> list[Any]:
        leaves, treedef = tree.flatten(result)
        if treedef != self._treedef:
            raise ShapeError(
                f"py_call: {self.name} gave another structure than out_types has",
                given=tree.show(treedef),
                expected=tree.show(self._treedef),
            )
        arrays = []
        names: dict[str, Any] = {}
        for x, kind in zip(leaves, self.specs, strict=True):
            weak = isinstance(x, (int, float, complex)) and not isinstance(x, AbstractArray)
            y = as_tensor(x, kind.dtype if weak else None, kind.device)
            if not _has_shape(y, kind, names) or y.dtype is not kind.dtype:
                raise (ShapeError if y.dtype is kind.dtype else DTypeError)(
                    f"py_call: {self.name} gave another type than out_types says",
                    given=str(y.type),
                    expected=f"{kind}{_where(kind, names)}",
                )
            arrays.append(y._data)
        return arrays

    def __repr__(self) -> str:
        return f"<function {self.name}>"


def _where(kind: TensorSpec, names: dict[str, Any]) -> str:
    known = [f"{size}={names[str(size)]}" for size in kind.shape if str(size) in names]
    return f" with {', '.join(known)}" if known else ""


def _has_shape(x: Tensor, kind: TensorSpec, names: dict[str, Any]) -> bool:
    """Whether the sizes fit the type; a name stands for one size in all results."""
    return len(x.shape) == kind.ndim and all(
        names.setdefault(str(want), size) == size if isinstance(want, Dim) else size == want
        for size, want in zip(x.shape, kind.shape, strict=True)
    )


#: structures of results that other processes understand
_STRUCTURES: Final = ("none", "one", "tuple")


def _result_tree(structure: str, count: int) -> tree.TreeDef | None:
    leaves = tuple(range(count))
    if structure == "tuple":
        return tree.flatten(leaves)[1]
    if count != (structure == "one"):
        return None
    return tree.flatten(leaves[0] if leaves else None)[1]


def imported_call(call: str, listed: Mapping[str, Callable[..., Any]]) -> PyFunction:
    """The function for the name of a call from another process (`PyFunction.identity`).

    Args:
        call: the name.
        listed: the functions that may be called, by ``"module:function"``.

    Raises:
        ResourceError: the function is not listed, or the name is malformed.
        EagerflowError: a type in the name is malformed.
    """
    function, inputs, outputs, structure = read_call(call)
    if function not in listed:
        raise ResourceError(
            f"the function {function!r} may not be called here",
            expected=", ".join(listed) or "none: no function is listed",
            hint=f"eagerflow serve --allow-python {function}",
        )
    made = _result_tree(structure, len(outputs))
    if made is None:
        raise ResourceError("the text is not a call of a function", given=repr(call))
    arguments = tree.flatten(tuple(range(len(inputs))))[1]
    template = [_Argument(spec, None) for spec in inputs]
    return PyFunction(listed[function], template, arguments, made, outputs)


@final
class _Argument:
    """The placeholder of an argument that is an array at run time."""

    __slots__ = ("_lane", "_made", "spec")

    def __init__(self, like: TensorSpec, made: Callable[[Tensor], Any] | None) -> None:
        self.spec = like
        self._lane = as_device(like.device).lanes[like.dtype]
        self._made = made  # converts the tensor to a number, or to a NumPy array

    @property
    def is_tensor(self) -> bool:
        """Whether the function gets the tensor itself."""
        return self._made is None

    def restore(self, arrays: Iterator[Any]) -> Any:
        """The tensor, number or NumPy array, from the next of the arrays."""
        x = make_tensor(next(arrays), self._lane)
        return x if self._made is None else self._made(x)


@final
class _Text:
    """The placeholder of a string that shows values known at run time.

    Args:
        parts: its pieces; between these, formatters with trees that hold markers for arrays.
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[str | tuple[Callable[[Any], str], Any]]) -> None:
        self._parts = parts

    def restore(self, arrays: Iterator[Any]) -> str:
        """The string, from the next of the arrays, which are its values."""
        return "".join([
            part if isinstance(part, str) else part[0](_restored(part[1], arrays))
            for part in self._parts
        ])  # fmt: skip


def _restored(x: Any, arrays: Iterator[Any]) -> Any:
    return tree.map(lambda y: y.restore(arrays) if type(y) in (_Argument, _Text) else y, x)


def _types(
    *inputs: TensorType, resource: PyFunction, device: Device | None = None
) -> tuple[TensorType, ...]:
    types = [spec.type for spec in resource.specs]
    return tuple(fresh_types(types, "the result of the function"))


def _devices(
    *devices: Device, resource: PyFunction, device: Device | None = None
) -> tuple[Any, ...]:
    common_device(*devices, device=device)
    return tuple([spec.device for spec in resource.specs])


_py_call = effect_op(
    "py_call",
    PyFunction,
    _types,
    "fence",
    devices=_devices,
    takes_bytes=True,
    outputs=None,
    calls_user=True,
    reaches="python",
)
_print = effect_op(
    "print", PyFunction, _types, "fence", devices=_devices, takes_bytes=True, outputs=None,
    reaches="python",
)  # fmt: skip


def _split(args: Any, *, gathers: bool = False) -> tuple[list[Tensor], list[Any], tree.TreeDef]:
    """The arrays among the leaves of arguments, and the leaves with markers in their place.

    Args:
        args: the arguments.
        gathers: whether the arrays are moved to the device of the scope.
    """
    leaves, treedef = tree.flatten(args)
    tensors: list[Tensor] = []

    def marked(leaf: Any) -> Any:
        value: Any = leaf
        made: Callable[[Tensor], Any] | None = None
        if isinstance(value, str):
            parts = text_parts(value)
            return leaf if parts is None else _Text([
                (part.spell, tree.map(marked, part.value)) if type(part) is Placeholder else part
                for part in parts
            ])  # fmt: skip
        if type(value) is Dim:
            value = number_of(value)
        if issubclass(type(value), AbstractNumber):
            kind = value.kind
            value = as_tensor(value, _NUMBERS[kind])

            def made(x: Tensor) -> Any:
                return kind(x.item())

        elif issubclass(type(value), AbstractTracedArray):
            made, value = value.maker, value.__tensor__()
        if not isinstance(value, AbstractArray):
            return leaf
        value = tensor_of(value)
        tensors.append(to_home(value, home_of(value.device)) if gathers else value)
        return _Argument(type_of(tensors[-1]), made)

    return tensors, [marked(leaf) for leaf in leaves], treedef


def _check_arguments(function: Any, out_types: Any, args: tuple[Any, ...]) -> None:
    """Raise if ``out_types`` is surely a misplaced first argument."""
    if not isinstance(out_types, AbstractArray):
        return
    if isinstance(count := getattr(function, "nin", None), int):  # of NumPy, without a signature
        misplaced = len(args) + 1 == count
    else:
        misplaced = not _may_take(function, args) and _may_take(function, (out_types, *args))
    if misplaced:
        name = getattr(function, "__name__", "f")
        raise TensorValueError(
            "py_call: the types of the results of the function are missing",
            given=f"py_call({name}, x{', ...' * bool(args)})",
            expected=f"py_call({name}, out_types, x{', ...' * bool(args)})",
            hint=f"for a result like x: ef.py_call({name}, x.type, x), or a type as text, "
            f'"f32[8]"; for a function without a result: ef.py_call({name}, None, x)',
        )


def _may_take(function: Any, args: tuple[Any, ...]) -> bool:
    try:
        inspect.signature(function).bind(*args)
    except TypeError:
        return False
    except ValueError:  # it has no signature
        return True
    return True


@hides_frames
def py_call(function: Callable[..., Any], out_types: object, /, *args: Any) -> Any:
    """Call a Python function: eagerly at once, in a traced function in each run.

    In a graph it is a node that waits for all effects before it. It has no derivative.

    Args:
        function: a function that is called with the arguments, as tensors with values.
        out_types: a tree of the types of the result: types such as ``"f32[8,128]"`` (a name in
            place of a size, ``"f32[k]"``, stands for any size, the same wherever it occurs),
            tensors of such a type, or None for no result.
        args: trees of tensors, numbers and other objects.

    Returns:
        The result of the function, as tensors in the structure of ``out_types``.

    Raises:
        ShapeError: the structure or a shape of the result is not that of ``out_types``.
        DTypeError: a dtype of the result is not that of ``out_types``.

    >>> @ef.trace
    ... def f(x):
    ...     return ef.py_call(lambda y: y.numpy().sum(), "f32[]", x) * 2
    >>> f(ef.tensor([1.0, 2.0]))
    Tensor(6., f32[]@cpu:0)
    """
    return _py_called(function, out_types, args, _py_call)


def check(function: Callable[..., Any], *args: Any) -> None:
    """`py_call` of a function that only checks: it raises an exception or has no effect."""
    _py_called(function, None, args, _py_call, checks=True)


def _py_called(function: Callable[..., Any], out_types: Any, args: Any, op: Op, **more: Any) -> Any:
    computes = op is _py_call and "checks" not in more  # all others only observe
    if computes:
        _check_arguments(function, out_types, args)
    tensors, template, argument_tree = _split(args, gathers=computes)
    device = tensors[0].device if tensors else current_device()
    kinds, treedef = tree.flatten(out_types)
    specs = [as_spec("py_call", kind, device) for kind in kinds]
    resource = PyFunction(function, template, argument_tree, treedef, specs, **more)
    where = {} if tensors else {"device": device}
    result = bind(op, *tensors, resource=resource, **where)
    return tree.unflatten(treedef, result) if specs else None


@hides_frames
def print(
    *args: TensorLike, sep: str | None = " ", end: str | None = "\n", file: TextIO | None = None,
    flush: bool = False,
) -> None:  # fmt: skip
    """Print values as Python's `print`: eagerly at once, in a traced function in each run.

    In a graph it is a node that waits for all effects before it, so lines come in the order of
    the program.

    Args:
        args: trees of tensors, numbers and other objects. Strings may show values: ``f"{x:.2f}"``.
        sep: the separator between arguments.
        end: the string after the last argument.
        file: the file to print to; by default ``sys.stdout`` at the time of printing.
        flush: whether to flush the file after the line.

    >>> @ef.trace
    ... def f(x):
    ...     ef.print("x is", x)
    ...     return x
    >>> y = f(ef.tensor([1.0, 2.0]))
    x is [1. 2.]
    """

    def show(values: Any, sep: str | None, end: str | None) -> None:
        builtins.print(*values, sep=sep, end=end, file=file, flush=flush)

    show.__name__ = "print"
    _py_called(show, None, (args, sep, end), _print, title="print()")
