"""Forwarding of a task's printed output to its clients.

A task writes all output into its log. Output of a function that is called for a client goes to
that client as well, line by line, with a limit per second. Other output, such as warnings, belongs
to no client: it is sent as lines of the task itself.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from threading import RLock
from time import monotonic
from typing import Any, Final, TextIO, final

#: called with the lines, and with the number of lines left out
Told = Callable[[tuple[str, ...], int], object]

#: limit of lines for one call, and for one client in a second
_LINES: Final = 100
#: limit of characters for a line
_LONGEST: Final = 2_000


@final
class _Heard:
    """The output of one call.

    Attributes:
        lines: the lines to forward, the last of them perhaps incomplete.
        left_out: number of further lines.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.left_out = 0
        self._ended = True

    def hear(self, text: str) -> None:
        """Add a part of the output."""
        for part in text.splitlines(keepends=True):
            if self._ended and len(self.lines) >= _LINES:
                self.left_out += 1
            elif self._ended:
                self.lines.append(part.rstrip("\r\n")[:_LONGEST])
            elif not self.left_out:
                self.lines[-1] = (self.lines[-1] + part.rstrip("\r\n"))[:_LONGEST]
            self._ended = part.endswith(("\n", "\r"))


_heard: Final[ContextVar[_Heard | None]] = ContextVar("what a call prints", default=None)


@final
class OverheardOutput(io.TextIOBase):
    """A text stream whose output is forwarded to the client that a call is made for.

    Args:
        stream: the stream that all output is written to.
        stray: called with output from outside of such calls.
    """

    def __init__(self, stream: TextIO, stray: Callable[[str], object] | None = None) -> None:
        self._stream = stream
        self._stray = stray

    @property
    def encoding(self) -> str:  # type: ignore[override]  # of the stream, which is not written
        return self._stream.encoding

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        heard = _heard.get()
        if heard is not None:
            heard.hear(text)
        elif self._stray is not None:
            self._stray(text)
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()


def write_unheard(stream: TextIO, text: str) -> None:
    """Write a text into a stream without forwarding it."""
    token = _heard.set(_Heard())
    try:
        stream.write(text)
        stream.flush()
    finally:
        _heard.reset(token)


@final
class StrayLines:
    r"""Lines that cannot be attributed to a client, forwarded one by one with a limit per second.

    Args:
        told: called with lines, in the thread that has written the last of them.
        clock: gives the time in seconds.

    >>> from eagerflow.cluster.processes.overheard_output import StrayLines
    >>> stray = StrayLines(lambda lines, left_out: print(lines, left_out), clock=lambda: 0.0)
    >>> for text in ("a war", "ning\nand another\n", "not en", "ded"):
    ...     stray.hear(text)
    ('a warning', 'and another') 0
    """

    def __init__(self, told: Told, clock: Callable[[], float] = monotonic) -> None:
        self._told = told
        self._clock = clock
        self._lock = RLock()  # a finaliser may write while a line is taken
        self._begun = ""
        self._since = float("-inf")
        self._lines = 0
        self._left_out = 0

    def hear(self, text: str) -> None:
        """Add a part of the output, from any thread."""
        with self._lock:
            *whole, rest = (self._begun + text).split("\n")
            self._begun = rest[:_LONGEST]
            lines = [line[:_LONGEST] for line in whole if line.strip()]
            if not lines:
                return
            if self._clock() >= self._since + 1.0:
                self._since, self._lines = self._clock(), 0
            told = tuple(lines[: max(0, _LINES - self._lines)])
            self._lines += len(told)
            left_out = self._left_out + len(lines) - len(told)
            self._left_out = 0 if told else left_out
        if told:
            self._told(told, left_out)


@final
class Listener:
    """Forwards the output of functions called for one client to that client.

    Args:
        told: called with the lines of each call, in the thread of the call.

    >>> import contextlib, sys
    >>> from eagerflow.cluster.processes.overheard_output import Listener, OverheardOutput
    >>> hello = Listener(lambda lines, left_out: sys.stdout.write(f"told {lines}")).calling(print)
    >>> with contextlib.redirect_stdout(OverheardOutput(sys.stdout)):
    ...     hello("Hello")
    Hello
    told ('Hello',)
    """

    def __init__(self, told: Told) -> None:
        self._told = told
        self._since = 0.0
        self._lines = 0

    def calling(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose output is forwarded."""

        @wraps(function)
        def call(*arguments: Any) -> Any:
            heard = _Heard()
            token = _heard.set(heard)
            try:
                return function(*arguments)
            finally:
                _heard.reset(token)
                if heard.lines:
                    self._tell(heard)

        return call

    def _tell(self, heard: _Heard) -> None:
        """Forward as many lines as this second's limit allows."""
        now = monotonic()
        if now >= self._since + 1.0:
            self._since, self._lines = now, 0
        lines = heard.lines[: max(0, _LINES - self._lines)]
        self._lines += len(lines)
        self._told(tuple(lines), heard.left_out + len(heard.lines) - len(lines))
