"""Code made unreachable by captured flags, as in ``if VERBOSE: print(x)``.

A flag is a bool, a number, a text or None that is the value of a global name or a cell, or of an
attribute of these. The flag is guarded: where it changes there is another trace, for which the
code is analysed anew.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from itertools import pairwise
from types import NoneType
from typing import Any, Final

from eagerflow.capture.bytecode import facts_of
from eagerflow.capture.code_facts import Load
from eagerflow.capture.reads import Site

_FLAGS: Final = (bool, int, float, str, NoneType)
_NAMES: Final = ("global", "cell")
#: instructions after which the next one is not reached
_ENDS: Final = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD",
                "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")  # fmt: skip


def unreached(site: Site, value_of: Callable[[Site, Load], Any]) -> frozenset[int]:
    """The offsets of instructions that cannot be reached with the present values of flags.

    Args:
        site: the code.
        value_of: gives the value of a name with its attributes.
    """
    decided = _decided(site, value_of)
    if not decided:
        return frozenset()
    instructions = list(dis.get_instructions(site.code))
    after = {a.offset: b.offset for a, b in pairwise(instructions)}
    by_offset = {i.offset: i for i in instructions}
    handlers = [i.offset for i in instructions if i.opname == "PUSH_EXC_INFO"]
    waiting, met = [instructions[0].offset, *handlers], set[int]()
    while waiting:
        offset = waiting.pop()
        if offset in met or offset not in by_offset:
            continue
        met.add(offset)
        instruction = by_offset[offset]
        jumps = decided.get(offset)
        if jumps is not True and instruction.opname not in _ENDS:
            waiting.append(after.get(offset, -1))
        if jumps is not False and instruction.opcode in (*dis.hasjrel, *dis.hasjabs):
            waiting.append(instruction.argval)
    return frozenset(by_offset.keys() - met)


def _decided(site: Site, value_of: Callable[[Site, Load], Any]) -> dict[int, bool]:
    """Offsets of conditional jumps that flags decide, with whether they jump."""
    facts = facts_of(site.code)
    decided: dict[int, bool] = {}
    for offset, (load, attributes, jumps) in facts.tests.items():
        named = load.kind in _NAMES and not load.keys and len(load.attributes) == attributes
        if named and (load.kind, load.name) not in facts.stores:
            value = value_of(site, load)
            if type(value) in _FLAGS:
                decided[offset] = bool(value) is jumps
    return decided
