"""How long processes of a cluster wait for each other: heartbeats, greetings, leases."""

from __future__ import annotations

from typing import Final

#: milliseconds: how often a process asks another whether it is there, and when it is given up
HEARTBEAT: Final = 500
SILENCE: Final = 10_000
#: milliseconds without an answer, after which a process is suspected to be stopped
STOPPED: Final = 2_000
#: milliseconds in which a connection has to prove its key
PROOF: Final = 10_000

#: seconds for which silence lasts before it is told: a process that ends is silent, then closed
UNTOLD_SECONDS: Final = 0.25
#: seconds from the first sign of silence to the loss of a task
SUSPECTED: Final = 10.0
#: seconds in which a greeting has to be answered
GREETING: Final = 30.0
#: seconds for which a server keeps a session that says nothing
LEASE: Final = 30.0
#: the share of a lease after which it is renewed
RENEWED: Final = 1 / 3
