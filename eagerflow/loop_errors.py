"""What errors that are raised in loops say of the iteration, in whichever way the loop is run."""

from __future__ import annotations


def iteration_note(op: str, iteration: int, source: object = None) -> str:
    """What an error that is raised in a loop says of the iteration.

    Args:
        op: the function that made the loop.
        iteration: its number, from 0.
        source: the line of the loop.
    """
    where = f", at {source}" if source is not None else ""
    return f"  in iteration {iteration} (counted from 0) of {op}{where}"
