"""Exceptions that a graph raises: each run makes a new one, whose texts show the values of the run.

An exception raised in a trace is taken apart (its `args`, its attributes, its cause and context),
and the tensors and texts in it become inputs of the node that raises it.
"""

from __future__ import annotations

import dis
from collections.abc import Mapping
from dataclasses import dataclass
from types import MemberDescriptorType
from typing import Any, Final, final
from weakref import WeakSet

from eagerflow.autograph.tracking.blocks import tracer_here
from eagerflow.autograph.values.formatting import is_symbolic
from eagerflow.capture.library_code import is_library
from eagerflow.errors import EagerflowError
from eagerflow.ops.state import callbacks
from eagerflow.source import is_framework_frame, user_line
from eagerflow.tracing.tracer import Tracer

#: attributes that are not in the `__dict__` of an exception
_LINKS: Final = ("__cause__", "__context__", "__suppress_context__")
_RAISE: Final = dis.opmap["RAISE_VARARGS"]
#: the traces whose graphs raise exceptions
_raising: Final[WeakSet[Tracer]] = WeakSet()


def raise_in_graph(error: BaseException) -> None:
    """Append a node that raises an exception like ``error`` wherever it runs."""

    def check(parts: _Parts) -> None:
        raise parts.put_together()

    callbacks.check(check, _taken_apart(error))
    tracer = tracer_here()
    _raising.add(tracer.root)
    tracer.newest.source = user_line(error) or tracer.newest.source


def belongs_to_graph(error: BaseException) -> bool:
    """Whether only a run of the graph can raise an exception that leaves the traced function.

    It may show values of a run, or follow another exception that the graph may raise.
    """
    if not is_users(error):
        return False
    after = tracer_here().root in _raising and is_stated(error)
    return after or is_symbolic(_taken_apart(error))


def is_users(error: BaseException) -> bool:
    """Whether the user's code raises an exception, in a trace as in an eager call.

    Errors of eagerflow while it traces do not count, nor do unbound names, infinite recursion
    (which may be due to branches that are all traced), and an interrupt from the keyboard; unless
    a `raise` of the user's code raises them.
    """
    if isinstance(error, (EagerflowError, NameError, RecursionError)):
        return is_stated(error)
    return isinstance(error, (Exception, SystemExit)) or is_stated(error)


def is_stated(error: BaseException) -> bool:
    """Whether a `raise` statement of the user's code, not a failing operation, has raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or is_library(trace.tb_frame.f_globals) or is_framework_frame(trace.tb_frame):
        return False
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE


@final
class _Kept:
    """A wrapper of an object that is the same in each run, and is not treated as a tree.

    Args:
        value: the object.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


@final
@dataclass
class _Parts:
    """The parts of an exception.

    Attributes:
        kind: its class.
        args: its ``args``.
        links: to other exceptions.
        fields: the fields that the class keeps outside `__dict__`.
        attributes: the `__dict__`.
    """

    kind: _Kept
    args: Any
    links: Any
    fields: Any
    attributes: Any

    def put_together(self) -> BaseException:
        """A new exception, made without `__init__`, which has run already."""
        kind = self.kind.value
        makes = kind
        while makes.__module__ != "builtins":
            makes = makes.__base__  # of several, the base that determines the layout of instances
        error: BaseException = makes.__new__(kind, *_put_together(self.args))
        error.args = _put_together(self.args)
        members = _members(kind)
        for name, value in _put_together(self.fields).items():
            try:
                members[name].__set__(error, value)
            except (AttributeError, TypeError):  # only the class may set it
                continue
        error.__dict__.update(_put_together(self.attributes))
        for name, value in _put_together(self.links).items():
            setattr(error, name, value)
        return error


def _members(kind: type) -> Mapping[str, Any]:
    """The member descriptors of a class: attributes that are not in ``__dict__``."""
    members: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        members.update((k, v) for k, v in vars(base).items() if type(v) is MemberDescriptorType)
    return {k: v for k, v in members.items() if k not in _LINKS}


def _taken_apart(x: Any) -> Any:
    """A tree with `_Parts` in place of exceptions, and constant objects wrapped."""
    if isinstance(x, BaseException):
        fields = {k: getattr(x, k, None) for k in _members(type(x))}
        fields = {k: v for k, v in fields.items() if v is not None}
        links = {k: getattr(x, k) for k in _LINKS}
        rest = x.args, links, fields, vars(x)
        return _Parts(_Kept(type(x)), *map(_taken_apart, rest))
    if type(x) in (list, tuple):
        return type(x)(map(_taken_apart, x))
    if type(x) is dict:
        return {k: _taken_apart(v) for k, v in x.items()}
    return x if not isinstance(x, type) and is_symbolic(x) else _Kept(x)


def _put_together(x: Any) -> Any:
    if type(x) is _Kept:
        return x.value
    if type(x) is _Parts:
        return x.put_together()
    if type(x) in (list, tuple):
        return type(x)(map(_put_together, x))
    if type(x) is dict:
        return {k: _put_together(v) for k, v in x.items()}
    return x
