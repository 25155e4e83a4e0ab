"""Remedies for calls, attributes and imports that Python itself refused."""

from __future__ import annotations

from eagerflow.hints import (
    foreign_operands,
    iterated_dicts,
    missing_attributes,
    missing_imports,
    refused_calls,
    uncalled_methods,
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
    if isinstance(error, AttributeError):
        return iterated_dicts.remedy(error) or missing_attributes.remedy(error)
    finders = (iterated_dicts, refused_calls, foreign_operands, uncalled_methods)
    return next(filter(None, (finder.remedy(error) for finder in finders)), None)
