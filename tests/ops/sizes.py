"""Runs of cases with other sizes on one trace.

`calls_of` makes a sequence of calls for one traced function; `check_sizes` makes these calls and
compares each with eager mode bit for bit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.core import tree
from eagerflow.errors import EagerflowError, TraceWarning
from tests.ops.case import LAYOUTS, OpCase
from tests.ops.gradients import gradient
from tests.ops.table import function_of, made, map_arrays, sample_of
from tests.ops.tracing import State, note_sizes, run_again, traced

Arguments = list[Any]

#: shapes of samples: the first call, the candidates for the second, then those with 0 and 1
_SHAPES: dict[int, tuple[tuple[int, ...], ...]] = {
    0: ((),),
    1: ((5,), (7,), (1,), (0,)),
    2: ((3, 4), (5, 2), (1, 4), (4, 1), (0, 3), (2, 0), (1, 1)),
}


class Size(int):
    """A size of the sample: where a case passes it on, the size of an argument is meant."""

    axis: int


class AxisOf:
    """Stands for a `Size` among arguments: this axis of the tensor ``like``."""

    def __init__(self, axis: int) -> None:
        self.axis = axis


_AXES = (AxisOf(0), AxisOf(1))  # static arguments of a trace are told apart by identity


@dataclass(frozen=True)
class Calls:
    """Consecutive calls that differ in sizes alone.

    Attributes:
        function: the function of the case, with a tensor before its arguments of which the
            sizes are those of the sample.
        first: the arguments for the first trace.
        second: the arguments that make sizes symbolic; None if the case has no other sizes.
        more: further arguments, with sizes 0 and 1 among them. For some, eager code raises.
    """

    function: Callable[..., Any]
    first: Arguments
    second: Arguments | None
    more: list[Arguments]


def calls_of(case: OpCase, dtype: str) -> Calls:
    """The calls of a case."""
    function = function_of(case)
    layout = next(x for x in ("matrix", "vector", *case.layouts) if x in case.layouts)
    shapes = _SHAPES[len(LAYOUTS[layout][0])]
    samples = list(_sampled(case, dtype, shapes))
    first = samples[0]
    kept = [first, *(_keeping(first, args) for args in samples[1:])]
    if all(_shapes(args) == _shapes(first) for args in kept) or not _works(function, case, kept[1]):
        kept = [first, *_resized(function, case, first)]
    second = kept[1] if len(kept) > 1 else None
    more = [args for args in kept[2:] if _varies_alike(first, kept[1], args)]
    return Calls(_with_sizes(function), first, second, more)


def _varies_alike(first: Arguments, second: Arguments, args: Arguments) -> bool:
    """Whether the sizes that differ from the first ones are among those that became symbolic."""
    return all(
        third == one
        for shapes in zip(*map(_shapes, (first, second, args)), strict=True)
        for one, two, third in zip(*shapes, strict=True)
        if one == two
    )


def _with_sizes(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(like: Any, *args: Any, **kwargs: Any) -> Any:
        args = tree.map(lambda x: like.shape[x.axis] if isinstance(x, AxisOf) else x, args)
        return function(*args, **kwargs)

    return call


def _sampled(case: OpCase, dtype: str, shapes: Sequence[tuple[int, ...]]) -> Iterator[Arguments]:
    """The arguments that the case makes for samples of other shapes."""
    for shape in shapes:
        sample = sample_of(case, dtype, _marked(shape), False)
        try:
            args = made(case, sample)
        except (ValueError, IndexError):  # no arguments of this shape, as no index into no rows
            continue
        args = tree.map(lambda x: _AXES[x.axis] if type(x) is Size else x, args)
        yield [ef.zeros(shape), *(map_arrays(ef.asarray, a) for a in args)]


def _marked(shape: tuple[int, ...]) -> tuple[int, ...]:
    sizes = [Size(n) for n in shape]
    for axis, size in enumerate(sizes):
        size.axis = axis
    return tuple(sizes)


def _keeping(first: Arguments, args: Arguments) -> Arguments:
    """``args`` with the variables and generators of the first call: they are static."""
    kinds = (ef.Variable, ef.random.Generator)
    return [a if isinstance(a, kinds) else b for a, b in zip(first, args, strict=True)]


def _tensors(args: Arguments) -> list[ef.Tensor]:
    """The tensors whose sizes matter: the first one, ``like``, only if its sizes are used."""
    leaves = tree.leaves(args[1:])
    used = args[:1] if any(type(x) is AxisOf for x in leaves) else []
    return [*used, *(x for x in leaves if isinstance(x, ef.Tensor))]


def _shapes(args: Arguments) -> list[tuple[int, ...]]:
    return [x.shape for x in _tensors(args)]


def _works(function: Callable[..., Any], case: OpCase, args: Arguments) -> bool:
    try:
        with np.errstate(all="ignore"):
            _with_sizes(function)(*args, **case.kwargs)
    except EagerflowError:
        return False
    return True


# --- arguments that are cut or grown ----------------------------------------------------------


def _resized(function: Callable[..., Any], case: OpCase, first: Arguments) -> Iterator[Arguments]:
    """Arguments with the arrays of the first cut or extended; equal sizes stay equal.

    As many sizes differ as the function accepts; the first try has one less each, or one more.
    """
    sizes = sorted({n for shape in _shapes(first) for n in shape})
    taken: dict[int, int] = {}
    for n in sizes:
        for other in (n - 1, n + 1, n + 2, 1):
            trial = {**taken, n: other}
            if 0 < other != n and _works(function, case, _changed(first, trial)):
                taken = trial
                break
    if not taken:
        return
    yield _changed(first, taken)
    for small in (1, 0):
        yield _changed(first, dict.fromkeys(taken, small))
        if len(taken) > 1:
            for n in taken:
                yield _changed(first, {**taken, n: small})


def _changed(args: Arguments, sizes: Mapping[int, int]) -> Arguments:
    def resize(x: Any) -> Any:
        if not isinstance(x, ef.Tensor):
            return x
        array = x.numpy()
        for axis, n in enumerate(x.shape):
            wanted = sizes.get(n, n)
            if n == 0 and wanted:
                array = np.zeros((*array.shape[:axis], wanted, *array.shape[axis + 1 :]), x.dtype)
            elif n:
                array = np.take(array, np.arange(wanted) % n, axis)
        return ef.asarray(array)

    return [args[0], *(tree.map(resize, a) for a in args[1:])]


# --- the check --------------------------------------------------------------------------------


def dtype_of(case: OpCase) -> str:
    """The dtype in which a case is run with other sizes."""
    return next(d for d in ("float64", "float32", *case.dtypes) if d in case.dtypes)


def check_sizes(case: OpCase, order: int = 0, *, twice: bool = False) -> None:
    """Call a case with several sizes; there is one trace for the first sizes, and one for others.

    Args:
        case: the row.
        order: 1 for its gradients, 2 for these and their gradients.
        twice: whether the first call is traced; otherwise its sizes are noted alone, and the only
            trace is the one for other sizes. Cases that specialise are always traced.
    """
    calls = calls_of(case, dtype_of(case))
    assert (calls.second is None and bool(_tensors(calls.first))) == bool(case.fixed), case.id
    function = _whole(case, calls, order)
    f, state = traced(function), State(calls.first)
    rows = [calls.first, calls.second or calls.first, *calls.more]
    symbolic = 1
    if not (twice or case.specialises):
        note_sizes(f, calls.first)
        rows[:2] = reversed(rows[:2])
        symbolic = 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        if case.specialises:  # reported from the third trace on
            warnings.simplefilter("ignore", TraceWarning)
        for i, args in enumerate(rows):
            run_again(f, function, args, state, every_way=i in (symbolic, len(rows) - 1))
    if case.specialises:
        assert len(f.traces) > 2, f"{case.id} does not specialise"
        assert any("axis" in line for line in f.traces[-1].static), f.explain()
        assert f"static: {f.traces[-1].static[0].split(', because of ')[0]}" in str(f.explain())
    else:
        assert len(f.traces) <= 1 + symbolic, f.explain()


def _whole(case: OpCase, calls: Calls, order: int) -> Callable[..., Any]:
    """The function, of the calls' arguments, that is traced."""
    if order:
        return gradient(calls.function, [i + 1 for i in case.grad], case.kwargs, order)
    if not case.kwargs:
        return calls.function

    def call(*args: Any) -> Any:
        return calls.function(*args, **case.kwargs)

    return call
