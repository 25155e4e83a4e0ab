"""Names that a branch reads before they are bound: what the error advises."""

from __future__ import annotations

from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import TraceError

_outside = ef.Variable(0)


def test_an_assignment_to_a_variable_outside_names_its_methods() -> None:
    def count(x: Any) -> Any:
        if x > 0:
            _outside += 1
        else:
            _outside = 0
        return x

    with pytest.raises(TraceError) as caught:
        ef.trace(count)(ef.tensor(1.0))
    assert "changed by _outside.assign_add(...)" in str(caught.value.hint)
