"""Einstein summation: a small language for products of arrays and sums over their axes.

Grammar of subscripts, spaces aside::

    subscripts ::= terms [ "->" term ]
    terms      ::= term ("," term)*             # one per operand
    term       ::= letter* [ "..." letter* ]    # one letter per axis; "..." for all others
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, final

from eagerflow.core.convert import TensorLike
from eagerflow.core.tensor import Tensor
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.ops import reduction
from eagerflow.ops.diagonals import diagonal
from eagerflow.ops.elementwise import multiply
from eagerflow.ops.matmul import matmul
from eagerflow.ops.promotion import promote
from eagerflow.ops.rules import public
from eagerflow.ops.shape import permute_dims, reshape, squeeze
from eagerflow.types import Shape

__all__ = ["einsum"]

#: a letter, or for the axes of "..." a number that counts from the last of them: -1, -2, …
Label = str | int
Term = tuple[Label, ...]

# --- subscripts -----------------------------------------------------------------------------


def _refuse(subscripts: str, wrong: str, hint: str | None = None) -> TensorValueError:
    return TensorValueError(f"einsum: {wrong}", given=f"{subscripts!r}", hint=hint)


def _split_term(subscripts: str, text: str) -> tuple[str, bool, str]:
    """The letters before "...", whether it is there, and those after it."""
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


def _sizes(subscripts: str, shapes: Sequence[Shape], terms: Sequence[Term]) -> dict[Label, int]:
    """The size of each label; an axis of size 1 broadcasts, but not within one operand."""
    sizes: dict[Label, int] = {}
    for shape, term in zip(shapes, terms, strict=True):
        own: dict[Label, int] = {}
        for label, size in zip(term, shape, strict=True):
            known = sizes.get(label, 1)
            clash = own.setdefault(label, size)
            if clash == size:
                clash = known if size != 1 and known != 1 else size
            if clash != size:
                raise ShapeError(
                    f"einsum: the axis {label!r} has sizes {clash} and {size}",
                    given=f"{subscripts!r}, shapes {', '.join(map(str, shapes))}",
                )
            sizes[label] = known if size == 1 else size
    return sizes


# --- the order of contraction ---------------------------------------------------------------


def _path_finder() -> tuple[Callable[..., Any], Callable[[int], str]]:
    from opt_einsum import contract_path, get_symbol  # noqa: PLC0415 - 13 ms, few need it

    return contract_path, get_symbol


def _path(
    terms: Sequence[Term], output: Term, shapes: Sequence[Shape], optimize: bool | str
) -> Sequence[tuple[int, ...]]:
    """Which operands to contract, step by step; the result of a step goes to the end."""
    count = len(terms)
    if count < 3 or optimize is False:
        return (tuple(range(min(count, 2))), *((n, 0) for n in range(count - 2, 0, -1)))
    contract_path, get_symbol = _path_finder()
    labels = dict.fromkeys(label for term in terms for label in term)
    symbols = {label: get_symbol(i) for i, label in enumerate(labels)}
    texts = ["".join(symbols[k] for k in term) for term in (*terms, output)]
    subscripts = f"{','.join(texts[:-1])}->{texts[-1]}"
    how = "auto" if optimize is True else optimize
    try:
        path, _ = contract_path(subscripts, *shapes, shapes=True, optimize=how)
    except KeyError:
        raise TensorValueError(
            f"einsum: {optimize!r} is not a way to find an order",
            expected="True, False, 'auto', 'greedy', 'optimal' or another of opt_einsum's",
        ) from None
    return [tuple(step) for step in path]


# --- plans ----------------------------------------------------------------------------------

#: function, the numbers of the values it consumes, further arguments; it makes the next value
Instruction = tuple[Callable[..., Tensor], tuple[int, ...], tuple[Any, ...]]


def _sum(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    if x.dtype.name == "bool":
        return reduction.any(x, axis=axes)
    return reduction.sum(x, axis=axes, dtype=x.dtype)


@final
class _Planner:
    """Writes the program of one kind of call. Values are numbered, the operands first.

    Attributes:
        program: the instructions so far; each value is consumed once.
        values: the values that are left to contract, each with the labels of its axes.
        output: the labels of the result.
        sizes: the size of each label.
    """

    __slots__ = ("count", "output", "program", "sizes", "values")

    def __init__(
        self,
        terms: Sequence[Term],
        shapes: Sequence[Shape],
        output: Term,
        sizes: dict[Label, int],
    ) -> None:
        self.program: list[Instruction] = []
        self.count = len(terms)
        self.output = output
        self.sizes = sizes
        self.values = [
            self._distinct(i, term, shape)
            for i, (term, shape) in enumerate(zip(terms, shapes, strict=True))
        ]

    def _emit(self, function: Callable[..., Tensor], *values: int, args: Any = ()) -> int:
        self.program.append((function, values, args))
        self.count += 1
        return self.count - 1

    def _distinct(self, x: int, labels: Term, shape: Shape) -> tuple[int, Term]:
        """Each label once: diagonals taken, axes that would broadcast dropped."""
        ones = tuple(i for i, k in enumerate(labels) if shape[i] == 1 and self.sizes[k] != 1)
        if ones:
            x = self._emit(squeeze, x, args=(ones,))
            labels = tuple(k for i, k in enumerate(labels) if i not in ones)
        for label in dict.fromkeys(labels):
            while labels.count(label) > 1:
                i = labels.index(label)
                j = labels.index(label, i + 1)
                x = self._emit(diagonal, x, args=(0, i, j))
                labels = (*labels[:i], *labels[i + 1 : j], *labels[j + 1 :], label)
        return x, labels

    def _needed(self, *others: Term) -> set[Label]:
        rest = [labels for _, labels in self.values]
        return {label for labels in (self.output, *rest, *others) for label in labels}

    def _summed(self, x: int, labels: Term, needed: set[Label]) -> tuple[int, Term]:
        axes = tuple(i for i, k in enumerate(labels) if k not in needed)
        if not axes:
            return x, labels
        return self._emit(_sum, x, args=(axes,)), tuple(k for k in labels if k in needed)

    def _permuted(self, x: int, labels: Term, wanted: Term) -> int:
        if labels == wanted:
            return x
        return self._emit(permute_dims, x, args=(tuple(labels.index(k) for k in wanted),))

    def _shaped(self, x: int, before: Sequence[int], after: Sequence[int]) -> int:
        return x if before == after else self._emit(reshape, x, args=(tuple(after),))

    def _grouped(self, x: int, labels: Term, batch: Term, *groups: Term) -> int:
        """The batch axes first, then one axis for each group of labels."""
        wanted = batch + tuple(label for group in groups for label in group)
        x = self._permuted(x, labels, wanted)
        merged = [self.sizes[k] for k in batch]
        merged += [prod(self.sizes[k] for k in group) for group in groups]
        return self._shaped(x, [self.sizes[k] for k in wanted], merged)

    def step(self, positions: tuple[int, ...]) -> None:
        """Replace some values by their product, summed where nothing else needs an axis."""
        taken = [self.values[i] for i in positions]
        self.values = [v for i, v in enumerate(self.values) if i not in positions]
        while len(taken) > 1:
            (x, x_labels), (y, y_labels), *taken = taken
            others = [labels for _, labels in taken]
            x, x_labels = self._summed(x, x_labels, self._needed(y_labels, *others))
            y, y_labels = self._summed(y, y_labels, self._needed(x_labels, *others))
            needed = self._needed(*others)
            if any(k in y_labels and k not in needed for k in x_labels):
                product = self._matmul(x, x_labels, y, y_labels, needed)
            else:
                product = self._outer(x, x_labels, y, y_labels)
            taken.insert(0, product)
        self.values.append(self._summed(*taken[0], self._needed()))

    def _matmul(
        self, x: int, x_labels: Term, y: int, y_labels: Term, needed: set[Label]
    ) -> tuple[int, Term]:
        rank = {label: i for i, label in enumerate(self.output)}
        last = len(rank)
        both = [k for k in x_labels if k in y_labels]
        batch = tuple(sorted((k for k in both if k in needed), key=lambda k: rank.get(k, last)))
        inner = tuple(k for k in both if k not in needed)
        rows = tuple(k for k in x_labels if k not in both)
        columns = tuple(k for k in y_labels if k not in both)
        if rows and columns and rank.get(columns[0], last) < rank.get(rows[0], 0):
            x, x_labels, rows, y, y_labels, columns = y, y_labels, columns, x, x_labels, rows
        left = self._grouped(x, x_labels, batch, rows, inner)
        right = self._grouped(y, y_labels, batch, inner, columns)
        result = self._emit(matmul, left, right)
        labels = batch + rows + columns
        merged = [self.sizes[k] for k in batch]
        merged += [prod(self.sizes[k] for k in group) for group in (rows, columns)]
        return self._shaped(result, merged, [self.sizes[k] for k in labels]), labels

    def _outer(self, x: int, x_labels: Term, y: int, y_labels: Term) -> tuple[int, Term]:
        """The product with nothing to sum over, in the order of the output if that is known."""
        labels = tuple(dict.fromkeys(x_labels + y_labels))
        if set(labels) == set(self.output):
            labels = self.output
        factors = []
        for z, own in ((x, x_labels), (y, y_labels)):
            ordered = tuple(k for k in labels if k in own)
            z = self._permuted(z, own, ordered)
            spread = [self.sizes[k] if k in own else 1 for k in labels]
            factors.append(self._shaped(z, [self.sizes[k] for k in ordered], spread))
        return self._emit(multiply, *factors), labels

    def finish(self) -> tuple[Instruction, ...]:
        """The program, when one value is left."""
        ((x, labels),) = self.values
        if labels != self.output or not self.program:
            order = tuple(labels.index(k) for k in self.output)
            self._emit(permute_dims, x, args=(order,))
        return tuple(self.program)


@lru_cache(maxsize=1024)
def _plan(
    subscripts: str, shapes: tuple[Shape, ...], optimize: bool | str
) -> tuple[Instruction, ...]:
    """The program for operands of these shapes."""
    terms, output = _parse(subscripts, [len(shape) for shape in shapes])
    planner = _Planner(terms, shapes, output, _sizes(subscripts, shapes, terms))
    for positions in _path(terms, output, shapes, optimize):
        planner.step(positions)
    return planner.finish()


@public
def einsum(*args: Any, optimize: bool | str = "auto") -> Tensor:
    """Products of arrays, summed over the axes that the output does not name.

    Args:
        args: subscripts such as ``"ij,jk->ik"`` and an array for each of their terms, of any
            dtype, which promote to one; or each array followed by a list of numbers that name
            its axes, and last, if wanted, such a list for the output. Without an output, it has
            the axes named once, in alphabetical order. Axes of size 1 broadcast.
        optimize: how to find the order of contraction for more than two arrays: a name of
            opt_einsum's, True for its own choice, False for from left to right.

    Raises:
        TensorValueError: subscripts that make no sense, or do not fit the arrays.
        ShapeError: axes of one name differ in size.

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
    values = dict(enumerate(promote(*arrays)))
    program = _plan(subscripts, tuple([x.shape for x in values.values()]), optimize)
    for count, (function, sources, arguments) in enumerate(program, len(values)):
        values[count] = function(*[values.pop(i) for i in sources], *arguments)
    (result,) = values.values()
    return result
