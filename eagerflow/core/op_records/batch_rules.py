"""Batching rules that families of ops share, to apply an op to many rows at once.

A *batching rule* makes the ops that `eagerflow.vmap` binds in place of an op whose inputs hold a
value for each row. It is a function of a `BatchSite`; or a text, the reason why there is no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

if TYPE_CHECKING:
    from eagerflow.core.op import Op
    from eagerflow.core.tensor import Tensor
    from eagerflow.types import Shape

#: the reason why ops whose result has a size that depends on data have no rule
SIZES: Final = "the size of its result depends on the data, and may differ from row to row"
#: the advice of refusals
ROWS: Final = "go through the rows by ef.map(f, xs), or by a loop, which may do it"
#: the reason of refusals for ops that change state
STATE: Final = "it has an effect on state, which each row would have on its own"


@final
class BatchSite:
    """An application of an op to many rows.

    Args:
        op: the op.
        inputs: the inputs; the first axis of a batched input is the axis of rows.
        batched: for each input whether it is batched.
        attrs: the attributes, as for one row.
        rows: the number of rows.
        bind: applies an op, in the interpreters below.
        functions: the public functions by name.
    """

    __slots__ = ("_bind", "attrs", "batched", "functions", "inputs", "op", "rows")

    def __init__(
        self, op: Op, inputs: Sequence[Tensor], batched: Sequence[bool], attrs: dict[str, Any],
        rows: int, bind: Callable[..., Any], functions: Mapping[str, Callable[..., Any]],
    ) -> None:  # fmt: skip
        self.op = op
        self.inputs = inputs
        self.batched = batched
        self.attrs = attrs
        self.rows = rows
        self._bind = bind
        self.functions = functions

    def __repr__(self) -> str:
        pairs = zip(self.inputs, self.batched, strict=True)
        inputs = [f"{x.type}{' by row' if rows else ''}" for x, rows in pairs]
        attrs = [f"{name}={value!r}" for name, value in self.attrs.items()]
        return f"{type(self).__name__}({', '.join([self.op.name, *inputs, *attrs])})"

    def bind(self, *inputs: Tensor, **attrs: Any) -> Any:
        """Apply the op, to other inputs and with other attributes."""
        return self._bind(self.op, *inputs, **attrs)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call the public function of that name."""
        return self.functions[name](*args, **kwargs)

    def shape(self, i: int) -> Shape:
        """The shape of one row of input ``i``."""
        shape = self.inputs[i].shape
        return shape[1:] if self.batched[i] else shape

    def whole(self, i: int) -> Tensor:
        """Input ``i`` with an axis of rows, along which a shared input is repeated."""
        x = self.inputs[i]
        if self.batched[i]:
            return x
        whole: Tensor = self.call("broadcast_to", x, (self.rows, *x.shape))
        return whole

    def all_whole(self) -> list[Tensor]:
        """All inputs with an axis of rows."""
        return [self.whole(i) for i in range(len(self.inputs))]

    def padded(self, i: int, rank: int) -> Tensor:
        """Input ``i``, whose rows get axes of size 1 in front; a shared input stays."""
        x = self.inputs[i]
        missing = rank + 1 - len(x.shape)
        if not self.batched[i] or missing <= 0:
            return x
        return self.in_shape(x, (x.shape[0], *(1,) * missing, *x.shape[1:]))

    def in_shape(self, x: Tensor, shape: Shape) -> Tensor:
        """``x`` in another shape."""
        result: Tensor = self.call("reshape", x, shape)
        return result


@final
class Shared:
    """The result of a rule that is shared by all rows, without an axis of rows.

    Args:
        result: a tensor.
    """

    __slots__ = ("result",)

    def __init__(self, result: Tensor) -> None:
        self.result = result


#: gives the result with the axis of rows in front, a tuple of such results, or a `Shared`
BatchRule = Callable[[BatchSite], Any]


def aligned(at: BatchSite) -> Any:
    """The rule of ops whose inputs broadcast from the last axis on, such as elementwise ops.

    Ops of linear algebra are among them: their axes before the last two are a batch.
    """
    rank = max(len(at.shape(i)) for i in range(len(at.inputs)))
    inputs = [at.padded(i, rank) for i in range(len(at.inputs))]
    return at.bind(*inputs, **at.attrs)


def shifted(*names: str) -> BatchRule:
    """The rule of ops with axes as attributes, which all move back by one.

    Args:
        names: the attributes: an axis, or a tuple of axes, counted from the front.
    """

    def rule(at: BatchSite) -> Any:
        attrs = {k: _moved(v) if k in names else v for k, v in at.attrs.items()}
        return at.bind(*at.all_whole(), **attrs)

    return rule


def _moved(axis: Any) -> Any:
    if isinstance(axis, tuple):
        return tuple(map(_moved, axis))
    return axis + 1 if axis >= 0 else axis


def with_rows(name: str) -> BatchRule:
    """The rule of ops of one input whose attribute ``name`` is the shape of the result."""

    def rule(at: BatchSite) -> Any:
        shape = at.attrs[name]
        return at.bind(at.padded(0, len(shape)), **{**at.attrs, name: (at.rows, *shape)})

    return rule


def folded(at: BatchSite) -> Any:
    """The rule of ops that treat all elements along axis 0 alike: rows are folded into it."""
    count = at.shape(0)[0]
    inputs = [at.in_shape(x, (at.rows * count, *x.shape[2:])) for x in at.all_whole()]
    result = at.bind(*inputs, **at.attrs)
    return at.in_shape(result, (at.rows, count, *result.shape[1:]))


def each_row(at: BatchSite) -> Any:
    """The rule of ops that are applied to one row after the other.

    Args:
        at: the op, its inputs and their axes of rows.

    >>> from eagerflow.extending import bind, define, each_row, portable
    >>> @portable("my_last")
    ... def last(xp, x):
    ...     return x[-1:]
    >>> my_last = define("my_last", infer=lambda x: x.like(shape=(1, *x.shape[1:])),
    ...                  nondifferentiable=True, batch=each_row)
    >>> ef.vmap(lambda x: bind(my_last, x))(ef.tensor([[1, 2], [3, 4]]))
    Tensor([[2],
            [4]], i64[2,1]@cpu:0)
    """
    parts = [
        at.call("unstack", x, axis=0) if own else None
        for x, own in zip(at.inputs, at.batched, strict=True)
    ]
    results = [
        at.bind(*[x if part is None else part[i] for x, part in zip(at.inputs, parts, strict=True)],
                **at.attrs)
        for i in range(int(at.rows))
    ]  # fmt: skip
    if type(results[0]) is tuple:
        return tuple([at.call("stack", list(column)) for column in zip(*results, strict=True)])
    return at.call("stack", results)
