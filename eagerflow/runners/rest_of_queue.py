"""The warning of a runner that leaves the last elements of its closed queue behind."""

from __future__ import annotations

import warnings

from eagerflow.errors import QueueClosedError
from eagerflow.resources.queue_state import RestOfQueue
from eagerflow.source import Source


def warn_of_rest(runner: str, error: BaseException | None) -> RuntimeWarning | None:
    """Warn of the elements that are left where a runner ends as its `dequeue_many` waits for more.

    Args:
        runner: the name of the runner.
        error: what the runner ends with, at the end of its work.

    Returns:
        The warning as an error, if a filter makes it one.
    """
    if not isinstance(error, QueueClosedError) or not isinstance(error.rest, RestOfQueue):
        return None
    rest, source = error.rest, error.source
    left = rest.size()
    if not left:  # others have taken them
        return None
    text = (
        f"the runner {runner} has ended, and {left} element{'s are' if left != 1 else ' is'} left "
        f"in the {rest.name}: dequeue_many({rest.count}) waits for {rest.count}; "
        f"dequeue_up_to({rest.count}) takes the rest"
    )
    where = (source.file, source.line) if isinstance(source, Source) else ("<unknown>", 0)
    try:
        warnings.warn_explicit(text, RuntimeWarning, *where)
    except RuntimeWarning as refused:
        return refused
    return None
