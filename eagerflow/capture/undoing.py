"""What is put back when a traced function fails.

A step that fails does not undo what it did. Code that writes trial values into variables of the
user registers what is to be done then, for a variable that the graph writes while it tries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary, ref

from eagerflow.resources.variable import VariableState

#: an object and the function of its method, neither kept alive; a `WeakMethod` would complain if
#: class and object are collected at once
_Action: TypeAlias = tuple[ref[Any], ref[Any]]
#: by the resource of a variable
_actions: Final[WeakKeyDictionary[VariableState, _Action]] = WeakKeyDictionary()


def undo_by(variable: Any, action: Any) -> None:
    """Call a method whenever a run fails of a traced function that refers to a variable.

    Args:
        variable: what tells graphs that the method is for them.
        action: a method without arguments of an object that holds the variable, which is not kept
            alive by this.

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
    """``run``, or a function that undoes what is to be undone if it fails.

    Args:
        run: runs a graph.
        resources: what the graph refers to.
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
