"""Periodically refreshed texts of objects that views show."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, final

from eagerflow.watching.limits import TEXT_CHARACTERS

#: pause between two looks at an object: least seconds, and multiple of the duration of a look
_PAUSE: Final = 0.5
_REST: Final = 100.0
_numbers: Final = count(1)


@final
@dataclass(slots=True, eq=False)
class _Asked:
    probe: Callable[[], dict[str, Any]]
    due: float = 0.0


@final
class Panels:
    """Objects whose probes are called again and again, using at most a hundredth of the time.

    Args:
        clock: returns the time, as ``time.perf_counter``.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._asked: dict[int, _Asked] = {}

    def add(self, probe: Callable[[], dict[str, Any]]) -> int:
        """Look at an object from now on; returns the number of its row.

        Args:
            probe: returns a description of the object for JSON. It is called in the watcher's
                thread.
        """
        number = next(_numbers)
        self._asked[number] = _Asked(probe)
        return number

    def remove(self, number: int) -> None:
        """Stop looking at an object."""
        self._asked.pop(number, None)

    def keys(self) -> set[tuple[int]]:
        """The keys of the rows of all objects."""
        return {(number,) for number in list(self._asked)}

    def rows(self, now: float) -> list[tuple[int, str]]:
        """The new texts of the objects that are due."""
        return [
            (number, self._text(asked))
            for number, asked in list(self._asked.items()) if now >= asked.due
        ]  # fmt: skip

    def _text(self, asked: _Asked) -> str:
        start = self._clock()
        try:
            text = json.dumps(asked.probe(), ensure_ascii=False)
        except Exception as error:  # an error of a probe must not end the watcher
            text = json.dumps({"title": "", "alarm": f"{type(error).__name__}: {error}"})
        stop = self._clock()
        asked.due = stop + max(_PAUSE, _REST * (stop - start))
        if len(text) > TEXT_CHARACTERS:
            return json.dumps({"title": "", "alarm": "The view is too large to be shown."})
        return text
