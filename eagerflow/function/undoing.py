"""What is put back when a traced function fails.

A step that fails does not undo what it did. Who writes trial values into variables of the user
says what is to be done then, for a variable that the graph writes while it tries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary, WeakMethod

from eagerflow.resources.variable import VariableState

__all__ = ["undo_by", "undoing"]

_Action: TypeAlias = WeakMethod[Callable[[], None]]
#: by the resource of a variable
_actions: Final[WeakKeyDictionary[VariableState, _Action]] = WeakKeyDictionary()


def undo_by(variable: Any, action: Callable[[], None]) -> None:
    """Call a method whenever a run fails of a traced function that refers to a variable.

    Args:
        variable: what tells graphs that the method is for them.
        action: of an object that holds the variable, which is not kept alive by this.
    """
    _actions[variable.resource] = WeakMethod(action)


def undoing(run: Callable[..., Sequence[Any]], resources: Iterable[Any]) -> Callable[..., Any]:
    """``run``, or a function that undoes what is to be undone if it fails.

    Args:
        run: runs a graph.
        resources: what the graph refers to.
    """
    found = [_actions[r] for r in resources if type(r) is VariableState and r in _actions]
    if not found:
        return run

    def run_or_undo(*args: Any) -> Sequence[Any]:
        try:
            return run(*args)
        except BaseException:
            for reference in found:
                action = reference()
                if action is not None:
                    action()
            raise

    return run_or_undo
