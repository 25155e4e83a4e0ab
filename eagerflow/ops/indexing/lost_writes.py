"""Writes that are lost: ``x[i][j] = v`` writes into the tensor that ``x[i]`` made.

In NumPy that is a view of ``x``; here a tensor is a value, and nobody sees this one again.
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

#: how many items an instruction that writes takes for its key
_KEYS: Final = {"STORE_SUBSCR": 1, "STORE_SLICE": 2}
#: what makes an object; all else gives one that has a name
_MAKERS: Final = ("BINARY_", "CALL", "LOAD_ATTR")
_HINT: Final = (
    "write into the tensor itself, x[i, j] = v instead of x[i][j] = v; "
    "what x.T, x.reshape(...) or a call gives needs a name first"
)


@final
class _Probe:
    def __setitem__(self, key: Any, value: Any) -> None:
        _counts.append(_references(self, key, value))


def _references(x: Any, key: Any, value: Any) -> int:
    return getrefcount(x)


_counts: Final[list[int]] = []
_Probe()[0] = 0
#: what `getrefcount` gives in `setitem` for a tensor that nobody holds
HELD_BY_NONE: Final = _counts[0]


def check_held(x: Any, frame: FrameType) -> None:
    """Refuse to write into a tensor that an expression made and that only the write refers to.

    Args:
        x: the tensor.
        frame: the frame that writes.

    Raises:
        TensorValueError: the write would be lost.
    """
    if _is_made(frame.f_code, frame.f_lasti):
        raise TensorValueError(
            "a write into a tensor that nothing holds would be lost",
            given=str(x.type),
            hint=_HINT,
            source=Source(frame.f_code, frame.f_lasti),
        )


@lru_cache(maxsize=256)
def _is_made(code: CodeType, offset: int) -> bool:
    """Whether an instruction writes into what an expression makes, and not into what has a name."""
    before = [step for step in dis.get_instructions(code) if step.offset <= offset]
    last = before.pop()
    if last.opname not in _KEYS:
        return False
    # below the key on the stack; if it is read as well (`+=`) the new value is still above it
    wanted = _KEYS[last.opname] + before[-1].opname.startswith("SWAP")
    above = 0
    for maker, step in reversed([*pairwise(before)]):
        above += dis.stack_effect(step.opcode, step.arg, jump=False)
        if above == wanted:
            return str(maker.opname).startswith(_MAKERS)
    return False
