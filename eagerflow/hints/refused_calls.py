"""Remedies for calls whose arguments Python refused."""

from __future__ import annotations

import ast
import dis
import inspect
import re
from collections.abc import Mapping, Sequence
from types import CodeType, FrameType, MethodType, ModuleType, TracebackType
from typing import Any, Final, NamedTuple

import eagerflow as ef
from eagerflow.extending import nearest
from eagerflow.hints import find
from eagerflow.hints.call_forms import parameters_of, text_of
from eagerflow.hints.parameter_names import (
    CALLED,
    CALLED_MODULES,
    CALLED_OF_MODULES,
    CONVERTED,
    COUNTS,
    EXAMPLES,
    NAMES,
    NOT_HERE,
    SHAPES,
    not_here,
)

__all__ = ["remedy"]

#: Python's texts: the qualified name of the function, and the keyword if one was refused
_REFUSALS: Final = tuple(
    map(
        re.compile,
        (
            r"^(?P<name>[\w.<>]+)\(\) got an unexpected keyword argument '(?P<keyword>\w+)'",
            r"^(?P<name>[\w.<>]+)\(\) got some positional-only arguments passed as keyword "
            r"arguments: '(?P<keyword>\w+)",
            r"^(?P<name>[\w.<>]+)\(\) (takes|missing|got multiple values)\b(?P<keyword>)",
        ),
    )
)
_POSITIONAL: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
#: Python's texts where an object that is no number is used as one
_NO_NUMBER: Final = re.compile(
    r"\.__format__$| real number, not |^unsupported operand type|__round__ method$"
    r"| not supported between instances "
)
#: the name of a layer in the form of its call
_LAYER: Final = "layer"
#: Python's texts where a dataset or a queue is used as a list or as an iterator
_NO_SEQUENCE: Final = re.compile(r"^'(Dataset|Queue)' object is not (an iterator|subscriptable)$")
_IN_ORDER: Final = {
    "Dataset": "for x in data: ...; the first is next(iter(data)), and list(data) has all",
    "Queue": "queue.dequeue() takes the next element; for x in queue: ... takes one after the "
    "other until the queue is closed",
}
_NOT_CALLABLE: Final = re.compile(r"object is not callable$")
#: what is said of a keyword that has no other remedy, where several are refused
_UNKNOWN: Final = "there is no {}="
#: the instructions that name the keywords of a call, and how many before the call they may be
_NAME_KEYWORDS: Final = ("KW_NAMES", "LOAD_CONST")
_NEAR: Final = 4
#: packages with public functions
_OURS: Final = ("eagerflow", "eagerflow_kernels")
#: namespaces of public functions and classes, besides the package itself
_SPACES: Final = ("nn", "nn.functional", "nn.init", "optim", "data", "random", "linalg", "fft")


def remedy(error: TypeError) -> str | None:
    """The remedy for the call that an error is about, if it is a call of eagerflow.

    Args:
        error: as Python raised it, with its traceback.

    >>> try:
    ...     ef.sum(ef.ones(3), dim=0)
    ... except TypeError as error:
    ...     print(ef.hints.refused_calls.remedy(error))
    use axis= instead of dim=: sum(x, /, axis=None, dtype=None, *, keepdims=False)
    """
    trace = last_trace(error.__traceback__)
    if trace is None:
        return None
    text = str(error)
    if _NO_NUMBER.search(text):
        is_schedule = any(map(_names_schedule, re.findall(r"\w+", text)))
        return find("AbstractSchedule", "item") if is_schedule else None
    used = _NO_SEQUENCE.search(text)
    if used is not None:
        return _IN_ORDER[used[1]]
    path = _callee(trace.tb_frame.f_code, trace.tb_lasti)
    if _NOT_CALLABLE.search(text):
        if path is None and "'int'" in text:
            return _size_of_result(trace.tb_frame, trace.tb_lasti)
        return _called(path, trace.tb_frame)
    match = next((m for m in (r.match(text) for r in _REFUSALS) if m), None)
    if match is None:
        return None
    function = _function(path, match["name"], trace.tb_frame)
    if function is None:
        return None
    called = match["name"].removesuffix(".__init__")
    name = function.__name__ if inspect.isclass(function) else called  # that of a subclass
    keyword = match["keyword"]
    if not keyword:
        return of_arguments(function, [], name)
    others = _refused(parameters_of(function) or [], _keywords(trace, keyword))
    return of_arguments(function, [*dict.fromkeys([keyword, *others])], name)


def of_argument(function: Any, keyword: str, name: str) -> str | None:
    """The remedy for a keyword that a function or a class does not take.

    Args:
        function: a function, a method, a class, or a module, which is called.
        keyword: the keyword; empty if the error is about the number of arguments.
        name: the name of the function in the text.

    >>> ef.hints.refused_calls.of_argument(ef.random.uniform, "size", "uniform").partition(":")[0]
    'use shape= instead of size='
    >>> ef.hints.refused_calls.of_argument(ef.stack, "arrays", "stack")
    'arrays is given by position: stack(arrays, /, axis=0)'
    """
    return of_arguments(function, [keyword] if keyword else [], name)


def of_arguments(function: Any, keywords: Sequence[str], name: str) -> str | None:
    """The remedies for all keywords that a function or a class does not take, its form told once.

    Args:
        function: a function, a method, a class, or a module, which is called.
        keywords: the keywords; none if the error is about the number of arguments.
        name: the name of the function in the text.

    >>> print(ef.hints.refused_calls.of_arguments(ef.flip, ["dims", "inplaces"], "flip"))
    use axis= instead of dims=; there is no inplaces=: flip(x, /, axis=None)
    """
    if isinstance(function, ef.nn.Module):
        function = function.forward
    if name.endswith(".forward"):
        name = _LAYER
    parameters = parameters_of(function)
    if parameters is None:
        return None
    form = f"{name}({text_of(parameters)})"
    if name in EXAMPLES:
        form += f", such as {EXAMPLES[name]}"
    if not keywords:
        return _of_count(form, name, parameters)
    remedies = [_of_keyword(function, parameters, keyword) for keyword in keywords]
    whole = [remedy.text for remedy in remedies if not remedy.needs_form]
    short = [remedy.text for remedy in remedies if remedy.needs_form]
    if len(keywords) == 1 and short == [_UNKNOWN.format(*keywords)]:
        return f"the call is {form}"
    if short:
        told = "; ".join(short)
        whole.append(f"{told}{'' if told.endswith('?') else ':'} {form}")
    return "; ".join(dict.fromkeys(whole))


class _Remedy(NamedTuple):
    """The remedy for one keyword, and whether the form of the call is a part of it."""

    text: str
    needs_form: bool


def _of_keyword(function: Any, parameters: Sequence[inspect.Parameter], keyword: str) -> _Remedy:
    named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    known = [p.name for p in parameters if p.kind in named]
    counterpart = _first_of(NAMES.get(keyword, ()), known)
    if counterpart is not None:
        how = CONVERTED.get((counterpart, keyword))
        use = f"use {counterpart}= instead of {keyword}="
        return _Remedy(use, True) if how is None else _Remedy(f"{use}: {how}", False)
    of_layer = _of_layer(function, keyword)
    if of_layer is not None:
        return _Remedy(of_layer, False)
    if keyword in NOT_HERE:
        return _Remedy(not_here(keyword), False)
    by_position = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)]
    other = keyword if keyword in by_position else _first_of(NAMES.get(keyword, ()), by_position)
    if other is not None:
        return _Remedy(f"{other} is given by position", True)
    close = nearest(keyword, known)
    return _Remedy(f"did you mean {close}=?" if close else _UNKNOWN.format(keyword), True)


def of_call(
    function: Any, positional: int | None, keywords: Sequence[str], name: str
) -> str | None:
    """The remedy for a call, if its arguments would be refused.

    Args:
        function: a function, a class, or a method as its class holds it.
        positional: number of positional arguments; None if unknown.
        keywords: the names of keyword arguments.
        name: the name of the function in the text.

    >>> ef.hints.refused_calls.of_call(ef.zeros, 3, [], "zeros").partition(":")[0]
    'the shape is one tuple, such as (2, 3), and later arguments have names'
    >>> ef.hints.refused_calls.of_call(ef.zeros, 1, ["dtype"], "zeros")
    >>> ef.hints.refused_calls.of_call(ef.sort, 2, ["axis"], "sort").partition("(")[0]
    'the call is sort'
    """
    parameters = parameters_of(function)
    if parameters is None:
        return None
    refused = _refused(parameters, keywords)
    if refused:
        return of_arguments(function, refused, name)
    if positional is None:
        return None
    places = [p.name for p in parameters if p.kind in _POSITIONAL]
    twice = any(k in places[:positional] for k in keywords)
    is_open = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    if not twice and (positional <= len(places) or is_open):
        return None
    return of_argument(function, "", name)


def _of_layer(kind: Any, keyword: str) -> str | None:
    """The remedy for an argument of a layer's call that was given to its class."""
    if not (inspect.isclass(kind) and issubclass(kind, ef.nn.Module)):
        return None
    parameters = parameters_of(kind.forward) or []
    name = _first_of((keyword, *NAMES.get(keyword, ())), [p.name for p in parameters])
    if name is None:
        return None
    how = CONVERTED.get((name, keyword), f"{_LAYER}({text_of(parameters)})")
    return f"{name}= is given where the layer is called: {how}"


def _names_schedule(word: str) -> bool:
    kind = vars(ef.optim).get(word)
    return inspect.isclass(kind) and issubclass(kind, ef.optim.AbstractSchedule)


def _of_count(form: str, name: str, parameters: Sequence[inspect.Parameter]) -> str:
    """The remedy for a wrong number of arguments."""
    if name in COUNTS:
        return f"{COUNTS[name]}: {form}" if parameters else COUNTS[name]
    if parameters and parameters[0].name == "shape":
        return f"{SHAPES}: {form}"
    return f"the call is {form}"


def last_frame(error: BaseException) -> FrameType | None:
    """The frame in which an error was raised.

    Args:
        error: any, with its traceback.
    """
    trace = last_trace(error.__traceback__)
    return None if trace is None else trace.tb_frame


def _first_of(names: Sequence[str], among: Sequence[str]) -> str | None:
    return next((name for name in names if name in among), None)


def _called(path: tuple[str, ...] | None, frame: FrameType) -> str | None:
    """The remedy where a value or a module was called: ``x.size(0)``, ``ef.checkpoint(f)``."""
    if path is None:
        return None
    called = type(value_of(path, frame))
    if (called.__module__, called.__name__) == ("eagerflow.core.op", "Op"):
        return (
            f"bind({path[-1]}, x, axis=0) applies an op to tensors, attributes by name: "
            "from eagerflow.extending import bind"
        )
    if len(path) < 2:
        return None
    owner = value_of(path[:-1], frame)
    if owner is ef:
        return CALLED_MODULES.get(path[-1])
    if isinstance(owner, ef.nn.Module):
        return CALLED_OF_MODULES.get(path[-1])
    if isinstance(owner, (ef.Tensor, ef.Variable)):
        return CALLED.get(path[-1])
    if _is_ours(type(owner)) and not callable(inspect.getattr_static(owner, path[-1], print)):
        return f"{path[-2]}.{path[-1]} is a value, without a call"
    return None


def _size_of_result(frame: FrameType, offset: int) -> str | None:
    """The remedy for ``f(x).size()``, where a number of a result was called."""
    loaded = [s for s in _steps(frame.f_code, offset)[:-1] if isinstance(s.argval, str)]
    names = [s.argval for s in loaded if s.opname.startswith("LOAD_")]
    if not names:
        return None
    first = value_of((names[0],), frame)
    ours = first is ef or isinstance(first, (ef.Tensor, ef.Variable, ef.nn.Module))
    return CALLED.get(names[-1]) if ours else None


# --- which function it is -------------------------------------------------------------------


def last_trace(trace: TracebackType | None) -> TracebackType | None:
    """The innermost traceback: of the caller's frame, as the refused function has none yet.

    Args:
        trace: of an error.
    """
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _callee(code: CodeType, offset: int) -> tuple[str, ...] | None:
    """The names by which a call names its function: ``("ef", "linalg", "norm")``.

    They are the first name in the text of the call, and the attributes loaded from it in a chain.
    """
    path: tuple[str, ...] | None = None
    for step in _steps(code, offset)[:-1]:
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            path = None if path is None else (*path, str(step.argval))
        elif step.opname == "LOAD_CONST":  # such as a keyword before ``**options``
            continue
        elif step.opname.startswith("LOAD_") and isinstance(step.argval, str):
            path = (step.argval,)
        elif step.opname.startswith(("CALL", "BINARY")):
            path = None  # an attribute of a result
    return path


def _steps(code: CodeType, offset: int) -> list[dis.Instruction]:
    """The instructions up to a call whose text begins where that of the call does."""
    steps = [step for step in dis.get_instructions(code) if step.offset <= offset]
    start = _start(steps[-1])
    return [step for step in steps if _start(step) == start]


def _start(step: dis.Instruction) -> tuple[int | None, int | None]:
    at = step.positions
    return (None, None) if at is None else (at.lineno, at.col_offset)


def _function(path: tuple[str, ...] | None, name: str, frame: FrameType) -> Any:
    """The function or class of eagerflow that was called; None if it is not eagerflow's."""
    callee = None if path is None else value_of(path, frame)
    if callable(callee):
        return callee if _is_ours(callee) and _fits(callee, name) else None
    if "." in name:
        kind, method = name.split(".")[:2]
        bases = {base.__name__: base for base in ef.Tensor.__mro__}
        owner = bases[kind] if kind in bases else _public(kind)
        return getattr(owner, method, None) if inspect.isclass(owner) else None
    return _public(name) if _is_ours_frame(frame) else _mentioned(name, frame)


def _mentioned(name: str, frame: FrameType) -> Any:
    """The function of that name that a frame can refer to: converted code has no columns."""
    names = frame.f_code.co_names
    own = frame.f_locals.get(name, frame.f_globals.get(name))
    if own is not None or name not in names:
        return own if _is_ours(own) else None
    spaces = (value_of((n,), frame) for n in names)
    ours = (s for s in spaces if isinstance(s, ModuleType) and s.__name__.startswith("eagerflow"))
    return next((vars(s)[name] for s in ours if name in vars(s)), None)


def _fits(callee: Any, name: str) -> bool:
    """Whether the error is about this function, and not about a function called in it."""
    if inspect.isclass(callee):
        return name.endswith(("__init__", "__new__", f"{callee.__name__}"))
    called = getattr(callee, "__qualname__", "").split(".")[-1]
    return called == name.split(".")[-1] or not inspect.isfunction(callee)


def _is_ours(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] in _OURS


def _is_ours_frame(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "eagerflow"


def _public(name: str) -> Any:
    """The function or class of that name in any public namespace."""
    for space in ("", *_SPACES):
        owner: Any = ef
        for part in filter(None, space.split(".")):
            owner = getattr(owner, part)
        if name in vars(owner) or name in dir(owner):
            return getattr(owner, name)
    return None


def value_of(path: tuple[str, ...], frame: FrameType) -> Any:
    """The value of names in a frame, such as ``("ef", "exp")``, without running the user's code.

    Args:
        path: a name, followed by attributes.
        frame: the frame.
    """
    scope: Mapping[str, Any] = frame.f_locals
    value: Any = scope.get(path[0], frame.f_globals.get(path[0], frame.f_builtins.get(path[0])))
    for name in path[1:]:
        if isinstance(value, ModuleType):
            value = getattr(value, name, None)
        else:
            value = inspect.getattr_static(value, name, None)
            if isinstance(value, (classmethod, staticmethod, MethodType)):
                value = value.__func__
    return value


def value_at(node: ast.expr, frame: FrameType) -> Any:
    """The value of a name with attributes, None for any other expression.

    Args:
        node: the expression.
        frame: the frame that it is in.
    """
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.append(node.attr)
        node = node.value
    return value_of((node.id, *reversed(path)), frame) if isinstance(node, ast.Name) else None


# --- how it is called -----------------------------------------------------------------------


def _keywords(trace: TracebackType, refused: str) -> Sequence[str]:
    """The keywords of a refused call: those that its code names, or that were passed on.

    Args:
        trace: the innermost traceback.
        refused: the first of them that was refused.
    """
    frame = trace.tb_frame
    before = [s for s in dis.get_instructions(frame.f_code) if s.offset < trace.tb_lasti]
    named = [s.arg or 0 for s in before[-_NEAR:] if s.opname in _NAME_KEYWORDS]
    for names in (frame.f_code.co_consts[index] for index in reversed(named)):
        if type(names) is tuple and refused in names:
            return names
    passed_on = (d for d in frame.f_locals.values() if type(d) is dict and refused in d)
    return [*next(passed_on, ())] if _is_ours_frame(frame) else ()


def _refused(parameters: Sequence[inspect.Parameter], keywords: Sequence[str]) -> list[str]:
    """The keywords that a function with these parameters does not take."""
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return []
    taken = {p.name for p in parameters if p.kind is not inspect.Parameter.POSITIONAL_ONLY}
    return [keyword for keyword in keywords if keyword not in taken]
