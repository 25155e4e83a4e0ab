"""`cond`, `switch`, `while_loop`, `scan` and `map` in converted code: their functions may raise.

An exception shows when the function is traced. Then the graph raises where an eager call does: in
the branch that is taken, in the first iteration if there is one.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from eagerflow.autograph.conversion.convert import converted_argument, replacements
from eagerflow.autograph.failures.raising import (
    check_in_graph,
    is_stated,
    is_users,
)
from eagerflow.autograph.flow.conditionals import Branches, Raised, telling
from eagerflow.autograph.flow.loop_statements import first_iteration, raise_in_first_iteration
from eagerflow.autograph.tracking.blocks import UserCode, attempt, result_or_error
from eagerflow.capture.snapshot import Reachable
from eagerflow.control.branches import cond, switch
from eagerflow.control.loops import map as map_
from eagerflow.control.loops import scan, while_loop
from eagerflow.control.subgraphs import as_truth, own_handles
from eagerflow.core import interpreter, tree
from eagerflow.core.abstract_symbols import AbstractNumber
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.core.to_tensor import tensor_of
from eagerflow.error_messages import iteration_note
from eagerflow.errors import TraceError
from eagerflow.ops.elementwise.logic import logical_or
from eagerflow.runtime.python_control import choose_branch

_Function = Callable[..., Any]


def _tried(
    functions: Sequence[_Function], run: Callable[[], Any], known: Callable[[BaseException], bool],
    otherwise: Callable[[Any], Any],
) -> Any:  # fmt: skip
    """The result of tracing functions; if that raises an exception, an alternative result.

    Args:
        functions: the user's code, whose effects are undone if it raises an exception.
        run: traces the functions.
        known: whether the graph is to raise an exception.
        otherwise: returns the alternative result, given the exception.
    """
    before = Reachable(functions)

    def trace() -> Any:
        try:
            with attempt():
                return run()
        except BaseException:
            before.restore()
            raise

    result, raised = result_or_error(trace, known)
    return result if raised is None else otherwise(raised)


def _cond(pred: Any, true_fn: _Function, false_fn: _Function, *operands: Any) -> Any:
    functions = converted_argument(true_fn), converted_argument(false_fn)
    run = functools.partial(cond, pred, *functions, *operands)
    if not _is_of_graph(pred):
        return run()
    test = as_truth("cond: pred", pred)
    return _tried(
        functions,
        run,
        is_users,
        lambda _: _branches(test, *[_with(f, operands) for f in functions]),
    )


def _switch(index: Any, branches: Sequence[_Function], *operands: Any) -> Any:
    branches = list(map(converted_argument, branches))
    run = functools.partial(switch, index, branches, *operands)
    if not _is_of_graph(index):
        return run()
    return _tried(branches, run, is_users, lambda _: _raising_switch(index, branches, operands))


def _raising_switch(index: Any, branches: Sequence[_Function], operands: Any) -> Any:
    raising = branches[_first_that_raises(index, branches, operands)]
    others = [f for f in branches if f is not raising]
    number = tensor_of(index)
    if not others:
        check_in_graph(functools.partial(choose_branch, count=len(branches)), number)
        return raising(*own_handles(operands))
    taken = [number == i for i, f in enumerate(branches) if f is raising]
    rest = [others[0] if f is raising else f for f in branches]
    return _branches(
        functools.reduce(logical_or, taken),
        _with(raising, operands), lambda: _switch(index, rest, *operands),
    )  # fmt: skip


def _first_that_raises(index: Any, branches: Sequence[_Function], operands: Any) -> int:
    """The number of the first branch that raises."""

    def told(i: int, branch: _Function) -> _Function:
        return lambda *args: telling(i, branch, *args)

    def run() -> NoReturn:
        switch(index, list(itertools.starmap(told, enumerate(branches))), *operands)
        raise TraceError("a branch is traced to another graph each time")

    which: int = _tried(
        branches, run, lambda error: isinstance(error, Raised), lambda raised: raised.branch
    )
    return which


def _branches(test: Tensor, body: _Function, orelse: _Function) -> Any:
    """The branches as those of an `if`, of which one may raise."""
    functions = [UserCode(_code(f), f) for f in (body, orelse)]
    return Branches(test, functions, (), (body, orelse), "the result of the branches").run()


def _with(function: _Function, operands: Sequence[Any]) -> _Function:
    return lambda: function(*own_handles(operands))


def _while_loop(cond: _Function, body: _Function, init: Any, **options: Any) -> Any:
    cond, body = converted_argument(cond), converted_argument(body)

    def first(raised: BaseException) -> Any:
        spread = init if type(init) in (tuple, list) else (init,)
        raise_in_first_iteration(
            as_truth("while_loop: cond", cond(*own_handles(spread))),
            lambda: _iteration("while_loop", body, *own_handles(spread)), raised, _code(body),
        )  # fmt: skip
        return own_handles(init)

    return _loop((cond, body), lambda: while_loop(cond, body, init, **options), first)


def _scan(f: _Function, init: Any, xs: Any, *, reverse: bool = False, **options: Any) -> Any:
    f = converted_argument(f)

    def first(raised: BaseException) -> NoReturn:
        x = tree.map(lambda x: tensor_of(x)[-1 if reverse else 0], xs)
        first_iteration(lambda: _iteration("scan", f, own_handles(init), x), raised, _code(f))

    return _loop((f,), lambda: scan(f, init, xs, reverse=reverse, **options), first)


def _map(f: _Function, xs: Any) -> Any:
    f = converted_argument(f)

    def first(raised: BaseException) -> NoReturn:
        x = tree.map(lambda x: tensor_of(x)[0], xs)
        first_iteration(lambda: _iteration("map", f, x), raised, _code(f))

    return _loop((f,), lambda: map_(f, xs), first)


def _loop(
    functions: Sequence[_Function], run: Callable[[], Any], first: Callable[[BaseException], Any]
) -> Any:
    """The result of a loop; if its iterations raise an exception, the result of ``first``."""
    return _tried(functions, run, is_stated, first) if interpreter.is_traced() else run()


def _iteration(op: str, function: _Function, *args: Any) -> None:
    """The first iteration, with its number in the exception."""
    try:
        function(*args)
    except Exception as error:
        error.add_note(iteration_note(op, 0))
        raise


def _is_of_graph(predicate: Any) -> bool:
    """Whether the graph decides which branch is taken."""
    if not interpreter.is_traced():
        return False
    if issubclass(type(predicate), AbstractNumber):
        return bool(predicate.varies)
    return isinstance(predicate, AbstractArray)


def _code(function: _Function) -> Any:
    """The code of a function, for messages; a substitute where it has none."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__code__", _code.__code__)


replacements.update({
    cond: _cond, switch: _switch, while_loop: _while_loop, scan: _scan, map_: _map,
})  # fmt: skip
