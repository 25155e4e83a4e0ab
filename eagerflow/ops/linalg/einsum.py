"""Einstein summation: a small language for products of arrays and sums over their axes.

Grammar of subscripts, spaces aside::

    subscripts ::= terms [ "->" term ]
    terms      ::= term ("," term)*             # one per operand
    term       ::= letter* [ "..." letter* ]    # one letter per axis; "..." for all others
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from string import ascii_letters
from typing import Any

from eagerflow import dims
from eagerflow.core.op import Op, bind, define
from eagerflow.core.op_records.batch_rules import BatchSite
from eagerflow.core.op_records.cost_formulas import Cost, Types, bytes_of
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.ops.linalg.matrices import multilinear_jvp
from eagerflow.ops.rules.gradients import conjugate, sum_to_like
from eagerflow.ops.rules.promotion import promote
from eagerflow.ops.rules.type_rules import check_same_dtype
from eagerflow.ops.shape.diagonals import diag_embed
from eagerflow.ops.shape.reshape_and_transpose import (
    broadcast_to,
    expand_dims,
    moveaxis,
    permute_dims,
)
from eagerflow.types import Shape, TensorType, same_shape

__all__ = ["einsum"]

#: a letter; for axes of "..." a number that counts from the last of these: -1, -2, …
Label = str | int
Term = tuple[Label, ...]

# --- subscripts -----------------------------------------------------------------------------


def _refuse(subscripts: str, wrong: str, hint: str | None = None) -> TensorValueError:
    return TensorValueError(f"einsum: {wrong}", given=f"{subscripts!r}", hint=hint)


def _split_term(subscripts: str, text: str) -> tuple[str, bool, str]:
    """The letters before "...", whether the term has "...", and the letters after it."""
    before, dots, after = text.partition("...")
    for letter in before + after:
        if not (letter.isascii() and letter.isalpha()):
            raise _refuse(subscripts, f"{letter!r} is not a subscript", "use letters and '...'")
    return before, bool(dots), after


def _input_term(subscripts: str, text: str, position: int, ndim: int) -> Term:
    before, dots, after = _split_term(subscripts, text)
    rest = ndim - len(before) - len(after)
    if rest < 0 or (rest and not dots):
        count = len(before) + len(after)
        raise _refuse(
            subscripts,
            f"operand {position} has {ndim} axes, its term {text!r} names {count}",
        )
    return (*before, *range(-rest, 0), *after)


def _output_term(subscripts: str, text: str | None, terms: Sequence[Term]) -> Term:
    labels = [label for term in terms for label in term]
    dots = range(min((k for k in labels if isinstance(k, int)), default=0), 0)
    if text is None:
        letters = [k for k in labels if isinstance(k, str)]
        return (*dots, *sorted(k for k in letters if letters.count(k) == 1))
    before, has_dots, after = _split_term(subscripts, text)
    if dots and not has_dots:
        raise _refuse(subscripts, "the output has no '...', but operands have axes for it")
    for letter in before + after:
        if letter not in labels:
            raise _refuse(subscripts, f"no operand has the axis {letter!r} of the output")
        if (before + after).count(letter) > 1:
            raise _refuse(subscripts, f"the output has the axis {letter!r} twice")
    return (*before, *dots, *after)


def _parse(subscripts: str, ndims: Sequence[int]) -> tuple[tuple[Term, ...], Term]:
    """The axes of each operand and of the output."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    texts = inputs.split(",")
    if len(texts) != len(ndims):
        raise _refuse(subscripts, f"{len(texts)} terms for {len(ndims)} operands")
    terms = tuple(
        _input_term(subscripts, text, i, n)
        for i, (text, n) in enumerate(zip(texts, ndims, strict=True))
    )
    return terms, _output_term(subscripts, output if arrow else None, terms)


@lru_cache(maxsize=1024)
def _canonical(subscripts: str, ndims: tuple[int, ...]) -> str:
    """The subscripts with a letter for each axis, and with an output: ``"ij,jk->ik"``."""
    terms, output = _parse(subscripts, ndims)
    used = {label for term in terms for label in term if isinstance(label, str)}
    # NumPy's limit of 64 axes exceeds the number of ASCII letters
    free = [k for k in (*ascii_letters, *map(chr, range(0x100, 0x180))) if k not in used]
    first = min((k for term in terms for k in term if isinstance(k, int)), default=0)
    letters = [
        "".join(k if isinstance(k, str) else free[k - first] for k in term)
        for term in (*terms, output)
    ]
    return f"{','.join(letters[:-1])}->{letters[-1]}"


def _letters(sublist: Any) -> str:
    """A sequence of numbers and Ellipsis as a term."""
    letters = []
    for item in sublist:
        if item is Ellipsis:
            letters.append("...")
        elif isinstance(item, int) and 0 <= item < 52:
            letters.append(chr(65 + item if item < 26 else 71 + item))  # A to Z, a to z
        else:
            raise DTypeError(
                f"einsum: {item!r} is not a subscript", expected="0 to 51, or Ellipsis"
            )
    return "".join(letters)


def _operands(args: tuple[Any, ...]) -> tuple[str, tuple[TensorLike, ...]]:
    """Subscripts and arrays of ``(subscripts, *arrays)`` or ``(array, sublist, …)``."""
    if args and isinstance(args[0], str):
        return args[0], args[1:]
    terms = ",".join(_letters(sublist) for sublist in args[1::2])
    if len(args) % 2:
        return f"{terms}->{_letters(args[-1])}", args[:-1:2]
    return terms, args[::2]


# --- the op ---------------------------------------------------------------------------------


def _split(subscripts: str) -> tuple[list[str], str]:
    inputs, _, output = subscripts.partition("->")
    return inputs.split(","), output


def _joint_size(label: str, known: Any, size: Any) -> Any:
    try:
        return dims.broadcast(known, size)
    except ShapeError:
        raise ShapeError(
            f"the axis {label!r} has sizes {known} and {size}", expected="sizes that are equal or 1"
        ) from None


def _sizes(terms: Sequence[str], shapes: Sequence[Shape]) -> dict[str, Any]:
    """The size of each label; axes of size 1 broadcast, except within one operand."""
    sizes: dict[str, Any] = {}
    for term, shape in zip(terms, shapes, strict=True):
        own: dict[str, Any] = {}
        for label, size in zip(term, shape, strict=True):
            if not dims.may_equal(own.setdefault(label, size), size):
                raise ShapeError(
                    f"the axis {label!r} has sizes {own[label]} and {size} in one operand",
                    expected="equal sizes",
                )
        for label, size in own.items():
            sizes[label] = _joint_size(label, sizes.get(label, 1), size)
    return sizes


def _einsum_type(
    first: TensorType, *rest: TensorType, subscripts: str, optimize: bool | str = "auto"
) -> TensorType:
    check_same_dtype(first, *rest)
    terms, output = _split(subscripts)
    sizes = _sizes(terms, [x.shape for x in (first, *rest)])
    return first.like(shape=tuple(sizes[label] for label in output))


def _einsum_vjp(
    i: int, g: Tensor, out: Tensor, *xs: Tensor, subscripts: str, optimize: bool | str = "auto"
) -> Tensor:
    """The product of all other operands, with the axes that only ``xs[i]`` has put back."""
    transposed, labels, term, missing = _transposed(subscripts, i)
    factors = [conjugate(x) for j, x in enumerate(xs) if j != i]
    result = _contract(transposed, (g, *factors), optimize)
    if missing:
        result = expand_dims(result, missing)
    own: Shape = tuple(xs[i].shape[term.index(k)] for k in labels)
    if not same_shape(result.shape, own):
        shape: Any = tuple(map(dims.broadcast, result.shape, own))
        if not same_shape(result.shape, shape):
            result = broadcast_to(result, shape)
    return sum_to_like(_with_repeats(result, labels, term), xs[i])


@lru_cache(maxsize=1024)
def _transposed(subscripts: str, i: int) -> tuple[str, str, str, tuple[int, ...]]:
    """The subscripts for the cotangent of operand ``i``, and its axes in terms of those of ``i``.

    Returns:
        The subscripts; the labels of the operand without and with repetition; the positions of the
        labels that neither the output nor another operand has.
    """
    terms, output = _split(subscripts)
    term, others = terms[i], [*terms[:i], *terms[i + 1 :]]
    labels = "".join(dict.fromkeys(term))
    known = "".join((output, *others))
    kept = "".join(k for k in labels if k in known)
    missing = tuple(n for n, k in enumerate(labels) if k not in known)
    return f"{','.join((output, *others))}->{kept}", labels, term, missing


def _with_repeats(x: Tensor, labels: str, term: str) -> Tensor:
    """``x`` with axes ``term``, and zeros off the diagonals of repeated labels."""
    for label in labels:
        for _ in range(term.count(label) - 1):
            axis = labels.rindex(label)
            labels = labels[:axis] + labels[axis + 1 :] + label
            x = diag_embed(moveaxis(x, axis, -1))
            labels += label
    if labels == term:
        return x
    order: list[int] = []
    for label in term:
        order.append(next(i for i, k in enumerate(labels) if k == label and i not in order))
    return permute_dims(x, order)


def _cost(inputs: Types, outputs: Types, attrs: Mapping[str, Any]) -> Cost:
    """The cost: an operation per operand for each combination of indices."""
    terms, _ = _split(attrs["subscripts"])
    sizes: dict[str, int] = {}
    for term, x in zip(terms, inputs, strict=True):
        for label, size in zip(term, x.shape, strict=True):
            sizes[label] = max(sizes.get(label, 1), size)
    combinations = prod(sizes.values())
    moved = bytes_of(inputs) + bytes_of(outputs)
    if len(inputs) == 1:
        return Cost(float(combinations), moved)
    return Cost(matrix=float(len(inputs) * combinations), bytes=moved)


def _batched_einsum(at: BatchSite) -> Tensor:
    """The batching rule: a further letter for the rows, in batched terms and in the output."""
    terms, output = _split(at.attrs["subscripts"])
    letters = (*ascii_letters, *map(chr, range(0x100, 0x180)))
    rows = next(k for k in letters if k not in at.attrs["subscripts"])
    own = [
        rows + term if batched else term for term, batched in zip(terms, at.batched, strict=True)
    ]
    subscripts = f"{','.join(own)}->{rows}{output}"
    result: Tensor = at.bind(*at.inputs, **{**at.attrs, "subscripts": subscripts})
    return result


_einsum: Op = define(
    "einsum",
    cost=_cost,
    infer=_einsum_type,
    vjp=_einsum_vjp,
    jvp=lambda t, out, *xs, **attrs: multilinear_jvp(_einsum, t, xs, attrs),
    saved="inputs",
    precision="accumulate",
    batch=_batched_einsum,
)


def _contract(subscripts: str, xs: Sequence[Tensor], optimize: bool | str) -> Tensor:
    if len(xs) < 3 or optimize in (True, "auto"):
        return bind(_einsum, *xs, subscripts=subscripts)
    return bind(_einsum, *xs, subscripts=subscripts, optimize=optimize)


def einsum(*args: Any, optimize: bool | str = "auto") -> Tensor:
    """Products of arrays, summed over the axes that the output does not name.

    Args:
        args: subscripts such as ``"ij,jk->ik"`` and an array for each term, of any dtype, which
            promote to one dtype; or each array followed by a list of numbers that name its axes,
            and optionally such a list for the output. Without an output term, the output has the
            axes named once, in alphabetical order. Axes of size 1 broadcast.
        optimize: the strategy for the order of contraction of more than two arrays: a name known
            to opt_einsum, True for its own choice, False for left to right.

    Raises:
        TensorValueError: the subscripts are malformed, or do not fit the arrays.
        ShapeError: axes of the same name differ in size.
        DTypeError: ``optimize`` is neither a bool nor a string.

    >>> a = ef.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> ef.einsum("ij,jk->ik", a, a)
    Tensor([[ 7., 10.],
            [15., 22.]], f32[2,2]@cpu:0)
    >>> ef.einsum("ii", a)
    Tensor(5., f32[]@cpu:0)
    """
    subscripts, arrays = _operands(args)
    if not arrays:
        raise _refuse(subscripts, "there is no operand")
    if not isinstance(optimize, (bool, str)):
        raise DTypeError(f"einsum: optimize={optimize!r}", expected="a bool or a name")
    tensors = promote(*arrays)
    ndims = tuple([len(x.shape) for x in tensors])
    return _contract(_canonical(subscripts, ndims), tensors, optimize)
