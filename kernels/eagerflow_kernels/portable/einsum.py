"""The kernel of einsum: from subscripts and sizes to products of matrices.

The best order of contraction depends on the sizes, as does whether an axis of size 1 is broadcast.
So plans are made here, where sizes are known, once for each combination of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, final

from eagerflow_kernels.table import Array, portable

Shape = tuple[int, ...]
Labels = str  # a letter for each axis

#: the name of a function, the numbers of the values it consumes, further arguments; the result is
#: the value of the next number
Instruction = tuple[str, tuple[int, ...], tuple[Any, ...]]
Plan = tuple[Instruction, ...]


def _sizes(shapes: Sequence[Shape], terms: Sequence[Labels]) -> dict[str, int]:
    """The size of each label; an axis of size 1 broadcasts, but not within one operand."""
    sizes: dict[str, int] = {}
    for shape, term in zip(shapes, terms, strict=True):
        own: dict[str, int] = {}
        for label, size in zip(term, shape, strict=True):
            known = sizes.get(label, 1)
            if own.setdefault(label, size) != size or (size != known and 1 not in (size, known)):
                raise ValueError(f"the axis {label!r} has several sizes")
            sizes[label] = known if size == 1 else size
    return sizes


def _path(
    terms: Sequence[Labels], output: Labels, shapes: Sequence[Shape], optimize: bool | str
) -> Sequence[tuple[int, ...]]:
    """The operands to contract in each step; the result of a step goes to the end."""
    count = len(terms)
    if count < 3 or optimize is False:
        return (tuple(range(min(count, 2))), *((n, 0) for n in range(count - 2, 0, -1)))
    from opt_einsum import contract_path  # noqa: PLC0415 - 13 ms, few need it

    how = "auto" if optimize is True else optimize
    try:
        path, _ = contract_path(f"{','.join(terms)}->{output}", *shapes, shapes=True, optimize=how)
    except KeyError:
        raise ValueError(f"{optimize!r} is not a way to find an order") from None
    return [tuple(step) for step in path]


@final
class _Planner:
    """Writes the plan of one kind of call. Values are numbered, the operands first.

    Attributes:
        plan: the instructions so far; each value is consumed once.
        values: the remaining values to contract, each with the labels of its axes.
        output: the labels of the result.
        sizes: the size of each label.
    """

    __slots__ = ("count", "output", "plan", "sizes", "values")

    def __init__(
        self,
        terms: Sequence[Labels],
        shapes: Sequence[Shape],
        output: Labels,
        sizes: dict[str, int],
    ) -> None:
        self.plan: list[Instruction] = []
        self.count = len(terms)
        self.output = output
        self.sizes = sizes
        self.values = [
            self._distinct(i, term, shape)
            for i, (term, shape) in enumerate(zip(terms, shapes, strict=True))
        ]

    def _emit(self, what: str, *values: int, args: Any = ()) -> int:
        self.plan.append((what, values, args))
        self.count += 1
        return self.count - 1

    def _distinct(self, x: int, labels: Labels, shape: Shape) -> tuple[int, Labels]:
        """A value with each label once: diagonals are taken, axes that would broadcast dropped."""
        ones = tuple(i for i, k in enumerate(labels) if shape[i] == 1 and self.sizes[k] != 1)
        if ones:
            x = self._emit("squeeze", x, args=(ones,))
            labels = "".join(k for i, k in enumerate(labels) if i not in ones)
        for label in dict.fromkeys(labels):
            while labels.count(label) > 1:
                i = labels.index(label)
                j = labels.index(label, i + 1)
                x = self._emit("diagonal", x, args=(0, i, j))
                labels = labels[:i] + labels[i + 1 : j] + labels[j + 1 :] + label
        return x, labels

    def _needed(self, *others: Labels) -> set[str]:
        return set(self.output).union(*others, *(labels for _, labels in self.values))

    def _summed(self, x: int, labels: Labels, needed: set[str]) -> tuple[int, Labels]:
        axes = tuple(i for i, k in enumerate(labels) if k not in needed)
        if not axes:
            return x, labels
        return self._emit("sum", x, args=(axes,)), "".join(k for k in labels if k in needed)

    def _permuted(self, x: int, labels: Labels, wanted: Labels) -> int:
        if labels == wanted:
            return x
        return self._emit("transpose", x, args=(tuple(labels.index(k) for k in wanted),))

    def _shaped(self, x: int, before: Sequence[int], after: Sequence[int]) -> int:
        return x if before == after else self._emit("reshape", x, args=(tuple(after),))

    def _grouped(self, x: int, labels: Labels, batch: Labels, *groups: Labels) -> int:
        """The batch axes first, then one axis for each group of labels."""
        wanted = batch + "".join(groups)
        x = self._permuted(x, labels, wanted)
        return self._shaped(x, [self.sizes[k] for k in wanted], self._merged(batch, *groups))

    def _merged(self, batch: Labels, *groups: Labels) -> list[int]:
        sizes = [self.sizes[k] for k in batch]
        return sizes + [prod(self.sizes[k] for k in group) for group in groups]

    def step(self, positions: tuple[int, ...]) -> None:
        """Replace some values by their product, summed over axes that no other value needs."""
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
        self, x: int, x_labels: Labels, y: int, y_labels: Labels, needed: set[str]
    ) -> tuple[int, Labels]:
        rank = {label: i for i, label in enumerate(self.output)}
        last = len(rank)
        both = [k for k in x_labels if k in y_labels]
        batch = "".join(sorted((k for k in both if k in needed), key=lambda k: rank.get(k, last)))
        inner = "".join(k for k in both if k not in needed)
        rows = "".join(k for k in x_labels if k not in both)
        columns = "".join(k for k in y_labels if k not in both)
        if rows and columns and rank.get(columns[0], last) < rank.get(rows[0], 0):
            x, x_labels, rows, y, y_labels, columns = y, y_labels, columns, x, x_labels, rows
        left = self._grouped(x, x_labels, batch, rows, inner)
        right = self._grouped(y, y_labels, batch, inner, columns)
        result = self._emit("matmul", left, right)
        labels = batch + rows + columns
        merged = self._merged(batch, rows, columns)
        return self._shaped(result, merged, [self.sizes[k] for k in labels]), labels

    def _outer(self, x: int, x_labels: Labels, y: int, y_labels: Labels) -> tuple[int, Labels]:
        """The product without sums, in the order of the output if it has all labels."""
        labels = "".join(dict.fromkeys(x_labels + y_labels))
        if set(labels) == set(self.output):
            labels = self.output
        factors = []
        for z, own in ((x, x_labels), (y, y_labels)):
            ordered = "".join(k for k in labels if k in own)
            z = self._permuted(z, own, ordered)
            spread = [self.sizes[k] if k in own else 1 for k in labels]
            if own:  # a number, as NumPy's sums may give, broadcasts as it is
                z = self._shaped(z, [self.sizes[k] for k in ordered], spread)
            factors.append(z)
        return self._emit("multiply", *factors), labels

    def finish(self) -> Plan:
        """The plan, once one value is left."""
        ((x, labels),) = self.values
        if labels != self.output or not self.plan:
            order = tuple(labels.index(k) for k in self.output)
            self._emit("transpose", x, args=(order,))
        return tuple(self.plan)


@lru_cache(maxsize=1024)
def make_plan(subscripts: str, shapes: tuple[Shape, ...], optimize: bool | str) -> Plan:
    """The plan for operands of given shapes.

    Args:
        subscripts: a letter for each axis, with an output: ``"ij,jk->ik"``.
        shapes: of the operands.
        optimize: the way to find the order of contraction.
    """
    inputs, _, output = subscripts.partition("->")
    terms = inputs.split(",")
    planner = _Planner(terms, shapes, output, _sizes(shapes, terms))
    for positions in _path(terms, output, shapes, optimize):
        planner.step(positions)
    return planner.finish()


def follow(
    plan: Plan, arrays: Sequence[Array], functions: dict[str, Callable[..., Array]]
) -> Array:
    """The result of a plan: each instruction is done by the function of its name."""
    values = dict(enumerate(arrays))
    for count, (what, sources, arguments) in enumerate(plan, len(values)):
        values[count] = functions[what](*[values.pop(i) for i in sources], *arguments)
    (result,) = values.values()
    return result


@lru_cache(maxsize=4)
def _functions(xp: Any) -> dict[str, Callable[..., Array]]:
    def total(x: Array, axes: tuple[int, ...]) -> Array:
        return xp.any(x, axis=axes) if x.dtype == bool else xp.sum(x, axis=axes, dtype=x.dtype)

    names = ("diagonal", "matmul", "multiply", "reshape", "squeeze", "transpose")
    return {"sum": total, **{name: getattr(xp, name) for name in names}}


@portable("einsum")
def einsum(xp: Any, *arrays: Array, subscripts: str, optimize: bool | str = "auto") -> Array:
    """Products of arrays, summed over the axes that the output does not name."""
    plan = make_plan(subscripts, tuple([x.shape for x in arrays]), optimize)
    return follow(plan, arrays, _functions(xp))
