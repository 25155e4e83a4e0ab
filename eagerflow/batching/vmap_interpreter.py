"""`Vmap`: the interpreter that applies an op to many rows at once, by its batching rule."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any, Final, Literal, final
from weakref import ref

from eagerflow.batching.batched_values import Batched, batched
from eagerflow.batching.results_of_rules import check_results
from eagerflow.core.composites import Composite, Passed
from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.infer import infer
from eagerflow.core.interpreter import BASE, AbstractInterpreter, installed, use
from eagerflow.core.op import Op, bind, functions
from eagerflow.core.op_records.batch_rules import ROWS, SIZES, BatchSite, Shared, aligned, each_row
from eagerflow.core.op_records.registration_checks import is_users
from eagerflow.core.tensor import Tensor, handle_of, type_of
from eagerflow.errors import EagerflowError, VmapError
from eagerflow.source import capture
from eagerflow.types import LIST

Randomness = Literal["error", "same", "different"]
_MADE: Final = True


@final
class Vmap(AbstractInterpreter):
    """The interpreter of a mapped function: it applies each op to all rows.

    Args:
        rows: number of rows.
        randomness: the handling of random draws (see `vmap`).
    """

    def __init__(self, rows: Any, randomness: Randomness) -> None:
        self.rows = rows
        self.randomness = randomness
        self._owner = ref(self)

    # --- values ---

    def holds(self, x: Any) -> bool:
        """Whether ``x`` is a tensor batched by this interpreter."""
        return type(x) is Tensor and type(x._data) is Batched and x._data.vmap is self

    def inside(self, x: Tensor) -> Tensor:
        """The values of all rows, below; a tensor that all rows share is returned as it is."""
        data = x._data
        return data.value if type(data) is Batched and data.vmap is self else x

    def whole(self, x: Tensor) -> Tensor:
        """The values of all rows, below; a shared tensor is broadcast along the axis of rows."""
        if self.holds(x):
            return self.inside(x)
        with use(self.below):
            repeated: Tensor = functions["broadcast_to"](x, (self.rows, *x.shape))
        return repeated

    def row(self, value: Tensor) -> Tensor:
        """The tensor of one row, from the values of all rows."""
        return batched(self, value)

    def _rows_of(self, result: Any) -> Any:
        if type(result) is Shared:
            return self._noted(result.result)
        return tuple(map(self.row, result)) if type(result) is tuple else self.row(result)

    # --- ops ---

    def bind(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        own = tuple([type(x._data) is Batched and x._data.vmap is self for x in inputs])
        if op.effect != "pure" and op.effect != "reads":
            return self._effect(op, inputs, attrs)
        if not any(own):
            result = self.below.bind(op, inputs, attrs)
            if type(result) is not Tensor or not _makes_list(result, inputs):
                return self._noted(result)
            # rows may later put different values into the list
        rule = op.batch or (aligned if op.elementwise else each_row)
        if isinstance(rule, str):
            raise VmapError(
                f"{op.name}: under ef.vmap, {rule}",
                given=", ".join(str(type_of(x)) for x in inputs),
                hint=f"choose with ef.where(condition, x, y) instead, or {ROWS}"
                if rule is SIZES
                else ROWS,
            )
        values = [self.inside(x) for x in inputs]
        with use(self.below):
            site = BatchSite(op, values, own, attrs, self.rows, bind, functions)
            try:
                results = rule(site)
                if type(rule) is FunctionType and is_users(rule.__globals__):
                    check_results(site, results)
                return self._rows_of(results)
            except EagerflowError as error:
                self._check(op, inputs, attrs, error)
                raise

    def _noted(self, result: Any) -> Any:
        """Mark a result that all rows share as made inside."""
        for x in result if type(result) is tuple else (result,):
            x._mark = (self._owner, _MADE, x._mark)
        return result

    def _check(
        self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any], error: EagerflowError
    ) -> None:
        """Raise the error for the types of one row, if they are wrong, in place of ``error``."""
        if type(error) is VmapError:
            return
        specs = [type_of(x) for x in inputs]
        try:
            infer(op, [s.type for s in specs], attrs, [s.device for s in specs])
        except EagerflowError as own:
            raise own from error

    def _effect(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        """Bind an op that changes state: a draw, if draws are allowed; other ops are refused."""
        if not op.draws:
            raise VmapError(
                f"{op.name}: under ef.vmap, {op.batch}",
                given=repr(attrs["resource"]) if "resource" in attrs else None,
                hint=f"return the values, and do it outside with those of all rows; or {ROWS}",
            )
        if self.randomness == "error":
            raise VmapError(
                "a random draw under ef.vmap: the same for all rows, or another one for each?",
                hint='say ef.vmap(f, randomness="same") or randomness="different"',
            )
        if self.randomness == "same":
            return self.below.bind(op, inputs, attrs)
        keys = [self.below.bind(op, inputs, attrs) for _ in range(int(self.rows))]
        with use(self.below):
            return self.row(functions["stack"](keys))

    # --- handles and resources ---

    def rebind(self, handle: Tensor, value: Tensor) -> None:
        if self.holds(handle):
            BASE.rebind(handle, value)
            return
        if not self._made_here(handle):
            raise VmapError(
                "under ef.vmap, a tensor from outside is updated in place",
                given=f"{type_of(handle)}, which all rows share",
                hint="compute a new tensor and return it, or update a copy made inside: "
                f"x = x + 0; or {ROWS}",
                source=capture(2),
            )
        if self.holds(value):
            BASE.rebind(handle, value)
        else:
            self.below.rebind(handle, value)

    def _made_here(self, handle: Tensor) -> bool:
        mark = handle._mark
        while mark is not None and mark[0] is not self._owner:
            mark = mark[2]
        return mark is not None

    def made(self, value: Tensor) -> None:
        value._mark = (self._owner, _MADE, value._mark)
        self.below.made(value)

    def created(self, resource: Any, value: Tensor) -> None:
        raise VmapError(
            "under ef.vmap, a variable is made, which each row would have on its own",
            given=repr(resource),
            hint=f"make it outside, or keep the value in a tensor; or {ROWS}",
        )

    # --- composites ---

    def call(self, composite: Composite, inputs: Sequence[Tensor]) -> tuple[Any, ...]:
        if composite.batch is not None:
            outputs: tuple[Any, ...] = composite.batch(self, inputs)
            return outputs
        if self.below is BASE or not composite.own_rule:
            return super().call(composite, inputs)
        results = self.below.call(_Rows(self, composite, inputs).composite, self._inside(inputs))
        return tuple(map(self.row, results))

    def _inside(self, xs: Sequence[Tensor]) -> list[Tensor]:
        return [self.inside(x) for x in xs]


def _makes_list(result: Tensor, inputs: Sequence[Tensor]) -> bool:
    return result._lane.dtype is LIST and all(x._lane.dtype is not LIST for x in inputs)


@final
class _Rows:
    """A composite applied to many rows, as a composite of the interpreters below.

    Args:
        vmap: the interpreter.
        one: the composite for one row.
        inputs: its inputs.
    """

    def __init__(self, vmap: Vmap, one: Composite, inputs: Sequence[Tensor]) -> None:
        self._vmap = vmap
        self._one = one
        self._own = [vmap.holds(x) for x in inputs]
        self.composite = Composite(
            one.name, self._body, self._forward, one.own_rule, node=one.node, depends=one.depends,
            push=None if one.push is None else self._push, reads=one.reads,
        )  # fmt: skip

    def _body(self, *values: Tensor) -> tuple[Any, ...]:
        with use(self._vmap):
            return self._all(self._one.body(*self._rows(values)))

    def _forward(self, *values: Tensor) -> Passed:
        vmap = self._vmap
        with use(vmap):
            passed = self._one.forward(*self._rows(values))
            outputs = self._all(passed.outputs)
        kept = [vmap.holds(x) for x in passed.residuals]
        own = [*self._own, *map(vmap.holds, passed.captured)]

        def pull(residuals: Sequence[Any], gs: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
            again = Vmap(vmap.rows, vmap.randomness)
            with installed(again):
                rs = [again.row(r) if is_own else r
                      for r, is_own in zip(residuals, kept, strict=True)]  # fmt: skip
                cotangents = [None if g is None else again.row(g) for g in gs]
                us = passed.pull(rs, cotangents, wanted)
                return [_cotangent(again, u, is_own) for u, is_own in zip(us, own, strict=True)]

        inside = [[vmap.inside(x) for x in xs] for xs in (passed.residuals, passed.captured)]
        return Passed(outputs, inside[0], pull, inside[1])

    def _push(self, values: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        assert self._one.push is not None
        again = Vmap(self._vmap.rows, self._vmap.randomness)
        with installed(again):
            own = self._own
            rows = [again.row(x) if is_own else x for x, is_own in zip(values, own, strict=True)]
            along = [
                again.row(t) if is_own and type(t) is Tensor else t
                for t, is_own in zip(tangents, own, strict=True)
            ]
            results, pushed = self._one.push(rows, along)
            whole = [again.whole(t) if type(t) is Tensor else t for t in pushed]
            return [again.whole(x) for x in results], whole

    def _rows(self, values: Sequence[Tensor]) -> list[Tensor]:
        vmap = self._vmap
        return [vmap.row(x) if own else x for x, own in zip(values, self._own, strict=True)]

    def _all(self, results: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return tuple([handle_of(self._vmap.whole(x)) for x in results])


def _cotangent(vmap: Vmap, u: Any, own: bool) -> Any:
    """The cotangent of an input, below, from that of one row; summed over rows if shared."""
    if isinstance(u, IndexedSlices):
        u = u.to_dense()
    if type(u) is not Tensor:
        return u
    if own:
        return vmap.whole(u)
    value = vmap.whole(u)
    with use(vmap.below):
        total: Tensor = functions["sum"](value, axis=0)
    return total
