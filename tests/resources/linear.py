"""Whether a concurrent history could have happened one operation after the other.

An operation is a number of *moves* (an `enqueue_many` of three elements has three), each of which
happens at one moment between the beginning and the end of the operation. The search goes through
all orders of moves that respect which operation ended before which began (Wing and Gong, 1993).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

State = Hashable


@dataclass(eq=False)
class Operation:
    """One operation of a history.

    Attributes:
        kind: which.
        start: when it began.
        end: when it ended; infinity if it never did.
        moves: what it did, in order, with what it gave or got.
        error: the name of the error that it ended with.
    """

    kind: str
    start: float
    end: float = float("inf")
    moves: list[tuple[str, Any]] = field(default_factory=list)
    error: str = ""


#: the states after a move, none if it is not possible
Model = Callable[[Any, str, Any], Iterable[State]]


def is_linearizable(history: Sequence[Operation], initial: State, model: Model) -> bool:
    """Whether there is an order of all moves that the model allows."""
    limit = [op.start for op in history]
    seen: set[Any] = set()

    def search(done: tuple[int, ...], state: State) -> bool:
        if all(d == len(op.moves) for d, op in zip(done, history, strict=True)):
            return True
        if (done, state) in seen:
            return False
        seen.add((done, state))
        # an operation that is not through and ended before another began comes first
        earliest = min(op.end for d, op in zip(done, history, strict=True) if d < len(op.moves))
        for i, op in enumerate(history):
            if done[i] < len(op.moves) and limit[i] <= earliest:
                kind, value = op.moves[done[i]]
                after = (*done[:i], done[i] + 1, *done[i + 1 :])
                if any(search(after, next_state) for next_state in model(state, kind, value)):
                    return True
        return False

    return search((0,) * len(history), initial)
