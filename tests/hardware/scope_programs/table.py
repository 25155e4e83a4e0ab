"""Programs with device scopes, with the devices of their results and the moves.

Each takes ``wrap``, which is `ef.trace` or leaves its functions as they are, and gives a tree of
results. Both ways give the same bits, on the same devices, with the same moves; where the moves of
a graph differ, its row gives the reason, in words of `docs/devices.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import eagerflow as ef

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
Program = Callable[[Wrap], Any]


@dataclass(frozen=True)
class Row:
    """A program.

    Attributes:
        run: the function.
        devices: the devices of the results, as ``"1 0"`` for cpu:1 and cpu:0.
        moves: the moves, in any order, as ``"0>1"`` for a move from cpu:0 to cpu:1.
        traced: the moves when traced.
        why: why the moves of a graph differ; empty if they do not.
    """

    run: Program
    devices: str
    moves: str
    traced: str
    why: tuple[str, ...] = ()


ROWS: dict[str, Row] = {}


#: reasons for other moves in a graph than in eager code
PREDICATE = "a predicate crosses"
INVARIANT = "an invariant crosses once"
STRAIGHT = "a value goes straight"
FIRST = "the first value crosses"


def program(
    devices: str, moves: str = "", traced: str | None = None, why: tuple[str, ...] = ()
) -> Callable[[Program], Program]:
    """A decorator that puts a program into the table."""

    def put(run: Program) -> Program:
        assert run.__name__ not in ROWS
        ROWS[run.__name__] = Row(run, devices, moves, moves if traced is None else traced, why)
        return run

    return put


def x() -> ef.Tensor:
    """A tensor on cpu:0."""
    return ef.tensor([1.0, 2.0, 3.0], device="cpu:0")


def y() -> ef.Tensor:
    """A tensor on cpu:1."""
    return ef.tensor([4.0, 5.0, 6.0], device="cpu:1")
