"""What is known of a code object by its instructions alone: the names that it reads and writes.

The owner of an attribute is not known. So the facts say more than happens, and never less, but for
names that are made at run time. They are found by `capture/bytecode.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Final, final

#: kind and name of values without a name
UNNAMED: Final = ("", "")


@final
@dataclass(slots=True, eq=False)
class Load:
    """An instruction that reads a name.

    Attributes:
        kind: ``"global"``, ``"cell"``, ``"attribute"`` or ``"local"``.
        name: the name.
        offset: of the instruction.
        keys: the constant subscripts that follow at once, as in ``cfg["opt"]["lr"]``.
        attributes: or the attributes that follow at once, as in ``np.random.normal``; after
            subscripts the first one.
        stored: the key of an item that is stored in the value, so that nothing is read.
        tested: the key that is looked up in it, as in ``"lr" in cfg`` and ``cfg.get("lr")``.
        callee: the load of the function that gets the value as an argument.
        called: whether the value is called without arguments.
        direct: whether the value is called, and used in no other way.
        operand: whether the value is an operand of ``+``, ``@``, ….
        later: whether the value is passed to `ef.py_call`, which calls it in each run.
    """

    kind: str
    name: str
    offset: int
    keys: tuple[Any, ...] = ()
    attributes: tuple[str, ...] = ()
    stored: tuple[Any, ...] = ()
    tested: tuple[Any, ...] = ()
    callee: Load | None = None
    called: bool = False
    direct: bool = False
    operand: bool = False
    later: bool = False

    @property
    def whole(self) -> bool:
        """Whether the value itself is used, and not a part of it."""
        return not (self.keys or self.attributes)


@final
@dataclass(slots=True, eq=False)
class Facts:
    """Facts about a code object, without the code objects nested in it.

    Attributes:
        loads: the loads of names, in order.
        globals: the global names that are read.
        attributes: the names of attributes that are read.
        stores: the names that are written: (kind, name) -> offset of the first such instruction.
        subscript_store: offset of the first instruction that stores an item, or None.
        imports: (module, level).
        aliases: local name -> (module, level, attribute) for imports in the function.
        strings: constants that may be the names of attributes.
        every_attribute: whether attributes are read whose names are made at run time.
        computed_stores: whether attributes may be set whose names are made at run time.
        sets_by_name: whether such names are arguments, as in ``setattr(x, name, value)``.
        given: arguments of calls: kind and name, as in ``inspected``, with the load of the
            function, if it has a name, and the last part of the function's name.
        inspected: kind and name of values that are compared, formatted or made a key; `UNNAMED`
            stands for all such values without a name.
        formats: whether texts of values are made.
        asks_identity: whether objects are compared with ``is``.
        later: kind and name of values that are only passed to `ef.py_call`, which calls them.
        codes: the nested code objects, but for functions that are only passed to `ef.py_call`.
        tests: the names, with attributes, that conditional jumps test: by the offset of the jump
            the load, the number of its attributes, and the truth at which it jumps.
        owners: the names of values whose attributes are read, set or asked for.
        branches: whether the code tests, loops, raises, catches or makes texts.
        calls: whether the code calls anything.
    """

    loads: list[Load] = field(default_factory=list)
    globals: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    stores: dict[tuple[str, str], int] = field(default_factory=dict)
    subscript_store: int | None = None
    imports: list[tuple[str, int]] = field(default_factory=list)
    aliases: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    strings: frozenset[str] = frozenset()
    every_attribute: bool = False
    computed_stores: bool = False
    sets_by_name: bool = False
    given: list[tuple[tuple[str, str], Load | None, Any]] = field(default_factory=list)
    inspected: set[tuple[str, str]] = field(default_factory=set)
    formats: bool = False
    asks_identity: bool = False
    later: set[tuple[str, str]] = field(default_factory=set)
    codes: list[CodeType] = field(default_factory=list)
    tests: dict[int, tuple[Load, int, bool]] = field(default_factory=dict)
    owners: set[str] = field(default_factory=set)
    branches: bool = False
    calls: bool = False
