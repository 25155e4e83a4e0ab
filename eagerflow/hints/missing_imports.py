"""Remedies for imports of names that eagerflow does not have."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Final

from eagerflow.hints.lookahead.names_of_source import hint_of

#: Python's text of ``from module import name``
_NO_NAME: Final = re.compile(r"^cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'")


def remedy(error: ImportError) -> str | None:
    """The remedy for a failed import, if it is of a part of eagerflow.

    Args:
        error: as Python raised it.

    >>> try:
    ...     from eagerflow.optim.lr_scheduler import StepLR
    ... except ImportError as error:
    ...     print(ef.hints.missing_imports.remedy(error).partition(":")[0])
    a schedule is the learning rate of the optimiser and counts updates (not epochs) by itself
    """
    no_name = _NO_NAME.match(str(error))
    module, name = no_name.group("module", "name") if no_name else _missing(error.name or "")
    if module.partition(".")[0] != "eagerflow":
        return None
    return hint_of(import_module(module), name)


def _missing(path: str) -> tuple[str, str]:
    """The parent module in the path of a missing module, and the name that the parent lacks."""
    owner, _, name = path.rpartition(".")
    return owner, name
