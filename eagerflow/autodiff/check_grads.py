"""`check_grads`: compares derivatives with numeric derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eagerflow.autodiff.grad import check_function, described
from eagerflow.autodiff.vjp_jvp import jvp, vjp
from eagerflow.core import tree
from eagerflow.core.op import functions
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.core.to_tensor import tensor_of
from eagerflow.errors import GradientError, hides_frames
from eagerflow.ops.rules.promotion import cast
from eagerflow.source import capture
from eagerflow.types import DTYPES


@hides_frames
def check_grads(
    f: Callable[..., Any], args: Sequence[Any], order: int = 2, *, eps: float = 1e-4,
    rtol: float = 1e-5, atol: float = 1e-5,
) -> None:  # fmt: skip
    """Compare derivatives of ``f``, in both modes, with numeric derivatives along a direction.

    The arguments are converted to float64 or complex128, and all of their floating leaves are moved
    together, by a central difference of fourth order.

    Args:
        f: a function of trees of tensors that returns a tree of tensors.
        args: the arguments at which to check, a tuple; integer leaves are constants.
        order: the highest order of derivatives to check.
        eps: the step of the difference.
        rtol: the relative tolerance.
        atol: the absolute tolerance.

    Raises:
        GradientError: the derivatives differ; the message shows the values.

    >>> ef.check_grads(lambda x: ef.sin(x) * x, (ef.tensor([0.5, 2.0]),))
    >>> ef.check_grads(lambda x: ef.stop_gradient(x) * x, (ef.tensor([0.5, 2.0]),), order=1)
    Traceback (most recent call last):
    eagerflow.errors.GradientError: check_grads: the reverse-mode derivative of order 1 is wrong
    ...
    """
    check_function("check_grads", f)
    if not isinstance(args, (tuple, list)):
        raise GradientError(
            "check_grads: args must be a tuple, one entry for each argument",
            given=described(args),
            hint="of one argument it is (x,)",
        )
    leaves, treedef = tree.flatten(tuple(args))
    wide = [_widened(x) if isinstance(x, (AbstractArray, float, complex)) else x for x in leaves]
    positions = [i for i, x in enumerate(wide) if isinstance(x, Tensor) and x.dtype.is_inexact]
    if not positions:
        raise GradientError(
            "check_grads: no argument is floating or complex",
            given=", ".join(map(described, leaves)),
        )

    def function(*xs: Tensor) -> list[Tensor]:
        full = list(wide)
        for i, x in zip(positions, xs, strict=True):
            full[i] = x
        ys = tree.leaves(f(*tree.unflatten(treedef, full)))
        return [tensor_of(y) for y in ys if isinstance(y, AbstractArray) and y.dtype.is_inexact]

    _check(function, [wide[i] for i in positions], 1, order, (eps, rtol, atol))


def _widened(x: Any) -> Tensor:
    """``x`` in double precision, if it is floating."""
    value = tensor_of(x)
    if value.dtype.is_inexact:
        value = cast(value, DTYPES["complex128" if value.dtype.is_complex else "float64"])
    return value


def _check(
    f: Callable[..., list[Tensor]], xs: Sequence[Tensor], order: int, last: int,
    limits: tuple[float, float, float],
) -> None:  # fmt: skip
    eps, rtol, atol = limits
    ts = [_direction(x, 1 + i) for i, x in enumerate(xs)]
    want = _numeric(f, xs, ts, eps)
    ys, pull = vjp(f, *xs)
    cs = [_direction(y, 100 + i) for i, y in enumerate(ys)]
    along, scale = _inner(cs, want)
    tangents = jvp(f, tuple(xs), tuple(ts))[1]
    for mode, got in (("reverse", _inner(pull(cs), ts)[0]), ("forward", _inner(cs, tangents)[0])):
        _compare(mode, order, got, along, atol + rtol * scale)
    if order < last:
        _check(lambda *xs: list(vjp(f, *xs)[1](cs)), xs, order + 1, last, limits)
        _check(lambda *xs: jvp(f, xs, tuple(ts))[1], xs, order + 1, last, limits)


def _direction(x: Tensor, seed: int) -> Tensor:
    """A fixed array like ``x`` of pseudo-random elements, made without a generator."""
    positions = functions["arange"](x.size, dtype=DTYPES["float64"], device=x.device)
    values = functions["cos"](positions * 12.9898 + seed * 78.233)
    if x.dtype.is_complex:
        values = values + functions["sin"](positions * 4.1414 + seed) * 1j
    return cast(functions["reshape"](values, x.shape), x.dtype)


def _numeric(
    f: Callable[..., list[Tensor]], xs: Sequence[Tensor], ts: Sequence[Tensor], eps: float
) -> list[Tensor]:
    """The derivative of ``f`` along ``ts``, by a central difference of fourth order."""
    total: list[Tensor] = []
    for steps, weight in ((1, 8 / 12), (-1, -8 / 12), (2, -1 / 12), (-2, 1 / 12)):
        ys = f(*[x + t * (steps * eps) for x, t in zip(xs, ts, strict=True)])
        parts = [y * (weight / eps) for y in ys]
        total = [a + b for a, b in zip(total, parts, strict=True)] if total else parts
    return total


def _inner(a: Sequence[Tensor], b: Sequence[Tensor]) -> tuple[float, float]:
    """The real inner product, and the sum of the magnitudes of its terms."""
    total = scale = 0.0
    for x, y in zip(a, b, strict=True):
        terms = functions["real"](functions["conj"](x) * y)
        total += float(terms.sum())
        scale += float(abs(terms).sum())
    return total, scale


def _compare(mode: str, order: int, got: float, want: float, allowed: float) -> None:
    if not abs(got - want) <= allowed:  # NaN is wrong as well
        raise GradientError(
            f"check_grads: the {mode}-mode derivative of order {order} is wrong",
            given=f"{got:.10g} along a direction",
            expected=f"{want:.10g}, the numeric derivative, up to {allowed:.2g}",
            hint="if a branch, or the end of a loop, depends on the arguments, the difference may "
            "cross a jump: a smaller step shows that, check_grads(f, args, eps=1e-6)",
            source=capture(3),
        )
