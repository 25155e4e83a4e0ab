"""Knowledge about the loops in a part of a trace when that part is traced again.

A loop is traced twice where a loop-carried number turns out to become a tensor, or a size to
change. Loops inside it would be traced four times, those inside them eight times, if each began
anew to find out about itself. So it is noted, in the order of the trace, how loops turned out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, final
from weakref import WeakKeyDictionary

from eagerflow.graph.kinds import NumberType
from eagerflow.tracing.tracer import Tracer
from eagerflow.types import TensorSpec

__all__ = ["LeafOutcome", "Outcome", "note", "outcome_of"]


class LeafOutcome(NamedTuple):
    """How a leaf of the carry of a loop turned out. It refers to no trace.

    Attributes:
        number: the type of the number that the loop began with, if it was one.
        still: whether no iteration changes it.
        became: the type of the tensor without axes that iterations made of it.
        loose: the axes whose size iterations change.
    """

    number: NumberType | None
    still: bool
    became: TensorSpec | None
    loose: frozenset[int]


@final
class Outcome:
    """How a part of a trace turned out: a loop, a branch, or the trace as a whole.

    Args:
        code: of the user's function, by which the part is recognised.
        earlier: the parts inside, in order, as they were the last time.
        guess: the part itself, as it was the last time.

    Attributes:
        leaves: those of the carry, for a loop.
        done: whether it was traced to its end.
    """

    __slots__ = ("_earlier", "_parts", "code", "done", "guess", "leaves")

    def __init__(
        self, code: Any = None, earlier: Sequence[Outcome] = (), guess: Outcome | None = None
    ) -> None:
        self.code = code
        self.guess = guess
        self.leaves: Sequence[LeafOutcome] = ()
        self.done = False
        self._earlier = earlier
        self._parts: list[Outcome] = []

    def part(self, function: Callable[..., Any]) -> Outcome:
        """The outcome of the next part inside, which is traced now."""
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        inside: Sequence[Outcome] = ()
        if self._parts and not self._parts[-1].done:  # it failed, and is traced in another way
            failed = self._parts.pop()
            inside = failed._parts if failed.code is code else ()
        place = len(self._parts)
        guess = self._earlier[place] if place < len(self._earlier) else None
        if guess is not None and guess.code is not code:  # the code takes another path this time
            self._earlier, guess = (), None
        if guess is not None and not inside:
            inside = guess._parts
        outcome = Outcome(code, inside, guess)
        self._parts.append(outcome)
        return outcome

    def again(self) -> None:
        """Note that it is traced once more."""
        if self._parts:
            self._earlier, self._parts = self._parts, []


_outcomes: Final[WeakKeyDictionary[Tracer, Outcome]] = WeakKeyDictionary()


def outcome_of(tracer: Tracer) -> Outcome:
    """The outcome of the part that ``tracer`` traces."""
    return _outcomes.setdefault(tracer, Outcome())


def note(tracer: Tracer, outcome: Outcome) -> None:
    """Set the outcome of the part that ``tracer`` traces."""
    _outcomes[tracer] = outcome
