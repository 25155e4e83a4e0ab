"""What a code object reads and writes by name, as its instructions say. Nothing is run.

Names are all that is looked at: which object an attribute is taken of is not known here. So what
is reported is more than what happens, and never less, but for names that are made at run time.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any, Final, NamedTuple, final
from weakref import ref

_GLOBALS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_CELLS: Final = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"})
_SUBSCRIPT_STORES: Final = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"})
#: what writes a name: instruction -> kind of name
_STORES: Final = {
    "STORE_GLOBAL": "global",
    "DELETE_GLOBAL": "global",
    "STORE_DEREF": "cell",
    "DELETE_DEREF": "cell",
    "STORE_ATTR": "attribute",
    "DELETE_ATTR": "attribute",
}
#: functions that look up an attribute whose name is a value
_REFLECTING: Final = frozenset({"getattr", "hasattr", "attrgetter", "methodcaller"})
_FORMATTERS: Final = frozenset({"ascii", "format", "print", "repr", "str"})
_WHOLE: Final = frozenset({"vars", "dir", "__dict__", "__getattribute__", "getattr_static"})


class Load(NamedTuple):
    """One instruction by which a name is read.

    Attributes:
        kind: ``"global"``, ``"cell"``, ``"attribute"`` or ``"local"``.
        name: the name.
        keys: the constant subscripts that follow at once, as in ``cfg["opt"]["lr"]``.
        attributes: or the attributes that follow at once, as in ``np.random.normal``; after
            subscripts the first one.
        offset: of the instruction.
        stored: the key of the item that is stored there, so that nothing is read.
        end: offset of the last of its attributes, or of itself.
    """

    kind: str
    name: str
    keys: tuple[Any, ...]
    attributes: tuple[str, ...]
    offset: int
    stored: tuple[Any, ...]
    end: int


@final
class Facts:
    """What is known of a code object, those inside of it not included.

    Attributes:
        loads: the names that are read.
        globals: the global names that are read.
        attributes: the names of attributes that are read.
        stores: what is written: (kind, name) -> offset of the first instruction that does.
        subscript_store: offset of the first instruction that stores an item, or None.
        imports: (module, level, offset), with the local name for `Load`.
        aliases: local name -> (module, level, attribute) for imports in the function.
        strings: constants that may be the names of attributes.
        every_attribute: whether attributes are read whose names are made at run time.
        calls: the offsets of what is called without arguments.
        arguments: for values that are just loaded and passed on, by the offset of their load,
            the offset of that of the function.
        given: kind and name of what is passed on, as in ``inspected``, with the offset of the load
            of the function and the name at its end.
        operands: the offsets of loads of values that are operands of ``+``, ``@``, ….
        inspected: kind and name of what is compared, formatted or made a key; ``("", "")`` stands
            for values without a name that are.
        loads_by_end: the loads of names, by the offset of the last of their attributes.
        formats: whether texts of values are made.
        asks_identity: whether ``is`` or `id` tells objects apart.
        later: kind and name of what is only read to be called by `ef.py_call`, in each run.
        codes: the code objects inside, but for those of functions that are made for it.
    """

    __slots__ = (
        "aliases", "arguments", "asks_identity", "attributes", "calls", "codes", "every_attribute",
        "formats", "given", "globals", "imports", "inspected", "later", "loads", "loads_by_end",
        "operands", "stores", "strings", "subscript_store",
    )  # fmt: skip

    def __init__(self, code: CodeType) -> None:
        self.loads: list[Load] = []
        self.stores: dict[tuple[str, str], int] = {}
        self.subscript_store: int | None = None
        self.imports: list[tuple[str, int, int]] = []
        self.aliases: dict[str, tuple[str, int, str]] = {}
        self.attributes: set[str] = set()
        self.strings: set[str] = set()
        instructions = _plain(code)
        for i in range(len(instructions)):
            self._note(instructions, i)
        passed = _Stack(instructions)
        self.arguments, self.operands = passed.arguments, frozenset(passed.operands)
        self.given = [(passed.named(one), *callee) for one, callee in passed.given]
        self.calls = passed.bare
        self.inspected = frozenset(map(passed.named, passed.inspected))
        self.loads_by_end = {x.end: x for x in self.loads if x.kind != "attribute"}
        self.later = self._called_later(passed)
        hidden = set(map(id, passed.made_for_later()))
        self.codes = [c for c in code.co_consts if isinstance(c, CodeType) and id(c) not in hidden]
        self.globals = {load.name for load in self.loads if load.kind == "global"}
        self.formats = passed.formats or not _FORMATTERS.isdisjoint(self.globals | self.attributes)
        self.asks_identity = passed.asks_identity or "id" in self.globals
        self._find_reflection(code, instructions)

    def _called_later(self, passed: _Stack) -> frozenset[tuple[str, str]]:
        """Takes the attributes among them out of those that are read."""
        now, later = set[tuple[str, str]](), set[tuple[str, str]]()
        for load in self.loads:
            whole = not load.attributes and not load.keys
            (later if whole and load.end in passed.later else now).add((load.kind, load.name))
        self.attributes -= {name for kind, name in later - now if kind == "attribute"}
        return frozenset(later - now)

    def _note(self, instructions: list[tuple[int, str, Any]], i: int) -> None:
        offset, op, name = instructions[i]
        if op in _GLOBALS:
            self.loads.append(_load("global", instructions, i))
        elif op in _CELLS:
            self.loads.append(_load("cell", instructions, i))
        elif op in _ATTRIBUTES:
            self.attributes.add(name)
            self.loads.append(_load("attribute", instructions, i))
        elif op in _STORES:
            self.stores.setdefault((_STORES[op], name), offset)
        elif op == "LOAD_FAST" and name in self.aliases:
            self.loads.append(_load("local", instructions, i))
        elif op in _SUBSCRIPT_STORES:
            if self.subscript_store is None:
                self.subscript_store = offset
        elif op == "IMPORT_NAME":
            self._note_import(instructions, i)

    def _note_import(self, instructions: list[tuple[int, str, Any]], i: int) -> None:
        offset, _, module = instructions[i]
        level = instructions[i - 2][2] if i >= 2 and instructions[i - 2][1] == "LOAD_CONST" else 0
        level = level if isinstance(level, int) else 0
        self.imports.append((module, level, offset))
        i += 1
        while i + 1 < len(instructions) and instructions[i][1] == "IMPORT_FROM":
            if instructions[i + 1][1] == "STORE_FAST":
                self.aliases[instructions[i + 1][2]] = (module, level, instructions[i][2])
            i += 2
        if i < len(instructions) and instructions[i][1] == "STORE_FAST":
            plain = instructions[i][2] == module.partition(".")[0]
            top = module.partition(".")[0] if plain else module
            self.aliases[instructions[i][2]] = (top, level, "")

    def _find_reflection(self, code: CodeType, instructions: list[tuple[int, str, Any]]) -> None:
        used = self.globals | self.attributes
        self.every_attribute = not used.isdisjoint(_WHOLE)
        constants = list(_strings(code.co_consts))
        if "setattr" in used or "delattr" in used or "__setattr__" in used:
            for name in constants:
                self.stores.setdefault(("attribute", name), 0)
        if not used.isdisjoint(_REFLECTING):
            self.strings.update(constants)
            asked = sum(1 for _, op, x in instructions if op in _GLOBALS and x in _REFLECTING)
            if asked > sum(_names_constant(instructions, i) for i in range(len(instructions))):
                self.every_attribute = True
        elif any(op == "MATCH_CLASS" for _, op, _ in instructions):
            self.strings.update(constants)


def _plain(code: CodeType) -> list[tuple[int, str, Any]]:
    """The instructions as (offset, name, argument), those that do two things as two."""
    instructions: list[tuple[int, str, Any]] = []
    for one in dis.get_instructions(code):
        op, value = one.opname, one.argval
        if isinstance(value, tuple) and "FAST_" in op and op.count("_FAST") == 2:
            half = op.index("_FAST") + len("_FAST_")
            instructions.append((one.offset, op[: half - 1], value[0]))
            instructions.append((one.offset, op[half:], value[1]))
        elif op == "LOAD_FAST_CHECK" or op == "LOAD_FAST_BORROW":
            instructions.append((one.offset, "LOAD_FAST", value))
        elif op not in ("CACHE", "EXTENDED_ARG", "PRECALL", "PUSH_NULL", "RESUME", "KW_NAMES"):
            instructions.append((one.offset, op, value))
    return instructions


def _load(kind: str, instructions: list[tuple[int, str, Any]], i: int) -> Load:
    offset, _, name = instructions[i]
    keys: list[Any] = []
    attributes: list[str] = []
    stored: tuple[Any, ...] = ()
    rest = iter(range(i + 1, len(instructions)))
    for j in rest:
        _, op, value = instructions[j]
        if op in _ATTRIBUTES and not (keys and attributes):
            attributes.append(value)
        elif op == "LOAD_CONST" and not attributes:
            after = _after_copies(instructions, j + 1)
            if after is None or instructions[after][1] not in ("BINARY_SUBSCR", "STORE_SUBSCR"):
                break
            if instructions[after][1] == "STORE_SUBSCR":
                stored = (value,)
                break
            keys.append(value)
            if after != j + 1:
                break
            next(rest)
        else:
            break
    end = instructions[i + (0 if keys else len(attributes))][0]
    return Load(kind, name, tuple(keys), tuple(attributes), offset, stored, end)


def _after_copies(instructions: list[tuple[int, str, Any]], i: int) -> int | None:
    """The index of the first instruction from ``i`` on that does not copy the top (``+=`` does)."""
    while i < len(instructions) and instructions[i][1] == "COPY":
        i += 1
    return i if i < len(instructions) else None


def _names_constant(instructions: list[tuple[int, str, Any]], i: int) -> bool:
    """Whether a call has a constant string for its second argument, and perhaps a third one."""
    _, op, count = instructions[i]
    if not op.startswith("CALL") or count not in (2, 3) or i < count:
        return False
    _, before, value = instructions[i - count + 1]
    return before == "LOAD_CONST" and isinstance(value, str)


_PUSHES: Final = frozenset({"LOAD_CONST", "LOAD_FAST", "LOAD_CLOSURE", *_GLOBALS, *_CELLS})
#: what takes values and gives another one, and how many it takes
_TAKES: Final = {
    "LOAD_ATTR": 1, "LOAD_METHOD": 1, "BINARY_OP": 2, "BINARY_SUBSCR": 2, "COMPARE_OP": 2,
    "CONTAINS_OP": 2, "IS_OP": 2, "GET_ITER": 1, "TO_BOOL": 1, "CONVERT_VALUE": 1,
    "FORMAT_SIMPLE": 1, "FORMAT_WITH_SPEC": 2,
    "UNARY_NEGATIVE": 1, "UNARY_NOT": 1, "UNARY_INVERT": 1,
}  # fmt: skip
#: what makes one value of a number of them; of those with a factor, pairs
_BUILDS: Final = {
    "BUILD_TUPLE": 1, "BUILD_LIST": 1, "BUILD_SET": 1, "BUILD_STRING": 1, "BUILD_MAP": 2,
}  # fmt: skip
#: what takes values and gives none
_DROPS: Final = {
    "POP_TOP": 1, "STORE_FAST": 1, "STORE_GLOBAL": 1, "STORE_DEREF": 1, "STORE_NAME": 1,
    "STORE_ATTR": 2, "STORE_SUBSCR": 3, "RETURN_VALUE": 1,
}  # fmt: skip
#: what asks values how they compare, what their hash is, or for a text of them
_INSPECTS: Final = frozenset({
    "COMPARE_OP", "CONTAINS_OP", "BINARY_SUBSCR", "BUILD_SET", "BUILD_MAP",
    "FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE",
})  # fmt: skip
#: what makes a new value of others
_MAKES: Final = frozenset({
    "LOAD_CONST", "BINARY_OP", "COMPARE_OP", "CONTAINS_OP", "IS_OP", "BUILD_STRING",
    "MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE",
})  # fmt: skip
#: what calls its first argument when a graph runs
_CALLS_LATER: Final = "py_call"


@final
class _Stack:
    """Follows the stack along straight code; what it does not know makes it forget all.

    Attributes:
        arguments: see `Facts`.
        bare: see `Facts.calls`.
        given: the offsets of what is passed on, and of what gets it with the name at its end.
        operands: see `Facts`.
        later: the offsets of loads, or of makings, of functions that `ef.py_call` gets.
        inspected: the offsets of what made values that are inspected, or may be.
        formats: whether texts of values are made.
        asks_identity: whether ``is`` tells objects apart.
    """

    def __init__(self, instructions: list[tuple[int, str, Any]]) -> None:
        self.arguments: dict[int, int] = {}
        self.bare: set[int] = set()
        self.given: list[tuple[int, tuple[int, Any]]] = []
        self.operands: set[int] = set()
        self.later: set[int] = set()
        self.inspected: set[int] = set()
        self.formats = self.asks_identity = False
        self._made_by = {offset: (op, value) for offset, op, value in instructions}
        self._made: dict[int, CodeType] = {}  # by the offset of what makes a function
        self._parts: dict[int, list[int]] = {}  # of what is built, by its offset
        self._kept: list[tuple[str, CodeType]] = []  # local names of such
        self._stack: list[int] = []
        for offset, op, value in instructions:
            self._step(offset, op, value)
        self._loads = [(o, name) for o, op, name in instructions if op == "LOAD_FAST"]

    def named(self, offset: int) -> tuple[str, str]:
        """Kind and name of what is loaded there; ``("", "")`` if it has no name outside."""
        op, value = self._made_by[offset]
        kinds = (("global", _GLOBALS), ("cell", _CELLS), ("attribute", _ATTRIBUTES))
        return next(((kind, value) for kind, ops in kinds if op in ops), ("", ""))

    def _step(self, offset: int, op: str, value: Any) -> None:
        if op in _PUSHES:
            self._stack.append(offset)
            return
        if op in ("COPY", "SWAP") and value <= len(self._stack):
            stack = self._stack
            if op == "COPY":
                stack.append(stack[-value])
            else:
                stack[-1], stack[-value] = stack[-value], stack[-1]
            return
        count = self._count(op, value)
        if count is None or len(self._stack) < count:
            self._inspect(self._stack)
            self._stack.clear()
            return
        taken = self._stack[len(self._stack) - count :]
        del self._stack[len(self._stack) - count :]
        self._note(offset, op, value, taken)
        if op not in _DROPS and not op.startswith("POP_JUMP"):
            self._stack.append(offset)

    def _note(self, offset: int, op: str, value: Any, taken: list[int]) -> None:
        if op == "CALL":
            self._note_call(taken)
        elif op == "BINARY_OP":
            self.operands.update(taken)
            if self._is_text(taken[0]):  # "%s" % value
                self._inspect(taken[1:])
        elif op in _INSPECTS:
            self._note_inspection(op, taken)
        elif op == "IS_OP":
            self.asks_identity |= not any(map(self._is_constant, taken))
        elif op in _BUILDS:
            self._parts[offset] = taken
        elif op == "MAKE_FUNCTION" and isinstance(self._made_by[taken[-1]][1], CodeType):
            self._made[offset] = self._made_by[taken[-1]][1]
        elif op == "SET_FUNCTION_ATTRIBUTE" and taken[-1] in self._made:
            self._made[offset] = self._made[taken[-1]]
        elif op == "STORE_FAST" and taken[0] in self._made:
            self._kept.append((value, self._made[taken[0]]))

    def _note_call(self, taken: list[int]) -> None:
        callee, *given = taken
        self.arguments.update(dict.fromkeys(given, callee))
        for one in given:
            parts = self._parts.get(one, (one,))
            self.given += [
                (part, (callee, self._made_by[callee][1]))
                for part in parts
                if not self._is_constant(part)
            ]
        if not given:
            self.bare.add(callee)
        if self._made_by[callee][1] == _CALLS_LATER:
            self.later.update(given[:1])

    def _note_inspection(self, op: str, taken: list[int]) -> None:
        if op == "BINARY_SUBSCR":  # of the container nothing is asked but the item
            taken = taken[1:]
        self.formats |= op.startswith(("FORMAT", "CONVERT"))
        # what is compared with a constant says that it is another thing
        if op != "COMPARE_OP" or not any(map(self._is_constant, taken)):
            self._inspect(taken)

    def _inspect(self, values: list[int]) -> None:
        """Note what may be inspected, with the parts of what was built here."""
        for one in values:
            if one in self._parts:
                self._inspect(self._parts[one])
            elif not self._is_new(one):
                self.inspected.add(one)

    def _is_new(self, offset: int) -> bool:
        """Whether a value is made there, so that nothing outside is it."""
        op = self._made_by[offset][0]
        return op in _MAKES or op.startswith(("UNARY", "FORMAT"))

    def _is_constant(self, offset: int) -> bool:
        return self._made_by[offset][0] == "LOAD_CONST"

    def _is_text(self, offset: int) -> bool:
        op, value = self._made_by[offset]
        return op == "LOAD_CONST" and isinstance(value, str)

    def _count(self, op: str, value: Any) -> int | None:
        """How many values an instruction takes, if that is known."""
        if op == "CALL":
            return int(value) + 1
        if op in _BUILDS:
            return int(value) * _BUILDS[op]
        if op == "FORMAT_VALUE":
            return 1 + bool(value[1])
        if op == "MAKE_FUNCTION":  # one more for each bit, until Python 3.13
            return 1 + int(value or 0).bit_count()
        if op == "SET_FUNCTION_ATTRIBUTE":
            return 2
        if op.startswith("POP_JUMP"):
            return 1
        return _TAKES.get(op, _DROPS.get(op))

    def made_for_later(self) -> list[CodeType]:
        """The code of functions that are made here for nothing but to be called later."""
        codes = [code for offset, code in self._made.items() if offset in self.later]
        read = {name for offset, name in self._loads if offset not in self.later}
        asked = {name for offset, name in self._loads if offset in self.later}
        return codes + [code for name, code in self._kept if name in asked - read]


def _strings(constants: tuple[Any, ...]) -> Iterator[str]:
    for value in constants:
        if isinstance(value, str):
            for part in value.split("."):
                if part.isidentifier():
                    yield part
        elif isinstance(value, tuple):
            yield from _strings(value)


def nested(code: CodeType) -> list[CodeType]:
    """A code object and those inside of it: inner functions, classes, comprehensions.

    Functions that `ef.py_call` gets are left out: they are not called while tracing.
    """
    codes = [code]
    for one in codes:
        codes += facts_of(one).codes
    return codes


#: by id of the code object, which the weak reference shows to be the same
_known: Final[dict[int, tuple[ref[CodeType], Facts]]] = {}


def facts_of(code: CodeType) -> Facts:
    """The facts of a code object, worked out once."""
    key = id(code)
    entry = _known.get(key)
    if entry is not None and entry[0]() is code:
        return entry[1]
    facts = Facts(code)
    _known[key] = (ref(code, lambda _: _known.pop(key, None)), facts)
    return facts


#: names with which code sets attributes by names that do not show in it
_COMPUTED: Final = frozenset({"vars", "exec", "eval", "globals", "__dict__", "__globals__"})
#: and by names that are arguments
_BY_NAME: Final = frozenset({"setattr", "delattr", "__setattr__", "__delattr__"})


def sets_computed_names(code: CodeType) -> bool:
    """Whether code may set attributes whose names are made at run time."""
    if not _COMPUTED.isdisjoint(code.co_names):
        return True
    if _BY_NAME.isdisjoint(code.co_names):
        return False
    ops = [one for one in _plain(code) if one[1] != "COPY"]
    return any(
        name in _BY_NAME and op.startswith("LOAD_") and not _names_attribute(code, ops, i)
        for i, (_, op, name) in enumerate(ops)
    )


def _names_attribute(code: CodeType, ops: list[tuple[int, str, Any]], i: int) -> bool:
    """Whether what is loaded is called with a constant for the name of the attribute."""
    attribute = ops[i][1] not in ("LOAD_GLOBAL", "LOAD_NAME")
    i += 1
    if not attribute or ops[i - 2][2] == "object":  # the object comes first
        i += 1
        while i < len(ops) and ops[i][1] == "LOAD_ATTR":
            i += 1
    if i >= len(ops) or ops[i][1] != "LOAD_CONST" or not isinstance(ops[i][2], str):
        return False
    return _is_argument(code, ops[i][0])


def _is_argument(code: CodeType, offset: int) -> bool:
    """Whether the constant loaded at ``offset`` is an argument, and not the beginning of one.

    As in ``"w" + name``: then the stack holds what is made of it in its place, before the call.
    """
    depth = 1
    for one in dis.get_instructions(code):
        if one.offset > offset:
            depth += dis.stack_effect(one.opcode, one.arg, jump=False)
            if depth <= 1:
                return depth < 1
    return False
