"""Packets of channels between tasks as messages and back."""

from __future__ import annotations

from collections.abc import Sequence

from eagerflow.cluster.protocol.codec import all_taken
from eagerflow.cluster.protocol.failures import read_error, write_error
from eagerflow.cluster.protocol.messages import (
    ErrorMessage,
    KeyHead,
    PacketMessage,
    ValueMessage,
    WantedMessage,
)
from eagerflow.cluster.protocol.values import Frame, decode_value, encode_value
from eagerflow.errors import relocate
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.rendezvous.packets import Message, Packet


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
    message = None if packet.message is None else _write(packet.message, sender, frames)
    return PacketMessage(
        packet.number, sender, incarnation, receiver, packet.kind,  # type: ignore[arg-type]  # one of the four
        message, packet.nbytes, packet.upto, packet.early, packet.limit, packet.limit_bytes,
        packet.urgent_upto,
    ), frames  # fmt: skip


def _write(
    message: Message, sender: str, frames: list[Frame]
) -> ValueMessage | ErrorMessage | WantedMessage:
    if message.kind == "error":
        return ErrorMessage(message.step, write_error(message.value, sender))
    if message.kind == "wanted":
        return WantedMessage(tuple([KeyHead(*key) for key in message.value]))
    assert message.key is not None
    return ValueMessage(KeyHead(*message.key), encode_value(message.value, frames), message.dead)


def read_packet(message: PacketMessage, frames: Sequence[Frame]) -> Packet:
    """The packet that a message carries.

    Raises:
        ProtocolError: the frames do not fit the message.
    """
    rest = iter(frames)
    carried = message.message
    inner: Message | None = None
    if isinstance(carried, ValueMessage):
        value = decode_value(carried.value, rest)
        inner = Message(
            "value", carried.key.step, _key(carried.key), value, carried.dead, message.nbytes
        )
    elif isinstance(carried, ErrorMessage):
        error = read_error(carried.error)
        if carried.error.source is not None:  # the receiver keeps this source
            relocate(error, carried.error.source, settled=True)
        inner = Message("error", carried.step, None, error)
    elif isinstance(carried, WantedMessage):
        inner = Message("wanted", 0, None, tuple(map(_key, carried.keys)))
    all_taken(rest)
    return Packet(
        message.kind, message.number, inner, message.nbytes, message.upto, message.early,
        message.limit, message.limit_bytes, message.urgent_upto,
    )  # fmt: skip


def _key(head: KeyHead) -> Key:
    return Key(head.step, head.edge, head.loops)
