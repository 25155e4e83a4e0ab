"""A hostile process that sends kept slabs."""

from __future__ import annotations

import os
import socket
from array import array
from typing import Any

from eagerflow.cluster.processes.listening import Doors
from eagerflow.cluster.processes.shared_memory.incoming_slabs import NAME
from eagerflow.cluster.processes.shared_memory.memory_files import new_kept
from eagerflow.cluster.processes.shared_memory.slabs import LONG, beside
from eagerflow.cluster.protocol.messages import SlabMessage


class Sender:
    """The sending end, whose user writes what he likes when he likes."""

    token = b"t" * 16

    def __init__(self, doors: Doors) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(str(beside(doors)))

    def offer(self, number: int, size: int = LONG) -> Any:
        """Send a slab; gives its bytes."""
        file, memory = new_kept(size)
        self.offer_file(number, file)
        return memory

    def offer_file(self, number: int, file: int) -> None:
        """Send any file as a slab, and close it."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [file]))]
        self.socket.sendmsg([NAME.pack(self.token, number)], rights)
        os.close(file)

    def names(self, number: int, use: int, size: int = LONG, nbytes: int = 8) -> SlabMessage:
        return SlabMessage(0, self.token.hex(), number, size, ((0, 0, nbytes),), use)
