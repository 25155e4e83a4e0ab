"""`grad` and `value_and_grad`: the gradient of a function whose result is a real scalar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, Final, Literal, ParamSpec, Protocol, TypeVar, overload

from eagerflow.autodiff.backward import full_like, gradients
from eagerflow.autodiff.gradient_sources import Arguments, VariableTree
from eagerflow.autodiff.looks import check_looks, last_look
from eagerflow.autodiff.tape import Tape
from eagerflow.core.interpreter import installed, is_traced, unwinds
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.core.to_tensor import tensor_of
from eagerflow.errors import GradientError, GradientWarning, hide_frames
from eagerflow.source import warn

_A = TypeVar("_A")  # an argument, and its gradient
_P = ParamSpec("_P")
_R = TypeVar("_R")
_X = TypeVar("_X")
_A_contra = TypeVar("_A_contra", contravariant=True)
_R_co = TypeVar("_R_co", covariant=True)
#: warning where a loss was computed before its gradient was asked for, with the transform
_CONSTANT: Final = (
    "{}: the function reads none of the variables of wrt, so all gradients are zero\n"
    "  hint: what is computed before is a constant: compute all of the loss in the function, "
    "def loss_fn(x, y): return loss_of(net(x), y)"
)


class _Function(Protocol[_P, _R_co]):
    """The type of a derivative that takes the arguments of the function, for type checkers."""

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...


class _Derivative(Protocol[_A_contra, _P, _R_co]):
    """The type of a derivative by the first argument, which is positional-only."""

    def __call__(self, x: _A_contra, /, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...


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
    check_function(what, f, argnums)

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
    if tape.looks:
        check_looks(tape, (slot,), wanted, what, sources.name)
    if sources.variables and not any(wanted) and not is_traced():  # `remat` in a trace reads later
        warn(_CONSTANT.format(what), GradientWarning)
    seeds = {slot: full_like(loss, 1)}
    cotangents = gradients(tape, seeds, wanted, what, sources.name, consume=True)
    return value, sources.gradient(cotangents), aux


def check_function(what: str, f: Any, argnums: Any = 0) -> None:
    """Refuse an object that is not callable, and values in the place of positions of arguments.

    Args:
        what: the transform, for messages.
        f: the function.
        argnums: the positions of the arguments.

    Raises:
        GradientError: ``f`` is not callable, or ``argnums`` has others than integers.
    """
    if not callable(f):
        raise GradientError(
            f"{what}: the first argument must be a function",
            given=described(f),
            hint=f"{what}(f) gives a function; call that with the arguments",
        )
    several = isinstance(argnums, Sequence) and not isinstance(argnums, str)
    if not all(isinstance(i, int) for i in (argnums if several else [argnums])):
        raise GradientError(
            f"{what}: argnums must be the positions of arguments",
            given=described(argnums),
            expected="an integer, or a tuple of integers",
            hint=f"{what}(f) gives a function; call that with the arguments: ef.{what}(f)(x); "
            "derivatives by variables are those of ef.grad(f, wrt=v)",
        )


def pair(what: str, result: Any) -> tuple[Any, Any]:
    """The result of a function with ``has_aux=True``, checked to be a pair.

    Raises:
        GradientError: the result is not a pair.
    """
    if not isinstance(result, tuple) or len(result) != 2:
        raise GradientError(
            f"{what}: with has_aux=True the function must return (result, aux)",
            hint="return loss, (y, z)",
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
