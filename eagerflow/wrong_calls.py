"""Remedies for calls, attributes and operators that Python itself refuses.

Python raises these errors before any code of eagerflow runs, in the frame of the user. A catch-all
parameter in each function would see them, and cost each call the time of a dict. So the remedy is a
note that is added to the error later: where it passes a frame of eagerflow, or where it is shown
(docs/decisions/0051-wrong-calls.md).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from opcode import opmap
from types import FrameType, TracebackType
from typing import Any, Final

_Find = Callable[[Any], str | None]
_Check = Callable[[Any, int, FrameType], None]
_find: _Find | None = None
_find_rest: _Find | None = None
_check_parts: _Check | None = None
_Hide = Callable[[BaseException], AbstractContextManager[None]]
#: the beginning of the note, as in errors of eagerflow
_LABEL: Final = "  hint: "
#: the errors that Python raises; subclasses have messages of their own
_KINDS: Final = (TypeError, AttributeError, ImportError, ModuleNotFoundError)
_UNPACK: Final = opmap["UNPACK_SEQUENCE"]
_CALLS: Final = {opmap[name] for name in ("CALL", "CALL_KW", "CALL_FUNCTION_EX") if name in opmap}
#: the instructions that take the parts of a result
_PARTS: Final = {_UNPACK, *(number for name, number in opmap.items() if name.startswith("STORE_"))}
_Shown = Callable[[type[BaseException], BaseException, TracebackType | None], object]


def find_remedies_by(find: _Find, rest: _Find, parts: _Check) -> None:
    """Register the functions that find remedies, of modules above, as remedies may name anything.

    Args:
        find: gives the replacement for code that Python refused, from its `TypeError`,
            `AttributeError` or `ImportError`; None for errors not about eagerflow.
        rest: lists other code in the source of an error that would be refused.
        parts: refuses to unpack a tensor into parts, if the function that a frame calls returns
            several values in other frameworks.
    """
    global _find, _find_rest, _check_parts
    _find, _find_rest, _check_parts = find, rest, parts


def add_remedy(error: BaseException) -> None:
    """Add a note with the remedy to an error that Python raised, once.

    Args:
        error: any error; only Python's errors about eagerflow get a note.
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


def check_unpacking(x: Any, frame: FrameType) -> None:
    """Check a tensor that is iterated over: it may be the result of a call that is unpacked.

    ``out, weights = attention(x)`` would split the batch, silently if it has two rows. Python
    requests an iterator first: the requesting instruction has the number of parts, and the one
    before made the tensor.

    Args:
        x: the tensor.
        frame: the frame that requests the iterator.
    """
    if _check_parts is None:
        return
    code, at = frame.f_code.co_code, frame.f_lasti
    if code[at] == _UNPACK and _is_result(code, at):
        _check_parts(x, code[at + 1], frame)


def _is_result(code: bytes, at: int) -> bool:
    """Whether the instruction at ``at`` unpacks the result of a call, or a part of the result."""
    before = _before(code, at)
    while code[before] in _PARTS:
        before = _before(code, before)
    return code[before] in _CALLS


def _before(code: bytes, at: int) -> int:
    """The instruction before another one, or itself if it is the first; zeros are caches."""
    before = at - 2
    while before > 0 and not code[before]:
        before -= 2
    return max(before, 0)


#: the notes on other code that errors of threads have had, as several threads often fail alike
_told_in_threads: Final[dict[str, object]] = {}


def _add_all(error: BaseException, once: bool = False) -> None:
    """Add the remedy, and a note on other code in the error's source that would be refused.

    Args:
        error: any error.
        once: whether to leave out a note on other code that the error of a thread has had.
    """
    add_remedy(error)
    notes = getattr(error, "__notes__", ())
    if _find_rest is None or not (getattr(error, "hint", None) or any(map(_is_remedy, notes))):
        return
    try:
        rest = _find_rest(error)
    except Exception:  # the user's error stays, with the hint that it has
        return
    if rest is None or rest in notes:
        return
    mine = object()
    if not once or _told_in_threads.setdefault(rest, mine) is mine:
        error.add_note(rest)


def _is_remedy(note: str) -> bool:
    return note.startswith(_LABEL)


def _unchanged(error: BaseException) -> AbstractContextManager[None]:
    """The default, which shows all frames."""
    return nullcontext()


_hide: _Hide = _unchanged


def add_remedies_where_shown(hide: _Hide) -> None:
    """Add remedies to uncaught errors, if Python or IPython shows them.

    Other handlers of uncaught errors in this process stay as they are.

    Args:
        hide: the context in which Python shows an error.
    """
    global _hide
    _hide = hide
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _show_of_thread
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None and shell.custom_exceptions == ():
        shell.set_custom_exc(_KINDS, _show_in_ipython)


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _add_all(error)
    with _hide(error):
        sys.__excepthook__(kind, error, error.__traceback__)


def _show_of_thread(args: threading.ExceptHookArgs, /) -> None:
    error = args.exc_value
    if error is None:
        threading.__excepthook__(args)
        return
    _add_all(error, once=True)
    with _hide(error):
        shown = (args.exc_type, error, error.__traceback__, args.thread)
        threading.__excepthook__(threading.ExceptHookArgs(shown))


def _show_in_ipython(
    shell: Any, kind: type[BaseException], error: BaseException, trace: Any, tb_offset: Any = None
) -> None:
    _add_all(error)
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
