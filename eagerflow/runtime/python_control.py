"""Branches and loops as Python's own: what eager code and replays run, op by op through `bind`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeVar

from eagerflow.batching.divergent_branches import chosen, is_batched, repeated
from eagerflow.core.op import bind, functions, get_op
from eagerflow.core.stack import stack
from eagerflow.core.tensor import Tensor
from eagerflow.errors import TensorIndexError
from eagerflow.loop_errors import iteration_note
from eagerflow.types import LIST

_Branch = TypeVar("_Branch")
_R = TypeVar("_R")


def choose(
    op: str, predicate: Any, branches: Sequence[_Branch], run: Callable[[_Branch], _R]
) -> _R:
    """The result of the branch of a ``cond`` or a ``switch`` that is to run.

    Args:
        op: which of them.
        predicate: a bool, or the number of the branch; as a tensor, it may differ from row to row.
        branches: the branches.
        run: gives the result of one of them.

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
    """The number of the branch of a ``switch`` that is to run.

    Raises:
        TensorIndexError: there is none.
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
        goes_on: whether there is another iteration, from the values.
        iteration: gives the next values.
        values: what the loop starts with.
        most: how many iterations there are at most.
        source: the line of the loop, if errors do not tell it anyway.
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
    """A ``scan``: the values after its last iteration, and what iterations gave, stacked.

    Args:
        op: what the user called.
        iteration: gives the next values, and what is stacked, from the values and the parts of
            ``xs``.
        values: what the loop starts with.
        xs: the tensors whose first axis it goes along.
        length: the size of that axis.
        reverse: whether it goes from the last to the first.
        source: the line of the loop, if errors do not tell it anyway.

    Returns:
        The values and the stacked tensors; None in place of these if there was no iteration.
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
    """``x``, cotangents of whose uses in an iteration are added up first, as those of a graph."""
    smooth = type(x) is Tensor and x.dtype.is_inexact and x.dtype is not LIST
    return bind(get_op("identity"), x) if smooth else x
