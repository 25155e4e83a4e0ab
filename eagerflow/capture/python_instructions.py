"""The instructions of CPython: the names that they read and write, and their use of the stack.

Instructions differ between versions of Python; the tables have those of all supported ones.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any, Final

_GLOBALS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_CELLS: Final = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"})
#: instructions that read a name -> kind of name
NAME_KINDS: Final = {
    **dict.fromkeys(_GLOBALS, "global"), **dict.fromkeys(_CELLS, "cell"),
    **dict.fromkeys(ATTRIBUTES, "attribute"),
}  # fmt: skip
#: instructions that write an item
SUBSCRIPT_STORES: Final = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"})
#: instructions that write a name -> kind of name
STORES: Final = {
    "STORE_GLOBAL": "global",
    "DELETE_GLOBAL": "global",
    "STORE_DEREF": "cell",
    "DELETE_DEREF": "cell",
    "STORE_ATTR": "attribute",
    "DELETE_ATTR": "attribute",
}
#: instructions that bind a value to a name, by which it may be used later
BINDINGS: Final = frozenset({"STORE_FAST", "STORE_DEREF", "STORE_GLOBAL", "STORE_NAME"})
#: instructions whose topmost value is the owner of an attribute
ATTRIBUTE_USES: Final = ATTRIBUTES | {"STORE_ATTR", "DELETE_ATTR"}
#: the arguments of BINARY_OP for ``%`` and ``%=``
REMAINDERS: Final = frozenset({6, 19})
#: prefixes of instructions that test, loop or catch (``while True`` only jumps back), that make
#: texts (FORMAT_VALUE, which 3.13 has divided), and that raise
BRANCHING: Final = (
    "POP_JUMP", "JUMP_IF", "JUMP_BACKWARD", "FOR_ITER", "UNARY_NOT", "CONTAINS_OP", "TO_BOOL",
    "PUSH_EXC_INFO", "FORMAT_", "RAISE_VARARGS",
)  # fmt: skip
#: instructions that push a value and pop none
PUSHES: Final = frozenset({"LOAD_CONST", "LOAD_FAST", "LOAD_CLOSURE", *_GLOBALS, *_CELLS})
#: instructions that pop values and push one -> number of values popped
_TAKES: Final = {
    "LOAD_ATTR": 1, "LOAD_METHOD": 1, "LOAD_SUPER_ATTR": 3, "BINARY_OP": 2, "BINARY_SUBSCR": 2,
    "COMPARE_OP": 2, "CONTAINS_OP": 2, "IS_OP": 2, "GET_ITER": 1, "TO_BOOL": 1,
    "CONVERT_VALUE": 1, "FORMAT_SIMPLE": 1, "FORMAT_WITH_SPEC": 2, "IMPORT_NAME": 2,
    "IMPORT_FROM": 0, "UNARY_NEGATIVE": 1, "UNARY_NOT": 1, "UNARY_INVERT": 1,
    "SET_FUNCTION_ATTRIBUTE": 2,
}  # fmt: skip
#: instructions that build a container or text -> number of values per element counted
BUILDS: Final = {
    "BUILD_TUPLE": 1, "BUILD_LIST": 1, "BUILD_SET": 1, "BUILD_STRING": 1, "BUILD_MAP": 2,
}  # fmt: skip
#: instructions that pop values and push none -> number of values popped
DROPS: Final = {
    "POP_TOP": 1, "STORE_FAST": 1, "STORE_GLOBAL": 1, "STORE_DEREF": 1, "STORE_NAME": 1,
    "STORE_ATTR": 2, "STORE_SUBSCR": 3, "RETURN_VALUE": 1,
}  # fmt: skip
#: instructions that compare, hash or format values
INSPECTS: Final = frozenset({
    "COMPARE_OP", "CONTAINS_OP", "BINARY_SUBSCR", "BUILD_SET", "BUILD_MAP",
    "FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE",
})  # fmt: skip
#: instructions that make a new value
MAKES: Final = frozenset({
    "LOAD_CONST", "BINARY_OP", "COMPARE_OP", "CONTAINS_OP", "IS_OP", "BUILD_STRING",
    "MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE",
})  # fmt: skip


def instructions(code: CodeType) -> Iterator[tuple[int, str, Any]]:
    """The instructions as (offset, name, argument); combined ones are split into two."""
    for one in dis.get_instructions(code):
        op, value = one.opname, one.argval
        if isinstance(value, tuple) and "FAST_" in op and op.count("_FAST") == 2:
            half = op.index("_FAST") + len("_FAST_")
            yield one.offset, op[: half - 1], value[0]
            yield one.offset, op[half:], value[1]
        elif op == "LOAD_FAST_CHECK" or op == "LOAD_FAST_BORROW":
            yield one.offset, "LOAD_FAST", value
        elif op not in ("CACHE", "EXTENDED_ARG", "PRECALL", "PUSH_NULL", "RESUME", "KW_NAMES"):
            yield one.offset, op, value


def popped(op: str, arg: Any) -> int | None:
    """Number of values that an instruction pops, if that is known."""
    if op == "CALL":
        return int(arg) + 1
    if op in BUILDS:
        return int(arg) * BUILDS[op]
    if op == "FORMAT_VALUE":
        return 1 + bool(arg[1])
    if op == "MAKE_FUNCTION":  # one more for each bit, until Python 3.13
        return 1 + int(arg or 0).bit_count()
    if op.startswith("POP_JUMP"):
        return 1
    return _TAKES.get(op, DROPS.get(op))
