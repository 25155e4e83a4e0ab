"""Limits of the memory of live views, and of their messages.

Watching may go on without end, so each history has a length, and each table of names a size.
"""

from __future__ import annotations

from typing import Final

# --- histories -------------------------------------------------------------------------------

#: steps and regions of an executable that a timeline shows
TIMELINE_STEPS: Final = 1024
#: observed steps from which the times of a node are computed
OBSERVED_STEPS: Final = 9
#: transfers and waits that have ended
ENDED_WAITS: Final = 256
#: seconds for which waits are remembered, as one sum for each second
SECONDS_OF_WAITS: Final = 16
#: traces of functions, with their reasons
TRACES: Final = 64
#: the spans of the buckets of a series in seconds, and how many of each: minutes, hours, a week
SPANS: Final = ((1.0, 120), (60.0, 120), (3600.0, 168))

# --- sizes of tables -------------------------------------------------------------------------

#: executables with times of their steps
EXECUTABLES: Final = 512
#: executables whose nodes are observed at the same time
OBSERVED_EXECUTABLES: Final = 64
#: queues, places of waits and edges
PLACES: Final = 4096
#: threads whose names are reported
NAMED_THREADS: Final = 256

# --- tables that views get -------------------------------------------------------------------

#: rows of a table; the latest ones if there are more
TABLE_ROWS: Final = 100_000
#: texts that stand for numbers in tables
TABLE_NAMES: Final = 20_000
#: points of a curve
CURVE_POINTS: Final = 4096
#: rows of a table that only grows
LOG_ROWS: Final = 2048
#: steps of a timeline in one message; the last ones if there are more
STEPS_IN_A_MESSAGE: Final = 50
#: regions of all tasks in one message; likewise
REGIONS_OF_TASKS: Final = 400
#: characters of the text of an object
TEXT_CHARACTERS: Final = 20_000
