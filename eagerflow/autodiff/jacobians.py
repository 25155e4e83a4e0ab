"""All derivatives at once: `jacobian` and `hessian`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any

from eagerflow.autodiff.backward import dense, full_like, gradients, search, seeds_of
from eagerflow.autodiff.grad import Arguments, check_function, described, differentiate
from eagerflow.autodiff.tape import UNKNOWN, Tape
from eagerflow.core import tree
from eagerflow.core.convert import tensor_of
from eagerflow.core.interpreter import installed
from eagerflow.core.op import functions
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.errors import GradientError, hides_frames
from eagerflow.ops.rules.promotion import cast
from eagerflow.types import Shape


def jacobian(f: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The function that gives all derivatives of all elements of the result of ``f``.

    ``f`` runs once. The derivatives come row by row in reverse mode, or column by column if there
    are fewer elements in the arguments than in the result.

    Args:
        f: a function of trees of tensors that gives a tree of real tensors.
        argnums: the positional argument to differentiate by; a tuple of them gives a tuple.

    Returns:
        A function of the arguments of ``f``. For each tensor of the result, in its structure, it
        gives a tree like the argument; of a result ``[*m]`` by an argument ``[*n]`` a tensor
        ``[*m, *n]``.

    Raises:
        GradientError: an argument of integers, a result that is not real, or an op without a
            derivative on the way.

    >>> ef.jacobian(lambda x: x * x)(ef.tensor([1.0, 2.0]))
    Tensor([[2., 0.],
            [0., 4.]], f32[2,2]@cpu:0)
    """
    return _matrices("jacobian", f, f, argnums)


def hessian(f: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The function that gives all second derivatives of ``f``, whose result is a real scalar.

    Args:
        f: as for `grad`, of real arguments.
        argnums: the positional argument to differentiate by; a tuple of them gives a tuple.

    Returns:
        A function of the arguments of ``f``. Its result has the structure of the argument, and in
        place of each tensor ``[*m]`` a tree like the argument, with ``[*m, *n]`` for ``[*n]``.

    Raises:
        GradientError: as `grad` and `jacobian`.

    >>> ef.hessian(lambda x: (x * x * x).sum())(ef.tensor([1.0, 2.0]))
    Tensor([[ 6.,  0.],
            [ 0., 12.]], f32[2,2]@cpu:0)
    """

    def gradient(*args: Any, **kwargs: Any) -> Any:
        return differentiate("hessian", f, argnums, None, False, args, kwargs)[1]

    return _matrices("hessian", f, gradient, argnums)


def _matrices(
    what: str, f: Callable[..., Any], of: Callable[..., Any], argnums: Any
) -> Callable[..., Any]:
    """A function like ``f`` that gives all derivatives of ``of``."""
    check_function(what, f)

    @hides_frames
    @wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        return _jacobian(what, of, argnums, args, kwargs)

    return function


def _jacobian(
    what: str, f: Callable[..., Any], argnums: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    sources = Arguments(what, argnums, args)
    xs = sources.inputs
    tape = Tape()
    wanted = sources.watch(tape)
    with installed(tape):
        leaves, treedef = tree.flatten(f(*sources.args, **kwargs))
        ys = [_real(what, y) for y in leaves]

    def pull(gs: Sequence[Tensor | None]) -> list[Tensor | None]:
        seeds = seeds_of(map(tape.slot_of, ys), gs)
        cotangents = gradients(tape, seeds, wanted, what, sources.name)
        return [None if g is None else dense(g) for g in cotangents]

    narrow = sum(x.size for x in xs) < sum(y.size for y in ys)
    if narrow and not any(x.dtype.is_complex for x in xs):
        blocks = _by_columns(pull, ys, xs)
    else:
        blocks = _by_rows(pull, ys, xs)
    return tree.unflatten(treedef, [sources.tree(row) for row in blocks])


def _real(what: str, y: Any) -> Tensor:
    if not isinstance(y, AbstractArray) or not y.dtype.is_floating:
        raise GradientError(
            f"{what}: the result is not a real tensor",
            given=described(y),
            hint=_not_real_hint(y),
        )
    return tensor_of(y)


def _not_real_hint(y: Any) -> str:
    if not isinstance(y, AbstractArray):
        return "return a tensor that is computed from the arguments with ops of eagerflow"
    if y.dtype.is_complex:
        return "of a complex result, differentiate .real and .imag"
    return "only floating results have derivatives"


Pull = Callable[[Sequence[Tensor | None]], list[Tensor | None]]


def _by_rows(pull: Pull, ys: Sequence[Tensor], xs: Sequence[Tensor]) -> list[list[Tensor]]:
    """The blocks for each y and x, from one cotangent for each element of each y."""
    blocks = []
    for i, y in enumerate(ys):
        rows = [pull([g if j == i else None for j in range(len(ys))]) for g in _basis(y)]
        blocks.append(
            [_block([row[j] for row in rows], x, y.shape + x.shape, 0) for j, x in enumerate(xs)]
        )
    return blocks


def _by_columns(pull: Pull, ys: Sequence[Tensor], xs: Sequence[Tensor]) -> list[list[Tensor]]:
    """The same, from one tangent for each element of each x.

    ``pull`` is linear, so its own gradient, the same wherever it is taken, pushes tangents forward.
    """
    tape = Tape()
    gs = [full_like(y, 0) for y in ys]
    wanted = [(tape.watch(g),) for g in gs]
    with installed(tape):
        us = pull(gs)
    columns: list[list[list[Any]]] = []
    for x, u in zip(xs, us, strict=True):
        slot = UNKNOWN if u is None else tape.slot_of(u)
        columns.append([search(tape, {slot: t}, wanted, consume=False) for t in _basis(x)])
    return [
        [_block([c[i] for c in columns[j]], y, y.shape + x.shape, -1) for j, x in enumerate(xs)]
        for i, y in enumerate(ys)
    ]


def _basis(x: Tensor) -> Iterator[Tensor]:
    """Tensors like ``x`` with a one at one element and zeros elsewhere."""
    rows = functions["eye"](x.size, dtype=x.dtype, device=x.device)
    for i in range(x.size):
        yield functions["reshape"](rows[i], x.shape)


def _block(parts: Sequence[Tensor | None], like: Tensor, shape: Shape, axis: int) -> Tensor:
    """The derivatives of one tensor by another from parts like ``like``, None for zero."""
    if not parts or all(p is None for p in parts):
        return functions["zeros"](shape, dtype=like.dtype, device=like.device)
    whole = functions["stack"]([full_like(like, 0) if p is None else p for p in parts], axis=axis)
    return cast(functions["reshape"](whole, shape), like.dtype)
