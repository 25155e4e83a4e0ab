"""Batched values: tensors that look like one row and hold a value for each row.

The data of such a tensor is a `Batched`, in the place of an array, and its lane is symbolic, so
that no fast path of an operator takes the data for an array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, final

from eagerflow.core.abstract_symbols import AbstractSymbol
from eagerflow.core.op_records.batch_rules import ROWS
from eagerflow.core.tensor import Tensor, make_tensor
from eagerflow.errors import LeakedTensorError, VmapError

if TYPE_CHECKING:
    from eagerflow.batching.vmap_interpreter import Vmap

#: replacements for Python's own control flow and for reads of values, by the Python call
_REWRITES = {
    "bool()": "write ef.where(condition, x, y), or ef.cond(condition, f, g, x); in place of a "
    "`while`, ef.while_loop or ef.vmap(ef.trace(f)); in place of `and` and `or`, & and |",
    "int()": "keep it a tensor, or map over the values that Python needs outside",
    "index()": "index with the tensor itself: x[i], ef.take(x, i)",
}
_REST = "return it from the function, and look at it outside"


@final
class Batched(AbstractSymbol):
    """The data of a tensor that has a value for each row.

    Attributes:
        vmap: the interpreter that the tensor belongs to.
        value: the values of all rows, along a first axis; a tensor of the interpreters below.
    """

    __slots__ = ("value", "vmap")

    def __init__(self, vmap: Vmap, value: Tensor) -> None:
        self.vmap = vmap
        self.value = value
        self.shape = value.shape[1:]

    def is_constant(self, what: str) -> bool:
        return False

    def concrete(self, what: str) -> NoReturn:
        raise VmapError(
            f"{what}: under ef.vmap this tensor has a value for each of {self.vmap.rows} rows",
            given=self._text(),
            hint=f"{_REWRITES.get(what, _REST)}; or {ROWS}",
        )

    def text(self, x: Tensor, spell: Callable[[Any], str]) -> str:
        return f"{self._text()} in each of {self.vmap.rows} rows"

    def leaked(self, what: str) -> NoReturn:
        raise LeakedTensorError(
            f"{what}: this tensor belongs to a call of ef.vmap that has ended",
            given=self._text(),
            hint="return it from the mapped function",
        )

    def _text(self) -> str:
        return str(make_tensor(self, self.value._lane).type)


def batched(vmap: Vmap, value: Tensor) -> Tensor:
    """The tensor of one row, made from the values of all rows."""
    lane = value._lane
    return make_tensor(Batched(vmap, value), lane if lane.symbolic else lane.twin)


def innermost(x: Any) -> Any:
    """The values of all rows, of all enclosing calls of `vmap`: an array or a value of a graph."""
    while type(x._data) is Batched:
        x = x._data.value
    return x
