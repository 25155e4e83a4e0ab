"""The time between the steps of a thread, and the user's lines that it is spent at."""

from __future__ import annotations

import os
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from types import FrameType
from typing import TYPE_CHECKING, Final, NamedTuple, final

from eagerflow.events import BriefStep
from eagerflow.profiling.node_statistics import median
from eagerflow.running_node import CODE_FILE
from eagerflow.source import Source, cell_name, is_framework_frame, is_library_frame
from eagerflow.watching.naming import name_of, share_text
from eagerflow.watching.status_sentence import seconds_for_input
from eagerflow.watching.step_times import LATELY

if TYPE_CHECKING:
    from eagerflow.watching.watcher import Watcher

#: share of the time that is worth a diagnosis, and seconds of a gap: shorter ones may be no more
#: than the call of a traced function
_MUCH: Final = 1 / 3
_LEAST: Final = 1e-3
#: number of the last steps that are looked at
_STEPS: Final = 400
#: number of gaps that make a rhythm
_GAPS: Final = 8
#: seconds of a gap from which on it may be the pause of a person; it counts if the thread was seen
#: in the user's code
_PAUSE: Final = 0.5
#: number of samples of a line, and its part of all samples, from which on it is named
_SEEN: Final = 3
_MOSTLY: Final = 0.5
#: number of samples kept: those of some ten seconds
_SAMPLES: Final = 128
#: characters of the text of a line
_TEXT: Final = 60


class Between(NamedTuple):
    """The time between the recent steps of one executable.

    Attributes:
        share: its part of the time, from 0 to 1, by the median.
        seconds: the median of its seconds from a step to the next.
        since: when the first of these steps began.
        until: when the last of them began.
        source: the user's line that most of it is spent at; None if there is none.
    """

    share: float
    seconds: float
    since: float
    until: float
    source: Source | None


@final
class BetweenSteps:
    """The places of the thread that calls steps, sampled between its steps.

    Args:
        frames: returns the innermost frame of each thread.
    """

    def __init__(
        self, frames: Callable[[], dict[int, FrameType]] = sys._current_frames
    ) -> None:  # fmt: skip
        self._frames = frames
        #: time, and the user's line; None for a thread that is in none, as in an idle notebook
        self._samples: deque[tuple[float, Source | None]] = deque(maxlen=_SAMPLES)

    def sample(self, now: float, last: BriefStep | None) -> None:
        """Sample the place of the thread of the last step, if steps go on.

        Args:
            now: the time.
            last: the last step.
        """
        if last is None or not last[3] or now - last[2] > LATELY:
            return
        source, is_in_step = _place(self._frames().get(last[3]))
        if not is_in_step:
            self._samples.append((now, source))

    def of(self, number: int, steps: Sequence[BriefStep], now: float) -> Between | None:
        """The time between the recent steps of an executable; None without a rhythm.

        Args:
            number: the number of the executable.
            steps: the last steps, of all executables.
            now: the time.
        """
        recent = [s for s in steps if s[3] and s[2] >= now - LATELY]
        thread = next((s[3] for s in reversed(recent) if s[0] == number), 0)
        mine = sorted([s for s in recent if s[3] == thread], key=itemgetter(1))
        gaps = _gaps(number, mine)
        if len(gaps) < _GAPS:
            return None
        seconds = median([outside for outside, _ in gaps])
        share = median([outside / (period or 1e-12) for outside, period in gaps])
        since, until = mine[0][1], mine[-1][1]
        # later samples may be of the pause after the last step
        seen = [source for when, source in self._samples if since <= when <= until]
        lines = [source for source in seen if source is not None]
        if seconds >= _PAUSE and (not seen or len(lines) < _MOSTLY * len(seen)):
            return None
        return Between(share, seconds, since, until, _most_frequent(lines, len(seen)))


def _gaps(number: int, steps: Iterable[BriefStep]) -> list[tuple[float, float]]:
    """For each step of an executable, the seconds outside of all steps, and all, to the next.

    Where one reported step stands for several, these are means.
    """
    gaps: list[tuple[float, float]] = []
    begun, outside, end, unseen, stands_for = None, 0.0, 0.0, 0.0, 1
    for executable, start, stop, _, count in steps:  # without calls, as there are many steps
        if start > end + unseen:
            outside += start - end - unseen
        if executable == number:
            if begun is not None:
                gaps.append((outside / stands_for, (start - begun) / stands_for))
            begun, outside, stands_for = start, 0.0, count
        end, unseen = stop if stop > end else end, (count - 1) * (stop - start)
    return gaps


def _place(frame: FrameType | None) -> tuple[Source | None, bool]:
    """The user's innermost line on a stack, and whether it is within a step."""
    source: Source | None = None
    while frame is not None:
        if frame.f_code.co_filename.startswith(CODE_FILE):
            return None, True
        if source is None and not is_library_frame(frame) and not is_framework_frame(frame):
            source = Source(frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return source, False


def _most_frequent(lines: Iterable[Source], samples: int) -> Source | None:
    """The line of most samples, if these are enough."""
    by_line: dict[tuple[str, int], Source] = {}
    counts: Counter[tuple[str, int]] = Counter()
    for source in lines:
        key = source.file, source.line
        by_line[key] = source
        counts[key] += 1
    for key, count in counts.most_common(1):
        if count >= max(_SEEN, _MOSTLY * samples):
            return by_line[key]
    return None


def between_text(watcher: Watcher, now: float) -> tuple[int, str]:
    """The executable with much time between its steps, and a sentence about that; else 0 and "".

    Waits of eager code for input are not part of this time: they have diagnoses of their own.

    Args:
        watcher: the watcher.
        now: the time, in seconds of ``time.perf_counter``.
    """
    times = watcher.log.busiest(now)
    if times is None or times.detached or times.rate(now) * _LEAST > 1:
        return 0, ""
    between = watcher.between.of(times.executable, watcher.log.timeline(0, _STEPS), now)
    if between is None or between.seconds < _LEAST:
        return 0, ""
    waited = seconds_for_input(watcher, {0}, between.since, now) / max(
        between.until - between.since, 1e-9
    )
    if between.share - waited < _MUCH:
        return 0, ""
    text = (
        f"{share_text(between.share - waited)} of the time is between the steps of "
        f"{name_of(times.executable)}, in code outside of traced functions"
    )
    where = "" if between.source is None else f", mostly at {_line(between.source)}"
    return times.executable, text + where


def _line(source: Source) -> str:
    """The text of a line: its file without folders, and its code, shortened."""
    text = source.text
    shown = text if len(text) <= _TEXT else f"{text[: _TEXT - 3]}..."
    where = f"{os.path.basename(cell_name(source.file))}:{source.line}"
    return f"{where}: {shown}" if shown else where
