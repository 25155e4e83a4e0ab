"""Remedies where a method stands in the place of its result, and for `len` of what has no length.

``queue.size > 3`` is refused by Python, and so is the smallest of a list to which ``queue.size``
was appended, perhaps many lines before.
"""

from __future__ import annotations

import ast
import dis
import inspect
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from types import FrameType, MethodType, ModuleType, TracebackType
from typing import Any, Final

import eagerflow as ef
from eagerflow.hints import find
from eagerflow.hints.call_forms import form_of
from eagerflow.hints.lookahead.names_of_source import Instance, Names, is_ours
from eagerflow.hints.refused_calls import value_of

#: Python's texts name the type of a bound method
_METHOD: Final = re.compile(r"'method'|\bmethod object\b|\bmethod\.__format__|\bnot method\b")
_FUNCTION: Final = re.compile(r"'function'|\bfunction\.__format__|\bfunction object\b")
_LENGTH: Final = re.compile(r"^object of type '(\w+)' has no len\(\)$")
#: by class, the number of its elements
_LENGTHS: Final = {
    "Accumulator": "{0}.size() is the number of values",
    "Barrier": "{0}.ready_size() and {0}.incomplete_size() are the numbers of elements",
    "Profile": "len({0}.events)",
    "Queue": "{0}.size() is the number of elements",
}
_CONTAINERS: Final = (list, tuple, set, frozenset, deque, dict)
_LOOKED_AT: Final = 1000  # items of a container


def remedy(error: TypeError) -> str | None:
    """The remedy if a method of eagerflow was used and not called, or an object has no length.

    Args:
        error: as Python raised it, with its traceback.

    >>> queue = ef.Queue(3, ef.tensor(0))
    >>> try:
    ...     queue.size > 2
    ... except TypeError as error:
    ...     print(ef.hints.uncalled_methods.remedy(error))
    queue.size is a method: queue.size()
    """
    trace, text = error.__traceback__, str(error)
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return None
    length = _LENGTH.match(text)
    if length is not None and length[1] in _LENGTHS:
        return _of_length(length[1], trace)
    if _FUNCTION.search(text):
        return _of_rate(trace)
    return _of_method(trace) if _METHOD.search(text) else None


def of_length(call: ast.Call, names: Names) -> str | None:
    """The remedy for ``len(queue)`` in a source.

    Args:
        call: any call.
        names: of the source.
    """
    match call:
        case ast.Call(func=ast.Name("len"), args=[of], keywords=[]) if "len" not in names.defined:
            value = names.value(of)
            if isinstance(value, Instance) and is_ours(value.kind):
                text = _LENGTHS.get(value.kind.__name__)
                return None if text is None else text.format(ast.unparse(of))
    return None


def of_test(test: ast.expr, names: Names) -> str | None:
    """The remedy for a method in the place of its result, which is always true.

    Args:
        test: the condition of an ``if`` or the like.
        names: of the source.
    """
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    if not isinstance(test, ast.Attribute):
        return None
    owner, method = names.value(test.value), names.value(test)
    if not isinstance(owner, Instance) or not inspect.isfunction(method) or not is_ours(method):
        return None
    written = f"{ast.unparse(test)}()"
    optional = str(method.__annotations__.get("return")).endswith("| None")
    return f"it is a method: {written}{' is not None' * optional}"


def _of_rate(trace: TracebackType) -> str | None:
    """The remedy for ``optimiser.lr`` in the place of a number, where the rate is a function."""
    for path in _paths(trace):
        owner = value_of(path[:-1], trace.tb_frame) if len(path) > 1 else None
        if path[-1] == "lr" and isinstance(owner, ef.optim.AbstractOptimiser):
            return find("AbstractSchedule", "item")
    return None


def _of_length(kind: str, trace: TracebackType) -> str | None:
    for path in _paths(trace):
        value = value_of(path, trace.tb_frame)
        if type(value).__name__ == kind and is_ours(type(value)):
            return _LENGTHS[kind].format(".".join(path))
    return None


def _of_method(trace: TracebackType) -> str | None:
    frame = trace.tb_frame
    for path in _paths(trace):
        value, name = value_of(path, frame), ".".join(path)
        if len(path) > 1 and inspect.isfunction(value):
            owner = value_of(path[:-1], frame)
            if is_ours(value) and not isinstance(owner, (type, ModuleType)):
                return f"{name} is a method: {form_of(value, name)}"
        elif _is_own_method(value):
            return f"{name} is a method that was not called: {_call(value, frame)}"
        elif isinstance(value, _CONTAINERS):
            items: Iterable[Any] = value.values() if isinstance(value, dict) else value
            method = next(filter(_is_own_method, islice(items, _LOOKED_AT)), None)
            if method is not None:
                return f"{name} has a method that was not called: {_call(method, frame)}"
    return None


def _paths(trace: TracebackType) -> Iterator[tuple[str, ...]]:
    """What the line of an error reads and does not call: names, and attributes of names."""
    steps = [*dis.get_instructions(trace.tb_frame.f_code)]
    failed = next(step for step in steps if step.offset == trace.tb_lasti).positions
    path: tuple[str, ...] = ()
    for step in steps:
        at = step.positions
        if failed is None or at is None or at.lineno is None or failed.lineno is None:
            continue
        if not failed.lineno <= at.lineno <= (failed.end_lineno or failed.lineno):
            continue
        if step.opname == "LOAD_ATTR" and path and not _is_of_call(step):
            path = (*path, str(step.argval))
            yield path
        elif step.opname.startswith("LOAD_") and isinstance(step.argval, str) and _is_name(step):
            path = (step.argval,)
            yield path
        elif step.opname != "CACHE":
            path = ()


def _is_name(step: dis.Instruction) -> bool:
    return step.opname not in ("LOAD_CONST", "LOAD_ATTR", "LOAD_METHOD")


def _is_of_call(step: dis.Instruction) -> bool:
    """Whether an attribute is loaded to be called; before Python 3.12 `LOAD_METHOD` does that."""
    return sys.version_info >= (3, 12) and bool((step.arg or 0) & 1)


def _is_own_method(value: Any) -> bool:
    return isinstance(value, MethodType) and is_ours(value.__func__)


def _call(method: MethodType, frame: FrameType) -> str:
    """The call that was meant, with the user's name for the object."""
    names = (*frame.f_locals.items(), *frame.f_globals.items())
    owner = type(method.__self__).__name__.lower()
    owner = next((name for name, value in names if value is method.__self__), owner)
    return form_of(method.__func__, f"{owner}.{method.__name__}")
