"""What is said of calls, attributes and operators that Python itself refuses.

It raises these errors before any code of eagerflow runs, in the frame of the user. A
catch-all parameter in each function would see them, and cost each call the time that its dict
takes. So the remedy is a note that the error gets later: where it passes a frame of eagerflow, or
where it is shown (docs/decisions/0051-wrong-calls.md).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

_Find = Callable[[Any], str | None]
_find: _Find | None = None
_find_rest: _Find | None = None
#: where the note begins, as in errors of eagerflow
_LABEL: Final = "  hint: "
#: what Python raises; subclasses of others have words of their own
_KINDS: Final = (TypeError, AttributeError, ImportError, ModuleNotFoundError)
_Shown = Callable[[type[BaseException], BaseException, TracebackType | None], object]


def find_remedies_by(find: _Find, rest: _Find) -> None:
    """Let remedies be found by functions from above, which may name whatever there is.

    Args:
        find: gives what to write in the place of what Python refused, by its `TypeError`,
            `AttributeError` or `ImportError`; None for what is not of eagerflow.
        rest: gives what else in the source of an error would be refused.
    """
    global _find, _find_rest
    _find, _find_rest = find, rest


def add_remedy(error: BaseException) -> None:
    """Add a note with the remedy to an error that Python raised, once.

    Args:
        error: any; only those of Python about something of eagerflow get a note.
    """
    if type(error) not in _KINDS or _find is None:
        return
    if any(map(_is_remedy, getattr(error, "__notes__", ()))):
        return
    try:
        remedy = _find(error)
    except Exception:  # the user's error stays, without a hint
        return
    if remedy is not None:
        error.add_note(_LABEL + remedy)


def _add_all(error: BaseException) -> None:
    """Add the remedy, and what else in the source of the error is written as elsewhere."""
    add_remedy(error)
    notes = getattr(error, "__notes__", ())
    if _find_rest is None or not (getattr(error, "hint", None) or any(map(_is_remedy, notes))):
        return
    try:
        rest = _find_rest(error)
    except Exception:  # the user's error stays, with the hint that it has
        return
    if rest is not None and rest not in notes:
        error.add_note(rest)


def _is_remedy(note: str) -> bool:
    return note.startswith(_LABEL)


def add_remedies_where_shown() -> None:
    """Add remedies to errors that nobody catches, if it is Python or IPython that shows them.

    Whatever else shows errors in this process stays as it is.
    """
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None and shell.custom_exceptions == ():
        shell.set_custom_exc(_KINDS, _show_in_ipython)


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _add_all(error)
    sys.__excepthook__(kind, error, trace)


def _show_in_ipython(
    shell: Any, kind: type[BaseException], error: BaseException, trace: Any, tb_offset: Any = None
) -> None:
    _add_all(error)
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
