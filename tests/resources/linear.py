"""Linearizability: whether a concurrent history is equivalent to some sequential one.

An operation is a number of *moves* (an `enqueue_many` of three elements has three), each of which
happens at one moment between the beginning and the end of the operation. The search tries all
orders of moves in which operations that did not overlap keep their order (Wing and Gong, 1993).
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
        kind: its name.
        start: the time of its beginning.
        end: the time of its end; infinity if it has not ended.
        moves: its moves in order, each with the value put or taken.
        error: the name of the error that it ended with.
    """

    kind: str
    start: float
    end: float = float("inf")
    moves: list[tuple[str, Any]] = field(default_factory=list)
    error: str = ""


#: the possible states after a move; none if the move is impossible
Model = Callable[[Any, str, Any], Iterable[State]]


def is_linearizable(history: Sequence[Operation], initial: State, model: Model) -> bool:
    """Whether the model allows some order of all moves."""
    limit = [op.start for op in history]
    seen: set[Any] = set()

    def search(done: tuple[int, ...], state: State) -> bool:
        if all(d == len(op.moves) for d, op in zip(done, history, strict=True)):
            return True
        if (done, state) in seen:
            return False
        seen.add((done, state))
        # a move may not come after one of an operation that began after its own had ended
        earliest = min(op.end for d, op in zip(done, history, strict=True) if d < len(op.moves))
        for i, op in enumerate(history):
            if done[i] < len(op.moves) and limit[i] <= earliest:
                kind, value = op.moves[done[i]]
                after = (*done[:i], done[i] + 1, *done[i + 1 :])
                if any(search(after, next_state) for next_state in model(state, kind, value)):
                    return True
        return False

    return search((0,) * len(history), initial)
