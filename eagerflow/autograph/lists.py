"""What stands for Python lists in loops of the graph, and after loops of unknown length."""

from __future__ import annotations

from typing import Any, NoReturn, final

from eagerflow.autograph.calls import replacements
from eagerflow.core import tree
from eagerflow.core.convert import tensor_of
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.errors import TraceError
from eagerflow.ops.joining import concat, stack
from eagerflow.ops.shape import moveaxis

__all__ = ["Appended", "Grown", "one_each"]


@final
class Appended(list[Any]):
    """A list to which each turn of a loop appends.

    Args:
        owner: the list that it stands for.
        text: the name of that.
    """

    def __init__(self, owner: list[Any], text: str) -> None:
        super().__init__()
        self.owner = owner
        self._text = text

    def taken(self) -> list[Any]:
        """What was appended.

        Raises:
            TraceError: something other than tensors, of which the graph makes no rows.
        """
        found = [list.__getitem__(self, i) for i in range(list.__len__(self))]
        for x in tree.flatten(found)[0]:
            if not isinstance(x, AbstractArray):
                raise TraceError(
                    f"{self._text or 'a list'} gets something other than tensors in a loop of the "
                    "graph",
                    given=type(x).__name__,
                    hint="go over range(n) with an int, which unrolls the loop",
                )
        return found

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TraceError(
            f"{self._text or 'a list'} is read in a loop of the graph that appends to it",
            given="a list of another length in each turn",
            expected="append() and extend() alone",
            hint="keep what the next turn needs in a variable of its own, or go over "
            "range(n) with an int, which unrolls the loop",
        )

    __len__ = __getitem__ = __iter__ = __bool__ = __contains__ = __eq__ = __add__ = _refuse
    __setitem__ = __delitem__ = __reversed__ = __mul__ = __rmul__ = __lt__ = __gt__ = _refuse
    pop = remove = insert = clear = sort = reverse = index = count = copy = _refuse


@final
class Grown(list[Any]):
    """A list after a loop of which only the graph knows how many turns it had.

    Args:
        before: the list before the loop.
        rows: what was appended, as the rows of a tensor.

    Attributes:
        rows: all its items, as the rows of a tensor.
    """

    def __init__(self, before: list[Any], rows: Tensor) -> None:
        super().__init__()
        self.rows = concat([stack(before), rows]) if before else rows

    def __getitem__(self, i: Any) -> Any:
        return self.rows[i]

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TraceError(
            "a list whose length only the graph knows is used as Python uses lists",
            given=f"{self.rows.type}, if it is stacked",
            expected="ef.stack(xs), xs[i], or `for x in xs`",
            hint="go on with x = ef.stack(xs), and x.shape[0] for its length",
        )

    __len__ = __iter__ = __bool__ = __contains__ = __eq__ = __add__ = _refuse
    __setitem__ = __delitem__ = __reversed__ = __mul__ = __rmul__ = __lt__ = __gt__ = _refuse
    append = extend = pop = remove = insert = clear = sort = reverse = _refuse
    index = count = copy = _refuse


def one_each(values: list[Any], text: str) -> Tensor:
    """The one tensor that each turn appends to a list of unknown length.

    Raises:
        TraceError: a turn appends another number of things, or no tensor.
    """
    if len(values) == 1 and isinstance(values[0], AbstractArray):
        return tensor_of(values[0])
    raise TraceError(
        f"{text or 'a list'} is appended to in a loop whose turns the graph counts",
        given=f"{len(values)} times in a turn, {', '.join(type(v).__name__ for v in values)}",
        expected="one tensor in each turn",
        hint="append to several lists, or one tensor that holds all",
    )


def _stack(arrays: Any, /, *, axis: int = 0) -> Tensor:
    """`stack`, of what may be a list of unknown length."""
    if type(arrays) is not Grown:
        return stack(arrays, axis=axis)
    return moveaxis(arrays.rows, 0, axis) if axis else arrays.rows


replacements[stack] = _stack
