"""Calls in threads that serve many jobs: the error of a job is reported, and ends no thread."""

from __future__ import annotations

import threading
from collections.abc import Callable


def call_and_report(job: Callable[[], object]) -> None:
    """Call ``job``; what it raises goes to ``threading.excepthook``, and the thread goes on."""
    try:
        job()
    except BaseException as error:
        details = (type(error), error, error.__traceback__, threading.current_thread())
        threading.excepthook(threading.ExceptHookArgs(details))
