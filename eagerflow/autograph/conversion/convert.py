"""The choice of the function to call in a trace: converted, replaced, or the function itself.

The user's own functions are converted: the code once, then each function as a new one that shares
its cells and globals. Library code is not converted, but some functions have a replacement.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MethodType,
    SimpleNamespace,
)
from typing import Any, Final
from weakref import ref

from eagerflow.autodiff.custom_vjp import custom_vjp
from eagerflow.autograph.conversion.rewrite import LATER, rewrite
from eagerflow.autograph.conversion.source_code import NotConvertible, compiled, definition
from eagerflow.autograph.conversion.syntax import OPERATORS
from eagerflow.capture.bytecode import facts_of, nested
from eagerflow.capture.library_code import EXAMPLES, is_library, may_look_at_types
from eagerflow.dims.number_stand_ins import AbstractAsked, asked

#: the operators that converted code calls; the modules that define them put them here
operators: Final = SimpleNamespace()
_CELL: Final = CellType(operators)
_MADE: Final = re.compile(r"\.<locals>\.@\w+")
#: by id of a code object, with a weak reference to check it: the code to run in its place, or the
#: reason for which there is none
_known: Final[dict[int, tuple[ref[CodeType], CodeType | str]]] = {}

#: modules of eagerflow whose functions keep user functions, which are called when the graph runs
_LATE: Final = (
    "eagerflow.ops", "eagerflow.function", "eagerflow.runners", "eagerflow.data",
    "eagerflow.profiling",
)  # fmt: skip
#: builtins that call their arguments at once
_HIGHER: Final = frozenset({map, filter, sorted, functools.reduce, functools.partial})
#: kinds of arguments that are functions of the user
_GIVEN: Final = {FunctionType, MethodType, functools.partial, custom_vjp}
_PLAIN: Final = (FunctionType, BuiltinFunctionType, type)
#: functions that do more in converted code, with their replacements
replacements: Final[dict[Any, Callable[..., Any]]] = {}
#: likewise for all functions of a module, a method of a builtin class by its name, or objects of a
#: class, each with a function that makes the replacement
wrappers: Final[dict[Any, Callable[[Any], Callable[..., Any]]]] = {}


def operator(function: Any) -> Any:
    """Make a function an operator that converted code calls by its name."""
    setattr(operators, function.__name__, function)
    return function


# --- calls ------------------------------------------------------------------------------------


@operator
def call(function: Any) -> Any:
    """The function to call in place of ``function``."""
    kind = type(function)
    if kind is FunctionType:
        return _function(function)
    if kind is MethodType:
        if issubclass(type(function.__self__), AbstractAsked):
            return function  # methods of numbers inspect their caller
        if type(function.__self__) is custom_vjp:
            return _with_converted_arguments(function)  # its rule belongs to the object itself
        inner = call(function.__func__)
        return function if inner is function.__func__ else MethodType(inner, function.__self__)
    if kind is BuiltinFunctionType or kind is type:
        if function in replacements:
            return replacements[function]
        if function in _HIGHER:
            return _with_converted_arguments(function)
        return _wrapped(function, (type(getattr(function, "__self__", None)), function.__name__))
    if kind is functools.partial:
        inner = call(function.func)
        if inner is function.func:
            return function
        return functools.partial(inner, *function.args, **function.keywords)
    if kind in wrappers:
        return wrappers[kind](function)
    return _object(function)


def _function(function: FunctionType) -> Any:
    if not is_library(function.__globals__):
        return converted(function)
    module = function.__globals__.get("__name__", "")
    if function in replacements:
        return replacements[function]
    if not module.startswith("eagerflow.") or module.startswith(_LATE):
        return _wrapped(function)
    if function.__closure__:  # a transform of a function, such as ef.grad(f)
        return _with_converted_cells(function)
    return _with_converted_arguments(function)


def _wrapped(function: Any, method: tuple[type, str] | None = None) -> Any:
    """A function of a library, or its wrapper."""
    wrap = wrappers.get(getattr(function, "__module__", None) or method)
    if wrap is None:
        wrap = with_numbers if may_look_at_types(function) else None
    return function if wrap is None else wrap(function)


def does_more_in_graphs(value: Any) -> bool:
    """Whether a value is a function in whose place converted code calls a replacement."""
    kind = type(value)
    if kind in wrappers or (kind in _PLAIN and value in replacements):
        return True
    return may_look_at_types(value)


def with_numbers(function: Any) -> Callable[..., Any]:
    """A function that gets numbers in place of their stand-ins in a trace."""
    what = f"{getattr(function, '__name__', type(function).__name__)}()"

    def caller(*args: Any, **kwargs: Any) -> Any:
        return function(*asked(args, what), **asked(kwargs, what))

    return caller


def _with_converted_cells(function: FunctionType) -> FunctionType:
    """A function with converted functions in its closure."""
    before = [cell.cell_contents for cell in function.__closure__ or ()]
    after = [converted_argument(x) for x in before]
    if all(a is b for a, b in zip(before, after, strict=True)):
        return function
    return FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__,
        tuple(map(CellType, after)),
    )  # fmt: skip


def _object(function: Any) -> Any:
    """The replacement for a callable object, by the ``__call__`` of its class."""
    method = getattr(type(function), "__call__", None)  # noqa: B004 - not a test
    if type(method) is not FunctionType or is_library(method.__globals__):
        return _wrapped(function)
    inner = converted(method)
    return function if inner is method else MethodType(inner, function)


def _with_converted_arguments(function: Any) -> Any:
    def caller(*args: Any, **kwargs: Any) -> Any:
        return function(
            *map(converted_argument, args), **{k: converted_argument(v) for k, v in kwargs.items()}
        )

    return caller


def converted_argument(value: Any) -> Any:
    """The replacement for an argument that a function of eagerflow may call."""
    if type(value) in _GIVEN:
        return call(value)
    return value


# --- code -------------------------------------------------------------------------------------


def converted(function: FunctionType) -> FunctionType:
    """A function in which control flow on tensors becomes control flow of the graph.

    It is ``function`` itself if that is library code, cannot be converted, or contains no control
    flow or call that could depend on tensors.
    """
    code = function.__code__
    made = _made_of(code)
    if made is None:
        key, forget, made = id(code), _known.pop, _convert(function)
        _known[key] = (ref(code, lambda _: forget(key, None)), made)
    if isinstance(made, str) or made is code:
        return function
    return _like(function, made)


def why_not(code: CodeType) -> str | None:
    """The reason for which the function of a code object was not converted, if that was tried."""
    made = _made_of(code)
    return made if isinstance(made, str) else None


def _made_of(code: CodeType) -> CodeType | str | None:
    """The code to run in place of another, or the reason for its lack; None if it was not tried."""
    known = _known.get(id(code))
    return known[1] if known is not None and known[0]() is code else None


def _convert(function: FunctionType) -> CodeType | str:
    code = function.__code__
    matters = any(
        facts.branches or facts.calls or facts.asks_identity
        for facts in map(facts_of, nested(code))
    )
    if OPERATORS in code.co_freevars or _is_given(function.__globals__) or not matters:
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


def _renamed(made: CodeType, name: str, qualname: str) -> CodeType:
    """Code under the name that the user knows: branches have the name of their function."""
    constants = []
    for one in made.co_consts:
        if isinstance(one, CodeType):
            own = one.co_name.startswith("@") or (one.co_varnames[:1] == (LATER,))
            rest = _MADE.sub("", one.co_qualname[len(made.co_qualname) :])
            one = _renamed(one, *((name, qualname) if own else (one.co_name, qualname + rest)))
        elif type(one) is str and one == made.co_qualname:
            one = qualname  # the constant for ``__qualname__`` in the body of a class
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
