"""A module of a user, for tests that read its names."""

from __future__ import annotations

import eagerflow as ef

rate = 0.5
shift = 2.0
unused = 3.0
tensor = ef.tensor(1.0)


def shifted(x: ef.Tensor) -> ef.Tensor:
    return x + shift
