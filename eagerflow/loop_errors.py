"""Notes of errors in loops on the iteration, the same for all ways to run a loop."""

from __future__ import annotations


def iteration_note(op: str, iteration: int, source: object = None) -> str:
    """The note on the iteration for an error that is raised in a loop.

    Args:
        op: the function that made the loop.
        iteration: its number, from 0.
        source: the line of the loop.
    """
    where = f", at {source}" if source is not None else ""
    return f"  in iteration {iteration} (counted from 0) of {op}{where}"
