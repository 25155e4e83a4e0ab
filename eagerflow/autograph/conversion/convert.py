"""Converts functions: code once, then a new function for each that shares cells and globals."""

from __future__ import annotations

import dis
import re
from types import CellType, CodeType, FunctionType, SimpleNamespace
from typing import Any, Final
from weakref import ref

from eagerflow.autograph.conversion.rewrite import LATER, rewrite
from eagerflow.autograph.conversion.source_code import (
    OPERATORS,
    NotConvertible,
    compiled,
    definition,
)
from eagerflow.capture.library import EXAMPLES, is_library

__all__ = ["branches", "converted", "operators", "why_not"]

#: the operators that converted code calls; the modules that define them put them here
operators: Final = SimpleNamespace()
_CELL: Final = CellType(operators)
_MADE: Final = re.compile(r"\.<locals>\.@\w+")
#: instructions that test, loop or catch; ``while True`` does but jump back
_TESTS: Final = ("POP_JUMP", "JUMP_IF", "JUMP_BACKWARD", "FOR_ITER", "UNARY_NOT", "CONTAINS_OP",
                 "TO_BOOL", "PUSH_EXC_INFO")  # fmt: skip
#: instructions that make texts: FORMAT_VALUE, which 3.13 has divided; or exceptions
_TEXTS: Final = ("FORMAT_", "RAISE_VARARGS")
_TESTING: Final = frozenset({"all", "any", "max", "min", "print"})

#: by id of a code object, which the weak reference shows to be the same: the code to run in its
#: place, or why there is none
_known: Final[dict[int, tuple[ref[CodeType], CodeType | str]]] = {}


def converted(function: FunctionType) -> FunctionType:
    """A function in which control flow on tensors becomes that of the graph.

    It is ``function`` itself if that is library code, cannot be converted, or has nothing in it
    that could depend on tensors.
    """
    code = function.__code__
    known = _known.get(id(code))
    if known is None or known[0]() is not code:
        known = _remember(code, _convert(function))
    made = known[1]
    if type(made) is str or made is code:
        return function
    return _like(function, made)  # type: ignore[arg-type]  # it is no str


def why_not(code: CodeType) -> str | None:
    """Why the function of a code object was not converted, where that was tried."""
    known = _known.get(id(code))
    if known is None or known[0]() is not code or type(known[1]) is not str:
        return None
    return known[1]


def branches(code: CodeType) -> bool:
    """Whether code, or code within it, tests, loops, prints, raises, catches or makes texts.

    Or calls builtins that do so.
    """
    if not _TESTING.isdisjoint(code.co_names):
        return True
    if any(i.opname.startswith((*_TESTS, *_TEXTS)) for i in dis.get_instructions(code)):
        return True
    return any(branches(c) for c in code.co_consts if isinstance(c, CodeType))


def _remember(code: CodeType, made: CodeType | str) -> tuple[ref[CodeType], CodeType | str]:
    key, forget = id(code), _known.pop
    entry = _known[key] = (ref(code, lambda _: forget(key, None)), made)
    return entry


def _convert(function: FunctionType) -> CodeType | str:
    code = function.__code__
    if OPERATORS in code.co_freevars or _is_given(function.__globals__) or not _matters(code):
        return code
    try:
        node = rewrite(definition(code, function.__globals__))
        return _renamed(compiled(node, code), code.co_name, code.co_qualname)
    except NotConvertible as error:
        return str(error)


def _is_given(namespace: dict[str, Any]) -> bool:
    """Whether code is a library's, or eagerflow's own."""
    name = str(namespace.get("__name__", ""))
    own = name.startswith("eagerflow.") and not name.startswith(EXAMPLES)
    return own or is_library(namespace)


def _matters(code: CodeType) -> bool:
    """Whether code branches, calls what may do so, or makes texts of values."""
    what = *_TESTS, *_TEXTS, "CALL"
    if any(i.opname.startswith(what) for i in dis.get_instructions(code)):
        return True
    return any(_matters(c) for c in code.co_consts if isinstance(c, CodeType))


def _renamed(made: CodeType, name: str, qualname: str) -> CodeType:
    """Code under the name that the user knows: branches have that of their function."""
    constants = []
    for one in made.co_consts:
        if isinstance(one, CodeType):
            own = one.co_name.startswith("@") or (one.co_varnames[:1] == (LATER,))
            rest = _MADE.sub("", one.co_qualname[len(made.co_qualname) :])
            one = _renamed(one, *((name, qualname) if own else (one.co_name, qualname + rest)))
        elif type(one) is str and one == made.co_qualname:
            one = qualname  # as the body of a class notes it
        constants.append(one)
    return made.replace(co_consts=tuple(constants), co_name=name, co_qualname=qualname)


def _like(function: FunctionType, code: CodeType) -> FunctionType:
    """``code`` as a function with the globals, cells and defaults of another."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[OPERATORS] = _CELL
    closure = tuple([cells[name] for name in code.co_freevars])
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__,
                        closure)  # fmt: skip
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    made.__dict__.update(function.__dict__)
    return made


def operator(function: Any) -> Any:
    """Make a function an operator that converted code calls by its name."""
    setattr(operators, function.__name__, function)
    return function
