"""Branches and loops in which rows diverge.

Each way is taken for all rows at once. Rows that do not take it are *idle*: their operands are
replaced by values of a row that takes it, so that a NaN from their own values reaches neither the
result nor, as 0 * NaN, a gradient. Afterwards the result of each row's own way is selected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, final
from weakref import ref

from eagerflow.batching.batched_values import Batched, innermost
from eagerflow.core import tree
from eagerflow.core.abstract_symbols import AbstractSymbol
from eagerflow.core.composites import Composite
from eagerflow.core.interpreter import AbstractInterpreter, installed, use
from eagerflow.core.op import Op, bind, declare, define, functions
from eagerflow.core.op_records.batch_rules import ROWS, BatchSite
from eagerflow.core.tensor import AbstractArray, Tensor, type_of
from eagerflow.core.to_tensor import as_tensor, tensor_of
from eagerflow.errors import TensorIndexError, VmapError
from eagerflow.types import LIST, TensorType


def is_batched(x: Any) -> bool:
    """Whether ``x`` is a tensor with a value for each row of a `vmap`."""
    return type(x) is Tensor and type(x._data) is Batched


# --- operands of idle rows --------------------------------------------------------------------


def _kept_type(x: TensorType, taking: TensorType) -> TensorType:
    return x


def _keep_taking(at: BatchSite) -> Tensor:
    """Replace the values of idle rows by that of the first row that is not idle."""
    x, taking = at.inputs
    if not at.batched[1]:
        result: Tensor = at.bind(x, taking)
        return result
    own = at.call("arange", at.rows, device=taking.device)
    source = at.call("where", taking, own, at.call("argmax", at.call("astype", taking, "uint8")))
    taken: Tensor = at.call("take", at.whole(0), source, axis=0)
    return taken


#: ``x`` in rows that take the way, in other rows the value of some row that does
_of_taking = define(
    "of_taking_rows",
    infer=_kept_type,
    vjp=(lambda g, out, x, taking: functions["where"](taking, g, 0), None),
    jvp=lambda t, out, x, taking: bind(declare("of_taking_rows"), t[0], taking),
    saved="indices",
    precision="exact",
    takes_bytes=True,
    storage="same",
    batch=_keep_taking,
)


@final
class Way(AbstractInterpreter):
    """Interpreter on top of all transforms for one way: it replaces the operands of idle rows.

    Args:
        taking: whether each row takes the way.
    """

    def __init__(self, taking: Tensor) -> None:
        self._taking = taking
        self._vmap = taking._data.vmap
        self._owner = ref(self)
        self._kept: dict[int, tuple[Any, Tensor]] = {}  # by id of the data, which they hold

    def _depends(self, x: Tensor) -> bool:
        """Whether ``x`` has a value for each row, perhaps below the rows of inner calls."""
        data = x._data
        while type(data) is Batched:
            if data.vmap is self._vmap:
                return True
            data = data.value._data
        return False

    def _made_here(self, x: Tensor) -> bool:
        mark = x._mark
        while mark is not None and mark[0] is not self._owner:
            mark = mark[2]
        return mark is not None

    def _of_taking(self, x: Tensor) -> Tensor:
        if not self._depends(x) or self._made_here(x):
            return x
        if x.dtype is LIST:
            raise VmapError(
                "under ef.vmap, rows that go different ways fill lists of different lengths",
                given="a TensorArray, or the values that the gradient of the loop keeps",
                hint=f"take the gradient outside: ef.grad of ef.vmap; or {ROWS}",
            )
        entry = self._kept.get(id(x._data))
        if entry is None:
            kept = self.below.bind(_of_taking, (x, self._taking), {})
            entry = self._kept[id(x._data)] = (x._data, kept)
        return entry[1]

    def _mark(self, results: Sequence[Tensor]) -> None:
        for x in results:
            x._mark = (self._owner, True, x._mark)

    def bind(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        result = self.below.bind(op, [self._of_taking(x) for x in inputs], attrs)
        self._mark(result if type(result) is tuple else (result,))
        return result

    def call(self, composite: Composite, inputs: Sequence[Tensor]) -> tuple[Any, ...]:
        results = self.below.call(composite, [self._of_taking(x) for x in inputs])
        self._mark(results)
        return results

    def made(self, value: Tensor) -> None:
        self._mark((value,))
        self.below.made(value)

    def rebind(self, handle: Tensor, value: Tensor) -> None:
        if not self._made_here(handle):  # idle rows keep their values
            with use(self.below):
                value = functions["where"](self._taking, value, handle)
        self.below.rebind(handle, value)


def _known(taking: Tensor) -> Any:
    """The rows that take a way, of all calls of `vmap`, as a bool array; None in a trace."""
    value = innermost(taking)
    return None if isinstance(value._data, AbstractSymbol) else value.numpy()


# --- branches -----------------------------------------------------------------------------------


def chosen(op: str, predicate: Tensor, branches: Sequence[Any], run: Callable[[Any], Any]) -> Any:
    """The result of a ``cond`` or a ``switch`` whose predicate differs from row to row.

    Args:
        op: the name of the op, ``"cond"`` or ``"switch"``.
        predicate: a bool, or the index of the branch.
        branches: the branches, of which each row takes one.
        run: gives the result of a branch, a tree.

    Raises:
        TensorIndexError: the index of a row is out of range.
        VmapError: the results of branches cannot be selected row by row.
    """
    if op == "cond":
        ways = [predicate, functions["logical_not"](predicate)]
    else:
        _check_numbers(predicate, len(branches))
        ways = [predicate == i for i in range(len(branches))]
    result: Any = None
    begun = False
    for taking, branch in zip(ways, branches, strict=True):
        rows = _known(taking)
        if rows is not None and not rows.any():
            continue
        if rows is not None and rows.all():
            return run(branch)
        with installed(Way(taking)):
            own = run(branch)
        result = merged(op, taking, own, result) if begun else own
        begun = True
    return result


def _check_numbers(index: Tensor, count: int) -> None:
    numbers = _known(index)
    if numbers is not None and not ((numbers >= 0) & (numbers < count)).all():
        wrong = numbers[(numbers < 0) | (numbers >= count)].reshape(-1)[0]
        raise TensorIndexError(
            "switch: there is no such branch",
            given=f"index {wrong} in one row",
            expected=f"0 to {count - 1}",
        )


def merged(op: str, taking: Tensor, new: Any, before: Any) -> Any:
    """A selection per row: ``new`` if the row takes the way, else ``before``."""
    leaves, treedef = tree.flatten(new)
    others, other_treedef = tree.flatten(before)
    if treedef != other_treedef:
        raise VmapError(
            f"{op}: the branches give different structures",
            given=f"{tree.show(treedef)} and {tree.show(other_treedef)}",
        )
    chosen = [_choice(op, taking, a, b) for a, b in zip(leaves, others, strict=True)]
    return tree.unflatten(treedef, chosen)


def _choice(op: str, taking: Tensor, a: Any, b: Any) -> Any:
    if not isinstance(a, AbstractArray) and not isinstance(b, AbstractArray):
        if a is b or (type(a) is type(b) and a == b):
            return a
        if not all(isinstance(x, (bool, int, float, complex)) for x in (a, b)):
            raise VmapError(
                f"{op}: under ef.vmap, rows cannot choose between objects",
                given=f"{type(a).__name__} and {type(b).__name__}",
                expected="tensors or numbers",
            )
        return functions["where"](taking, a, b)
    x, y = _as_pair(a, b)
    if x.dtype is not y.dtype or x.shape != y.shape:
        raise VmapError(
            f"{op}: under ef.vmap, rows cannot choose between tensors of different types",
            given=f"{type_of(x)} and {type_of(y)}",
            expected="the same dtype and shape",
        )
    return functions["where"](taking, x, y)


def _as_pair(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Both as tensors; a number takes the dtype of the tensor beside it."""
    if isinstance(a, AbstractArray):
        x = tensor_of(a)
        return x, tensor_of(b) if isinstance(b, AbstractArray) else as_tensor(b, x.dtype)
    y = tensor_of(b)
    return as_tensor(a, y.dtype), y


# --- loops --------------------------------------------------------------------------------------


def repeated(
    goes_on: Callable[[list[Any]], Any], iteration: Callable[[list[Any]], list[Any]],
    values: list[Any], first: Tensor, most: int | None, begun: int,
) -> list[Any]:  # fmt: skip
    """Run the rest of a ``while_loop``, from the iteration in which rows first diverge.

    Args:
        goes_on: the predicate of the loop, from its values.
        iteration: gives the next values.
        values: the values before the iteration.
        first: the current predicate of each row.
        most: limit of iterations; None for no limit.
        begun: number of iterations so far.
    """
    going = first
    for i in count(begun):
        rows = _known(going)
        assert rows is not None
        if not rows.any() or i == most:
            return values
        if rows.all():
            values = iteration(values)
            test = goes_on(values)
        else:
            with installed(Way(going)):
                after = iteration(values)
                test = goes_on(after)
            values = merged("while_loop", going, after, values)
        going = functions["logical_and"](going, test)
    return values
