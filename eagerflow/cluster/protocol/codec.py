"""Messages as frames and back.

`read` takes frames from any peer, and gives a message or raises `ProtocolError`. Nothing else looks
at the bytes of a peer before they are known to be well formed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from eagerflow.cluster.protocol.message_limits import LIMITS, Limits
from eagerflow.cluster.protocol.messages import AnyMessage, SlabMessage
from eagerflow.cluster.protocol.values import Frame, view_of
from eagerflow.errors import ProtocolError

#: bytes of the pieces of a long frame that this process sends
CHUNK: Final = LIMITS.chunk
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final[Any] = msgspec.msgpack.Decoder(AnyMessage).decode


def write(message: AnyMessage, frames: Sequence[Frame] = ()) -> list[Frame]:
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
    if frames and max(map(len, frames)) >= CHUNK:
        frames = [piece for frame in frames for piece in _pieces(frame)]
    return [_encode(message), *frames]


def _pieces(frame: Frame) -> Iterator[Frame]:
    """A frame as it goes over a wire: a long one in pieces, of which the last is shorter."""
    if len(frame) < CHUNK:
        yield frame
        return
    view = view_of(frame)
    for start in range(0, len(frame) + 1, CHUNK):
        yield view[start : start + CHUNK]


def _joined(frames: Sequence[Frame], limits: Limits) -> list[Frame]:
    """The frames of received pieces; a joined frame is memory of the receiver's own."""
    if len(frames) == 1 and len(frames[0]) < min(limits.chunk, limits.frame + 1):  # the usual case
        return list(frames)
    whole: list[Frame] = []
    pieces: list[Frame] = []
    size = 0
    for frame in frames:
        pieces.append(frame)
        size += len(frame)
        if size > limits.frame:
            raise ProtocolError(
                "a frame is too large", given=f"{size} bytes", expected=f"at most {limits.frame}"
            )
        if len(frame) != limits.chunk:
            whole.append(frame if len(pieces) == 1 else _owned(pieces, size))
            pieces, size = [], 0
    if pieces:
        raise ProtocolError("the last piece of a frame is missing")
    return whole


def _owned(pieces: Sequence[Frame], size: int) -> Frame:
    made = np.empty(size, np.uint8)
    start = 0
    for piece in pieces:
        made[start : start + len(piece)] = np.frombuffer(piece, np.uint8)
        start += len(piece)
    return made


def read(frames: Sequence[Frame], limits: Limits = LIMITS) -> tuple[AnyMessage, list[Frame]]:
    """The message in some frames, and the frames that belong to it.

    Raises:
        ProtocolError: the frames are no message, or larger than the limits.
    """
    if not frames:
        raise ProtocolError("an empty message")
    header, *rest = frames
    message = _message(header, len(rest), limits)
    return message, _joined(rest, limits) if rest else rest


def short_header(message: AnyMessage) -> bytes | None:
    """The header of a message, to follow a `SlabMessage`; None if it is too long for that."""
    header = _encode(message)
    return None if len(header) >= CHUNK else header


def write_in_slab(slab: SlabMessage, header: bytes, frames: Sequence[Frame]) -> list[Frame]:
    """A message whose long frames lie in a slab."""
    return [_encode(slab), header, *frames]


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
    header, *rest = frames
    message = _message(header, len(rest), limits)
    if type(message) is SlabMessage:
        raise ProtocolError("a slab within a slab")
    return message, take(rest)


def _message(header: Frame, count: int, limits: Limits) -> AnyMessage:
    if len(header) > limits.header or count > limits.frames:
        raise ProtocolError(
            "a message is too large",
            given=f"a header of {len(header)} bytes and {count} frames",
            expected=f"at most {limits.header} bytes and {limits.frames} frames",
        )
    try:
        message: AnyMessage = _decode(header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise ProtocolError(
            f"a message is malformed: {error}", expected="a message of the protocol"
        ) from None
    return message


def all_taken(frames: Iterator[Frame]) -> None:
    """Refuse a message with frames that belong to none of its values.

    Raises:
        ProtocolError: a frame is left.
    """
    if next(frames, None) is not None:
        raise ProtocolError("a message has more frames than values")
