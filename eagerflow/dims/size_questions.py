"""What is asked where code needs the size of a dim: the block, or the trace, that is open.

Outside of all of these no size is known.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token, copy_context
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from eagerflow.errors import DataDependentError
from eagerflow.source import is_framework_frame

if TYPE_CHECKING:
    from eagerflow.dims.dim import Dim

_T = TypeVar("_T")


@final
@dataclass(slots=True, eq=False)
class resolving:
    """Say, for this thread and the length of the block, what is asked for the size of a dim.

    Args:
        size: ``size(dim, why)`` gives the size; ``why`` says in Python's terms what asks. None as
            outside of all traces, where no size is known: a trace around is not asked.
        number: ``number(dim)`` gives an object that does arithmetic with floats in its place;
            without it, that asks for the size as well.
        fresh: ``fresh(name)`` gives a new name for a size that depends on data; without it, such
            a size is an error.
        text: ``text(dim, spell)`` gives a text in the place of ``spell(size)``, None for a size
            that can be asked for; without it, all sizes are asked for.

    >>> from eagerflow.dims import resolving
    >>> with resolving(lambda dim, why: dim.evaluate({"n": 3})):
    ...     list(range(ef.Dim("n")))
    [0, 1, 2]
    """

    size: Callable[[Dim, str], int] | None
    number: Callable[[Dim], Any] | None = None
    fresh: Callable[[str], Dim] | None = None
    text: Callable[[Dim, Callable[[int], str]], str | None] | None = None
    spells: bool = field(default=False, init=False)  # whether a text of the user's code is made
    _token: Token[resolving | None] = field(init=False)

    def __enter__(self) -> None:
        self._token = resolver.set(None if self.size is None else self)

    def __exit__(self, *raised: object) -> None:
        resolver.reset(self._token)

    def run(self, call: Callable[[], _T]) -> _T:
        """``call()`` within the block.

        Whatever ends the call, the block is open no more: Ctrl-C may also come while a block begins
        or ends. Context variables that the call sets are as before.
        """
        return copy_context().run(self._within, call)

    def _within(self, call: Callable[[], _T]) -> _T:
        resolver.set(None if self.size is None else self)
        return call()


resolver: Final[ContextVar[resolving | None]] = ContextVar("resolver", default=None)


def by_name(frame: FrameType) -> bool:
    """Whether a text that code in ``frame`` makes shows sizes by their names: none of the user's.

    The user's code wants the numbers.
    """
    block = resolver.get()
    return block is None or (not block.spells and is_framework_frame(frame))


def spelled(spell: Callable[[Any], str], x: Any) -> str:
    """``spell(x)`` for the user's code: whatever makes the text, sizes in it are numbers.

    >>> from eagerflow.dims import resolving, spelled
    >>> with resolving(lambda dim, why: dim.evaluate({"n": 3})):
    ...     spelled(repr, KeyError(ef.Dim("n")))
    'KeyError(3)'
    """
    block = resolver.get()
    if block is None:
        return spell(x)
    before, block.spells = block.spells, True
    try:
        return spell(x)
    finally:
        block.spells = before


def unknown(name: str, why: str, hint: str | None = None) -> Any:
    """A size that depends on data; in a trace a new name.

    Args:
        name: what to call it.
        why: says of which data, for the error.
        hint: what to do, likewise.

    Raises:
        DataDependentError: no trace is under way.

    >>> from eagerflow.dims import resolving, unknown
    >>> with resolving(lambda dim, why: 0, fresh=ef.Dim):
    ...     size = unknown("k", "how many are not zero depends on the data")
    >>> size
    k
    """
    block = resolver.get()
    if block is None or block.fresh is None:
        raise DataDependentError(why, hint=hint)
    return block.fresh(name)
