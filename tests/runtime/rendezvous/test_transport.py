"""The transport within a process."""

from __future__ import annotations

import numpy as np

from eagerflow.events import TransferEvent, add_instrument, remove_instrument
from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from tests.runtime.rendezvous.receivers import ROUTES, Listener, Note, key


def test_a_value_is_not_copied_and_no_transfer_is_told() -> None:
    """The copy to another device emits the event."""
    listener, note, value = Listener(), Note(), np.ones((2, 3), np.float32)
    assert listener.kinds == {TransferEvent}
    add_instrument(listener)
    try:
        meeting = Rendezvous(12, ROUTES)
        meeting.send(key(0), value)
        meeting.receive(key(0), note.done)
    finally:
        remove_instrument(listener)
    assert note[0].value is value
    assert listener.begun == listener.ended == []
