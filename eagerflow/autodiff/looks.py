"""Looks: places where Python reads numbers from values that a derivative is to flow through.

A number read by Python (``x.item()``, ``float(x)``, ``x.numpy()``) is a constant in all later
computation. Printing it is harmless, and a tape cannot see its other uses. A tape can see that a
source has no path to the result, and that a value computed from it was read.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType
from typing import Any, Final, TypeVar

from eagerflow.autodiff.tape import FIRST_INPUT, PER_INPUT, UNKNOWN, Tape
from eagerflow.errors import GradientError, GradientWarning
from eagerflow.source import Source

_T = TypeVar("_T")
#: warnings issued, so that a loop warns once
_said: Final[dict[Any, Any]] = {}
_HINT: Final = (
    "compute with eagerflow's functions, ef.sin(x) instead of np.sin(x.numpy()); "
    "if no gradient is meant to flow, look at ef.stop_gradient(x)"
)


def last_look(tape: Tape) -> Source | None:
    """The line where Python last looked at a value that the tape follows."""
    return _source(next(reversed(tape.looks.values()), (None, 0)))


def check_looks(
    tape: Tape, results: Sequence[int], sources: Sequence[Sequence[int]], what: str,
    name: Callable[[int], str], *, visible: bool = False,
) -> None:  # fmt: skip
    """Check for looks at sources without a path to the results.

    Args:
        tape: the tape, before its backward pass.
        results: the slots of the results.
        sources: for each source the slots of its values.
        what: the name of the transform, for messages.
        name: maps the number of a source to its name, for messages.
        visible: whether the caller can distinguish a missing gradient from a zero gradient.

    Raises:
        GradientError: no result depends on any source, and a zero would hide that. Else only a
            warning is issued: the look may have been for printing, or the result may be the slope
            of a linear function, in which values were printed.
    """
    looks = {slot: at for slot, at in tape.looks.items() if slot not in results}
    if not looks:
        return
    ways = _ways(tape)
    used = _behind(ways, ((slot, None) for slot in results))
    seen = _behind(ways, reversed(looks.items()))
    certain = not visible and not tape.shares_looks and all(slot == UNKNOWN for slot in results)
    for i, slots in enumerate(sources):
        look = next((seen[slot] for slot in slots if slot in seen), None)
        if look is not None and not any(slot in used for slot in slots):
            tell_of_look(what, name(i), _source(look), certain=certain)


def tell_of_look(what: str, name: str, look: Source | None, *, certain: bool) -> None:
    """Report that a derivative is zero, and that there was a look on the path.

    Args:
        what: the name of the transform.
        name: name of the source that no derivative flows into.
        look: the last look.
        certain: whether to raise an error; else to warn.

    Raises:
        GradientError: ``certain`` is true.
    """
    wrong = (
        f"{what}: no gradient flows into {name}: if the result depends on it, then through a "
        "number or an array of NumPy"
    )
    if certain:
        raise GradientError(wrong, hint=_HINT, source=look)
    where = ("<unknown>", 0) if look is None else (look.file, look.line)
    text = f"{wrong}\n  hint: {_HINT}\n  at: {look}"
    warnings.warn_explicit(text, GradientWarning, *where, registry=_said)


def _source(at: tuple[CodeType | None, int]) -> Source | None:
    code, offset = at
    return None if code is None else Source(code, offset)


def _ways(tape: Tape) -> dict[int, Sequence[int]]:
    """For each slot the slots that it was computed from."""
    ways: dict[int, Sequence[int]] = {link.out_slot: link.in_slots for link in tape.links}
    for record in tape.records:
        outs, ins = record[1], record[FIRST_INPUT::PER_INPUT]
        ways.update(dict.fromkeys((outs,) if type(outs) is int else outs, ins))
    return ways


def _behind(ways: Mapping[int, Sequence[int]], starts: Iterable[tuple[int, _T]]) -> dict[int, _T]:
    """The slots that lead to ``starts``, each with the note of the first start it leads to."""
    notes: dict[int, _T] = {}
    for start, note in starts:
        pending = [start]
        while pending:
            slot = pending.pop()
            if slot != UNKNOWN and slot not in notes:
                notes[slot] = note
                pending += ways.get(slot, ())
    return notes
