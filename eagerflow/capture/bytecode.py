"""Static analysis of code objects: names that the instructions read and write. Nothing is run.

The results are `capture/code_facts.py`. Instructions differ between versions of Python; the tables
have those of all supported ones.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any, Final, final
from weakref import ref

from eagerflow.capture.code_facts import UNNAMED, Facts, Load

# --- the instructions of CPython ------------------------------------------------------------------

_GLOBALS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_CELLS: Final = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"})
#: instructions that read a name -> kind of name
_NAME_KINDS: Final = {
    **dict.fromkeys(_GLOBALS, "global"), **dict.fromkeys(_CELLS, "cell"),
    **dict.fromkeys(_ATTRIBUTES, "attribute"),
}  # fmt: skip
#: instructions that write an item
_SUBSCRIPT_STORES: Final = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"})
#: instructions that write a name -> kind of name
_STORES: Final = {
    "STORE_GLOBAL": "global",
    "DELETE_GLOBAL": "global",
    "STORE_DEREF": "cell",
    "DELETE_DEREF": "cell",
    "STORE_ATTR": "attribute",
    "DELETE_ATTR": "attribute",
}
#: instructions that bind a value to a name, by which it may be used later
_BINDINGS: Final = frozenset({"STORE_FAST", "STORE_DEREF", "STORE_GLOBAL", "STORE_NAME"})
#: instructions whose topmost value is the owner of an attribute
_ATTRIBUTE_USES: Final = _ATTRIBUTES | {"STORE_ATTR", "DELETE_ATTR"}
#: the arguments of BINARY_OP for ``%`` and ``%=``
_REMAINDERS: Final = frozenset({6, 19})
#: prefixes of instructions that test, loop or catch (``while True`` only jumps back), that make
#: texts (FORMAT_VALUE, which 3.13 has divided), and that raise
_BRANCHING: Final = (
    "POP_JUMP", "JUMP_IF", "JUMP_BACKWARD", "FOR_ITER", "UNARY_NOT", "CONTAINS_OP", "TO_BOOL",
    "PUSH_EXC_INFO", "FORMAT_", "RAISE_VARARGS",
)  # fmt: skip
#: instructions that push a value and pop none
_PUSHES: Final = frozenset({"LOAD_CONST", "LOAD_FAST", "LOAD_CLOSURE", *_GLOBALS, *_CELLS})
#: instructions that pop values and push one -> number of values popped
_TAKES: Final = {
    "LOAD_ATTR": 1, "LOAD_METHOD": 1, "LOAD_SUPER_ATTR": 3, "BINARY_OP": 2, "BINARY_SUBSCR": 2,
    "COMPARE_OP": 2, "CONTAINS_OP": 2, "IS_OP": 2, "GET_ITER": 1, "TO_BOOL": 1,
    "CONVERT_VALUE": 1, "FORMAT_SIMPLE": 1, "FORMAT_WITH_SPEC": 2, "IMPORT_NAME": 2,
    "IMPORT_FROM": 0, "UNARY_NEGATIVE": 1, "UNARY_NOT": 1, "UNARY_INVERT": 1,
    "SET_FUNCTION_ATTRIBUTE": 2,
}  # fmt: skip
#: instructions that build a container or text -> number of values per element counted
_BUILDS: Final = {
    "BUILD_TUPLE": 1, "BUILD_LIST": 1, "BUILD_SET": 1, "BUILD_STRING": 1, "BUILD_MAP": 2,
}  # fmt: skip
#: instructions that pop values and push none -> number of values popped
_DROPS: Final = {
    "POP_TOP": 1, "STORE_FAST": 1, "STORE_GLOBAL": 1, "STORE_DEREF": 1, "STORE_NAME": 1,
    "STORE_ATTR": 2, "STORE_SUBSCR": 3, "RETURN_VALUE": 1,
}  # fmt: skip
#: instructions that compare, hash or format values
_INSPECTS: Final = frozenset({
    "COMPARE_OP", "CONTAINS_OP", "BINARY_SUBSCR", "BUILD_SET", "BUILD_MAP",
    "FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE",
})  # fmt: skip
#: instructions that make a new value
_MAKES: Final = frozenset({
    "LOAD_CONST", "BINARY_OP", "COMPARE_OP", "CONTAINS_OP", "IS_OP", "BUILD_STRING",
    "MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE",
})  # fmt: skip


def _instructions(code: CodeType) -> Iterator[tuple[int, str, Any]]:
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


def _popped(op: str, arg: Any) -> int | None:
    """Number of values that an instruction pops, if that is known."""
    if op == "CALL":
        return int(arg) + 1
    if op in _BUILDS:
        return int(arg) * _BUILDS[op]
    if op == "FORMAT_VALUE":
        return 1 + bool(arg[1])
    if op == "MAKE_FUNCTION":  # one more for each bit, until Python 3.13
        return 1 + int(arg or 0).bit_count()
    if op.startswith("POP_JUMP"):
        return 1
    return _TAKES.get(op, _DROPS.get(op))


# --- names with a meaning of their own ---------------------------------------------------------

#: functions that look up an attribute whose name is a value
_REFLECTING: Final = frozenset({"getattr", "hasattr", "attrgetter", "methodcaller"})
#: places of names among their arguments, if not the second
_PLACES: Final = {"attrgetter": slice(None), "methodcaller": slice(1)}
#: functions of an object and the name of an attribute, or of all its attributes
_ACCESSORS: Final = frozenset({"getattr", "hasattr", "setattr", "delattr", "vars"})
#: functions and methods that make texts of values
FORMATTERS: Final = frozenset({
    "ascii", "encode", "format", "format_map", "imod", "mod", "pformat", "print", "repr",
    "safe_substitute", "str", "substitute", "__format__", "__mod__", "__repr__", "__str__",
})  # fmt: skip
_WHOLE: Final = frozenset({
    "vars", "dir", "getattr_static", "getmembers", "getmembers_static",
    "__dict__", "__dir__", "__getattribute__",
})  # fmt: skip
#: functions that read attributes by computed names; code may give them another name
REFLECTIVE: Final = _REFLECTING | _WHOLE
#: names whose presence means that attributes may be set by names computed at run time
_COMPUTED: Final = frozenset({"vars", "exec", "eval", "globals", "__dict__", "__globals__"})
#: functions that set attributes by names that are arguments
_BY_NAME: Final = frozenset({"setattr", "delattr", "__setattr__", "__delattr__"})
#: name of the function that calls its first argument when a graph runs
_CALLS_LATER: Final = "py_call"


@final
@dataclass(slots=True, eq=False)
class _Value:
    """A value on the stack.

    Attributes:
        op: the instruction that made it.
        arg: its argument.
        loads: the loads of names that, with their attributes, denote it; the last has none.
        chain: the loads that are extended if an attribute or an item of it is read, each with the
            number of keys and attributes that it had.
        parts: the elements from which it was built here.
        code: of a function made here.
        origin: of an import, as in `Facts.aliases`.
        later: whether the value is passed to `ef.py_call`.
    """

    op: str
    arg: Any
    loads: tuple[Load, ...] = ()
    chain: tuple[tuple[Load, int], ...] = ()
    parts: list[_Value] | None = None
    code: CodeType | None = None
    origin: tuple[str, int, str] | None = None
    later: bool = False

    @property
    def name(self) -> tuple[str, str]:
        """Kind and name of the value; `UNNAMED` if it has no name outside."""
        return (_NAME_KINDS[self.op], self.arg) if self.op in _NAME_KINDS else UNNAMED

    @property
    def constant(self) -> bool:
        """Whether the value is a constant of the code."""
        return self.op == "LOAD_CONST"

    @property
    def number(self) -> bool:
        """Whether the value is a constant number."""
        return self.constant and isinstance(self.arg, int | float)

    @property
    def text(self) -> bool:
        """Whether the value is a constant text."""
        return self.constant and isinstance(self.arg, str)

    @property
    def new(self) -> bool:
        """Whether the value is made here, so that it cannot be an object from outside."""
        return self.op in _MAKES or self.op.startswith(("UNARY", "FORMAT"))


@final
class _Reader:
    """Simulates the stack along straight code; an unknown instruction empties the stack."""

    def __init__(self, code: CodeType) -> None:
        self.facts = Facts()
        self._stack: list[_Value] = []
        self._locals: list[_Value] = []
        self._made: list[_Value] = []  # functions
        self._kept: list[tuple[str, _Value]] = []  # local names of functions
        #: number of calls that read, and that set, an attribute by a constant name
        self._constant_names = self._constant_stores = 0
        self._matches = False  # whether a class pattern of `match` reads attributes by name
        for offset, op, arg in _instructions(code):
            self._matches |= op == "MATCH_CLASS"
            self.facts.branches |= op.startswith(_BRANCHING)
            self.facts.calls |= op.startswith("CALL")
            self._step(offset, op, arg)
        self._finish(code)

    def _step(self, offset: int, op: str, arg: Any) -> None:
        stack, facts = self._stack, self.facts
        if op in _STORES:
            facts.stores.setdefault((_STORES[op], arg), offset)
        elif op in _SUBSCRIPT_STORES and facts.subscript_store is None:
            facts.subscript_store = offset
        if op in ("COPY", "SWAP") and arg <= len(stack):
            if op == "COPY":
                stack.append(stack[-arg])
            else:
                stack[-1], stack[-arg] = stack[-arg], stack[-1]
            return
        self._note_top(op, arg)
        count = 0 if op in _PUSHES else _popped(op, arg)
        made = _Value(op, arg)
        if count is None or len(stack) < count:
            self._inspect(stack)
            stack.clear()
            if op in _NAME_KINDS:
                self._name(offset, made, [])
                stack.append(made)
            return
        taken = stack[len(stack) - count :]
        del stack[len(stack) - count :]
        if op in _BINDINGS and any(value is taken[0] for value in stack):
            self._keep(taken[0])
        self._note_jump(offset, made, taken)
        self._note(made, taken)
        if op in _NAME_KINDS or (op == "LOAD_FAST" and arg in facts.aliases):
            self._name(offset, made, taken)
        if op not in _DROPS and not op.startswith("POP_JUMP"):
            stack.append(made)

    def _note_top(self, op: str, arg: Any) -> None:
        """Note facts that follow from the topmost values, also where the stack below is unknown."""
        stack = self._stack
        if op == "CALL" and 0 < arg < len(stack) and stack[-arg - 1].arg in _REFLECTING:
            place = _PLACES.get(stack[-arg - 1].arg, slice(1, 2))
            self._constant_names += all(value.text for value in stack[-arg:][place])
        elif op == "STORE_SUBSCR" and len(stack) >= 2 and stack[-1].constant:
            for load, length in stack[-2].chain:
                if not load.attributes and len(load.keys) == length:
                    load.stored = (stack[-1].arg,)
        elif op in _ATTRIBUTE_USES and stack:
            self.facts.owners.add(stack[-1].name[1])

    def _name(self, offset: int, made: _Value, taken: Sequence[_Value]) -> None:
        """Note a load, which may extend earlier ones by an attribute."""
        load = Load(_NAME_KINDS.get(made.op, "local"), made.arg, offset)
        self.facts.loads.append(load)
        if load.kind == "attribute":
            self.facts.attributes.add(made.arg)
        before = taken[0].chain if made.op in ("LOAD_ATTR", "LOAD_METHOD") and taken else ()
        goes_on = [x for x, n in before if len(x.keys) + len(x.attributes) == n
                   and not (x.keys and x.attributes)]  # fmt: skip
        for x in goes_on:
            x.attributes += (made.arg,)
        made.loads = (*[x for x in goes_on if not x.keys], load)
        made.chain = tuple([(x, len(x.keys) + len(x.attributes)) for x in (*goes_on, load)])

    def _keep(self, value: _Value) -> None:
        """Note that a value is bound to a name and used at once as well: ``(d := cfg)["lr"]``.

        Uses by that name are not seen here, so they count as loads of the whole value.
        """
        self.facts.loads += [replace(load) for load, _ in value.chain]

    def _note_jump(self, offset: int, made: _Value, taken: list[_Value]) -> None:
        """Note the name that a conditional jump tests."""
        if made.op == "TO_BOOL":
            made.loads = taken[0].loads
        elif made.op.startswith("POP_JUMP") and made.op.endswith(("_IF_TRUE", "_IF_FALSE")):
            for load in taken[0].loads[:1]:
                jumps = made.op.endswith("_IF_TRUE")
                self.facts.tests[offset] = load, len(load.attributes), jumps

    def _note(self, made: _Value, taken: list[_Value]) -> None:
        op = made.op
        if op == "LOAD_FAST":
            self._locals.append(made)
        elif op == "CALL":
            self._note_call(*taken)
        elif op == "BINARY_OP":
            for load in (load for value in taken for load in value.loads):
                load.operand = True
            if made.arg in _REMAINDERS and not (taken[1].constant or taken[0].number):
                self.facts.formats = True  # "%s" % value
                self._inspect(taken[1:])
        elif op in _INSPECTS:
            self._note_inspection(made, taken)
        elif op == "IS_OP":
            self.facts.asks_identity |= not any(value.constant for value in taken)
        elif op in _BUILDS:
            made.parts = taken
        elif op in ("MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE"):
            code = taken[-1].arg if op == "MAKE_FUNCTION" else taken[-1].code
            made.code = code if isinstance(code, CodeType) else None
            self._made.append(made)
        elif op in ("IMPORT_NAME", "IMPORT_FROM"):
            self._note_import(made, taken)
        elif op == "STORE_FAST":
            self._note_local(made.arg, taken[0])

    def _note_local(self, name: str, value: _Value) -> None:
        if value.code is not None:
            self._kept.append((name, value))
        if value.origin is not None:
            module, level, attribute = value.origin
            top = module.partition(".")[0]
            plain = value.op == "IMPORT_NAME" and name == top
            self.facts.aliases[name] = (top if plain else module, level, attribute)

    def _note_import(self, made: _Value, taken: list[_Value]) -> None:
        if made.op == "IMPORT_NAME":
            level = taken[0].arg if isinstance(taken[0].arg, int) else 0
            self.facts.imports.append((made.arg, level))
            made.origin, made.parts = (made.arg, level, ""), taken[1:] if taken[1].arg else None
        elif self._stack and self._stack[-1].origin is not None:
            module, level, _ = self._stack[-1].origin
            # without a list of names, as in `import a.b as c`, the name is the module itself
            made.origin = (module, level, made.arg if self._stack[-1].parts else "")

    def _note_call(self, callee: _Value, *given: _Value) -> None:
        name = callee.arg
        base = next((x for x in callee.loads if x.kind != "attribute"), None)
        for load in callee.loads[-1:]:
            load.direct = True
        asks = name == "get" and given[:1] and given[0].constant
        if asks:
            self._note_test(callee, ("get",), given[0].arg)
        for value in given:
            for load in value.loads[-1:]:
                load.callee = base
            parts = [value] if value.parts is None else value.parts
            if not asks:
                self.facts.given += [(x.name, base, name) for x in parts if not x.constant]
        if not given:
            for load in callee.loads:
                load.called = True
        elif name == _CALLS_LATER:
            given[0].later = True
            for load in given[0].loads:
                load.later = load.whole
        if name in _ACCESSORS and given:
            self.facts.owners.add(given[0].name[1])
        if callee.op in _NAME_KINDS and name in _BY_NAME:
            of_object = callee.op not in _ATTRIBUTES or (base is not None and base.name == "object")
            self._constant_stores += any(x.text for x in given[int(of_object) :][:1])

    def _note_inspection(self, made: _Value, taken: list[_Value]) -> None:
        op = made.op
        if op == "BINARY_SUBSCR":  # of the container only the item is read
            container, key = taken
            goes_on = [x for x, n in container.chain if not x.attributes and len(x.keys) == n]
            if key.constant:
                for load in goes_on:
                    load.keys += (key.arg,)
                made.chain = tuple([(load, len(load.keys)) for load in goes_on])
            taken = [key]
        elif op == "CONTAINS_OP" and taken[0].constant:
            self._note_test(taken[1], (), taken[0].arg)
            taken = []
        elif op in _BUILDS:
            made.parts = taken
        self.facts.formats |= op.startswith(("FORMAT", "CONVERT"))
        # a comparison with a constant inspects no object that holds others
        if op != "COMPARE_OP" or not any(value.constant for value in taken):
            self._inspect(taken)

    def _note_test(self, value: _Value, attributes: tuple[str, ...], key: Any) -> None:
        """Note that a key is looked up in a dict, by ``in`` or a method."""
        for load, length in value.chain:
            if load.attributes == attributes and len(load.keys) + len(attributes) == length:
                load.tested = (key,)

    def _inspect(self, values: Sequence[_Value]) -> None:
        """Note values that may be inspected, with the elements of those built here."""
        for one in values:
            if one.op in _BUILDS and one.parts is not None:
                self._inspect(one.parts)
            elif not one.new:
                self.facts.inspected.add(one.name)

    # --- the whole ---

    def _finish(self, code: CodeType) -> None:
        facts = self.facts
        facts.globals = {load.name for load in facts.loads if load.kind == "global"}
        used = facts.globals | facts.attributes
        facts.formats |= not FORMATTERS.isdisjoint(used)
        self._find_reflection(code, used)
        facts.later = {(x.kind, x.name) for x in facts.loads if x.later}
        facts.later -= {(x.kind, x.name) for x in facts.loads if not x.later}
        facts.attributes -= {name for kind, name in facts.later if kind == "attribute"}
        read = {value.arg for value in self._locals if not value.later}
        asked = {value.arg for value in self._locals if value.later}
        hidden = {id(value.code) for value in self._made if value.later}
        hidden |= {id(value.code) for name, value in self._kept if name in asked - read}
        facts.codes = [c for c in code.co_consts if isinstance(c, CodeType) and id(c) not in hidden]

    def _find_reflection(self, code: CodeType, used: set[str]) -> None:
        facts, names = self.facts, [load.name for load in self.facts.loads]
        facts.every_attribute = not used.isdisjoint(_WHOLE)
        facts.sets_by_name = sum(name in _BY_NAME for name in names) > self._constant_stores
        facts.computed_stores = facts.sets_by_name or not _COMPUTED.isdisjoint(code.co_names)
        constants = frozenset(_strings(code.co_consts))
        if "setattr" in used or "delattr" in used or "__setattr__" in used:
            for name in constants:
                facts.stores.setdefault(("attribute", name), 0)
        if not _REFLECTING.isdisjoint(names):
            facts.strings = constants
            facts.formats |= not FORMATTERS.isdisjoint(constants)
            asked = sum(name in _REFLECTING for name in names)
            facts.every_attribute |= asked > self._constant_names
        elif self._matches:
            facts.strings = constants


def _strings(constants: tuple[Any, ...]) -> Iterator[str]:
    for value in constants:
        if isinstance(value, str):
            for part in value.split("."):
                if part.isidentifier():
                    yield part
        elif isinstance(value, tuple):
            yield from _strings(value)


def nested(code: CodeType) -> list[CodeType]:
    """A code object and those nested in it: inner functions, classes, comprehensions.

    Functions passed to `ef.py_call` are left out: they are not called while tracing.
    """
    codes = [code]
    for one in codes:
        codes += facts_of(one).codes
    return codes


#: by id of the code object; the weak reference shows whether it is still the same object
_known: Final[dict[int, tuple[ref[CodeType], Facts]]] = {}


def facts_of(code: CodeType) -> Facts:
    """The facts of a code object, computed once."""
    key = id(code)
    entry = _known.get(key)
    if entry is not None and entry[0]() is code:
        return entry[1]
    facts = _Reader(code).facts
    _known[key] = (ref(code, lambda _: _known.pop(key, None)), facts)
    return facts
