"""Events of the runtime, and the instruments that receive them.

Each kind of event is a record class of its own. An event that lasts is reported twice, with one
record: to `begin` at its beginning, and to `end` at its end, whatever its outcome. An event without
a length, or of interest only once it is over, is reported to `end` alone. An instrument names the
kinds that it wants. Code that makes events first checks for an instrument of that kind (``if
WaitEvent.listeners:``), so that without one there is no call and no allocation.
"""

from __future__ import annotations

from eagerflow.events.event_kinds import (
    DEFAULT_KINDS,
    KINDS,
    AbstractEvent,
    BriefLevel,
    BriefRegion,
    BriefStep,
    BriefWait,
    CallEvent,
    ElementEvent,
    FetchEvent,
    LevelEvent,
    NodeEvent,
    OpEvent,
    QueueEvent,
    RegionEvent,
    RunEvent,
    SkipEvent,
    StepEvent,
    TakeEvent,
    TraceEvent,
    TransferEvent,
    WaitEvent,
    describe,
)
from eagerflow.events.instruments import (
    Instrument,
    add_instrument,
    begin,
    end,
    open_waits,
    remove_instrument,
    told,
)
from eagerflow.events.step_context import (
    check_stopped,
    next_step,
    step_of,
)
from eagerflow.unknown_names import module_dir as _module_dir

__all__ = [
    "DEFAULT_KINDS", "KINDS", "AbstractEvent", "BriefLevel", "BriefRegion", "BriefStep",
    "BriefWait", "CallEvent", "ElementEvent", "FetchEvent", "Instrument", "LevelEvent",
    "NodeEvent", "OpEvent", "QueueEvent", "RegionEvent", "RunEvent", "SkipEvent", "StepEvent",
    "TakeEvent", "TraceEvent", "TransferEvent", "WaitEvent", "add_instrument", "begin",
    "check_stopped", "describe", "end", "next_step", "open_waits", "remove_instrument", "step_of",
    "told",
]  # fmt: skip

__dir__ = _module_dir(globals())
