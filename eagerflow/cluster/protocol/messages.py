"""The messages of the protocol, as records that msgspec validates on reading.

A message is a header, an array of MessagePack whose first item is the kind of message, and raw
frames behind it: the elements of tensors, the text of a graph. Headers hold numbers and short texts
only, each with a limit, so a message makes a process take at most a small multiple of the bytes
sent. No field names code.

The messages of one sender on one connection are numbered, 1, 2, 3, …; an answer names the number of
its request.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, final

from msgspec import Meta

from eagerflow.cluster.protocol.eager_actions import Action
from eagerflow.cluster.protocol.message_heads import (
    AbstractRecord,
    ArrayHead,
    Arrays,
    ErrorHead,
    Feeds,
    HandleHead,
    Handles,
    Head,
    Heads,
    Loops,
    Places,
    Prose,
    Serial,
    Size,
    TypeHead,
    Word,
)

#: version of these messages; peers of another version are refused when a connection begins
PROTOCOL: Final = 10
#: version of the text form of graphs
GRAPH_TEXT: Final = 2

# --- from a client to a server -----------------------------------------------------------------


class AbstractMessage(AbstractRecord, frozen=True):
    """Base class of numbered messages.

    Attributes:
        number: its number among the messages of its sender.
    """

    number: Serial


@final
class Versions(AbstractRecord, tag="versions", frozen=True):
    """Versions of a process, which must agree between peers or lead to a warning.

    Attributes:
        protocol: version of the messages.
        graph_text: version of the text form of graphs.
        byte_order: byte order of elements, ``"little"`` or ``"big"``.
        eagerflow: version of eagerflow.
        kernels: the kernel library in force, which defines the bits of results.
        python: version of Python.
        numpy: version of NumPy.
    """

    protocol: Serial
    graph_text: Serial
    byte_order: Literal["little", "big"]
    eagerflow: Word
    kernels: Word
    python: Word
    numpy: Word


@final
class Hello(AbstractMessage, tag="hello", frozen=True):
    """The first message of a client.

    Attributes:
        versions: the versions of the client.
        session: a number drawn by the client, the same at all servers.
        attempt: number of its greetings to this task so far; the latest one counts.
        who: a description of the client, for messages to other clients.
    """

    versions: Versions
    session: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    attempt: Serial
    who: Word


@final
class Peers(AbstractMessage, tag="peers", frozen=True):
    """Introduces the other tasks.

    Attributes:
        tasks: for each task its address for tasks, its incarnation, and its public key, which is
            empty where there are none.
    """

    tasks: Annotated[dict[Word, tuple[Word, Serial, Word]], Meta(max_length=10_000)]


@final
class MakeVariable(AbstractMessage, tag="make", frozen=True):
    """Make a variable, or join the one of that name. Frames: the elements of a value that is sent.

    Attributes:
        container: its container; ``default`` is that of the session, others are for all clients.
        name: its name in the container.
        value: its first value, or the handle of that value.
        device: its device.
        trainable: whether tapes watch its reads.
    """

    container: Word
    name: Word
    value: ArrayHead | HandleHead
    device: Word
    trainable: bool


@final
class MakeResource(AbstractMessage, tag="resource", frozen=True):
    """Make a queue, an accumulator or a barrier, or join the one of that name.

    Attributes:
        container: its container, as for `MakeVariable`.
        name: its name in the container.
        kind: the kind (`eagerflow.resources.resources_at_tasks.ResourceRecipe`).
        types: the types of the parts of an element.
        device: its device.
        capacity: the capacity of a queue; 0 for any number of elements.
        least: of a shuffle queue, the number of elements that stay to choose from.
        seed: of a shuffle queue; null for another order each time.
    """

    container: Word
    name: Word
    kind: Word
    types: Annotated[tuple[TypeHead, ...], Meta(max_length=1_000)]
    device: Word
    capacity: Serial = 0
    least: Serial = 0
    seed: Serial | None = None


@final
class Fetch(AbstractMessage, tag="fetch", frozen=True):
    """Send a value that the task holds, or the types of an op's outputs.

    Attributes:
        handle: the handle of the value, or of the first output.
        stream: the stream whose first failure is the answer instead, and counts as reported then.
    """

    handle: Serial
    stream: Serial


@final
class Register(AbstractMessage, tag="register", frozen=True):
    """Keep a partition. Frames: the text of its graph, then the arrays that the text names.

    The partitions of all devices of a task are registered as one: a graph for each device, whose
    inputs and outputs follow each other in the order of the graphs.

    Attributes:
        partition: the number by which steps will name it.
        arrays: heads of the arrays, by their names in the text.
        resources: for each name in the text the container, and the name of the resource there.
        routes: for each edge the sending and the receiving device, each with its task.
        graphs: number of graphs; their texts are the first frames.
    """

    partition: Serial
    arrays: Arrays
    resources: Places
    routes: Annotated[dict[Word, tuple[Word, Word]], Meta(max_length=1_000_000)]
    graphs: Annotated[int, Meta(ge=1, le=1_000)] = 1


@final
class Release(AbstractMessage, tag="release", frozen=True):
    """Drop a partition."""

    partition: Serial


@final
class RunStep(AbstractMessage, tag="run", frozen=True):
    """Run a partition. Frames: the elements of the feeds.

    Attributes:
        step: its number (`step_number`).
        partition: the number of the partition.
        feeds: its inputs.
        keep: for each of its outputs the handle under which the task keeps it; 0 to have it sent.
            If empty, all are sent.
        stream: the stream whose first failure is the answer instead, and counts as reported then.
        free: handles to free before, as by `FreeHandles`.
    """

    step: Serial
    partition: Serial
    feeds: Feeds = ()
    keep: Handles = ()
    stream: Serial = 0
    free: Handles = ()


# --- eager ops, steps and sessions -------------------------------------------------------------


@final
class Eager(AbstractMessage, tag="eager", frozen=True):
    """Carry out actions in order. The answer is an error if an op has failed.

    Attributes:
        actions: the actions.
    """

    actions: Annotated[tuple[Action, ...], Meta(max_length=10_000)]


@final
class Abort(AbstractMessage, tag="abort", frozen=True):
    """End a step with an error."""

    step: Serial
    error: ErrorHead


@final
class Renew(AbstractMessage, tag="renew", frozen=True):
    """Renew the lease: the client is still there."""


@final
class TaskLoad(AbstractMessage, tag="load", frozen=True):
    """Report the load of the task."""


@final
class Look(AbstractMessage, tag="look", frozen=True):
    """Report what has run for this session since the last report.

    Attributes:
        on: whether to go on recording; if not, the records are dropped.
    """

    on: bool


@final
class Goodbye(AbstractMessage, tag="goodbye", frozen=True):
    """The client ends its session."""


# --- from a server to a client -----------------------------------------------------------------


@final
class Welcome(AbstractMessage, tag="welcome", frozen=True):
    """The answer to a `Hello`.

    Attributes:
        versions: the versions of the server.
        task: its name.
        incarnation: the incarnation of its process.
        devices: the names of its devices.
        lease: seconds without a message after which a session is over.
        allows: grants for ops beyond values and state, such as ``files``.
    """

    versions: Versions
    task: Word
    incarnation: Serial
    devices: Annotated[tuple[Word, ...], Meta(max_length=10_000)]
    lease: Annotated[float, Meta(gt=0, le=1e6)]
    allows: Annotated[tuple[Word, ...], Meta(max_length=10_000)] = ()


@final
class Done(AbstractMessage, tag="done", frozen=True):
    """Reports that a request is done. Frames: the elements of the results.

    Attributes:
        answers: the number of the request.
        results: heads of the results.
    """

    answers: Serial
    results: Heads = ()


@final
class Failed(AbstractMessage, tag="failed", frozen=True):
    """Reports that a request has failed, or was refused.

    Attributes:
        answers: the number of the request; 0 if the session itself is over.
        error: the reason.
    """

    answers: Serial
    error: ErrorHead


@final
class Printed(AbstractMessage, tag="printed", frozen=True):
    """Output of a function that was called for the client; it answers no request.

    Attributes:
        lines: the lines.
        left_out: number of further lines.
        own: whether the lines are the task's own, such as warnings, and not a function's.
    """

    lines: Annotated[tuple[Prose, ...], Meta(max_length=1_000)]
    left_out: Serial
    own: bool = False


# --- between tasks -----------------------------------------------------------------------------


@final
class KeyHead(AbstractRecord, tag="key", frozen=True):
    """The key of a value (`eagerflow.runtime.rendezvous.keys.Key`)."""

    step: Serial
    edge: Word
    loops: Loops = ()


@final
class ValueMessage(AbstractRecord, tag="value", frozen=True):
    """A value that is sent. Frames: its elements."""

    key: KeyHead
    value: Head
    dead: bool = False


@final
class ErrorMessage(AbstractRecord, tag="abort", frozen=True):
    """The error that aborts a step."""

    step: Serial
    error: ErrorHead


@final
class WantedMessage(AbstractRecord, tag="wanted", frozen=True):
    """The values that receivers wait for."""

    keys: Annotated[tuple[KeyHead, ...], Meta(max_length=10_000)]


@final
class PacketMessage(AbstractMessage, tag="packet", frozen=True):
    """A packet of a channel (`eagerflow.runtime.rendezvous.packets.Packet`), with its number there.

    Attributes:
        sender: the sending task.
        incarnation: the incarnation of the sender.
        receiver: the incarnation of the receiver.
        kind: the kind of packet.
        message: the message that the packet carries.
        nbytes: as in `Packet`.
        upto: as in `Packet`.
        early: as in `Packet`.
        limit: as in `Packet`.
        limit_bytes: as in `Packet`.
        urgent_upto: as in `Packet`.
    """

    sender: Word
    incarnation: Serial
    receiver: Serial
    kind: Literal["value", "urgent", "ack", "probe"]
    message: ValueMessage | ErrorMessage | WantedMessage | None
    nbytes: Serial
    upto: Serial
    early: Annotated[tuple[Serial, ...], Meta(max_length=10_000)]
    limit: Serial
    limit_bytes: Serial
    urgent_upto: Serial


# --- shared memory -----------------------------------------------------------------------------


@final
class SlabMessage(AbstractMessage, tag="slab", frozen=True):
    """Introduces a message with frames in a slab. Frames: its header and its other frames.

    Its own number is 0.

    Attributes:
        token: the token of the process that made the slab, hexadecimal.
        slab: the number of the slab in that process.
        size: bytes of the slab.
        places: for each long frame its index in the message, its offset in the slab, and its bytes.
            In the message the frame is empty.
        use: for a slab that stays, to be named by further messages, the number of this use, which
            rises; 0 for the slab of a single message.
    """

    token: Word
    slab: Serial
    size: Size
    places: Annotated[tuple[tuple[Serial, Size, Size], ...], Meta(max_length=100_000)]
    use: Serial = 0


# --- pieces of long frames ---------------------------------------------------------------------


@final
class PieceHead(AbstractRecord, tag="piece", frozen=True):
    """A piece of a long frame, ahead of its message. Frames: an empty one, this, the piece.

    Attributes:
        frame: the number of the frame in the sending process.
        size: bytes of the frame; 0 if no message is going to name it.
        start: where the piece begins.
    """

    frame: Serial
    size: Size
    start: Size


@final
class PiecedHead(AbstractRecord, tag="pieced", frozen=True):
    """Introduces a message with long frames. Frames: an empty one, this, its header and frames.

    Attributes:
        frames: for each long frame its index, from 1 on, since the header has 0, and its number.
            In the message the frame is empty.
    """

    frames: Annotated[tuple[tuple[Serial, Serial], ...], Meta(max_length=100_000)]


Request = (
    Hello
    | Peers
    | MakeVariable
    | MakeResource
    | Fetch
    | Register
    | Release
    | RunStep
    | Eager
    | Abort
    | Renew
    | TaskLoad
    | Look
    | Goodbye
)
Answer = Welcome | Done | Failed | Printed
AnyMessage = Request | Answer | PacketMessage | SlabMessage
