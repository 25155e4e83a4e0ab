"""Type rules that ops share."""

from __future__ import annotations

import pytest

import eagerflow as ef
from eagerflow.errors import DTypeError
from eagerflow.ops.rules.type_rules import INEXACT, INTEGER, REAL, check_kind
from eagerflow.types import DType, TensorType


@pytest.mark.parametrize(
    ("dtype", "kinds", "hint"),
    [
        (ef.int64, INEXACT, "x.astype(ef.float32)"),
        (ef.bool, INEXACT, "x.astype(ef.float32)"),
        (ef.complex64, REAL, None),
        (ef.bool, REAL, None),
        (ef.float32, INTEGER, None),
    ],
)
def test_a_refused_dtype_has_a_hint_where_it_widens(
    dtype: DType, kinds: frozenset[str], hint: str | None
) -> None:
    with pytest.raises(DTypeError, match=f"no rule for {dtype.short}") as caught:
        check_kind(TensorType(dtype, (2,)), kinds)
    assert caught.value.hint == hint
