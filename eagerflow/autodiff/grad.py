"""`grad` and `value_and_grad`, and the sources of gradients: arguments, or variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, ValuesView
from functools import wraps
from itertools import islice
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, final, overload

from eagerflow.autodiff.backward import Cotangent, dense, full_like, gradients
from eagerflow.autodiff.looks import check_looks, last_look
from eagerflow.autodiff.tape import Tape
from eagerflow.core import tree
from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.interpreter import installed, unwinds
from eagerflow.core.op import functions
from eagerflow.core.tensor import AbstractArray, Tensor, handle_of
from eagerflow.core.to_tensor import tensor_of
from eagerflow.errors import DTypeError, GradientError, TensorValueError, hide_frames
from eagerflow.ops.rules.promotion import cast

_A = TypeVar("_A")  # an argument, and its gradient
_P = ParamSpec("_P")
_R = TypeVar("_R")
_X = TypeVar("_X")
_A_contra = TypeVar("_A_contra", contravariant=True)
_R_co = TypeVar("_R_co", covariant=True)


class _Function(Protocol[_P, _R_co]):
    """The type of a derivative that takes the arguments of the function, for type checkers."""

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...


class _Derivative(Protocol[_A_contra, _P, _R_co]):
    """The type of a derivative by the first argument, which is positional-only."""

    def __call__(self, x: _A_contra, /, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...


def check_inexact(what: str, name: str, x: AbstractArray) -> None:
    """Refuse to differentiate by an integer array.

    Raises:
        GradientError: the dtype is not floating or complex.
    """
    if not x.dtype.is_inexact:
        kind = "an integer dtype" if x.dtype.is_integer else "dtype bool"
        raise GradientError(
            f"{what}: {name} has {kind}",
            given=str(x.type),
            expected="a floating or complex dtype",
            hint="convert it with .astype(ef.float32)",
        )


def _inputs_of(what: str, name: str, argument: Any) -> tuple[list[Tensor], tree.TreeDef | None]:
    """The leaves of an argument as tensors in new handles, and its structure; None for a tensor.

    Raises:
        GradientError: a leaf is not an array, or has an integer dtype.
    """
    leaves, treedef = ([argument], None) if type(argument) is Tensor else tree.flatten(argument)
    inputs = []
    for i, leaf in enumerate(leaves):
        try:
            x = leaf if type(leaf) is Tensor else tensor_of(leaf)
        except (DTypeError, TensorValueError):
            raise GradientError(
                f"{what}: {name}{_paths(treedef)[i]} is not an array",
                given=type(leaf).__name__,
                hint="pass values that are not differentiated as other arguments",
            ) from None
        if not x.dtype.is_inexact:
            check_inexact(what, name + _paths(treedef)[i], x)
        inputs.append(handle_of(x))
    return inputs, treedef


def _paths(treedef: tree.TreeDef | None) -> list[str]:
    return [""] if treedef is None else tree.paths(treedef)


def _unflatten(treedef: tree.TreeDef | None, leaves: Iterator[Any]) -> Any:
    if treedef is None:
        return next(leaves)
    return tree.unflatten(treedef, islice(leaves, treedef.num_leaves))


@final
class Arguments:
    """The arguments of a function, with those that gradients are taken by.

    Arguments are passed by value: the function gets tensors of its own, and an update in place
    does not reach the caller's tensor.

    Args:
        what: the transform, for messages.
        argnums: the positional arguments to differentiate by.
        args: all positional arguments.

    Attributes:
        args: the arguments to call the function with.
        inputs: the leaves of the arguments that gradients are taken by.
        variables: empty.
    """

    def __init__(self, what: str, argnums: int | Sequence[int], args: Sequence[Any]) -> None:
        self.args = list(args)
        self.inputs: list[Tensor] = []
        self.variables: tuple[Any, ...] = ()
        self._one = isinstance(argnums, int)
        self._argnums = _argnums(what, argnums, len(args))
        self._defs = []
        for i in self._argnums:
            inputs, treedef = _inputs_of(what, f"argument {i}", args[i])
            self.inputs += inputs
            self._defs.append(treedef)
            self.args[i] = _unflatten(treedef, iter(inputs))

    def with_inputs(self, inputs: Sequence[Tensor]) -> list[Any]:
        """The arguments with other tensors in place of `inputs`."""
        args, rest = [*self.args], iter(inputs)
        for i, treedef in zip(self._argnums, self._defs, strict=True):
            args[i] = _unflatten(treedef, rest)
        return args

    def watch(self, tape: Tape) -> list[Sequence[int]]:
        """Watch the inputs, before the function runs; returns the slots of each."""
        return [(tape.watch(x),) for x in self.inputs]

    def name(self, index: int) -> str:
        """The name of an input in messages."""
        positions = zip(self._argnums, self._defs, strict=True)
        return [f"argument {i}{path}" for i, d in positions for path in _paths(d)][index]

    def tree(self, leaves: Sequence[Any]) -> Any:
        """The leaves, one for each input, in the structure of the arguments."""
        rest = iter(leaves)
        trees = [_unflatten(d, rest) for d in self._defs]
        return trees[0] if self._one else tuple(trees)

    def gradient(self, cotangents: Sequence[Cotangent | None]) -> Any:
        """The gradients as dense tensors in the structure of the arguments."""
        return self.tree(finished(cotangents, self.inputs))


def _instead_of(leaf: Any) -> str:
    """The remedy for a leaf of ``wrt`` that is no variable."""
    if hasattr(leaf, "trainable"):
        return "of a module: model.trainable"
    if isinstance(leaf, ValuesView) and all(map(is_variable, leaf)):
        return "an iterator or a view is no tree: wrt=list(variables)"
    return "use argnums for the arguments of the function"


@final
class VariableTree:
    """A tree of variables that gradients are taken by, with the interface of `Arguments`.

    Args:
        what: the transform, for messages.
        wrt: the tree.
        args: the arguments to call the function with, unchanged.
    """

    def __init__(self, what: str, wrt: Any, args: Sequence[Any]) -> None:
        self.args = list(args)
        self.variables, self._def = tree.flatten(wrt)
        for i, variable in enumerate(self.variables):
            if not is_variable(variable):
                raise GradientError(
                    f"{what}: wrt takes variables",
                    given=f"{type(variable).__name__} in wrt{tree.paths(self._def)[i]}",
                    hint=_instead_of(variable),
                )
            if not variable.dtype.is_inexact:
                check_inexact(what, self.name(i), variable)

    def watch(self, tape: Tape) -> list[Sequence[int]]:
        """The slots of each variable; the tape, made for these variables, adds one at each read."""
        return [tape.slots_of_reads(variable) for variable in self.variables]

    def name(self, index: int) -> str:
        """The name of a variable in messages."""
        return f"the variable wrt{tree.paths(self._def)[index]}"

    def gradient(self, cotangents: Sequence[Cotangent | None]) -> Any:
        """The gradients in the structure of the tree, sparse where only rows were read."""
        return tree.unflatten(self._def, finished(cotangents, self.variables))


def is_variable(x: Any) -> bool:
    """Whether ``x`` is a variable."""
    return isinstance(x, AbstractArray) and type(x) is not Tensor


def finished(
    cotangents: Sequence[Cotangent | None], likes: Sequence[AbstractArray], *, zeros: bool = True
) -> list[Cotangent | None]:
    """Gradients ready for return: of the dtype of their source, each in a handle of its own.

    Gradients by tensors are dense, gradients by variables may be `IndexedSlices`.

    Args:
        cotangents: the cotangents, or None.
        likes: the sources.
        zeros: whether to replace None by zeros.
    """
    taken: set[int] = set()
    result: list[Cotangent | None] = []
    for g, like in zip(cotangents, likes, strict=True):
        if g is None and zeros:
            g = full_like(like, 0)
        if g is None or (type(g) is IndexedSlices and is_variable(like)):
            result.append(g)
            continue
        # a real source may get a complex cotangent, of which the real part counts
        g = cast(dense(g), like.dtype)
        if g._mark is not None:  # an outer tape must be able to distinguish the values
            if id(g._data) in taken:
                g = functions["copy"](g)
            taken.add(id(g._data))
        result.append(handle_of(g))
    return result


def _argnums(what: str, argnums: int | Sequence[int], count: int) -> tuple[int, ...]:
    """``argnums`` counted from the front."""
    given = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    positions = []
    for i in given:
        if not isinstance(i, int) or not -count <= i < count:
            raise GradientError(
                f"{what}: there is no positional argument {i!r}",
                given=f"{count} positional arguments",
                hint="arguments passed by keyword are not differentiated by",
            )
        positions.append(i % count)
    if len(set(positions)) != len(positions):
        raise GradientError(f"{what}: argnums names an argument twice", given=str(argnums))
    return tuple(positions)


@overload
def grad(
    f: Callable[Concatenate[Tensor, _P], object], argnums: Literal[0] = 0, *, wrt: None = None,
    has_aux: Literal[False] = False,
) -> _Derivative[Tensor, _P, Tensor]: ...  # fmt: skip


@overload
def grad(
    f: Callable[Concatenate[_A, _P], object], argnums: Literal[0] = 0, *, wrt: None = None,
    has_aux: Literal[False] = False,
) -> _Derivative[_A, _P, _A]: ...  # fmt: skip


@overload
def grad(
    f: Callable[Concatenate[_A, _P], tuple[object, _X]], argnums: Literal[0] = 0, *,
    wrt: None = None, has_aux: Literal[True],
) -> _Derivative[_A, _P, tuple[_A, _X]]: ...  # fmt: skip


@overload
def grad(
    f: Callable[_P, object], argnums: tuple[int, ...], *, wrt: None = None,
    has_aux: Literal[False] = False,
) -> _Function[_P, tuple[Any, ...]]: ...  # fmt: skip


@overload
def grad(
    f: Callable[_P, object], argnums: int = 0, *, wrt: Any = None, has_aux: Literal[False] = False
) -> _Function[_P, Any]: ...


@overload
def grad(
    f: Callable[_P, tuple[object, _X]], argnums: int | tuple[int, ...] = 0, *, wrt: Any = None,
    has_aux: Literal[True],
) -> _Function[_P, tuple[Any, _X]]: ...  # fmt: skip


def grad(
    f: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, wrt: object = None,
    has_aux: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """Return a function that computes the gradient of ``f``, whose result is a real scalar.

    Args:
        f: the function. Positional arguments are trees of tensors; others pass through.
        argnums: the positional argument to differentiate by; a tuple yields a tuple of gradients.
        wrt: a tree of variables to differentiate by instead.
        has_aux: whether ``f`` returns ``(result, aux)``; ``(gradient, aux)`` is then returned.

    Returns:
        A function of the arguments of ``f``. Its result has the structure of the argument, with
        dense tensors, zero where ``f`` does not depend on a leaf; or the structure of ``wrt``,
        with `IndexedSlices` for variables of which only rows were read. For a complex argument the
        gradient is the direction of steepest ascent, as in PyTorch: ``p - rate * g`` descends.

    Raises:
        GradientError: an argument has an integer dtype, the result is not a real scalar tensor,
            or an op on the path has no derivative.

    >>> ef.grad(lambda x: (x * x).sum())(ef.tensor([1.0, 2.0]))
    Tensor([2., 4.], f32[2]@cpu:0)
    """

    def give(_: Any, gradient: Any, aux: Any) -> Any:
        return (gradient, aux) if has_aux else gradient

    return _derivative("grad", f, argnums, wrt, has_aux, give)


@overload
def value_and_grad(
    f: Callable[Concatenate[Tensor, _P], _R], argnums: Literal[0] = 0, *, wrt: None = None,
    has_aux: Literal[False] = False,
) -> _Derivative[Tensor, _P, tuple[_R, Tensor]]: ...  # fmt: skip


@overload
def value_and_grad(
    f: Callable[Concatenate[_A, _P], _R], argnums: Literal[0] = 0, *, wrt: None = None,
    has_aux: Literal[False] = False,
) -> _Derivative[_A, _P, tuple[_R, _A]]: ...  # fmt: skip


@overload
def value_and_grad(
    f: Callable[Concatenate[_A, _P], tuple[_R, _X]], argnums: Literal[0] = 0, *,
    wrt: None = None, has_aux: Literal[True],
) -> _Derivative[_A, _P, tuple[tuple[_R, _X], _A]]: ...  # fmt: skip


@overload
def value_and_grad(
    f: Callable[_P, _R], argnums: tuple[int, ...], *, wrt: None = None,
    has_aux: Literal[False] = False,
) -> _Function[_P, tuple[_R, tuple[Any, ...]]]: ...  # fmt: skip


@overload
def value_and_grad(
    f: Callable[_P, _R], argnums: int = 0, *, wrt: Any = None, has_aux: Literal[False] = False
) -> _Function[_P, tuple[_R, Any]]: ...


@overload
def value_and_grad(
    f: Callable[_P, tuple[_R, _X]], argnums: int | tuple[int, ...] = 0, *, wrt: Any = None,
    has_aux: Literal[True],
) -> _Function[_P, tuple[tuple[_R, _X], Any]]: ...  # fmt: skip


def value_and_grad(
    f: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, wrt: object = None,
    has_aux: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """Return a function that computes the result of ``f`` and its gradient, running ``f`` once.

    Args:
        f: as for `grad`.
        argnums: as for `grad`.
        wrt: as for `grad`.
        has_aux: whether ``f`` returns ``(result, aux)``; ``((result, aux), gradient)`` is then
            returned.

    Returns:
        A function of the arguments of ``f`` that returns ``(result, gradient)``.

    Raises:
        GradientError: as `grad`.

    >>> ef.value_and_grad(lambda x, y: x * y, argnums=(0, 1))(ef.tensor(2.0), ef.tensor(3.0))
    (Tensor(6., f32[]@cpu:0), (Tensor(3., f32[]@cpu:0), Tensor(2., f32[]@cpu:0)))
    """

    def give(value: Any, gradient: Any, aux: Any) -> Any:
        return ((value, aux) if has_aux else value), gradient

    return _derivative("value_and_grad", f, argnums, wrt, has_aux, give)


def _derivative(
    what: str, f: Callable[..., Any], argnums: Any, wrt: Any, has_aux: bool,
    give: Callable[[Any, Any, Any], Any],
) -> Callable[..., Any]:  # fmt: skip
    """A function like ``f`` that returns ``give`` of the results of `differentiate`."""
    check_function(what, f)

    @wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            return give(*differentiate(what, f, argnums, wrt, has_aux, args, kwargs))
        except BaseException as error:
            hide_frames(error)
            raise

    # path of a gradient by one argument in the result, for `eagerflow/hints/unpacking.py`
    place = (1,) if what == "value_and_grad" else (0,) * has_aux
    by_one = wrt is None and isinstance(argnums, int)
    function.__dict__["gradient_at"] = place if by_one else None
    return function


@unwinds
def differentiate(
    what: str, f: Callable[..., Any], argnums: Any, wrt: Any, has_aux: bool,
    args: Sequence[Any], kwargs: dict[str, Any],
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The value, the gradient, and the auxiliary result of ``f``.

    Args:
        what: the transform, for messages.
        f: as for `grad`.
        argnums: as for `grad`.
        wrt: as for `grad`.
        has_aux: as for `grad`.
        args: the positional arguments of ``f``.
        kwargs: the keyword arguments of ``f``.
    """
    sources: Arguments | VariableTree
    sources = Arguments(what, argnums, args) if wrt is None else VariableTree(what, wrt, args)
    tape = Tape(sources.variables)
    wanted = sources.watch(tape)
    with installed(tape):
        result = f(*sources.args, **kwargs)
        value, aux = pair(what, result) if has_aux else (result, None)
        loss = _scalar_result(what, value, tape)
    slot = tape.slot_of(loss)
    check_looks(tape, (slot,), wanted, what, sources.name)
    seeds = {slot: full_like(loss, 1)}
    cotangents = gradients(tape, seeds, wanted, what, sources.name, consume=True)
    return value, sources.gradient(cotangents), aux


def check_function(what: str, f: Any) -> None:
    """Refuse an object that is not callable.

    Raises:
        GradientError: ``f`` is not callable.
    """
    if not callable(f):
        raise GradientError(
            f"{what}: the first argument must be a function",
            given=described(f),
            hint=f"{what}(f) gives a function; call that with the arguments",
        )


def pair(what: str, result: Any) -> tuple[Any, Any]:
    """The result of a function with ``has_aux=True``, checked to be a pair.

    Raises:
        GradientError: the result is not a pair.
    """
    if not isinstance(result, tuple) or len(result) != 2:
        raise GradientError(
            f"{what}: with has_aux=True the function must return (result, aux)",
            given=described(result),
        )
    return result


def described(result: Any) -> str:
    """A short description of a function's result, for messages."""
    if isinstance(result, AbstractArray):
        return str(result.type)
    if isinstance(result, (tuple, list)):
        return f"a {type(result).__name__} of {len(result)}"
    name = type(result).__name__
    return f"{name} {result!r}" if isinstance(result, (int, float, complex)) else name


def _scalar_result(what: str, value: Any, tape: Tape) -> Tensor:
    """The result of a function, checked to be a real scalar, of which gradients are taken.

    Args:
        what: the transform, for messages.
        value: the result.
        tape: the tape that was installed.

    Raises:
        GradientError: the result is not a real scalar tensor.
    """
    if isinstance(value, AbstractArray) and not value.shape and value.dtype.is_floating:
        return value if type(value) is Tensor else tensor_of(value)
    expected, hint, source = "a real scalar, such as f32[]", None, None
    if not isinstance(value, AbstractArray):
        wrong = "is not a tensor"
        hint = "return the tensor itself: float(...), .item() and .numpy() cut the gradient"
        if isinstance(value, (tuple, list)):
            hint = "return the scalar alone, or (scalar, rest) with has_aux=True"
        else:
            source = last_look(tape)  # the likely origin of the value
    elif value.shape:
        wrong, expected = "is not a scalar", f"{value.dtype.short}[]"
        hint = "reduce it with .sum() or .mean(); ef.vjp and ef.jacobian take other shapes"
    elif value.dtype.is_complex:
        wrong, hint = "is complex", "take .real, .imag or ef.abs(...) of it, or use ef.vjp"
    else:
        wrong = "has an integer dtype"
    given = described(value)
    wrong = f"{what}: the result {wrong}"
    raise GradientError(wrong, given=given, expected=expected, hint=hint, source=source)
