"""Sinks: outputs of branches and loops for cotangents, which may be sparse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from eagerflow.autodiff.backward import Cotangent, add, dense
from eagerflow.control.derivatives.building import zeros_of
from eagerflow.control.derivatives.joint import Gradient
from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.op import functions
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Dim, Size, substitute, symbols
from eagerflow.graph.value_types import ValueSpec
from eagerflow.ops.state.lists import list_concat, list_new, list_push
from eagerflow.types import LIST, TensorSpec


def _rows_of(
    gradients: Sequence[Gradient], known: Set[str]
) -> tuple[TensorSpec, TensorSpec] | None:
    """The types of rows and their indices, if all gradients are rows, or zero.

    Args:
        gradients: the gradients of one operand, in different parts.
        known: the names of sizes that are the same in all parts.
    """
    flowing = [g for g in gradients if g.values]
    kinds: list[Any] = [
        (g.values[0].spec, g.values[-1].spec) for g in flowing if g.shape is not None
    ]
    if not kinds or len(kinds) < len(flowing):
        return None
    values, indices = kinds[0]
    assert isinstance(values, TensorSpec)
    assert isinstance(indices, TensorSpec)
    fits = len(indices.shape) == 1 and symbols(values.shape[1:]) <= known
    alike = all(
        v.dtype is values.dtype and i.dtype is indices.dtype and len(i.shape) == 1 for v, i in kinds
    )
    return (values, indices) if fits and alike else None


class Sink(NamedTuple):
    """The outputs of a loop or of branches for the cotangent of an operand or variable.

    Attributes:
        operand: the number of the operand; numbers of variables follow.
        kind: its type.
        rows: if all iterations, or branches, return rows of it or none, the types of the rows and
            of their indices. Then a loop pushes both on lists, so that the cost of an iteration
            depends on its rows, not on the size of the whole. Else None: there is one sum.
        dense: whether the rows become one dense sum in the end.
    """

    operand: int
    kind: TensorSpec
    rows: tuple[TensorSpec, TensorSpec] | None
    dense: bool

    @classmethod
    def of(
        cls, operand: int, kind: ValueSpec, gradients: Sequence[Gradient], known: Set[str]
    ) -> Sink:
        """The sink of gradients.

        Args:
            operand: the number of the operand.
            kind: the type of the operand or variable.
            gradients: the gradient of an iteration, or the gradients of branches.
            known: the names of sizes that are the same in all parts.
        """
        assert isinstance(kind, TensorSpec)
        return cls(operand, kind, _rows_of(gradients, known), any(g.dense for g in gradients))

    def _whole(self, values: Tensor, indices: Tensor, sizes: Mapping[str, Size]) -> Cotangent:
        slices = IndexedSlices(values, indices, _shape(self.kind, sizes))
        return slices.to_dense() if self.dense else slices

    # --- in a loop ---

    @property
    def kinds(self) -> list[TensorSpec]:
        """The types of its loop-carried values."""
        both = self.kind.like((), LIST)
        return [self.kind] if self.rows is None else [both, both]

    def start(self, sizes: Mapping[str, Size]) -> list[Tensor]:
        """Its loop-carried values before the first iteration."""
        if self.rows is None:
            return [_no_sum(self.kind, sizes)]
        return [list_new(self.kind.device), list_new(self.kind.device)]

    def more(self, state: Iterator[Any], g: Cotangent | None) -> list[Tensor]:
        """Its loop-carried values after an iteration that returns the cotangent ``g``."""
        if self.rows is None:
            total = next(state)
            return [total if g is None else dense(add(total, g))]
        assert isinstance(g, IndexedSlices)
        return [list_push(next(state), g.values), list_push(next(state), g.indices)]

    def end(self, state: Iterator[Tensor], sizes: Mapping[str, Size]) -> Cotangent:
        """The cotangent after the last iteration."""
        if self.rows is None:
            return next(state)
        values, indices = [list_concat(next(state), kind) for kind in self.rows]
        return self._whole(values, indices, sizes)

    # --- in branches ---

    @property
    def kinds_out(self) -> list[TensorSpec]:
        """The types of its outputs; the number of rows depends on the branch."""
        if self.rows is None:
            return [self.kind]
        count: Any = Dim(f"rows_of_{self.operand}")
        return [k.like(shape=(count, *k.shape[1:])) for k in self.rows]

    def give(self, g: Cotangent | None) -> list[Tensor]:
        """Its outputs in a branch that returns the cotangent ``g``."""
        if self.rows is None:
            return [zeros_of(self.kind) if g is None else dense(g)]
        if g is None:
            return [zeros_of(k.like(shape=(0, *k.shape[1:]))) for k in self.rows]
        assert isinstance(g, IndexedSlices)
        return [g.values, g.indices]

    def take(self, outputs: Iterator[Tensor], sizes: Mapping[str, Size]) -> Cotangent:
        """The cotangent, from its outputs."""
        if self.rows is None:
            return next(outputs)
        return self._whole(next(outputs), next(outputs), sizes)


def _no_sum(kind: TensorSpec, sizes: Mapping[str, Size]) -> Tensor:
    """Initial zeros of a sum, without a layout: the sum gets the layout of its summands."""
    if kind.dtype is LIST:
        return zeros_of(kind)
    shape = _shape(kind, sizes)
    return functions["broadcast_to"](zeros_of(kind.like(shape=())), shape)


def _shape(kind: TensorSpec, sizes: Mapping[str, Size]) -> Any:
    return tuple([substitute(d, sizes) for d in kind.shape])
