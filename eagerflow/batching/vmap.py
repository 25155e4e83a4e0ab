"""`vmap`: maps a function of one row over many rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, overload

from eagerflow.batching.vmap_interpreter import Randomness, Vmap
from eagerflow.core import tree
from eagerflow.core.interpreter import installed, unwinds
from eagerflow.core.op import functions
from eagerflow.core.tensor import AbstractArray, Tensor, handle_of
from eagerflow.core.to_tensor import as_tensor, tensor_of
from eagerflow.dims import Dim, same
from eagerflow.errors import (
    AxisError,
    DTypeError,
    ShapeError,
    TensorValueError,
    VmapError,
    hides_frames,
)

_P = ParamSpec("_P")
_RANDOMNESS = ("error", "same", "different")


@overload
def vmap(
    f: Callable[_P, Tensor], in_axes: object = 0, out_axes: object = 0, *,
    axis_size: int | None = None, randomness: Randomness = "error",
) -> Callable[_P, Tensor]: ...  # fmt: skip


@overload
def vmap(
    f: Callable[..., Any], in_axes: object = 0, out_axes: object = 0, *,
    axis_size: int | None = None, randomness: Randomness = "error",
) -> Callable[..., Any]: ...  # fmt: skip


def vmap(
    f: Callable[..., Any], in_axes: object = 0, out_axes: object = 0, *,
    axis_size: int | None = None, randomness: Randomness = "error",
) -> Callable[..., Any]:  # fmt: skip
    """Map ``f`` over many rows at once: each op runs once, for all of them.

    Inside ``f`` a tensor has the shape of one row; the axis of the rows is hidden. The result is
    equals that of a loop over the rows, up to the rounding of sums and products.

    Args:
        f: a function from trees of tensors to a tree of tensors.
        in_axes: the axis of the arguments along which the rows lie: an int for all arguments, None
            for arguments that all rows share, or a tuple with an item for each argument, which may
            be a tree of the structure of the argument, or of its upper part. Keyword arguments have
            axis 0.
        out_axes: the axis of the rows in the results: an int, None for a result that is the same
            for all rows, or a tree like the result, or like its upper part.
        axis_size: the number of rows, if no argument has rows.
        randomness: the handling of random draws. ``"error"`` refuses them; ``"same"`` draws once,
            for all rows; ``"different"`` draws for each row: of n rows row i has the ticket t + i,
            so that with one draw in ``f`` the result is that of the loop.

    Returns:
        The mapped function.

    Raises:
        ShapeError: arguments have different numbers of rows, or the number of rows is not given.
        AxisError: an argument has no such axis.
        VmapError: ``f`` does something that rows cannot do together: Python reads a value (``if``,
            ``.item()``), a size depends on data, or outside state changes.

    >>> dot = lambda a, b: (a * b).sum()
    >>> ef.vmap(dot, in_axes=(0, None))(ef.tensor([[1.0, 2.0], [3.0, 4.0]]), ef.tensor([1.0, 10.0]))
    Tensor([21., 43.], f32[2]@cpu:0)

    Gradients of each sample of a batch:

    >>> loss = lambda w, x: (w * x).sum() ** 2
    >>> w, xs = ef.tensor([1.0, 2.0]), ef.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> ef.vmap(ef.grad(loss), in_axes=(None, 0))(w, xs)
    Tensor([[2., 0.],
            [0., 4.]], f32[2,2]@cpu:0)
    """
    if not callable(f):
        raise DTypeError(
            "vmap: the first argument is not a function", given=type(f).__name__,
            hint="write ef.vmap(f)(xs)",
        )  # fmt: skip
    if randomness not in _RANDOMNESS:
        expected = ", ".join(map(repr, _RANDOMNESS))
        raise TensorValueError(
            "vmap: there is no such randomness", given=repr(randomness), expected=expected
        )

    @hides_frames
    @wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        return _applied(f, args, kwargs, in_axes, out_axes, axis_size, randomness)

    return function


@unwinds
def _applied(
    f: Callable[..., Any], args: Any, kwargs: dict[str, Any], in_axes: Any, out_axes: Any,
    axis_size: int | None, randomness: Randomness,
) -> Any:  # fmt: skip
    """The results of ``f`` for all rows, with the arguments of `vmap`."""
    leaves, treedef = tree.flatten((args, kwargs))
    axes = _axes_of_arguments(in_axes, args, kwargs)
    names = _names(treedef, len(args))
    xs = [_argument(leaf, axis, name) for leaf, axis, name in zip(leaves, axes, names, strict=True)]
    interpreter = Vmap(_rows(xs, axes, names, axis_size), randomness)
    inner = [x if axis is None else interpreter.row(x) for x, axis in zip(xs, axes, strict=True)]
    inner_args, inner_kwargs = tree.unflatten(treedef, inner)
    with installed(interpreter):
        results, out_tree = tree.flatten(f(*inner_args, **inner_kwargs))
        values = [_value(interpreter, y) for y in results]
    whole = _axes_of_results(out_axes, tree.unflatten(out_tree, results))
    return tree.unflatten(
        out_tree,
        [
            _result(interpreter, value, axis, path)
            for value, axis, path in zip(values, whole, tree.paths(out_tree), strict=True)
        ],
    )


def _prefix(axes: Any, value: Any, what: str) -> list[Any]:
    """The axis of each leaf of ``value``, from a tree of axes that is a prefix of its structure."""
    if axes is None or (isinstance(axes, int) and not isinstance(axes, bool)):
        return [axes] * len(tree.leaves(value))
    whole, parts = tree.children(axes), tree.children(value)
    if whole is None or parts is None or len(whole) != len(parts):
        raise DTypeError(
            f"vmap: {what} does not have the structure of its values",
            given=f"{axes!r} for {tree.show(tree.flatten(value)[1])}",
            expected="an int, None, or a tree of them like its upper part",
        )
    return [a for one, part in zip(whole, parts, strict=True) for a in _prefix(one, part, what)]


def _axes_of_arguments(in_axes: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The axis of each leaf of the arguments."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple):
        if len(in_axes) != len(args):
            raise DTypeError(
                "vmap: in_axes is not one for each positional argument",
                given=f"{len(in_axes)} for {len(args)} arguments",
                expected="an int, None, or a tuple with as many items",
            )
        axes = _prefix(in_axes, tuple(args), "in_axes")
    else:
        axes = _prefix(in_axes, tuple(args), "in_axes")
    return axes + [0] * len(tree.leaves(kwargs))


def _axes_of_results(out_axes: Any, result: Any) -> list[Any]:
    return _prefix(out_axes, result, "out_axes")


def _names(treedef: tree.TreeDef, count: int) -> list[str]:
    return [f"argument{path[3:]}" if path.startswith("[0]") else f"keyword{path[3:]}"
            for path in tree.paths(treedef)]  # fmt: skip


def _argument(leaf: Any, axis: int | None, name: str) -> Any:
    """An argument, with its axis of rows moved to the front."""
    if axis is None:
        return leaf
    try:
        x = tensor_of(leaf)
    except (DTypeError, TensorValueError):
        raise VmapError(
            f"vmap: {name} is not an array", given=type(leaf).__name__,
            hint="say that all rows share it: in_axes=None for this argument",
        ) from None  # fmt: skip
    ndim = len(x.shape)
    if not -ndim <= axis < ndim:
        raise AxisError(
            f"vmap: {name} has no axis {axis}", given=str(x.type),
            hint="say that all rows share it: in_axes=None for this argument",
        )  # fmt: skip
    axis %= ndim
    return functions["moveaxis"](x, axis, 0) if axis else handle_of(x)


def _rows(xs: Sequence[Any], axes: Sequence[Any], names: Sequence[str], size: Any) -> Any:
    """The number of rows."""
    rows, who = size, "axis_size"
    for x, axis, name in zip(xs, axes, names, strict=True):
        if axis is None:
            continue
        own = x.shape[0]
        if rows is None:
            rows, who = own, name
        elif not same(own, rows) and (type(own) is int or type(own) is Dim):
            raise ShapeError(
                "vmap: the numbers of rows differ",
                given=f"{rows} of {who}, {own} of {name}",
                expected="as many of each",
                hint="mark arguments that all rows share: in_axes=(0, None)",
            )
    if rows is None:
        raise ShapeError("vmap: the number of rows is not known", hint="pass axis_size=...")
    if type(rows) is int and rows < 1:
        raise ShapeError(
            "vmap: there are no rows", given=f"{rows} of {who}", expected="at least one"
        )
    return rows


def _value(vmap: Vmap, y: Any) -> tuple[bool, Any]:
    """A result of the function: whether it is batched, and its value below."""
    if isinstance(y, AbstractArray):
        x = tensor_of(y)
    elif isinstance(y, (bool, int, float, complex, Dim)):
        x = as_tensor(y)
    else:
        raise VmapError(
            "vmap: the function gives a value that is not a tensor", given=type(y).__name__,
            expected="a tree of tensors and numbers",
        )  # fmt: skip
    return vmap.holds(x), vmap.inside(x)


def _result(vmap: Vmap, value: tuple[bool, Tensor], axis: int | None, path: str) -> Tensor:
    own, x = value
    if axis is None:
        if own:
            raise VmapError(
                f"vmap: result{path} differs from row to row, out_axes says that it does not",
                given=f"{x.type} for all rows",
            )
        return x
    if not own:
        x = functions["broadcast_to"](x, (vmap.rows, *x.shape))
    ndim = len(x.shape)
    if not -ndim <= axis < ndim:
        raise AxisError(
            f"vmap: result{path} has no axis {axis} for the rows",
            given=f"out_axes={axis}, {x.type} for all rows", expected=f"{-ndim} to {ndim - 1}",
        )  # fmt: skip
    axis %= ndim
    return functions["moveaxis"](x, 0, axis) if axis else handle_of(x)
