"""`Program`: a function with calls and their expected results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Program(NamedTuple):
    """A function with calls and their expected results.

    Attributes:
        function: takes numbers and lists of numbers; floats and lists become tensors.
        calls: pairs of arguments and the result.
        ops: the ops with subgraphs that its graph has.
    """

    function: Callable[..., Any]
    calls: tuple[tuple[tuple[Any, ...], Any], ...]
    ops: frozenset[str]

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(getattr(self.function, "__name__", "partial"))


def row(
    function: Callable[..., Any], *calls: tuple[tuple[Any, ...], Any], ops: str = ""
) -> Program:
    """A row of the table; ``ops`` has names of ops with spaces between them."""
    return Program(function, calls, frozenset(ops.split()))
