"""Remedies for calls, attributes and imports that Python itself refused."""

from __future__ import annotations

from typing import Any, Final

from eagerflow.hints import (
    absent_results,
    foreign_operands,
    iterated_dicts,
    missing_attributes,
    missing_imports,
    refused_calls,
    uncalled_methods,
)

#: the modules that look for a remedy, in this order, by the kind of error
_ATTRIBUTES: Final[tuple[Any, ...]] = (iterated_dicts, missing_attributes, absent_results)
_CALLS: Final[tuple[Any, ...]] = (
    iterated_dicts,
    refused_calls,
    foreign_operands,
    uncalled_methods,
    absent_results,
)


def remedy(error: TypeError | AttributeError | ImportError) -> str | None:
    """The code to write instead, if the error is about a part of eagerflow.

    Args:
        error: as Python raised it, with its traceback.

    >>> import eagerflow as ef
    >>> try:
    ...     ef.ones(3).isclose(1.0)
    ... except AttributeError as error:
    ...     print(ef.hints.remedies.remedy(error))
    ef.isclose(x1, x2, /, rtol=1e-05, atol=1e-08, equal_nan=False)
    """
    if isinstance(error, ImportError):
        return missing_imports.remedy(error)
    finders = _ATTRIBUTES if isinstance(error, AttributeError) else _CALLS
    return next(filter(None, (finder.remedy(error) for finder in finders)), None)
