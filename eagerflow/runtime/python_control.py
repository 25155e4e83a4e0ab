"""Branches and loops in Python, for eager code and replays: op by op through `bind`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeVar

from eagerflow.batching.divergent_branches import chosen, is_batched, repeated
from eagerflow.core.interpreter import stack
from eagerflow.core.op import bind, functions, get_op
from eagerflow.core.tensor import Tensor
from eagerflow.error_messages import iteration_note
from eagerflow.errors import TensorIndexError
from eagerflow.types import LIST

_Branch = TypeVar("_Branch")
_R = TypeVar("_R")


def choose(
    op: str, predicate: Any, branches: Sequence[_Branch], run: Callable[[_Branch], _R]
) -> _R:
    """The result of the selected branch of a ``cond`` or a ``switch``.

    Args:
        op: the name of the op, ``"cond"`` or ``"switch"``.
        predicate: a bool, or the number of the branch; as a tensor, it may differ from row to row.
        branches: the branches.
        run: gives the result of a branch.

    Raises:
        TensorIndexError: there is no such branch.
    """
    if is_batched(predicate):
        result: _R = chosen(op, predicate, branches, run)
        return result
    if op == "cond":
        return run(branches[0 if predicate else 1])
    return run(branches[choose_branch(predicate, len(branches))])


def choose_branch(index: Any, count: int) -> int:
    """The number of the selected branch of a ``switch``.

    Raises:
        TensorIndexError: there is no such branch.
    """
    number = int(index)
    if not 0 <= number < count:
        raise TensorIndexError(
            "switch: there is no such branch", given=f"index {number}", expected=f"0 to {count - 1}"
        )
    return number


def repeat(
    goes_on: Callable[[list[Any]], Any], iteration: Callable[[list[Any]], list[Any]],
    values: list[Any], most: int | None, source: Any = None,
) -> list[Any]:  # fmt: skip
    """A ``while_loop``: the values after its last iteration.

    Args:
        goes_on: the predicate: whether there is another iteration, from the values.
        iteration: gives the next values.
        values: the initial values.
        most: the greatest number of iterations; None for no limit.
        source: the line of the loop, if errors do not say it anyway.
    """
    for i in count() if most is None else range(most):
        try:
            test = goes_on(values)
            if is_batched(test):
                return repeated(goes_on, iteration, values, test, most, i)
            if not test:
                break
            values = iteration(values)
        except Exception as error:
            error.add_note(iteration_note("while_loop", i, source))
            raise
    return values


def go_along(
    op: str, iteration: Callable[[list[Any], list[Any]], tuple[list[Any], list[Any]]],
    values: list[Any], xs: Sequence[Tensor], length: int, reverse: bool, source: Any = None,
) -> tuple[list[Any], list[Tensor] | None]:  # fmt: skip
    """A ``scan``: the values after its last iteration, and the stacked outputs of iterations.

    Args:
        op: the name of the function that the user called.
        iteration: gives the next values, and the outputs to stack, from the values and the parts
            of ``xs``.
        values: the initial values.
        xs: the tensors that are scanned along their first axis.
        length: the size of that axis.
        reverse: whether the scan goes from the last element to the first.
        source: the line of the loop, if errors do not say it anyway.

    Returns:
        The values and the stacked tensors; None instead of the latter without an iteration.
    """
    if not length:
        return values, None
    parts = [functions["unstack"](x) for x in xs]  # at once: the gradient of all is one array
    rows: list[list[Any]] = []
    for i in reversed(range(length)) if reverse else range(length):
        try:
            given = list(map(_as_one, values)) if stack.installed else values
            values, row = iteration(given, [part[i] for part in parts])
        except Exception as error:
            error.add_note(iteration_note(op, i, source))
            raise
        rows.append(row)
    if reverse:
        rows.reverse()
    return values, [functions["stack"](list(column)) for column in zip(*rows, strict=True)]


def _as_one(x: Any) -> Any:
    """``x`` as one value whose cotangents within an iteration are summed first, as in a graph."""
    smooth = type(x) is Tensor and x.dtype.is_inexact and x.dtype is not LIST
    return bind(get_op("identity"), x) if smooth else x
