"""Timeouts between processes of a cluster: from coming up to going away."""

from __future__ import annotations

from typing import Final

#: seconds between two heartbeats of a process
HEARTBEAT_SECONDS: Final = 0.5
#: seconds without an answer, after which a client suspects that a task is stopped
SUSPECT_SECONDS: Final = 2.0
#: seconds without an answer, after which a connection is closed, and a task is lost
LOST_SECONDS: Final = 10.0
#: seconds in which a connection has to prove its key
PROOF_SECONDS: Final = 10.0

#: seconds of silence before it is reported: a process that ends is silent, then closed
UNTOLD_SECONDS: Final = 0.25
#: seconds until a connection that was broken in its handshake is made again
RECONNECT_SECONDS: Final = 0.25
#: seconds in which a greeting has to be answered
GREETING_SECONDS: Final = 30.0
#: seconds for which a server keeps a session that says nothing
LEASE_SECONDS: Final = 30.0
#: the share of a lease after which it is renewed
RENEWAL_SHARE: Final = 1 / 3

#: seconds in which processes have to come up
START_SECONDS: Final = 60.0
#: seconds until the next attempt to restart a task that has died, at first and at most
FIRST_RESTART_SECONDS: Final = 0.5
LONGEST_RESTART_SECONDS: Final = 10.0
#: seconds in which a process ends by itself before it is killed
END_SECONDS: Final = 1.0
#: seconds in which a step that is aborted ends everywhere
ABORT_SECONDS: Final = 2.0
#: seconds in which a task has to report its load
LOAD_ANSWER_SECONDS: Final = 1.0
#: seconds in which a key that was revoked is noticed
REVOKED_SECONDS: Final = 1.0
