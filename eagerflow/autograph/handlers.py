"""`try` in converted code: handlers must not meet what only a trace raises, or only the graph."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, TracebackType
from typing import Any, Final, final

from eagerflow.autograph.convert import operator
from eagerflow.autograph.reading import line_text
from eagerflow.errors import TraceError

__all__ = ["Escaped", "catching", "refuse_caught"]


@final
class Escaped(BaseException):
    """An error of a trace that passes by the handlers of the user.

    Args:
        error: the error.
    """

    def __init__(self, error: TraceError) -> None:
        super().__init__()
        self.error = error


@operator
@final
class catching:  # noqa: N801 - converted code calls it as an operator
    """The block of a `try`.

    Args:
        kinds: gives what the handlers catch.
    """

    def __init__(self, kinds: Callable[[], Any]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        _under_way.append(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        _under_way.pop()
        if isinstance(error, TraceError) and self.catches(error):
            raise Escaped(error) from None

    def catches(self, error: BaseException) -> bool:
        """Whether a handler is for ``error``."""
        return isinstance(error, self._kinds())

    @property
    def line(self) -> str:
        """Where the handlers are, for messages."""
        code: CodeType = getattr(self._kinds, "__code__")  # noqa: B009 - of a callable
        return line_text(code, code.co_firstlineno)


_under_way: Final[list[catching]] = []


def refuse_caught(error: BaseException) -> None:
    """Refuse an exception that only the graph raises, if a handler of Python is to catch it.

    Raises:
        TraceError: one is.
    """
    handler = next((one for one in reversed(_under_way) if one.catches(error)), None)
    if handler is None:
        return
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised = (
        "" if trace is None else f", raised at {line_text(trace.tb_frame.f_code, trace.tb_lineno)}"
    )
    raise TraceError(
        "an exception is raised under a condition on a tensor, and caught",
        given=f"{type(error).__name__}{raised}\n    and caught at {handler.line}",
        hint="do in the `if` what the handler does",
    )
