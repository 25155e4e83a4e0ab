"""Random malformed and hostile messages for live sockets of a server.

They are mutated recorded traffic, messages made by the grammar of the protocol (some with an
invalid field), truncated frames, hostile texts of graphs, hostile slabs, and pieces of long frames.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
from array import array
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import inspect

from eagerflow.cluster.processes.listening import Doors
from eagerflow.cluster.processes.shared_memory.incoming_slabs import NAME
from eagerflow.cluster.processes.shared_memory.memory_files import ADD_SEALS
from eagerflow.cluster.processes.shared_memory.slabs import beside
from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.eager_actions import DefineOp, IssueOp, PutValue
from eagerflow.cluster.protocol.message_heads import ArrayHead, step_number
from eagerflow.cluster.protocol.messages import (
    AnyMessage,
    Eager,
    Fetch,
    Hello,
    PiecedHead,
    PieceHead,
    Register,
    Request,
    RunStep,
    SlabMessage,
)
from eagerflow.errors import ProtocolError
from tests.cluster.protocol.traffic import Training, messages, registrations

Wire = list[bytes]
_encode: Final = msgspec.msgpack.Encoder().encode
_LONGEST: Final = 6
#: limit on the connections of kept slabs
_KEPT: Final = 8
_INTS: Final = (0, 1, 2, 7, 255, 2**31 - 1, 2**32, 2**63 - 1)
_WORDS: Final = (
    "",
    "default",
    "w",
    "cpu:0",
    "ps:0",
    "client-5",
    "float32",
    "&files",
    "../x",
    "\0é",
)
_JUNK: Final[tuple[Any, ...]] = (None, -1, 2**63, 1.5, "x" * 2_000, b"\0", [], {}, [[[[]]]], True)
_FUNCTION: Final = "os:system(bytes[]@cpu:0) -> None"
#: graphs that reach for forbidden objects; CANARY is the name of a file
_HOSTILE: Final = (
    'graph "x"() {{ %r = read_file(%p) {{resource=@files}} : bytes[]@cpu:0 return %r }}',
    'graph "x"(%p: bytes[]@cpu:0) {{ %r = read_file(%p) {{resource=@files}} : bytes[]@cpu:0 '
    "return %r }}",
    'graph "x"(%p: bytes[]@cpu:0) {{ write_file(%p, %p) {{resource=@files}} return }}',
    'graph "x"() {{ py_call() {{resource=@f}} }}',
    'graph "x"() {{ print() {{resource=&os.system, device=device("{canary}")}} }}',
    'graph "x"(%p: f32[]) {{ %a = __import__(%p) {{x=dtype("{canary}")}} : f32[] return %a }}',
    'graph "x"() {{ %a = full() {{shape=(1099511627776, 99), value=1.0}} : f32[] return %a }}',
    'graph "x"() {{ {nested} }}',
)


def _number(wire: Wire) -> int:
    """The number of a client's request; 0 of malformed messages, of greetings, and of others."""
    try:
        message, _ = codec.read(wire)
    except ProtocolError:
        return 0
    return message.number if isinstance(message, Request) and type(message) is not Hello else 0


class Fuzzer:
    """A random source of messages.

    Args:
        seed: seed of all draws.
        doors: doors of the server, near which slabs are offered.
        canary: the name of a file that no message may read or change.
    """

    def __init__(self, seed: int, doors: Doors, canary: str) -> None:
        self._draw = random.Random(seed)
        self._canary = canary
        self._slabs = str(beside(doors))
        self._bringers: dict[bytes, socket.socket] = {}
        self._kept: list[tuple[bytes, int, int]] = []  # token, number, size
        self._training = Training()  # keeps its variables alive
        self._traffic: list[Wire] = [
            [bytes(frame) for frame in frames]
            for frames in messages() + registrations(self._training.graphs)
        ]
        self._kinds = [inspect.type_info(kind) for kind in AnyMessage.__args__]
        self._pieces: dict[int, tuple[int, int]] = {}
        self._makers = (
            self._mutated, self._made, self._truncated, self._graph, self._in_slab, self._piece,
        )  # fmt: skip

    def session(self, session: int, count: int) -> Iterator[Wire]:
        """The messages of a session, whose greeting had number 1.

        A malformed message, or one without the next number, ends a session, so such messages come
        last: else hardly any message would get beyond the codec.
        """
        number, last = 2, []
        for _ in range(count):
            kind = self._draw.choices(self._makers, (30, 40, 10, 20, 8, 8))[0]
            wire = kind(session, number)
            if _number(wire) == number:
                number += 1
                yield wire
            elif len(wire) == 3 and wire[0] == b"":
                yield wire  # a piece ends no session
            else:
                last.append(wire)
        yield from last

    # --- kinds ---

    def _mutated(self, session: int, number: int) -> Wire:
        frames = [bytearray(frame) for frame in self._draw.choice(self._traffic)]
        frame = self._draw.choice(frames)
        for _ in range(self._draw.randint(0, 3)):
            if frame:
                frame[self._draw.randrange(len(frame))] = self._draw.randrange(256)
        return [bytes(one) for one in frames]

    def _truncated(self, session: int, number: int) -> Wire:
        frames = list(self._draw.choice(self._traffic))
        i = self._draw.randrange(len(frames))
        frames[i] = frames[i][: self._draw.randrange(len(frames[i]) + 1)]
        return frames[: self._draw.randint(1, len(frames))]

    def _made(self, session: int, number: int) -> Wire:
        made = self._value(self._draw.choice(self._kinds), 0)
        if self._draw.random() < 0.9:
            made[1] = number
        if self._draw.random() < 0.3:
            made[self._draw.randrange(len(made))] = self._draw.choice(_JUNK)
        frames = [self._draw.randbytes(self._draw.choice((0, 4, 8, 80))) for _ in range(3)]
        try:
            return [_encode(made), *frames[: self._draw.randint(0, 3)]]
        except OverflowError:  # an int too large for MessagePack
            return [b"\xcf"]

    def _graph(self, session: int, number: int) -> Wire:
        nested = "".join("%a = cond() {then=graph() {" for _ in range(self._draw.randint(1, 400)))
        text = self._draw.choice(_HOSTILE).format(canary=self._canary, nested=nested)
        function = self._draw.choice((("default", "__builtins__"), ("&python", _FUNCTION)))
        files = {"files": ("&files", "files"), "f": function}
        name = ArrayHead("bytes", ())
        packed = len(self._canary).to_bytes(8, "little") + self._canary.encode()
        if self._draw.random() < 0.5:
            known = {} if self._draw.random() < 0.3 else files
            return [*map(bytes, codec.write(Register(number, 1, {}, known, {}), [text.encode()]))]
        if self._draw.random() < 0.3:
            run = RunStep(number, step_number(session, number), 1, (name,))
            return [*map(bytes, codec.write(run, [packed]))]
        if self._draw.random() < 0.3:
            return [*map(bytes, codec.write(Fetch(number, 3, 0)))]
        op = self._draw.choice(("read_file", "write_file", "py_call", "print", "reader_read"))
        node = f'graph ""() {{ %x = {op}() {{resource=@files}} : bytes[]@cpu:0 }}'
        known = {"files": ("&files", "files")} if self._draw.random() < 0.5 else {}
        actions = PutValue(2, name, "cpu:0"), DefineOp(1, {}, known), IssueOp(1, 1, (2,), 3, 1)
        frames = [packed, node.encode()]
        return [*map(bytes, codec.write(Eager(number, actions), frames))]

    def _in_slab(self, session: int, number: int) -> Wire:
        draw, size = self._draw, self._draw.choice((0, 1, 4096, 4096, 1 << 20))
        use = draw.choice((0, 0, 1, 1, 2, 2**63 - 1))
        if self._kept and draw.random() < 0.3:
            token, slab, size = draw.choice(self._kept)
            self._again(token, slab)
        else:
            token, slab = draw.randbytes(16), number
            self._offer(token, slab, size, stays=use > 0)
        first = draw.choice((size, size + 1, 8, 8, 8))
        places = ((0, 0, first), (1, draw.choice((0, 64, 64)), 8))[: draw.randint(0, 2)]
        said = draw.choice((size, size, size, 1 << 40))
        head = SlabMessage(0, token.hex(), slab, said, places, use)
        inner = draw.choice((self._mutated, self._made))(session, number)
        if draw.random() < 0.7:
            inner[1:] = [b""] * len(places)
        return [*map(bytes, codec.write(head)), *inner]

    def _piece(self, session: int, number: int) -> Wire:
        """A piece of a long frame, often the next one, or the message that names such frames."""
        draw, frame = self._draw, self._draw.randint(1, 3)
        size, start = self._pieces.get(frame, (draw.choice((8, 8, 12, 2**48)), 0))
        if draw.random() < 0.2:
            inner = self._made(session, number)[:1]
            places = tuple((i, draw.randint(1, 3)) for i in range(1, draw.randint(1, 3)))
            return [b"", _encode(PiecedHead(places)), *inner, *[b""] * len(places)]
        self._pieces[frame] = size, (start + 4) % size
        if draw.random() < 0.1:
            start = draw.choice(_INTS[:-1]) % 2**48
        return [b"", _encode(PieceHead(frame, size, start)), b"data"[: draw.choice((4, 4, 4, 0))]]

    def _offer(self, token: bytes, number: int, size: int, *, stays: bool) -> None:
        """Offer a slab. One that may stay is offered by a connection that stays as well."""
        draw = self._draw
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        slab = os.memfd_create("fuzz", os.MFD_ALLOW_SEALING)
        seals = (0x17, 0x17, 0x17, 0x16, 0x1F, 0x11, 0) if stays else (0, 2, 6, 14, 15)
        try:
            os.ftruncate(slab, size)
            fcntl.fcntl(slab, ADD_SEALS, draw.choice(seals))
            one.setblocking(False)
            one.connect(self._slabs)
            data = NAME.pack(token, number)
            rights = array("i", [slab] * draw.choice((0, 1, 1, 1, 1, 1, 2, 9)))
            one.sendmsg([data[: draw.choice((0, 5, 24, 24, 24, 24, 24))]],
                        [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])  # fmt: skip
        except OSError:
            stays = False
        finally:
            os.close(slab)
        if not stays:
            one.close()
            return
        self._bringers[token] = one
        self._kept.append((token, number, size))
        if len(self._kept) > _KEPT:
            self._bringers.pop(self._kept.pop(0)[0]).close()

    def _again(self, token: bytes, number: int) -> None:
        """Use the connection of a kept slab again: drop the slab, or another one, or send noise."""
        draw, one = self._draw, self._bringers[token]
        data = draw.choice((
            b"", NAME.pack(token, number), NAME.pack(token, number + 1), NAME.pack(b"x" * 16, 1),
            b"noise",
        ))  # fmt: skip
        with suppress(OSError):
            one.send(data) if data else None

    def close(self) -> None:
        """Close the connections of kept slabs."""
        for one in self._bringers.values():
            one.close()

    # --- by the grammar ---

    def _value(self, kind: Any, depth: int) -> Any:
        draw = self._draw
        if isinstance(kind, inspect.StructType):
            fields = [self._value(field.type, depth + 1) for field in kind.fields]
            return [kind.tag, *fields]
        if isinstance(kind, inspect.UnionType):
            return self._value(draw.choice(kind.types), depth + 1)
        if isinstance(kind, inspect.IntType):
            return draw.choice(_INTS)
        if isinstance(kind, inspect.StrType):
            return self._canary if draw.random() < 0.1 else draw.choice(_WORDS)
        if isinstance(kind, inspect.BytesType):
            return draw.randbytes(draw.choice((0, 1, 4, 8, 64)))
        if isinstance(kind, inspect.LiteralType):
            return draw.choice(kind.values)
        if isinstance(kind, inspect.VarTupleType):
            count = draw.randint(0, _LONGEST) if depth < _LONGEST else 0
            return [self._value(kind.item_type, depth + 1) for _ in range(count)]
        if isinstance(kind, inspect.TupleType):
            return [self._value(item, depth + 1) for item in kind.item_types]
        if isinstance(kind, inspect.DictType):
            return {
                self._value(kind.key_type, depth + 1): self._value(kind.value_type, depth + 1)
                for _ in range(draw.randint(0, 3))
            }
        simple = {inspect.FloatType: 0.5, inspect.BoolType: True, inspect.NoneType: None}
        return simple[type(kind)]
