"""Cotangents that are zero but for some rows, found among dense ones.

The cotangent of ``x[i]`` with an index that has no axes is as large as ``x``. A loop that reads an
element in each iteration would make and add up that many of these, so inside of loops and branches
they are taken apart again: rows are loop-carried, and one dense sum is made of them in the end. The
result is dense, as without a loop, and its elements are added in the order of the iterations.
"""

from __future__ import annotations

from eagerflow.core.op import functions
from eagerflow.core.slices import IndexedSlices
from eagerflow.dims import same
from eagerflow.graph.ir import Value
from eagerflow.ops.indexing.gather import rows
from eagerflow.ops.rules.subscripts import ARRAY
from eagerflow.tracing.tracer import Tracer
from eagerflow.types import Shape, same_shape

__all__ = ["rows_in"]


def rows_in(tracer: Tracer, value: Value) -> IndexedSlices | None:
    """The rows that ``value`` is the sum of, in the order in which they are added.

    Args:
        tracer: of the trace that it belongs to, which is under way.
        value: a dense cotangent.

    Returns:
        The rows; None if it is not made of rows alone.
    """
    parts = _parts(value)
    if not parts:
        return None
    shape = value.type.shape
    slices = [_rows(tracer, part, shape) for part in parts]
    if len(slices) == 1:
        return slices[0]
    values = functions["concat"]([one.values for one in slices], axis=0)
    return IndexedSlices(values, functions["concat"]([one.indices for one in slices]), shape)


def _parts(value: Value) -> list[Value] | None:
    """The scattered rows that are added up; None if there is anything else."""
    node = value.node
    if node is None or node.control_inputs or not value.type.shape:
        return None
    shape = value.type.shape
    if node.op == "add":
        first, second = map(_parts, node.inputs)
        return None if first is None or second is None else [*first, *second]
    kinds = [v.spec for v in node.inputs]
    if node.op == "index_scatter":
        whole = (*kinds[1].shape, *shape[1:]) if node.attrs["key"] == (ARRAY,) else None
        return [value] if whole is not None and same_shape(kinds[0].shape, whole) else None
    if node.op == "segment_sum":
        return [value] if same(node.attrs["num_segments"], shape[0]) else None
    return None


def _rows(tracer: Tracer, value: Value, shape: Shape) -> IndexedSlices:
    assert value.node is not None
    values, indices = [tracer.result(v) for v in value.node.inputs]
    if value.node.op == "segment_sum":
        return IndexedSlices(values, indices, shape)
    return rows(values, indices, shape)
