"""The codec of messages: round trips, and refusal of bytes that are no messages."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagerflow import errors
from eagerflow.cluster.processes.announced_devices import AnnouncedDevices
from eagerflow.cluster.processes.session_values import SessionWork, Told
from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.failures import read_error, write_error
from eagerflow.cluster.protocol.message_heads import ErrorHead, HandleHead
from eagerflow.cluster.protocol.message_limits import LIMITS, Limits
from eagerflow.cluster.protocol.messages import (
    AnyMessage,
    Done,
    Eager,
    ErrorMessage,
    MakeResource,
    MakeVariable,
    PacketMessage,
    Register,
    Renew,
    RunStep,
)
from eagerflow.cluster.protocol.packets import read_packet, write_packet
from eagerflow.cluster.protocol.partitions import read_partition
from eagerflow.cluster.protocol.recipes import read_recipe
from eagerflow.cluster.protocol.values import ArrayHead, decode_array, decode_values, encode_value
from eagerflow.errors import EagerflowError, ProtocolError, relocate
from eagerflow.hardware import as_device
from eagerflow.runtime.rendezvous.packets import Message, Packet
from tests.cluster.protocol.traffic import Frames, Training, find, messages, registrations
from tests.exploring import examples

TRAINING = Training()
TRAFFIC = messages() + registrations(TRAINING.graphs)


def take(frames: Frames) -> Any:
    """Decode a message completely, as a process does before it acts on the message."""
    message, rest = codec.read(frames)
    if isinstance(message, Register):
        return read_partition(message, rest, find)
    if isinstance(message, RunStep | Done):
        left = iter(rest)
        heads = message.feeds if isinstance(message, RunStep) else message.results
        values = decode_values([h for h in heads if type(h) is not HandleHead], left)
        codec.all_taken(left)
        return values
    if isinstance(message, PacketMessage):
        return read_packet(message, rest)
    if isinstance(message, MakeVariable):
        left = iter(rest)
        value = None
        if not isinstance(message.value, HandleHead):
            value = decode_array(message.value, left)
        codec.all_taken(left)
        return value
    if isinstance(message, MakeResource):
        codec.all_taken(iter(rest))
        return read_recipe(message).build(as_device("cpu:0"), message.name)
    if isinstance(message, Eager):
        try:
            return _session().run(message, rest)
        except Told as told:
            raise read_error(told.head) from None
    if rest:
        raise ProtocolError("frames that belong to nothing")
    return message


def _session() -> SessionWork:
    """A session for one message, as a broken stream reports its error only once."""
    return SessionWork("ps:0", find, LIMITS, lambda name: None, AnnouncedDevices("ps:0"))


def refused(frames: Frames) -> EagerflowError | None:
    """The error raised by decoding, if any; checks that it is ours, and the memory in between."""
    size = sum(map(len, frames))
    tracemalloc.start()
    try:
        take(frames)
    except EagerflowError as error:
        return error
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2_000_000 + 200 * size, peak
    return None


@pytest.mark.parametrize("number", range(len(TRAFFIC)))
def test_messages_come_back(number: int) -> None:
    frames = [bytes(frame) for frame in TRAFFIC[number]]
    message, rest = codec.read(frames)
    again = codec.write(message, rest)
    assert [bytes(frame) for frame in again] == frames
    assert refused(frames) is None


def test_every_kind_of_message_occurs() -> None:
    kinds = {type(codec.read(frames)[0]) for frames in TRAFFIC}
    assert kinds == set(AnyMessage.__args__)


def test_a_step_takes_few_bytes() -> None:
    (header,) = codec.write(RunStep(2**40, 2**62, 2**20))
    assert len(header) <= 40


def test_packets_come_back() -> None:
    carried = [codec.read(f) for f in TRAFFIC if isinstance(codec.read(f)[0], PacketMessage)]
    assert len(carried) == 5
    for message, rest in carried:
        packet = read_packet(message, rest)
        again, frames = write_packet(
            packet, message.sender, message.incarnation, message.receiver
        )  # fmt: skip
        if packet.message is None or packet.message.kind != "error":
            assert again == message
        assert [bytes(f) for f in frames] == [bytes(f) for f in rest]


# --- errors ----------------------------------------------------------------------------------


KINDS = [
    kind for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, EagerflowError)
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_errors_come_back(kind: type[EagerflowError]) -> None:
    sent = kind("wrong", given="g", expected="e", hint="h", source="cell:1: y = f(x)")
    sent.add_note("  node: &y")
    arrived = read_error(write_error(sent, "ps:0"))
    assert type(arrived) is kind
    assert str(arrived) == str(sent)
    assert arrived.__notes__ == ["  node: &y", "  task: ps:0"]


def test_other_errors_are_named() -> None:
    arrived = read_error(write_error(ZeroDivisionError("by \ud800 zero"), "ps:0"))
    assert type(arrived) is EagerflowError
    assert arrived.wrong == "ZeroDivisionError: by ? zero"


def test_only_classes_of_errors_are_made() -> None:
    head = write_error(EagerflowError("wrong"))
    for name in ("capture", "Source", "RetraceWarning", "os.system", "__builtins__", ""):
        assert type(read_error(msgspec.structs.replace(head, kind=name))) is EagerflowError


def test_long_errors_are_cut() -> None:
    head = write_error(EagerflowError("x" * 100_000))
    assert len(head.wrong) == 20_000


# --- malformed messages ----------------------------------------------------------------------

LONG = {
    "array": b"\xdd\xff\xff\xff\xf0", "map": b"\xdf\xff\xff\xff\xf0",
    "text": b"\xdb\xff\xff\xff\xf0", "bytes": b"\xc6\xff\xff\xff\xf0",
    "extension": b"\xc9\xff\xff\xff\xff\x01",
}  # fmt: skip


@pytest.mark.parametrize("kind", LONG)
def test_lengths_that_lie_take_no_memory(kind: str) -> None:
    """A length without the announced contents, at each place of each message."""
    for frames in TRAFFIC:
        for place in range(min(len(frames[0]), 400)):
            refused([bytes(frames[0])[:place] + LONG[kind], *frames[1:]])


def test_what_is_nested_deeply_is_refused() -> None:
    for inner in (b"\x91", b"\x81\xa1a"):
        assert isinstance(refused([inner * 1_000_000]), ProtocolError)
        assert isinstance(refused([b"\x95\xa3run\x01\x01\x01" + inner * 100_000]), ProtocolError)


def test_limits() -> None:
    limits = Limits(header=100, frames=2, frame=10, text=10)
    codec.read(codec.write(Renew(1), [b"x" * 10] * 2), limits)
    for frames in (
        [b"x" * 101], codec.write(Renew(1), [b""] * 3), codec.write(Renew(1), [b"x" * 11]), [],
    ):  # fmt: skip
        with pytest.raises(ProtocolError, match=r"too large|empty"):
            codec.read(frames, limits)
    registration = registrations(TRAINING.graphs)[0]
    message, rest = codec.read(registration)
    assert isinstance(message, Register)
    with pytest.raises(ProtocolError, match="too large"):
        read_partition(message, rest, find, limits)
    with pytest.raises(ProtocolError, match="too large"):
        read_partition(message, rest, find, Limits(nodes=2))


# --- mutations of recorded traffic -------------------------------------------------------------


@st.composite
def mutated(draw: Any) -> Frames:
    """A message with some bytes or frames changed."""
    frames = [bytearray(frame) for frame in draw(st.sampled_from(TRAFFIC))]
    for _ in range(draw(st.integers(1, 4))):
        which = draw(st.integers(0, len(frames) - 1)) if frames else 0
        how = draw(st.sampled_from(["flip", "cut", "put", "frame", "double", "drop", "swap"]))
        frame = frames[which] if frames else bytearray()
        at = draw(st.integers(0, max(len(frame) - 1, 0)))
        if how == "flip" and frame:
            frame[at] = draw(st.integers(0, 255))
        elif how == "cut":
            del frame[at : at + draw(st.integers(1, 50))]
        elif how == "put":
            frame[at:at] = draw(st.binary(max_size=20))
        elif how == "frame":
            frames.insert(which, bytearray(draw(st.binary(max_size=64))))
        elif how == "double" and frames:
            frames.insert(which, bytearray(frame))
        elif how == "drop" and frames:
            del frames[which]
        elif frames:
            frames.append(frames.pop(which))
    return frames


@settings(max_examples=examples(500))
@given(mutated())
def test_mutated_messages_are_refused_or_taken(frames: Frames) -> None:
    refused(frames)


@given(st.sampled_from(TRAFFIC), st.data())
def test_messages_that_are_cut_off_are_refused(frames: Frames, data: Any) -> None:
    which = data.draw(st.integers(0, len(frames) - 1))
    at = data.draw(st.integers(0, max(len(frames[which]) - 1, 0)))
    cut = [bytes(f) for f in frames]
    cut[which] = cut[which][:at]
    if cut[which] != bytes(frames[which]):
        assert refused(cut) is not None


@given(st.lists(st.binary(max_size=200), max_size=4))
def test_noise_is_refused(frames: Frames) -> None:
    assert refused(frames) is not None


#: values of MessagePack, with the tags of our records among them
ITEMS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text()
    | st.binary() | st.sampled_from(["run", "done", "array", "list", "packet", "value", "key"]),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=30,
)  # fmt: skip


@settings(max_examples=examples(200))
@given(ITEMS, st.lists(st.binary(max_size=40), max_size=3))
def test_messages_made_of_anything(item: Any, frames: Frames) -> None:
    refused([msgspec.msgpack.encode(item), *frames])


@given(st.lists(ITEMS, max_size=4), st.sampled_from(["run", "done", "packet", "register", "hello"]))
def test_messages_of_a_known_kind_made_of_anything(items: list[Any], tag: str) -> None:
    refused([msgspec.msgpack.encode([tag, 1, *items])])


def test_claims_of_large_arrays_take_no_memory() -> None:
    heads = (ArrayHead("float64", (2**40,)),) * 100
    frames = [*codec.write(RunStep(1, 1, 1, heads)), *[struct.pack("d", 1.0)] * 100]
    assert isinstance(refused(frames), ProtocolError)
    heads = (ArrayHead("bytes", (2**40,)),) * 100
    assert isinstance(
        refused(codec.write(RunStep(1, 1, 1, heads), [b"\0" * 8] * 100)), ProtocolError
    )


def test_values_are_not_shared_with_the_message() -> None:
    sent = np.ones(4)
    frames: Frames = []
    head = encode_value(sent, frames)
    (arrived,) = take(codec.write(Done(1, 1, (head,)), frames))
    arrived[0] = 5
    assert sent[0] == 1


@pytest.mark.parametrize(("line", "told"), [("cell:3", "cell:3"), (None, "here:1")])
def test_an_error_of_another_task_keeps_its_line(line: str | None, told: str) -> None:
    error = errors.TraceError("no", source=line)
    error.source = line
    carried = Packet("urgent", 1, Message("error", 12, None, error))
    read = read_packet(*write_packet(carried, "ps:0", 1, 2))
    assert read.message is not None
    again = relocate(read.message.value, "here:1")  # as the waiter for a value does
    assert str(again.source) == told
    assert again.__notes__ == ["  task: ps:0"]


def test_a_packet_of_values_carries_values() -> None:
    """Another message in it would end the thread that gives values to steps."""
    error = ErrorMessage(5, ErrorHead("CancelledError", "x"))
    message = PacketMessage(1, "client-7", 1, 1, "value", error, 0, 0, (), 64, 1 << 26, 0)
    with pytest.raises(ProtocolError, match="kind is not that of its message"):
        read_packet(message, [])
