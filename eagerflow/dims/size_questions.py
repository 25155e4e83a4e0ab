"""Resolvers: the source of the size behind a dim, set by the open block or trace.

Outside of all blocks and traces no size is known.
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
    """Set the source of the sizes of dims, for this thread and the length of the block.

    Args:
        size: ``size(dim, why)`` gives the size; ``why`` names the asking operation in Python's
            terms. None as outside of all traces, where no size is known: an outer trace is not
            asked.
        number: ``number(dim)`` gives an object that does float arithmetic in place of the dim;
            without it, such arithmetic asks for the size as well.
        fresh: ``fresh(name)`` gives a new name for a size that depends on data; without it, such a
            size is an error.
        text: ``text(dim, spell)`` gives a text in place of ``spell(size)``, None for a size that
            can be asked for; without it, all sizes are asked for.

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
        """Call ``call`` within the block.

        However the call ends, the block is closed: Ctrl-C may also come while a block begins or
        ends. Context variables that the call sets are restored.
        """
        return copy_context().run(self._within, call)

    def _within(self, call: Callable[[], _T]) -> _T:
        resolver.set(None if self.size is None else self)
        return call()


resolver: Final[ContextVar[resolving | None]] = ContextVar("resolver", default=None)


def by_name(frame: FrameType) -> bool:
    """Whether a text made by code in ``frame`` shows sizes by name.

    In a block, texts made by the user's code show the numbers.
    """
    block = resolver.get()
    return block is None or (not block.spells and is_framework_frame(frame))


def spelled(spell: Callable[[Any], str], x: Any) -> str:
    """``spell(x)`` for the user's code: sizes in the text are numbers, whichever code makes it.

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
    """A size that depends on data: in a trace a new name.

    Args:
        name: the suggested name.
        why: the reason, with the data that it depends on, for the error.
        hint: advice, for the error.

    Raises:
        DataDependentError: no trace is under way.

    >>> from eagerflow.dims import resolving, unknown
    >>> with resolving(lambda dim, why: 0, fresh=ef.Dim):
    ...     size = unknown("k", "the number of nonzero elements depends on the data")
    >>> size
    k
    """
    block = resolver.get()
    if block is None or block.fresh is None:
        raise DataDependentError(why, hint=hint)
    return block.fresh(name)
