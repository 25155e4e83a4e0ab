"""Errors as heads and back: the parts of the error, and the name of its class."""

from __future__ import annotations

import re
from typing import Final

from eagerflow import errors
from eagerflow.cluster.protocol.message_heads import ErrorHead, is_client
from eagerflow.error_messages import note_failure
from eagerflow.errors import EagerflowError, TaskLost
from eagerflow.resources.resources_at_tasks import TASK_NOTE

#: by name, the classes that an error from another process can have here
_KINDS: Final[dict[str, type[EagerflowError]]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, EagerflowError)
}
_LONGEST: Final = 20_000
#: a device in the text of a type or a resource, as its own process names it
_DEVICE: Final = re.compile(r"(?:(?<=@)|(?<= on ))[a-z]+:\d+(?![\d/:])")
_NOTES: Final = 20


def write_error(error: BaseException, task: str = "") -> ErrorHead:
    """The head of an error. Devices in it are named as other processes name them.

    Args:
        error: any exception; one from elsewhere arrives as an `EagerflowError` that names it.
        task: the task that raised it.
    """
    own = "" if is_client(task) else task

    def told(text: str) -> str:
        return _cut(_DEVICE.sub(rf"{own}/\g<0>", text) if own else text)

    notes = tuple([told(note) for note in getattr(error, "__notes__", ())[:_NOTES]])
    if not isinstance(error, EagerflowError):
        wrong = told(f"{type(error).__name__}: {error}")
        return ErrorHead("EagerflowError", wrong, notes=notes, task=task)
    kind = type(error).__name__
    if _KINDS.get(kind) is not type(error):
        kind = "EagerflowError"
    source = None if error.source is None else str(error.source)
    given, expected, hint, origin = [
        None if text is None else told(text)
        for text in (error.given, error.expected, error.hint, error.origin)
    ]
    source = None if source is None else _cut(source)
    wrong = told(error.wrong)
    return ErrorHead(kind, wrong, given, expected, hint, source, notes, task, origin=origin)


def read_error(head: ErrorHead) -> EagerflowError:
    """The error of a head; an `EagerflowError` if its class is not known here."""
    kind = _KINDS.get(head.kind, EagerflowError)
    # a lost task is no fault of a line: the error names the line that meets with it
    source = head.source or (None if kind is TaskLost else "another process")
    error = kind(
        head.wrong, given=head.given, expected=head.expected, hint=head.hint, source=source
    )  # fmt: skip
    if head.origin is not None:
        note_failure(error, head.origin)
    for note in head.notes:
        error.add_note(note)
    if head.task:
        error.add_note(f"{TASK_NOTE}{head.task}")
    return error


def _cut(text: str) -> str:
    """A text, cut to the limit of a message; characters without an encoding are replaced."""
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
