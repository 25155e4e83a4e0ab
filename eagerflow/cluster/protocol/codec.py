"""Messages as frames and back.

`read` takes frames from any peer, and gives a message or raises `ProtocolError`. Nothing else looks
at the bytes of a peer before they are known to be well formed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

from eagerflow.cluster.protocol.message_heads import AbstractRecord
from eagerflow.cluster.protocol.message_limits import LIMITS, Limits
from eagerflow.cluster.protocol.messages import AnyMessage, SlabMessage
from eagerflow.cluster.protocol.values import Frame
from eagerflow.errors import ProtocolError

_Any = TypeVar("_Any")
#: the header of a message
encode: Final[Callable[[AbstractRecord], bytes]] = msgspec.msgpack.Encoder().encode
_decode: Final[Any] = msgspec.msgpack.Decoder(AnyMessage).decode


def write(message: AnyMessage, frames: Sequence[_Any] = ()) -> list[bytes | _Any]:
    """A message as frames.

    Args:
        message: the message.
        frames: the frames of the message, such as elements of arrays.

    >>> from eagerflow.cluster.protocol import codec
    >>> from eagerflow.cluster.protocol.messages import RunStep
    >>> sent = codec.write(RunStep(3, step=12, partition=1))
    >>> codec.read(sent)
    (RunStep(number=3, step=12, partition=1, feeds=(), keep=(), stream=0, free=()), [])
    """
    return [encode(message), *frames]


def read(frames: Sequence[Frame], limits: Limits = LIMITS) -> tuple[AnyMessage, list[Frame]]:
    """The message in some frames, and the frames that belong to it.

    Raises:
        ProtocolError: the frames are no message, or larger than the limits.
    """
    if not frames:
        raise ProtocolError("an empty message")
    header, *rest = frames
    if len(header) > limits.header or len(frames) > limits.frames + 1:
        raise ProtocolError(
            "a message is too large",
            given=f"a header of {len(header)} bytes and {len(rest)} frames",
            expected=f"at most {limits.header} bytes and {limits.frames} frames",
        )
    try:
        message: AnyMessage = _decode(header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise ProtocolError(
            f"a message is malformed: {error}", expected="a message of the protocol"
        ) from None
    if rest and max(map(len, rest)) > limits.frame:
        raise ProtocolError(
            "a frame is too large",
            given=f"{max(map(len, rest))} bytes",
            expected=f"at most {limits.frame}",
        )
    return message, rest


def short_header(message: AnyMessage) -> bytes | None:
    """The header of a message, to follow a `SlabMessage`; None if it is too long for that."""
    header = encode(message)
    return None if len(header) >= LIMITS.chunk else header


def write_in_slab(slab: SlabMessage, header: bytes, frames: Sequence[Frame]) -> list[Frame]:
    """A message whose long frames lie in a slab."""
    return [encode(slab), header, *frames]


def read_in_slab(
    frames: Sequence[Frame], take: Callable[[Sequence[Frame]], list[Frame]],
    limits: Limits = LIMITS,
) -> tuple[AnyMessage, list[Frame]]:  # fmt: skip
    """The message that follows a `SlabMessage`.

    Args:
        frames: the frames of the `SlabMessage`.
        take: replaces the empty frames by those of the slab.
        limits: limits on messages.

    Raises:
        ProtocolError: as for `read`.
    """
    if not frames:
        raise ProtocolError("a slab without a message")
    message, rest = read(frames, limits)
    if type(message) is SlabMessage:
        raise ProtocolError("a slab within a slab")
    return message, take(rest)


def all_taken(frames: Iterator[Frame]) -> None:
    """Refuse a message with frames that belong to none of its values.

    Raises:
        ProtocolError: a frame is left.
    """
    if next(frames, None) is not None:
        raise ProtocolError("a message has more frames than values")
