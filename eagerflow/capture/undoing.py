"""Undo actions for failed runs of traced functions.

A step that fails does not undo its writes. Code that writes trial values into variables of the
user registers an undo action with a variable that the graph writes meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary, ref

from eagerflow.resources.variable import VariableState

#: weak references to an object and the function of its method; a `WeakMethod` would complain if
#: class and object are collected at once
_Action: TypeAlias = tuple[ref[Any], ref[Any]]
#: by the resource of a variable
_actions: Final[WeakKeyDictionary[VariableState, _Action]] = WeakKeyDictionary()


def undo_by(variable: Any, action: Any) -> None:
    """Call a method whenever a run fails of a traced function that refers to a variable.

    Args:
        variable: variable by which graphs are recognised for which the method is called.
        action: a method without arguments of an object that holds the variable; the object is not
            kept alive.

    >>> from eagerflow.extending import undo_by
    >>> class Search:
    ...     def __init__(self, variable):
    ...         self.variable, self.before = variable, variable.value
    ...         undo_by(variable, self.undo)
    ...     def undo(self):
    ...         self.variable.assign(self.before)
    >>> v = ef.Variable(1.0)
    >>> search = Search(v)
    >>> @ef.trace
    ... def attempt(x):
    ...     with ef.control_dependencies([v.assign(x)]):
    ...         return ef.py_call(lambda y: 1 / 0, x, x)
    >>> try:
    ...     attempt(ef.tensor(5.0))
    ... except ZeroDivisionError:
    ...     print(v.item())
    1.0
    """
    _actions[variable.resource] = ref(action.__self__), ref(action.__func__)


def undoing(run: Callable[..., Sequence[Any]], resources: Iterable[Any]) -> Callable[..., Any]:
    """``run``, or a function that also calls the registered undo actions if the run fails.

    Args:
        run: runs a graph.
        resources: the resources that the graph refers to.
    """
    actions = [_actions[r] for r in resources if type(r) is VariableState and r in _actions]
    if not actions:
        return run

    def run_or_undo(*args: Any) -> Sequence[Any]:
        try:
            return run(*args)
        except BaseException:
            for owner_ref, action_ref in actions:
                owner, action = owner_ref(), action_ref()
                if owner is not None and action is not None:
                    action(owner)
            raise

    return run_or_undo
