"""Packets of channels between tasks as messages and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eagerflow.cluster.protocol.codec import all_taken
from eagerflow.cluster.protocol.failures import read_error, write_error
from eagerflow.cluster.protocol.message_heads import ArrayHead
from eagerflow.cluster.protocol.messages import (
    ErrorMessage,
    KeyHead,
    PacketMessage,
    ValueMessage,
    WantedMessage,
)
from eagerflow.cluster.protocol.values import Frame, array_of, decode_value, encode_value
from eagerflow.errors import ProtocolError, relocate
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.rendezvous.packets import Message, Packet

#: makes a named tuple; a call of its class is two calls more
_make: Final = tuple.__new__


def write_packet(
    packet: Packet, sender: str, incarnation: int, receiver: int
) -> tuple[PacketMessage, list[Frame]]:
    """The message that carries a packet, and its frames.

    Args:
        packet: the packet.
        sender: the task that sends it.
        incarnation: the incarnation of the sender.
        receiver: the incarnation of the receiver.
    """
    frames: list[Frame] = []
    kind, number, carried, nbytes, upto, early, limit, limit_bytes, urgent_upto = packet
    inner: ValueMessage | ErrorMessage | WantedMessage | None = None
    if carried is not None:
        what, _, key, value, dead, _ = carried
        if what == "value":
            assert key is not None
            inner = ValueMessage(KeyHead(*key), encode_value(value, frames), dead)
        else:
            inner = _write_urgent(carried, sender)
    return PacketMessage(
        number, sender, incarnation, receiver, kind,  # type: ignore[arg-type]  # one of the four
        inner,
        nbytes, upto, early, limit, limit_bytes, urgent_upto,
    ), frames  # fmt: skip


def _write_urgent(message: Message, sender: str) -> ErrorMessage | WantedMessage:
    if message.kind == "error":
        return ErrorMessage(message.step, write_error(message.value, sender))
    return WantedMessage(tuple([KeyHead(*key) for key in message.value]))


def read_packet(message: PacketMessage, frames: Sequence[Frame]) -> Packet:
    """The packet that a message carries.

    Raises:
        ProtocolError: the frames do not fit the message.
    """
    carried = message.message
    inner: Message | None = None
    if type(carried) is ValueMessage:
        head, key, nbytes = carried.value, carried.key, message.nbytes
        if type(head) is ArrayHead and head.elements is not None:  # the usual case
            value = array_of(head, head.elements)
        elif type(head) is ArrayHead and len(frames) == 1:  # that of long arrays
            value, frames = array_of(head, frames[0]), ()
        else:
            rest = iter(frames)
            value, frames = decode_value(head, rest), list(rest)
        named = _make(Key, (key.step, key.edge, key.loops))
        inner = _make(Message, ("value", key.step, named, value, carried.dead, nbytes))
    elif isinstance(carried, ErrorMessage):
        error = read_error(carried.error)
        if carried.error.source is not None:  # the receiver keeps this source
            relocate(error, carried.error.source, settled=True)
        inner = Message("error", carried.step, None, error)
    elif isinstance(carried, WantedMessage):
        inner = Message("wanted", 0, None, tuple(map(_key, carried.keys)))
    if inner is not None and inner[0] != "value" and message.kind != "urgent":
        raise ProtocolError(
            "a packet whose kind is not that of its message", given=f"{inner[0]} as {message.kind}"
        )
    if frames:
        all_taken(iter(frames))
    return _make(Packet, (
        message.kind, message.number, inner, message.nbytes, message.upto, message.early,
        message.limit, message.limit_bytes, message.urgent_upto,
    ))  # fmt: skip


def _key(head: KeyHead) -> Key:
    return Key(head.step, head.edge, head.loops)
