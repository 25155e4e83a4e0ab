"""`Program`: a function with the calls that it is tested by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Program(NamedTuple):
    """A function with calls.

    Attributes:
        function: takes numbers and lists of numbers; floats and lists become tensors.
        calls: arguments, and what the function gives.
        ops: the ops with subgraphs that its graph has.
    """

    function: Callable[..., Any]
    calls: tuple[tuple[tuple[Any, ...], Any], ...]
    ops: frozenset[str]

    @property
    def name(self) -> str:
        """Of the function."""
        return str(getattr(self.function, "__name__", "partial"))


def row(
    function: Callable[..., Any], *calls: tuple[tuple[Any, ...], Any], ops: str = ""
) -> Program:
    """A row of the table; ``ops`` are named with spaces between."""
    return Program(function, calls, frozenset(ops.split()))
