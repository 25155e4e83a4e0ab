"""ZAP, the authentication protocol of ZeroMQ: a question for each connection with a proven key.

See RFC 27 of ZeroMQ. The thread that owns the sockets answers whether the key is allowed. Until
then nothing that the connection sends leaves ZeroMQ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

import zmq
from zmq.utils import z85

from eagerflow.cluster.processes.keys import AllowedKeys

_INSIDE: Final = "inproc://zeromq.zap.01"
_VERSION: Final = b"1.0"
_FRAMES: Final = 9  # of a question with one key
_KEY: Final = 32
#: the message property with the public key of the connection that the message came by
KEY: Final = "X-Public-Key"


@final
class Authenticator:
    """The ZAP handler of one context: it answers whether a key is allowed.

    Args:
        context: the context whose sockets ask.
        allowed: the keys that are let in.
        log: called for each connection that is refused.

    Attributes:
        socket: readable when a question is pending.
    """

    def __init__(self, context: Any, allowed: AllowedKeys, log: Callable[[str], object]) -> None:
        self.socket = context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.bind(_INSIDE)
        self._allowed = allowed
        self._log = log

    def answer(self) -> None:
        """Answer all pending questions."""
        while True:
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._answer(frames)

    def _answer(self, frames: list[bytes]) -> None:
        split = frames.index(b"") + 1
        question = frames[split:]
        number = question[1]
        user, key = self._user(question)
        known = user is not None
        self.socket.send_multipart([
            *frames[:split], _VERSION, number, b"200" if known else b"400",
            b"OK" if known else b"the key is not on the list", (user or "").encode(),
            _property(KEY, key) if known else b"",
        ])  # fmt: skip

    def _user(self, question: list[bytes]) -> tuple[str | None, str]:
        """The user and the key of a question; no user if the key is not allowed."""
        if len(question) < _FRAMES - 2:
            return None, ""
        version, _, domain, where, _, mechanism, *credentials = question
        user, key = None, ""
        if (version, mechanism) == (_VERSION, b"CURVE") and len(credentials) == 1:
            (raw,) = credentials
            if len(raw) == _KEY:
                self._allowed.refresh()
                key = z85.encode(raw).decode()
                user = self._allowed.user(domain.decode("ascii", "replace"), key)
        if user is None:
            self._log(f"refused a connection from {where.decode('ascii', 'replace')}: unknown key")
        return user, key

    def close(self) -> None:
        self.socket.close()


def _property(name: str, value: str) -> bytes:
    """A connection property in an answer (ZMTP, RFC 23)."""
    return bytes([len(name)]) + name.encode() + len(value).to_bytes(4, "big") + value.encode()
