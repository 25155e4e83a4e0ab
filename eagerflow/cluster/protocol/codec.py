"""Messages as frames and back.

`read` takes what came over a wire, from whomever, and gives a message or raises `ProtocolError`.
It is all that looks at bytes of others before they are known to be well formed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from eagerflow.cluster.protocol.limits import LIMITS, Limits
from eagerflow.cluster.protocol.messages import AnyMessage
from eagerflow.cluster.protocol.values import Frame
from eagerflow.errors import ProtocolError

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final[Any] = msgspec.msgpack.Decoder(AnyMessage).decode


def write(message: AnyMessage, frames: Sequence[Frame] = ()) -> list[Frame]:
    """A message as frames.

    Args:
        message: the message.
        frames: those that belong to it.

    >>> from eagerflow.cluster.protocol import codec
    >>> from eagerflow.cluster.protocol.messages import RunStep
    >>> sent = codec.write(RunStep(3, step=12, partition=1))
    >>> codec.read(sent)
    (RunStep(number=3, step=12, partition=1, feeds=(), keep=(), stream=0), [])
    """
    return [_encode(message), *frames]


def read(frames: Sequence[Frame], limits: Limits = LIMITS) -> tuple[AnyMessage, list[Frame]]:
    """The message that came as ``frames``, and the frames that belong to it.

    Raises:
        ProtocolError: it is none, or larger than the limits.
    """
    if not frames:
        raise ProtocolError("an empty message")
    header, *rest = frames
    if len(header) > limits.header or len(rest) > limits.frames:
        raise ProtocolError(
            "a message is too large",
            given=f"a header of {len(header)} bytes and {len(rest)} frames",
            expected=f"at most {limits.header} bytes and {limits.frames} frames",
        )
    longest = max(map(len, rest), default=0)
    if longest > limits.frame:
        raise ProtocolError(
            "a frame is too large", given=f"{longest} bytes", expected=f"at most {limits.frame}"
        )
    try:
        message: AnyMessage = _decode(header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise ProtocolError(
            f"a message is malformed: {error}", expected="a message of the protocol"
        ) from None
    return message, rest


def all_taken(frames: Iterator[Frame]) -> None:
    """Refuse a message that has frames which belong to nothing in it.

    Raises:
        ProtocolError: there is one left.
    """
    if next(frames, None) is not None:
        raise ProtocolError("a message has more frames than values")
