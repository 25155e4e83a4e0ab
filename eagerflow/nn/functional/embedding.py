"""Linear maps, embeddings, one-hot vectors and padding."""

from __future__ import annotations

from collections.abc import Sequence

import eagerflow as ef
from eagerflow.errors import DTypeError, ShapeError, TensorIndexError, TensorValueError
from eagerflow.extending import TensorLike
from eagerflow.nn.functional.op_errors import speaks_for_parts

__all__ = ["embedding", "linear", "one_hot", "pad"]


def linear(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> ef.Tensor:
    """``x @ weight.T + bias``.

    Args:
        x: floating, ``[..., inputs]``.
        weight: floating, ``[outputs, inputs]``; or ``[inputs]`` for a single output without axis.
        bias: floating, ``[outputs]``, or None.

    Raises:
        ShapeError: the shapes do not fit.

    >>> from eagerflow.nn import functional as F
    >>> F.linear(ef.tensor([1.0, 2.0]), ef.tensor([[1.0, 0.0], [1.0, 1.0]]), ef.tensor([0.5, 0.0]))
    Tensor([1.5, 3. ], f32[2]@cpu:0)
    """
    out = ef.asarray(x) @ ef.asarray(weight).T  # operators are quicker than ef.matmul
    return out if bias is None else out + ef.asarray(bias)


@speaks_for_parts
def embedding(input: TensorLike, weight: TensorLike, padding_idx: int | None = None) -> ef.Tensor:
    """The rows of a table at the given indices.

    The gradient of a table that is a variable is sparse: `ef.IndexedSlices` of the rows taken.

    Args:
        input: integers, any shape.
        weight: the table, ``[rows, size]``; a variable, or a tensor.
        padding_idx: an index whose row gets no gradient; a negative index counts from the end.

    Returns:
        The rows, ``[*input.shape, size]``.

    Raises:
        TensorIndexError: an index is out of range.
        ShapeError: the table does not have two axes.

    >>> table = ef.Variable([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]])
    >>> ef.nn.functional.embedding(ef.tensor([2, 1]), table)
    Tensor([[3., 4.],
            [1., 2.]], f32[2,2]@cpu:0)
    """
    table = ef.asarray(weight)
    if len(table.shape) != 2:
        raise ShapeError(
            "embedding: the table has not two axes",
            given=f"weight={table.type}",
            expected="[rows, size]",
        )
    indices = _integers("embedding", input)
    try:
        rows = ef.check_labels(indices, table.shape[0], of="rows")
    except TensorIndexError as error:
        error.given = f"input={indices.type}, weight={table.type}"
        raise
    out = ef.take(table, rows, axis=0)
    if padding_idx is None:
        return out
    row = padding_idx + table.shape[0] if padding_idx < 0 else padding_idx
    return ef.where((rows == row)[..., None], ef.stop_gradient(out), out)


def _integers(name: str, x: TensorLike) -> ef.Tensor:
    tensor = ef.asarray(x)
    if not tensor.dtype.is_integer:
        raise DTypeError(
            f"{name}: the indices must be integers",
            given=f"input={tensor.type}",
            expected="an integer dtype",
        )
    return tensor


@speaks_for_parts
def one_hot(input: TensorLike, num_classes: int, dtype: ef.types.DTypeLike = ef.int64) -> ef.Tensor:
    """A new last axis along which the element at each index is 1 and all others are 0.

    Args:
        input: integers.
        num_classes: the size of the new axis. PyTorch derives a default from the largest index,
            which is unknown in a traced function.
        dtype: dtype of the result.

    Raises:
        TensorIndexError: an index is out of range.

    >>> ef.nn.functional.one_hot(ef.tensor([1, 0]), 3)
    Tensor([[0, 1, 0],
            [1, 0, 0]], i64[2,3]@cpu:0)
    """
    classes = ef.check_labels(_integers("one_hot", input), num_classes)
    return ef.one_hot(classes, num_classes, dtype)


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(
    x: TensorLike, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> ef.Tensor:
    """``x`` padded at the ends of its axes; the widths come in pairs, **the last axis first**.

    Args:
        x: any dtype.
        pad: widths before and after the last axis, then the last but one, and so on; further axes
            are not padded. (`ef.pad` takes pairs for all axes from the first.)
        mode: ``"constant"``, ``"reflect"``, ``"replicate"``, or ``"circular"``.
        value: the value added in mode ``"constant"``; 0 by default.

    Raises:
        ShapeError: the number of widths is odd, or too large.
        TensorValueError: the mode is unknown.

    >>> ef.nn.functional.pad(ef.tensor([[1, 2]]), (1, 0), value=9)
    Tensor([[9, 1, 2]], i64[1,3]@cpu:0)
    """
    tensor, widths = ef.asarray(x), tuple(pad)
    count = len(tensor.shape)
    if len(widths) % 2 or len(widths) > 2 * count:
        raise ShapeError(
            "pad: the widths do not fit",
            given=f"x={tensor.type}, pad={widths}",
            expected="a pair for each axis, from the last one",
        )
    if mode not in _MODES:
        raise TensorValueError(f"pad: {mode!r} is not a mode", expected=", ".join(_MODES))
    pairs = [widths[i : i + 2] for i in range(0, len(widths), 2)]
    pairs += [(0, 0)] * (count - len(pairs))
    if mode != "constant":
        return ef.pad(tensor, pairs[::-1], mode=_MODES[mode])
    return ef.pad(tensor, pairs[::-1], constant_values=0 if value is None else value)
