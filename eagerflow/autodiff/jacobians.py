"""Complete matrices of derivatives: `jacobian`, `jacrev`, `jacfwd` and `hessian`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from itertools import accumulate
from math import prod
from typing import Any

from eagerflow.autodiff.backward import dense, full_like, gradients, search, seeds_of
from eagerflow.autodiff.forward_mode import Broken, Forward
from eagerflow.autodiff.grad import check_function, described, differentiate
from eagerflow.autodiff.gradient_sources import Arguments
from eagerflow.autodiff.looks import check_looks, tell_of_look
from eagerflow.autodiff.tape import UNKNOWN, Tape
from eagerflow.batching.vmap import vmap
from eagerflow.core import tree
from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.interpreter import installed, unwinds
from eagerflow.core.op import functions
from eagerflow.core.tensor import AbstractArray, Tensor, handle_of
from eagerflow.core.to_tensor import tensor_of
from eagerflow.dims import same
from eagerflow.errors import GradientError, VmapError, hides_frames
from eagerflow.ops.rules.promotion import cast
from eagerflow.types import Shape


def jacobian(f: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``f``.

    ``f`` runs once. Derivatives are computed by rows in reverse mode, or by columns if the
    arguments have fewer elements than the result.

    Outside of a trace, the rows are computed op by op, also if ``f`` is a traced function;
    ``ef.trace(ef.jacobian(f))`` is one graph, many times as fast where ``f`` has a loop.

    Args:
        f: a function of trees of tensors that returns a tree of real tensors.
        argnums: the positional argument to differentiate by; a tuple yields a tuple.

    Returns:
        A function of the arguments of ``f``. Its result has the structure of the result of ``f``,
        with a tree like the argument in place of each tensor; for a result ``[*m]`` and an argument
        ``[*n]`` this holds a tensor ``[*m, *n]``.

    Raises:
        GradientError: an argument has an integer dtype, a result is not real, or an op on the
            path has no derivative.

    >>> ef.jacobian(lambda x: x * x)(ef.tensor([1.0, 2.0]))
    Tensor([[2., 0.],
            [0., 4.]], f32[2,2]@cpu:0)
    """
    return _matrices("jacobian", f, f, argnums)


def jacrev(f: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """`jacobian` in reverse mode: one row per element of the result, all rows at once.

    For many arguments and few results.

    Outside of a trace, the rows are computed op by op, also if ``f`` is a traced function;
    ``ef.trace(ef.jacrev(f))`` is one graph, many times as fast where ``f`` has a loop.

    Args:
        f: a function of trees of tensors that returns a tree of real tensors.
        argnums: the positional argument to differentiate by; a tuple yields a tuple.

    Returns:
        As `jacobian`.

    Raises:
        GradientError: as `jacobian`.

    >>> ef.jacrev(lambda x: (x * x).sum(keepdims=True))(ef.tensor([1.0, 2.0]))
    Tensor([[2., 4.]], f32[1,2]@cpu:0)
    """
    return _matrices("jacrev", f, f, argnums, narrow=False)


def jacfwd(f: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """`jacobian` in forward mode: one column per element of the arguments, all at once.

    For few arguments and many results; nothing is kept for a backward pass.

    Outside of a trace, ``f`` runs op by op, also if it is a traced function;
    ``ef.trace(ef.jacfwd(f))`` is one graph, many times as fast where ``f`` has a loop.

    Args:
        f: a function of trees of tensors that returns a tree of real tensors.
        argnums: the positional argument to differentiate by, real; a tuple yields a tuple.

    Returns:
        As `jacobian`.

    Raises:
        GradientError: as `jacobian`; or an argument is complex, without a single direction.

    >>> ef.jacfwd(lambda x: ef.stack([x, x * x]))(ef.tensor(3.0))
    Tensor([1., 6.], f32[2]@cpu:0)
    """
    check_function("jacfwd", f, argnums)

    @hides_frames
    @wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        sources = Arguments("jacfwd", argnums, args)
        xs = sources.inputs
        for x in xs:
            if x.dtype.is_complex:
                raise GradientError(
                    "jacfwd: an argument is complex", given=str(x.type),
                    hint="ef.jacrev and ef.jacobian take it",
                )  # fmt: skip
        ends = [*accumulate((x.size for x in xs), initial=0)]
        if same(ends[-1], 0):
            return _jacobian("jacfwd", f, argnums, args, kwargs, narrow=False)
        structure: list[tree.TreeDef] = []

        def along(*ts: Tensor) -> list[Tensor]:
            forward = Forward()
            inputs = [handle_of(x) for x in xs]
            for x, t in zip(inputs, ts, strict=True):
                forward.enter(x, t)
            with installed(forward):
                leaves, treedef = tree.flatten(f(*sources.with_inputs(inputs), **kwargs))
                ys = [_real("jacfwd", y) for y in leaves]
            structure[:] = [treedef]
            moved = [forward.tangent_of(y) for y in ys]
            if forward.look is not None and all(t is None for t in moved):
                certain = not forward.shares_looks
                tell_of_look("jacfwd", "the arguments", forward.look, certain=certain)
            return [_tangent(y, t) for y, t in zip(ys, moved, strict=True)]

        directions = [_among(x, start, ends[-1]) for x, start in zip(xs, ends, strict=False)]
        columns = vmap(along, out_axes=-1, randomness="same")(*directions)
        rows = [sources.tree(_by_argument(c, xs, ends)) for c in columns]
        return tree.unflatten(structure[0], rows)

    return function


def _by_argument(columns: Tensor, xs: Sequence[Tensor], ends: Sequence[Any]) -> list[Tensor]:
    """The columns of a result's Jacobian, divided among the arguments, in their shapes."""
    return [
        functions["reshape"](columns[..., start : start + x.size], (*columns.shape[:-1], *x.shape))
        for x, start in zip(xs, ends, strict=False)
    ]


def _tangent(y: Tensor, t: Any) -> Tensor:
    if isinstance(t, Broken):
        raise GradientError(
            f"jacfwd: the result depends on the arguments through {t.name}, "
            "which has no derivative",
            hint="apply ef.stop_gradient to it, if a derivative of zero is meant",
            source=t.source,
        )
    return full_like(y, 0) if t is None else t


def hessian(f: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """Return a function that computes the Hessian of ``f``, whose result is a real scalar.

    Outside of a trace, the rows are computed op by op, also if ``f`` is a traced function;
    ``ef.trace(ef.hessian(f))`` is one graph, many times as fast where ``f`` has a loop.

    Args:
        f: as for `grad`, with real arguments.
        argnums: the positional argument to differentiate by; a tuple yields a tuple.

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
    what: str,
    f: Callable[..., Any],
    of: Callable[..., Any],
    argnums: Any,
    *,
    narrow: bool | None = None,
) -> Callable[..., Any]:
    """A function like ``f`` that returns the Jacobian of ``of``."""
    check_function(what, f, argnums)

    @hides_frames
    @wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        return _jacobian(what, of, argnums, args, kwargs, narrow)

    return function


@unwinds
def _jacobian(
    what: str,
    f: Callable[..., Any],
    argnums: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    narrow: bool | None,
) -> Any:
    sources = Arguments(what, argnums, args)
    xs = sources.inputs
    tape = Tape()
    wanted = sources.watch(tape)
    with installed(tape):
        leaves, treedef = tree.flatten(f(*sources.args, **kwargs))
        ys = [_real(what, y) for y in leaves]
    if tape.looks:
        check_looks(tape, [*map(tape.slot_of, ys)], wanted, what, sources.name)

    def pull(gs: Sequence[Tensor | None]) -> list[Tensor | None]:
        seeds = seeds_of(map(tape.slot_of, ys), gs)
        cotangents = gradients(tape, seeds, wanted, what, sources.name)
        return [None if g is None else dense(g) for g in cotangents]

    if narrow is None:
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
    """The blocks for each y and x, from one cotangent per element of each y."""
    blocks = []
    for i, y in enumerate(ys):

        def row(g: Tensor, i: int = i) -> list[Tensor]:
            us = pull([g if j == i else None for j in range(len(ys))])
            return [full_like(x, 0) if u is None else u for x, u in zip(xs, us, strict=True)]

        whole = _of_each(row, _basis(y), 0) if _has_elements(y) else [full_like(x, 0) for x in xs]
        blocks.append([_block(u, x, y.shape + x.shape) for u, x in zip(whole, xs, strict=True)])
    return blocks


def _by_columns(pull: Pull, ys: Sequence[Tensor], xs: Sequence[Tensor]) -> list[list[Tensor]]:
    """The blocks for each y and x, from one tangent per element of each x.

    ``pull`` is linear, so its own gradient, the same at every point, pushes tangents forward.
    """
    tape = Tape()
    gs = [full_like(y, 0) for y in ys]
    wanted = [(tape.watch(g),) for g in gs]
    with installed(tape):
        us = pull(gs)
    columns: list[list[Tensor]] = []
    for x, u in zip(xs, us, strict=True):
        slot = UNKNOWN if u is None else tape.slot_of(u)

        def column(t: Tensor, slot: int = slot) -> list[Tensor]:
            pushed = search(tape, {slot: t}, wanted, consume=False)
            return [_dense_like(y, v) for y, v in zip(ys, pushed, strict=True)]

        whole = _of_each(column, _basis(x), -1) if _has_elements(x) else [*ys]
        columns.append(whole)
    return [
        [_block(columns[j][i], y, y.shape + x.shape) for j, x in enumerate(xs)]
        for i, y in enumerate(ys)
    ]


def _of_each(function: Callable[[Tensor], list[Tensor]], basis: Tensor, axis: int) -> list[Tensor]:
    """The results of ``function`` for each tensor of a basis, stacked along ``axis``."""
    try:
        whole: list[Tensor] = vmap(function, out_axes=axis)(basis)
        return whole
    except VmapError:  # a user's rule asks for values, or lists differ in their elements
        rows = [function(one) for one in functions["unstack"](basis)]
    return [functions["stack"](list(column), axis=axis) for column in zip(*rows, strict=True)]


def _dense_like(y: Tensor, v: Any) -> Tensor:
    return dense(v) if isinstance(v, (Tensor, IndexedSlices)) else full_like(y, 0)


def _has_elements(x: Tensor) -> bool:
    return not same(x.size, 0)


def _basis(x: Tensor) -> Tensor:
    """For each element of ``x`` a tensor like ``x``, 1 at this element and 0 elsewhere."""
    rows = functions["eye"](x.size, dtype=x.dtype, device=x.device)
    return functions["reshape"](rows, (x.size, *x.shape))


def _among(x: Tensor, start: int, count: int) -> Tensor:
    """The basis of ``x`` from row ``start`` on, among ``count`` rows of zeros."""
    shapes = (start, *x.shape), (count - start - x.size, *x.shape)
    before, after = [functions["zeros"](s, dtype=x.dtype, device=x.device) for s in shapes]
    return functions["concat"]([before, _basis(x), after], axis=0)


def _block(whole: Tensor, like: Tensor, shape: Shape) -> Tensor:
    """The derivatives of one tensor by another in their final shape, from flattened ones."""
    if same(prod(shape), 0):
        return functions["zeros"](shape, dtype=like.dtype, device=like.device)
    return cast(functions["reshape"](whole, shape), like.dtype)
