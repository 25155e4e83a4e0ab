"""Detection of lost writes: ``x[i][j] = v`` writes into the temporary tensor ``x[i]``.

In NumPy that is a view of ``x``; here a tensor is a value, and this one is dropped unread.
"""

from __future__ import annotations

import dis
from functools import lru_cache
from itertools import pairwise
from sys import getrefcount
from types import CodeType, FrameType
from typing import Any, Final, final

from eagerflow.errors import TensorValueError
from eagerflow.source import Source

#: number of stack items for the key of a storing instruction
_KEYS: Final = {"STORE_SUBSCR": 1, "STORE_SLICE": 2}
#: instructions that make an object; all others load a named one
_MAKERS: Final = ("BINARY_", "CALL", "LOAD_ATTR")
_HINT: Final = (
    "write into the tensor itself, x[i, j] = v instead of x[i][j] = v; "
    "the result of x.T, x.reshape(...) or a call needs a name first"
)


@final
class _Probe:
    def __setitem__(self, key: Any, value: Any) -> None:
        _counts.append(_references(self, key, value))


def _references(x: Any, key: Any, value: Any) -> int:
    return getrefcount(x)


_counts: Final[list[int]] = []
_Probe()[0] = 0
#: result of `getrefcount` in `setitem` for a tensor without other references
HELD_BY_NONE: Final = _counts[0]


def check_held(x: Any, frame: FrameType) -> None:
    """Refuse a write into a temporary tensor, to which only the write refers.

    Args:
        x: the tensor.
        frame: the frame that writes.

    Raises:
        TensorValueError: the write would be lost.
    """
    if _is_made(frame.f_code, frame.f_lasti):
        raise TensorValueError(
            "a write into a tensor without a name would be lost",
            given=str(x.type),
            hint=_HINT,
            source=Source(frame.f_code, frame.f_lasti),
        )


@lru_cache(maxsize=256)
def _is_made(code: CodeType, offset: int) -> bool:
    """Whether an instruction writes into the result of an expression, not into a named object."""
    before = [step for step in dis.get_instructions(code) if step.offset <= offset]
    last = before.pop()
    if last.opname not in _KEYS:
        return False
    # below the key on the stack; if it is also read (`+=`) the new value is still above it
    wanted = _KEYS[last.opname] + before[-1].opname.startswith("SWAP")
    above = 0
    for maker, step in reversed([*pairwise(before)]):
        above += dis.stack_effect(step.opcode, step.arg, jump=False)
        if above == wanted:
            return str(maker.opname).startswith(_MAKERS)
    return False
