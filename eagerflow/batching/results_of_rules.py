"""The check of what the batching rule of a user gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerflow.core.infer import infer
from eagerflow.core.op_records.batch_rules import BatchSite, Shared
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.errors import VmapError
from eagerflow.types import TensorType, may_be_same_shape


def check_results(at: BatchSite, results: Any) -> None:
    """Refuse results that are not those of the op for each row, with the axis of rows in front.

    Args:
        at: the application of the op.
        results: what the batching rule gave.

    Raises:
        VmapError: names the op, what the rule gave, and the types that were expected.
    """
    if type(results) is Shared:
        return
    one = [type_of(x).type.like(shape=at.shape(i)) for i, x in enumerate(at.inputs)]
    inferred = infer(at.op, one, at.attrs)
    rows = inferred if type(inferred) is tuple else (inferred,)
    wanted = [t.like(shape=(at.rows, *t.shape)) for t in rows]
    given = results if type(results) is tuple else (results,)
    alike = (type(results) is tuple) == (type(inferred) is tuple)
    if not alike or not all(type(x) is Tensor for x in given):
        wrong = "gives something else than the results of the op"
    elif not _fit([type_of(x).type for x in given], wanted):
        wrong = "gives results of other shapes or dtypes, or without the rows as first axis"
    else:
        return
    raise VmapError(
        f"{at.op.name}: the batching rule {wrong}",
        given=f"{_text(given)}, of {at!r}",
        expected=f"{_text(wanted)}, with {at.rows} rows in front",
        hint="return at.bind(*at.all_whole(), **at.attrs), or a result computed from at.inputs; "
        "at.batched[i] is True where at.inputs[i] has the axis of rows",
    )


def _fit(given: Sequence[TensorType], wanted: Sequence[TensorType]) -> bool:
    return len(given) == len(wanted) and all(
        a.dtype == b.dtype and may_be_same_shape(a.shape, b.shape)
        for a, b in zip(given, wanted, strict=True)
    )


def _text(values: Sequence[Any]) -> str:
    """Types as they are written; for other values their kinds."""
    kinds = [type_of(x).type if type(x) is Tensor else x for x in values]
    return ", ".join(str(k) if isinstance(k, TensorType) else type(k).__name__ for k in kinds)
