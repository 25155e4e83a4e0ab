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
_NAMES: Final = ("LOAD_GLOBAL", "LOAD_DEREF")
_SETS: Final = ("STORE_GLOBAL", "STORE_DEREF", "DELETE_GLOBAL", "DELETE_DEREF")
#: instructions after which the next one is not reached
_ENDS: Final = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD",
                "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")  # fmt: skip


def unreached(site: Site, value_of: Callable[[Site, Load], Any]) -> frozenset[int]:
    """The offsets of instructions that cannot be reached with the present values of flags.

    Args:
        site: the code.
        value_of: gives the value of a name with its attributes.
    """
    instructions = list(dis.get_instructions(site.code))
    decided = _decided(site, instructions, value_of)
    if not decided:
        return frozenset()
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


def _decided(
    site: Site, instructions: list[dis.Instruction], value_of: Callable[[Site, Load], Any]
) -> dict[int, bool]:
    """Offsets of conditional jumps that flags decide, with whether they jump."""
    loads = {load.offset: load for load in facts_of(site.code).loads}
    changed = {i.argval for i in instructions if i.opname in _SETS}
    decided: dict[int, bool] = {}
    load: Load | None = None
    attributes = 0
    for instruction in instructions:
        name = instruction.opname
        if name in _NAMES:
            load, attributes = loads.get(instruction.offset), 0
        elif name == "LOAD_ATTR":
            attributes += 1
        elif "JUMP" in name and name.endswith(("_IF_TRUE", "_IF_FALSE")):
            if load is not None and load.name not in changed and not load.keys:
                value = value_of(site, load) if len(load.attributes) == attributes else load
                if type(value) in _FLAGS:
                    decided[instruction.offset] = bool(value) == name.endswith("_IF_TRUE")
            load = None
        elif name not in ("CACHE", "TO_BOOL", "EXTENDED_ARG", "NOT_TAKEN"):
            load = None
    return decided
