"""The messages of the protocol, each a record that msgspec checks as it reads it.

A message is a header, an array of MessagePack whose first item says which message it is, and raw
frames behind it: the elements of tensors, the text of a graph. Headers hold numbers and short texts
only, each with a limit, so no message makes a process take more memory than it sent bytes, times a
small factor. There is no field that names code.

The messages of one sender on one connection are numbered, 1, 2, 3, …; an answer names the number
of what it answers.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, final

from msgspec import Meta

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
    Word,
)

#: of the messages here; another one is refused when a connection begins
PROTOCOL: Final = 6
#: of the text form of graphs
GRAPH_TEXT: Final = 2

# --- from a client to a server -----------------------------------------------------------------


class AbstractMessage(AbstractRecord, frozen=True):
    """What has a number.

    Attributes:
        number: among the messages of its sender.
    """

    number: Serial


@final
class Versions(AbstractRecord, tag="versions", frozen=True):
    """What two processes must have in common, or be warned of.

    Attributes:
        protocol: of messages.
        graph_text: of graphs.
        byte_order: of elements, ``"little"`` or ``"big"``.
        eagerflow: the version.
        kernels: which kernel library is in force; the bits of results are defined by it.
        python: the version.
        numpy: the version.
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
        versions: of the client.
        session: a number that it has drawn for itself, the same at all servers.
        attempt: how often it has greeted this task so far; the later one counts.
        who: what it is, for messages to other clients.
    """

    versions: Versions
    session: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    attempt: Serial
    who: Word


@final
class Peers(AbstractMessage, tag="peers", frozen=True):
    """Who the other tasks are.

    Attributes:
        tasks: for each where it listens to tasks, the incarnation of its process, and its public
            key, which is empty where there are none.
    """

    tasks: Annotated[dict[Word, tuple[Word, Serial, Word]], Meta(max_length=10_000)]


@final
class MakeVariable(AbstractMessage, tag="make", frozen=True):
    """Make a variable, or join the one of that name. Frames: the elements of a value that comes.

    Attributes:
        container: where; ``default`` is that of the session, others are for all.
        name: its name there.
        value: its first value, or the handle of that.
        device: where it is.
        trainable: whether tapes watch its reads.
    """

    container: Word
    name: Word
    value: ArrayHead | HandleHead
    device: Word
    trainable: bool


@final
class Fetch(AbstractMessage, tag="fetch", frozen=True):
    """Send what is known of a value that the task holds.

    Attributes:
        handle: its number.
        stream: whose first failure counts before the value, and is told by the answer.
    """

    handle: Serial
    stream: Serial


@final
class Register(AbstractMessage, tag="register", frozen=True):
    """Keep a partition. Frames: the text of its graph, then the arrays that this names.

    A task with several devices gets what all of them do in a step as one: a graph for each, whose
    inputs and outputs follow each other in the order of the graphs.

    Attributes:
        partition: the number by which steps will name it.
        arrays: their names in the text, and what they are.
        resources: for each name in the text the container and the name there.
        routes: for each edge the device that sends and the one that receives, each with its task.
        graphs: how many there are; the texts are the first frames.
    """

    partition: Serial
    arrays: Arrays
    resources: Places
    routes: Annotated[dict[Word, tuple[Word, Word]], Meta(max_length=1_000_000)]
    graphs: Annotated[int, Meta(ge=1, le=1_000)] = 1


@final
class Release(AbstractMessage, tag="release", frozen=True):
    """Let go of a partition."""

    partition: Serial


@final
class RunStep(AbstractMessage, tag="run", frozen=True):
    """Run a partition. Frames: the elements of what is fed.

    Attributes:
        step: its number (`step_number`).
        partition: which one.
        feeds: its inputs.
        keep: for each of its outputs the number of the handle that it gets; 0 to have it sent. If
            there are none, all are sent.
        stream: whose first failure counts before the step, and is told by the answer.
        free: values to let go of before, as `FreeHandles` does.
    """

    step: Serial
    partition: Serial
    feeds: Feeds = ()
    keep: Handles = ()
    stream: Serial = 0
    free: Handles = ()


# --- eager ops, from a client to a server ------------------------------------------------------


@final
class DefineOp(AbstractRecord, tag="define", frozen=True):
    """Keep an op with its attributes. Frames: the text of a graph of one node, then its arrays.

    Attributes:
        template: the number by which it will be named.
        arrays: as of `Register`.
        resources: as of `Register`.
    """

    template: Serial
    arrays: Arrays
    resources: Places


@final
class IssueOp(AbstractRecord, tag="op", frozen=True):
    """Run an op.

    Attributes:
        template: which one.
        stream: to which it belongs: after a failure, nothing later of its stream is run until the
            client was told.
        inputs: the handles of what it takes.
        first: the handle of its first result; the others have the numbers behind it.
        count: how many results it has; 0 if that is not known. Then a `Fetch` tells.
    """

    template: Serial
    stream: Serial
    inputs: Handles
    first: Serial
    count: Annotated[int, Meta(ge=0, le=10_000)] = 1


@final
class PutValue(AbstractRecord, tag="put", frozen=True):
    """Hold a value. Frames: its elements.

    Attributes:
        handle: the number that it gets.
        value: the value.
        device: of the task, on which it is.
    """

    handle: Serial
    value: Head
    device: Word


@final
class FreeHandles(AbstractRecord, tag="free", frozen=True):
    """Let go of values."""

    handles: Handles


@final
class DropVariable(AbstractRecord, tag="drop", frozen=True):
    """Nobody uses a variable of the session any more, nor the ops that name it.

    Attributes:
        name: of the variable; empty if it is in a container that stays.
        templates: the ops.
    """

    name: Word
    templates: Handles


Action = DefineOp | IssueOp | PutValue | FreeHandles | DropVariable


@final
class Eager(AbstractMessage, tag="eager", frozen=True):
    """Do one thing after the other. The answer is an error if an op has failed.

    Attributes:
        actions: what to do.
    """

    actions: Annotated[tuple[Action, ...], Meta(max_length=10_000)]


# --- steps and sessions ------------------------------------------------------------------------


@final
class Abort(AbstractMessage, tag="abort", frozen=True):
    """End a step with an error."""

    step: Serial
    error: ErrorHead


@final
class Renew(AbstractMessage, tag="renew", frozen=True):
    """The client is still there."""


@final
class TaskLoad(AbstractMessage, tag="load", frozen=True):
    """Tell how busy the task is."""


@final
class Look(AbstractMessage, tag="look", frozen=True):
    """Tell what has run for this session since it was asked for before.

    Attributes:
        on: whether more is to be noted; what was not told yet is dropped if not.
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
        versions: of the server.
        task: its name.
        incarnation: of its process.
        devices: that it has.
        lease: after how many seconds without a message a session is over.
        allows: what ops may reach besides values and state, such as ``files``.
    """

    versions: Versions
    task: Word
    incarnation: Serial
    devices: Annotated[tuple[Word, ...], Meta(max_length=10_000)]
    lease: Annotated[float, Meta(gt=0, le=1e6)]
    allows: Annotated[tuple[Word, ...], Meta(max_length=10_000)] = ()


@final
class Done(AbstractMessage, tag="done", frozen=True):
    """What was asked for is done. Frames: the elements of the results of a step.

    Attributes:
        answers: the number of the message.
        results: of a step.
    """

    answers: Serial
    results: Heads = ()


@final
class Failed(AbstractMessage, tag="failed", frozen=True):
    """What was asked for has failed, or was refused.

    Attributes:
        answers: the number of the message; 0 if the session itself is over.
        error: why.
    """

    answers: Serial
    error: ErrorHead


@final
class Printed(AbstractMessage, tag="printed", frozen=True):
    """What a function that was called for the client has printed; it answers nothing.

    Attributes:
        lines: the lines.
        left_out: how many more there were.
        own: whether they are the task's own, such as warnings, and not of a function.
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
    """The error that a step is aborted with."""

    step: Serial
    error: ErrorHead


@final
class WantedMessage(AbstractRecord, tag="wanted", frozen=True):
    """The values that receivers wait for."""

    keys: Annotated[tuple[KeyHead, ...], Meta(max_length=10_000)]


@final
class PacketMessage(AbstractMessage, tag="packet", frozen=True):
    """A packet of a channel (`eagerflow.runtime.rendezvous.packets.Packet`); its number is there.

    Attributes:
        sender: the task.
        incarnation: of the sender.
        receiver: the incarnation that it is meant for.
        kind: of the packet.
        message: what it carries.
        nbytes: as there.
        upto: as there.
        early: as there.
        limit: as there.
        limit_bytes: as there.
        urgent_upto: as there.
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
    """Another message, whose long frames lie in a slab. Frames: its header and its other frames.

    Its own number is 0.

    Attributes:
        token: of the process that has made the slab, hexadecimal.
        slab: the number of the slab there.
        size: bytes of the slab.
        places: for each long frame which one it is, where it begins in the slab, and its bytes. In
            the message it is empty.
    """

    token: Word
    slab: Serial
    size: Size
    places: Annotated[tuple[tuple[Serial, Size, Size], ...], Meta(max_length=100_000)]


Request = (
    Hello
    | Peers
    | MakeVariable
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
